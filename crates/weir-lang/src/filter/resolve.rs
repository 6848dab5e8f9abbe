//! Resolves names to fields and constants to literals, and moves `not` into the predicates.
//!
//! `not (a and b)` becomes `not a or not b`. A negated predicate also holds if its field is absent, unlike
//! `!=` ([`Op::Ne`]). Equivalent spellings are normalised: `in` with one value is `==`, `flag == true` is
//! `flag`, `x & 4 == 4` is `x & 4`, and sets are sorted.

use super::ast::{Expr, FieldInfo, Literal, Op, Predicate};
use super::bpf;
use super::constant::{self, Site};
use super::domain::{Domain, symbol};
use super::frame_test::FrameTest;
use super::literal::{describe_word, parse_number};
use super::names::Names;
use super::report::{self, Report};
use super::tree::{Comparison, Constant, ConstantText, Element, Node, Test};
use crate::diag::Span;
use std::sync::Arc;
use weir_packet::ValueType;

/// The maximum end of a slice (exclusive).
pub(super) const SLICE_END_MAX: u32 = 65_535;

/// Resolves a tree; `None` after mistakes, all of which are reported.
pub(super) fn resolve(node: &Node, names: &Names, report: &mut Report) -> Option<Expr> {
    Resolver { names, report }.expr(node, false)
}

/// Joins parts under `and` or `or`, keeping the expression flat.
pub(super) fn join(is_or: bool, parts: Vec<Expr>) -> Expr {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match (is_or, part) {
            (true, Expr::Or(inner)) | (false, Expr::And(inner)) => flat.extend(inner),
            (_, part) => flat.push(part),
        }
    }
    match (flat.len(), is_or) {
        (1, _) => flat.remove(0),
        (_, true) => Expr::Or(flat),
        (_, false) => Expr::And(flat),
    }
}

struct Resolver<'a, 'r> {
    names: &'a Names<'a>,
    report: &'r mut Report,
}

impl Resolver<'_, '_> {
    fn expr(&mut self, node: &Node, negated: bool) -> Option<Expr> {
        match node {
            Node::Wrong => None,
            Node::Not(inner) => self.expr(inner, !negated),
            Node::Test(test) => self.test(test, negated).map(Expr::Predicate),
            Node::And(parts) | Node::Or(parts) => {
                // All parts are resolved, so that all mistakes are found.
                let parts: Vec<Option<Expr>> = parts.iter().map(|part| self.expr(part, negated)).collect();
                let is_or = matches!(node, Node::Or(_)) != negated;
                Some(join(is_or, parts.into_iter().collect::<Option<Vec<_>>>()?))
            }
        }
    }

    fn test(&mut self, test: &Test, negated: bool) -> Option<Predicate> {
        let index = self.field(test)?;
        let field = &self.names.fields[index];
        let slice = match &test.slice {
            Some((text, span)) => Some(self.slice(field, text, *span)?),
            None => None,
        };
        let mut predicate = Predicate {
            field: index,
            slice,
            mask: None,
            op: Op::Exists,
            literals: Vec::new(),
            negated,
            span: test.span,
        };
        let domain = Domain::of_predicate(field, &predicate);
        let mut subject = test.name.clone();
        if let Some((text, _)) = &test.slice {
            subject = format!("{subject}[{text}]");
        }
        let subject_span = test.slice.as_ref().map_or(test.name_span, |(_, span)| test.name_span.to(*span));
        if let Some(mask) = &test.mask {
            predicate.mask = Some(self.mask(&subject, domain, mask)?);
        }
        match &test.comparison {
            Some(comparison) => {
                let (op, masked) = (comparison.op, predicate.mask.is_some());
                let site = Site { subject: &subject, subject_span, domain, op, masked, names: self.names };
                self.compare(&mut predicate, field, comparison, &site)?;
            }
            None if predicate.mask.is_some() => predicate.op = Op::BitsAny,
            // A one-bit number alone is a flag: present and set.
            None if domain == Domain::Number(1) => {
                predicate.op = Op::Eq;
                predicate.literals = vec![Literal::Numbers(1, 1)];
            }
            None => {}
        }
        warn_truth(&predicate, domain, &subject, self.report);
        canonicalize(&mut predicate, field);
        Some(predicate)
    }

    /// The field of a test.
    fn field(&mut self, test: &Test) -> Option<usize> {
        let name = test.name.as_str();
        if let Some(index) = self.names.lookup(name) {
            return Some(index);
        }
        let looks = describe_word(name);
        if looks != "a word" {
            let other = test.comparison.as_ref().and_then(|comparison| {
                let ConstantText::Word(word) = &comparison.operand.first()?.low.value else { return None };
                Some(format!("{word} {} {name}", symbol(mirror(comparison.op))))
            });
            self.report
                .error(report::SIDES, test.name_span, format!("`{name}` is {looks}, not a field"))
                .help = Some(match other {
                Some(other) => format!("the field comes first: `{other}`"),
                None => "a condition begins with a field: `tcp.port == 443`".to_string(),
            });
            return None;
        }
        self.names.report_unknown(name, test.name_span, self.report);
        None
    }

    /// Offset and length of a slice.
    fn slice(&mut self, field: &FieldInfo, text: &str, span: Span) -> Option<(u32, u32)> {
        let size = match field.value_type {
            _ if field.is_protocol => None,
            ValueType::Mac => Some(6),
            ValueType::Ipv4 => Some(4),
            ValueType::Ipv6 => Some(16),
            ValueType::Bytes | ValueType::Text => None,
            _ => {
                let what = Domain::of_field(field).describe();
                self.report
                    .error(
                        report::SLICE,
                        span,
                        format!("`{}` is {what}: it has no bytes to slice", field.name),
                    )
                    .help = Some(match Domain::of_field(field) {
                    Domain::Number(_) => format!("take bits with a mask: `{} & 0xf0`", field.name),
                    _ => "slices are of bytes, text, MAC and IP addresses, and protocols".to_string(),
                });
                return None;
            }
        };
        let Some((offset, length)) = parse_slice(text, size) else {
            self.report.error(report::SLICE, span, "this is no slice").help =
                Some("a slice is `[offset:length]`, `[first-last]` or `[offset]`".to_string());
            return None;
        };
        let end = offset.saturating_add(length);
        if length == 0 || end > size.unwrap_or(SLICE_END_MAX) {
            let end_max = size.unwrap_or(SLICE_END_MAX);
            let message = match length {
                0 => "this slice has no bytes".to_string(),
                _ => format!("this slice ends at byte {end}, beyond the {end_max} there are"),
            };
            self.report.error(report::SLICE, span, message).help =
                Some("a slice is `[offset:length]`; the first byte is `[0]`".to_string());
            return None;
        }
        Some((offset, length))
    }

    fn mask(&mut self, subject: &str, domain: Domain, mask: &Constant) -> Option<u64> {
        let ConstantText::Word(word) = &mask.value else { return None };
        let Some(max) = domain.number_max() else {
            let what = domain.describe();
            self.report
                .error(
                    report::OPERATOR_TYPE,
                    mask.span,
                    format!("`{subject}` is {what}: `&` takes bits of numbers"),
                )
                .help = Some(
                "conditions are joined with `and`; bytes are cut with a slice: `eth.src[0]`".to_string(),
            );
            return None;
        };
        match parse_number(word) {
            Ok(number) if number <= max => Some(number),
            Ok(_) => {
                let message = format!("`{subject}` has {} bits, this mask more", max.count_ones());
                self.report.error(report::RANGE, mask.span, message).help =
                    Some(format!("its largest mask is {max:#x}"));
                None
            }
            Err(_) => {
                self.report.error(report::CONSTANT, mask.span, format!("`{word}` is no number")).help =
                    Some(format!("a mask is a number: `{subject} & 0x0f`"));
                None
            }
        }
    }

    fn compare(
        &mut self,
        predicate: &mut Predicate,
        field: &FieldInfo,
        comparison: &Comparison,
        site: &Site,
    ) -> Option<()> {
        if field.is_frame && comparison.op == Op::Satisfies && predicate.slice.is_none() {
            predicate.negated ^= comparison.negated;
            predicate.op = Op::Satisfies;
            predicate.literals = vec![Literal::Frame(self.frame_test(comparison)?)];
            return Some(());
        }
        if !site.domain.has(comparison.op)
            || (predicate.mask.is_some() && matches!(comparison.op, Op::Contains | Op::Matches))
        {
            self.report_operator(field, comparison, site);
            return None;
        }
        let literals: Vec<Option<Literal>> =
            comparison.operand.iter().map(|element| constant::literal(site, element, self.report)).collect();
        predicate.literals = literals.into_iter().collect::<Option<Vec<_>>>()?;
        predicate.op = comparison.op;
        predicate.negated ^= comparison.negated;
        if let ([literal], Op::Lt | Op::Le | Op::Gt | Op::Ge) = (&predicate.literals[..], comparison.op)
            && matches!(literal, Literal::Ipv4(..) | Literal::Ipv6(..))
        {
            // An ordering comparison of addresses becomes a range.
            let Some(range) = addresses(comparison.op, literal) else {
                let where_to = if comparison.op == Op::Lt { "below" } else { "above" };
                let message = format!("no address is {where_to} this");
                self.report.error(report::RANGE, comparison.operand_span, message);
                return None;
            };
            (predicate.op, predicate.literals) = (Op::In, vec![range]);
        }
        Some(())
    }

    /// The expression in the syntax of pcap-filter(7) that a frame satisfies.
    fn frame_test(&mut self, comparison: &Comparison) -> Option<Arc<FrameTest>> {
        let span = comparison.operand_span;
        let [Element { low: Constant { value, .. }, high: None }] = &comparison.operand[..] else {
            self.report.error(report::UNEXPECTED, span, "a range is no expression").help =
                Some("the expression is quoted: `frame satisfies \"tcp port 443\"`".to_string());
            return None;
        };
        let text = match value {
            ConstantText::Word(word) => word.clone(),
            ConstantText::Quoted(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        let mut inner = Report::default();
        let found = bpf::compile(&text, &mut inner);
        // The places in the quoted text, if it has no escapes.
        let is_literal = span.end - span.start == text.len() as u32 + 2;
        for mut diagnostic in inner.list {
            for (place, _) in &mut diagnostic.spans {
                *place = match is_literal {
                    true => {
                        Span { start: span.start + 1 + place.start, end: span.start + 1 + place.end, ..span }
                    }
                    false => span,
                };
            }
            self.report.list.push(diagnostic);
        }
        match found {
            Ok(Some(test)) => Some(Arc::new(test)),
            Ok(None) => {
                self.report.error(report::UNEXPECTED, span, "an empty expression").help =
                    Some("for instance `frame satisfies \"tcp port 443\"`".to_string());
                None
            }
            Err(()) => None,
        }
    }

    /// Reports an operator that the field's type does not support.
    fn report_operator(&mut self, field: &FieldInfo, comparison: &Comparison, site: &Site) {
        let (subject, op) = (site.subject, symbol(comparison.op));
        if site.domain == Domain::Protocol {
            let prefix = format!("{}.", field.name);
            let member = self.names.fields.iter().find(|other| other.name.starts_with(&prefix));
            let example = member.map(|member| format!(" or compare a field of it: `{}`;", member.name));
            let port = format!("{}.port", field.name);
            let number = match &comparison.operand[0].low.value {
                ConstantText::Word(word) => {
                    parse_number(word).ok().and(self.names.lookup(&port)).map(|_| word)
                }
                ConstantText::Quoted(_) => None,
            };
            let diagnostic = self.report.error(
                report::PROTOCOL,
                site.subject_span,
                format!("`{subject}` is a protocol, it has no value to compare"),
            );
            diagnostic.spans.push((comparison.op_span.to(comparison.operand_span), String::new()));
            diagnostic.help = Some(match number {
                Some(number) => format!("did you mean `{port} {op} {number}`?"),
                None => format!(
                    "use `{subject}` alone;{} `weir fields {subject}` lists all",
                    example.unwrap_or_default()
                ),
            });
            return;
        }
        let what = site.domain.describe();
        let help = match (comparison.op, site.domain) {
            (Op::Satisfies, _) => {
                "only the whole frame has it: `frame satisfies \"tcp port 443\"`".to_string()
            }
            (_, Domain::Fraction) => format!("test its presence: `{subject}`"),
            (Op::Contains | Op::Matches, _) => {
                format!("compare it: `{subject} == {}`", site.domain.example())
            }
            (_, Domain::Text) => {
                format!("it has `==`, `contains` and `matches`: `{subject} contains \"example\"`")
            }
            _ => format!("it has `==`, `!=` and `in`: `{subject} == {}`", site.domain.example()),
        };
        self.report
            .error(
                report::OPERATOR_TYPE,
                comparison.op_span,
                format!("`{subject}` is {what}: it has no `{op}`"),
            )
            .help = Some(help);
    }
}

/// `0:3`, `0-2`, `2`, `:3`, `2:` (if the size is known).
fn parse_slice(text: &str, size: Option<u32>) -> Option<(u32, u32)> {
    let number = |text: &str| parse_number(text).ok().and_then(|number| u32::try_from(number).ok());
    if let Some((offset, length)) = text.split_once(':') {
        let offset = if offset.is_empty() { 0 } else { number(offset)? };
        let length = if length.is_empty() { size?.checked_sub(offset)? } else { number(length)? };
        return Some((offset, length));
    }
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (number(first)?, number(last)?);
        return Some((first, last.checked_sub(first)?.checked_add(1)?));
    }
    Some((number(text)?, 1))
}

/// The operator for swapped operands.
pub(super) fn mirror(op: Op) -> Op {
    match op {
        Op::Lt => Op::Gt,
        Op::Le => Op::Ge,
        Op::Gt => Op::Lt,
        Op::Ge => Op::Le,
        other => other,
    }
}

/// Warns about a comparison with the same result for every number.
pub(super) fn warn_truth(predicate: &Predicate, domain: Domain, subject: &str, report: &mut Report) {
    let Some(found) = never_or_always(predicate, domain) else { return };
    let what = if found { "always holds if the field is present" } else { "never holds" };
    let subject = match predicate.mask {
        Some(mask) => format!("{subject} & {mask:#x}"),
        None => subject.to_string(),
    };
    let max = predicate.mask.or(domain.number_max()).unwrap_or(u64::MAX);
    report.warning(report::CONSTANT_TRUTH, predicate.span, format!("this comparison {what}")).help =
        Some(format!("`{subject}` is between 0 and {max}"));
}

/// Whether a comparison has the same result for every number.
fn never_or_always(predicate: &Predicate, domain: Domain) -> Option<bool> {
    let max = predicate.mask.or(domain.number_max())?;
    if predicate.op == Op::BitsAny {
        return (predicate.mask == Some(0)).then_some(false);
    }
    let [Literal::Numbers(number, end)] = predicate.literals[..] else { return None };
    match predicate.op {
        Op::Lt if number > max => Some(true),
        Op::Lt if number == 0 => Some(false),
        Op::Le if number >= max => Some(true),
        Op::Gt if number >= max => Some(false),
        Op::Ge if number > max => Some(false),
        Op::Ge if number == 0 => Some(true),
        Op::Eq if predicate.mask.is_some_and(|mask| number & !mask != 0) => Some(false),
        Op::Ne if predicate.mask.is_some_and(|mask| number & !mask != 0) => Some(true),
        Op::In if number == 0 && end >= max => Some(true),
        _ => None,
    }
}

/// Normalises equivalent predicates to one form.
pub(super) fn canonicalize(predicate: &mut Predicate, field: &FieldInfo) {
    if predicate.op == Op::In {
        merge(&mut predicate.literals);
        match predicate.literals[..] {
            [Literal::Ipv4Range(..) | Literal::Ipv6Range(..)] => {}
            [Literal::Numbers(low, high)] if low != high => {}
            [_] => predicate.op = Op::Eq,
            _ => {}
        }
    }
    let number = match predicate.literals[..] {
        [Literal::Numbers(low, high)] if low == high => Some(low),
        _ => None,
    };
    if let Some(mask) = predicate.mask {
        let any = match predicate.op {
            Op::BitsAny => true,
            Op::Ne => number == Some(0),
            Op::Eq => number == Some(mask) && mask.is_power_of_two(),
            _ => false,
        };
        if any {
            predicate.op = Op::BitsAny;
            predicate.mask = None;
            predicate.literals = vec![Literal::Numbers(mask, mask)];
        }
    } else if field.value_type == ValueType::Bool
        && !field.is_protocol
        && predicate.op == Op::Eq
        && number == Some(1)
    {
        predicate.op = Op::Exists;
        predicate.literals.clear();
    }
}

/// Sorts a set, joins overlapping numbers, and drops elements that another element contains.
fn merge(literals: &mut Vec<Literal>) {
    literals.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let mut merged: Vec<Literal> = Vec::with_capacity(literals.len());
    for literal in literals.drain(..) {
        match (merged.last_mut(), &literal) {
            (Some(Literal::Numbers(_, end)), Literal::Numbers(low, high)) if *low <= *end => {
                *end = (*end).max(*high);
            }
            (Some(last), _) if contains(last, &literal) => {}
            _ => merged.push(literal),
        }
    }
    *literals = merged;
}

/// Sorts by first value, then longest first, so that a container precedes its contents.
fn sort_key(literal: &Literal) -> (u8, u128, u128, &[u8]) {
    match literal {
        Literal::Numbers(low, high) => (0, u128::from(*low), u128::from(u64::MAX - high), &[]),
        Literal::Ipv4(..) | Literal::Ipv4Range(..) => {
            let (low, high) = bounds(literal);
            (1, low, u128::MAX - high, &[])
        }
        Literal::Ipv6(..) | Literal::Ipv6Range(..) => {
            let (low, high) = bounds(literal);
            (2, low, u128::MAX - high, &[])
        }
        Literal::Bytes(bytes) => (3, 0, 0, bytes),
        Literal::Text(text) => (4, 0, 0, text.as_bytes()),
        Literal::Frame(test) => (5, 0, 0, test.text.as_bytes()),
    }
}

/// The addresses below all addresses of a literal, or above them, in its family. `None` if there are none.
fn addresses(op: Op, literal: &Literal) -> Option<Literal> {
    let is_v4 = matches!(literal, Literal::Ipv4(..));
    let last = if is_v4 { u128::from(u32::MAX) } else { u128::MAX };
    let (low, high) = bounds(literal);
    let (from, to) = match op {
        Op::Lt => (0, low.checked_sub(1)?),
        Op::Le => (0, high),
        Op::Gt => (high.checked_add(1).filter(|from| *from <= last)?, last),
        _ => (low, last),
    };
    Some(match is_v4 {
        true => Literal::Ipv4Range((from as u32).into(), (to as u32).into()),
        false => Literal::Ipv6Range(from.into(), to.into()),
    })
}

/// The first and the last address.
fn bounds(literal: &Literal) -> (u128, u128) {
    match *literal {
        Literal::Ipv4(address, prefix) => {
            let low = u128::from(u32::from(address));
            (low, low + ((1u128 << (32 - prefix.min(32))) - 1))
        }
        Literal::Ipv4Range(low, high) => (u32::from(low).into(), u32::from(high).into()),
        Literal::Ipv6(address, prefix) => {
            let host_bits = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            (address.into(), u128::from(address) | host_bits)
        }
        Literal::Ipv6Range(low, high) => (low.into(), high.into()),
        _ => (0, 0),
    }
}

fn contains(outer: &Literal, inner: &Literal) -> bool {
    let family = |literal: &Literal| sort_key(literal).0;
    match (outer, inner) {
        _ if outer == inner => true,
        (Literal::Bytes(_) | Literal::Text(_) | Literal::Numbers(..) | Literal::Frame(_), _) => false,
        _ if family(outer) != family(inner) => false,
        _ => bounds(outer).0 <= bounds(inner).0 && bounds(inner).1 <= bounds(outer).1,
    }
}

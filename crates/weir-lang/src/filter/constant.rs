//! Converts constants of the syntax tree to literals of the field's type, and reports their mistakes.

use super::ast::{Literal, Op};
use super::domain::{Domain, symbol};
use super::literal::{self, Fault};
use super::names::Names;
use super::report::{self, Report};
use super::tree::{Constant, ConstantText, Element};
use crate::diag::Span;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_packet::ValueType;

/// The context of a constant, for messages.
pub(super) struct Site<'a> {
    /// The left side as written (`tcp.port`, `eth.src[0:3]`).
    pub subject: &'a str,
    pub subject_span: Span,
    pub domain: Domain,
    pub op: Op,
    /// The comparison is masked.
    pub masked: bool,
    pub names: &'a Names<'a>,
}

/// The literal for `element`; `None` after a reported mistake.
pub(super) fn literal(site: &Site, element: &Element, report: &mut Report) -> Option<Literal> {
    match split_range(site, element) {
        (low, None) => single(site, &low, report),
        (low, Some(high)) => range(site, &low, &high, element.span(), report),
    }
}

/// The ends of `8000..8080`, also written `8000-8080` if the type's constants never contain `-`.
fn split_range(site: &Site, element: &Element) -> (Constant, Option<Constant>) {
    let (None, ConstantText::Word(word)) = (&element.high, &element.low.value) else {
        return (element.low.clone(), element.high.clone());
    };
    let dashes = site.domain.has_ranges() && !matches!(site.domain, Domain::Time | Domain::Slice(_));
    let Some((low, high)) = word.split_once('-').filter(|(low, high)| !low.is_empty() && !high.is_empty())
    else {
        return (element.low.clone(), None);
    };
    // Only if both ends have the type: `1-a` is better reported as one word.
    if !dashes || value(site.domain, low).is_err() || value(site.domain, high).is_err() {
        return (element.low.clone(), None);
    }
    let span = element.low.span;
    let middle = span.start + low.len() as u32;
    let part = |text: &str, start: u32, end: u32| Constant {
        value: ConstantText::Word(text.to_string()),
        span: Span { start, end, ..span },
    };
    (part(low, span.start, middle), Some(part(high, middle + 1, span.end)))
}

fn single(site: &Site, constant: &Constant, report: &mut Report) -> Option<Literal> {
    if site.op == Op::Matches {
        return pattern(site, constant, report);
    }
    // A part of bytes is bytes, for any type.
    let domain = match site.domain {
        Domain::Mac | Domain::Slice(_) if site.op == Op::Contains => Domain::Bytes,
        domain => domain,
    };
    let found = match &constant.value {
        ConstantText::Word(word) => value(domain, word),
        ConstantText::Quoted(text) => quoted_value(domain, text),
    };
    let literal = match found {
        Ok(literal) => literal,
        Err(fault) => {
            report_fault(site, constant, fault, report);
            return None;
        }
    };
    if let (Some(max), Literal::Numbers(number, _)) = (site.domain.number_max(), &literal)
        && *number > max
        && matches!(site.op, Op::Eq | Op::Ne | Op::In)
    {
        report_too_large(site, constant.span, &number.to_string(), max, report);
        return None;
    }
    if let (Domain::Slice(length), ConstantText::Word(word)) = (site.domain, &constant.value) {
        warn_decimal(site, constant.span, (word, length), report);
    }
    if let Domain::Slice(length) = site.domain
        && let Literal::Bytes(bytes) = literal
    {
        return slice_literal(site, constant, length, bytes, report);
    }
    Some(without_host_bits(literal, constant.span, report))
}

/// Warns about a decimal number that may be meant as bytes: one with as many digits as the slice.
fn warn_decimal(site: &Site, span: Span, (word, length): (&str, u32), report: &mut Report) {
    let is_decimal = word.bytes().all(|byte| byte.is_ascii_digit());
    let equals = matches!(site.op, Op::Eq | Op::Ne | Op::In);
    if site.masked || !equals || !is_decimal || word.len() != 2 * length as usize || length > 8 {
        return;
    }
    if word.parse::<u64>().ok() == u64::from_str_radix(word, 16).ok() {
        return;
    }
    let pairs: Vec<&str> = (0..length as usize).map(|at| &word[2 * at..2 * at + 2]).collect();
    let bytes = if length == 1 { format!("0x{word}") } else { pairs.join(":") };
    let message = format!("`{word}` is read as a decimal number");
    report.warning(report::DECIMAL, span, message).help =
        Some(format!("if these are bytes, write `{bytes}`"));
}

fn report_too_large(site: &Site, span: Span, number: &str, max: u64, report: &mut Report) {
    let bits = max.count_ones();
    let subject = site.subject;
    let bits = if bits == 1 { "one bit".to_string() } else { format!("{bits} bits") };
    report.error(report::RANGE, span, format!("`{subject}` has {bits}, it is never {number}")).help =
        Some(format!("its largest value is {max}"));
}

/// The bytes compared with a slice; a number if the slice is short.
fn slice_literal(
    site: &Site,
    constant: &Constant,
    length: u32,
    bytes: Vec<u8>,
    report: &mut Report,
) -> Option<Literal> {
    let contains = site.op == Op::Contains;
    if (contains && bytes.len() > length as usize) || (!contains && bytes.len() != length as usize) {
        let have = bytes.len();
        report
            .error(
                report::SLICE,
                constant.span,
                format!("the slice has {length} bytes, this constant {have}"),
            )
            .help = Some("both must have the same length".to_string());
        return None;
    }
    if contains || length > 8 {
        return Some(Literal::Bytes(bytes));
    }
    let number = bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Some(Literal::Numbers(number, number))
}

/// The literal for a word.
fn value(domain: Domain, word: &str) -> Result<Literal, Fault> {
    let number = |number| Literal::Numbers(number, number);
    let v4 = |(address, prefix)| Literal::Ipv4(address, prefix);
    let v6 = |(address, prefix)| Literal::Ipv6(address, prefix);
    match domain {
        Domain::Number(1) | Domain::Bool => literal::parse_bool(word).map(number),
        Domain::Number(_) => literal::parse_number(word).map(number),
        Domain::Time => literal::parse_time(word).map(number),
        Domain::Interval => literal::parse_interval(word).map(number),
        Domain::Ipv4 => literal::parse_ipv4(word).map(v4),
        Domain::Ipv6 => literal::parse_ipv6(word).map(v6),
        Domain::Address if word.contains(':') => literal::parse_ipv6(word).map(v6),
        Domain::Address => literal::parse_ipv4(word).map(v4),
        Domain::Mac => literal::parse_mac(word).map(Literal::Bytes),
        Domain::Bytes => literal::parse_bytes(word).map(Literal::Bytes),
        Domain::Slice(length) => match literal::parse_number(word) {
            Ok(found) if length <= 8 => Ok(number(found)),
            _ => literal::parse_bytes(word).map(Literal::Bytes),
        },
        Domain::Text | Domain::Fraction | Domain::Protocol => Err(Fault::Type),
    }
}

/// The literal for a quoted text.
fn quoted_value(domain: Domain, text: &[u8]) -> Result<Literal, Fault> {
    match domain {
        Domain::Bytes | Domain::Slice(_) => Ok(Literal::Bytes(text.to_vec())),
        Domain::Text => match String::from_utf8(text.to_vec()) {
            Ok(text) => Ok(Literal::Text(text)),
            Err(_) => Err(Fault::Malformed(
                "this is no UTF-8".to_string(),
                "escapes above `\\x7f` stand for bytes; write the character itself".to_string(),
            )),
        },
        Domain::Time => {
            let time = literal::parse_time(&String::from_utf8_lossy(text))?;
            Ok(Literal::Numbers(time, time))
        }
        _ => Err(Fault::Type),
    }
}

/// A regular expression, checked to compile.
fn pattern(site: &Site, constant: &Constant, report: &mut Report) -> Option<Literal> {
    let text = match &constant.value {
        ConstantText::Word(_) => {
            report_fault(site, constant, Fault::Type, report);
            return None;
        }
        ConstantText::Quoted(text) => String::from_utf8_lossy(text).into_owned(),
    };
    match super::check_regex(&text) {
        Ok(_) => Some(Literal::Text(text)),
        Err(error) => {
            // The last line is the reason; the lines before draw the pattern, which the diagnostic underlines
            // itself.
            let reason = error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
            report
                .error(report::REGEX, constant.span, format!("this regular expression is wrong: {reason}"))
                .help =
                Some("the syntax is that of the Rust crate `regex`; `contains` takes plain text".to_string());
            None
        }
    }
}

fn range(site: &Site, low: &Constant, high: &Constant, span: Span, report: &mut Report) -> Option<Literal> {
    let subject = site.subject;
    if site.op != Op::In {
        let op = symbol(site.op);
        report
            .error(report::UNEXPECTED, span, format!("`{op}` compares with one value, not with a range"))
            .help = Some(format!("write `{subject} in {{{}..{}}}`", show(low), show(high)));
        return None;
    }
    if !site.domain.has_ranges() {
        let what = site.domain.describe();
        report
            .error(report::OPERATOR_TYPE, span, format!("`{subject}` is {what}: there are no ranges of it"))
            .help = Some(format!("list the values: `{subject} in {{{}}}`", site.domain.example()));
        return None;
    }
    let (a, b) = (single(site, low, report), single(site, high, report));
    let ordered = match (a?, b?) {
        (Literal::Numbers(a, _), Literal::Numbers(b, _)) => (a <= b).then_some(Literal::Numbers(a, b)),
        (Literal::Ipv4(a, 32), Literal::Ipv4(b, 32)) => (a <= b).then_some(Literal::Ipv4Range(a, b)),
        (Literal::Ipv6(a, 128), Literal::Ipv6(b, 128)) => (a <= b).then_some(Literal::Ipv6Range(a, b)),
        _ => {
            report.error(report::TYPE, span, "the ends of a range are two addresses of one kind").help =
                Some("a prefix is a range by itself: `10.0.0.0/8`".to_string());
            return None;
        }
    };
    if ordered.is_none() {
        report.error(report::REVERSED, span, "this range ends below its start").help =
            Some(format!("write `{}..{}`", show(high), show(low)));
    }
    ordered
}

/// Clears the bits of an address beyond its prefix; warns if any were set.
pub(super) fn without_host_bits(literal: Literal, span: Span, report: &mut Report) -> Literal {
    let (clean, shown) = match literal {
        Literal::Ipv4(address, prefix) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            let network = Ipv4Addr::from(u32::from(address) & mask);
            (Literal::Ipv4(network, prefix), format!("{network}/{prefix}"))
        }
        Literal::Ipv6(address, prefix) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let network = Ipv6Addr::from(u128::from(address) & mask);
            (Literal::Ipv6(network, prefix), format!("{network}/{prefix}"))
        }
        other => return other,
    };
    if clean != literal {
        report
            .warning(report::HOST_BITS, span, "this address has bits beyond its prefix, which are ignored")
            .help = Some(format!("write `{shown}`, or the address without a prefix"));
    }
    clean
}

fn show(constant: &Constant) -> String {
    match &constant.value {
        ConstantText::Word(word) => word.clone(),
        ConstantText::Quoted(text) => format!("\"{}\"", String::from_utf8_lossy(text).escape_debug()),
    }
}

fn report_fault(site: &Site, constant: &Constant, fault: Fault, report: &mut Report) {
    match fault {
        Fault::Malformed(message, help) => {
            report.error(report::CONSTANT, constant.span, message).help = Some(help);
        }
        Fault::Range(message) => {
            let help = match site.domain.number_max() {
                Some(max) => format!("`{}` is at most {max}", site.subject),
                None => {
                    format!("for instance `{} {} {}`", site.subject, symbol(site.op), site.domain.example())
                }
            };
            report.error(report::RANGE, constant.span, message).help = Some(help);
        }
        Fault::Type => report_type(site, constant, report),
    }
}

/// Reports a constant whose type differs from the field's type.
fn report_type(site: &Site, constant: &Constant, report: &mut Report) {
    let (subject, op, domain) = (site.subject, symbol(site.op), site.domain);
    let shown = show(constant);
    let (word, looks) = match &constant.value {
        ConstantText::Word(word) => (Some(word.as_str()), literal::describe_word(word)),
        ConstantText::Quoted(_) => (None, "text"),
    };
    let field = word.filter(|word| looks == "a word" && site.names.lookup(word).is_some());
    if let Some(field) = field
        && (domain != Domain::Text || field.contains('.'))
    {
        report
            .error(
                report::SIDES,
                constant.span,
                format!("`{field}` is a field: two fields cannot be compared"),
            )
            .help = Some(format!("compare with a constant: `{subject} {op} {}`", domain.example()));
        return;
    }
    if domain == Domain::Text && looks != "a number" {
        report.error(report::UNQUOTED, constant.span, format!("`{shown}` is not quoted")).help =
            Some(format!("text is quoted: `{subject} {op} \"{shown}\"`"));
        return;
    }
    let help = match (domain, looks) {
        (Domain::Text, _) => {
            let quoted = format!("text is quoted: `{subject} {op} \"{shown}\"`");
            // A single number is usually a port.
            match word.and_then(|word| word.parse::<u16>().ok()).and(site.names.lookup("tcp.dstport")) {
                Some(_) if site.op == Op::Eq => format!("did you mean `tcp.dstport == {shown}`? {quoted}"),
                _ => quoted,
            }
        }
        (_, "text") => match unquoted(domain, constant) {
            Some(inner) => format!("only text is quoted: `{subject} {op} {inner}`"),
            None => match name_field(site) {
                Some(names) => format!("names are in another field: `{names} {op} {shown}`"),
                None => format!("for instance `{subject} {op} {}`", domain.example()),
            },
        },
        _ => match other_family(site, looks) {
            Some(other) if site.op == Op::In => format!("did you mean `{other}`?"),
            Some(other) => format!("did you mean `{other} {op} {shown}`?"),
            None => format!("for instance `{subject} {op} {}`", domain.example()),
        },
    };
    let message = format!("`{subject}` is {}, `{shown}` is {looks}", domain.describe());
    let diagnostic = report.error(report::TYPE, site.subject_span, message);
    diagnostic.spans.push((constant.span, String::new()));
    diagnostic.help = Some(help);
}

/// The field with the names of a field's numbers: `dns.rcode_name` of `dns.rcode`.
fn name_field(site: &Site) -> Option<String> {
    let field = site.names.lookup(site.subject).map(|index| &site.names.fields[index])?;
    let all = std::iter::once(&field.name).chain(&field.aliases);
    let mut candidates = all.map(|name| format!("{name}_name"));
    candidates.find(|name| {
        let found = site.names.lookup(name).map(|index| &site.names.fields[index]);
        found.is_some_and(|found| matches!(found.value_type, ValueType::Text | ValueType::Texts))
    })
}

/// The text between the quotes, if it is valid without them.
fn unquoted(domain: Domain, constant: &Constant) -> Option<String> {
    let ConstantText::Quoted(text) = &constant.value else { return None };
    let text = String::from_utf8(text.clone()).ok()?;
    value(domain, &text).is_ok().then_some(text)
}

/// `ipv6.addr` for an IPv6 address compared with `ip.addr`, and vice versa.
fn other_family<'a>(site: &Site<'a>, looks: &str) -> Option<&'a str> {
    let wanted = match looks {
        "an IPv6 address" | "an IPv6 prefix" if site.domain == Domain::Ipv4 => Domain::Ipv6,
        "an IPv4 address" | "an IPv4 prefix" if site.domain == Domain::Ipv6 => Domain::Ipv4,
        _ => return None,
    };
    let (_, last) = site.subject.rsplit_once('.')?;
    site.names
        .fields
        .iter()
        .find(|field| {
            Domain::of_field(field) == wanted && field.name.rsplit_once('.').is_some_and(|f| f.1 == last)
        })
        .map(|field| field.name.as_str())
}

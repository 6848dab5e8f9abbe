//! Resolves names and operators of an expression: from the syntax tree to the model.

use super::codes;
use super::range::{Range, mirrored, opposite};
use super::scope::{BelowUse, Kind, Scope, Symbol};
use crate::diag::{Diagnostic, Span};
use crate::model::{BinaryOp, Expr, FieldId, Side};
use crate::syntax::ast;
use std::rc::Rc;

/// The place of an expression, which determines the names that it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A condition in the header: earlier fields.
    Header,
    /// A length in the header: earlier fields; should not become negative.
    Length,
    /// A derived value, a key, an edge, `show`: the packet's headers and lengths, and the layers below.
    Packet,
    /// The payload's length: like `Packet`, without `payload.length`.
    Payload,
    /// Statements, sequence, events: also variables.
    Instance,
    /// Statements for gaps, which also run at the end of an instance, without a packet: what the instance
    /// holds.
    Gap,
    /// A transition: also `ordered.`.
    Transition,
}

impl Place {
    fn is_header(self) -> bool {
        matches!(self, Place::Header | Place::Length)
    }

    fn has_vars(self) -> bool {
        matches!(self, Place::Instance | Place::Gap | Place::Transition)
    }

    /// Whether there is no packet.
    fn lacks_packet(self) -> bool {
        self == Place::Gap
    }
}

/// A resolved expression.
pub(super) struct Value {
    pub(super) expr: Expr,
    pub(super) kind: Kind,
    pub(super) range: Range,
}

impl Value {
    fn number(expr: Expr, range: Range) -> Value {
        Value { expr, kind: Kind::Number, range }
    }

    /// The value after a reported mistake.
    fn unknown() -> Value {
        Value { expr: Expr::Number(0), kind: Kind::Unknown, range: Range::ANY }
    }
}

/// Resolves the expressions of one protocol at one place.
pub(super) struct Resolver<'a> {
    pub(super) scope: &'a mut Scope,
    pub(super) place: Place,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
}

impl Resolver<'_> {
    /// A value of any kind. Addresses and bytes cannot be operands.
    pub(super) fn value(&mut self, expr: &ast::Expr) -> Value {
        match &expr.kind {
            ast::ExprKind::Name(name) => self.name(name, expr.span, false),
            _ => self.number(expr),
        }
    }

    /// A condition; warns if the condition always or never holds.
    pub(super) fn condition(&mut self, expr: &ast::Expr) -> Value {
        let value = self.number(expr);
        let literal = matches!(expr.kind, ast::ExprKind::Number(_));
        if !literal && (value.range.is_always() || value.range.is_never()) {
            let how = if value.range.is_always() { "always" } else { "never" };
            self.diagnostics.push(
                Diagnostic::warning(codes::CONSTANT_CONDITION, format!("this {how} holds")).at(expr.span),
            );
        }
        value
    }

    /// A number, for arithmetic.
    pub(super) fn number(&mut self, expr: &ast::Expr) -> Value {
        match &expr.kind {
            ast::ExprKind::Number(number) => Value::number(Expr::Number(*number), Range::one(*number)),
            ast::ExprKind::Name(name) => {
                let value = self.name(name, expr.span, true);
                if value.kind.is_operand() {
                    return value;
                }
                let what = value.kind.describe();
                self.diagnostics.push(
                    Diagnostic::error(codes::TYPE, format!("`{name}` is {what}, a number is needed"))
                        .at(expr.span)
                        .help(
                            "addresses of up to 64 bits count as numbers; longer ones can only stand alone",
                        ),
                );
                Value::unknown()
            }
            ast::ExprKind::Not(inner) => {
                let inner = self.number(inner);
                Value::number(Expr::Not(Box::new(inner.expr)), inner.range.not())
            }
            ast::ExprKind::Binary(op, left, right) => self.binary(*op, left, right, expr.span),
            ast::ExprKind::In(inner, ranges) => self.set(inner, ranges),
            ast::ExprKind::Choose(condition, then, otherwise) => self.choose(condition, then, otherwise),
            ast::ExprKind::Call(name, args) => self.call(name, args, expr.span),
            ast::ExprKind::Lookup(name, inner) => self.lookup(name, inner),
        }
    }

    fn call(&mut self, name: &ast::Name, args: &[ast::Expr], span: Span) -> Value {
        if name.text == "sum16" && !self.scope.constants.has_function("sum16") {
            return self.sum16(args, span);
        }
        if name.text == "items_fit" && !self.scope.constants.has_function("items_fit") {
            return self.items_fit(args, span);
        }
        match self.scope.constants.call(name, args, span) {
            Ok(body) => self.number(&body),
            Err(wrong) => {
                self.diagnostics.push(wrong);
                Value::unknown()
            }
        }
    }

    /// `sum16(offset, length, number)`
    fn sum16(&mut self, args: &[ast::Expr], span: Span) -> Value {
        let [offset, length, first] = args else {
            let message = format!("`sum16` is a function of 3 values, {} given", args.len());
            let diagnostic = Diagnostic::error(codes::BAD_EXPRESSION, message).at(span);
            self.diagnostics.push(diagnostic.help("write `sum16(offset, length, number)`"));
            return Value::unknown();
        };
        if let Some(wrong) = self.not_over_bytes("sum16", span) {
            return wrong;
        }
        let args = [offset, length, first].map(|expr| self.number(expr).expr);
        Value::number(Expr::Sum16(Box::new(args)), Range::of_bits(16))
    }

    /// `items_fit(offset, length)`
    fn items_fit(&mut self, args: &[ast::Expr], span: Span) -> Value {
        let [offset, length] = args else {
            let message = format!("`items_fit` is a function of 2 values, {} given", args.len());
            let diagnostic = Diagnostic::error(codes::BAD_EXPRESSION, message).at(span);
            self.diagnostics.push(diagnostic.help("write `items_fit(offset, length)`"));
            return Value::unknown();
        };
        if let Some(wrong) = self.not_over_bytes("items_fit", span) {
            return wrong;
        }
        let args = [offset, length].map(|expr| self.number(expr).expr);
        Value::number(Expr::ItemsFit(Box::new(args)), Range::TRUTH)
    }

    /// The mistake if a function over a packet's bytes stands where the bytes are not known.
    fn not_over_bytes(&mut self, name: &str, span: Span) -> Option<Value> {
        if self.place.lacks_packet() {
            return Some(self.no_packet(name, span));
        }
        let help = "lengths and conditions of a header can only use earlier fields";
        self.place.is_header().then(|| self.not_here(name, "only known after the header", help, span))
    }

    fn lookup(&mut self, name: &ast::Name, inner: &ast::Expr) -> Value {
        let inner = self.number(inner);
        let constants = Rc::clone(&self.scope.constants);
        let table = match constants.table(name) {
            Ok(table) => table,
            Err(wrong) => {
                self.diagnostics.push(wrong);
                return Value::unknown();
            }
        };
        let rows = table.rows.len().max(1);
        if size_of(&inner.expr) * rows > LOOKUP_NODES_MAX {
            let message =
                format!("more than {LOOKUP_NODES_MAX} operators after substitution of `{}`", name.text);
            self.diagnostics.push(
                Diagnostic::error(codes::TOO_MUCH, message)
                    .at(name.span)
                    .help("name the looked-up value: `let part = …`"),
            );
            return Value::unknown();
        }
        let last = table.otherwise.unwrap_or(0);
        let all = Value::number(Expr::Number(last), Range::one(last));
        table.rows.iter().rev().fold(all, |others, (numbers, value)| {
            let ranges = numbers.iter().map(|&(low, high, _)| (low, high)).collect();
            let here = Expr::In(Box::new(inner.expr.clone()), ranges);
            let row = Expr::Choose(Box::new(here), Box::new(Expr::Number(*value)), Box::new(others.expr));
            Value::number(row, others.range.join(Range::one(*value)))
        })
    }

    /// The fields of an alias.
    fn fields_of(&self, expr: &ast::Expr) -> Option<Vec<Value>> {
        if self.place.lacks_packet() {
            return None;
        }
        let ast::ExprKind::Name(name) = &expr.kind else { return None };
        let fields = self.scope.aliases.get(name)?.iter().map(|id| self.field(*id));
        let fields: Vec<Value> = fields.collect();
        fields.iter().all(|field| field.kind.is_operand()).then_some(fields)
    }

    fn field(&self, id: FieldId) -> Value {
        let at = usize::from(id.0);
        Value { expr: Expr::Field(id), kind: self.scope.kinds[at], range: self.scope.ranges[at] }
    }

    fn binary(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr, span: Span) -> Value {
        if let Some(fields) = self.fields_of(left).filter(|_| op.is_comparison()) {
            let right = self.number(right);
            let compare = |field: Value| {
                let range = Range::binary(op, field.range, right.range);
                Value::number(Expr::Binary(op, Box::new(field.expr), Box::new(right.expr.clone())), range)
            };
            // As in filters: `==` holds for any field, `!=` for all.
            let join = if op == BinaryOp::Ne { BinaryOp::LogicalAnd } else { BinaryOp::LogicalOr };
            return joined(join, fields.into_iter().map(compare));
        }
        let a = self.number(left);
        // `length >= 2 and length - 2 < 9`: the right side is evaluated only if the left side holds.
        let b = match op {
            BinaryOp::LogicalAnd => self.assuming(&a.expr, true, |resolver| resolver.number(right)),
            BinaryOp::LogicalOr => self.assuming(&a.expr, false, |resolver| resolver.number(right)),
            _ => self.number(right),
        };
        let is_open = [&a, &b].into_iter().any(|value| is_open(&value.expr, self.scope.cursor));
        let known = a.kind != Kind::Unknown && b.kind != Kind::Unknown && !is_open;
        // A constraint compares a field with a number. Nothing is known about a payload minus another field.
        let is_fixed = self.place == Place::Payload && b.range.low == b.range.high;
        let is_length = self.place == Place::Length || is_fixed;
        if op == BinaryOp::Sub && is_length && known && a.range.low < b.range.high {
            let diagnostic = Diagnostic::warning(
                codes::NEGATIVE_LENGTH,
                "this length can be negative, and then counts as 0",
            )
            .label(span, format!("from {} - {}", a.range.low, b.range.high));
            let remedy = self.remedy(&a.expr, b.range.high);
            self.diagnostics.push(diagnostic.help(remedy));
        }
        let range = Range::binary(op, a.range, b.range);
        Value::number(Expr::Binary(op, Box::new(a.expr), Box::new(b.expr)), range)
    }

    /// The remedy that makes `left - at_most` safe.
    fn remedy(&self, left: &Expr, at_most: u64) -> String {
        let scaled = match left {
            Expr::Field(id) => Some((*id, 1)),
            Expr::Binary(BinaryOp::Mul, field, factor) => match (&**field, &**factor) {
                (Expr::Field(id), Expr::Number(factor @ 1..)) => Some((*id, *factor)),
                _ => None,
            },
            _ => None,
        };
        match scaled {
            Some((id, factor)) => {
                let least = at_most.div_ceil(factor);
                let high = self.scope.ranges[usize::from(id.0)].high;
                if least <= high {
                    let name = self.scope.name_of(id);
                    return format!(
                        "a constraint on `{name}` rejects malformed packets: `where >= {least}`; an `if` \
                         around the use is sufficient, too"
                    );
                }
                format!("`{}` is never that large", self.scope.name_of(id))
            }
            None => "a constraint such as `where >= 5` on a field, or an `if`, makes it safe".to_string(),
        }
    }

    fn set(&mut self, inner: &ast::Expr, ranges: &[(u64, u64, Span)]) -> Value {
        let values = self.fields_of(inner).unwrap_or_else(|| vec![self.number(inner)]);
        // The value is any of several fields: join their ranges.
        let whole = values.iter().map(|value| value.range).reduce(Range::join).unwrap_or(Range::ANY);
        for &(low, high, span) in ranges {
            let meets = Range { low: low.min(high), high }.meet(whole).is_some();
            if low <= high && !meets {
                self.diagnostics.push(
                    Diagnostic::warning(codes::CONSTANT_CONDITION, "the value can never be this")
                        .at(span)
                        .label(inner.span, format!("{} to {}", whole.low, whole.high)),
                );
            }
        }
        let list: Vec<(u64, u64)> = ranges.iter().map(|&(low, high, _)| (low, high)).collect();
        let is_in = |value: Value| Value::number(Expr::In(Box::new(value.expr), list.clone()), Range::TRUTH);
        joined(BinaryOp::LogicalOr, values.into_iter().map(is_in))
    }

    fn choose(&mut self, condition: &ast::Expr, then: &ast::Expr, otherwise: &ast::Expr) -> Value {
        let condition = self.condition(condition);
        let a = self.assuming(&condition.expr, true, |resolver| resolver.number(then));
        let b = self.assuming(&condition.expr, false, |resolver| resolver.number(otherwise));
        let expr = Expr::Choose(Box::new(condition.expr), Box::new(a.expr), Box::new(b.expr));
        Value::number(expr, a.range.join(b.range))
    }

    /// Runs `then` with the fields' ranges narrowed by `condition`.
    pub(super) fn assuming<T>(
        &mut self,
        condition: &Expr,
        holds: bool,
        then: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mut known = Vec::new();
        gather(condition, holds, &mut known);
        let mut before = Vec::new();
        for (id, op, number) in known {
            let range = &mut self.scope.ranges[usize::from(id.0)];
            if let Some(narrowed) = range.fulfilling(op, number) {
                before.push((id, *range));
                *range = narrowed;
            }
        }
        let result = then(self);
        for (id, range) in before.into_iter().rev() {
            self.scope.ranges[usize::from(id.0)] = range;
        }
        result
    }

    // Names.

    fn name(&mut self, name: &str, span: Span, number: bool) -> Value {
        match name {
            "payload.length" | "rest.length" | "layer.length" | "header.length" | "packet.time"
                if self.place.lacks_packet() =>
            {
                return self.no_packet(name, span);
            }
            "payload.length" => return self.payload_length(span),
            "rest.length" | "layer.length" => {
                self.scope.rest_length.get_or_insert(span);
                if name == "layer.length" {
                    // Known before the header.
                    return Value::number(Expr::LayerLength, Range::of_bits(32));
                }
                return self.length(name, Expr::RestLength, span);
            }
            "header.length" => return self.length(name, Expr::HeaderLength, span),
            "packet.time" => return Value::number(Expr::Time, Range::ANY),
            "originator" | "responder" => return self.direction(name, span),
            "cursor" => return self.cursor(span),
            "strict" if self.scope.find(name).is_none() => return Value::number(Expr::Strict, Range::TRUTH),
            "unwanted" if self.place.has_vars() && self.scope.find(name).is_none() => {
                return Value::number(Expr::Unwanted, Range::TRUTH);
            }
            _ => {}
        }
        match name.split_once('.') {
            Some(("below", _)) if self.place.lacks_packet() => self.no_packet(name, span),
            Some(("below", inner)) => {
                self.scope.below.push(BelowUse { name: inner.to_string(), span, number, shown: false });
                Value { expr: Expr::Below(inner.to_string()), kind: Kind::Unknown, range: Range::ANY }
            }
            Some((side @ ("me" | "peer"), inner)) => self.side(side, inner, span),
            Some(("ordered", inner)) => self.ordered(inner, span),
            Some(("state", inner)) => self.state(inner, span),
            _ => self.symbol(name, span),
        }
    }

    fn symbol(&mut self, name: &str, span: Span) -> Value {
        match self.scope.find(name) {
            Some(Symbol::Field(_) | Symbol::Presence(_) | Symbol::Let(_) | Symbol::Alias)
                if self.place.lacks_packet() =>
            {
                self.no_packet(name, span)
            }
            Some(Symbol::Var(id)) if self.place.lacks_packet() && self.scope.packet_vars.contains(&id) => {
                self.no_packet(name, span)
            }
            Some(Symbol::Field(id)) => self.field(id),
            Some(Symbol::Presence(id)) => Value::number(Expr::Present(id), Range::TRUTH),
            Some(Symbol::Let(id)) => {
                let range = self.scope.let_ranges.get(usize::from(id.0)).copied().unwrap_or(Range::ANY);
                Value::number(Expr::Let(id), range)
            }
            Some(Symbol::Var(id)) if self.place.has_vars() => {
                Value::number(Expr::Var(id, Side::Both), Range::ANY)
            }
            Some(Symbol::Var(_)) => self.not_here(
                name,
                "a variable",
                "only statements, sequences, transitions and events can use an instance",
                span,
            ),
            Some(Symbol::Group) => self.not_here(name, "a group", "name one of its fields", span),
            Some(Symbol::Alias) => self.not_here(
                name,
                "a name for several fields",
                "compare it or use `in`; otherwise name one of its fields",
                span,
            ),
            None => self.unknown_name(name, span),
        }
    }

    fn unknown_name(&mut self, name: &str, span: Span) -> Value {
        if let Some(&declared) = self.scope.later.get(name) {
            self.diagnostics.push(
                Diagnostic::error(
                    codes::TOO_EARLY,
                    format!("`{name}` is read later than this place of the header"),
                )
                .at(span)
                .label(declared, "declared here")
                .help("lengths and conditions of a header can only use earlier fields"),
            );
            return Value::unknown();
        }
        let diagnostic =
            Diagnostic::error(codes::UNKNOWN_NAME, format!("`{}` has no `{name}`", self.scope.protocol))
                .at(span);
        let diagnostic = if self.scope.sides.contains_key(name) {
            diagnostic.help(format!("each side has one: write `me.{name}` or `peer.{name}`"))
        } else {
            diagnostic.did_you_mean(name, self.scope.candidates().iter().map(String::as_str))
        };
        self.diagnostics.push(diagnostic);
        Value::unknown()
    }

    fn side(&mut self, side: &str, inner: &str, span: Span) -> Value {
        let name = format!("{side}.{inner}");
        if !self.place.has_vars() {
            return self.not_here(
                &name,
                "a variable",
                "only statements, sequences, transitions and events can use an instance",
                span,
            );
        }
        let Some(&id) = self.scope.sides.get(inner) else {
            let names: Vec<String> = self.scope.sides.keys().map(|var| format!("{side}.{var}")).collect();
            let diagnostic =
                Diagnostic::error(codes::UNKNOWN_NAME, format!("`each side` has no `{inner}`")).at(span);
            self.diagnostics.push(diagnostic.did_you_mean(&name, names.iter().map(String::as_str)));
            return Value::unknown();
        };
        let side = if side == "me" { Side::Me } else { Side::Peer };
        Value::number(Expr::Var(id, side), Range::ANY)
    }

    fn cursor(&mut self, span: Span) -> Value {
        if self.place.is_header() {
            return Value::number(Expr::Cursor, self.scope.cursor.map_or(Range::of_bits(16), Range::one));
        }
        self.not_here("cursor", "a place in the header", "after the header it is `header.length`", span)
    }

    fn state(&mut self, inner: &str, span: Span) -> Value {
        let name = format!("state.{inner}");
        if !self.place.has_vars() {
            return self.not_here(
                &name,
                "the state of an instance",
                "only statements, sequences, transitions and events can use an instance",
                span,
            );
        }
        if let Some(state) = self.scope.states.iter().position(|state| state == inner) {
            return Value::number(Expr::InState(state), Range::TRUTH);
        }
        let known: Vec<String> = self.scope.states.iter().map(|state| format!("state.{state}")).collect();
        let message = format!("there is no state `{inner}`");
        let diagnostic = Diagnostic::error(codes::UNKNOWN_STATE, message).at(span);
        self.diagnostics.push(
            diagnostic
                .help("declare it in `states { … }`")
                .did_you_mean(&name, known.iter().map(String::as_str)),
        );
        Value::unknown()
    }

    fn ordered(&mut self, inner: &str, span: Span) -> Value {
        let name = format!("ordered.{inner}");
        if self.place != Place::Transition {
            return self.not_here(
                &name,
                "a value of a packet in order",
                "`ordered.` is allowed in conditions of transitions",
                span,
            );
        }
        if !self.scope.has_sequence {
            return self.missing(&name, "sequence at … of payload", span);
        }
        match self.scope.find(inner) {
            Some(Symbol::Field(id)) => {
                let at = usize::from(id.0);
                let kind = self.scope.kinds[at];
                if !kind.is_operand() {
                    let help =
                        "only numbers and addresses of up to 64 bits are stored until a packet is in order";
                    return self.not_here(&name, kind.describe(), help, span);
                }
                Value { expr: Expr::Ordered(id), kind, range: self.scope.ranges[at] }
            }
            Some(_) => {
                self.not_here(&name, "no field", "only fields are stored until a packet is in order", span)
            }
            None => self.unknown_name(inner, span),
        }
    }

    fn payload_length(&mut self, span: Span) -> Value {
        if self.place == Place::Payload {
            return self.not_here(
                "payload.length",
                "the value that is being defined",
                "`rest.length` is the number of bytes left in the enclosing layer",
                span,
            );
        }
        if !self.place.is_header() && !self.scope.has_payload {
            return self.missing("payload.length", "payload = rest", span);
        }
        self.length("payload.length", Expr::PayloadLength, span)
    }

    fn length(&mut self, name: &str, expr: Expr, span: Span) -> Value {
        if self.place.is_header() {
            return self.not_here(
                name,
                "only known after the header",
                "lengths and conditions of a header can only use earlier fields",
                span,
            );
        }
        // Captures and reassembled datagrams are far below 4 GiB.
        Value::number(expr, Range::of_bits(32))
    }

    fn direction(&mut self, name: &str, span: Span) -> Value {
        if !self.place.has_vars() {
            return self.not_here(
                name,
                "a direction",
                "only statements, sequences, transitions and events can use an instance",
                span,
            );
        }
        if !self.scope.two_sided {
            return self.missing(name, "instance (…) <-> (…)", span);
        }
        let originator = Expr::Originator;
        let expr = if name == "originator" { originator } else { Expr::Not(Box::new(originator)) };
        Value::number(expr, Range::TRUTH)
    }

    fn no_packet(&mut self, name: &str, span: Span) -> Value {
        let help =
            "gaps are also found at the end of an instance, without a packet: keep the value in a variable";
        self.not_here(name, "a value of a packet", help, span)
    }

    fn not_here(&mut self, name: &str, what: &str, help: &str, span: Span) -> Value {
        self.diagnostics.push(
            Diagnostic::error(codes::NOT_HERE, format!("`{name}` can't be used here: it is {what}"))
                .at(span)
                .help(help),
        );
        Value::unknown()
    }

    fn missing(&mut self, name: &str, clause: &str, span: Span) -> Value {
        self.diagnostics.push(
            Diagnostic::error(codes::MISSING_CLAUSE, format!("`{name}` needs a clause that is missing"))
                .at(span)
                .help(format!("add `{clause}`")),
        );
        Value::unknown()
    }
}

/// Maximum number of operators in a table lookup: each row repeats the looked-up expression.
pub(crate) const LOOKUP_NODES_MAX: usize = 4_096;

/// The direct subexpressions of an expression.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Not(a) | Expr::In(a, _) => vec![a],
        Expr::Binary(_, a, b) => vec![a, b],
        Expr::Sum16(args) => args.iter().collect(),
        Expr::ItemsFit(args) => args.iter().collect(),
        Expr::Choose(a, b, c) => vec![a, b, c],
        _ => vec![],
    }
}

/// The number of operators and names of an expression.
fn size_of(expr: &Expr) -> usize {
    1 + parts(expr).into_iter().map(size_of).sum::<usize>()
}

/// Whether the expression depends on the packet's length, which no constraint can bound.
fn is_open(expr: &Expr, cursor: Option<u64>) -> bool {
    match expr {
        Expr::Cursor => cursor.is_none(),
        Expr::HeaderLength | Expr::RestLength | Expr::LayerLength | Expr::Time => true,
        _ => parts(expr).into_iter().any(|part| is_open(part, cursor)),
    }
}

/// Collects the constraints `field OP number` that a condition implies for single fields.
fn gather(condition: &Expr, holds: bool, known: &mut Vec<(FieldId, BinaryOp, u64)>) {
    match condition {
        Expr::Not(inner) => gather(inner, !holds, known),
        Expr::Binary(BinaryOp::LogicalAnd, a, b) if holds => {
            gather(a, true, known);
            gather(b, true, known);
        }
        Expr::Binary(BinaryOp::LogicalOr, a, b) if !holds => {
            gather(a, false, known);
            gather(b, false, known);
        }
        Expr::Binary(op, a, b) => {
            let Some(op) = (if holds { Some(*op) } else { opposite(*op) }) else { return };
            match (&**a, &**b) {
                (Expr::Field(id), Expr::Number(number)) => known.push((*id, op, *number)),
                (Expr::Number(number), Expr::Field(id)) => known.push((*id, mirrored(op), *number)),
                _ => {}
            }
        }
        Expr::Field(id) => known.push((*id, if holds { BinaryOp::Ne } else { BinaryOp::Eq }, 0)),
        _ => {}
    }
}

/// Joins the values with an operator.
fn joined(op: BinaryOp, parts: impl Iterator<Item = Value>) -> Value {
    let join = |all: Value, part: Value| {
        let range = Range::binary(op, all.range, part.range);
        Value::number(Expr::Binary(op, Box::new(all.expr), Box::new(part.expr)), range)
    };
    // Empty if an alias refers to no existing field, which was reported.
    parts.reduce(join).unwrap_or_else(Value::unknown)
}

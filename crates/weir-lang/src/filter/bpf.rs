//! Filters in the syntax of pcap-filter(7), over Weir's field names.
//!
//! ```text
//! filter     = [ chain ]
//! chain      = unary { ( "and" | "&&" | "or" | "||" ) unary }       (equal precedence, from the left)
//! unary      = ( "not" | "!" ) unary | "(" chain ")" | primitive
//! primitive  = qualifiers ( value | "(" chain of values ")" ) | value        (inherits the last qualifiers)
//!            | protocol | [ "ether" | "ip" | "ip6" ] ( "broadcast" | "multicast" )
//!            | "vlan" [ number ] | "mpls" [ number ] | "less" number | "greater" number
//!            | relation                                                      (see `relation`)
//! qualifiers = [ protocol ] [ direction ] [ "host" | "net" | "port" | "portrange" | "proto" ]
//! direction  = "src" | "dst" | "src or dst" | "src and dst"
//! ```
//!
//! `values` translates qualified values into predicates on fields, `relation` parses `tcp[13] & 2 != 0`, and
//! `words` holds the tables of names. The result is the same [`Expr`] as for display filters.

mod relation;
mod values;
mod words;

use super::ast::{Expr, Op};
use super::lexer::{Kind, Token, bpf_keyword, lex};
use super::names::Names;
use super::parse::NESTING_MAX;
use super::report::{self, Report};
use super::resolve::join;
use crate::diag::Span;
use values::{Builder, Direction, Qualifiers};

/// Maximum nesting depth inside a primitive.
const PRIMITIVE_DEPTH: usize = 4;

/// An expression and its nesting depth: later stages recurse to this depth.
type Nested = (Expr, usize);

/// Parses and resolves a filter; `None` after mistakes, all of which are reported.
pub(super) fn parse(text: &str, names: &Names, report: &mut Report) -> Option<Expr> {
    let mut tokens = lex(text, bpf_keyword, report);
    // These characters also occur in words (`10.0.0.0/8`, `tcp-syn`); alone they are arithmetic operators.
    for token in tokens.iter_mut().filter(|token| token.kind == Kind::Word) {
        match &text[token.span.start as usize..token.span.end as usize] {
            "-" => token.kind = Kind::Symbol('-'),
            "/" => token.kind = Kind::Symbol('/'),
            _ => {}
        }
    }
    if let [Token { kind: Kind::End, .. }] = tokens[..] {
        return Some(Expr::True);
    }
    let mut parser =
        Parser { text, tokens, at: 0, open: 0, depth: 0, last: Qualifiers::default(), names, report };
    let nested = parser.chain();
    debug_assert_eq!(parser.peek(), &Kind::End);
    nested.map(|(expr, _)| expr)
}

struct Parser<'a, 'r> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    open: usize,
    depth: usize,
    /// The qualifiers of the last value. A following bare value inherits them.
    last: Qualifiers,
    names: &'a Names<'a>,
    report: &'r mut Report,
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn kind_at(&self, ahead: usize) -> &Kind {
        self.tokens.get(self.at + ahead).map_or(&Kind::End, |token| &token.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The text of the token at `ahead`, if that is a word.
    fn word_at(&self, ahead: usize) -> Option<&'a str> {
        let token = self.tokens.get(self.at + ahead).filter(|token| token.kind == Kind::Word)?;
        Some(&self.text[token.span.start as usize..token.span.end as usize])
    }

    fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn accept_word(&mut self, word: &str) -> Option<Span> {
        (self.word_at(0) == Some(word)).then(|| self.advance())
    }

    fn builder(&mut self, span: Span) -> Builder<'_> {
        Builder { names: self.names, report: self.report, span }
    }

    /// Primitives joined by `and` and `or`.
    fn chain(&mut self) -> Option<Nested> {
        let mut left = self.unary();
        loop {
            let is_or = match self.peek() {
                Kind::End => return left,
                Kind::RightParen if self.open > 0 => return left,
                Kind::RightParen => {
                    let span = self.advance();
                    self.report.error(report::UNBALANCED, span, "unmatched `)`").help =
                        Some("remove it, or open it with `(`".to_string());
                    left = None;
                    continue;
                }
                Kind::And | Kind::Or => *self.peek() == Kind::Or,
                _ => {
                    let span = self.span();
                    self.report
                        .error(report::UNEXPECTED, span, "`and` or `or` is missing before this")
                        .help = Some("join two primitives with `and` or `or`".to_string());
                    self.recover(0);
                    left = None;
                    continue;
                }
            };
            let span = self.advance();
            let right = self.unary();
            left = self.join(is_or, left, right, span);
        }
    }

    fn join(
        &mut self,
        is_or: bool,
        left: Option<Nested>,
        right: Option<Nested>,
        span: Span,
    ) -> Option<Nested> {
        let ((left, left_depth), (right, right_depth)) = (left?, right?);
        // Associates to the left: `a and b or c and d` nests three deep.
        let flat = matches!((is_or, &left), (true, Expr::Or(_)) | (false, Expr::And(_)));
        let depth = left_depth.max(right_depth + 1) + usize::from(!flat);
        if depth > NESTING_MAX - PRIMITIVE_DEPTH {
            self.report.error(report::LIMIT, span, "`and` and `or` alternate too often").help =
                Some("they have equal precedence, from the left: group them with parentheses".to_string());
            return None;
        }
        let expr = match (is_or, left, right) {
            // In place: a long chain is not copied for every added part.
            (true, Expr::Or(mut parts), right) | (false, Expr::And(mut parts), right) => {
                match (is_or, right) {
                    (true, Expr::Or(more)) | (false, Expr::And(more)) => parts.extend(more),
                    (_, right) => parts.push(right),
                }
                if is_or { Expr::Or(parts) } else { Expr::And(parts) }
            }
            (_, left, right) => join(is_or, vec![left, right]),
        };
        Some((expr, depth))
    }

    fn unary(&mut self) -> Option<Nested> {
        let group = self.peek() == &Kind::LeftParen && !self.is_arithmetic();
        if self.peek() != &Kind::Not && !group {
            return self.primitive();
        }
        if self.depth == NESTING_MAX / 2 {
            let span = self.span();
            self.report
                .error(report::LIMIT, span, format!("more than {} levels of `(` and `not`", NESTING_MAX / 2))
                .help = Some("remove needless parentheses".to_string());
            self.at = self.tokens.len() - 1;
            return None;
        }
        self.depth += 1;
        let nested = if group {
            self.group()
        } else {
            self.advance();
            self.unary().map(|(expr, depth)| (negate(expr), depth))
        };
        self.depth -= 1;
        nested
    }

    fn group(&mut self) -> Option<Nested> {
        let start = self.advance();
        self.open += 1;
        let nested = self.chain();
        self.open -= 1;
        if self.peek() == &Kind::RightParen {
            self.advance();
        } else if !self.report.list.iter().any(|diagnostic| diagnostic.code == report::LIMIT) {
            self.report.error(report::UNBALANCED, start, "this `(` is not closed").help =
                Some("close it with `)`".to_string());
        }
        nested
    }

    /// Whether the parenthesis here groups numbers: `(tcp[13] & 2) != 0`.
    fn is_arithmetic(&self) -> bool {
        let mut open = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.kind {
                Kind::LeftParen => open += 1,
                Kind::RightParen => open -= 1,
                // Boolean operators end the search, which also bounds its length.
                Kind::And | Kind::Or | Kind::Not => return false,
                _ => {}
            }
            if open == 0 {
                return self.tokens.get(index + 1).is_some_and(|next| relation::continues(&next.kind));
            }
        }
        false
    }

    fn primitive(&mut self) -> Option<Nested> {
        let start = self.span();
        let found = match self.qualified_group() {
            Some(nested) => nested,
            None => self.try_primitive().map(|expr| (expr, PRIMITIVE_DEPTH)),
        };
        if found.is_none() {
            debug_assert!(self.report.has_errors(), "{:?} at {start:?}", self.text);
            self.recover(0);
        }
        found
    }

    /// `port (80 or 443)`: values inherit the qualifiers before the parenthesis. `None` if this is no such
    /// group.
    fn qualified_group(&mut self) -> Option<Option<Nested>> {
        let start = self.at;
        match self.qualifiers() {
            Some((qualifiers, _)) if self.peek() == &Kind::LeftParen && !qualifiers.is_protocol() => {
                self.last = qualifiers;
                Some(self.unary())
            }
            _ => {
                self.at = start;
                None
            }
        }
    }

    fn try_primitive(&mut self) -> Option<Expr> {
        let Some(word) = self.word_at(0) else {
            if self.peek() == &Kind::LeftParen {
                return self.relation();
            }
            if self.kind_at(1) == &Kind::Word && self.peek() == &Kind::Symbol('\\') {
                return self.qualified();
            }
            self.missing("a primitive");
            return None;
        };
        if matches!(self.kind_at(1), Kind::LeftBracket) || relation::continues(self.kind_at(1)) {
            return self.relation();
        }
        match word {
            "less" | "greater" => {
                let start = self.advance();
                let (number, end) = self.number()?;
                let op = if word == "less" { Op::Le } else { Op::Ge };
                self.builder(start.to(end)).length(op, number)
            }
            "vlan" | "mpls" => {
                let start = self.advance();
                let numbered =
                    self.word_at(0).is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
                if !numbered {
                    return self.builder(start).exists(word);
                }
                let (number, end) = self.number()?;
                let field = if word == "vlan" { "vlan.id" } else { "mpls.label" };
                self.builder(start.to(end)).number(field, number)
            }
            _ if words::UNSUPPORTED.contains(&word) => {
                let span = self.advance();
                self.report.error(report::BPF_UNSUPPORTED, span, format!("unknown word `{word}`")).help =
                    Some("`weir fields` lists all fields".to_string());
                None
            }
            _ => self.qualified(),
        }
    }

    /// Qualifiers and a value, a value with inherited qualifiers, or a protocol alone.
    fn qualified(&mut self) -> Option<Expr> {
        let start = self.span();
        let (mut qualifiers, end) = self.qualifiers().unwrap_or((Qualifiers::default(), start));
        for word in ["broadcast", "multicast"] {
            if let Some(end) = self.accept_word(word) {
                return self.builder(start.to(end)).cast(word, qualifiers);
            }
        }
        let written = qualifiers != Qualifiers::default();
        let value_next = matches!(self.peek(), Kind::Word | Kind::Symbol('\\'));
        match qualifiers {
            Qualifiers { protocol: Some(protocol), .. } if qualifiers.is_protocol() => {
                return self.builder(start.to(end)).protocol(protocol);
            }
            _ if written && !value_next => {
                self.missing("a value");
                return None;
            }
            _ if written => self.last = qualifiers,
            _ => qualifiers = self.last,
        }
        self.value(qualifiers, start)
    }

    /// The qualifiers before a value, and the span of the last one; `None` without qualifiers.
    fn qualifiers(&mut self) -> Option<(Qualifiers, Span)> {
        let start = self.at;
        let mut qualifiers =
            Qualifiers { protocol: self.word_at(0).and_then(words::protocol), ..Default::default() };
        if qualifiers.protocol.is_some() {
            self.advance();
        }
        qualifiers.direction = self.direction();
        qualifiers.kind = self.word_at(0).and_then(words::value_kind);
        if qualifiers.kind.is_some() {
            self.advance();
        }
        (self.at > start).then(|| (qualifiers, self.tokens[self.at - 1].span))
    }

    fn direction(&mut self) -> Option<Direction> {
        let (first, other) = match self.word_at(0)? {
            "src" => (Direction::Source, "dst"),
            "dst" => (Direction::Destination, "src"),
            _ => return None,
        };
        self.advance();
        if self.word_at(1) != Some(other) {
            return Some(first);
        }
        let joined = match self.peek() {
            Kind::Or => Direction::Either,
            Kind::And => Direction::Both,
            _ => return Some(first),
        };
        self.advance();
        self.advance();
        Some(joined)
    }

    fn value(&mut self, qualifiers: Qualifiers, start: Span) -> Option<Expr> {
        // A backslash marks a name that is not a keyword: `ip proto \tcp`.
        let escaped = self.peek() == &Kind::Symbol('\\');
        if escaped {
            self.advance();
        }
        let Some(word) = self.word_at(0) else {
            self.missing("a value");
            return None;
        };
        let span = self.advance();
        let mut end = span;
        let mut value = word.to_string();
        if qualifiers.kind == Some(values::ValueKind::Net) && self.accept_word("mask").is_some() {
            let Some(mask) = self.word_at(0) else {
                self.missing("a netmask");
                return None;
            };
            end = self.advance();
            let Some(prefix) = words::netmask(mask) else {
                self.report.error(report::CONSTANT, end, format!("`{mask}` is no netmask")).help =
                    Some("a netmask is like `255.255.0.0`: ones, then zeros".to_string());
                return None;
            };
            value = format!("{value}/{prefix}");
        }
        self.builder(start.to(end)).value(qualifiers, &value, span)
    }

    fn relation(&mut self) -> Option<Expr> {
        let (start, first) = (self.span(), self.at);
        let Some((access, op, number)) = relation::parse(self) else {
            let consumed = self.tokens[first..self.at].iter();
            let open = consumed.fold(0usize, |open, token| match token.kind {
                Kind::LeftParen => open + 1,
                Kind::RightParen => open.saturating_sub(1),
                _ => open,
            });
            self.recover(open);
            return None;
        };
        let end = self.tokens[self.at.saturating_sub(1)].span;
        self.builder(start.to(end)).relation(access, op, number)
    }

    fn number(&mut self) -> Option<(u64, Span)> {
        let Some(word) = self.word_at(0) else {
            self.missing("a number");
            return None;
        };
        let span = self.advance();
        match words::number(word) {
            Some(number) => Some((number, span)),
            None => {
                self.report.error(report::CONSTANT, span, format!("`{word}` is no number")).help =
                    Some("numbers are decimal, or hexadecimal after `0x`".to_string());
                None
            }
        }
    }

    fn missing(&mut self, wanted: &str) {
        let span = self.span();
        let place = if self.peek() == &Kind::End { "is missing at the end" } else { "was expected here" };
        self.report.error(report::UNEXPECTED, span, format!("{wanted} {place}")).help = Some(match wanted {
            "a value" => "qualifiers come before a value: `src host 192.0.2.1`, `tcp port 443`".to_string(),
            _ => "for instance `tcp port 443 and host 192.0.2.1`".to_string(),
        });
    }

    /// Skips to the next `and`, `or`, closing parenthesis, or the end, after closing `open` parentheses.
    fn recover(&mut self, mut open: usize) {
        loop {
            match self.peek() {
                Kind::End => return,
                Kind::And | Kind::Or if open == 0 => return,
                Kind::LeftParen => open += 1,
                Kind::RightParen if open == 0 => return,
                Kind::RightParen => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }
}

/// The negation, with `not` only inside predicates.
fn negate(expr: Expr) -> Expr {
    match expr {
        // An empty group is a syntax error, and an empty filter cannot be negated.
        Expr::True => Expr::True,
        Expr::Predicate(mut predicate) => {
            predicate.negated = !predicate.negated;
            Expr::Predicate(predicate)
        }
        Expr::And(parts) => join(true, parts.into_iter().map(negate).collect()),
        Expr::Or(parts) => join(false, parts.into_iter().map(negate).collect()),
    }
}

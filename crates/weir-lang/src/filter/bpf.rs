//! Filters in the syntax of pcap-filter(7), with libpcap's meaning: fixed offsets for each link type.
//!
//! ```text
//! filter     = [ chain ]
//! chain      = unary { ( "and" | "&&" | "or" | "||" ) unary }       (equal precedence, from the left)
//! unary      = ( "not" | "!" ) unary | "(" chain ")" | primitive
//! primitive  = qualifiers ( value | "(" chain of values ")" ) | value        (inherits the last qualifiers)
//!            | protocol | [ "ether" | "ip" | "ip6" ] ( "broadcast" | "multicast" ) | "inbound" | "outbound"
//!            | ( "vlan" | "mpls" | "pppoes" | "geneve" ) [ number ] | "pppoed" | "ifindex" number
//!            | "llc" [ "i" | "s" | "u" ] | "less" number | "greater" number
//!            | relation                                                      (see `relation`)
//! qualifiers = [ protocol ] [ direction ] [ "host" | "net" | "port" | "portrange" | "proto" | "protochain" ]
//! direction  = "src" | "dst" | "src or dst" | "src and dst"
//! ```
//!
//! `parse` returns a syntax tree (`tree`), whose values `values` converts to numbers and addresses;
//! `relation` parses `tcp[13] & 2 != 0`, and `words` holds the tables of names. `generate` makes a
//! [`FrameTest`] of the tree, for each link type (`link`).

mod generate;
mod link;
mod relation;
mod tree;
mod values;
mod wlan;
mod words;

use super::frame_test::FrameTest;
use super::lexer::{Kind, Token, bpf_keyword, lex, span};
use super::parse::NESTING_MAX;
use super::report::{self, Report};
use crate::diag::Span;
use tree::{Direction, LlcKind, Node, Primitive, join};
use values::{Builder, Qualifiers};

/// Maximum nesting depth inside a primitive.
const PRIMITIVE_DEPTH: usize = 4;

/// A node and its nesting depth: later stages recurse to this depth.
type Nested = (Node, usize);

/// The test of an expression, `Ok(None)` for an empty one.
///
/// # Errors
/// After mistakes, all of which are reported.
pub(super) fn compile(text: &str, report: &mut Report) -> Result<Option<FrameTest>, ()> {
    let mut tokens = lex(text, bpf_keyword, report);
    tokens = split_signs(text, tokens);
    if let [Token { kind: Kind::End, .. }] = tokens[..] {
        return Ok(None);
    }
    let mut parser = Parser { text, tokens, at: 0, open: 0, depth: 0, last: Qualifiers::default(), report };
    let nested = parser.chain();
    debug_assert_eq!(parser.peek(), &Kind::End);
    let (node, _) = nested.filter(|_| !report.has_errors()).ok_or(())?;
    generate::frame_test(text, &node, report).map(Some).ok_or(())
}

/// Splits the operators of arithmetic off words. `-` and `/` also occur in words (`10.0.0.0/8`, `tcp-syn`):
/// they are operators at the beginning of a word, and `/` after a number. Inside brackets `:` stands before
/// the number of bytes.
fn split_signs(text: &str, tokens: Vec<Token>) -> Vec<Token> {
    let mut split: Vec<Token> = Vec::with_capacity(tokens.len());
    let (mut brackets, mut is_net) = (0usize, false);
    for token in tokens {
        match token.kind {
            Kind::LeftBracket => brackets += 1,
            Kind::RightBracket => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        let (mut at, end) = (token.span.start as usize, token.span.end as usize);
        let after_net = std::mem::replace(&mut is_net, &text[at..end] == "net");
        if token.kind != Kind::Word {
            split.push(token);
            continue;
        }
        while at < end {
            let rest = &text[at..end];
            let is_sign = |(index, sign): (usize, char)| match sign {
                ':' => brackets > 0,
                '-' => index == 0,
                '/' => !after_net && (index == 0 || words::number(&rest[..index]).is_some()),
                _ => false,
            };
            let word_end = rest.char_indices().find(|&at| is_sign(at)).map_or(end, |(index, _)| at + index);
            if word_end > at {
                split.push(Token { kind: Kind::Word, span: span(at, word_end) });
            }
            at = word_end;
            if let Some(sign) = text[at..end].chars().next() {
                at += sign.len_utf8();
                split.push(Token { kind: Kind::Symbol(sign), span: span(word_end, at) });
            }
        }
    }
    split
}

struct Parser<'a, 'r> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    open: usize,
    depth: usize,
    /// The qualifiers of the last value. A following bare value inherits them.
    last: Qualifiers,
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
        Builder { report: self.report, span }
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
        let flat = matches!((is_or, &left), (true, Node::Or(_)) | (false, Node::And(_)));
        let depth = left_depth.max(right_depth + 1) + usize::from(!flat);
        if depth > NESTING_MAX - PRIMITIVE_DEPTH {
            self.report.error(report::LIMIT, span, "`and` and `or` alternate too often").help =
                Some("they have equal precedence, from the left: group them with parentheses".to_string());
            return None;
        }
        let node = join(is_or, left, right);
        // Ports and addresses may have become one primitive.
        let is_one = matches!(node, Node::Primitive(..));
        Some((node, if is_one { left_depth.max(right_depth) } else { depth }))
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
            self.unary().map(|(node, depth)| (Node::Not(Box::new(node)), depth + 1))
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
            None => {
                let primitive = self.try_primitive();
                let span = start.to(self.tokens[self.at.saturating_sub(1)].span);
                primitive.map(|primitive| (Node::Primitive(primitive, span), PRIMITIVE_DEPTH))
            }
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

    fn try_primitive(&mut self) -> Option<Primitive> {
        let Some(word) = self.word_at(0) else {
            if matches!(self.peek(), Kind::LeftParen | Kind::Symbol('-')) {
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
                self.advance();
                let (number, _) = self.number()?;
                Some(Primitive::length(word == "less", number))
            }
            "ifindex" => {
                self.advance();
                Some(Primitive::InterfaceIndex(self.number()?.0))
            }
            "inbound" | "outbound" => {
                self.advance();
                Some(Primitive::Outbound(word == "outbound"))
            }
            "vlan" => Some(Primitive::Vlan(self.optional_number(0xfff)?)),
            "mpls" => Some(Primitive::Mpls(self.optional_number(0xf_ffff)?)),
            "pppoes" => Some(Primitive::PppoeSession(self.optional_number(0xffff)?)),
            "geneve" => Some(Primitive::Geneve(self.optional_number(0xff_ffff)?)),
            "pppoed" => {
                self.advance();
                Some(Primitive::PppoeDiscovery)
            }
            "llc" => {
                self.advance();
                let kind = match self.word_at(0) {
                    Some("i") => Some(LlcKind::Information),
                    Some("s") => Some(LlcKind::Supervisory),
                    Some("u") => Some(LlcKind::Unnumbered),
                    _ => None,
                };
                if kind.is_some() {
                    self.advance();
                }
                Some(Primitive::Llc(kind))
            }
            _ if words::UNSUPPORTED.contains(&word) => {
                let span = self.advance();
                let message = format!("`{word}` of pcap-filter(7) is not supported");
                self.report.error(report::BPF_UNSUPPORTED, span, message).help = Some(
                    "filters without `--bpf` may have a field for it: `weir fields` lists them all"
                        .to_string(),
                );
                None
            }
            _ => self.qualified(),
        }
    }

    /// A word, and a number up to `max` that may follow it.
    fn optional_number(&mut self, max: u32) -> Option<Option<u32>> {
        let word = self.word_at(0).unwrap_or_default();
        self.advance();
        if !self.word_at(0).is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            return Some(None);
        }
        let (number, span) = self.number()?;
        if number > max {
            self.report.error(report::RANGE, span, format!("`{word}` takes no number above {max}")).help =
                Some(format!("without a number, `{word}` matches all of them"));
            return None;
        }
        Some(Some(number))
    }

    /// Qualifiers and a value, a value with inherited qualifiers, or a protocol alone.
    fn qualified(&mut self) -> Option<Primitive> {
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

    fn value(&mut self, qualifiers: Qualifiers, start: Span) -> Option<Primitive> {
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
        if qualifiers.kind == Some(words::ValueKind::Net) && self.accept_word("mask").is_some() {
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

    fn relation(&mut self) -> Option<Primitive> {
        let first = self.at;
        let relation = relation::parse(self);
        if relation.is_none() {
            let consumed = self.tokens[first..self.at].iter();
            let open = consumed.fold(0usize, |open, token| match token.kind {
                Kind::LeftParen => open + 1,
                Kind::RightParen => open.saturating_sub(1),
                _ => open,
            });
            self.recover(open);
        }
        relation
    }

    fn number(&mut self) -> Option<(u32, Span)> {
        let Some(word) = self.word_at(0) else {
            self.missing("a number");
            return None;
        };
        let span = self.advance();
        match words::number(word) {
            Some(number) => Some((number, span)),
            None => {
                self.report.error(report::CONSTANT, span, format!("`{word}` is no number")).help =
                    Some("numbers have up to 32 bits: decimal, or hexadecimal after `0x`".to_string());
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

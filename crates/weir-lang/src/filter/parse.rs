//! Parses tokens into a syntax tree: precedence climbing, and recovery after mistakes.
//!
//! ```text
//! filter   = [ or ]
//! or       = and { ( "or" | "||" ) and }
//! and      = unary { ( "and" | "&&" ) unary }
//! unary    = ( "not" | "!" ) unary | "(" or ")" | test
//! test     = word [ "[" slice "]" ] [ ( "&" | "bitwise_and" ) constant ] [ [ "not" ] op operand ]
//! op       = "==" "=" "eq" | "!=" "ne" | "<" "lt" | "<=" "le" | ">" "gt" | ">=" "ge"
//!          | "contains" | "matches" "~" | "in" | "satisfies"
//! operand  = element | "{" element { "," element } "}"                 (the set only after "in")
//! element  = constant [ ".." constant ]
//! constant = word | quoted
//! slice    = first ":" length | first "-" last | first | ":" length | first ":"
//! ```
//!
//! After a mistake the parser skips to the next `and`, `or` or closing parenthesis and continues, so that
//! several mistakes are reported together. `resolve` determines the meaning of names and constants.

use super::ast::Op;
use super::lexer::{Kind, Token, display_keyword, lex};
use super::report::{self, Report};
use super::tree::{Comparison, Constant, ConstantText, Element, Node, Test, join};
use crate::diag::Span;

/// Maximum nesting of parentheses and `not`: the stages recurse to this depth.
pub(super) const NESTING_MAX: usize = 200;

const BINDING_OR: u8 = 1;
const BINDING_AND: u8 = 2;

/// Parses a display filter; `None` for an empty one.
pub(super) fn parse(text: &str, report: &mut Report) -> Option<Node> {
    let tokens = lex(text, display_keyword, report);
    if let [Token { kind: Kind::End, .. }] = tokens[..] {
        return None;
    }
    let mut parser = Parser { text, tokens, at: 0, open: 0, depth: 0, report };
    let node = parser.expression(BINDING_OR);
    debug_assert_eq!(parser.peek(), &Kind::End);
    Some(node)
}

struct Parser<'t, 'r> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    /// The number of open parentheses.
    open: usize,
    /// The number of open parentheses and `not`s.
    depth: usize,
    report: &'r mut Report,
}

impl Parser<'_, '_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn peek_second(&self) -> &Kind {
        self.tokens.get(self.at + 1).map_or(&Kind::End, |token| &token.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn word(&self) -> &str {
        let span = self.span();
        &self.text[span.start as usize..span.end as usize]
    }

    /// Advances past a token, but never past the end.
    fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn accept(&mut self, kind: &Kind) -> Option<Span> {
        (self.peek() == kind).then(|| self.advance())
    }

    /// Parts joined by operators that bind at least as tightly as `binding_min`.
    fn expression(&mut self, binding_min: u8) -> Node {
        let mut left = self.unary();
        loop {
            let (binding, symbol) = match self.peek() {
                Kind::End => return left,
                Kind::RightParen if self.open > 0 => return left,
                Kind::RightParen => {
                    let span = self.advance();
                    self.report.error(report::UNBALANCED, span, "unmatched `)`").help =
                        Some("remove it, or open it with `(`".to_string());
                    continue;
                }
                Kind::Or => (BINDING_OR, ""),
                Kind::And => (BINDING_AND, ""),
                Kind::Pipe => (BINDING_OR, "|"),
                Kind::Ampersand => (BINDING_AND, "&"),
                // Two conditions without an operator: treated as `and`.
                Kind::Word | Kind::Not | Kind::LeftParen => (BINDING_AND, "nothing"),
                _ => {
                    self.unexpected("`and`, `or` or the end");
                    self.recover();
                    continue;
                }
            };
            if binding < binding_min {
                return left;
            }
            let span = self.span();
            match symbol {
                "" => drop(self.advance()),
                "nothing" => {
                    self.report
                        .error(report::UNEXPECTED, span, "`and` or `or` is missing before this")
                        .help = Some("join two conditions with `and` or `or`".to_string());
                }
                _ => {
                    self.advance();
                    let word = if symbol == "|" { "or" } else { "and" };
                    self.report
                        .error(report::OPERATOR, span, format!("a single `{symbol}` joins no conditions"))
                        .help = Some(format!("write `{word}` or `{symbol}{symbol}`"));
                }
            }
            let right = self.expression(binding + 1);
            left = join(binding == BINDING_OR, left, right);
        }
    }

    fn unary(&mut self) -> Node {
        if !matches!(self.peek(), Kind::Not | Kind::LeftParen) {
            return self.test();
        }
        if self.depth == NESTING_MAX {
            let span = self.span();
            self.report
                .error(report::LIMIT, span, format!("more than {NESTING_MAX} levels of `(` and `not`"))
                .help =
                Some("remove needless parentheses; sets (`in {…}`) replace long alternatives".to_string());
            self.at = self.tokens.len() - 1;
            return Node::Wrong;
        }
        self.depth += 1;
        let node = match self.accept(&Kind::Not) {
            Some(_) => Node::Not(Box::new(self.unary())),
            None => self.group(),
        };
        self.depth -= 1;
        node
    }

    /// The contents of parentheses.
    fn group(&mut self) -> Node {
        let start = self.advance();
        if let Some(end) = self.accept(&Kind::RightParen) {
            self.report
                .error(report::UNEXPECTED, start.to(end), "there is nothing between these parentheses")
                .help = Some("remove them, or write a condition between them".to_string());
            return Node::Wrong;
        }
        self.open += 1;
        let node = self.expression(BINDING_OR);
        self.open -= 1;
        // At the nesting limit the rest was skipped: report no further mistake.
        if self.accept(&Kind::RightParen).is_none()
            && !self.report.list.iter().any(|diagnostic| diagnostic.code == report::LIMIT)
        {
            self.report.error(report::UNBALANCED, start, "this `(` is not closed").help =
                Some("close it with `)`".to_string());
        }
        node
    }

    /// A field, alone or compared.
    fn test(&mut self) -> Node {
        match self.peek() {
            Kind::Word => {}
            Kind::Quoted(_) => {
                let span = self.advance();
                self.report.error(report::SIDES, span, "a constant cannot stand here").help =
                    Some("the field comes first: `http.host == \"example.org\"`".to_string());
                self.recover();
                return Node::Wrong;
            }
            _ => {
                self.unexpected("a field or a protocol");
                self.recover();
                return Node::Wrong;
            }
        }
        let name = self.word().to_string();
        let name_span = self.advance();
        if let Some(node) = self.colon(&name, name_span) {
            return node;
        }
        let mut span = name_span;
        let slice = match self.peek() {
            Kind::LeftBracket => match self.slice() {
                Some(slice) => {
                    span = span.to(slice.1);
                    Some(slice)
                }
                None => return Node::Wrong,
            },
            _ => None,
        };
        let mut mask = None;
        if self.peek() == &Kind::Ampersand && self.second_is_number() {
            self.advance();
            mask = self.constant();
            span = mask.as_ref().map_or(span, |mask| span.to(mask.span));
        }
        let comparison = match self.comparison() {
            Ok(comparison) => comparison,
            Err(()) => {
                self.recover();
                return Node::Wrong;
            }
        };
        if let Some(comparison) = &comparison {
            span = span.to(comparison.operand_span);
        }
        Node::Test(Test { name, name_span, slice, mask, comparison, span })
    }

    /// `tcp.port: 443`, `tcp.port:443`, `tcp.port : 443`.
    fn colon(&mut self, name: &str, name_span: Span) -> Option<Node> {
        let (field, value, span) = match name.split_once(':') {
            Some((field, value)) => (field, value.to_string(), name_span),
            None if self.peek() == &Kind::Word && self.word().starts_with(':') => {
                (name, self.word()[1..].to_string(), name_span.to(self.span()))
            }
            None => return None,
        };
        // `fe80::1` and `aa:bb:cc` are constants; `resolve` reports them.
        if !field.starts_with(|c: char| c.is_ascii_alphabetic())
            || !(field.contains('.') || field.chars().any(|c| !c.is_ascii_hexdigit()))
        {
            return None;
        }
        if span != name_span {
            self.advance();
        }
        let value = match value.as_str() {
            "" if matches!(self.peek(), Kind::Word | Kind::Quoted(_)) => {
                let span = self.advance();
                self.text[span.start as usize..span.end as usize].to_string()
            }
            "" => "…".to_string(),
            _ => value,
        };
        self.report.error(report::OPERATOR, span, "`:` compares nothing").help =
            Some(format!("write `{field} == {value}`"));
        self.recover();
        Some(Node::Wrong)
    }

    /// The text between the brackets, and the span including the brackets.
    fn slice(&mut self) -> Option<(String, Span)> {
        let start = self.advance();
        let mut text = String::new();
        while self.peek() == &Kind::Word || self.peek() == &Kind::Comma {
            text.push_str(self.word());
            self.advance();
        }
        match self.accept(&Kind::RightBracket) {
            Some(end) => Some((text, start.to(end))),
            None => {
                self.report.error(report::UNBALANCED, start, "this `[` is not closed").help =
                    Some("a slice is `[offset:length]` or `[offset]`".to_string());
                self.recover();
                None
            }
        }
    }

    fn second_is_number(&self) -> bool {
        let Some(Token { kind: Kind::Word, span }) = self.tokens.get(self.at + 1) else { return false };
        self.text.as_bytes()[span.start as usize].is_ascii_digit()
    }

    /// An optional operator with its right operand.
    fn comparison(&mut self) -> Result<Option<Comparison>, ()> {
        let negated = self.peek() == &Kind::Not
            && matches!(self.peek_second(), Kind::In | Kind::Contains | Kind::Matches | Kind::Satisfies);
        let start = self.span();
        if negated {
            self.advance();
        }
        let op = match self.peek() {
            Kind::Eq => Op::Eq,
            Kind::Ne => Op::Ne,
            Kind::Lt => Op::Lt,
            Kind::Le => Op::Le,
            Kind::Gt => Op::Gt,
            Kind::Ge => Op::Ge,
            Kind::In => Op::In,
            Kind::Contains => Op::Contains,
            Kind::Matches => Op::Matches,
            Kind::Satisfies => Op::Satisfies,
            _ => return Ok(None),
        };
        let op_span = start.to(self.advance());
        let (operand, operand_span) = match self.peek() {
            Kind::LeftBrace | Kind::LeftParen => self.set(op)?,
            _ => {
                let element = self.element().ok_or(())?;
                let span = element.span();
                (vec![element], span)
            }
        };
        if matches!(self.peek(), Kind::Eq | Kind::Ne | Kind::Lt | Kind::Le | Kind::Gt | Kind::Ge) {
            let span = self.span();
            self.report.error(report::UNEXPECTED, span, "comparisons do not chain").help =
                Some("write two, joined with `and`, or a range: `frame.len in {64..128}`".to_string());
            return Err(());
        }
        Ok(Some(Comparison { op, op_span, negated, operand, operand_span }))
    }

    /// `{ a, b..c }`, at its opening brace.
    fn set(&mut self, op: Op) -> Result<(Vec<Element>, Span), ()> {
        let paren = self.peek() == &Kind::LeftParen;
        let start = self.advance();
        let close = if paren { Kind::RightParen } else { Kind::RightBrace };
        let mut elements: Vec<Element> = Vec::new();
        let end = loop {
            if let Some(end) = self.accept(&close) {
                break end;
            }
            if self.peek() == &Kind::End {
                let symbol = if paren { "(" } else { "{" };
                self.report.error(report::UNBALANCED, start, format!("this `{symbol}` is not closed")).help =
                    Some("a set is `{80, 443, 8000..8080}`".to_string());
                return Err(());
            }
            elements.push(self.element().ok_or(())?);
            if self.accept(&Kind::Comma).is_none() && matches!(self.peek(), Kind::Word | Kind::Quoted(_)) {
                let span = self.span();
                self.report.error(report::UNEXPECTED, span, "there is no `,` before this").help =
                    Some("elements of a set are separated by `,`: `{80, 443}`".to_string());
            }
        };
        let span = start.to(end);
        let inside = || self.text[start.end as usize..end.start as usize].trim().to_string();
        if elements.is_empty() {
            self.report.error(report::EMPTY_SET, span, "a set without elements matches nothing").help =
                Some("name at least one: `tcp.port in {80, 443}`".to_string());
            return Err(());
        }
        if op != Op::In {
            let help = format!("`in` compares with a set: `in {{{}}}`", inside());
            self.report.error(report::UNEXPECTED, span, "only `in` compares with a set").help = Some(help);
            return Err(());
        }
        if paren {
            let help = format!("write `in {{{}}}`", inside());
            self.report.error(report::UNEXPECTED, span, "a set stands in braces").help = Some(help);
        }
        Ok((elements, span))
    }

    /// A constant or a range.
    fn element(&mut self) -> Option<Element> {
        let low = self.constant()?;
        let high = match self.accept(&Kind::DotDot) {
            Some(_) => Some(self.constant()?),
            None => None,
        };
        Some(Element { low, high })
    }

    fn constant(&mut self) -> Option<Constant> {
        let value = match self.peek() {
            Kind::Word => ConstantText::Word(self.word().to_string()),
            Kind::Quoted(text) => ConstantText::Quoted(text.clone()),
            _ => {
                self.unexpected("a constant");
                return None;
            }
        };
        Some(Constant { value, span: self.advance() })
    }

    fn unexpected(&mut self, wanted: &str) {
        let span = self.span();
        let message = match self.peek() {
            Kind::End => format!("{wanted} is missing at the end"),
            _ => format!("{wanted} was expected here"),
        };
        self.report.error(report::UNEXPECTED, span, message).help = Some(match wanted {
            "a constant" => "the constant comes after the operator: `tcp.port == 443`".to_string(),
            _ => "a condition is a field with or without comparison: `tcp`, `tcp.port == 443`".to_string(),
        });
    }

    /// Skips to the possible start of the next condition: `and`, `or`, a closing parenthesis, or the end.
    fn recover(&mut self) {
        let mut open = 0usize;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in one line: `(or a (and b c))`.
    fn sketch(text: &str) -> String {
        fn show(node: &Node) -> String {
            let list = |word: &str, parts: &[Node]| {
                format!("({word} {})", parts.iter().map(show).collect::<Vec<_>>().join(" "))
            };
            match node {
                Node::Test(test) => test.name.clone(),
                Node::Not(inner) => format!("(not {})", show(inner)),
                Node::And(parts) => list("and", parts),
                Node::Or(parts) => list("or", parts),
                Node::Wrong => "?".to_string(),
            }
        }
        let mut report = Report::default();
        let node = parse(text, &mut report);
        let codes: String = report.list.iter().map(|diagnostic| format!(" {}", diagnostic.code)).collect();
        node.as_ref().map_or("nothing".to_string(), show) + &codes
    }

    #[test]
    fn precedence_ladder() {
        assert_eq!(sketch(""), "nothing");
        assert_eq!(sketch("a"), "a");
        assert_eq!(sketch("a and b and c"), "(and a b c)");
        assert_eq!(sketch("a or b and c"), "(or a (and b c))");
        assert_eq!(sketch("a and b or c && d"), "(or (and a b) (and c d))");
        assert_eq!(sketch("(a or b) and c"), "(and (or a b) c)");
        assert_eq!(sketch("not a and !b"), "(and (not a) (not b))");
        assert_eq!(sketch("not a == 3 or b"), "(or (not a) b)");
        assert_eq!(sketch("! (a or b)"), "(not (or a b))");
    }

    #[test]
    fn recovery_ladder() {
        assert_eq!(sketch("a == and b in {} or c"), "(or (and ? ?) c) W0104 W0110");
        assert_eq!(sketch("a b"), "(and a b) W0104");
        assert_eq!(sketch("a | b & c"), "(or a (and b c)) W0105 W0105");
        assert_eq!(sketch("a) and (b"), "(and a b) W0103 W0103");
        assert_eq!(sketch("() or a"), "(or ? a) W0104");
        assert_eq!(sketch("a == 1 == 2 or b"), "(or ? b) W0104");
        assert_eq!(sketch("tcp.port: 443 and b"), "(and ? b) W0105");
        assert_eq!(sketch("a and"), "(and a ?) W0104");
        assert_eq!(sketch(", a or b"), "(or ? b) W0104");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "(".repeat(100_000);
        assert_eq!(sketch(&deep), "? W0117");
        assert_eq!(sketch(&"!".repeat(100_000)).matches("W0117").count(), 1);
        let fine = format!("{}a{}", "(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX));
        assert_eq!(sketch(&fine), "a");
    }
}

//! Relations of pcap-filter(7): `tcp[tcpflags] & (tcp-syn|tcp-ack) != 0`, `ip[8] < 5`, `len > 100`.
//!
//! ```text
//! relation = sum op sum
//! sum      = operators | & << >> + - * / over these, in C's order; `-` also before an operand
//! operand  = number | name | "(" sum ")" | "len" | protocol "[" sum [ ":" bytes ] "]"
//! ```
//!
//! `^` and `%` have no precedence in libpcap's grammar: they take everything to their right, and bind more
//! tightly than any operator to their left. Numbers are folded, with libpcap's arithmetic of 32 bits.

use super::tree::{Primitive, Sum};
use super::words::{self, Protocol};
use super::{Kind, Parser, Span, report};
use crate::filter::frame_test::{Arithmetic, Order};

/// Whether a token continues a sum or a comparison.
pub(super) fn continues(kind: &Kind) -> bool {
    binding(kind).is_some() || comparison(kind).is_some()
}

/// A comparison: the order, and whether the contrary is meant.
fn comparison(kind: &Kind) -> Option<(Order, bool)> {
    Some(match kind {
        Kind::Eq => (Order::Equal, false),
        Kind::Ne => (Order::Equal, true),
        Kind::Gt => (Order::Greater, false),
        Kind::Le => (Order::Greater, true),
        Kind::Ge => (Order::GreaterOrEqual, false),
        Kind::Lt => (Order::GreaterOrEqual, true),
        _ => return None,
    })
}

/// An operator: how tightly it binds to its left operand and to its right one.
fn binding(kind: &Kind) -> Option<(Arithmetic, u8, u8)> {
    Some(match kind {
        Kind::Pipe => (Arithmetic::Or, 1, 1),
        Kind::Ampersand => (Arithmetic::And, 2, 2),
        Kind::ShiftLeft => (Arithmetic::Shl, 3, 3),
        Kind::ShiftRight => (Arithmetic::Shr, 3, 3),
        Kind::Symbol('+') => (Arithmetic::Add, 4, 4),
        Kind::Symbol('-') => (Arithmetic::Sub, 4, 4),
        Kind::Symbol('*') => (Arithmetic::Mul, 5, 5),
        Kind::Symbol('/') => (Arithmetic::Div, 5, 5),
        Kind::Symbol('^') => (Arithmetic::Xor, 6, 0),
        Kind::Symbol('%') => (Arithmetic::Rem, 6, 0),
        _ => return None,
    })
}

/// How tightly `-` before an operand binds: not as tightly as `^` and `%`, so `-4 % 3` is `-(4 % 3)`, as in
/// libpcap.
const BINDING_MINUS: u8 = 5;

/// A relation.
pub(super) fn parse(parser: &mut Parser) -> Option<Primitive> {
    let left = sum(parser, 0)?;
    let Some((order, is_not)) = comparison(parser.peek()) else {
        let span = parser.span();
        parser.report.error(report::UNEXPECTED, span, "a comparison was expected here").help =
            Some("for instance `tcp[tcpflags] & tcp-syn != 0`".to_string());
        return None;
    };
    parser.advance();
    let right = sum(parser, 0)?;
    Some(Primitive::Relation { order, is_not, left, right })
}

fn refuse(parser: &mut Parser, span: Span, message: &str, help: &str) {
    parser.report.error(report::CONSTANT, span, message).help = Some(help.to_string());
}

fn sum(parser: &mut Parser, binding_min: u8) -> Option<Sum> {
    // Operands nest in parentheses, brackets, and to the right of operators.
    if parser.depth >= super::NESTING_MAX / 2 {
        let span = parser.span();
        parser
            .report
            .error(report::LIMIT, span, "too many operators and parentheses inside each other")
            .help = Some("remove needless parentheses".to_string());
        return None;
    }
    parser.depth += 1;
    let found = operators(parser, binding_min);
    parser.depth -= 1;
    found
}

fn operators(parser: &mut Parser, binding_min: u8) -> Option<Sum> {
    let mut left = operand(parser)?;
    let mut operators = 0;
    while let Some((op, _, inside)) = binding(parser.peek()).filter(|(_, tight, _)| *tight > binding_min) {
        let span = parser.advance();
        let right = sum(parser, inside)?;
        operators += 1;
        if operators > super::NESTING_MAX / 2 {
            parser.report.error(report::LIMIT, span, "too many operators in one sum").help =
                Some("compare parts of it".to_string());
            return None;
        }
        left = match (left, right) {
            (_, Sum::Number(0)) if matches!(op, Arithmetic::Div | Arithmetic::Rem) => {
                refuse(parser, span, "division by zero", "divide by something else");
                return None;
            }
            (_, Sum::Number(32..)) if matches!(op, Arithmetic::Shl | Arithmetic::Shr) => {
                refuse(parser, span, "a shift by more than 31 bits", "numbers have 32 bits");
                return None;
            }
            (Sum::Number(a), Sum::Number(b)) => Sum::Number(fold(op, a, b)),
            (left, right) => Sum::Binary(op, Box::new(left), Box::new(right)),
        };
    }
    Some(left)
}

/// Folds constants.
fn fold(op: Arithmetic, a: u32, b: u32) -> u32 {
    match op {
        Arithmetic::Or => a | b,
        Arithmetic::Xor => a ^ b,
        Arithmetic::And => a & b,
        Arithmetic::Shl => a.checked_shl(b).unwrap_or(0),
        Arithmetic::Shr => a.checked_shr(b).unwrap_or(0),
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Sub => a.wrapping_sub(b),
        Arithmetic::Mul => a.wrapping_mul(b),
        Arithmetic::Div => a.checked_div(b).unwrap_or(0),
        Arithmetic::Rem => a.checked_rem(b).unwrap_or(0),
    }
}

fn operand(parser: &mut Parser) -> Option<Sum> {
    match parser.peek() {
        Kind::LeftParen => {
            let start = parser.advance();
            let inner = sum(parser, 0)?;
            if parser.peek() != &Kind::RightParen {
                parser.report.error(report::UNBALANCED, start, "this `(` is not closed").help =
                    Some("close it with `)`".to_string());
                return None;
            }
            parser.advance();
            return Some(inner);
        }
        Kind::Symbol('-') => {
            parser.advance();
            return Some(match sum(parser, BINDING_MINUS)? {
                Sum::Number(number) => Sum::Number(number.wrapping_neg()),
                other => Sum::Negative(Box::new(other)),
            });
        }
        _ => {}
    }
    let Some(word) = parser.word_at(0) else {
        parser.missing("a number");
        return None;
    };
    if parser.kind_at(1) == &Kind::LeftBracket {
        return access(parser, word);
    }
    if matches!(word, "len" | "length") {
        parser.advance();
        return Some(Sum::Length);
    }
    parser.number().map(|(number, _)| Sum::Number(number))
}

/// `tcp[13:1]`.
fn access(parser: &mut Parser, word: &str) -> Option<Sum> {
    let name_span = parser.advance();
    let protocol = words::protocol(word).filter(|&protocol| has_bytes(protocol));
    let Some(protocol) = protocol else {
        let message = format!("`{word}` has no accessible bytes");
        parser.report.error(report::BPF_UNSUPPORTED, name_span, message).help =
            Some("ether, ip, ip6, arp, tcp, udp, sctp, icmp, icmp6 and others have".to_string());
        return None;
    };
    let open = parser.advance();
    let offset = sum(parser, 0)?;
    let bytes = match parser.peek() {
        Kind::Symbol(':') => {
            parser.advance();
            parser.number()?.0
        }
        _ => 1,
    };
    if parser.peek() != &Kind::RightBracket {
        parser.report.error(report::UNBALANCED, open, "this `[` is not closed").help =
            Some("it is `[offset]` or `[offset:bytes]`".to_string());
        return None;
    }
    let end = parser.advance();
    if !matches!(bytes, 1 | 2 | 4) {
        parser.report.error(report::SLICE, open.to(end), "this is no slice").help =
            Some("it is `[offset]` or `[offset:bytes]` with 1, 2 or 4 bytes".to_string());
        return None;
    }
    Some(Sum::Load { protocol, offset: Box::new(offset), bytes: bytes as u8 })
}

/// Whether libpcap knows where the protocol's header begins.
fn has_bytes(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Number { number, .. } => !matches!(number, 50 | 51),
        // The OSI protocols and the others over 802.2 have no fixed place.
        Protocol::EtherType(number) => number > 1500,
        Protocol::Iso(_) => false,
        _ => true,
    }
}

//! Relations of pcap-filter(7): `tcp[tcpflags] & (tcp-syn|tcp-ack) != 0`, `ip[8] < 5`, `len > 100`.
//!
//! ```text
//! relation = sum op sum                 one side a number, the other bytes of a packet
//! sum      = operators | & << >> + - * / % ^ over these, in C's order of `|`, `^`, `&`, shifts, `+`, `*`
//! operand  = number | name | "(" sum ")" | "len" | protocol "[" offset [ ":" size ] "]"
//! ```
//!
//! `-` and `/` are operators only between spaces: inside words they belong to names and prefixes. Numbers are
//! folded. Packet bytes support a mask and a right shift, which a predicate can express; other operations
//! (`ip[2:2] - 20`, offsets read from the packet) are rejected.

use super::values::Access;
use super::words::{self, Protocol};
use super::{Kind, Op, Parser, Span, report};

/// One side of a relation.
enum Side {
    Number(u64),
    Access(Access),
}

/// Whether a token continues a sum or a comparison.
pub(super) fn continues(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Eq
            | Kind::Ne
            | Kind::Lt
            | Kind::Le
            | Kind::Gt
            | Kind::Ge
            | Kind::Ampersand
            | Kind::Pipe
            | Kind::ShiftLeft
            | Kind::ShiftRight
            | Kind::Symbol('+' | '-' | '*' | '/' | '%' | '^')
    )
}

/// A relation, normalised to have the packet bytes on the left.
pub(super) fn parse(parser: &mut Parser) -> Option<(Access, Op, u64)> {
    let start = parser.span();
    let left = sum(parser, 0)?;
    let op = match parser.peek() {
        Kind::Eq => Op::Eq,
        Kind::Ne => Op::Ne,
        Kind::Lt => Op::Lt,
        Kind::Le => Op::Le,
        Kind::Gt => Op::Gt,
        Kind::Ge => Op::Ge,
        _ => {
            let span = parser.span();
            parser.report.error(report::UNEXPECTED, span, "a comparison was expected here").help =
                Some("for instance `tcp[tcpflags] & tcp-syn != 0`".to_string());
            return None;
        }
    };
    parser.advance();
    let right = sum(parser, 0)?;
    let (access, op, number) = match (left, right) {
        (Side::Access(access), Side::Number(number)) => (access, op, number),
        (Side::Number(number), Side::Access(access)) => (access, crate::filter::resolve::mirror(op), number),
        (Side::Number(_), Side::Number(_)) => {
            refuse(parser, start, "two numbers are compared", "one side reads the packet: `ip[8] < 5`");
            return None;
        }
        (Side::Access(_), Side::Access(_)) => {
            refuse(
                parser,
                start,
                "bytes of a packet are compared with numbers only",
                "for instance `ip[8] < 5`",
            );
            return None;
        }
    };
    Some((access, op, number))
}

fn refuse(parser: &mut Parser, start: Span, message: &str, help: &str) {
    let end = parser.tokens[parser.at.saturating_sub(1)].span;
    parser.report.error(report::BPF_UNSUPPORTED, start.to(end), message).help = Some(help.to_string());
}

/// The binding power of an operator, in C's order.
fn binding(kind: &Kind) -> Option<u8> {
    Some(match kind {
        Kind::Pipe => 1,
        Kind::Symbol('^') => 2,
        Kind::Ampersand => 3,
        Kind::ShiftLeft | Kind::ShiftRight => 4,
        Kind::Symbol('+' | '-') => 5,
        Kind::Symbol('*' | '/' | '%') => 6,
        _ => return None,
    })
}

fn sum(parser: &mut Parser, binding_min: u8) -> Option<Side> {
    let start = parser.span();
    let mut left = operand(parser)?;
    while let Some(tight) = binding(parser.peek()).filter(|tight| *tight > binding_min) {
        let operator = parser.peek().clone();
        parser.advance();
        let right = sum(parser, tight)?;
        left = match (left, right) {
            (Side::Number(a), Side::Number(b)) => match fold(&operator, a as u32, b as u32) {
                Some(number) => Side::Number(number.into()),
                None => {
                    refuse(parser, start, "division by zero", "divide by something else");
                    return None;
                }
            },
            (Side::Access(access), Side::Number(number)) if operator == Kind::Ampersand => {
                Side::Access(access.masked(number))
            }
            (Side::Number(number), Side::Access(access)) if operator == Kind::Ampersand => {
                Side::Access(access.masked(number))
            }
            (Side::Access(access), Side::Number(number @ 0..=31)) if operator == Kind::ShiftRight => {
                Side::Access(access.shifted(number as u32))
            }
            _ => {
                let help = "bytes of a packet take a mask and a shift to the right: `ip[0] & 0xf != 5`";
                refuse(parser, start, "arithmetic on bytes of a packet is not supported", help);
                return None;
            }
        };
    }
    Some(left)
}

/// Folds constants as libpcap does: 32 bits, wrapping.
fn fold(operator: &Kind, a: u32, b: u32) -> Option<u32> {
    Some(match operator {
        Kind::Pipe => a | b,
        Kind::Symbol('^') => a ^ b,
        Kind::Ampersand => a & b,
        Kind::ShiftLeft => a.checked_shl(b).unwrap_or(0),
        Kind::ShiftRight => a.checked_shr(b).unwrap_or(0),
        Kind::Symbol('+') => a.wrapping_add(b),
        Kind::Symbol('-') => a.wrapping_sub(b),
        Kind::Symbol('*') => a.wrapping_mul(b),
        Kind::Symbol('/') => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}

fn operand(parser: &mut Parser) -> Option<Side> {
    if parser.peek() == &Kind::LeftParen {
        if parser.depth >= super::NESTING_MAX / 2 {
            let span = parser.span();
            parser.report.error(report::LIMIT, span, "too many parentheses inside each other").help =
                Some("remove needless parentheses".to_string());
            return None;
        }
        let start = parser.advance();
        parser.depth += 1;
        let inner = sum(parser, 0);
        parser.depth -= 1;
        let inner = inner?;
        if parser.peek() != &Kind::RightParen {
            parser.report.error(report::UNBALANCED, start, "this `(` is not closed").help =
                Some("close it with `)`".to_string());
            return None;
        }
        parser.advance();
        return Some(inner);
    }
    let Some(word) = parser.word_at(0) else {
        parser.missing("a number");
        return None;
    };
    if parser.kind_at(1) == &Kind::LeftBracket {
        return access(parser, word).map(Side::Access);
    }
    if word == "len" {
        parser.advance();
        return Some(Side::Access(Access {
            field: "frame.len",
            slice: None,
            mask: None,
            shift: 0,
            over_ip: false,
        }));
    }
    parser.number().map(|(number, _)| Side::Number(number))
}

/// `tcp[13:1]`.
fn access(parser: &mut Parser, word: &str) -> Option<Access> {
    let name_span = parser.advance();
    let (field, over_ip) = match words::protocol(word) {
        Some(Protocol::Ether) => ("eth", false),
        Some(Protocol::Ip) => ("ip", false),
        Some(Protocol::Ip6) => ("ipv6", false),
        Some(Protocol::Arp) => ("arp", false),
        // libpcap reads only bytes that follow an IPv4 header.
        Some(Protocol::Tcp) => ("tcp", true),
        Some(Protocol::Udp) => ("udp", true),
        Some(Protocol::Sctp) => ("sctp", true),
        Some(Protocol::Number { number: 1, .. }) => ("icmp", true),
        Some(Protocol::Number { number: 58, .. }) => ("icmpv6", false),
        _ => {
            let message = format!("`{word}` has no accessible bytes");
            parser.report.error(report::BPF_UNSUPPORTED, name_span, message).help =
                Some("ether, ip, ip6, arp, tcp, udp, sctp, icmp and icmp6 have".to_string());
            return None;
        }
    };
    let open = parser.advance();
    let mut inside = String::new();
    while let Some(word) = parser.word_at(0) {
        inside.push_str(word);
        parser.advance();
    }
    if parser.peek() != &Kind::RightBracket {
        let help = "an offset is a number or a name like `tcpflags`: `tcp[0:2]`";
        refuse(parser, open, "this is not a supported offset", help);
        return None;
    }
    let end = parser.advance();
    let (offset, size) = inside.split_once(':').unwrap_or((&inside, "1"));
    let offset = words::number(offset).filter(|offset| *offset < 65_536).map(|offset| offset as u32);
    let size = words::number(size).filter(|size| matches!(size, 1 | 2 | 4)).map(|size| size as u32);
    let (Some(offset), Some(size)) = (offset, size) else {
        parser.report.error(report::SLICE, open.to(end), "this is no slice").help =
            Some("it is `[offset]` or `[offset:size]` with 1, 2 or 4 bytes".to_string());
        return None;
    };
    if offset + size > crate::filter::resolve::SLICE_END_MAX {
        parser.report.error(report::SLICE, open.to(end), "this slice is beyond any packet").help =
            Some("it is `[offset]` or `[offset:size]`, from the start of the header".to_string());
        return None;
    }
    Some(Access { field, slice: Some((offset, size)), mask: None, shift: 0, over_ip })
}

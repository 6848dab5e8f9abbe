//! Tests of a frame's bytes at computed offsets: the meaning of expressions in the syntax of pcap-filter(7).
//!
//! ```text
//! test    = number in ranges | number order number | not test | all of tests | any of tests
//!         | set register = number              assigns, and holds
//!         | while test                         repeats the test as long as it holds, then holds
//! number  = constant | register | wire bytes | load | number op number
//! load    = 1, 2 or 4 bytes, most significant first, at the sum of a number and a constant
//! ```
//!
//! Parts are evaluated in order, and only as far as needed. Numbers have 32 bits and wrap. Registers are 0 at
//! first. A load beyond the captured bytes and a division by 0 *reject* the frame: the whole test does not
//! hold, also inside `not`. These are the rules of the programs that libpcap makes, before its optimiser.

use std::fmt::{self, Display, Formatter};
use weir_packet::LinkType;

/// Maximum number of iterations of a [`Test::While`], beyond which the frame is rejected. A loop steps over
/// headers of at least eight bytes, so a loop over a frame of 64 KiB ends before.
pub const LOOP_MAX: u32 = 8_192;

/// The tests for one expression: one for each link type, because offsets depend on the link type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FrameTest {
    /// The expression as written.
    pub text: String,
    /// The link types with known headers. No test: the link type lacks a header that the expression needs, so
    /// no frame of this link type matches.
    pub links: Vec<(LinkType, Option<Test>)>,
    /// The test of all other link types, if the expression needs no headers.
    pub other: Option<Test>,
}

impl FrameTest {
    /// The test for frames of this link type; `None` if none of them matches.
    pub fn of(&self, link: LinkType) -> Option<&Test> {
        match self.links.iter().find(|(other, _)| *other == link) {
            Some((_, test)) => test.as_ref(),
            None => self.other.as_ref(),
        }
    }
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Test {
    /// The number is in one of these ranges, which include both ends.
    In(Number, Vec<(u32, u32)>),
    /// A comparison of two numbers.
    Compare(Order, Number, Number),
    /// The contrary.
    Not(Box<Test>),
    /// All tests hold. None: true.
    All(Vec<Test>),
    /// Any test holds. None: false.
    Any(Vec<Test>),
    /// Assigns a register.
    Set(Register, Number),
    /// Evaluates the test until it does not hold, at most [`LOOP_MAX`] times.
    While(Box<Test>),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Equal.
    Equal,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
}

/// A number of 32 bits that an earlier part of a test computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Register(pub u16);

/// A number of 32 bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Number {
    /// A constant.
    Constant(u32),
    /// The frame's bytes on the wire.
    WireBytes,
    /// A register.
    Register(Register),
    /// Bytes of the frame at `at + plus`, a sum that does not wrap.
    Load {
        /// The computed part of the offset; none is 0.
        at: Option<Box<Number>>,
        /// The constant part.
        plus: u32,
        /// 1, 2 or 4.
        bytes: u8,
    },
    /// Arithmetic.
    Binary(Arithmetic, Box<Number>, Box<Number>),
}

impl Number {
    /// The result of an operation.
    pub(super) fn binary(op: Arithmetic, a: Number, b: Number) -> Number {
        Number::Binary(op, Box::new(a), Box::new(b))
    }

    fn uses(&self, register: Register) -> bool {
        match self {
            Number::Register(other) => *other == register,
            Number::Load { at, .. } => at.as_ref().is_some_and(|at| at.uses(register)),
            Number::Binary(_, a, b) => a.uses(register) || b.uses(register),
            Number::Constant(_) | Number::WireBytes => false,
        }
    }

    /// The bits that a mask selects.
    pub(super) fn masked(self, mask: u32) -> Number {
        Number::binary(Arithmetic::And, self, Number::Constant(mask))
    }
}

/// Operators; all wrap at 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`; 0 for 32 or more.
    Shl,
    /// `>>`; 0 for 32 or more.
    Shr,
}

impl Arithmetic {
    /// The operator's spelling.
    pub fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Sub => "-",
            Arithmetic::Mul => "*",
            Arithmetic::Div => "/",
            Arithmetic::Rem => "%",
            Arithmetic::And => "&",
            Arithmetic::Or => "|",
            Arithmetic::Xor => "^",
            Arithmetic::Shl => "<<",
            Arithmetic::Shr => ">>",
        }
    }
}

impl Test {
    /// The test that always has this result.
    pub(super) fn constant(holds: bool) -> Test {
        if holds { Test::All(vec![]) } else { Test::Any(vec![]) }
    }

    /// The number equals the constant.
    pub(super) fn equals(number: Number, constant: u32) -> Test {
        Test::In(number, vec![(constant, constant)])
    }

    /// Some of these bits are set.
    pub(super) fn has_bits(number: Number, bits: u32) -> Test {
        Test::equals(number.masked(bits), 0).not()
    }

    /// The contrary.
    pub(super) fn not(self) -> Test {
        match self {
            Test::Not(inner) => *inner,
            other => Test::Not(Box::new(other)),
        }
    }

    /// All of these, in this order.
    pub(super) fn all(parts: impl IntoIterator<Item = Test>) -> Test {
        let mut flat = vec![];
        for part in parts {
            match part {
                Test::All(inner) => flat.extend(inner),
                part => flat.push(part),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Test::All(flat) }
    }

    /// Any of these, in this order.
    pub(super) fn any(parts: impl IntoIterator<Item = Test>) -> Test {
        let mut flat = vec![];
        for part in parts {
            match part {
                Test::Any(inner) => flat.extend(inner),
                part => flat.push(part),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Test::Any(flat) }
    }

    /// Whether a number of the test is this register.
    pub(super) fn uses(&self, register: Register) -> bool {
        match self {
            Test::In(number, _) | Test::Set(_, number) => number.uses(register),
            Test::Compare(_, a, b) => a.uses(register) || b.uses(register),
            Test::Not(inner) | Test::While(inner) => inner.uses(register),
            Test::All(parts) | Test::Any(parts) => parts.iter().any(|part| part.uses(register)),
        }
    }

    /// The number of comparisons and assignments.
    pub(super) fn size(&self) -> usize {
        match self {
            Test::In(..) | Test::Compare(..) | Test::Set(..) => 1,
            Test::Not(inner) | Test::While(inner) => inner.size(),
            Test::All(parts) | Test::Any(parts) => parts.iter().map(Test::size).sum(),
        }
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let list = |f: &mut Formatter, parts: &[Test], word: &str| {
            for (index, part) in parts.iter().enumerate() {
                let before = if index > 0 { word } else { "" };
                match part {
                    Test::All(inner) | Test::Any(inner) if inner.len() > 1 => write!(f, "{before}({part})")?,
                    part => write!(f, "{before}{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Test::In(number, ranges) => match ranges[..] {
                [(low, high)] if low == high => write!(f, "{number} == {}", Hex(low)),
                _ => {
                    write!(f, "{number} in {{")?;
                    for (index, &(low, high)) in ranges.iter().enumerate() {
                        let comma = if index > 0 { ", " } else { "" };
                        write!(f, "{comma}{}", Hex(low))?;
                        if high != low {
                            write!(f, "..{}", Hex(high))?;
                        }
                    }
                    f.write_str("}")
                }
            },
            Test::Compare(order, a, b) => {
                let symbol = match order {
                    Order::Equal => "==",
                    Order::Greater => ">",
                    Order::GreaterOrEqual => ">=",
                };
                write!(f, "{a} {symbol} {b}")
            }
            Test::Not(inner) => match **inner {
                Test::In(..) | Test::Compare(..) => write!(f, "not {inner}"),
                _ => write!(f, "not ({inner})"),
            },
            Test::All(parts) if parts.is_empty() => f.write_str("true"),
            Test::Any(parts) if parts.is_empty() => f.write_str("false"),
            Test::All(parts) => list(f, parts, " and "),
            Test::Any(parts) => list(f, parts, " or "),
            Test::Set(register, number) => write!(f, "{register} := {number}"),
            Test::While(inner) => write!(f, "while ({inner})"),
        }
    }
}

impl Display for Register {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Number::Constant(number) => write!(f, "{}", Hex(*number)),
            Number::WireBytes => f.write_str("len"),
            Number::Register(register) => write!(f, "{register}"),
            Number::Load { at, plus, bytes } => {
                match at.as_deref() {
                    Some(at) if *plus == 0 => write!(f, "[{at}")?,
                    Some(at @ Number::Binary(..)) => write!(f, "[({at}) + {plus}")?,
                    Some(at) => write!(f, "[{at} + {plus}")?,
                    None => write!(f, "[{plus}")?,
                }
                if *bytes > 1 { write!(f, ":{bytes}]") } else { f.write_str("]") }
            }
            Number::Binary(op, a, b) => {
                let side = |f: &mut Formatter, number: &Number| match number {
                    Number::Binary(..) => write!(f, "({number})"),
                    _ => write!(f, "{number}"),
                };
                side(f, a)?;
                write!(f, " {} ", op.symbol())?;
                side(f, b)
            }
        }
    }
}

/// A constant: small ones decimal.
struct Hex(u32);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0 < 256 { write!(f, "{}", self.0) } else { write!(f, "{:#x}", self.0) }
    }
}

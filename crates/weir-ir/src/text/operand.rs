//! The text of an instruction's operands: how each kind of operand is printed and parsed.

use super::error::ParseError;
use super::lexer::{Line, Token};
use super::words::{BINARY, COMPARE, LOAD, META, thing, word};
use crate::graph::{
    BinaryOp, CompareOp, Event, Fuel, Meta, NumberFormat, Out, Pattern, Sequence, Set, Value, Var,
};
use std::fmt::{self, Display, Formatter};

/// The words of a line, which are printed with a space between.
pub(super) struct Words<'a, 'f> {
    f: &'a mut Formatter<'f>,
    begun: bool,
}

impl<'a, 'f> Words<'a, 'f> {
    /// Begins a line.
    pub(super) fn new(f: &'a mut Formatter<'f>) -> Self {
        Self { f, begun: false }
    }

    /// Prints a word, if it is not empty.
    pub(super) fn word(&mut self, word: &str) -> fmt::Result {
        if word.is_empty() { Ok(()) } else { self.print(word) }
    }

    fn print(&mut self, word: impl Display) -> fmt::Result {
        let space = if std::mem::replace(&mut self.begun, true) { " " } else { "" };
        write!(self.f, "{space}{word}")
    }
}

/// An operand in the text of its instruction. `lead` is the word before the operand, or empty.
pub(super) trait Operand: Sized {
    /// Prints the operand and its lead.
    fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result;

    /// Parses the operand and its lead.
    fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError>;
}

/// An operand that is a word, and may be the word of its instruction.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// The words.
    const WORDS: &'static [(Self, &'static str)];
    /// What a word stands for, for messages.
    const STANDS_FOR: &'static str;

    /// Whether a word is one of this kind.
    fn has(text: &str) -> bool {
        thing(Self::WORDS, text).is_some()
    }
}

impl Word for BinaryOp {
    const WORDS: &'static [(Self, &'static str)] = BINARY;
    const STANDS_FOR: &'static str = "arithmetic";
}

impl Word for CompareOp {
    const WORDS: &'static [(Self, &'static str)] = COMPARE;
    const STANDS_FOR: &'static str = "a comparison";
}

impl Word for NumberFormat {
    const WORDS: &'static [(Self, &'static str)] = LOAD;
    const STANDS_FOR: &'static str = "a load";
}

impl Word for Meta {
    const WORDS: &'static [(Self, &'static str)] = META;
    const STANDS_FOR: &'static str = "metadata of packets";
}

/// Prints `lead operand`.
fn print_with(lead: &str, operand: impl Display, words: &mut Words<'_, '_>) -> fmt::Result {
    words.word(lead)?;
    words.print(operand)
}

/// Consumes the lead, which must be next.
fn expect_lead(lead: &str, line: &mut Line) -> Result<(), ParseError> {
    if lead.is_empty() { Ok(()) } else { line.expect(lead) }
}

macro_rules! words {
    ($($kind:ty),*) => {$(
        impl Operand for $kind {
            fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
                print_with(lead, word(Self::WORDS, self), words)
            }

            fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
                expect_lead(lead, line)?;
                let text = line.word(Self::STANDS_FOR)?;
                let missing = || line.error_before(format!("`{text}` is not {}", Self::STANDS_FOR));
                thing(Self::WORDS, &text).ok_or_else(missing)
            }
        }
    )*};
}
words!(BinaryOp, CompareOp, NumberFormat, Meta);

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Operand for $kind {
            fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
                print_with(lead, self, words)
            }

            fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
                expect_lead(lead, line)?;
                line.number()
            }
        }
    )*};
}
numbers!(u32, u64);

macro_rules! ids {
    ($($kind:ident $prefix:literal),*) => {$(
        impl Operand for $kind {
            fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
                print_with(lead, self, words)
            }

            fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
                expect_lead(lead, line)?;
                Ok($kind(line.id($prefix)?))
            }
        }
    )*};
}
ids!(Value "v", Var "var", Sequence "sequence", Event "event");
ids!(Set "set", Pattern "pattern", Out "out", Fuel "fuel");

impl Operand for bool {
    fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
        print_with(lead, self, words)
    }

    fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
        expect_lead(lead, line)?;
        match (line.take("true"), line.take("false")) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(line.expected("`true` or `false`")),
        }
    }
}

/// An operand that may be absent; its lead shows whether it is there.
impl Operand for Option<Value> {
    fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
        self.map_or(Ok(()), |value| value.print(lead, words))
    }

    fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
        line.take(lead).then(|| Value::parse("", line)).transpose()
    }
}

/// A list, `(v1, v2)`. An empty list with a lead is absent.
impl Operand for Vec<Value> {
    fn print(&self, lead: &str, words: &mut Words<'_, '_>) -> fmt::Result {
        if self.is_empty() && !lead.is_empty() {
            return Ok(());
        }
        print_with(lead, format_args!("({})", Separated(self)), words)
    }

    fn parse(lead: &str, line: &mut Line) -> Result<Self, ParseError> {
        let mut values = vec![];
        if !lead.is_empty() && !line.take(lead) {
            return Ok(values);
        }
        line.expect("(")?;
        while !line.take(")") {
            values.push(Value::parse("", line)?);
            if line.peek() != Some(&Token::Mark(")")) {
                line.expect(",")?;
            }
        }
        Ok(values)
    }
}

/// Values separated by commas.
pub(super) struct Separated<'a, T>(pub &'a [T]);

impl<T: Display> Display for Separated<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

//! A value of a batch: [`Cell`], which borrows what does not fit into a word.

use crate::{Timestamp, Value};
use std::fmt::{self, Write as _};
use std::net::IpAddr;

/// A value of a [`Batch`](crate::Batch). The meaning of each variant is that of [`Value`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// The traffic had no such value.
    Absent,
    /// True or false.
    Bool(bool),
    /// An unsigned number.
    Unsigned(u64),
    /// A number with a fraction.
    Fraction(f64),
    /// A point in time.
    Time(Timestamp),
    /// A duration in nanoseconds.
    Interval(u64),
    /// An address.
    Address(IpAddr),
    /// A MAC address.
    Mac([u8; 6]),
    /// Text as captured.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A list of texts.
    Texts(Texts<'a>),
    /// A list of unsigned numbers.
    Numbers(&'a [u64]),
}

/// A list of texts.
#[derive(Clone, Copy)]
pub enum Texts<'a> {
    /// Places in a text.
    Within(&'a [Span], &'a str),
    /// Texts of their own.
    Whole(&'a [String]),
}

/// A place in a text or in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl<'a> Texts<'a> {
    /// Number of texts.
    pub fn len(self) -> usize {
        match self {
            Self::Within(spans, _) => spans.len(),
            Self::Whole(texts) => texts.len(),
        }
    }

    /// Whether the list has no texts.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The text with this index; `None` beyond the last one.
    pub fn get(self, index: usize) -> Option<&'a str> {
        match self {
            Self::Within(spans, text) => spans.get(index).map(|span| span.of_text(text)),
            Self::Whole(texts) => texts.get(index).map(String::as_str),
        }
    }

    /// The last text.
    pub fn last(self) -> Option<&'a str> {
        self.get(self.len().checked_sub(1)?)
    }

    /// All texts, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        (0..self.len()).map(move |index| self.get(index).unwrap_or_default())
    }
}

impl fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Texts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Span {
    pub(crate) fn of_text(self, text: &str) -> &str {
        text.get(self.start as usize..self.start as usize + self.length as usize).unwrap_or_default()
    }

    pub(crate) fn of_bytes(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.start as usize + self.length as usize).unwrap_or_default()
    }
}

impl<'a> Cell<'a> {
    /// Whether there is a value.
    pub fn is_present(self) -> bool {
        !matches!(self, Cell::Absent)
    }

    /// The text; `None` if the value is not a text.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number; `None` if the value is no unsigned number.
    pub fn unsigned(self) -> Option<u64> {
        match self {
            Cell::Unsigned(number) => Some(number),
            _ => None,
        }
    }

    /// The value with borrowed data; only lists of texts are copied.
    pub fn value(self) -> Value<'a> {
        match self {
            Cell::Absent => Value::Absent,
            Cell::Bool(v) => Value::Bool(v),
            Cell::Unsigned(v) => Value::Unsigned(v),
            Cell::Fraction(v) => Value::Fraction(v),
            Cell::Time(v) => Value::Time(v),
            Cell::Interval(v) => Value::Interval(v),
            Cell::Address(v) => Value::Address(v),
            Cell::Mac(v) => Value::Mac(v),
            Cell::Text(v) => Value::Text(v.into()),
            Cell::Bytes(v) => Value::Bytes(v.into()),
            Cell::Texts(Texts::Whole(texts)) => Value::Texts(texts.into()),
            Cell::Texts(texts) => Value::Texts(texts.iter().map(str::to_string).collect()),
            Cell::Numbers(v) => Value::Numbers(v.into()),
        }
    }
}

impl Cell<'_> {
    /// Appends the value as text: numbers in decimal, times in seconds with nine decimals, bytes in
    /// hexadecimal digits, lists joined by commas. Of an absent value, nothing.
    pub fn append_to(self, text: &mut String) {
        /// Nanoseconds per second.
        const SECOND_NS: f64 = 1e9;
        // Writing into a string cannot fail.
        let _ = match self {
            Cell::Absent => Ok(()),
            Cell::Text(v) => {
                text.push_str(v);
                Ok(())
            }
            Cell::Bool(v) => write!(text, "{v}"),
            Cell::Unsigned(v) => write!(text, "{v}"),
            Cell::Fraction(v) => write!(text, "{v:.6}"),
            Cell::Time(v) => write!(text, "{:.9}", v.0 as f64 / SECOND_NS),
            Cell::Interval(ns) => write!(text, "{}", ns as f64 / SECOND_NS),
            Cell::Address(v) => write!(text, "{v}"),
            Cell::Mac([a, b, c, d, e, f]) => {
                write!(text, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Cell::Bytes(v) => v.iter().try_for_each(|byte| write!(text, "{byte:02x}")),
            Cell::Texts(v) => v.iter().enumerate().try_for_each(|(index, element)| {
                write!(text, "{}{element}", if index > 0 { "," } else { "" })
            }),
            Cell::Numbers(v) => v.iter().enumerate().try_for_each(|(index, element)| {
                write!(text, "{}{element}", if index > 0 { "," } else { "" })
            }),
        };
    }
}

impl<'a> From<&'a Value<'_>> for Cell<'a> {
    fn from(value: &'a Value<'_>) -> Self {
        match value {
            Value::Absent => Cell::Absent,
            Value::Bool(v) => Cell::Bool(*v),
            Value::Unsigned(v) => Cell::Unsigned(*v),
            Value::Fraction(v) => Cell::Fraction(*v),
            Value::Time(v) => Cell::Time(*v),
            Value::Interval(v) => Cell::Interval(*v),
            Value::Address(v) => Cell::Address(*v),
            Value::Mac(v) => Cell::Mac(*v),
            Value::Text(v) => Cell::Text(v),
            Value::Bytes(v) => Cell::Bytes(v),
            Value::Texts(v) => Cell::Texts(Texts::Whole(v)),
            Value::Numbers(v) => Cell::Numbers(v),
        }
    }
}

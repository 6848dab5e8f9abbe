//! Records: named, typed values.

use crate::Timestamp;
use std::borrow::Cow;
use std::net::IpAddr;

/// The type of a field or column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// True or false.
    Bool,
    /// An unsigned number.
    Unsigned,
    /// A number with a fraction: a ratio, a rate.
    Fraction,
    /// A point in time.
    Time,
    /// A duration.
    Interval,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An IPv4 or IPv6 address.
    Address,
    /// An IEEE 802 MAC address.
    Mac,
    /// Text; bytes that are not valid UTF-8 are written as `\xe9`.
    Text,
    /// Bytes, written as hexadecimal digits.
    Bytes,
    /// A list of texts.
    Texts,
    /// A list of unsigned numbers.
    Numbers,
}

/// One value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// The traffic had no such value.
    Absent,
    /// True or false.
    Bool(bool),
    /// An unsigned number.
    Unsigned(u64),
    /// A number with a fraction, written with six decimals.
    Fraction(f64),
    /// A point in time.
    Time(Timestamp),
    /// A duration in nanoseconds.
    Interval(u64),
    /// An address.
    Address(IpAddr),
    /// A MAC address.
    Mac([u8; 6]),
    /// Text as captured: a sink escapes characters that its format or a terminal cannot represent.
    Text(Cow<'a, str>),
    /// Bytes, written as lower-case hexadecimal digits.
    Bytes(Cow<'a, [u8]>),
    /// A list of texts.
    Texts(Cow<'a, [String]>),
    /// A list of unsigned numbers.
    Numbers(Cow<'a, [u64]>),
}

/// A named, typed column of a record, or a field that a filter can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name; Zeek's name if Zeek has one.
    pub name: Cow<'static, str>,
    /// The type of its values.
    pub value_type: ValueType,
    /// One line of description, with the unit.
    pub doc: Cow<'static, str>,
}

impl Value<'_> {
    /// The same value, borrowed from this one.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Absent => Value::Absent,
            Value::Bool(b) => Value::Bool(*b),
            Value::Unsigned(n) => Value::Unsigned(*n),
            Value::Fraction(n) => Value::Fraction(*n),
            Value::Time(t) => Value::Time(*t),
            Value::Interval(n) => Value::Interval(*n),
            Value::Address(a) => Value::Address(*a),
            Value::Mac(m) => Value::Mac(*m),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Value::Texts(list) => Value::Texts(Cow::Borrowed(list)),
            Value::Numbers(list) => Value::Numbers(Cow::Borrowed(list)),
        }
    }

    /// The same value with owned data.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Absent => Value::Absent,
            Value::Bool(b) => Value::Bool(b),
            Value::Unsigned(n) => Value::Unsigned(n),
            Value::Fraction(n) => Value::Fraction(n),
            Value::Time(t) => Value::Time(t),
            Value::Interval(ns) => Value::Interval(ns),
            Value::Address(a) => Value::Address(a),
            Value::Mac(m) => Value::Mac(m),
            Value::Text(t) => Value::Text(Cow::Owned(t.into_owned())),
            Value::Bytes(b) => Value::Bytes(Cow::Owned(b.into_owned())),
            Value::Texts(t) => Value::Texts(Cow::Owned(t.into_owned())),
            Value::Numbers(n) => Value::Numbers(Cow::Owned(n.into_owned())),
        }
    }
}

impl Column {
    /// A column known at compile time.
    pub const fn new(name: &'static str, value_type: ValueType, doc: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), value_type, doc: Cow::Borrowed(doc) }
    }

    /// Whether the values are numbers of bytes, by the name.
    pub fn counts_bytes(&self) -> bool {
        let name = &*self.name;
        let is_whole = matches!(name, "bytes" | "size") || name.starts_with("bytes_");
        let has_ending = ["_bytes", "_size", "_body_len"].iter().any(|ending| name.ends_with(ending));
        self.value_type == ValueType::Unsigned && (is_whole || has_ending)
    }
}

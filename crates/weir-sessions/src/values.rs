//! Constructors of [`Value`] for the lines of `session_fields!`. Empty lists, bytes and options become
//! [`Value::Absent`].

use std::borrow::Cow;
use weir_packet::Value;
pub(crate) use weir_packet::readable;

/// Borrowed text.
pub(crate) fn text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Absent, |text| Value::Text(Cow::Borrowed(text)))
}

/// A name from a table.
pub(crate) fn name(name: Option<Cow<'static, str>>) -> Value<'static> {
    name.map_or(Value::Absent, Value::Text)
}

/// Text computed for this value.
pub(crate) fn owned(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}

/// An unsigned number.
pub(crate) fn unsigned<N: Into<u64>>(number: Option<N>) -> Value<'static> {
    number.map_or(Value::Absent, |number| Value::Unsigned(number.into()))
}

pub(crate) fn bytes(bytes: &[u8]) -> Value<'_> {
    if bytes.is_empty() { Value::Absent } else { Value::Bytes(Cow::Borrowed(bytes)) }
}

/// A list of texts.
pub(crate) fn texts(texts: &[String]) -> Value<'_> {
    if texts.is_empty() { Value::Absent } else { Value::Texts(Cow::Borrowed(texts)) }
}

/// A list of texts computed for this value.
pub(crate) fn owned_texts(texts: Vec<String>) -> Value<'static> {
    if texts.is_empty() { Value::Absent } else { Value::Texts(Cow::Owned(texts)) }
}

/// A list of numbers.
pub(crate) fn numbers<N: Copy + Into<u64>>(numbers: &[N]) -> Value<'static> {
    collect_numbers(numbers.iter().copied())
}

/// A list of numbers from an iterator.
pub(crate) fn collect_numbers<N: Into<u64>>(numbers: impl Iterator<Item = N>) -> Value<'static> {
    let numbers: Vec<u64> = numbers.map(Into::into).collect();
    if numbers.is_empty() { Value::Absent } else { Value::Numbers(numbers.into()) }
}

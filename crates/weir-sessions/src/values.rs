//! Short ways to a [`Value`], for the lines of `session_fields!`. What is empty is absent.

use std::borrow::Cow;
use weir_packet::Value;
pub(crate) use weir_packet::readable;

/// Text, where there is some.
pub(crate) fn text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Absent, |text| Value::Text(Cow::Borrowed(text)))
}

/// A name from a table.
pub(crate) fn name(name: Option<Cow<'static, str>>) -> Value<'static> {
    name.map_or(Value::Absent, Value::Text)
}

/// Text that was made for this.
pub(crate) fn owned(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}

/// A number, where there is one.
pub(crate) fn unsigned<N: Into<u64>>(number: Option<N>) -> Value<'static> {
    number.map_or(Value::Absent, |number| Value::Unsigned(number.into()))
}

/// Bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Value<'_> {
    if bytes.is_empty() { Value::Absent } else { Value::Bytes(Cow::Borrowed(bytes)) }
}

/// A list of texts.
pub(crate) fn texts(texts: &[String]) -> Value<'_> {
    if texts.is_empty() { Value::Absent } else { Value::Texts(Cow::Borrowed(texts)) }
}

/// A list of texts that was made for this.
pub(crate) fn owned_texts(texts: Vec<String>) -> Value<'static> {
    if texts.is_empty() { Value::Absent } else { Value::Texts(Cow::Owned(texts)) }
}

/// A list of numbers.
pub(crate) fn numbers<N: Copy + Into<u64>>(numbers: &[N]) -> Value<'static> {
    collect_numbers(numbers.iter().copied())
}

/// Numbers one by one.
pub(crate) fn collect_numbers<N: Into<u64>>(numbers: impl Iterator<Item = N>) -> Value<'static> {
    let numbers: Vec<u64> = numbers.map(Into::into).collect();
    if numbers.is_empty() { Value::Absent } else { Value::Numbers(numbers.into()) }
}

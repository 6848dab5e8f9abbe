//! Short ways to a [`Value`], for the lines of `session_fields!`. What is empty is absent.

use std::borrow::Cow;
use std::fmt::Write;
use weir_packet::Value;

/// Bytes as text. What is no UTF-8 is written as Zeek does: `\xe9`; where that stands there as text, its backslash is
/// `\x5c`, so that what came can be told. Allocates only then.
pub(crate) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.as_bytes().windows(4).any(is_escape) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for (at, letter) in chunk.valid().char_indices() {
            match chunk.valid().as_bytes()[at..].first_chunk::<4>() {
                Some(four) if is_escape(four) => text.push_str("\\x5c"),
                _ => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            // Writing into text does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether these four letters are what a byte is written as.
fn is_escape(four: &[u8]) -> bool {
    matches!(four, [b'\\', b'x', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_can_be_told_from_text() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            ("grün".as_bytes(), "grün"),
            (b"caf\xe9", "caf\\xe9"),
            (b"\xff\xfe", "\\xff\\xfe"),
            (b"caf\\xe9", "caf\\x5cxe9"),
            (b"C:\\xylophone\\x", "C:\\xylophone\\x"),
            (b"\\x41\xe2\x82", "\\x5cx41\\xe2\\x82"),
            (b"", ""),
        ] {
            assert_eq!(readable(bytes), text, "{bytes:?}");
        }
    }
}

//! Bytes in readable form.

use std::borrow::Cow;
use std::fmt::Write;

/// Bytes as text. A byte that is not valid UTF-8 is written as in Zeek: `\xe9`; if the text itself contains such an
/// escape, the backslash is written as `\x5c`, so that the original can be recovered. Allocates only in these cases.
pub fn readable(bytes: &[u8]) -> Cow<'_, str> {
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
            // Writing into a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether these four characters are the escape of a byte.
fn is_escape(four: &[u8]) -> bool {
    matches!(four, [b'\\', b'x', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
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

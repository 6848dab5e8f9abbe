//! Bytes in readable form.

use std::borrow::Cow;
use std::fmt::Write;

/// Bytes as text. A byte that is not valid UTF-8 is written as in Zeek: `\xe9`; if the text itself contains
/// such an escape, the backslash is written as `\x5c`, so that the original can be recovered. Allocates only
/// in these cases.
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

/// Whether a character must not reach a terminal as it is: control characters, and invisible ones that change
/// how the text around them is shown (line separators, marks of the writing direction).
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text in printable form: [hidden](is_hidden) characters become `\n`, `\x1b`, `\u{202e}`. `keeps`:
/// characters that stay as they are. Allocates only if there are others.
pub fn printable<'a>(text: &'a str, keeps: &[char]) -> Cow<'a, str> {
    let is_escaped = |letter: char| is_hidden(letter) && !keeps.contains(&letter);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        // Writing into a string cannot fail.
        let _ = match letter {
            _ if !is_escaped(letter) => shown.write_char(letter),
            '\n' => shown.write_str("\\n"),
            '\r' => shown.write_str("\\r"),
            '\t' => shown.write_str("\\t"),
            _ if letter.is_control() => write!(shown, "\\x{:02x}", u32::from(letter)),
            _ => write!(shown, "\\u{{{:x}}}", u32::from(letter)),
        };
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_cannot_control_a_terminal() {
        for (text, shown) in [
            ("plain é 日本 \\", "plain é 日本 \\"),
            ("a\n\t\r\0", "a\\n\\t\\r\\x00"),
            ("\x1b[31m\x7f\u{9b}2J", "\\x1b[31m\\x7f\\x9b2J"),
            ("\u{202e}gpj.exe\u{2069}", "\\u{202e}gpj.exe\\u{2069}"),
            ("\u{2028}\u{feff}\u{e0041}", "\\u{2028}\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(printable(text, &[]), shown);
            assert!(!printable(text, &[]).contains(is_hidden));
        }
        assert_eq!(printable("a\nb\tc\x1b", &['\n', '\t']), "a\nb\tc\\x1b");
    }

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

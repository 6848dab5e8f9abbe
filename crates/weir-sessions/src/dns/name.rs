//! Domain names (RFC 1035 §3.1 and §4.1.4): labels and compression pointers → text.
//!
//! A pointer may lead forward as well as back: the RFC forbids it, but resolvers accept it. The number of
//! jumps and the length of the name bound the work.

use std::fmt::Write;

/// Maximum length of a name on the wire (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Maximum number of compression pointers per name: the maximum number of its labels.
const JUMPS_MAX: usize = 127;

/// Reads the name at offset `at` of a message. Returns its text with upper and lower case as sent, and the
/// offset of what follows. The root is `.`.
///
/// Valid UTF-8 (RFC 6762 §16) is kept; other bytes and control characters become `\x9f`, a dot within a label
/// `\.`, a backslash `\\`. `None` if the name is too long or truncated, or a pointer is invalid.
pub(super) fn read(message: &[u8], at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let (mut at, mut behind, mut jumps, mut wire_bytes) = (at, None, 0, 1);
    loop {
        let length = usize::from(*message.get(at)?);
        match length >> 6 {
            0 if length == 0 => break,
            0 => {
                let label = message.get(at + 1..at + 1 + length)?;
                wire_bytes += 1 + length;
                if wire_bytes > NAME_BYTES_MAX {
                    return None;
                }
                if !text.is_empty() {
                    text.push('.');
                }
                push_label(&mut text, label);
                at += 1 + length;
            }
            3 => {
                let low = usize::from(*message.get(at + 1)?);
                behind.get_or_insert(at + 2);
                jumps += 1;
                if jumps > JUMPS_MAX {
                    return None;
                }
                at = (length & 0x3f) << 8 | low;
            }
            // Extended and bit-string labels are obsolete (RFC 6891 §5).
            _ => return None,
        }
    }
    if text.is_empty() {
        text.push('.');
    }
    Some((text, behind.unwrap_or(at + 1)))
}

/// The offset after the name at `at`, without following pointers.
pub(super) fn skip(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*message.get(at)?);
        match length >> 6 {
            0 if length == 0 => return Some(at + 1),
            0 => at += 1 + length,
            3 => return message.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
    }
}

fn push_label(text: &mut String, label: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_');
    for chunk in label.utf8_chunks() {
        if chunk.valid().as_bytes().iter().all(is_plain) {
            text.push_str(chunk.valid());
        } else {
            for letter in chunk.valid().chars() {
                match letter {
                    '.' => text.push_str("\\."),
                    '\\' => text.push_str("\\\\"),
                    '\0'..='\x1f' | '\x7f' => push_escaped(text, letter as u8),
                    _ => text.push(letter),
                }
            }
        }
        chunk.invalid().iter().for_each(|byte| push_escaped(text, *byte));
    }
}

/// Bytes as text: UTF-8 as it is, other bytes as `\x9f`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| push_escaped(&mut text, *byte));
    }
    text
}

fn push_escaped(text: &mut String, byte: u8) {
    let _ = write!(text, "\\x{byte:02x}"); // writing to a String never fails
}

/// Decodes a NetBIOS name (RFC 1001 §14.1): 32 letters from A to P encode 16 bytes, padded with spaces. The
/// last byte is the type of service, which is returned beside the name.
pub(crate) fn decode_netbios(label: &[u8]) -> Option<(String, u8)> {
    if label.len() != 32 || !label.iter().all(|letter| (b'a'..=b'p').contains(&letter.to_ascii_lowercase())) {
        return None;
    }
    let nibble = |letter: u8| letter.to_ascii_lowercase() - b'a';
    let decoded: Vec<u8> =
        label.as_chunks::<2>().0.iter().map(|[high, low]| nibble(*high) << 4 | nibble(*low)).collect();
    let end = decoded[..15].iter().rposition(|byte| !matches!(byte, b' ' | 0)).map_or(0, |at| at + 1);
    Some((escape(&decoded[..end]), decoded[15]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(message: &[u8], at: usize) -> Option<(String, usize)> {
        read(message, at)
    }

    #[test]
    fn labels_are_joined_by_dots_and_the_root_is_a_dot() {
        assert_eq!(name(b"\x03www\x07Example\x03com\0rest", 0), Some(("www.Example.com".into(), 17)));
        assert_eq!(name(b"\0", 0), Some((".".into(), 1)));
    }

    #[test]
    fn a_pointer_is_followed_back_and_forward() {
        let message = b"\x03com\0\x01a\xc0\x00\x01b\xc0\x05";
        assert_eq!(name(message, 5), Some(("a.com".into(), 9)));
        assert_eq!(name(message, 9), Some(("b.a.com".into(), 13)));
        assert_eq!(name(b"\xc0\x03\xff\x01a\0", 0), Some(("a".into(), 2)), "forward");
    }

    #[test]
    fn loops_end_and_long_names_are_none() {
        assert_eq!(name(b"\xc0\x00", 0), None, "to itself");
        assert_eq!(name(b"\x01a\xc0\x00", 0), None, "a loop with labels grows too long");
        let mut long = Vec::new();
        for _ in 0..4 {
            long.push(63);
            long.extend([b'x'; 63]);
        }
        long.push(0);
        assert_eq!(name(&long, 0), None);
        assert_eq!(skip(&long, 0), Some(257), "its end is known all the same");
        let almost = [&long[..64 * 3], &[61][..], &[b'x'; 61], &[0]].concat();
        assert_eq!(name(&almost, 0).expect("255 bytes").0.len(), 253);
    }

    #[test]
    fn what_is_cut_is_none() {
        for bytes in [&b""[..], b"\x03ab", b"\x03abc", b"\xc0", b"\x80\x00", b"\xc0\x09"] {
            assert_eq!(name(bytes, 0), None, "{bytes:?}");
        }
        assert_eq!((skip(b"\xc0", 0), skip(b"\x01a", 0), skip(b"\x40", 0)), (None, None, None));
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped_readably() {
        assert_eq!(name(b"\x05a.b\\c\0", 0).expect("whole").0, "a\\.b\\\\c");
        assert_eq!(name(b"\x04a\x00\xffz\0", 0).expect("whole").0, "a\\x00\\xffz");
        assert_eq!(name("\u{9}B\u{f6}b's TV\0".as_bytes(), 0).expect("whole").0, "Böb's TV");
        assert_eq!(escape(b"v=1 \xc3("), "v=1 \\xc3(");
    }

    #[test]
    fn a_netbios_name_is_decoded() {
        let name = "FHEPFCELEHFCEPFFFACACACACACACABL";
        assert_eq!(decode_netbios(name.as_bytes()), Some(("WORKGROUP".into(), 0x1b)));
        assert_eq!(decode_netbios(b"www.example.com"), None);
        assert_eq!(decode_netbios(b"CKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), Some(("*".into(), 0)));
    }
}

//! The header with which a proxy tells a server whose connection it passes on (the PROXY protocol, versions 1
//! and 2, HAProxy, 2020). The connection's own protocol follows.

/// The signature of version 2, without the blank lines with which it begins: those before the first line of a
/// stream may have been skipped, some or all.
const SIGNATURE: &[u8] = b"\0\r\nQUIT\n";

/// Bytes of version 2 behind these lines and before its addresses: signature, version, family, length.
const FIXED_BYTES: usize = 12;

/// Bytes of the addresses and additions of version 2, at most. The usual ones have some hundreds.
const ADDRESS_BYTES_MAX: usize = 2048;

/// The beginning of version 1, and the bytes of its longest line.
const WORD: &[u8] = b"PROXY ";
const LINE_BYTES_MAX: usize = 107;

/// Whether a stream begins with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// No header.
    None,
    /// What is there may be the beginning of one.
    Open,
    /// A header of this length, in bytes.
    Whole(usize),
}

/// The header at the beginning of these first bytes of a stream.
pub(crate) fn find(bytes: &[u8]) -> Front {
    match bytes.first() {
        Some(b'P') => line(bytes),
        Some(0 | b'\r' | b'\n') => binary(bytes),
        _ => Front::None,
    }
}

fn line(bytes: &[u8]) -> Front {
    if !bytes.starts_with(WORD) {
        return if WORD.starts_with(bytes) { Front::Open } else { Front::None };
    }
    let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE_BYTES_MAX { Front::Open } else { Front::None };
    };
    match line[WORD.len()..end].split(|byte| *byte == b' ').next() {
        Some(b"TCP4" | b"TCP6" | b"UNKNOWN") => Front::Whole(end + 2),
        _ => Front::None,
    }
}

fn binary(bytes: &[u8]) -> Front {
    let blank = bytes.iter().take(4).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let behind = &bytes[blank..];
    let Some(fixed) = behind.first_chunk::<FIXED_BYTES>() else {
        let is_open = behind.starts_with(SIGNATURE) || SIGNATURE.starts_with(behind);
        return if is_open { Front::Open } else { Front::None };
    };
    let address_bytes = usize::from(u16::from_be_bytes([fixed[10], fixed[11]]));
    if !fixed.starts_with(SIGNATURE) || fixed[8] >> 4 != 2 || address_bytes > ADDRESS_BYTES_MAX {
        return Front::None;
    }
    let length = blank + FIXED_BYTES + address_bytes;
    if bytes.len() < length { Front::Open } else { Front::Whole(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_are_found_in_any_pieces() {
        let one = b"PROXY TCP6 ::1 ::2 3 4\r\n\x16\x03";
        let two = [b"\r\n\r\n", SIGNATURE, &[0x21, 0x11, 0, 12], &[9; 12], b"GET"].concat();
        for (bytes, length) in [(&one[..], 24), (&two[..], 28), (&two[3..], 25), (&two[4..], 24)] {
            for seen in 1..bytes.len() {
                let expected = if seen < length { Front::Open } else { Front::Whole(length) };
                assert_eq!(find(&bytes[..seen]), expected, "{seen} of {bytes:?}");
            }
        }
        for other in [&b"PROXY HTTP/1.1\r\n"[..], b"POST", b"\0GET", b"\r\nGET", b"GET", b"", &[b'P'; 200]] {
            assert_eq!(find(other), Front::None, "{other:?}");
        }
        let long = [&two[..14], &[0xff, 0xff], &[9; 12]].concat();
        assert_eq!(find(&long), Front::None);
    }
}

//! The header with which proxies and load balancers tell a server whose connection they pass on (the PROXY
//! protocol, versions 1 and 2, HAProxy, 2020). The connection's own protocol follows.

/// The signature of version 2, without the blank lines with which it begins: those before the first line of a
/// stream may have been skipped, some or all.
const SIGNATURE: &[u8] = b"\0\r\nQUIT\n";

/// Bytes of version 2 behind these lines and before its addresses: signature, version, family, length.
const FIXED_BYTES: usize = 12;

/// Bytes of the longest header of version 1.
const LINE_BYTES_MAX: usize = 107;

/// The length in bytes of the header with which these bytes begin. `None`: there is no whole header.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"PROXY ") {
        let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let end = line.windows(2).position(|pair| pair == b"\r\n")?;
        let family = line[6..end].split(|byte| *byte == b' ').next()?;
        return matches!(family, b"TCP4" | b"TCP6" | b"UNKNOWN").then_some(end + 2);
    }
    let bytes_blank = blank(bytes);
    let fixed: &[u8; FIXED_BYTES] = bytes[bytes_blank..].first_chunk()?;
    let length = bytes_blank + FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[10], fixed[11]]));
    (fixed.starts_with(SIGNATURE) && fixed[8] >> 4 == 2 && bytes.len() >= length).then_some(length)
}

/// Whether these bytes, of which there may be more, are the beginning of a signature of version 2.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let behind = &bytes[blank(bytes)..];
    behind.starts_with(SIGNATURE) || SIGNATURE.starts_with(behind)
}

/// The number of bytes of the signature's blank lines that are there.
fn blank(bytes: &[u8]) -> usize {
    bytes.iter().take(4).take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_have_a_length() {
        assert_eq!(length(b"PROXY TCP6 ::1 ::2 3 4\r\n\x16\x03"), Some(24));
        assert_eq!(length(b"PROXY TCP6 ::1 ::2 3 4\r"), None);
        assert_eq!(length(b"PROXY HTTP/1.1\r\n"), None);
        let two = [b"\r\n\r\n", SIGNATURE, &[0x21, 0x11, 0, 12], &[9; 12], b"GET"].concat();
        assert_eq!(length(&two), Some(28));
        assert_eq!(length(&two[..27]), None);
        assert_eq!(length(&two[3..]), Some(25));
        assert!((0..two.len()).all(|length| may_begin(&two[..length])) && !may_begin(b"\0GET"));
    }
}

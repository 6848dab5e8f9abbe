//! The header with which proxies and load balancers tell a server whose connection they pass on (the PROXY
//! protocol, versions 1 and 2, HAProxy, 2020). The connection's own protocol follows.

/// The signature of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of version 2 before its addresses: signature, version, family, length.
const FIXED_BYTES: usize = 16;

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
    let fixed: &[u8; FIXED_BYTES] = bytes.first_chunk()?;
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    (fixed.starts_with(SIGNATURE) && fixed[12] >> 4 == 2 && bytes.len() >= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_have_a_length() {
        assert_eq!(length(b"PROXY TCP6 ::1 ::2 3 4\r\n\x16\x03"), Some(24));
        assert_eq!(length(b"PROXY TCP6 ::1 ::2 3 4\r"), None);
        assert_eq!(length(b"PROXY HTTP/1.1\r\n"), None);
        let two = [SIGNATURE, &[0x21, 0x11, 0, 12], &[9; 12], b"GET"].concat();
        assert_eq!(length(&two), Some(28));
        assert_eq!(length(&two[..27]), None);
    }
}

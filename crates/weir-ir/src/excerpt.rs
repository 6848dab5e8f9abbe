//! The first bytes of a value as a number that fits a record, as [`crate::graph::Op::Excerpt`] defines it.

/// The first eight of `bytes`, big-endian; missing bytes are zeros at the end.
pub fn excerpt(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(word.len());
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_is_the_highest() {
        assert_eq!(excerpt(b""), 0);
        assert_eq!(excerpt(&[1, 2]), 0x0102_0000_0000_0000);
        assert_eq!(excerpt(b"12345678rest"), u64::from_be_bytes(*b"12345678"));
    }
}

//! A cursor over bytes in network byte order: numbers and length-prefixed vectors (the presentation language
//! of TLS, RFC 8446 §3).
//!
//! Every read returns `None` if the bytes run out. The cursor neither panics nor allocates.

/// The unread bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all bytes have been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The unread bytes; does not advance.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `length_bytes` bytes, or all that are left.
    pub(crate) fn take_up_to(&mut self, length_bytes: u16) -> &'a [u8] {
        let (head, tail) = self.0.split_at(self.0.len().min(length_bytes.into()));
        self.0 = tail;
        head
    }

    /// The next `length_bytes` bytes.
    pub(crate) fn take(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length_bytes)?;
        self.0 = tail;
        Some(head)
    }

    /// The next bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    /// A `uint8`.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[a]| a)
    }

    /// A `uint16`.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A `uint24`.
    pub(crate) fn u24(&mut self) -> Option<u32> {
        self.array::<3>().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// A vector with a length of one byte.
    pub(crate) fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// A vector with a length of two bytes.
    pub(crate) fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// A vector with a length of three bytes.
    pub(crate) fn vector24(&mut self) -> Option<&'a [u8]> {
        let length = self.u24()?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// The `uint16`s of a vector, without an odd byte at the end.
pub(crate) fn numbers16(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair))
}

/// Decodes UTF-16LE up to a zero, `units_max` units or the end; invalid units are replaced.
pub(crate) fn read_utf16(bytes: &[u8], units_max: usize) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units.take(units_max).take_while(|unit| *unit != 0))
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_vectors_and_stops_at_the_end() {
        let mut reader = Reader::new(&[1, 7, 0, 2, 8, 9, 0, 0, 1, 5, 0xff]);
        assert_eq!(reader.vector8(), Some(&[7][..]));
        assert_eq!(reader.vector16(), Some(&[8, 9][..]));
        assert_eq!(reader.vector24(), Some(&[5][..]));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.u8(), Some(0xff));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_vector_longer_than_the_bytes_is_none() {
        assert_eq!(Reader::new(&[3, 1, 2]).vector8(), None);
        assert_eq!(Reader::new(&[0xff, 0xff]).vector16(), None);
    }

    #[test]
    fn odd_bytes_are_left_out_and_digits_are_lower_case() {
        assert_eq!(numbers16(&[0x13, 0x01, 0x13]).collect::<Vec<_>>(), [0x1301]);
        assert_eq!(hex(&[0, 0xab, 0x5f]), "00ab5f");
    }
}

//! The Basic Encoding Rules of ASN.1 (X.690), as far as SNMP and Kerberos need them: [`Elements`], and
//! readers of some types.
//!
//! Only [`object`] allocates. A truncated element, or one of indefinite length, ends a list.

use std::fmt::Write;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BITS: u8 = 0x03;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const GENERAL_STRING: u8 = 0x1b;
pub(crate) const SEQUENCE: u8 = 0x30;

/// A sequence of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The elements encoded in `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next element: its one-byte tag and its content. `None` if it is truncated or of indefinite length.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = match *length {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next element; `None` if its tag is another one.
    pub(crate) fn next_of(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
    }
}

/// An integer (X.690 §8.3) of at most eight bytes.
pub(crate) fn integer(content: &[u8]) -> Option<i64> {
    let negative = content.first()? & 0x80 != 0;
    if content.len() > 8 {
        return None;
    }
    Some(content.iter().fold(if negative { -1 } else { 0 }, |sum, byte| sum << 8 | i64::from(*byte)))
}

/// An object identifier as text (X.690 §8.19): `1.3.6.1`. Components are truncated to 32 bits; at most 128
/// are read (RFC 2578 §3.5).
pub(crate) fn object(content: &[u8]) -> String {
    let mut name = String::new();
    let mut part = 0_u32;
    for byte in content.iter().take(5 * 128) {
        part = part << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        // The first byte encodes two components. Writing to a String never fails.
        let _ = match name.is_empty() {
            true => write!(name, "{}.{}", (part / 40).min(2), part - (part / 40).min(2) * 40),
            false => write!(name, ".{part}"),
        };
        part = 0;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_their_parts() {
        assert_eq!(object(&[0x2b, 6, 1, 2, 1]), "1.3.6.1.2.1");
        assert_eq!(object(&[0x2b, 0x81, 0x7f]), "1.3.255");
        assert_eq!(object(&[0x88, 0x37]), "2.999");
        assert_eq!(object(&[]), "");
    }

    #[test]
    fn lengths_of_several_bytes_are_read_and_untold_ones_are_not() {
        let long = [&[4, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(Elements::new(&long).next().map(|element| element.1.len()), Some(256));
        assert_eq!(Elements::new(&long[..259]).next(), None);
        assert_eq!(Elements::new(&[0x30, 0x80, 0, 0]).next(), None);
        assert_eq!((integer(&[0xff]), integer(&[0, 0xff]), integer(&[])), (Some(-1), Some(255), None));
    }
}

//! Decodes the escapes in a request's target, as Zeek logs it.

use crate::files::hex_byte;

/// Decodes `%20`, and `%u0041`, which is in no RFC but in use. Of `%%` the first `%` is dropped; other
/// invalid escapes stay. The result need not be text.
pub(super) fn unescape(target: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(target.len());
    let mut rest = target;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            found.push(*first);
        } else if let Some(byte) = hex_byte(behind) {
            found.push(byte);
            rest = &behind[2..];
        } else if let Some([high, low]) = wide(behind) {
            found.extend((high != 0).then_some(high));
            found.push(low);
            rest = &behind[5..];
        } else if behind.first() != Some(&b'%') {
            found.push(b'%');
        }
    }
    found
}

/// Decodes `u0041` to its two bytes.
fn wide(text: &[u8]) -> Option<[u8; 2]> {
    let digits = text.strip_prefix(b"u")?;
    Some([hex_byte(digits)?, hex_byte(digits.get(2..)?)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_once() {
        for (target, plain) in [
            (&b"/a%20b?c=%41"[..], &b"/a b?c=A"[..]),
            (b"/%25%32%30", b"/%20"),
            (b"/%252e%252e", b"/%2e%2e"),
            (b"/caf%e9", b"/caf\xe9"),
            (b"/%u0041%u20ac", b"/A\x20\xac"),
            (b"/100%", b"/100%"),
            (b"/100%4", b"/100%4"),
            (b"/%zz%u00", b"/%zz%u00"),
            (b"/%%41", b"/A"),
            (b"%", b"%"),
            (b"", b""),
        ] {
            assert_eq!(unescape(target), plain, "{}", String::from_utf8_lossy(target));
        }
    }
}

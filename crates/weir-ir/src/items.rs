//! Lists of items as IP's options are, as [`crate::graph::Op::ItemsFit`] defines them.

/// Whether `offset .. offset + length` of `bytes` are a list of items (RFC 791, section 3.1); also true if
/// the range exceeds `bytes`.
pub fn items_fit(bytes: &[u8], offset: u64, length: u64) -> bool {
    let part = || {
        let end = offset.checked_add(length)?;
        bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    };
    let Some(mut rest) = part() else { return true };
    loop {
        rest = match rest {
            [] | [0, ..] => return true,
            [1, rest @ ..] => rest,
            [_, length, ..] if *length >= 2 && usize::from(*length) <= rest.len() => {
                &rest[usize::from(*length)..]
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_fill_their_range_or_end_before() {
        for (items, wanted) in [
            (&b""[..], true),
            (b"\x01\x01\x00\x83", true),
            (b"\x94\x04\x00\x00", true),
            (b"\x94\x05\x00\x00", false),
            (b"\x94\x01\x00\x00", false),
            (b"\x01\x01\x01\x94", false),
        ] {
            let bytes = [b"head", items, b"tail"].concat();
            assert_eq!(items_fit(&bytes, 4, items.len() as u64), wanted, "{items:?}");
        }
        assert!(items_fit(b"\x94", 0, 2) && items_fit(b"", u64::MAX, 1), "not all there");
    }
}

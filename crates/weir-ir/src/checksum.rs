//! The one's complement sum of Internet checksums (RFC 1071), as [`crate::graph::Op::Sum16`] defines it.

/// The sum of `first` and `offset .. offset + length` of `bytes`; 0 if the range exceeds `bytes`.
pub fn sum16(bytes: &[u8], offset: u64, length: u64, first: u64) -> u64 {
    let part = || {
        let end = offset.checked_add(length)?;
        bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    };
    // Folding `first` once leaves room for the carries of the sum.
    part().map_or(0, |bytes| fold((first & 0xffff_ffff) + (first >> 32) + sum(bytes)))
}

/// Adds the carries until none remains.
fn fold(mut sum: u64) -> u64 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Adds four 16-bit words at a time in the machine's byte order. A carry out of one word enters the next, so
/// byte order only affects the byte order of the result (RFC 1071, section 2). At most 2^32 words fit the
/// sum.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    let all: u64 =
        words.map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let folded = fold(all + u64::from(u32::from_ne_bytes(last)));
    u64::from(u16::from_be_bytes((folded as u16).to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference algorithm of RFC 1071.
    fn slow(bytes: &[u8]) -> u64 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(sum16(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0, 8, 0), 0xddf2);
    }

    #[test]
    fn any_bytes_at_any_place_and_of_any_number() {
        let bytes: Vec<u8> = (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (offset, length) in
            (0..70).flat_map(|offset| (0..70).map(move |length| (offset, length * 37 + offset % 4)))
        {
            assert_eq!(sum16(&bytes, offset, length, 0), slow(&bytes[offset as usize..][..length as usize]));
        }
        assert_eq!(sum16(&[0xff; 65536], 0, 65536, 0), 0xffff);
    }

    #[test]
    fn a_number_comes_to_it() {
        assert_eq!(sum16(&[], 0, 0, 0x1_ffff), 1, "what carries out comes in at the other end");
        assert_eq!(sum16(&[0, 3], 0, 2, u64::MAX), 3, "all ones are as nothing");
        assert_eq!(sum16(&[], 0, 0, u64::MAX), 0xffff);
        assert_eq!(sum16(&[0x12, 0x34], 0, 2, 0x1111), 0x2345);
    }

    #[test]
    fn what_is_not_all_there_has_no_sum() {
        assert_eq!(sum16(&[1, 2, 3], 0, 4, 0), 0);
        assert_eq!(sum16(&[1, 2, 3], 4, 0, 0), 0);
        assert_eq!(sum16(&[1, 2, 3], u64::MAX, 2, 0), 0);
        assert_eq!(sum16(&[1, 2, 3], 1, u64::MAX, 0), 0);
        assert_eq!(sum16(&[1, 2, 3], 3, 0, 0), 0);
        assert_eq!(sum16(&[0, 0, 0], 0, 3, 0), 0);
    }
}

//! The Huffman code of HPACK (RFC 7541 §5.2, appendix B). The code is canonical: code lengths determine it.

/// Code length of each byte, and of the end-of-string symbol (256).
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

const LENGTH_MAX: usize = 30;
const END_OF_STRING: u16 = 256;

/// The codes in order of length.
struct Code {
    /// The first code of each length.
    first: [u32; LENGTH_MAX + 1],
    /// Number of codes of each length.
    count: [u32; LENGTH_MAX + 1],
    /// Index of the first symbol of each length.
    offset: [u32; LENGTH_MAX + 1],
    symbols: [u16; 257],
}

const CODE: Code = order_codes();

const fn order_codes() -> Code {
    let mut code = Code {
        first: [0; LENGTH_MAX + 1],
        count: [0; LENGTH_MAX + 1],
        offset: [0; LENGTH_MAX + 1],
        symbols: [0; 257],
    };
    let (mut length, mut next, mut at) = (1, 0, 0);
    while length <= LENGTH_MAX {
        next <<= 1;
        code.first[length] = next;
        code.offset[length] = at;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                code.symbols[at as usize] = symbol as u16;
                code.count[length] += 1;
                at += 1;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code
}

/// Decodes `bytes` and appends the result to `out`, at most 8/5 of their number. `None` if the code is
/// invalid: it contains the end-of-string symbol, or its padding is not all ones.
pub(super) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    const TABLE: &Code = &CODE;
    let (mut code, mut length) = (0_u32, 0_usize);
    for byte in bytes {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            length += 1;
            let index = code.wrapping_sub(TABLE.first[length]);
            if index < TABLE.count[length] {
                let symbol = TABLE.symbols[(TABLE.offset[length] + index) as usize];
                if symbol == END_OF_STRING {
                    return None;
                }
                out.push(symbol as u8);
                (code, length) = (0, 0);
            } else if length == LENGTH_MAX {
                return None;
            }
        }
    }
    // Padding is a prefix of the end-of-string symbol, shorter than a byte (§5.2).
    (length < 8 && code == (1 << length) - 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        decode(bytes, &mut out)?;
        Some(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn strings_of_rfc_7541_are_read() {
        let bytes = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&bytes).as_deref(), Some("www.example.com"), "C.4.1");
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some("no-cache"), "C.4.2");
        assert_eq!(decoded(&[]).as_deref(), Some(""));
    }

    #[test]
    fn padding_is_ones_and_short() {
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbe]), None);
        assert_eq!(decoded(&[0xff]), None, "a whole byte of it");
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None, "the end of string");
    }
}

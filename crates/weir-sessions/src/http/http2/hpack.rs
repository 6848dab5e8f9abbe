//! HPACK (RFC 7541): decodes header blocks to names and values.
//!
//! Names and values in the dynamic table are shared, not copied, so the cost of a block is linear in its own
//! length, even if it refers to long entries many times. The table follows the encoder's size updates up to
//! [`TABLE_BYTES_MAX`], since the settings of the other side are not tracked.

use super::huffman;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum size of the dynamic table, as RFC 7541 §4.1 counts it. Most encoders use 4096 bytes.
pub(super) const TABLE_BYTES_MAX: usize = 64 * 1024;

/// Initial size of the dynamic table (RFC 9113 §6.5.2).
const TABLE_BYTES_DEFAULT: usize = 4096;

/// Overhead of an entry besides its name and value (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

/// A name or a value.
#[derive(Debug, Clone)]
pub(super) enum Text {
    Static(&'static str),
    Shared(Arc<[u8]>),
    /// Of an entry from before the first block that was seen.
    Unknown,
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(text) => text.as_bytes(),
            Self::Shared(bytes) => bytes,
            Self::Unknown => &[],
        }
    }
}

/// An entry from before the first block that was seen.
static UNKNOWN: (Text, Text) = (Text::Unknown, Text::Unknown);

/// The block violates RFC 7541, or refers to an entry that was not kept. Later blocks cannot be decoded
/// either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The decoder of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    entries: VecDeque<(Text, Text)>,
    size_bytes: usize,
    limit_bytes: usize,
    /// Whether the encoder may have older entries, which were not seen.
    has_older: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size_bytes: 0, limit_bytes: TABLE_BYTES_DEFAULT, has_older: false }
    }
}

impl Decoder {
    /// A decoder whose encoder has sent blocks that were not seen. The names and values of their entries are
    /// unknown, and so is the limit of the table. The largest limit does no harm: an encoder refers to no
    /// entry that it has evicted.
    pub(super) fn in_the_middle() -> Self {
        Self { limit_bytes: TABLE_BYTES_MAX, has_older: true, ..Self::default() }
    }

    /// Decodes a complete block; passes names and values that are known to `emit`, in order.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut emit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Unreadable> {
        let mut emit = |name: &Text, value: &Text| {
            if !matches!((name, value), (Text::Unknown, _) | (_, Text::Unknown)) {
                emit(name.bytes(), value.bytes());
            }
        };
        let mut rest = block;
        while let Some(first) = rest.first() {
            match first {
                0x80.. => {
                    let index = read_integer(&mut rest, 7)?;
                    let (name, value) = self.entry(index)?;
                    emit(name, value);
                }
                0x40.. => {
                    let (name, value) = self.read_literal(&mut rest, 6)?;
                    emit(&name, &value);
                    self.insert(name, value);
                }
                0x20.. => {
                    let limit = read_integer(&mut rest, 5)?;
                    self.limit_bytes = limit.min(TABLE_BYTES_MAX);
                    self.evict(0);
                }
                _ => {
                    let (name, value) = self.read_literal(&mut rest, 4)?;
                    emit(&name, &value);
                }
            }
        }
        Ok(())
    }

    fn read_literal(&self, rest: &mut &[u8], prefix_bits: u32) -> Result<(Text, Text), Unreadable> {
        let name = match read_integer(rest, prefix_bits)? {
            0 => read_string(rest)?,
            index => self.entry(index)?.0.clone(),
        };
        Ok((name, read_string(rest)?))
    }

    fn entry(&self, index: usize) -> Result<(&Text, &Text), Unreadable> {
        let index = index.checked_sub(1).ok_or(Unreadable)?;
        match STATIC.get(index) {
            Some((name, value)) => Ok((name, value)),
            None => {
                let index = index - STATIC.len();
                let is_older = self.has_older && index < TABLE_BYTES_MAX / ENTRY_BYTES;
                let entry = self.entries.get(index).or(is_older.then_some(&UNKNOWN)).ok_or(Unreadable)?;
                Ok((&entry.0, &entry.1))
            }
        }
    }

    fn insert(&mut self, name: Text, value: Text) {
        let size = name.bytes().len() + value.bytes().len() + ENTRY_BYTES;
        self.evict(size);
        if size <= self.limit_bytes {
            self.size_bytes += size;
            self.entries.push_front((name, value));
        }
    }

    /// Evicts entries until `more_bytes` fit (RFC 7541 §4.3, §4.4).
    fn evict(&mut self, more_bytes: usize) {
        while self.size_bytes + more_bytes > self.limit_bytes {
            let Some((name, value)) = self.entries.pop_back() else { return };
            self.size_bytes -= name.bytes().len() + value.bytes().len() + ENTRY_BYTES;
        }
    }
}

/// Reads an integer with a prefix of `prefix_bits` bits (RFC 7541 §5.1).
fn read_integer(rest: &mut &[u8], prefix_bits: u32) -> Result<usize, Unreadable> {
    let (first, mut tail) = rest.split_first().ok_or(Unreadable)?;
    let mask = (1_u32 << prefix_bits) - 1;
    let mut value = u32::from(*first) & mask;
    if value == mask {
        for shift in [0, 7, 14, 21] {
            let (byte, after) = tail.split_first().ok_or(Unreadable)?;
            tail = after;
            value += u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *rest = tail;
                return Ok(value as usize);
            }
        }
        return Err(Unreadable);
    }
    *rest = tail;
    Ok(value as usize)
}

/// Reads a string literal (RFC 7541 §5.2).
fn read_string(rest: &mut &[u8]) -> Result<Text, Unreadable> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = read_integer(rest, 7)?;
    let (bytes, tail) = rest.split_at_checked(length).ok_or(Unreadable)?;
    *rest = tail;
    if !is_huffman {
        return Ok(Text::Shared(bytes.into()));
    }
    let mut decoded = Vec::with_capacity(bytes.len() * 8 / 5);
    huffman::decode(bytes, &mut decoded).ok_or(Unreadable)?;
    Ok(Text::Shared(decoded.into()))
}

macro_rules! table {
    ($($name:literal $value:literal,)*) => { &[$((Text::Static($name), Text::Static($value)),)*] };
}

/// The static table (RFC 7541 appendix A).
static STATIC: &[(Text, Text)] = table![
    ":authority" "",
    ":method" "GET",
    ":method" "POST",
    ":path" "/",
    ":path" "/index.html",
    ":scheme" "http",
    ":scheme" "https",
    ":status" "200",
    ":status" "204",
    ":status" "206",
    ":status" "304",
    ":status" "400",
    ":status" "404",
    ":status" "500",
    "accept-charset" "",
    "accept-encoding" "gzip, deflate",
    "accept-language" "",
    "accept-ranges" "",
    "accept" "",
    "access-control-allow-origin" "",
    "age" "",
    "allow" "",
    "authorization" "",
    "cache-control" "",
    "content-disposition" "",
    "content-encoding" "",
    "content-language" "",
    "content-length" "",
    "content-location" "",
    "content-range" "",
    "content-type" "",
    "cookie" "",
    "date" "",
    "etag" "",
    "expect" "",
    "expires" "",
    "from" "",
    "host" "",
    "if-match" "",
    "if-modified-since" "",
    "if-none-match" "",
    "if-range" "",
    "if-unmodified-since" "",
    "last-modified" "",
    "link" "",
    "location" "",
    "max-forwards" "",
    "proxy-authenticate" "",
    "proxy-authorization" "",
    "range" "",
    "referer" "",
    "refresh" "",
    "retry-after" "",
    "server" "",
    "set-cookie" "",
    "strict-transport-security" "",
    "transfer-encoding" "",
    "user-agent" "",
    "vary" "",
    "via" "",
    "www-authenticate" "",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|letter| letter.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn decoded(decoder: &mut Decoder, hex: &str) -> Result<Vec<String>, Unreadable> {
        let mut list = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(&bytes(hex), |name, value| list.push(format!("{}: {}", text(name), text(value))))?;
        Ok(list)
    }

    #[test]
    fn the_requests_of_rfc_7541_c_4_are_read() {
        let mut decoder = Decoder::default();
        let first = decoded(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff").expect("readable");
        assert_eq!(first, [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"]);
        assert_eq!(decoder.size_bytes, 57);
        let second = decoded(&mut decoder, "8286 84be 5886 a8eb 1064 9cbf").expect("readable");
        assert_eq!(second[3..], [":authority: www.example.com", "cache-control: no-cache"]);
        let third = decoded(&mut decoder, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")
            .expect("readable");
        assert_eq!(third[4..], ["custom-key: custom-value"]);
        assert_eq!((decoder.size_bytes, decoder.entries.len()), (164, 3));
    }

    #[test]
    fn a_smaller_table_forgets_the_oldest() {
        let mut decoder = Decoder::default();
        decoded(&mut decoder, "4001 61 01 62 4001 63 01 64").expect("readable");
        assert_eq!(decoder.entries.len(), 2);
        decoded(&mut decoder, "3f 04").expect("a limit of 35");
        assert_eq!(decoded(&mut decoder, "be").expect("the newest"), ["c: d"]);
        assert_eq!(decoded(&mut decoder, "bf"), Err(Unreadable));
        decoded(&mut decoder, "20").expect("a limit of 0");
        assert_eq!(decoder.size_bytes, 0);
    }

    #[test]
    fn the_table_is_bounded_whatever_is_said() {
        let mut decoder = Decoder::default();
        decoded(&mut decoder, "3f e1 ff ff 07").expect("a limit of 16 MiB");
        let mut block = vec![0x40, 0, 0x7f, 0xa1, 0xff, 0x01]; // An empty name, a value of 32 800 bytes.
        block.resize(block.len() + 32_800, b'x');
        for _ in 0..4 {
            decoder.decode(&block, |_, _| {}).expect("readable");
            assert!(decoder.size_bytes <= TABLE_BYTES_MAX);
        }
    }

    #[test]
    fn broken_blocks_are_told() {
        for hex in ["80", "ff ff ff ff ff 0f", "40 05 61", "00", "be", "41"] {
            assert_eq!(decoded(&mut Decoder::default(), hex), Err(Unreadable), "{hex}");
        }
    }
}

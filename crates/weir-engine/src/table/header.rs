//! Times and key of a flow. The engine stores them in front of the program's variables.

use super::Birth;
use std::fmt;
use std::ops::Deref;
use weir_ir::key::KEY_WORDS_MAX;

/// Longest key that is copied without an allocation, in words.
const SHORT_WORDS: usize = 5;

/// Times and key of a flow. In a flow table, the header has room for exactly the words of the table's keys.
/// [`OwnedHeader`] is a copy of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Header<K: ?Sized = [u64]> {
    /// Time of its last packet, nanoseconds since 1970.
    pub last_time: i64,
    /// Time of its first packet.
    pub first_time: i64,
    /// Number of its first packet in the run, from 1.
    pub first_packet: u64,
    /// Time-out for which its timer was last set, milliseconds; the table doesn't touch it.
    pub armed_ms: u32,
    /// The originator is the second side of the key.
    pub swap: bool,
    pub(super) live: bool,
    /// Words of the key.
    key_words: u8,
    /// The flow is in its worker's list of [holders](crate::holders::Holders).
    pub(crate) is_holder: bool,
    words: K,
}

/// Bytes of a header before its key. With a key of five words, 56 bytes of variables fill two cache lines.
pub(super) const FIXED_BYTES: usize = 32;
const _: () =
    assert!(size_of::<Header<[u64; 5]>>() == FIXED_BYTES + 40 && align_of::<Header<[u64; 5]>>() == 8);
const _: () = assert!(std::mem::offset_of!(Header<[u64; 5]>, words) == FIXED_BYTES);

impl Header {
    /// The words of the key, laid out by the table's [`KeyLayout`](weir_ir::key::KeyLayout).
    #[inline]
    pub fn key(&self) -> &[u64] {
        &self.words[..usize::from(self.key_words).min(self.words.len())]
    }

    /// All words that the header has room for, used or not.
    #[inline(always)]
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Writes the key.
    ///
    /// # Panics
    /// If the header has no room for the key.
    #[inline]
    pub(super) fn set_key(&mut self, key: &[u64]) {
        self.words[..key.len()].copy_from_slice(key);
        self.key_words = key.len() as u8;
    }

    /// Initialises the header of a new flow.
    #[inline]
    pub(super) fn begin(&mut self, key: &[u64], birth: Birth) {
        self.set_key(key);
        self.last_time = birth.time;
        self.first_time = birth.time;
        self.first_packet = birth.packet;
        self.armed_ms = 0;
        self.swap = birth.swap;
        self.live = true;
        self.is_holder = false;
    }

    /// Copies the values of another header, whose key must not be longer than the room in this one.
    pub(super) fn copy_from(&mut self, other: &Header) {
        let birth = Birth { time: other.first_time, packet: other.first_packet, swap: other.swap };
        self.begin(other.key(), birth);
        self.last_time = other.last_time;
        self.armed_ms = other.armed_ms;
        self.live = other.live;
        self.is_holder = other.is_holder;
    }
}

impl<const WORDS: usize> Header<[u64; WORDS]> {
    const EMPTY: Self = Self {
        last_time: 0,
        first_time: 0,
        first_packet: 0,
        armed_ms: 0,
        swap: false,
        live: false,
        key_words: 0,
        is_holder: false,
        words: [0; WORDS],
    };
}

/// A copy of a flow's header. Allocates only for keys of more than five words.
#[derive(Clone)]
pub struct OwnedHeader(Held);

#[derive(Clone)]
enum Held {
    Short(Header<[u64; SHORT_WORDS]>),
    Long(Box<Header<[u64; KEY_WORDS_MAX]>>),
}

impl OwnedHeader {
    /// An empty header with room for `words` words of key.
    fn with_room(words: usize) -> Self {
        Self(match words {
            0..=SHORT_WORDS => Held::Short(Header::EMPTY),
            _ => Held::Long(Box::new(Header::EMPTY)),
        })
    }

    fn header_mut(&mut self) -> &mut Header {
        match &mut self.0 {
            Held::Short(header) => header,
            Held::Long(header) => &mut **header,
        }
    }

    /// Bytes of memory besides the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Held::Short(_) => 0,
            Held::Long(header) => size_of_val(&**header),
        }
    }

    /// A header of a flow that is not in a table.
    pub(crate) fn born(key: &[u64], birth: Birth) -> Self {
        let mut owned = Self::with_room(key.len());
        owned.header_mut().begin(key, birth);
        owned
    }
}

impl From<&Header> for OwnedHeader {
    fn from(header: &Header) -> Self {
        let mut owned = Self::with_room(header.key().len());
        owned.header_mut().copy_from(header);
        owned
    }
}

impl Deref for OwnedHeader {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        match &self.0 {
            Held::Short(header) => header,
            Held::Long(header) => &**header,
        }
    }
}

impl fmt::Debug for OwnedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_key_of_what_it_was_made_from() {
        for words in [0, 1, 5, 6, KEY_WORDS_MAX] {
            let key: Vec<u64> = (1..=words as u64).collect();
            let birth = Birth { time: 7, packet: 3, swap: true };
            let header = OwnedHeader::born(&key, birth);
            let copy = OwnedHeader::from(&*header);
            assert_eq!(copy.key(), key);
            assert_eq!((copy.first_time, copy.last_time, copy.first_packet, copy.swap), (7, 7, 3, true));
        }
    }
}

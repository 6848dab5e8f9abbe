//! The texts behind the keyed hashes that stand for them in keys and values.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::budget::BLOCK_BYTES;

/// Bytes of an entry beside its text, with the free places of the map.
const ENTRY_BYTES: u64 = 64 + BLOCK_BYTES;

/// Texts by their 128-bit keyed hash. Texts stay: those of groups that end are needed again, or make room for no others.
#[derive(Debug)]
pub struct Texts {
    texts: HashMap<u128, Box<[u8]>, BuildHasherDefault<Half>>,
    bytes: u64,
    entries_max: usize,
    bytes_max: u64,
    refused: u64,
}

impl Texts {
    /// An empty dictionary for at most `entries_max` texts, and `bytes_max` bytes with their entries.
    pub fn new(entries_max: usize, bytes_max: u64) -> Self {
        Self { texts: HashMap::default(), bytes: 0, entries_max, bytes_max, refused: 0 }
    }

    /// Adds a text, unless it is known. The hash is keyed with a secret, so that nobody can choose texts with the same hash.
    pub fn insert(&mut self, hash: [u64; 2], text: &[u8]) {
        let hash = joined(hash);
        if self.texts.contains_key(&hash) {
            return;
        }
        let bytes = text.len() as u64 + ENTRY_BYTES;
        if self.texts.len() >= self.entries_max || self.bytes.saturating_add(bytes) > self.bytes_max {
            self.refused += 1;
            return;
        }
        self.bytes += bytes;
        self.texts.insert(hash, text.into());
    }

    /// The text of a hash, unless there was no room for it.
    pub fn text(&self, hash: [u64; 2]) -> Option<&[u8]> {
        self.texts.get(&joined(hash)).map(|text| &**text)
    }

    /// Adds the texts of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (hash, text) in &other.texts {
            self.insert([*hash as u64, (hash >> 64) as u64], text);
        }
        self.refused += other.refused;
    }

    /// How often a text did not fit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of all texts and their entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn joined(hash: [u64; 2]) -> u128 {
    u128::from(hash[0]) | u128::from(hash[1]) << 64
}

/// The hash of a hash: its lower half.
#[derive(Debug, Default)]
struct Half(u64);

impl Hasher for Half {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_both_bounds_hold() {
        let mut texts = Texts::new(2, 2 * ENTRY_BYTES + 10);
        texts.insert([1, 2], b"a.example");
        texts.insert([1, 2], b"a.example");
        texts.insert([1, 3], b"too long");
        assert_eq!(
            (texts.text([1, 2]), texts.text([1, 3]), texts.refused()),
            (Some(&b"a.example"[..]), None, 1)
        );
        texts.insert([2, 2], b"b");
        texts.insert([3, 3], b"");
        assert_eq!((texts.text([2, 2]), texts.text([3, 3]), texts.refused()), (Some(&b"b"[..]), None, 2));
        assert_eq!(texts.bytes(), 2 * ENTRY_BYTES + 10);
    }

    #[test]
    fn merged_texts_are_those_of_both_workers() {
        let (mut one, mut two) = (Texts::new(2, 1 << 20), Texts::new(1, 1 << 20));
        one.insert([1, 1], b"one");
        two.insert([2, 2], b"two");
        two.insert([3, 3], b"three");
        one.merge(&two);
        assert_eq!((one.text([1, 1]), one.text([2, 2])), (Some(&b"one"[..]), Some(&b"two"[..])));
        assert_eq!(one.refused(), 1);
    }
}

//! The texts behind the keyed hashes that stand for them in keys and values.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::budget::BLOCK_BYTES;

/// Bytes of an entry beside its text, with the free places of the map.
const ENTRY_BYTES: u64 = 64 + BLOCK_BYTES;

type Map = HashMap<u128, Box<[u8]>, BuildHasherDefault<Half>>;

/// Texts by their 128-bit keyed hash. Those that were not inserted for two [turns](Texts::turn) are
/// forgotten, so that a run without end has room for new ones.
#[derive(Debug)]
pub struct Texts {
    /// Texts that were inserted since the last turn.
    recent: Map,
    /// Texts that were inserted in the turn before.
    earlier: Map,
    bytes: u64,
    entries_max: usize,
    bytes_max: u64,
    refused: u64,
}

impl Texts {
    /// An empty dictionary for at most `entries_max` texts, and `bytes_max` bytes with their entries.
    pub fn new(entries_max: usize, bytes_max: u64) -> Self {
        let (recent, earlier) = (Map::default(), Map::default());
        Self { recent, earlier, bytes: 0, entries_max, bytes_max, refused: 0 }
    }

    /// Adds a text, unless it is known. The hash is keyed with a secret, so that nobody can choose texts with
    /// the same hash.
    pub fn insert(&mut self, hash: [u64; 2], text: &[u8]) {
        let hash = joined(hash);
        if self.recent.contains_key(&hash) {
            return;
        }
        if let Some(text) = self.earlier.remove(&hash) {
            self.recent.insert(hash, text);
            return;
        }
        let bytes = text.len() as u64 + ENTRY_BYTES;
        let entries = self.recent.len() + self.earlier.len();
        if entries >= self.entries_max || self.bytes.saturating_add(bytes) > self.bytes_max {
            self.refused += 1;
            return;
        }
        self.bytes += bytes;
        self.recent.insert(hash, text.into());
    }

    /// Forgets the texts that were inserted neither since the last turn nor in the turn before.
    pub fn turn(&mut self) {
        let forgotten = std::mem::replace(&mut self.earlier, std::mem::take(&mut self.recent));
        self.bytes -= forgotten.values().map(|text| text.len() as u64 + ENTRY_BYTES).sum::<u64>();
    }

    /// The text of a hash, unless there was no room for it.
    pub fn text(&self, hash: [u64; 2]) -> Option<&[u8]> {
        let hash = joined(hash);
        self.recent.get(&hash).or_else(|| self.earlier.get(&hash)).map(|text| &**text)
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
    fn texts_that_are_not_inserted_any_more_are_forgotten() {
        let mut texts = Texts::new(2, 1 << 20);
        texts.insert([1, 1], b"kept");
        texts.insert([2, 2], b"gone");
        texts.turn();
        texts.insert([1, 1], b"kept");
        assert_eq!(texts.text([2, 2]), Some(&b"gone"[..]), "it was inserted in the turn before");
        texts.insert([3, 3], b"no room");
        texts.turn();
        texts.insert([3, 3], b"room");
        let found = [[1, 1], [2, 2], [3, 3]].map(|hash| texts.text(hash));
        assert_eq!(found, [Some(&b"kept"[..]), None, Some(&b"room"[..])]);
        assert_eq!((texts.refused(), texts.bytes()), (1, 2 * ENTRY_BYTES + 8));
        (0..2).for_each(|_| texts.turn());
        assert_eq!(texts.bytes(), 0);
    }
}

//! The key of packets, and the number of a packet's key.

use crate::values::{Part, Place, fill, words_of};
use weir_compile::PacketValue;
use weir_io::udp::hash;

/// The key of packets.
#[derive(Debug, Clone)]
pub struct PacketKey {
    pub(super) parts: Vec<Part>,
    /// Number of words that stand for one end of a connection: those of the other end follow, and the order
    /// of both does not matter.
    pub(super) end_words: usize,
}

/// A key, and the places of its fields in the record of a program.
#[derive(Debug)]
pub(crate) struct PlacedKey {
    places: Vec<Place>,
    words: usize,
    end_words: usize,
}

impl PlacedKey {
    pub fn of(key: &PacketKey, values: &[PacketValue]) -> Self {
        let places = key.parts.iter().map(|part| Place::of(part, values)).collect();
        Self { places, words: words_of(&key.parts), end_words: key.end_words }
    }

    /// The number of a packet with this record. Fields that the packet does not have count as absent,
    /// whatever the others are.
    pub fn number(&self, outs: &[u64]) -> u64 {
        /// Words of keys that need no memory of their own.
        const USUAL: usize = 16;
        let (mut usual, mut long);
        let words: &mut [u64] = if self.words <= USUAL {
            usual = [0; USUAL];
            &mut usual[..self.words]
        } else {
            long = vec![0; self.words];
            &mut long
        };
        let present = fill(&self.places, words, outs);
        let (ends, rest) = words.split_at(2 * self.end_words);
        let (mut one, mut other) = ends.split_at(self.end_words);
        if one > other {
            (one, other) = (other, one);
        }
        [one, other, rest].into_iter().flatten().fold(present, |before, word| hash(before, *word))
    }
}

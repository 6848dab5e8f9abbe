//! The key of a packet: fields of packets as one number. Packets with equal fields have equal numbers, in
//! every run and on every machine, so that a front end sends them to the same instance
//! ([`Balance`](weir_io::udp::Balance)). `packet_key_plan` makes the key of its text.

use super::key_ends::KeyEnds;
use crate::rows::values::{Part, Place, fill, words_of};
use weir_compile::PacketValue;
use weir_io::udp::hash;

/// The key of packets.
#[derive(Debug, Clone)]
pub struct PacketKey {
    pub(super) parts: Vec<Part>,
    /// The ends of a connection, whose order does not matter.
    pub(super) ends: Option<KeyEnds>,
}

/// A key, and the places of its fields in the record of a program.
#[derive(Debug)]
pub(crate) struct PlacedKey {
    places: Vec<Place>,
    words: usize,
    ends: Option<KeyEnds>,
}

impl PlacedKey {
    pub fn of(key: &PacketKey, values: &[PacketValue]) -> Self {
        let places = key.parts.iter().map(|part| Place::of(part, values)).collect();
        Self { places, words: words_of(&key.parts), ends: key.ends.clone() }
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
        let mut present = fill(&self.places, words, outs);
        if let Some(ends) = &self.ends {
            ends.order(words, &mut present);
        }
        words.iter().fold(present, |before, word| hash(before, *word))
    }
}

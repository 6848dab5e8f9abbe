//! The layout of flow keys: the parts of a table's keys, and the place of each part in the key's words.
//!
//! Lowering declares the layout with the table ([`TableDecl::key`](crate::graph::TableDecl::key)), and the
//! text of a graph shows it. The engine, subscribers and rows read the addresses and ports of a key through
//! its layout.
//!
//! # Packing
//! The parts follow one another. A part of more than 64 bits begins a new word and takes as many words as it
//! needs, the most significant word first, padded with leading zeros. A part of up to 64 bits shares a word
//! with the parts before it if there is room. Within a word, the last part has the lowest bits.
//!
//! # Sides
//! The keys of a two-sided table are the same for both directions of a connection: the lesser side is
//! [`KeySide::First`]. Each flow's header says which side is the originator. In the keys of a one-sided
//! table, [`KeySide::First`] is the sender and [`KeySide::Second`] the receiver, if the key contains them.

use std::fmt;

/// Maximum number of words of a flow key: 1 024 bits.
pub const KEY_WORDS_MAX: usize = 16;

/// Bits of a word.
const WORD_BITS: u16 = 64;

/// The side of a flow that a part of a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeySide {
    /// The flow as a whole.
    Neither,
    /// The lesser side; of a one-sided key the sender.
    First,
    /// The other side; of a one-sided key the receiver.
    Second,
}

impl KeySide {
    /// The two sides.
    pub const BOTH: [KeySide; 2] = [KeySide::First, KeySide::Second];
}

/// The role of a part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyRole {
    /// An IP address. 32 bits: IPv4. 128 bits: IPv6, or IPv4 mapped into IPv6.
    Address,
    /// A MAC address, used as the address of a side.
    Mac,
    /// A number, used as the address of a side.
    Number,
    /// A port, or a number used as one.
    Port,
    /// The context of the flow: a number made of the values that the layers below add to keys; 0 if they add
    /// none.
    Context,
    /// As `Context`, of the values in which the directions of a connection may differ; the flow has those of
    /// its first packet.
    Tags,
    /// Any other value that distinguishes flows.
    Other,
}

impl KeyRole {
    /// All roles, with their words in the text form of graphs.
    pub const ALL: [(KeyRole, &str); 7] = [
        (KeyRole::Address, "address"),
        (KeyRole::Mac, "mac"),
        (KeyRole::Number, "number"),
        (KeyRole::Port, "port"),
        (KeyRole::Context, "context"),
        (KeyRole::Tags, "tags"),
        (KeyRole::Other, "other"),
    ];

    /// The kind of hosts of a flow whose addresses have this role; `None` if the role is no address.
    fn hosts(self) -> Option<Hosts> {
        match self {
            KeyRole::Address => Some(Hosts::Addresses),
            KeyRole::Mac => Some(Hosts::Macs),
            KeyRole::Number => Some(Hosts::Numbers),
            KeyRole::Port | KeyRole::Context | KeyRole::Tags | KeyRole::Other => None,
        }
    }
}

impl fmt::Display for KeyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(role, _)| role == self).map_or("", |(_, word)| word);
        f.write_str(word)
    }
}

/// The kind of addresses that the flows of a table have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// IPv6 addresses, or IPv4 addresses mapped into IPv6.
    #[default]
    Addresses,
    /// MAC addresses.
    Macs,
    /// Numbers.
    Numbers,
    /// No addresses: ports only, or other parts only.
    Nothing,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// Its name in the layer.
    pub name: String,
    /// Its size in bits.
    pub bits: u16,
    /// Its role.
    pub role: KeyRole,
    /// The side that it belongs to.
    pub side: KeySide,
}

/// The place of a part in the words of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlace {
    /// The word that contains its least significant bits.
    pub word: u8,
    /// The lowest of these bits in the word.
    pub shift: u8,
    /// Its size in bits.
    pub bits: u16,
}

impl KeyPlace {
    /// Number of words that the part takes or shares.
    pub fn words(self) -> usize {
        usize::from(self.bits.div_ceil(WORD_BITS))
    }

    /// The least significant 64 bits of the part.
    #[inline]
    pub fn low(self, key: &[u64]) -> u64 {
        let word = key.get(usize::from(self.word)).map_or(0, |word| word >> self.shift);
        if self.bits >= WORD_BITS { word } else { word & ((1 << self.bits) - 1) }
    }

    /// Gives a part of up to 64 bits another value.
    pub fn set_low(self, key: &mut [u64], value: u64) {
        let mask = if self.bits >= WORD_BITS { u64::MAX } else { ((1 << self.bits) - 1) << self.shift };
        let word = &mut key[usize::from(self.word)];
        *word = *word & !mask | value << self.shift & mask;
    }

    /// The least significant 128 bits of the part: high and low word.
    #[inline]
    pub fn pair(self, key: &[u64]) -> [u64; 2] {
        let high = match usize::from(self.word).checked_sub(1) {
            Some(before) if self.bits > WORD_BITS => key.get(before).copied().unwrap_or(0),
            _ => 0,
        };
        [high, self.low(key)]
    }
}

/// The places of address and port of both sides of a key, of the context and of the tags. Computed once for
/// each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyEnds {
    /// The kind of the addresses.
    pub hosts: Hosts,
    /// Address of the first and of the second side, or the part used as one.
    pub addresses: [Option<KeyPlace>; 2],
    /// Port of the first and of the second side, or the part used as one.
    pub ports: [Option<KeyPlace>; 2],
    /// Context of the flow.
    pub context: Option<KeyPlace>,
    /// Tags of the flow.
    pub tags: Option<KeyPlace>,
}

impl KeyEnds {
    /// The address of a side of a key (0: the first side): high and low word. IPv4 addresses are mapped into
    /// IPv6. Zeros if the key has no address.
    #[inline]
    pub fn address(&self, side: usize, key: &[u64]) -> [u64; 2] {
        match self.addresses[side] {
            Some(place) if place.bits == 32 && self.hosts == Hosts::Addresses => {
                [0, 0xffff << 32 | place.low(key)]
            }
            Some(place) => place.pair(key),
            None => [0, 0],
        }
    }

    /// The port of a side of a key; 0 if the key has none.
    #[inline]
    pub fn port(&self, side: usize, key: &[u64]) -> u32 {
        self.ports[side].map_or(0, |place| place.low(key) as u32)
    }

    /// The context of a key; 0 if the key has none.
    #[inline]
    pub fn context(&self, key: &[u64]) -> u64 {
        self.context.map_or(0, |place| place.low(key))
    }

    /// The tags of a key; 0 if the key has none.
    #[inline]
    pub fn tags(&self, key: &[u64]) -> u64 {
        self.tags.map_or(0, |place| place.low(key))
    }
}

/// The parts of a table's keys, and their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLayout {
    parts: Vec<KeyPart>,
    words: usize,
    ends: KeyEnds,
}

impl Default for KeyLayout {
    /// The undeclared layout: the table's lookups define the number of words.
    fn default() -> Self {
        Self { parts: vec![], words: 0, ends: KeyEnds { hosts: Hosts::Nothing, ..KeyEnds::default() } }
    }
}

impl KeyLayout {
    /// The layout of keys that consist of these parts.
    pub fn of(parts: Vec<KeyPart>) -> Self {
        let (places, words) = pack(&parts);
        let of = |is_wanted: &dyn Fn(KeyRole) -> bool, side| {
            let mut all = parts.iter().zip(&places);
            all.find(|(part, _)| part.side == side && is_wanted(part.role)).map(|(_, &place)| place)
        };
        let hosts = parts.iter().filter(|part| part.side != KeySide::Neither).find_map(|p| p.role.hosts());
        let ends = KeyEnds {
            hosts: hosts.unwrap_or(Hosts::Nothing),
            addresses: KeySide::BOTH.map(|side| of(&|role| role.hosts().is_some(), side)),
            ports: KeySide::BOTH.map(|side| of(&|role| role == KeyRole::Port, side)),
            context: of(&|role| role == KeyRole::Context, KeySide::Neither),
            tags: of(&|role| role == KeyRole::Tags, KeySide::Neither),
        };
        Self { parts, words, ends }
    }

    /// The parts.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Whether the table declares no layout.
    pub fn is_undeclared(&self) -> bool {
        self.parts.is_empty()
    }

    /// Words of a key; 0 if the layout is undeclared.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Addresses and ports.
    pub fn ends(&self) -> &KeyEnds {
        &self.ends
    }

    /// Whether a key contains nothing but each side's address and port, a context, and tags.
    pub fn is_ends_alone(&self) -> bool {
        let ends = self.ends.addresses.iter().chain(&self.ends.ports);
        let named = ends.chain([&self.ends.context, &self.ends.tags]).flatten().count();
        named == self.parts.len() && self.parts.iter().all(|part| part.bits <= 2 * WORD_BITS)
    }
}

/// The places of the parts and the number of words of the key, as the head of this file defines.
fn pack(parts: &[KeyPart]) -> (Vec<KeyPlace>, usize) {
    let mut places: Vec<KeyPlace> = Vec::with_capacity(parts.len());
    let (mut words, mut used) = (0_usize, WORD_BITS);
    for (at, part) in parts.iter().enumerate() {
        if part.bits > WORD_BITS {
            words += usize::from(part.bits.div_ceil(WORD_BITS));
            used = WORD_BITS;
        } else if used + part.bits <= WORD_BITS {
            used += part.bits;
            // The parts already in this word move up.
            let word = words.saturating_sub(1) as u8;
            let sharing = places[..at].iter_mut().rev().take_while(|place| place.word == word);
            sharing.for_each(|place| place.shift += part.bits as u8);
        } else {
            words += 1;
            used = part.bits;
        }
        places.push(KeyPlace { word: words.saturating_sub(1) as u8, shift: 0, bits: part.bits });
    }
    (places, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, bits: u16, role: KeyRole, side: KeySide) -> KeyPart {
        KeyPart { name: name.to_owned(), bits, role, side }
    }

    fn places(bits: &[u16]) -> (Vec<(u8, u8)>, usize) {
        let parts: Vec<KeyPart> =
            bits.iter().map(|&bits| part("x", bits, KeyRole::Other, KeySide::Neither)).collect();
        let (places, words) = pack(&parts);
        (places.iter().map(|place| (place.word, place.shift)).collect(), words)
    }

    #[test]
    fn parts_share_words_and_the_last_one_has_the_lowest_bits() {
        assert_eq!(places(&[32, 32, 16, 8]), (vec![(0, 32), (0, 0), (1, 8), (1, 0)], 2));
        assert_eq!(places(&[24]), (vec![(0, 0)], 1));
        assert_eq!(places(&[48, 48, 16]), (vec![(0, 0), (1, 16), (1, 0)], 2));
        assert_eq!(places(&[64, 64]), (vec![(0, 0), (1, 0)], 2));
    }

    #[test]
    fn wide_parts_have_words_of_their_own() {
        assert_eq!(places(&[128, 128, 32, 32]), (vec![(1, 0), (3, 0), (4, 32), (4, 0)], 5));
        assert_eq!(places(&[160]), (vec![(2, 0)], 3));
        assert_eq!(places(&[8, 128, 8]), (vec![(0, 0), (2, 0), (3, 0)], 4));
    }

    #[test]
    fn ends_are_read_where_they_lie() {
        let mut parts = vec![];
        for (name, bits, role) in [("src", 128, KeyRole::Address), ("port", 32, KeyRole::Port)] {
            parts.extend(KeySide::BOTH.map(|side| part(name, bits, role, side)));
        }
        let layout = KeyLayout::of(parts);
        let key = [1, 2, 3, 4, 5 << 32 | 6];
        let ends = layout.ends();
        assert!(layout.is_ends_alone());
        assert_eq!(ends.hosts, Hosts::Addresses);
        assert_eq!([0, 1].map(|side| ends.address(side, &key)), [[1, 2], [3, 4]]);
        assert_eq!([0, 1].map(|side| ends.port(side, &key)), [5, 6]);
    }

    #[test]
    fn addresses_and_ports_missing_in_a_key_are_zero() {
        let vni = part("vni", 24, KeyRole::Other, KeySide::Neither);
        let host = part("src", 32, KeyRole::Address, KeySide::First);
        let layout = KeyLayout::of(vec![vni, host]);
        let ends = layout.ends();
        assert!(!layout.is_ends_alone());
        assert_eq!(ends.address(0, &[7 << 32 | 0x0a00_0001]), [0, 0xffff_0a00_0001], "mapped into IPv6");
        assert_eq!((ends.address(1, &[7]), ends.port(0, &[7])), ([0, 0], 0));
        assert_eq!(KeyLayout::default().ends().hosts, Hosts::Nothing);
    }
}

//! One decision for all probes: which protocols the first bytes of a flow rule out, looked up in a table.
//!
//! Each protocol says which values a byte may have at each of the first [`DECIDED_BYTES`] places
//! ([`SessionProtocol::may_begin`]). The answers for a set of protocols become a table: by place and value of a byte the
//! protocols that may begin so. The conjunction over the first bytes leaves few candidates, and the probes of these alone are
//! called. The probes' answers stay the same: a protocol that is ruled out would have answered
//! [`NotForUs`](crate::Probe::NotForUs).

use crate::{FirstPlace, Opening, ProtocolSet, SessionProtocol};

/// First bytes of a side that the decision looks at. A side that sent fewer rules out nothing.
pub const DECIDED_BYTES: usize = 6;

/// A set of values of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// All values.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// The values for which `contains` holds.
    pub fn of(contains: impl Fn(u8) -> bool) -> Self {
        let members = (0..=u8::MAX).filter(|&byte| contains(byte));
        Self(members.fold([0; 4], |mut words, byte| {
            words[usize::from(byte >> 6)] |= 1 << (byte & 63);
            words
        }))
    }

    /// Whether a value is in the set.
    pub fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// By word of a set, place and value of a byte: the protocols that may begin so, a bit each.
type Table = [[[u64; 256]; DECIDED_BYTES]];

/// The probes of a set of protocols, compiled into one decision. 24 KiB for every 64 protocols.
#[derive(Debug, Clone)]
pub struct ProbeDecision {
    /// For streams, and for datagrams.
    tables: [Box<Table>; 2],
}

impl ProbeDecision {
    /// The decision for these protocols; their numbers are indices into them.
    pub fn of(protocols: &[&SessionProtocol]) -> Self {
        Self { tables: [false, true].map(|is_datagram| table_of(protocols, is_datagram)) }
    }

    /// Of the protocols `among`, those whose probes need to be called. The others would deny these bytes.
    #[inline]
    pub fn candidates(&self, opening: &Opening<'_>, among: &ProtocolSet) -> ProtocolSet {
        let table = &self.tables[usize::from(opening.is_datagram)];
        let mut possible = ProtocolSet::EMPTY;
        for bytes in [opening.originator, opening.responder] {
            if let Some(first) = bytes.first_chunk::<DECIDED_BYTES>() {
                for (at, (word, of_word)) in among.words().iter().zip(table).enumerate() {
                    let left = |left, (&byte, of): (&u8, &[u64; 256])| left & of[usize::from(byte)];
                    possible.add_word(at, first.iter().zip(of_word).fold(*word, left));
                }
            } else if !bytes.is_empty() {
                return *among;
            }
        }
        let is_silent = opening.originator.is_empty() && opening.responder.is_empty();
        if is_silent { *among } else { possible }
    }
}

fn table_of(protocols: &[&SessionProtocol], is_datagram: bool) -> Box<Table> {
    let words = protocols.chunks(64).map(|of_word| {
        let mut places = [[0; 256]; DECIDED_BYTES];
        for (at, of_place) in places.iter_mut().enumerate() {
            // Protocols that take any byte here are most of them.
            let mut any = 0;
            for (bit, protocol) in of_word.iter().enumerate() {
                match (protocol.may_begin)(FirstPlace { at, is_datagram }) {
                    ByteSet::ALL => any |= 1 << bit,
                    bytes => {
                        let members = (0..=u8::MAX).filter(|&byte| bytes.contains(byte));
                        members.for_each(|byte| of_place[usize::from(byte)] |= 1 << bit);
                    }
                }
            }
            of_place.iter_mut().for_each(|mask| *mask |= any);
        }
        places
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_bytes_for_which_its_predicate_holds() {
        let set = ByteSet::of(|byte| byte.is_ascii_digit() || byte >= 0xfe);
        let members: Vec<u8> = (0..=u8::MAX).filter(|&byte| set.contains(byte)).collect();
        assert_eq!(members, [b"0123456789".as_slice(), &[0xfe, 0xff]].concat());
        assert_eq!(ByteSet::of(|_| true), ByteSet::ALL);
    }
}

//! One decision for all probes: the first bytes of a flow, its transport and its ports rule out most
//! protocols, by lookups in a table.
//!
//! Each protocol states the values that each of the first [`DECIDED_BYTES`] bytes may have
//! ([`SessionProtocol::may_begin`]). The answers of a set of protocols become a table: for each place and
//! value of a byte, the protocols that may begin so. The intersection over the first bytes leaves few
//! candidates, and only their probes are called. The result is the same as without the table: a protocol that
//! is ruled out would have answered [`NotForUs`](crate::Probe::NotForUs).

use crate::byte_set::ByteSet;
use crate::{FirstPlace, Opening, ProtocolSet, SessionProtocol};

/// First bytes of a side that the decision looks at. A side that sent fewer rules out nothing.
pub const DECIDED_BYTES: usize = 6;

/// The probes of a set of protocols, compiled into one decision. 98 KiB for every 64 protocols, of which a
/// flow without known ports uses 12 KiB.
#[derive(Debug, Clone)]
pub struct ProbeDecision {
    /// For streams, and for datagrams; for flows without a port of the protocol, and with one.
    tables: [[Table; 2]; 2],
    ports: Ports,
}

impl ProbeDecision {
    /// The decision for these protocols; their numbers are indices into them.
    pub fn of(protocols: &[&SessionProtocol]) -> Self {
        let table =
            |is_datagram| [false, true].map(|is_on_port| Table::of(protocols, is_datagram, is_on_port));
        Self { tables: [false, true].map(table), ports: Ports::of(protocols) }
    }

    /// Of the protocols `among`, those whose probes need to be called. The others would deny these bytes.
    #[inline]
    pub fn candidates(&self, opening: &Opening<'_>, among: &ProtocolSet) -> ProtocolSet {
        let [any_port, on_port] = &self.tables[usize::from(opening.is_datagram)];
        let here = self.ports.protocols(opening.ports);
        let (mut possible, mut is_silent) = (ProtocolSet::EMPTY, true);
        for bytes in [opening.originator, opening.responder].into_iter().filter(|bytes| !bytes.is_empty()) {
            let Some(first) = bytes.first_chunk() else { return *among };
            any_port.add_possible(first, among, &mut possible);
            if let Some(here) = &here {
                on_port.add_possible(first, &(*here & *among), &mut possible);
            }
            is_silent = false;
        }
        if is_silent { *among } else { possible }
    }
}

/// By word of a set, place and value of a byte: the protocols that may begin so, a bit each.
#[derive(Debug, Clone)]
struct Table(Box<[[[u64; 256]; DECIDED_BYTES]]>);

impl Table {
    fn of(protocols: &[&SessionProtocol], is_datagram: bool, is_on_port: bool) -> Self {
        let words = protocols.chunks(64).map(|of_word| {
            let mut places = [[0; 256]; DECIDED_BYTES];
            for (at, of_place) in places.iter_mut().enumerate() {
                // Most protocols take any byte at most places.
                let mut any = 0;
                for (bit, protocol) in of_word.iter().enumerate() {
                    match (protocol.may_begin)(FirstPlace { at, is_datagram, is_on_port }) {
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
        Self(words.collect())
    }

    /// Adds the protocols of `among` that may begin with these bytes.
    #[inline]
    fn add_possible(&self, first: &[u8; DECIDED_BYTES], among: &ProtocolSet, possible: &mut ProtocolSet) {
        for ((possible, among), places) in possible.words_mut().iter_mut().zip(among.words()).zip(&*self.0) {
            let left = |left, (&byte, of): (&u8, &[u64; 256])| left & of[usize::from(byte)];
            *possible |= first.iter().zip(places).fold(*among, left);
        }
    }
}

/// The protocols by their ports.
#[derive(Debug, Clone)]
struct Ports {
    /// A bit for each port that a protocol has.
    is_known: Box<[u64; 1 << 10]>,
    /// The protocols of each of these ports.
    known: Vec<(u16, ProtocolSet)>,
}

impl Ports {
    fn of(protocols: &[&SessionProtocol]) -> Self {
        let mut ports = Self { is_known: Box::new([0; 1 << 10]), known: vec![] };
        for (number, protocol) in protocols.iter().enumerate() {
            for &port in protocol.ports {
                ports.is_known[usize::from(port >> 6)] |= 1 << (port & 63);
                match ports.known.iter_mut().find(|known| known.0 == port) {
                    Some((_, protocols)) => protocols.insert(number),
                    None => ports.known.push((port, ProtocolSet::of(number))),
                }
            }
        }
        ports
    }

    /// The protocols that have one of these ports; `None` if no protocol has.
    #[inline]
    fn protocols(&self, ports: [u16; 2]) -> Option<ProtocolSet> {
        let is_known = |port: &u16| self.is_known[usize::from(port >> 6)] >> (port & 63) & 1 == 1;
        if !ports.iter().any(is_known) {
            return None;
        }
        let of_flow = self.known.iter().filter(|(port, _)| ports.contains(port));
        Some(of_flow.fold(ProtocolSet::EMPTY, |all, (_, protocols)| all | *protocols))
    }
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

//! One decision for all probes: which protocols the first bytes of a flow rule out, looked up in a table.
//!
//! Each protocol says of each of the first [`DECIDED_BYTES`] bytes which values it may have
//! ([`SessionProtocol::may_begin`]). The answers for a set of protocols become a table: by place and value of a byte the protocols that
//! may begin so. The conjunction over the first bytes leaves few candidates, and the probes of these alone are called.
//! The probes' answers stay the same: a protocol that is ruled out would have answered [`NotForUs`](crate::Probe::NotForUs).

use crate::{FirstByte, Opening, SessionProtocol};

/// First bytes of a side that the decision looks at. A side that sent fewer rules out nothing.
pub const DECIDED_BYTES: usize = 6;

/// By place and value of a byte: the protocols that may begin so, a bit each.
type Table = [[u64; 256]; DECIDED_BYTES];

/// The probes of a set of protocols, compiled into one decision. 24 KiB.
#[derive(Debug, Clone)]
pub struct ProbeDecision {
    /// For streams, and for datagrams.
    tables: [Box<Table>; 2],
}

impl ProbeDecision {
    /// The decision for these protocols; a bit of a mask is an index into them.
    pub fn of(protocols: &[&SessionProtocol]) -> Self {
        let table = |is_datagram: bool| {
            let mut table = Box::new([[0; 256]; DECIDED_BYTES]);
            for (at, of_place) in table.iter_mut().enumerate() {
                for (byte, mask) in (0..=u8::MAX).zip(of_place) {
                    let may_begin = |protocol: &SessionProtocol| {
                        (protocol.may_begin)(FirstByte { at, byte, is_datagram })
                    };
                    let bits = protocols.iter().enumerate().filter(|(_, protocol)| may_begin(protocol));
                    *mask = bits.fold(0, |mask, (index, _)| mask | 1 << index);
                }
            }
            table
        };
        Self { tables: [table(false), table(true)] }
    }

    /// Of the protocols `among`, those whose probes need to be called. The others would deny these bytes.
    #[inline]
    pub fn candidates(&self, opening: &Opening<'_>, among: u64) -> u64 {
        let table = &self.tables[usize::from(opening.is_datagram)];
        let mut possible = 0;
        for bytes in [opening.originator, opening.responder] {
            if let Some(first) = bytes.first_chunk::<DECIDED_BYTES>() {
                possible |=
                    first.iter().zip(&**table).fold(among, |left, (&byte, of)| left & of[usize::from(byte)]);
            } else if !bytes.is_empty() {
                return among;
            }
        }
        let is_silent = opening.originator.is_empty() && opening.responder.is_empty();
        if is_silent { among } else { possible }
    }
}

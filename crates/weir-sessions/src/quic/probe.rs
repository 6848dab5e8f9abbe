//! Detects QUIC by the version and the lengths of a packet with a long header. Short headers have no
//! recognisable content (RFC 8999 §5.2).

use super::header::{Kind, LongPacket};
use super::version::{self, is_greased};
use crate::{Opening, Probe};

/// Shortest first datagram of a client (RFC 9000 §14.1), bytes.
const FIRST_DATAGRAM_BYTES: usize = 1200;

/// Checks the last datagram of both directions. One packet suffices.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    if !opening.is_datagram {
        return Probe::NotForUs;
    }
    let sides = [opening.originator, opening.responder];
    if sides.iter().any(|datagram| is_quic(datagram)) { Probe::Certain } else { Probe::NotForUs }
}

fn is_quic(datagram: &[u8]) -> bool {
    let Some(packet) = LongPacket::parse(datagram) else { return false };
    let has_id = !packet.destination_id.is_empty() || !packet.source_id.is_empty();
    match packet.kind {
        Kind::Initial { number_at, .. } => packet.bytes.len() >= number_at + 20,
        Kind::ZeroRtt | Kind::Handshake => packet.bytes.len() > 20,
        Kind::Retry => has_id && datagram.len() > 7 + 16,
        Kind::Negotiation(versions) => {
            let numbers = versions.as_chunks::<4>().0;
            let is_known = |number| version::find(number).is_some() || is_greased(number);
            has_id
                && versions.len().is_multiple_of(4)
                && numbers.iter().any(|number| is_known(u32::from_be_bytes(*number)))
        }
        // A reserved version, which provokes version negotiation.
        Kind::Unknown => {
            let ids = [packet.destination_id, packet.source_id];
            is_greased(packet.version)
                && datagram.len() >= FIRST_DATAGRAM_BYTES
                && packet.destination_id.len() >= 8
                && ids.iter().all(|id| id.len() <= 20)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8]) -> Probe {
        super::probe(&Opening { originator, is_datagram: true, ..Opening::default() })
    }

    #[test]
    fn a_packet_of_a_known_version_whose_lengths_fit_is_enough() {
        let mut initial = [0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 21].to_vec();
        initial.extend([9; 21]);
        assert_eq!(probe(&initial), Probe::Certain);
        assert_eq!(probe(&initial[..initial.len() - 1]), Probe::NotForUs);
        initial[4] = 7;
        assert_eq!(probe(&initial), Probe::NotForUs, "an unknown version");
    }

    #[test]
    fn a_made_up_version_is_believed_in_a_full_datagram_only() {
        let mut greased = [0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0].to_vec();
        assert_eq!(probe(&greased), Probe::NotForUs);
        greased.resize(1200, 7);
        assert_eq!(probe(&greased), Probe::Certain);
    }

    #[test]
    fn version_negotiation_is_quic() {
        let packet = [0x80, 0, 0, 0, 0, 1, 7, 1, 8, 0, 0, 0, 1, 0xff, 0, 0, 0x1d];
        assert_eq!(probe(&packet), Probe::Certain);
        assert_eq!(probe(&packet[..packet.len() - 1]), Probe::NotForUs);
        assert_eq!(probe(&[0x80, 0, 0, 0, 0, 0, 0]), Probe::NotForUs);
    }

    #[test]
    fn short_headers_and_other_protocols_are_not_for_us() {
        for datagram in [&[0x40; 60][..], &[0; 60], &[0xff; 60], b"\x80", b"", &[0x80; 60]] {
            assert_eq!(probe(datagram), Probe::NotForUs);
        }
    }
}

//! Detects QUIC by the version and the lengths of a packet with a long header. A short header has no
//! recognisable content but the connection id that the receiver chose (RFC 8999 §5.2). So a connection whose
//! beginning is not there is detected, on the port of QUIC only, by datagrams of the client that agree in the
//! id, behind first bytes that header protection makes random (RFC 9001 §5.4.1).

use super::header::{Kind, LongPacket, is_short};
use super::version::{self, is_greased};
use crate::{Opening, Probe};

/// The port of HTTP/3.
pub(super) const PORTS: &[u16] = &[443];

/// Shortest first datagram of a client (RFC 9000 §14.1), bytes.
const FIRST_DATAGRAM_BYTES: usize = 1200;

/// Length of the id that servers choose, or of its first bytes. Shorter ids may agree by chance.
const ID_BYTES: usize = 8;

/// Shortest datagram of an established connection: first byte, id, number and authentication tag.
const SHORT_DATAGRAM_BYTES: usize = 1 + ID_BYTES + 1 + 16;

/// Checks the last datagrams of both directions. One packet with a long header suffices.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    if !opening.is_datagram {
        return Probe::NotForUs;
    }
    let sides = [opening.originator, opening.responder];
    if sides.iter().any(|datagram| is_quic(datagram)) {
        return Probe::Certain;
    }
    match opening.ports.map(|port| PORTS.contains(&port)) {
        [false, true] => established([sides[0], opening.earlier[0][0], opening.earlier[0][1]], sides[1]),
        [true, false] => established([sides[1], opening.earlier[1][0], opening.earlier[1][1]], sides[0]),
        _ => Probe::NotForUs,
    }
}

/// Whether datagrams are of an established connection: the last three of the client, the last one first, and
/// the last one of the server, whose ids may be empty.
fn established(client: [&[u8]; 3], server: &[u8]) -> Probe {
    let may_be = |datagram: &[u8]| {
        datagram.is_empty() || datagram.len() >= SHORT_DATAGRAM_BYTES && is_short(datagram[0])
    };
    if !client.into_iter().chain([server]).all(may_be) {
        return Probe::NotForUs;
    }
    let ids = client.map(|datagram| datagram.get(1..1 + ID_BYTES));
    let is_plain = |id: &[u8]| id.iter().all(|byte| *byte == id[0]);
    match ids {
        [Some(id), ..] if is_plain(id) => Probe::NotForUs,
        [Some(last), Some(before), _] if last != before => Probe::NotForUs,
        [Some(last), Some(_), Some(first)] => {
            let is_random = client.iter().any(|datagram| datagram[0] != client[0][0]);
            if last == first && is_random { Probe::Certain } else { Probe::NotForUs }
        }
        _ => Probe::Unsure,
    }
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
    fn three_datagrams_of_a_client_with_one_id_are_an_established_connection() {
        let of = |first: u8, id: &[u8; 8]| [&[first][..], id, &[0xa7; 30]].concat();
        let id = [1, 2, 3, 4, 5, 6, 7, 8];
        let [last, before, earliest] = [of(0x41, &id), of(0x5e, &id), of(0x41, &id)];
        let opening = |ports, all: [&[u8]; 3], server| {
            let earlier = [[all[1], all[2]], [&[][..]; 2]];
            super::probe(&Opening {
                originator: all[0],
                responder: server,
                earlier,
                ports,
                is_datagram: true,
            })
        };
        let on_port = |all| opening([5000, 443], all, &[]);
        assert_eq!(on_port([&last, &before, &earliest]), Probe::Certain);
        assert_eq!(on_port([&last, &before, &[]]), Probe::Unsure);
        assert_eq!(on_port([&last, &[], &[]]), Probe::Unsure);
        let server = of(0x60, &[9; 8]);
        assert_eq!(opening([5000, 443], [&last, &before, &earliest], &server), Probe::Certain);
        assert_eq!(opening([5000, 443], [&last, &before, &earliest], &[0x17; 60]), Probe::NotForUs);
        assert_eq!(opening([5000, 4433], [&last, &before, &earliest], &[]), Probe::NotForUs);
        let [other, plain] = [of(0x41, &[8, 7, 6, 5, 4, 3, 2, 1]), of(0x41, &[0; 8])];
        assert_eq!(on_port([&last, &other, &earliest]), Probe::NotForUs, "another id");
        assert_eq!(on_port([&last, &earliest, &last]), Probe::NotForUs, "a type, not protected bits");
        assert_eq!(on_port([&plain, &[], &[]]), Probe::NotForUs);
        assert_eq!(on_port([&last[..12], &[], &[]]), Probe::NotForUs);
    }

    #[test]
    fn short_headers_and_other_protocols_are_not_for_us() {
        for datagram in [&[0x40; 60][..], &[0; 60], &[0xff; 60], b"\x80", b"", &[0x80; 60]] {
            assert_eq!(probe(datagram), Probe::NotForUs);
        }
    }
}

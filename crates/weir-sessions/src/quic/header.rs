//! Long headers of QUIC packets (RFC 8999, RFC 9000 §17.2): a packet's type and its length in the datagram.

use super::version::{self, Version};
use crate::wire::Reader;

/// Longest connection id of the supported versions (RFC 9000 §17.2), bytes.
const CONNECTION_ID_BYTES_MAX: usize = 20;

/// Type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// Initial: the first packets, with hellos in CRYPTO frames.
    Initial {
        /// Address validation token issued by the server (RFC 9000 §8.1).
        token: &'a [u8],
        /// Where the packet number begins, counted from the packet's first byte.
        number_at: usize,
    },
    /// 0-RTT: data sent before the server's answer.
    ZeroRtt,
    /// Handshake: sent after the hellos.
    Handshake,
    /// Retry: asks the client to start again with another connection id.
    Retry,
    /// Version negotiation: the versions that the server supports, four bytes each.
    Negotiation(&'a [u8]),
    /// An unsupported version.
    Unknown,
}

/// A packet with a long header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongPacket<'a> {
    pub(super) version: u32,
    pub(super) destination_id: &'a [u8],
    pub(super) source_id: &'a [u8],
    pub(super) kind: Kind<'a>,
    /// The whole packet.
    pub(super) bytes: &'a [u8],
}

/// Whether a packet that begins with this byte has a short header (RFC 9000 §17.3).
pub(super) fn is_short(first: u8) -> bool {
    first & 0xc0 == 0x40
}

impl<'a> LongPacket<'a> {
    /// Parses the packet at the front of a datagram. `None` if it is malformed or truncated.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let first = reader.u8().filter(|first| first & 0x80 != 0)?;
        let number = u32::from_be_bytes(reader.array()?);
        let (destination_id, source_id) = (reader.vector8()?, reader.vector8()?);
        let mut packet =
            Self { version: number, destination_id, source_id, kind: Kind::Unknown, bytes: datagram };
        if number == 0 {
            packet.kind = Kind::Negotiation(reader.rest());
            return Some(packet);
        }
        let Some(version) = version::find(number) else { return Some(packet) };
        if destination_id.len().max(source_id.len()) > CONNECTION_ID_BYTES_MAX || first & 0x40 == 0 {
            return None;
        }
        packet.kind = match packet_type(version, first) {
            0 => {
                let token_bytes = read_varint(&mut reader)?;
                let token = reader.take(usize::try_from(token_bytes).ok()?)?;
                Kind::Initial { token, number_at: 0 }
            }
            1 => Kind::ZeroRtt,
            2 => Kind::Handshake,
            _ => {
                packet.kind = Kind::Retry;
                return Some(packet);
            }
        };
        let length = usize::try_from(read_varint(&mut reader)?).ok()?;
        let header_bytes = datagram.len() - reader.rest().len();
        packet.bytes = datagram.get(..header_bytes.checked_add(length)?)?;
        if let Kind::Initial { number_at, .. } = &mut packet.kind {
            *number_at = header_bytes;
        }
        Some(packet)
    }
}

/// The type of a long header, numbered as in version 1. Version 2 shifts each number by one (RFC 9369 §3.2).
fn packet_type(version: &Version, first: u8) -> u8 {
    let number = first >> 4 & 3;
    if version.is_v2 { number.wrapping_sub(1) & 3 } else { number }
}

/// Reads a variable-length integer (RFC 9000 §16).
pub(super) fn read_varint(reader: &mut Reader<'_>) -> Option<u64> {
    let first = reader.u8()?;
    let rest = reader.take((1 << (first >> 6)) - 1)?;
    Some(rest.iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Option<u64> {
        read_varint(&mut Reader::new(bytes))
    }

    #[test]
    fn numbers_are_those_of_the_rfc() {
        // RFC 9000 §A.1.
        assert_eq!(varint(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(varint(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!((varint(&[0x7b, 0xbd]), varint(&[0x25]), varint(&[0x40])), (Some(15293), Some(37), None));
    }

    #[test]
    fn packets_are_told_apart_and_end_where_they_say() {
        let bytes = [0xc0, 0, 0, 0, 1, 1, 7, 2, 8, 9, 1, 0xaa, 3, 1, 2, 3, 0xe0];
        let packet = LongPacket::parse(&bytes).expect("whole");
        assert_eq!((packet.destination_id, packet.source_id), (&[7][..], &[8, 9][..]));
        assert_eq!(packet.kind, Kind::Initial { token: &[0xaa], number_at: 13 });
        assert_eq!(packet.bytes.len(), 16);
        let handshake = [0xe0, 0, 0, 0, 1, 0, 0, 1, 9];
        assert_eq!(LongPacket::parse(&handshake).expect("whole").kind, Kind::Handshake);
        let second = [0xe0, 0x6b, 0x33, 0x43, 0xcf, 0, 0, 1, 9];
        assert_eq!(LongPacket::parse(&second).expect("whole").kind, Kind::ZeroRtt, "moved by one");
        let negotiation = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(LongPacket::parse(&negotiation).expect("whole").kind, Kind::Negotiation(&[0, 0, 0, 1]));
        let unknown = [0x80, 1, 2, 3, 4, 0, 0];
        assert_eq!(LongPacket::parse(&unknown).expect("whole").kind, Kind::Unknown);
    }

    #[test]
    fn what_is_cut_is_none() {
        let bytes = [0xc0, 0, 0, 0, 1, 1, 7, 2, 8, 9, 1, 0xaa, 3, 1, 2, 3];
        for length in 0..bytes.len() {
            assert_eq!(LongPacket::parse(&bytes[..length]), None, "{length}");
        }
        assert_eq!(LongPacket::parse(&[0x40; 40]), None, "a short header");
    }
}

//! Frames of SCTP (RFC 9260) and QUIC (RFC 9000).

use super::{OUTER, join, outer_udp};
use crate::traces::frame::{Ends, ethernet, ipv4};
use crate::traces::sums::crc32c;

/// A chunk, padded to four bytes.
pub fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len() as u16).to_be_bytes();
    let mut bytes = join(&[&[kind, flags], &length, value]);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A user data chunk: TSN, stream, sequence number in the stream, payload protocol (IANA).
pub fn data_of(flags: u8, tsn: u32, stream: u16, ssn: u16, protocol: u32, text: &[u8]) -> Vec<u8> {
    let head =
        [&tsn.to_be_bytes()[..], &stream.to_be_bytes(), &ssn.to_be_bytes(), &protocol.to_be_bytes()].concat();
    chunk(0, flags, &join(&[&head, text]))
}

/// Protocol 46: Diameter over SCTP.
fn data(flags: u8, tsn: u32, stream: u16, ssn: u16, text: &[u8]) -> Vec<u8> {
    data_of(flags, tsn, stream, ssn, 46, text)
}

/// A packet of chunks with its checksum, in IPv4 over Ethernet.
pub fn sctp_packet(ends: Ends, id: u16, tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [ends.src_port, ends.dst_port].map(u16::to_be_bytes).concat();
    bytes.extend(tag.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(chunks.concat());
    let sum = crc32c(&bytes).to_le_bytes();
    bytes[8..12].copy_from_slice(&sum);
    ethernet(0x0800, &ipv4(ends, 132, id, 0, &bytes))
}

/// The value of INIT and INIT ACK: the sender's tag, window, numbers of streams, first TSN.
pub fn init(tag: u32, streams: u16, tsn: u32) -> Vec<u8> {
    [tag, 65_536, u32::from(streams) << 16 | u32::from(streams), tsn].map(u32::to_be_bytes).concat()
}

/// An association: the four-way handshake, data of two streams with and without bundling, one message in
/// three chunks, the shutdown; another association with an abort.
pub fn sctp() -> Vec<Vec<u8>> {
    let there = Ends { src_port: 5000, dst_port: 3868, ..OUTER };
    let packet = |forward: bool, tag: u32, chunks: &[Vec<u8>]| {
        let ends = if forward { there } else { there.reversed() };
        sctp_packet(ends, 1, tag, chunks)
    };
    let init = |tag: u32, tsn: u32| init(tag, 2, tsn);
    let sack = |tsn: u32| chunk(3, 0, &[tsn, 65_536, 0].map(u32::to_be_bytes).concat());
    let cookie = join(&[&init(2, 200), &[0, 7, 0, 8, 1, 2, 3, 4]]);
    vec![
        packet(true, 0, &[chunk(1, 0, &init(1, 100))]),
        packet(false, 1, &[chunk(2, 0, &cookie)]),
        packet(true, 2, &[chunk(10, 0, &[1, 2, 3, 4])]),
        packet(false, 1, &[chunk(11, 0, &[])]),
        packet(true, 2, &[data(3, 100, 0, 0, b"hello"), data(3, 101, 1, 0, b"world!!")]),
        packet(false, 1, &[sack(101), data(3, 200, 0, 0, b"yes")]),
        packet(true, 2, &[sack(200), data(2, 102, 0, 1, b"first ")]),
        packet(true, 2, &[data(0, 103, 0, 1, b"then "), data(1, 104, 0, 1, b"last")]),
        packet(false, 1, &[sack(104)]),
        packet(true, 2, &[chunk(7, 0, &200u32.to_be_bytes())]),
        packet(false, 1, &[chunk(8, 0, &[])]),
        packet(true, 2, &[chunk(14, 0, &[])]),
        packet(true, 0, &[chunk(1, 0, &init(3, 300))]),
        packet(false, 3, &[chunk(6, 0, &[])]),
    ]
}

/// A variable-length integer (RFC 9000, section 16) in two bytes.
fn two_bytes(number: usize) -> [u8; 2] {
    (0x4000 | number as u16).to_be_bytes()
}

/// The type-independent part of a long header (section 17.2).
pub fn quic_long(kind: u8, version: u32, dcid: &[u8], scid: &[u8], rest: &[u8]) -> Vec<u8> {
    let ids = join(&[&[dcid.len() as u8], dcid, &[scid.len() as u8], scid]);
    join(&[&[0xc0 | kind << 4], &version.to_be_bytes(), &ids, rest])
}

/// The encrypted part, after its length.
pub fn sealed(content: &[u8]) -> Vec<u8> {
    join(&[&two_bytes(content.len()), content])
}

/// The visible part of connections: handshakes in both versions, Retry, version negotiation, several packets
/// in a datagram, short headers. Encrypted parts are arbitrary bytes.
pub fn quic() -> Vec<Vec<u8>> {
    let (client, server) = ([0xc1, 0xc2, 0xc3, 0xc4], [0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58]);
    let long = |kind: u8, version: u32, rest: &[u8]| quic_long(kind, version, &server, &client, rest);
    let sealed = |bytes: usize| sealed(&vec![0xee; bytes]);
    let initial = |token: &[u8], bytes| join(&[&[token.len() as u8], token, &sealed(bytes)]);
    let v2 = 0x6b33_43cf;
    let coalesced =
        join(&[&long(0, 1, &initial(&[], 60)), &long(2, 1, &sealed(40)), &[0x40], &client, &[0xee; 20]]);
    let datagrams = [
        long(0, 1, &initial(&[], 100)),
        long(3, 1, &[b't'; 24]),
        long(0, 1, &initial(b"token", 100)),
        coalesced,
        long(1, 1, &sealed(30)),
        long(1, v2, &initial(&[], 100)),
        long(3, v2, &sealed(50)),
        long(0, 0x0a1a_2a3a, &[0xee; 30]),
        join(&[&long(0, 0, &[])[..], &1u32.to_be_bytes(), &v2.to_be_bytes()]),
        join(&[&[0x60], &server, &[0xee; 25]]),
        join(&[&long(0, 1, &initial(&[], 60)), &[0; 40]]),
    ];
    datagrams.iter().map(|datagram| outer_udp(443, datagram)).collect()
}

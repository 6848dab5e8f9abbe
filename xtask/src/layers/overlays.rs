//! Frames of service chains, overlays and multicast registers, with each header as in its RFC.

use super::{INNER, datagram, ipv6, join, outer, outer_udp, ping, ping6};
use crate::traces::frame::{Ends, ethernet, ipv4};

/// RFC 8300, section 2: base header with the next protocol, service path and index, context.
fn nsh_of(metadata: u8, next: u8, path: u32, index: u8, context: &[u8]) -> Vec<u8> {
    let length = 2 + (context.len() / 4) as u16;
    // Version 0, a time to live of 63, the length.
    let first = (63 << 6 | length).to_be_bytes();
    let service = (path << 8 | u32::from(index)).to_be_bytes();
    join(&[&first, &[metadata, next], &service, context])
}

/// Over Ethernet: packets, a frame, a chain in a chain, both kinds of context.
pub fn nsh() -> Vec<Vec<u8>> {
    let words = [0; 16];
    let item = [0, 1, 2, 4, 9, 9, 9, 9];
    let inner = join(&[&nsh_of(2, 1, 9, 254, &[]), &ping()]);
    [
        join(&[&nsh_of(1, 1, 7, 255, &words), &ping()]),
        join(&[&nsh_of(2, 2, 7, 254, &item), &ping6()]),
        join(&[&nsh_of(2, 3, 8, 255, &[]), &ethernet(0x0800, &datagram())]),
        join(&[&nsh_of(2, 4, 8, 253, &[]), &inner]),
    ]
    .iter()
    .map(|payload| ethernet(0x894f, payload))
    .collect()
}

/// draft-ietf-nvo3-vxlan-gpe, section 3: with every next protocol, and without one.
pub fn vxlan_gpe() -> Vec<Vec<u8>> {
    let of = |flags: u8, next: u8, payload: &[u8]| {
        outer_udp(4790, &join(&[&[flags, 0, 0, next, 0, 0, 42, 0], payload]))
    };
    vec![
        of(0x0c, 1, &ping()),
        of(0x0c, 2, &ping6()),
        of(0x0c, 3, &ethernet(0x0800, &datagram())),
        of(0x0c, 4, &join(&[&nsh_of(2, 1, 7, 255, &[]), &ping()])),
        of(0x08, 0, &ethernet(0x0800, &ping())),
    ]
}

/// draft-massar-v6ops-ayiya, section 3: an identity of 16 bytes, a signature of 20; a packet in IPv6 and in
/// IPv4, an echo request.
pub fn ayiya() -> Vec<Vec<u8>> {
    let of = |opcode: u8, next: u8, payload: &[u8]| {
        let head = [0x41, 0x52, 0x10 | opcode, next, 0x65, 0, 0, 0];
        outer_udp(5072, &join(&[&head, &[7; 16], &[8; 20], payload]))
    };
    vec![of(1, 41, &ping6()), of(1, 4, &datagram()), of(2, 59, b"anyone?")]
}

/// RFC 7761, section 4.9: hello, a register with a packet and one without, in IPv4 and IPv6.
pub fn pim() -> Vec<Vec<u8>> {
    let of = |kind: u8, body: &[u8]| {
        // The checksum of a register covers its first eight bytes only.
        let mut bytes = join(&[&[0x20 | kind, 0, 0, 0], body]);
        let covered = if kind == 1 { 8 } else { bytes.len() };
        let sum: u32 =
            bytes[..covered].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    let group = Ends { dst: 0xe8_01_01_01, ..INNER };
    let data = ipv4(group, 17, 3, 0, &crate::traces::frame::udp(group, &[]));
    let dummy = ipv4(group, 103, 4, 0, &[]);
    vec![
        outer(103, &of(0, &[0, 1, 0, 2, 0, 105])),
        outer(103, &of(1, &join(&[&[0; 4], &data]))),
        outer(103, &of(1, &join(&[&[0x40, 0, 0, 0], &dummy]))),
        ethernet(0x86dd, &ipv6(103, &of(1, &join(&[&[0; 4], &ping6()])))),
    ]
}

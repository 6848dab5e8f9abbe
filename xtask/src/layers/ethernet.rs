//! Frames of IEEE 802.3, of tags, and of Ethernet in other protocols, with each header as in its
//! specification.

use super::{OUTER, datagram, ipv6, join, outer, outer_udp, ping, ping6};
use crate::traces::frame::{Ends, ethernet, ipv4};
use crate::traces::sums::internet;

const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// An IEEE 802.3 frame: the field of the EtherType holds the length of the payload, and the frame is padded
/// to 60 bytes.
fn ieee8023(payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(payload.len() as u16, payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An 802.2 and a SNAP header.
fn snap(oui: [u8; 3], kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xaa, 0xaa, 3], &oui, &kind.to_be_bytes(), payload])
}

/// IEEE 802.2: SNAP, the point of IPv4, spanning tree, behind a tag, and bridged frames with and without
/// checksum (RFC 2684, section 5.2). The last frame is one of Novell, without LLC.
pub fn llc() -> Vec<Vec<u8>> {
    let tree = join(&[&[0x42, 0x42, 3], &[0; 4], &[0x80; 31]]);
    let tagged = snap([0; 3], 0x86dd, &ping6());
    let length = (tagged.len() as u16).to_be_bytes();
    let bridged = join(&[&[0, 0], &ethernet(0x0800, &datagram())]);
    vec![
        ieee8023(&snap([0; 3], 0x0800, &ping())),
        ieee8023(&join(&[&[6, 6, 3], &datagram()])),
        ieee8023(&tree),
        ethernet(0x8100, &join(&[&[0, 42], &length, &tagged, &[0; 8]])),
        ieee8023(&snap([0, 0x80, 0xc2], 7, &bridged)),
        ieee8023(&snap([0, 0x80, 0xc2], 1, &join(&[&bridged, &[1, 2, 3, 4]]))),
        ieee8023(&snap([0, 0, 0x0c], 0x2000, &[1, 180, 0, 0])),
        ieee8023(&join(&[&[0xff, 0xff, 0, 30, 0, 0], &[0; 24]])),
    ]
}

/// A frame between these addresses.
fn frame_to(dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&dst, &NEAR, &ethertype.to_be_bytes(), payload])
}

/// RFC 3032, RFC 4448, RFC 4385: IP, and pseudowires with a control word and without, to addresses that begin
/// like IPv4, IPv6 and a control word; the channel of a pseudowire.
pub fn mpls() -> Vec<Vec<u8>> {
    let below =
        |payload: &[u8]| ethernet(0x8847, &join(&[&[0, 0x06, 0x40, 64], &[0, 0x0c, 0x81, 63], payload]));
    let tagged = join(&[&[0, 42, 8, 0], &datagram()]);
    let snapped = snap([0; 3], 0x0800, &ping());
    vec![
        below(&ping()),
        below(&ping6()),
        below(&join(&[&[0; 4], &frame_to(FAR, 0x0800, &ping())])),
        below(&join(&[&[0, 0, 0, 9], &frame_to([0x45, 0, 0, 28, 0, 1], 0x8100, &tagged)])),
        below(&join(&[&[0; 4], &frame_to(FAR, snapped.len() as u16, &snapped)])),
        below(&frame_to([0x46, 0, 0, 28, 0, 2], 0x0800, &datagram())),
        below(&frame_to([0x60, 0, 0, 0, 0, 3], 0x86dd, &ping6())),
        below(&frame_to([0, 0, 0x5e, 0, 1, 4], 0x8100, &tagged)),
        below(&frame_to([0x10, 0, 0, 0, 0, 5], 0x0800, &ping())),
        below(&frame_to([0xa8, 0, 0, 0, 0, 6], 0x0800, &ping())),
        // The channel with a packet, and with BFD.
        below(&join(&[&[0x10, 0, 0, 0x21], &ping()])),
        below(&join(&[&[0x10, 0, 0, 7], &[0x20, 0x40, 3, 24], &[0; 20]])),
        // In IP, RFC 4023.
        outer(137, &join(&[&[0, 0x06, 0x41, 64], &datagram()])),
    ]
}

/// IEEE 802.1ah: a service with a packet, behind a backbone's tag, and with a customer's tag.
pub fn pbb() -> Vec<Vec<u8>> {
    let of = |ethertype: u16, payload: &[u8]| {
        join(&[&[0x60, 0, 1, 42], &FAR, &NEAR, &ethertype.to_be_bytes(), payload])
    };
    let inner = join(&[&[0, 7, 8, 0], &datagram()]);
    vec![
        ethernet(0x88e7, &of(0x0800, &ping())),
        ethernet(0x88a8, &join(&[&[0, 9, 0x88, 0xe7], &of(0x86dd, &ping6())])),
        ethernet(0x88e7, &of(0x8100, &inner)),
    ]
}

/// IEEE 802.1BR: to a port, and to a group with a customer's tag.
pub fn etag() -> Vec<Vec<u8>> {
    let inner = join(&[&[0, 7, 8, 0], &datagram()]);
    vec![
        ethernet(0x893f, &join(&[&[0x40, 5, 0x00, 9, 0, 0, 0x08, 0], &ping()])),
        ethernet(0x893f, &join(&[&[0x00, 5, 0x10, 9, 1, 2, 0x81, 0], &inner])),
    ]
}

/// Cisco's VN-Tag: from an interface, and to one.
pub fn vntag() -> Vec<Vec<u8>> {
    vec![
        ethernet(0x8926, &join(&[&[0x00, 0, 0x00, 17, 8, 0], &ping()])),
        ethernet(0x8926, &join(&[&[0x80, 17, 0x80, 0, 0x86, 0xdd], &ping6()])),
    ]
}

/// IEEE 802.1AE: in clear with and without the sender's identifier, short, and encrypted.
pub fn macsec() -> Vec<Vec<u8>> {
    let sender = join(&[&NEAR, &[0, 1]]);
    let check = [0xcc; 16];
    vec![
        ethernet(0x88e5, &join(&[&[0, 0, 0, 0, 0, 1, 8, 0], &datagram(), &check])),
        ethernet(0x88e5, &join(&[&[0x20, 0, 0, 0, 0, 2], &sender, &[0x86, 0xdd], &ping6(), &check])),
        ethernet(0x88e5, &join(&[&[0, 30, 0, 0, 0, 3, 8, 0], &ping(), &check, &[0; 4]])),
        ethernet(0x88e5, &join(&[&[0x2c, 0, 0, 0, 0, 4], &sender, &[0xee; 48], &check])),
    ]
}

/// RFC 3378, in IPv4 and IPv6.
pub fn etherip() -> Vec<Vec<u8>> {
    let inside = join(&[&[0x30, 0], &ethernet(0x0800, &ping())]);
    vec![outer(97, &inside), ethernet(0x86dd, &ipv6(97, &inside))]
}

/// RFC 9300, section 5: a nonce and status bits, a network identifier, IPv6.
pub fn lisp() -> Vec<Vec<u8>> {
    let of = |head: [u8; 8], payload: &[u8]| outer_udp(4341, &join(&[&head, payload]));
    vec![
        of([0xc0, 1, 2, 3, 0, 0, 0, 1], &ping()),
        of([0x08, 0, 0, 0, 0, 0, 42, 1], &datagram()),
        of([0x08, 0, 0, 0, 0, 0, 43, 1], &ping6()),
    ]
}

/// RFC 5415, section 4.3: Ethernet with and without the radio's address, 802.11 as it is and with exchanged
/// control bytes, a fragment, a keep-alive, and DTLS.
pub fn capwap() -> Vec<Vec<u8>> {
    let head = |words: u8, flags: u16| {
        let bits = u32::from(words) << 19 | 1 << 14 | 1 << 9 | u32::from(flags);
        join(&[&bits.to_be_bytes()[..], &[0, 1, 0, 0]])
    };
    let (native, fragment, radio, alive) = (0x100, 0x80, 0x10, 0x08);
    let frame = ethernet(0x0800, &ping());
    let wireless = |control: [u8; 2]| {
        let addresses = [[2, 0, 0, 0, 0, 0xa], NEAR, FAR].concat();
        join(&[&control, &[0, 0], &addresses, &[0x10, 0], &snap([0; 3], 0x0800, &datagram())])
    };
    let of = |payload: &[u8]| outer_udp(5247, payload);
    vec![
        of(&join(&[&head(2, 0), &frame])),
        of(&join(&[&head(4, radio), &[6], &NEAR, &[0], &frame])),
        of(&join(&[&head(2, native), &wireless([0x01, 0x08])])),
        of(&join(&[&head(2, native), &wireless([0x08, 0x01])])),
        of(&join(&[&head(2, fragment), &frame[..24]])),
        of(&join(&[&head(2, alive), &[0, 22], &[0; 20]])),
        of(&join(&[&[1, 0, 0, 0], &[0x17, 0xfe, 0xfd], &[0; 12]])),
    ]
}

/// TZSP: Ethernet without and with values, 802.11, and a keep-alive.
pub fn tzsp() -> Vec<Vec<u8>> {
    let of = |kind: u8, encap: u8, payload: &[u8]| outer_udp(37008, &join(&[&[1, kind, 0, encap], payload]));
    let wireless = join(&[
        &[0x08, 0x01, 0, 0],
        &[[2, 0, 0, 0, 0, 0xa], NEAR, FAR].concat(),
        &[0x10, 0],
        &snap([0; 3], 0x0800, &datagram()),
    ]);
    vec![
        of(0, 1, &join(&[&[1], &ethernet(0x0800, &ping())])),
        of(0, 1, &join(&[&[10, 1, 0xd0], &[0], &[41, 2, 0, 60], &[1], &ethernet(0x86dd, &ping6())])),
        of(1, 18, &join(&[&[1], &wireless])),
        of(4, 0, &[]),
    ]
}

/// RFC 3828: two datagrams of a connection, with the checksum over all and over the first 20 bytes; a query
/// of DNS.
pub fn udplite() -> Vec<Vec<u8>> {
    let query = join(&[&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], b"\x03lab\x07example\0", &[0, 1, 0, 1]]);
    let of = |ends: Ends, coverage: u16, payload: &[u8]| {
        let length = 8 + payload.len();
        let covered = if coverage == 0 { length } else { usize::from(coverage) };
        let mut bytes =
            join(&[&[ends.src_port, ends.dst_port, coverage, 0].map(u16::to_be_bytes).concat(), payload]);
        let pseudo = join(&[&ends.src.to_be_bytes(), &ends.dst.to_be_bytes(), &[0, 136]]);
        let sum = internet(&[&pseudo, &(length as u16).to_be_bytes(), &bytes[..covered]]);
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        ethernet(0x0800, &ipv4(ends, 136, 1, 0, &bytes))
    };
    let there = Ends { dst_port: 9, ..OUTER };
    vec![
        of(there, 0, b"everything is covered"),
        of(there.reversed(), 20, b"only a part is covered"),
        of(Ends { dst_port: 53, ..OUTER }, 8, &query),
    ]
}

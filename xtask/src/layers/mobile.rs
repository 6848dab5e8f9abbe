//! Frames of GTP-U: 3GPP TS 29.281, with extension headers of TS 38.415.

use super::{INNER, OUTER, datagram, join, outer_udp, ping, ping6};
use crate::traces::frame::{Ends, ethernet, ipv4, tcp, udp};

/// Flags in addition to version 1 and protocol type 1, message type, and the bytes after the first eight.
pub fn gtp_of(flags: u8, message: u8, teid: u32, rest: &[u8]) -> Vec<u8> {
    let length = (rest.len() as u16).to_be_bytes();
    join(&[&[0x30 | flags, message], &length, &teid.to_be_bytes(), rest])
}

/// Echo messages; users' packets with and without options, with one and two extension headers; an end marker.
pub fn gtp() -> Vec<Vec<u8>> {
    let session = |uplink: u8, flow: u8| [1, uplink << 4, flow, 0];
    let answer = Ends { src: OUTER.dst, dst: OUTER.src, src_port: 2152, dst_port: 50_000 };
    let echo_response = gtp_of(2, 2, 0, &[0, 1, 0, 0, 14, 0]);
    let syn = ipv4(INNER, 6, 4, 0, &tcp(Ends { dst_port: 443, ..INNER }, 100, 0, 2, &[]));
    let through_gtp = join(&[&[0, 1, 0, 0], &syn]);
    vec![
        outer_udp(2152, &gtp_of(2, 1, 0, &[0, 1, 0, 0])),
        ethernet(0x0800, &ipv4(answer, 17, 1, 0, &udp(answer, &echo_response))),
        outer_udp(2152, &gtp_of(0, 255, 0x100, &ping())),
        outer_udp(2152, &gtp_of(0, 255, 0x100, &ping6())),
        outer_udp(2152, &gtp_of(2, 255, 0x101, &through_gtp)),
        outer_udp(2152, &gtp_of(4, 255, 0x102, &join(&[&[0, 0, 0, 0x85], &session(1, 9), &datagram()]))),
        outer_udp(
            2152,
            &gtp_of(4, 255, 0x103, &join(&[&[0, 0, 0, 0xc0, 1, 0, 5, 0x85], &session(0, 5), &ping()])),
        ),
        outer_udp(2152, &gtp_of(0, 254, 0x100, &[])),
    ]
}

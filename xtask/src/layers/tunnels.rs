//! Frames of tunnels, with each header as in its RFC.

use super::{INNER, OUTER, datagram, ipv6, join, outer, outer_udp, ping, ping6};
use crate::traces::frame::{Ends, ethernet, ipv4, tcp, udp};

/// IPv4 and IPv6 in each other, all four combinations, and more nesting than the stack follows.
pub fn internet() -> Vec<Vec<u8>> {
    let deep = (0..5).fold(ping(), |inside, _| ipv4(OUTER, 4, 1, 0, &inside));
    let mut frames = vec![
        outer(4, &ping()),
        outer(41, &ping6()),
        ethernet(0x86dd, &ipv6(4, &datagram())),
        ethernet(0x86dd, &ipv6(41, &ping6())),
        outer_udp(6635, &join(&[&[0, 0x06, 0x41, 64], &ping()])), // MPLS in UDP, RFC 7510: label 100
        ethernet(0x0800, &deep),
    ];
    frames.extend(fragments_in_fragments());
    frames
}

/// A datagram in two fragments, each in a VXLAN datagram that is also fragmented.
fn fragments_in_fragments() -> Vec<Vec<u8>> {
    let halves = |ends: Ends, id: u16, payload: &[u8]| {
        let (first, last) = payload.split_at(payload.len() / 16 * 8);
        let offset = (first.len() / 8) as u16;
        [ipv4(ends, 17, id, 0x2000, first), ipv4(ends, 17, id, offset, last)]
    };
    let through = Ends { dst_port: 4789, ..OUTER };
    let inside = halves(INNER, 9, &udp(INNER, &[b'x'; 56]));
    let overlays = inside.iter().enumerate().flat_map(|(at, half)| {
        let overlay = join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(0x0800, half)]);
        halves(through, 20 + at as u16, &udp(through, &overlay))
    });
    overlays.map(|datagram| ethernet(0x0800, &datagram)).collect()
}

/// GRE with flags and version, EtherType, and the optional words.
pub fn gre_of(flags: u16, ethertype: u16, words: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = join(&[&flags.to_be_bytes(), &ethertype.to_be_bytes()]);
    words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
pub const KEY: u16 = 0x2000;
pub const NUMBER: u16 = 0x1000;
pub const ACK: u16 = 0x0080;

/// RFC 2784, 2890; RFC 2637 section 4.1; MikroTik's EoIP; WCCP (draft-mclaggan-wccp-v2rev1, section 4.12)
/// with its header and without.
pub fn gre() -> Vec<Vec<u8>> {
    let call = |bytes: usize| (bytes as u32) << 16 | 7;
    let ppp = join(&[&[0xff, 3, 0, 0x21], &ping()]);
    let frame = ethernet(0x0800, &ping());
    let source_route = join(&[&[8, 0, 0, 4, 192, 0, 2, 9], &[0; 4], &ping()]);
    vec![
        outer(47, &gre_of(0, 0x0800, &[], &ping())),
        outer(47, &gre_of(KEY, 0x0800, &[42], &datagram())),
        outer(47, &gre_of(CHECKSUM | KEY | NUMBER, 0x86dd, &[0x1234_0000, 42, 9], &ping6())),
        outer(47, &gre_of(0, 0x6558, &[], &ethernet(0x0800, &ping()))),
        outer(47, &gre_of(0, 0x8847, &[], &join(&[&[0, 0x06, 0x41, 64], &ping()]))),
        outer(47, &gre_of(ROUTING, 0x0800, &[0], &source_route)),
        ethernet(0x86dd, &ipv6(47, &gre_of(NUMBER, 0x0800, &[1], &datagram()))),
        outer(47, &gre_of(KEY | NUMBER | 1, 0x880b, &[call(ppp.len()), 1], &ppp)),
        outer(47, &gre_of(KEY | NUMBER | ACK | 1, 0x880b, &[call(ppp.len()), 2, 5], &ppp)),
        outer(47, &gre_of(KEY | ACK | 1, 0x880b, &[call(0), 6], &[])),
        outer_udp(4754, &gre_of(KEY, 0x0800, &[43], &ping())),
        // Twice: a tunnel in a tunnel.
        outer(47, &gre_of(0, 0x0800, &[], &ipv4(INNER, 47, 4, 0, &gre_of(KEY, 0x86dd, &[44], &ping6())))),
        // The tunnel identifier 300, least significant byte first.
        outer(47, &gre_of(KEY | 1, 0x6400, &[(frame.len() as u32) << 16 | 0x2c01], &frame)),
        outer(47, &gre_of(0, 0x883e, &[0x0000_0011], &datagram())),
        outer(47, &gre_of(0, 0x883e, &[], &ping())),
    ]
}

/// Types I, II and III, the last with and without the platform-specific header.
pub fn erspan() -> Vec<Vec<u8>> {
    let inside = ethernet(0x0800, &ping());
    let tagged = ethernet(0x8100, &join(&[&[0, 42, 8, 0], &ping()]));
    let two = [0x10, 100, 0x00, 20, 0, 0, 0, 1];
    let three = |o: u8| [0x20, 100, 0x04, 21, 0, 0, 0x12, 0x34, 0, 9, 0x80, 0x18 | o];
    vec![
        outer(47, &gre_of(0, 0x88be, &[], &inside)),
        outer(47, &gre_of(NUMBER, 0x88be, &[1], &join(&[&two, &inside]))),
        outer(47, &gre_of(NUMBER, 0x88be, &[2], &join(&[&two, &tagged]))),
        outer(47, &gre_of(NUMBER, 0x22eb, &[1], &join(&[&three(0), &inside]))),
        outer(47, &gre_of(NUMBER, 0x22eb, &[2], &join(&[&three(1), &[0x10, 0, 0, 0, 0, 0, 0, 5], &inside]))),
    ]
}

/// RFC 8926: frames and datagrams, with and without options, and one with a critical option.
pub fn geneve() -> Vec<Vec<u8>> {
    let frame = ethernet(0x0800, &ping());
    let option = [0x01, 0x03, 0x01, 0x01, 0xde, 0xad, 0xbe, 0xef];
    let critical = [0x01, 0x03, 0x81, 0x00];
    vec![
        outer_udp(6081, &join(&[&[0, 0, 0x65, 0x58, 0, 0, 42, 0], &frame])),
        outer_udp(6081, &join(&[&[0, 0, 0x08, 0x00, 0, 0, 43, 0], &datagram()])),
        outer_udp(6081, &join(&[&[2, 0, 0x86, 0xdd, 0, 0, 44, 0], &option, &ping6()])),
        outer_udp(6081, &join(&[&[3, 0x40, 0x65, 0x58, 0, 0, 45, 0], &option, &critical, &frame])),
        outer_udp(6081, &[0, 0x80, 0x65, 0x58, 0, 0, 46, 0]),
    ]
}

/// RFC 2516, section 4.
fn pppoe_of(code: u8, session: u16, payload: &[u8]) -> Vec<u8> {
    let (session, length) = (session.to_be_bytes(), (payload.len() as u16).to_be_bytes());
    let head = [0x11, code, session[0], session[1], length[0], length[1]];
    ethernet(if code == 0 { 0x8864 } else { 0x8863 }, &join(&[&head, payload]))
}

/// Discovery, a session with LCP and datagrams, its termination.
pub fn pppoe() -> Vec<Vec<u8>> {
    let any_service = [1, 1, 0, 0];
    let uniq = [1, 3, 0, 4, 1, 2, 3, 4];
    let name = join(&[&[1, 2, 0, 4], b"ac-1"]);
    let cookie = [1, 4, 0, 2, 0xab, 0xcd];
    let large = [1, 0x20, 0, 2, 0x05, 0xdc];
    let lcp = [0xc0, 0x21, 1, 1, 0, 8, 1, 4, 0x05, 0xd4];
    vec![
        pppoe_of(0x09, 0, &join(&[&any_service, &uniq, &large])),
        pppoe_of(0x07, 0, &join(&[&any_service, &uniq, &name, &cookie])),
        pppoe_of(0x19, 0, &join(&[&any_service, &uniq, &cookie])),
        pppoe_of(0x65, 17, &join(&[&any_service, &uniq])),
        pppoe_of(0, 17, &lcp),
        pppoe_of(0, 17, &join(&[&[0, 0x21], &ping()])),
        pppoe_of(0, 17, &join(&[&[0, 0x21], &datagram()])),
        pppoe_of(0, 17, &join(&[&[0, 0x57], &ping6()])),
        pppoe_of(0xa7, 17, &[]),
    ]
}

/// L2TP of RFC 2661: flags and version, then the fields that the flags announce.
fn l2tp_of(flags: u16, words: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut bytes = (flags | 2).to_be_bytes().to_vec();
    words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
    bytes.extend(payload);
    outer_udp(1701, &bytes)
}

/// PPP with its two fields in full and compressed, in all combinations (RFC 1661, section 6.5 and 6.6).
pub fn ppp() -> Vec<Vec<u8>> {
    let data = |head: &[u8], inside: &[u8]| l2tp_of(0, &[5, 6], &join(&[head, inside]));
    vec![
        data(&[0xff, 3, 0, 0x21], &ping()),
        data(&[0, 0x21], &ping()),
        data(&[0x21], &ping()),
        data(&[0xff, 3, 0x57], &ping6()),
        data(&[0x02, 0x81], &join(&[&[0, 0x06, 0x41, 64], &ping()])),
        data(&[0xff, 3, 0xc0, 0x21], &[9, 1, 0, 8, 1, 2, 3, 4]),
    ]
}

/// A tunnel's set-up, an acknowledgement, data with and without length, sequence numbers and offset.
pub fn l2tp() -> Vec<Vec<u8>> {
    let sccrq = [0x80, 8, 0, 0, 0, 0, 0, 1, 0x80, 8, 0, 0, 0, 2, 1, 0];
    let inside = join(&[&[0xff, 3, 0, 0x21], &ping()]);
    vec![
        l2tp_of(0xc800, &[28, 0, 0, 0, 0], &sccrq),
        l2tp_of(0xc800, &[12, 9, 0, 1, 1], &[]),
        l2tp_of(0x0000, &[9, 1], &inside),
        l2tp_of(0x4000, &[8 + inside.len() as u16, 9, 1], &inside),
        l2tp_of(0x0800, &[9, 1, 0, 0], &inside),
        l2tp_of(0x0200, &[9, 1, 2], &join(&[&[0, 0], &inside])),
    ]
}

/// RFC 4380, section 5.1.1: plain, with an origin indication, with authentication, with both.
pub fn teredo() -> Vec<Vec<u8>> {
    let origin = [0, 0, 0x3c, 0xaf, 0x3f, 0xff, 0xfd, 0xfe];
    let auth = join(&[&[0, 1, 2, 1], b"id", b"v", &[7; 8], &[0]]);
    vec![
        outer_udp(3544, &ping6()),
        outer_udp(3544, &join(&[&origin, &ping6()])),
        outer_udp(3544, &join(&[&auth, &ping6()])),
        outer_udp(3544, &join(&[&auth, &origin, &ping6()])),
    ]
}

/// RFC 2637: a control connection over TCP, then a call's packets in GRE.
pub fn pptp() -> Vec<Vec<u8>> {
    let there = Ends { dst_port: 1723, ..OUTER };
    let message = |kind: u16, body: &[u8]| {
        let length = 12 + body.len() as u16;
        let head = [length, 1, 0x1a2b, 0x3c4d, kind, 0].map(u16::to_be_bytes).concat();
        join(&[&head, body])
    };
    let start = |reply: u8| {
        let mut body = vec![1, 0, reply, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 1, 0, 1];
        body.extend([0; 128]);
        body
    };
    let call = join(&[&[0, 7, 0, 1], &[0; 152]]);
    let called = join(&[&[0, 8, 0, 7, 1, 0, 0, 0], &[0; 12]]);
    let ppp = join(&[&[0xff, 3, 0, 0x21], &ping()]);
    let key = (ppp.len() as u32) << 16 | 8;
    let mut seq = [1u32, 1];
    let mut frames = vec![];
    let steps: [(bool, u8, Vec<u8>); 9] = [
        (true, 0x02, vec![]),
        (false, 0x12, vec![]),
        (true, 0x10, vec![]),
        (true, 0x18, message(1, &start(0))),
        (false, 0x18, message(2, &start(1))),
        (true, 0x18, message(7, &call)),
        (false, 0x18, message(8, &called)),
        (true, 0x18, message(5, &[0, 0, 0, 3])),
        (false, 0x18, message(6, &[0, 0, 0, 3, 1, 0, 0, 0])),
    ];
    for (forward, flags, payload) in steps {
        let (me, ends) = if forward { (0, there) } else { (1, there.reversed()) };
        let ack = if flags & 0x10 == 0 { 0 } else { seq[1 - me] };
        let segment = tcp(ends, seq[me], ack, flags, &payload);
        frames.push(ethernet(0x0800, &ipv4(ends, 6, 1, 0, &segment)));
        seq[me] += payload.len() as u32 + u32::from(flags >> 1 & 1);
    }
    frames.push(outer(47, &gre_of(KEY | NUMBER | 1, 0x880b, &[key, 1], &ppp)));
    frames.push(outer(47, &gre_of(KEY | ACK | 1, 0x880b, &[8, 1], &[])));
    frames
}

//! Strict reassembly: injected segments that the receiver would not accept are in no stream. Tables list the
//! injected segments; most tests also check that fast reassembly delivers them, so that no case is without
//! effect.

use crate::properties::drive::{MemoryPacket, ask, compile, rows};
use crate::properties::streams::streams_of;
use weir::{Ask, Compiler, EventRows, Limits, Need, Options, Want};
use weir_engine::stream::StreamParams;
use weir_testing::frames::{ACK, FIN, PSH, SYN, V4, ethernet, ipv4, ipv6, ipv6_fragment, tcp, udp};

pub(crate) const RST: u8 = 4;
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
const PORTS: [u16; 2] = [40_000, 80];

/// Which checksum of a segment is wrong.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sum {
    Good,
    Bad,
    /// The checksum covers the pseudo-header only, for completion by the network card.
    Partial,
    /// The datagram's header is damaged.
    BadHeader,
}

/// A segment: sender, sequence number, acknowledgement, flags, time stamp, payload, checksum.
#[derive(Clone, Copy)]
pub(crate) struct Segment(pub usize, pub u32, pub u32, pub u8, pub Option<u32>, pub &'static [u8], pub Sum);

/// The Internet checksum (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let all: u32 = pairs.sum();
    let folded = (all & 0xffff) + (all >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

fn datagram(side: usize, protocol: u8, mut payload: Vec<u8>, checksum_at: usize, how: Sum) -> MemoryPacket {
    let ends = if side == CLIENT { (V4[0], V4[1]) } else { (V4[1], V4[0]) };
    let length = (payload.len() as u16).to_be_bytes();
    let pseudo = [&ends.0[..], &ends.1, &[0, protocol], &length].concat();
    let checksum = match how {
        Sum::Partial => sum(&[&pseudo]),
        Sum::Bad => !sum(&[&pseudo, &payload]) ^ 0x1000,
        Sum::Good | Sum::BadHeader => !sum(&[&pseudo, &payload]),
    };
    payload[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    let mut datagram = ipv4(ends, protocol, 1, 0x4000, &[], &payload);
    let header = !sum(&[&datagram[..20]]) ^ if how == Sum::BadHeader { 0x0100 } else { 0 };
    datagram[10..12].copy_from_slice(&header.to_be_bytes());
    MemoryPacket::ethernet(ethernet(0x0800, &datagram))
}

pub(crate) fn packet(segment: &Segment) -> MemoryPacket {
    let Segment(side, seq, ack, flags, clock, payload, how) = *segment;
    let ports = (PORTS[side], PORTS[1 - side]);
    let stamp = |clock: u32| [&[1, 1, 8, 10][..], &clock.to_be_bytes(), &[0; 4]].concat();
    let options = clock.map(stamp).unwrap_or_default();
    datagram(side, 6, tcp(ports, seq, ack, flags, &options, payload), 16, how)
}

/// Both streams of these packets.
pub(crate) fn streams(packets: &[MemoryPacket], strict: bool) -> [String; 2] {
    let limits = Limits { strict, ..Limits::default() };
    let want = Want::Streams(StreamParams::default());
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", want)], &Options { limits, ..Options::default() });
    let streams = streams_of(compiled.plan(), packets);
    [(PORTS[0], PORTS[1]), (PORTS[1], PORTS[0])].map(|key| {
        let bytes = streams.0.get(&key).map_or(&[][..], Vec::as_slice);
        bytes.iter().map(|byte| byte.map_or('?', char::from)).collect()
    })
}

pub(crate) const HANDSHAKE: [Segment; 3] = [
    Segment(CLIENT, 100, 0, SYN, Some(1000), b"", Sum::Good),
    Segment(SERVER, 500, 101, SYN | ACK, Some(7000), b"", Sum::Good),
    Segment(CLIENT, 101, 501, ACK, Some(1001), b"", Sum::Good),
];
/// Two segments of the client, the first of them acknowledged, and one of the server.
pub(crate) const TALK: [Segment; 4] = [
    Segment(CLIENT, 101, 501, ACK | PSH, Some(1010), b"GET /", Sum::Good),
    Segment(SERVER, 501, 106, ACK, Some(7010), b"", Sum::Good),
    Segment(CLIENT, 106, 501, ACK | PSH, Some(1020), b"index", Sum::Good),
    Segment(SERVER, 501, 111, ACK | PSH, Some(7020), b"200", Sum::Good),
];

/// The streams with `slipped` injected after `behind` segments of the conversation: strict, then fast.
fn with(slipped: &[Segment], behind: usize) -> [[String; 2]; 2] {
    let (before, after) = ([HANDSHAKE.as_slice(), &TALK].concat(), slipped);
    let (front, back) = before.split_at(behind);
    let all: Vec<MemoryPacket> = front.iter().chain(after).chain(back).map(packet).collect();
    [true, false].map(|strict| streams(&all, strict))
}

#[test]
fn a_conversation_that_is_right_is_whole() {
    for streams in with(&[], 7) {
        assert_eq!(streams, ["GET /index", "200"]);
    }
}

/// Segments with payload that both modes reject.
const BY_BOTH: &[&str] = &["no acknowledgement", "SYN and FIN"];

#[test]
fn what_the_receiver_would_not_take_is_in_no_stream() {
    use Sum::{Bad, BadHeader, Good};
    let clock = Some(1020);
    // Injected after five segments, between the client's two.
    let slipped: [(&str, Segment); 13] = [
        ("a wrong checksum", Segment(CLIENT, 106, 501, ACK, clock, b"evil!", Bad)),
        ("a damaged header", Segment(CLIENT, 106, 501, ACK, clock, b"evil!", BadHeader)),
        ("an old time stamp", Segment(CLIENT, 106, 501, ACK, Some(900), b"evil!", Good)),
        ("no acknowledgement", Segment(CLIENT, 106, 0, PSH, clock, b"evil!", Good)),
        ("SYN and FIN", Segment(CLIENT, 105, 501, ACK | SYN | FIN, clock, b"evil!", Good)),
        ("a reset off sequence", Segment(CLIENT, 9_999, 501, RST, None, b"", Good)),
        ("a reset's payload", Segment(CLIENT, 110, 501, RST, None, b"evil!", Good)),
        ("what acknowledges the future", Segment(CLIENT, 106, 9_000, ACK, clock, b"evil!", Good)),
        ("an old FIN", Segment(CLIENT, 104, 501, ACK | FIN, clock, b"", Good)),
        ("an old segment with a new time stamp", Segment(CLIENT, 101, 501, ACK, Some(90_000), b"GET", Good)),
        ("a SYN again, without its options", Segment(CLIENT, 100, 0, SYN, None, b"", Good)),
        ("a reset behind a hole", Segment(CLIENT, 120, 501, RST, None, b"", Good)),
        ("a SYN of another connection", Segment(CLIENT, 3_000, 0, SYN, clock, b"", Good)),
    ];
    for (what, segment) in slipped {
        let [strict, fast] = with(&[segment], 5);
        assert_eq!(strict, ["GET /index", "200"], "{what}");
        // Rules that need every payload, or a capture without loss, apply in strict mode only.
        let by_both = segment.5 != b"evil!" || what.contains("reset") || BY_BOTH.contains(&what);
        assert_eq!(fast == strict, by_both, "{what}");
    }
}

/// Hosts discard datagrams with broken options (RFC 791, 3.1).
#[test]
fn datagrams_with_broken_options_carry_nothing() {
    let segment = |options: &[u8], numbers: (u32, u32), flags: u8, payload: &[u8]| {
        let segment = tcp(PORTS.into(), numbers.0, numbers.1, flags, &[], payload);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0x4000, options, &segment)))
    };
    for (options, is_broken) in [([0x94, 9, 0, 0], true), ([1, 1, 1, 0x94], true), ([0x94, 4, 0, 0], false)] {
        let packets = [
            segment(&[], (100, 0), SYN, b""),
            packet(&HANDSHAKE[1]),
            segment(&[], (101, 501), ACK, b""),
            segment(&options, (101, 501), ACK | PSH, b"decoy"),
            segment(&[], (101, 501), ACK | PSH, b"truth"),
            packet(&Segment(SERVER, 501, 106, ACK, None, b"", Sum::Good)),
        ];
        let [strict, fast] = [true, false].map(|strict| streams(&packets, strict)[CLIENT].clone());
        assert_eq!(strict, if is_broken { "truth" } else { "decoy" }, "{options:?}");
        assert_eq!(fast, "decoy");
    }
}

/// A receiver without a key for a connection drops segments with a signature (and one with a key those
/// without).
#[test]
fn signed_segments_are_of_signed_connections() {
    let md5 = [&[19, 18][..], &[7; 16], &[1, 1]].concat();
    let ao = [&[29, 16, 1, 1][..], &[7; 12]].concat();
    let segment = |side: usize, numbers: (u32, u32), flags: u8, options: &[u8], payload: &[u8]| {
        let ports = (PORTS[side], PORTS[1 - side]);
        datagram(side, 6, tcp(ports, numbers.0, numbers.1, flags, options, payload), 16, Sum::Good)
    };
    for signature in [&md5, &ao] {
        for signed in [&[][..], signature] {
            let unlike: &[u8] = if signed.is_empty() { signature } else { &[] };
            let packets = [
                segment(CLIENT, (100, 0), SYN, signed, b""),
                segment(SERVER, (500, 101), SYN | ACK, signed, b""),
                segment(CLIENT, (101, 501), ACK, signed, b""),
                segment(CLIENT, (101, 501), ACK | PSH, unlike, b"decoy"),
                segment(CLIENT, (101, 501), ACK | PSH, signed, b"truth"),
                segment(SERVER, (501, 106), ACK, signed, b""),
            ];
            assert_eq!(
                [true, false].map(|strict| streams(&packets, strict)[CLIENT].clone()),
                ["truth", "decoy"]
            );
        }
    }
}

/// The client's stream if its SYN carries payload; with `again` the SYN is repeated after the handshake.
fn words_in_a_syn(cookie: &[u8], server_ack: u32, again: bool) -> [String; 2] {
    let syn = |options: &[u8]| {
        datagram(CLIENT, 6, tcp((40_000, 80), 100, 0, SYN, options, b"early"), 16, Sum::Good)
    };
    let mut packets = vec![syn(cookie)];
    let mut rest = vec![
        Segment(SERVER, 500, server_ack, SYN | ACK, None, b"", Sum::Good),
        Segment(CLIENT, server_ack, 501, ACK, None, b"", Sum::Good),
    ];
    if server_ack == 101 {
        rest.push(Segment(CLIENT, 101, 501, ACK | PSH, None, b"EARLY", Sum::Good));
    }
    rest.push(Segment(CLIENT, 106, 501, ACK | PSH, None, b" late", Sum::Good));
    packets.extend(rest.iter().map(packet));
    if again {
        packets.insert(3, syn(&[]));
    }
    [true, false].map(|strict| streams(&packets, strict)[CLIENT].clone())
}

#[test]
fn payload_of_a_syn_counts_where_the_server_acknowledges_it() {
    let cookie = [34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1];
    for options in [&cookie[..], &[]] {
        assert_eq!(words_in_a_syn(options, 106, false), ["early late"; 2]);
        // The server did not accept the payload, and the client sends it again.
        assert_eq!(words_in_a_syn(options, 101, false), ["EARLY late"; 2]);
    }
    // After the handshake the payload of a repeated SYN is ignored.
    assert_eq!(words_in_a_syn(&[], 101, true), ["EARLY late"; 2]);
}

#[test]
fn who_never_had_a_checksum_leaves_it_to_a_network_card() {
    let partial = |segment: &Segment| {
        packet(&Segment(segment.0, segment.1, segment.2, segment.3, segment.4, segment.5, Sum::Partial))
    };
    let all: Vec<MemoryPacket> = HANDSHAKE.iter().chain(&TALK).map(partial).collect();
    assert_eq!(streams(&all, true), ["GET /index", "200"]);
}

#[test]
fn who_has_no_right_checksum_and_is_answered_all_the_same_is_heard() {
    let bad = |segment: &Segment| {
        let &Segment(side, seq, ack, flags, clock, payload, _) = segment;
        let how = if side == CLIENT { Sum::Bad } else { Sum::Good };
        packet(&Segment(side, seq, ack, flags, clock, payload, how))
    };
    let all: Vec<MemoryPacket> = HANDSHAKE.iter().chain(&TALK).map(bad).collect();
    assert_eq!(streams(&all, true), ["GET /index", "200"]);
}

#[test]
fn acknowledgements_that_overtake_each_other_close_no_window() {
    // The server opens its window; an older acknowledgement arrives later.
    let full = [b'x'; 1000];
    let text: &'static [u8] = Box::leak(Box::new(full));
    let mut segments = HANDSHAKE.to_vec();
    for n in 0..8 {
        segments.push(Segment(CLIENT, 101 + n * 1000, 501, ACK, Some(1010 + n), text, Sum::Good));
    }
    segments.push(Segment(SERVER, 501, 8_101, ACK, Some(7_100), b"", Sum::Good));
    segments.push(Segment(SERVER, 501, 1_101, ACK, Some(7_100), b"", Sum::Good));
    segments.push(Segment(CLIENT, 8_101, 501, ACK, Some(1020), text, Sum::Good));
    // This segment begins inside the window and ends beyond it.
    segments.push(Segment(CLIENT, 9_101, 501, ACK, Some(1021), text, Sum::Good));
    let packets: Vec<MemoryPacket> = segments.iter().map(packet).collect();
    assert_eq!(streams(&packets, true)[0].len(), 10_000);
}

#[test]
fn who_tries_again_after_a_refusal_is_heard() {
    let refusal = Segment(SERVER, 0, 101, RST | ACK, None, b"", Sum::Good);
    let again: Vec<Segment> = [HANDSHAKE[0], refusal].into_iter().chain(HANDSHAKE).chain(TALK).collect();
    let packets: Vec<MemoryPacket> = again.iter().map(packet).collect();
    assert_eq!(streams(&packets, true), ["GET /index", "200"]);
}

#[test]
fn a_reset_that_takes_what_waits_for_the_end_is_none() {
    let clock = Some(1030);
    let slipped = [
        Segment(CLIENT, 111, 501, ACK, clock, b"later", Sum::Good),
        Segment(CLIENT, 116, 501, RST, clock, b"", Sum::Good),
    ];
    let [strict, _] = with(&slipped, 5);
    assert_eq!(strict, ["GET /indexlater", "200"]);
    // Once the hole is filled, the reset has the expected sequence number.
    let mut filled = [HANDSHAKE.as_slice(), &TALK[..3], &slipped].concat();
    filled.push(Segment(CLIENT, 116, 501, ACK, clock, b"evil!", Sum::Good));
    let packets: Vec<MemoryPacket> = filled.iter().map(packet).collect();
    assert_eq!(streams(&packets, true)[0], "GET /indexlater");
}

#[test]
fn before_the_server_answers_nothing_is_its_own() {
    let early = Segment(SERVER, 7_777, 101, ACK, None, b"evil!", Sum::Good);
    for streams in with(&[early], 1) {
        assert_eq!(streams, ["GET /index", "200"]);
    }
    let unheeded = Segment(SERVER, 0, 101, RST | ACK, None, b"", Sum::Good);
    assert_eq!(with(&[unheeded], 1)[0], ["GET /index", "200"]);
    // A refusal ends the connection.
    let refused = [HANDSHAKE[0], Segment(SERVER, 0, 101, RST | ACK, None, b"", Sum::Good), TALK[0]];
    let packets: Vec<MemoryPacket> = refused.iter().map(packet).collect();
    assert_eq!(streams(&packets, true), ["", ""]);
    assert_eq!(streams(&packets, false)[0], "GET /");
}

#[test]
fn behind_a_reset_or_a_fin_nothing_comes() {
    let clock = Some(1030);
    for end in [RST | ACK, FIN | ACK] {
        let more = [
            Segment(CLIENT, 111, 504, end, clock, b"", Sum::Good),
            Segment(CLIENT, 112 - u32::from(end & RST != 0), 504, ACK, clock, b"evil!", Sum::Good),
        ];
        let [strict, fast] = with(&more, 7);
        assert_eq!(strict, ["GET /index", "200"]);
        // Bytes that were sent before the peer's reset arrived may follow the reset.
        assert_eq!(fast[0], if end & FIN != 0 { "GET /index" } else { "GET /indexevil!" });
    }
}

#[test]
fn beyond_the_window_nothing_counts() {
    // The server's window is 8192 bytes.
    let far = Segment(CLIENT, 106 + 9_000, 501, ACK, Some(1030), b"evil!", Sum::Good);
    let fin = Segment(CLIENT, 111, 504, FIN | ACK, Some(1040), b"", Sum::Good);
    let [strict, fast] = with(&[far], 7);
    assert_eq!(strict[0], "GET /index");
    assert!(
        fast[0].ends_with("evil!"),
        "the window may have been opened by a segment that was not captured: {fast:?}"
    );
    // Beyond the end, nothing counts in any mode.
    for streams in with(&[far, fin], 7) {
        assert_eq!(streams[0], "GET /index");
    }
}

#[test]
fn late_segments_that_fill_a_hole_are_not_stale() {
    let mut late = [HANDSHAKE.as_slice(), &TALK].concat();
    late.swap(3, 5);
    let packets: Vec<MemoryPacket> = late.iter().map(packet).collect();
    assert_eq!(streams(&packets, true), ["GET /index", "200"]);
}

#[test]
fn a_port_is_used_again_after_the_end() {
    let clock = Some(5);
    let again = [
        Segment(CLIENT, 111, 504, RST | ACK, Some(1030), b"", Sum::Good),
        Segment(CLIENT, 9_000, 0, SYN, clock, b"", Sum::Good),
        Segment(SERVER, 8_000, 9_001, SYN | ACK, clock, b"", Sum::Good),
        Segment(CLIENT, 9_001, 8_001, ACK, clock, b" and again", Sum::Good),
    ];
    for streams in with(&again, 7) {
        assert_eq!(streams[0], "GET /index and again");
    }
}

#[test]
fn damaged_datagrams_of_udp_are_in_no_stream() {
    let words =
        [(&b"one "[..], Sum::Good), (b"bad ", Sum::Bad), (b"worse ", Sum::BadHeader), (b"two", Sum::Good)];
    let packets: Vec<MemoryPacket> = words
        .iter()
        .map(|&(text, how)| datagram(CLIENT, 17, udp((PORTS[0], PORTS[1]), text), 6, how))
        .collect();
    assert_eq!(streams(&packets, true)[0], "one two");
    assert_eq!(streams(&packets, false)[0], "one bad worse two");
}

/// A host discards a datagram that is longer than its frame. If the capture has a snaplen, the frame may have
/// been longer.
#[test]
fn datagrams_longer_than_their_frames_are_in_no_stream() {
    let cut = |side: usize, text: &[u8], snaplen: bool| {
        let mut packet = datagram(side, 17, udp((PORTS[side], PORTS[1 - side]), text), 6, Sum::Good);
        let captured = packet.frame.len() - 2;
        packet.frame.truncate(captured);
        if !snaplen {
            packet.wire_bytes = captured as u32;
        }
        packet
    };
    let packets = [cut(CLIENT, b"none", false), cut(SERVER, b"some", true)];
    assert_eq!(streams(&packets, true), ["", "so"]);
    assert_eq!(streams(&packets, false), ["no", "so"]);
}

#[test]
fn fragments_of_ipv6_that_overlap_are_no_datagram() {
    let ends = ([0x20; 16], [0x21; 16]);
    // Two fragmented datagrams of 24 bytes each, and a fragment injected between those of the first.
    let seen = |slipped: Option<(u16, bool, Vec<u8>)>, strict: bool| {
        let fragment = |ident: u32, (offset, more, bytes): (u16, bool, Vec<u8>)| {
            let fragment = ipv6_fragment(17, offset, more, ident, &bytes);
            MemoryPacket::ethernet(ethernet(0x86dd, &ipv6(ends, 44, &fragment)))
        };
        let mut packets = vec![];
        for (ident, text) in [(1, b"sixteen bytes..."), (2, b"other sixteen!..")] {
            let whole = udp((PORTS[0], PORTS[1]), text);
            packets.push(fragment(ident, (0, true, whole[..16].to_vec())));
            packets.extend(slipped.clone().filter(|_| ident == 1).map(|slipped| fragment(1, slipped)));
            packets.push(fragment(ident, (16, false, whole[16..].to_vec())));
        }
        streams(&packets, strict)[CLIENT].clone()
    };
    let both = "sixteen bytes...other sixteen!..";
    assert_eq!([true, false].map(|strict| seen(None, strict)), [both; 2]);
    // An exact repetition is accepted (RFC 8200, 4.5).
    let again = udp((PORTS[0], PORTS[1]), b"sixteen bytes...")[..16].to_vec();
    assert_eq!(seen(Some((0, true, again)), true), both);
    let slipped = Some((8, true, b"8 bytes more".to_vec()));
    assert_eq!(seen(slipped.clone(), true), "other sixteen!..");
    assert_eq!(seen(slipped, false).len(), both.len());
}

#[test]
fn who_is_not_taken_is_told_why() {
    use Sum::{Bad, Good};
    let clock = Some(1020);
    let reasons: [(u64, Segment); 7] = [
        (1, Segment(CLIENT, 106, 501, ACK, clock, b"evil!", Bad)),
        (2, Segment(CLIENT, 106, 501, ACK, Some(900), b"evil!", Good)),
        (3, Segment(CLIENT, 900_000, 501, ACK, clock, b"evil!", Good)),
        (4, Segment(CLIENT, 106, 0, PSH, clock, b"evil!", Good)),
        (5, Segment(CLIENT, 106, 9_000, ACK, clock, b"evil!", Good)),
        (6, Segment(CLIENT, 9_999, 501, RST, None, b"", Good)),
        (9, Segment(CLIENT, 3_000, 0, SYN, clock, b"", Good)),
    ];
    let compiler = Compiler::default();
    let names = ["tcp.not_taken".to_string(), "tcp.syn_beside".to_string()];
    let wanted = EventRows::of(compiler.stack(), &names).expect("they are declared");
    for (reason, segment) in reasons {
        let all = [HANDSHAKE.as_slice(), &TALK[..2], &[segment], &TALK[2..]].concat();
        let packets: Vec<MemoryPacket> = all.iter().map(packet).collect();
        for (strict, told) in [(true, 1), (false, usize::from(matches!(reason, 4 | 6 | 9)))] {
            let need = Need { events: wanted.asked, ..Need::default() };
            let ask = Ask { filter: String::new(), need, want: Want::Events };
            let limits = Limits { strict, ..Limits::default() };
            let compiled = compile(&compiler, &[ask], &Options { limits, ..Options::default() });
            let (rows, _) = rows(&compiler, &compiled, &packets, 1);
            assert_eq!(rows.len(), told, "reason {reason}: {rows:#?}");
            assert!(
                // A SYN waits beside the connection.
                rows.iter().all(|row| reason == 9 || row.contains(&format!("Unsigned({reason})]"))),
                "{reason}: {rows:#?}"
            );
        }
    }
}

/// Initial sequence numbers do not matter: results are the same near 0, with and without injected segments.
#[test]
fn numbers_mean_the_same_wherever_they_begin() {
    use Sum::Good;
    let slipped = [
        Segment(CLIENT, 3_000, 0, SYN, Some(1020), b"", Good),
        Segment(CLIENT, 106, 501, ACK, Some(900), b"evil!", Good),
        Segment(SERVER, 9_999, 106, RST, None, b"", Good),
        Segment(CLIENT, 104, 501, ACK | FIN, Some(1020), b"", Good),
        Segment(CLIENT, 106, 9_000, ACK, Some(1020), b"evil!", Good),
    ];
    for one in slipped {
        // The whole conversation, and one captured from its middle.
        for begin in [0, 3] {
            let all = [HANDSHAKE.as_slice(), &TALK[..2], &[one], &TALK[2..]].concat();
            let at = |offset: [u32; 2]| {
                let moved = |segment: &Segment| {
                    let &Segment(side, seq, ack, flags, clock, payload, how) = segment;
                    let ack = if flags & ACK == 0 { ack } else { ack.wrapping_add(offset[1 - side]) };
                    packet(&Segment(side, seq.wrapping_add(offset[side]), ack, flags, clock, payload, how))
                };
                let packets: Vec<MemoryPacket> = all[begin..].iter().map(moved).collect();
                [true, false].map(|strict| streams(&packets, strict))
            };
            let usual = at([10_000, 20_000]);
            for first in [0_u32, 100, 101, 106, 3_000] {
                for second in [0_u32, 500, 501, 504, 9_000, 9_999] {
                    let offset = [0_u32.wrapping_sub(first), 0_u32.wrapping_sub(second)];
                    assert_eq!(at(offset), usual, "{first} and {second} are 0");
                }
            }
        }
    }
}

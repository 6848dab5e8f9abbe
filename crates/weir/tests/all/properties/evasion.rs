//! Forged segments in both modes: what the receiver rejects changes no answer, and every captured byte is in
//! exactly one column. `docs/streams.md` has the table of attacks; each of its rows names the test that shows
//! it.

use crate::properties::drive::{MemoryPacket, run_streams, seeds};
use crate::properties::strict::{CLIENT, HANDSHAKE, RST, SERVER, Segment, Sum, TALK, packet, streams};
use std::collections::BTreeMap;
use weir::stream::{Chunk, ChunkParams, EndReason, OverloadParams, Stream, StreamHandler, StreamParams};
use weir::{Compiler, Engine, Limits, Options};
use weir_testing::Random;
use weir_testing::frames::{ACK, FIN, PSH, SYN, V4, ethernet, ipv4, tcp};

const fn good(side: usize, seq: u32, ack: u32, flags: u8, payload: &'static [u8]) -> Segment {
    Segment(side, seq, ack, flags, None, payload, Sum::Good)
}

/// The conversation in full: handshake, request, answer, and the ends of both sides.
fn conversation() -> Vec<Segment> {
    let mut all = [HANDSHAKE.as_slice(), &TALK].concat();
    all.extend([
        Segment(CLIENT, 111, 504, FIN | ACK, Some(1030), b"", Sum::Good),
        Segment(SERVER, 504, 112, FIN | ACK, Some(7030), b"", Sum::Good),
        Segment(CLIENT, 112, 505, ACK, Some(1040), b"", Sum::Good),
    ]);
    all
}

/// Injected segments that both modes ignore: name, position, segments.
const IGNORED: &[(&str, usize, &[Segment])] = &[
    (
        "a SYN-ACK with a far number before the true one",
        1,
        &[good(SERVER, 3_000_000_000, 101, SYN | ACK, b"")],
    ),
    ("a SYN-ACK with a near number before the true one", 1, &[good(SERVER, 40_000, 101, SYN | ACK, b"")]),
    ("a SYN-ACK with a lower number before the true one", 1, &[good(SERVER, 7, 101, SYN | ACK, b"")]),
    ("two of them", 1, &[good(SERVER, 7, 101, SYN | ACK, b""), good(SERVER, 40_000, 101, SYN | ACK, b"")]),
    (
        "a SYN-ACK between the true one and its acknowledgement",
        2,
        &[good(SERVER, 40_000, 101, SYN | ACK, b"")],
    ),
    ("a SYN-ACK that acknowledges no SYN", 1, &[good(SERVER, 40_000, 77, SYN | ACK, b"")]),
    ("a SYN-ACK after the handshake", 3, &[good(SERVER, 40_000, 101, SYN | ACK, b"")]),
    ("a second SYN, which the server does not answer", 1, &[good(CLIENT, 900_000, 0, SYN, b"")]),
    ("a SYN inside the connection", 5, &[good(CLIENT, 77_777_777, 0, SYN, b"")]),
    ("data before the handshake", 1, &[good(SERVER, 2_415_919_104, 101, ACK, b"evil")]),
    ("a reset ahead", 5, &[good(CLIENT, 9_999, 501, RST, b"")]),
    ("a reset behind", 5, &[good(CLIENT, 50, 501, RST, b"")]),
    ("a reset of the server ahead", 5, &[good(SERVER, 60_000, 106, RST | ACK, b"")]),
    ("a reset that acknowledges no SYN", 1, &[good(SERVER, 0, 77, RST | ACK, b"")]),
    ("a reset that acknowledges nothing", 1, &[good(SERVER, 0, 0, RST, b"")]),
    ("a FIN ahead", 5, &[good(CLIENT, 206, 501, FIN | ACK, b"")]),
    ("a FIN far ahead", 5, &[good(CLIENT, 2_000_000_000, 501, FIN | ACK, b"")]),
    ("data ahead, beyond the end", 5, &[good(CLIENT, 500_000, 501, ACK, b"evil")]),
    ("data before the beginning", 5, &[good(CLIENT, 60, 501, ACK, b"evil")]),
    ("data without an acknowledgement", 5, &[good(CLIENT, 106, 0, PSH, b"evil!")]),
    ("SYN and FIN", 5, &[good(CLIENT, 105, 501, SYN | FIN | ACK, b"evil!")]),
    ("data after the end", 10, &[good(CLIENT, 112, 505, ACK, b"evil")]),
];

#[test]
fn what_the_receiver_rejects_changes_no_stream() {
    for &(what, at, forged) in IGNORED {
        for strict in [false, true] {
            let mut all = conversation();
            all.splice(at..at, forged.iter().copied());
            let packets: Vec<MemoryPacket> = all.iter().map(packet).collect();
            assert_eq!(streams(&packets, strict), ["GET /index", "200"], "{what}, strict: {strict}");
        }
    }
}

/// A FIN or a reset with the right numbers, that its receiver never got: at every place of the conversation,
/// of both sides, once and twice.
#[test]
fn ends_that_never_arrived_change_no_stream() {
    let all = conversation();
    for at in 3..8 {
        for side in [CLIENT, SERVER] {
            // What the side would send next, and acknowledge.
            let said = |of: usize| all[..at].iter().filter(move |segment| segment.0 == of);
            let next =
                |segment: &Segment| segment.1 + segment.5.len() as u32 + u32::from(segment.3 & SYN != 0);
            let seq = said(side).map(next).max().unwrap();
            let ack = said(1 - side).map(next).max().unwrap();
            for flags in [FIN | ACK, FIN | PSH | ACK, RST, RST | ACK] {
                for times in 1..=2 {
                    let mut with = all.clone();
                    let forged = good(side, seq, if flags & ACK == 0 { 0 } else { ack }, flags, b"");
                    with.splice(at..at, vec![forged; times]);
                    let packets: Vec<MemoryPacket> = with.iter().map(packet).collect();
                    for strict in [false, true] {
                        assert_eq!(
                            streams(&packets, strict),
                            ["GET /index", "200"],
                            "{flags:#x} of {side} before segment {at}, strict: {strict}"
                        );
                    }
                }
            }
        }
    }
}

/// Payload of a SYN, of a SYN-ACK, or of both, that the other side does not acknowledge.
#[test]
fn what_is_said_before_the_handshake_counts_only_if_it_is_acknowledged() {
    for sides in [&[CLIENT][..], &[SERVER], &[CLIENT, SERVER]] {
        for decoy in [&b"evil"[..], b"evil evil evil evil"] {
            for times in 1..=2 {
                let mut all = conversation();
                for &side in sides.iter().rev() {
                    all[side].5 = decoy;
                    all.splice(side..=side, vec![all[side]; times]);
                }
                let packets: Vec<MemoryPacket> = all.iter().map(packet).collect();
                for strict in [false, true] {
                    assert_eq!(
                        streams(&packets, strict),
                        ["GET /index", "200"],
                        "{sides:?} {times} {strict}"
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_that_an_acknowledgement_covers_before_they_are_captured_are_delivered() {
    // The request comes in the wrong order, and the acknowledgement of all of it in between.
    let mut all = conversation();
    let first = all.remove(3);
    all.remove(3);
    all.insert(4, good(SERVER, 501, 111, ACK, b""));
    all.insert(5, first);
    let packets: Vec<MemoryPacket> = all.iter().map(packet).collect();
    for strict in [false, true] {
        assert_eq!(streams(&packets, strict), ["GET /index", "200"], "strict: {strict}");
    }
}

#[test]
fn the_syn_that_is_answered_is_the_true_one() {
    for (answered, other) in [(100, 900_000), (900_000, 100), (100, 3_000_000_000), (3_000_000_000, 100)] {
        let (client, next) = (CLIENT, answered + 1);
        let all = [
            good(client, 100.min(answered).min(other), 0, SYN, b""),
            good(client, 100.max(answered).max(other), 0, SYN, b""),
            good(SERVER, 500, next, SYN | ACK, b""),
            good(client, next, 501, ACK, b""),
            good(client, next, 501, ACK | PSH, b"GET /"),
            good(SERVER, 501, next + 5, ACK | PSH, b"200"),
        ];
        let packets: Vec<MemoryPacket> = all.iter().map(packet).collect();
        for strict in [false, true] {
            assert_eq!(
                streams(&packets, strict),
                ["GET /", "200"],
                "{answered} is answered, strict: {strict}"
            );
        }
    }
}

/// The columns of a stream, by sender's port.
#[derive(Default)]
struct Columns(BTreeMap<u32, Vec<(&'static str, u64)>>);

impl StreamHandler for Columns {
    type State = ();
    const RECORD: bool = true;

    fn data(&mut self, (): &mut (), _: &mut Stream<'_, '_>, _: &Chunk<'_>) {}

    fn terminated(&mut self, (): (), stream: &mut Stream<'_, '_>, _: EndReason) {
        let (counts, sequence) = (stream.counts(), stream.sequence());
        let positions = counts.delivered_bytes
            + counts.gap_bytes
            + counts.cut_bytes
            + counts.stuck_bytes
            + counts.dropped_bytes;
        let columns = vec![
            ("delivered", counts.delivered_bytes),
            ("retransmitted", sequence.retransmitted_bytes + counts.repeated_bytes),
            ("overlap", sequence.overlap_bytes),
            ("out of window", stream.outside_bytes()),
            ("refused", stream.refused_bytes()),
            ("cut", counts.cut_bytes),
            ("stuck", counts.stuck_bytes),
            ("dropped", counts.dropped_bytes),
            ("positions", positions),
            ("payload", stream.volume().1),
            ("gap", counts.gap_bytes),
        ];
        let [(_, port), _] = stream.endpoints();
        let all = self.0.entry(port).or_insert_with(|| columns.iter().map(|(name, _)| (*name, 0)).collect());
        all.iter_mut().zip(columns).for_each(|(sum, (_, value))| sum.1 += value);
    }
}

/// Random segments of two hosts, many of them forged. Also returns the captured payload of each side.
fn hostile(random: &mut Random, count: usize) -> (Vec<MemoryPacket>, [u64; 2]) {
    let mut sent = [0; 2];
    let isn = [random.pick(&[0, 100, u32::MAX - 50]), random.pick(&[500, u32::MAX - 3])];
    let mut packets = vec![];
    for at in 0..count {
        let side = random.below(2) as usize;
        let near = |random: &mut Random, base: u32| match random.below(12) {
            0 => random.bits() as u32,
            1 => base.wrapping_sub(random.below(60) as u32),
            2 => base.wrapping_add(random.below(100_000) as u32),
            _ => base.wrapping_add(random.below(200) as u32),
        };
        let flags = match random.below(30) {
            0 => SYN | ACK,
            1 => SYN,
            2 => FIN | ACK,
            3 => RST,
            4 => RST | ACK,
            5 => random.bits() as u8 & 0x3f,
            _ => ACK,
        };
        let handshake = [SYN, SYN | ACK, ACK].get(at).filter(|_| !random.once_in(8));
        let (side, flags, seq, ack, length) = match handshake {
            Some(&flags) => {
                let side = at % 2;
                let seq = isn[side].wrapping_add(u32::from(flags == ACK));
                (side, flags, seq, isn[1 - side].wrapping_add(1), 0)
            }
            None => {
                let length = if random.once_in(3) { 0 } else { random.below(80) };
                (side, flags, near(random, isn[side]), near(random, isn[1 - side]), length)
            }
        };
        let payload: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        sent[side] += length;
        let ports = [(40_000, 80), (80, 40_000)][side];
        let ends = if side == CLIENT { (V4[0], V4[1]) } else { (V4[1], V4[0]) };
        let segment = tcp(ports, seq, ack, flags, &[], &payload);
        packets.push(MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 6, 1, 0, &[], &segment))));
    }
    (packets, sent)
}

#[test]
fn every_captured_byte_is_in_exactly_one_column() {
    let compiler = Compiler::default();
    let mut seen = BTreeMap::new();
    for seed in seeds(0..120) {
        let mut random = Random::new(seed);
        let count = random.pick(&[5, 12, 40, 150]);
        let (packets, sent) = hostile(&mut random, count);
        for strict in [false, true] {
            let cutoff = [0, 1].map(|_| random.pick(&[u64::MAX, u64::MAX, 0, 50, 300]));
            let chunk = random.once_in(2).then_some(ChunkParams { bytes: 64, overlap: 0, flush_ns: 0 });
            let memory_max = random.pick(&[2_000, 6_000, 1 << 20]);
            let overload = OverloadParams { memory_max, ..OverloadParams::default() };
            let limits = Limits { strict, ..Limits::default() };
            let mut engine =
                Engine::with(compiler.clone(), Options { limits, overload, ..Options::default() });
            let params = StreamParams { cutoff, chunk, ..StreamParams::default() };
            let subscription =
                engine.subscribe_streams("", params, Columns::default).expect("the filter is right");
            let outcome = run_streams(&engine, &packets);
            let all = &outcome.handlers.of::<Columns>(subscription)[0].0;
            for (side, port) in [(CLIENT, 40_000), (SERVER, 80)] {
                let columns = all.get(&port).map_or(&[][..], Vec::as_slice);
                let sum: u64 = columns.iter().take(8).map(|(_, bytes)| bytes).sum();
                assert_eq!(
                    sum, sent[side],
                    "seed {seed}, strict {strict}, port {port}: {columns:?} {params:?}"
                );
                let value = |name| columns.iter().find(|(other, _)| *other == name).map_or(0, |(_, n)| *n);
                assert_eq!(
                    value("positions"),
                    value("payload"),
                    "seed {seed}, strict {strict}, port {port}: {columns:?} {params:?}"
                );
                for (name, bytes) in columns {
                    *seen.entry(*name).or_insert(0) += bytes;
                }
            }
        }
    }
    for (name, bytes) in &seen {
        assert!(*bytes > 0, "no byte is in the column {name}: {seen:?}");
    }
}

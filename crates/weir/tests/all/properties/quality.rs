//! The quality of connections in `flows`: round-trip times, repeated and out-of-order segments, and the
//! letters of the history that are repeated at powers of ten.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory};
use std::convert::Infallible;
use weir::packet::{Timestamp, Value};
use weir::{Compiler, Connection, Executor, Item, Options, Shape, Want};
use weir_testing::frames::{ACK, V4, ethernet, ipv4, tcp};

const SYN: u8 = 2;
const FIN: u8 = 1;
const RESET: u8 = 4;

/// A segment: from the originator (0) or the responder, milliseconds, number, acknowledgement, flags,
/// payload.
type Segment = (usize, i64, u32, u32, u8, &'static [u8]);

/// The record of the connection that these segments are of.
fn record(segments: &[Segment], strict: bool) -> Connection {
    let packet = |&(side, at_ms, seq, ack, flags, payload): &Segment| {
        let ports = [(40_000, 80), (80, 40_000)][side];
        let segment = tcp(ports, seq, ack, flags, &[], payload);
        let frame = ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment));
        MemoryPacket { time: Timestamp((1_000 + at_ms) * 1_000_000), ..MemoryPacket::ethernet(frame) }
    };
    let packets: Vec<MemoryPacket> = segments.iter().map(packet).collect();
    let compiler = Compiler::default();
    let mut records = vec![];
    for engine in [Executor::Native, Executor::Interpreter] {
        let mut options = Options { engine, ..Options::default() };
        options.limits.strict = strict;
        let compiled = compile(&compiler, &[ask("", Want::Connections)], &options);
        let mut each = |_: usize, item: Item<'_>| {
            let Item::Connection(record) = item else { panic!("{item:?}") };
            records.push(*record);
            Ok::<(), Infallible>(())
        };
        let mut source = in_memory(&packets);
        let Ok(_) =
            weir::run(&compiler, &compiled, &mut source, &[Shape::default()], 1, &mut each, &mut |_| {});
    }
    assert!(records.len() == 2 && records[0] == records[1], "{records:#?}");
    records.remove(0)
}

/// Repeated and out-of-order segments of the originator and the responder.
fn counts(record: &Connection) -> [u64; 4] {
    ["orig_retrans", "resp_retrans", "orig_out_of_order", "resp_out_of_order"].map(|name| {
        match record.at_end.value(name) {
            Some(Value::Unsigned(number)) => *number,
            other => panic!("{name}: {other:?}"),
        }
    })
}

fn rtt_ms(record: &Connection) -> Option<u64> {
    match record.at_end.value("rtt") {
        Some(Value::Interval(ns)) => Some(ns / 1_000_000),
        Some(Value::Absent) => None,
        other => panic!("{other:?}"),
    }
}

/// SYN, SYN-ACK and acknowledgement: 30 ms.
const SHAKE: [Segment; 3] =
    [(0, 0, 100, 0, SYN, b""), (1, 20, 900, 101, SYN | ACK, b""), (0, 30, 101, 901, ACK, b"")];

fn after_shake(segments: &[Segment]) -> Connection {
    record(&[&SHAKE[..], segments].concat(), false)
}

#[test]
fn the_round_trip_ends_with_the_first_acknowledgement_of_the_syns_sender() {
    assert_eq!(rtt_ms(&after_shake(&[(1, 60, 901, 101, ACK, b"x"), (0, 90, 101, 902, ACK, b"")])), Some(30));
    // The responder is faster: its data come before the acknowledgement.
    let early = [SHAKE[0], SHAKE[1], (1, 25, 901, 101, ACK, b"x"), (0, 40, 101, 902, ACK, b"")];
    assert_eq!(rtt_ms(&record(&early, false)), Some(40));
    // Of repeated SYNs, the last one counts.
    let again = [SHAKE[0], (0, 10, 100, 0, SYN, b""), SHAKE[1], SHAKE[2]];
    assert_eq!(rtt_ms(&record(&again, false)), Some(20));
    // One side alone was captured.
    assert_eq!(rtt_ms(&record(&[SHAKE[0], SHAKE[2]], false)), Some(30));
    for without in [&SHAKE[..1], &SHAKE[..2], &SHAKE[1..], &[SHAKE[0], (1, 20, 0, 101, RESET | ACK, b"")]] {
        assert_eq!(rtt_ms(&record(without, false)), None, "{without:?}");
    }
}

/// A connection that is not answered ends 5 s after a single SYN; retries come later and later.
#[test]
fn retries_of_a_syn_are_one_attempt() {
    for seconds in [
        &[0, 1, 3, 7, 15, 31, 63][..],
        &[0, 3, 9, 21, 45, 93],
        &[0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67],
        &[0, 4],
    ] {
        let retries: Vec<Segment> = seconds.iter().map(|at| (0, at * 1_000, 100, 0, SYN, &[][..])).collect();
        for is_strict in [false, true] {
            let record = record(&retries, is_strict);
            assert_eq!(counts(&record), [seconds.len() as u64 - 1, 0, 0, 0], "{seconds:?}");
        }
    }
}

#[test]
fn segments_that_repeat_bytes_are_counted_apart_from_late_ones() {
    let cases: [(&str, &[Segment], [u64; 4]); 9] = [
        ("nothing is old", &[(0, 40, 101, 901, ACK, b"abc"), (1, 50, 901, 104, ACK, b"de")], [0; 4]),
        (
            "data, of both",
            &[
                (0, 40, 101, 901, ACK, b"abc"),
                (0, 41, 101, 901, ACK, b"abc"),
                (1, 50, 901, 104, ACK, b"de"),
                (1, 51, 902, 104, ACK, b"e"),
                (1, 52, 901, 104, ACK, b"de"),
            ],
            [1, 1, 0, 0],
        ),
        (
            "two out of order, then one of them again",
            &[
                (0, 40, 107, 901, ACK, b"ghi"),
                (0, 41, 104, 901, ACK, b"def"),
                (0, 42, 101, 901, ACK, b"abc"),
                (0, 43, 104, 901, ACK, b"def"),
            ],
            [1, 0, 2, 0],
        ),
        (
            "part of the segment is new",
            &[(0, 40, 101, 901, ACK, b"abc"), (0, 41, 102, 901, ACK, b"bcd")],
            [0; 4],
        ),
        (
            "acknowledgements are no segments",
            &[(0, 40, 101, 901, ACK, b""), (0, 41, 101, 901, ACK, b"")],
            [0; 4],
        ),
        (
            "keep-alives, with and without a byte",
            &[(0, 40, 101, 901, ACK, b"abc"), (0, 41, 103, 901, ACK, b"c"), (0, 42, 103, 901, ACK, b"")],
            [0; 4],
        ),
        ("the SYN-ACK", &[(1, 40, 900, 101, SYN | ACK, b"")], [0, 1, 0, 0]),
        ("the FIN", &[(0, 40, 101, 901, FIN | ACK, b""), (0, 41, 101, 901, FIN | ACK, b"")], [1, 0, 0, 0]),
        ("a reset", &[(0, 40, 101, 901, ACK, b"abc"), (0, 41, 104, 901, RESET | ACK, b"")], [0; 4]),
    ];
    for (what, segments, wanted) in cases {
        assert_eq!(counts(&after_shake(segments)), wanted, "{what}");
    }
    let syns = [SHAKE[0], (0, 10, 100, 0, SYN, b""), (0, 12, 100, 0, SYN, b""), SHAKE[1]];
    assert_eq!(counts(&record(&syns, false)), [2, 0, 0, 0]);
}

#[test]
fn letters_are_repeated_at_powers_of_ten() {
    let mut segments: Vec<Segment> = vec![(0, 40, 101, 901, ACK, b"abc")];
    segments.extend((0..9).map(|at| (0, 50 + at, 101, 901, ACK, &b"abc"[..])));
    assert_eq!(after_shake(&segments).history, "ShADT");
    segments.extend((0..80).map(|at| (0, 60 + at, 101, 901, ACK, &b"abc"[..])));
    assert_eq!(after_shake(&segments).history, "ShADTT");
    segments.extend((0..11).map(|at| (0, 160 + at, 101, 901, ACK, &b"abc"[..])));
    segments.push((1, 200, 901, 104, ACK, b"de"));
    segments.push((1, 201, 901, 104, ACK, b"de"));
    let record = after_shake(&segments);
    assert_eq!((record.history.as_str(), counts(&record)), ("ShADTTTdt", [100, 1, 0, 0]));
}

#[test]
fn gaps_have_letters_also_at_the_end() {
    let ahead: Segment = (0, 40, 111, 901, ACK, b"abc");
    let cases: [(&str, &[Segment], &str); 6] = [
        ("the end of the capture shows the gap", &[ahead], "ShADG"),
        ("the responder's", &[(1, 40, 911, 101, ACK, b"abc")], "ShAdg"),
        ("an acknowledgement shows it", &[ahead, (1, 50, 901, 114, ACK, b"de"), ahead], "ShADdGT"),
        ("the missing bytes come late", &[ahead, (0, 50, 101, 901, ACK, b"abcdefghij")], "ShADT"),
        (
            "both sides end with one",
            &[ahead, (1, 50, 911, 101, ACK, b"abc"), (1, 60, 914, 101, FIN | ACK, b"")],
            "ShADdfGg",
        ),
        ("a reset ends the connection", &[ahead, (1, 50, 901, 101, RESET | ACK, b"")], "ShADrG"),
    ];
    for (what, segments, history) in cases {
        assert_eq!(after_shake(segments).history, history, "{what}");
    }
    // Bytes before the gap, then twelve gaps, some of which an acknowledgement shows.
    let mut segments: Vec<Segment> = vec![(0, 40, 101, 901, ACK, b"abc")];
    segments.extend((1..=12).map(|at| (0, 40 + i64::from(at), 101 + 10 * at, 901, ACK, &b"abc"[..])));
    assert_eq!(after_shake(&segments).history, "ShADGG");
    segments.push((1, 90, 901, 164, ACK, b"de"));
    let record = after_shake(&segments);
    assert_eq!((record.history.as_str(), record.missed_bytes), ("ShADdGG", 84));
    // Strict reassembly skips no gap.
    assert_eq!(self::record(&[&SHAKE[..], &segments].concat(), true).history, "ShADd");
}

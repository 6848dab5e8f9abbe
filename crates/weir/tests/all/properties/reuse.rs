//! Which connection a segment belongs to: five-tuples that are used again without a close, handshakes that
//! were captured out of order, and directions with different VLAN tags.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, rows as rows_of_packets};
use std::convert::Infallible;
use weir::packet::Timestamp;
use weir::{Compiler, Connection, Executor, Item, Options, Shape, Want};
use weir_testing::frames::{ACK, FIN, RST, SYN, V4, ethernet, ipv4, tcp, vlan};

/// A segment: the side that sends it, number, acknowledgement, flags, payload.
type Segment = (usize, u32, u32, u8, &'static [u8]);

/// A connection from its SYN to the last acknowledgement. `a`, `b`: the first numbers of both sides.
fn whole(a: u32, b: u32) -> Vec<Segment> {
    vec![
        (0, a, 0, SYN, b""),
        (1, b, a + 1, SYN | ACK, b""),
        (0, a + 1, b + 1, ACK, b""),
        (0, a + 1, b + 1, ACK, b"ping"),
        (1, b + 1, a + 5, ACK, b"pong!"),
        (0, a + 5, b + 6, ACK | FIN, b""),
        (1, b + 6, a + 6, ACK | FIN, b""),
        (0, a + 6, b + 7, ACK, b""),
    ]
}

/// The first five segments of a connection: no end is seen.
fn unclosed(a: u32, b: u32) -> Vec<Segment> {
    whole(a, b)[..5].to_vec()
}

fn frame(&(side, seq, ack, flags, payload): &Segment, tags: &[u16]) -> Vec<u8> {
    let ports = [(40_000, 80), (80, 40_000)][side];
    let segment = tcp(ports, seq, ack, flags, &[], payload);
    tagged(tags, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment))
}

fn tagged(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let (mut ethertype, mut bytes) = (0x0800, packet.to_vec());
    for &tag in tags.iter().rev() {
        (ethertype, bytes) = (0x8100, vlan(tag, ethertype, &bytes));
    }
    ethernet(ethertype, &bytes)
}

/// The connections of these frames, the same in both modes.
fn connections(frames: &[Vec<u8>]) -> Vec<Connection> {
    let [fast, strict] = [false, true].map(|strict| connections_in(frames, strict));
    assert_eq!(fast, strict);
    fast
}

/// The connections of these frames, 10 ms apart, in the order of their first packets; the same with both
/// engines, with one and four workers.
fn connections_in(frames: &[Vec<u8>], strict: bool) -> Vec<Connection> {
    let packets: Vec<MemoryPacket> = (0..)
        .zip(frames)
        .map(|(at, frame)| MemoryPacket {
            time: Timestamp(at * 10_000_000),
            ..MemoryPacket::ethernet(frame.clone())
        })
        .collect();
    let compiler = Compiler::default();
    let mut all: Vec<Vec<Connection>> = vec![];
    for engine in [Executor::Native, Executor::Interpreter] {
        for workers in [1, 4] {
            let mut options = Options { engine, ..Options::default() };
            options.limits.strict = strict;
            let compiled = compile(&compiler, &[ask("", Want::Connections)], &options);
            let mut records = vec![];
            let mut each = |_: usize, item: Item<'_>| {
                let Item::Connection(record) = item else { panic!("{item:?}") };
                records.push(*record);
                Ok::<(), Infallible>(())
            };
            let mut source = in_memory(&packets);
            let shapes = [Shape::default()];
            let Ok(_) =
                weir::run(&compiler, &compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
            records.sort_by_key(|record| record.ts);
            all.push(records);
        }
    }
    assert!(all.iter().all(|records| *records == all[0]), "{all:#?}");
    all.swap_remove(0)
}

/// State, history, and packets of the connections.
fn rows(segments: &[Segment]) -> Vec<(&'static str, String, [u64; 2])> {
    let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
    let records = connections(&frames);
    records.into_iter().map(|one| (one.conn_state, one.history, one.packets)).collect()
}

fn row(state: &'static str, history: &str, packets: [u64; 2]) -> (&'static str, String, [u64; 2]) {
    (state, history.to_string(), packets)
}

#[test]
fn a_five_tuple_that_is_used_again_is_another_connection() {
    let old = row("S1", "ShADd", [3, 2]);
    let again = |between: &[Segment]| [&unclosed(100, 900), between, &whole(70_000, 90_000)].concat();
    let new = row("SF", "ShADdFf", [5, 3]);
    assert_eq!(rows(&again(&[])), [old.clone(), new.clone()]);
    // The SYN is repeated.
    let retry = row("SF", "ShADdFf", [6, 3]);
    assert_eq!(rows(&again(&[(0, 70_000, 0, SYN, b"")])), [old.clone(), retry.clone()]);
    // The responder still has the old connection: RFC 9293, 3.5.2, figure 9.
    let challenge: [Segment; 3] = [(0, 70_000, 0, SYN, b""), (1, 906, 105, ACK, b""), (0, 105, 0, RST, b"")];
    assert_eq!(rows(&again(&challenge)), [row("RSTO", "ShADdaR", [4, 3]), retry]);
    // The old connection was reset.
    assert_eq!(rows(&again(&[(0, 105, 0, RST, b"")])), [row("RSTO", "ShADdR", [4, 2]), new.clone()]);
    // The capture lacks the third segment, or the request as well.
    for (to, bytes) in [(3, [4, 5]), (4, [0, 5])] {
        let mut new = whole(70_000, 90_000);
        new.drain(2..to);
        let segments = [unclosed(100, 900), new].concat();
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        let records = connections_in(&frames, false);
        assert_eq!(
            (records.len(), records[0].conn_state, records[1].conn_state),
            (2, "S1", "SF"),
            "{records:#?}"
        );
        assert_eq!((records[0].bytes, records[1].orig_p), (Some([4, 5]), 40_000), "{records:#?}");
        assert!(
            records[1].bytes.is_some_and(|found| found[1] == bytes[1] && found[0] >= bytes[0]),
            "{records:#?}"
        );
    }
    // The old responder is the new originator.
    let swapped: Vec<Segment> = whole(70_000, 90_000)
        .into_iter()
        .map(|(side, seq, ack, flags, payload)| (1 - side, seq, ack, flags, payload))
        .collect();
    assert_eq!(rows(&[unclosed(100, 900), swapped].concat()), [old, new]);
}

#[test]
fn a_new_syn_that_is_not_answered_is_a_connection() {
    let old = row("S1", "ShADd", [3, 2]);
    let after = |segments: &[Segment]| rows(&[&unclosed(100, 900), segments].concat());
    let syn = (0, 70_000, 0, SYN, &b""[..]);
    assert_eq!(after(&[syn]), [old.clone(), row("S0", "S", [1, 0])]);
    assert_eq!(after(&[syn, syn]), [old.clone(), row("S0", "S", [2, 0])]);
    assert_eq!(after(&[syn, (1, 0, 70_001, RST | ACK, b"")]), [old, row("REJ", "Sr", [1, 1])]);
}

/// A stranger's SYN, also behind a stranger's reset, does not end a connection.
#[test]
fn a_connection_goes_on_behind_a_forged_syn() {
    let rest = [&[(0, 105, 906, ACK, &b"more"[..]), (1, 906, 109, ACK, b"yes")], &[][..]].concat();
    for forged in [
        &[(0, 70_000, 0, SYN, &b""[..])][..],
        &[(1, 70_000, 0, SYN, b"")],
        &[(0, 105, 0, RST, b""), (0, 70_000, 0, SYN, b"")],
        &[(1, 906, 105, RST | ACK, b""), (1, 70_000, 0, SYN, b"")],
        &[(0, 70_000, 0, SYN, b"GET / HTTP/1.1\r\n\r\n")],
    ] {
        let segments = [&unclosed(100, 900), forged, &rest].concat();
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        let records = connections(&frames);
        assert_eq!(records.len(), 2, "{forged:?}: {records:#?}");
        assert_eq!(records[0].bytes, Some([8, 8]), "{forged:?}: {records:#?}");
        assert_eq!(records[1].conn_state, "S0", "{forged:?}: {records:#?}");
    }
    // A stranger knows the number of their SYN, and can reject it.
    let rejected = [(0, 70_000, 0, SYN, &b""[..]), (1, 0, 70_001, RST | ACK, b"")];
    let segments = [&unclosed(100, 900), &rejected[..], &rest].concat();
    let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
    let records = connections(&frames);
    assert_eq!(records.iter().map(|one| one.conn_state).collect::<Vec<_>>(), ["S1", "REJ"], "{records:#?}");
    assert_eq!(records[0].bytes, Some([8, 8]), "{records:#?}");
    // A stranger can answer the SYN as well, but does not acknowledge the answer.
    let answered = [(0, 70_000, 0, SYN, &b""[..]), (1, 90_000, 70_001, SYN | ACK, b"")];
    let segments = [&unclosed(100, 900), &answered[..], &rest].concat();
    let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
    let records = connections(&frames);
    assert_eq!(records.iter().map(|one| one.conn_state).collect::<Vec<_>>(), ["S1", "S1"], "{records:#?}");
    assert_eq!(records[0].bytes, Some([8, 8]), "{records:#?}");
    // The numbers of the stranger's segments are beside those of the connection.
    for answered in [
        [(0, 104, 0, SYN, &b""[..]), (1, 5_000, 105, SYN | ACK, b"")],
        [(0, 70_000, 0, SYN, b""), (1, 905, 70_001, SYN | ACK, b"")],
    ] {
        let segments = [&unclosed(100, 900), &answered[..], &rest].concat();
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        let records = connections_in(&frames, false);
        assert_eq!(records[0].bytes, Some([8, 8]), "{answered:?}: {records:#?}");
    }
    // There is no place for the SYN, or for the SYN-ACK, beside the connection.
    for syns in [vec![(0, 70_000, 0, SYN, &[b'x'; 3_000][..])], vec![(0, 70_000, 0, SYN, &b""[..]); 8]] {
        let segments = [&unclosed(100, 900), &syns[..], &whole(70_000, 90_000)[1..]].concat();
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        let records = connections_in(&frames, false);
        let new = records.last().expect("there are some");
        assert_eq!((records.len() > 1, new.bytes), (true, Some([4, 5])), "{records:#?}");
    }
    // A decoy beside the true SYN, and beside the true SYN-ACK.
    let syn = |number| (0, number, 0, SYN, &b""[..]);
    let reply = |number| (1, number, 70_001, SYN | ACK, &b""[..]);
    for decoys in [
        [syn(60_000), syn(70_000), reply(90_000)],
        [syn(70_000), syn(60_000), reply(90_000)],
        [syn(70_000), reply(80_000), reply(90_000)],
        [syn(70_000), reply(90_000), reply(80_000)],
    ] {
        let segments = [&unclosed(100, 900), &decoys[..], &whole(70_000, 90_000)[2..]].concat();
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        let records = connections(&frames);
        let new = records.last().expect("there are some");
        assert_eq!((new.conn_state, new.bytes), ("SF", Some([4, 5])), "{records:#?}");
    }
    // The number of SYNs that wait is bounded; the others count in the connection.
    let flood = (0..100).map(|at| (0, 70_000 + at, 0, SYN, &b""[..]));
    let segments: Vec<Segment> = unclosed(100, 900).into_iter().chain(flood).chain(rest).collect();
    let found = rows(&segments);
    assert_eq!(found.iter().map(|(_, _, [packets, _])| packets).sum::<u64>(), 104);
    assert!(found.len() == 2 && found[1].2 == [2, 0], "{found:?}");
}

#[test]
fn segments_that_were_captured_out_of_order_are_of_one_connection() {
    let usual = whole(100, 900);
    let moved = |from: usize, to: usize| {
        let mut segments = usual.clone();
        let segment = segments.remove(from);
        segments.insert(to, segment);
        segments
    };
    let (one, other): (Vec<Segment>, Vec<Segment>) = usual.iter().partition(|(side, ..)| *side == 0);
    let cases = [
        ("the SYN last", moved(0, 7)),
        ("the SYN behind the SYN-ACK", moved(0, 1)),
        ("the SYN behind the request", moved(0, 3)),
        ("the request first", moved(3, 0)),
        ("the SYN-ACK behind the request", moved(1, 3)),
        ("the answer before the request", moved(4, 3)),
        ("the originator first", [one.clone(), other.clone()].concat()),
        ("the responder first", [other, one].concat()),
    ];
    for (what, segments) in cases {
        let frames: Vec<Vec<u8>> = segments.iter().map(|segment| frame(segment, &[])).collect();
        // Strict mode does not take all of these segments.
        let records = connections_in(&frames, true);
        assert_eq!((records.len(), records[0].packets), (1, [5, 3]), "{what}: {records:#?}");
        let records = connections_in(&frames, false);
        assert_eq!(records.len(), 1, "{what}: {records:#?}");
        assert_eq!((records[0].conn_state, records[0].packets), ("SF", [5, 3]), "{what}: {records:#?}");
        assert_eq!((records[0].orig_p, records[0].bytes), (40_000, Some([4, 5])), "{what}: {records:#?}");
    }
}

#[test]
fn directions_with_different_tags_are_one_connection() {
    for (tags, shown) in [
        ([&[7][..], &[]], (Some(7), None, None)),
        ([&[], &[7]], (None, None, Some(7))),
        ([&[7], &[8]], (Some(7), None, Some(8))),
        ([&[7, 8], &[8, 7]], (Some(7), Some(8), Some(8))),
    ] {
        for segments in [whole(100, 900), whole(100, 900)[1..].to_vec(), whole(100, 900)[3..].to_vec()] {
            let frames: Vec<Vec<u8>> =
                segments.iter().map(|segment| frame(segment, tags[segment.0])).collect();
            let records = connections(&frames);
            assert_eq!(records.len(), 1, "{tags:?}: {records:#?}");
            assert_eq!(records[0].packets.iter().sum::<u64>(), segments.len() as u64);
            if segments[0].0 == 0 {
                assert_eq!((records[0].vlan, records[0].inner_vlan, records[0].other_vlan), shown);
            }
        }
    }
}

#[test]
fn networks_with_the_same_addresses_stay_apart() {
    // Each network has both directions.
    for (a, b) in [(100, 900), (60_000, 70_000)] {
        let frames: Vec<Vec<u8>> = whole(100, 900)
            .iter()
            .zip(&whole(a, b))
            .flat_map(|(one, other)| [frame(one, &[7]), frame(other, &[8])])
            .collect();
        let packets: Vec<[u64; 2]> = connections(&frames).into_iter().map(|one| one.packets).collect();
        assert_eq!(packets, [[5, 3], [5, 3]]);
    }
    // Each network has one direction: the numbers tell.
    let frames: Vec<Vec<u8>> = whole(100, 900)
        .iter()
        .zip(&whole(60_000_000, 70_000_000))
        .map(|(one, other)| if one.0 == 0 { frame(one, &[7]) } else { frame(other, &[8]) })
        .collect();
    assert_eq!(connections(&frames).len(), 2);
}

/// The SYN of a connection waits beside the connection before it. Questions about packets get it with the
/// connection to which it belongs.
#[test]
fn the_packets_of_a_connection_include_the_syn_that_waited() {
    let unlike = unclosed(100, 900);
    let mut like = unclosed(100, 900);
    (like[3].4, like[4].4) = (b"GET /a HTTP/1.1\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n");
    let mut new: Vec<Segment> = unclosed(70_000, 90_000);
    (new[3].4, new[4].4) = (b"GET /b HTTP/1.1\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n");
    let retried = [&new[..1], &new].concat();
    let lone = new[..1].to_vec();
    let compiler = Compiler::default();
    for (old, next, http) in [
        (&unlike, &new, 6..11),
        (&unlike, &retried, 6..12),
        (&like, &new, 1..11),
        // A stranger's SYN is a connection of its own, without a request.
        (&like, &lone, 1..6),
        (&unlike, &lone, 6..6),
    ] {
        let frames = [&old[..], next].concat().iter().map(|segment| frame(segment, &[])).collect::<Vec<_>>();
        let packets: Vec<MemoryPacket> = (0..)
            .zip(&frames)
            .map(|(at, frame)| MemoryPacket {
                time: Timestamp(at * 10_000_000),
                ..MemoryPacket::ethernet(frame.clone())
            })
            .collect();
        let asks = ["http", "tcp", "tcp.flags.syn == 1", "tcp.flags.syn == 1 and http", "tls"];
        let asks = asks.map(|filter| ask(filter, Want::Packets));
        let compiled = compile(&compiler, &asks, &Options::default());
        let is_syn = |number: &usize| frames[number - 1][47] & SYN != 0;
        for workers in [1, 4] {
            let (rows, _) = rows_of_packets(&compiler, &compiled, &packets, workers);
            let of = |question: usize| {
                let prefix = format!("{question} packet ");
                let numbers = rows.iter().filter_map(|row| row.strip_prefix(&prefix)?.parse().ok());
                numbers.collect::<Vec<usize>>()
            };
            let all: Vec<usize> = (1..=frames.len()).collect();
            let syns = |numbers: &[usize]| numbers.iter().copied().filter(is_syn).collect::<Vec<_>>();
            let http: Vec<usize> = http.clone().collect();
            assert_eq!(of(0), http, "{workers}: {rows:?}");
            assert_eq!(of(1), all, "{workers}: {rows:?}");
            assert_eq!(of(2), syns(&all), "{workers}: {rows:?}");
            assert_eq!(of(3), syns(&http), "{workers}: {rows:?}");
            assert!(of(4).is_empty(), "{workers}: {rows:?}");
        }
    }
}

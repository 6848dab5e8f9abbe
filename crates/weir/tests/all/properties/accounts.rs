//! Every packet that a source yields is counted exactly once, by its outcome.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, read_capture, rows, seeds,
};
use crate::properties::hostile::{FLOWS_MAX, attack};
use std::collections::BTreeSet;
use std::convert::Infallible;
use weir::io::CaptureReader;
use weir::stream::StreamParams;
use weir::{Ask, Compiled, Compiler, Counters, Item, Limits, Need, Options, Outcome, Shape, Want};
use weir_testing::frames::{ACK, V4, ethernet, ipv4, tcp};

/// Questions whose packets are decided in every way: at once, by their connection, by their session, or by a
/// limit; and questions for other things than packets.
fn questions() -> Vec<Vec<Ask>> {
    vec![
        vec![ask("tcp.flags.syn == 1", Want::Packets)],
        vec![ask("tls.sni contains \"a\" or conn.orig_pkts > 3", Want::Packets)],
        vec![ask("not tls", Want::Packets), ask("udp", Want::Packets)],
        vec![ask("conn.proto == \"udp\"", Want::Packets), ask("tcp.port == 443", Want::Connections)],
        vec![ask("", Want::Connections)],
        vec![ask("tls.sni contains \"a\"", all_sessions())],
        vec![ask("tcp.port == 80", Want::Streams(StreamParams::default())), ask("arp", Want::Packets)],
    ]
}

fn accounted(counters: &Counters) -> u64 {
    counters.packet.delivered + counters.packet.filtered + counters.drops.total()
}

/// Numbers of the packets delivered to any question.
fn given(rows: &[String]) -> BTreeSet<&str> {
    rows.iter().filter_map(|row| row.split_once(" packet ")).map(|(_, number)| number).collect()
}

fn check(compiled: &Compiled, rows: &[String], outcome: &Outcome, read: u64, what: &str) {
    assert_eq!(accounted(&outcome.counters), read, "{what}: {:?}", outcome.counters);
    let delivered = outcome.counters.packet.delivered;
    let given = given(rows).len() as u64;
    let only_packets = compiled.plan().questions.iter().all(|q| q.want == Want::Packets);
    assert!(
        if only_packets { delivered == given } else { delivered >= given },
        "{what}: {delivered}, {given}"
    );
}

#[test]
fn of_traffic_that_means_harm() {
    let compiler = Compiler::default();
    let limits = Limits { flows_max: FLOWS_MAX, held_packets_max: 32, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let (mut undecided, mut dropped) = (0, 0);
    for seed in seeds(300..303) {
        let packets = attack(&mut weir_testing::Random::new(seed), 4_000);
        for asks in questions() {
            let compiled = compile(&compiler, &asks, &options);
            for workers in [1, 3] {
                let (rows, outcome) = rows(&compiler, &compiled, &packets, workers);
                let what = format!("seed {seed}, {workers} workers, {asks:?}");
                check(&compiled, &rows, &outcome, packets.len() as u64, &what);
                undecided += outcome.counters.packet.undecided;
                dropped += outcome.counters.drops.total();
            }
        }
    }
    assert!(undecided > 0 && dropped > 0, "the ways were taken: {undecided} undecided, {dropped} dropped");
}

/// Runs over the capture in `examples/`. Returns the packets of each connection and the reader's packet
/// count.
fn read(compiler: &Compiler, compiled: &Compiled, workers: usize) -> (Vec<u64>, Outcome, u64) {
    let mut reader = CaptureReader::open(&[FIRST_LIGHT]);
    let mut packets = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(connection) = item {
            packets.push(connection.packets.iter().sum::<u64>());
        }
        Ok::<(), Infallible>(())
    };
    let shapes = vec![Shape::default(); compiled.question_count()];
    let Ok(outcome) = weir::run(compiler, compiled, &mut reader, &shapes, workers, &mut each, &mut |_| {});
    (packets, outcome, reader.packets())
}

#[test]
fn of_the_shipped_capture() {
    let compiler = Compiler::default();
    let packets = read_capture(FIRST_LIGHT);
    for asks in questions() {
        let compiled = compile(&compiler, &asks, &Options::default());
        for workers in [1, 3] {
            let (_, outcome, read) = read(&compiler, &compiled, workers);
            let (rows, again) = rows(&compiler, &compiled, &packets, workers);
            assert_eq!(outcome.counters.packet, again.counters.packet, "{asks:?}");
            check(&compiled, &rows, &outcome, read, &format!("{workers} workers, {asks:?}"));
        }
    }
}

#[test]
fn packets_of_connections_are_those_that_their_records_count() {
    let compiler = Compiler::default();
    for filter in ["", "tcp.port == 443", "tcp.flags.syn == 1", "udp.port == 53 and not icmp and not icmpv6"]
    {
        let compiled = compile(&compiler, &[ask(filter, Want::Connections)], &Options::default());
        for workers in [1, 3] {
            let (packets, outcome, _) = read(&compiler, &compiled, workers);
            let in_records: u64 = packets.iter().sum();
            assert!(in_records > 0);
            assert_eq!(outcome.counters.packet.delivered, in_records, "{filter}");
        }
    }
}

#[test]
fn what_bounds_cut_off_sessions() {
    let compiler = Compiler::default();
    let limits = Limits { probe_bytes_max: 6, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let compiled = compile(&compiler, &[ask("", all_sessions())], &options);
    let segment = |port: u16, seq: u32, payload: &[u8]| {
        let segment = tcp((port, 443), seq, 1, ACK, &[], payload);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)))
    };
    let packets = [
        // The beginning could be TLS, but more bytes follow than the probe keeps.
        segment(1, 1, &[22]),
        segment(1, 2, &[3, 1, 0, 200, 0, 0]),
        // A ClientHello of 128 KiB.
        segment(2, 1, &[22, 3, 1, 0, 200, 1]),
        segment(2, 7, &[2, 0, 0, 3, 3]),
    ];
    let (_, outcome) = rows(&compiler, &compiled, &packets, 1);
    let session = outcome.counters.session;
    assert_eq!((session.probes_cut, session.parts_cut), (1, 1), "{session:?}");
}

#[test]
fn lines_with_more_values_than_there_is_room_for() {
    let mut compiler = Compiler::default();
    let fields: String = (0..300).map(|n| format!("f{n}: u8\n")).collect();
    let shown: String = (0..300).map(|n| format!("{{f{n}}} ")).collect();
    let text = format!(
        "//! Long\nprotocol long {{ header {{ {fields} }} show \"{shown}\" }}\nstack s {{ start ETHERNET: long }}"
    );
    compiler.add("long.weir", &text).unwrap_or_else(|d| panic!("{}", d.render(false)));
    let warned = |lines| {
        let need = Need { lines, ..Need::default() };
        let asks = [Ask { filter: String::new(), need, want: Want::Packets }];
        compile(&compiler, &asks, &Options::default()).warnings().list.iter().any(|w| w.code == "W0194")
    };
    assert!(warned(true) && !warned(false));
}

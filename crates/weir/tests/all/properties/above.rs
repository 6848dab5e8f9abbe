//! Filters on layers above a connection: a packet's layers count for its innermost connection in full, and
//! for an outer connection up to the next inner one.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, in_memory, read_capture, rows, seeds,
};
use crate::properties::streams::{CALM, streams_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir::packet::Timestamp;
use weir::{Compiler, Executor, Options, Want};
use weir_engine::stream::{Chunk, StreamHandle, StreamParams, StreamSubscriber};
use weir_engine::subscriber::{Order, Subscriber};
use weir_engine::worker::Worker;
use weir_packet::{Burst, Poll, Source};
use weir_testing::Random;
use weir_testing::filters::filter;
use weir_testing::frames::{V4, arp, ethernet, ipv4, noise, udp, whole_within};
use weir_testing::traffic::conversation;

const CLIENT: u16 = 40_000;

/// A datagram between two hosts, at `number` milliseconds.
fn datagram(number: i64, port: u16, back: bool, payload: &[u8]) -> MemoryPacket {
    let (ports, ends) = match back {
        true => ((port, CLIENT), (V4[1], V4[0])),
        false => ((CLIENT, port), (V4[0], V4[1])),
    };
    let bytes = ethernet(0x0800, &ipv4(ends, 17, 1, 0, &[], &udp(ports, payload)));
    MemoryPacket { time: Timestamp(number * 1_000_000), ..MemoryPacket::ethernet(bytes) }
}

/// A frame in VXLAN (RFC 7348 §5).
fn vxlan(vni: u8, frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, vni, 0], frame].concat()
}

/// Packets of one connection without inner connections, and the payload bytes of each.
fn one_connection(random: &mut Random) -> Vec<(MemoryPacket, usize)> {
    let port = random.pick(&[4789, 4789, 4789, 5000]);
    let packets = (0..1 + random.below(6) as i64).map(|number| {
        let payload = match random.below(4) {
            0 => [&[0xff], &noise(random, 30)[..]].concat(),
            1 => vxlan(7, &ethernet(0x88b5, &noise(random, 30))),
            2 => vxlan(7 + random.below(2) as u8, &ethernet(0x0806, &arp(random))),
            _ => vec![0xff],
        };
        (datagram(number, port, random.once_in(3), &payload), payload.len())
    });
    packets.collect()
}

/// Native code for every fourth test only, as it compiles slowest.
fn options(number: usize) -> Options {
    let engine = match number % 4 {
        0 => Executor::Native,
        _ => Executor::Interpreter,
    };
    Options { engine, ..Options::default() }
}

/// Filters on the connection's own layers, on those above it, and on both.
const FILTERS: [&str; 16] = [
    "vxlan",
    "not vxlan",
    "vxlan.vni == 7",
    "vxlan.vni != 7",
    "not vxlan.vni == 7",
    "arp",
    "udp and not arp",
    "vxlan and not arp",
    "arp or udp.dstport == 5000",
    "not (arp and vxlan.vni == 7)",
    "frame.len > 90 and not arp",
    "not ip.addr == 192.0.2.1",
    "udp.srcport == 40000 and not arp",
    "not udp.port == 5000",
    "eth.type == 0x88b5 or udp.srcport == 4789",
    "udp.length > 20 and not eth.type != 0x0800",
];

#[test]
fn a_connection_is_asked_for_if_one_of_its_packets_is_and_its_streams_from_there_on() {
    let compiler = Compiler::default();
    let mut found = [0; 3];
    for (index, filter) in FILTERS.into_iter().enumerate() {
        let wants = [Want::Packets, Want::Connections, Want::Streams(StreamParams::default())];
        let [of_packets, of_connections, of_streams] =
            wants.map(|want| compile(&compiler, &[ask(filter, want)], &options(index)));
        for seed in seeds(0..150) {
            let sent = one_connection(&mut Random::new(seed));
            let packets: Vec<MemoryPacket> = sent.iter().map(|(packet, _)| packet.clone()).collect();
            let (matching, _) = rows(&compiler, &of_packets, &packets, 1);
            let first = matching.first().map(|row| row["0 packet ".len()..].parse::<usize>().unwrap() - 1);
            let (connections, _) = rows(&compiler, &of_connections, &packets, 1);
            assert_eq!(connections.len(), usize::from(first.is_some()), "seed {seed}: {filter}");
            let streams = streams_of(of_streams.plan(), &packets);
            let bytes: usize = streams.0.values().map(Vec::len).sum();
            let wanted: usize = sent[first.unwrap_or(sent.len())..].iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(bytes, wanted, "seed {seed}: {filter}, from packet {first:?}");
            found[match first {
                None => 0,
                Some(0) => 1,
                Some(_) => 2,
            }] += 1;
        }
    }
    assert!(
        found.iter().all(|&count| count > 100 || !crate::properties::drive::has_all_seeds()),
        "{found:?}"
    );
}

/// The same property, for random filters.
#[test]
fn a_connection_is_asked_for_if_one_of_its_packets_is_whatever_the_filter() {
    let compiler = Compiler::default();
    let all = compile(&compiler, &[ask("", Want::Connections)], &Options::default());
    let mut found = [0; 2];
    for seed in seeds(0..250) {
        let mut random = Random::new(seed);
        let packets: Vec<MemoryPacket> = match random.below(3) {
            0 => one_connection(&mut random).into_iter().map(|(packet, _)| packet).collect(),
            1 => conversation(&mut random, (40_000, 443), CALM).packets,
            _ => vec![whole_within(&mut random, 0)],
        };
        let (connections, _) = rows(&compiler, &all, &packets, 1);
        if connections.len() != 1 {
            continue;
        }
        let depth = random.below(3) as u32;
        let text = filter(&mut random, compiler.catalog(), depth);
        let [of_packets, of_connections] = [Want::Packets, Want::Connections].map(|want| {
            let compiled = compiler.compile(&[ask(&text, want)], &options(seed as usize)).ok()?;
            (compiled.plan().immediate_bits() == compiled.plan().bits_of(|_| true)).then_some(compiled)
        });
        let (Some(of_packets), Some(of_connections)) = (of_packets, of_connections) else { continue };
        let is_met = !rows(&compiler, &of_packets, &packets, 1).0.is_empty();
        let (connections, _) = rows(&compiler, &of_connections, &packets, 1);
        assert_eq!(connections.len(), usize::from(is_met), "seed {seed}: {text}");
        found[usize::from(is_met)] += 1;
    }
    assert!(found.iter().all(|&count| count > 20) || !crate::properties::drive::has_all_seeds(), "{found:?}");
}

#[test]
fn a_packet_counts_for_the_connection_around_another_as_far_as_that() {
    let inside = ethernet(0x0800, &ipv4((V4[2], V4[3]), 17, 1, 0, &[], &udp((1000, 2000), b"inside")));
    let packets =
        [datagram(0, 4789, false, &vxlan(7, &inside)), datagram(1, 4789, false, &vxlan(7, &inside))];
    let compiler = Compiler::default();
    for (filter, connections) in [
        ("", 2),
        ("vxlan", 2),
        ("not vxlan", 0),
        ("vxlan.vni != 7", 0),
        ("vxlan.vni == 7 and udp.port == 4789", 2),
        ("udp.port == 2000", 1),
        ("vxlan and not udp.port == 2000", 1),
        ("not arp", 2),
        ("not geneve", 2),
    ] {
        let compiled = compile(&compiler, &[ask(filter, Want::Connections)], &Options::default());
        assert_eq!(rows(&compiler, &compiled, &packets, 1).0.len(), connections, "{filter}");
    }
}

/// Bytes that each question received.
#[derive(Default)]
struct Bytes(BTreeMap<usize, usize>);

impl Subscriber for Bytes {}

impl StreamSubscriber for Bytes {
    fn stream_data(&mut self, _: Order, question: usize, _: &mut StreamHandle<'_>, chunk: &Chunk<'_>) {
        *self.0.entry(question).or_default() += chunk.bytes.len() - chunk.overlap;
    }
}

#[test]
fn of_classes_that_layers_above_decide_the_first_has_the_stream() {
    let compiler = Compiler::default();
    let class = Want::Streams(StreamParams { is_class: true, ..StreamParams::default() });
    let asks = [ask("arp", class), ask("vxlan.vni == 7", class), ask("", class)];
    let compiled = compile(&compiler, &asks, &Options::default());
    let of_arp = vxlan(7, &ethernet(0x0806, &arp(&mut Random::new(1))));
    let of_none = vxlan(7, &ethernet(0x88b5, b"nothing"));
    for (payloads, class) in
        [([&of_arp, &of_none], 0), ([&of_none, &of_arp], 1), ([&b"no tunnel".to_vec(), &of_arp], 2)]
    {
        let mut worker = Worker::new(Arc::clone(compiled.plan()), Bytes::default());
        let packets: Vec<MemoryPacket> =
            (0..).zip(payloads).map(|(number, payload)| datagram(number, 4789, false, payload)).collect();
        let mut source = in_memory(&packets);
        let mut burst = Burst::default();
        while source.poll(&mut burst).unwrap() != Poll::End {
            worker.take(&burst, 0..burst.packets.len(), 0);
        }
        while worker.finish(1) {}
        let bytes = payloads.iter().map(|payload| payload.len()).sum();
        assert_eq!(worker.into_subscriber().0, BTreeMap::from([(class, bytes)]));
    }
}

#[test]
fn sessions_of_a_first_packet_are_told_where_layers_above_decide() {
    let compiler = Compiler::default();
    let packets = read_capture(FIRST_LIGHT);
    let sessions = |filter: &str| {
        let compiled = compile(&compiler, &[ask(filter, all_sessions())], &Options::default());
        let mut rows = rows(&compiler, &compiled, &packets, 1).0;
        rows.sort();
        rows
    };
    let dns = sessions("dns");
    assert!(dns.len() > 10);
    assert!(sessions("dns and not vxlan") == dns);
    assert!(sessions("dns and (vxlan or not geneve)") == dns);
    assert_eq!(sessions("dns and vxlan").len(), 0);
    // If the sessions wait for their connection's record, they are still delivered once.
    assert!(sessions("dns and (udp or not geneve) and conn.orig_pkts > 0") == dns);
}

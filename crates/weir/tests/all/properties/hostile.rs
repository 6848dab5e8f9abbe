//! Malicious traffic: no panics, bounded memory, and every packet accounted for.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows, seeds};
use weir::stream::{OverloadParams, StreamParams};
use weir::{Compiler, Counters, Executor, Limits, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{self, ACK, SYN, V4, ethernet, ipv4, ipv6, ipv6_fragment, mpls, noise, tcp, vlan};

pub const FLOWS_MAX: usize = 64;
/// Largest address space of a table for this few flows, bytes.
const TABLE_BYTES_MAX: usize = 20 << 20;

fn any_v4(random: &mut Random) -> [u8; 4] {
    (random.bits() as u32).to_be_bytes()
}

/// SYNs from random addresses.
fn flood(random: &mut Random) -> MemoryPacket {
    let segment = tcp((random.bits() as u16, 80), random.bits() as u32, 0, SYN, &[], &[]);
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4((any_v4(random), V4[0]), 6, 1, 0, &[], &segment)))
}

/// Deeply nested layers.
fn nest(random: &mut Random) -> MemoryPacket {
    let segment = tcp((1, 2), 3, 4, ACK, &[], b"deep");
    let mut bytes = ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment);
    let mut ethertype = 0x0800;
    for _ in 0..random.below(12) {
        bytes = match random.below(5) {
            0 => ipv4((V4[0], V4[1]), 4, 1, 0, &[], &bytes),
            1 => frames::extension(4, &bytes),
            2 => ipv4((V4[0], V4[1]), 47, 1, 0, &[], &[&[0, 0, 8, 0][..], &bytes].concat()),
            3 => {
                let inside = ethernet(0x0800, &bytes);
                let overlay = frames::udp((1, 4789), &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &inside].concat());
                ipv4((any_v4(random), V4[1]), 17, 1, 0, &[], &overlay)
            }
            _ => ipv4((any_v4(random), V4[1]), 4, 1, 0x2000, &[], &bytes),
        };
    }
    if random.once_in(2) {
        for place in 0..random.below(40) {
            bytes = mpls(place as u32, place == 0, &bytes);
            ethertype = 0x8847;
        }
    } else {
        for _ in 0..random.below(40) {
            bytes = vlan(1, ethertype, &bytes);
            ethertype = 0x8100;
        }
    }
    MemoryPacket::ethernet(ethernet(ethertype, &bytes))
}

/// Fragments that overlap, never complete, or exceed the largest datagram.
fn fragment(random: &mut Random) -> MemoryPacket {
    let payload = noise(random, 40);
    let (offset, more) = (random.below(8192) as u16, !random.once_in(5));
    let offset = if random.once_in(3) { offset } else { offset % 8 };
    if random.once_in(2) {
        let place = offset | if more { 0x2000 } else { 0 };
        let ends = (random.pick(&V4), V4[0]);
        return MemoryPacket::ethernet(ethernet(
            0x0800,
            &ipv4(ends, 6, random.below(500) as u16, place, &[], &payload),
        ));
    }
    let fragment = ipv6_fragment(6, offset << 3, more, random.below(500) as u32, &payload);
    MemoryPacket::ethernet(ethernet(0x86dd, &ipv6((random.pick(&frames::V6), frames::V6[0]), 44, &fragment)))
}

/// Segments of a few connections, with random sequence numbers.
fn hole(random: &mut Random) -> MemoryPacket {
    let payload = noise(random, 1_400);
    let segment =
        tcp((random.below(20) as u16, 443), random.bits() as u32 >> random.below(32), 1, ACK, &[], &payload);
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)))
}

/// TLS records that announce long messages.
fn promise(random: &mut Random) -> MemoryPacket {
    let hello = [&[0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff, 3, 3][..], &noise(random, 900)].concat();
    let segment = tcp((random.bits() as u16, 443), 1, 1, ACK, &[], &hello);
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4((any_v4(random), V4[1]), 6, 1, 0, &[], &segment)))
}

/// Wrong lengths.
fn lie(random: &mut Random) -> MemoryPacket {
    let mut packet = frames::whole(random);
    for _ in 0..1 + random.below(4) {
        let at = random.below((packet.frame.len() as u64).min(70)) as usize;
        packet.frame[at] = random.pick(&[0, 1, 4, 0x0f, 0x40, 0x4f, 0x60, 0x7f, 0x80, 0xf0, 0xff]);
    }
    packet
}

/// Attacks of all kinds, in runs of one kind each.
pub fn attack(random: &mut Random, packets: usize) -> Vec<MemoryPacket> {
    let kinds: [fn(&mut Random) -> MemoryPacket; 8] =
        [flood, nest, fragment, hole, promise, lie, frames::any, |random| {
            MemoryPacket::ethernet(noise(random, 200))
        }];
    let mut list = vec![];
    while list.len() < packets {
        let kind = random.pick(&kinds);
        for _ in 0..1 + random.below(200) {
            list.push(kind(random));
        }
    }
    let mut now = 1_700_000_000_000_000_000_i64;
    for packet in &mut list {
        // Time may stand still or go backwards.
        now += random.below(1_000_000) as i64 - if random.once_in(50) { 5_000_000 } else { 0 };
        packet.time.0 = now;
    }
    list
}

fn counter(counters: &Counters, name: &str) -> u64 {
    counters.iter().find(|(n, _, _)| *n == name).map_or(0, |(_, value, _)| value)
}

fn hold(engine: Executor, usual: std::ops::Range<u64>, packets: usize) {
    let compiler = Compiler::default();
    let limits = Limits { flows_max: FLOWS_MAX, held_packets_max: 32, ..Limits::default() };
    let options = Options { engine, limits, ..Options::default() };
    let questions = [
        vec![ask("", Want::Connections), ask("", all_sessions())],
        vec![ask("tls.sni contains \"a\" or conn.orig_pkts > 3", Want::Packets)],
        vec![ask("", Want::Streams(StreamParams::default())), ask("tcp.port == 443", Want::Packets)],
    ];
    for seed in seeds(usual) {
        let mut random = Random::new(seed);
        let packets = attack(&mut random, packets);
        for asks in &questions {
            let compiled = compile(&compiler, asks, &options);
            let tables = compiled.graph().tables.len();
            for workers in [1, 2] {
                let (_, outcome) = rows(&compiler, &compiled, &packets, workers);
                let counters = &outcome.counters;
                // A table reserves address space in chunks of 32 768 entries, at least one.
                let bound = (TABLE_BYTES_MAX * tables * workers) as u64;
                assert!(
                    outcome.memory.tables <= bound,
                    "seed {seed}: tables take {} bytes",
                    outcome.memory.tables
                );
                let peak = counter(counters, "flows_peak");
                assert!(peak <= (FLOWS_MAX * tables * workers) as u64, "seed {seed}: {peak} flows");
                let full = counter(counters, "flow_limit") + counter(counters, "flows_shed");
                assert!(tables == 0 || full > 0, "seed {seed}: the bound on flows was reached: {counters:?}");
            }
        }
    }
}

#[test]
fn nothing_panics_and_nothing_grows() {
    hold(Executor::Native, 0..4, 6_000);
}

#[test]
fn nor_in_the_interpreter() {
    hold(Executor::Interpreter, 100..101, 3_000);
}

/// An HTTP exchange: its packets, with 20 ms between two of them, beginning at `time`.
fn exchange(port: u16, time: i64) -> Vec<MemoryPacket> {
    let (request, response) =
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..]);
    let steps: [(bool, u32, u32, u8, &[u8]); 5] = [
        (true, 100, 0, SYN, b""),
        (false, 500, 101, SYN | ACK, b""),
        (true, 101, 501, ACK, b""),
        (true, 101, 501, ACK, request),
        (false, 501, 101 + request.len() as u32, ACK, response),
    ];
    let packet = |(at, &(is_client, seq, ack, flags, payload)): (usize, &(bool, u32, u32, u8, &[u8]))| {
        let (ports, ends) =
            if is_client { ((port, 80), (V4[0], V4[1])) } else { ((80, port), (V4[1], V4[0])) };
        let segment = tcp(ports, seq, ack, flags, &[], payload);
        let mut packet = MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 6, 1, 0, &[], &segment)));
        packet.time.0 = time + at as i64 * 20_000_000;
        packet
    };
    steps.iter().enumerate().map(packet).collect()
}

#[test]
fn a_flood_of_syns_ends_no_connection_that_is_answered() {
    const START: i64 = 1_700_000_000_000_000_000;
    let mut random = Random::new(1);
    // For six seconds 5 000 SYNs a second, which fill the table five times a second, and 30 exchanges.
    let mut packets: Vec<MemoryPacket> = (0..30_000)
        .map(|n| {
            let mut packet = flood(&mut random);
            packet.time.0 = START + n * 200_000;
            packet
        })
        .collect();
    for n in 0..30 {
        packets.extend(exchange(20_000 + n as u16, START + n * 190_000_000 + 7));
    }
    packets.sort_by_key(|packet| packet.time.0);
    let compiler = Compiler::default();
    let limits = Limits { flows_max: 1_000, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let compiled = compile(&compiler, &[ask("http", Want::Connections)], &options);
    let (rows, outcome) = rows(&compiler, &compiled, &packets, 1);
    let counters = &outcome.counters;
    assert_eq!(rows.len(), 30, "{counters:?}");
    assert_eq!(counter(counters, "flow_limit"), 0);
    assert!(counter(counters, "flows_shed") > 20_000, "{counters:?}");
}

/// The first 1 400 bytes of an HTTP request's head that never ends.
fn unfinished_head(port: u16, time: i64) -> Vec<MemoryPacket> {
    let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
    head.resize(1400, b'a');
    let mut packets = exchange(port, time);
    packets.truncate(3);
    let segment = tcp((port, 80), 101, 501, ACK, &[], &head);
    let mut packet = MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)));
    packet.time.0 = time + 60_000_000;
    packets.push(packet);
    packets
}

#[test]
fn connections_that_hold_memory_and_are_idle_end_before_active_ones() {
    const START: i64 = 1_700_000_000_000_000_000;
    const HELD: u16 = 1_500;
    const EXCHANGES: u16 = 30;
    // For six seconds, connections begin a request and are silent from then on.
    let mut packets: Vec<MemoryPacket> =
        (0..HELD).flat_map(|n| unfinished_head(30_000 + n, START + i64::from(n) * 4_000_000)).collect();
    for n in 0..EXCHANGES {
        packets.extend(exchange(20_000 + n, START + i64::from(n) * 190_000_000 + 7));
    }
    packets.sort_by_key(|packet| packet.time.0);
    let compiler = Compiler::default();
    let overload = OverloadParams { memory_max: 1 << 20, ..OverloadParams::default() };
    let options = Options { overload, ..Options::default() };
    let (rows, outcome) = rows(
        &compiler,
        &compile(&compiler, &[ask("http.response.code == 200", all_sessions())], &options),
        &packets,
        1,
    );
    let counters = &outcome.counters;
    assert_eq!(rows.len(), usize::from(EXCHANGES), "{counters:?}");
    assert!(counter(counters, "holders_shed") > 900, "{counters:?}");
    assert_eq!(counter(counters, "sessions_shed"), 0);
    assert!(outcome.memory.sessions <= 1 << 20, "{:?}", outcome.memory);
}

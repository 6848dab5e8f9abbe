//! Wrong packet times: a single one affects only its own flow, and flows expire even if a capture is out of
//! order.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, seeds};
use std::convert::Infallible;
use weir::packet::Timestamp;
use weir::{Compiler, Connection, Counters, Item, Options, Shape, Want};
use weir_testing::Random;
use weir_testing::frames::{ethernet, ipv4, udp};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;
const CENTURY: i64 = 100 * 365 * 86_400 * SECOND;
const FLOWS: u64 = 40;

/// Datagrams of a few flows, many with pauses longer than their time-out of a minute.
fn datagrams(random: &mut Random, count: usize, mut now: i64) -> Vec<MemoryPacket> {
    let mut one = |n: usize| {
        now += random.below(3_000) as i64 * SECOND / 1_000 + if n % 100 == 99 { 45 * SECOND } else { 0 };
        // Some flows are rare, so that they expire between two packets.
        let port = 1_000 + random.below(FLOWS).min(random.below(FLOWS)) as u16;
        let datagram = udp((port, 53), b"?");
        let frame = ethernet(0x0800, &ipv4(([10, 0, 0, 1], [10, 0, 0, 2]), 17, n as u16, 0, &[], &datagram));
        MemoryPacket { time: Timestamp(now), ..MemoryPacket::ethernet(frame) }
    };
    (0..count).map(&mut one).collect()
}

/// The originator's port, and the whole record.
fn connections(packets: &[MemoryPacket], workers: usize) -> (Vec<(u32, Connection)>, Counters) {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", Want::Connections)], &Options::default());
    let mut rows = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(connection) = item {
            rows.push((connection.orig_p, *connection));
        }
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(packets);
    let shapes = [Shape::default()];
    let Ok(outcome) = weir::run(&compiler, &compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    (rows, outcome.counters)
}

fn sorted_without(mut rows: Vec<(u32, Connection)>, port: u32) -> Vec<Connection> {
    rows.retain(|(p, _)| *p != port);
    rows.sort_by_key(|(port, connection)| (*port, connection.ts));
    rows.into_iter().map(|(_, connection)| connection).collect()
}

#[test]
fn one_wrong_time_changes_nothing_but_its_flow() {
    for seed in seeds(0..40) {
        let mut random = Random::new(seed);
        let packets = datagrams(&mut random, 3_000, START);
        let (right, counters) = connections(&packets, 1);
        assert!(counters.flow.flows_expired > 100, "flows expire: {counters:?}");
        let mut wrong = packets.clone();
        let anywhere = random.below(3_000) as usize;
        let at = random.pick(&[0, 1, 63, 64, 65, anywhere, 2_999]);
        wrong[at].time.0 = match random.below(5) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => 0,
            3 => wrong[at].time.0 + CENTURY,
            _ => wrong[at].time.0 + random.below(600) as i64 * SECOND,
        };
        let (found, after) = connections(&wrong, 1);
        let bytes = &packets[at].frame;
        let port = u32::from(u16::from_be_bytes([bytes[34], bytes[35]]));
        let (right, others) = (sorted_without(right, port), sorted_without(found.clone(), port));
        assert_eq!(others, right, "seed {seed}: packet {at} says {}", wrong[at].time.0);
        assert!(
            after.flow.flows_flushed <= counters.flow.flows_flushed + 3,
            "seed {seed}: {at}, {} go on expiring: {} at the end, not {}",
            wrong[at].time.0,
            after.flow.flows_flushed,
            counters.flow.flows_flushed
        );
        for workers in [2, 3] {
            assert_eq!(connections(&wrong, workers).0, found, "seed {seed}, {workers} workers");
        }
    }
}

#[test]
fn captures_in_the_wrong_order_expire_all_the_same() {
    let mut random = Random::new(7);
    let earlier = datagrams(&mut random, 20_000, START);
    let later = datagrams(&mut random, 3_000, START + CENTURY);
    let packets = [later, earlier].concat();
    let (rows, counters) = connections(&packets, 1);
    assert_eq!(counters.clock.clock_set_back, 1);
    assert!(counters.flow.flows_flushed <= FLOWS, "{:?}", counters.flow);
    assert!(counters.flow.flows_expired > 500, "{:?}", counters.flow);
    assert_eq!(connections(&packets, 3).0, rows);
}

#[test]
fn a_silence_splits_a_connection_once_wherever_bursts_end() {
    for pause_before in [1, 2, 62, 63, 64, 65, 127, 128, 129, 192, 256] {
        let time = |n: i64| START + n * SECOND / 100 + if n >= pause_before { 70 * SECOND } else { 0 };
        let frame = ethernet(
            0x0800,
            &ipv4(([10, 0, 0, 1], [10, 0, 0, 2]), 17, 7, 0, &[], &udp((5_000, 6_000), b"?")),
        );
        let packets: Vec<MemoryPacket> = (0..260)
            .map(|n| MemoryPacket { time: Timestamp(time(n)), ..MemoryPacket::ethernet(frame.clone()) })
            .collect();
        let of = |workers| {
            let (rows, _) = connections(&packets, workers);
            rows.iter().map(|(_, row)| row.packets[0] as i64).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [pause_before, 260 - pause_before]);
        if pause_before % 64 == 0 {
            assert_eq!(of(3), of(1));
        }
    }
}

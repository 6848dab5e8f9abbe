//! The rows do not depend on how a source divides its packets into bursts, on pauses between them, or on the
//! number of workers, even if capture time runs backwards.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows, rows_of, seeds};
use weir::io::source::MemorySource;
use weir::packet::Timestamp;
use weir::{Compiler, Options, Want};
use weir_testing::Random;
use weir_testing::frames;
use weir_testing::traffic::{Network, conversation};

/// Conversations and single packets, interleaved; some packets are late, or far ahead.
fn capture(random: &mut Random) -> Vec<MemoryPacket> {
    let network = Network { repeats: true, loses: true, reorders: true, fragments: false, cuts: false };
    let mut list: Vec<MemoryPacket> = (0..150).map(|_| frames::whole_within(random, 0)).collect();
    for port in 0..4 {
        let mut at = 0;
        for packet in conversation(random, (50_000 + port, 443), network).packets.into_iter().take(40) {
            at = (at + 1 + random.below(8) as usize).min(list.len());
            list.insert(at, packet);
        }
    }
    frames::give_times(random, &mut list);
    for _ in 0..random.below(6) {
        let at = random.below(list.len() as u64) as usize;
        let second = 1_000_000_000;
        list[at].time.0 +=
            random.pick(&[-3_600 * second, -20 * second, -second, second, 20 * second, 86_400 * second]);
    }
    list
}

/// The packets in bursts of random sizes. Between bursts the source may pause; no time passes then.
fn divided(random: &mut Random, packets: &[MemoryPacket], size_max: u64) -> MemorySource {
    let mut source = MemorySource::new();
    let mut left = packets;
    let earliest = packets.iter().map(|packet| packet.time).min().unwrap_or(Timestamp(0));
    while !left.is_empty() {
        let size = (1 + random.below(size_max) as usize).min(left.len());
        let (burst, rest) = left.split_at(size);
        source = source.then_packets(burst.iter().cloned());
        if random.once_in(3) {
            source = source.then_idle(earliest);
        }
        left = rest;
    }
    source
}

#[test]
fn rows_do_not_depend_on_bursts_pauses_and_workers() {
    let (mut compared, mut astray) = (0, 0);
    for seed in seeds(0..12) {
        let mut random = Random::new(seed);
        let packets = capture(&mut random);
        let compiler = Compiler::default();
        let asks = [
            ask("", Want::Packets),
            ask("", Want::Connections),
            ask("", all_sessions()),
            ask("tls", Want::Packets),
        ];
        let compiled = compile(&compiler, &asks, &Options::default());
        let (expected, _) = rows(&compiler, &compiled, &packets, 1);
        for (workers, size_max) in [(1, 1), (1, 200), (2, 3), (2, 40), (4, 200)] {
            let source = divided(&mut random, &packets, size_max);
            let (mut got, outcome) = rows_of(&compiler, &compiled, source, packets.len(), workers);
            got.retain(|row| !row.ends_with(" Pause"));
            // Fragments that come too early, as `workers::differences_are_announced` tests.
            if outcome.counters.dispatch.packets_astray > 0 {
                astray += 1;
                continue;
            }
            compared += 1;
            let at = (0..expected.len().max(got.len())).find(|&at| expected.get(at) != got.get(at));
            let differing = at.map(|at| (expected.get(at), got.get(at)));
            assert_eq!(differing, None, "seed {seed}, {workers} workers, bursts of up to {size_max}");
        }
    }
    assert!(compared > 5 * astray, "{compared} compared, {astray} with packets astray");
}

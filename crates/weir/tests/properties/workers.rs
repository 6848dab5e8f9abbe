//! The same items in the same order, whatever the number of workers.

use crate::drive::{ALL_SESSIONS, FIRST_LIGHT, Packet, ask, compile, read_capture, rows, seeds};
use crate::frames;
use crate::traffic::{Network, conversation};
use weir::{Compiler, Options, Want};
use weir_ir::testing::Random;

/// Many flows, mixed. No tunnels: both directions of what is in them may be in tunnels of different
/// ends, whose packets go to different workers.
fn capture(random: &mut Random) -> Vec<Packet> {
    let network = Network { repeats: true, loses: true, reorders: true, fragments: true, cuts: true };
    let mut list = vec![];
    for _ in 0..400 {
        let packet = frames::whole_within(random, 0);
        list.push(frames::damage(random, packet));
    }
    for port in 0..5 {
        let mut talk = conversation(random, (50_000 + port, 443), network).packets;
        talk.truncate(60);
        // Each packet somewhere behind the last.
        let mut at = 0;
        for packet in talk {
            at = (at + 1 + random.below(8) as usize).min(list.len());
            list.insert(at, packet);
        }
    }
    frames::give_times(random, &mut list);
    list
}

fn hold(name: &str, packets: &[Packet], filters: &[(&str, Want)]) {
    let compiler = Compiler::default();
    let asks: Vec<_> = filters.iter().map(|(filter, want)| ask(filter, *want)).collect();
    let compiled = compile(&compiler, &asks, &Options::default());
    let (expected, one) = rows(&compiler, &compiled, packets, 1);
    assert!(!expected.is_empty(), "{name}: something is found");
    for workers in [2, 3, 5] {
        let (got, many) = rows(&compiler, &compiled, packets, workers);
        if let Some(at) = (0..expected.len().max(got.len())).find(|&i| expected.get(i) != got.get(i)) {
            panic!(
                "{name}, {workers} workers, {filters:?}: row {at} of {} is\n  {:?}\nshould be\n  {:?}",
                expected.len(),
                got.get(at),
                expected.get(at)
            );
        }
        assert_eq!(one.matched, many.matched, "{name}, {workers} workers");
        assert_eq!(one.counters.packet, many.counters.packet, "{name}, {workers} workers");
        assert_eq!(one.counters.drops, many.counters.drops, "{name}, {workers} workers");
    }
}

#[test]
fn packets_and_connections_do_not_depend_on_the_workers() {
    for seed in seeds(0..12) {
        let packets = capture(&mut Random::new(seed));
        let name = format!("seed {seed}");
        hold(&name, &packets, &[("", Want::Packets), ("", Want::Connections)]);
        hold(&name, &packets, &[("tcp or udp", Want::Connections)]);
    }
}

#[test]
fn nor_do_the_shipped_capture_s_rows() {
    let packets = read_capture(FIRST_LIGHT);
    hold("shipped", &packets, &[("", Want::Connections), ("", ALL_SESSIONS)]);
}

#[test]
fn nor_do_packets_that_wait_for_their_connection() {
    let packets = read_capture(FIRST_LIGHT);
    hold("shipped", &packets, &[("tls.sni contains \"example\" or udp", Want::Packets)]);
    hold("shipped", &packets, &[("conn.orig_pkts > 8", Want::Packets)]);
}

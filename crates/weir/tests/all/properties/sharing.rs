//! Tables that workers share: instances whose packets reach all workers have the values that one worker
//! computes.

use crate::properties::drive::{MemoryPacket, ask, compile, rows, seeds};
use weir::packet::Timestamp;
use weir::{Ask, Compiler, EventRows, Executor, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{self, SYN};

const OPENERS: &str = "
//! Hosts, and how many connections they opened
protocol opener {
    instance (below.src)
    vars { opened: u32   highest: u16 }
    count {
        opened += 1
        if below.src_port > highest { highest = below.src_port }
    }
    states { few: start  many: accept }
    on scan: few -> many when opened == 40
    timeout 1m
    event scan on scan { opened } \"the 40th connection of a host\"
    event seen on end { opened, highest, state } \"all connections of a host\"
}
//! TCP's SYN segments, by host
stack openers extends internet { tcp -> opener when flags.syn == 1 and flags.ack == 0 }
";

const SECOND: i64 = 1_000_000_000;

/// SYN segments of a few hosts to many ports; after a pause some hosts begin again.
fn packets(random: &mut Random) -> Vec<MemoryPacket> {
    let mut time = 1_700_000_000 * SECOND;
    let mut all = vec![];
    for number in 0..4000 {
        time += if number == 2500 { 200 * SECOND } else { 1_000_000 };
        let (host, port) = (random.below(9) as u8, 1024 + random.below(60_000) as u16);
        let segment = frames::tcp((port, 80), 1, 0, SYN, &[], &[]);
        let ends = ([10, 0, 0, host], [10, 0, 1, random.below(4) as u8]);
        let frame = frames::ethernet(0x0800, &frames::ipv4(ends, 6, number as u16, 0, &[], &segment));
        all.push(MemoryPacket { time: Timestamp(time), ..MemoryPacket::ethernet(frame) });
    }
    all
}

fn compiler() -> Compiler {
    let mut compiler = Compiler::default();
    compiler.add("openers.weir", OPENERS).unwrap_or_else(|wrong| panic!("{wrong}"));
    compiler
}

fn events(compiler: &Compiler, filter: &str, event: &str) -> Ask {
    let asked = EventRows::of(compiler.stack(), &[event.to_string()]).expect("it is declared").asked;
    Ask { filter: filter.into(), need: Need { events: asked, ..Need::default() }, want: Want::Events }
}

#[test]
fn instances_of_all_workers_are_counted_together() {
    let compiler = compiler();
    for seed in seeds(0..4) {
        let packets = packets(&mut Random::new(seed));
        for (filter, engine) in
            [("", Executor::Native), ("", Executor::Interpreter), ("ip.src in 10.0.0.0/30", Executor::Native)]
        {
            let asks = [events(&compiler, filter, "opener.seen"), ask("", Want::Connections)];
            let compiled = compile(&compiler, &asks, &Options { engine, ..Options::default() });
            let (mut expected, _) = rows(&compiler, &compiled, &packets, 1);
            expected.sort();
            assert!(expected.len() > 3000, "connections and hosts");
            for workers in [2, 3, 8] {
                let (mut got, outcome) = rows(&compiler, &compiled, &packets, workers);
                got.sort();
                assert_eq!(outcome.one_worker, None);
                assert_eq!(got, expected, "seed {seed}, {workers} workers, {filter:?}");
                assert!(outcome.shares.iter().all(|&packets| packets > 0), "{:?}", outcome.shares);
            }
        }
    }
}

/// A transition happens once for each host, on whichever worker has the packet.
#[test]
fn a_transition_happens_on_one_worker() {
    let compiler = compiler();
    let packets = packets(&mut Random::new(7));
    let compiled = compile(&compiler, &[events(&compiler, "", "opener.scan")], &Options::default());
    let (expected, _) = rows(&compiler, &compiled, &packets, 1);
    assert!(expected.len() > 9, "some hosts twice");
    for workers in [2, 4] {
        let (got, _) = rows(&compiler, &compiled, &packets, workers);
        assert_eq!(got.len(), expected.len(), "{workers} workers");
        assert!(got.iter().all(|row| row.contains("Unsigned(40)")), "{got:?}");
    }
}

//! Native code gives the same results as the interpreter, with and without passes, for any filter.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, all_sessions, ask, read_capture, rows, seeds};
use weir::{Ask, Compiler, Executor, Options, Want};
use weir_testing::Random;
use weir_testing::filters::filter;
use weir_testing::frames;
use weir_testing::traffic::{Network, conversation, mix};

const SEEDS: u64 = 240;

/// Packets that random filters are likely to match: `count` random frames, a conversation, and a part of a
/// capture.
pub fn packets(random: &mut Random, shipped: &[MemoryPacket], count: usize) -> Vec<MemoryPacket> {
    let mut list: Vec<MemoryPacket> = (0..count).map(|_| frames::any(random)).collect();
    let network = Network { repeats: true, loses: true, reorders: true, fragments: true, cuts: false };
    let ports = (random.pick(&frames::PORTS), 443);
    let talk = conversation(random, ports, network);
    let mut talk = mix(random, &[talk]);
    talk.truncate(60);
    list.append(&mut talk);
    frames::give_times(random, &mut list);
    // Consecutive packets of the capture in `examples/`, with their own intervals.
    let start = random.below(shipped.len() as u64 - 90) as usize;
    let mut all = shipped[start..start + 90].to_vec();
    let shift = 1_690_000_000_000_000_000 - all[0].time.0;
    all.iter_mut().for_each(|p| p.time.0 += shift);
    all.append(&mut list);
    all
}

fn options(engine: Executor, passes: bool) -> Options {
    Options { engine, without_passes: if passes { vec![] } else { vec!["all".into()] }, ..Options::default() }
}

/// The passes that cause a difference: without any one of them the rows are correct.
fn guilty(
    compiler: &Compiler,
    asks: &[Ask],
    packets: &[MemoryPacket],
    expected: &[String],
) -> Vec<&'static str> {
    let is_right = |name: &&str| {
        let without = vec![name.to_string()];
        let options =
            Options { engine: Executor::Interpreter, without_passes: without, ..Options::default() };
        let compiled = compiler.compile(asks, &options).unwrap();
        rows(compiler, &compiled, packets, 1).0 == expected
    };
    weir_ir::passes::PASSES.iter().map(|p| p.name).filter(is_right).collect()
}

#[test]
fn native_and_interpreter_and_passes_agree() {
    let compiler = Compiler::default();
    let catalog = compiler.catalog();
    let shipped = read_capture(FIRST_LIGHT);
    let (mut asked, mut refused, mut matched) = (0, 0, 0);
    for seed in seeds(0..SEEDS) {
        let mut random = Random::new(seed);
        let wants = [Want::Packets, Want::Connections, all_sessions()];
        let asks: Vec<Ask> = (0..1 + random.below(3))
            .map(|_| {
                let depth = random.below(4) as u32;
                let text =
                    if random.once_in(10) { String::new() } else { filter(&mut random, catalog, depth) };
                ask(&text, random.pick(&wants))
            })
            .collect();
        let packets = packets(&mut random, &shipped, 60);
        let reference = match compiler.compile(&asks, &options(Executor::Interpreter, false)) {
            Ok(compiled) => compiled,
            Err(diagnostics) => {
                // Filters that can never match, or that grow too large, are refused.
                refused += 1;
                println!("seed {seed}: {asks:?}: {:?}", diagnostics.list[0].message);
                continue;
            }
        };
        asked += 1;
        let (expected, outcome) = rows(&compiler, &reference, &packets, 1);
        matched += usize::from(!expected.is_empty());
        // Unoptimised code is slow to compile, so only every fourth seed tests it.
        let big = (Executor::Native, false);
        let others = [(Executor::Interpreter, true), (Executor::Native, true), big];
        for (engine, passes) in others.into_iter().filter(|&o| o != big || seed % 4 == 0) {
            let compiled = compiler.compile(&asks, &options(engine, passes)).unwrap();
            let (got, other) = rows(&compiler, &compiled, &packets, 1);
            let filters: Vec<(&str, Want)> = asks.iter().map(|a| (a.filter.as_str(), a.want)).collect();
            if let Some(at) = (0..expected.len().max(got.len())).find(|&i| expected.get(i) != got.get(i)) {
                panic!(
                    "seed {seed}, {engine:?}, passes {passes}, {filters:#?}: row {at} is\n  {:?}\nshould be\n  {:?}\n\
                     right without one of {:?}",
                    got.get(at),
                    expected.get(at),
                    guilty(&compiler, &asks, &packets, &expected)
                );
            }
            assert_eq!(
                outcome.matched, other.matched,
                "seed {seed}, {engine:?}, passes {passes}, {filters:#?}"
            );
        }
    }
    println!("{asked} asked, {matched} of them found something, {refused} refused");
    assert!(asked > refused * 4, "most filters are asked: {asked}");
    assert!(matched * 3 > asked, "most find something: {matched} of {asked}");
}

#[test]
fn a_fragment_that_waits_does_not_hold_what_comes_after_it() {
    let ends = (frames::V4[0], frames::V4[1]);
    let datagram = frames::udp((53, 53), b"sixteen bytes ok");
    let ip = |fragment, bytes: &[u8]| {
        let packet = frames::ipv4(ends, 17, 1, fragment, &[], bytes);
        MemoryPacket::ethernet(frames::ethernet(0x0800, &packet))
    };
    let packets = [ip(0x2000, &datagram[..16]), ip(0, &datagram)];
    let compiler = Compiler::default();
    for filter in ["ip and not tls or udp", "ip and conn.orig_pkts > 3 or udp"] {
        for passes in [false, true] {
            let options = options(Executor::Interpreter, passes);
            let compiled = compiler.compile(&[ask(filter, Want::Packets)], &options).unwrap();
            let found = rows(&compiler, &compiled, &packets, 1).0;
            assert!(found.contains(&"0 packet 2".to_string()), "{filter}, passes {passes}: {found:?}");
        }
    }
}

#[test]
fn segments_that_programs_pass_by_themselves_are_counted() {
    let compiler = Compiler::default();
    let mut ordered = 0;
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let network =
            Network { repeats: true, loses: true, reorders: true, fragments: seed % 2 == 0, cuts: false };
        let talks: Vec<_> = (0..4).map(|n| conversation(&mut random, (40_000 + n, 443), network)).collect();
        let mut packets = mix(&mut random, &talks);
        frames::give_times(&mut random, &mut packets);
        let sequence = |engine, without: &[&str]| {
            let without_passes = without.iter().map(|name| name.to_string()).collect();
            let options = Options { engine, without_passes, ..Options::default() };
            let compiled = compiler.compile(&[ask("", Want::Connections)], &options).unwrap();
            rows(&compiler, &compiled, &packets, 1).1.counters.sequence
        };
        let asked = sequence(Executor::Interpreter, &["fast_forward"]);
        ordered += asked.ordered;
        for engine in [Executor::Interpreter, Executor::Native] {
            assert_eq!(sequence(engine, &[]), asked, "seed {seed}, {engine:?}");
        }
    }
    assert!(ordered > 500, "most segments are in order: {ordered}");
}

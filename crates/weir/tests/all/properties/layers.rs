//! Layers give the same results in the interpreter, with passes and in native code, even for damaged packets:
//! the captures beside the protocols, damaged and truncated, with their stacks and filters.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, read_capture, rows, seeds};
use std::path::Path;
use weir::{Ask, Compiler, Executor, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{damage, give_times};

/// Packets derived from one capture.
const PACKETS: usize = 300;

/// The stack and the filters of an expectation.
fn questions(path: &Path) -> (String, Vec<Ask>) {
    let text = std::fs::read_to_string(path).unwrap();
    let stack = text.lines().find_map(|l| l.strip_prefix("stack ")).unwrap_or("internet").to_string();
    let counted = |line: &str| {
        let rest = line.strip_prefix("filter ").or_else(|| line.strip_prefix("weir "))?;
        Some(ask(rest.split_once(' ')?.1, Want::Packets))
    };
    let mut asks: Vec<Ask> = text.lines().filter_map(counted).collect();
    asks.extend([ask("", Want::Connections), ask("", all_sessions())]);
    (stack, asks)
}

fn damaged(random: &mut Random, whole: &[MemoryPacket]) -> Vec<MemoryPacket> {
    let mut packets: Vec<MemoryPacket> = (0..PACKETS)
        .map(|_| {
            let mut packet = whole[random.below(whole.len() as u64) as usize].clone();
            for _ in 0..random.below(3) {
                if !packet.frame.is_empty() {
                    packet = damage(random, packet);
                }
            }
            packet
        })
        .collect();
    give_times(random, &mut packets);
    packets
}

#[test]
fn damaged_packets_mean_the_same_to_every_engine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
    let mut expectations: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    expectations.retain(|path| path.extension().is_some_and(|e| e == "expect"));
    for seed in seeds(0..1) {
        for path in &expectations {
            let mut random = Random::new(seed);
            let (stack, asks) = questions(path);
            let mut compiler = Compiler::default();
            compiler.use_stack(&stack).unwrap();
            let packets = damaged(&mut random, &read_capture(path.with_extension("pcap").to_str().unwrap()));
            let run = |engine, passes: bool| {
                let without_passes = if passes { vec![] } else { vec!["all".into()] };
                let options = Options { engine, without_passes, ..Options::default() };
                rows(&compiler, &compile(&compiler, &asks, &options), &packets, 1).0
            };
            let expected = run(Executor::Interpreter, false);
            assert!(!expected.is_empty(), "{}", path.display());
            for (engine, passes) in [(Executor::Interpreter, true), (Executor::Native, true)] {
                let got = run(engine, passes);
                let at = (0..expected.len().max(got.len())).find(|&i| expected.get(i) != got.get(i));
                if let Some(at) = at {
                    let (got, right) = (got.get(at), expected.get(at));
                    panic!(
                        "seed {seed}, {}, {engine:?}: row {at} is {got:?}, should be {right:?}",
                        path.display()
                    );
                }
            }
        }
    }
}

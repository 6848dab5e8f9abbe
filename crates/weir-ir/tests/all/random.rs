//! Random valid graphs: they verify, their text parses to the same text, and the interpreter never panics on
//! them.

use weir_ir::graph::{BinaryOp, Graph, Op, Terminator, Value};
use weir_ir::interpret::Interpreter;
use weir_ir::verify::verify;
use weir_testing::Random;
use weir_testing::graph::{drive, random_graph, random_packets};

const GRAPHS: u64 = 400;

fn each_graph(mut body: impl FnMut(u64, Graph)) {
    for seed in 0..GRAPHS {
        body(seed, random_graph(&mut Random::new(seed)));
    }
}

#[test]
fn random_graphs_verify() {
    each_graph(|seed, graph| {
        if let Err(violations) = verify(&graph) {
            panic!("seed {seed}: {}\n{graph}", violations[0]);
        }
    });
}

#[test]
fn what_was_printed_parses_and_prints_the_same() {
    each_graph(|seed, graph| {
        let text = graph.to_string();
        let parsed: Graph = text.parse().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!(parsed.to_string(), text, "seed {seed}");
        assert_eq!(parsed.blocks, graph.blocks, "seed {seed}");
    });
}

#[test]
fn the_interpreter_does_the_same_with_a_graph_and_with_its_text() {
    let (mut lookups, mut calls, mut dropped) = (0, 0, 0);
    each_graph(|seed, graph| {
        let packets = random_packets(&mut Random::new(seed), 20);
        let parsed = graph.to_string().parse().expect("it parses");
        let [ours, theirs] = [graph, parsed].map(|g| {
            let program = Interpreter::new(g).expect("patterns compile");
            drive(&program, &packets)
        });
        assert_eq!(ours, theirs, "seed {seed}");
        lookups += ours.packets.iter().map(|p| p.lookups.len()).sum::<usize>();
        calls += ours.calls.len();
        dropped += ours.packets.iter().filter(|p| p.done.is_some_and(|(_, reason)| reason.is_some())).count();
    });
    // The property is only tested if the graphs do something.
    assert!(lookups > 1000 && calls > 1000 && dropped > 1000, "{lookups} {calls} {dropped}");
}

#[test]
fn tracing_changes_nothing_and_ends() {
    each_graph(|seed, graph| {
        let program = Interpreter::new(graph).expect("patterns compile");
        for (packet, frame) in random_packets(&mut Random::new(seed), 3) {
            let steps = program.trace(&packet, &frame);
            assert_eq!(steps, program.trace(&packet, &frame), "seed {seed}");
        }
    });
}

/// The verifier's guarantee: accepted graphs do not load outside buffers. Graphs with a few changed numbers
/// and operands are either refused or run without panic.
#[test]
fn what_the_verifier_accepts_does_not_panic() {
    let (mut accepted, mut refused) = (0, 0);
    each_graph(|seed, graph| {
        let mut random = Random::new(seed ^ 0x5eed);
        for _ in 0..4 {
            let mut graph = graph.clone();
            for _ in 0..1 + random.below(3) {
                mutate(&mut graph, &mut random);
            }
            if verify(&graph).is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let text = graph.to_string();
            let packets = random_packets(&mut random, 12);
            let run = || drive(&Interpreter::new(graph).expect("patterns compile"), &packets);
            assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}:\n{text}");
        }
    });
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
}

/// Changes a load, a check, a constant or some operand.
fn mutate(graph: &mut Graph, random: &mut Random) {
    let types = graph.values.clone();
    let another = |random: &mut Random, value: Value| {
        let same: Vec<u32> =
            (0..types.len() as u32).filter(|&v| types[v as usize] == types[value.index()]).collect();
        Value(random.pick(&same))
    };
    let at = random.below(graph.blocks.len() as u64) as usize;
    let block = &mut graph.blocks[at];
    match &mut block.terminator {
        Terminator::Check { bytes, .. } if random.once_in(2) => {
            *bytes = random.below(24) as u32;
            return;
        }
        terminator if random.once_in(3) => {
            let (mut left, chosen) = (random.below(4), &mut *random);
            terminator.map_operands(|v| {
                let here = left == 0;
                left = left.wrapping_sub(1);
                if here { another(chosen, v) } else { v }
            });
            return;
        }
        _ => {}
    }
    if block.insts.is_empty() {
        return;
    }
    let inst = random.below(block.insts.len() as u64) as usize;
    match &mut block.insts[inst].op {
        Op::Const(n) => *n = random.number(),
        Op::Load { displacement, .. } if random.once_in(2) => *displacement = random.below(24) as u32,
        Op::Binary(op, ..) if random.once_in(2) => {
            *op = random.pick(&[BinaryOp::Add, BinaryOp::Mul, BinaryOp::And, BinaryOp::Sub]);
        }
        op => {
            let (mut left, chosen) = (random.below(3), &mut *random);
            op.map_operands(|v| {
                let here = left == 0;
                left = left.wrapping_sub(1);
                if here { another(chosen, v) } else { v }
            });
        }
    }
}

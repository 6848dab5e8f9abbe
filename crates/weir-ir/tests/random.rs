//! Random valid graphs: they verify, print as they parse, and never make the interpreter panic.

use weir_ir::graph::Graph;
use weir_ir::interpret::Interpreter;
use weir_ir::testing::{Random, drive, random_graph, random_packets};
use weir_ir::verify::verify;

const GRAPHS: u64 = 600;

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
    // The property says nothing if the graphs do nothing.
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

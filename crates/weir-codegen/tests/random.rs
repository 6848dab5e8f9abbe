//! Native code does what the interpreter does: on random graphs and random packets, to the last word of
//! every answer and every question to the engine.
//!
//! `WEIR_SEED` sets the first seed; a failure prints its own.

use weir_codegen::{Effort, compile_with};
use weir_ir::interpret::Interpreter;
use weir_ir::testing::{Random, drive, random_graph, random_packets};

const GRAPHS: u64 = 1_500;
const PACKETS: usize = 8;

#[test]
fn native_code_does_what_the_interpreter_does() {
    let first = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + GRAPHS {
        let mut random = Random::new(seed);
        let graph = random_graph(&mut random);
        let packets = random_packets(&mut random, PACKETS);
        let interpreter = Interpreter::new(graph.clone()).expect("the patterns compile");
        let want = drive(&interpreter, &packets);
        for effort in [Effort::Quick, Effort::Thorough] {
            let program = compile_with(graph.clone(), effort)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"));
            let got = drive(&program, &packets);
            assert!(got == want, "seed {seed}, {effort:?}: {got:#?}\nis not\n{want:#?}\nof\n{graph}");
        }
    }
}

//! Native code equals the interpreter on random graphs and random packets, in every word of every result and
//! of every call to the engine.
//!
//! `WEIR_SEED` sets the first seed; a failure prints its own.

use weir_codegen::{Effort, compile_with, compile_with_fast_path};
use weir_ir::abi::{Continuation, Program};
use weir_ir::fast_path::fast_path_of;
use weir_ir::graph::Fuel;
use weir_ir::interpret::Interpreter;
use weir_ir::passes::optimize;
use weir_packet::PacketMeta;
use weir_testing::Random;
use weir_testing::graph::{drive, random_graph, random_packets};

const GRAPHS: u64 = 1_500;
const PACKETS: usize = 8;
/// So many packets are interpreted before machine code is made, with [`Effort::Late`].
const INTERPRETED_PACKETS: usize = 2_048;

#[test]
fn native_code_does_what_the_interpreter_does() {
    let first = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + GRAPHS {
        let mut random = Random::new(seed);
        let graph = random_graph(&mut random);
        let packets = random_packets(&mut random, PACKETS);
        let interpreter = Interpreter::new(graph.clone()).expect("the patterns compile");
        let want = drive(&interpreter, &packets);
        for effort in [Effort::Least, Effort::Quick, Effort::Thorough] {
            let program = compile_with(graph.clone(), effort)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"));
            let got = drive(&program, &packets);
            assert!(got == want, "seed {seed}, {effort:?}: {got:#?}\nis not\n{want:#?}\nof\n{graph}");
        }
    }
}

/// With random loops marked as usual, in random order.
#[test]
fn a_fast_path_changes_nothing_but_speed() {
    let first = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut made = 0;
    for seed in first..first + GRAPHS {
        let mut random = Random::new(seed);
        let mut graph = random_graph(&mut random);
        let packets = random_packets(&mut random, PACKETS);
        graph.usual = vec![vec![]; 3];
        (0..graph.fuels).for_each(|fuel| graph.usual[random.below(3) as usize].push(Fuel(fuel)));
        let want = drive(&Interpreter::new(graph.clone()).expect("the patterns compile"), &packets);
        let mut fast_path = fast_path_of(&graph);
        if random.below(2) == 1 {
            fast_path.iter_mut().for_each(|graph| drop(optimize(graph, &Default::default())));
        }
        let program = compile_with_fast_path(graph.clone(), fast_path.clone(), Effort::Growing)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"));
        let got = drive(&program, &packets);
        assert!(got == want, "seed {seed}: {got:#?}\nis not\n{want:#?}\nof\n{graph}");
        program.compile_again();
        let again = drive(&program, &packets);
        assert!(again == want, "compiled again, seed {seed}: {again:#?}\nis not\n{want:#?}\nof\n{graph}");
        made += usize::from(program.fast_path().is_some());
        let late = compile_with_fast_path(graph.clone(), fast_path, Effort::Late).expect("as before");
        for (packets_before, how) in [(0, "interpreted"), (INTERPRETED_PACKETS, "compiled late")] {
            assert_eq!(late.code_bytes(), 0, "{how}, seed {seed}");
            let (packet, mut k) = (PacketMeta::default(), Continuation::default());
            for _ in 0..packets_before {
                late.head(&packet, &[], &mut k);
            }
            let got = drive(&late, &packets);
            assert!(got == want, "{how}, seed {seed}: {got:#?}\nis not\n{want:#?}\nof\n{graph}");
        }
        assert!(late.code_bytes() > 0, "seed {seed}");
    }
    assert!(made > GRAPHS as usize / 4, "{made} of {GRAPHS} had a fast path");
}

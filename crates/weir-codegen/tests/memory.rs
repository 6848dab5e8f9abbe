//! Dropped programs free their memory. This is the only test of its process: the memory of others would count
//! as growth.

#![cfg(target_os = "linux")]

use weir_codegen::compile;
use weir_testing::Random;
use weir_testing::graph::random_graph;

/// Resident memory of this process, in pages.
fn resident_pages() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number")
}

#[test]
fn a_program_that_is_dropped_gives_its_memory_back() {
    let graph = random_graph(&mut Random::new(7));
    let round = || (0..100).for_each(|_| drop(compile(graph.clone()).expect("the graph compiles")));
    round();
    let before = resident_pages();
    (0..9).for_each(|_| round());
    let grown = resident_pages().saturating_sub(before);
    assert!(grown < 450, "900 programs left {grown} pages behind");
}

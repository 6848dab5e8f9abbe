//! The files of `filetests/passes/PASS/`: a sentence, a graph, and the result of the pass. `WEIR_BLESS=1`
//! writes the current result.
//!
//! Also: on random graphs, each pass alone and all together preserve the observable behaviour.

use std::path::Path;
use weir_ir::graph::Graph;
use weir_ir::interpret::{Interpreter, TraceStep};
use weir_ir::passes::{Options, PASSES, optimize, pass};
use weir_ir::verify::assert_valid;
use weir_packet::{DropReason, PacketMeta};
use weir_testing::Random;
use weir_testing::graph::{drive, random_graph, random_packets};

const MARK: &str = "\n; ---- becomes\n";

#[test]
fn passes_make_of_graphs_what_their_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/passes");
    let is_blessing = std::env::var_os("WEIR_BLESS").is_some();
    for pass in PASSES {
        let mut paths: Vec<_> = std::fs::read_dir(root.join(pass.name))
            .unwrap_or_else(|e| panic!("filetests/passes/{}: {e}", pass.name))
            .map(|entry| entry.expect("a folder that can be read").path())
            .collect();
        paths.sort();
        for path in paths {
            check(&path, pass.name, is_blessing);
        }
    }
}

fn check(path: &Path, name: &str, is_blessing: bool) {
    let text = std::fs::read_to_string(path).expect("a text");
    let (input, expected) = text.split_once(MARK).unwrap_or((text.trim_end(), ""));
    assert!(input.starts_with("; "), "{} starts with what it shows", path.display());
    let mut graph: Graph = input.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_valid(&graph, &path.display().to_string());
    (pass(name).expect("listed").run)(&mut graph);
    let output = graph.to_string();
    assert_valid(&graph, &path.display().to_string());
    if is_blessing {
        std::fs::write(path, format!("{input}{MARK}{output}")).expect("written");
    } else {
        assert_eq!(output, expected, "{}: WEIR_BLESS=1 accepts this", path.display());
    }
}

/// The observable behaviour: packets, and wanted calls without the flow's variables.
type Seen = (Vec<(Option<(u64, Option<DropReason>)>, Vec<u64>)>, Vec<String>);

fn seen(graph: &Graph, packets: &[(PacketMeta, Vec<u8>)]) -> Seen {
    let program = Interpreter::new(graph.clone()).expect("its patterns compile");
    let outcome = drive(&program, packets);
    let is_wanted = |call: &String| {
        let number =
            |prefix: &str| -> Option<usize> { call.strip_prefix(prefix)?.split(' ').next()?.parse().ok() };
        number("deliver table").is_some_and(|t| graph.tables[t].delivers)
            || number("emit event").is_some_and(|e| graph.events[e].wanted)
    };
    let calls = outcome.calls.iter().filter(|call| is_wanted(call));
    let calls = calls.map(|call| call.split(" flow ").next().expect("always one").to_string()).collect();
    (outcome.packets.into_iter().map(|packet| (packet.done, packet.outs)).collect(), calls)
}

fn compare(title: &str, before: &Graph, after: &Graph, packets: &[(PacketMeta, Vec<u8>)]) {
    let ((old, old_calls), (new, new_calls)) = (seen(before, packets), seen(after, packets));
    // The limit on lookups ends packets that keep requesting flows; with fewer lookups they end later.
    if old.iter().chain(&new).any(|(done, _)| done.is_none()) {
        return;
    }
    assert_eq!(old, new, "{title}\n{before}\n{after}");
    assert_eq!(old_calls, new_calls, "{title}\n{before}\n{after}");
    for (old, new) in notes(before, packets).into_iter().zip(notes(after, packets)) {
        // A restart ends a trace, and passes may remove its lookup.
        if let (Some(old), Some(new)) = (old, new) {
            assert_eq!(old, new, "{title}\n{before}\n{after}");
        }
    }
}

/// The notes of each packet; `None` if its trace does not reach the packet's end.
fn notes(graph: &Graph, packets: &[(PacketMeta, Vec<u8>)]) -> Vec<Option<Vec<TraceStep>>> {
    let program = Interpreter::new(graph.clone()).expect("its patterns compile");
    let of_packet = |(packet, frame): &(PacketMeta, Vec<u8>)| {
        let steps = program.trace(packet, frame);
        let is_done = matches!(steps.last(), Some(TraceStep::Done { .. }));
        let notes = steps.into_iter().filter(|step| matches!(step, TraceStep::Note { .. }));
        is_done.then(|| notes.collect())
    };
    packets.iter().map(of_packet).collect()
}

#[test]
fn random_graphs_do_the_same_after_the_passes() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let graph = random_graph(&mut random);
        let packets = random_packets(&mut random, 20);
        for pass in PASSES {
            let mut after = graph.clone();
            (pass.run)(&mut after);
            let title = format!("seed {seed}, {}", pass.name);
            assert_valid(&after, &title);
            compare(&title, &graph, &after, &packets);
        }
        let mut after = graph.clone();
        optimize(&mut after, &Options::default());
        assert_valid(&after, &format!("seed {seed}"));
        compare(&format!("seed {seed}"), &graph, &after, &packets);
    }
}

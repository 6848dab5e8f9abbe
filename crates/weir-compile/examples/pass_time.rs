//! Prints the time of each pass on lowered questions, and the size of the graph before and after it:
//! `cargo run --release -p weir-compile --example pass_time [FILTER]`.

use std::time::Instant;
use weir_compile::{Need, Question, StackCatalog, lower};
use weir_ir::passes::{Options, optimize};
use weir_lang::Library;

const TIMES: u32 = 50;

fn main() {
    let library = Library::builtin();
    let stack = library.stack("internet").expect("comes with Weir");
    let catalog = StackCatalog::new(stack, &[], weir_sessions::SessionRegistry::builtin().protocols());
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let filters = if filters.is_empty() {
        ["", "arp", "ip.src == 10.0.0.1", "tcp.port == 443", "tcp.port == 443 or udp.port == 53"]
            .map(String::from)
            .to_vec()
    } else {
        filters
    };
    let needs = [
        ("packets", Need { packets: true, ..Need::default() }),
        ("lines", Need { packets: true, lines: true, ..Need::default() }),
        ("flows", Need { connections: true, ..Need::default() }),
        ("sessions", Need { sessions: weir_sessions::ProtocolSet::of(0), ..Need::default() }),
    ];
    for text in &filters {
        let filter = weir_lang::filter::compile(text, &catalog).expect("a filter");
        for (name, need) in needs {
            let question = Question { filter: filter.clone(), need };
            let lowered = lower(stack, &catalog, &[question]).expect("few terms");
            let mut best = None;
            for _ in 0..TIMES {
                let mut graph = lowered.graph.clone();
                let start = Instant::now();
                let report = optimize(&mut graph, &Options::default());
                let time = start.elapsed();
                if best.as_ref().is_none_or(|(least, _)| time < *least) {
                    best = Some((time, report));
                }
            }
            let (time, report) = best.expect("run at least once");
            let (before, after) = (report.before, report.after);
            println!(
                "{text:36} {name:9} {:5} µs in {} rounds  blocks {} → {}  insts {} → {}  loads {} → {}  checks {} → {}  stateful {} → {}",
                time.as_micros(),
                report.rounds,
                before.blocks,
                after.blocks,
                before.insts,
                after.insts,
                before.loads,
                after.loads,
                before.checks,
                after.checks,
                before.stateful,
                after.stateful,
            );
            let passes = report.passes.iter();
            let each: Vec<String> =
                passes.map(|p| format!("{} {} µs × {}", p.name, p.time.as_micros(), p.runs)).collect();
            println!("    {}", each.join("   "));
        }
    }
}

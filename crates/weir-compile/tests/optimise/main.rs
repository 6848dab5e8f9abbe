//! Optimized graphs behave like unoptimized ones: the built-in stack, many filters, every kind of need, on
//! valid and invalid frames.

mod constructs;
mod engine;
mod frames;
mod told;
mod window;

use engine::run;
use frames::Frames;
use weir_compile::events::EventSet;
use weir_compile::{Need, Question, StackCatalog, lower};
use weir_ir::abi::Layout;
use weir_ir::graph::{Graph, Table, Terminator};
use weir_ir::interpret::Interpreter;
use weir_ir::passes::{Options, PASSES, optimize};
use weir_ir::verify::assert_valid;
use weir_lang::Library;
use weir_packet::PacketMeta;

const FILTERS: &[&str] = &[
    "",
    "arp",
    "ip",
    "ipv6",
    "tcp",
    "udp.dstport == 53",
    "tcp.port == 443",
    "tcp.port == 443 or udp.port == 53",
    "ip.src == 10.0.0.1",
    "ip.addr == 10.0.0.0/30 and not tcp.port == 80",
    "ip.ttl < 5 or ipv6.hlim < 5",
    "vlan.id == 7 and ip",
    "eth.src == 02:00:00:00:00:01",
    "tcp.flags.syn == 1 and tcp.flags.ack == 0",
    "tcp.flags == 0x12 or ip.flags & 2",
    "tcp.options.mss.value == 1460",
    "tcp.srcport in { 80, 443, 8000..8100 } and ip.dst == 10.0.0.2",
    "icmp or icmpv6",
    "not ip",
    "frame.len > 100",
    "tcp.payload contains \"GET\"",
    "tcp.port != 443 and ipv6",
];

fn needs() -> [(&'static str, Need); 6] {
    [
        ("packets", Need { packets: true, ..Need::default() }),
        ("lines", Need { packets: true, lines: true, ..Need::default() }),
        ("flows", Need { connections: true, ..Need::default() }),
        ("sessions", Need { sessions: weir_sessions::ProtocolSet::of(0), ..Need::default() }),
        (
            "streams and events",
            Need { streams: true, connections: true, events: EventSet::FULL, ..Need::default() },
        ),
        ("dispatch", Need { dispatch: true, ..Need::default() }),
    ]
}

/// Calls `f` on every filter with every need, lowered. Filters with fields that the stack lacks are skipped.
fn for_each_question(mut f: impl FnMut(&str, &Graph)) {
    let library = Library::builtin();
    let stack = library.stack("internet").expect("comes with Weir");
    let catalog = StackCatalog::new(stack, &[], weir_sessions::SessionRegistry::builtin().protocols());
    let mut count = 0;
    for text in FILTERS {
        let filter = match weir_lang::filter::compile(text, &catalog) {
            Ok(filter) => filter,
            Err(wrong) => {
                eprintln!("left out: {text}: {}", wrong[0].message);
                continue;
            }
        };
        for (name, need) in needs() {
            let question = Question { filter: filter.clone(), need };
            let lowered = lower(stack, &catalog, &[question]).expect("few terms");
            f(&format!("`{text}` for {name}"), &lowered.graph);
            count += 1;
        }
    }
    assert!(count > 100, "most filters compile: {count}");
}

fn compare(title: &str, before: &Graph, after: &Graph, packets: &[(PacketMeta, Vec<u8>)]) {
    let [old, new] = [before, after].map(|graph| {
        let program = Interpreter::new(graph.clone()).expect("its patterns compile");
        run(&program, packets)
    });
    for (at, (old, new)) in old.packets.iter().zip(&new.packets).enumerate() {
        assert_eq!(old, new, "{title}: packet {at}: {:02x?}", packets[at].1);
    }
    assert_eq!(old.flows, new.flows, "{title}");
}

#[test]
fn optimised_questions_give_the_same_answers() {
    let packets = Frames::new(1).packets(600);
    for_each_question(|title, graph| {
        assert_valid(graph, "lowering");
        let mut optimised = graph.clone();
        optimize(&mut optimised, &Options::default());
        assert_valid(&optimised, title);
        compare(title, graph, &optimised, &packets);
    });
}

#[test]
fn every_pass_can_be_left_out() {
    let packets = Frames::new(2).packets(150);
    for pass in PASSES {
        let options = Options { without: vec![pass.name.to_string()] };
        for_each_question(|title, graph| {
            let mut optimised = graph.clone();
            optimize(&mut optimised, &options);
            let title = format!("{title} without {}", pass.name);
            assert_valid(&optimised, &title);
            compare(&title, graph, &optimised, &packets);
        });
    }
}

#[test]
fn what_nobody_asks_for_is_gone() {
    for_each_question(|title, graph| {
        let mut optimised = graph.clone();
        let report = optimize(&mut optimised, &Options::default());
        if title == "`arp` for packets" {
            // The packet may be in a tunnel, whose datagrams may be fragmented; but not in a connection.
            let connections = optimised.blocks.iter().any(|block| match block.terminator {
                Terminator::Lookup { table, .. } => optimised.tables[table.index()].two_sided,
                _ => false,
            });
            assert!(!connections, "no connection is needed to see ARP:\n{optimised}");
            assert!(report.after.insts * 3 < report.before.insts, "{report:?}");
        }
    });
}

#[test]
fn a_udp_flow_takes_two_cache_lines() {
    for_each_question(|title, graph| {
        if !title.starts_with("``") {
            return;
        }
        let mut graph = graph.clone();
        optimize(&mut graph, &Options::default());
        let Some(udp) = graph.tables.iter().position(|t| t.name == "udp") else { return };
        let bytes = Layout::of(&graph).size(Table(udp as u32));
        assert!(bytes <= 56, "{title}: {bytes} bytes besides the header of 72");
    });
}

#[test]
fn first_values_go_where_nobody_wants_them() {
    for_each_question(|title, graph| {
        let mut graph = graph.clone();
        optimize(&mut graph, &Options::default());
        let kept = graph.vars.iter().any(|v| v.name == *"vlan");
        let wanted = title.ends_with("for flows") || title.ends_with("events");
        assert!(wanted || !kept, "{title}: nobody asks for records");
        assert!(kept || title != "`` for flows");
    });
}

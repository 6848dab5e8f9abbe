//! Layers: the small captures beside the protocols, and their expected contents.
//!
//! `protocols/NAME.expect` describes `protocols/NAME.pcap`, with one statement per line:
//!
//! ```text
//! # how it was made
//! stack NAME              the stack to use; default `internet`
//! path N eth:ip:gre       N packets have exactly these layers
//! filter N gre.key == 42  N packets match, also in tshark (`cargo xtask layers --check`)
//! weir N FILTER           N packets match a filter that tshark does not support
//! flow N udp PORT > PORT  a connection with these ports has N packets in both directions together
//! ```
//!
//! An expectation lists all paths and all connections of its capture.

#[path = "support/limits.rs"]
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use weir::io::CaptureReader;
use weir::packet::Cell;
use weir::{Ask, Compiler, Item, Limits, Need, Options, Outcome, Shape, Stats, Want, path_need};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols")
}

/// An expectation's lines, by their first word.
struct Expectation {
    pcap: PathBuf,
    stack: String,
    paths: BTreeMap<String, u64>,
    filters: Vec<(String, u64)>,
    flows: Vec<String>,
}

impl Expectation {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut expectation = Self {
            pcap: path.with_extension("pcap"),
            stack: "internet".into(),
            paths: BTreeMap::new(),
            filters: vec![],
            flows: vec![],
        };
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{}: {line}", path.display()));
            let counted = || {
                let (count, what) = rest.split_once(' ').unwrap();
                (what.to_string(), count.parse::<u64>().unwrap_or_else(|_| panic!("no number: {line}")))
            };
            match word {
                "stack" => expectation.stack = rest.to_string(),
                "path" => expectation.paths.extend([counted()]),
                "filter" | "weir" => expectation.filters.push(counted()),
                "flow" => expectation.flows.push(rest.to_string()),
                _ => panic!("{}: {line}", path.display()),
            }
        }
        expectation.flows.sort();
        expectation
    }
}

#[test]
fn associations_have_a_community_id() {
    let mut compiler = Compiler::default();
    compiler.use_stack("sctp").unwrap();
    let connections = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    let mut associations = 0;
    ask(&compiler, &folder().join("sctp.pcap"), connections, |item| {
        associations += 1;
        let Item::Connection(c) = item else { panic!("{item:?} instead of a connection") };
        assert_eq!(c.community_id(), "1:28Q46Qw7HNb3TC983n693W8cUYA=");
    });
    assert!(associations > 0);
}

/// The tables of `docs/layers.md`.
fn tables() -> String {
    let library = weir::lang::Library::builtin();
    let mut text = String::from("| stack | what it is | layers |\n|---|---|---|\n");
    let base: Vec<&str> = names(library.stack("internet").unwrap());
    for stack in library.stacks() {
        let own: Vec<&str> =
            names(stack).into_iter().filter(|n| is_base(&stack.name) || !base.contains(n)).collect();
        let more = if is_base(&stack.name) { "" } else { "those of `internet`" };
        let list = [more].into_iter().chain(own).filter(|n| !n.is_empty()).collect::<Vec<_>>().join(", ");
        text += &format!("| `{}` | {} | {list} |\n", stack.name, stack.doc);
    }
    text += "\n| layer | in filters | what it is | capture |\n|---|---|---|---|\n";
    for protocol in library.protocols() {
        let pcap = folder().join(format!("{}.pcap", protocol.name)).is_file();
        let capture =
            if pcap { format!("[{0}.pcap](../protocols/{0}.expect)", protocol.name) } else { String::new() };
        text +=
            &format!("| `{}` | `{}` | {} | {capture} |\n", protocol.name, protocol.filter_name, protocol.doc);
    }
    text += "\n| stack | files | lines | Rubik's |\n|---|---|--:|--:|\n";
    for (name, files, theirs) in COUNTED {
        let ours: usize = files.split(' ').map(lines).sum();
        let theirs = theirs.map_or("–".to_string(), |lines| lines.to_string());
        text += &format!("| {name} | {files} | {ours} | {theirs} |\n");
    }
    text
}

/// Stacks whose lines Rubik's paper counts (its table 2), and ours: name, our files, lines in the paper.
const COUNTED: [(&str, &str, Option<usize>); 6] = [
    ("TCP/IP", "eth ip ipv6 ipv6ext udp tcp tcpip", Some(245)),
    ("what is added to TCP", "tcp_record tcp_normalisation tcp_quality", None),
    ("GTP", "eth ip ipv6 ipv6ext udp gtp tcp tcpip", Some(304)),
    ("PPTP", "eth ip ipv6 ipv6ext tcp pptp gre ppp tcpip links", Some(586)),
    ("QUIC", "null ip ipv6 ipv6ext udp quic tcpip links", Some(361)),
    ("SCTP", "eth ip ipv6 ipv6ext sctp tcpip", Some(233)),
];

/// Stacks whose layers are listed one by one.
fn is_base(name: &str) -> bool {
    matches!(name, "tcpip" | "links" | "sctp" | "gtp" | "internet")
}

/// The lines counted for GTP and SCTP are complete: their stacks also compile on TCP/IP alone.
#[test]
fn counted_stacks_are_whole() {
    for (name, base) in [("gtp", "extends sctp"), ("sctp", "extends links")] {
        let text = std::fs::read_to_string(folder().join(format!("{name}.weir"))).unwrap();
        assert!(text.contains(base), "{name}");
        let text = text.replace(base, "extends tcpip").replace(", ah -> sctp", " -> sctp");
        let mut library = weir::lang::Library::builtin();
        library.extend_with("counted.weir", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Lines of a protocol's text without comments and blank lines.
fn lines(name: &str) -> usize {
    let text = std::fs::read_to_string(folder().join(format!("{name}.weir"))).unwrap();
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//")).count()
}

fn names(stack: &weir::lang::model::Stack) -> Vec<&str> {
    stack.layers.iter().map(|l| l.protocol.name.as_str()).collect()
}

#[test]
fn the_page_of_layers_is_what_there_is() {
    const MARK: &str = "<!-- tables: WEIR_BLESS=1 cargo test -p weir --test all layers -->\n\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/layers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once(MARK).unwrap();
    let right = format!("{head}{MARK}{}", tables());
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &right).unwrap();
    } else {
        assert!(page == right, "docs/layers.md is stale: WEIR_BLESS=1 writes its tables");
    }
}

/// Asks one question about a capture. Every packet must be accounted for.
fn ask(compiler: &Compiler, pcap: &Path, ask: Ask, mut each: impl FnMut(Item)) -> Outcome {
    let limits = Limits { idle_timeout_ms: Some(0), ..Limits::default() };
    let compiled = compiler
        .compile(std::slice::from_ref(&ask), &Options { limits, ..Options::default() })
        .unwrap_or_else(|d| panic!("{}: {}: {d}", pcap.display(), ask.filter));
    let mut reader = CaptureReader::open(&[pcap]);
    let mut take = |_: usize, item: Item<'_>| {
        each(item);
        Ok::<(), Infallible>(())
    };
    let Ok(outcome) =
        weir::run(compiler, &compiled, &mut reader, &[Shape::default()], 1, &mut take, &mut |_| {});
    assert!(outcome.errors.is_empty(), "{}: {:?}", pcap.display(), outcome.errors);
    assert_eq!(outcome.counters.adds_up(0), Ok(()), "{}: {}", pcap.display(), ask.filter);
    outcome
}

fn check(expected: &Expectation) -> Vec<String> {
    let mut compiler = Compiler::default();
    compiler.use_stack(&expected.stack).unwrap();
    let (pcap, mut wrong) = (&expected.pcap, vec![]);
    let mut paths = BTreeMap::new();
    let everything = Ask { filter: String::new(), need: path_need(), want: Want::Packets };
    ask(&compiler, pcap, everything, |item| {
        let Item::Packet { path, .. } = item else { panic!("{item:?} instead of a packet") };
        *paths.entry(Stats::path_name(compiler.stack(), path)).or_insert(0) += 1;
    });
    if paths != expected.paths {
        let lines: Vec<String> = paths.iter().map(|(path, n)| format!("path {n} {path}")).collect();
        wrong.push(format!("{}: its paths are\n{}", pcap.display(), lines.join("\n")));
    }
    for (filter, count) in &expected.filters {
        let packets = Ask { filter: filter.clone(), need: Need::default(), want: Want::Packets };
        let found = ask(&compiler, pcap, packets, |_| {}).matched[0];
        if found != *count {
            wrong.push(format!("{}: {filter}: {count} expected, {found} found", pcap.display()));
        }
    }
    let mut flows = vec![];
    let connections = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    ask(&compiler, pcap, connections, |item| {
        let Item::Connection(c) = item else { panic!("{item:?} instead of a connection") };
        flows.push(format!("{} {} {} > {}", c.packets[0] + c.packets[1], c.proto, c.orig_p, c.resp_p));
    });
    flows.sort();
    if flows != expected.flows {
        wrong.push(format!("{}: its connections are\nflow {}", pcap.display(), flows.join("\nflow ")));
    }
    wrong
}

#[test]
fn captures_beside_the_protocols_hold_what_is_expected() {
    let mut wrong = vec![];
    let mut checked = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|e| e.to_str()) {
            Some("expect") => {
                wrong.extend(check(&Expectation::read(&path)));
                checked += 1;
            }
            Some("pcap") => assert!(path.with_extension("expect").is_file(), "{}", path.display()),
            _ => {}
        }
    }
    assert!(checked > 0, "there are captures");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The captures beside the protocols with their stacks, and the capture in `examples/`.
fn captures() -> Vec<(PathBuf, String)> {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let expects = paths.filter(|path| path.extension().is_some_and(|e| e == "expect"));
    let mut captures: Vec<(PathBuf, String)> =
        expects.map(|path| Expectation::read(&path)).map(|e| (e.pcap, e.stack)).collect();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-light.pcap");
    captures.push((shipped, "internet".into()));
    captures.sort();
    captures
}

/// The numbers of the packets that a filter selects.
fn packets_of(compiler: &Compiler, pcap: &Path, filter: &str) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let asked = Ask { filter: filter.to_string(), need: Need::default(), want: Want::Packets };
    ask(compiler, pcap, asked, |item| {
        let Item::Packet { meta, .. } = item else { panic!("{item:?} instead of a packet") };
        found.insert(meta.number);
    });
    found
}

#[test]
fn packets_on_which_an_event_happened_are_those_that_are_told_of() {
    let mut told = 0;
    for (pcap, stack) in captures() {
        let mut compiler = Compiler::default();
        compiler.use_stack(&stack).unwrap();
        let all = weir::EventRows::of_set(compiler.stack(), weir::EventSet::EMPTY).events;
        // No packet has the events at the ends of instances.
        let on_packets = all.iter().enumerate().filter(|(_, event)| !event.is_end).map(|(number, _)| number);
        let rows = weir::EventRows::of_set(compiler.stack(), on_packets.collect());
        let mut packets: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let need = Need { events: rows.asked, ..Need::default() };
        let all = Ask { filter: String::new(), need, want: Want::Events };
        ask(&compiler, &pcap, all, |item| {
            let Item::Rows(made) = item else { panic!("{item:?} instead of an event") };
            for row in made.iter() {
                let (Cell::Text(name), Cell::Unsigned(number)) = (row.cell(1), row.cell(2)) else {
                    panic!("{row:?}")
                };
                packets.entry(name.to_string()).or_default().insert(number);
            }
        });
        let fragments = packets_of(
            &compiler,
            &pcap,
            "ip.flags.mf == 1 or ip.frag_offset > 0 or ipv6.fraghdr.more == 1 or ipv6.fraghdr.offset > 0",
        );
        for (name, numbers) in packets {
            let event = rows.events.iter().find(|event| event.name == name).unwrap();
            // A field of the same name may hide the event.
            let filter = event.name.clone();
            let found = packets_of(&compiler, &pcap, &filter);
            // The earlier fragments of a datagram on which the event happened are selected, too.
            let more: BTreeSet<u64> = found.difference(&numbers).copied().collect();
            assert!(found.is_superset(&numbers), "{}: {filter}", pcap.display());
            assert!(more.is_subset(&fragments), "{}: {filter}: {more:?}", pcap.display());
            told += 1;
        }
    }
    assert!(told > 12, "events happen: {told}");
}

#[test]
fn connections_in_tunnels_know_those_that_they_run_in() {
    let connections = || Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    for (name, stack, outer_port) in
        [("vxlan", "internet", 4789), ("gtp", "gtp", 2152), ("geneve", "internet", 6081)]
    {
        let mut compiler = Compiler::default();
        compiler.use_stack(stack).unwrap();
        let (mut outer, mut inner) = (vec![], vec![]);
        ask(&compiler, &folder().join(format!("{name}.pcap")), connections(), |item| {
            let Item::Connection(c) = item else { panic!("{item:?} instead of a connection") };
            match c.resp_p == outer_port {
                true => outer.push(c),
                false => inner.push(c),
            }
        });
        assert!(!inner.is_empty() && outer.iter().all(|c| c.tunnel_parents.is_empty()), "{name}");
        for c in &inner {
            let parents: Vec<_> = outer.iter().filter(|o| c.tunnel_parents.contains(&o.uid)).collect();
            assert_eq!((parents.len(), c.tunnel_parents.len()), (1, 1), "{name}: {c:?}");
            assert!(parents[0].ts <= c.ts, "{name}: {c:?}");
        }
    }
}

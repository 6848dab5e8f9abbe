//! Large numbers of layers in a stack, layers in a packet, events, and questions in a program.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, in_memory, read_capture, rows, seeds,
};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use weir::{Ask, Compiler, EventRows, Executor, Item, Need, Options, Shape, Want};
use weir_testing::Random;

/// A stack of `layers` protocols. Each packet begins with the first one, and a byte selects each next one.
fn stack_of(layers: usize) -> Compiler {
    let mut text = String::new();
    for layer in 0..layers {
        let _ = writeln!(text, "//! Layer {layer}\nprotocol l{layer} {{ header {{ next: u8 }} }}");
    }
    text += "//! Many layers\nstack many {\n    start ETHERNET: l0\n";
    for layer in 0..layers - 1 {
        let _ = writeln!(text, "    l{layer} -> l{} when next == {}", layer + 1, (layer + 1) % 256);
        if layer > 0 {
            let _ = writeln!(text, "    l0 -> l{} when next == {}", layer + 1, (layer + 1) % 256);
        }
    }
    text += "}\n";
    let mut compiler = Compiler::default();
    compiler.add("many.weir", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    compiler
}

#[test]
fn a_stack_has_200_layers() {
    let compiler = stack_of(200);
    // From layer 0 to layer `first`, then through consecutive layers.
    let packets: Vec<MemoryPacket> = (1..200usize)
        .map(|first| {
            let bytes: Vec<u8> = (first..(first + 40).min(200)).map(|layer| layer as u8).chain([0]).collect();
            MemoryPacket::ethernet(bytes)
        })
        .collect();
    for engine in [Executor::Interpreter, Executor::Native] {
        let options = Options { engine, ..Options::default() };
        let need = Need { path: true, ..Need::default() };
        let asks = [
            Ask { filter: String::new(), need, want: Want::Packets },
            ask("l199", Want::Packets),
            ask("l199 and not l198", Want::Packets),
            ask("l7 or l150.next == 151", Want::Packets),
        ];
        let compiled = compile(&compiler, &asks, &options);
        let mut seen = vec![vec![]; asks.len()];
        let mut paths = vec![];
        let mut each = |question: usize, item: Item<'_>| {
            if let Item::Packet { meta, path, .. } = item {
                seen[question].push(meta.number as usize);
                if question == 0 {
                    paths.push(path.layers().map(|layer| usize::from(layer.0)).collect::<Vec<_>>());
                }
            }
            Ok::<(), Infallible>(())
        };
        let shapes = vec![Shape::default(); asks.len()];
        let mut source = in_memory(&packets);
        let Ok(_) = weir::run(&compiler, &compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
        assert_eq!(seen[0].len(), packets.len());
        assert_eq!(seen[1], (160..200).collect::<Vec<_>>());
        assert_eq!(seen[2], [199]);
        let either = |first: &usize| *first <= 7 || (112..=150).contains(first);
        assert_eq!(seen[3], (1..200).filter(either).collect::<Vec<_>>());
        for (first, path) in (1..200).zip(&paths) {
            let all: Vec<usize> = [0].into_iter().chain(first..(first + 40).min(200)).collect();
            // A path keeps at most 32 layers, the innermost.
            assert_eq!(*path, all[all.len().saturating_sub(32)..]);
        }
    }
}

#[test]
fn a_stack_has_256_events() {
    let mut text = String::new();
    for protocol in 0..4 {
        let _ = write!(text, "//! Part {protocol}\nprotocol p{protocol} {{ header {{ kind: u8 }}");
        if protocol == 0 {
            text += " instance (kind)";
        }
        for event in 0..64 {
            let _ = write!(text, " event e{event} on packet when kind == {event} {{ kind }}");
        }
        text += " }\n";
    }
    text += "//! Many events\nstack many { start ETHERNET: p0";
    for protocol in 0..3 {
        let _ = write!(text, " p{protocol} -> p{} when kind < 64", protocol + 1);
    }
    text += " }\n";
    let mut compiler = Compiler::default();
    compiler.add("many.weir", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let packets: Vec<MemoryPacket> =
        (0..64u8).map(|kind| MemoryPacket::ethernet(vec![kind, 63 - kind, 5, 9])).collect();
    let all = EventRows::of(compiler.stack(), &[]).expect("all have columns").asked;
    assert_eq!((0..256).filter(|&event| all.contains(event)).count(), 256);
    let last = EventRows::of(compiler.stack(), &["p3.e9".to_string()]).expect("it is declared").asked;
    for engine in [Executor::Interpreter, Executor::Native] {
        let options = Options { engine, ..Options::default() };
        let asked = |filter: &str, events| Ask {
            filter: filter.to_string(),
            need: Need { events, ..Need::default() },
            want: Want::Events,
        };
        let asks = [asked("", all), asked("", last), asked("p1.e60.kind == 60", all)];
        let compiled = compile(&compiler, &asks, &options);
        let mut names = vec![vec![]; asks.len()];
        let mut each = |question: usize, item: Item<'_>| {
            if let Item::Rows(made) = item {
                names[question].extend(made.iter().filter_map(|row| row.cell(1).text()).map(str::to_string));
            }
            Ok::<(), Infallible>(())
        };
        let shapes = vec![Shape::default(); asks.len()];
        let mut source = in_memory(&packets);
        let Ok(_) = weir::run(&compiler, &compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
        let of_packet = |kind: usize| {
            [format!("p0.e{kind}"), format!("p1.e{}", 63 - kind), "p2.e5".to_string(), "p3.e9".to_string()]
        };
        assert_eq!(names[0], (0..64).flat_map(of_packet).collect::<Vec<_>>());
        assert_eq!(names[1], vec!["p3.e9"; 64]);
        assert_eq!(names[2], ["p1.e60"]);
    }
    // One event too many.
    let text = text.replace("event e0 on", "event more on packet { kind } event e0 on");
    let wrong = Compiler::default().add("many.weir", &text).expect_err("260 events");
    assert!(wrong.list.iter().any(|one| one.message.contains("260 events, and at most 256")), "{wrong}");
    let packets = [MemoryPacket::ethernet(vec![1, 1, 1, 1])];
    let compiled = compile(&compiler, &[ask("p3.e1", Want::Packets)], &Options::default());
    assert_eq!(rows(&compiler, &compiled, &packets, 1).0, ["0 packet 1"]);
}

/// A predicate on packets, connections or sessions. Few other questions have the same predicate.
fn predicate(random: &mut Random) -> String {
    let number = random.below(2_000);
    match random.below(12) {
        0 | 1 => format!("tcp.port == {}", [443, 80, 30_000 + number][random.below(3) as usize]),
        2 => format!("tcp.src_port > {}", 20 * number),
        3 | 4 => format!("frame.len > {number}"),
        5 => format!("ip.id < {}", 30 * number),
        6 => format!("ip.ttl != {}", number % 128),
        7 => format!("not tcp.window < {}", 30 * number),
        8 => format!("conn.orig_bytes > {number}"),
        9 => format!("conn.resp_pkts in {{ {} .. {number} }}", number / 200),
        10 => format!("tls.sni contains \"{}\"", char::from(b'a' + (number % 26) as u8)),
        _ => "tls".to_string(),
    }
}

/// Questions for packets, connections and sessions, in turn.
fn question(random: &mut Random, index: usize) -> Ask {
    let (one, other) = (predicate(random), predicate(random));
    let filter = match random.below(4) {
        0 => format!("{one} and {other}"),
        1 => format!("{one} or {other}"),
        _ => one,
    };
    let want = [Want::Packets, Want::Connections, all_sessions()][index % 3];
    // Every question about connections needs the service, so that its rows do not depend on the other
    // questions.
    Ask { need: Need { service: want == Want::Connections, ..Need::default() }, ..ask(&filter, want) }
}

/// The set of rows of each question.
fn answers(asks: &[Ask], packets: &[MemoryPacket], engine: Executor) -> Vec<BTreeSet<String>> {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, asks, &Options { engine, ..Options::default() });
    let mut answers = vec![BTreeSet::new(); asks.len()];
    for row in rows(&compiler, &compiled, packets, 1).0 {
        let (question, row) = row.split_once(' ').expect("a number and the row");
        answers[question.parse::<usize>().expect("a number")].insert(row.to_string());
    }
    answers
}

/// Checks that questions asked together have the same rows with both executors. Also asks every `step`th
/// question alone, and checks that its rows are the same.
fn many_questions_are_answered_as_alone(count: usize, step: usize) {
    let packets = read_capture(FIRST_LIGHT);
    let packets = &packets[packets.len() - 900..];
    for seed in seeds(0..1) {
        let mut random = Random::new(seed);
        let asks: Vec<Ask> = (0..count).map(|index| question(&mut random, index)).collect();
        let together = answers(&asks, packets, Executor::Native);
        assert!(
            together == answers(&asks, packets, Executor::Interpreter),
            "seed {seed}: by the interpreter"
        );
        for (ask, together) in asks.iter().zip(&together).step_by(step) {
            let alone = answers(std::slice::from_ref(ask), packets, Executor::Interpreter).remove(0);
            assert_eq!(*together, alone, "seed {seed}, {count} questions: {ask:?}");
        }
        let different: BTreeSet<_> = together.iter().collect();
        assert!(different.len() * 4 > count.min(400), "{} different answers", different.len());
    }
}

#[test]
fn two_hundred_questions_are_answered_as_each_would_be_alone() {
    many_questions_are_answered_as_alone(200, 4);
}

#[test]
fn a_thousand_questions_are_answered_as_each_would_be_alone() {
    many_questions_are_answered_as_alone(1_000, 20);
}

/// A filter on part `part` of 16 of a field's values; the parts overlap, and all values are in some part.
fn part_of(field: &str, part: u64, form: u64) -> String {
    let ranges = match field {
        "ip.addr" | "ip.src" | "ip.dst" => format!("{{ {}.0.0.0/4, 10.0.0.{part} }}", part * 16),
        _ => format!("{{ {} .. {}, 53 }}", part * 4096, part * 4096 + 4095),
    };
    match form {
        0 => format!("{field} in {ranges}"),
        1 => format!("not {field} in {ranges}"),
        2 => format!("{field} in {ranges} and ip.ttl > {}", part * 8),
        _ => format!(
            "{field} != {}",
            if field.starts_with("ip") { format!("10.0.0.{part}") } else { (part * 7).to_string() }
        ),
    }
}

/// Predicates that compare one field with many constants are evaluated together (`weir-compile`'s
/// `lower/groups.rs`).
#[test]
fn many_constants_of_a_field_are_answered_as_each_alone() {
    let captures = ["vxlan", "geneve", "gre", "sctp", "gtp", "internet"];
    let captures = captures.map(|name| format!("{}/../../protocols/{name}.pcap", env!("CARGO_MANIFEST_DIR")));
    for path in captures.iter().map(String::as_str).chain([FIRST_LIGHT]) {
        let packets = read_capture(path);
        let packets = &packets[packets.len().saturating_sub(300)..];
        for (index, field) in ["ip.addr", "ip.src", "udp.port", "tcp.dstport"].into_iter().enumerate() {
            let filters = (0..16).flat_map(|part| (0..4).map(move |form| part_of(field, part, form)));
            // The record of a connection that is partly in a tunnel depends on the other questions
            // (ARCHITECTURE, warts).
            let want = if path == FIRST_LIGHT && index % 2 == 1 { Want::Connections } else { Want::Packets };
            let need = Need { service: want == Want::Connections, ..Need::default() };
            let asks: Vec<Ask> = filters.map(|filter| Ask { need, ..ask(&filter, want) }).collect();
            let together = answers(&asks, packets, Executor::Native);
            for (ask, together) in asks.iter().zip(&together).step_by(3) {
                let alone = answers(std::slice::from_ref(ask), packets, Executor::Interpreter).remove(0);
                assert_eq!(*together, alone, "{path}: {ask:?}");
            }
        }
    }
}

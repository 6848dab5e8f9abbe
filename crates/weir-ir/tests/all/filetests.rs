//! `filetests/ir/*.weirir`: graphs as text, with the expected results of the parser, the verifier and the
//! interpreter.
//!
//! A file starts with one sentence about its subject. Lines `; frame HEX` and `; frame tcp SRC DST TEXT`
//! define packets to trace (`HEX` may be `-`, for none). Lines `; => …` are the expected output;
//! `WEIR_BLESS=1` writes them.

use std::fs;
use std::path::{Path, PathBuf};
use weir_ir::graph::Graph;
use weir_ir::interpret::Interpreter;
use weir_ir::verify::verify;
use weir_packet::PacketMeta;
use weir_testing::graph::tcp_frame;

const EXPECT: &str = "; => ";

#[test]
fn files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/ir");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "weirir"));
    paths.sort();
    let mut wrong = vec![];
    for path in &paths {
        let text = fs::read_to_string(path).expect("it can be read");
        assert!(text.starts_with("; "), "{}: the first line says what it shows", path.display());
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(EXPECT)).collect();
        let actual = outcome(&text);
        if actual == expected {
            continue;
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            let mut blessed = String::new();
            let kept = text.lines().filter(|line| !line.starts_with(EXPECT));
            kept.for_each(|line| blessed += &format!("{line}\n"));
            actual.iter().for_each(|line| blessed += &format!("{EXPECT}{line}\n"));
            fs::write(path, blessed).expect("it can be written");
        } else {
            let (name, expected) = (path.file_name().expect("a name"), expected.join("\n"));
            wrong.push(format!("{name:?}: expected\n{expected}\nbut it says\n{}\n", actual.join("\n")));
        }
    }
    assert!(paths.len() >= 25, "only {} files", paths.len());
    assert!(wrong.is_empty(), "{}\nWEIR_BLESS=1 accepts what it says", wrong.join("\n"));
}

fn outcome(text: &str) -> Vec<String> {
    let graph: Graph = match text.parse() {
        Ok(graph) => graph,
        Err(error) => return vec![format!("does not parse: {error}")],
    };
    let printed = graph.to_string();
    let again: Graph = printed.parse().expect("what was printed parses");
    assert_eq!(again, graph, "what was printed means the same");
    assert_eq!(again.to_string(), printed, "and prints the same");
    if let Err(violations) = verify(&graph) {
        return violations.iter().map(|violation| format!("invalid: {violation}")).collect();
    }
    let mut lines = vec!["valid".to_owned()];
    let program = match Interpreter::new(graph) {
        Ok(program) => program,
        Err(error) => return vec![format!("cannot run: {error}")],
    };
    for (at, frame) in text.lines().filter_map(|line| line.strip_prefix("; frame ")).enumerate() {
        let frame = bytes(frame);
        let length = frame.len() as u32;
        let packet =
            PacketMeta { number: 1, captured_bytes: length, wire_bytes: length, ..PacketMeta::default() };
        lines.push(format!("frame {at}"));
        lines.extend(program.trace(&packet, &frame).iter().map(|step| format!("  {step}")));
    }
    lines
}

fn bytes(text: &str) -> Vec<u8> {
    if text == "-" {
        return vec![];
    }
    if let Some(rest) = text.strip_prefix("tcp ") {
        let mut words = rest.splitn(3, ' ');
        let mut port = || words.next().and_then(|word| word.parse().ok()).expect("a port");
        let (src_port, dst_port) = (port(), port());
        return tcp_frame(src_port, dst_port, words.next().unwrap_or("").as_bytes());
    }
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

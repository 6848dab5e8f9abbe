//! The command as people use it: arguments, output, exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-light.pcap")
}

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output, after making sure that the status is as expected.
fn answer(args: &[&str], status: i32) -> String {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn count(filter: &str) -> u64 {
    let file = example();
    let output = weir(&["packets", "-r", file.to_str().unwrap(), "--count", filter]);
    text(&output.stdout).trim().parse().expect("--count prints a number alone")
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder.join(name)
}

#[test]
fn the_filter_may_stand_before_or_behind_the_files() {
    let file = example();
    let file = file.to_str().unwrap();
    let rows = answer(&["flows", "-r", file, "tcp.port == 443"], 0);
    assert_eq!(rows, answer(&["flows", "tcp.port == 443", "-r", file], 0));
    assert!(rows.lines().count() > 10 && rows.lines().all(|row| row.contains("443")), "{rows}");
    let twice = answer(&["packets", "-r", file, file, "tcp.port == 443", "--count"], 0);
    assert_eq!(twice.trim().parse(), Ok(2 * count("tcp.port == 443")));
}

#[test]
fn what_a_filter_takes_and_what_its_negation_takes_is_everything() {
    let all = count("frame");
    for filter in
        ["tcp", "tls", "tls.sni contains \"example\"", "conn.proto == \"tcp\"", "ip.ttl > 60", "vlan"]
    {
        assert_eq!(count(filter) + count(&format!("not ({filter})")), all, "{filter}");
    }
}

#[test]
fn a_typo_is_underlined_and_mended() {
    let file = example();
    let output = weir(&["packets", "-r", file.to_str().unwrap(), "tcp.dstprt == 443"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("^^^^") && message.contains("did you mean `tcp.dstport`"), "{message}");
}

#[test]
fn nothing_counted_is_status_1() {
    let file = example();
    let out = answer(&["packets", "-r", file.to_str().unwrap(), "--count", "ip.addr == 203.0.113.99"], 1);
    assert_eq!(out, "0\n");
}

#[test]
fn a_truncated_file_gives_what_it_holds_and_status_2() {
    let bytes = std::fs::read(example()).expect("the shipped capture");
    let path = scratch("truncated.pcap");
    std::fs::write(&path, &bytes[..bytes.len() / 2 + 7]).expect("a temporary file");
    let output = weir(&["packets", "-r", path.to_str().unwrap(), "--count"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).trim().parse::<u64>().expect("a number") > 1000);
    let message = text(&output.stderr);
    assert!(message.contains("truncated.pcap") && message.contains("after packet"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let output = weir(&["flows", "-r", "no-such-file.pcap"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no-such-file.pcap"));
}

#[test]
fn matching_frames_are_written_in_order_and_read_again() {
    let file = example();
    for name in ["out.pcap", "out.pcapng"] {
        let out = scratch(name);
        let filter = "tls.sni contains \"example\"";
        answer(&["packets", "-r", file.to_str().unwrap(), "-w", out.to_str().unwrap(), filter], 0);
        let again = answer(&["packets", "-r", out.to_str().unwrap(), "--count"], 0);
        assert_eq!(again.trim().parse(), Ok(count(filter)), "earlier packets of the connections included");
        let rows = answer(&["packets", "-r", out.to_str().unwrap(), "--format", "json"], 0);
        let time = |row: &str| -> f64 {
            let rest = row.split_once("\"ts\":").expect("every row has a time").1;
            rest.split(',').next().and_then(|t| t.parse().ok()).expect("a number")
        };
        assert!(rows.lines().map(time).is_sorted());
    }
}

#[test]
fn rows_are_the_same_whatever_the_engine_passes_and_workers() {
    let file = example();
    for what in ["flows", "tls"] {
        let reference = answer(&[what, "-r", file.to_str().unwrap()], 0);
        assert!(reference.lines().count() > 10);
        for variant in [["-j", "2"], ["-j", "3"], ["--engine", "interpreter"], ["--without", "all"]] {
            let args = [&[what, "-r", file.to_str().unwrap()], &variant[..]].concat();
            assert_eq!(answer(&args, 0), reference, "{what} {variant:?}");
        }
    }
}

#[test]
fn the_protocols_that_are_shipped_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
    for entry in std::fs::read_dir(folder).expect("the protocols") {
        let path = entry.expect("an entry").path();
        answer(&["check", path.to_str().unwrap()], 0);
    }
}

#[test]
fn a_protocol_of_ones_own_is_a_file() {
    let path = scratch("mine.weir");
    let source = "//! A made-up protocol\n\
        protocol hello { header { kind: u8 \"kind of message\"  size: u8 \"bytes of text\"  text: bytes[size] \"text\" } payload = rest }\n\
        stack mine extends internet { udp -> hello when dst_port == 53 or src_port == 53 }\n";
    std::fs::write(&path, source).expect("a temporary file");
    let file = example();
    let stack = path.to_str().unwrap();
    let out =
        answer(&["packets", "-r", file.to_str().unwrap(), "--count", "--stack", stack, "hello.kind >= 0"], 0);
    assert_eq!(out.trim().parse(), Ok(count("udp.port == 53")));
    assert!(answer(&["fields", "hello", "--stack", stack], 0).contains("kind of message"));
}

#[test]
fn a_wrong_protocol_shows_every_mistake_at_once() {
    let path = scratch("wrong.weir");
    std::fs::write(&path, "protocol p { header { a: u4 b: u12 c: bytes[lenght] } payload = rest[.. q] }\n")
        .expect("a file");
    let output = weir(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("lenght") && message.contains("`q`"), "{message}");
}

#[test]
fn explain_shows_each_stage_and_where_a_packet_stopped() {
    let overview = answer(&["explain", "tcp.port == 443 and tls.sni contains \"example\""], 0);
    for word in ["question", "packet", "session", "trie", "passes", "program", "code"] {
        assert!(overview.lines().any(|line| line.starts_with(word)), "{word} in {overview}");
    }
    for stage in ["parse", "trie", "ir", "opt", "code"] {
        assert!(!answer(&["explain", "tcp.port == 443", "--stage", stage], 0).is_empty(), "{stage}");
    }
    let place = format!("{}:1", example().display());
    let packet = answer(&["explain", "tcp.dstport == 443", "--packet", &place], 0);
    assert!(packet.contains("eth:arp") && packet.contains('✗'), "{packet}");
}

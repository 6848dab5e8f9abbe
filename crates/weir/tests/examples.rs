//! The example programs, run on the capture that the project ships.

use std::path::{Path, PathBuf};
use std::process::Command;

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
const KEY: &str = "0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210";

/// What an example prints. Examples are built with the tests, beside them.
fn run(name: &str, args: &[&str]) -> String {
    let tests = std::env::current_exe().expect("this test has a file");
    let examples: PathBuf = tests.parent().and_then(Path::parent).expect("in deps").join("examples");
    let output = Command::new(examples.join(name)).args(args).output().expect("it was built");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn handshakes_under_com_are_logged() {
    let text = run("com_handshakes", &[FIRST_LIGHT]);
    assert_eq!(text.lines().count(), 17);
    assert!(text.lines().all(|line| line.contains(".com TLSv1")), "{text}");
}

#[test]
fn no_client_random_comes_again() {
    assert_eq!(run("client_randoms", &[FIRST_LIGHT]), "24 randoms\n");
}

#[test]
fn anonymised_packets_are_as_many_and_tell_no_address() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("anonymised.pcapng");
    let text = run("anonymise", &[KEY, out.to_str().expect("text"), FIRST_LIGHT]);
    let count: usize = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    let mut engine = weir::Engine::new();
    let (mut packets, mut exchanges) = (0, 0);
    engine.subscribe("", |_: &weir::Frame| packets += 1).expect("it is right");
    engine
        .subscribe("http", |flow: &weir::Flow, _: &weir::sessions::http::HttpExchange| {
            exchanges += 1;
            let is_known = ["192.0.2.", "198.51.100.", "2001:db8:"].iter();
            assert!(
                is_known.into_iter().all(|known| !flow.orig.0.to_string().starts_with(known)),
                "{flow:?}"
            );
        })
        .expect("it is right");
    engine.read([&out]).expect("it was written");
    drop(engine);
    assert_eq!(packets, count);
    // As in the capture itself, but for what comes in fragments: their addresses stand in one of them alone.
    assert_eq!(exchanges, 18);
}

#[test]
fn video_sessions_are_told_by_name() {
    assert_eq!(run("video", &[FIRST_LIGHT]), "");
    let text = run("video", &[FIRST_LIGHT, "example[.]com$"]);
    assert!(
        text.starts_with("10.42.0.10: 1 connections, at most 1 at a time\n  vlan.example.com up "),
        "{text}"
    );
}

#[test]
fn nothing_weak_and_nothing_suspicious_is_in_the_capture() {
    assert_eq!(run("weak_crypto", &[FIRST_LIGHT]), "");
    assert_eq!(run("fully_encrypted", &[FIRST_LIGHT]), "0 of 43 connections\n");
    assert_eq!(run("ttl_changes", &[FIRST_LIGHT]), "");
}

#[test]
fn evidence_is_the_packets_that_brought_a_text() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence.pcapng");
    let (text, path) = ("HTTP/1.1 200 OK\r\n", out.to_str().expect("text"));
    let said = run("evidence", &[text, path, FIRST_LIGHT]);
    let frames = |filter: &str, file: &Path| {
        let mut frames = vec![];
        let mut engine = weir::Engine::new();
        engine
            .subscribe(filter, |frame: &weir::Frame| frames.push(frame.bytes.clone()))
            .expect("it is right");
        engine.read([file]).expect("it is there");
        drop(engine);
        frames
    };
    // Here no segment cuts it and none comes twice: those whose payload has it.
    let holds = |frame: &Vec<u8>| frame.windows(text.len()).any(|part| part == text.as_bytes());
    let wanted: Vec<Vec<u8>> = frames("tcp", Path::new(FIRST_LIGHT)).into_iter().filter(holds).collect();
    assert!(wanted.len() > 3 && said == format!("{} packets\n", wanted.len()), "{said}");
    assert_eq!(frames("", &out), wanted);
}

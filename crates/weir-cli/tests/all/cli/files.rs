//! Input and output files: which are written, replaced, merged and kept.

use crate::cli::{answer, example, scratch, text, weir};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

fn refused(output: &Output) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("is an input file: write to another file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_is_read_is_not_written_over() {
    let path = scratch("precious.pcap");
    std::fs::copy(example(), &path).expect("a temporary file");
    let stack = scratch("precious.weir");
    std::fs::write(&stack, "//! Nothing\nstack mine extends internet { }\n").expect("a temporary file");
    let (name, stack) = (path.to_str().unwrap(), stack.to_str().unwrap());
    for args in [
        ["flows", "-r", name, "-o", name, "--stack", stack],
        ["packets", "-r", name, "-w", name, "--stack", stack],
        ["stats", "-r", name, "-o", stack, "--stack", stack],
    ] {
        refused(&weir(&args));
    }
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(example()).unwrap());
}

#[test]
fn nor_by_another_name() {
    let [path, hard, soft] =
        ["one.pcap", "hard.pcap", "soft.pcap"].map(|name| scratch(&format!("names-{name}")));
    for old in [&path, &hard, &soft] {
        let _ = std::fs::remove_file(old);
    }
    std::fs::copy(example(), &path).expect("a temporary file");
    std::fs::hard_link(&path, &hard).expect("a link");
    std::os::unix::fs::symlink(&path, &soft).expect("a link");
    let name = path.to_str().unwrap();
    for other in [&hard, &soft] {
        let other = other.to_str().unwrap();
        refused(&weir(&["flows", "-r", name, "-o", other]));
        refused(&weir(&["packets", "-r", other, "-w", name]));
        let mut piped = Command::new(env!("CARGO_BIN_EXE_weir"));
        let piped = piped.args(["flows", "-r", "-", "-o", other]);
        refused(&piped.stdin(File::open(&path).unwrap()).output().expect("the binary was built"));
    }
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(example()).unwrap());
    // A device cannot be destroyed, so it may be both input and output.
    let output = weir(&["flows", "-r", "/dev/null", "-o", "/dev/null"]);
    assert!(!text(&output.stderr).contains("is an input file"), "{output:?}");
}

#[test]
fn who_reads_the_output_may_go_away() {
    let file = example();
    let file = file.to_str().unwrap();
    for args in [&["packets", "-r", file, "-w", "-"][..], &["packets", "-r", file], &["flows", "-r", file]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built for this test");
        child.stdout.take().unwrap().read_exact(&mut [0; 4]).expect("four bytes");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    }
}

#[test]
fn frames_or_rows_but_not_both() {
    let file = example();
    let (frames, rows) = (scratch("both.pcap"), scratch("both.txt"));
    let args = ["packets", "-r", file.to_str().unwrap(), "-w", frames.to_str().unwrap(), "-o"];
    let output = weir(&[&args[..], &[rows.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"), "{output:?}");
    assert!(!frames.exists() && !rows.exists());
}

#[test]
fn two_taps_of_one_link_give_what_one_of_both_directions_gives() {
    let file = example();
    let file = file.to_str().unwrap();
    let taps = ["tap-up.pcap", "tap-down.pcap"].map(scratch);
    let filters =
        ["tcp.dstport < 1024 or udp.dstport < 1024", "not (tcp.dstport < 1024 or udp.dstport < 1024)"];
    for (tap, filter) in taps.iter().zip(filters) {
        let written = weir(&["packets", "-r", file, filter, "-w", tap.to_str().unwrap()]);
        assert!(written.status.success(), "{written:?}");
    }
    let [up, down] = [taps[0].to_str().unwrap(), taps[1].to_str().unwrap()];
    for what in ["flows", "tls", "http", "dns"] {
        let rows = |files: &[&str]| {
            let lines = text(&weir(&[&[what, "--format", "json", "-r"], files].concat()).stdout);
            // Two packets in the same microsecond may be read in either order, so the letters of `history`
            // may be swapped.
            let of_letters = |line: &str| match (line.find("\"history\""), line.find("\"orig_pkts\"")) {
                (Some(from), Some(to)) => line[..from].to_string() + &line[to..],
                _ => line.to_string(),
            };
            lines.lines().map(of_letters).collect::<Vec<_>>()
        };
        let whole = rows(&[file]);
        assert!(what != "flows" || whole.len() > 10, "{whole:?}");
        // Files are merged by time, so the order of the arguments does not matter.
        assert_eq!(rows(&[up, down]), whole, "{what}");
        assert_eq!(rows(&[down, up]), whole, "{what}");
    }
}

/// A little-endian pcapng block. The size of its body is a multiple of 4.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let total = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &total, body, &total].concat()
}

#[test]
fn packets_keep_their_comments_and_the_secrets_before_them() {
    let frame = |last: u8| {
        let header = b"\0\0\0\0\0\x01\0\0\0\0\0\x02\x08\0E\0\0\x1c\0\0\0\0@\x11\0\0\x0a\0\0\x01\x0a\0\0";
        [&header[..], &[last, 0, 9, 0, 9, 0, 8, 0, 0]].concat()
    };
    let packet = |last: u8, comment: &[u8; 4]| {
        let words = [0, 0, u32::from(last), 42, 42].map(u32::to_le_bytes).concat();
        block(6, &[&words[..], &frame(last), &[0; 2], &[1, 0, 4, 0], comment, &[0; 4]].concat())
    };
    let section = [0x1a2b_3c4d, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
    let capture = [
        block(0x0a0d_0d0a, &section),
        block(1, b"\x01\0\0\0\0\0\x04\0\x02\0\x04\0eth7\0\0\0\0"),
        packet(1, b"none"),
        block(10, b"KSLT\x04\0\0\0keys"),
        packet(2, b"mine"),
        packet(3, b"none"),
    ];
    let file = scratch("commented.pcapng");
    std::fs::write(&file, capture.concat()).expect("a temporary file");
    let interface = b"\x01\0\0\0\0\0\x04\0\x09\0\x01\0\x09\0\0\0\x02\0\x04\0eth7\0\0\0\0";
    // The time of a packet was in microseconds.
    let mut kept = capture[4].clone();
    kept[16..20].copy_from_slice(&2000u32.to_le_bytes());
    let expected = [&capture[0][..], &block(1, interface), &capture[3], &kept].concat();
    let of_connection = "ip.dst == 10.0.0.2 and conn.proto == \"udp\"";
    for (filter, workers) in [("ip.dst == 10.0.0.2", "1"), ("ip.dst == 10.0.0.2", "2"), (of_connection, "1")]
    {
        let out = scratch("commented-out.pcapng");
        let args =
            ["packets", "-r", file.to_str().unwrap(), "-w", out.to_str().unwrap(), "-j", workers, filter];
        answer(&args, 0);
        assert_eq!(std::fs::read(&out).expect("it was written"), expected, "{filter} {workers}");
    }
    let (questions, out) = (scratch("commented.toml"), scratch("commented-run.pcapng"));
    let asked = format!(
        "read = [{file:?}]\n[[question]]\nname = \"a\"\nask = \"packets\"\nfilter = \"ip.dst == 10.0.0.2\"\noutput = {out:?}\n"
    );
    std::fs::write(&questions, asked).expect("a temporary file");
    answer(&["run", questions.to_str().unwrap()], 0);
    assert_eq!(std::fs::read(&out).expect("it was written"), expected);
    // A pcap file cannot store decryption secrets, so they are counted as skipped blocks.
    for (name, skipped) in [("commented-out.pcap", true), ("commented-out.pcapng", false)] {
        let (file, out) = (file.to_str().unwrap(), scratch(name));
        let said = weir(&["packets", "-r", file, "-w", out.to_str().unwrap(), "--stats"]).stderr;
        assert_eq!(text(&said).contains("blocks_skipped"), skipped, "{}", text(&said));
    }
}

#[test]
fn packets_go_on_while_more_may_come() {
    let whole = weir(&["packets", "-r", example().to_str().unwrap(), "-w", "-", "udp"]).stdout;
    assert!(whole.len() > 1000);
    for workers in ["1", "3"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command = command.args(["packets", "-r", "-", "-j", workers, "-w", "-", "udp"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary was built for this test");
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        input.write_all(&std::fs::read(example()).unwrap()).expect("it reads");
        let (done, is_done) = channel();
        let mut got = vec![0; whole.len()];
        let reading = std::thread::spawn(move || {
            output.read_exact(&mut got).expect("it writes");
            done.send(got).expect("somebody waits");
        });
        // The input is still open, so only a pause can have caused the output.
        let got = is_done.recv_timeout(Duration::from_secs(30));
        drop(input);
        assert!(child.wait().expect("it ends").success());
        assert!(got.expect("what was found is handed on") == whole, "with {workers} workers");
        reading.join().expect("it read");
    }
}

/// If a pipe stays open and silent, a connection is reported once its timeout has passed, without another
/// packet.
#[test]
fn connections_end_while_a_pipe_is_silent() {
    for workers in ["1", "2"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command = command.args(["flows", "-r", "-", "-j", workers, "--idle-timeout", "1"]);
        let command = command.args(["--format", "json", "udp"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary was built for this test");
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // The last connections of the capture are idle for less than a second at its end.
        input.write_all(&std::fs::read(example()).unwrap()).expect("it reads");
        let expected =
            weir(&["flows", "-r", example().to_str().unwrap(), "--idle-timeout", "1", "--count", "udp"]);
        let expected: usize = text(&expected.stdout).trim().parse().expect("a number");
        let (done, is_done) = channel();
        let reading = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            let rows: Vec<_> = lines.take(expected).map(|line| line.expect("text")).collect();
            done.send(rows.len()).expect("somebody waits");
        });
        let rows = is_done.recv_timeout(Duration::from_secs(30));
        drop(input);
        assert!(child.wait().expect("it ends").success());
        assert_eq!(rows, Ok(expected), "with {workers} workers");
        reading.join().expect("it read");
    }
}

/// The second half of the capture has times one minute before the first half.
#[test]
fn a_capture_that_is_out_of_order_is_told_of() {
    let mut bytes = std::fs::read(example()).expect("the shipped capture");
    let (mut at, mut packets) = (24, 0);
    while at < bytes.len() {
        let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (seconds, captured) = (field(at), field(at + 8) as usize);
        if at > bytes.len() / 2 {
            bytes[at..at + 4].copy_from_slice(&(seconds - 60).to_le_bytes());
            packets += 1;
        }
        at += 16 + captured;
    }
    let path = scratch("out-of-order.pcap");
    std::fs::write(&path, bytes).expect("a temporary file");
    let output = weir(&["flows", "-r", path.to_str().unwrap(), "--count"]);
    let message = text(&output.stderr);
    assert!(message.contains(&format!("{packets} packets came more than 5 s after")), "{message}");
    assert!(message.contains("reordercap"), "{message}");
}

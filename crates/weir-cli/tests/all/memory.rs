//! `--memory` under attack: the peak memory of the process stays within 1.2 times the budget, and counters
//! say what was given up. `cargo xtask bench "Memory under attack"` measures more kinds of attacks, and
//! larger ones.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testing::Random;
use weir_testing::frames::{ethernet, ipv4, tcp, udp};

const BUDGET_BYTES: u64 = 64 << 20;
/// Memory that the code of a debug build takes in addition: 21 to 24 MB, as runs of both builds over the same
/// captures show (2026-11-28).
const DEBUG_BYTES: u64 = if cfg!(debug_assertions) { 24 << 20 } else { 0 };

const SYN: u8 = 2;
const ACK: u8 = 16;

const SERVER: [u8; 4] = [192, 168, 0, 1];

/// A segment of TCP.
struct Segment<'a> {
    from_client: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    bytes: &'a [u8],
}

/// A segment of the client, after the handshake.
fn of_client(seq: u32, bytes: &[u8]) -> Segment<'_> {
    Segment { from_client: true, seq, ack: 8, flags: ACK, bytes }
}

/// A capture that is written packet by packet, a microsecond apart.
struct Capture {
    file: BufWriter<fs::File>,
    path: PathBuf,
    micros: u64,
}

impl Capture {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{name}.pcap"));
        let mut file = BufWriter::new(fs::File::create(&path).expect("a temporary file"));
        for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 262_144, 1] {
            file.write_all(&word.to_le_bytes()).expect("it is written");
        }
        Self { file, path, micros: 1_700_000_000_000_000 }
    }

    fn packet(&mut self, datagram: &[u8]) {
        let frame = ethernet(0x0800, datagram);
        self.micros += 1;
        let (seconds, micros) = ((self.micros / 1_000_000) as u32, (self.micros % 1_000_000) as u32);
        for word in [seconds, micros, frame.len() as u32, frame.len() as u32] {
            self.file.write_all(&word.to_le_bytes()).expect("it is written");
        }
        self.file.write_all(&frame).expect("it is written");
    }

    /// A segment of connection `n` with the server's `port`.
    fn segment(&mut self, n: u32, port: u16, segment: &Segment<'_>) {
        let &Segment { from_client, seq, ack, flags, bytes } = segment;
        let [_, a, b, c] = (n >> 14).to_be_bytes();
        let (client, own) = ([10, a, b, c], 1024 + (n & 0x3fff) as u16);
        let (ends, ports) =
            if from_client { ((client, SERVER), (own, port)) } else { ((SERVER, client), (port, own)) };
        self.packet(&ipv4(ends, 6, 1, 0, &[], &tcp(ports, seq, ack, flags, &[], bytes)));
    }

    fn handshake(&mut self, n: u32, port: u16) {
        let syn = Segment { from_client: true, seq: 1000, ack: 0, flags: SYN, bytes: &[] };
        let answer = Segment { from_client: false, seq: 7, ack: 1001, flags: SYN | ACK, bytes: &[] };
        [syn, answer, of_client(1001, &[])].iter().for_each(|segment| self.segment(n, port, segment));
    }

    /// Bytes of the client, from the start of its stream, in segments.
    fn say(&mut self, n: u32, port: u16, bytes: &[u8]) {
        for (at, piece) in bytes.chunks(1400).enumerate() {
            self.segment(n, port, &of_client(1001 + 1400 * at as u32, piece));
        }
    }

    fn done(mut self) -> PathBuf {
        self.file.flush().expect("it is written");
        self.path
    }
}

fn address(random: &mut Random) -> [u8; 4] {
    (random.below(1 << 32) as u32).to_be_bytes()
}

fn syn(capture: &mut Capture, random: &mut Random) {
    for _ in 0..200_000 {
        let ports = (random.below(1 << 32) as u16, 80);
        let segment = tcp(ports, random.below(1 << 32) as u32, 0, SYN, &[], &[]);
        capture.packet(&ipv4((address(random), SERVER), 6, 1, 0, &[], &segment));
    }
}

fn datagrams(capture: &mut Capture, random: &mut Random) {
    for _ in 0..200_000 {
        let datagram =
            udp((random.below(1 << 32) as u16, 1024 | random.below(1 << 32) as u16), b"abcdefghijkl");
        capture.packet(&ipv4((address(random), SERVER), 17, 1, 0, &[], &datagram));
    }
}

/// A first or last fragment of a datagram that never becomes complete.
fn fragments(capture: &mut Capture, random: &mut Random) {
    for _ in 0..200_000 {
        let offset = if random.once_in(2) { 0 } else { 100 };
        let id = random.below(1 << 32) as u16;
        capture.packet(&ipv4((address(random), SERVER), 17, id, 0x2000 | offset, &[], &[7; 64]));
    }
}

/// Connections with a segment that waits for missing bytes.
fn holes(capture: &mut Capture, _: &mut Random) {
    for n in 0..80_000 {
        capture.handshake(n, 80);
        capture.segment(n, 80, &of_client(2000, &[b'x'; 400]));
    }
}

/// Unfinished heads of HTTP requests, which grow in turns.
fn heads(capture: &mut Capture, _: &mut Random) {
    const CONNECTIONS: u32 = 2000;
    (0..CONNECTIONS).for_each(|n| capture.handshake(n, 80));
    for at in 0..40_u32 {
        let mut bytes = if at == 0 { b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec() } else { vec![] };
        bytes.extend(b"X: ");
        bytes.resize(1398, b'a');
        bytes.extend(b"\r\n");
        (0..CONNECTIONS).for_each(|n| capture.segment(n, 80, &of_client(1001 + 1400 * at, &bytes)));
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = &(content.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), content].concat()
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP/2 connections that fill the table of known headers (HPACK, RFC 7541) with entries without a value. An
/// entry takes 4 bytes in the capture and about 100 bytes of memory.
fn tables(capture: &mut Capture, _: &mut Random) {
    let entries = [0x40, 1, b'x', 0].repeat(1500);
    let block = [&[0x3f, 0xe1, 0xff, 3, 0x82, 0x86, 0x84][..], &entries].concat();
    let bytes = [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 5, 1, &block)].concat();
    for n in 0..1500 {
        capture.handshake(n, 80);
        capture.say(n, 80, &bytes);
    }
}

/// HTTP/2 requests of 12 bytes each. All of a connection refer to the same target of 3 900 bytes.
fn references(capture: &mut Capture, _: &mut Random) {
    let target = [&[0x82, 0x86, 0x44, 0x7f, 0xbd, 0x1d][..], &[b'v'; 3_900]].concat();
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 5, 1, &target)].concat();
    (1..66).for_each(|at| bytes.extend(frame(1, 5, 1 + 2 * at, &[0x82, 0x86, 0xbe])));
    for n in 0..2000 {
        capture.handshake(n, 80);
        capture.say(n, 80, &bytes);
    }
}

/// Redis commands that the server does not answer.
fn commands(capture: &mut Capture, _: &mut Random) {
    let bytes = b"*1\r\n$4\r\nPING\r\n".repeat(256);
    for n in 0..1500 {
        capture.handshake(n, 6379);
        capture.say(n, 6379, &bytes);
    }
}

/// Connections that each have a request answered, and are kept open.
fn idle(capture: &mut Capture, _: &mut Random) {
    let request = b"GET /a HTTP/1.1\r\nHost: example.org\r\nUser-Agent: x/1\r\n\r\n";
    let response = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
    for n in 0..40_000 {
        capture.handshake(n, 80);
        capture.say(n, 80, request);
        let ack = 1001 + request.len() as u32;
        capture.segment(n, 80, &Segment { from_client: false, seq: 8, ack, flags: ACK, bytes: response });
    }
}

/// Addresses that are in many sliding windows, all of which end together.
fn addresses(capture: &mut Capture, random: &mut Random) {
    for _ in 0..3500 {
        let segment = tcp((40_000, 80), random.below(1 << 32) as u32, 0, SYN, &[], &[]);
        capture.packet(&ipv4((address(random), SERVER), 6, 1, 0, &[], &segment));
    }
}

/// A run with a budget of [`BUDGET_BYTES`]: the bytes that it wrote, and its report.
fn run(command: &[&str], file: &Path) -> (u64, String) {
    let budget = BUDGET_BYTES.to_string();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(command).arg("-r").arg(file).args(["--memory", &budget, "--stats", "--format", "json"]);
    let output = weir.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {said}");
    (output.stdout.len() as u64, said)
}

/// The number behind a name in the report; 0 if the name is absent.
fn number(said: &str, name: &str) -> u64 {
    let digits = |rest: &str| rest.split_whitespace().find_map(|word| word.parse().ok());
    said.lines().find_map(|line| digits(line.strip_prefix(name)?)).unwrap_or(0)
}

/// Runs each command over the capture of an attack. Asserts that the memory of the process stays within 1.2
/// times the budget, apart from the code of a debug build, and that the counter of the state that is given up
/// is not 0. Returns the bytes that the last command wrote for each byte of the capture.
fn hold(name: &str, generate: fn(&mut Capture, &mut Random), commands: &[&[&str]], counter: &str) -> f64 {
    let mut capture = Capture::new(name);
    generate(&mut capture, &mut Random::new(1));
    let file = capture.done();
    let file_bytes = fs::metadata(&file).expect("it is there").len();
    let mut written_bytes = 0;
    for command in commands {
        let said;
        (written_bytes, said) = run(command, &file);
        let peak_bytes = number(&said, "process ");
        let is_bounded = peak_bytes > 0 && peak_bytes <= BUDGET_BYTES * 6 / 5 + DEBUG_BYTES;
        assert!(is_bounded, "{command:?}: {peak_bytes} bytes: {said}");
        assert!(number(&said, counter) > 0, "{command:?}: {said}");
    }
    fs::remove_file(&file).expect("it is removed");
    written_bytes as f64 / file_bytes as f64
}

#[test]
fn a_flood_of_syns_stays_within_the_memory() {
    hold("syn", syn, &[&["sessions"], &["streams", "--count"], &["flows"]], "growth_refused");
}

#[test]
fn datagrams_between_random_hosts_stay_within_the_memory() {
    hold("datagrams", datagrams, &[&["sessions"], &["streams", "--count"]], "growth_refused");
}

#[test]
fn fragments_of_incomplete_datagrams_stay_within_the_memory() {
    hold("fragments", fragments, &[&["sessions"], &["packets", "--count"]], "growth_refused");
}

#[test]
fn segments_behind_holes_stay_within_the_memory() {
    hold("holes", holes, &[&["sessions"], &["streams", "--count"]], "growth_refused");
}

#[test]
fn unfinished_heads_stay_within_the_memory() {
    hold("heads", heads, &[&["sessions"]], "holders_shed");
}

#[test]
fn header_tables_stay_within_the_memory() {
    hold("tables", tables, &[&["sessions"]], "holders_shed");
}

#[test]
fn references_to_long_values_stay_within_the_memory_and_yield_no_long_rows() {
    let written = hold("references", references, &[&["sessions"]], "holders_shed");
    assert!(written > 0.0 && written <= 8.0, "{written} bytes for each captured byte");
}

#[test]
fn commands_without_replies_stay_within_the_memory() {
    hold("commands", commands, &[&["sessions"]], "holders_shed");
}

#[test]
fn idle_connections_stay_within_the_memory() {
    hold("idle", idle, &[&["sessions"]], "flows_shed");
}

#[test]
fn windows_that_end_together_stay_within_the_memory() {
    hold("windows", addresses, &[&["aggregate", "count() by ip.src over 400s every 1s"]], "delivered");
}

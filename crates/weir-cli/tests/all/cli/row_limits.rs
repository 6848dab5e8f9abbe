//! The rows of sessions are limited by the traffic that causes them, whatever the protocol: many small
//! messages in few packets make no more rows than their bytes allow. Equal rows are merged and none is lost
//! in silence.

use crate::cli::{text, weir};
use serde_json::Value;
use std::fs;
use std::path::Path;
use weir_testing::frames::{self, ACK};

/// What a client sends at first, and again and again; what the server answers at first, and to each of these.
struct Attack {
    name: &'static str,
    port: u16,
    begin: [Vec<u8>; 2],
    repeat: [Vec<u8>; 2],
    /// The rows are not all equal, so some may be left out.
    differs: bool,
}

const ROUNDS: usize = 3000;

/// Bytes in a segment.
const SEGMENT: usize = 1400;

fn attacks() -> Vec<Attack> {
    let attack = |name, port, begin: [&[u8]; 2], repeat: [&[u8]; 2]| Attack {
        name,
        port,
        begin: begin.map(<[u8]>::to_vec),
        repeat: repeat.map(<[u8]>::to_vec),
        differs: false,
    };
    // A message with a field for its length in front: at `at`, of `width` bytes, which counts `more` bytes,
    // too.
    let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let dns = [&[0, query.len() as u8][..], query].concat();
    // The literal path of 256 bytes is entry 62 of the dynamic table.
    let first = [&b"\x82\x87\x44\x7f\x81\x01"[..], &[b'/'; 256]].concat();
    let frame = |id: u32, block: &[u8]| {
        let length = (block.len() as u32).to_be_bytes();
        [&length[1..], &[1, 5], &id.to_be_bytes(), block].concat()
    };
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..], &frame(1, &first)].concat();
    vec![
        attack("ftp", 21, [b"", b"220 hello\r\n"], [b"X\r\n", b""]),
        attack("redis", 6379, [b"", b""], [b"PING\r\n", b"+PONG\r\n"]),
        attack("http", 80, [b"", b""], [b"GET / HTTP/1.0\r\n\r\n", b""]),
        attack("dns", 53, [b"", b""], [&dns, b""]),
        attack("modbus", 502, [b"", b""], [b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x01", b""]),
        attack(
            "smtp",
            25,
            [b"EHLO a\r\n", b"220 a ESMTP\r\n250 a\r\n"],
            [b"MAIL FROM:<a>\r\nRSET\r\n", b"250 a\r\n250 a\r\n"],
        ),
        // Requests beyond those that may wait have rows without answers.
        Attack {
            differs: true,
            ..attack(
                "postgresql",
                5432,
                [b"\0\0\0\x10\0\x03\0\0user\0a\0\0", b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"],
                [b"Q\0\0\0\x06a\0", b"C\0\0\0\x06a\0Z\0\0\0\x05I"],
            )
        },
        Attack {
            begin: [preface, b"\0\0\0\x04\0\0\0\0\0".to_vec()],
            // Streams have ascending numbers: they are written below.
            // Long paths are left out of some rows: the parser has a limit for what references decode to.
            differs: true,
            repeat: [frame(0, b"\x82\x87\xbe"), vec![]],
            ..attack("http", 8080, [b"", b""], [b"", b""])
        },
    ]
}

/// A capture of the attack, and the bytes of its frames.
fn capture(attack: &Attack, path: &Path) -> usize {
    let mut sides = attack.begin.clone();
    for round in 0..ROUNDS {
        for (side, unit) in sides.iter_mut().zip(&attack.repeat) {
            let at = side.len();
            side.extend_from_slice(unit);
            if attack.port == 8080 && !unit.is_empty() {
                side[at + 5..at + 9].copy_from_slice(&(2 * round as u32 + 3).to_be_bytes());
            }
        }
    }
    let mut all = vec![];
    let (client, server) = (([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], attack.port));
    let mut seq = [100, 900];
    let mut put = |side: usize, flags: u8, payload: &[u8]| {
        let ends = if side == 0 { [client, server] } else { [server, client] };
        let ack = if flags & ACK == 0 { 0 } else { seq[1 - side] };
        let segment = frames::tcp((ends[0].1, ends[1].1), seq[side], ack, flags, &[], payload);
        let frame = frames::ethernet(0x0800, &frames::ipv4((ends[0].0, ends[1].0), 6, 1, 0, &[], &segment));
        seq[side] += payload.len() as u32 + u32::from(flags & 2 != 0);
        all.push(frame);
    };
    put(0, 2, &[]);
    put(1, 2 | ACK, &[]);
    put(0, ACK, &[]);
    // Servers of mail and files speak first.
    if attack.begin[1].starts_with(b"220") {
        put(1, ACK, &sides[1][..11.min(sides[1].len())]);
        sides[1].drain(..11.min(sides[1].len()));
    }
    let mut rest = sides.each_ref().map(Vec::as_slice);
    while rest.iter().any(|rest| !rest.is_empty()) {
        for (side, rest) in rest.iter_mut().enumerate() {
            let (now, later) = rest.split_at(rest.len().min(SEGMENT));
            *rest = later;
            put(side, ACK, now);
        }
    }
    // Strict mode delivers what the receiver has acknowledged.
    put(0, ACK, &[]);
    put(1, ACK, &[]);
    fs::write(path, frames::pcap(&all)).expect("room");
    all.iter().map(Vec::len).sum()
}

/// The rows of a command, the bytes of its rows, and how many rows are said to be merged or left out.
fn rows(args: &[&str]) -> (Vec<Value>, usize, u64) {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let line = stderr.lines().find(|line| line.contains("rows of"));
    let numbers = line.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok());
    let left_out = numbers.take(2).last().filter(|_| line.is_some()).unwrap_or(0);
    (stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), stdout.len(), left_out)
}

#[test]
fn small_messages_of_any_protocol_make_no_more_rows_than_their_bytes_allow() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.pcap");
    let file = path.to_str().expect("text");
    let mut beyond = 0;
    for attack in attacks() {
        let name = format!("{} {}", attack.name, attack.port);
        let bytes = capture(&attack, &path);
        let (all, all_bytes, none) = rows(&["sessions", file, "--format", "json", "--all-rows"]);
        assert!(all.len() >= ROUNDS, "{name}: {} rows", all.len());
        assert_eq!(none, 0, "{name}");
        let is_beyond = all_bytes > 8 * bytes;
        beyond += usize::from(is_beyond);
        for args in
            [&["sessions"][..], &["sessions", "-j", "2"], &["sessions", "--mode", "strict"], &[attack.name]]
        {
            let args = [args, &[file, "--format", "json"]].concat();
            let (rows, row_bytes, left_out) = rows(&args);
            assert!(
                row_bytes <= 8 * bytes + (5 << 10),
                "{name} {args:?}: {row_bytes} bytes of rows for {bytes}"
            );
            assert!(
                row_bytes > 6 * bytes || !is_beyond,
                "{name} {args:?}: {row_bytes} bytes of rows for {bytes}"
            );
            let stands_for = |row: &Value| row["repeated"].as_u64().unwrap_or(1);
            let of_name = all.iter().filter(|row| args[0] == "sessions" || row["_path"] == attack.name);
            let told: u64 = rows.iter().map(stands_for).sum();
            assert_eq!(told + left_out, of_name.count() as u64, "{name} {args:?}: each row is told of");
            assert!(attack.differs || left_out == 0, "{name} {args:?}: {left_out} left out");
        }
        // Who asks for numbers gets all of them.
        let count = weir(&["sessions", file, "--count"]);
        assert_eq!(text(&count.stdout).trim(), all.len().to_string(), "{name}");
        let of = if attack.name == "dns" { "dns" } else { attack.name };
        let sum = weir(&["aggregate", "count() as n", "--of", of, file, "--format", "json"]);
        let sum: Value = serde_json::from_str(&text(&sum.stdout)).expect("a row");
        assert!(sum["n"].as_u64() >= Some(ROUNDS as u64), "{name}: {sum}");
    }
    assert!(beyond >= 7, "{beyond} attacks");
}

/// Rows of messages that differ cannot be merged; they are counted.
#[test]
fn different_rows_beyond_the_limit_are_left_out_and_counted() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.pcap");
    let file = path.to_str().expect("text");
    let requests: String = (0..ROUNDS).map(|number| format!("GET {number}\r\n")).collect();
    let attack = Attack {
        name: "redis",
        port: 6379,
        begin: [requests.into_bytes(), b"$-1\r\n".repeat(ROUNDS)],
        repeat: [vec![], vec![]],
        differs: true,
    };
    let bytes = capture(&attack, &path);
    let (all, ..) = rows(&["redis", file, "--format", "json", "--all-rows"]);
    let (rows, row_bytes, left_out) = rows(&["redis", file, "--format", "json"]);
    assert!(row_bytes <= 8 * bytes + (5 << 10), "{row_bytes} bytes of rows for {bytes}");
    assert_eq!(rows.len() as u64 + left_out, all.len() as u64);
    // A filter is asked before the limit.
    let last = format!("redis.key == \"{}\"", ROUNDS - 1);
    let found = weir(&["redis", file, &last, "--count"]);
    assert_eq!(text(&found.stdout).trim(), "1", "{}", text(&found.stderr));
    let found = weir(&["redis", file, &last, "--format", "json"]);
    assert_eq!(text(&found.stdout).lines().count(), 1);
}

/// Each question has accounts of its own: its rows are the same beside other questions, and whatever the
/// number of workers.
#[test]
fn limited_rows_do_not_depend_on_other_questions() {
    let place = tempfile::tempdir().expect("a directory");
    let (path, logs) = (place.path().join("a.pcap"), place.path().join("logs"));
    let (file, logs) = (path.to_str().expect("text"), logs.to_str().expect("text"));
    for attack in attacks().iter().filter(|attack| attack.name != "smtp") {
        capture(attack, &path);
        let alone = weir(&[attack.name, file, "--format", "json"]);
        let output = weir(&["zeek", file, "-d", logs, "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let beside = fs::read_to_string(Path::new(logs).join(format!("{}.log", attack.name)));
        assert_eq!(beside.expect("the log"), text(&alone.stdout), "{}", attack.name);
        let workers = weir(&[attack.name, file, "--format", "json", "-j", "2"]);
        assert_eq!(text(&workers.stdout), text(&alone.stdout), "{}", attack.name);
    }
}

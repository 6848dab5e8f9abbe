//! `weir weird`: every kind of trace has a row with its connection and its number.

use crate::cli::{answer, text, weir};
use serde_json::Value;
use std::fs;
use weir::packet::Direction;
use weir_testing::frames::{self, ACK};

const SYN: u8 = 2;
const FIN: u8 = 1;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A segment of the connection with this port of the client.
fn segment(port: u16, from: Direction, numbers: (u32, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let is_client = from == Direction::Originator;
    let (ends, ports) =
        if is_client { ((CLIENT, SERVER), (port, 80)) } else { ((SERVER, CLIENT), (80, port)) };
    let segment = frames::tcp(ports, numbers.0, numbers.1, flags, &[], payload);
    frames::ethernet(0x0800, &frames::ipv4(ends, 6, 1, 0, &[], &segment))
}

/// An HTTP connection with one request. Before the request, the client sends a segment for each entry of
/// `odd`: its flags and its payload.
fn connection(port: u16, odd: &[(u8, &[u8])], syn_payload: &[u8]) -> Vec<Vec<u8>> {
    let (client, server) = (Direction::Originator, Direction::Responder);
    let request = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (asked, answered) = (101 + request.len() as u32, 901 + answer.len() as u32);
    let mut frames = vec![
        segment(port, client, (100, 0), SYN, syn_payload),
        segment(port, server, (900, 101), SYN | ACK, b""),
        segment(port, client, (101, 901), ACK, b""),
    ];
    frames.extend(odd.iter().map(|(flags, payload)| segment(port, client, (101, 901), *flags, payload)));
    frames.extend([
        segment(port, client, (101, 901), ACK, request),
        segment(port, server, (901, asked), ACK, answer),
        segment(port, client, (asked, answered), ACK, b""),
    ]);
    frames
}

fn rows(args: &[&str]) -> Vec<Value> {
    let lines = answer(&[args, &["--format", "json"]].concat(), 0);
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What the rows say of the connection with this port: names and numbers.
fn of(rows: &[Value], port: u16) -> Vec<(String, u64)> {
    let of_port = rows.iter().filter(|row| row["id.orig_p"] == port);
    of_port
        .map(|row| {
            (row["name"].as_str().expect("a name").to_string(), row["count"].as_u64().expect("a number"))
        })
        .collect()
}

#[test]
fn what_was_odd_has_a_row_with_its_connection() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.pcap");
    let file = path.to_str().expect("text");
    let mut all = vec![
        connection(40_000, &[], b""),
        // Ends that the server acknowledges as if they had not been there.
        connection(40_001, &[(FIN | ACK, b""), (FIN | ACK, b"")], b""),
        connection(40_002, &[], b"hello"),
        // Flags that no host sends.
        connection(40_003, &[(0, b"x"), (0, b"y")], b""),
    ];
    // Options of IPv6 beyond all reason, twice, and a header that does not fit.
    let options = (0..100).fold(vec![], |inner, at| frames::extension(if at == 0 { 59 } else { 60 }, &inner));
    let nested = frames::ethernet(0x86dd, &frames::ipv6(([1; 16], [2; 16]), 60, &options));
    let short = frames::ethernet(0x0800, &frames::ipv4((CLIENT, SERVER), 17, 1, 0, &[], b"abc"));
    all.push(vec![nested.clone(), nested, short]);
    fs::write(&path, frames::pcap(&all.concat())).expect("room");
    for args in [&["weird", file][..], &["weird", file, "-j", "2"], &["weird", file, "--mode", "strict"]] {
        let rows = rows(args);
        let expect = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
            names.iter().map(|(name, count)| (name.to_string(), *count)).collect()
        };
        assert_eq!(of(&rows, 40_000), [], "{args:?}");
        assert_eq!(of(&rows, 40_001), expect(&[("ends_disproved", 1)]), "{args:?}");
        assert_eq!(of(&rows, 40_002)[0], ("SYN_with_data".to_string(), 1), "{args:?}");
        assert_eq!(of(&rows, 40_003), expect(&[("segment_not_taken", 2)]), "{args:?}");
        let why = rows.iter().find(|row| row["id.orig_p"] == 40_003).expect("it is there");
        assert_eq!((&why["addl"], &why["source"]), (&"impossible_flags".into(), &"TCP".into()), "{args:?}");
        let others = rows.iter().filter(|row| row["uid"].is_null());
        let mut others: Vec<_> = others.map(|row| (row["name"].as_str(), row["count"].as_u64())).collect();
        others.sort();
        assert_eq!(
            others,
            [(Some("malformed_header"), Some(1)), (Some("nesting_limit"), Some(2))],
            "{args:?}"
        );
    }
    // A filter selects connections; packets without a connection match none.
    let some = rows(&["weird", file, "tcp.port == 40001"]);
    assert_eq!((some.len(), of(&some, 40_001).len()), (1, 1));
    assert_eq!(answer(&["weird", file, "--count"], 0).trim(), rows(&["weird", file]).len().to_string());
    // Zeek's directory has the log, and the overview names the kinds that were counted.
    let logs = place.path().join("logs");
    answer(&["zeek", file, "-d", logs.to_str().expect("text"), "--format", "json"], 0);
    let log = fs::read_to_string(logs.join("weird.log")).expect("the log");
    assert_eq!(log.lines().count(), rows(&["weird", file]).len(), "{log}");
    let overview = weir(&["overview", file, "--format", "report"]);
    assert!(text(&overview.stdout).contains("ends_disproved"), "{}", text(&overview.stdout));
}

/// A connection cannot make more rows about itself than its traffic allows.
#[test]
fn oddities_of_a_connection_are_one_row_each() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.pcap");
    let file = path.to_str().expect("text");
    let odd = vec![(0, &b"x"[..]); 5000];
    fs::write(&path, frames::pcap(&connection(40_000, &odd, b""))).expect("room");
    let rows = rows(&["weird", file]);
    assert_eq!(of(&rows, 40_000), [("segment_not_taken".to_string(), 5000)]);
}

#[test]
fn the_page_lists_every_name() {
    let page = include_str!("../../../../../docs/weird.md");
    for (name, source, doc) in weir::odd_names() {
        let line = format!("| `{name}` | {source} | {} |", doc.trim_end_matches('.'));
        assert!(page.contains(&line), "docs/weird.md lacks: {line}");
    }
}

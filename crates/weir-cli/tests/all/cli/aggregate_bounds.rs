//! `weir aggregate` over hostile and unusual traffic: many groups, wrong times, silence, names with any
//! characters.

use crate::cli::{scratch, text, text_of, weir};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use weir_testing::frames::{ACK, PSH, SYN, ethernet, ipv4, tcp, udp};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_790_000_000 * SECOND;

/// A capture with these frames at these times, in nanoseconds.
fn capture(name: &str, packets: impl IntoIterator<Item = (i64, Vec<u8>)>) -> PathBuf {
    let mut bytes = vec![];
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (time, frame) in packets {
        let length = frame.len() as u32;
        for word in [(time / SECOND) as u32, (time % SECOND) as u32, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let path = scratch(name);
    fs::write(&path, bytes).expect("a temporary file");
    path
}

fn datagram(source: u32, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let ends = (source.to_be_bytes(), [192, 0, 2, 1]);
    ethernet(0x0800, &ipv4(ends, 17, 0, 0, &[], &udp(ports, payload)))
}

/// The rows of an aggregate, and the messages.
fn rows(aggregate: &str, capture: &Path, more: &[&str]) -> (Vec<Value>, String) {
    let output = weir(&[&["aggregate", aggregate, "-r", capture.to_str().unwrap()], more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = text(&output.stdout);
    let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    (stdout.lines().map(row).collect(), text_of(&output))
}

fn sum(rows: &[Value]) -> u64 {
    rows.iter().map(|row| row["count"].as_u64().expect("a count")).sum()
}

/// The number in the message `weir: NUMBER WHAT`.
fn told(messages: &str, what: &str) -> u64 {
    let line = messages.lines().find(|line| line.contains(what)).unwrap_or("weir: 0");
    line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{messages}"))
}

#[test]
fn groups_beyond_the_bound_are_one_row_and_a_message() {
    let packets =
        (0..70_000_u32).map(|n| (START + i64::from(n) * 1_000, datagram(0x0a00_0000 + n, (1, 2), b"")));
    let file = capture("aggregate-groups.pcap", packets);
    for workers in ["1", "2"] {
        let (all, said) = rows("count() by ip.src", &file, &["-j", workers]);
        assert_eq!((all.len(), sum(&all)), (65_537, 70_000));
        let others: Vec<&Value> = all.iter().filter(|row| row["other"] == true).collect();
        assert!(others.len() == 1 && others[0].get("ip.src").is_none(), "{others:?}");
        assert_eq!(others[0]["count"].as_u64(), Some(told(&said, "in the group `other`")), "{said}");
        let (top, _) = rows("count() by ip.src top 2 by count", &file, &["-j", workers]);
        assert_eq!((top.len(), &top[2]["other"]), (3, &Value::Bool(true)), "`top` does not hide others");
    }
    let quiet = rows("count() by ip.src", &file, &["--quiet", "--limit", "1"]).1;
    assert_eq!(quiet, "");
}

/// The clock follows a packet only with the next one, so each of these packets is far ahead of the clock.
#[test]
fn packets_after_silence_are_counted() {
    let packets = (0..200).map(|n| (START + n * 100 * SECOND, datagram(0x0a00_0001, (1, 2), b"")));
    let file = capture("aggregate-silence.pcap", packets);
    for every in ["3ms", "1s", "1m", "1d"] {
        for workers in ["1", "3"] {
            let (rows, said) = rows(&format!("count() every {every}"), &file, &["-j", workers]);
            assert_eq!((sum(&rows), said.as_str()), (200, ""), "{every}, {workers} workers");
            assert!(every == "1d" || rows.len() == 200, "{every}: {} windows", rows.len());
        }
    }
}

/// The rows of idle connections come minutes after their last packet.
#[test]
fn idle_connections_are_in_the_windows_of_their_last_packets() {
    let flows = (0..100_u16)
        .map(|n| (START + i64::from(n) * 7 * SECOND, datagram(0x0a00_0001, (1_000 + n, 9), b"?")));
    // Connections that answer keep the time-out of their protocol.
    let mut packets: Vec<_> = flows.collect();
    for n in 0..40_u16 {
        let at = START + i64::from(n) * 11 * SECOND;
        let ends = [[10, 0, 0, 7], [192, 0, 2, 9]];
        let ports = (5_000 + n, 80);
        let there = ipv4((ends[0], ends[1]), 6, 0, 0, &[], &tcp(ports, 1, 0, SYN, &[], b""));
        let back = ipv4((ends[1], ends[0]), 6, 0, 0, &[], &tcp((80, ports.0), 7, 2, SYN | ACK, &[], b""));
        let last = ipv4((ends[0], ends[1]), 6, 0, 0, &[], &tcp(ports, 2, 8, ACK, &[], b""));
        for (step, packet) in [there, back, last].into_iter().enumerate() {
            packets.push((at + step as i64 * 1_000_000, ethernet(0x0800, &packet)));
        }
    }
    packets.sort_by_key(|(time, _)| *time);
    let file = capture("aggregate-idle.pcap", packets);
    let (rows, said) = rows("count() every 1s", &file, &["--of", "flows"]);
    assert_eq!((sum(&rows), said.as_str()), (140, ""));
}

/// Packets of wrong times are in windows of these times, or counted as late or ahead; others are not
/// affected.
#[test]
fn wrong_times_lose_no_other_packets() {
    let right = |n: i64| (START + n * SECOND / 10, datagram(0x0a00_0001, (1, 2), b""));
    for (name, wrong) in [("future", START + 3_000_000 * SECOND), ("past", SECOND)] {
        let packets = (0..1_000).map(|n| if n == 500 { (wrong, right(n).1) } else { right(n) });
        let file = capture(&format!("aggregate-{name}.pcap"), packets);
        let (packets, said) = rows("count() every 1s", &file, &[]);
        assert_eq!(sum(&packets) + told(&said, "after the end of their window"), 1_000, "{name}: {said}");
        let usual =
            packets.iter().filter(|row| row["ts"].as_f64().unwrap() as i64 / 1_000 == START / SECOND / 1_000);
        assert_eq!(usual.map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 999, "{name}");
    }
    // The same for rows: each datagram is a query of its own.
    let query = |n: i64| {
        [&(n as u16).to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]].concat()
    };
    let packets = (0..300).map(|n| {
        let time = if n == 100 { START + 3_000_000 * SECOND } else { START + n * SECOND };
        (time, datagram(0x0a00_0001, (2_000 + n as u16, 53), &query(n)))
    });
    let file = capture("aggregate-rows.pcap", packets);
    let (rows, said) = rows("count() every 10s", &file, &["--of", "dns"]);
    assert_eq!((sum(&rows), said.as_str()), (300, ""));
}

/// A capture whose later half comes first.
#[test]
fn packets_that_come_late_are_counted_in_a_message() {
    let packets =
        (0..2_000).map(|n| (START + (n + 1_000) % 2_000 * SECOND, datagram(0x0a00_0001, (1, 2), b"")));
    let file = capture("aggregate-order.pcap", packets);
    for workers in ["1", "2"] {
        let (rows, said) = rows("count() every 10s", &file, &["-j", workers]);
        assert_eq!((sum(&rows), told(&said, "after the end of their window")), (1_000, 1_000), "{said}");
    }
    assert_eq!(sum(&rows("count()", &file, &[]).0), 2_000, "without windows, times do not matter");
}

#[test]
fn records_without_a_field_are_a_group_without_the_key() {
    let packets = (0..10).map(|n| {
        let frame = match n % 2 {
            0 => datagram(0x0a00_0001, (1, 2), b""),
            _ => ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]),
        };
        (START + n, frame)
    });
    let file = capture("aggregate-absent.pcap", packets);
    let (rows, _) = rows(
        "count(), count(udp.srcport) as u, sum(udp.srcport) as s, max(udp.srcport) as m by ip.src",
        &file,
        &[],
    );
    let shown: Vec<String> = rows.iter().map(Value::to_string).collect();
    assert_eq!(
        shown,
        [r#"{"count":5,"u":0,"s":0}"#, r#"{"ip.src":"10.0.0.1","count":5,"u":5,"s":5,"m":1}"#]
            .map(|row| { serde_json::from_str::<Value>(row).unwrap().to_string() })
    );
}

/// A handshake of TLS whose client names this server.
fn handshake(name: &[u8], port: u16) -> Vec<Vec<u8>> {
    let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let names = counted(&[&[0][..], &counted(name)].concat());
    let extensions = counted(&[&[0, 0][..], &counted(&names)].concat());
    let hello = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &extensions].concat();
    let message = [&[1, 0][..], &counted(&hello)].concat();
    let record = [&[22, 3, 1][..], &counted(&message)].concat();
    let ends = [[10, 0, 0, 1], [192, 0, 2, 1]];
    let there = |flags, seq, ack, payload: &[u8]| {
        let segment = tcp((port, 443), seq, ack, flags, &[], payload);
        ethernet(0x0800, &ipv4((ends[0], ends[1]), 6, 0, 0, &[], &segment))
    };
    let back = tcp((443, port), 900, 101, SYN | ACK, &[], b"");
    let back = ethernet(0x0800, &ipv4((ends[1], ends[0]), 6, 0, 0, &[], &back));
    vec![there(SYN, 100, 0, b""), back, there(ACK, 101, 901, b""), there(ACK | PSH, 101, 901, &record)]
}

#[test]
fn keys_may_have_any_characters() {
    let names: [&[u8]; 4] = [b"a\"b,c", b"line\r\nbreak", b"tab\t;=cmd", "ünïcode".as_bytes()];
    let frames = (0..8).flat_map(|n| handshake(names[n % 4], 40_000 + n as u16));
    let packets = frames.enumerate().map(|(n, frame)| (START + n as i64 * 1_000_000, frame));
    let file = capture("aggregate-names.pcap", packets);
    let (found, _) = rows("count() by tls.sni", &file, &["--of", "tls"]);
    let mut keys: Vec<&str> = found.iter().filter_map(|row| row["tls.sni"].as_str()).collect();
    keys.sort_unstable();
    let of_log = weir(&["tls", "-r", file.to_str().unwrap()]);
    let mut expected: Vec<String> = text(&of_log.stdout)
        .lines()
        .map(|row| {
            serde_json::from_str::<Value>(row).unwrap()["server_name"].as_str().unwrap_or("").to_string()
        })
        .collect();
    expected.sort();
    expected.dedup();
    assert_eq!(keys, expected, "the keys are the names as the log has them");
    assert!(found.len() == 4 && sum(&found) == 8, "{found:?}");
    let csv = weir(&[
        "aggregate",
        "count() by tls.sni",
        "--of",
        "tls",
        "-r",
        file.to_str().unwrap(),
        "--format",
        "csv",
    ]);
    let csv = text(&csv.stdout);
    assert_eq!(csv.lines().count(), 5, "control characters are escaped: {csv}");
    assert!(csv.contains("\"a\"\"b,c\",2,,\n"), "{csv}");
}

#[test]
fn windows_that_cannot_be_are_refused() {
    let file = capture("aggregate-none.pcap", []);
    for (aggregate, of, said) in [
        ("count() every 0s", "packets", "W0133"),
        ("count() every 999ns", "packets", "W0133"),
        ("count() every 1us", "packets", "at least 1.026µs"),
        ("count() every 1ms", "flows", "at least 4.734"),
        ("count() over 1s every 2s", "packets", "W0133"),
        ("count() over 2000s every 1s", "packets", "W0133"),
        ("count() every 400y", "packets", "W0133"),
        ("count() every 200000d", "packets", "W0133"),
    ] {
        let output = weir(&["aggregate", aggregate, "--of", of, "-r", file.to_str().unwrap()]);
        let message = text_of(&output);
        assert!(output.status.code() == Some(2) && message.contains(said), "{aggregate}: {message}");
        assert!(message.contains("W0133"), "{aggregate}: {message}");
    }
    let output = weir(&["aggregate", "count() every 1s", "-r", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""));
}

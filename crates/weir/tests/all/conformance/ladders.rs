//! Zeek's connection states and histories, and fragments with reused identifications: small generated
//! traffic, so that they are tested without the public captures, too.

use std::io::Cursor;
use weir::io::CaptureReader;
use weir::packet::Value;
use weir::sessions::SessionRegistry;
use weir::{Ask, Compiler, Connection, Item, Limits, Need, Options, Shape, Want};

/// Interval between packets, milliseconds.
const STEP_MS: u32 = 100;

/// Link types: raw IP, and Ethernet.
const RAW: u32 = 101;
const ETHERNET: u32 = 1;

/// A capture file of frames with this link type, 100 ms apart.
fn capture(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![];
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(u32::to_le_bytes(word));
    }
    for (index, frame) in frames.iter().enumerate() {
        let at = index as u32 * STEP_MS;
        let length = frame.len() as u32;
        for word in [1_000_000 + at / 1000, at % 1000 * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// An IPv4 datagram or fragment: from the originator (10.0.0.1) or the responder (10.0.0.2).
fn datagram(from_originator: bool, protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + payload.len() as u16).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    let (a, b) = if from_originator { (1, 2) } else { (2, 1) };
    bytes.extend([10, 0, 0, a, 10, 0, 0, b]);
    bytes.extend(payload);
    bytes
}

/// A segment, written as in a ladder, `> S 100`, `< SA 300 101` or `> A 101 301 +5`: sender, flags, sequence
/// number, acknowledgement, number of payload bytes.
fn segment(step: &str) -> Vec<u8> {
    let words: Vec<&str> = step.split_whitespace().collect();
    let length = words.iter().find_map(|w| w.strip_prefix('+')).map_or(0, |l| l.parse().expect("bytes"));
    segment_with(step, &vec![b'x'; length])
}

/// As [`segment`], with this payload.
fn segment_with(step: &str, payload: &[u8]) -> Vec<u8> {
    let words: Vec<&str> = step.split_whitespace().collect();
    let from_originator = words[0] == ">";
    let flag = |c| match c {
        'F' => 1,
        'S' => 2,
        'R' => 4,
        'A' => 16,
        other => panic!("no flag {other}"),
    };
    let flags: u8 = words[1].chars().map(flag).sum();
    let number = |n: usize| words.get(n).and_then(|w| w.parse::<u32>().ok()).unwrap_or(0);
    let (source, destination) = if from_originator { (40_000u16, 80u16) } else { (80, 40_000) };
    let mut bytes = vec![];
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend(number(2).to_be_bytes());
    let ack = if words.get(3).is_some_and(|w| w.starts_with('+')) { 0 } else { number(3) };
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    bytes.extend(payload);
    datagram(from_originator, 6, 0, 0, &bytes)
}

/// The connections of a capture of raw IP, ordered by their ends.
fn connections(datagrams: &[Vec<u8>], limits: Limits) -> Vec<Connection> {
    connections_over(RAW, datagrams, limits)
}

fn connections_over(link: u32, frames: &[Vec<u8>], limits: Limits) -> Vec<Connection> {
    let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    connections_beside(&[ask], link, frames, limits)
}

/// The connections that the questions for connections yield.
fn connections_beside(asks: &[Ask], link: u32, frames: &[Vec<u8>], limits: Limits) -> Vec<Connection> {
    let compiler = Compiler::default();
    let compiled = compiler.compile(asks, &Options { limits, ..Options::default() }).expect("they are right");
    let mut reader = CaptureReader::from_reader("ladder", Box::new(Cursor::new(capture(link, frames))));
    let mut found = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(connection) = item {
            found.push(*connection);
        }
        Ok::<(), std::convert::Infallible>(())
    };
    match weir::run(&compiler, &compiled, &mut reader, &[], 1, &mut each, &mut |_| {}) {
        Ok(outcome) => assert!(outcome.errors.is_empty(), "{:?}", outcome.errors),
        Err(never) => match never {},
    }
    found
}

fn ladder(steps: &[&str]) -> Vec<Connection> {
    connections(&steps.iter().map(|s| segment(s)).collect::<Vec<_>>(), Limits::default())
}

#[test]
fn records_say_which_ends_are_of_this_site_and_what_ip_carried() {
    let compiler = Compiler::default();
    let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
    let compiled = compiler.compile(&[ask], &Options::default()).expect("it is right");
    let segments = ["> S 100", "< RA 0 101"].map(segment);
    let mut reader = CaptureReader::from_reader("ladder", Box::new(Cursor::new(capture(RAW, &segments))));
    let mut rows: Vec<Vec<Value<'static>>> = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        let Item::Rows(made) = item else { panic!("{item:?} instead of rows") };
        rows.extend(made.iter().map(|row| row.iter().map(|cell| cell.value().into_owned()).collect()));
        Ok::<(), std::convert::Infallible>(())
    };
    let shape = Shape { as_rows: true, ..Shape::default() };
    let Ok(_) = weir::run(&compiler, &compiled, &mut reader, &[shape], 1, &mut each, &mut |_| {});
    let value = |name: &str| {
        let place = weir::CONNECTION_COLUMNS.iter().position(|column| column.name == name);
        rows[0][place.expect("a column")].clone()
    };
    // Both ends, 10.0.0.1 and 10.0.0.2, have private addresses.
    assert_eq!([value("local_orig"), value("local_resp")], [Value::Bool(true), Value::Bool(true)]);
    assert_eq!((value("ip_proto"), value("tunnel_parents")), (Value::Unsigned(6), Value::Absent));
}

/// Description, packets, state, history, payload bytes.
type Case = (&'static str, Vec<&'static str>, &'static str, &'static str, [u64; 2]);

#[test]
fn connections_go_as_zeek_has_it() {
    const SHAKE: [&str; 3] = ["> S 100", "< SA 300 101", "> A 101 301"];
    let after = |steps: &[&'static str]| [&SHAKE, steps].concat();
    let cases: &[Case] = &[
        ("a SYN alone, again", vec!["> S 100", "> S 100"], "S0", "S", [0, 0]),
        ("refused", vec!["> S 100", "< RA 0 101"], "REJ", "Sr", [0, 0]),
        ("open", after(&["> A 101 301 +5"]), "S1", "ShAD", [5, 0]),
        (
            "in and out of the door",
            after(&["> A 101 301 +5", "< A 301 106 +7", "> FA 106 308", "< FA 308 107", "> A 107 309"]),
            "SF",
            "ShADdFf",
            [5, 7],
        ),
        ("a FIN with bytes is a FIN", after(&["> FA 101 301 +5", "< FA 301 107"]), "SF", "ShAFf", [5, 0]),
        ("only the originator closes", after(&["> FA 101 301"]), "S2", "ShAF", [0, 0]),
        ("only the responder closes", after(&["< FA 301 101"]), "S3", "ShAf", [0, 0]),
        ("the originator aborts", after(&["> R 101"]), "RSTO", "ShAR", [0, 0]),
        ("the responder aborts", after(&["> A 101 301 +5", "< R 301"]), "RSTR", "ShADr", [5, 0]),
        ("a SYN, and away", vec!["> S 100", "> R 101"], "RSTOS0", "SR", [0, 0]),
        ("a SYN and a FIN", vec!["> S 100", "> F 101"], "SH", "SF", [0, 0]),
        (
            "both closed, then a reset",
            after(&["> FA 101 301", "< FA 301 102", "> R 102"]),
            "SF",
            "ShAFfR",
            [0, 0],
        ),
        (
            "closed and reset, then closed",
            after(&["> FA 101 301", "> R 102", "< FA 301 102"]),
            "SF",
            "ShAFRf",
            [0, 0],
        ),
        ("a bare ACK before the SYN", vec!["> S 100", "< A 300 101", "< SA 300 101"], "S1", "Sah", [0, 0]),
        ("from the middle", vec!["> A 101 301 +5", "< A 301 106 +7"], "OTH", "Dd", [5, 7]),
        ("both flags", vec!["> SF 100", "< RA 0 101"], "RSTR", "Qr", [0, 0]),
    ];
    for (what, steps, state, history, bytes) in cases {
        let found = ladder(steps);
        assert_eq!(found.len(), 1, "{what}");
        let told = (found[0].conn_state, found[0].history.as_str(), found[0].bytes.unwrap_or_default());
        assert_eq!(told, (*state, *history, *bytes), "{what}: {steps:?}");
    }
}

#[test]
fn missing_bytes_are_counted_where_nobody_reads_them() {
    let found = ladder(&["> S 100", "< SA 300 101", "> A 101 301 +5", "> A 116 301 +4"]);
    assert_eq!((found[0].bytes, found[0].missed_bytes), (Some([19, 0]), 10));
}

#[test]
fn another_syn_is_another_connection() {
    let again = ladder(&["> S 100", "< RA 0 101", "> S 500", "< RA 0 501"]);
    assert_eq!(again.iter().map(|c| c.conn_state).collect::<Vec<_>>(), ["REJ", "REJ"]);
    assert_eq!(again.iter().map(|c| c.packets).collect::<Vec<_>>(), [[1, 1], [1, 1]]);
}

#[test]
fn connections_end_for_being_idle_unless_told_not_to() {
    let steps = ["> S 100"];
    let pause: Vec<Vec<u8>> = (0..60).map(|_| datagram(true, 99, 0, 0, &[])).collect();
    let mut all: Vec<Vec<u8>> = steps.iter().map(|s| segment(s)).collect();
    all.extend(pause);
    all.push(segment("> S 100"));
    assert_eq!(connections(&all, Limits::default()).len(), 2, "unanswered for 6 s");
    let never = Limits { idle_timeout_ms: Some(0), ..Limits::default() };
    assert_eq!(connections(&all, never).len(), 1);
}

#[test]
fn an_identification_may_come_again_at_once() {
    let udp = |port: u8| [&[0, port, 0, 53, 0, 24, 0, 0][..], &[0; 16]].concat();
    let mut all = vec![];
    for port in [1, 2, 3] {
        let whole = udp(port);
        all.push(datagram(true, 17, 7, 0x2000, &whole[..16]));
        all.push(datagram(true, 17, 7, 2, &whole[16..]));
    }
    let ports: Vec<u32> = connections(&all, Limits::default()).iter().map(|c| c.orig_p).collect();
    assert_eq!(ports, [1, 2, 3]);
}

#[test]
fn connections_have_the_tags_of_their_first_packet() {
    let frame = |tags: &[(u16, u16)], payload: Vec<u8>| {
        let mut bytes = vec![2; 12];
        for (etype, id) in tags {
            bytes.extend([etype.to_be_bytes(), id.to_be_bytes()].concat());
        }
        bytes.extend(0x0800u16.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    let udp = |from_originator, port: u16| {
        let port = port.to_be_bytes();
        let ports = if from_originator { [port, [0, 53]] } else { [[0, 53], port] };
        datagram(from_originator, 17, 0, 0, &[&ports.concat()[..], &[0, 8, 0, 0]].concat())
    };
    let ping = datagram(true, 1, 0, 0, &[8, 0, 0, 0, 0, 1, 0, 1]);
    // The upper bits of a tag are its priority. Tag 0 is not a VLAN. The answer in VLAN 7 belongs to another
    // connection than the request in VLAN 42.
    let frames = [
        frame(&[], udp(true, 1)),
        frame(&[(0x8100, 0xe02a)], udp(true, 2)),
        frame(&[(0x8100, 7)], udp(false, 2)),
        frame(&[(0x88a8, 100), (0x8100, 200)], udp(true, 3)),
        frame(&[(0x88a8, 100), (0x8100, 200)], segment("> S 100")),
        frame(&[(0x8100, 0xe000), (0x8100, 9)], ping),
        frame(&[(0x9100, 1), (0x9100, 2), (0x8100, 3)], udp(true, 4)),
    ];
    let found = connections_over(ETHERNET, &frames, Limits::default());
    let tags: Vec<_> = found.iter().map(|c| (&*c.proto, c.vlan, c.inner_vlan)).collect();
    assert_eq!(
        tags,
        [
            ("udp", None, None),
            ("udp", Some(42), None),
            ("udp", Some(7), None),
            ("udp", Some(100), Some(200)),
            ("tcp", Some(100), Some(200)),
            ("icmp", Some(9), None),
            ("udp", Some(1), Some(3)),
        ]
    );
}

#[test]
fn what_is_behind_connect_is_the_same_whether_http_is_asked_for_or_not() {
    // A ClientHello of TLS 1.2: one suite, no extensions.
    let hello = [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let requests: [&[u8]; 3] = [
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: tls/1.2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ];
    let answers: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ];
    let need = || Need { service: true, ..Need::default() };
    let flows = || Ask { filter: String::new(), need: need(), want: Want::Connections };
    let sessions = Ask {
        filter: String::new(),
        need: Need::default(),
        want: Want::Sessions(SessionRegistry::builtin().all()),
    };
    for (index, expected) in ["http,ssl", "http,ssl", "http"].into_iter().enumerate() {
        let (request, answer) = (requests[index], answers[index]);
        let at = |start: u32, bytes: &[u8]| start + bytes.len() as u32;
        let [behind_request, behind_answer] = [at(101, request), at(301, answer)];
        let ladder = [
            segment("> S 100"),
            segment("< SA 300 101"),
            segment_with("> A 101 301", request),
            segment_with(&format!("< A 301 {behind_request}"), answer),
            segment_with(&format!("> A {behind_request} {behind_answer}"), &hello),
            segment(&format!("> R {}", at(behind_request, &hello))),
        ];
        for asks in [vec![flows()], vec![flows(), sessions.clone()]] {
            let found = connections_beside(&asks, RAW, &ladder, Limits::default());
            let services: Vec<_> = found.iter().map(|c| c.service.as_deref().unwrap_or_default()).collect();
            assert_eq!(services, [expected], "{} questions", asks.len());
        }
    }
}

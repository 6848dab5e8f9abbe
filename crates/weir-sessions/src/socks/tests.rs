//! Negotiations of all versions, and their rows.

use super::*;
use crate::conversation::{Conversation, rows, run};
use Direction::{Originator as C, Responder as S};

const ROW: [&str; 8] =
    ["version", "user", "password", "command", "request.host", "request.name", "request_p", "status"];

fn row(talk: &str) -> Vec<String> {
    rows(&PROTOCOL, talk, &ROW)
}

fn probe_of(originator: &[u8], responder: &[u8]) -> Probe {
    (PROTOCOL.probe)(&Opening { originator, responder, ..Opening::default() })
}

/// Parses pieces of a stream. Returns the inner stream of each direction as text, the last progress and the
/// number of sessions.
fn parse(pieces: &[(Direction, &[u8])]) -> ([String; 2], Progress, usize) {
    let (mut parser, mut sessions) = (SocksParser::default(), Vec::new());
    let (mut inner, mut progress) = ([Vec::new(), Vec::new()], Progress::Wanted);
    for (from, bytes) in pieces {
        let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram: false };
        progress = parser.parse(&data, &mut sessions);
        let mut taken = Vec::new();
        parser.take_inner(&mut taken);
        assert_eq!(progress == Progress::Inner, !taken.is_empty(), "the inner stream is announced");
        taken.iter().for_each(|piece| inner[piece.from as usize].extend_from_slice(&piece.bytes));
        if matches!(progress, Progress::Done | Progress::HandOver { .. }) {
            break;
        }
    }
    parser.finish(&mut sessions);
    (inner.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()), progress, sessions.len())
}

#[test]
fn version_5_connects_to_names_and_addresses() {
    let name = "> 05 01 00\n< 05 00\n> 05 01 00 03 09 \"a.example\" 01bb\n< 05 00 00 01 c0000201 1234 \"x\"";
    assert_eq!(row(name), ["5 | - | - | CONNECT | - | a.example | 443 | succeeded", "over to 12"]);
    let bound = ["bound.host", "bound.name", "bound_p", "auth_method", "socks.auth_method", "socks.results"];
    assert_eq!(rows(&PROTOCOL, name, &bound)[0], "192.0.2.1 | - | 4660 | No Authentication Required | 0 | 0");
    let six = "> 05 01 00\n< 05 00\n> 05 01 00 04 20010db8 00000000 00000000 00000001 0050\n\
        < 05 00 00 03 05 \"proxy\" 1234";
    assert_eq!(row(six), ["5 | - | - | CONNECT | 2001:db8::1 | - | 80 | succeeded", "over to 14"]);
    assert_eq!(rows(&PROTOCOL, six, &bound[..3])[0], "- | proxy | 4660");
}

#[test]
fn version_5_has_users_whose_passwords_are_hidden() {
    let login = "> 05 02 00 02\n< 05 02\n> 01 03 \"bob\" 06 \"secret\"\n";
    let good = format!("{login}< 01 00\n> 05 01 00 01 c0000201 0050\n< 05 05 00 01 00000000 0000");
    assert_eq!(row(&good), ["5 | bob | <hidden> | CONNECT | 192.0.2.1 | - | 80 | Connection refused"]);
    assert!(!run(&PROTOCOL, &Conversation::parse(&good)).sessions[0].contains("secret"));
    let bad = format!("{login}< 01 01");
    assert_eq!(row(&bad), ["5 | bob | <hidden> | - | - | - | - | general SOCKS server failure"]);
    let none = "> 05 02 00 01\n< 05 ff";
    assert_eq!(rows(&PROTOCOL, none, &["auth_method", "status"]), ["No Acceptable Methods | -"]);
}

#[test]
fn version_4_has_users_and_names() {
    let four = "> 04 01 0050 c0000201 \"bob\" 00\n< 00 5a 0000 00000000 \"x\"";
    assert_eq!(row(four), ["4 | bob | - | CONNECT | 192.0.2.1 | - | 80 | succeeded", "over to 8"]);
    let named = "> 04 01 01bb 00000001 00 \"a.example\" 00\n< 00 5b 0000 00000000";
    assert_eq!(row(named), ["4 | - | - | CONNECT | - | a.example | 443 | general SOCKS server failure"]);
    let identd = "> 04 01 0050 c0000201 \"bob\" 00\n< 00 5d 0000 00000000";
    assert!(row(identd)[0].ends_with("could not confirm the user ID string in the request"));
}

#[test]
fn a_listening_server_replies_twice() {
    let talk = "> 05 01 00\n< 05 00\n> 05 02 00 01 c0000201 0014\n< 05 00 00 01 c6336401 1234\n";
    assert_eq!(row(talk), ["5 | - | - | BIND | 192.0.2.1 | - | 20 | succeeded"]);
    let connected = format!("{talk}< 05 00 00 01 c0000201 0014 \"220 x\"");
    assert_eq!(row(&connected), ["5 | - | - | BIND | 192.0.2.1 | - | 20 | succeeded", "over to 22"]);
    let of_first = rows(&PROTOCOL, &connected, &["bound.host", "bound_p"]);
    assert_eq!(of_first[0], "198.51.100.1 | 4660");
    let refused = format!("{talk}< 05 06 00 01 00000000 0000");
    assert_eq!(row(&refused), ["5 | - | - | BIND | 192.0.2.1 | - | 20 | TTL expired"]);
}

#[test]
fn datagrams_and_resolved_names_are_not_in_the_stream() {
    let greeting = "> 05 01 00\n< 05 00\n";
    let datagrams = "> 05 03 00 01 00000000 0000\n< 05 00 00 01 c0000201 1234\n> \"x\"";
    assert_eq!(
        row(&format!("{greeting}{datagrams}")),
        ["5 | - | - | UDP ASSOCIATE | 0.0.0.0 | - | 0 | succeeded"]
    );
    let resolve = "> 05 f0 00 03 01 \"a\" 0000\n< 05 00 00 01 c0000201 0000";
    assert_eq!(row(&format!("{greeting}{resolve}")), ["5 | - | - | RESOLVE | - | a | 0 | succeeded"]);
}

#[test]
fn tokens_of_gssapi_are_skipped() {
    let talk =
        "> 05 01 01\n< 05 01\n> 01 01 0003 010203\n< 01 01 0002 0102\n> 01 02 0001 01\n< 01 02 0001 01\n";
    let clear = format!("{talk}> 05 01 00 01 c0000201 0050\n< 05 00 00 01 00000000 0000");
    assert_eq!(row(&clear), ["5 | - | - | CONNECT | 192.0.2.1 | - | 80 | succeeded", "over to 23"]);
    for rest in ["> 01 03 0001 ff", "> 01 ff", ""] {
        assert_eq!(row(&format!("{talk}{rest}")), ["5 | - | - | - | - | - | - | -"], "{rest}");
    }
}

#[test]
fn unanswered_requests_are_rows() {
    let greeting = "> 05 01 00\n< 05 00\n";
    let asked = "5 | - | - | CONNECT | 192.0.2.1 | - | 80 | -";
    let request = "> 05 01 00 01 c0000201 0050\n";
    assert_eq!(row(&format!("{greeting}{request}")), [asked]);
    assert_eq!(row(&format!("> 05 01 00\n{request}")), [asked], "without the server");
    let login = "> 05 01 02\n> 01 01 \"a\" 01 \"b\"\n";
    assert_eq!(row(&format!("{login}{request}")), [asked.replacen("- | -", "a | <hidden>", 1)]);
    assert_eq!(row(greeting), [""; 0], "nothing was requested");
    let cut = format!("{greeting}{request}< 05 04");
    assert_eq!(row(&cut), [asked.replace("80 | -", "80 | Host unreachable")], "a reply that is cut off");
    let short = format!("{greeting}{request}< 05 01 00 00");
    assert_eq!(row(&short), [asked.replace("80 | -", "80 | general SOCKS server failure")]);
    assert_eq!(row(&format!("{greeting}{request}< gap 10")), [asked, "over to 12"]);
}

#[test]
fn what_contradicts_the_protocol_is_left_to_others() {
    let greeting = "> 05 01 00\n< 05 00\n";
    assert_eq!(row(&format!("{greeting}> 16 03 01")), ["over to 3"], "at the first byte that does");
    assert_eq!(row(&format!("{greeting}> 05 01 00 02")), ["over to 6"]);
    let private = "> 05 01 80\n< 05 80 \"x\"";
    assert_eq!(rows(&PROTOCOL, private, &["auth_method"]), ["unknown-128", "over to 2"]);
    assert_eq!(row("> \"GET / HTTP/1.1\\r\\n\""), ["over to 0"]);
    let long = format!("> 04 01 0050 c0000201 \"{}\"\n", "a".repeat(300));
    assert_eq!(row(&long), ["over to 263"]);
}

#[test]
fn what_the_client_sends_before_the_reply_is_an_inner_stream() {
    let request: &[u8] = &[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80];
    let early = [request, b"GET /"].concat();
    let reply: &[u8] = &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let answer = [reply, b"HTTP"].concat();
    let passed = (["GET / HTTP/1.1".into(), "HTTP/1.1".into()], Progress::Inner, 1);
    let whole: [(Direction, &[u8]); 4] = [(C, &early), (S, &answer), (C, b" HTTP/1.1"), (S, b"/1.1")];
    assert_eq!(parse(&whole), passed);
    let bytes = whole.iter().flat_map(|(from, bytes)| bytes.chunks(1).map(|byte| (*from, byte)));
    assert_eq!(parse(&bytes.collect::<Vec<_>>()), passed, "in single bytes");
    // The request arrives with the reply: nothing was kept.
    let in_order: [(Direction, &[u8]); 2] = [(C, request), (S, &answer)];
    assert_eq!(parse(&in_order), (Default::default(), Progress::HandOver { rest_bytes: 4 }, 1));
    // The capture has the sides in another order.
    let turned: [(Direction, &[u8]); 2] = [(S, &answer), (C, &early)];
    assert_eq!(parse(&turned), (["GET /".into(), "HTTP".into()], Progress::Inner, 1));
}

#[test]
fn a_gap_in_the_inner_stream_is_told() {
    let (mut parser, mut sessions) = (SocksParser::default(), Vec::new());
    let mut parse = |from, bytes: &[u8]| {
        parser.parse(&Data { from, time: Timestamp(0), bytes, is_datagram: false }, &mut sessions)
    };
    parse(C, b"\x04\x01\x00\x50\xc0\x00\x02\x01\x00early");
    assert_eq!(parse(S, b"\x00\x5a\x00\x00\x00\x00\x00\x00"), Progress::Inner);
    assert_eq!(parser.gap(C, 7, &mut sessions), Progress::Inner);
    let mut pieces = Vec::new();
    parser.take_inner(&mut pieces);
    assert_eq!(pieces.iter().map(|piece| piece.gap_bytes).collect::<Vec<_>>(), [0, 0, 7]);
    assert_eq!(sessions.len(), 1);
}

#[test]
fn early_bytes_are_bounded() {
    let request: &[u8] = b"\x04\x01\x00\x50\xc0\x00\x02\x01\x00";
    let most = [request, &[b'x'; WAITING_BYTES_MAX]].concat();
    assert_eq!(parse(&[(C, &most)]).1, Progress::Wanted);
    assert_eq!(parse(&[(C, &most), (C, b"x")]), (Default::default(), Progress::Done, 1));
    let mut parser = SocksParser::default();
    let more = [&most[..], b"x"].concat();
    let data = Data { from: C, time: Timestamp(0), bytes: &more, is_datagram: false };
    parser.parse(&data, &mut Vec::new());
    assert_eq!(parser.cut_off().sessions, 1);
}

#[test]
fn both_sides_together_are_recognised() {
    let four = b"\x04\x01\x00\x50\xc0\x00\x02\x01bob\x00";
    let named = b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00a.example\x00";
    for (originator, responder) in [
        (&[5, 1, 0][..], &[5, 0][..]),
        (&[5, 2, 0, 2], &[5, 2]),
        (&[5, 2, 0, 2], &[5, 0xff]),
        (&[5, 1, 0, 5, 1, 0, 1], &[5, 0, 5]),
        (&[5, 3, 0, 1, 0x80], &[5, 0x80]),
        (four, &[0, 0x5a]),
        (named, &[0, 0x5b, 0, 0]),
    ] {
        assert_eq!(probe_of(originator, responder), Probe::Certain, "{originator:02x?}");
        for length in 0..responder.len().min(2) {
            assert_eq!(probe_of(originator, &responder[..length]), Probe::Unsure, "{originator:02x?}");
        }
        assert_eq!(probe_of(&originator[..2], responder), Probe::Unsure, "{originator:02x?}");
        assert_eq!(probe_of(&[], responder), Probe::Unsure, "{originator:02x?}");
    }
}

#[test]
fn other_bytes_are_not_for_us() {
    for (originator, responder) in [
        // DCE/RPC, Modbus, no such method, a method that was not offered, versions that differ.
        (&[5, 0, 11, 3][..], &[][..]),
        (&[5, 6, 0, 0, 0, 6, 1, 3], &[5, 6]),
        (&[5, 1, 4], &[]),
        (&[5, 1, 0], &[5, 2]),
        (&[5, 1, 0], &[0, 0x5a]),
        (&[4, 3], &[]),
        (b"\x04\x01\x00\x50\xc0\x00\x02\x01\xff", &[]),
        (b"\x04\x01\x00\x50\x00\x00\x00\x01\x00\x00", &[]),
        (b"\x04\x01\x00\x50\x00\x00\x00\x01\x00a b", &[]),
        (&[], &[5, 4]),
        (&[], &[0, 0x59]),
        (b"GET / HTTP/1.1\r\n", b""),
    ] {
        assert_eq!(probe_of(originator, responder), Probe::NotForUs, "{originator:02x?} {responder:02x?}");
    }
    let datagram =
        Opening { originator: &[5, 1, 0], responder: &[5, 0], is_datagram: true, ..Opening::default() };
    assert_eq!((PROTOCOL.probe)(&datagram), Probe::NotForUs);
}

#[test]
fn every_protocol_of_streams_may_follow() {
    let of_streams = crate::PROTOCOLS.iter().filter(|protocol| protocol.transports.contains(&"tcp"));
    for protocol in of_streams {
        assert!(PROTOCOL.hands_over.contains(&protocol.name), "{}", protocol.name);
    }
}

#[test]
fn random_bytes_are_not_recognised() {
    // SplitMix64.
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).to_le_bytes()
    };
    let mut recognised = 0;
    for _ in 0..1_000_000 {
        let [originator, responder] = [[random(), random()].concat(), random().to_vec()];
        recognised += u32::from(probe_of(&originator, &responder) == Probe::Certain);
    }
    assert!(recognised < 10, "{recognised} of a million");
}

//! Ladders of handshakes: the datagrams of each side, and the resulting rows.

use super::*;
use crate::tls::Incomplete;
use crate::{Data, Direction, Progress, Session, SessionParser};
use Direction::{Originator as C, Responder as S};
use weir_memory::live_bytes;
use weir_packet::{Timestamp, Value};

fn record(content: u8, epoch: u8, body: &[u8]) -> Vec<u8> {
    [&[content, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 0][..], &(body.len() as u16).to_be_bytes(), body]
        .concat()
}

/// The fragment of a message from offset `from` to `to`.
fn fragment(kind: u8, sequence: u8, body: &[u8], from: usize, to: usize) -> Vec<u8> {
    let three = |number: usize| (number as u32).to_be_bytes()[1..].to_vec();
    let header = [vec![kind], three(body.len()), vec![0, sequence], three(from), three(to - from)].concat();
    record(HANDSHAKE, 0, &[&header[..], &body[from..to]].concat())
}

fn message(kind: u8, sequence: u8, body: &[u8]) -> Vec<u8> {
    fragment(kind, sequence, body, 0, body.len())
}

/// A ClientHello with a cookie, one cipher suite and a server name.
fn client_hello(cookie: &[u8]) -> Vec<u8> {
    let name = [0, 0, 0, 8, 0, 6, 0, 0, 3, b'a', b'.', b'b'];
    [&[0xfe, 0xfd][..], &[4; 32], &[0, cookie.len() as u8], cookie, &[0, 2, 0xc0, 0x2b, 1, 0, 0, 12], &name]
        .concat()
}

fn server_hello() -> Vec<u8> {
    [&[0xfe, 0xfd][..], &[5; 32], &[0, 0xc0, 0x2b, 0, 0, 0]].concat()
}

fn feed(steps: &[(Direction, Vec<u8>)]) -> (Option<DtlsHandshake>, bool) {
    let mut parser = DtlsParser::default();
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    let mut is_done = false;
    for (from, bytes) in steps {
        let data = Data { from: *from, time: Timestamp(9), bytes, is_datagram: true };
        is_done = matches!(parser.parse(&data, &mut sessions), Progress::HandOver { .. });
        if is_done {
            break;
        }
    }
    parser.finish(&mut sessions);
    assert!(sessions.len() <= 1);
    let session = sessions
        .first()
        .map(|session| session.as_any().downcast_ref::<DtlsHandshake>().expect("DTLS").clone());
    (session, is_done)
}

fn value<'a>(session: &'a DtlsHandshake, name: &str) -> Value<'a> {
    let is_it = |field: &crate::Field| field.name == name || field.column == name;
    session.value(PROTOCOL.fields.iter().position(is_it).expect(name))
}

/// Both sides change ciphers and send encrypted records.
fn encrypted() -> [(Direction, Vec<u8>); 4] {
    [
        (C, record(20, 0, &[1])),
        (C, record(22, 1, &[9; 40])),
        (S, [record(20, 0, &[1]), record(22, 1, &[9; 40])].concat()),
        (C, record(23, 1, &[9; 40])),
    ]
}

#[test]
fn a_full_handshake_with_a_cookie() {
    let steps = [
        (C, message(1, 0, &client_hello(b""))),
        (S, message(3, 0, &[0xfe, 0xff, 2, 7, 8])),
        (C, message(1, 1, &client_hello(&[7, 8]))),
        (S, [message(2, 1, &server_hello()), message(12, 2, &[3, 0, 29, 0]), message(14, 3, &[])].concat()),
        (C, message(16, 2, &[1, 1])),
    ];
    let (session, is_done) = feed(&[&steps[..], &encrypted()].concat());
    let session = session.expect("a session");
    assert!(is_done);
    for (name, expected) in [
        ("version", Value::Text("DTLSv12".into())),
        ("cipher", Value::Text("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".into())),
        ("curve", Value::Text("x25519".into())),
        ("server_name", Value::Text("a.b".into())),
        ("established", Value::Bool(true)),
        ("ssl_history", Value::Text("CvCsknGIi".into())),
        ("dtls.verified", Value::Bool(true)),
        ("dtls.handshake.cookie_length", Value::Unsigned(2)),
    ] {
        assert_eq!(value(&session, name), expected, "{name}");
    }
    assert!(matches!(value(&session, "ja4"), Value::Text(text) if text.starts_with("dd2d010100_")));
    assert_eq!(session.time(), Some(Timestamp(9)));
}

#[test]
fn messages_are_put_together_from_fragments_in_any_order() {
    let hello = client_hello(b"");
    let part = |from, to| fragment(1, 0, &hello, from, to);
    let (session, _) = feed(&[
        (C, [part(30, hello.len()), part(10, 20)].concat()),
        (C, part(10, 20)),
        (C, part(15, 30)),
        (C, part(0, 10)),
        (C, part(0, 10)),
        (C, message(1, 0, &hello)),
    ]);
    let handshake = session.expect("a session").handshake;
    assert_eq!((handshake.server_name(), &*handshake.history), (Some("a.b"), "C"));
}

#[test]
fn what_is_sent_again_counts_once() {
    let hello = message(1, 0, &client_hello(b""));
    let answer = message(2, 0, &server_hello());
    let (session, _) = feed(&[(C, hello.clone()), (C, hello), (S, answer.clone()), (S, answer)]);
    assert_eq!(session.expect("a session").handshake.history, "Cs");
}

#[test]
fn datagrams_of_others_in_the_same_flow_are_passed_over() {
    let stun = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
    let (session, _) =
        feed(&[(C, stun.clone()), (C, message(1, 0, &client_hello(b""))), (S, vec![0x80; 50]), (S, stun)]);
    assert_eq!(session.expect("a session").handshake.history, "C");
}

#[test]
fn of_dtls_1_3_the_short_header_means_encryption() {
    let mut hello = server_hello();
    hello.splice(hello.len() - 2.., [0, 6, 0, 43, 0, 2, 0xfe, 0xfc]);
    let (session, is_done) = feed(&[
        (C, message(1, 0, &client_hello(b""))),
        (S, [message(2, 0, &hello), vec![0x2e; 60]].concat()),
        (C, vec![0x2d; 60]),
        (C, vec![0x2e; 60]),
    ]);
    let session = session.expect("a session");
    assert!(is_done && session.handshake.is_established);
    assert_eq!(value(&session, "version"), Value::Text("DTLSv13".into()));
}

#[test]
fn a_refusal_ends_it() {
    let (session, is_done) = feed(&[(C, message(1, 0, &client_hello(b""))), (S, record(21, 0, &[2, 40]))]);
    assert!(is_done);
    assert_eq!(value(&session.expect("a session"), "last_alert"), Value::Text("handshake_failure".into()));
}

#[test]
fn a_server_alone_is_yielded_once_it_goes_on_alone() {
    let mut steps = vec![(C, message(2, 0, &server_hello()))];
    steps.extend((0..300).map(|_| (C, record(23, 1, &[1; 30]))));
    let (session, is_done) = feed(&steps);
    let handshake = session.expect("a session").handshake;
    assert_eq!((is_done, handshake.client, handshake.incomplete), (true, S, Some(Incomplete::OneSided)));
    assert_eq!(handshake.history, "^s");
}

#[test]
fn unfinished_messages_are_bounded() {
    let body = vec![0; 60_000];
    let before = live_bytes();
    let mut parser = DtlsParser::default();
    for sequence in 0..200 {
        let bytes = fragment(11, sequence, &body, 59_000, 60_000);
        let data = Data { from: S, time: Timestamp(1), bytes: &bytes, is_datagram: true };
        parser.parse(&data, &mut Vec::new());
        drop(bytes);
        assert!(live_bytes() - before < 4 * 64 * 1024);
    }
    assert_eq!(parser.cut_off().parts, 197);
}

#[test]
fn a_hello_in_clear_tells() {
    let probe = |originator: &[u8]| {
        (PROTOCOL.probe)(&Opening { originator, is_datagram: true, ..Opening::default() })
    };
    assert_eq!(probe(&message(1, 0, &client_hello(b""))), Probe::Certain);
    assert_eq!(probe(&record(23, 1, &[1; 30])), Probe::NotForUs);
    assert_eq!(probe(b"GET / HTTP/1.1\r\n\r\n"), Probe::NotForUs);
    assert_eq!(probe(&[0; 60]), Probe::NotForUs);
}

//! Handshakes as ladders: the packets of each side, and the output. The packets are sealed by the keys under
//! test, which the examples of the RFCs verify.

use super::parser::AFTER_MAX;
use super::protection::InitialKeys;
use super::*;
use crate::wire::hex;
use crate::{Data, Direction, Progress, Session, SessionParser};
use Direction::{Originator as C, Responder as S};
use weir_packet::{Timestamp, Value};

/// The connection id and the frame of the examples in RFC 9001 §A and RFC 9369 §A.
const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const EXAMPLE_FRAME: &str =
    "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302
    010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e00
    0500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b00
    03020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff050480
    00ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(16)).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| (high << 4 | low) as u8).collect()
}

/// The ClientHello of the examples: the handshake message.
fn client_hello() -> Vec<u8> {
    unhex(EXAMPLE_FRAME)[4..].to_vec()
}

/// A ServerHello: TLS_AES_128_GCM_SHA256, x25519.
fn server_hello() -> Vec<u8> {
    let body = [&[3, 3][..], &[7; 32], &[0, 0x13, 0x01, 0, 0, 12], &[0, 43, 0, 2, 3, 4, 0, 51, 0, 2, 0, 29]]
        .concat();
    [&[2, 0, 0, body.len() as u8], &body[..]].concat()
}

fn crypto(offset: u16, bytes: &[u8]) -> Vec<u8> {
    let varint = |number: u16| (0x4000 | number).to_be_bytes();
    [&[6][..], &varint(offset), &varint(bytes.len() as u16), bytes].concat()
}

/// An Initial of either side, sealed with the keys of `key_id`.
struct Initial<'a> {
    from: Direction,
    version: u32,
    key_id: &'a [u8],
    ids: [&'a [u8]; 2],
    number: u32,
}

const FIRST: Initial<'_> = Initial { from: C, version: 1, key_id: &ID, ids: [&ID, b"cl"], number: 0 };
const ANSWER: Initial<'_> = Initial { from: S, ids: [b"cl", b"srv"], ..FIRST };

impl Initial<'_> {
    fn seal(&self, payload: &[u8]) -> Vec<u8> {
        let first = if self.version == 1 { 0xc3 } else { 0xd3 };
        let [destination, source] = self.ids.map(|id| [&[id.len() as u8], id].concat());
        let length = (0x4000 | (payload.len() as u16 + 4 + 16)).to_be_bytes();
        let version = self.version.to_be_bytes();
        let header =
            [&[first][..], &version, &destination, &source, &[0], &length, &self.number.to_be_bytes()]
                .concat();
        let keys = InitialKeys::derive(super::version::find(self.version).expect("known"), self.key_id);
        let keys = if self.from == C { keys.client } else { keys.server };
        keys.seal(&header, self.number, payload)
    }
}

#[derive(Default)]
struct Flow {
    parser: QuicParser,
    sessions: Vec<Box<dyn Session>>,
}

impl Flow {
    fn send(&mut self, from: Direction, bytes: &[u8]) -> Progress {
        let data = Data { from, time: Timestamp(5), bytes, is_datagram: true };
        self.parser.parse(&data, &mut self.sessions)
    }

    fn end(mut self) -> QuicHandshake {
        if self.sessions.is_empty() {
            self.parser.finish(&mut self.sessions);
        }
        assert_eq!(self.sessions.len(), 1);
        self.sessions[0].as_any().downcast_ref::<QuicHandshake>().expect("QUIC").clone()
    }
}

fn value<'a>(session: &'a QuicHandshake, name: &str) -> Value<'a> {
    let is_it = |field: &crate::Field| field.name == name || field.column == name;
    session.value(PROTOCOL.fields.iter().position(is_it).expect(name))
}

#[test]
fn the_clients_initials_of_the_rfcs_are_read() {
    let mut payload = unhex(EXAMPLE_FRAME);
    payload.resize(1162, 0);
    for (version, begin, end) in [
        (
            1,
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab7df5",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            0x6b33_43cf,
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03dceebfa162e75d6c96058bdb",
            "",
        ),
    ] {
        let packet = Initial { version, ids: [&ID, b""], number: 2, ..FIRST }.seal(&payload);
        assert_eq!(packet.len(), 1200);
        let packet_text = hex(&packet);
        assert_eq!((&packet_text[..begin.len()], packet_text.ends_with(end)), (begin, true));
        let mut flow = Flow::default();
        assert_eq!(flow.send(C, &packet), Progress::Wanted);
        let handshake = flow.end();
        assert_eq!((handshake.version, handshake.server_name()), (version, Some("example.com")));
        assert_eq!((handshake.client_protocol(), &*handshake.history), (Some("alpn"), "IS"));
        assert_eq!(value(&handshake, "client_initial_dcid"), Value::Bytes(ID[..].into()));
        assert_eq!(value(&handshake, "client_scid"), Value::Bytes(b""[..].into()), "empty, but there");
        assert!(handshake.ja4().expect("a hello").starts_with("q13d0211an_"));
    }
}

#[test]
fn both_hellos_end_the_handshake() {
    let mut flow = Flow::default();
    assert_eq!(flow.send(C, &FIRST.seal(&crypto(0, &client_hello()))), Progress::Wanted);
    let answer = ANSWER.seal(&[&[2, 0, 0, 0, 0][..], &crypto(0, &server_hello())].concat());
    let handshake_packet = [0xe0, 0, 0, 0, 1, 2, b'c', b'l', 3, b's', b'r', b'v', 2, 1, 2];
    assert_eq!(flow.send(S, &[&answer[..], &handshake_packet].concat()), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 1);
    let handshake = flow.end();
    assert_eq!(handshake.history, "ISish");
    for (name, expected) in [
        ("version", Value::Text("1".into())),
        ("server_name", Value::Text("example.com".into())),
        ("client_protocol", Value::Text("alpn".into())),
        ("client_scid", Value::Bytes(b"cl"[..].into())),
        ("server_scid", Value::Bytes(b"srv"[..].into())),
        ("cipher", Value::Text("TLS_AES_128_GCM_SHA256".into())),
        ("curve", Value::Text("x25519".into())),
        ("quic.alpn", Value::Texts(vec!["alpn".to_owned()].into())),
    ] {
        assert_eq!(value(&handshake, name), expected, "{name}");
    }
    assert_eq!(handshake.time(), Some(Timestamp(5)));
}

#[test]
fn the_handshake_of_tls_in_it_is_one_of_tls() {
    let mut flow = Flow::default();
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    let of = |session: &dyn Session| {
        let tls = tls_handshake(session);
        tls.first()
            .map(|tls| tls.as_any().downcast_ref::<crate::tls::TlsHandshake>().expect("of TLS").clone())
    };
    flow.send(S, &ANSWER.seal(&crypto(0, &server_hello())));
    let tls = of(&flow.end()).expect("both hellos were read");
    assert_eq!((tls.version(), tls.cipher(), tls.group), (Some(0x304), Some(0x1301), Some(29)));
    assert_eq!((tls.server_name(), &*tls.history), (Some("example.com"), "Cs"));
    assert!(tls.ja4().is_some_and(|ja4| ja4.starts_with("q13d")), "{:?}", tls.ja4());
    assert!(of(&QuicHandshake::default()).is_none(), "no hello, no handshake");
}

#[test]
fn a_hello_in_splinters_over_packets_and_datagrams_is_put_together() {
    let hello = client_hello();
    let part = |from: usize, to: usize| crypto(from as u16, &hello[from..to]);
    let payloads = [
        [part(200, hello.len()), vec![0; 9], vec![1], part(10, 20)].concat(),
        [part(20, 100), part(90, 200)].concat(),
        [part(0, 10), part(0, 10)].concat(),
    ];
    let packets: Vec<_> =
        (0..).zip(&payloads).map(|(number, payload)| Initial { number, ..FIRST }.seal(payload)).collect();
    let mut flow = Flow::default();
    flow.send(C, &[&packets[1][..], &packets[0]].concat());
    flow.send(C, &packets[2]);
    assert_eq!(flow.end().server_name(), Some("example.com"));
}

#[test]
fn the_client_may_be_the_responder() {
    let mut flow = Flow::default();
    flow.send(S, &FIRST.seal(&crypto(0, &client_hello())));
    let answer = ANSWER.seal(&crypto(0, &server_hello()));
    assert_eq!(flow.send(C, &answer), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 1);
    let handshake = flow.end();
    assert_eq!((handshake.client, &*handshake.history), (S, "ISis"));
}

#[test]
fn a_retry_changes_the_keys() {
    let mut flow = Flow::default();
    let hello = client_hello();
    flow.send(C, &FIRST.seal(&crypto(0, &hello[..100])));
    let retry = [&[0xf0, 0, 0, 0, 1, 2][..], b"cl", &[3], b"new", b"token", &[0; 16]].concat();
    flow.send(S, &retry);
    let again = Initial { key_id: b"new", ids: [b"new", b"cl"], number: 1, ..FIRST };
    flow.send(C, &again.seal(&crypto(0, &hello)));
    let answer = Initial { key_id: b"new", ..ANSWER };
    assert_eq!(flow.send(S, &answer.seal(&crypto(0, &server_hello()))), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 1);
    let handshake = flow.end();
    assert_eq!((&*handshake.history, handshake.is_retried), ("IrISis", true));
    assert_eq!(handshake.initial_destination_id.as_deref(), Some(&ID[..]), "the first one");
}

#[test]
fn versions_are_negotiated() {
    let mut flow = Flow::default();
    let mut first = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &ID, &[2], b"cl"].concat();
    first.resize(1200, 0);
    flow.send(C, &first);
    flow.send(
        S,
        &[&[0x80, 0, 0, 0, 0, 2][..], b"cl", &[8], &ID, &[0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf]].concat(),
    );
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    // The server continues in another version, with keys from the same connection id (RFC 9368 §2.3).
    let answer = Initial { version: 0x6b33_43cf, ..ANSWER }.seal(&crypto(0, &server_hello()));
    assert_eq!(flow.send(S, &answer), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 1);
    let handshake = flow.end();
    assert_eq!(&*handshake.history, "UvISis");
    assert_eq!(handshake.offered_versions, [1, 0x6b33_43cf]);
    assert_eq!(value(&handshake, "version"), Value::Text("quicv2".into()));
}

#[test]
fn a_server_alone_has_a_version_and_an_end() {
    let mut flow = Flow::default();
    let answer = ANSWER.seal(&crypto(0, &server_hello()));
    assert_eq!(flow.send(S, &answer), Progress::Wanted);
    let mut packets = 0;
    while flow.send(S, &[0x40; 40]) == Progress::Wanted {
        packets += 1;
    }
    assert_eq!(packets, 7);
    let handshake = flow.end();
    assert_eq!((handshake.version, handshake.client_hello), (1, None));
}

#[test]
fn a_client_alone_ends_once_it_moves_on() {
    let mut flow = Flow::default();
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    let mut packets = 0;
    while flow.sessions.is_empty() {
        assert_eq!(flow.send(C, &[0x40; 40]), Progress::Wanted);
        packets += 1;
    }
    assert_eq!(packets, 8);
    assert_eq!(flow.end().history, "ISOOOO");
}

#[test]
fn connections_that_follow_on_the_same_ports_are_sessions_of_their_own() {
    const OTHER_ID: [u8; 8] = [7; 8];
    let other = || Initial { ids: [&OTHER_ID, b"oth"], key_id: &OTHER_ID, ..FIRST };
    let mut flow = Flow::default();
    // The first one is not answered; its hello is repeated.
    for _ in 0..2 {
        flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    }
    assert_eq!(flow.sessions.len(), 0);
    flow.send(C, &other().seal(&crypto(0, &client_hello())));
    assert_eq!(flow.sessions.len(), 1);
    let answer = Initial { ids: [b"oth", b"srv"], key_id: &OTHER_ID, ..ANSWER };
    assert_eq!(flow.send(S, &answer.seal(&crypto(0, &server_hello()))), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 2);
    // Repeated hellos begin nothing; a third connection does, for some datagrams.
    flow.send(C, &other().seal(&crypto(0, &client_hello())));
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    let third = Initial { ids: [&[9; 8], b"3rd"], key_id: &[9; 8], ..FIRST };
    flow.send(C, &third.seal(&crypto(0, &client_hello())));
    flow.parser.finish(&mut flow.sessions);
    assert_eq!(flow.sessions.len(), 3);
    let answered = |session: &dyn Session| {
        session.as_any().downcast_ref::<QuicHandshake>().expect("QUIC").server_hello.is_some()
    };
    assert_eq!(
        flow.sessions.iter().map(|session| answered(&**session)).collect::<Vec<_>>(),
        [false, true, false]
    );
    let mut packets = 0;
    let mut flow = Flow::default();
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    flow.send(S, &ANSWER.seal(&crypto(0, &server_hello())));
    while flow.send(C, &[0x40; 40]) == Progress::Wanted {
        packets += 1;
    }
    assert_eq!(packets, AFTER_MAX - 1);
}

#[test]
fn a_refusal_ends_the_handshake() {
    let mut flow = Flow::default();
    flow.send(C, &FIRST.seal(&crypto(0, &client_hello())));
    assert_eq!(flow.send(S, &ANSWER.seal(&[0x1c, 0x41, 0x78, 6, 0])), Progress::Wanted);
    assert_eq!(flow.sessions.len(), 1);
    let handshake = flow.end();
    assert_eq!((handshake.close_code, &*handshake.history), (Some(0x178), "ISic"));
}

#[test]
fn a_handshake_that_never_comes_about_is_given_up() {
    let mut flow = Flow::default();
    let junk = Initial { key_id: b"other", ..FIRST }.seal(&[0; 40]);
    let datagrams = (0..10_000).take_while(|_| flow.send(C, &junk) == Progress::Wanted).count();
    assert!(datagrams < DATAGRAMS_MAX as usize);
    let mut flow = Flow::default();
    let early = [0xd0, 0, 0, 0, 1, 0, 0, 1, 9];
    let datagrams = (0..10_000).take_while(|_| flow.send(C, &early) == Progress::Wanted).count();
    assert_eq!(datagrams + 1, DATAGRAMS_MAX as usize);
    assert_eq!(flow.parser.cut_off().sessions, 1);
}

#[test]
fn names_of_fields_are_distinct_and_begin_with_the_protocol() {
    let mut seen = std::collections::HashSet::new();
    for field in PROTOCOL.fields {
        for name in field.aliases.iter().chain([&field.name]) {
            assert!(seen.insert(*name) && name.starts_with("quic."), "{name}");
        }
    }
}

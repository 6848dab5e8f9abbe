//! Connections as ladders: the bytes of each side, and the output.

use super::*;
use crate::conversation::{Conversation, run};
use crate::{Data, Direction, Progress, Session, SessionParser};
use Direction::{Originator as C, Responder as S};
use weir_packet::{Timestamp, Value};

const CLIENT: &[u8] = b"SSH-2.0-client_1 comment\r\n";
const SERVER: &[u8] = b"SSH-2.0-server_2\r\n";

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn packet(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32 + 5).to_be_bytes()[..], &[4], payload, &[0; 4]].concat()
}

fn offer(kex: &str, cipher: &str) -> Vec<u8> {
    let lists = [kex, "ssh-ed25519,ssh-rsa", cipher, cipher, "m", "m", "none", "none", "", ""];
    let lists: Vec<u8> = lists.iter().flat_map(|list| string(list.as_bytes())).collect();
    packet(&[&[20][..], &[7; 16], &lists, &[0; 5]].concat())
}

/// KEX_ECDH_REPLY and similar messages: the host key comes first.
fn reply(number: u8) -> Vec<u8> {
    let key = [string(b"ssh-ed25519"), string(&[5; 32])].concat();
    packet(&[&[number][..], &string(&key), &string(b"q"), &string(b"sig")].concat())
}

fn feed(steps: &[(Direction, Vec<u8>)]) -> (Vec<SshHandshake>, bool) {
    let mut parser = SshParser::default();
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    let mut is_done = false;
    for (from, bytes) in steps {
        let data = Data { from: *from, time: Timestamp(3), bytes, is_datagram: false };
        is_done = parser.parse(&data, &mut sessions) == Progress::Done;
        if is_done {
            break;
        }
    }
    parser.finish(&mut sessions);
    let own = |session: &dyn Session| session.as_any().downcast_ref::<SshHandshake>().expect("SSH").clone();
    (sessions.iter().map(|session| own(session.as_ref())).collect(), is_done)
}

fn value<'a>(session: &'a SshHandshake, name: &str) -> Value<'a> {
    let is_it = |field: &crate::Field| field.name == name || field.column == name;
    session.value(PROTOCOL.fields.iter().position(is_it).expect(name))
}

#[test]
fn a_key_exchange_is_read_up_to_the_servers_key() {
    let (sessions, is_done) = feed(&[
        (C, CLIENT.to_vec()),
        (S, [b"a line before\r\n", SERVER].concat()),
        (S, offer("k2,k1", "c2")),
        (C, offer("k1,k2", "c1,c2")),
        (C, packet(&[30, 0, 0, 0, 1, 9])),
        (S, reply(31)),
    ]);
    assert!(is_done);
    let session = &sessions[0];
    for (name, expected) in [
        ("version", Value::Unsigned(2)),
        ("client", Value::Text("SSH-2.0-client_1 comment".into())),
        ("server", Value::Text("SSH-2.0-server_2".into())),
        ("kex_alg", Value::Text("k1".into())),
        ("cipher_alg", Value::Text("c2".into())),
        ("mac_alg", Value::Text("m".into())),
        ("compression_alg", Value::Text("none".into())),
        ("host_key_alg", Value::Text("ssh-ed25519".into())),
        ("ssh.kex.hassh_algorithms", Value::Text("k1,k2;c1,c2;m;none".into())),
        ("ssh.host_key.type", Value::Text("ssh-ed25519".into())),
        ("ssh.message_code", Value::Numbers(vec![20, 20, 30, 31].into())),
    ] {
        assert_eq!(value(session, name), expected, "{name}");
    }
    assert_eq!(session.hassh().as_deref(), Some(&*hassh("k1,k2;c1,c2;m;none")));
    assert!(session.host_key_fingerprint.as_ref().is_some_and(|text| text.len() == 7 + 43));
}

#[test]
fn the_client_is_who_begins_the_key_exchange() {
    // The server opened the TCP connection.
    let (sessions, is_done) = feed(&[
        (C, SERVER.to_vec()),
        (S, CLIENT.to_vec()),
        (C, offer("k2,k1", "c2")),
        (S, offer("k1,k2", "c1,c2")),
        (S, packet(&[30, 0, 0, 0, 1, 9])),
        (C, reply(31)),
    ]);
    assert!(is_done);
    assert_eq!(sessions[0].client, S);
    assert_eq!(sessions[0].banners[0].as_deref(), Some("SSH-2.0-client_1 comment"));
    assert_eq!(sessions[0].kex_algorithm().as_deref(), Some("k1"));
}

#[test]
fn of_a_group_exchange_the_second_answer_has_the_key() {
    let offer = offer("diffie-hellman-group-exchange-sha256", "c");
    let (sessions, is_done) = feed(&[
        (C, [CLIENT, &offer].concat()),
        (S, [SERVER, &offer].concat()),
        (C, packet(&[34, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 32, 0])),
        (S, packet(&[&[31][..], &string(&[1; 256]), &string(&[2])].concat())),
        (C, packet(&[32, 0, 0, 0, 1, 9])),
        (S, reply(33)),
    ]);
    assert!(is_done);
    assert_eq!(sessions[0].host_key_type.as_deref(), Some("ssh-ed25519"));
    assert_eq!(sessions[0].messages, [20, 20, 34, 31, 32, 33]);
}

#[test]
fn encryption_ends_it() {
    let steps = [
        (C, [CLIENT, &offer("k", "c")].concat()),
        (S, [SERVER, &offer("k", "c")].concat()),
        (S, packet(&[21])),
    ];
    let (sessions, is_done) = feed(&steps);
    assert!(is_done && sessions[0].host_key_type.is_none());
}

#[test]
fn versions_are_told_as_zeek_tells_them() {
    for (client, server, version) in [
        ("SSH-2.0-a", "SSH-2.0-b", 2),
        ("SSH-2.0-a", "SSH-1.99-b", 2),
        ("SSH-1.5-a", "SSH-1.99-b", 1),
        ("SSH-1.99-a", "SSH-1.99-b", 2),
        ("SSH-1.5-a", "SSH-1.5-b", 1),
        ("SSH-1.5-a", "SSH-2.0-b", 0),
    ] {
        let banners = [client, server].map(|banner| Some(banner.to_owned()));
        assert_eq!(
            SshHandshake { banners, ..SshHandshake::default() }.version(),
            Some(version),
            "{client} {server}"
        );
    }
}

#[test]
fn two_banners_of_version_1_are_all() {
    let (sessions, is_done) =
        feed(&[(S, b"SSH-1.5-1.2.26\n".to_vec()), (C, b"SSH-1.5-x\n\0\0\0\x09".to_vec())]);
    assert!(is_done);
    assert_eq!((sessions[0].version(), sessions[0].banners[1].as_deref()), (Some(1), Some("SSH-1.5-1.2.26")));
}

#[test]
fn what_is_missing_loses_its_side() {
    let text = "< \"SSH-2.0-s\\r\\n\"\n> \"SSH-2.0-c\\r\\n\"\n< gap 9\n< \"rest\"\n> gap 1\n> \"more\"";
    let outcome = run(&PROTOCOL, &Conversation::parse(text));
    assert_eq!(outcome.sessions.len(), 1);
    assert!(outcome.sessions[0].contains("SSH-2.0-s"));
}

#[test]
fn one_side_alone_is_yielded_at_the_end() {
    let (sessions, is_done) = feed(&[(C, [CLIENT, &offer("k", "c")].concat())]);
    assert!(!is_done);
    assert!(sessions[0].hassh().is_some() && sessions[0].hassh_server().is_none());
    assert_eq!(sessions[0].version(), Some(2));
}

#[test]
fn lines_and_packets_are_bounded() {
    let (sessions, _) = feed(&[(C, CLIENT.to_vec()), (S, vec![b'x'; 4096]), (S, SERVER.to_vec())]);
    assert_eq!(sessions[0].banners[1], None);
    let (sessions, _) = feed(&[(C, CLIENT.to_vec()), (S, b"line\n".repeat(100)), (S, SERVER.to_vec())]);
    assert_eq!(sessions[0].banners[1], None);
    let (sessions, _) = feed(&[(C, [CLIENT, &[0, 1, 0xff, 0xff]].concat()), (C, offer("k", "c"))]);
    assert_eq!(sessions[0].offers[0], None);
}

#[test]
fn the_banner_tells() {
    let probe = |originator: &[u8], responder: &[u8]| {
        (PROTOCOL.probe)(&Opening { originator, responder, ..Opening::default() })
    };
    assert_eq!(probe(b"SSH-2.0-x", b""), Probe::Certain);
    assert_eq!(probe(b"", b"SSH-1.99-x"), Probe::Certain);
    assert_eq!(probe(b"SSH-2.", b"welcome"), Probe::Certain);
    assert_eq!(probe(b"SS", b""), Probe::Unsure);
    for bytes in [&b"SSH-x"[..], b"SSH-9.", b"GET /", b"\x16\x03"] {
        assert_ne!(probe(bytes, b""), Probe::Certain);
    }
    assert_eq!(probe(b"GET /", b""), Probe::NotForUs);
}

#[test]
fn names_of_fields_are_distinct_and_begin_with_the_protocol() {
    let mut seen = std::collections::HashSet::new();
    for field in PROTOCOL.fields {
        for name in field.aliases.iter().chain([&field.name]) {
            assert!(seen.insert(*name) && name.starts_with("ssh."), "{name}");
        }
    }
}

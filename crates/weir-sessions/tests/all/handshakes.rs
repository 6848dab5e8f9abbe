//! Complete handshakes, recorded with OpenSSL, and their expected sessions; then the same with losses.

use crate::support::{Segment, feed, feed_one, handshake, piece, value};
use weir_packet::Value;
use weir_sessions::tls::{Incomplete, PATIENCE_BYTES, PROTOCOL, TlsHandshake};
use weir_sessions::{CutOff, Direction, Opening, Probe, Progress, Session, SessionRegistry};

const CLIENT: Direction = Direction::Originator;
const SERVER: Direction = Direction::Responder;

/// Version, cipher, group, history, resumed and established, as in a row of `ssl.log`.
fn row(handshake: &TlsHandshake) -> (String, String, String, String, bool, bool) {
    (
        handshake.version_name().unwrap_or_default().into_owned(),
        handshake.cipher_name().unwrap_or_default().into_owned(),
        handshake.group_name().unwrap_or_default().into_owned(),
        handshake.history.clone(),
        handshake.is_resumed,
        handshake.is_established,
    )
}

fn rows_of(name: &str) -> (String, String, String, String, bool, bool) {
    let handshake = feed_one(&handshake(name));
    assert_eq!(handshake.incomplete, None, "{name}");
    row(&handshake)
}

fn expected(
    version: &str,
    cipher: &str,
    group: &str,
    history: &str,
    is_resumed: bool,
    is_established: bool,
) -> (String, String, String, String, bool, bool) {
    (version.into(), cipher.into(), group.into(), history.into(), is_resumed, is_established)
}

#[test]
fn tls12_in_full() {
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    assert_eq!(rows_of("tls12-full"), expected("TLSv12", suite, "x25519", "CsxknGIi", false, true));
    let handshake = feed_one(&handshake("tls12-full"));
    assert_eq!(handshake.server_name(), Some("weir.example"));
    assert_eq!(handshake.next_protocol(), Some("h2"));
    assert_eq!(handshake.client_hello.as_ref().expect("client").alpn, ["h2", "http/1.1"]);
    assert_eq!(handshake.does_name_match_certificate(), Some(true));
    assert_eq!(handshake.alert_name(), None);
}

#[test]
fn certificates_of_both_sides_are_parts_of_a_handshake() {
    let handshake = feed_one(&handshake("tls12-client-cert"));
    let log = weir_sessions::x509::LOG;
    let of_tls = log.of.iter().find(|(protocol, _)| *protocol == "tls").expect("TLS has certificates").1;
    let own = |column: &str| -> Vec<(String, String)> {
        let place = |name: &str| log.fields.iter().position(|field| field.column == name).expect("a column");
        let parts = of_tls(&handshake);
        let own = parts.iter().filter(|part| part.value(place(column)) == Value::Bool(true));
        let show = |value: Value<'_>| {
            if let Value::Text(text) = value { text.to_string() } else { format!("{value:?}") }
        };
        own.map(|part| {
            ["fingerprint", "certificate.subject"].map(|name| show(part.value(place(name)))).into()
        })
        .collect()
    };
    let of = |certificate: Option<&weir_sessions::tls::Certificate>| {
        let certificate = certificate.expect("there is one");
        vec![(certificate.sha256.clone(), certificate.subject.clone())]
    };
    assert_eq!(own("host_cert"), of(handshake.server_certificate()));
    assert_eq!(own("client_cert"), of(handshake.client_certificate()));
}

#[test]
fn tls12_resumed_by_ticket() {
    let (version, _, group, history, is_resumed, is_established) = rows_of("tls12-resumed");
    assert_eq!((version.as_str(), group.as_str(), is_resumed, is_established), ("TLSv12", "", true, true));
    assert!(history == "CsiI" || history == "CstiI", "{history}");
}

#[test]
fn a_ticket_without_session_id_is_known_by_the_missing_key_exchange() {
    // Remove the session id from both hellos, as a client without compatibility mode does.
    let mut segments = handshake("tls12-resumed");
    for (_, bytes) in segments.iter_mut().take(2) {
        let id_at = 5 + 4 + 2 + 32;
        let id_bytes = usize::from(bytes[id_at]);
        assert_eq!(id_bytes, 32);
        bytes.drain(id_at + 1..=id_at + id_bytes);
        bytes[id_at] = 0;
        let record = u16::from_be_bytes([bytes[3], bytes[4]]) - 32;
        bytes[3..5].copy_from_slice(&record.to_be_bytes());
        let message = u16::from_be_bytes([bytes[7], bytes[8]]) - 32;
        bytes[7..9].copy_from_slice(&message.to_be_bytes());
    }
    let handshake = feed_one(&segments);
    assert!(handshake.is_resumed && handshake.is_established, "{}", handshake.history);
}

#[test]
fn tls12_with_a_client_certificate() {
    let handshake = feed_one(&handshake("tls12-client-cert"));
    assert!(handshake.history.starts_with("CsxkrnXGYI"), "{}", handshake.history);
    assert_eq!(handshake.client_certificate().expect("given").subject, "CN=client one");
    assert_eq!(
        handshake.client_certificate().expect("given").issuer,
        "CN=Weir Test CA,O=Weir Test\\, Inc.,C=XX"
    );
    assert_eq!(handshake.server_certificates.certificates().len(), 2);
}

#[test]
fn tls10_with_rsa_has_no_group() {
    let suite = "TLS_RSA_WITH_AES_128_CBC_SHA";
    let (version, cipher, group, history, ..) = rows_of("tls10-rsa");
    assert_eq!((version.as_str(), cipher.as_str(), group.as_str()), ("TLSv10", suite, ""));
    assert!(history.starts_with("CsxnGI"), "{history}");
    let handshake = feed_one(&handshake("tls10-rsa"));
    let certificate = handshake.server_certificate().expect("given");
    assert_eq!((certificate.key_type.as_str(), certificate.key_bits), ("rsa", 1024));
    assert_eq!(certificate.signature_algorithm, "sha256WithRSAEncryption");
    // The certificate has only a common name.
    assert_eq!(handshake.does_name_match_certificate(), Some(true));
}

#[test]
fn tls13_with_and_without_compatibility_records() {
    let suite = "TLS_AES_256_GCM_SHA384";
    assert_eq!(rows_of("tls13-full"), expected("TLSv13", suite, "x25519", "CsiI", false, true));
    assert_eq!(rows_of("tls13-plain"), expected("TLSv13", suite, "x25519", "Cs", false, true));
    assert_eq!(rows_of("tls13-resumed"), expected("TLSv13", suite, "x25519", "CsiI", true, true));
}

#[test]
fn tls13_is_established_by_both_sides_only() {
    let mut segments = handshake("tls13-plain");
    let second_of_client =
        segments.iter().skip(1).position(|(from, _)| *from == CLIENT).expect("Finished") + 1;
    segments.truncate(second_of_client);
    assert!(!feed_one(&segments).is_established);
}

#[test]
fn early_data_establishes_nothing() {
    let segments = handshake("tls13-early-data");
    let handshake = feed_one(&segments);
    assert!(handshake.client_hello.as_ref().expect("client").has_early_data);
    assert!(handshake.is_resumed && handshake.is_established, "{}", handshake.history);
    // The server's answer follows the early data; the handshake is not established before the client's
    // Finished.
    let answer = segments.iter().position(|(from, _)| *from == SERVER).expect("an answer");
    assert!(!feed_one(&segments[..=answer]).is_established);
}

#[test]
fn tls13_with_a_second_hello() {
    let handshake = feed_one(&handshake("tls13-retry"));
    let (version, _, group, history, _, is_established) = row(&handshake);
    assert_eq!((version.as_str(), group.as_str(), is_established), ("TLSv13", "secp384r1", true));
    assert_eq!(history, "CjiICs");
    assert!(handshake.is_retried);
    let hello = handshake.client_hello.expect("client");
    assert_eq!(hello.key_share_groups, [24], "of the second hello");
    assert!(!hello.extensions.contains(&44), "the first hello had no cookie");
}

#[test]
fn a_refusal_is_an_alert() {
    let handshake = feed_one(&handshake("tls12-refused"));
    assert_eq!(handshake.alert_name().as_deref(), Some("handshake_failure"));
    assert_eq!((handshake.history.as_str(), handshake.is_established), ("Cl", false));
    assert_eq!(handshake.server_hello, None);
    assert_eq!(value(&handshake, "tls.version"), Value::Absent);
}

#[test]
fn certificates_show_what_is_in_them() {
    let handshake = feed_one(&handshake("tls12-full"));
    let certificate = handshake.server_certificate().expect("given");
    assert_eq!(certificate.subject, "CN=weir.example,OU=Tests+serialNumber=7,O=Weir,L=Böhmen,C=XX");
    assert_eq!(certificate.serial, "ABCDEF01");
    assert_eq!((certificate.key_type.as_str(), certificate.key_bits), ("ecdsa", 256));
    assert_eq!(certificate.signature_algorithm, "ecdsa-with-SHA256");
    let names = ["weir.example", "*.weir.example", "192.0.2.1", "2001:db8::1"];
    assert_eq!(certificate.alternative_names(), names);
    assert_eq!(certificate.not_after.since_ns(certificate.not_before), 365 * 86_400 * 1_000_000_000);
    assert!(certificate.matches_host("a.weir.example") && certificate.matches_host("192.0.2.1"));
    assert!(!certificate.matches_host("other.example"));
}

#[test]
fn fields_are_read_by_any_of_their_names() {
    let handshake = feed_one(&handshake("tls12-full"));
    assert_eq!(value(&handshake, "tls.sni"), Value::Text("weir.example".into()));
    assert_eq!(value(&handshake, "tls.handshake.extensions_server_name"), Value::Text("weir.example".into()));
    assert_eq!(value(&handshake, "tls.version"), Value::Text("TLSv12".into()));
    assert_eq!(value(&handshake, "tls.handshake.version"), Value::Unsigned(0x0303));
    assert_eq!(value(&handshake, "tls.handshake.ciphersuite"), Value::Numbers(vec![0xc02b, 0x00ff].into()));
    assert_eq!(value(&handshake, "tls.established"), Value::Bool(true));
    assert_eq!(
        value(&handshake, "tls.alpn"),
        Value::Texts(vec!["h2".to_owned(), "http/1.1".to_owned()].into())
    );
    assert!(matches!(value(&handshake, "tls.client_random"), Value::Bytes(bytes) if bytes.len() == 32));
}

#[test]
fn values_have_the_types_that_fields_declare() {
    for (name, segments) in crate::support::handshakes() {
        let handshake = feed_one(&segments);
        for (index, field) in PROTOCOL.fields.iter().enumerate() {
            use weir_packet::ValueType as Type;
            let value = handshake.value(index);
            let fits = matches!(
                (&value, field.value_type),
                (Value::Absent, _)
                    | (Value::Bool(_), Type::Bool)
                    | (Value::Unsigned(_), Type::Unsigned)
                    | (Value::Time(_), Type::Time)
                    | (Value::Text(_), Type::Text)
                    | (Value::Texts(_), Type::Texts)
                    | (Value::Bytes(_), Type::Bytes)
                    | (Value::Numbers(_), Type::Numbers)
            );
            assert!(fits, "{name}: {} is {value:?}", field.name);
        }
    }
}

#[test]
fn the_client_may_be_the_responder() {
    let turned: Vec<Segment> = handshake("tls12-full")
        .into_iter()
        .map(|(from, bytes)| (if from == CLIENT { SERVER } else { CLIENT }, bytes))
        .collect();
    let handshake = feed_one(&turned);
    assert_eq!((handshake.client, handshake.history.as_str()), (SERVER, "^CsxknGIi"));
    assert!(handshake.is_established);
    assert_eq!(handshake.server_certificates.certificates().len(), 2);
}

#[test]
fn one_direction_after_the_other_tells_the_same() {
    for (name, segments) in crate::support::handshakes() {
        let facts = |segments: &[Segment]| {
            let handshake = feed_one(segments);
            let (version, cipher, group, _, is_resumed, is_established) = row(&handshake);
            (version, cipher, group, is_resumed, is_established, handshake.server_certificates)
        };
        let of = |wanted| segments.iter().filter(move |(from, _)| *from == wanted).cloned();
        if name != "tls12-refused" {
            let server_first: Vec<Segment> = of(SERVER).chain(of(CLIENT)).collect();
            assert_eq!(facts(&server_first), facts(&segments), "{name}: the server first");
        }
        if name != "tls13-early-data" {
            let client_first: Vec<Segment> = of(CLIENT).chain(of(SERVER)).collect();
            assert_eq!(facts(&client_first), facts(&segments), "{name}: the client first");
        }
    }
}

#[test]
fn the_registry_probes_them_all() {
    for (name, segments) in crate::support::handshakes() {
        let opening = Opening { originator: &segments[0].1, ..Opening::default() };
        assert_eq!((SessionRegistry::builtin().protocol(0).probe)(&opening), Probe::Certain, "{name}");
    }
}

#[test]
fn one_direction_alone_is_something() {
    for wanted in [CLIENT, SERVER] {
        let half: Vec<Segment> =
            handshake("tls12-full").into_iter().filter(|(from, _)| *from == wanted).collect();
        let handshake = feed_one(&half);
        assert_eq!(handshake.client, CLIENT, "the server is told by its hello");
        assert_eq!(handshake.client_hello.is_some(), wanted == CLIENT);
        assert_eq!(handshake.server_hello.is_some(), wanted == SERVER);
        assert!(!handshake.is_established);
    }
}

#[test]
fn nobody_waits_for_ever_for_the_other_direction() {
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let mut sessions = Vec::new();
    assert_eq!(parser.parse(&piece(CLIENT, &handshake("tls13-full")[0].1), &mut sessions), Progress::Wanted);
    let mut record = vec![23, 3, 3, 0x40, 0];
    record.resize(5 + 0x4000, 0);
    let mut records = 0;
    while parser.parse(&piece(CLIENT, &record), &mut sessions) == Progress::Wanted {
        records += 1;
    }
    assert_eq!(records, PATIENCE_BYTES / 0x4000);
    assert_eq!(parser.cut_off(), CutOff { sessions: 1, parts: 0 });
    assert_eq!(crate::support::own(sessions[0].as_ref()).incomplete, Some(Incomplete::OneSided));
}

#[test]
fn an_answer_that_is_no_tls_ends_it() {
    let hello = handshake("tls12-full").swap_remove(0);
    let handshake = feed_one(&[hello, (SERVER, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())]);
    assert_eq!(handshake.incomplete, Some(Incomplete::Malformed));
    assert_eq!(handshake.server_name(), Some("weir.example"));
}

#[test]
fn what_was_never_tls_yields_nothing() {
    assert_eq!(feed(&[(CLIENT, b"GET / HTTP/1.1\r\n".to_vec())]), []);
    assert_eq!(feed(&[(CLIENT, vec![22, 3, 1, 0, 4, 1, 0, 0, 0])]), [], "a ClientHello of no bytes");
    assert_eq!(feed(&[]), []);
}

#[test]
fn an_sslv2_hello_answered_by_tls() {
    let mut hello = vec![0x80, 28, 1, 3, 3, 0, 3, 0, 0, 0, 16, 0, 0xc0, 0x2b];
    hello.extend([9; 16]);
    let mut segments = handshake("tls12-full");
    segments[0].1 = hello;
    let handshake = feed_one(&segments);
    assert_eq!(handshake.history, "CsxknGIi");
    assert!(handshake.is_established && handshake.client_hello.expect("client").is_sslv2);
}

#[test]
fn sslv2_alone_is_recognised() {
    let mut hello = vec![0x80, 28, 1, 0, 2, 0, 3, 0, 0, 0, 16, 1, 0, 0x80];
    hello.extend([9; 16]);
    let mut answer = vec![0x80, 14 + 16, 4, 0, 1, 0, 2, 0, 0, 0, 3, 0, 16, 1, 0, 0x80];
    answer.extend([7; 16]);
    let handshake = feed_one(&[(CLIENT, hello), (SERVER, answer)]);
    assert_eq!(handshake.version_name().as_deref(), Some("SSLv2"));
    assert_eq!((handshake.cipher(), handshake.history.as_str()), (None, "Cs"));
}

/// Parses the handshake with `length` bytes missing at offset `at` of segment `index`.
fn with_gap(segments: &[Segment], index: usize, at: usize, length: usize) -> TlsHandshake {
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let mut sessions = Vec::new();
    for (number, (from, bytes)) in segments.iter().enumerate() {
        if number == index {
            parser.parse(&piece(*from, &bytes[..at]), &mut sessions);
            parser.gap(*from, length as u64, &mut sessions);
            parser.parse(&piece(*from, &bytes[at + length..]), &mut sessions);
        } else {
            parser.parse(&piece(*from, bytes), &mut sessions);
        }
    }
    parser.finish(&mut sessions);
    assert_eq!(sessions.len(), 1);
    crate::support::own(sessions[0].as_ref())
}

#[test]
fn a_gap_in_ciphertext_is_nothing() {
    let segments = handshake("tls13-full");
    let length = segments[1].1.len();
    let handshake = with_gap(&segments, 1, length - 60, 50);
    assert_eq!((handshake.incomplete, handshake.is_established), (None, true));
}

#[test]
fn a_gap_in_a_certificate_leaves_what_came_before() {
    let segments = handshake("tls12-full");
    let handshake = with_gap(&segments, 1, 300, 20);
    assert_eq!(handshake.incomplete, Some(Incomplete::Gap));
    assert_eq!(handshake.version_name().as_deref(), Some("TLSv12"));
    assert!(handshake.server_certificates.is_empty() && !handshake.is_established);
    assert_eq!(handshake.history, "CsGI", "the client is read on");
}

#[test]
fn a_gap_instead_of_the_client_hello_leaves_the_server() {
    let segments = handshake("tls12-full");
    let handshake = with_gap(&segments, 0, 0, segments[0].1.len());
    assert_eq!((handshake.client_hello, handshake.incomplete), (None, Some(Incomplete::Gap)));
    assert_eq!(handshake.history, "sxkni");
}

#[test]
fn an_oversize_chain_is_passed_over() {
    let mut segments = handshake("tls12-full");
    let length: usize = 70_000;
    let mut message = vec![11];
    message.extend(&(length as u32).to_be_bytes()[1..]);
    message.resize(4 + length, 0);
    let records: Vec<u8> = message
        .chunks(0x4000)
        .flat_map(|chunk| [&[22, 3, 3][..], &(chunk.len() as u16).to_be_bytes(), chunk].concat())
        .collect();
    // After the ServerHello, which is the server's first record.
    let hello_bytes = 5 + usize::from(u16::from_be_bytes([segments[1].1[3], segments[1].1[4]]));
    segments[1].1.splice(hello_bytes..hello_bytes, records);
    let handshake = feed_one(&segments);
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    for (from, bytes) in &segments {
        parser.parse(&piece(*from, bytes), &mut Vec::new());
    }
    assert_eq!(parser.cut_off(), CutOff { sessions: 0, parts: 1 });
    assert_eq!((handshake.incomplete, handshake.is_established), (Some(Incomplete::Oversize), true));
    assert_eq!(handshake.server_certificates.certificates().len(), 2, "the one that fits is read");
}

#[test]
fn memory_is_given_back() {
    let segments = handshake("tls12-full");
    let before = weir_memory::live_bytes();
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let mut sessions = Vec::new();
    for (from, bytes) in &segments {
        for byte in bytes {
            parser.parse(&piece(*from, &[*byte]), &mut sessions);
            assert!(weir_memory::live_bytes() - before < 16 * 1024);
        }
    }
    assert_eq!(sessions.len(), 1);
    drop((parser, sessions));
    assert_eq!(weir_memory::live_bytes(), before);
}

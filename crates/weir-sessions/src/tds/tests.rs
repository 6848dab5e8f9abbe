use super::*;
use crate::conversation::{Act, Conversation, rows};
use crate::{Context, Opening, Probe};

const NOT_SUPPORTED: u8 = 2;

/// A packet in hexadecimal digits.
fn packet(kind: u8, content: &[u8]) -> String {
    part(kind, END_OF_MESSAGE, content)
}

/// A packet with this status.
fn part(kind: u8, status: u8, content: &[u8]) -> String {
    let [high, low] = ((content.len() + HEADER_BYTES) as u16).to_be_bytes();
    hex(&[&[kind, status, high, low, 0, 0, 1, 0], content].concat())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Content of PRELOGIN: version 15.0.2000, encryption, an instance, MARS.
fn prelogin(encryption: u8) -> Vec<u8> {
    let options = [0, 0, 21, 0, 6, 1, 0, 27, 0, 1, 2, 0, 28, 0, 3, 4, 0, 31, 0, 1, 0xff];
    [&options[..], &[15, 0, 0x07, 0xd0, 0, 0, encryption, b'S', b'1', 0, 1]].concat()
}

/// UTF-16 of a text.
fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Content of LOGIN7 with the names host, user, password, program, server, none, library, language, database.
fn login(names: [&str; 9]) -> Vec<u8> {
    const FIXED_BYTES: usize = 94;
    let (mut places, mut data) = (Vec::new(), Vec::new());
    for name in names {
        places.extend(((FIXED_BYTES + data.len()) as u16).to_le_bytes());
        places.extend((name.encode_utf16().count() as u16).to_le_bytes());
        data.extend(utf16(name));
    }
    let length = ((FIXED_BYTES + data.len()) as u32).to_le_bytes();
    let head = [&length[..], &[4, 0, 0, 0x74, 0, 16, 0, 0, 7, 0, 0, 0, 0x92, 0x10, 0, 0], &[0; 16]].concat();
    [head, places, vec![0; 22], data].concat()
}

fn sa() -> Vec<u8> {
    login(["WS1", "sa", "secret", "sqlcmd", "db.example", "", "ODBC", "", "master"])
}

/// A token with a length of two bytes.
fn token(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind], &(content.len() as u16).to_le_bytes()[..], content].concat()
}

fn ack() -> Vec<u8> {
    let head = [&[1, 0x74, 0, 0, 4, 20], &utf16("Microsoft SQL Server")[..]].concat();
    token(0xad, &[&head[..], &[16, 0, 0x03, 0xe8]].concat())
}

fn error(number: u32, text: &str) -> Vec<u8> {
    let units = (text.encode_utf16().count() as u16).to_le_bytes();
    let content = [&number.to_le_bytes()[..], &[1, 14], &units, &utf16(text), &[0, 0, 1, 0, 0, 0]];
    token(0xaa, &content.concat())
}

const DONE: [u8; 13] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The negotiation without encryption, and the login.
fn begin() -> String {
    format!(
        "> {}\n< {}\n> {}\n",
        packet(PRELOGIN, &prelogin(NOT_SUPPORTED)),
        packet(ANSWER, &prelogin(NOT_SUPPORTED)),
        packet(LOGIN7, &sa()),
    )
}

#[test]
fn a_login_succeeds() {
    let env = token(0xe3, &[&[1, 6], &utf16("master")[..], &[0]].concat());
    let answer = [&env[..], &ack(), &DONE].concat();
    let talk = begin() + &format!("< {}\n> {}\n", packet(ANSWER, &answer), packet(1, &[0; 40]));
    let names = ["client_version", "server_version", "encryption", "instance", "mars", "tds_version"];
    assert_eq!(rows(&PROTOCOL, &talk, &names), ["15.0.2000 | 15.0.2000 | not_supported | S1 | true | 7.4"]);
    let names = ["hostname", "user", "program", "database", "server_name", "library"];
    assert_eq!(rows(&PROTOCOL, &talk, &names), ["WS1 | sa | sqlcmd | master | db.example | ODBC"]);
    let names = ["success", "error_number", "error", "server_program", "tds.7login.client_pid"];
    assert_eq!(rows(&PROTOCOL, &talk, &names), ["true | - | - | Microsoft SQL Server | 4242"]);
    assert_eq!(rows(&PROTOCOL, &talk, &["tds.prelogin.option.encryption"]), ["2,2"]);
}

#[test]
fn a_password_is_in_no_field() {
    let talk = begin();
    let outcome = crate::conversation::run(&PROTOCOL, &Conversation::parse(&talk));
    assert!(outcome.sessions[0].contains("sqlcmd") && !outcome.sessions[0].contains("secret"));
}

#[test]
fn a_login_fails_for_the_first_reason() {
    let answer = [&error(4060, "No such database")[..], &error(18456, "Login failed"), &DONE].concat();
    let talk = begin() + &format!("< {}\n", packet(ANSWER, &answer));
    assert_eq!(
        rows(&PROTOCOL, &talk, &["success", "error_number", "error", "server_program"]),
        ["false | 4060 | No such database | -"]
    );
}

#[test]
fn a_login_is_unanswered() {
    assert_eq!(rows(&PROTOCOL, &begin(), &["user", "success"]), ["sa | -"]);
    let talk = begin() + "< gap 400\n" + &format!("> {}\n", packet(1, &[0; 40]));
    assert_eq!(rows(&PROTOCOL, &talk, &["user", "success"]), ["sa | -"]);
}

#[test]
fn a_login_without_negotiation_has_a_result() {
    let old =
        ack().iter().enumerate().map(|(at, byte)| if at == 4 { 0x07 } else { *byte }).collect::<Vec<_>>();
    let talk = format!("> {}\n< {}\n", packet(LOGIN7, &sa()), packet(ANSWER, &[&old[..], &DONE].concat()));
    assert_eq!(
        rows(&PROTOCOL, &talk, &["tds_version", "server_version", "encryption", "success"]),
        ["7.0 | 16.0.1000 | - | true"]
    );
}

#[test]
fn further_messages_precede_the_result() {
    let talk = begin()
        + &format!("< {}\n", packet(ANSWER, &token(0xed, b"challenge")))
        + &format!("> {}\n", packet(SSPI, b"response"))
        + &format!("< {}\n", packet(ANSWER, &[&ack()[..], &DONE].concat()));
    assert_eq!(rows(&PROTOCOL, &talk, &["success"]), ["true"]);
}

#[test]
fn messages_of_several_packets_are_joined() {
    let (login, answer) = (sa(), [&ack()[..], &DONE].concat());
    let talk = format!(
        "> {}{}\n< {}\n< {}\n",
        part(LOGIN7, 0, &login[..100]),
        packet(LOGIN7, &login[100..]),
        part(ANSWER, 0, &answer[..7]),
        packet(ANSWER, &answer[7..])
    );
    assert_eq!(rows(&PROTOCOL, &talk, &["user", "database", "success"]), ["sa | master | true"]);
}

/// An inner stream: the lengths of its gaps, each with the bytes behind it.
type Stream = Vec<(u64, Vec<u8>)>;

/// The number of sessions, the inner stream of each side, and the number of parts that were cut.
fn inner(talk: &Conversation) -> (usize, [Stream; 2], u64) {
    let (mut parser, mut sessions) = (TdsParser::default(), vec![]);
    let (mut pieces, mut has_inner) = (vec![], false);
    for step in &talk.steps {
        let progress = match &step.act {
            Act::Send(bytes) => {
                let data = Data { from: step.from, time: step.time, bytes, is_datagram: false };
                parser.parse(&data, &mut sessions)
            }
            Act::Lose(bytes) => parser.gap(step.from, *bytes, &mut sessions),
        };
        has_inner |= progress == Progress::Inner;
        // As the engine does.
        if has_inner {
            parser.take_inner(&mut pieces);
        }
        if progress == Progress::Done {
            break;
        }
    }
    parser.finish(&mut sessions);
    let of = |from| {
        let mut joined: Stream = vec![(0, vec![])];
        for piece in pieces.iter().filter(|piece: &&InnerPiece| piece.from == from) {
            if piece.gap_bytes > 0 {
                joined.push((piece.gap_bytes, vec![]));
            }
            joined.last_mut().expect("one at least").1.extend(&piece.bytes);
        }
        joined
    };
    (sessions.len(), [of(Direction::Originator), of(Direction::Responder)], parser.cut_off().parts)
}

const HELLO: [u8; 9] = [22, 3, 1, 0, 4, 1, 0, 0, 0];
const FLIGHT: [u8; 12] = [22, 3, 3, 0, 7, 2, 0, 0, 3, 0, 0, 0];
const DATA: [u8; 8] = [23, 3, 3, 0, 3, 7, 7, 7];

/// A negotiation of encryption, and a handshake of TLS in packets.
fn handshake(encryption: u8) -> String {
    format!(
        "> {}\n< {}\n> {}\n< {}{}\n",
        packet(PRELOGIN, &prelogin(0)),
        packet(ANSWER, &prelogin(encryption)),
        packet(PRELOGIN, &HELLO),
        part(PRELOGIN, 0, &FLIGHT[..8]),
        packet(PRELOGIN, &FLIGHT[8..])
    )
}

#[test]
fn tls_within_packets_and_behind_them_is_an_inner_stream() {
    let data = hex(&DATA);
    let talk = handshake(3) + &format!("> {data}{data}\n< {data}\n> {data}\n< {data}\n");
    let client = [&HELLO[..], &DATA, &DATA].concat();
    let server = [&FLIGHT[..], &DATA].concat();
    let talk = Conversation::parse(&talk);
    // The handshake is over when both sides have sent data.
    let expected = (1, [vec![(0, client)], vec![(0, server)]], 0);
    assert_eq!(inner(&talk), expected);
    assert_eq!(inner(&talk.cut(&[1])), expected);
    assert_eq!(rows(&PROTOCOL, &talk.to_string(), &["encryption", "user", "success"]), ["required | - | -"]);
}

#[test]
fn behind_an_encrypted_login_the_answer_is_in_clear() {
    let answer = packet(ANSWER, &[&ack()[..], &DONE].concat());
    let talk = handshake(0) + &format!("> {}\n< {answer}\n", hex(&DATA));
    assert_eq!(rows(&PROTOCOL, &talk, &["encryption", "user", "success"]), ["off | - | true"]);
    let client = [&HELLO[..], &DATA].concat();
    let talk = Conversation::parse(&talk);
    assert_eq!(inner(&talk), (1, [vec![(0, client)], vec![(0, FLIGHT.to_vec())]], 0));
}

#[test]
fn losses_are_passed_on_to_tls() {
    let data = hex(&DATA);
    let talk = handshake(3) + &format!("> gap 50\n> {data}\n< gap 7\n< gap 2\n< {data}\n");
    let client = vec![(0, HELLO.to_vec()), (50, DATA.to_vec())];
    let server = vec![(0, FLIGHT.to_vec()), (9, DATA.to_vec())];
    assert_eq!(inner(&Conversation::parse(&talk)), (1, [client, server], 0));
}

#[test]
fn of_one_side_of_tls_a_bound_is_passed_on() {
    let record = [&[23, 3, 3, 0x40, 0][..], &[7; 0x4000]].concat();
    let mut talk = Conversation::parse(&handshake(3));
    for _ in 0..40 {
        talk.push(Direction::Originator, Act::Send(record.clone()));
    }
    let (sessions, [client, _], _) = inner(&talk);
    assert_eq!((sessions, client[0].1.len()), (1, HELLO.len() + 16 * record.len()));
}

#[test]
fn long_messages_and_names_are_cut_and_counted() {
    let long = "x".repeat(300);
    let login = login([&long, "sa", "", "", "", "", "", "", &long]);
    let talk = format!("> {}\n", packet(LOGIN7, &login));
    assert_eq!(rows(&PROTOCOL, &talk, &["hostname", "user"]), [format!("{} | sa", "x".repeat(128))]);
    assert_eq!(inner(&Conversation::parse(&talk)).2, 2);
    let talk = format!("> {}\n< {}\n", packet(LOGIN7, &sa()), packet(ANSWER, &error(1, &"e".repeat(600))));
    assert_eq!(rows(&PROTOCOL, &talk, &["error"]), ["e".repeat(512)]);
    assert_eq!(inner(&Conversation::parse(&talk)).2, 1);
    // 60 KB of SSPI behind the names: they are read, and the rest is not kept.
    let sspi = vec![7; 20_000];
    let packets = [&sa(), &sspi, &sspi].map(|content| part(LOGIN7, 0, content)).concat();
    let talk = format!("> {packets}{}\n", packet(LOGIN7, &sspi));
    assert_eq!(rows(&PROTOCOL, &talk, &["user", "database"]), ["sa | master"]);
    assert_eq!(inner(&Conversation::parse(&talk)).2, 1);
}

#[test]
fn what_is_no_packet_ends_the_session() {
    let talk = begin() + "> 05010020\n< 04010003\n" + &format!("< {}\n", packet(ANSWER, &ack()));
    assert_eq!(rows(&PROTOCOL, &talk, &["user", "success"]), ["sa | -"]);
    assert!(rows(&PROTOCOL, &format!("> {}\n", packet(1, &[0; 40])), &["user"]).is_empty());
}

fn probe(bytes: &[u8]) -> Probe {
    (PROTOCOL.probe)(&Opening { originator: bytes, ..Opening::default() })
}

/// The verdict on a packet, which is the same on each longer part of it once it is final.
fn verdict(kind: u8, status: u8, content: &[u8]) -> Probe {
    let talk = Conversation::parse(&format!("> {}\n", part(kind, status, content)));
    let bytes = talk.bytes_of(Direction::Originator);
    let verdicts: Vec<Probe> = (0..=bytes.len()).map(|length| probe(&bytes[..length])).collect();
    let last = *verdicts.last().expect("one at least");
    let unsure = verdicts.iter().take_while(|verdict| **verdict == Probe::Unsure).count();
    assert!(verdicts[unsure..].iter().all(|verdict| *verdict == last), "{verdicts:?}");
    last
}

#[test]
fn a_client_is_recognised() {
    assert_eq!(verdict(PRELOGIN, 1, &prelogin(0)), Probe::Certain);
    assert_eq!(verdict(PRELOGIN, 0, &prelogin(0)), Probe::Certain);
    assert_eq!(verdict(LOGIN7, 1, &sa()), Probe::Certain);
    assert_eq!(verdict(LOGIN7, 0, &sa()[..100]), Probe::Certain);
    assert_eq!(probe(&[]), Probe::Unsure);
    let turned = Opening { responder: &[0x12, 1, 0], ..Opening::default() };
    assert_eq!((PROTOCOL.probe)(&turned), Probe::Unsure);
}

#[test]
fn malformed_options_are_not_recognised() {
    let with = |at: usize, byte: u8| {
        let mut content = prelogin(0);
        content[at] = byte;
        verdict(PRELOGIN, 1, &content)
    };
    assert_eq!(with(0, 1), Probe::NotForUs, "VERSION is not the first");
    assert_eq!(with(0, 0xff), Probe::NotForUs, "no option");
    assert_eq!(with(5, 0), Probe::NotForUs, "VERSION twice");
    assert_eq!(with(4, 5), Probe::NotForUs, "another length of VERSION");
    assert_eq!(with(7, 32), Probe::NotForUs, "beyond the packet");
    assert_eq!(with(14, 4), Probe::Certain, "values may overlap");
    assert_eq!(with(20, 0x20), Probe::NotForUs, "an unknown option in place of the end");
    assert_eq!(verdict(PRELOGIN, 1, &prelogin(0)[..20]), Probe::NotForUs, "no end");
    let many = [&prelogin(0)[..5], &[1, 0, 0, 0, 1].repeat(20), &[0xff]].concat();
    assert_eq!(verdict(PRELOGIN, 1, &many), Probe::NotForUs, "too many");
    assert_eq!(TdsPrelogin::parse(&many), None);
}

#[test]
fn malformed_logins_are_not_recognised() {
    let with = |at: usize, byte: u8| {
        let mut content = sa();
        content[at] = byte;
        verdict(LOGIN7, 1, &content)
    };
    assert_eq!(with(0, 1), Probe::NotForUs, "another length");
    assert_eq!(with(7, 0x75), Probe::NotForUs, "an unknown version");
    assert_eq!(verdict(LOGIN7, 0, &sa()), Probe::NotForUs, "nothing is left for further packets");
    assert_eq!(verdict(LOGIN7, 1, &sa()[..60]), Probe::NotForUs, "too short");
}

#[test]
fn other_protocols_are_not_recognised() {
    // MQTT, TLS, SOCKS 4, an answer, a query, a client with a process number.
    assert_eq!(probe(b"\x10\x0c\0\x04MQTT"), Probe::NotForUs);
    assert_eq!(probe(&HELLO), Probe::NotForUs);
    assert_eq!(probe(&[4, 1, 0, 80, 127, 0, 0, 1, 0]), Probe::NotForUs);
    assert_eq!(verdict(ANSWER, 1, &prelogin(0)), Probe::NotForUs);
    assert_eq!(verdict(1, 1, &[0; 40]), Probe::NotForUs);
    assert_eq!(probe(&[0x12, 1, 0, 47, 0, 5]), Probe::NotForUs);
    assert_eq!(probe(b"\x12\x01\0\x07"), Probe::NotForUs);
    assert_eq!(verdict(PRELOGIN, 1, &HELLO), Probe::NotForUs);
    // On a port of DNS, the same bytes may be a message of DNS without questions.
    let mut bytes = Conversation::parse(&begin()).bytes_of(Direction::Originator);
    bytes[6] = 0;
    let on_port =
        |port| (PROTOCOL.probe)(&Opening { originator: &bytes, ports: [9, port], ..Opening::default() });
    assert_eq!((on_port(1433), on_port(53)), (Probe::Certain, Probe::NotForUs));
}

#[test]
fn little_is_held() {
    let conversation = Conversation::parse(&format!("> {}\n", part(LOGIN7, 0, &vec![7; 32_000])));
    let bytes = conversation.bytes_of(Direction::Originator);
    let before = weir_memory::live_bytes();
    let mut parser = (PROTOCOL.open)(&Context::default());
    let mut sessions = vec![];
    for _ in 0..100 {
        let data =
            Data { from: Direction::Originator, time: Timestamp(0), bytes: &bytes, is_datagram: false };
        assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
    }
    assert!(weir_memory::live_bytes() - before < 128 << 10);
}

//! Ladders of queries and answers: the messages of each side, and the resulting transactions.

use super::*;
use crate::conversation::{Conversation, run};
use crate::{Data, Direction, Progress, Session, SessionParser};
use Direction::{Originator as C, Responder as S};
use weir_memory::live_bytes;
use weir_packet::{Timestamp, Value};

/// A query with this ID for the address of `name`, a single label.
fn query(id: u8, name: &str) -> Vec<u8> {
    [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8], name.as_bytes(), &[0, 0, 1, 0, 1]].concat()
}

/// The answer: 192.0.2.`id`, with a TTL of one minute.
fn answer(id: u8, name: &str) -> Vec<u8> {
    let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, id];
    let mut bytes = [query(id, name), record.to_vec()].concat();
    (bytes[2], bytes[3], bytes[7]) = (0x81, 0x80, 1);
    bytes
}

/// A message with its length prefix.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn take(
    parser: &mut DnsParser,
    from: Direction,
    millis: i64,
    bytes: &[u8],
    is_datagram: bool,
) -> Vec<Box<dyn Session>> {
    let mut sessions = Vec::new();
    let data = Data { from, time: Timestamp(millis * 1_000_000), bytes, is_datagram };
    // A datagram that is no message is left to others.
    let is_message = !is_datagram || Message::parse(bytes).is_some();
    let expected = if is_message { Progress::Wanted } else { Progress::NotMine };
    assert_eq!(parser.parse(&data, &mut sessions), expected);
    sessions
}

fn end(mut parser: DnsParser) -> Vec<Box<dyn Session>> {
    let mut sessions = Vec::new();
    parser.finish(&mut sessions);
    sessions
}

fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
    let is_it = |field: &crate::Field| field.name == name || field.column == name;
    session.value(PROTOCOL.fields.iter().position(is_it).expect(name))
}

fn shown(sessions: &[Box<dyn Session>]) -> Vec<String> {
    let show = |session: &dyn Session| {
        let transaction = session.as_any().downcast_ref::<DnsTransaction>().expect("DNS");
        let answers: Vec<String> = transaction.answers().iter().map(Record::answer).collect();
        let rtt = transaction.rtt_ns.map_or("-".to_owned(), |ns| (ns / 1_000_000).to_string());
        format!("{} {} {rtt}", transaction.name().unwrap_or("-"), answers.join(","))
    };
    sessions.iter().map(|session| show(session.as_ref())).collect()
}

#[test]
fn an_answer_ends_its_transaction() {
    let mut parser = DnsParser::default();
    assert!(take(&mut parser, C, 10, &query(7, "Www"), true).is_empty());
    let sessions = take(&mut parser, S, 35, &answer(7, "www"), true);
    assert_eq!(shown(&sessions), ["www 192.0.2.7 25"]);
    let session = sessions[0].as_ref();
    assert_eq!(session.time(), Some(Timestamp(10_000_000)));
    for (name, expected) in [
        ("proto", Value::Text("udp".into())),
        ("trans_id", Value::Unsigned(7)),
        ("qtype_name", Value::Text("A".into())),
        ("qclass_name", Value::Text("C_INTERNET".into())),
        ("rcode_name", Value::Text("NOERROR".into())),
        ("RD", Value::Bool(true)),
        ("RA", Value::Bool(true)),
        ("TTLs", Value::Numbers(vec![60].into())),
        ("rejected", Value::Bool(false)),
        ("dns.a", Value::Texts(vec!["192.0.2.7".to_owned()].into())),
        ("dns.original_query", Value::Text("Www".into())),
    ] {
        assert_eq!(value(session, name), expected, "{name}");
    }
    assert!(end(parser).is_empty());
}

#[test]
fn of_several_questions_the_row_has_the_one_that_is_answered() {
    let asked = b"\x01a\0\0\x01\0\x01\x01b\0\0\x1c\0\x01\x01b\0\0\x01\0\x01";
    let query = [&[0, 7, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0][..], asked].concat();
    let record = b"\x01b\0\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    let answer = [&[0, 7, 0x81, 0x80, 0, 3, 0, 1, 0, 0, 0, 0][..], asked, record].concat();
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &query, true);
    let sessions = take(&mut parser, S, 1, &answer, true);
    assert_eq!(shown(&sessions), ["b 192.0.2.1 1"]);
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| text.to_string()).collect());
    for (name, expected) in [
        ("qtype_name", Value::Text("A".into())),
        ("questions", texts(&["a A", "b AAAA", "b A"])),
        ("dns.qry.name", texts(&["a", "b", "b"])),
        ("dns.qry.qu", Value::Bool(false)),
    ] {
        assert_eq!(value(sessions[0].as_ref(), name), expected, "{name}");
    }
    take(&mut parser, C, 2, &query, true);
    assert_eq!(shown(&end(parser)), ["a  -"], "unanswered, the first question");
}

#[test]
fn a_multicast_question_may_request_a_unicast_answer() {
    let query = b"\0\0\0\0\0\x01\0\0\0\0\0\0\x01a\x05local\0\0\x0c\x80\x01";
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, query, true);
    let sessions = end(parser);
    for (name, expected) in [
        ("qclass", Value::Unsigned(1)),
        ("questions", Value::Texts(vec!["a.local PTR QU".to_owned()].into())),
        ("dns.qry.qu", Value::Bool(true)),
    ] {
        assert_eq!(value(sessions[0].as_ref(), name), expected, "{name}");
    }
}

#[test]
fn answers_find_their_queries_in_any_order() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &query(1, "a"), true);
    take(&mut parser, C, 1, &query(1, "b"), true);
    take(&mut parser, C, 2, &query(2, "c"), true);
    assert_eq!(shown(&take(&mut parser, S, 3, &answer(2, "c"), true)), ["c 192.0.2.2 1"]);
    assert_eq!(shown(&take(&mut parser, S, 4, &answer(1, "b"), true)), ["b 192.0.2.1 3"], "by its question");
    assert_eq!(shown(&take(&mut parser, S, 5, &answer(1, "a"), true)), ["a 192.0.2.1 5"]);
}

#[test]
fn what_finds_no_partner_is_yielded_at_the_end() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &query(1, "lost"), true);
    take(&mut parser, S, 1, &answer(2, "other"), true);
    take(&mut parser, C, 2, &answer(1, "lost"), true); // the client's own answer: multicast
    let sessions = end(parser);
    assert_eq!(shown(&sessions), ["lost  -", "other 192.0.2.2 -", "lost 192.0.2.1 -"]);
    assert_eq!(value(sessions[0].as_ref(), "rcode"), Value::Absent);
    assert_eq!(value(sessions[1].as_ref(), "dns.unsolicited"), Value::Bool(true));
}

#[test]
fn an_answer_that_comes_before_its_query_is_matched() {
    let mut parser = DnsParser::default();
    take(&mut parser, S, 0, &answer(1, "a"), true);
    assert_eq!(shown(&take(&mut parser, C, 1, &query(1, "a"), true)), ["a 192.0.2.1 -"]);
}

#[test]
fn a_query_sent_again_is_a_transaction_of_its_own() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &query(1, "a"), true);
    take(&mut parser, C, 1000, &query(1, "a"), true);
    let first = take(&mut parser, S, 1001, &answer(1, "a"), true);
    assert_eq!(shown(&first), ["a 192.0.2.1 1001"]);
    let second = end(parser);
    assert_eq!(shown(&second), ["a  -"]);
    assert_eq!(value(second[0].as_ref(), "dns.retransmission"), Value::Bool(true));
    assert_eq!(value(first[0].as_ref(), "dns.retransmission"), Value::Bool(false));
}

#[test]
fn of_a_zone_in_many_messages_the_first_is_the_answer() {
    let transfer = |mut message: Vec<u8>| {
        message[12 + 3 + 1] = 252;
        framed(&message)
    };
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &transfer(query(5, "z")), false);
    let sessions = take(&mut parser, S, 1, &transfer(answer(5, "z")).repeat(10), false);
    assert_eq!(shown(&sessions), ["z 192.0.2.5 1"]);
    assert_eq!((parser.cut_off().parts, end(parser).len()), (9, 0));
}

#[test]
fn nobody_waits_for_more_than_a_minute() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &query(1, "old"), true);
    assert_eq!(shown(&take(&mut parser, C, 61_000, &query(2, "new"), true)), ["old  -"]);
}

#[test]
fn what_waits_is_bounded() {
    let before = live_bytes();
    let mut parser = DnsParser::default();
    let mut yielded = 0;
    for id in 0..200 {
        yielded += take(&mut parser, C, 0, &query(id, "x"), true).len();
        assert!(live_bytes() - before < WAITING_BYTES_MAX as isize);
    }
    assert_eq!((yielded, end(parser).len()), (200 - WAITING_MAX, WAITING_MAX));
}

#[test]
fn large_answers_without_queries_are_not_kept() {
    let record = [&b"\0\0\x10\0\x01\0\0\0\x3c\x0f\xff"[..], &[40; 4095]].concat();
    let mut response = record.repeat(15);
    response.splice(..0, [0, 9, 0x81, 0x80, 0, 0, 0, 15, 0, 0, 0, 0]);
    let before = live_bytes();
    let mut parser = DnsParser::default();
    for _ in 0..20 {
        take(&mut parser, S, 0, &response, true);
        assert!(live_bytes() - before <= WAITING_BYTES_MAX as isize);
    }
    assert_eq!(end(parser).len(), 2);
}

#[test]
fn a_stream_is_read_in_pieces_of_any_size() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &[framed(&query(1, "a")), framed(&query(2, "b"))].concat(), false);
    let bytes = [framed(&answer(2, "b")), framed(&answer(1, "a"))].concat();
    let mut sessions = Vec::new();
    for byte in &bytes {
        sessions.append(&mut take(&mut parser, S, 1, &[*byte], false));
    }
    assert_eq!(shown(&sessions), ["b 192.0.2.2 1", "a 192.0.2.1 1"]);
    assert_eq!(value(sessions[0].as_ref(), "proto"), Value::Text("tcp".into()));
}

#[test]
fn a_gap_loses_one_side_of_a_stream_and_two_end_it() {
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, &framed(&query(1, "a")), false);
    let mut sessions = Vec::new();
    assert_eq!(parser.gap(S, 5, &mut sessions), Progress::Wanted);
    take(&mut parser, S, 1, &framed(&answer(1, "a")), false);
    take(&mut parser, C, 2, &framed(&query(2, "b")), false);
    assert_eq!(parser.gap(C, 1, &mut sessions), Progress::Done);
    assert_eq!(shown(&sessions), ["a  -", "b  -"]);
}

#[test]
fn what_is_no_message_loses_a_stream_and_nothing_else() {
    let text = "> 000c \"garbage.....\" 001d 000101000001000000000000 \"\\x07example\\x03com\" 00 00010001
        < 001d 000181000001000000000000 \"\\x07example\\x03com\" 00 00010001";
    assert_eq!(run(&PROTOCOL, &Conversation::parse(text)).sessions.len(), 1, "the answer alone");
    let mut parser = DnsParser::default();
    take(&mut parser, C, 0, b"garbage", true);
    take(&mut parser, C, 0, &query(1, "a"), true);
    assert_eq!(end(parser).len(), 1);
}

#[test]
fn names_of_fields_are_distinct_and_begin_with_the_protocol() {
    let mut seen = std::collections::HashSet::new();
    for field in PROTOCOL.fields {
        for name in field.aliases.iter().chain([&field.name]) {
            assert!(seen.insert(*name) && name.starts_with("dns."), "{name}");
        }
    }
}

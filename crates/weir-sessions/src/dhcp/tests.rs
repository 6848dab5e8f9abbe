//! Ladders of transactions: the messages of each side, and the resulting rows.

use super::*;
use Direction::{Originator as C, Responder as S};
use weir_packet::{Timestamp, Value};

/// A message: operation, transaction ID, assigned address, options.
fn message(operation: u8, transaction: u8, yours: [u8; 4], options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 236];
    bytes[..8].copy_from_slice(&[operation, 1, 6, 0, 0, 0, 0, transaction]);
    bytes[16..20].copy_from_slice(&yours);
    bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    bytes.extend([0x63, 0x82, 0x53, 0x63]);
    bytes.extend(options);
    bytes
}

fn discover(transaction: u8) -> Vec<u8> {
    message(1, transaction, [0; 4], &[53, 1, 1, 12, 2, b'p', b'c', 55, 3, 1, 3, 6, 50, 4, 192, 0, 2, 5, 255])
}

fn ack(transaction: u8) -> Vec<u8> {
    let options = [
        53, 1, 5, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 0x0e, 0x10, 15, 4, b'h', b'o', b'm', b'e', 3, 4, 192, 0,
        2, 1, 255,
    ];
    message(2, transaction, [192, 0, 2, 5], &options)
}

fn take(parser: &mut DhcpParser, from: Direction, seconds: i64, bytes: &[u8]) -> Vec<Box<dyn Session>> {
    let mut sessions = Vec::new();
    let data = Data { from, time: Timestamp(seconds * 1_000_000_000), bytes, is_datagram: true };
    assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
    sessions
}

fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
    let is_it = |field: &crate::Field| field.name == name || field.column == name;
    session.value(PROTOCOL.fields.iter().position(is_it).expect(name))
}

fn texts(list: &[&str]) -> Value<'static> {
    Value::Texts(list.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn an_address_is_given() {
    let mut parser = DhcpParser::default();
    assert!(take(&mut parser, C, 1, &discover(7)).is_empty());
    assert!(take(&mut parser, S, 2, &message(2, 7, [192, 0, 2, 5], &[53, 1, 2, 255])).is_empty());
    assert!(take(&mut parser, C, 3, &message(1, 7, [0; 4], &[53, 1, 3, 255])).is_empty());
    let sessions = take(&mut parser, S, 4, &ack(7));
    let session = sessions[0].as_ref();
    for (name, expected) in [
        ("client_addr", Value::Address([192, 0, 2, 5].into())),
        ("server_addr", Value::Address([192, 0, 2, 1].into())),
        ("mac", Value::Mac([2, 0, 0, 0, 0, 9])),
        ("host_name", Value::Text("pc".into())),
        ("domain", Value::Text("home".into())),
        ("requested_addr", Value::Address([192, 0, 2, 5].into())),
        ("assigned_addr", Value::Address([192, 0, 2, 5].into())),
        ("lease_time", Value::Interval(3_600_000_000_000)),
        ("msg_types", texts(&["DISCOVER", "OFFER", "REQUEST", "ACK"])),
        ("duration", Value::Interval(3_000_000_000)),
        ("dhcp.id", Value::Unsigned(7)),
        ("dhcp.option.router", texts(&["192.0.2.1"])),
        ("dhcp.option.request_list_item", Value::Numbers(vec![1, 3, 6].into())),
    ] {
        assert_eq!(value(session, name), expected, "{name}");
    }
}

#[test]
fn transactions_are_told_apart_and_end_in_time() {
    let mut parser = DhcpParser::default();
    take(&mut parser, C, 0, &discover(1));
    take(&mut parser, C, 0, &discover(2));
    assert_eq!(take(&mut parser, S, 1, &ack(2)).len(), 1);
    assert_eq!(take(&mut parser, C, 40, &discover(3)).len(), 1, "nobody answers the first any more");
    let mut sessions = Vec::new();
    parser.finish(&mut sessions);
    assert_eq!(value(sessions[0].as_ref(), "dhcp.id"), Value::Unsigned(3));
    assert_eq!(value(sessions[0].as_ref(), "assigned_addr"), Value::Absent);
}

#[test]
fn what_is_open_is_bounded() {
    let mut parser = DhcpParser::default();
    let yielded: usize =
        (0..200).map(|transaction| take(&mut parser, C, 0, &discover(transaction)).len()).sum();
    assert_eq!(yielded, 200 - OPEN_MAX);
    for _ in 0..100 {
        take(&mut parser, C, 0, &discover(199));
    }
    assert_eq!(parser.cut_off().parts, 101 - MESSAGES_MAX as u64);
}

#[test]
fn options_may_stand_in_fields_of_bootp_and_names_in_the_form_of_dns() {
    let mut bytes =
        message(1, 7, [0; 4], &[52, 1, 1, 0, 81, 9, 4, 0, 0, 1, b'a', 2, b'b', b'c', 0, 53, 1, 8, 255]);
    bytes[108..112].copy_from_slice(&[12, 1, b'x', 255]);
    let message = Message::parse(&bytes).expect("whole");
    assert_eq!(message.options.host_name.as_deref(), Some("x"));
    assert_eq!(message.options.client_fqdn.as_deref(), Some("a.bc"));
    assert_eq!(message.options.numbers, [52, 81, 53, 12]);
    assert_eq!(kind_name(8), "INFORM");
    assert_eq!(kind_name(0), "unknown-0");
}

#[test]
fn the_cookie_tells() {
    let probe = |originator: &[u8]| {
        (PROTOCOL.probe)(&Opening { originator, is_datagram: true, ..Opening::default() })
    };
    assert_eq!(probe(&discover(1)), Probe::Certain);
    assert_eq!(probe(&discover(1)[..239]), Probe::NotForUs);
    assert_eq!(probe(&[1; 300]), Probe::NotForUs);
}

#[test]
fn names_of_fields_are_distinct_and_begin_with_the_protocol() {
    let mut seen = std::collections::HashSet::new();
    for field in PROTOCOL.fields {
        for name in field.aliases.iter().chain([&field.name]) {
            assert!(seen.insert(*name) && name.starts_with("dhcp."), "{name}");
        }
    }
}

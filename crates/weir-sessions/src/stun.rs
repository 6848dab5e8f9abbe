//! STUN and TURN over UDP (RFC 8489, RFC 8656): one [`StunTransaction`] for each request with its response.
//!
//! Indications that carry relayed data (Send, Data) are skipped: each would be a session of its own. If DTLS
//! follows in the same flow (RFC 7983), the parser hands over.

use crate::pairing::{Exchange, Held, Pairing};
use crate::session::{Words, named, session_fields};
use crate::values::{numbers, owned, readable, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "stun",
    service: "stun",
    log: "stun",
    transports: &["udp"],
    ports: &[3478],
    hands_over: &["dtls", "rtp"],
    doc: "STUN and TURN: requests with their answers (RFC 8489, RFC 8656)",
    probe,
    may_begin,
    open: |_| Box::new(StunParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "method", "result", "mapped_addr", "mapped_port", "username"],
    fields: FIELDS,
};

/// Two zero bits first, and the first half of the magic cookie.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte & 0xc0 == 0),
        at @ 4..=5 => ByteSet::of(|byte| byte == COOKIE[at - 4]),
        _ => ByteSet::ALL,
    }
}

/// Magic cookie, at the fifth byte of every message.
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// Maximum number of requests of a flow that wait for their responses.
pub const WAITING_MAX: usize = 64;

/// Maximum number of attribute types kept of a message.
const ATTRIBUTES_MAX: usize = 64;

/// Maximum number of bytes kept of a text: the protocol's maximum (§14).
const TEXT_BYTES_MAX: usize = 763;

/// A message (§5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Method: 1 Binding, 3 Allocate …
    pub method: u16,
    /// Class: 0 request, 1 indication, 2 success, 3 error.
    pub class: u8,
    /// Transaction id.
    pub transaction: [u8; 12],
    /// Types of the attributes, in order.
    pub attributes: Vec<u16>,
    /// USERNAME.
    pub username: Option<String>,
    /// REALM.
    pub realm: Option<String>,
    /// SOFTWARE.
    pub software: Option<String>,
    /// The client's address as the server sees it: (XOR-)MAPPED-ADDRESS.
    pub mapped: Option<(IpAddr, u16)>,
    /// The relay address allocated for the client: XOR-RELAYED-ADDRESS.
    pub relayed: Option<(IpAddr, u16)>,
    /// The peer of a permission or a channel: XOR-PEER-ADDRESS.
    pub peer: Option<(IpAddr, u16)>,
    /// ERROR-CODE with its reason.
    pub error: Option<(u16, String)>,
}

/// A request with its response, or either alone if the other was not seen; an indication is a request without
/// a response.
pub type StunTransaction = Exchange<Message>;

impl Message {
    /// Parses a datagram. `None` if it is not STUN, or its length field does not fit. Attributes are read up
    /// to the first truncated one.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let (kind, length) = (reader.u16()?, reader.u16()?);
        if kind & 0xc000 != 0 || reader.array()? != COOKIE {
            return None;
        }
        // Microsoft's variant (MS-TURN §2.2.2) does not pad attributes.
        let is_padded = length % 4 == 0;
        if !is_padded && datagram.len() != 20 + usize::from(length) {
            return None;
        }
        // The two bits of the class are interleaved with those of the method.
        let method = kind & 0xf | kind >> 1 & 0x70 | kind >> 2 & 0xf80;
        let class = (kind >> 4 & 1 | kind >> 7 & 2) as u8;
        let mut message = Self { method, class, transaction: reader.array()?, ..Self::default() };
        let mut attributes = Reader::new(reader.take(length.into())?);
        while let (Some(kind), Some(length)) = (attributes.u16(), attributes.u16()) {
            let Some(value) = attributes.take(length.into()) else { break };
            attributes.take_up_to(if is_padded { length.wrapping_neg() & 3 } else { 0 });
            if message.attributes.len() < ATTRIBUTES_MAX {
                message.attributes.push(kind);
                let _ = message.take_attribute(kind, value);
            }
        }
        Some(message)
    }

    fn take_attribute(&mut self, kind: u16, value: &[u8]) -> Option<()> {
        let text = || Some(readable(&value[..value.len().min(TEXT_BYTES_MAX)]).into_owned());
        match kind {
            0x0001 => self.mapped = self.mapped.or(read_address(value, None)),
            0x0006 => self.username = text(),
            0x0009 => {
                let ([_, _, class, number], reason) = value.split_first_chunk::<4>()?;
                let code = u16::from(class & 7) * 100 + u16::from(*number);
                let reason = &reason[..reason.len().min(TEXT_BYTES_MAX)];
                self.error = Some((code, readable(reason).into_owned()));
            }
            0x0012 => self.peer = self.peer.or(read_address(value, Some(&self.transaction))),
            0x0014 => self.realm = text(),
            0x0016 => self.relayed = read_address(value, Some(&self.transaction)),
            // 0x8020 is Microsoft's number of the attribute.
            0x0020 | 0x8020 => self.mapped = read_address(value, Some(&self.transaction)),
            0x8022 => self.software = text(),
            _ => {}
        }
        Some(())
    }

    /// Whether the message only carries relayed data.
    fn is_cargo(&self) -> bool {
        self.class == 1 && matches!(self.method, 6 | 7)
    }
}

impl Held for Message {
    fn held_bytes(&self) -> usize {
        let reason = self.error.as_ref().map(|error| &error.1);
        let texts = [self.username.as_ref(), self.realm.as_ref(), self.software.as_ref(), reason];
        self.attributes.len() * 2 + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// Reads an address and port (§14.1). With a transaction id, reverses the XOR that protects it from address
/// rewriting (§14.2).
fn read_address(value: &[u8], transaction: Option<&[u8; 12]>) -> Option<(IpAddr, u16)> {
    let mut mask = [0; 16];
    if let Some(transaction) = transaction {
        mask[..4].copy_from_slice(&COOKIE);
        mask[4..].copy_from_slice(transaction);
    }
    let ([_, family, high, low], address) = value.split_first_chunk::<4>()?;
    let port = u16::from_be_bytes([high ^ mask[0], low ^ mask[1]]);
    let mut bytes = mask;
    let length = if *family == 1 { 4 } else { 16 };
    for (byte, sent) in bytes.iter_mut().zip(address.get(..length)?) {
        *byte ^= sent;
    }
    let [a, b, c, d, ..] = bytes;
    let address = if *family == 1 { IpAddr::from([a, b, c, d]) } else { Ipv6Addr::from(bytes).into() };
    Some((address, port))
}

/// The name of a method (IANA "STUN Methods"): `Binding`.
pub fn method_name(method: u16) -> Cow<'static, str> {
    match method {
        1 => "Binding".into(),
        2 => "SharedSecret".into(),
        3 => "Allocate".into(),
        4 => "Refresh".into(),
        6 => "Send".into(),
        7 => "Data".into(),
        8 => "CreatePermission".into(),
        9 => "ChannelBind".into(),
        10 => "Connect".into(),
        11 => "ConnectionBind".into(),
        12 => "ConnectionAttempt".into(),
        _ => format!("unknown-{method}").into(),
    }
}

/// Recognises the cookie and the length.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_stun = |datagram| Message::parse(datagram).is_some();
    if opening.is_datagram && (is_stun(opening.originator) || is_stun(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the transactions of one flow.
#[derive(Debug, Default)]
pub struct StunParser {
    pairing: Pairing<Message, WAITING_MAX>,
}

impl SessionParser for StunParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        // First bytes of DTLS are 20 to 63, of RTP and RTCP 128 to 191, of STUN 0 to 3 (RFC 7983 §7).
        if matches!(data.bytes.first(), Some(20..=63 | 128..=191)) {
            return Progress::NotMine;
        }
        if let Some(message) = Message::parse(data.bytes).filter(|message| !message.is_cargo()) {
            self.take_message(data, message, sessions);
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.pairing.take_all().map(|unanswered| unanswered as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        self.pairing.cut_off()
    }
}

impl StunParser {
    fn take_message(&mut self, data: &Data<'_>, message: Message, sessions: &mut Vec<Box<dyn Session>>) {
        let Data { from, time, .. } = *data;
        // A retransmission has the transaction id of the first request (§6.2.1), as has the response.
        let same = |one: &Message, other: &Message| one.transaction == other.transaction;
        match message.class {
            0 => {
                let oldest = self.pairing.ask(from, time, message, same);
                sessions.extend(oldest.map(|oldest| oldest as Box<dyn Session>));
            }
            1 => sessions.push(Box::new(StunTransaction::asked(from, time, message))),
            _ => sessions.push(self.pairing.answer(from, time, message, same)),
        }
    }
}

impl StunTransaction {
    fn text(&self, read: fn(&Message) -> &Option<String>) -> Option<&str> {
        self.messages().find_map(|message| read(message).as_deref())
    }

    /// Result: `success`, `error`, `indication`, `unanswered`.
    pub fn result(&self) -> &'static str {
        match (&self.request, &self.response) {
            (_, Some(response)) if response.class == 2 => "success",
            (_, Some(_)) => "error",
            (Some(request), None) if request.class == 1 => "indication",
            _ => "unanswered",
        }
    }
}

impl Session for StunTransaction {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Names of methods.
const METHODS: Words = Words { list: || named(0..=u16::MAX, method_name), others: &["unknown-"] };

session_fields! { StunTransaction;
    "stun.method" [] method: Text in METHODS, "Method of the request: Binding, Allocate" => |t| t.messages().next().map_or(Value::Absent, |m| Value::Text(method_name(m.method)));
    "stun.result" [] result: Text, "Result: success, error, indication, unanswered" => |t| text(Some(t.result()));
    "stun.time" ["stun.rtt"] rtt: Interval, "Time from request to answer" => |t| t.rtt_ns.map_or(Value::Absent, Value::Interval);
    "stun.att.username" ["stun.username"] username: Text, "User name" => |t| text(t.text(|m| &m.username));
    "stun.att.realm" ["stun.realm"] realm: Text, "Realm of the server" => |t| text(t.text(|m| &m.realm));
    "stun.att.software" ["stun.software"] software: Text, "Software of the server, or else of the client" => |t| text(t.response.iter().chain(&t.request).find_map(|m| m.software.as_deref()));
    "stun.mapped_addr" [] mapped_addr: Address, "Address of the client as the server sees it" => |t| address(t.response.as_ref().and_then(|m| m.mapped));
    "stun.mapped_port" [] mapped_port: Unsigned, "Port of the client as the server sees it" => |t| unsigned(t.response.as_ref().and_then(|m| m.mapped).map(|mapped| mapped.1));
    "stun.relayed_addr" [] relayed_addr: Address, "Relay address that the server allocates for the client" => |t| address(t.response.as_ref().and_then(|m| m.relayed));
    "stun.relayed_port" [] relayed_port: Unsigned, "Relay port that the server allocates for the client" => |t| unsigned(t.response.as_ref().and_then(|m| m.relayed).map(|relayed| relayed.1));
    "stun.peer_addr" [] peer_addr: Address, "Address of the peer of a permission or channel" => |t| address(t.messages().find_map(|m| m.peer));
    "stun.peer_port" [] peer_port: Unsigned, "Port of the peer of a permission or channel" => |t| unsigned(t.messages().find_map(|m| m.peer).map(|peer| peer.1));
    "stun.att.error" ["stun.error"] error: Unsigned, "Error code: 401" => |t| unsigned(t.response.as_ref().and_then(|m| m.error.as_ref()).map(|error| error.0));
    "stun.att.error.reason" ["stun.error_reason"] error_reason: Text, "Reason of the error" => |t| text(t.response.as_ref().and_then(|m| m.error.as_ref()).map(|error| error.1.as_str()));
    "stun.id" [] _: Text, "Number of the transaction, hexadecimal" => |t| t.messages().next().map_or(Value::Absent, |m| owned(crate::wire::hex(&m.transaction)));
    "stun.type.method" [] _: Unsigned, "Number of the method" => |t| unsigned(t.messages().next().map(|m| m.method));
    "stun.att.type" ["stun.attributes"] _: Numbers, "Attribute types of the request" => |t| t.request.as_ref().map_or(Value::Absent, |m| numbers(&m.attributes));
    "stun.response.attributes" [] _: Numbers, "Attribute types of the answer" => |t| t.response.as_ref().map_or(Value::Absent, |m| numbers(&m.attributes));
}

fn address(address: Option<(IpAddr, u16)>) -> Value<'static> {
    address.map_or(Value::Absent, |(address, _)| Value::Address(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Originator as C, Responder as S};

    fn message(kind: u16, transaction: u8, attributes: &[u8]) -> Vec<u8> {
        let length = (attributes.len() as u16).to_be_bytes();
        [&kind.to_be_bytes()[..], &length, &COOKIE, &[transaction; 12], attributes].concat()
    }

    fn take(parser: &mut StunParser, from: Direction, millis: i64, bytes: &[u8]) -> Vec<Box<dyn Session>> {
        let mut sessions = Vec::new();
        let data = Data { from, time: Timestamp(millis * 1_000_000), bytes, is_datagram: true };
        assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
        sessions
    }

    fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
        let is_it = |field: &crate::Field| field.name == name || field.column == name;
        session.value(FIELDS.iter().position(is_it).expect(name))
    }

    #[test]
    fn a_request_is_answered_with_the_clients_address() {
        let mut parser = StunParser::default();
        assert!(take(&mut parser, C, 0, &message(1, 7, &[0, 6, 0, 3, b'a', b':', b'b', 0])).is_empty());
        assert!(take(&mut parser, C, 5, &message(1, 7, &[])).is_empty(), "again");
        // 192.0.2.1 port 32853, XORed.
        let mapped = [0, 0x20, 0, 8, 0, 1, 0x80 ^ 0x21, 0x55 ^ 0x12, 192 ^ 0x21, 0x12, 2 ^ 0xa4, 1 ^ 0x42];
        let sessions = take(&mut parser, S, 30, &message(0x0101, 7, &mapped));
        let session = sessions[0].as_ref();
        for (name, expected) in [
            ("method", Value::Text("Binding".into())),
            ("result", Value::Text("success".into())),
            ("rtt", Value::Interval(30_000_000)),
            ("username", Value::Text("a:b".into())),
            ("mapped_addr", Value::Address([192, 0, 2, 1].into())),
            ("mapped_port", Value::Unsigned(0x8055)),
        ] {
            assert_eq!(value(session, name), expected, "{name}");
        }
    }

    #[test]
    fn errors_indications_and_silence_are_told_apart() {
        let mut parser = StunParser::default();
        take(&mut parser, C, 0, &message(3, 1, &[]));
        let error = [0, 9, 0, 8, 0, 0, 4, 1, b'U', b'n', b'a', b'u'];
        let sessions = take(&mut parser, S, 1, &message(0x0113, 1, &error));
        assert_eq!(value(sessions[0].as_ref(), "error"), Value::Unsigned(401));
        assert_eq!(value(sessions[0].as_ref(), "error_reason"), Value::Text("Unau".into()));
        let sessions = take(&mut parser, C, 2, &message(0x0011, 2, &[]));
        assert_eq!(value(sessions[0].as_ref(), "result"), Value::Text("indication".into()));
        assert!(take(&mut parser, C, 3, &message(0x0016, 3, &[])).is_empty(), "Send carries cargo");
        take(&mut parser, C, 4, &message(1, 4, &[]));
        let mut sessions = Vec::new();
        parser.finish(&mut sessions);
        assert_eq!(value(sessions[0].as_ref(), "result"), Value::Text("unanswered".into()));
    }

    #[test]
    fn microsofts_attributes_are_not_padded() {
        let bytes = message(0x0113, 1, &[0, 9, 0, 5, 0, 0, 4, 1, b'x', 0x80, 0x22, 0, 2, b'v', b'1']);
        let message = Message::parse(&bytes).expect("whole");
        assert_eq!((message.error, message.software.as_deref()), (Some((401, "x".into())), Some("v1")));
    }

    #[test]
    fn dtls_and_rtp_in_the_same_flow_are_others() {
        let mut parser = StunParser::default();
        for bytes in [&[22, 0xfe, 0xfd][..], &[0x80, 96, 0, 1]] {
            let data = Data { from: C, time: Timestamp(0), bytes, is_datagram: true };
            assert_eq!(parser.parse(&data, &mut Vec::new()), Progress::NotMine);
        }
    }

    #[test]
    fn the_cookie_and_the_length_tell() {
        let probe = |originator: &[u8]| {
            (PROTOCOL.probe)(&Opening { originator, is_datagram: true, ..Opening::default() })
        };
        let message = message(1, 7, &[0; 8]);
        assert_eq!(probe(&message), Probe::Certain);
        assert_eq!(probe(&message[..27]), Probe::NotForUs);
        assert_eq!(probe(&[0; 28]), Probe::NotForUs);
    }
}

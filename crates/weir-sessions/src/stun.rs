//! STUN and TURN (RFC 8489, RFC 8656, and RFC 3489 before): one [`StunTransaction`] for each request with its
//! response.
//!
//! Over TCP, messages follow each other without more (RFC 8489, section 6.2.2), or each has its length before
//! it (RFC 4571, which ICE uses: RFC 6544). Indications that carry relayed data (Send, Data) are skipped:
//! each would be a session of its own. If DTLS follows in the same flow of datagrams (RFC 7983), the parser
//! hands over.

use crate::frames::{Frames, Head, Next};
use crate::pairing::{Exchange, Held, Pairing};
use crate::session::{Words, named, session_fields};
use crate::values::{numbers, owned, readable, text, unsigned};
use crate::wire::{Reader, hex};
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
    transports: &["udp", "tcp"],
    ports: &[3478],
    hands_over: &["dtls", "rtp"],
    doc: "STUN and TURN: requests with their answers (RFC 8489, RFC 8656, RFC 3489)",
    probe,
    may_begin,
    open: |_| Box::new(StunParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "method", "result", "mapped_addr", "mapped_port", "username"],
    fields: FIELDS,
};

/// Two zero bits first; of a stream, a type of a known method, or a length.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 if place.is_datagram => ByteSet::of(|byte| byte & 0xc0 == 0),
        0 => ByteSet::of(|byte| usize::from(byte) << 8 <= MESSAGE_BYTES_MAX),
        _ => ByteSet::ALL,
    }
}

/// Magic cookie, at the fifth byte of every message since RFC 5389.
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// Length of a message without attributes.
const HEADER_BYTES: usize = 20;

/// Maximum length of a message over TCP.
pub const MESSAGE_BYTES_MAX: usize = 4096;

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
    /// The magic cookie; in RFC 3489, the first bytes of the transaction id.
    pub cookie: [u8; 4],
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
        let (kind, length, cookie) = (reader.u16()?, reader.u16()?, reader.array()?);
        if kind & 0xc000 != 0 || (cookie != COOKIE && !is_classic(datagram)) {
            return None;
        }
        // Microsoft's variant (MS-TURN §2.2.2) does not pad attributes.
        // Nor does RFC 3489.
        let is_padded = length % 4 == 0 && cookie == COOKIE;
        if !is_padded && datagram.len() != HEADER_BYTES + usize::from(length) {
            return None;
        }
        // The two bits of the class are interleaved with those of the method.
        let method = kind & 0xf | kind >> 1 & 0x70 | kind >> 2 & 0xf80;
        let class = (kind >> 4 & 1 | kind >> 7 & 2) as u8;
        let mut message = Self { method, class, cookie, transaction: reader.array()?, ..Self::default() };
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
            0x0012 => self.peer = self.peer.or(read_address(value, Some(self.mask()))),
            0x0014 => self.realm = text(),
            0x0016 => self.relayed = read_address(value, Some(self.mask())),
            // 0x8020 is Microsoft's number of the attribute.
            0x0020 | 0x8020 => self.mapped = read_address(value, Some(self.mask())),
            0x8022 => self.software = text(),
            _ => {}
        }
        Some(())
    }

    /// The bytes that hide addresses from devices that rewrite them (§14.2).
    fn mask(&self) -> [u8; 16] {
        let mut mask = [0; 16];
        mask[..4].copy_from_slice(&self.cookie);
        mask[4..].copy_from_slice(&self.transaction);
        mask
    }

    /// The transaction id, hexadecimal; that of RFC 3489 has the bytes of the cookie, too.
    fn id(&self) -> String {
        if self.cookie == COOKIE { hex(&self.transaction) } else { hex(&self.mask()) }
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

/// Whether a datagram is a message of RFC 3489, which has no cookie: a method and an attribute of that time,
/// and attributes up to the last byte.
fn is_classic(datagram: &[u8]) -> bool {
    let is_of_its_time = |kind| matches!(kind, 1..=0xb | 0x20 | 0x8000..);
    let Some(([a, b, c, d], _)) = datagram.split_first_chunk::<4>() else { return false };
    let (kind, length) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    let fits = datagram.len() == HEADER_BYTES + usize::from(length);
    if !fits || !matches!(kind, 1 | 2 | 0x101 | 0x102 | 0x111 | 0x112) {
        return false;
    }
    let mut attributes = Reader::new(&datagram[HEADER_BYTES..]);
    while !attributes.rest().is_empty() {
        let Some((kind, length)) = attributes.u16().zip(attributes.u16()) else { return false };
        if !is_of_its_time(kind) || attributes.take(length.into()).is_none() {
            return false;
        }
    }
    true
}

/// Reads an address and port (§14.1), whose bytes are XORed with the mask, if there is one.
fn read_address(value: &[u8], mask: Option<[u8; 16]>) -> Option<(IpAddr, u16)> {
    let mask = mask.unwrap_or_default();
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

/// How messages stand in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// One after the other, beside those of channels (RFC 8656, section 12.5).
    Bare,
    /// Each behind its length (RFC 4571), beside others.
    Counted,
}

/// Recognises the framing by the first message's cookie and length.
fn framing(bytes: &[u8]) -> Result<Framing, Probe> {
    let word = |at: usize| bytes.get(at..at + 2).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    // Whether the bytes from `at` on begin a message; `None` if more bytes are needed.
    let begins = |at: usize| {
        let cookie = bytes.get(at + 4..).unwrap_or_default();
        // Methods below 128 are known, so that at most one bit of the first byte is set.
        let is_possible = bytes.get(at).is_none_or(|byte| *byte <= 1)
            && word(at + 2).is_none_or(|length| length % 4 == 0 && length < MESSAGE_BYTES_MAX)
            && cookie.iter().zip(&COOKIE).all(|(byte, of)| byte == of);
        if !is_possible { Some(false) } else { (cookie.len() >= COOKIE.len()).then_some(true) }
    };
    let counted = || {
        let (outer, inner) = (word(0), word(4));
        let fits = outer.zip(inner).is_none_or(|(outer, inner)| outer == HEADER_BYTES + inner);
        let is_possible =
            fits && outer.is_none_or(|outer| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&outer));
        if is_possible { begins(2) } else { Some(false) }
    };
    match (begins(0), counted()) {
        (Some(true), _) => Ok(Framing::Bare),
        (_, Some(true)) => Ok(Framing::Counted),
        (Some(false), Some(false)) => Err(Probe::NotForUs),
        _ => Err(Probe::Unsure),
    }
}

impl Framing {
    /// The length of what stands next in the stream.
    fn measure(self, bytes: &[u8]) -> Head {
        match (self, bytes) {
            (Self::Counted, [a, b, ..]) => Head::Bytes(2 + u64::from(u16::from_be_bytes([*a, *b]))),
            (Self::Bare, [0x40..=0x7f, _, c, d, ..]) => {
                Head::Bytes(4 + u64::from(u16::from_be_bytes([*c, *d])).next_multiple_of(4))
            }
            (Self::Bare, [0..=0x3f, _, c, d, e, f, g, h, ..]) if [*e, *f, *g, *h] == COOKIE => {
                Head::Bytes(HEADER_BYTES as u64 + u64::from(u16::from_be_bytes([*c, *d])))
            }
            _ if bytes.len() < 8 => Head::Short,
            _ => Head::Wrong,
        }
    }

    /// Bytes before the message.
    fn prefix_bytes(self) -> usize {
        if self == Self::Counted { 2 } else { 0 }
    }
}

/// Recognises a message. One without cookie and attributes says too little, unless the port is STUN's.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_port_known = opening.is_on(PROTOCOL.ports);
    let side = |bytes: &[u8]| match Message::parse(bytes) {
        _ if !opening.is_datagram => framing(bytes).map_or_else(|probe| probe, |_| Probe::Certain),
        None => Probe::NotForUs,
        Some(message) => {
            let is_certain = message.cookie == COOKIE || !message.attributes.is_empty() || is_port_known;
            if is_certain { Probe::Certain } else { Probe::Unsure }
        }
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, _) | (_, Probe::Unsure) if opening.is_datagram => Probe::Unsure,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// Parses the transactions of one flow or connection.
#[derive(Debug, Default)]
pub struct StunParser {
    pairing: Pairing<Message, WAITING_MAX>,
    /// The sides of a connection.
    sides: [Frames; 2],
    framing: Option<Framing>,
    /// Messages that were too long.
    parts_cut: u64,
}

impl SessionParser for StunParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return self.take_stream(data, sessions);
        }
        // First bytes of DTLS are 20 to 63, of RTP and RTCP 128 to 191, of STUN 0 to 3 (RFC 7983 §7).
        if matches!(data.bytes.first(), Some(20..=63 | 128..=191)) {
            return Progress::NotMine;
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
        self.take_message(data.from, data.time, message, sessions);
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        // Of datagrams nothing is kept.
        self.sides[from as usize].lose(length_bytes);
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.pairing.take_all().map(|unanswered| unanswered as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        let cut_off = self.pairing.cut_off();
        CutOff { parts: cut_off.parts + self.parts_cut, ..cut_off }
    }
}

impl StunParser {
    /// Takes the next bytes of a connection.
    fn take_stream(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            let known = self.framing;
            let measure = |bytes: &[u8]| match known.ok_or(Probe::Unsure).or_else(|_| framing(bytes)) {
                Ok(framing) => framing.measure(bytes),
                Err(Probe::Unsure) => Head::Short,
                Err(_) => Head::Wrong,
            };
            let side = &mut self.sides[data.from as usize];
            match side.next(&mut rest, data.time, 2 + MESSAGE_BYTES_MAX, measure) {
                Next::Frame(frame) => {
                    let framing = *self.framing.get_or_insert_with(|| {
                        framing(&frame.bytes).unwrap_or(Framing::Bare) // measured above
                    });
                    let bytes = frame.bytes.get(framing.prefix_bytes()..).unwrap_or_default();
                    let is_cut = (frame.bytes.len() as u64) < frame.length_bytes;
                    match Message::parse(bytes) {
                        Some(message) if !is_cut => {
                            self.take_message(data.from, frame.time, message, sessions);
                        }
                        _ if is_cut && bytes.get(4..8) == Some(&COOKIE) => self.parts_cut += 1,
                        _ => {}
                    }
                }
                Next::More => return Progress::Wanted,
                Next::Lost if self.sides.iter().all(Frames::is_lost) => {
                    self.finish(sessions);
                    return Progress::Done;
                }
                Next::Lost => return Progress::Wanted,
            }
        }
    }

    fn take_message(
        &mut self,
        from: Direction,
        time: Timestamp,
        message: Message,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        if message.is_cargo() {
            return;
        }
        // A retransmission has the transaction id of the first request (§6.2.1), as has the response.
        let same = |one: &Message, other: &Message| one.mask() == other.mask();
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
    "stun.id" [] _: Text, "Number of the transaction, hexadecimal" => |t| t.messages().next().map_or(Value::Absent, |m| owned(m.id()));
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

    /// Messages with and without their lengths, beside the data of a channel or of RTP, in any pieces.
    #[test]
    fn streams_have_one_message_after_the_other() {
        let mapped = [0, 0x20, 0, 8, 0, 1, 0x80 ^ 0x21, 0x55 ^ 0x12, 192 ^ 0x21, 0x12, 2 ^ 0xa4, 1 ^ 0x42];
        let (asked, answered) = (message(1, 7, &[]), message(0x0101, 7, &mapped));
        let (channel, rtp) = (&[0x40, 1, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0][..], &[0x80, 96, 0, 1][..]);
        let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
        for (client, server) in [
            ([&asked[..], channel].concat(), [&answered[..], channel].concat()),
            ([counted(&asked), counted(rtp)].concat(), [counted(&answered), counted(rtp)].concat()),
        ] {
            for piece_bytes in [1, 3, 100] {
                let (mut parser, mut sessions) = (StunParser::default(), Vec::new());
                for (from, bytes) in [(C, &client), (S, &server)] {
                    for bytes in bytes.chunks(piece_bytes) {
                        let data = Data { from, time: Timestamp(0), bytes, is_datagram: false };
                        assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
                    }
                }
                assert_eq!(sessions.len(), 1, "pieces of {piece_bytes}");
                assert_eq!(value(sessions[0].as_ref(), "mapped_port"), Value::Unsigned(0x8055));
            }
            let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
            let verdicts: Vec<_> = (0..client.len()).map(|length| probe(&client[..length])).collect();
            let unsure = verdicts.iter().take_while(|verdict| **verdict == Probe::Unsure).count();
            assert!((8..=10).contains(&unsure), "{verdicts:?}");
            assert!(verdicts[unsure..].iter().all(|verdict| *verdict == Probe::Certain), "{verdicts:?}");
            let mut other = client.clone();
            other[4] ^= 1;
            other[6] ^= 1;
            assert_eq!(probe(&other), Probe::NotForUs);
        }
    }

    #[test]
    fn messages_of_rfc_3489_have_no_cookie() {
        let classic = |attributes: &[u8]| {
            let mut bytes = message(1, 7, attributes);
            bytes[4..8].copy_from_slice(&[7; 4]);
            bytes
        };
        let probe = |originator: &[u8], port| {
            let ports = [40_000, port];
            (PROTOCOL.probe)(&Opening { originator, ports, is_datagram: true, ..Opening::default() })
        };
        let change = classic(&[0, 3, 0, 4, 0, 0, 0, 6]);
        assert_eq!(probe(&change, 9000), Probe::Certain);
        assert_eq!((probe(&classic(&[]), 9000), probe(&classic(&[]), 3478)), (Probe::Unsure, Probe::Certain));
        for wrong in
            [&change[..27], &classic(&[0, 3, 0, 5, 0, 0, 0, 6]), &classic(&[0, 0x77, 0, 4, 0, 0, 0, 6])]
        {
            assert_eq!(probe(wrong, 3478), Probe::NotForUs);
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

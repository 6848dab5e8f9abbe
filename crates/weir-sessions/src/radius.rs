//! RADIUS (RFC 2865, RFC 2866, RFC 5176): one [`RadiusTransaction`] for each request with its answer.

use crate::pairing::{Exchange, Held, Pairing};
use crate::session::{Words, named, session_fields};
use crate::values::{name, numbers, readable, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "radius",
    service: "radius",
    log: "radius",
    transports: &["udp"],
    // Authentication and accounting, old and current; dynamic authorization.
    ports: &[1645, 1646, 1812, 1813, 3799],
    hands_over: &[],
    doc: "RADIUS: authentication of users (RFC 2865), and accounting (RFC 2866)",
    probe,
    may_begin,
    open: |_| Box::new(RadiusParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "username", "mac", "framed_addr", "result", "reply_msg"],
    fields: FIELDS,
};

/// First byte: a known code.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 1..=5 | 11..=13 | 40..=45)),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of requests of a flow that wait for their answers. A gateway sends many requests to a
/// server in one flow.
pub const WAITING_MAX: usize = 128;

/// Maximum number of attribute types kept of a message.
const ATTRIBUTES_MAX: usize = 64;

const ACCESS_REQUEST: u8 = 1;
const ACCESS_ACCEPT: u8 = 2;
const ACCESS_REJECT: u8 = 3;

/// A message (RFC 2865 §3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Code: 1 Access-Request, 2 Access-Accept …
    pub code: u8,
    /// Identifier, which pairs request and answer.
    pub identifier: u8,
    /// Random in a request, a digest in an answer.
    pub authenticator: [u8; 16],
    /// Types of the attributes, in order.
    pub attributes: Vec<u8>,
    /// User-Name (1).
    pub username: Option<String>,
    /// NAS-IP-Address (4) or NAS-IPv6-Address (95).
    pub gateway: Option<IpAddr>,
    /// NAS-Identifier (32).
    pub gateway_name: Option<String>,
    /// Framed-IP-Address (8): the address assigned to the user.
    pub framed_address: Option<Ipv4Addr>,
    /// Reply-Message (18).
    pub reply: Option<String>,
    /// Called-Station-Id (30).
    pub called: Option<String>,
    /// Calling-Station-Id (31): mostly the user's MAC address.
    pub calling: Option<String>,
    /// Acct-Status-Type (40): 1 start, 2 stop, 3 interim.
    pub status: Option<u32>,
    /// Acct-Session-Id (44).
    pub session: Option<String>,
    /// Tunnel-Client-Endpoint (66).
    pub tunnel_client: Option<String>,
    /// Connect-Info (77).
    pub connect_info: Option<String>,
}

/// A request with its response, or either alone if the other was not seen.
pub type RadiusTransaction = Exchange<Message>;

impl Message {
    /// Parses a datagram. `None` if the code is unknown or a length is inconsistent.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let (code, identifier, length) = (reader.u8()?, reader.u8()?, reader.u16()?);
        if !matches!(code, 1..=5 | 11..=13 | 40..=45) || length < 20 {
            return None;
        }
        let mut message = Self { code, identifier, authenticator: reader.array()?, ..Self::default() };
        let mut attributes = Reader::new(reader.take(usize::from(length) - 20)?);
        while !attributes.is_empty() {
            let (kind, length) = (attributes.u8()?, attributes.u8()?);
            let value = attributes.take(usize::from(length).checked_sub(2)?)?;
            if message.attributes.len() < ATTRIBUTES_MAX {
                message.attributes.push(kind);
            }
            message.take_attribute(kind, value);
        }
        Some(message)
    }

    fn take_attribute(&mut self, kind: u8, value: &[u8]) {
        let text = || Some(readable(value).into_owned());
        let four = || <[u8; 4]>::try_from(value).ok();
        match kind {
            1 => self.username = text(),
            4 => self.gateway = four().map(IpAddr::from),
            8 => self.framed_address = four().map(Ipv4Addr::from),
            18 if self.reply.is_none() => self.reply = text(),
            30 => self.called = text(),
            31 => self.calling = text(),
            32 => self.gateway_name = text(),
            40 => self.status = four().map(u32::from_be_bytes),
            44 => self.session = text(),
            66 => {
                self.tunnel_client =
                    text().map(|text| text.trim_start_matches(|tag| tag <= '\x1f').to_owned())
            }
            77 => self.connect_info = text(),
            95 => {
                self.gateway = <[u8; 16]>::try_from(value).ok().map(|address| Ipv6Addr::from(address).into())
            }
            _ => {}
        }
    }

    fn is_request(&self) -> bool {
        matches!(self.code, ACCESS_REQUEST | 4 | 12 | 40 | 43)
    }
}

impl Held for Message {
    fn held_bytes(&self) -> usize {
        let texts = [
            &self.username,
            &self.gateway_name,
            &self.reply,
            &self.called,
            &self.calling,
            &self.session,
            &self.tunnel_client,
            &self.connect_info,
        ];
        self.attributes.len() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// The name of a code (IANA "RADIUS Packet Type Codes").
pub fn code_name(code: u8) -> Cow<'static, str> {
    match code {
        ACCESS_REQUEST => "Access-Request".into(),
        ACCESS_ACCEPT => "Access-Accept".into(),
        ACCESS_REJECT => "Access-Reject".into(),
        4 => "Accounting-Request".into(),
        5 => "Accounting-Response".into(),
        11 => "Access-Challenge".into(),
        12 => "Status-Server".into(),
        13 => "Status-Client".into(),
        40 => "Disconnect-Request".into(),
        41 => "Disconnect-ACK".into(),
        42 => "Disconnect-NAK".into(),
        43 => "CoA-Request".into(),
        44 => "CoA-ACK".into(),
        45 => "CoA-NAK".into(),
        _ => format!("unknown-{code}").into(),
    }
}

/// On a RADIUS port, any message with consistent lengths. Elsewhere the message must fill its datagram and
/// have the attributes that its code requires.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_port_known = opening.is_on(PROTOCOL.ports);
    let is_radius = |datagram: &[u8]| {
        let Some(message) = Message::parse(datagram) else { return false };
        let length =
            datagram.first_chunk::<4>().map_or(0, |head| usize::from(u16::from_be_bytes([head[2], head[3]])));
        let is_believed = match message.code {
            ACCESS_REQUEST => message.username.is_some() && message.attributes.len() >= 3,
            4 => message.status.is_some() && message.session.is_some(),
            _ => false,
        };
        is_port_known || (length == datagram.len() && is_believed)
    };
    if opening.is_datagram && (is_radius(opening.originator) || is_radius(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the transactions of one flow.
#[derive(Debug, Default)]
pub struct RadiusParser {
    pairing: Pairing<Message, WAITING_MAX>,
}

impl SessionParser for RadiusParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
        self.take_message(data, message, sessions);
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

impl RadiusParser {
    fn take_message(&mut self, data: &Data<'_>, message: Message, sessions: &mut Vec<Box<dyn Session>>) {
        let Data { from, time, .. } = *data;
        if message.is_request() {
            let same = |one: &Message, other: &Message| {
                (one.identifier, one.authenticator) == (other.identifier, other.authenticator)
            };
            let oldest = self.pairing.ask(from, time, message, same);
            sessions.extend(oldest.map(|oldest| oldest as Box<dyn Session>));
        } else {
            let fits = |request: &Message, response: &Message| request.identifier == response.identifier;
            sessions.push(self.pairing.answer(from, time, message, fits));
        }
    }
}

impl RadiusTransaction {
    fn text(&self, read: fn(&Message) -> &Option<String>) -> Option<&str> {
        self.messages().find_map(|message| read(message).as_deref())
    }

    /// Result: `success`, `failed`; `unknown` without an answer; `None` if the answer has no result.
    pub fn result(&self) -> Option<&'static str> {
        match self.response.as_ref().map(|response| response.code) {
            Some(ACCESS_ACCEPT) => Some("success"),
            Some(ACCESS_REJECT) => Some("failed"),
            Some(_) => None,
            None => Some("unknown"),
        }
    }

    /// The calling station as a MAC address in Zeek's format if it is one, otherwise as it is.
    pub fn station(&self) -> Option<String> {
        let station = self.text(|message| &message.calling)?;
        let digits: Vec<char> = station.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
        if digits.len() != 12 || !digits.iter().all(char::is_ascii_hexdigit) {
            return Some(station.to_owned());
        }
        let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>().to_ascii_lowercase());
        Some(pairs.collect::<Vec<_>>().join(":"))
    }
}

impl Session for RadiusTransaction {
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

/// Names of message codes.
const CODES: Words = Words { list: || named(0..=u8::MAX, code_name), others: &["unknown-"] };

session_fields! { RadiusTransaction;
    "radius.User_Name" ["radius.username"] username: Text, "User name" => |t| text(t.text(|m| &m.username));
    "radius.Calling_Station_Id" ["radius.mac"] mac: Text, "Identifier of the user's station, mostly a MAC address" => |t| t.station().map_or(Value::Absent, crate::values::owned);
    "radius.Framed_IP_Address" ["radius.framed_addr"] framed_addr: Address, "Address assigned to the user" => |t| t.response.iter().chain(&t.request).find_map(|m| m.framed_address).map_or(Value::Absent, |address| Value::Address(address.into()));
    "radius.Tunnel_Client_Endpoint" ["radius.tunnel_client"] tunnel_client: Text, "Client endpoint of the user's tunnel" => |t| text(t.text(|m| &m.tunnel_client));
    "radius.Connect_Info" ["radius.connect_info"] connect_info: Text, "Type of the user's connection" => |t| text(t.text(|m| &m.connect_info));
    "radius.Reply_Message" ["radius.reply_msg"] reply_msg: Text, "Text of the server" => |t| text(t.text(|m| &m.reply));
    "radius.result" [] result: Text, "Result of the authentication: success, failed; unknown without an answer" => |t| text(t.result());
    "radius.time" ["radius.ttl"] ttl: Interval, "Time from request to answer" => |t| t.rtt_ns.map_or(Value::Absent, Value::Interval);
    "radius.code" [] _: Unsigned, "Code of the request: 1 Access-Request, 4 Accounting-Request" => |t| unsigned(t.messages().next().map(|m| m.code));
    "radius.code_name" [] _: Text in CODES, "Name of the request's code" => |t| name(t.messages().next().map(|m| code_name(m.code)));
    "radius.response" [] _: Text in CODES, "Name of the answer: Access-Accept" => |t| name(t.response.as_ref().map(|m| code_name(m.code)));
    "radius.id" [] _: Unsigned, "Number of the request" => |t| unsigned(t.messages().next().map(|m| m.identifier));
    "radius.NAS_IP_Address" ["radius.nas"] _: Address, "Address of the gateway that sent the request" => |t| t.messages().find_map(|m| m.gateway).map_or(Value::Absent, Value::Address);
    "radius.NAS_Identifier" ["radius.nas_name"] _: Text, "Identifier of the gateway" => |t| text(t.text(|m| &m.gateway_name));
    "radius.Called_Station_Id" ["radius.called"] _: Text, "Identifier of the station that the user connects to" => |t| text(t.text(|m| &m.called));
    "radius.Acct_Status_Type" ["radius.status"] _: Unsigned, "Type of the accounting record: 1 start, 2 stop, 3 interim" => |t| unsigned(t.request.as_ref().and_then(|m| m.status));
    "radius.Acct_Session_Id" ["radius.session"] _: Text, "Identifier of the accounted session" => |t| text(t.text(|m| &m.session));
    "radius.avp.type" ["radius.attributes"] _: Numbers, "Attribute types of the request" => |t| t.request.as_ref().map_or(Value::Absent, |m| numbers(&m.attributes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Originator as C, Responder as S};

    fn message(code: u8, identifier: u8, attributes: &[(u8, &[u8])]) -> Vec<u8> {
        let attribute = |(kind, value): &(u8, &[u8])| [&[*kind, value.len() as u8 + 2], *value].concat();
        let attributes: Vec<u8> = attributes.iter().flat_map(attribute).collect();
        [&[code, identifier, 0, attributes.len() as u8 + 20][..], &[identifier; 16], &attributes].concat()
    }

    fn request(identifier: u8) -> Vec<u8> {
        message(1, identifier, &[(1, b"bob"), (31, b"02-00-00-00-00-0A"), (4, &[192, 0, 2, 1])])
    }

    fn take(parser: &mut RadiusParser, from: Direction, millis: i64, bytes: &[u8]) -> Vec<Box<dyn Session>> {
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
    fn a_user_is_let_in() {
        let mut parser = RadiusParser::default();
        take(&mut parser, C, 0, &request(7));
        take(&mut parser, C, 3, &request(7)); // retransmission
        take(&mut parser, C, 4, &request(8));
        let sessions = take(&mut parser, S, 20, &message(2, 7, &[(8, &[192, 0, 2, 9]), (18, b"hi")]));
        let session = sessions[0].as_ref();
        for (name, expected) in [
            ("username", Value::Text("bob".into())),
            ("mac", Value::Text("02:00:00:00:00:0a".into())),
            ("framed_addr", Value::Address([192, 0, 2, 9].into())),
            ("reply_msg", Value::Text("hi".into())),
            ("result", Value::Text("success".into())),
            ("ttl", Value::Interval(20_000_000)),
            ("radius.code_name", Value::Text("Access-Request".into())),
            ("radius.NAS_IP_Address", Value::Address([192, 0, 2, 1].into())),
        ] {
            assert_eq!(value(session, name), expected, "{name}");
        }
        let refused = take(&mut parser, S, 21, &message(3, 8, &[]));
        assert_eq!(value(refused[0].as_ref(), "result"), Value::Text("failed".into()));
    }

    #[test]
    fn what_has_no_partner_is_yielded_at_the_end() {
        let mut parser = RadiusParser::default();
        let alone = take(&mut parser, S, 0, &message(2, 9, &[]));
        assert_eq!(alone.len(), 1, "an answer without its request at once");
        take(&mut parser, C, 1, &message(4, 1, &[(40, &[0, 0, 0, 1]), (44, b"s1")]));
        let mut sessions = Vec::new();
        parser.finish(&mut sessions);
        assert_eq!(value(sessions[0].as_ref(), "radius.Acct_Status_Type"), Value::Unsigned(1));
        assert_eq!(value(sessions[0].as_ref(), "result"), Value::Text("unknown".into()));
    }

    #[test]
    fn its_port_or_its_attributes_make_it_one() {
        let probe = |originator: &[u8], port| {
            (PROTOCOL.probe)(&Opening {
                originator,
                ports: [9, port],
                is_datagram: true,
                ..Opening::default()
            })
        };
        assert_eq!(probe(&request(1), 1812), Probe::Certain);
        assert_eq!(probe(&request(1), 9), Probe::Certain);
        assert_eq!(probe(&message(2, 1, &[]), 9), Probe::NotForUs);
        assert_eq!(probe(&request(1)[..30], 1812), Probe::NotForUs);
        assert_eq!(probe(&[1; 40], 1812), Probe::NotForUs);
    }
}

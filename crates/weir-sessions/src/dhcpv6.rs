//! DHCP for IPv6 (RFC 8415): one [`Dhcpv6Transaction`] per transaction and flow, yielded after the server's
//! reply. Multicasts of clients and answers of servers are two flows, and thus two transactions; [`JOIN`]
//! makes one row of both.

use crate::joins::{Join, Place};
use crate::pairing::{Held, Waiting};
use crate::session::{Words, named, session_fields};
use crate::values::{collect_numbers, numbers, owned_texts, readable, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::borrow::Cow;
use std::net::Ipv6Addr;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "dhcpv6",
    service: "dhcpv6",
    log: "dhcpv6",
    transports: &["udp"],
    ports: &[546, 547],
    hands_over: &[],
    doc: "DHCP for IPv6: clients, their addresses and prefixes (RFC 8415)",
    probe,
    may_begin,
    open: |_| Box::new(Dhcpv6Parser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "mac", "client_fqdn", "addresses", "prefixes", "msg_types"],
    fields: FIELDS,
};

/// An exchange is a transaction of one client: SOLICIT and ADVERTISE, or REQUEST and REPLY.
pub const JOIN: Join =
    Join { protocol: "dhcpv6", by: &["trans_id", "client_duid"], messages: "msg_types", place };

fn place(message: &str) -> Option<Place> {
    let (is_request, step) = match message {
        "SOLICIT" => (true, 0),
        "ADVERTISE" => (false, 1),
        "REQUEST" | "CONFIRM" | "RENEW" | "REBIND" | "RELEASE" | "DECLINE" | "INFORMATION-REQUEST" => {
            (true, 2)
        }
        "REPLY" => (false, 3),
        _ => return None,
    };
    Some(Place { is_request, step })
}

/// A known message type.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 1..=13)),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of open transactions per flow, and of messages per transaction.
pub const OPEN_MAX: usize = 8;
const MESSAGES_MAX: usize = 8;

/// Time-out of a transaction.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Maximum number of elements per list, of nested relays (§7.6), and of bytes per identifier or text.
const ELEMENTS_MAX: usize = 32;
const NAMES_MAX: usize = 8;
const RELAYS_MAX: usize = 8;
const TEXT_BYTES_MAX: usize = 255;

const REPLY: u8 = 7;
const RELAY_FORWARD: u8 = 12;
const RELAY_REPLY: u8 = 13;

/// A message, without the relay messages around it (§8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Message type: 1 SOLICIT, 7 REPLY …
    pub kind: u8,
    /// Transaction ID, 24 bits.
    pub transaction: u32,
    /// Link addresses of the relays, outermost first: they identify the client's network (§9).
    pub links: Vec<Ipv6Addr>,
    /// Client identifier (§11).
    pub client_id: Vec<u8>,
    /// Server identifier.
    pub server_id: Vec<u8>,
    /// Addresses, requested or assigned.
    pub addresses: Vec<Ipv6Addr>,
    /// Prefixes with their lengths, requested or delegated.
    pub prefixes: Vec<(Ipv6Addr, u8)>,
    /// Shortest valid lifetime of the addresses and prefixes, seconds.
    pub valid_seconds: Option<u32>,
    /// Fully qualified name of the client (RFC 4704).
    pub client_fqdn: Option<String>,
    /// Vendor class of the client (§21.16).
    pub vendor_class: Option<String>,
    /// Name servers (RFC 3646).
    pub name_servers: Vec<Ipv6Addr>,
    /// Domain search list.
    pub domains: Vec<String>,
    /// Requested options (§21.7), in the client's order.
    pub requested: Vec<u16>,
    /// The server's status code (§21.13) and its text; `None` on success.
    pub status: Option<(u16, String)>,
}

/// The messages of one transaction in one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dhcpv6Transaction {
    /// Time of the first message.
    pub time: Timestamp,
    /// Time of the last message.
    pub last_time: Timestamp,
    /// The messages in order of arrival, at least one.
    pub messages: Vec<Message>,
}

impl Message {
    /// Parses a datagram; `None` if its type is unknown, or an option is truncated.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut message = Self::default();
        let mut bytes = datagram;
        while message.links.len() < RELAYS_MAX {
            let mut reader = Reader::new(bytes);
            message.kind = reader.u8()?;
            if !matches!(message.kind, RELAY_FORWARD | RELAY_REPLY) {
                if message.kind == 0 || message.kind > 11 {
                    return None;
                }
                message.transaction = reader.u24()?;
                message.take_options(reader.rest(), 0)?;
                return Some(message);
            }
            reader.u8()?; // hops
            message.links.push(reader.array::<16>()?.into());
            reader.array::<16>()?; // peer
            let mut options = Reader::new(reader.rest());
            bytes = loop {
                let (number, value) = (options.u16()?, options.vector16()?);
                if number == 9 {
                    break value;
                }
            };
        }
        None
    }

    /// Takes options, including the nested options of addresses and prefixes.
    fn take_options(&mut self, bytes: &[u8], depth: u8) -> Option<()> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, value) = (reader.u16()?, reader.vector16()?);
            let mut inner = Reader::new(value);
            match number {
                1 => self.client_id = value[..value.len().min(TEXT_BYTES_MAX)].to_vec(),
                2 => self.server_id = value[..value.len().min(TEXT_BYTES_MAX)].to_vec(),
                3 | 25 if depth == 0 => {
                    inner.array::<12>()?; // identifier and two times
                    self.take_options(inner.rest(), 1)?;
                }
                4 if depth == 0 => {
                    inner.array::<4>()?;
                    self.take_options(inner.rest(), 1)?;
                }
                5 => {
                    let (address, times) = (inner.array::<16>()?, inner.array::<8>()?);
                    push(&mut self.addresses, address.into());
                    self.take_valid(times);
                    self.take_status_of(inner.rest());
                }
                26 => {
                    let (times, length) = (inner.array::<8>()?, inner.u8()?);
                    push(&mut self.prefixes, (inner.array::<16>()?.into(), length));
                    self.take_valid(times);
                    self.take_status_of(inner.rest());
                }
                6 => self.requested = pairs(value).take(ELEMENTS_MAX).collect(),
                13 => self.take_status(value),
                16 => self.vendor_class = value.get(6..).map(text_of),
                23 => {
                    for address in value.as_chunks::<16>().0 {
                        push(&mut self.name_servers, (*address).into());
                    }
                }
                24 => self.domains = read_names(value),
                39 => self.client_fqdn = value.get(1..).and_then(|name| read_names(name).into_iter().next()),
                _ => {}
            }
        }
        Some(())
    }

    fn take_valid(&mut self, [_, _, _, _, a, b, c, d]: [u8; 8]) {
        let seconds = u32::from_be_bytes([a, b, c, d]);
        self.valid_seconds = Some(self.valid_seconds.map_or(seconds, |shortest| shortest.min(seconds)));
    }

    fn take_status_of(&mut self, options: &[u8]) {
        let mut reader = Reader::new(options);
        while let (Some(number), Some(value)) = (reader.u16(), reader.vector16()) {
            if number == 13 {
                self.take_status(value);
            }
        }
    }

    fn take_status(&mut self, value: &[u8]) {
        if let Some(([high, low], reason)) = value.split_first_chunk::<2>() {
            let code = u16::from_be_bytes([*high, *low]);
            if code != 0 && self.status.is_none() {
                self.status = Some((code, text_of(reason)));
            }
        }
    }

    fn is_of_client(&self) -> bool {
        !matches!(self.kind, 2 | REPLY | 10)
    }

    fn held_bytes(&self) -> usize {
        let lists = self.addresses.len() + self.links.len() + self.name_servers.len();
        let texts = [
            self.client_fqdn.as_ref(),
            self.vendor_class.as_ref(),
            self.status.as_ref().map(|status| &status.1),
        ];
        let texts =
            texts.into_iter().flatten().chain(&self.domains).map(|text| size_of::<String>() + text.len());
        size_of::<Self>()
            + self.client_id.len()
            + self.server_id.len()
            + lists * 16
            + self.prefixes.len() * 17
            + self.requested.len() * 2
            + texts.sum::<usize>()
    }
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < ELEMENTS_MAX {
        list.push(item);
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair))
}

fn text_of(bytes: &[u8]) -> String {
    readable(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned()
}

/// Names in DNS wire format without pointers (§10). A name without terminator also counts (RFC 4704 §4.2).
fn read_names(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes);
    let mut names = Vec::new();
    while !reader.is_empty() && names.len() < NAMES_MAX {
        let mut labels = Vec::new();
        while let Some(label) = reader.vector8().filter(|label| !label.is_empty() && labels.len() < 127) {
            labels.push(label);
        }
        if labels.is_empty() {
            break;
        }
        names.push(text_of(&labels.join(&b'.')));
    }
    names
}

/// The name of a message type (§7.3).
pub fn kind_name(kind: u8) -> Cow<'static, str> {
    const NAMES: [&str; 13] = [
        "SOLICIT",
        "ADVERTISE",
        "REQUEST",
        "CONFIRM",
        "RENEW",
        "REBIND",
        "REPLY",
        "RELEASE",
        "DECLINE",
        "RECONFIGURE",
        "INFORMATION-REQUEST",
        "RELAY-FORW",
        "RELAY-REPL",
    ];
    let name = usize::from(kind).checked_sub(1).and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("unknown-{kind}").into(), |name| Cow::Borrowed(*name))
}

/// On DHCPv6 ports, detects any message whose options parse completely.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_known = opening.is_datagram && opening.is_on(PROTOCOL.ports);
    let is_dhcp = |datagram| Message::parse(datagram).is_some();
    // On other ports, a message must also have an identifier of a known type.
    let is_certain = |datagram| {
        Message::parse(datagram).is_some_and(|message| {
            matches!(message.client_id[..], [0, 1..=4, _, _, _, _, ..]) && !message.requested.is_empty()
        })
    };
    let [originator, responder] = [opening.originator, opening.responder];
    let found = if is_known {
        is_dhcp(originator) || is_dhcp(responder)
    } else {
        opening.is_datagram && (is_certain(originator) || is_certain(responder))
    };
    if found { Probe::Certain } else { Probe::NotForUs }
}

/// Parses the transactions of one flow.
#[derive(Debug, Default)]
pub struct Dhcpv6Parser {
    open: Waiting<Dhcpv6Transaction, OPEN_MAX>,
    cut_off: CutOff,
}

impl SessionParser for Dhcpv6Parser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        while let Some(old) = self.open.take_oldest_if(|old| data.time.since_ns(old.time) > PATIENCE_NS) {
            sessions.push(Box::new(old));
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
        let (number, is_last) = (message.transaction, message.kind == REPLY);
        let is_it = |open: &Dhcpv6Transaction| open.messages[0].transaction == number;
        match self.open.find(is_it) {
            Some(open) if open.messages.len() == MESSAGES_MAX => self.cut_off.parts += 1,
            Some(open) => {
                open.last_time = data.time;
                open.messages.push(message);
            }
            None => {
                let (time, messages) = (data.time, vec![message]);
                let transaction = Dhcpv6Transaction { time, last_time: time, messages };
                self.open.push(transaction, |oldest| sessions.push(Box::new(oldest)));
            }
        }
        if is_last && let Some(over) = self.open.take(is_it) {
            sessions.push(Box::new(over));
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.open.take_all().map(|open| Box::new(open) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.open.evicted(), ..self.cut_off }
    }
}

impl Held for Dhcpv6Transaction {
    fn held_bytes(&self) -> usize {
        self.messages.iter().map(Message::held_bytes).sum()
    }
}

impl Dhcpv6Transaction {
    fn of_client(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| message.is_of_client())
    }

    fn of_server(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| !message.is_of_client())
    }

    /// The client's identifier.
    pub fn client_id(&self) -> &[u8] {
        self.messages.iter().map(|message| &message.client_id[..]).find(|id| !id.is_empty()).unwrap_or(&[])
    }

    /// The MAC address in the client identifier, if that contains one (§11.2, §11.4).
    pub fn mac(&self) -> Option<[u8; 6]> {
        match self.client_id() {
            [0, 1, 0, 1, _, _, _, _, mac @ ..] | [0, 3, 0, 1, mac @ ..] => mac.try_into().ok(),
            _ => None,
        }
    }
}

impl Session for Dhcpv6Transaction {
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

/// All names of message types.
const KINDS: Words = Words { list: || named(0..=u8::MAX, kind_name), others: &["unknown-"] };

session_fields! { Dhcpv6Transaction;
    "dhcpv6.xid" ["dhcpv6.trans_id"] trans_id: Unsigned, "Number of the transaction" => |t| unsigned(t.messages.first().map(|m| m.transaction));
    "dhcpv6.msg_types" ["dhcpv6.messages"] msg_types: Texts in KINDS, "Types of the messages, in order of capture: SOLICIT, ADVERTISE" => |t| owned_texts(t.messages.iter().map(|m| kind_name(m.kind).into_owned()).collect());
    "dhcpv6.duid.bytes" ["dhcpv6.client_duid"] client_duid: Bytes, "Identifier of the client" => |t| crate::values::bytes(t.client_id());
    "dhcpv6.mac" [] mac: Mac, "MAC address in the client's identifier" => |t| t.mac().map_or(Value::Absent, Value::Mac);
    "dhcpv6.client_fqdn" [] client_fqdn: Text, "Full name of the client" => |t| text(t.of_client().find_map(|m| m.client_fqdn.as_deref()));
    "dhcpv6.vendor_class" ["dhcpv6.vendorclass.data"] vendor_class: Text, "Type of the client, as stated by itself: MSFT 5.0" => |t| text(t.of_client().find_map(|m| m.vendor_class.as_deref()));
    "dhcpv6.server_duid" [] server_duid: Bytes, "Identifier of the server" => |t| t.messages.iter().map(|m| &m.server_id).find(|id| !id.is_empty()).map_or(Value::Absent, |id| crate::values::bytes(id));
    "dhcpv6.iaaddr.ip" ["dhcpv6.addresses"] addresses: Texts, "Addresses that the server assigns; if it does not answer, the requested ones" => |t| addresses(t);
    "dhcpv6.iaprefix.pref_addr" ["dhcpv6.prefixes"] prefixes: Texts, "Prefixes that the server assigns, with their lengths" => |t| owned_texts(t.of_server().flat_map(|m| &m.prefixes).map(|(prefix, length)| format!("{prefix}/{length}")).collect());
    "dhcpv6.iaaddr.valid_lifetime" ["dhcpv6.lease_time"] lease_time: Interval, "Valid lifetime of the addresses and prefixes" => |t| t.of_server().filter_map(|m| m.valid_seconds).last().map_or(Value::Absent, |seconds| Value::Interval(u64::from(seconds) * 1_000_000_000));
    "dhcpv6.status_code" ["dhcpv6.status"] status: Unsigned, "Status code of an error: 2 no addresses" => |t| unsigned(t.messages.iter().find_map(|m| m.status.as_ref()).map(|status| status.0));
    "dhcpv6.status_msg" [] server_message: Text, "Text of the server about the status" => |t| text(t.messages.iter().find_map(|m| m.status.as_ref()).map(|status| status.1.as_str()));
    "dhcpv6.duration" [] duration: Interval, "Time from the first message to the last" => |t| Value::Interval(t.last_time.since_ns(t.time));
    "dhcpv6.uids" [] uids: Texts, "Connections of the messages; only in rows" => |_| Value::Absent;
    "dhcpv6.msgtype" ["dhcpv6.msg_type"] _: Numbers, "Types of the messages" => |t| collect_numbers(t.messages.iter().map(|m| m.kind));
    "dhcpv6.dns_server" ["dhcpv6.dns"] _: Texts, "Name servers" => |t| owned_texts(t.of_server().flat_map(|m| &m.name_servers).map(Ipv6Addr::to_string).collect());
    "dhcpv6.domains" [] _: Texts, "Search domains" => |t| owned_texts(t.of_server().flat_map(|m| &m.domains).cloned().collect());
    "dhcpv6.requested_option_code" ["dhcpv6.parameters"] _: Numbers, "Options that the client requests, in its order" => |t| t.of_client().map(|m| &m.requested).find(|list| !list.is_empty()).map_or(Value::Absent, |list| numbers(list));
    "dhcpv6.linkaddr" ["dhcpv6.relay"] _: Texts, "Relays, by the addresses of the networks that they serve" => |t| owned_texts(t.messages.first().map(|m| m.links.iter().map(Ipv6Addr::to_string).collect()).unwrap_or_default());
}

fn addresses(transaction: &Dhcpv6Transaction) -> Value<'static> {
    let given = transaction.of_server().flat_map(|message| &message.addresses);
    let asked = transaction.of_client().flat_map(|message| &message.addresses);
    let shown: Vec<String> = given.map(Ipv6Addr::to_string).collect();
    owned_texts(if shown.is_empty() { asked.map(Ipv6Addr::to_string).collect() } else { shown })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Originator as C, Responder as S};

    fn option(number: u8, value: &[u8]) -> Vec<u8> {
        [&[0, number, 0, value.len() as u8], value].concat()
    }

    fn message(kind: u8, options: &[Vec<u8>]) -> Vec<u8> {
        [&[kind, 1, 2, 3][..], &options.concat()].concat()
    }

    fn client_id() -> Vec<u8> {
        option(1, &[0, 3, 0, 1, 2, 0, 0, 0, 0, 9])
    }

    fn address() -> Vec<u8> {
        let lifetimes = [0, 0, 0, 60, 0, 0, 0, 120];
        let inner =
            option(5, &[&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5][..], &lifetimes].concat());
        option(3, &[&[0; 12][..], &inner].concat())
    }

    fn take(parser: &mut Dhcpv6Parser, from: Direction, bytes: &[u8]) -> Vec<Box<dyn Session>> {
        let mut sessions = Vec::new();
        parser.parse(&Data { from, time: Timestamp(1_000_000), bytes, is_datagram: true }, &mut sessions);
        sessions
    }

    fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
        let is_it = |field: &crate::Field| field.name == name || field.column == name;
        session.value(FIELDS.iter().position(is_it).expect(name))
    }

    fn texts(list: &[&str]) -> Value<'static> {
        Value::Texts(list.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn an_address_is_given() {
        let mut parser = Dhcpv6Parser::default();
        let name = option(39, b"\0\x02pc\x04home\0");
        assert!(take(&mut parser, C, &message(3, &[client_id(), name, option(6, &[0, 23])])).is_empty());
        let reply =
            message(7, &[client_id(), option(2, &[0, 2, 9]), address(), option(24, b"\x01a\0\x01b\x01c\0")]);
        let sessions = take(&mut parser, S, &reply);
        let session = sessions[0].as_ref();
        for (name, expected) in [
            ("trans_id", Value::Unsigned(0x01_0203)),
            ("msg_types", texts(&["REQUEST", "REPLY"])),
            ("mac", Value::Mac([2, 0, 0, 0, 0, 9])),
            ("client_fqdn", Value::Text("pc.home".into())),
            ("addresses", texts(&["2001:db8::5"])),
            ("lease_time", Value::Interval(120_000_000_000)),
            ("status", Value::Absent),
            ("dhcpv6.domains", texts(&["a", "b.c"])),
            ("dhcpv6.requested_option_code", Value::Numbers(vec![23].into())),
        ] {
            assert_eq!(value(session, name), expected, "{name}");
        }
    }

    #[test]
    fn a_message_inside_of_relays_is_read() {
        let inner = message(1, &[client_id()]);
        let relayed = [&[12, 0][..], &[7; 16], &[8; 16], &option(18, b"port"), &option(9, &inner)].concat();
        let twice = [&[12, 1][..], &[6; 16], &[8; 16], &option(9, &relayed)].concat();
        let message = Message::parse(&twice).expect("whole");
        assert_eq!((message.kind, message.links.len()), (1, 2));
    }

    #[test]
    fn refusals_say_why() {
        let status = option(13, b"\0\x02none left");
        let mut parser = Dhcpv6Parser::default();
        let sessions = take(&mut parser, S, &message(7, &[option(3, &[&[0; 12][..], &status].concat())]));
        assert_eq!(value(sessions[0].as_ref(), "status"), Value::Unsigned(2));
        assert_eq!(value(sessions[0].as_ref(), "server_message"), Value::Text("none left".into()));
    }

    #[test]
    fn its_port_or_its_options_make_it_one() {
        let probe = |originator: &[u8], port| {
            (PROTOCOL.probe)(&Opening {
                originator,
                ports: [9, port],
                is_datagram: true,
                ..Opening::default()
            })
        };
        let bytes = message(1, &[client_id(), option(6, &[0, 23])]);
        assert_eq!(probe(&bytes, 547), Probe::Certain);
        assert_eq!(probe(&bytes, 9), Probe::Certain);
        assert_eq!(probe(&message(1, &[client_id()]), 9), Probe::NotForUs);
        assert_eq!(probe(&bytes[..bytes.len() - 1], 547), Probe::NotForUs);
        assert_eq!(probe(&[0; 40], 547), Probe::NotForUs);
    }
}

//! SSDP, the discovery protocol of UPnP (UPnP Device Architecture 2.0 §1): one [`SsdpMessage`] per datagram.
//!
//! Messages are HTTP heads and are parsed as such. A search goes to a multicast group, and devices answer
//! from their own addresses, so the answers are flows of their own.

use crate::http::Head;
use crate::line::text as lossy;
use crate::session::session_fields;
use crate::values::{text, unsigned};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "ssdp",
    service: "ssdp",
    log: "ssdp",
    transports: &["udp"],
    ports: &[1900],
    hands_over: &[],
    doc: "SSDP: searches, announcements and answers of UPnP devices (UPnP Device Architecture)",
    probe,
    may_begin,
    open: |_| Box::new(SsdpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "method", "uri", "st", "nt", "location"],
    fields: FIELDS,
};

/// The first byte of `M-SEARCH`, `NOTIFY` or `HTTP/`.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, b'M' | b'N' | b'H')),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of bytes read of a datagram.
pub const MESSAGE_BYTES_MAX: usize = 8192;

/// Maximum number of bytes kept of a value.
pub const TEXT_BYTES_MAX: usize = 512;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsdpMessage {
    /// Capture time.
    pub time: Timestamp,
    /// Direction of the sender.
    pub from: Direction,
    /// `M-SEARCH`, `NOTIFY`; `None` for a response.
    pub method: Option<String>,
    /// Request target: `*`.
    pub uri: Option<String>,
    /// Status code of a response: 200.
    pub status: Option<u16>,
    /// HOST: the multicast group.
    pub host: Option<String>,
    /// ST: the search target, or what was found.
    pub search_target: Option<String>,
    /// NT: the announced device or service.
    pub notification_type: Option<String>,
    /// NTS: `ssdp:alive`, `ssdp:byebye`, `ssdp:update`.
    pub notification_subtype: Option<String>,
    /// USN: unique name of the device or service.
    pub usn: Option<String>,
    /// LOCATION: URL of the device description.
    pub location: Option<String>,
    /// SERVER: software of the device.
    pub server: Option<String>,
    /// USER-AGENT: software of the searcher.
    pub user_agent: Option<String>,
    /// CACHE-CONTROL: validity, seconds.
    pub max_age_s: Option<u32>,
    /// MX: longest delay of responses, seconds.
    pub wait_max_s: Option<u32>,
}

/// The number at the beginning of a text.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

impl SsdpMessage {
    /// Parses a datagram. Also returns how many values were truncated. `None` if it is not SSDP.
    fn parse(data: &Data<'_>) -> Option<(Self, u64)> {
        if side(data.bytes) != Probe::Certain {
            return None;
        }
        let head = Head::parse(&data.bytes[..data.bytes.len().min(MESSAGE_BYTES_MAX)])?;
        let mut cut = u64::from(head.lines_cut()) + u64::from(data.bytes.len() > MESSAGE_BYTES_MAX);
        let mut value = |name: &str| {
            let value = head.header(name).filter(|value| !value.is_empty())?;
            cut += u64::from(value.len() > TEXT_BYTES_MAX);
            Some(lossy(value, TEXT_BYTES_MAX))
        };
        let max_age = |value: &[u8]| {
            let mut parts = value.split(|byte| *byte == b',').map(|part| {
                let part = part.trim_ascii();
                let equals = part.iter().position(|byte| *byte == b'=')?;
                let (name, value) = (part[..equals].trim_ascii_end(), part[equals + 1..].trim_ascii_start());
                name.eq_ignore_ascii_case(b"max-age").then(|| number(value)).flatten()
            });
            parts.find_map(|part| part)
        };
        let message = Self {
            time: data.time,
            from: data.from,
            host: value("host"),
            search_target: value("st"),
            notification_type: value("nt"),
            notification_subtype: value("nts"),
            usn: value("usn"),
            location: value("location").or_else(|| value("al")),
            server: value("server"),
            user_agent: value("user-agent"),
            max_age_s: head.all("cache-control").find_map(max_age),
            wait_max_s: head.header("mx").and_then(number),
            method: head.is_request().then(|| lossy(head.method(), 32)),
            uri: head.is_request().then(|| lossy(head.target(), TEXT_BYTES_MAX)),
            status: (!head.is_request()).then(|| head.code()),
        };
        Some((message, cut))
    }
}

/// Recognises the first bytes of a request; of a response also a header that only SSDP has.
fn side(datagram: &[u8]) -> Probe {
    const BEGINNINGS: [&[u8]; 2] = [b"M-SEARCH * HTTP/1.", b"NOTIFY * HTTP/1."];
    let begins = |beginning: &&[u8]| datagram.starts_with(beginning);
    let has_name = |name: &[u8]| {
        let lines = datagram[..datagram.len().min(MESSAGE_BYTES_MAX)].split(|byte| *byte == b'\n');
        lines.skip(1).any(|line| line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name)))
    };
    let is_answer = || datagram.starts_with(b"HTTP/1.") && (has_name(b"usn:") || has_name(b"st:"));
    if BEGINNINGS.iter().any(begins) || is_answer() { Probe::Certain } else { Probe::NotForUs }
}

fn probe(opening: &Opening<'_>) -> Probe {
    let is_it = |datagram| side(datagram) == Probe::Certain;
    if opening.is_datagram && (is_it(opening.originator) || is_it(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the messages of one flow. Stateless.
#[derive(Debug, Default)]
pub struct SsdpParser {
    cut_off: CutOff,
}

impl SessionParser for SsdpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let Some((message, cut)) = SsdpMessage::parse(data) else { return Progress::NotMine };
        self.cut_off.parts += cut;
        sessions.push(Box::new(message));
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, _: &mut Vec<Box<dyn Session>>) {}

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl Session for SsdpMessage {
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

session_fields! { SsdpMessage;
    "ssdp.is_orig" [] is_orig: Bool, "Whether the originator of the flow sent the message" => |s| Value::Bool(s.from == Direction::Originator);
    "ssdp.method" [] method: Text, "M-SEARCH or NOTIFY; absent in an answer" => |s| text(s.method.as_deref());
    "ssdp.host" [] host: Text, "Multicast group of the message" => |s| text(s.host.as_deref());
    "ssdp.uri" [] uri: Text, "Target of the message: *" => |s| text(s.uri.as_deref());
    "ssdp.status" ["ssdp.code"] status_code: Unsigned, "Code of an answer" => |s| unsigned(s.status);
    "ssdp.st" ["ssdp.search_target"] st: Text, "Search target, or the found one: ssdp:all, upnp:rootdevice" => |s| text(s.search_target.as_deref());
    "ssdp.nt" [] nt: Text, "Type of the announced device or service" => |s| text(s.notification_type.as_deref());
    "ssdp.nts" [] nts: Text, "Type of the announcement: ssdp:alive, ssdp:byebye, ssdp:update" => |s| text(s.notification_subtype.as_deref());
    "ssdp.usn" [] usn: Text, "Identifier of the device, and the announced part of it" => |s| text(s.usn.as_deref());
    "ssdp.location" [] location: Text, "Address of the device description" => |s| text(s.location.as_deref());
    "ssdp.server" [] server: Text, "Product of the device: system, UPnP, product" => |s| text(s.server.as_deref());
    "ssdp.user_agent" [] user_agent: Text, "Product of the searching client" => |s| text(s.user_agent.as_deref());
    "ssdp.max_age" [] max_age: Unsigned, "Validity of the announcement, seconds" => |s| unsigned(s.max_age_s);
    "ssdp.mx" [] mx: Unsigned, "Maximum delay of answers, seconds" => |s| unsigned(s.wait_max_s);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::rows;

    const SEARCH: &str = "M-SEARCH * HTTP/1.1\\r\\nHOST: 239.255.255.250:1900\\r\\nMAN: \\\"ssdp:discover\\\"\\r\\nMX: 3\\r\\nST: upnp:rootdevice\\r\\nUSER-AGENT: os UPnP/2.0 app\\r\\n\\r\\n";
    const ALIVE: &str = "NOTIFY * HTTP/1.1\\r\\nHost: 239.255.255.250:1900\\r\\nCache-Control: no-cache, max-age = 1800\\r\\nLocation: http://10.0.0.1/d.xml\\r\\nNT: upnp:rootdevice\\r\\nNTS: ssdp:alive\\r\\nServer: os UPnP/1.1 tv/2\\r\\nUSN: uuid:1::upnp:rootdevice\\r\\n\\r\\n";
    const ANSWER: &str = "HTTP/1.1 200 OK\\r\\nCACHE-CONTROL: max-age=120\\r\\nEXT:\\r\\nST: upnp:rootdevice\\r\\nUSN: uuid:1::upnp:rootdevice\\r\\n\\r\\n";

    #[test]
    fn each_message_is_a_row() {
        let talk = format!("datagrams\n> \"{SEARCH}\"\n> \"{ALIVE}\"\n< \"{ANSWER}\"\n> \"hello\"\n");
        assert_eq!(
            rows(&PROTOCOL, &talk, &["method", "status_code", "st", "nt", "nts", "usn", "max_age", "mx"]),
            [
                "M-SEARCH | - | upnp:rootdevice | - | - | - | - | 3",
                "NOTIFY | - | - | upnp:rootdevice | ssdp:alive | uuid:1::upnp:rootdevice | 1800 | -",
                "- | 200 | upnp:rootdevice | - | - | uuid:1::upnp:rootdevice | 120 | -",
            ]
        );
        assert_eq!(
            rows(&PROTOCOL, &talk, &["is_orig", "host", "uri", "location", "server", "user_agent"])[..2],
            [
                "true | 239.255.255.250:1900 | * | - | - | os UPnP/2.0 app",
                "true | 239.255.255.250:1900 | * | http://10.0.0.1/d.xml | os UPnP/1.1 tv/2 | -",
            ]
        );
    }

    #[test]
    fn a_message_that_is_cut_is_read_as_far_as_it_goes() {
        let talk = "datagrams\n> \"NOTIFY * HTTP/1.1\\r\\nNT: a\\r\\nUSN: uui\"\n";
        assert_eq!(rows(&PROTOCOL, talk, &["nt", "usn"]), ["a | uui"]);
    }

    #[test]
    fn long_values_are_cut_and_counted() {
        let bytes = format!("NOTIFY * HTTP/1.1\r\nUSN: {}\r\nNT: {}\r\n", "u".repeat(600), "n".repeat(9000));
        let data = Data {
            from: Direction::Originator,
            time: Timestamp(0),
            bytes: bytes.as_bytes(),
            is_datagram: true,
        };
        let (message, cut) = SsdpMessage::parse(&data).expect("one");
        assert_eq!((message.usn.map(|usn| usn.len()), cut), (Some(TEXT_BYTES_MAX), 3));
    }

    #[test]
    fn what_it_begins_with_tells() {
        let probe = |originator: &[u8], is_datagram| {
            (PROTOCOL.probe)(&Opening { originator, is_datagram, ..Opening::default() })
        };
        assert_eq!(probe(b"M-SEARCH * HTTP/1.1\r\n", true), Probe::Certain);
        assert_eq!(probe(b"M-SEARCH * HTTP/1.1\r\n", false), Probe::NotForUs);
        assert_eq!(probe(b"HTTP/1.1 200 OK\r\nEXT:\r\nst:x\r\n", true), Probe::Certain);
        assert_eq!(probe(b"HTTP/1.1 200 OK\r\n\r\n", true), Probe::NotForUs);
        assert_eq!(probe(b"NOTIFY sip:a@b SIP/2.0\r\n", true), Probe::NotForUs);
    }
}

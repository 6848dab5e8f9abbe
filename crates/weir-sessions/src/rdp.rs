//! RDP (MS-RDPBCGR): the user or routing cookie, the security that was negotiated, and the client's settings
//! if in clear.
//!
//! A connection begins with a request and a confirmation of X.224 (ISO 8073) in TPKT (RFC 1006). If they
//! agree on TLS, the parser hands over the rest of the connection; otherwise the settings of GCC (T.124)
//! follow in clear.

use crate::frames::{Frame, Frames, Head, Next};
use crate::line::text as lossy;
use crate::session::session_fields;
use crate::values::{name, text, texts, unsigned};
use crate::wire::{Reader, read_utf16};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use memchr::memmem;
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "rdp",
    service: "rdp",
    log: "rdp",
    transports: &["tcp"],
    ports: &[3389],
    hands_over: &["tls"],
    doc: "Remote desktops: client, user and security protocol (MS-RDPBCGR)",
    probe,
    may_begin,
    open: |_| Box::new(RdpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "cookie", "result", "security_protocol", "client_name"],
    fields: FIELDS,
};

/// TPKT, version 3, around a request or a confirmation of X.224.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte == 3),
        1 => ByteSet::of(|byte| byte == 0),
        5 => ByteSet::of(|byte| matches!(byte, 0xe0 | 0xd0)),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of bytes kept of a message.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Maximum number of channels kept, which is also the protocol's limit (§2.2.1.3.4).
pub const CHANNELS_MAX: usize = 31;

/// Messages of both sides after which no more settings in clear are expected.
const MESSAGES_MAX: u32 = 8;

/// A connection, up to the point where encryption begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdpConnection {
    /// Capture time of its first message.
    pub time: Timestamp,
    /// Value of the cookie: a user name, or a number for the load balancer.
    pub cookie: Option<String>,
    /// Security protocols the client offers, as bits: 1 TLS, 2 CredSSP, 8 CredSSP with Early User
    /// Authorization Result.
    pub requested: Option<u32>,
    /// Security protocol the server chose.
    pub selected: Option<u32>,
    /// Failure code, if the server refused.
    pub failure: Option<u32>,
    /// The client's settings.
    pub client: Option<RdpClient>,
    /// Virtual channels the client requests.
    pub channels: Vec<String>,
    /// Result of the server's Connect-Response (T.125): 0 is success.
    pub result: Option<u8>,
    /// Method and level of RDP's own encryption.
    pub encryption: Option<(u32, u32)>,
    /// The certificate of RDP's own encryption.
    pub certificate: Option<RdpCertificate>,
}

/// The server's certificate for RDP's own encryption (§2.2.1.4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdpCertificate {
    /// 1 a proprietary RSA certificate, 2 a chain of X.509 certificates.
    pub kind: u32,
    /// Number of certificates.
    pub count: u32,
    /// Whether it is permanent, not temporary.
    pub is_permanent: bool,
}

impl RdpCertificate {
    /// Parses the bytes after method and level: both lengths, a random number, the certificate.
    fn parse(block: &[u8]) -> Option<Self> {
        let number =
            |at: usize| Some(u32::from_le_bytes(block.get(at..at.checked_add(4)?)?.try_into().ok()?));
        let at = 8usize.checked_add(usize::try_from(number(0)?).ok()?)?;
        let version = number(at)?;
        let kind = version & 0x7fff_ffff;
        // An X.509 chain begins with its length.
        let count = if kind == 2 { number(at + 4)? } else { 1 };
        Some(Self { kind, count, is_permanent: version >> 31 == 0 })
    }

    /// Zeek's name of the kind.
    fn kind_name(&self) -> Cow<'static, str> {
        match self.kind {
            1 => "RSA".into(),
            2 => "X.509".into(),
            other => format!("cert_type-{other}").into(),
        }
    }
}

/// A client's settings (§2.2.1.3.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RdpClient {
    /// Desktop width and height, pixels.
    pub desktop: (u16, u16),
    /// Keyboard layout.
    pub keyboard: u32,
    /// Build number.
    pub build: u32,
    /// Host name.
    pub name: String,
    /// Requested color depth, bits per pixel.
    pub color_depth_bits: Option<u16>,
    /// Product identifier.
    pub product: Option<String>,
}

impl RdpConnection {
    fn new(time: Timestamp) -> Self {
        Self {
            time,
            cookie: None,
            requested: None,
            selected: None,
            failure: None,
            client: None,
            channels: Vec::new(),
            result: None,
            encryption: None,
            certificate: None,
        }
    }

    /// Parses the variable part of a request: a cookie and the offered security protocols (§2.2.1.1).
    fn take_request(&mut self, data: &[u8]) {
        let mut rest = data;
        if let Some(cookie) = data.strip_prefix(b"Cookie: ")
            && let Some(end) = memmem::find(cookie, b"\r\n")
        {
            let line = &cookie[..end];
            let value = memchr::memchr(b'=', line).map_or(line, |at| &line[at + 1..]);
            self.cookie = Some(lossy(value, 256));
            rest = &cookie[end + 2..];
        }
        if let Some((1, number)) = read_negotiation(rest) {
            self.requested = Some(number);
        }
    }

    /// Parses the variable part of a confirmation (§2.2.1.2). Returns whether TLS follows.
    fn take_confirmation(&mut self, data: &[u8]) -> bool {
        match read_negotiation(data) {
            Some((2, number)) => self.selected = Some(number),
            Some((3, number)) => self.failure = Some(number),
            _ => self.selected = Some(0),
        }
        self.selected.is_some_and(|selected| selected != 0)
    }

    /// Parses the client's settings, which follow their T.124 key.
    fn take_client_settings(&mut self, message: &[u8]) -> Option<()> {
        let mut blocks = Blocks::behind(message, b"Duca")?;
        while let Some((kind, block)) = blocks.next() {
            match kind {
                0xc001 => self.client = RdpClient::parse(block),
                0xc003 => {
                    let list = block.get(4..).unwrap_or_default().as_chunks::<12>().0;
                    let names = list.iter().take(CHANNELS_MAX).map(|channel| {
                        let end = channel[..8].iter().position(|byte| *byte == 0).unwrap_or(8);
                        lossy(&channel[..end], 8)
                    });
                    self.channels = names.collect();
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Parses the server's settings. `None` if the message has none.
    fn take_server_settings(&mut self, message: &[u8]) -> Option<()> {
        // Connect-Response (T.125): an application tag, then the result, an enumeration of one byte.
        let at = memmem::find(message, &[0x7f, 0x66])?;
        let result = memmem::find(&message[at..], &[0x0a, 0x01])?;
        self.result = message.get(at + result + 2).copied();
        let mut blocks = Blocks::behind(message, b"McDn")?;
        while let Some((kind, block)) = blocks.next() {
            let number = |at: usize| {
                block.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes)
            };
            if kind == 0x0c02 {
                self.encryption = number(0).zip(number(4));
                self.certificate = block.get(8..).and_then(RdpCertificate::parse);
            }
        }
        Some(())
    }

    /// Zeek's name of the security protocol.
    pub fn security(&self) -> Option<Cow<'static, str>> {
        Some(match self.selected? {
            0 => "RDP".into(),
            1 => "SSL".into(),
            2 => "HYBRID".into(),
            4 => "RDSTLS".into(),
            8 => "HYBRID_EX".into(),
            other => format!("unknown-{other}").into(),
        })
    }

    /// Outcome of the connection, as far as it is visible.
    pub fn outcome(&self) -> Option<Cow<'static, str>> {
        Some(match (self.failure, self.selected, self.result) {
            (Some(1), ..) => "SSL_REQUIRED_BY_SERVER".into(),
            (Some(2), ..) => "SSL_NOT_ALLOWED_BY_SERVER".into(),
            (Some(3), ..) => "SSL_CERT_NOT_ON_SERVER".into(),
            (Some(4), ..) => "INCONSISTENT_FLAGS".into(),
            (Some(5), ..) => "HYBRID_REQUIRED_BY_SERVER".into(),
            (Some(6), ..) => "SSL_WITH_USER_AUTH_REQUIRED_BY_SERVER".into(),
            (Some(other), ..) => format!("unknown-{other}").into(),
            (_, Some(1..), _) => "encrypted".into(),
            (.., Some(0)) => "Success".into(),
            (.., Some(other)) => format!("refused-{other}").into(),
            _ => return None,
        })
    }
}

impl RdpClient {
    fn parse(block: &[u8]) -> Option<Self> {
        let two = |at: usize| block.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        let four = |at: usize| Some(u32::from(two(at)?) | u32::from(two(at + 2)?) << 16);
        // An early capability flag requests 32 bits, which the older color depth field cannot express.
        let wants_32 = two(140).is_some_and(|flags| flags & 2 != 0);
        Some(Self {
            desktop: (two(4)?, two(6)?),
            keyboard: four(12)?,
            build: four(16)?,
            name: read_utf16(block.get(20..52)?, 16),
            color_depth_bits: if wants_32 { Some(32) } else { two(136) },
            product: block
                .get(142..206)
                .map(|name| read_utf16(name, 32))
                .filter(|product| !product.is_empty()),
        })
    }

    /// Zeek's name of the client's version, by its build number.
    fn version(&self) -> Cow<'static, str> {
        match self.build {
            419 => "RDP 4.0".into(),
            2195 | 2221 => "RDP 5.0".into(),
            2600 => "RDP 5.1".into(),
            3790 => "RDP 5.2".into(),
            6000 => "RDP 6.0".into(),
            6001 => "RDP 6.1".into(),
            6002 => "RDP 6.2".into(),
            7600 => "RDP 7.0".into(),
            7601 => "RDP 7.1".into(),
            9200 => "RDP 8.0".into(),
            9600 => "RDP 8.1".into(),
            25189 | 25282 => "RDP 8.0 (Mac)".into(),
            other => format!("client_build-{other}").into(),
        }
    }

    /// Name of the keyboard layout, for the most common ones.
    fn keyboard_name(&self) -> Cow<'static, str> {
        match self.keyboard {
            0x0404 => "Chinese - Taiwan".into(),
            0x0407 => "German - Germany".into(),
            0x0409 => "English - United States".into(),
            0x040a => "Spanish - Spain (Traditional Sort)".into(),
            0x040c => "French - France".into(),
            0x0410 => "Italian - Italy".into(),
            0x0411 => "Japanese".into(),
            0x0412 => "Korean".into(),
            0x0415 => "Polish".into(),
            0x0416 => "Portuguese - Brazil".into(),
            0x0419 => "Russian".into(),
            0x041f => "Turkish".into(),
            0x0804 => "Chinese - PRC".into(),
            0x0809 => "English - United Kingdom".into(),
            other => format!("keyboard-{other}").into(),
        }
    }
}

/// Blocks of settings, each with a type and a length, little-endian (§2.2.1.3.1).
struct Blocks<'a>(&'a [u8]);

impl<'a> Blocks<'a> {
    /// The blocks after a T.124 key and a length.
    fn behind(message: &'a [u8], key: &[u8; 4]) -> Option<Self> {
        let rest = &message[memmem::find(message, key)? + 4..];
        let length_bytes = if rest.first()? & 0x80 == 0 { 1 } else { 2 };
        rest.get(length_bytes..).map(Self)
    }

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let ([kind, kind_high, low, high], _) = self.0.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let block = self.0.get(4..length)?;
        self.0 = &self.0[length..];
        Some((u16::from_le_bytes([*kind, *kind_high]), block))
    }
}

/// Type and value of a negotiation request, response or failure (§2.2.1.1.1, §2.2.1.2.1, §2.2.1.2.2).
fn read_negotiation(bytes: &[u8]) -> Option<(u8, u32)> {
    let ([kind @ 1..=3, _, 8, 0, number @ ..], _) = bytes.split_first_chunk::<8>()? else { return None };
    Some((*kind, u32::from_le_bytes(*number)))
}

/// Measures a TPKT (RFC 1006 §6): version 3, a zero, the total length.
fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [3, 0, high, low, ..] => match u16::from_be_bytes([*high, *low]) {
            length @ 7.. => Head::Bytes(length.into()),
            _ => Head::Wrong,
        },
        [] | [3] | [3, 0] | [3, 0, _] => Head::Short,
        _ => Head::Wrong,
    }
}

/// Type of an X.224 message, and the bytes after its header.
fn read_x224(message: &[u8]) -> Option<(u8, &[u8])> {
    let mut reader = Reader::new(message.get(4..)?);
    let length = reader.u8()?;
    let kind = reader.u8()? & 0xf0;
    let head = if kind == 0xf0 { 1 } else { 5 };
    (usize::from(length) > head).then_some(())?;
    reader.take(head)?;
    Some((kind, reader.rest()))
}

/// A request with a cookie or a negotiation request, or its confirmation. Other protocols over X.224 have
/// neither.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| match measure(bytes) {
        Head::Wrong => Probe::NotForUs,
        Head::Short => Probe::Unsure,
        Head::Bytes(length) => match bytes.get(5) {
            None => Probe::Unsure,
            Some(0xe0 | 0xd0) => match bytes.get(..length as usize) {
                Some(message) => match read_x224(message) {
                    Some((0xe0, data)) if data.starts_with(b"Cookie: ms") => Probe::Certain,
                    Some((_, data)) if read_negotiation(data).is_some() => Probe::Certain,
                    // The oldest clients send neither cookie nor negotiation request.
                    Some((_, [])) if opening.is_on(PROTOCOL.ports) => Probe::Certain,
                    _ => Probe::NotForUs,
                },
                None if length > 512 => Probe::NotForUs,
                None => Probe::Unsure,
            },
            Some(_) => Probe::NotForUs,
        },
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct RdpParser {
    sides: [Frames; 2],
    connection: Option<Box<RdpConnection>>,
    messages: u32,
    cut_off: CutOff,
}

impl SessionParser for RdpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            match self.sides[data.from as usize].next(&mut rest, data.time, MESSAGE_BYTES_MAX, measure) {
                Next::Frame(frame) => match self.take_message(&frame) {
                    Progress::Wanted | Progress::Inner | Progress::NotMine => {}
                    Progress::Done => {
                        self.finish(sessions);
                        return Progress::Done;
                    }
                    Progress::HandOver { .. } => {
                        self.finish(sessions);
                        return Progress::HandOver { rest_bytes: rest.len() };
                    }
                },
                Next::More => return Progress::Wanted,
                Next::Lost => {
                    self.finish(sessions);
                    return Progress::Done;
                }
            }
        }
    }

    fn gap(&mut self, _: Direction, _: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        // After a loss the negotiated security is unknown.
        self.finish(sessions);
        Progress::Done
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.connection.take().map(|connection| connection as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl RdpParser {
    fn take_message(&mut self, frame: &Frame<'_>) -> Progress {
        self.messages += 1;
        self.cut_off.parts += u64::from(frame.length_bytes > MESSAGE_BYTES_MAX as u64);
        let Some((kind, data)) = read_x224(&frame.bytes) else { return Progress::Done };
        let connection = self.connection.get_or_insert_with(|| Box::new(RdpConnection::new(frame.time)));
        match kind {
            0xe0 => connection.take_request(data),
            0xd0 if connection.take_confirmation(data) => return Progress::HandOver { rest_bytes: 0 },
            0xd0 if connection.failure.is_some() => return Progress::Done,
            0xf0 if connection.take_client_settings(data).is_some() => {}
            0xf0 if connection.take_server_settings(data).is_some() => return Progress::Done,
            _ => {}
        }
        if self.messages < MESSAGES_MAX { Progress::Wanted } else { Progress::Done }
    }
}

impl Session for RdpConnection {
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

/// Zeek's name of an encryption level (§2.2.1.4.3).
fn level_name(level: u32) -> Cow<'static, str> {
    match level {
        0 => "None".into(),
        1 => "Low".into(),
        2 => "Client compatible".into(),
        3 => "High".into(),
        4 => "FIPS".into(),
        other => format!("encryption_level-{other}").into(),
    }
}

/// Zeek's name of an encryption method (§2.2.1.4.3).
fn method_name(method: u32) -> Cow<'static, str> {
    match method {
        0 => "None".into(),
        1 => "40bit".into(),
        2 => "128bit".into(),
        8 => "56bit".into(),
        16 => "FIPS".into(),
        other => format!("encryption_method-{other}").into(),
    }
}

session_fields! { RdpConnection;
    "rdp.rt_cookie" ["rdp.cookie"] cookie: Text, "Cookie of the request: the user name, possibly truncated, or a number for load balancing" => |r| text(r.cookie.as_deref());
    "rdp.result" [] result: Text, "Result of the connection: Success, encrypted, SSL_REQUIRED_BY_SERVER" => |r| name(r.outcome());
    "rdp.security_protocol" [] security_protocol: Text, "Security protocol: RDP, SSL, HYBRID" => |r| name(r.security());
    "rdp.client_channels" ["rdp.channels"] client_channels: Texts, "Virtual channels that the client requests" => |r| texts(&r.channels);
    "rdp.keyboard_layout" [] keyboard_layout: Text, "Layout of the client's keyboard" => |r| name(r.client.as_ref().map(RdpClient::keyboard_name));
    "rdp.client_build" [] client_build: Text, "Version of the client" => |r| name(r.client.as_ref().map(RdpClient::version));
    "rdp.client.name" ["rdp.client_name"] client_name: Text, "Name of the client's host" => |r| text(r.client.as_ref().map(|c| c.name.as_str()));
    "rdp.client.digProductId" ["rdp.client_dig_product_id"] client_dig_product_id: Text, "Identifier of the client's product" => |r| text(r.client.as_ref().and_then(|c| c.product.as_deref()));
    "rdp.desktop.width" ["rdp.desktop_width"] desktop_width: Unsigned, "Width of the desktop, pixels" => |r| unsigned(r.client.as_ref().map(|c| c.desktop.0));
    "rdp.desktop.height" ["rdp.desktop_height"] desktop_height: Unsigned, "Height of the desktop, pixels" => |r| unsigned(r.client.as_ref().map(|c| c.desktop.1));
    "rdp.requested_color_depth" [] requested_color_depth: Text, "Requested color depth: 32bit" => |r| name(r.client.as_ref().and_then(|c| c.color_depth_bits).map(|bits| format!("{bits}bit").into()));
    "rdp.cert_type" [] cert_type: Text, "Type of the server's certificate without TLS: RSA, X.509" => |r| name(r.certificate.map(|c| c.kind_name()));
    "rdp.cert_count" [] cert_count: Unsigned, "Number of the server's certificates without TLS" => |r| unsigned(r.certificate.map(|c| c.count));
    "rdp.cert_permanent" [] cert_permanent: Bool, "Whether the server's certificate without TLS is permanent" => |r| r.certificate.map_or(Value::Absent, |c| Value::Bool(c.is_permanent));
    "rdp.encryption_level" [] encryption_level: Text, "Level of RDP's own encryption: None, Low, High" => |r| name(r.encryption.map(|e| level_name(e.1)));
    "rdp.encryption_method" [] encryption_method: Text, "Method of RDP's own encryption: 40bit, 128bit, FIPS" => |r| name(r.encryption.map(|e| method_name(e.0)));
    // Not in the log.
    "rdp.negReq.requestedProtocols" ["rdp.requested"] _: Unsigned, "Security protocols that the client supports, as bits: 1 TLS, 2 CredSSP" => |r| unsigned(r.requested);
    "rdp.negReq.selectedProtocol" ["rdp.selected"] _: Unsigned, "Security protocol that the server chose" => |r| unsigned(r.selected);
    "rdp.encryptionLevel" [] _: Unsigned, "Number of the level of RDP's own encryption" => |r| unsigned(r.encryption.map(|e| e.1));
    "rdp.encryptionMethod" [] _: Unsigned, "Number of the method of RDP's own encryption" => |r| unsigned(r.encryption.map(|e| e.0));
    "rdp.keyboardLayout" [] _: Unsigned, "Number of the keyboard's layout" => |r| unsigned(r.client.as_ref().map(|c| c.keyboard));
    "rdp.client.build" [] _: Unsigned, "Number of the client's build" => |r| unsigned(r.client.as_ref().map(|c| c.build));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::rows;

    const REQUEST: &str =
        "> 0300 0029 24 e0 0000 0000 00 \"Cookie: mstshash=bob\\r\\n\" 01 00 0800 0b000000\n";

    #[test]
    fn tls_is_handed_over() {
        let talk = REQUEST.to_owned() + "< 0300 0013 0e d0 0000 1234 00 02 1f 0800 02000000\n> 160301\n";
        assert_eq!(
            rows(&PROTOCOL, &talk, &["cookie", "result", "security_protocol", "rdp.requested"]),
            ["bob | encrypted | HYBRID | 11", "over to 19"]
        );
    }

    #[test]
    fn the_server_says_no() {
        let talk = "> 0300 0013 0e e0 0000 0000 00 01 00 0800 00000000\n< 0300 0013 0e d0 0000 1234 00 03 00 0800 05000000\n";
        assert_eq!(
            rows(&PROTOCOL, talk, &["cookie", "result", "security_protocol"]),
            ["- | HYBRID_REQUIRED_BY_SERVER | -"]
        );
    }

    #[test]
    fn settings_in_clear_are_read() {
        let core = format!(
            "01c0 d800 04000800 8007 3804 01ca 03aa 09040000 801d0000 {} 04000000 00000000 0c000000 {} 01ca 0100 00000000 1800 0700 0100 {} 00 00 00000000",
            "570053003100".to_owned() + &"00".repeat(26),
            "00".repeat(64),
            "3100".to_owned() + &"00".repeat(62)
        );
        let talk = format!(
            "> 0300 000b 06 e0 0000 0000 00\n< 0300 000b 06 d0 0000 1234 00\n\
             > 0300 00ff 02 f0 80 7f65 \"Duca\" 80ec {core} 03c0 1400 01000000 \"rdpdr\" 000000 00008080 00000000\n\
             < 0300 0024 02 f0 80 7f66 17 0a0100 \"McDn\" 10 020c 0c00 02000000 02000000 000000000000\n"
        );
        let names = [
            "result",
            "security_protocol",
            "client_channels",
            "keyboard_layout",
            "client_build",
            "client_name",
            "client_dig_product_id",
            "desktop_width",
            "desktop_height",
            "requested_color_depth",
            "encryption_level",
            "encryption_method",
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk, &names),
            [
                "Success | RDP | rdpdr | English - United States | client_build-7552 | WS1 | 1 | 1920 | 1080 | 24bit | Client compatible | 128bit"
            ]
        );
    }

    #[test]
    fn the_servers_key_is_told() {
        let answer = |block: &str, length: u32| {
            let talk = format!(
                "> 0300 000b 06 e0 0000 0000 00\n< 0300 000b 06 d0 0000 1234 00\n\
                 < 0300 00{:02x} 02 f0 80 7f66 17 0a0100 \"McDn\" 10 020c {length:02x}00 {block}\n",
                18 + length
            );
            rows(
                &PROTOCOL,
                &talk,
                &["encryption_level", "encryption_method", "cert_type", "cert_count", "cert_permanent"],
            )
        };
        assert_eq!(
            answer("02000000 03000000 04000000 04000000 aabbccdd 01000080", 28),
            ["High | 128bit | RSA | 1 | false"]
        );
        assert_eq!(
            answer("10000000 04000000 00000000 08000000 02000000 03000000", 28),
            ["FIPS | FIPS | X.509 | 3 | true"]
        );
        assert_eq!(answer("02000000 03000000 ffffffff 04000000 01000000", 24), ["High | 128bit | - | - | -"]);
    }

    #[test]
    fn a_negotiation_makes_it_one() {
        let probe = |bytes: &[u8], port| {
            (PROTOCOL.probe)(&Opening { originator: bytes, ports: [9, port], ..Opening::default() })
        };
        assert_eq!(probe(&[3, 0, 0, 19, 14, 0xe0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0], 9), Probe::Certain);
        assert_eq!(probe(&[3, 0, 0, 11, 6, 0xe0, 0, 0, 0, 0, 0], 3389), Probe::Certain);
        assert_eq!(probe(&[3, 0, 0, 19], 9), Probe::Unsure);
        // S7 also uses X.224.
        let s7 = [3, 0, 0, 22, 17, 0xe0, 0, 0, 0, 1, 0, 0xc1, 2, 1, 0, 0xc2, 2, 1, 2, 0xc0, 1, 9];
        assert_eq!(probe(&s7, 3389), Probe::NotForUs);
        assert_eq!(probe(b"\x03\x00\x00\x06", 3389), Probe::NotForUs);
    }
}

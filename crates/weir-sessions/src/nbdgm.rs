//! NetBIOS datagrams (RFC 1002 §4.4): one [`NetbiosDatagram`] for each, with what a host announces in it
//! (MS-BRWS §2.2).
//!
//! A datagram contains an SMB message that writes to a mailslot (MS-MAIL §2.2.1). Windows hosts use the
//! mailslot `\MAILSLOT\BROWSE` for the browser protocol: they announce themselves there, and elect the host
//! that keeps the list of all others, the master browser.

use crate::dns::{decode_netbios, escape};
use crate::session::{Words, named, session_fields};
use crate::values::{name, owned, owned_texts, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "nbdgm",
    service: "nbdgm",
    log: "nbdgm",
    transports: &["udp"],
    ports: &[138],
    hands_over: &[],
    doc: "NetBIOS datagrams: between which names, and what hosts announce of themselves (RFC 1002, MS-BRWS)",
    probe,
    may_begin,
    open: |_| Box::new(NbdgmParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "source_name", "destination_name", "command", "announced", "comment"],
    fields: FIELDS,
};

/// The first byte is the type of message. The second byte contains flags; its upper four bits are 0.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, DIRECT_UNIQUE..=QUERY_NEGATIVE)),
        1 => ByteSet::of(|byte| byte < 0x10),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of bytes kept of a text.
pub const TEXT_BYTES_MAX: usize = 256;

/// Types of message (RFC 1002 §4.4.1).
const DIRECT_UNIQUE: u8 = 0x10;
const BROADCAST: u8 = 0x12;
const ERROR: u8 = 0x13;
const QUERY: u8 = 0x14;
const QUERY_NEGATIVE: u8 = 0x16;

/// A datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetbiosDatagram {
    /// Capture time.
    pub time: Timestamp,
    /// Direction of the sender.
    pub from: Direction,
    /// Type of message: 0x10 to 0x16.
    pub kind: u8,
    /// Whether another fragment follows.
    pub is_followed: bool,
    /// Number of the datagram, chosen by the sender.
    pub id: u16,
    /// Address of the sender, which another host may pass on.
    pub source_address: Ipv4Addr,
    /// Port of the sender.
    pub source_port: u16,
    /// Code of an error: 0x82 the destination is unknown, 0x83 and 0x84 a name is malformed.
    pub error: Option<u8>,
    /// Name of the sender.
    pub source: Option<NetbiosName>,
    /// Name of the receiver or of the group; in queries, the name that is asked for.
    pub destination: Option<NetbiosName>,
    /// Name of the mailslot: `\MAILSLOT\BROWSE`.
    pub mailslot: Option<String>,
    /// Message of the browser protocol.
    pub browser: Option<BrowserMessage>,
}

/// A NetBIOS name (RFC 1001 §14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetbiosName {
    /// The name without its padding.
    pub name: String,
    /// The type of service: 0x00 workstation, 0x1d master browser, 0x1e browsers, 0x20 server.
    pub suffix: u8,
}

/// A message of the browser protocol (MS-BRWS §2.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowserMessage {
    /// The command: 1 host announcement, 8 election, 12 domain announcement, 15 that of the local master.
    pub command: u8,
    /// The host, or the domain of a domain announcement.
    pub announced: Option<String>,
    /// Time until the next announcement, milliseconds.
    pub period_ms: Option<u32>,
    /// Version of the operating system.
    pub version: Option<(u8, u8)>,
    /// What the host is, as bits (MS-BRWS §2.2.1).
    pub roles: Option<u32>,
    /// The comment; in a domain announcement, the master browser.
    pub comment: Option<String>,
}

impl NetbiosDatagram {
    /// Parses a datagram. Also returns how many texts were truncated. `None` if the format is another.
    fn parse(data: &Data<'_>) -> Option<(Self, u64)> {
        let mut reader = Reader::new(data.bytes);
        let [kind, flags] = reader.array()?;
        if !(DIRECT_UNIQUE..=QUERY_NEGATIVE).contains(&kind) || flags >= 0x10 {
            return None;
        }
        let mut message = Self {
            time: data.time,
            from: data.from,
            kind,
            is_followed: flags & 1 != 0,
            id: reader.u16()?,
            source_address: Ipv4Addr::from(reader.array::<4>()?),
            source_port: reader.u16()?,
            error: None,
            source: None,
            destination: None,
            mailslot: None,
            browser: None,
        };
        let mut cut = 0;
        match kind {
            DIRECT_UNIQUE..=BROADCAST => {
                let [_length, offset] = [reader.u16()?, reader.u16()?];
                message.source = Some(read_name(&mut reader)?);
                message.destination = Some(read_name(&mut reader)?);
                // Later fragments begin inside the message of SMB.
                if offset == 0 {
                    message.read_mailslot(reader.rest(), &mut cut);
                }
            }
            ERROR => message.error = Some(reader.u8().filter(|code| matches!(code, 0x82..=0x84))?),
            _ => message.destination = Some(read_name(&mut reader)?),
        }
        Some((message, cut))
    }

    /// Reads a write to a mailslot: SMB_COM_TRANSACTION with 17 words, the last three of the mailslot.
    fn read_mailslot(&mut self, smb: &[u8], cut: &mut u64) {
        const WORDS_AT: usize = 32;
        const NAME_AT: usize = WORDS_AT + 1 + 17 * 2 + 2;
        // The twelfth and the thirteenth word: length and place of the contents (MS-CIFS 2.2.4.33.1).
        const LENGTH_AT: usize = WORDS_AT + 1 + 11 * 2;
        const CONTENTS_AT: usize = LENGTH_AT + 2;
        let number =
            |at: usize| smb.get(at..at + 2).map(|two| usize::from(u16::from_le_bytes([two[0], two[1]])));
        if !smb.starts_with(b"\xffSMB\x25") || smb.get(WORDS_AT) != Some(&17) {
            return;
        }
        let Some(name) = smb.get(NAME_AT..) else { return };
        let name = self.mailslot.insert(zero_ended(name, TEXT_BYTES_MAX, cut));
        let (Some(count), Some(begin)) = (number(LENGTH_AT), number(CONTENTS_AT)) else { return };
        let Some(contents) = smb.get(begin..smb.len().min(begin + count)) else { return };
        if name.eq_ignore_ascii_case(r"\MAILSLOT\BROWSE") {
            self.browser = BrowserMessage::read(contents, cut);
        }
    }
}

impl BrowserMessage {
    /// Reads a message as far as it goes.
    fn read(contents: &[u8], cut: &mut u64) -> Option<Self> {
        let mut reader = Reader::new(contents);
        let mut message = Self { command: reader.u8()?, ..Self::default() };
        let _ = message.read_rest(&mut reader, cut); // a message that the capture cut has no further values
        Some(message)
    }

    fn read_rest(&mut self, reader: &mut Reader<'_>, cut: &mut u64) -> Option<()> {
        let mut rest = |reader: &Reader<'_>| {
            Some(zero_ended(reader.rest(), TEXT_BYTES_MAX, cut)).filter(|t| !t.is_empty())
        };
        match self.command {
            HOST | DOMAIN | LOCAL_MASTER => {
                reader.u8()?;
                self.period_ms = Some(u32::from_le_bytes(reader.array()?));
                self.announced = Some(zero_ended(reader.take(16)?, 16, &mut 0));
                self.version = Some(reader.array().map(|[major, minor]: [u8; 2]| (major, minor))?);
                self.roles = Some(u32::from_le_bytes(reader.array()?));
                // The version of the protocol and its mark; in a domain announcement, a pointer.
                reader.array::<4>()?;
                self.comment = rest(reader);
            }
            ANNOUNCEMENT_REQUEST => {
                reader.u8()?;
                self.announced = rest(reader);
            }
            ELECTION => {
                // Version, criteria, time since the start, and four bytes that are 0.
                reader.take(13)?;
                self.announced = rest(reader);
            }
            BECOME_BACKUP | MASTER => self.announced = rest(reader),
            _ => {}
        }
        Some(())
    }
}

/// The text before the first zero. Counts it in `cut` if it has more than `bytes_max` bytes.
fn zero_ended(bytes: &[u8], bytes_max: usize, cut: &mut u64) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    *cut += u64::from(bytes.len() > bytes_max);
    escape(&bytes[..bytes.len().min(bytes_max)])
}

/// Reads an encoded name (RFC 1001 §14.1), and the labels of its scope, which are not kept.
fn read_name(reader: &mut Reader<'_>) -> Option<NetbiosName> {
    let (name, suffix) = decode_netbios(reader.vector8()?)?;
    // A scope is at most 255 bytes long, and so are its labels.
    for _ in 0..128 {
        if reader.vector8()?.is_empty() {
            return Some(NetbiosName { name, suffix });
        }
    }
    None
}

/// Commands of the browser protocol (MS-BRWS §2.2).
const HOST: u8 = 1;
const ANNOUNCEMENT_REQUEST: u8 = 2;
const ELECTION: u8 = 8;
const BECOME_BACKUP: u8 = 11;
const DOMAIN: u8 = 12;
const MASTER: u8 = 13;
const LOCAL_MASTER: u8 = 15;

const COMMANDS: Words = Words { list: || named(0..=u8::MAX, command_name), others: &["unknown-"] };

/// The name of a command of the browser protocol.
fn command_name(command: u8) -> Cow<'static, str> {
    Cow::Borrowed(match command {
        HOST => "host-announcement",
        ANNOUNCEMENT_REQUEST => "announcement-request",
        ELECTION => "request-election",
        9 => "get-backup-list-request",
        10 => "get-backup-list-response",
        BECOME_BACKUP => "become-backup",
        DOMAIN => "domain-announcement",
        MASTER => "master-announcement",
        14 => "reset-state",
        LOCAL_MASTER => "local-master-announcement",
        other => return Cow::Owned(format!("unknown-{other}")),
    })
}

const KINDS: Words = Words { list: || named(DIRECT_UNIQUE..=QUERY_NEGATIVE, kind_name), others: &[] };

/// The name of a type of message.
fn kind_name(kind: u8) -> Cow<'static, str> {
    Cow::Borrowed(match kind {
        DIRECT_UNIQUE => "direct-unique",
        0x11 => "direct-group",
        BROADCAST => "broadcast",
        ERROR => "error",
        QUERY => "query",
        0x15 => "positive-response",
        _ => "negative-response",
    })
}

/// The roles of a host, in the order of their bits (MS-BRWS §2.2.1). Bits without a name are not shown.
const ROLES: [(u8, &str); 19] = [
    (0, "workstation"),
    (1, "server"),
    (2, "sql-server"),
    (3, "domain-controller"),
    (4, "backup-domain-controller"),
    (5, "time-source"),
    (6, "apple-server"),
    (7, "novell-server"),
    (8, "domain-member"),
    (9, "print-server"),
    (10, "dial-in-server"),
    (11, "unix"),
    (12, "nt-workstation"),
    (13, "windows-for-workgroups"),
    (15, "nt-server"),
    (16, "potential-browser"),
    (17, "backup-browser"),
    (18, "master-browser"),
    (19, "domain-master-browser"),
];

fn role_names(roles: u32) -> Vec<String> {
    let names = ROLES.iter().filter(|(bit, _)| roles >> bit & 1 == 1);
    names.map(|(_, name)| (*name).to_owned()).collect()
}

/// An encoded name has 34 bytes of a fixed form, so a datagram with one is recognised on any port. An error
/// has no name, and is recognised on port 138 only.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_port_known = opening.is_on(PROTOCOL.ports);
    let is_it = |bytes| {
        let data = Data { from: Direction::Originator, time: Timestamp(0), bytes, is_datagram: true };
        NetbiosDatagram::parse(&data).is_some_and(|(message, _)| is_port_known || message.error.is_none())
    };
    if opening.is_datagram && (is_it(opening.originator) || is_it(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the datagrams of one flow. Stateless.
#[derive(Debug, Default)]
pub struct NbdgmParser {
    cut_off: CutOff,
}

impl SessionParser for NbdgmParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let Some((message, cut)) = NetbiosDatagram::parse(data) else { return Progress::NotMine };
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

impl NetbiosDatagram {
    fn browser<'a>(&'a self, read: impl FnOnce(&'a BrowserMessage) -> Value<'a>) -> Value<'a> {
        self.browser.as_ref().map_or(Value::Absent, read)
    }
}

impl Session for NetbiosDatagram {
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

session_fields! { NetbiosDatagram;
    "nbdgm.is_orig" [] is_orig: Bool, "Whether the originator of the flow sent the datagram" => |s| Value::Bool(s.from == Direction::Originator);
    "nbdgm.kind" [] kind: Text in KINDS, "Type of the message: direct-unique, direct-group, broadcast, error" => |s| name(Some(kind_name(s.kind)));
    "nbdgm.source_name" [] source_name: Text, "Name of the sender" => |s| text(s.source.as_ref().map(|n| n.name.as_str()));
    "nbdgm.source_suffix" [] source_suffix: Unsigned, "Service of the sender's name: 0 workstation, 32 server" => |s| unsigned(s.source.as_ref().map(|n| n.suffix));
    "nbdgm.destination_name" [] destination_name: Text, "Name of the receiver or group; in a query, the name in question" => |s| text(s.destination.as_ref().map(|n| n.name.as_str()));
    "nbdgm.destination_suffix" [] destination_suffix: Unsigned, "Service of that name: 29 master browser, 30 browsers of the group" => |s| unsigned(s.destination.as_ref().map(|n| n.suffix));
    "nbdgm.src.ip" [] source_addr: Address, "Address of the sender in the datagram" => |s| Value::Address(IpAddr::V4(s.source_address));
    "mailslot.name" ["nbdgm.mailslot"] mailslot: Text, "Mailslot that the datagram writes to: \\MAILSLOT\\BROWSE" => |s| text(s.mailslot.as_deref());
    "nbdgm.browser" [] command: Text in COMMANDS, "Message of the browser protocol: host-announcement, request-election" => |s| s.browser(|b| name(Some(command_name(b.command))));
    "browser.server" ["nbdgm.announced"] announced: Text, "Host that the message names; in a domain announcement, the domain" => |s| s.browser(|b| text(b.announced.as_deref()));
    "browser.comment" ["nbdgm.comment"] comment: Text, "Description of the host; in a domain announcement, its master browser" => |s| s.browser(|b| text(b.comment.as_deref()));
    "browser.windows_version" ["nbdgm.os_version"] os_version: Text, "Version of the operating system: 6.1" => |s| s.browser(|b| b.version.map_or(Value::Absent, |(major, minor)| owned(format!("{major}.{minor}"))));
    "nbdgm.roles" [] roles: Texts, "What the host is: workstation, server, master-browser" => |s| s.browser(|b| b.roles.map_or(Value::Absent, |roles| owned_texts(role_names(roles))));
    "nbdgm.period" [] period: Interval, "Time until the next announcement" => |s| s.browser(|b| b.period_ms.map_or(Value::Absent, |ms| Value::Interval(u64::from(ms) * 1_000_000)));
    "nbdgm.error_code" [] error: Unsigned, "Code of an error: 130 unknown destination, 131 and 132 malformed name" => |s| unsigned(s.error);
    // Fields without a column in the log.
    "nbdgm.type" [] _: Unsigned, "Type of the message, as a number" => |s| unsigned(Some(s.kind));
    "nbdgm.next" [] _: Bool, "Whether another fragment follows" => |s| Value::Bool(s.is_followed);
    "nbdgm.dgram_id" [] _: Unsigned, "Number of the datagram" => |s| unsigned(Some(s.id));
    "nbdgm.src.port" [] _: Unsigned, "Port of the sender in the datagram" => |s| unsigned(Some(s.source_port));
    "browser.command" [] _: Unsigned, "Message of the browser protocol, as a number" => |s| unsigned(s.browser.as_ref().map(|b| b.command));
    "browser.server_type" [] _: Unsigned, "What the host is, as bits" => |s| unsigned(s.browser.as_ref().and_then(|b| b.roles));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::rows;

    const HEADER: &str = "110a83c0c0a8010a008a00c60000";
    /// FRED<00> and WORKGROUP<1d>.
    const NAMES: &str = concat!(
        "20454746434546454543414341434143414341434143414341434143414341414100",
        "20464845504643454c45484643455046464641434143414341434143414341424e00",
    );

    /// A write to the mailslot of browsers, as hexadecimal digits.
    fn mailslot(contents: &[u8]) -> String {
        let mut smb = b"\xffSMB\x25".to_vec();
        smb.resize(32, 0);
        smb.push(17);
        smb.resize(55, 0);
        smb.extend([contents.len() as u8, 0, 86, 0]);
        smb.resize(69, 0);
        smb.extend(b"\\MAILSLOT\\BROWSE\0");
        smb.resize(86, 0);
        smb.extend(contents);
        crate::wire::hex(&smb)
    }

    fn announcement(command: u8, comment: &[u8]) -> Vec<u8> {
        let mut contents = vec![command, 3, 0x60, 0xea, 0, 0];
        contents.extend(b"FRED\0\0\0\0\0\0\0\0\0\0\0\0\x06\x01\x03\x10\x05\x00\x0f\x01\x55\xaa");
        contents.extend(comment);
        contents
    }

    fn talk(contents: &[u8]) -> String {
        format!("datagrams\n> {HEADER}{NAMES}{}\n", mailslot(contents))
    }

    #[test]
    fn an_announcement_has_names_and_roles() {
        let talk = talk(&announcement(15, b"Fred's\0"));
        assert_eq!(
            rows(
                &PROTOCOL,
                &talk,
                &[
                    "kind",
                    "source_name",
                    "source_suffix",
                    "destination_name",
                    "destination_suffix",
                    "mailslot"
                ]
            ),
            [r"direct-group | FRED | 0 | WORKGROUP | 29 | \MAILSLOT\BROWSE"]
        );
        assert_eq!(
            rows(
                &PROTOCOL,
                &talk,
                &["command", "announced", "comment", "os_version", "roles", "period", "source_addr"]
            ),
            [
                "local-master-announcement | FRED | Fred's | 6.1 | workstation,server,nt-workstation,potential-browser,master-browser | 60000000000 | 192.168.1.10"
            ]
        );
    }

    #[test]
    fn elections_and_requests_name_a_host() {
        let mut election = vec![8, 1];
        election.extend([0; 12]);
        election.extend(b"FRED\0");
        assert_eq!(rows(&PROTOCOL, &talk(&election), &["command", "announced"]), ["request-election | FRED"]);
        assert_eq!(
            rows(&PROTOCOL, &talk(b"\x02\0FRED\0"), &["command", "announced"]),
            ["announcement-request | FRED"]
        );
        assert_eq!(rows(&PROTOCOL, &talk(b"\x63"), &["command", "announced"]), ["unknown-99 | -"]);
    }

    #[test]
    fn errors_and_queries_have_no_mailslot() {
        let name = &NAMES[..68];
        let talk =
            format!("datagrams\n> {HEADER}{NAMES}\n< 130083c0c0a8010a008a82\n< 140083c0c0a8010a008a{name}\n");
        assert_eq!(
            rows(&PROTOCOL, &talk, &["kind", "destination_name", "mailslot", "error"]),
            ["direct-group | WORKGROUP | - | -", "error | - | - | 130", "query | FRED | - | -"]
        );
    }

    #[test]
    fn what_was_cut_is_read_as_far_as_it_goes() {
        let whole = talk(&announcement(1, b"Fred's\0"));
        let cut = &whole[..whole.len() - 2 * 13];
        assert_eq!(
            rows(&PROTOCOL, cut, &["command", "announced", "roles"]),
            ["host-announcement | FRED | -"]
        );
    }

    #[test]
    fn long_comments_are_cut_and_counted() {
        let mut cut = 0;
        let message = BrowserMessage::read(&announcement(1, &[b'c'; 300]), &mut cut).expect("one");
        assert_eq!((message.comment.map(|comment| comment.len()), cut), (Some(TEXT_BYTES_MAX), 1));
    }

    #[test]
    fn the_names_tell() {
        let bytes = |hexadecimal: &str| -> Vec<u8> {
            let digits = hexadecimal.as_bytes().as_chunks::<2>().0;
            digits
                .iter()
                .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
                .collect()
        };
        let probe = |originator: &[u8], port| {
            (PROTOCOL.probe)(&Opening {
                originator,
                is_datagram: true,
                ports: [9, port],
                ..Opening::default()
            })
        };
        let whole = bytes(&format!("{HEADER}{NAMES}"));
        assert_eq!(probe(&whole, 9), Probe::Certain);
        assert_eq!(probe(&whole[..60], 138), Probe::NotForUs);
        let error = bytes("130083c0c0a8010a008a82");
        assert_eq!((probe(&error, 138), probe(&error, 9)), (Probe::Certain, Probe::NotForUs));
    }
}

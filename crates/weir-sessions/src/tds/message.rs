//! Packets and messages: headers (MS-TDS §2.2.3.1), PRELOGIN (§2.2.6.5), LOGIN7 (§2.2.6.4), and the tokens
//! that answer a login (§2.2.7). Headers, PRELOGIN and the versions in LOGINACK are in network byte order;
//! other numbers are little-endian.

use crate::frames::Head;
use crate::line::text as lossy;
use crate::wire::{Reader, read_utf16};
use crate::{ByteSet, FirstPlace, Opening, Probe, dns};
use std::borrow::Cow;

/// Types of packets. Those of requests after the login are not named here.
pub(super) const ANSWER: u8 = 0x04;
pub(super) const FEDERATED_TOKEN: u8 = 0x08;
pub(super) const LOGIN7: u8 = 0x10;
pub(super) const SSPI: u8 = 0x11;
pub(super) const PRELOGIN: u8 = 0x12;

/// Bit of a packet's status: the last packet of its message.
pub(super) const END_OF_MESSAGE: u8 = 1;

/// Length of a packet's header, bytes.
pub(super) const HEADER_BYTES: usize = 8;

/// Maximum length of a packet, bytes (§2.2.3.1.3).
pub(super) const PACKET_BYTES_MAX: usize = 32_767;

/// Maximum length of a record of TLS with its header, bytes (RFC 5246 §6.2.3).
const RECORD_BYTES_MAX: u64 = 5 + (16 << 10) + 2048;

/// Maximum number of UTF-16 units kept of a name (§2.2.6.4).
const NAME_UNITS_MAX: usize = 128;

/// Maximum number of UTF-16 units kept of an error's text.
const ERROR_UNITS_MAX: usize = 512;

/// Maximum number of bytes kept of an instance's name.
const INSTANCE_BYTES_MAX: usize = 128;

/// Options of PRELOGIN that are read (§2.2.6.5), and the end of their list.
const VERSION: u8 = 0;
const ENCRYPTION: u8 = 1;
const INSTANCE: u8 = 2;
const MARS: u8 = 4;
const TERMINATOR: u8 = 0xff;

/// Length of the option VERSION, bytes.
const VERSION_BYTES: usize = 6;

/// Length of an option's token, offset and length together, bytes.
const OPTION_BYTES: usize = 5;

/// Options of a list; eight are specified.
const OPTIONS_MAX: usize = 16;

/// Length of the fixed part of LOGIN7 up to version 7.1, bytes.
const LOGIN_BYTES_MIN: usize = 86;

/// Maximum length of LOGIN7, bytes (§2.2.6.4).
const LOGIN_BYTES_MAX: usize = (128 << 10) - 1;

/// Versions that clients send in LOGIN7.
const VERSIONS: [u32; 8] =
    [0x7000_0000, 0x7100_0000, 0x7100_0001, 0x7209_0002, 0x730a_0003, 0x730b_0003, 0x7400_0004, 0x0800_0000];

/// Types of packets (§2.2.3.1.1).
fn is_kind(kind: u8) -> bool {
    matches!(kind, 1..=4 | 6..=8 | 0x0e | LOGIN7 | SSPI | PRELOGIN)
}

/// Whether bytes begin a record of TLS. Its types are none of packets.
pub(super) fn is_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x17, 3, 0..=4, ..])
}

/// Whether a record of TLS carries data of the application.
pub(super) fn is_data_record(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x17)
}

/// Measures a packet, or a record of TLS between packets.
pub(super) fn measure(bytes: &[u8]) -> Head {
    match *bytes {
        [0x14..=0x17, 3, 0..=4, high, low, ..] => match 5 + u64::from(u16::from_be_bytes([high, low])) {
            length @ ..=RECORD_BYTES_MAX => Head::Bytes(length),
            _ => Head::Wrong,
        },
        [] | [0x14..=0x17] | [0x14..=0x17, 3] | [0x14..=0x17, 3, 0..=4] | [0x14..=0x17, 3, 0..=4, _] => {
            Head::Short
        }
        [kind, ..] if !is_kind(kind) => Head::Wrong,
        [_, status, ..] if status > 0x1f => Head::Wrong,
        [_, _, high, low, ..] => match usize::from(u16::from_be_bytes([high, low])) {
            length @ HEADER_BYTES..=PACKET_BYTES_MAX => Head::Bytes(length as u64),
            _ => Head::Wrong,
        },
        _ => Head::Short,
    }
}

/// Whether a byte may stand in the header of a client's first packet: PRELOGIN or LOGIN7, a length up to
/// 32 KiB, no process number, the number 1 (or 0) of the packet, no window.
fn may_stand(at: usize, byte: u8) -> bool {
    match at {
        0 => matches!(byte, LOGIN7 | PRELOGIN),
        1 => byte <= END_OF_MESSAGE,
        2 => byte <= 0x7f,
        4 | 5 | 7 => byte == 0,
        6 => byte <= 1,
        _ => true,
    }
}

/// The header of a client's first packet.
pub(super) fn may_begin(place: FirstPlace) -> ByteSet {
    ByteSet::of(|byte| may_stand(place.at, byte))
}

/// Recognises the first packet of a client.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    // Byte 6 is the number of the packet in TDS. In DNS over TCP, byte 6 is the first byte of the number of
    // questions, which is 0: on ports of DNS, such a message is not TDS.
    let is_dns = |bytes: &[u8]| bytes.get(6) == Some(&0) && opening.is_on(dns::PROTOCOL.ports);
    let side = |bytes: &[u8]| if is_dns(bytes) { Probe::NotForUs } else { first_packet(bytes) };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

fn first_packet(bytes: &[u8]) -> Probe {
    if !bytes.iter().take(HEADER_BYTES).enumerate().all(|(at, byte)| may_stand(at, *byte)) {
        return Probe::NotForUs;
    }
    let Some(&[kind, status, high, low, ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return if matches!(measure(bytes), Head::Wrong) { Probe::NotForUs } else { Probe::Unsure };
    };
    let Some(content_bytes) = usize::from(u16::from_be_bytes([high, low])).checked_sub(HEADER_BYTES) else {
        return Probe::NotForUs;
    };
    let content = &bytes[HEADER_BYTES..];
    let content = &content[..content.len().min(content_bytes)];
    match kind {
        PRELOGIN => probe_prelogin(content, content_bytes),
        _ => probe_login(content, content_bytes, status & END_OF_MESSAGE != 0),
    }
}

/// Recognises PRELOGIN by its list of options. The packet has `content_bytes` bytes behind its header.
fn probe_prelogin(content: &[u8], content_bytes: usize) -> Probe {
    for (index, option) in content.chunks(OPTION_BYTES).enumerate() {
        match *option {
            [TERMINATOR, ..] if index > 0 => return Probe::Certain,
            [token, ..] if index == OPTIONS_MAX || (token == VERSION) != (index == 0) || token > 0x1f => {
                return Probe::NotForUs;
            }
            [token, ..] if option.len() == OPTION_BYTES => {
                let [at, length] = option_place(option);
                if at + length > content_bytes || (token == VERSION && length != VERSION_BYTES) {
                    return Probe::NotForUs;
                }
            }
            _ => {}
        }
    }
    if content.len() == content_bytes { Probe::NotForUs } else { Probe::Unsure }
}

/// Recognises LOGIN7 by its length and its version. The packet has `content_bytes` bytes behind its header,
/// and is the whole message if `is_whole`.
fn probe_login(content: &[u8], content_bytes: usize, is_whole: bool) -> Probe {
    if content_bytes < LOGIN_BYTES_MIN {
        return Probe::NotForUs;
    }
    let Some(length) = content.first_chunk().map(|four| u32::from_le_bytes(*four) as usize) else {
        return Probe::Unsure;
    };
    let fits = if is_whole {
        length == content_bytes
    } else {
        (content_bytes + 1..=LOGIN_BYTES_MAX).contains(&length)
    };
    let version = content[4..].first_chunk().map(|four| u32::from_le_bytes(*four));
    match version {
        _ if !fits => Probe::NotForUs,
        None => Probe::Unsure,
        Some(version) if VERSIONS.contains(&version) => Probe::Certain,
        Some(_) => Probe::NotForUs,
    }
}

/// Offset and length of an option's value, from five bytes.
fn option_place(option: &[u8]) -> [usize; 2] {
    [1, 3].map(|at| usize::from(u16::from_be_bytes([option[at], option[at + 1]])))
}

/// One side's options of the negotiation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TdsPrelogin {
    /// Version of the sender: major, minor, build.
    pub version: (u8, u8, u16),
    /// Encryption: 0 off, that is, of the login only; 1 on; 2 not supported; 3 required. Higher bits are
    /// flags.
    pub encryption: Option<u8>,
    /// Instance of the server, as requested by the client.
    pub instance: Option<String>,
    /// Whether several requests may be active at a time (MARS).
    pub mars: Option<bool>,
}

impl TdsPrelogin {
    /// Parses the options. `None` if their list is malformed.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        (probe_prelogin(message, message.len()) == Probe::Certain).then_some(())?;
        let mut prelogin = Self::default();
        for option in message.chunks(OPTION_BYTES).take_while(|option| option[0] != TERMINATOR) {
            let [at, length] = option_place(option);
            let value = &message[at..at + length];
            match (option[0], value) {
                (VERSION, &[major, minor, high, low, ..]) => {
                    prelogin.version = (major, minor, u16::from_be_bytes([high, low]));
                }
                (ENCRYPTION, &[encryption, ..]) => prelogin.encryption = Some(encryption),
                (INSTANCE, name) => {
                    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                    prelogin.instance = Some(lossy(name, INSTANCE_BYTES_MAX)).filter(|name| !name.is_empty());
                }
                (MARS, &[mars, ..]) => prelogin.mars = Some(mars != 0),
                _ => {}
            }
        }
        Some(prelogin)
    }

    /// The sender's version as text.
    pub(super) fn version(&self) -> String {
        let (major, minor, build) = self.version;
        format!("{major}.{minor}.{build}")
    }
}

/// The client's login, without its password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TdsLogin {
    /// Version of the protocol that the client requests: 0x74000004.
    pub version: u32,
    /// Identifier of the client's process.
    pub pid: u32,
    /// Name of the client's host.
    pub hostname: Option<String>,
    /// User. Absent if the client authenticates by SSPI or by a token.
    pub user: Option<String>,
    /// Name of the client's program.
    pub program: Option<String>,
    /// Name of the server, as the client knows it.
    pub server: Option<String>,
    /// Name of the client's library.
    pub library: Option<String>,
    /// Requested language.
    pub language: Option<String>,
    /// Requested database.
    pub database: Option<String>,
}

impl TdsLogin {
    /// Parses LOGIN7; adds the number of names that were cut to `cut`. `None` if its fixed part is not
    /// complete.
    pub(super) fn parse(message: &[u8], cut: &mut u64) -> Option<Self> {
        let (fixed, _) = message.split_first_chunk::<LOGIN_BYTES_MIN>()?;
        let two = |at: usize| usize::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        let four = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let mut name = |place: usize| {
            let (at, units) = (two(place), two(place + 2));
            *cut += u64::from(units > NAME_UNITS_MAX);
            let bytes = message.get(at..at + 2 * units.min(NAME_UNITS_MAX))?;
            Some(read_utf16(bytes, NAME_UNITS_MAX)).filter(|name| !name.is_empty())
        };
        Some(Self {
            version: four(4),
            pid: four(16),
            hostname: name(36),
            user: name(40),
            program: name(48),
            server: name(52),
            library: name(60),
            language: name(64),
            database: name(68),
        })
    }
}

/// An error (§2.2.7.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdsError {
    /// Its number: 18456 for a failed login.
    pub number: u32,
    /// Its text.
    pub text: String,
}

/// A server's acknowledgement of a login (§2.2.7.14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdsLoginAck {
    /// Version of the protocol: 0x74000004.
    pub version: u32,
    /// Name of the server's program.
    pub program: String,
    /// Version of the server's program: major, minor, build.
    pub program_version: (u8, u8, u16),
}

/// The answer to a login, from one or more messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TdsAnswer {
    /// The acknowledgement. Without one, the login failed.
    pub ack: Option<TdsLoginAck>,
    /// The first error, which is the reason of others.
    pub error: Option<TdsError>,
    /// Whether the answer is complete.
    pub is_over: bool,
}

impl TdsAnswer {
    /// Handles the tokens of a message up to the first DONE, or to a token that is none of a login's. Adds
    /// the number of texts that were cut to `cut`. Returns `None` if the tokens end elsewhere.
    pub(super) fn take_tokens(&mut self, message: &[u8], cut: &mut u64) -> Option<()> {
        let mut reader = Reader::new(message);
        loop {
            match reader.u8()? {
                0xaa => {
                    let error = read_error(take16(&mut reader)?, cut)?;
                    self.error.get_or_insert(error);
                }
                0xad => self.ack = Some(read_ack(take16(&mut reader)?)?),
                // INFO, ENVCHANGE, SSPI.
                0xab | 0xe3 | 0xed => drop(take16(&mut reader)?),
                // SESSIONSTATE, FEDAUTHINFO.
                0xe4 | 0xee => drop(take32(&mut reader)?),
                // FEATUREEXTACK: features with their data.
                0xae => {
                    while reader.u8()? != 0xff {
                        take32(&mut reader)?;
                    }
                }
                // RETURNSTATUS.
                0x79 => drop(reader.take(4)?),
                // DONE, DONEPROC, DONEINPROC.
                0xfd..=0xff => {
                    self.is_over = true;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Whether the login succeeded, if that is known.
    pub(super) fn is_good(&self) -> Option<bool> {
        match (&self.ack, &self.error) {
            (Some(_), _) => Some(true),
            (None, Some(_)) => Some(false),
            (None, None) => None,
        }
    }
}

/// The content of a token with a length of two bytes.
fn take16<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.array().map(u16::from_le_bytes)?;
    reader.take(length.into())
}

/// The content of a token with a length of four bytes.
fn take32<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.array().map(u32::from_le_bytes)?;
    reader.take(usize::try_from(length).ok()?)
}

fn read_error(token: &[u8], cut: &mut u64) -> Option<TdsError> {
    let mut reader = Reader::new(token);
    let number = reader.array().map(u32::from_le_bytes)?;
    // State and class.
    reader.take(2)?;
    let units = usize::from(reader.array().map(u16::from_le_bytes)?);
    let text = read_utf16(reader.take(2 * units)?, ERROR_UNITS_MAX);
    *cut += u64::from(units > ERROR_UNITS_MAX);
    Some(TdsError { number, text })
}

fn read_ack(token: &[u8]) -> Option<TdsLoginAck> {
    let mut reader = Reader::new(token);
    // The interface.
    reader.u8()?;
    let version = reader.array().map(u32::from_be_bytes)?;
    // 255 units at most.
    let units = usize::from(reader.u8()?);
    let program = read_utf16(reader.take(2 * units)?, units);
    let program_version = (reader.u8()?, reader.u8()?, reader.u16()?);
    Some(TdsLoginAck { version, program, program_version })
}

/// Name of a version of the protocol. Servers send other numbers for 7.0 and 7.1 than clients.
pub(super) fn version_name(version: u32) -> Cow<'static, str> {
    match version.to_be_bytes() {
        [0x07, 0x00, ..] | [0x70, ..] => "7.0".into(),
        [0x07, 0x01, ..] | [0x71, ..] => "7.1".into(),
        [0x72, ..] => "7.2".into(),
        [0x73, ..] => "7.3".into(),
        [0x74, ..] => "7.4".into(),
        [0x08, ..] => "8.0".into(),
        _ => format!("unknown-{version:08x}").into(),
    }
}

/// Name of an option of encryption, without its flags: 0x20 an extended protocol, 0x80 a certificate of the
/// client.
pub(super) fn encryption_name(encryption: u8) -> Cow<'static, str> {
    match encryption & !0xa0 {
        0 => "off".into(),
        1 => "on".into(),
        2 => "not_supported".into(),
        3 => "required".into(),
        _ => format!("unknown-{encryption}").into(),
    }
}

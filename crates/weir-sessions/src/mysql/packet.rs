//! Packets: three bytes of length, a sequence number within the command, a payload. Integers are
//! little-endian. Also the two packets that begin a connection: [`Greeting`] and [`Login`].

use crate::frames::Head;
use crate::line::text;
use crate::wire::Reader;

/// Length of the header.
pub(super) const HEADER_BYTES: usize = 4;

/// A payload of this length continues in the next packet.
pub(super) const LONG_BYTES: u64 = 0xff_ffff;

/// Capability flags.
pub(super) mod capability {
    /// Unset in MariaDB, which has some capabilities of its own.
    pub(in super::super) const MYSQL: u64 = 1;
    pub(in super::super) const CONNECT_WITH_DATABASE: u64 = 1 << 3;
    pub(in super::super) const COMPRESS: u64 = 1 << 5;
    pub(in super::super) const PROTOCOL_41: u64 = 1 << 9;
    pub(in super::super) const TLS: u64 = 1 << 11;
    pub(in super::super) const SECURE_CONNECTION: u64 = 1 << 15;
    pub(in super::super) const PLUGIN_AUTH: u64 = 1 << 19;
    pub(in super::super) const CONNECT_ATTRIBUTES: u64 = 1 << 20;
    pub(in super::super) const LONG_AUTH_DATA: u64 = 1 << 21;
    pub(in super::super) const SESSION_TRACK: u64 = 1 << 23;
    pub(in super::super) const OPTIONAL_METADATA: u64 = 1 << 25;
    pub(in super::super) const ZSTD: u64 = 1 << 26;
    pub(in super::super) const QUERY_ATTRIBUTES: u64 = 1 << 27;
}

/// Maximum bytes kept of a name: user, database, plugin.
const NAME_BYTES_MAX: usize = 256;

/// Maximum number of connection attributes that are read.
const ATTRIBUTES_MAX: usize = 64;

/// The length of a packet, including its header.
pub(super) fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [a, b, c, _, ..] => Head::Bytes(HEADER_BYTES as u64 + u64::from(u32::from_le_bytes([*a, *b, *c, 0]))),
        _ => Head::Short,
    }
}

/// A length-encoded integer: the first byte is the value, or gives the number of bytes that follow.
pub(super) fn number(reader: &mut Reader<'_>) -> Option<u64> {
    match reader.u8()? {
        short @ 0..=0xfa => Some(short.into()),
        0xfc => Some(u16::from_le_bytes(reader.array()?).into()),
        0xfd => reader.array().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]).into()),
        0xfe => reader.array().map(u64::from_le_bytes),
        _ => None,
    }
}

/// A string with a length-encoded length.
pub(super) fn string<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = number(reader)?;
    reader.take(usize::try_from(length).ok()?)
}

/// Bytes up to a zero byte, or to the end.
pub(super) fn until_zero<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    let rest = reader.rest();
    let end = memchr::memchr(0, rest).unwrap_or(rest.len());
    *reader = Reader::new(rest.get(end + 1..).unwrap_or_default());
    &rest[..end]
}

/// A name, unless it is empty.
fn name(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| text(bytes, NAME_BYTES_MAX))
}

/// The server's first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) version: String,
    pub(super) thread: u32,
    pub(super) capabilities: u64,
    pub(super) plugin: Option<String>,
}

impl Greeting {
    /// Parses a payload; `None` if it is no greeting of version 9 or 10.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let protocol = reader.u8().filter(|protocol| matches!(protocol, 9 | 10))?;
        let version = until_zero(&mut reader);
        let thread = u32::from_le_bytes(reader.array()?);
        let mut greeting =
            Self { version: text(version, NAME_BYTES_MAX), thread, capabilities: 0, plugin: None };
        if protocol == 10 {
            // Old servers may omit any of the following fields.
            let _ = greeting.take_capabilities(&mut reader);
        }
        Some(greeting)
    }

    fn take_capabilities(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        reader.take(9)?; // the first part of the salt, a zero byte
        self.capabilities = u16::from_le_bytes(reader.array()?).into();
        reader.take(3)?; // character set, status flags
        self.capabilities |= u64::from(u16::from_le_bytes(reader.array()?)) << 16;
        let salt_bytes = usize::from(reader.u8()?);
        reader.take(6)?;
        let more = u64::from(u32::from_le_bytes(reader.array()?));
        if self.capabilities & capability::MYSQL == 0 {
            self.capabilities |= more << 32;
        }
        reader.take(salt_bytes.saturating_sub(8).max(13))?;
        self.plugin = name(until_zero(reader));
        Some(())
    }
}

/// The client's login packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Login {
    pub(super) capabilities: u64,
    /// The packet only requests TLS; the login itself is encrypted.
    pub(super) is_tls: bool,
    pub(super) user: Option<String>,
    pub(super) database: Option<String>,
    pub(super) plugin: Option<String>,
    /// Name of the client program: `mysqldump`.
    pub(super) program: Option<String>,
}

impl Login {
    /// Parses a payload of `length_bytes` bytes; `None` if it is no login.
    pub(super) fn parse(payload: &[u8], length_bytes: u64) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let low = u64::from(u16::from_le_bytes(reader.array()?));
        let mut login = Self { capabilities: low, ..Self::default() };
        if low & capability::PROTOCOL_41 == 0 {
            // The format before version 4.1.
            login.is_tls = low & capability::TLS != 0 && length_bytes <= 5;
            reader.take(3)?;
            login.user = name(until_zero(&mut reader));
            if low & capability::CONNECT_WITH_DATABASE != 0 {
                until_zero(&mut reader);
                login.database = name(until_zero(&mut reader));
            }
            return Some(login);
        }
        login.capabilities |= u64::from(u16::from_le_bytes(reader.array()?)) << 16;
        reader.take(4 + 1 + 19)?; // maximum packet size, character set, filler
        let more = u64::from(u32::from_le_bytes(reader.array()?));
        if login.capabilities & capability::MYSQL == 0 {
            login.capabilities |= more << 32;
        }
        login.is_tls = length_bytes == 32 && login.capabilities & capability::TLS != 0;
        if !login.is_tls {
            // Names may be truncated by the capture or by our bound.
            let _ = login.take_names(&mut reader);
        }
        Some(login)
    }

    fn take_names(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let can = |capability: u64| self.capabilities & capability != 0;
        self.user = name(until_zero(reader));
        if can(capability::LONG_AUTH_DATA) {
            string(reader)?;
        } else if can(capability::SECURE_CONNECTION) {
            reader.vector8()?;
        } else {
            until_zero(reader);
        }
        if can(capability::CONNECT_WITH_DATABASE) {
            self.database = name(until_zero(reader));
        }
        if can(capability::PLUGIN_AUTH) {
            self.plugin = name(until_zero(reader));
        }
        if can(capability::CONNECT_ATTRIBUTES) {
            number(reader)?;
            for _ in 0..ATTRIBUTES_MAX {
                let (key, value) = (string(reader)?, string(reader)?);
                if key == b"program_name" {
                    self.program = name(value);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_their_length() {
        let read = |bytes: &[u8]| number(&mut Reader::new(bytes));
        assert_eq!(read(&[0xfa]), Some(0xfa));
        assert_eq!(read(&[0xfc, 1, 2]), Some(0x201));
        assert_eq!(read(&[0xfd, 1, 2, 3]), Some(0x3_0201));
        assert_eq!(read(&[0xfe, 1, 0, 0, 0, 0, 0, 0, 0]), Some(1));
        assert_eq!(read(&[0xfb]), None);
        assert_eq!(read(&[0xfd, 1, 2]), None);
        assert_eq!(string(&mut Reader::new(&[3, 1, 2])), None);
    }

    #[test]
    fn names_end_with_a_zero_or_the_packet() {
        let mut reader = Reader::new(b"ab\0c");
        assert_eq!(until_zero(&mut reader), b"ab");
        assert_eq!(until_zero(&mut reader), b"c");
        assert_eq!(until_zero(&mut reader), b"");
    }

    #[test]
    fn a_login_of_before_version_41() {
        let login = Login::parse(b"\x8d\x00\x00\x00\x40bob\0secret\0shop\0", 22).expect("one");
        assert_eq!((login.user.as_deref(), login.database.as_deref()), (Some("bob"), Some("shop")));
    }
}

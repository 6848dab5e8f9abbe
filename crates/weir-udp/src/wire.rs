//! The form of datagrams: a header, and records of packets one after the other. All numbers are big-endian. A
//! packet that does not fit continues in the next datagrams, so that no length of packets, and no length of
//! datagrams, excludes the other. `docs/formats.md` has the same tables.

use weir_packet::{LinkType, Timestamp};

/// The first bytes of each datagram.
pub const MAGIC: [u8; 4] = *b"WEIR";
/// The version of the form.
pub const VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of a record before the bytes of the packet.
pub const RECORD_BYTES: usize = 18;

/// Flag: the sender sends nothing more to this instance.
const END: u8 = 1;

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Nothing follows in this stream.
    pub is_end: bool,
    /// Number of packets that begin in this datagram.
    pub packets: u16,
    /// A random number of the sender's run and question.
    pub stream: u64,
    /// The number of the instance in the stream. An instance that is removed and added again has a new
    /// number.
    pub instance: u32,
    /// Bytes at the beginning of the payload that continue a packet of an earlier datagram.
    pub continued: u32,
    /// The number of the datagram, from 0, among those to this instance.
    pub sequence: u64,
    /// Number of packets that begin in earlier datagrams to this instance.
    pub packets_before: u64,
}

impl Header {
    /// The bytes of the header.
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = if self.is_end { END } else { 0 };
        bytes[6..8].copy_from_slice(&self.packets.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.stream.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.instance.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.continued.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.packets_before.to_be_bytes());
        bytes
    }

    /// The header of a datagram, and its payload; `None` if the datagram has another form, or the header
    /// contradicts the payload.
    pub fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (bytes, payload) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let header = Self {
            is_end: bytes[5] & END != 0,
            packets: u16::from_be_bytes(part(bytes, 6)),
            stream: u64::from_be_bytes(part(bytes, 8)),
            instance: u32::from_be_bytes(part(bytes, 16)),
            continued: u32::from_be_bytes(part(bytes, 20)),
            sequence: u64::from_be_bytes(part(bytes, 24)),
            packets_before: u64::from_be_bytes(part(bytes, 32)),
        };
        let records = payload.len().checked_sub(header.continued as usize)?;
        let fits = usize::from(header.packets) * RECORD_BYTES <= records;
        fits.then_some((header, payload))
    }
}

/// A record before the bytes of its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Time of capture.
    pub time: Timestamp,
    /// Bytes captured.
    pub captured_bytes: u32,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Link type of the interface.
    pub link: LinkType,
}

impl Record {
    /// The bytes of the record.
    pub fn emit(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.time.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.captured_bytes.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.wire_bytes.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.link.0.to_be_bytes());
        bytes
    }

    /// The record at the beginning of `bytes`, and the bytes behind it; `None` if there are too few.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (record, rest) = bytes.split_first_chunk::<RECORD_BYTES>()?;
        let record = Self {
            time: Timestamp(i64::from_be_bytes(part(record, 0))),
            captured_bytes: u32::from_be_bytes(part(record, 8)),
            wire_bytes: u32::from_be_bytes(part(record, 12)),
            link: LinkType(u16::from_be_bytes(part(record, 16))),
        };
        Some((record, rest))
    }
}

/// `N` bytes from `at` on.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

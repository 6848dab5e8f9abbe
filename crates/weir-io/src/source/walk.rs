//! What the walkers of both formats share: how a walk stops, what a fault is, what a run of files
//! has in common, and how numbers are read.
//!
//! A *walker* knows one capture format. It is given the unread bytes of a block, describes as many
//! packets as lie whole in them, and says why it stopped. It keeps no bytes and reads no input, and
//! it consumes nothing of what it stops at: called again at the same place it stops in the same way.
//! So a fault found behind good packets needs no remembering: the packets are delivered, and the
//! next walk finds the fault again, with nothing before it.

use super::findings::{Carried, Carry, Findings};
use super::interface::Interface;
use super::options::Kept;
use std::sync::Arc;
use weir_packet::{BURST_PACKETS_MAX, Extras, PacketMeta, SourceErrorKind};

/// The most bytes that one record may have, whatever a file says. Bounds what a hostile length can
/// make the reader hold; the largest records seen in the wild (USB, D-Bus) are below.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// The most bytes captured of a packet that are believed although the file's own limit is lower, as
/// tshark and libpcap do (`MAXIMUM_SNAPLEN`): files lie about their snap length.
pub(crate) const PACKET_BYTES_BELIEVED: usize = 256 << 10;

/// The most bytes that are kept of the options of a section or an interface, and of all of them.
pub(crate) const OPTIONS_BYTES_MAX: usize = 64 << 10;
const ALL_OPTIONS_BYTES_MAX: usize = 16 << 20;

/// Why a walk stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The burst is full.
    Full,
    /// The next record needs so many bytes from the walker's place on, and they aren't all there.
    Need(usize),
    /// The next record is faulty.
    Fault(Fault),
}

/// Where a walker puts packets: the descriptors of a burst, as many as it can have, and how many of
/// them have been found. A loop that writes to places that are there is a fifth faster than one that
/// pushes to a vector (64-byte packets, 2026-11).
pub(crate) struct Slots<'a> {
    pub packets: &'a mut [PacketMeta; BURST_PACKETS_MAX],
    pub found: usize,
    /// Where what the format says of packets beside that goes, if somebody asks for it.
    pub extras: Option<&'a mut Extras>,
}

/// What is wrong with a file or a record, before it is known where.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: SourceErrorKind,
    pub message: String,
}

impl Fault {
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Corrupt, message: message.into() }
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Unsupported, message: message.into() }
    }

    pub fn truncated(message: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Truncated, message: message.into() }
    }

    pub fn not_a_capture(message: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::NotACapture, message: message.into() }
    }

    pub fn io(message: impl Into<String>) -> Self {
        Self { kind: SourceErrorKind::Io, message: message.into() }
    }
}

/// What goes on through all files of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Packets read so far; the number of the last one.
    pub packets: u64,
    /// Blocks of pcapng that hold no packet and that the reader has no use for.
    pub blocks_skipped: u64,
    /// The interfaces met so far.
    pub interfaces: Vec<Interface>,
    /// Interfaces beyond those that can be numbered.
    pub interfaces_beyond: u64,
    /// The file being read.
    pub file: Arc<str>,
    /// Sections and interfaces of whose options some were not kept.
    pub options_cut: u64,
    /// Bytes of those that are.
    options_bytes: usize,
    /// What others know of it.
    pub findings: Findings,
    /// Blocks of names and secrets that came since it was last looked.
    pub carried: Carried,
}

impl Run {
    /// Keeps the options of a section or an interface, where there is room for them.
    pub fn keep_options(&mut self, kept: Kept) -> Arc<[u8]> {
        let has_room = self.options_bytes + kept.options.len() <= ALL_OPTIONS_BYTES_MAX;
        self.options_cut += u64::from(kept.is_cut || !has_room);
        let options = if has_room { kept.options } else { vec![] };
        self.options_bytes += options.len();
        options.into()
    }

    /// A block is to be written before the next packet.
    pub fn carry(&mut self, bytes: Vec<u8>) {
        self.carried.push(Carry { before: self.packets + 1, bytes: bytes.into() });
    }

    /// Takes up an interface and numbers it. A run with more than 65 536 of them gives the last
    /// number to all further ones and counts them: ten thousands of rotated files are no reason to stop.
    pub fn admit(&mut self, interface: Interface) -> u16 {
        match u16::try_from(self.interfaces.len()) {
            Ok(number) => {
                self.interfaces.push(interface);
                number
            }
            Err(_) => {
                self.interfaces_beyond += 1;
                u16::MAX
            }
        }
    }
}

/// The number of 16 bits at `at`. Panics where it is out of bounds; with a constant `at` into an
/// array the check is compiled away.
#[inline(always)]
pub(crate) fn u16_at<const BIG: bool>(bytes: &[u8], at: usize) -> u16 {
    let raw = bytes[at..at + 2].try_into().expect("two bytes");
    if BIG { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

/// The number of 32 bits at `at`; as [`u16_at`].
#[inline(always)]
pub(crate) fn u32_at<const BIG: bool>(bytes: &[u8], at: usize) -> u32 {
    // One load. (Gathered byte by byte it became four, 2026-11.)
    let raw = bytes[at..at + 4].try_into().expect("four bytes");
    if BIG { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
}

#[cfg(test)]
mod tests {
    use super::super::interface::TimeResolution;
    use super::*;
    use weir_packet::LinkType;

    #[test]
    fn interfaces_that_cannot_be_numbered_are_counted() {
        let mut run = Run::default();
        let interface = Interface {
            file: "a.pcapng".into(),
            name: String::new(),
            link: LinkType::ETHERNET,
            snaplen_bytes: 0,
            resolution: TimeResolution::MICROSECONDS,
            fcs_bytes: None,
            description: None,
        };
        for number in 0..=u16::MAX {
            assert_eq!(run.admit(interface.clone()), number);
        }
        assert_eq!((run.admit(interface), run.interfaces_beyond), (u16::MAX, 1));
    }
}

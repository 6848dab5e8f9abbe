//! Common parts of the walkers of both formats: how a walk stops, faults, state of a run over all files, and
//! reading numbers.
//!
//! A *walker* reads one capture format. It receives the unread bytes of a block, describes the packets that
//! are complete in them, and returns why it stopped. It stores no bytes and reads no input, and it does not
//! consume the record at which it stops: another call at the same place stops in the same way. A fault after
//! good packets therefore need not be stored: the packets are delivered, and the next walk finds the fault
//! again, with no packets before it.

use super::findings::{Carried, Carry, Findings};
use super::interface::Interface;
use super::options::Kept;
use std::sync::Arc;
use weir_packet::{BURST_PACKETS_MAX, Extras, PacketMeta, SourceErrorKind};

/// Limit of bytes per record, whatever a file says. It bounds the memory that a hostile length can make the
/// reader use; the largest records seen in practice (USB, D-Bus) are smaller.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// Limit of captured bytes per packet that is accepted even if the file's own limit is lower, as in tshark
/// and libpcap (`MAXIMUM_SNAPLEN`): the snap length in files is often wrong.
pub(crate) const PACKET_BYTES_BELIEVED: usize = 256 << 10;

/// Limit of bytes kept of the options of one section or interface, and of all of them.
pub(crate) const OPTIONS_BYTES_MAX: usize = 64 << 10;
const ALL_OPTIONS_BYTES_MAX: usize = 16 << 20;

/// Why a walk stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The burst is full.
    Full,
    /// The next record needs this many bytes from the walker's place on, and they are not all there.
    Need(usize),
    /// The next record is faulty.
    Fault(Fault),
}

/// Where a walker puts packets: the descriptors of a burst, all slots that it can have, and how many of them
/// are used. A loop that writes into existing slots is a fifth faster than one that pushes to a vector
/// (64-byte packets, 2026-11).
pub(crate) struct Slots<'a> {
    pub packets: &'a mut [PacketMeta; BURST_PACKETS_MAX],
    pub found: usize,
    /// The place for additional data about packets, if it is wanted.
    pub extras: Option<&'a mut Extras>,
}

/// An error in a file or a record, before its place is known.
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

/// State that continues across all files of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Packets read so far; the number of the last packet.
    pub packets: u64,
    /// Skipped pcapng blocks, which hold no packet.
    pub blocks_skipped: u64,
    /// The interfaces found so far.
    pub interfaces: Vec<Interface>,
    /// Interfaces beyond those that can be numbered.
    pub interfaces_beyond: u64,
    /// Captures that begin inside a file, behind another one.
    pub captures_joined: u64,
    /// Packets whose times are beyond the range of nanoseconds in 64 bits.
    pub times_beyond: u64,
    /// The file being read, as the user named it.
    pub file: Arc<str>,
    /// Sections and interfaces that lost options.
    pub options_cut: u64,
    /// Bytes of the options that are kept.
    options_bytes: usize,
    /// The published findings.
    pub findings: Findings,
    /// Blocks of names and secrets found since they were last published.
    pub carried: Carried,
}

impl Run {
    /// Keeps the options of a section or an interface, within the limit.
    pub fn keep_options(&mut self, kept: Kept) -> Arc<[u8]> {
        let has_room = self.options_bytes + kept.options.len() <= ALL_OPTIONS_BYTES_MAX;
        self.options_cut += u64::from(kept.is_cut || !has_room);
        let options = if has_room { kept.options } else { vec![] };
        self.options_bytes += options.len();
        options.into()
    }

    /// Adds a block that must be written before the next packet.
    pub fn carry(&mut self, bytes: Vec<u8>) {
        self.carried.push(Carry { before: self.packets + 1, bytes: bytes.into() });
    }

    /// Adds an interface and numbers it. Beyond 65 536 interfaces, all further ones get the last number and
    /// are counted: tens of thousands of rotated files must not stop a run.
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

/// The 16-bit number at `at`. Panics if it is out of bounds; with a constant `at` into an array, the check is
/// compiled away.
#[inline(always)]
pub(crate) fn u16_at<const BIG: bool>(bytes: &[u8], at: usize) -> u16 {
    let raw = bytes[at..at + 2].try_into().expect("two bytes");
    if BIG { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
}

/// The 32-bit number at `at`; as [`u16_at`].
#[inline(always)]
pub(crate) fn u32_at<const BIG: bool>(bytes: &[u8], at: usize) -> u32 {
    // One load. (Reading byte by byte compiled to four, 2026-11.)
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

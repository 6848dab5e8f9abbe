//! The pcap format, in all its dialects.
//!
//! ```text
//! file    magic:u32 major:u16 minor:u16 _:u32 _:u32 snaplen:u32 link:u32   [ixia: record_bytes:u32]
//! record  seconds:u32 fraction:u32 captured:u32 wire:u32   [modified: interface:u32 protocol:u16 _:u16]   data
//! ```
//!
//! The magic number determines the byte order, the unit of the fraction and the dialect (libpcap's
//! `sf-pcap.c`, Wireshark's `wiretap/libpcap.c`). Dialects that share a magic number and could only be
//! guessed (Nokia's, and early versions of the modified one) are not supported.

use super::interface::{Interface, TimeResolution};
use super::walk::{Fault, PACKET_BYTES_BELIEVED, RECORD_BYTES_MAX, Run, Slots, Stop, u16_at, u32_at};
use std::sync::Arc;
use weir_packet::{LinkType, PacketMeta, Timestamp};

/// Bytes of the file header, without Ixia's extra field.
const FILE_HEADER_BYTES: usize = 24;
/// Bytes of a record header, without the fields of the modified dialect.
const RECORD_HEADER_BYTES: usize = 16;

/// Magic numbers, each with the unit of the fraction, and the additional bytes of the file header and of each
/// record header.
const DIALECTS: &[(u32, TimeResolution, usize, usize)] = &[
    (0xa1b2_c3d4, TimeResolution::MICROSECONDS, 0, 0),
    (0xa1b2_3c4d, TimeResolution::NANOSECONDS, 0, 0),
    // Alexey Kuznetzov's patches to libpcap 0.4: interface, protocol and packet type per record.
    (0xa1b2_cd34, TimeResolution::MICROSECONDS, 0, 8),
    // Ixia's lcap, captured by hardware and by software: the file header has the bytes of all records.
    (0x1c00_01ac, TimeResolution::NANOSECONDS, 4, 0),
    (0x1c00_01ab, TimeResolution::MICROSECONDS, 4, 0),
];

/// Which of a record's two lengths comes first. Before version 2.3 it was the length on the wire; files of
/// version 2.3 may have either (libpcap's `sf-pcap.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LengthOrder {
    CapturedFirst,
    WireFirst,
    Unsure,
}

/// Bytes that tell what a record without captured bytes is: so many zeros are no records, and the header of
/// another file is shorter.
const DOUBTED_BYTES: usize = 2 * RECORD_HEADER_BYTES;

/// Reads the records of one pcap file.
#[derive(Debug)]
pub(crate) struct Walker {
    big: bool,
    record_header_bytes: usize,
    /// Nanoseconds in a unit of the fraction.
    fraction_ns: i64,
    captured_bytes_max: usize,
    order: LengthOrder,
    link: LinkType,
    pub(crate) interface: u16,
    /// No bytes follow those that a walk receives.
    pub(crate) is_at_end: bool,
}

/// Whether a file with these first bytes is a pcap file.
pub(crate) fn recognize(first: &[u8]) -> bool {
    dialect(first).is_some()
}

/// Whether a pcap file begins with these bytes, which stand where a record is expected: unlike
/// [`recognize`], examines the version, the time zone and the snap length, too.
pub(crate) fn begins(first: &[u8]) -> bool {
    let (Some((big, ..)), Some(header)) = (dialect(first), first.first_chunk::<FILE_HEADER_BYTES>()) else {
        return false;
    };
    let half = |at| if big { u16_at::<true>(header, at) } else { u16_at::<false>(header, at) };
    half(4) == 2 && half(6) <= 4 && header[8..16] == [0; 8] && header[16..20] != [0; 4]
}

fn dialect(first: &[u8]) -> Option<(bool, TimeResolution, usize, usize)> {
    let magic = first.first_chunk::<4>()?;
    let (big, little) = (u32::from_be_bytes(*magic), u32::from_le_bytes(*magic));
    DIALECTS
        .iter()
        .find(|d| d.0 == big || d.0 == little)
        .map(|&(number, resolution, file, record)| (number == big, resolution, file, record))
}

/// Reads the header of a file that [`recognize`] accepts. Returns the walker and the header's length.
pub(crate) fn open(first: &[u8], run: &mut Run) -> Result<(Walker, usize), Fault> {
    let (big, resolution, more_file, more_record) =
        dialect(first).ok_or_else(|| Fault::not_a_capture("not a pcap file"))?;
    let header_bytes = FILE_HEADER_BYTES + more_file;
    let Some(header) = first.first_chunk::<FILE_HEADER_BYTES>().filter(|_| first.len() >= header_bytes)
    else {
        return Err(Fault::truncated(format!(
            "the file ends inside its header: {} of {header_bytes} bytes are there",
            first.len()
        )));
    };
    let half = |at| if big { u16_at::<true>(header, at) } else { u16_at::<false>(header, at) };
    let word = |at| if big { u32_at::<true>(header, at) } else { u32_at::<false>(header, at) };

    let order = match (half(4), half(6)) {
        (2, 0..=2) | (543, _) => LengthOrder::WireFirst,
        (2, 3) => LengthOrder::Unsure,
        (2, _) => LengthOrder::CapturedFirst,
        (major, minor) => {
            return Err(Fault::unsupported(format!(
                "pcap version {major}.{minor}: only 2.x is known; try `editcap -F pcapng FILE OUT.pcapng`"
            )));
        }
    };
    let (snaplen_bytes, network) = (word(16), word(20));
    // The upper bits describe the frame check sequence: bit 26 says that its length is known, bits 28 to 31
    // give its length in 16-bit words. (Bits 16 to 25 are reserved.)
    let link = LinkType((network & 0xffff) as u16);
    let fcs_bytes = (network & 0x0400_0000 != 0).then_some((network >> 28) as u8 * 2);
    let interface = run.admit(Interface {
        file: Arc::clone(&run.file),
        name: String::new(),
        link,
        snaplen_bytes,
        resolution,
        fcs_bytes,
        description: None,
    });
    let walker = Walker {
        big,
        record_header_bytes: RECORD_HEADER_BYTES + more_record,
        fraction_ns: if resolution == TimeResolution::NANOSECONDS { 1 } else { 1_000 },
        captured_bytes_max: (snaplen_bytes as usize).clamp(PACKET_BYTES_BELIEVED, RECORD_BYTES_MAX),
        order,
        link,
        interface,
        is_at_end: false,
    };
    Ok((walker, header_bytes))
}

impl Walker {
    /// Describes the packets from `pos` on in `slots`, as far as they are complete in `bytes`.
    pub fn walk(&self, bytes: &[u8], pos: &mut usize, run: &mut Run, slots: &mut Slots<'_>) -> Stop {
        if self.big {
            self.walk_as::<true>(bytes, pos, run, slots)
        } else {
            self.walk_as::<false>(bytes, pos, run, slots)
        }
    }

    // The hottest loop of reading: one bound check for the header, one for the data, and all changing values
    // in registers. Rare cases leave the loop.
    fn walk_as<const BIG: bool>(
        &self,
        bytes: &[u8],
        pos: &mut usize,
        run: &mut Run,
        slots: &mut Slots<'_>,
    ) -> Stop {
        let (mut at, mut number, mut found) = (*pos, run.packets, slots.found);
        let packets = &mut *slots.packets;
        let stop = loop {
            let Some(slot) = packets.get_mut(found) else {
                break Stop::Full;
            };
            let Some(header) = bytes[at..].first_chunk::<RECORD_HEADER_BYTES>() else {
                break Stop::Need(self.record_header_bytes);
            };
            let (mut captured, mut wire) = (u32_at::<BIG>(header, 8), u32_at::<BIG>(header, 12));
            if self.order != LengthOrder::CapturedFirst {
                (captured, wire) = self.order_lengths(captured, wire);
            }
            // Most often one comparison: records without bytes are rare.
            if (captured as usize).wrapping_sub(1) >= self.captured_bytes_max
                && let Some(stop) = self.doubted(captured, &bytes[at..])
            {
                break stop;
            }
            let offset = at + self.record_header_bytes;
            let end = offset + captured as usize;
            if end > bytes.len() {
                break Stop::Need(end - at);
            }
            number += 1;
            found += 1;
            let seconds = i64::from(u32_at::<BIG>(header, 0));
            let fraction = i64::from(u32_at::<BIG>(header, 4));
            *slot = PacketMeta {
                // 2^32 * 10^9 + 2^32 * 1000 fits into the type.
                time: Timestamp(seconds * 1_000_000_000 + fraction * self.fraction_ns),
                number,
                offset: offset as u32,
                captured_bytes: captured,
                wire_bytes: wire.max(captured),
                link: self.link,
                interface: self.interface,
            };
            at = end;
        };
        (*pos, run.packets, slots.found) = (at, number, found);
        stop
    }

    #[cold]
    fn order_lengths(&self, first: u32, second: u32) -> (u32, u32) {
        match self.order {
            LengthOrder::Unsure if first <= second => (first, second),
            _ => (second, first),
        }
    }

    /// Why a record that claims no bytes, or too many, is none. `bytes` begin with the record.
    #[cold]
    fn doubted(&self, captured: u32, bytes: &[u8]) -> Option<Stop> {
        if captured > 0 {
            return Some(Stop::Fault(self.too_much(captured)));
        }
        if bytes.len() < DOUBTED_BYTES && !self.is_at_end {
            return Some(Stop::Need(DOUBTED_BYTES));
        }
        if begins(bytes) {
            return Some(Stop::Fault(Fault::corrupt("another capture begins here")));
        }
        // Preallocated, or lost in a crash: no packet is empty, has no length and was sent in 1970.
        let is_filled = bytes.len() >= DOUBTED_BYTES && bytes[..DOUBTED_BYTES].iter().all(|byte| *byte == 0);
        let zeros = "zeros in place of a record: the file is damaged from here on";
        is_filled.then(|| Stop::Fault(Fault::corrupt(zeros)))
    }

    fn too_much(&self, captured: u32) -> Fault {
        Fault::corrupt(format!(
            "a record claims {captured} captured bytes, and none of this file can have more than {}: \
             the file is damaged from here on",
            self.captured_bytes_max
        ))
    }
}

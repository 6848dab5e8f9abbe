//! The pcapng format (draft-ietf-opsawg-pcapng).
//!
//! ```text
//! block    type:u32 total:u32 body total:u32          total counts all of these, a multiple of 4
//! section  0x0a0d0d0a: order:u32 major:u16 minor:u16 length:i64 options       may change the byte order
//! interface         1: link:u16 _:u16 snaplen:u32 options
//! packet (old)      2: interface:u16 drops:u16 time:u64 captured:u32 wire:u32 data options
//! simple packet     3: wire:u32 data
//! names             4: (kind:u16 length:u16 value padding)* options                  kind 0 ends the records
//! enhanced packet   6: interface:u32 time:u64 captured:u32 wire:u32 data options
//! secrets          10: kind:u32 length:u32 data padding options
//! ```
//!
//! A time is two 32-bit numbers, the upper one first in either byte order. A simple packet has no time: it
//! gets the time of the packet before it, so that time does not jump. Options of packets (comments, hashes),
//! names and secrets are read only if a pcapng writer needs them: options become the annotations of a packet
//! ([`PacketExtra`]); names and secrets are passed on as blocks.

use super::interface::{Description, Interface, Scale, TimeResolution};
use super::mark::HEAD_BYTES_MAX;
use super::options::{Kept, Of, for_each_option, little_endian, push_option, whole_bytes};
use super::walk::{Fault, OPTIONS_BYTES_MAX, RECORD_BYTES_MAX, Run, Slots, Stop, u16_at, u32_at};
use std::sync::Arc;
use weir_packet::{Extras, LinkType, PacketExtra, PacketMeta, Timestamp};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const NAMES: u32 = 4;
const ENHANCED_PACKET: u32 = 6;
const SECRETS: u32 = 10;

/// The byte-order magic of a section, as read in the section's own byte order.
const ORDER: u32 = 0x1a2b_3c4d;

/// Bytes of a packet block before its data, for packets with a time.
const PACKET_HEAD_BYTES: usize = 28;

/// Bytes of a block without a body.
const FRAME_BYTES: usize = 12;
/// Limit of interfaces per section; an enhanced packet could hold larger numbers.
const INTERFACES_MAX: usize = 1 << 16;
/// Limit of bytes per block: the largest record of another format needs additional header bytes when `-w`
/// writes it.
const BLOCK_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;

/// Limit of bytes of an interface's name for display; the written options contain the whole name.
const NAME_BYTES_MAX: usize = 256;

/// Data of an interface that its packets need, in the current section.
#[derive(Debug, Clone, Copy)]
struct Local {
    link: LinkType,
    /// Number in the run.
    number: u16,
    scale: Scale,
    offset_ns: i64,
    snaplen_bytes: u32,
}

/// Reads the blocks of one pcapng file.
#[derive(Debug)]
pub(crate) struct Walker {
    big: bool,
    interfaces: Vec<Local>,
    last_time: Timestamp,
    /// Options of the section.
    section: Arc<[u8]>,
    /// The blocks of the section and its interfaces; `None` if they are too long, or packets depend on those
    /// before them.
    head: Option<Vec<u8>>,
    /// The number in the run of the section's first interface.
    first_interface: u16,
}

/// Whether a file with these first bytes is a pcapng file.
pub(crate) fn recognize(first: &[u8]) -> bool {
    first.first_chunk::<4>().is_some_and(|magic| u32::from_be_bytes(*magic) == SECTION)
}

/// How a block ended the loop over blocks, if it did.
enum Turn {
    Stop(Stop),
    /// A section of the other byte order begins.
    OtherOrder,
}

impl Walker {
    /// A walker for a file that [`recognize`] accepts; its first block is still to be read.
    pub fn new() -> Self {
        Self {
            big: false,
            interfaces: Vec::new(),
            last_time: Timestamp(0),
            section: Arc::default(),
            head: Some(vec![]),
            first_interface: 0,
        }
    }

    /// The blocks that a reader must have read to begin at the walker's place, and the number of their first
    /// interface.
    pub fn head(&self) -> Option<(&[u8], u16)> {
        Some((self.head.as_deref()?, self.first_interface))
    }

    fn keep_head(&mut self, block: &[u8]) {
        self.head = self.head.take().filter(|head| head.len() + block.len() <= HEAD_BYTES_MAX);
        if let Some(head) = &mut self.head {
            head.extend_from_slice(block);
        }
    }

    /// Describes the packets from `pos` on in `slots`, as far as they are complete in `bytes`, and processes
    /// all other blocks before them.
    pub fn walk(&mut self, bytes: &[u8], pos: &mut usize, run: &mut Run, slots: &mut Slots<'_>) -> Stop {
        loop {
            let turn = if self.big {
                self.walk_as::<true>(bytes, pos, run, slots)
            } else {
                self.walk_as::<false>(bytes, pos, run, slots)
            };
            match turn {
                Turn::Stop(stop) => return stop,
                Turn::OtherOrder => self.big = !self.big,
            }
        }
    }

    // Like the loop of pcap: blocks other than enhanced packets leave it through a function call.
    fn walk_as<const BIG: bool>(
        &mut self,
        bytes: &[u8],
        pos: &mut usize,
        run: &mut Run,
        slots: &mut Slots<'_>,
    ) -> Turn {
        while slots.found < slots.packets.len() {
            let at = *pos;
            let Some(frame) = bytes[at..].first_chunk::<FRAME_BYTES>() else {
                return Turn::Stop(Stop::Need(FRAME_BYTES));
            };
            let block_type = u32_at::<BIG>(frame, 0);
            if block_type == SECTION && u32_at::<BIG>(frame, 8) != ORDER {
                if u32_at::<BIG>(frame, 8).swap_bytes() == ORDER {
                    return Turn::OtherOrder;
                }
                return Turn::Stop(Stop::Fault(Fault::corrupt(
                    "a section has no byte-order mark: the file is damaged, or no pcapng",
                )));
            }
            let total = u32_at::<BIG>(frame, 4) as usize;
            if !(FRAME_BYTES..=BLOCK_BYTES_MAX).contains(&total) || !total.is_multiple_of(4) {
                return Turn::Stop(Stop::Fault(bad_total(block_type, total)));
            }
            let Some(block) = bytes[at..].get(..total) else {
                return Turn::Stop(Stop::Need(total));
            };
            let trailer = u32_at::<BIG>(block, total - 4) as usize;
            if trailer != total {
                return Turn::Stop(Stop::Fault(Fault::corrupt(format!(
                    "a block (type {block_type}) has two lengths, {total} before and {trailer} after it: \
                     the file is damaged from here on"
                ))));
            }
            // Writes the descriptor in place: if it were built elsewhere and copied here, the copy would
            // stall on its own stores (twice the time of the whole loop, 2026-11).
            let slot = &mut slots.packets[slots.found];
            let described = if block_type == ENHANCED_PACKET {
                self.describe_enhanced::<BIG>(block, at, slot).map(|()| true)
            } else {
                self.take_other::<BIG>(block_type, block, at, run, slot)
            };
            match described {
                Ok(true) => {
                    run.packets += 1;
                    slot.number = run.packets;
                    if matches!(slot.time, Timestamp(i64::MIN | i64::MAX)) {
                        run.times_beyond += 1;
                        slot.time = self.last_time;
                    }
                    self.last_time = slot.time;
                    if let Some(extras) = &mut slots.extras
                        && block_type != SIMPLE_PACKET
                    {
                        annotate::<BIG>(block, slot.captured_bytes as usize, slots.found, extras);
                    }
                    slots.found += 1;
                }
                Ok(false) => {}
                Err(fault) => return Turn::Stop(Stop::Fault(fault)),
            }
            *pos = at + total;
        }
        Turn::Stop(Stop::Full)
    }

    /// Describes an enhanced packet in `slot`; `at` is the position of its block.
    #[inline(always)]
    fn describe_enhanced<const BIG: bool>(
        &self,
        block: &[u8],
        at: usize,
        slot: &mut PacketMeta,
    ) -> Result<(), Fault> {
        let Some(head) = block.first_chunk::<28>().filter(|_| block.len() >= 32) else {
            return Err(too_short("an enhanced packet", block.len()));
        };
        self.describe::<BIG>(u32_at::<BIG>(head, 8), head, block.len(), at, slot)
    }

    /// The common part of both packet blocks with a time: the time and the lengths have the same positions.
    #[inline(always)]
    fn describe<const BIG: bool>(
        &self,
        id: u32,
        head: &[u8; 28],
        total: usize,
        at: usize,
        slot: &mut PacketMeta,
    ) -> Result<(), Fault> {
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(unknown_interface(id, self.interfaces.len()));
        };
        let ticks = u64::from(u32_at::<BIG>(head, 12)) << 32 | u64::from(u32_at::<BIG>(head, 16));
        let (captured, wire) = (u32_at::<BIG>(head, 20), u32_at::<BIG>(head, 24));
        if captured as usize > total - 32 {
            return Err(too_much(captured, total - 32));
        }
        slot.time = Timestamp(interface.scale.nanoseconds(ticks).saturating_add(interface.offset_ns));
        slot.offset = (at + 28) as u32;
        slot.captured_bytes = captured;
        slot.wire_bytes = wire.max(captured);
        slot.link = interface.link;
        slot.interface = interface.number;
        Ok(())
    }

    /// Processes a block other than an enhanced packet. Returns whether it was a packet, described in `slot`.
    #[cold]
    fn take_other<const BIG: bool>(
        &mut self,
        block_type: u32,
        block: &[u8],
        at: usize,
        run: &mut Run,
        slot: &mut PacketMeta,
    ) -> Result<bool, Fault> {
        match block_type {
            SECTION => {
                self.begin_section::<BIG>(block, run)?;
                if let Some(head) = &mut self.head {
                    head.clear();
                }
                self.first_interface = u16::try_from(run.interfaces.len()).unwrap_or(u16::MAX);
                self.keep_head(block);
            }
            INTERFACE => {
                self.admit_interface::<BIG>(block, run)?;
                self.keep_head(block);
            }
            SIMPLE_PACKET => {
                // The packet has the time of the one before, perhaps of another section.
                self.head = None;
                *slot = self.describe_simple::<BIG>(block, at)?;
                return Ok(true);
            }
            PACKET => {
                let Some(head) = block.first_chunk::<28>().filter(|_| block.len() >= 32) else {
                    return Err(too_short("a packet", block.len()));
                };
                let id = u32::from(u16_at::<BIG>(head, 8));
                self.describe::<BIG>(id, head, block.len(), at, slot)?;
                return Ok(true);
            }
            NAMES | SECRETS if run.findings.is_asked() => {
                match carried::<BIG>(block_type, &block[8..block.len() - 4]) {
                    Some(block) => run.carry(block),
                    None => run.blocks_skipped += 1,
                }
            }
            _ => run.blocks_skipped += 1,
        }
        Ok(false)
    }

    fn begin_section<const BIG: bool>(&mut self, block: &[u8], run: &mut Run) -> Result<(), Fault> {
        if block.len() < 28 {
            return Err(too_short("a section", block.len()));
        }
        // Some writers wrote 1.2 by mistake for 1.0; the format is the same.
        match (u16_at::<BIG>(block, 12), u16_at::<BIG>(block, 14)) {
            (1, 0 | 2) => {}
            (major, minor) => {
                return Err(Fault::unsupported(format!(
                    "a section of pcapng version {major}.{minor}: only 1.0 is known"
                )));
            }
        }
        self.interfaces.clear();
        let options = &block[24..block.len() - 4];
        self.section = run.keep_options(little_endian::<BIG>(Of::Section, options, OPTIONS_BYTES_MAX));
        Ok(())
    }

    fn admit_interface<const BIG: bool>(&mut self, block: &[u8], run: &mut Run) -> Result<(), Fault> {
        if block.len() < 20 {
            return Err(too_short("an interface", block.len()));
        }
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(Fault::corrupt(format!("more than {INTERFACES_MAX} interfaces in a section")));
        }
        let mut interface = Interface {
            file: Arc::clone(&run.file),
            name: String::new(),
            link: LinkType(u16_at::<BIG>(block, 8)),
            snaplen_bytes: u32_at::<BIG>(block, 12),
            resolution: TimeResolution::MICROSECONDS,
            fcs_bytes: None,
            description: None,
        };
        let (mut offset_ns, mut options) = (0i64, Kept::default());
        for_each_option::<BIG>(&block[16..block.len() - 4], |code, value| {
            // Times are always written in nanoseconds.
            if !matches!(code, 9 | 14) {
                options.push::<BIG>(Of::Interface, code, value, OPTIONS_BYTES_MAX);
            }
            match (code, value) {
                (2, name) => {
                    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
                    interface.name = name.trim_end_matches('\0').to_owned();
                }
                (9, &[resolution, ..]) => interface.resolution = TimeResolution::from_option(resolution),
                (13, &[fcs_bytes, ..]) => interface.fcs_bytes = Some(fcs_bytes),
                (14, seconds) => {
                    if let Some(raw) = seconds.first_chunk::<8>() {
                        let seconds = if BIG { i64::from_be_bytes(*raw) } else { i64::from_le_bytes(*raw) };
                        offset_ns = seconds.saturating_mul(1_000_000_000);
                    }
                }
                _ => {}
            }
        })?;
        let (options, section) = (run.keep_options(options), Arc::clone(&self.section));
        interface.description = Some(Description { options, section });
        self.interfaces.push(Local {
            link: interface.link,
            scale: Scale::of(interface.resolution),
            offset_ns,
            snaplen_bytes: interface.snaplen_bytes,
            number: run.admit(interface),
        });
        Ok(())
    }

    /// A simple packet belongs to the section's first interface, and only that interface's snap length says
    /// how much of the packet was captured.
    fn describe_simple<const BIG: bool>(&self, block: &[u8], at: usize) -> Result<PacketMeta, Fault> {
        if block.len() < 16 {
            return Err(too_short("a simple packet", block.len()));
        }
        let Some(interface) = self.interfaces.first() else {
            return Err(unknown_interface(0, 0));
        };
        let (wire, room) = (u32_at::<BIG>(block, 8), block.len() - 16);
        let limit = if interface.snaplen_bytes == 0 { u32::MAX } else { interface.snaplen_bytes };
        let captured = wire.min(limit).min(room as u32);
        Ok(PacketMeta {
            time: self.last_time,
            number: 0,
            offset: (at + 12) as u32,
            captured_bytes: captured,
            wire_bytes: wire,
            link: interface.link,
            interface: interface.number,
        })
    }
}

/// Keeps the options of a packet block as annotations of packet `index`: in little-endian order, without the
/// end marker. Options after one that exceeds the block are left out.
#[cold]
fn annotate<const BIG: bool>(block: &[u8], captured_bytes: usize, index: usize, extras: &mut Extras) {
    let first = PACKET_HEAD_BYTES + captured_bytes.next_multiple_of(4);
    let options = block.get(first..block.len() - 4).unwrap_or_default();
    let swapped;
    let annotations = if BIG {
        swapped = little_endian::<true>(Of::Packet, options, usize::MAX).options;
        &swapped
    } else {
        &options[..whole_bytes(options)]
    };
    if !annotations.is_empty() {
        extras.push(index, PacketExtra { annotations, ..PacketExtra::default() });
    }
}

/// A block of names or secrets, little-endian; `None` if its body is inconsistent.
fn carried<const BIG: bool>(block_type: u32, body: &[u8]) -> Option<Vec<u8>> {
    let mut out = [block_type.to_le_bytes(), [0; 4]].concat();
    let (of, options) = if block_type == SECRETS {
        let head = body.first_chunk::<8>()?;
        let (kind, length) = (u32_at::<BIG>(head, 0), u32_at::<BIG>(head, 4));
        let padded = (length as usize).checked_next_multiple_of(4)?;
        out.extend([kind.to_le_bytes(), length.to_le_bytes()].concat());
        out.extend(body[8..].get(..padded)?);
        (Of::Secrets, &body[8 + padded..])
    } else {
        // Records have the layout of options.
        let mut length = 0;
        for_each_option::<BIG>(body, |kind, value| {
            length += 4 + value.len().next_multiple_of(4);
            push_option::<BIG>(&mut out, Of::Names, kind, value);
        })
        .ok()?;
        out.extend([0; 4]);
        (Of::Names, body.get(length + 4..).unwrap_or_default())
    };
    let options = little_endian::<BIG>(of, options, usize::MAX).options;
    if !options.is_empty() {
        out.extend([options, vec![0; 4]].concat());
    }
    let total = (out.len() as u32 + 4).to_le_bytes();
    out[4..8].copy_from_slice(&total);
    out.extend(total);
    Some(out)
}

#[cold]
fn bad_total(block_type: u32, total: usize) -> Fault {
    Fault::corrupt(format!(
        "a block (type {block_type}) claims to be {total} bytes long, which is {}: \
         the file is damaged from here on",
        match total {
            0..FRAME_BYTES => "too short for any block",
            _ if total > BLOCK_BYTES_MAX => "more than any block has",
            _ => "no multiple of 4",
        }
    ))
}

#[cold]
fn too_short(what: &str, total: usize) -> Fault {
    Fault::corrupt(format!("the block of {what} is only {total} bytes long"))
}

#[cold]
fn too_much(captured: u32, room: usize) -> Fault {
    Fault::corrupt(format!("a packet claims {captured} captured bytes, and its block has room for {room}"))
}

#[cold]
fn unknown_interface(id: u32, known: usize) -> Fault {
    Fault::corrupt(format!("a packet of interface {id}, and the section has described {known} of them"))
}

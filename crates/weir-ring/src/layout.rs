//! Where things are in the memory of a ring, in words of 64 bits.
//!
//! ```text
//! head         magic, version, words of a segment, segments, serial of the next segment, identity of the ring,
//!              packets and bytes written, packets that have left, packets that were too long
//! descriptors  for each segment: serial, bytes, packets, first and last time, writer, state
//! segments     each a section of a pcapng file: packets from its begin, entries of the index from its end
//! ```
//!
//! # The protocol
//! A segment has one writer at a time. A serial number names a use of a segment; it is 0 while the segment
//! changes its use. The writer writes words of a packet, then publishes them by the number of bytes
//! (release). A reader notes the serial, reads the number of bytes (acquire), copies words, and then reads
//! the serial again: if the serial is another one, the copy is worth nothing.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WEIRRING");
pub(crate) const VERSION: u64 = 1;

/// The words of the head.
#[cfg_attr(loom, allow(dead_code))]
pub(crate) mod head {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const SEGMENT_WORDS: usize = 2;
    pub const SEGMENTS: usize = 3;
    /// The serial of the next segment, from 1.
    pub const NEXT: usize = 4;
    /// A number that no other ring has.
    pub const IDENTITY: usize = 5;
    pub const PACKETS: usize = 6;
    pub const BYTES: usize = 7;
    /// Packets that were overwritten.
    pub const LEFT: usize = 8;
    /// Packets that fit into no segment.
    pub const TOO_LONG: usize = 9;
    /// Packets that were overwritten and are in no spool.
    pub const UNSPOOLED: usize = 10;
    /// Packets for which no segment was free.
    pub const NO_SEGMENT: usize = 11;
}

/// The words of the head, and of each descriptor: two cache lines, which no other descriptor shares.
pub(crate) const HEAD_WORDS: usize = 512;
pub(crate) const DESCRIPTOR_WORDS: usize = 16;

/// The words of a descriptor.
mod descriptor {
    pub const SERIAL: usize = 0;
    /// Bytes that are written.
    pub const BYTES: usize = 1;
    pub const PACKETS: usize = 2;
    /// The earliest and the latest time of a packet, nanoseconds since 1970.
    pub const FIRST: usize = 3;
    pub const LAST: usize = 4;
    pub const WRITER: usize = 5;
    pub const STATE: usize = 6;
    /// The last serial that a spool has written.
    pub const SPOOLED: usize = 7;
    /// Packets that the writer wrote in earlier uses.
    pub const BEFORE: usize = 8;
}

/// States of a segment; 0: it was never used.
pub(crate) mod state {
    pub const OPEN: u64 = 1;
    pub const COMPLETE: u64 = 2;
}

/// The descriptor of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor<'a>(&'a [AtomicU64]);

/// What a descriptor says of one use of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    pub serial: u64,
    pub bytes: usize,
    pub packets: u64,
    /// Packets of the writer in earlier uses.
    pub before: u64,
    pub first: i64,
    pub last: i64,
    pub writer: u32,
    pub is_complete: bool,
}

impl<'a> Descriptor<'a> {
    /// The descriptor in these words.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// Takes the segment for another use, unless a writer has it. Returns the number of packets that leave,
    /// and whether a spool has them.
    pub fn take(self) -> Option<(u64, bool)> {
        let state = &self.0[descriptor::STATE];
        state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |now| {
                (now != state::OPEN).then_some(state::OPEN)
            })
            .ok()?;
        // Readers that see a word of the next use also see that the serial is none.
        let serial = self.0[descriptor::SERIAL].swap(0, Ordering::Relaxed);
        fence(Ordering::Release);
        let is_spooled = self.0[descriptor::SPOOLED].load(Ordering::Relaxed) == serial;
        Some((self.0[descriptor::PACKETS].load(Ordering::Relaxed), is_spooled))
    }

    /// Begins a use, without packets.
    pub fn begin(self, serial: u64, writer: u32, before: u64) {
        let values = [
            (descriptor::BYTES, 0),
            (descriptor::PACKETS, 0),
            (descriptor::FIRST, i64::MAX as u64),
            (descriptor::LAST, i64::MIN as u64),
            (descriptor::WRITER, u64::from(writer)),
            (descriptor::BEFORE, before),
        ];
        values.into_iter().for_each(|(word, value)| self.0[word].store(value, Ordering::Relaxed));
        self.0[descriptor::SERIAL].store(serial, Ordering::Release);
    }

    /// Publishes what the writer has written.
    pub fn publish(self, bytes: usize, packets: u64, (first, last): (i64, i64)) {
        self.0[descriptor::PACKETS].store(packets, Ordering::Relaxed);
        self.0[descriptor::FIRST].store(first as u64, Ordering::Relaxed);
        self.0[descriptor::LAST].store(last as u64, Ordering::Relaxed);
        self.0[descriptor::BYTES].store(bytes as u64, Ordering::Release);
    }

    /// The writer is done.
    pub fn complete(self) {
        self.0[descriptor::STATE].store(state::COMPLETE, Ordering::Release);
    }

    /// A spool has written the use with this serial.
    pub fn set_spooled(self, serial: u64) {
        self.0[descriptor::SPOOLED].store(serial, Ordering::Relaxed);
    }

    /// What the descriptor says; `None` while the segment has no use. Call [`is_still`](Self::is_still) after
    /// what is said was used.
    pub fn read(self) -> Option<Use> {
        let serial = self.0[descriptor::SERIAL].load(Ordering::Acquire);
        if serial == 0 {
            return None;
        }
        let is_complete = self.0[descriptor::STATE].load(Ordering::Acquire) == state::COMPLETE;
        let word = |word: usize| self.0[word].load(Ordering::Relaxed);
        let bytes = self.0[descriptor::BYTES].load(Ordering::Acquire) as usize;
        let made = Use {
            serial,
            bytes,
            packets: word(descriptor::PACKETS),
            before: word(descriptor::BEFORE),
            first: word(descriptor::FIRST) as i64,
            last: word(descriptor::LAST) as i64,
            writer: word(descriptor::WRITER) as u32,
            is_complete,
        };
        self.is_still(serial).then_some(made)
    }

    /// Whether everything that was copied since this serial was read belongs to this use.
    pub fn is_still(self, serial: u64) -> bool {
        fence(Ordering::Acquire);
        self.0[descriptor::SERIAL].load(Ordering::Relaxed) == serial
    }
}

/// Copies words into bytes, which may be longer by less than a word.
pub(crate) fn copy_out(words: &[AtomicU64], bytes: &mut [u8]) {
    for (word, place) in words.iter().zip(bytes.chunks_mut(WORD)) {
        let word = word.load(Ordering::Relaxed).to_ne_bytes();
        place.copy_from_slice(&word[..place.len()]);
    }
}

//! Entries of a flow table: a header and the program's variables, one after the other in chunks that
//! never move.
//!
//! Entry `id` lies in chunk `id / 32768`. Strides are multiples of a cache line, so every chunk is a
//! multiple of 2 MiB. The first chunk is left on small pages: captures of a few flows should not
//! pay for clearing a huge one.
#![allow(unsafe_code)]

use super::memory::{Plain, Zeroed, prefetch};
use super::{FlowId, Key};
use std::ptr::NonNull;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Entries of a chunk, as a shift.
const CHUNK_SHIFT: u32 = 15;
/// Lines of an entry that are fetched ahead; the rest of longer ones the hardware's prefetcher finds.
const PREFETCH_LINES_MAX: usize = 3;

/// What the engine keeps of every flow, before the program's variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Header {
    /// The key.
    pub(super) key: Key,
    /// Time of its last packet, nanoseconds since 1970.
    pub last_time: i64,
    /// Time of its first packet.
    pub first_time: i64,
    /// Number of its first packet in the run, from 1.
    pub first_packet: u64,
    /// Time-out for which its timer was last set, milliseconds; the table doesn't touch it.
    pub armed_ms: u32,
    /// The sender of the first packet stands second in the key.
    pub swap: bool,
    pub(super) live: bool,
    reserved: [u8; 2],
}

/// Bytes of a header: with it in front, 56 bytes of variables make two cache lines.
const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 72 && align_of::<Header>() == 8);

impl Header {
    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// A header of a flow that has just begun.
    pub(crate) fn born(key: Key, time: i64, packet: u64, swap: bool) -> Self {
        Self {
            key,
            last_time: time,
            first_time: time,
            first_packet: packet,
            swap,
            live: true,
            ..Self::default()
        }
    }
}

/// A cache line of an entry.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; LINE_BYTES / 8]);

// SAFETY: words.
unsafe impl Plain for Line {}

/// Chunks of entries.
pub(super) struct Slab {
    chunks: Vec<Zeroed<Line>>,
    stride_lines: usize,
    data_bytes: usize,
    length: u32,
}

impl Slab {
    /// A slab for entries with `data_bytes` bytes of variables.
    pub(super) fn new(data_bytes: usize) -> Self {
        let stride_lines = (HEADER_BYTES + data_bytes).div_ceil(LINE_BYTES);
        Self { chunks: Vec::new(), stride_lines, data_bytes, length: 0 }
    }

    /// Entries so far, live or not.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// Bytes of an entry.
    pub(super) fn stride_bytes(&self) -> usize {
        self.stride_lines * LINE_BYTES
    }

    /// Bytes of address space taken by chunks; pages that were never touched take no memory.
    pub(super) fn bytes(&self) -> usize {
        (self.chunks.len() << CHUNK_SHIFT) * self.stride_bytes()
    }

    /// A new entry of zeros; `None` where the system has no memory.
    pub(super) fn push(&mut self) -> Option<FlowId> {
        let id = self.length;
        if (id >> CHUNK_SHIFT) as usize == self.chunks.len() {
            let lines = self.stride_lines << CHUNK_SHIFT;
            self.chunks.push(Zeroed::new(lines, !self.chunks.is_empty())?);
        }
        self.length += 1;
        Some(FlowId(id))
    }

    /// Where an entry begins.
    ///
    /// # Panics
    /// If there never was such an entry.
    #[inline]
    fn start(&self, id: FlowId) -> NonNull<Line> {
        let chunk = &self.chunks[(id.0 >> CHUNK_SHIFT) as usize];
        let first = (id.0 as usize & ((1 << CHUNK_SHIFT) - 1)) * self.stride_lines;
        // SAFETY: every chunk has `stride_lines << CHUNK_SHIFT` lines, so that each of its entries lies in it.
        unsafe { chunk.start().add(first) }
    }

    /// The header of an entry.
    #[inline]
    pub(super) fn header(&self, id: FlowId) -> &Header {
        // SAFETY: an entry has at least HEADER_BYTES bytes, on a line's boundary. They are zeros, which
        // are a valid header, or what was written through `parts_mut`, which keeps headers and variables
        // apart.
        unsafe { self.start(id).cast::<Header>().as_ref() }
    }

    /// The header and the variables of an entry.
    #[inline]
    pub(super) fn parts(&self, id: FlowId) -> (&Header, &[u8]) {
        let start = self.start(id);
        // SAFETY: as in `header`; the variables are the `data_bytes` bytes behind it, within the entry's
        // lines by the choice of the stride.
        unsafe {
            let data = start.cast::<u8>().add(HEADER_BYTES).as_ptr();
            (start.cast::<Header>().as_ref(), std::slice::from_raw_parts(data, self.data_bytes))
        }
    }

    /// The header and the variables of an entry, to change.
    #[inline]
    pub(super) fn parts_mut(&mut self, id: FlowId) -> (&mut Header, &mut [u8]) {
        let start = self.start(id);
        // SAFETY: as in `parts`. The slab, which owns its chunks alone, is borrowed exclusively, and the two
        // don't overlap.
        unsafe {
            let data = start.cast::<u8>().add(HEADER_BYTES).as_ptr();
            (start.cast::<Header>().as_mut(), std::slice::from_raw_parts_mut(data, self.data_bytes))
        }
    }

    /// Fetches the lines of an entry ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, id: FlowId) {
        let start = self.start(id);
        for line in 0..self.stride_lines.min(PREFETCH_LINES_MAX) {
            // SAFETY: the entry has that many lines.
            prefetch(unsafe { start.add(line).as_ref() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_do_not_touch_each_other() {
        let mut slab = Slab::new(58);
        assert_eq!(slab.stride_bytes(), 192, "72 + 58 bytes take three lines");
        let first = slab.push().expect("there is memory");
        let address = std::ptr::from_ref(slab.header(first));
        let ids: Vec<FlowId> = (0..40_000).filter_map(|_| slab.push()).collect();
        for &id in &ids {
            let (header, data) = slab.parts_mut(id);
            header.first_packet = u64::from(id.0);
            data.fill(id.0 as u8);
        }
        assert_eq!(std::ptr::from_ref(slab.header(first)), address);
        assert_eq!(slab.header(first), &Header::default());
        for &id in &ids {
            let (header, data) = slab.parts(id);
            assert_eq!(header.first_packet, u64::from(id.0));
            assert!(data.len() == 58 && data.iter().all(|&byte| byte == id.0 as u8));
        }
    }
}

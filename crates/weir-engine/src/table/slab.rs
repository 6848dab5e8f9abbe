//! Entries of a flow table: a header with the flow's key, and the program's variables, contiguous in chunks
//! that never move.
//!
//! Entry `id` lies in chunk `id / 32768`. Strides are multiples of a cache line, so every chunk is a multiple
//! of 2 MiB. The first chunk uses small pages: captures of a few flows should not pay for clearing a huge
//! page.
#![allow(unsafe_code)]

use super::FlowId;
use super::header::{FIXED_BYTES, Header};
use super::memory::{Plain, Zeroed, prefetch};
use std::ptr::{self, NonNull};
use weir_memory::checked;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Entries per chunk, as a shift.
const CHUNK_SHIFT: u32 = 15;
/// Limit of cache lines prefetched per entry; for longer entries, the hardware prefetcher fetches the rest.
const PREFETCH_LINES_MAX: usize = 3;

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
    key_words: usize,
    data_bytes: usize,
    length: u32,
}

impl Slab {
    /// A slab for entries with keys of `key_words` words and `data_bytes` bytes of variables.
    pub(super) fn new(key_words: usize, data_bytes: usize) -> Self {
        let stride_lines = (FIXED_BYTES + 8 * key_words + data_bytes).div_ceil(LINE_BYTES);
        Self { chunks: Vec::new(), stride_lines, key_words, data_bytes, length: 0 }
    }

    /// Words of a key.
    pub(super) fn key_words(&self) -> usize {
        self.key_words
    }

    /// Bytes of a header with its key.
    #[inline]
    fn header_bytes(&self) -> usize {
        FIXED_BYTES + 8 * self.key_words
    }

    /// The header at the start of an entry.
    #[inline]
    fn header_at(&self, start: NonNull<Line>) -> *mut Header {
        // The metadata of a pointer to a header is the number of key words, as for a slice of words.
        ptr::slice_from_raw_parts_mut(start.as_ptr().cast::<u64>(), self.key_words) as *mut Header
    }

    /// Number of entries so far, live or not.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// Bytes of an entry.
    pub(super) fn stride_bytes(&self) -> usize {
        self.stride_lines * LINE_BYTES
    }

    /// Bytes of address space of the chunks; pages that were never accessed use no memory.
    pub(super) fn bytes(&self) -> usize {
        (self.chunks.len() << CHUNK_SHIFT) * self.stride_bytes()
    }

    /// Adds an entry of zeros; `None` if the system has no memory.
    pub(super) fn push(&mut self) -> Option<FlowId> {
        let id = self.length;
        if (id >> CHUNK_SHIFT) as usize == self.chunks.len() {
            let lines = self.stride_lines << CHUNK_SHIFT;
            checked(|| self.chunks.try_reserve(1)).ok()?;
            let is_later = !self.chunks.is_empty();
            self.chunks.push(checked(|| Zeroed::new(lines, is_later))?);
        }
        self.length += 1;
        Some(FlowId(id))
    }

    /// The entries of each chunk, in the order of their ids. A chunk is freed when the slab of its entries is
    /// dropped.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Self> {
        let Self { chunks, stride_lines, key_words, data_bytes, length } = self;
        chunks.into_iter().zip((0..).step_by(1 << CHUNK_SHIFT)).map(move |(chunk, first)| {
            let length = (length - first).min(1 << CHUNK_SHIFT);
            Self { chunks: vec![chunk], stride_lines, key_words, data_bytes, length }
        })
    }

    /// The start of an entry.
    ///
    /// # Panics
    /// If there was never such an entry.
    #[inline]
    fn start(&self, id: FlowId) -> NonNull<Line> {
        let chunk = &self.chunks[(id.0 >> CHUNK_SHIFT) as usize];
        let first = (id.0 as usize & ((1 << CHUNK_SHIFT) - 1)) * self.stride_lines;
        // SAFETY: every chunk has `stride_lines << CHUNK_SHIFT` lines, so each of its entries lies in it.
        unsafe { chunk.start().add(first) }
    }

    /// The header of an entry.
    #[inline]
    pub(super) fn header(&self, id: FlowId) -> &Header {
        // SAFETY: an entry has at least `header_bytes` bytes and is aligned to a cache line. Its bytes are
        // zeros, which are a valid header, or were written through `parts_mut`, which keeps headers and
        // variables apart.
        unsafe { &*self.header_at(self.start(id)) }
    }

    /// The header and the variables of an entry.
    #[inline]
    pub(super) fn parts(&self, id: FlowId) -> (&Header, &[u8]) {
        let start = self.start(id);
        // SAFETY: as in `header`; the variables are the `data_bytes` bytes behind it, within the entry's
        // lines by the choice of the stride.
        unsafe {
            let data = start.cast::<u8>().add(self.header_bytes()).as_ptr();
            (&*self.header_at(start), std::slice::from_raw_parts(data, self.data_bytes))
        }
    }

    /// The header and the variables of an entry, mutable.
    #[inline]
    pub(super) fn parts_mut(&mut self, id: FlowId) -> (&mut Header, &mut [u8]) {
        let start = self.start(id);
        // SAFETY: as in `parts`. The slab owns its chunks and is borrowed exclusively, and the two ranges do
        // not overlap.
        unsafe {
            let data = start.cast::<u8>().add(self.header_bytes()).as_ptr();
            (&mut *self.header_at(start), std::slice::from_raw_parts_mut(data, self.data_bytes))
        }
    }

    /// Prefetches the cache lines of an entry.
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
        let mut slab = Slab::new(5, 58);
        assert_eq!(slab.stride_bytes(), 192, "72 + 58 bytes take three lines");
        let first = slab.push().expect("there is memory");
        let address = ptr::from_ref(slab.header(first)).addr();
        // More than a chunk. Miri looks at every 150th.
        let step = if cfg!(miri) { 150 } else { 1 };
        let ids: Vec<FlowId> = (0..40_000).filter_map(|_| slab.push()).step_by(step).collect();
        for &id in &ids {
            let (header, data) = slab.parts_mut(id);
            header.first_packet = u64::from(id.0);
            header.set_key(&[u64::from(id.0); 5]);
            data.fill(id.0 as u8);
        }
        assert_eq!(ptr::from_ref(slab.header(first)).addr(), address);
        assert_eq!((slab.header(first).first_packet, slab.header(first).words()), (0, &[0; 5][..]));
        for &id in &ids {
            let (header, data) = slab.parts(id);
            assert_eq!(header.first_packet, u64::from(id.0));
            assert_eq!(header.key(), [u64::from(id.0); 5]);
            assert!(data.len() == 58 && data.iter().all(|&byte| byte == id.0 as u8));
        }
    }

    #[test]
    fn an_entry_is_as_long_as_its_key() {
        let stride = |key_words| Slab::new(key_words, 24).stride_bytes();
        assert_eq!([1, 5, 16].map(stride), [64, 128, 192]);
        let mut slab = Slab::new(16, 3);
        let id = slab.push().expect("there is memory");
        let (header, data) = slab.parts_mut(id);
        header.set_key(&[7; 16]);
        data.fill(9);
        assert_eq!((slab.parts(id).0.key(), slab.parts(id).1), (&[7; 16][..], &[9; 3][..]));
    }
}

//! The ring: its creation, its counters, and the uses of its segments.

use crate::layout::WORD;
use crate::layout::{DESCRIPTOR_WORDS, Descriptor, HEAD_WORDS, MAGIC, Use, VERSION, copy_out, head};
use crate::memory::{HUGE_PAGE_BYTES, Memory, Pages};
use crate::time_range::{Stretch, TimeRange};
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a segment.
const SEGMENT_BYTES_MIN: usize = 256 << 10;
const SEGMENT_BYTES_MAX: usize = 8 << 20;
/// A ring is divided into about this number of segments.
const SEGMENTS: usize = 256;
/// The smallest ring: each writer needs a segment, and readers need some behind it.
pub const RING_BYTES_MIN: usize = 16 * SEGMENT_BYTES_MIN;
/// The most segments of a ring that is attached.
const SEGMENTS_MAX: usize = 1 << 24;

/// Packets in memory that processes share.
#[derive(Debug, Clone)]
pub struct Ring {
    pub(crate) memory: Arc<Memory>,
    segment_words: usize,
    segments: usize,
    first_segment: usize,
}

/// The counters of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingCounters {
    /// Packets written.
    pub packets: u64,
    /// Their captured bytes.
    pub bytes: u64,
    /// Packets that were overwritten by others: they left the ring.
    pub left: u64,
    /// Packets that were overwritten and are in no spool.
    pub unspooled: u64,
    /// Packets that are longer than half a segment: they are not in the ring.
    pub too_long: u64,
    /// Packets for which no segment was free: there are too many writers.
    pub no_segment: u64,
}

impl Ring {
    /// A ring of about this number of bytes, at least [`RING_BYTES_MIN`]. `identity`: a number that no other
    /// ring has.
    ///
    /// # Errors
    /// The system has not enough memory.
    pub fn create(bytes: usize, name: &str, identity: u64) -> io::Result<(Self, Pages)> {
        let segment_bytes =
            (bytes / SEGMENTS).next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let segments = (bytes / segment_bytes).max(RING_BYTES_MIN / SEGMENT_BYTES_MIN);
        Self::with_segments(segments, segment_bytes, name, identity)
    }

    /// A ring of this number of segments, each of this number of bytes, a multiple of 4096.
    pub(crate) fn with_segments(
        segments: usize,
        segment_bytes: usize,
        name: &str,
        identity: u64,
    ) -> io::Result<(Self, Pages)> {
        let segment_words = segment_bytes / WORD;
        let first_segment = first_segment(segments);
        let words = first_segment + segments * segment_words;
        let (memory, pages) = Memory::create((words * WORD).next_multiple_of(HUGE_PAGE_BYTES), name)?;
        let store = |word: usize, value| memory.words()[word].store(value, Ordering::Relaxed);
        store(head::VERSION, VERSION);
        store(head::SEGMENT_WORDS, segment_words as u64);
        store(head::SEGMENTS, segments as u64);
        store(head::NEXT, 1);
        store(head::IDENTITY, identity);
        memory.words()[head::MAGIC].store(MAGIC, Ordering::Release);
        Ok((Self { memory: Arc::new(memory), segment_words, segments, first_segment }, pages))
    }

    /// The ring of another process, to read.
    ///
    /// # Errors
    /// `InvalidData` if the file is no ring, or one of another version.
    pub fn attach(fd: OwnedFd) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let memory = Memory::attach(fd)?;
        let words = memory.words();
        let word = |word: usize| words.get(word).map_or(0, |word| word.load(Ordering::Acquire));
        if word(head::MAGIC) != MAGIC {
            return Err(invalid("this is no memory of a recorder"));
        }
        if word(head::VERSION) != VERSION {
            return Err(invalid("the recorder is of another version of weir"));
        }
        let (segment_words, segments) = (word(head::SEGMENT_WORDS) as usize, word(head::SEGMENTS) as usize);
        let end =
            first_segment(segments.min(SEGMENTS_MAX)).checked_add(segments.saturating_mul(segment_words));
        if segments == 0 || segment_words == 0 || end.is_none_or(|end| end > words.len()) {
            return Err(invalid("the memory of the recorder contradicts itself"));
        }
        Ok(Self { first_segment: first_segment(segments), memory: Arc::new(memory), segment_words, segments })
    }

    /// The descriptor of the memory, for [`attach`](Self::attach) in another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// The number that no other ring has.
    pub fn identity(&self) -> u64 {
        self.word(head::IDENTITY).load(Ordering::Relaxed)
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> usize {
        self.segment_words * WORD
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The counters.
    pub fn counters(&self) -> RingCounters {
        let word = |word| self.word(word).load(Ordering::Relaxed);
        RingCounters {
            packets: word(head::PACKETS),
            bytes: word(head::BYTES),
            left: word(head::LEFT),
            unspooled: word(head::UNSPOOLED),
            too_long: word(head::TOO_LONG),
            no_segment: word(head::NO_SEGMENT),
        }
    }

    /// The times of the packets in the ring. `None`: there are none.
    pub fn times(&self) -> Option<TimeRange> {
        let uses = self.uses().into_iter().filter(|used| used.packets > 0);
        let all = uses.map(|used| TimeRange { first: used.first, last: used.last });
        all.reduce(|one, other| TimeRange {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
        })
    }

    /// The segments that have packets, those of earlier uses are gone.
    pub fn stretches(&self) -> Vec<Stretch> {
        let identity = self.identity();
        let of = |used: Use| Stretch {
            segment: (identity, used.serial),
            times: TimeRange { first: used.first, last: used.last },
            packets: used.packets,
            bytes: used.bytes as u64,
        };
        self.uses().into_iter().filter(|used| used.packets > 0).map(of).collect()
    }

    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        &self.memory.words()[word]
    }

    pub(crate) fn descriptor(&self, segment: usize) -> Descriptor<'_> {
        let start = HEAD_WORDS + segment * DESCRIPTOR_WORDS;
        Descriptor::new(&self.memory.words()[start..start + DESCRIPTOR_WORDS])
    }

    pub(crate) fn segment(&self, segment: usize) -> &[AtomicU64] {
        &self.memory.words()[self.first_word(segment)..][..self.segment_words]
    }

    /// The first word of a segment.
    pub(crate) fn first_word(&self, segment: usize) -> usize {
        self.first_segment + segment * self.segment_words
    }

    /// The current uses of all segments. Of a writer, all uses but the last one are complete.
    pub(crate) fn uses(&self) -> Vec<Use> {
        let bytes = self.segment_bytes();
        let read = |segment| {
            let used = self.descriptor(segment).read();
            // Another process may be wrong.
            used.filter(|used| match used.is_complete {
                true => used.bytes == bytes,
                false => used.bytes <= bytes && used.bytes.is_multiple_of(WORD),
            })
        };
        let mut uses: Vec<Use> = (0..self.segments).filter_map(read).collect();
        let mut newest: HashMap<u32, u64> = HashMap::new();
        for used in &uses {
            let newest = newest.entry(used.writer).or_default();
            *newest = used.serial.max(*newest);
        }
        // A segment that was open when it was read, and complete when that of the next use was.
        for used in uses.iter_mut().filter(|used| !used.is_complete && used.serial < newest[&used.writer]) {
            if let Some(again) =
                read(self.segment_of(used.serial)).filter(|again| again.serial == used.serial)
            {
                *used = again;
            }
        }
        uses
    }

    /// The segment that has, or had, the use with this serial.
    pub(crate) fn segment_of(&self, serial: u64) -> usize {
        (serial % self.segments as u64) as usize
    }

    /// Copies bytes `from..to` of a use, whole words, behind those in `bytes`. Returns `false`, and copies
    /// nothing, if the use has left.
    pub(crate) fn copy(&self, serial: u64, from: usize, to: usize, bytes: &mut Vec<u8>) -> bool {
        let segment = self.segment_of(serial);
        let (descriptor, words) = (self.descriptor(segment), self.segment(segment));
        let to = to.min(words.len() * WORD);
        if from >= to || !descriptor.is_still(serial) {
            return from >= to;
        }
        let start = bytes.len();
        bytes.resize(start + to - from, 0);
        copy_out(&words[from / WORD..to.div_ceil(WORD)], &mut bytes[start..]);
        let is_still = descriptor.is_still(serial);
        if !is_still {
            bytes.truncate(start);
        }
        is_still
    }
}

/// The first word of the first segment: segments begin at pages.
fn first_segment(segments: usize) -> usize {
    (HEAD_WORDS + segments * DESCRIPTOR_WORDS).next_multiple_of(4096 / WORD)
}

//! What a question has of one stream, and a stream as its subscriber sees it.

use super::chunk::{ChunkParams, Chunker};
use super::{DirectionCounts, StreamCounts, StreamParams};
use crate::flow::FlowView;
use crate::sequence::Policy;
use std::num::NonZeroU16;
use weir_packet::Direction;

/// One question's state of one stream. Small: there is one for each stream that is alive.
#[derive(Debug)]
pub struct StreamState {
    /// Its own, at most the question's.
    pub(super) cutoff: u64,
    /// Missing just before the next byte that is handed over.
    pub(super) gap_bytes: u64,
    pub(super) delivered_bytes: u64,
    pub(super) missing_bytes: u64,
    /// Of those that want chunks.
    pub(super) chunks: Option<Box<Chunks>>,
    /// A number of the subscriber's own: where it keeps what it knows of the stream.
    pub user: u32,
    /// Its number and 1: so that a state which is none needs no word of its own.
    number: NonZeroU16,
    pub(super) priority: u8,
    /// [`PACKETS`] and [`LATE`], in one byte: so the state fits into the cache line of its stream.
    flags: u8,
}

/// The question asks for packets.
const PACKETS: u8 = 1;
/// Bytes waited until it was known that the question is given them.
const LATE: u8 = 2;

/// What chunks need.
#[derive(Debug)]
pub(super) struct Chunks {
    pub params: ChunkParams,
    pub chunker: Chunker,
    pub dropped_bytes: u64,
    /// The current chunk is to be merged with the next one.
    pub keeps: bool,
    /// When what waits is handed over, if that is set, and when the chunk began for which it was.
    pub due: Option<(i64, i64)>,
}

/// A stream as its subscriber sees it during a call.
#[derive(Debug)]
pub struct StreamHandle<'a> {
    /// The flow.
    pub flow: &'a FlowView<'a>,
    /// Who sends it.
    pub from: Direction,
    /// Time of the current packet, nanoseconds since 1970.
    pub now: i64,
    /// What the sequence met so far.
    pub sequence: DirectionCounts,
    /// Whose bytes count from now on where segments overlap; `None`: as the plan says for the receiver.
    pub policy: &'a mut Option<Policy>,
    /// Where in the stream the next byte lies.
    pub offset: u64,
    /// What the question has of it.
    pub state: &'a mut StreamState,
}

impl StreamState {
    /// The question asks for packets.
    pub(super) fn asks_for_packets(&self) -> bool {
        self.flags & PACKETS != 0
    }

    /// Notes that bytes waited until it was known that the question is given them.
    pub(super) fn set_late(&mut self) {
        self.flags |= LATE;
    }

    pub(super) fn new(question: usize, params: &StreamParams, side: Direction) -> Self {
        let chunks = params.chunk.map(|params| {
            Box::new(Chunks {
                params,
                chunker: Chunker::default(),
                dropped_bytes: 0,
                keeps: false,
                due: None,
            })
        });
        Self {
            cutoff: params.cutoff[side.index()],
            gap_bytes: 0,
            delivered_bytes: 0,
            missing_bytes: 0,
            chunks,
            user: 0,
            number: NonZeroU16::new(question as u16 + 1).expect("fewer than 65 535 questions"),
            priority: params.priority,
            flags: if params.packets { PACKETS } else { 0 },
        }
    }

    /// The question.
    pub(super) fn question(&self) -> usize {
        usize::from(self.number.get()) - 1
    }

    /// Bytes that come with it and can't be refused.
    pub(super) fn fixed_bytes(&self) -> usize {
        if self.has_chunks() { size_of::<Chunks>() } else { 0 }
    }

    pub(super) fn has_chunks(&self) -> bool {
        self.chunks.is_some()
    }

    fn dropped_bytes(&self) -> u64 {
        self.chunks.as_ref().map_or(0, |chunks| chunks.dropped_bytes)
    }

    /// Nothing that lies at or beyond this offset is handed over.
    pub fn cutoff(&self) -> u64 {
        self.cutoff
    }

    /// Another cutoff. It can only be lower: what lies beyond the one before may have been left out already.
    pub fn set_cutoff(&mut self, bytes: u64) {
        self.cutoff = self.cutoff.min(bytes);
    }

    /// Its priority, from now on.
    pub fn set_priority(&mut self, priority: u8) {
        self.priority = priority;
    }

    /// Its chunks' size, overlap and time-out, from the next chunk on. Without effect where bytes come without chunks.
    pub fn set_chunk(&mut self, params: ChunkParams) {
        if let Some(chunks) = &mut self.chunks {
            chunks.params = params.sane();
        }
    }

    /// The current chunk is kept: the next one begins with all of it (up to 16 MiB).
    pub fn keep_chunk(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.keeps = true;
        }
    }
}

impl StreamHandle<'_> {
    /// What became of its bytes so far.
    pub fn counts(&self) -> StreamCounts {
        self.counts_up_to(self.offset)
    }

    /// As [`counts`](Self::counts), and of those behind `seen_bytes`, up to which bytes passed or wait for their turn.
    /// What came early and was refused there, for want of memory, has passed nowhere; between lie bytes that never came.
    ///
    /// Where bytes were refused twice, more of what is missing counts as refused than was.
    pub fn counts_up_to(&self, seen_bytes: u64) -> StreamCounts {
        let StreamState { delivered_bytes, missing_bytes, .. } = *self.state;
        let dropped_bytes = self.state.dropped_bytes();
        let refused_bytes = self.sequence.refused_bytes;
        let behind = self.behind(seen_bytes);
        let refused_behind = refused_bytes.min(behind);
        // What was refused and never came again is missing for want of memory.
        let refused_before = (refused_bytes - refused_behind).min(missing_bytes);
        let late = if self.state.flags & LATE != 0 { self.sequence.late_dropped_bytes } else { 0 };
        let late_dropped = late.min(missing_bytes - refused_before);
        StreamCounts {
            delivered_bytes,
            gap_bytes: missing_bytes - refused_before - late_dropped + (behind - refused_behind),
            cut_bytes: self.offset - delivered_bytes - missing_bytes - dropped_bytes,
            dropped_bytes: dropped_bytes + refused_before + late_dropped + refused_behind,
        }
    }

    /// Bytes behind `seen_bytes`, up to the last that was refused for want of memory.
    pub fn behind(&self, seen_bytes: u64) -> u64 {
        self.sequence.refused_end.saturating_sub(seen_bytes)
    }
}

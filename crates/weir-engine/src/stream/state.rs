//! A question's state of one stream, and the view of a stream for subscribers.

use super::chunk::{ChunkParams, Chunker};
use super::{DirectionCounts, StreamCounts, StreamParams};
use crate::flow::FlowView;
use crate::sequence::{Outcome, Policy};
use std::num::NonZeroU16;
use weir_packet::Direction;

/// One question's state of one stream. Small, because each live stream has one.
#[derive(Debug)]
pub struct StreamState {
    /// The cutoff of this stream; at most the question's.
    pub(super) cutoff: u64,
    /// Bytes missing just before the next byte to deliver.
    pub(super) gap_bytes: u64,
    pub(super) delivered_bytes: u64,
    pub(super) missing_bytes: u64,
    /// State of questions that want chunks.
    pub(super) chunks: Option<Box<Chunks>>,
    /// A number for the subscriber's use, such as the index of its own state of the stream.
    pub user: u32,
    /// The question's number plus 1, so that an `Option` of the state needs no extra word.
    number: NonZeroU16,
    pub(super) priority: u8,
    /// [`PACKETS`] and [`LATE`] in one byte, so that the state fits into the cache line of its stream.
    flags: u8,
}

/// The question asks for packets.
const PACKETS: u8 = 1;
/// Bytes were held until the question was known to receive them.
const LATE: u8 = 2;

/// State of a stream's chunks.
#[derive(Debug)]
pub(super) struct Chunks {
    pub params: ChunkParams,
    pub chunker: Chunker,
    pub dropped_bytes: u64,
    /// The current chunk is to be merged with the next one.
    pub keeps: bool,
    /// If a delivery is scheduled: its time, and when the chunk began for which it was scheduled.
    pub due: Option<(i64, i64)>,
}

/// A view of a stream, valid during the call that receives it.
#[derive(Debug)]
pub struct StreamHandle<'a> {
    /// The flow.
    pub flow: &'a FlowView<'a>,
    /// The sender of the stream.
    pub from: Direction,
    /// Time of the current packet, nanoseconds since 1970.
    pub now: i64,
    /// Counters of the sequence so far.
    pub sequence: DirectionCounts,
    /// At the stream's end: what became of its numbers, if its layer has a sequence.
    pub outcome: Option<Outcome>,
    /// The policy for overlapping segments from now on; `None`: the plan's policy for the receiver.
    pub policy: &'a mut Option<Policy>,
    /// Offset of the next byte in the stream.
    pub offset: u64,
    /// The question's state of the stream.
    pub state: &'a mut StreamState,
}

impl StreamState {
    /// The question asks for packets.
    pub(super) fn asks_for_packets(&self) -> bool {
        self.flags & PACKETS != 0
    }

    /// Records that bytes were held until the question was known to receive them.
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

    /// Bytes that the state needs and that cannot be refused.
    pub(super) fn fixed_bytes(&self) -> usize {
        if self.has_chunks() { size_of::<Chunks>() } else { 0 }
    }

    pub(super) fn has_chunks(&self) -> bool {
        self.chunks.is_some()
    }

    fn dropped_bytes(&self) -> u64 {
        self.chunks.as_ref().map_or(0, |chunks| chunks.dropped_bytes)
    }

    /// Bytes at or beyond this offset are not delivered.
    pub fn cutoff(&self) -> u64 {
        self.cutoff
    }

    /// Lowers the cutoff. It cannot be raised, because bytes beyond the old one may have been left out
    /// already.
    pub fn set_cutoff(&mut self, bytes: u64) {
        self.cutoff = self.cutoff.min(bytes);
    }

    /// Sets the priority from now on.
    pub fn set_priority(&mut self, priority: u8) {
        self.priority = priority;
    }

    /// Sets the size, overlap and time-out of chunks, from the next chunk on. No effect if bytes arrive
    /// without chunks.
    pub fn set_chunk(&mut self, params: ChunkParams) {
        if let Some(chunks) = &mut self.chunks {
            chunks.params = params.sane();
        }
    }

    /// Keeps the current chunk: the next one begins with all of it (up to 16 MiB).
    pub fn keep_chunk(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.keeps = true;
        }
    }
}

impl StreamHandle<'_> {
    /// The outcome of the stream's bytes so far.
    pub fn counts(&self) -> StreamCounts {
        self.counts_up_to(self.offset)
    }

    /// As [`counts`](Self::counts), and also counts the bytes beyond `seen_bytes`, the offset up to which
    /// bytes have passed or wait. Out-of-order bytes beyond `seen_bytes` were refused for lack of memory; the
    /// bytes in between never arrived.
    ///
    /// At the stream's end: delivered, missing, cut, stuck and dropped bytes are the stream's bytes up to the
    /// last one seen or refused; and delivered, cut, stuck, dropped and repeated bytes are all captured ones
    /// that were neither retransmitted nor outside of the sequence.
    ///
    /// If the same bytes were refused twice, too many of the missing bytes count as refused.
    pub fn counts_up_to(&self, seen_bytes: u64) -> StreamCounts {
        if let Some(outcome) = &self.outcome {
            return self.counts_at_end(seen_bytes, outcome);
        }
        let StreamState { delivered_bytes, missing_bytes, .. } = *self.state;
        let dropped_bytes = self.state.dropped_bytes();
        let refused_bytes = self.sequence.refused_bytes;
        let behind = self.behind(seen_bytes);
        let refused_behind = refused_bytes.min(behind);
        // Refused bytes that never arrived again count as lost for lack of memory.
        let refused_before = (refused_bytes - refused_behind).min(missing_bytes);
        let deferred_dropped = self.late_dropped_bytes().min(missing_bytes - refused_before);
        StreamCounts {
            delivered_bytes,
            gap_bytes: missing_bytes - refused_before - deferred_dropped + (behind - refused_behind),
            cut_bytes: self.offset - delivered_bytes - missing_bytes - dropped_bytes,
            dropped_bytes: dropped_bytes + refused_before + deferred_dropped + refused_behind,
            ..StreamCounts::default()
        }
    }

    fn counts_at_end(&self, seen_bytes: u64, outcome: &Outcome) -> StreamCounts {
        let StreamState { delivered_bytes, missing_bytes, .. } = *self.state;
        let dropped_in_order = self.state.dropped_bytes() + self.late_dropped_bytes();
        let lost_bytes = dropped_in_order + self.sequence.refused_bytes;
        // The headers of truncated packets claim more bytes than were captured.
        let truncated_bytes =
            missing_bytes.saturating_sub(self.late_dropped_bytes()).saturating_sub(outcome.missing_bytes);
        let captured_bytes =
            outcome.passed_bytes.saturating_sub(outcome.missing_bytes).saturating_sub(truncated_bytes);
        let cut_bytes = captured_bytes.saturating_sub(delivered_bytes + dropped_in_order);
        let stuck_bytes = outcome.waiting_bytes;
        let rest =
            (seen_bytes + self.behind(seen_bytes)).saturating_sub(delivered_bytes + cut_bytes + stuck_bytes);
        let dropped_bytes = lost_bytes.min(rest);
        StreamCounts {
            delivered_bytes,
            gap_bytes: rest - dropped_bytes,
            cut_bytes,
            stuck_bytes,
            dropped_bytes,
            repeated_bytes: lost_bytes - dropped_bytes,
        }
    }

    /// Bytes that were given up while they waited for the question's filter.
    fn late_dropped_bytes(&self) -> u64 {
        if self.state.flags & LATE != 0 { self.sequence.late_dropped_bytes } else { 0 }
    }

    /// Bytes beyond `seen_bytes`, up to the last one that was refused for lack of memory.
    pub fn behind(&self, seen_bytes: u64) -> u64 {
        self.sequence.refused_end.saturating_sub(seen_bytes)
    }
}

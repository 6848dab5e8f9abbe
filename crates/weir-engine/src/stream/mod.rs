//! Streams: the in-order bytes of one direction, as subscribers receive them: created, data, terminated.
//!
//! One reassembly serves all questions; each question has its own state of a stream, with a cutoff, chunks
//! and counters. Bytes pass by reference; they are copied only for questions that ask for contiguous chunks
//! (`chunk`). Only copies use memory, which a budget bounds (`overload`).
//!
//! Every byte of a stream is counted once ([`StreamCounts`]): it was delivered, it is missing, it lies beyond
//! the cutoff, or it was given up for lack of memory. A program may apply a cutoff itself: it then does not
//! deliver the bytes beyond the cutoff, and their number is the difference to the sequence's count.

mod chunk;
mod deliver;
mod flow;
mod held;
mod in_order;
mod overload;
mod packets;
mod slots;
mod state;
mod subscriber;

use crate::flow::EndReason;
use crate::sequence::Outcome;
pub use chunk::ChunkParams;
pub(crate) use deliver::{Due, Handover, Moment, StreamBudget};
pub(crate) use flow::FlowStreams;
pub(crate) use held::HeldStreams;
pub(crate) use in_order::InOrder;
pub use overload::{Overload, OverloadParams, PRIORITIES_MAX, Priorities};
pub(crate) use packets::CarrierPacket;
use packets::Packets;
pub use packets::StreamPacket;
pub(crate) use slots::StreamSlots;
pub use state::{StreamHandle, StreamState};
pub use subscriber::StreamSubscriber;

/// The parameters of a question about streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamParams {
    /// Bytes of the originator's and the responder's stream after which nothing more is delivered.
    pub cutoff: [u64; 2],
    /// Parameters of contiguous chunks; `None`: bytes pass by reference.
    pub chunk: Option<ChunkParams>,
    /// If memory is short, streams of lower priority lose bytes first.
    pub priority: u8,
    /// The question belongs to a class: a flow goes to one question of the class, the first whose filter
    /// matches when the first bytes arrive. If that filter depends on sessions or records, the flow waits for
    /// them.
    pub is_class: bool,
    /// Chunks name the [packets](Chunk::packets) that they are made of. Packets of waiting segments are kept
    /// with them, and chunks being filled copy their packets, within the [memory of
    /// streams](OverloadParams::memory_max).
    pub packets: bool,
}

impl Default for StreamParams {
    fn default() -> Self {
        Self { cutoff: [u64::MAX; 2], chunk: None, priority: 0, is_class: false, packets: false }
    }
}

/// In-order bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Offset of the first of [`bytes`](Self::bytes) in the stream, where missing bytes are included.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Bytes at the front that were delivered before: the end of the previous chunk.
    pub overlap: usize,
    /// Bytes missing just before the chunk: reassembly passed over a hole.
    pub gap_bytes: u64,
    packets: Packets<'a>,
}

impl<'a> Chunk<'a> {
    /// The packets that brought [`bytes`](Self::bytes), in order; none if the question did not [ask for
    /// packets](StreamParams::packets). Packets that bring no bytes are left out: pure acknowledgements,
    /// SYNs, FINs, and retransmissions.
    ///
    /// Every byte belongs to one packet, except bytes that were waiting when the question was added to a run:
    /// their packets are not known.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = StreamPacket<'a>> + use<'a> {
        self.packets.iter(self.offset)
    }
}

/// The outcome of a stream's bytes for one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Delivered; the overlap of chunks counts once.
    pub delivered_bytes: u64,
    /// Missing: not captured, or lost on the way.
    pub gap_bytes: u64,
    /// Beyond the cutoff, as far as they reached the engine: the program may have left them out itself. Bytes
    /// before the flow fulfilled the filter are included.
    pub cut_bytes: u64,
    /// Captured bytes behind a gap that strict reassembly does not skip; 0 until the stream ends.
    pub stuck_bytes: u64,
    /// Given up for lack of memory.
    pub dropped_bytes: u64,
    /// Bytes that were dropped for lack of memory, and captured a second time later; 0 until the stream ends.
    pub repeated_bytes: u64,
}

/// How the streams of a flow end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamEnd {
    pub reason: EndReason,
    /// What became of the numbers of each direction, if the flow's layer has a sequence.
    pub outcomes: Option<[Outcome; 2]>,
}

/// Counters of a direction's sequence, independent of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionCounts {
    /// Out-of-order segments.
    pub out_of_order: u64,
    /// Bytes retransmitted after they had passed.
    pub retransmitted_bytes: u64,
    /// Bytes that arrived again while the first copy waited.
    pub overlap_bytes: u64,
    /// Bytes within the overlap that differed.
    pub inconsistent_bytes: u64,
    /// Bytes with sequence numbers before the first one of the direction, after its FIN, or too far from the
    /// next one.
    pub outside_bytes: u64,
    /// Out-of-order bytes that were refused. They may have been retransmitted.
    pub refused_bytes: u64,
    /// Offset in the stream at which the last refused bytes end.
    pub refused_end: u64,
    /// In-order bytes that were given up while they waited for filters that are decided late.
    pub late_dropped_bytes: u64,
}

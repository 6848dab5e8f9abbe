//! Streams: one direction's bytes in order, as subscribers are given them: created, data, terminated.
//!
//! One reassembly serves all questions; each has its own state of a stream, with its cutoff, its chunks and its
//! account. Bytes pass by reference; only who asks for contiguous chunks has them copied (`chunk`), and only
//! copies cost memory, which a budget bounds (`overload`).
//!
//! Of every byte of a stream one thing becomes known: it was delivered, it is missing, it lies beyond the
//! cutoff, or it was given up for want of memory: [`StreamCounts`]. What lies beyond a cutoff that the program
//! knows (pass by pass it may be no call at all) is the difference to what the sequence counted.

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

pub use chunk::ChunkParams;
pub(crate) use deliver::{Due, Handover, Moment, StreamBudget};
pub(crate) use flow::FlowStreams;
pub(crate) use held::HeldStreams;
pub(crate) use in_order::InOrder;
pub use overload::{Overload, OverloadParams, PRIORITIES_MAX};
pub(crate) use packets::CarrierPacket;
use packets::Packets;
pub use packets::StreamPacket;
pub(crate) use slots::StreamSlots;
pub use state::{StreamHandle, StreamState};
pub use subscriber::StreamSubscriber;

/// What a question about streams asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamParams {
    /// Bytes of the originator's and the responder's stream after which nothing more is handed over.
    pub cutoff: [u64; 2],
    /// Bytes come in contiguous chunks; without, as they pass, by reference.
    pub chunk: Option<ChunkParams>,
    /// Where memory is short streams of lower priority lose first.
    pub priority: u8,
    /// The question is one of a class: a flow is given to one of them, the first whose filter it fulfils when its
    /// first bytes come; where that hangs on sessions or records, once it is known.
    pub is_class: bool,
    /// Chunks say which [packets](Chunk::packets) they are made of. Those of segments that wait are kept with them, and
    /// chunks that are being filled copy them, within the [memory of streams](OverloadParams::memory_max).
    pub packets: bool,
}

impl Default for StreamParams {
    fn default() -> Self {
        Self { cutoff: [u64::MAX; 2], chunk: None, priority: 0, is_class: false, packets: false }
    }
}

/// Bytes of a stream in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Where in the stream the first of [`bytes`](Self::bytes) lies; what is missing counts.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Bytes at the front that were handed over before: the end of the chunk before this one.
    pub overlap: usize,
    /// Bytes that are missing just before it: reassembly went on over a hole.
    pub gap_bytes: u64,
    packets: Packets<'a>,
}

impl<'a> Chunk<'a> {
    /// The packets that brought [`bytes`](Self::bytes), in their order; none where the question did not [ask for
    /// them](StreamParams::packets). What brings no bytes is none of them: acknowledgements alone, SYNs, FINs, and what
    /// was sent again.
    ///
    /// Every byte is of one packet, but for those that waited for their turn when the question was added to a run: of these
    /// the packets are not known.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = StreamPacket<'a>> + use<'a> {
        self.packets.iter(self.offset)
    }
}

/// What became of a stream's bytes, as one question sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Handed over; what chunks overlap by counts once.
    pub delivered_bytes: u64,
    /// Missing: not captured, or lost on the way.
    pub gap_bytes: u64,
    /// Beyond the cutoff, as far as the engine was asked: the program may have left them out by itself. And those before
    /// the flow fulfilled the filter.
    pub cut_bytes: u64,
    /// Given up for want of memory.
    pub dropped_bytes: u64,
}

/// What the sequence of a direction met, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionCounts {
    /// Segments that came before their turn.
    pub out_of_order: u64,
    /// Bytes that came again after they had passed.
    pub retransmitted_bytes: u64,
    /// Bytes that came again while the first ones waited.
    pub overlap_bytes: u64,
    /// Of these, those that differed.
    pub inconsistent_bytes: u64,
    /// Bytes that came early and were refused. They may have come again.
    pub refused_bytes: u64,
    /// Where the last of these ends, in bytes from the stream's beginning.
    pub refused_end: u64,
    /// Bytes in order that were given up while they waited for filters that are decided late.
    pub late_dropped_bytes: u64,
}

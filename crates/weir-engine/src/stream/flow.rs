//! The streams of one flow, and what each question has of them.

use super::chunk::{ChunkParams, Chunker};
use super::deliver::Delivery;
use super::{DirectionCounts, Due, StreamCounts, StreamParams};
use crate::flow::{EndReason, FlowView};
use crate::sequence::{Inserted, Policy};
use crate::subscriber::Subscriber;
use weir_ir::abi::SEQ_QUEUED;
use weir_sessions::Direction;

/// One question's state of one stream. Small: there is one for each stream that is alive.
#[derive(Debug)]
pub struct StreamState {
    /// Its own, at most the question's.
    pub(super) cutoff: u64,
    /// Where in the stream the next byte lies.
    pub(super) offset: u64,
    /// Missing just before the next byte that is handed over.
    pub(super) gap_bytes: u64,
    pub(super) delivered_bytes: u64,
    pub(super) missing_bytes: u64,
    /// Of those that want chunks.
    pub(super) chunks: Option<Box<Chunks>>,
    /// A number of the subscriber's own: where it keeps what it knows of the stream.
    pub user: u32,
    pub(super) question: u8,
    pub(super) side: bool,
    pub(super) priority: u8,
}

/// What chunks need.
#[derive(Debug)]
pub(super) struct Chunks {
    pub params: ChunkParams,
    pub chunker: Chunker,
    pub dropped_bytes: u64,
    /// The chunk at hand is to be merged with the next one.
    pub keeps: bool,
}

/// Both streams of a flow.
#[derive(Debug, Default)]
pub struct FlowStreams {
    states: Vec<StreamState>,
    /// What the sequences met, the originator's first; once one met something.
    counts: Option<Box<[DirectionCounts; 2]>>,
    policies: [Option<Policy>; 2],
    /// Where the next bytes lie, whoever is given them.
    offsets: [u64; 2],
}

/// A stream as its subscriber sees it during a call.
#[derive(Debug)]
pub struct StreamHandle<'a> {
    /// The flow.
    pub flow: &'a FlowView<'a>,
    /// Who sends it.
    pub from: Direction,
    /// Time of the packet at hand, nanoseconds since 1970.
    pub now: i64,
    /// What the sequence met so far.
    pub sequence: DirectionCounts,
    /// Whose bytes count from now on where segments overlap; `None`: as the plan says for the receiver.
    pub policy: &'a mut Option<Policy>,
    /// What the question has of it.
    pub state: &'a mut StreamState,
}

impl StreamState {
    fn new(question: usize, params: &StreamParams, side: bool, offset: u64) -> Self {
        let chunks = params.chunk.map(|params| {
            Box::new(Chunks { params, chunker: Chunker::default(), dropped_bytes: 0, keeps: false })
        });
        Self {
            cutoff: params.cutoff[usize::from(side)],
            offset,
            gap_bytes: 0,
            delivered_bytes: 0,
            missing_bytes: 0,
            chunks,
            user: 0,
            question: question as u8,
            side,
            priority: params.priority,
        }
    }

    /// What became of its bytes so far.
    pub fn counts(&self) -> StreamCounts {
        let dropped_bytes = self.chunks.as_ref().map_or(0, |chunks| chunks.dropped_bytes);
        StreamCounts {
            delivered_bytes: self.delivered_bytes,
            gap_bytes: self.missing_bytes,
            cut_bytes: self.offset - self.delivered_bytes - self.missing_bytes - dropped_bytes,
            dropped_bytes,
        }
    }

    /// Where in the stream the next byte lies.
    pub fn offset(&self) -> u64 {
        self.offset
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

    /// The chunk at hand is kept: the next one begins with all of it (up to 16 MiB).
    pub fn keep_chunk(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.keeps = true;
        }
    }

    /// Whether more of it is wanted.
    pub(super) fn is_open(&self) -> bool {
        self.offset < self.cutoff
    }
}

impl FlowStreams {
    /// A segment came to the sequence of a direction.
    pub(crate) fn count(&mut self, side: bool, inserted: &Inserted) {
        let Inserted { status, retransmitted_bytes, overlap_bytes, inconsistent_bytes, .. } = *inserted;
        let is_early = status == SEQ_QUEUED;
        if is_early || retransmitted_bytes | overlap_bytes != 0 {
            let counts = &mut self.counts.get_or_insert_default()[usize::from(side)];
            counts.out_of_order += u64::from(is_early);
            counts.retransmitted_bytes += retransmitted_bytes;
            counts.overlap_bytes += overlap_bytes;
            counts.inconsistent_bytes += inconsistent_bytes;
        }
    }

    /// The policy that was set for a direction.
    pub(crate) fn policy(&self, side: bool) -> Option<Policy> {
        self.policies[usize::from(side)]
    }

    /// The highest priority that a question gives a direction, and the lowest offset that one is at.
    pub(crate) fn rank(&self, side: bool) -> (u8, u64) {
        let states = self.states.iter().filter(|state| state.side == side);
        let rank = |(priority, offset): (u8, u64), state: &StreamState| {
            (priority.max(state.priority), offset.min(state.offset))
        };
        let (priority, offset) = states.fold((0, u64::MAX), rank);
        (priority, if offset == u64::MAX { 0 } else { offset })
    }

    /// Bytes in order of one direction, with what is missing before them, for one question. Whether it wants no more
    /// of them.
    pub(crate) fn take<S: Subscriber>(
        &mut self,
        to: &mut Delivery<'_, S>,
        (question, params): (usize, &StreamParams),
        side: bool,
        (gap_bytes, bytes): (u64, &[u8]),
    ) -> bool {
        self.point(to, side);
        let mine = |state: &StreamState| state.side == side && usize::from(state.question) == question;
        let at = self.states.iter().position(mine).unwrap_or_else(|| {
            // Mostly one question, and two directions.
            self.states.reserve_exact(if self.states.is_empty() { 2 } else { 1 });
            let mut state = StreamState::new(question, params, side, self.offsets[usize::from(side)]);
            to.created(&mut state);
            self.states.push(state);
            self.states.len() - 1
        });
        let state = &mut self.states[at];
        to.missing(state, gap_bytes);
        to.bytes(state, bytes);
        let is_over = !state.is_open();
        self.policies[usize::from(side)] = to.policy;
        is_over
    }

    /// The direction that is at hand from now on.
    fn point<S: Subscriber>(&self, to: &mut Delivery<'_, S>, side: bool) {
        to.side = side;
        to.sequence = self.counts.as_ref().map_or_else(Default::default, |counts| counts[usize::from(side)]);
        to.policy = self.policies[usize::from(side)];
    }

    /// These bytes of a direction, missing ones included, have passed, whoever was given them.
    pub(crate) fn pass(&mut self, side: bool, bytes: u64) {
        self.offsets[usize::from(side)] += bytes;
    }

    /// Whether none of these questions wants any more of either stream.
    pub(crate) fn are_over(&self, questions: u64) -> bool {
        [false, true].iter().all(|side| {
            let closed = self.states.iter().filter(|state| state.side == *side && !state.is_open());
            closed.fold(0u64, |mask, state| mask | 1 << state.question) & questions == questions
        })
    }

    /// A chunk has waited long enough, if it is still that one.
    pub(crate) fn flush_due<S: Subscriber>(&mut self, to: &mut Delivery<'_, S>, due: &Due) {
        self.point(to, due.side);
        let mine = |state: &&mut StreamState| state.side == due.side && state.question == due.question;
        let Some(state) = self.states.iter_mut().find(mine) else { return };
        if state.chunks.as_ref().and_then(|chunks| chunks.chunker.since()) == Some(due.since) {
            to.flush(state);
        }
    }

    /// The flow is over. `questions`: those about streams that it is given to, with what they ask for; streams
    /// without a byte are told of now.
    pub(crate) fn end<'p, S: Subscriber>(
        mut self,
        to: &mut Delivery<'_, S>,
        questions: impl Iterator<Item = (usize, &'p StreamParams)>,
        reason: EndReason,
    ) {
        for (question, params) in questions {
            for side in [false, true] {
                let is_known =
                    |state: &StreamState| state.side == side && usize::from(state.question) == question;
                if self.states.iter().any(is_known) {
                    continue;
                }
                self.point(to, side);
                let mut state = StreamState::new(question, params, side, self.offsets[usize::from(side)]);
                to.created(&mut state);
                to.terminated(&mut state, reason);
            }
        }
        for mut state in std::mem::take(&mut self.states) {
            self.point(to, state.side);
            to.flush(&mut state);
            to.forget_chunk(&mut state);
            to.terminated(&mut state, reason);
        }
    }
}

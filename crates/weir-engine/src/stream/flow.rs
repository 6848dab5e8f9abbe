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
    /// Missing just before the next byte that is handed over.
    pub(super) gap_bytes: u64,
    pub(super) delivered_bytes: u64,
    pub(super) missing_bytes: u64,
    /// Of those that want chunks.
    pub(super) chunks: Option<Box<Chunks>>,
    /// A number of the subscriber's own: where it keeps what it knows of the stream.
    pub user: u32,
    pub(super) question: u8,
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

/// Both streams of a flow; the originator's first.
#[derive(Debug, Default)]
pub struct FlowStreams {
    pub(super) sides: [Side; 2],
}

/// One stream: a line of cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Side {
    /// What the first question has of it.
    first: Option<StreamState>,
    /// Where the next byte lies, whoever is given it.
    offset: u64,
    rare: Option<Box<Rare>>,
}

/// What few streams have.
#[derive(Debug, Default)]
struct Rare {
    /// What other questions have of it.
    others: Vec<StreamState>,
    counts: DirectionCounts,
    policy: Option<Policy>,
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
    /// Where in the stream the next byte lies.
    pub offset: u64,
    /// What the question has of it.
    pub state: &'a mut StreamState,
}

impl StreamState {
    fn new(question: usize, params: &StreamParams, side: usize) -> Self {
        let chunks = params.chunk.map(|params| {
            Box::new(Chunks { params, chunker: Chunker::default(), dropped_bytes: 0, keeps: false })
        });
        Self {
            cutoff: params.cutoff[side],
            gap_bytes: 0,
            delivered_bytes: 0,
            missing_bytes: 0,
            chunks,
            user: 0,
            question: question as u8,
            priority: params.priority,
        }
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

    /// The chunk at hand is kept: the next one begins with all of it (up to 16 MiB).
    pub fn keep_chunk(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.keeps = true;
        }
    }
}

impl StreamHandle<'_> {
    /// What became of its bytes so far.
    pub fn counts(&self) -> StreamCounts {
        let StreamState { delivered_bytes, missing_bytes, .. } = *self.state;
        let dropped_bytes = self.state.dropped_bytes();
        StreamCounts {
            delivered_bytes,
            gap_bytes: missing_bytes,
            cut_bytes: self.offset - delivered_bytes - missing_bytes - dropped_bytes,
            dropped_bytes,
        }
    }
}

impl Side {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn states(&mut self) -> impl Iterator<Item = &mut StreamState> {
        self.first.iter_mut().chain(self.rare.iter_mut().flat_map(|rare| &mut rare.others))
    }

    /// What a question has of it, if it was told of it.
    #[inline]
    fn state(&mut self, question: usize) -> Option<&mut StreamState> {
        self.states().find(|state| usize::from(state.question) == question)
    }
}

impl FlowStreams {
    /// A segment came to the sequence of a direction.
    pub(crate) fn count(&mut self, side: bool, inserted: &Inserted) {
        let Inserted { status, retransmitted_bytes, overlap_bytes, inconsistent_bytes, .. } = *inserted;
        let is_early = status == SEQ_QUEUED;
        if is_early || retransmitted_bytes | overlap_bytes != 0 {
            let counts = &mut self.sides[usize::from(side)].rare().counts;
            counts.out_of_order += u64::from(is_early);
            counts.retransmitted_bytes += retransmitted_bytes;
            counts.overlap_bytes += overlap_bytes;
            counts.inconsistent_bytes += inconsistent_bytes;
        }
    }

    /// The policy that was set for a direction.
    pub(crate) fn policy(&self, side: bool) -> Option<Policy> {
        self.sides[usize::from(side)].rare.as_ref()?.policy
    }

    /// The highest priority that a question gives a direction, and where its next byte lies.
    pub(crate) fn rank(&mut self, side: bool) -> (u8, u64) {
        let side = &mut self.sides[usize::from(side)];
        let offset = side.offset;
        (side.states().map(|state| state.priority).max().unwrap_or(0), offset)
    }

    /// Bytes in order of one direction, with what is missing before and after them, for one question. Whether it wants no more
    /// of them. They have [passed](Self::pass) once all questions were given them.
    #[inline]
    pub(crate) fn take<S: Subscriber>(
        &mut self,
        to: &mut Delivery<'_, S>,
        (question, params): (usize, &StreamParams),
        side: bool,
        (gap_bytes, bytes): (u64, &[u8]),
        cut_bytes: u64,
    ) -> bool {
        self.point(to, side);
        let side = &mut self.sides[usize::from(side)];
        if side.state(question).is_none() {
            let mut state = StreamState::new(question, params, usize::from(to.side));
            to.created(&mut state);
            match &mut side.first {
                first @ None => *first = Some(state),
                Some(_) => side.rare().others.push(state),
            }
        }
        let Some(state) = side.state(question) else { return false };
        to.missing(state, gap_bytes);
        to.bytes(state, bytes);
        to.missing(state, cut_bytes);
        let is_over = to.offset >= state.cutoff;
        if to.policy.is_some() {
            side.rare().policy = to.policy;
        }
        is_over
    }

    /// The direction that is at hand from now on.
    #[inline]
    fn point<S: Subscriber>(&self, to: &mut Delivery<'_, S>, side: bool) {
        let this = &self.sides[usize::from(side)];
        (to.side, to.offset) = (side, this.offset);
        let (sequence, policy) = match &this.rare {
            Some(rare) => (rare.counts, rare.policy),
            None => (DirectionCounts::default(), None),
        };
        (to.sequence, to.policy) = (sequence, policy);
    }

    /// These bytes of a direction, missing ones included, have passed, whoever was given them.
    pub(crate) fn pass(&mut self, side: bool, bytes: u64) {
        self.sides[usize::from(side)].offset += bytes;
    }

    /// Whether none of these questions wants any more of either stream.
    pub(crate) fn are_over(&mut self, questions: u64) -> bool {
        self.sides.iter_mut().all(|side| {
            let offset = side.offset;
            let closed = side.states().filter(|state| offset >= state.cutoff);
            closed.fold(0u64, |mask, state| mask | 1 << state.question) & questions == questions
        })
    }

    /// A chunk has waited long enough, if it is still that one.
    pub(crate) fn flush_due<S: Subscriber>(&mut self, to: &mut Delivery<'_, S>, due: &Due) {
        self.point(to, due.side);
        let side = &mut self.sides[usize::from(due.side)];
        let Some(state) = side.state(usize::from(due.question)) else { return };
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
                if self.sides[usize::from(side)].state(question).is_none() {
                    self.point(to, side);
                    let mut state = StreamState::new(question, params, usize::from(side));
                    to.created(&mut state);
                    to.terminated(&mut state, reason);
                }
            }
        }
        for side in [false, true] {
            self.point(to, side);
            for state in self.sides[usize::from(side)].states() {
                to.flush(state);
                to.forget_chunk(state);
                to.terminated(state, reason);
            }
        }
    }
}

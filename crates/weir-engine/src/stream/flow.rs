//! The streams of one flow.

use super::chunk::Chunker;
use super::deliver::Handover;
use super::state::{Chunks, StreamState};
use super::{DirectionCounts, Due, InOrder, Overload, StreamEnd, StreamParams, StreamSubscriber};
use crate::sequence::{Inserted, Policy};
use crate::sets::QuestionSet;

use weir_packet::Direction;

/// Both streams of a flow; the originator's first.
#[derive(Debug, Default)]
pub struct FlowStreams {
    pub(super) sides: [Side; 2],
}

/// One stream, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Side {
    /// The first question's state.
    first: Option<StreamState>,
    /// The offset of the next byte, for all questions.
    offset: u64,
    rare: Option<Box<Rare>>,
}

/// State that few streams have.
#[derive(Debug, Default)]
struct Rare {
    /// The states of other questions.
    others: Vec<StreamState>,
    counts: DirectionCounts,
    policy: Option<Policy>,
}

// The words of a direction and the first question's state fit into one cache line.
const _: () = assert!(size_of::<Side>() == 64);

impl Side {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Stores the policy that the subscriber set.
    fn set_policy(&mut self, policy: Option<Policy>) {
        if policy.is_some() {
            self.rare().policy = policy;
        }
    }

    fn states(&self) -> impl Iterator<Item = &StreamState> {
        self.first.iter().chain(self.rare.iter().flat_map(|rare| &rare.others))
    }

    fn states_mut(&mut self) -> impl Iterator<Item = &mut StreamState> {
        self.first.iter_mut().chain(self.rare.iter_mut().flat_map(|rare| &mut rare.others))
    }

    /// A question's state of the stream, if the question knows the stream.
    #[inline]
    fn state(&mut self, question: usize) -> Option<&mut StreamState> {
        match &mut self.first {
            // Usually there is one question.
            Some(first) if first.question() == question => Some(first),
            _ => self.rare.as_mut()?.others.iter_mut().find(|state| state.question() == question),
        }
    }
}

impl FlowStreams {
    /// Counts a segment that was inserted into the sequence of a direction.
    pub(crate) fn count(&mut self, side: Direction, inserted: &Inserted) {
        let Inserted { is_early, retransmitted_bytes, overlap_bytes, inconsistent_bytes, .. } = *inserted;
        let outside_bytes = inserted.outside_bytes;
        if is_early || retransmitted_bytes | overlap_bytes | outside_bytes != 0 {
            let counts = &mut self.sides[side.index()].rare().counts;
            counts.out_of_order += u64::from(is_early);
            counts.retransmitted_bytes += retransmitted_bytes;
            counts.overlap_bytes += overlap_bytes;
            counts.inconsistent_bytes += inconsistent_bytes;
            counts.outside_bytes += outside_bytes;
            counts.refused_bytes += inserted.refused_bytes;
            counts.refused_end = counts.refused_end.max(inserted.refused_end);
        }
    }

    /// The policy that was set for a direction.
    pub(crate) fn policy(&self, side: Direction) -> Option<Policy> {
        self.sides[side.index()].rare.as_ref()?.policy
    }

    /// The highest priority that a question gives a direction, and the offset of its next byte. `otherwise`:
    /// the priority if no question knows the stream.
    pub(crate) fn rank(&self, side: Direction, otherwise: u8) -> (u8, u64) {
        let side = &self.sides[side.index()];
        let offset = side.offset;
        (side.states().map(|state| state.priority).max().unwrap_or(otherwise), offset)
    }

    /// Releases the state of these questions, which ended.
    pub(crate) fn forget(&mut self, questions: &[usize], overload: &mut Overload) {
        for side in &mut self.sides {
            let is_gone = |state: &StreamState| questions.contains(&state.question());
            let mut gone: Vec<StreamState> = side.first.take_if(|first| is_gone(first)).into_iter().collect();
            if let Some(rare) = &mut side.rare {
                gone.extend(rare.others.extract_if(.., |state| is_gone(state)));
                if side.first.is_none() {
                    side.first = rare.others.pop();
                }
            }
            for mut chunks in gone.into_iter().filter_map(|state| state.chunks) {
                overload.resize(chunks.chunker.cost(), 0);
                overload.let_go(size_of::<Chunks>());
                chunks.chunker = Chunker::default();
            }
        }
    }

    /// The questions that know one of the streams.
    pub(crate) fn questions(&self) -> QuestionSet {
        self.sides.iter().flat_map(Side::states).map(StreamState::question).collect()
    }

    /// Delivers in-order bytes of one direction, with the missing bytes before and after them, to one
    /// question. Returns whether the question wants no more of them. Once all questions have received them,
    /// call [`pass`](Self::pass).
    #[inline]
    pub(crate) fn take<S: StreamSubscriber>(
        &mut self,
        to: &mut Handover<'_, S>,
        (question, params): (usize, &StreamParams),
        next: &InOrder<'_>,
    ) -> bool {
        self.point(to, next.side);
        let side = &mut self.sides[next.side.index()];
        if side.state(question).is_none() {
            let mut state = StreamState::new(question, params, to.side);
            to.budget.overload.hold(state.fixed_bytes());
            to.created(&mut state);
            match &mut side.first {
                first @ None => *first = Some(state),
                Some(_) => side.rare().others.push(state),
            }
        }
        let Some(state) = side.state(question) else { return false };
        to.missing(state, next.gap_bytes);
        to.bytes(state, next.bytes, next.packet);
        to.missing(state, next.cut_bytes());
        if next.ends {
            to.close(state);
        }
        let is_over = to.offset >= state.cutoff;
        side.set_policy(to.policy);
        is_over
    }

    /// As [`take`](Self::take), for bytes that arrived when the stream was at `offset`.
    pub(crate) fn take_at<S: StreamSubscriber>(
        &mut self,
        offset: u64,
        to: &mut Handover<'_, S>,
        question: (usize, &StreamParams),
        piece: &InOrder<'_>,
    ) {
        let side = piece.side.index();
        let now = std::mem::replace(&mut self.sides[side].offset, offset);
        self.take(to, question, piece);
        let side = &mut self.sides[side];
        side.offset = now;
        side.state(question.0).into_iter().for_each(|state| state.set_late());
    }

    /// Counts bytes of a direction that waited for a filter and were given up for lack of memory.
    pub(crate) fn drop_deferred(&mut self, side: Direction, bytes: u64) {
        self.sides[side.index()].rare().counts.late_dropped_bytes += bytes;
    }

    /// Selects a direction for the next deliveries.
    #[inline]
    fn point<S: StreamSubscriber>(&self, to: &mut Handover<'_, S>, side: Direction) {
        let this = &self.sides[side.index()];
        (to.side, to.offset) = (side, this.offset);
        let (sequence, policy) = match &this.rare {
            Some(rare) => (rare.counts, rare.policy),
            None => (DirectionCounts::default(), None),
        };
        (to.sequence, to.policy) = (sequence, policy);
    }

    /// Moves the stream's offset past these bytes.
    pub(crate) fn pass(&mut self, next: &InOrder<'_>) {
        let bytes = next.gap_bytes + next.bytes.len() as u64 + next.cut_bytes();
        self.sides[next.side.index()].offset += bytes;
    }

    /// Whether none of these questions wants more bytes of this side.
    pub(crate) fn is_over(&self, side: Direction, questions: &QuestionSet) -> bool {
        let side = &self.sides[side.index()];
        let offset = side.offset;
        let closed = side.states().filter(|state| offset >= state.cutoff);
        questions.is_subset(&closed.map(StreamState::question).collect())
    }

    /// Whether a question about the streams wants chunks.
    pub(crate) fn have_chunks(&self) -> bool {
        let others =
            |side: &Side| side.rare.iter().flat_map(|rare| &rare.others).any(StreamState::has_chunks);
        self.sides.iter().any(|side| side.first.as_ref().is_some_and(StreamState::has_chunks) || others(side))
    }

    /// Delivers the bytes that wait in chunks.
    pub(crate) fn flush<S: StreamSubscriber>(&mut self, to: &mut Handover<'_, S>) {
        for side in Direction::BOTH {
            self.point(to, side);
            let side = &mut self.sides[side.index()];
            side.states_mut().for_each(|state| to.flush(state));
            side.set_policy(to.policy);
        }
    }

    /// Delivers a chunk that has waited long enough, if it is still the current one.
    pub(crate) fn flush_due<S: StreamSubscriber>(&mut self, to: &mut Handover<'_, S>, due: &Due) {
        self.point(to, due.side);
        let side = &mut self.sides[due.side.index()];
        let Some(state) = side.state(due.question) else { return };
        to.due(state, due);
        side.set_policy(to.policy);
    }

    /// Ends the streams of a flow that is over. `questions`: the questions about streams that receive the
    /// flow, with their parameters; streams without bytes are reported now.
    pub(crate) fn end<'p, S: StreamSubscriber>(
        mut self,
        to: &mut Handover<'_, S>,
        questions: impl Iterator<Item = (usize, &'p StreamParams)> + Clone,
        end: StreamEnd,
    ) {
        for side in Direction::BOTH {
            self.point(to, side);
            to.outcome = end.outcomes.map(|outcomes| outcomes[side.index()]);
            let this = &mut self.sides[side.index()];
            for state in this.states_mut() {
                to.flush(state);
                to.forget_chunk(state);
                to.disarm(state);
                to.budget.overload.let_go(state.fixed_bytes());
                to.terminated(state, end.reason);
            }
            for (question, params) in questions.clone() {
                if this.state(question).is_none() {
                    let mut state = StreamState::new(question, params, side);
                    to.created(&mut state);
                    to.terminated(&mut state, end.reason);
                }
            }
        }
    }
}

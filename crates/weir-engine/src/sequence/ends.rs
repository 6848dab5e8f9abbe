//! Provisional ends: a FIN, or a reset, says that the numbers of its direction end. The segment may be
//! forged, or may never have reached the receiver, so the end counts only when the receiver confirms it:
//!
//! * The receiver acknowledges the number of the FIN, and no byte with that number was captured: the end is
//!   confirmed. Numbers behind it are out of window.
//! * The receiver acknowledges numbers behind the end: it has taken bytes there, which it would not have done
//!   after a FIN or a reset. The end is disproved, and is forgotten.
//! * The flow ends in silence: the end holds.
//!
//! Until then, bytes behind the end wait. If a bound on waiting segments is reached first, the end is given
//! up, because a bound must not hide bytes.
//!
//! The number of a FIN is not a number of bytes, so a FIN never takes the place of a byte: a forged FIN in
//! the middle of bytes that are still to come does not cut a hole into them.
//!
//! Most FINs are confirmed by the next packet of the other side: such a FIN is a bit of the flow's record
//! ([`FINISHED`]). Other ends, and a FIN behind which bytes wait, stand beside the waiting segments, in
//! [`Kept`](super::kept::Kept).

use super::budget::Budget;
use super::{Inserted, Reassembler, Segment, Verdict, stream_key};
use crate::counters::SequenceCounters;
use weir_ir::abi::{FlowRecord, METAS_MAX, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_RETRANSMITTED};
use weir_ir::graph::Sequence;
use weir_ir::sequence::{ACKNOWLEDGES, ENDED, EXPECTED, FINISHED, QUEUED, STARTED};
use weir_packet::Direction;

/// Maximum number of provisional ends of a direction. Real senders have one; of more, the first ones count.
const ENDS_MAX: usize = 16;

/// Bytes that an end costs: its slot, and the same again because the list grows by doubling.
const END_COST: usize = 2 * size_of::<End>();

/// What an end is made of. The order is that of ends with the same number: a FIN stands first, because an
/// acknowledgement confirms it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EndKind {
    Fin,
    /// A reset, which uses no number.
    Reset,
    /// The numbers from the end to this one were in the segment that opened the connection: they count once
    /// some of them are acknowledged. What is behind them may wait for them.
    Held(u64),
}

/// A provisional end.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The number after the last byte, counted as [`Kept::next`] is. A FIN uses this number itself.
    pub(super) at: u64,
    kind: EndKind,
    /// The receiver has acknowledged the FIN.
    is_confirmed: bool,
    /// All bytes before the FIN have passed, and the program was told of the FIN.
    is_told: bool,
    /// Values stored with the segment.
    pub(super) metas: [u64; METAS_MAX],
}

/// The provisional ends of a direction, by number.
#[derive(Debug, Default)]
pub(super) struct Ends(Vec<End>);

impl Ends {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first end. Bytes from its number on wait.
    pub(super) fn first(&self) -> Option<&End> {
        self.0.first()
    }

    /// The number of the first end, or a number that is never reached.
    pub(super) fn limit(&self) -> u64 {
        self.first().map_or(u64::MAX, |end| end.at)
    }

    fn contains_fin(&self, at: u64) -> bool {
        self.0.iter().any(|end| end.kind == EndKind::Fin && end.at == at)
    }

    /// Whether the program was told of a FIN at `at`.
    pub(super) fn was_told(&self, at: u64) -> bool {
        self.0.iter().any(|end| end.kind == EndKind::Fin && end.is_told && end.at == at)
    }

    /// Adds an end, unless there are too many.
    fn add(&mut self, end: End, budget: &mut Budget, counters: &mut SequenceCounters) {
        if self.0.len() == ENDS_MAX {
            counters.ends_refused += 1;
            return;
        }
        counters.ends_provisional += 1;
        let place = self.0.partition_point(|other| (other.at, other.kind) <= (end.at, end.kind));
        if self.0.capacity() == 0 {
            self.0.reserve_exact(1);
        }
        self.0.insert(place, end);
        budget.hold(END_COST);
    }

    /// The receiver has acknowledged all numbers before `number`. `has_byte`: whether a byte with the number
    /// of the end is kept.
    /// Returns whether an end was disproved.
    fn acknowledge(&mut self, number: u64, has_byte: impl Fn(u64) -> bool, budget: &mut Budget) -> bool {
        let before = self.0.len();
        // A FIN at `number - 1` may have been acknowledged itself.
        self.retain(|end| number <= end.at + u64::from(end.kind == EndKind::Fin), budget);
        let is_fin = |end: &&mut End| end.kind == EndKind::Fin && number == end.at + 1;
        if let Some(end) = self.0.first_mut().filter(is_fin)
            && !has_byte(end.at)
        {
            end.is_confirmed = true;
        }
        self.0.len() < before
    }

    fn retain(&mut self, keeps: impl Fn(&End) -> bool, budget: &mut Budget) {
        let before = self.0.len();
        self.0.retain(|end| keeps(end));
        budget.free((before - self.0.len()) * END_COST);
    }

    /// Marks the first end as told.
    pub(super) fn tell(&mut self) {
        if let Some(end) = self.0.first_mut() {
            end.is_told = true;
        }
    }

    /// Forgets the first end.
    pub(super) fn give_up(&mut self, budget: &mut Budget) {
        self.0.remove(0);
        budget.free(END_COST);
    }

    /// If the first end holds the bytes that opened the connection, forgets that, and returns the number
    /// after them.
    pub(super) fn release_held(&mut self, budget: &mut Budget) -> Option<u64> {
        let EndKind::Held(until) = self.first()?.kind else { return None };
        self.give_up(budget);
        Some(until)
    }

    /// Forgets all ends.
    pub(super) fn clear(&mut self, budget: &mut Budget) {
        self.retain(|_| false, budget);
    }

    /// The first number of the direction has moved by `moved`, modulo `mask` plus one; nothing has passed.
    pub(super) fn shift(&mut self, moved: u64, mask: u64, window_max: u64, budget: &mut Budget) {
        for End { at, kind, .. } in &mut self.0 {
            *at = at.wrapping_add(moved) & mask;
            if let EndKind::Held(until) = kind {
                *until = until.wrapping_add(moved) & mask;
            }
        }
        self.retain(|end| end.at <= window_max, budget);
        self.0.sort_by_key(|end| (end.at, end.kind));
    }
}

impl End {
    /// An end of which the program knows.
    const fn told(kind: EndKind, at: u64) -> Self {
        Self { at, kind, is_confirmed: false, is_told: true, metas: [0; METAS_MAX] }
    }

    /// Whether the numbers end here, given that the bytes before have passed. `is_silent`: the flow is over,
    /// so nothing else will be known.
    pub(super) fn holds(&self, is_silent: bool) -> bool {
        self.kind == EndKind::Fin && (self.is_confirmed || is_silent)
    }

    /// Whether the end is a FIN of which the program has not been told.
    pub(super) fn is_news(&self) -> bool {
        self.kind == EndKind::Fin && !self.is_told
    }
}

impl Segment<'_> {
    /// Whether the segment carries a FIN: it uses a number more than it has bytes.
    pub(super) fn has_fin(&self) -> bool {
        self.span > self.claimed_bytes
    }
}

impl Reassembler {
    /// Adds the FIN of a segment whose bytes were inserted without it, with the result `inserted`, and
    /// completes the result.
    pub(super) fn insert_fin(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        segment: &Segment<'_>,
        inserted: &mut Inserted,
    ) {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        let forward = segment.at.wrapping_add(segment.claimed_bytes).wrapping_sub(hot.next) & state.mask;
        let is_old = forward > state.mask >> 1;
        let is_bare = segment.claimed_bytes == 0;
        if inserted.status == SEQ_OUT_OF_WINDOW || !is_old && forward > self.limits.window_max {
            return;
        }
        if hot.flags & ENDED != 0 && !is_old {
            if is_bare {
                self.counters.out_of_window += 1;
                inserted.status = SEQ_OUT_OF_WINDOW;
            }
            return;
        }
        let is_known = is_old || {
            let kept = state.kept.get(stream_key(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
            kept.is_some_and(|kept| kept.ends.contains_fin(kept.next + forward))
        };
        if is_known {
            if is_bare {
                self.counters.retransmitted += 1;
                inserted.status = SEQ_RETRANSMITTED;
            }
            return;
        }
        if is_bare {
            let count = if forward == 0 { &mut self.counters.ordered } else { &mut self.counters.queued };
            *count += 1;
            inserted.is_early = forward > 0;
        } else if inserted.status == SEQ_RETRANSMITTED && forward == 0 {
            // All bytes are old, and the FIN is new.
            (inserted.status, inserted.skip) = (SEQ_ORDERED, segment.claimed_bytes);
        }
        if forward == 0 && inserted.status == SEQ_ORDERED && hot.flags & QUEUED == 0 {
            // As most FINs: the record has room for it.
            self.counters.ends_provisional += 1;
            hot.flags |= FINISHED;
            state.vars.write(flow.data, side, hot);
            return;
        }
        let kept = state.kept.entry(stream_key(flow.id, side), hot.high, &mut self.budget);
        let at = kept.next + forward;
        let end = End {
            at,
            kind: EndKind::Fin,
            is_confirmed: false,
            // The program handles the current packet with the packet's own values.
            is_told: inserted.status == SEQ_ORDERED,
            metas: std::array::from_fn(|n| segment.metas.get(n).copied().unwrap_or(0)),
        };
        kept.ends.add(end, &mut self.budget, &mut self.counters);
        hot.high = hot.high.max(at);
        hot.flags |= QUEUED;
        state.vars.write(flow.data, side, hot);
    }

    /// Records a reset: the numbers of a direction may end with those that have passed. Later ones wait until
    /// the receiver acknowledges some of them.
    pub fn reset(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) {
        let FlowRecord { id, data } = flow;
        self.keep_finished(sequence, FlowRecord { id, data: &mut *data }, side);
        let flow = FlowRecord { id, data };
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if state.retain || hot.flags & ENDED != 0 || hot.flags & STARTED == 0 {
            return;
        }
        let kept = state.kept.entry(stream_key(flow.id, side), hot.high, &mut self.budget);
        let at = kept.next;
        if !kept.ends.0.iter().any(|end| end.kind == EndKind::Reset && end.at == at) {
            let end = End::told(EndKind::Reset, at);
            kept.ends.add(end, &mut self.budget, &mut self.counters);
        }
        hot.flags |= QUEUED;
        state.vars.write(flow.data, side, hot);
    }

    /// The next segment has the `span` numbers from `at` on, and opens the connection (the payload of a SYN):
    /// they count once their receiver has acknowledged some of them, or at the end of the flow.
    pub fn hold(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction, at: u64, span: u64) {
        let FlowRecord { id, data } = flow;
        self.keep_finished(sequence, FlowRecord { id, data: &mut *data }, side);
        let mut hot = self.begin(sequence, &mut FlowRecord { id, data: &mut *data }, side, at);
        let state = &mut self.sequences[sequence.index()];
        let forward = at.wrapping_sub(hot.next) & state.mask;
        if state.retain || hot.flags & ENDED != 0 || forward > self.limits.window_max {
            return;
        }
        let kept = state.kept.entry(stream_key(id, side), hot.high, &mut self.budget);
        let at = kept.next + forward;
        if !kept.ends.0.iter().any(|end| matches!(end.kind, EndKind::Held(_)) && end.at == at) {
            let end = End::told(EndKind::Held(at.saturating_add(span)), at);
            kept.ends.add(end, &mut self.budget, &mut self.counters);
        }
        hot.flags |= QUEUED;
        state.vars.write(data, side, hot);
    }

    /// A segment behind held numbers that nobody acknowledged, of a direction whose receiver was never seen:
    /// the sender would not go on if they had not been taken.
    pub(super) fn release_held_before(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        number: u64,
    ) {
        let state = &mut self.sequences[sequence.index()];
        let hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 || state.vars.read(flow.data, side.other()).flags & STARTED != 0 {
            return;
        }
        let Some(kept) = state.kept.get_mut(stream_key(flow.id, side)) else { return };
        let Some(&End { kind: EndKind::Held(until), .. }) = kept.ends.first() else { return };
        let forward = number.wrapping_sub(hot.next) & state.mask;
        if (until - kept.next..=self.limits.window_max).contains(&forward) {
            kept.ends.give_up(&mut self.budget);
        }
    }

    /// Moves a FIN from the record to the ends that are kept, if there is one.
    pub(super) fn keep_finished(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & FINISHED == 0 {
            return;
        }
        let kept = state.kept.entry(stream_key(flow.id, side), hot.high, &mut self.budget);
        let end = End::told(EndKind::Fin, kept.next);
        // It is counted already.
        let mut counted = SequenceCounters::default();
        kept.ends.add(end, &mut self.budget, &mut counted);
        hot.flags = hot.flags & !FINISHED | QUEUED;
        state.vars.write(flow.data, side, hot);
    }

    /// The numbers of a direction end with a FIN that only the record has.
    pub(super) fn end_finished(&mut self, sequence: Sequence, data: &mut [u8], side: Direction) {
        let state = &self.sequences[sequence.index()];
        let mut hot = state.vars.read(data, side);
        hot.next = hot.next.wrapping_add(1) & state.mask;
        hot.high += 1;
        hot.flags = hot.flags & !FINISHED | ENDED;
        state.vars.write(data, side, hot);
        self.verdicts[side.index()].has_ended = true;
    }

    /// The receiver has acknowledged the next `forward` numbers of `side`: confirms the FIN there, and
    /// forgets ends before.
    pub(super) fn judge_ends(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        forward: u64,
    ) {
        let FlowRecord { id, data } = flow;
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(data, side);
        if hot.flags & FINISHED != 0 {
            if forward < 2 {
                return if forward == 1 {
                    self.end_finished(sequence, data, side)
                };
            }
            hot.flags &= !FINISHED;
            state.vars.write(data, side, hot);
            self.counters.ends_disproved += 1;
            return self.forget_resets(sequence, FlowRecord { id, data }, side.other());
        }
        let Some(kept) = state.kept.get_mut(stream_key(id, side)) else { return };
        if kept.ends.is_empty() {
            return;
        }
        let next = kept.next;
        if forward == 0 && kept.ends.limit() == next {
            // The receiver has not taken what was held.
            if let Some(until) = kept.ends.release_held(&mut self.budget) {
                let outside_bytes = kept.queue.discard(next, until, &mut self.budget);
                self.counters.out_of_window += 1;
                self.verdicts[side.index()].outside_bytes += outside_bytes;
            }
        }
        let queue = &kept.queue;
        let has_byte = |at| queue.piece_from(at).is_some_and(|piece| piece.start <= at);
        let is_disproved = kept.ends.acknowledge(next + forward, has_byte, &mut self.budget);
        if is_disproved {
            self.counters.ends_disproved += 1;
            self.forget_resets(sequence, FlowRecord { id, data: &mut *data }, side.other());
        }
        let state = &mut self.sequences[sequence.index()];
        let Some(kept) = state.kept.get_mut(stream_key(id, side)) else { return };
        let has_told = kept.ends.first().is_some_and(|end| end.is_confirmed && end.is_told && end.at == next);
        if kept.ends.is_empty() && kept.queue.len() == 0 {
            self.forget(sequence, FlowRecord { id, data }, side);
        } else if has_told {
            self.end_here(sequence, FlowRecord { id, data }, side);
        } else if is_disproved && kept.queue.first() == Some(next) {
            // The acknowledging packet passes what waited behind the end, before its own bytes.
            state.vars.raise(data, side.other(), ACKNOWLEDGES | EXPECTED);
        }
    }

    /// The receiver of `side` has sent what it would not have sent after a reset, which ends both directions.
    fn forget_resets(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) {
        let state = &mut self.sequences[sequence.index()];
        let Some(kept) = state.kept.get_mut(stream_key(flow.id, side)) else { return };
        kept.ends.retain(|end| end.kind != EndKind::Reset, &mut self.budget);
        if kept.ends.is_empty() && kept.queue.len() == 0 {
            self.forget(sequence, flow, side);
        } else if kept.first() == Some(kept.next) {
            // The next packet of the other direction passes what waited.
            state.vars.raise(flow.data, side.other(), ACKNOWLEDGES | EXPECTED);
        }
    }

    /// Nothing is kept of a direction any more.
    fn forget(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if let Some(kept) = state.kept.remove(stream_key(flow.id, side), &mut self.budget) {
            hot.high = kept.next;
        }
        hot.flags &= !QUEUED;
        state.vars.write(flow.data, side, hot);
    }

    /// The numbers of a direction end with a FIN that is next; what waits behind it is discarded.
    pub(super) fn end_here(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) {
        let FlowRecord { id, data } = flow;
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(data, side);
        let kept = state.kept.get_mut(stream_key(id, side)).expect("an end is kept");
        kept.ends.clear(&mut self.budget);
        let end = kept.next + 1;
        kept.pass_to(end, &mut hot, state.mask);
        state.vars.write(data, side, hot);
        let outside_bytes = self.end(sequence, FlowRecord { id, data }, side);
        let verdict = &mut self.verdicts[side.index()];
        verdict.has_ended = true;
        verdict.outside_bytes += outside_bytes;
    }

    /// What has been said of a direction since the last call. To be called for both directions after
    /// [`acknowledge`](Self::acknowledge), [`next`](Self::next) and [`flush`](Self::flush).
    #[inline]
    pub fn take_verdict(&mut self, side: Direction) -> Verdict {
        std::mem::take(&mut self.verdicts[side.index()])
    }
}

//! What FINs, resets and acknowledgements say of the [ends](super::ends) of a direction.

use super::ends::{End, EndKind};
use super::{Inserted, Reassembler, Segment, Verdict, stream_key};
use crate::counters::SequenceCounters;
use weir_ir::abi::{FlowRecord, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_RETRANSMITTED};
use weir_ir::graph::Sequence;
use weir_ir::sequence::{ACKNOWLEDGES, ENDED, EXPECTED, FINISHED, QUEUED, STARTED};
use weir_packet::Direction;

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
        if !kept.ends.contains(|end| end.kind == EndKind::Reset && end.at == at) {
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
        if !kept.ends.contains(|end| matches!(end.kind, EndKind::Held(_)) && end.at == at) {
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
            // Bytes that waited are in order now. The program asks for them at the next packet of the other
            // direction.
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

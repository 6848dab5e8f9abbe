//! The order of the two directions. Who acknowledges bytes has them: a segment that acknowledges more of the other
//! direction than has come was sent after it. Where a capture has it before (two taps, several queues of a network
//! card), it waits for what it acknowledges, so that answers come behind their requests.
//!
//! What is acknowledged may also be missing in the capture, or was never sent. So nothing waits any more, until the hole
//! there has been passed over:
//!
//! * where its sender has gone on: a later packet of it came first;
//! * where its sender acknowledges what waits, which it would have been sent before;
//! * where too much waits, or memory is short.

use super::{Kept, Reassembler, SequenceVars, direction};
use std::collections::VecDeque;
use weir_ir::abi::FlowRecord;
use weir_ir::graph::Sequence;
use weir_ir::sequence::{AHEAD, EXPECTED, QUEUED, UNAWAITED};

/// Segments of a direction that wait for the other one at most.
pub(super) const AWAITING_MAX: usize = 256;

/// What a direction's segments wait for: by their numbers, counted as [`Kept::next`] is, the other direction's number
/// that has to be next before.
#[derive(Debug, Default)]
pub(super) struct Awaited(VecDeque<(u64, u64)>);

impl Awaited {
    /// How many segments wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A segment that begins at `start` waits until `number` is next. One that comes again waits for what it did.
    fn add(&mut self, start: u64, number: u64) {
        let place = self.0.partition_point(|&(other, _)| other < start);
        if self.0.get(place).is_none_or(|&(other, _)| other != start) {
            self.0.insert(place, (start, number));
        }
    }

    /// What the segment at `start`, the first that is kept, waits for.
    pub(super) fn of(&self, start: u64) -> Option<u64> {
        self.0.front().filter(|&&(from, _)| from <= start).map(|&(_, number)| number)
    }

    /// What was waited for first has come.
    pub(super) fn has_come(&mut self) {
        self.0.pop_front();
    }

    /// Numbers up to `number` will not come.
    fn do_without(&mut self, number: u64, mask: u64) {
        self.0.retain(|&(_, other)| number.wrapping_sub(other) & mask > mask >> 1);
    }

    /// What waits before `end` was acknowledged. Whether there is some.
    pub(super) fn is_acknowledged(&mut self, end: u64) -> bool {
        let before = self.0.partition_point(|&(start, _)| start < end);
        self.0.drain(..before).count() > 0
    }

    /// Nothing is waited for any more.
    pub(super) fn give_up(&mut self) {
        self.0.clear();
    }
}

impl SequenceVars {
    /// Whether all numbers of a direction before `number` have passed; numbers are taken modulo `mask` plus one.
    pub(super) fn has_passed(&self, data: &[u8], side: bool, number: u64, mask: u64) -> bool {
        let forward = number.wrapping_sub(self.read(data, side).next) & mask;
        forward == 0 || forward > mask >> 1
    }
}

impl Reassembler {
    /// The segment that is offered next, of the direction `!side`, acknowledges numbers of `side` before `number`, which
    /// have not all come.
    pub(super) fn is_ahead(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool, number: u64) {
        let state = &self.sequences[sequence.index()];
        if !state.headers_only && state.vars.read(flow.data, side).flags & UNAWAITED == 0 {
            state.vars.raise(flow.data, !side, AHEAD);
            self.ahead = Some((sequence, direction(flow.id, !side), number));
        }
    }

    /// What the segment of `side` that is offered now has to wait for, if it does. It is asked once.
    pub(super) fn take_ahead(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: bool,
    ) -> Option<u64> {
        let state = &self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        hot.flags &= !AHEAD;
        state.vars.write(flow.data, side, hot);
        let of_now = (sequence, direction(flow.id, side));
        let ahead = self.ahead.take().filter(|&(sequence, direction, _)| (sequence, direction) == of_now);
        let (vars, mask) = (&state.vars, state.mask);
        ahead.map(|(.., number)| number).filter(|&number| !vars.has_passed(flow.data, !side, number, mask))
    }

    /// The segment at `start` of `side`, which is kept, waits until the other direction's next number is `number`.
    pub(super) fn await_other(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        start: u64,
        number: u64,
    ) {
        let state = &mut self.sequences[sequence.index()];
        let kept = state.kept.get_mut(&direction(flow.id, side)).expect("the segment is kept");
        kept.awaited.add(start, number);
        state.vars.raise(flow.data, !side, EXPECTED);
    }

    /// A packet of `side` stands at a number behind the next one: what lies between was sent, and is missing, so the
    /// other direction does not wait for it. Whether it did.
    pub(super) fn goes_on(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: bool,
        number: u64,
    ) -> bool {
        let state = &mut self.sequences[sequence.index()];
        if state.vars.read(flow.data, side).flags & EXPECTED == 0 {
            return false;
        }
        let Some(kept) = state.kept.get_mut(&direction(flow.id, !side)) else { return false };
        let before = kept.awaited.len();
        kept.awaited.do_without(number, state.mask);
        let has_waited = kept.awaited.len() < before;
        if has_waited {
            state.vars.raise(flow.data, side, UNAWAITED);
        }
        has_waited
    }

    /// Memory is short: nothing of `side` waits for the other direction any more, nor behind what did. Whether something has.
    pub(super) fn give_up_waiting(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: bool,
    ) -> bool {
        if !self.is_awaiting(sequence, flow, side) {
            return false;
        }
        let state = &mut self.sequences[sequence.index()];
        let Some(kept) = state.kept.get_mut(&direction(flow.id, side)) else { return false };
        kept.awaited.give_up();
        self.counters.forced_by_awaiting += 1;
        state.vars.raise(flow.data, !side, UNAWAITED);
        true
    }

    /// As [`goes_on`](Self::goes_on), of what waits of `side` behind a hole.
    pub(super) fn has_gone_on(&mut self, sequence: Sequence, flow: &mut FlowRecord<'_>, side: bool) -> bool {
        let state = &self.sequences[sequence.index()];
        let hot = state.vars.read(flow.data, side);
        let kept = state.kept.get(&direction(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
        let hole = kept.and_then(|kept| Some(kept.queue.first()? - kept.next));
        hole.is_some_and(|hole| self.goes_on(sequence, flow, side, hot.next.wrapping_add(hole)))
    }

    /// Whether segments of a direction wait for the other.
    pub(super) fn is_awaiting(&self, sequence: Sequence, flow: &FlowRecord<'_>, side: bool) -> bool {
        let state = &self.sequences[sequence.index()];
        let is_queued = state.vars.read(flow.data, side).flags & QUEUED != 0;
        let kept = is_queued.then(|| state.kept.get(&direction(flow.id, side))).flatten();
        kept.is_some_and(Kept::is_awaiting)
    }
}

impl Kept {
    /// Whether some of it waits for the other direction.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaited.len() > 0
    }
}

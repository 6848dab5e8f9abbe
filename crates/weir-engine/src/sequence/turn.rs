//! The order between the two directions. A segment that acknowledges more of the other direction than has
//! arrived was sent after the missing bytes. If a capture contains it first (two taps, several queues of a
//! network card), the segment waits for the bytes that it acknowledges, so that answers follow their
//! requests.
//!
//! The acknowledged bytes may also be missing from the capture, or may never have been sent. Waiting
//! therefore ends, until the hole has been passed over:
//!
//! * if a later packet of their sender arrives first;
//! * if their sender acknowledges the waiting segment before it sends them: the segment was not sent after
//!   them;
//! * if too much waits, or memory is short.

use super::{Kept, Reassembler, SequenceVars, stream_key};
use weir_ir::abi::FlowRecord;
use weir_ir::graph::Sequence;
use weir_ir::sequence::{AHEAD, EXPECTED, QUEUED, UNAWAITED};
use weir_packet::Direction;

impl SequenceVars {
    /// Whether all numbers of a direction before `number` have passed; numbers are taken modulo `mask` plus
    /// one.
    pub(super) fn has_passed(&self, data: &[u8], side: Direction, number: u64, mask: u64) -> bool {
        let forward = number.wrapping_sub(self.read(data, side).next) & mask;
        forward == 0 || forward > mask >> 1
    }
}

impl Reassembler {
    /// Records that the segment of direction `side.other()` that is offered next acknowledges numbers of
    /// `side` before `number`, which have not all arrived.
    pub(super) fn is_ahead(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        number: u64,
    ) {
        let state = &self.sequences[sequence.index()];
        if !state.headers_only && state.vars.read(flow.data, side).flags & UNAWAITED == 0 {
            state.vars.raise(flow.data, side.other(), AHEAD);
            self.ahead = Some((sequence, stream_key(flow.id, side.other()), number));
        }
    }

    /// Takes the number that the offered segment of `side` has to wait for, if any.
    pub(super) fn take_ahead(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: Direction,
    ) -> Option<u64> {
        let state = &self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        hot.flags &= !AHEAD;
        state.vars.write(flow.data, side, hot);
        let of_now = (sequence, stream_key(flow.id, side));
        let ahead = self.ahead.take().filter(|&(sequence, stream, _)| (sequence, stream) == of_now);
        let (vars, mask) = (&state.vars, state.mask);
        ahead
            .map(|(.., number)| number)
            .filter(|&number| !vars.has_passed(flow.data, side.other(), number, mask))
    }

    /// Makes the kept segment of `side` at `start` wait until the other direction's next number is `number`.
    pub(super) fn await_other(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        start: u64,
        number: u64,
    ) {
        let state = &mut self.sequences[sequence.index()];
        let kept = state.kept.get_mut(stream_key(flow.id, side)).expect("the segment is kept");
        kept.awaited.add(start, number);
        state.vars.raise(flow.data, side.other(), EXPECTED);
    }

    /// Records that a packet of `side` begins after the next number: the numbers in between were sent and are
    /// missing, so the other direction stops waiting for them. Returns whether it waited.
    pub(super) fn goes_on(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: Direction,
        number: u64,
    ) -> bool {
        let state = &mut self.sequences[sequence.index()];
        if state.vars.read(flow.data, side).flags & EXPECTED == 0 {
            return false;
        }
        let Some(kept) = state.kept.get_mut(stream_key(flow.id, side.other())) else { return false };
        let before = kept.awaited.len();
        kept.awaited.do_without(number, state.mask);
        let has_waited = kept.awaited.len() < before;
        if has_waited {
            state.vars.raise(flow.data, side, UNAWAITED);
        }
        has_waited
    }

    /// Ends all waiting of `side` for the other direction, because memory is short. Returns whether anything
    /// waited.
    pub(super) fn give_up_waiting(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: Direction,
    ) -> bool {
        if !self.is_awaiting(sequence, flow, side) {
            return false;
        }
        let state = &mut self.sequences[sequence.index()];
        let Some(kept) = state.kept.get_mut(stream_key(flow.id, side)) else { return false };
        kept.awaited.give_up();
        self.counters.forced_by_awaiting += 1;
        state.vars.raise(flow.data, side.other(), UNAWAITED);
        true
    }

    /// As [`goes_on`](Self::goes_on), for segments of `side` that wait behind a hole.
    pub(super) fn has_gone_on(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: Direction,
    ) -> bool {
        let state = &self.sequences[sequence.index()];
        let hot = state.vars.read(flow.data, side);
        let kept = state.kept.get(stream_key(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
        let hole = kept.and_then(|kept| Some(kept.first()? - kept.next));
        hole.is_some_and(|hole| self.goes_on(sequence, flow, side, hot.next.wrapping_add(hole)))
    }

    /// Whether segments of a direction wait for the other one.
    pub(super) fn is_awaiting(&self, sequence: Sequence, flow: &FlowRecord<'_>, side: Direction) -> bool {
        let state = &self.sequences[sequence.index()];
        let is_queued = state.vars.read(flow.data, side).flags & QUEUED != 0;
        let kept = is_queued.then(|| state.kept.get(stream_key(flow.id, side))).flatten();
        kept.is_some_and(Kept::is_awaiting)
    }
}

impl Kept {
    /// Whether some of the kept pieces wait for the other direction.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaited.len() > 0
    }
}

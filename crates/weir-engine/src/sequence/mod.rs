//! Sequences: they put the bytes of TCP directions and of IP fragments in order.
//!
//! Bytes that are next in order pass without being stored: the packet's own bytes are delivered. Out-of-order
//! bytes are kept by reference to their block until they are next, or until a bound is reached; the bytes
//! missing before them are then given up and counted as a gap. If kept bytes arrive again, the receiver's
//! [`Policy`] selects the bytes that win; if the sequence declares `overwrite`, the last bytes win. Bytes
//! that have passed are never replaced.
//!
//! * `vars`: the state that every packet accesses, in the flow's record. Most segments are next in order,
//!   with an empty queue: the program passes these by itself (pass `fast_forward` of `weir-ir`), and only
//!   counts them.
//! * `insert`: inserts a segment. `piece`: a segment. `queue`: kept pieces. `budget`: their cost; references
//!   and copies.
//! * `bounds`: the first and the last number, as the layer knows them. `ends`: ends that the receiver has not
//!   confirmed yet; `judge`: what is said of them. `kept`: what is kept of a direction.
//! * `turn`, `awaited`: segments that wait for bytes of the other direction that they acknowledge.
//! * `policy`: which bytes win if segments overlap.  `frame`: packets of kept segments, on demand.
//!
//! A sequence works in one of two ways. *Passing* (TCP): in-order bytes pass, out-of-order bytes are queued,
//! gaps are passed over at a bound or at the end. *Retaining* (fragments): all bytes from number 0 on are
//! kept until [`Reassembler::assemble`]; there are no gaps, and a fragment beyond a bound is refused.
//!
//! If the first segment seen was not the first sent (reordering at the very start of a capture), the segments
//! before it are out of window.

mod awaited;
mod bounds;
mod budget;
mod ends;
#[cfg(test)]
mod ends_tests;
mod frame;
mod insert;
mod judge;
mod kept;
mod piece;
pub mod policy;
#[cfg(test)]
mod policy_tests;
mod queue;
#[cfg(test)]
mod tests;
mod turn;
#[cfg(test)]
mod turn_tests;
pub mod vars;

pub use frame::{FrameRef, KeptFrame};
pub use insert::{Inserted, Segment};
pub use piece::Passed;
pub use policy::{Policies, Policy};
pub use vars::{Hot, SequenceVars};

use crate::counters::SequenceCounters;
use awaited::AWAITING_MAX;
use budget::{Assembly, Budget};
use ends::End;
use kept::{Kept, KeptDirections};
use piece::PIECE_COST;
use std::fmt;
use weir_ir::abi::{FlowRecord, Layout, Ordered, Slice};
use weir_ir::graph::{Graph, Sequence, SequenceDecl};
use weir_ir::sequence::{ACKNOWLEDGES, ENDED, EXPECTED, FINISHED, QUEUED, RETAINED, UNAWAITED};
use weir_packet::Direction;

/// Bounds on kept segments of a worker. The cost is the captured bytes and the description of each segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Distance in numbers that a segment may have from the next one expected, before or after it.
    pub window_max: u64,
    /// Segments kept per direction of a flow.
    pub queued_segments_max: usize,
    /// Bytes that these segments may cost.
    pub queued_bytes_max: usize,
    /// Fragments kept per datagram.
    pub retained_segments_max: usize,
    /// Bytes per datagram.
    pub retained_bytes_max: u64,
    /// Bytes that all kept segments of a worker may cost.
    pub total_bytes_max: usize,
    /// Bytes of blocks that references may keep from being reused; beyond this, segments are copied.
    pub pinned_bytes_max: usize,
    /// Holes in TCP bytes are never passed over: later bytes wait until the flow ends. If too much waits,
    /// more bytes are refused.
    pub strict: bool,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self {
            window_max: 1 << 30,
            queued_segments_max: 2048,
            queued_bytes_max: 4 << 20,
            retained_segments_max: 8192,
            retained_bytes_max: 65_535,
            total_bytes_max: 256 << 20,
            pinned_bytes_max: 64 << 20,
            strict: false,
        }
    }
}

/// The kind of units that a sequence orders; it selects the receivers' policy for overlaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// TCP segments.
    Segments,
    /// IP fragments.
    Fragments,
    /// The last bytes win, whatever the policy.
    Overwriting,
    /// The first bytes win.
    Other,
}

impl Kind {
    fn of(graph: &Graph, sequence: &SequenceDecl) -> Self {
        let table = &graph.tables[sequence.table.index()];
        if sequence.overwrite {
            Kind::Overwriting
        } else if sequence.retain {
            Kind::Fragments
        } else if table.two_sided && table.part.is_none() && sequence.from_first {
            // The table's flows are connections. Flows that are parts of a connection (SCTP: of an
            // association) are not TCP.
            Kind::Segments
        } else {
            Kind::Other
        }
    }
}

/// One sequence of the graph.
struct State {
    vars: SequenceVars,
    /// Sequence numbers are taken modulo `mask + 1`.
    mask: u64,
    from_first: bool,
    retain: bool,
    headers_only: bool,
    distinct: bool,
    kind: Kind,
    kept: KeptDirections,
}

/// All sequences of a worker.
pub struct Reassembler {
    sequences: Vec<State>,
    limits: SequenceLimits,
    budget: Budget,
    assembly: Assembly,
    counters: SequenceCounters,
    /// The direction of the last segment inserted, if it used no numbers: a pure acknowledgement.
    pure: Option<(Sequence, u64)>,
    /// Set if the next segment offered acknowledges numbers that have not arrived: its direction, and the
    /// acknowledged number of the other direction.
    ahead: Option<(Sequence, u64, u64)>,
    /// By direction of the current flow: what acknowledgements, or silence, have just said.
    verdicts: [Verdict; 2],
}

/// What an acknowledgement, or silence, says of what waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The numbers of the direction have ended.
    pub has_ended: bool,
    /// Claimed bytes that waited, do not count, and were discarded.
    pub outside_bytes: u64,
}

/// Bytes that a waiting segment costs, including its packet if that is kept.
pub(crate) fn waiting_cost(bytes: &[u8], frame: Option<FrameRef<'_>>) -> usize {
    let own = frame.map_or(bytes.len(), |frame| size_of::<KeptFrame>() + frame.bytes.len().max(bytes.len()));
    own + PIECE_COST
}

/// What became of a direction's numbers. They count bytes, without the FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Numbers passed, including missing ones.
    pub passed_bytes: u64,
    /// Missing numbers that were passed over.
    pub missing_bytes: u64,
    /// Bytes behind a hole that is not passed over.
    pub waiting_bytes: u64,
}

/// The key of a direction in [`State::kept`].
fn stream_key(flow: u32, side: Direction) -> u64 {
    u64::from(flow) << 1 | u64::from(side.is_responder())
}

impl Reassembler {
    /// The sequences of a graph.
    ///
    /// # Panics
    /// If a sequence's table lacks a variable of [`weir_ir::engine_var::EngineVar::SEQUENCE`]: a bug of
    /// lowering.
    pub fn new(graph: &Graph, layout: &Layout, limits: SequenceLimits) -> Self {
        let sequences = graph.sequences.iter().map(|sequence| State {
            vars: SequenceVars::of(graph, layout, sequence.table)
                .unwrap_or_else(|name| panic!("sequence {} lacks its variable {name}", sequence.name)),
            mask: match sequence.from_first {
                true => u64::MAX >> (64 - u32::from(sequence.bits.clamp(1, 64))),
                false => u64::MAX,
            },
            from_first: sequence.from_first,
            retain: sequence.retain,
            headers_only: sequence.headers_only,
            distinct: sequence.distinct,
            kind: Kind::of(graph, sequence),
            kept: KeptDirections::default(),
        });
        Self {
            sequences: sequences.collect(),
            limits,
            budget: Budget::new(limits.pinned_bytes_max),
            assembly: Assembly::default(),
            counters: SequenceCounters::default(),
            pure: None,
            ahead: None,
            verdicts: [Verdict::default(); 2],
        }
    }

    /// The sequences of another graph, with the state of the current ones. `before` returns a sequence's
    /// index in the current graph.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub(crate) fn renew(
        self,
        graph: &Graph,
        layout: &Layout,
        before: &dyn Fn(&str) -> Option<usize>,
    ) -> Self {
        let mut new = Self::new(graph, layout, self.limits);
        let mut old: Vec<Option<State>> = self.sequences.into_iter().map(Some).collect();
        (new.budget, new.assembly, new.counters) = (self.budget, self.assembly, self.counters);
        for (sequence, state) in graph.sequences.iter().zip(&mut new.sequences) {
            if let Some(old) = before(&sequence.name).and_then(|index| old[index].take()) {
                state.kept = old.kept;
            }
        }
        // Sequences that no longer exist.
        for state in old.into_iter().flatten() {
            new.counters.released += state.kept.release(&mut new.budget);
        }
        new
    }

    /// The outcome of the segments so far. Segments that programs passed by themselves are included once
    /// their flow has ended or has been accessed here.
    pub fn counters(&self) -> &SequenceCounters {
        &self.counters
    }

    /// The cost in bytes of all kept segments, and the bytes of the blocks that they pin.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.budget.held_bytes(), self.budget.pinned_bytes())
    }

    /// Whether segments of a direction wait. Accesses only the record.
    pub fn is_waiting(&self, sequence: Sequence, data: &[u8], side: Direction) -> bool {
        self.sequences[sequence.index()].vars.read(data, side).flags & QUEUED != 0
    }

    /// The numbers of a direction after [`finish`](Self::finish). Takes time linear in the number of waiting
    /// segments.
    pub fn outcome(&self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> Outcome {
        let state = &self.sequences[sequence.index()];
        let hot = state.vars.read(flow.data, side);
        let kept = (hot.flags & QUEUED != 0).then(|| state.kept.get(stream_key(flow.id, side))).flatten();
        let passed = kept.map_or(hot.high, |kept| kept.next);
        Outcome {
            passed_bytes: passed,
            missing_bytes: hot.missing_bytes,
            waiting_bytes: kept.map_or(0, |kept| kept.queue.claimed_bytes()),
        }
    }

    /// Captured bytes of a direction that wait for earlier ones. Takes time linear in the number of segments.
    pub fn waiting_bytes(&self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> u64 {
        let state = &self.sequences[sequence.index()];
        let waits = state.vars.read(flow.data, side).flags & QUEUED != 0;
        let kept = waits.then(|| state.kept.get(stream_key(flow.id, side))).flatten();
        kept.map_or(0, |kept| kept.queue.bytes())
    }

    /// Records that the receiver has acknowledged all numbers of a direction before `at`. Missing bytes among
    /// them usually do not arrive any more. They may arrive late, if the two directions were captured
    /// separately, so the bytes behind them wait until one of the sides goes on: until the receiver sends
    /// bytes, before which [`next`](Self::next) returns the waiting ones, or until the sender sends bytes
    /// that are not acknowledged yet. If numbers before `at` have not been seen, the other direction's next
    /// segment [waits](turn) for them.
    ///
    /// [Provisional ends](ends) of the direction are confirmed or disproved. If holes are never passed over,
    /// the acknowledgement has no other effect. With an empty queue, only the record is accessed.
    pub fn acknowledge(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction, at: u64) {
        let FlowRecord { id, data } = flow;
        if self.sequences[sequence.index()].retain {
            return;
        }
        let Some((mut hot, mut forward)) = self.forward(sequence, data, side, at) else { return };
        if hot.flags & (QUEUED | FINISHED) != 0 {
            self.judge_ends(sequence, FlowRecord { id, data: &mut *data }, side, forward);
            // The FIN may have passed now.
            let Some(now) = self.forward(sequence, data, side, at) else { return };
            (hot, forward) = now;
        }
        if self.limits.strict {
            return;
        }
        let flow = FlowRecord { id, data };
        let state = &mut self.sequences[sequence.index()];
        if hot.flags & QUEUED != 0 {
            let kept = state.kept.get_mut(stream_key(flow.id, side)).expect("something is queued");
            kept.acknowledged = kept.acknowledged.max(kept.next + forward);
            if kept.awaited.is_acknowledged(kept.acknowledged) {
                state.vars.raise(flow.data, side.other(), UNAWAITED);
            }
            if kept.first().is_some_and(|first| first <= kept.acknowledged) {
                state.vars.raise(flow.data, side.other(), ACKNOWLEDGES);
            }
        }
        if forward > 0 {
            self.is_ahead(sequence, flow, side, at);
        }
    }

    /// The distance from the next number of a direction to `at`; `None` if `at` is before it, or too far
    /// away.
    fn forward(&self, sequence: Sequence, data: &[u8], side: Direction, at: u64) -> Option<(Hot, u64)> {
        let state = &self.sequences[sequence.index()];
        let hot = state.vars.read(data, side);
        let forward = at.wrapping_sub(hot.next) & state.mask;
        (forward <= (state.mask >> 1).min(self.limits.window_max)).then_some((hot, forward))
    }

    /// The next queued bytes that are in order, or that must pass because of a bound, with the gap before
    /// them. Bytes of the other direction that this one [acknowledges](Self::acknowledge) come first; bytes
    /// of the other direction that [waited](turn) for this one come last. After an insert that was ordered or
    /// forced, call `next` until it returns `None`.
    ///
    /// With an empty queue: constant time, only the record is accessed.
    pub fn next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> Option<Passed> {
        let FlowRecord { id, data } = flow;
        let state = &self.sequences[sequence.index()];
        if state.retain {
            return self.advance(sequence, FlowRecord { id, data }, side);
        }
        let mut hot = state.vars.read(data, side);
        let is_pure = self.pure == Some((sequence, stream_key(id, side)));
        if hot.flags & ACKNOWLEDGES != 0 && !is_pure {
            // Segments of the other direction waited for the missing bytes, which are lost: this direction's
            // bytes come first.
            if self.has_gone_on(sequence, &mut FlowRecord { id, data: &mut *data }, side.other()) {
                let passed = self.pass(sequence, FlowRecord { id, data: &mut *data }, side, false);
                if passed.is_some() {
                    return passed;
                }
            }
            if let Some(mut passed) =
                self.pass(sequence, FlowRecord { id, data: &mut *data }, side.other(), false)
            {
                passed.ordered.of_other = true;
                return Some(passed);
            }
            // Clears the mark of a wait that was given up.
            hot = self.sequences[sequence.index()].vars.read(data, side);
            hot.flags &= !ACKNOWLEDGES;
            self.sequences[sequence.index()].vars.write(data, side, hot);
        }
        if let Some(passed) = self.pass(sequence, FlowRecord { id, data: &mut *data }, side, false) {
            return Some(passed);
        }
        if hot.flags & EXPECTED == 0 {
            return None;
        }
        if let Some(mut passed) =
            self.pass(sequence, FlowRecord { id, data: &mut *data }, side.other(), false)
        {
            passed.ordered.of_other = true;
            return Some(passed);
        }
        if !self.is_awaiting(sequence, &FlowRecord { id, data: &mut *data }, side.other()) {
            let state = &self.sequences[sequence.index()];
            let mut hot = state.vars.read(data, side);
            hot.flags &= !EXPECTED;
            state.vars.write(data, side, hot);
        }
        None
    }

    /// As [`next`](Self::next), but all queued bytes pass, with their gaps: for the end of a flow. `None` if
    /// the sequence retains, because an incomplete datagram is discarded.
    pub fn flush(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> Option<Passed> {
        match self.sequences[sequence.index()].retain {
            true => None,
            false => self.pass(sequence, flow, side, true),
        }
    }

    fn pass(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        flush: bool,
    ) -> Option<Passed> {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 || flush && hot.flags & ENDED != 0 {
            if flush && hot.flags & FINISHED != 0 {
                self.end_finished(sequence, flow.data, side);
            }
            return None;
        }
        let stream = stream_key(flow.id, side);
        let kept = state.kept.get_mut(stream).expect("something is queued");
        // Silence lets what was held count.
        while flush && kept.ends.release_held(&mut self.budget).is_some() {}
        if kept.first().is_none() && !flush {
            // Bytes wait behind an end. A bound must not hide them.
            while kept.first().is_none() && kept.queue.len() > 0 {
                if self.limits.exceeded(kept, &self.budget).is_none() {
                    break;
                }
                self.counters.ends_forced += 1;
                kept.ends.give_up(&mut self.budget);
            }
        }
        let Some(first) = kept.first() else {
            if kept.ends.first().is_some_and(|end| end.at == kept.next && end.holds(flush)) {
                self.end_here(sequence, flow, side);
            }
            return None;
        };
        while let Some(number) = kept.awaited.of(first) {
            if flush || state.vars.has_passed(flow.data, side.other(), number, state.mask) {
                kept.awaited.has_come();
                continue;
            }
            if kept.awaited.len() <= AWAITING_MAX {
                self.limits.exceeded(kept, &self.budget)?;
            }
            self.counters.forced_by_awaiting += 1;
            kept.awaited.give_up();
            state.vars.raise(flow.data, side.other(), UNAWAITED);
        }
        let gap_bytes = first - kept.next;
        if gap_bytes > 0 {
            if self.limits.strict && state.kind == Kind::Segments {
                return None;
            }
            match self.limits.exceeded(kept, &self.budget) {
                _ if first <= kept.acknowledged && !flush => self.counters.acknowledged += 1,
                Some(bound) if !flush => bound.count(&mut self.counters),
                None if !flush => return None,
                _ => {}
            }
            self.counters.gaps += 1;
            self.counters.gap_bytes += gap_bytes;
            hot.missing_bytes += gap_bytes;
            // The lost numbers are passed over, so segments of the other direction may wait for later ones
            // again.
            hot.flags &= !UNAWAITED;
        }
        let limit = kept.ends.limit();
        if first >= limit {
            // A FIN, without its bytes, which have passed or are missing.
            let &End { metas, .. } = kept.ends.first()?;
            kept.ends.tell();
            kept.pass_to(first, &mut hot, state.mask);
            state.vars.write(flow.data, side, hot);
            let bytes = self.assembly.nothing();
            let ordered = Ordered { gap_bytes, bytes, claimed_bytes: 0, of_other: false, metas };
            return Some(Passed { ordered, frame: None, is_repeated: false });
        }
        let piece = kept.queue.pop_until(limit, &mut self.budget).expect("there is a first");
        kept.pass_to(piece.end(), &mut hot, state.mask);
        self.budget.release(&piece);
        if kept.queue.len() == 0 && kept.ends.is_empty() {
            // A disproved end may have claimed more.
            hot.high = kept.next;
            hot.flags &= !QUEUED;
            state.kept.remove(stream, &mut self.budget);
        }
        state.vars.write(flow.data, side, hot);
        Some(piece.pass(gap_bytes))
    }

    /// As `pass`, for a retaining sequence. Passes bytes up to the next end of a fragment, because the metas
    /// belong to that end.
    fn advance(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> Option<Passed> {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 {
            return None;
        }
        let kept = state.kept.get_mut(stream_key(flow.id, side)).expect("something is queued");
        let mut passed = None;
        while passed.is_none()
            && let Some(piece) = kept.queue.piece_from(kept.next).filter(|piece| piece.start <= kept.next)
        {
            let end = piece.end();
            if piece.last {
                passed = Some(piece.part(kept.next, end).pass(0));
            }
            kept.pass_to(end, &mut hot, state.mask);
            hot.flags |= RETAINED;
        }
        if kept.queue.piece_from(kept.next).is_none() {
            hot.flags &= !QUEUED;
        }
        state.vars.write(flow.data, side, hot);
        passed
    }

    /// Removes the retained bytes and returns them as one slice, up to the first byte that was not captured.
    /// A single piece is referred to; several are copied into a block that is reused when free.
    pub fn assemble(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> Slice {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & RETAINED == 0 {
            return self.assembly.nothing();
        }
        let stream = stream_key(flow.id, side);
        let kept = state.kept.get_mut(stream).expect("something is retained");
        let joined = self.assembly.join(kept.queue.before(kept.next));
        while let Some(piece) = kept.queue.pop_before(kept.next) {
            self.budget.release(&piece);
        }
        if kept.queue.len() == 0 {
            state.kept.remove(stream, &mut self.budget);
        }
        hot.flags &= !RETAINED;
        state.vars.write(flow.data, side, hot);
        self.counters.assembled += 1;
        joined
    }

    /// Segments kept of a direction, queued or retained.
    pub fn kept_segments(&self, sequence: Sequence, flow: u32, side: Direction) -> usize {
        let kept = self.sequences[sequence.index()].kept.get(stream_key(flow, side));
        kept.map_or(0, |kept| kept.queue.len())
    }

    /// Releases all kept pieces of a flow that ends, and counts the segments that its program passed. If
    /// nothing is kept, only the record is read.
    pub fn release(&mut self, sequence: Sequence, flow: FlowRecord<'_>) {
        let state = &mut self.sequences[sequence.index()];
        for side in Direction::BOTH {
            let mut hot = state.vars.read(flow.data, side);
            if hot.passed != 0 {
                self.counters.ordered += u64::from(std::mem::take(&mut hot.passed));
                state.vars.write(flow.data, side, hot);
            }
            if hot.flags & (QUEUED | RETAINED) == 0 {
                continue;
            }
            let kept = state.kept.remove(stream_key(flow.id, side), &mut self.budget);
            self.counters.released += kept.expect("something is kept").release(&mut self.budget);
            hot.flags &= !(QUEUED | RETAINED);
            state.vars.write(flow.data, side, hot);
        }
    }
}

/// The bound that made bytes pass before missing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Segments,
    Bytes,
    Total,
}

impl Bound {
    fn count(self, counters: &mut SequenceCounters) {
        match self {
            Bound::Segments => counters.forced_by_segments += 1,
            Bound::Bytes => counters.forced_by_bytes += 1,
            Bound::Total => counters.forced_by_total += 1,
        }
    }
}

impl SequenceLimits {
    /// The bound that the queue of a direction exceeds.
    fn exceeded(&self, kept: &Kept, budget: &Budget) -> Option<Bound> {
        if kept.queue.len() > self.queued_segments_max {
            Some(Bound::Segments)
        } else if kept.queue.held_bytes() > self.queued_bytes_max {
            Some(Bound::Bytes)
        } else if budget.held_bytes() > self.total_bytes_max {
            Some(Bound::Total)
        } else {
            None
        }
    }
}

impl fmt::Debug for Reassembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reassembler")
            .field("sequences", &self.sequences.len())
            .field("held_bytes", &self.budget.held_bytes())
            .field("pinned_bytes", &self.budget.pinned_bytes())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

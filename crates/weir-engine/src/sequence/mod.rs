//! Sequences: bytes put in order, of TCP's directions and of IP's fragments.
//!
//! What is next in order passes without being touched: the packet's own bytes are delivered. What comes
//! early is kept by reference to its block until it is next, or until a bound is reached; then the
//! bytes before it are given up and counted as a gap. Of bytes that come twice while they are kept those count
//! that the receiver's [`Policy`] says, or, where the sequence says `overwrite`, the last. What has passed stays.
//!
//! * `vars`: the state that every packet touches, in the flow's record. Most segments are next in order, and
//!   nothing waits: these the program passes by itself (pass `fast_forward` of `weir-ir`), and only counts them.
//! * `insert`: a segment comes.  `piece`: a segment.  `queue`: what is kept.  `budget`: what it costs; references and copies.
//! * `turn`: segments that wait for what they acknowledge of the other direction.
//! * `policy`: whose bytes count where segments overlap.  `frame`: the packets of what is kept, where they are asked for.
//!
//! Two ways to use a sequence. *Passing* (TCP): bytes in order pass, early ones are queued, gaps are
//! passed over at a bound or at the end. *Retaining* (fragments): everything from number 0 on is kept
//! until [`Reassembler::assemble`]; there are no gaps, over a bound a fragment is refused.
//!
//! Counts that can't be trusted: a first segment seen that was not the first sent (reordered at the
//! very start of a capture) makes those before it look retransmitted.

mod budget;
mod frame;
mod insert;
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
pub use policy::{Policies, Policy};
pub use vars::{Hot, SequenceVars};

use crate::counters::SequenceCounters;
use crate::table::BuildIdHasher;
use budget::{Assembly, Budget};
use piece::PIECE_COST;
use queue::Queue;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use turn::{AWAITING_MAX, Awaited};
use weir_ir::abi::{FlowRecord, Layout, Ordered, Slice};
use weir_ir::graph::{Graph, Sequence, SequenceDecl};
use weir_ir::sequence::{ACKNOWLEDGES, EXPECTED, QUEUED, RETAINED, UNAWAITED};

/// Bounds of what a worker keeps. Costs are bytes captured and the description of each segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Numbers by which a segment may lie before or behind the next one expected.
    pub window_max: u64,
    /// Segments kept of one direction of a flow.
    pub queued_segments_max: usize,
    /// Bytes that these may cost.
    pub queued_bytes_max: usize,
    /// Fragments kept of one datagram.
    pub retained_segments_max: usize,
    /// Bytes of a datagram.
    pub retained_bytes_max: u64,
    /// Bytes that all that a worker keeps may cost.
    pub total_bytes_max: usize,
    /// Bytes of blocks that references may keep from being reused; beyond it, segments are copied.
    pub pinned_bytes_max: usize,
    /// No hole in TCP's bytes is passed over: what lies behind it waits for it until the flow ends. Where too much
    /// waits, more is refused.
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

/// What is kept of a direction, only while there is something to keep.
#[derive(Debug, Default)]
struct Kept {
    /// The next number expected, counted from the first one, so that it does not wrap.
    next: u64,
    /// Counted so, the number behind those that the receiver has acknowledged; 0 where that was of no use.
    acknowledged: u64,
    /// What waits for the other direction, too.
    awaited: Awaited,
    /// What waits; before it, where the sequence retains, what is in order.
    queue: Queue,
    /// Parts of it overlapped: nothing more is kept, and nothing is assembled.
    is_given_up: bool,
}

impl Kept {
    /// What is in order goes up to `end` now.
    fn pass_to(&mut self, end: u64, hot: &mut Hot, mask: u64) {
        hot.next = hot.next.wrapping_add(end - self.next) & mask;
        hot.high = hot.high.max(end);
        self.next = end;
    }
}

/// What a sequence puts in order, as far as receivers' policies know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As TCP's segments.
    Segments,
    /// As IP's fragments.
    Fragments,
    /// The last bytes count, whatever the policy.
    Overwriting,
    /// The first bytes count.
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
            // A connection of its own. SCTP's chunks are part of their association.
            Kind::Segments
        } else {
            Kind::Other
        }
    }
}

/// One sequence of the graph.
struct State {
    vars: SequenceVars,
    /// Numbers are taken modulo this plus one.
    mask: u64,
    from_first: bool,
    retain: bool,
    headers_only: bool,
    distinct: bool,
    kind: Kind,
    kept: HashMap<u64, Kept, BuildIdHasher>,
}

/// All sequences of a worker.
pub struct Reassembler {
    sequences: Vec<State>,
    limits: SequenceLimits,
    budget: Budget,
    assembly: Assembly,
    counters: SequenceCounters,
    /// The direction whose segment is offered next, and the number of the other one that it acknowledges, which has not
    /// come.
    ahead: Option<(Sequence, u64, u64)>,
}

/// Bytes that it costs to have a segment wait, with the packet that it came in where that is kept, too.
pub(crate) fn waiting_cost(bytes: &[u8], frame: Option<FrameRef<'_>>) -> usize {
    let own = frame.map_or(bytes.len(), |frame| size_of::<KeptFrame>() + frame.bytes.len().max(bytes.len()));
    own + PIECE_COST
}

/// Kept bytes whose turn it is.
#[derive(Debug)]
pub struct Passed {
    /// The bytes, and what goes with them.
    pub ordered: Ordered,
    /// The packet that they came in, where it was [kept](Segment::frame).
    pub frame: Option<Arc<KeptFrame>>,
    /// Other bytes of that packet have passed before.
    pub is_repeated: bool,
}

/// The key of a direction in [`State::kept`].
fn direction(flow: u32, side: bool) -> u64 {
    u64::from(flow) << 1 | u64::from(side)
}

impl Reassembler {
    /// The sequences of a graph.
    ///
    /// # Panics
    /// If a sequence's table lacks a variable of [`weir_ir::engine_var::EngineVar::SEQUENCE`]: a bug of lowering.
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
            kept: HashMap::default(),
        });
        Self {
            sequences: sequences.collect(),
            limits,
            budget: Budget::new(limits.pinned_bytes_max),
            assembly: Assembly::default(),
            counters: SequenceCounters::default(),
            ahead: None,
        }
    }

    /// Those of another graph, with what these keep: `before` says where a sequence was in the graph of these.
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
        // What a sequence kept that is no more is let go.
        for mut kept in old.into_iter().flatten().flat_map(|state| state.kept.into_values()) {
            for piece in std::iter::from_fn(|| kept.queue.pop()) {
                new.budget.release(&piece);
                new.counters.released += 1;
            }
        }
        new
    }

    /// What became of the segments so far; of those that programs passed by themselves, as far as their
    /// flows have ended or come here since.
    pub fn counters(&self) -> &SequenceCounters {
        &self.counters
    }

    /// Bytes that all kept segments cost now, and bytes of blocks that they pin.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.budget.held_bytes(), self.budget.pinned_bytes())
    }

    /// Whether something of a direction waits. Nothing but the record is touched.
    pub fn is_waiting(&self, sequence: Sequence, data: &[u8], side: bool) -> bool {
        self.sequences[sequence.index()].vars.read(data, side).flags & QUEUED != 0
    }

    /// Captured bytes of a direction that wait for others before them. Takes as long as there are segments.
    pub fn waiting_bytes(&self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> u64 {
        let state = &self.sequences[sequence.index()];
        let waits = state.vars.read(flow.data, side).flags & QUEUED != 0;
        let kept = waits.then(|| state.kept.get(&direction(flow.id, side))).flatten();
        kept.map_or(0, |kept| kept.queue.bytes())
    }

    /// The receiver has all numbers of a direction before `at`: what of them is missing will not come any more (or
    /// comes late, for the two directions were captured apart), so what waits behind it need not wait. It passes with
    /// the other direction's [`next`](Self::next), before the packet that said so. Where numbers before `at` are yet to
    /// come, the other direction's next segment [waits](turn) for them.
    ///
    /// Not where holes are never passed over. Nothing queued: nothing but the record is touched.
    pub fn acknowledge(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool, at: u64) {
        let state = &mut self.sequences[sequence.index()];
        let hot = state.vars.read(flow.data, side);
        if state.retain || self.limits.strict {
            return;
        }
        let forward = at.wrapping_sub(hot.next) & state.mask;
        if forward > (state.mask >> 1).min(self.limits.window_max) {
            return;
        }
        if hot.flags & QUEUED != 0 {
            let kept = state.kept.get_mut(&direction(flow.id, side)).expect("something is queued");
            kept.acknowledged = kept.acknowledged.max(kept.next + forward);
            if kept.awaited.is_acknowledged(kept.acknowledged) {
                state.vars.raise(flow.data, !side, UNAWAITED);
            }
            if kept.queue.first().is_some_and(|first| first <= kept.acknowledged) {
                state.vars.raise(flow.data, !side, ACKNOWLEDGES);
            }
        }
        if forward > 0 {
            self.is_ahead(sequence, flow, side, at);
        }
    }

    /// The next queued bytes that are in order now, or that have to pass because of a bound, with the
    /// gap before them; first those of the other direction that this one [acknowledges](Self::acknowledge), last those
    /// of it that [waited](turn) for this one. Call until there are none after an insert that was ordered or forced.
    ///
    /// Nothing queued: constant time, nothing but the record is touched.
    pub fn next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Passed> {
        let FlowRecord { id, data } = flow;
        let state = &self.sequences[sequence.index()];
        if state.retain {
            return self.advance(sequence, FlowRecord { id, data }, side);
        }
        let mut hot = state.vars.read(data, side);
        if hot.flags & ACKNOWLEDGES != 0 {
            // What is acknowledged no farther than the hole comes before what lies behind that.
            if self.has_gone_on(sequence, &mut FlowRecord { id, data: &mut *data }, !side) {
                let passed = self.pass(sequence, FlowRecord { id, data: &mut *data }, side, false);
                if passed.is_some() {
                    return passed;
                }
            }
            if let Some(mut passed) = self.pass(sequence, FlowRecord { id, data: &mut *data }, !side, false) {
                passed.ordered.of_other = true;
                return Some(passed);
            }
            // What waited in vain has left its mark there.
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
        if let Some(mut passed) = self.pass(sequence, FlowRecord { id, data: &mut *data }, !side, false) {
            passed.ordered.of_other = true;
            return Some(passed);
        }
        if !self.is_awaiting(sequence, &FlowRecord { id, data: &mut *data }, !side) {
            let state = &self.sequences[sequence.index()];
            let mut hot = state.vars.read(data, side);
            hot.flags &= !EXPECTED;
            state.vars.write(data, side, hot);
        }
        None
    }

    /// As [`next`](Self::next), but all that is queued passes, with its gaps: for the end of a flow.
    /// Nothing where the sequence retains: a datagram that lacks fragments is no datagram.
    pub fn flush(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Passed> {
        match self.sequences[sequence.index()].retain {
            true => None,
            false => self.pass(sequence, flow, side, true),
        }
    }

    fn pass(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool, flush: bool) -> Option<Passed> {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 {
            return None;
        }
        let direction = direction(flow.id, side);
        let kept = state.kept.get_mut(&direction).expect("something is queued");
        let first = kept.queue.first().expect("it says so");
        while let Some(number) = kept.awaited.of(first) {
            if flush || state.vars.has_passed(flow.data, !side, number, state.mask) {
                kept.awaited.has_come();
                continue;
            }
            if kept.awaited.len() <= AWAITING_MAX {
                self.limits.exceeded(kept, &self.budget)?;
            }
            self.counters.forced_by_awaiting += 1;
            kept.awaited.give_up();
            state.vars.raise(flow.data, !side, UNAWAITED);
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
            // What was waited for in vain is passed over.
            hot.flags &= !UNAWAITED;
        }
        let piece = kept.queue.pop().expect("there is a first");
        kept.pass_to(piece.end(), &mut hot, state.mask);
        self.budget.release(&piece);
        if kept.queue.len() == 0 {
            hot.flags &= !QUEUED;
            state.kept.remove(&direction);
        }
        state.vars.write(flow.data, side, hot);
        Some(piece.pass(gap_bytes))
    }

    /// As `pass`, where what is in order stays: up to the next end of a fragment, for its metas go with that.
    fn advance(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Passed> {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 {
            return None;
        }
        let kept = state.kept.get_mut(&direction(flow.id, side)).expect("something is queued");
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

    /// The retained bytes as one, up to the first that was not captured, and forgets them. One piece is
    /// referred to; more are copied, into a block that is used again when free.
    pub fn assemble(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Slice {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & RETAINED == 0 {
            return self.assembly.nothing();
        }
        let direction = direction(flow.id, side);
        let kept = state.kept.get_mut(&direction).expect("something is retained");
        let joined = self.assembly.join(kept.queue.before(kept.next));
        while let Some(piece) = kept.queue.pop_before(kept.next) {
            self.budget.release(&piece);
        }
        if kept.queue.len() == 0 {
            state.kept.remove(&direction);
        }
        hot.flags &= !RETAINED;
        state.vars.write(flow.data, side, hot);
        self.counters.assembled += 1;
        joined
    }

    /// Segments kept of a direction, queued or retained.
    pub fn kept_segments(&self, sequence: Sequence, flow: u32, side: bool) -> usize {
        let kept = self.sequences[sequence.index()].kept.get(&direction(flow, side));
        kept.map_or(0, |kept| kept.queue.len())
    }

    /// Forgets all that is kept of a flow, which ends, and counts what its program passed. Where nothing is
    /// kept, only the record is read.
    pub fn release(&mut self, sequence: Sequence, flow: FlowRecord<'_>) {
        let state = &mut self.sequences[sequence.index()];
        for side in [false, true] {
            let mut hot = state.vars.read(flow.data, side);
            if hot.passed != 0 {
                self.counters.ordered += u64::from(std::mem::take(&mut hot.passed));
                state.vars.write(flow.data, side, hot);
            }
            if hot.flags & (QUEUED | RETAINED) == 0 {
                continue;
            }
            let mut kept = state.kept.remove(&direction(flow.id, side)).expect("something is kept");
            for piece in std::iter::from_fn(|| kept.queue.pop()) {
                self.budget.release(&piece);
                self.counters.released += 1;
            }
            hot.flags &= !(QUEUED | RETAINED);
            state.vars.write(flow.data, side, hot);
        }
    }
}

/// Which bound made bytes pass before their predecessors.
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
    /// The bound that what is queued of a direction exceeds.
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

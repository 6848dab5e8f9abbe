//! Sequences: bytes put in order, of TCP's directions and of IP's fragments.
//!
//! What is next in order passes without being touched: the packet's own bytes are delivered. What comes
//! early is kept by reference to its block until it is next, or until a bound is reached; then the
//! bytes before it are given up and counted as a gap. Of bytes that come twice the first count, or, where the
//! sequence says `overwrite`, the last of those that came before their turn.
//!
//! * `vars`: the state that every packet touches, in the flow's record. Most segments are next in order, and
//!   nothing waits: these the program passes by itself (pass `fast_forward` of `weir-ir`), and only counts them.
//! * `queue`: what came early.  `budget`: what it costs; references and copies.
//!
//! Two ways to use a sequence. *Passing* (TCP): bytes in order pass, early ones are queued, gaps are
//! passed over at a bound or at the end. *Retaining* (fragments): everything from number 0 on is kept
//! until [`Reassembler::assemble`]; there are no gaps, over a bound a fragment is refused.
//!
//! Counts that can't be trusted: a first segment seen that was not the first sent (reordered at the
//! very start of a capture) makes those before it look retransmitted.

mod budget;
mod queue;
#[cfg(test)]
mod tests;
pub mod vars;

pub use vars::{Hot, SequenceVars};

use crate::counters::SequenceCounters;
use crate::table::BuildIdHasher;
use budget::{Assembly, Budget};
use queue::{Piece, Queue};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use weir_ir::abi::Slice;
use weir_ir::abi::{
    FlowRecord, Layout, Ordered, SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED,
};
use weir_ir::graph::{Graph, Sequence};
use weir_ir::sequence::{QUEUED, RETAINED, STARTED};
use weir_packet::Block;

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
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self {
            window_max: 1 << 30,
            queued_segments_max: 500,
            queued_bytes_max: 1 << 20,
            retained_segments_max: 8192,
            retained_bytes_max: 65_535,
            total_bytes_max: 256 << 20,
            pinned_bytes_max: 64 << 20,
        }
    }
}

/// A segment as it is offered.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Number of its first byte.
    pub at: u64,
    /// Its bytes, as far as captured.
    pub bytes: &'a [u8],
    /// Its bytes, as the headers claim them.
    pub claimed_bytes: u64,
    /// Numbers that it uses up: the bytes, then a FIN. Fewer than its bytes where numbers count something else,
    /// such as chunks: then all of them go with its first number.
    pub span: u64,
    /// At most four values to remember with it.
    pub metas: &'a [u64],
}

impl Segment<'_> {
    /// Bytes at its front that passed before, where so many of its numbers did.
    fn skipped(&self, old: u64) -> u64 {
        match self.span < self.claimed_bytes {
            true if old > 0 => self.claimed_bytes,
            true => 0,
            false => old.min(self.claimed_bytes),
        }
    }
}

/// What is kept of a direction, only while there is something to keep.
#[derive(Debug, Default)]
struct Kept {
    /// The next number expected, counted from the first one, so that it does not wrap.
    next: u64,
    queue: Queue,
    /// Pieces in order, for `assemble`.
    retained: Vec<Piece>,
}

/// One sequence of the graph.
struct State {
    vars: SequenceVars,
    /// Numbers are taken modulo this plus one.
    mask: u64,
    from_first: bool,
    retain: bool,
    headers_only: bool,
    overwrite: bool,
    kept: HashMap<u64, Kept, BuildIdHasher>,
}

/// Where a segment lies.
struct Place {
    /// Numbers missing before it.
    ahead: u64,
    /// Numbers at its front that have passed.
    old: u64,
    /// Numbers that it uses up.
    span: u64,
}

/// All sequences of a worker.
pub struct Reassembler {
    sequences: Vec<State>,
    limits: SequenceLimits,
    budget: Budget,
    assembly: Assembly,
    counters: SequenceCounters,
}

/// The key of a direction in [`State::kept`].
fn direction(flow: u32, side: bool) -> u64 {
    u64::from(flow) << 1 | u64::from(side)
}

impl State {
    /// Where `segment` lies, seen from the next number expected. Numbers that count from the first one
    /// seen wrap; those that count from 0 don't.
    fn place(&self, next: u64, segment: &Segment<'_>) -> Place {
        let span = segment.span;
        let forward = segment.at.wrapping_sub(next) & self.mask;
        let is_old = if self.from_first { forward > self.mask >> 1 } else { segment.at < next };
        match is_old {
            true => Place { ahead: 0, old: next.wrapping_sub(segment.at) & self.mask, span },
            false => Place { ahead: forward, old: 0, span },
        }
    }
}

impl Reassembler {
    /// The sequences of a graph.
    ///
    /// # Panics
    /// If a sequence's table lacks one of the variables of [`weir_ir::sequence`]: a bug of lowering.
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
            overwrite: sequence.overwrite,
            kept: HashMap::default(),
        });
        Self {
            sequences: sequences.collect(),
            limits,
            budget: Budget::new(limits.pinned_bytes_max),
            assembly: Assembly::default(),
            counters: SequenceCounters::default(),
        }
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

    /// Offers a segment whose bytes lie in `block` (or were assembled here; else they are copied if kept).
    /// The status, and for [`SEQ_ORDERED`] how many claimed bytes at the front have passed before.
    ///
    /// [`SEQ_FORCED`]: nothing passes now, but [`next`](Self::next) has bytes. Either a bound was reached,
    /// or the segment overlaps bytes that came before it, so that only parts of it are wanted.
    /// A segment that uses up no numbers is in order or is nothing; it is never kept.
    ///
    /// In order and nothing queued: constant time, no allocation, nothing but the record is touched.
    pub fn insert(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        segment: Segment<'_>,
        block: &Arc<Block>,
    ) -> (u64, u64) {
        let state = &self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & STARTED == 0 {
            hot.flags |= STARTED;
            hot.next = if state.from_first { segment.at & state.mask } else { 0 };
            state.vars.write(flow.data, side, hot);
        }
        if hot.passed != 0 {
            self.counters.ordered += u64::from(std::mem::take(&mut hot.passed));
            state.vars.write(flow.data, side, hot);
        }
        let place = state.place(hot.next, &segment);
        if place.ahead.max(place.old) > self.limits.window_max {
            self.counters.out_of_window += 1;
            return (SEQ_OUT_OF_WINDOW, 0);
        }
        if place.span == 0 {
            return (if place.ahead | place.old == 0 { SEQ_ORDERED } else { SEQ_QUEUED }, 0);
        }
        if place.old >= place.span {
            self.counters.retransmitted += 1;
            return (SEQ_RETRANSMITTED, 0);
        }
        if place.ahead == 0 && !state.retain && hot.flags & QUEUED == 0 {
            let new = place.span - place.old;
            hot.next = hot.next.wrapping_add(new) & state.mask;
            hot.high = hot.high.wrapping_add(new);
            state.vars.write(flow.data, side, hot);
            self.counters.ordered += 1;
            return (SEQ_ORDERED, segment.skipped(place.old));
        }
        let status = self.keep(sequence, direction(flow.id, side), &mut hot, &segment, &place, block);
        self.sequences[sequence.index()].vars.write(flow.data, side, hot);
        (status, if status == SEQ_ORDERED { segment.skipped(place.old) } else { 0 })
    }

    /// The rest of `insert`: something is kept of this direction, or will be.
    fn keep(
        &mut self,
        sequence: Sequence,
        direction: u64,
        hot: &mut Hot,
        segment: &Segment<'_>,
        place: &Place,
        block: &Arc<Block>,
    ) -> u64 {
        let state = &mut self.sequences[sequence.index()];
        // Where nothing is kept, all that was seen has passed.
        let kept_nothing = hot.flags & (QUEUED | RETAINED) == 0;
        let next = if kept_nothing { hot.high } else { state.kept[&direction].next };
        let start = next + place.ahead;
        let end = start.saturating_add(place.span - place.old);
        let first_queued = if kept_nothing { None } else { state.kept[&direction].queue.first() };
        let overlaps = first_queued.is_some_and(|first| first < end);

        if place.ahead == 0 && !overlaps && !state.retain {
            let kept = state.kept.get_mut(&direction).expect("something is queued");
            kept.next = end;
            hot.next = hot.next.wrapping_add(end - start) & state.mask;
            hot.high = hot.high.max(end);
            self.counters.ordered += 1;
            return SEQ_ORDERED;
        }
        if overlaps && !state.overwrite && state.kept[&direction].queue.covers(start, end) {
            self.counters.retransmitted += 1;
            return SEQ_RETRANSMITTED;
        }
        if state.retain && !self.may_retain(sequence, direction, end) {
            return SEQ_OUT_OF_WINDOW;
        }
        let state = &mut self.sequences[sequence.index()];
        let bytes = if state.headers_only { &[] } else { captured(segment) };
        let piece = Piece {
            // Wraps where it begins before the first number seen.
            start: start.wrapping_sub(place.old),
            span: place.span,
            claimed_bytes: segment.claimed_bytes,
            bytes: refer(bytes, block, &self.assembly, &self.budget, &mut self.counters),
            metas: std::array::from_fn(|n| segment.metas.get(n).copied().unwrap_or(0)),
            last: true,
        }
        .part(start, end);

        let kept = state.kept.entry(direction).or_insert_with(|| Kept { next, ..Kept::default() });
        hot.high = hot.high.max(end);
        if place.ahead == 0 && !overlaps {
            self.budget.keep(&piece.bytes);
            kept.retained.push(piece);
            kept.next = end;
            hot.next = hot.next.wrapping_add(end - start) & state.mask;
            hot.flags |= RETAINED;
            self.counters.ordered += 1;
            return SEQ_ORDERED;
        }
        match state.overwrite {
            true => kept.queue.overwrite(&piece, &mut self.budget),
            false => kept.queue.offer(&piece, &mut self.budget),
        }
        hot.flags |= QUEUED;
        if place.ahead == 0 {
            self.counters.overlapping += 1;
            return SEQ_FORCED;
        }
        self.counters.queued += 1;
        match self.limits.exceeded(kept, &self.budget) {
            Some(_) if !state.retain => SEQ_FORCED,
            _ => SEQ_QUEUED,
        }
    }

    /// Whether one more fragment, up to number `end`, is within the bounds; counts it where it is not.
    fn may_retain(&mut self, sequence: Sequence, direction: u64, end: u64) -> bool {
        let kept = self.sequences[sequence.index()].kept.get(&direction);
        let segments = kept.map_or(0, |kept| kept.queue.len() + kept.retained.len());
        let refused = if end > self.limits.retained_bytes_max {
            &mut self.counters.refused_by_bytes
        } else if segments >= self.limits.retained_segments_max {
            &mut self.counters.refused_by_segments
        } else if self.budget.held_bytes() >= self.limits.total_bytes_max {
            &mut self.counters.refused_by_total
        } else {
            return true;
        };
        *refused += 1;
        false
    }

    /// The next queued bytes that are in order now, or that have to pass because of a bound, with the
    /// gap before them. Call until there are none after an insert that was ordered or forced.
    ///
    /// Nothing queued: constant time, nothing but the record is touched.
    pub fn next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Ordered> {
        self.pass(sequence, flow, side, false)
    }

    /// As [`next`](Self::next), but all that is queued passes, with its gaps: for the end of a flow.
    /// Nothing where the sequence retains: a datagram that lacks fragments is no datagram.
    pub fn flush(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Ordered> {
        if self.sequences[sequence.index()].retain {
            return None;
        }
        self.pass(sequence, flow, side, true)
    }

    fn pass(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool, flush: bool) -> Option<Ordered> {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & QUEUED == 0 {
            return None;
        }
        let direction = direction(flow.id, side);
        let kept = state.kept.get_mut(&direction).expect("something is queued");
        let mut passed = None;
        while passed.is_none()
            && let Some(first) = kept.queue.first()
        {
            let gap_bytes = first - kept.next;
            if gap_bytes > 0 {
                let bound = self.limits.exceeded(kept, &self.budget);
                if state.retain || bound.is_none() && !flush {
                    break;
                }
                match bound {
                    Some(bound) if !flush => bound.count(&mut self.counters),
                    _ => {}
                }
                self.counters.gaps += 1;
                self.counters.gap_bytes += gap_bytes;
                hot.missing_bytes += gap_bytes;
            }
            let piece = kept.queue.pop().expect("there is a first");
            kept.next = piece.end();
            hot.next = hot.next.wrapping_add(gap_bytes + piece.span) & state.mask;
            // What was cut off a retained fragment's front need not pass: its bytes stay here, and its
            // metas go with its end.
            if piece.last || !state.retain {
                passed = Some(Ordered {
                    gap_bytes,
                    bytes: piece.bytes.clone(),
                    claimed_bytes: piece.claimed_bytes,
                    metas: piece.metas,
                });
            }
            if state.retain {
                kept.retained.push(piece);
                hot.flags |= RETAINED;
            } else {
                self.budget.release(&piece.bytes);
            }
        }
        if kept.queue.len() == 0 {
            hot.flags &= !QUEUED;
            if kept.retained.is_empty() {
                state.kept.remove(&direction);
            }
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
        let joined = self.assembly.join(&kept.retained);
        kept.retained.drain(..).for_each(|piece| self.budget.release(&piece.bytes));
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
        kept.map_or(0, |kept| kept.queue.len() + kept.retained.len())
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
            for piece in std::iter::from_fn(|| kept.queue.pop()).chain(kept.retained.drain(..)) {
                self.budget.release(&piece.bytes);
                self.counters.released += 1;
            }
            hot.flags &= !(QUEUED | RETAINED);
            state.vars.write(flow.data, side, hot);
        }
    }
}

/// The bytes of a segment that its headers claim.
fn captured<'a>(segment: &Segment<'a>) -> &'a [u8] {
    let claimed = usize::try_from(segment.claimed_bytes).unwrap_or(usize::MAX);
    &segment.bytes[..segment.bytes.len().min(claimed)]
}

/// Bytes to keep: by reference where that pins no block beyond the bound, else as a copy.
fn refer(
    bytes: &[u8],
    block: &Arc<Block>,
    assembly: &Assembly,
    budget: &Budget,
    counters: &mut SequenceCounters,
) -> Slice {
    if bytes.is_empty() {
        return assembly.nothing();
    }
    match assembly.refer(block, bytes) {
        Some(slice) if budget.may_pin(&slice.block) => slice,
        _ => {
            counters.copied += 1;
            Assembly::copy(bytes)
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

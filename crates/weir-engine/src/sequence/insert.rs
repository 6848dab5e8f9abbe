//! A segment comes: whether it is next, was there before, or is kept; and whose bytes count where it overlaps others.

use super::budget::{Assembly, Budget, within_kept};
use super::frame::{FrameRef, KeptFrame};
use super::piece::{Coming, Piece};
use super::policy::{Policy, Rule};
use super::queue::Meeting;
use super::turn::AWAITING_MAX;
use super::vars::Hot;
use super::{Kept, Kind, Reassembler, State, direction};
use crate::counters::SequenceCounters;
use std::sync::Arc;
use weir_ir::abi::{
    FlowRecord, SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED, Slice,
};
use weir_ir::graph::Sequence;
use weir_ir::sequence::{ACKNOWLEDGES, AHEAD, QUEUED, RETAINED, STARTED, UNAWAITED};
use weir_packet::Block;

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
    /// Whose bytes count where it overlaps others: as its receiver has it. Means nothing where numbers count
    /// something else than bytes, nor in a sequence of neither TCP's kind nor of fragments.
    pub policy: Policy,
    /// There is memory to keep it until it is its turn. Without, one that comes early is refused.
    pub may_wait: bool,
    /// The packet that it came in, to be kept with it.
    pub frame: Option<FrameRef<'a>>,
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inserted {
    /// One of `weir_ir::abi::SEQ_*`.
    pub status: u64,
    /// For [`SEQ_ORDERED`] how many claimed bytes at the front have passed before; else 0.
    pub skip: u64,
    /// Claimed bytes that had passed, and are kept no longer.
    pub retransmitted_bytes: u64,
    /// Claimed bytes that overlap bytes that are still kept: those that wait, and those in order that have not
    /// been assembled.
    pub overlap_bytes: u64,
    /// Of these, captured bytes that differ from those kept.
    pub inconsistent_bytes: u64,
    /// It came before its turn, with something in it.
    pub is_early: bool,
    /// Claimed bytes that came early and were refused, for want of memory or behind a hole that strict reassembly does
    /// not pass over.
    pub refused_bytes: u64,
    /// Of the direction's numbers the one behind these, counted as the sequence counts what it has seen.
    pub refused_end: u64,
}

/// Where a segment lies.
struct Place {
    /// Numbers missing before it.
    ahead: u64,
    /// Numbers at its front that have passed.
    old: u64,
    /// Numbers that it uses up.
    span: u64,
    /// It waits for the other direction.
    waits: bool,
}

/// A segment and what is kept of its direction.
struct Met<'a> {
    /// What has not passed of it, or is still kept.
    coming: Coming<'a>,
    meeting: Meeting,
    rule: Rule,
    /// The next number expected.
    next: u64,
    /// It overlaps something that waits, not only what is in order and retained.
    overlaps_queued: bool,
    /// Bytes at its front that have passed, and are kept no longer.
    passed_bytes: u64,
}

impl<'a> Segment<'a> {
    /// Bytes at its front that passed before, where so many of its numbers did.
    fn skipped(&self, old: u64) -> u64 {
        match self.span < self.claimed_bytes {
            true if old > 0 => self.claimed_bytes,
            true => 0,
            false => old.min(self.claimed_bytes),
        }
    }

    /// Its bytes that the headers claim.
    fn captured(&self) -> &'a [u8] {
        let claimed = usize::try_from(self.claimed_bytes).unwrap_or(usize::MAX);
        &self.bytes[..self.bytes.len().min(claimed)]
    }
}

impl Inserted {
    /// It came early, and begins at `start`.
    fn refused(segment: &Segment<'_>, start: u64) -> Self {
        let refused_bytes = segment.claimed_bytes;
        let refused_end = start + refused_bytes;
        Self { is_early: true, refused_bytes, refused_end, ..Self::of(SEQ_QUEUED) }
    }

    fn of(status: u64) -> Self {
        Self { status, ..Self::default() }
    }
}

impl Met<'_> {
    /// What becomes of it where it was added to what waits. `is_over`: a bound is exceeded now.
    fn wait(&self, place: &Place, is_over: bool, acknowledges: bool, counters: &mut SequenceCounters) -> u64 {
        let (count, status) = match (place.ahead, self.meeting.is_covered) {
            (0, _) if place.waits && !acknowledges && !self.overlaps_queued => {
                (&mut counters.queued, SEQ_QUEUED)
            }
            (0, _) if acknowledges && !self.overlaps_queued => (&mut counters.ordered, SEQ_FORCED),
            (0, _) => (&mut counters.overlapping, SEQ_FORCED),
            (_, true) => (&mut counters.retransmitted, SEQ_RETRANSMITTED),
            (_, false) => (&mut counters.queued, SEQ_QUEUED),
        };
        *count += 1;
        // Also where it only displaced: what it cut in two may be too many pieces. And where the other direction's
        // bytes are next.
        if is_over || acknowledges && status == SEQ_QUEUED { SEQ_FORCED } else { status }
    }
}

impl State {
    /// Where `segment` lies, seen from the next number expected. Numbers that count from the first one
    /// seen wrap; those that count from 0 don't.
    fn place(&self, next: u64, segment: &Segment<'_>) -> Place {
        let span = segment.span;
        let forward = segment.at.wrapping_sub(next) & self.mask;
        let is_old = if self.from_first { forward > self.mask >> 1 } else { segment.at < next };
        match is_old {
            true => Place { ahead: 0, old: next.wrapping_sub(segment.at) & self.mask, span, waits: false },
            false => Place { ahead: forward, old: 0, span, waits: false },
        }
    }

    /// Whose bytes count where `segment` overlaps others.
    fn rule(&self, segment: &Segment<'_>) -> Rule {
        match self.kind {
            Kind::Overwriting => Rule::Always,
            // All bytes go with the first number: nothing can be cut.
            _ if segment.span < segment.claimed_bytes => Rule::Never,
            Kind::Fragments if self.distinct => Rule::Never,
            Kind::Fragments => segment.policy.of_fragments(),
            Kind::Segments => segment.policy.of_segments(),
            Kind::Other => Rule::Never,
        }
    }
}

impl Reassembler {
    /// Offers a segment whose bytes lie in `block` (or were assembled here; else they are copied if kept).
    ///
    /// [`SEQ_FORCED`]: nothing passes now, but [`next`](Self::next) has bytes. Either a bound was reached,
    /// or the segment overlaps bytes that came before it, so that only parts of it are wanted.
    /// [`SEQ_RETRANSMITTED`]: all its numbers were there before; its bytes may count in place of those kept.
    /// Where they do in what is in order and retained, up to its last one, it is [`SEQ_ORDERED`]: what goes with its
    /// end counts, too.
    /// A segment that uses up no numbers is in order or is nothing; it is never kept. One that
    /// [acknowledges](Self::acknowledge) what the other direction lacks waits until that has passed ([`SEQ_QUEUED`]).
    ///
    /// In order and nothing queued: constant time, no allocation, nothing but the record is touched.
    pub fn insert(
        &mut self,
        sequence: Sequence,
        mut flow: FlowRecord<'_>,
        side: bool,
        segment: Segment<'_>,
        block: &Arc<Block>,
    ) -> Inserted {
        let mut hot = self.begin(sequence, &mut flow, side, segment.at);
        let ahead = hot.flags & AHEAD != 0;
        let awaits = ahead.then(|| self.take_ahead(sequence, &mut flow, side)).flatten();
        let awaits = awaits.filter(|_| segment.may_wait);
        hot.flags &= !AHEAD;
        let state = &self.sequences[sequence.index()];
        let place = state.place(hot.next, &segment);
        if place.ahead.max(place.old) > self.limits.window_max {
            self.counters.out_of_window += 1;
            return Inserted::of(SEQ_OUT_OF_WINDOW);
        }
        let (mut goes_on, mut is_short) = (false, false);
        if place.ahead > 0 {
            goes_on = self.goes_on(sequence, &mut flow, side, segment.at);
            hot.flags |= if goes_on { UNAWAITED } else { 0 };
            is_short = !segment.may_wait && self.give_up_waiting(sequence, &mut flow, side);
        }
        let state = &self.sequences[sequence.index()];
        if place.span == 0 {
            let waits = if goes_on || hot.flags & ACKNOWLEDGES != 0 { SEQ_FORCED } else { SEQ_QUEUED };
            return Inserted::of(if place.ahead | place.old == 0 { SEQ_ORDERED } else { waits });
        }
        let passed_bytes = segment.skipped(place.old);
        if place.old >= place.span && hot.flags & RETAINED == 0 {
            self.counters.retransmitted += 1;
            return Inserted { retransmitted_bytes: passed_bytes, ..Inserted::of(SEQ_RETRANSMITTED) };
        }
        let waits = hot.flags & (QUEUED | ACKNOWLEDGES) != 0 || awaits.is_some();
        if place.ahead == 0 && !state.retain && !waits {
            hot.pass(place.span - place.old, state.mask);
            state.vars.write(flow.data, side, hot);
            self.counters.ordered += 1;
            let (skip, retransmitted_bytes) = (passed_bytes, passed_bytes);
            return Inserted { skip, retransmitted_bytes, ..Inserted::of(SEQ_ORDERED) };
        }
        let refuses = place.ahead > 0 && !state.retain;
        let is_behind_hole = refuses && self.is_refused(sequence, direction(flow.id, side));
        if refuses && (is_behind_hole || !segment.may_wait && !is_short) {
            self.counters.refused_behind_hole += u64::from(is_behind_hole);
            // Where nothing is kept, all that was seen has passed.
            let kept = state.kept.get(&direction(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
            return Inserted::refused(&segment, kept.map_or(hot.high, |kept| kept.next) + place.ahead);
        }
        let place = Place { waits: awaits.is_some(), ..place };
        let (mut inserted, start) =
            self.keep(sequence, direction(flow.id, side), &mut hot, &segment, &place, block);
        if inserted.status == SEQ_ORDERED {
            inserted.skip = passed_bytes;
        }
        self.sequences[sequence.index()].vars.write(flow.data, side, hot);
        if let Some((start, number)) = start.zip(awaits) {
            self.await_other(sequence, flow, side, start, number);
        }
        if (goes_on || is_short) && inserted.status == SEQ_QUEUED {
            inserted.status = SEQ_FORCED;
        }
        inserted
    }

    /// The state of a direction of which a segment comes that begins at `at`; what its program passed is counted.
    fn begin(&mut self, sequence: Sequence, flow: &mut FlowRecord<'_>, side: bool, at: u64) -> Hot {
        let state = &self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if hot.flags & STARTED == 0 {
            hot.flags |= STARTED;
            hot.next = if state.from_first { at & state.mask } else { 0 };
            state.vars.write(flow.data, side, hot);
        }
        if hot.passed != 0 {
            self.counters.ordered += u64::from(std::mem::take(&mut hot.passed));
            state.vars.write(flow.data, side, hot);
        }
        hot
    }

    /// The rest of `insert`: something is kept of this direction, or will be. Of a segment that is kept until its turn,
    /// where it begins, too.
    fn keep(
        &mut self,
        sequence: Sequence,
        direction: u64,
        hot: &mut Hot,
        segment: &Segment<'_>,
        place: &Place,
        block: &Arc<Block>,
    ) -> (Inserted, Option<u64>) {
        let retain = self.sequences[sequence.index()].retain;
        let Some(met) = self.meet(sequence, direction, hot, segment, place) else {
            self.counters.retransmitted += 1;
            let retransmitted_bytes = segment.skipped(place.old);
            return (Inserted { retransmitted_bytes, ..Inserted::of(SEQ_RETRANSMITTED) }, None);
        };
        let mut start = None;
        // What it stands behind has come, and waits for the other direction.
        let kept = self.sequences[sequence.index()].kept.get(&direction);
        let is_behind_awaiting = kept.is_some_and(Kept::is_awaiting);
        let (next, end) = (met.next, met.coming.end());
        self.counters.overlap_bytes += met.meeting.overlap_bytes;
        self.counters.inconsistent_bytes += met.meeting.inconsistent_bytes;
        let acknowledges = hot.flags & ACKNOWLEDGES != 0;
        let is_next = place.ahead == 0 && !met.overlaps_queued && !acknowledges && !place.waits;
        let status = if self.gives_up(sequence, direction, &met, hot) {
            SEQ_OUT_OF_WINDOW
        } else if is_next && !retain {
            let state = &mut self.sequences[sequence.index()];
            state.kept.get_mut(&direction).expect("something is queued").pass_to(end, hot, state.mask);
            self.counters.ordered += 1;
            SEQ_ORDERED
        } else if met.meeting.is_covered && !met.meeting.displaces {
            self.counters.retransmitted += 1;
            SEQ_RETRANSMITTED
        } else if retain && !self.may_retain(sequence, direction, end) {
            SEQ_OUT_OF_WINDOW
        } else {
            self.add(sequence, direction, segment, &met, block);
            let state = &mut self.sequences[sequence.index()];
            let kept = state.kept.get_mut(&direction).expect("it was added");
            hot.high = hot.high.max(end);
            if !is_next {
                hot.flags |= QUEUED;
                start = Some(met.coming.start);
                let is_over = !retain
                    && (kept.awaited.len() > AWAITING_MAX
                        || self.limits.exceeded(kept, &self.budget).is_some());
                met.wait(place, is_over, acknowledges, &mut self.counters)
            } else if end > next {
                kept.pass_to(end, hot, state.mask);
                hot.flags |= RETAINED;
                self.counters.ordered += 1;
                SEQ_ORDERED
            } else {
                self.counters.overlapping += 1;
                if met.meeting.ends { SEQ_ORDERED } else { SEQ_RETRANSMITTED }
            }
        };
        let inserted = Inserted {
            status,
            skip: 0,
            retransmitted_bytes: met.passed_bytes,
            overlap_bytes: met.meeting.overlap_bytes,
            inconsistent_bytes: met.meeting.inconsistent_bytes,
            is_early: place.ahead > 0 && !is_behind_awaiting,
            refused_bytes: 0,
            refused_end: 0,
        };
        (inserted, start)
    }

    /// How a segment lies to what is kept of its direction. `None` where all of it has passed, and is kept no longer.
    fn meet<'a>(
        &self,
        sequence: Sequence,
        direction: u64,
        hot: &Hot,
        segment: &Segment<'a>,
        place: &Place,
    ) -> Option<Met<'a>> {
        let state = &self.sequences[sequence.index()];
        // Where nothing is kept, all that was seen has passed.
        let nothing = Kept { next: hot.high, ..Kept::default() };
        let kept = if hot.flags & (QUEUED | RETAINED) == 0 { &nothing } else { &state.kept[&direction] };
        let next = kept.next;
        let oldest = if hot.flags & RETAINED == 0 { next } else { kept.queue.first().unwrap_or(next) };
        let passed = place.old.saturating_sub(next - oldest);
        if passed >= place.span {
            return None;
        }
        let start = next + place.ahead - (place.old - passed);
        // Wraps where it begins before the first number seen.
        let (whole_start, span) = (start.wrapping_sub(passed), place.span);
        let (claimed_bytes, bytes) = (segment.claimed_bytes, segment.captured());
        let coming = Coming { start: whole_start, span, claimed_bytes, bytes }.behind(start);
        let rule = state.rule(segment);
        Some(Met {
            meeting: kept.queue.meet(&coming, rule),
            overlaps_queued: kept.queue.first_from(next).is_some_and(|first| first < coming.end()),
            passed_bytes: segment.skipped(passed),
            next,
            rule,
            coming,
        })
    }

    /// Adds what counts of a segment to what is kept.
    fn add(
        &mut self,
        sequence: Sequence,
        direction: u64,
        segment: &Segment<'_>,
        met: &Met<'_>,
        block: &Arc<Block>,
    ) {
        let state = &mut self.sequences[sequence.index()];
        let bytes = if state.headers_only { &[] } else { met.coming.bytes };
        let mut refer = |bytes| refer(bytes, block, &self.assembly, &self.budget, &mut self.counters);
        let frame = segment.frame.filter(|_| !bytes.is_empty());
        let frame = frame.map(|frame| (frame.bytes, KeptFrame::new(*frame.meta, refer(frame.bytes))));
        let within = |(all, kept): &(&[u8], KeptFrame)| within_kept(&kept.bytes, all, bytes);
        let piece = Piece {
            start: met.coming.start,
            span: met.coming.span,
            claimed_bytes: met.coming.claimed_bytes,
            // A datagram that was put together lies elsewhere than the packet that completed it.
            bytes: frame.as_ref().and_then(within).unwrap_or_else(|| refer(bytes)),
            metas: std::array::from_fn(|n| segment.metas.get(n).copied().unwrap_or(0)),
            last: true,
            frame: frame.map(|(_, frame)| Arc::new(frame)),
        };
        let kept = state.kept.entry(direction);
        let kept = kept.or_insert_with(|| Kept { next: met.next, ..Kept::default() });
        kept.queue.add(&piece, met.rule, &mut self.budget);
    }

    /// Whether no more segments may wait, as holes are not passed over.
    fn is_refused(&self, sequence: Sequence, direction: u64) -> bool {
        let state = &self.sequences[sequence.index()];
        if !self.limits.strict || state.kind != Kind::Segments {
            return false;
        }
        let nothing = Kept::default();
        self.limits.exceeded(state.kept.get(&direction).unwrap_or(&nothing), &self.budget).is_some()
    }

    /// Whether a fragment, or one before it, brings something new and something that was there where that may not be: what
    /// is kept is let go then, no more is taken until the instance ends, and nothing is assembled.
    fn gives_up(&mut self, sequence: Sequence, direction: u64, met: &Met<'_>, hot: &mut Hot) -> bool {
        let state = &mut self.sequences[sequence.index()];
        let overlaps = met.meeting.overlap_bytes > 0 && !met.meeting.is_covered;
        if !state.distinct || !overlaps && state.kept.get(&direction).is_none_or(|kept| !kept.is_given_up) {
            return false;
        }
        self.counters.refused_by_overlap += 1;
        let kept = state.kept.entry(direction).or_default();
        kept.is_given_up = true;
        while let Some(piece) = kept.queue.pop() {
            self.budget.release(&piece);
        }
        hot.flags = hot.flags & !QUEUED | RETAINED;
        true
    }

    /// Whether one more fragment, up to number `end`, is within the bounds; counts it where it is not.
    fn may_retain(&mut self, sequence: Sequence, direction: u64, end: u64) -> bool {
        let kept = self.sequences[sequence.index()].kept.get(&direction);
        let refused = if end > self.limits.retained_bytes_max {
            &mut self.counters.refused_by_bytes
        } else if kept.map_or(0, |kept| kept.queue.len()) >= self.limits.retained_segments_max {
            &mut self.counters.refused_by_segments
        } else if self.budget.held_bytes() >= self.limits.total_bytes_max {
            &mut self.counters.refused_by_total
        } else {
            return true;
        };
        *refused += 1;
        false
    }
}

/// Bytes to keep: by reference where their block may be held and that pins no block beyond the bound, else as a copy.
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
    let held = assembly.refer(block, bytes).and_then(Slice::hold);
    held.filter(|slice| budget.may_pin(&slice.block)).unwrap_or_else(|| {
        counters.copied += 1;
        Slice::copy_of(bytes)
    })
}

//! Inserts a segment: decides whether it is next, a retransmission, or kept, and which bytes win in overlaps.

use super::awaited::AWAITING_MAX;
use super::budget::{Assembly, Budget, within_kept};
use super::frame::{FrameRef, KeptFrame};
use super::piece::{Coming, Piece};
use super::policy::{Policy, Rule};
use super::queue::Meeting;
use super::vars::Hot;
use super::{Kept, Kind, Reassembler, State, stream_key};
use crate::counters::SequenceCounters;
use std::sync::Arc;
use weir_ir::abi::{
    FlowRecord, SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED, Slice,
};
use weir_ir::graph::Sequence;
use weir_ir::sequence::{ACKNOWLEDGES, AHEAD, ENDED, FINISHED, QUEUED, RETAINED, STARTED, UNAWAITED};
use weir_packet::{Block, Direction};

/// A segment that is offered to a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Number of its first byte.
    pub at: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The number of bytes that the headers claim.
    pub claimed_bytes: u64,
    /// Sequence numbers that the segment uses: its bytes, then a FIN. Fewer than its bytes if the numbers
    /// count something else, such as chunks: all bytes then belong to the first number.
    pub span: u64,
    /// Up to four values to store with the segment.
    pub metas: &'a [u64],
    /// The receiver's policy for overlaps. It has no effect if the numbers do not count bytes, or if the
    /// sequence is neither TCP-like nor made of fragments.
    pub policy: Policy,
    /// There is memory to keep the segment until it is next. If `false`, an out-of-order segment is refused.
    pub may_wait: bool,
    /// The packet that the segment came in, to be kept with it.
    pub frame: Option<FrameRef<'a>>,
}

/// The result of inserting a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inserted {
    /// One of `weir_ir::abi::SEQ_*`.
    pub status: u64,
    /// For [`SEQ_ORDERED`]: claimed bytes at the front that have passed before; else 0.
    pub skip: u64,
    /// Claimed bytes that have passed before and are no longer kept.
    pub retransmitted_bytes: u64,
    /// Claimed bytes that overlap kept bytes: bytes that wait, and in-order bytes that have not been
    /// assembled.
    pub overlap_bytes: u64,
    /// Captured bytes within the overlap that differ from the kept ones.
    pub inconsistent_bytes: u64,
    /// The segment is out of order and not empty.
    pub is_early: bool,
    /// Claimed out-of-order bytes that were refused, for lack of memory or because strict reassembly does not
    /// pass over the hole before them.
    pub refused_bytes: u64,
    /// Claimed bytes with sequence numbers before the first one of the direction, after its FIN, or too far
    /// from the next one.
    pub outside_bytes: u64,
    /// The number after the refused bytes, counted from the first number seen of the direction.
    pub refused_end: u64,
}

/// The position of a segment relative to the next number expected.
struct Place {
    /// Numbers missing before the segment.
    ahead: u64,
    /// Numbers at the segment's front that have passed.
    old: u64,
    /// Numbers that the segment uses.
    span: u64,
    /// The segment waits for the other direction.
    waits: bool,
}

/// A segment compared with the kept pieces of its direction.
struct Met<'a> {
    /// The part of the segment that has not passed, or is still kept.
    coming: Coming<'a>,
    meeting: Meeting,
    rule: Rule,
    /// The next number expected.
    next: u64,
    /// The segment overlaps waiting bytes, and not only retained in-order bytes.
    overlaps_queued: bool,
    /// Bytes at the segment's front that have passed and are no longer kept.
    passed_bytes: u64,
}

impl<'a> Segment<'a> {
    /// Bytes at the segment's front that passed before, given that `old` of its numbers passed.
    fn skipped(&self, old: u64) -> u64 {
        match self.span < self.claimed_bytes {
            true if old > 0 => self.claimed_bytes,
            true => 0,
            false => old.min(self.claimed_bytes),
        }
    }

    /// The captured bytes, cut to the length that the headers claim.
    fn captured(&self) -> &'a [u8] {
        let claimed = usize::try_from(self.claimed_bytes).unwrap_or(usize::MAX);
        &self.bytes[..self.bytes.len().min(claimed)]
    }
}

impl Inserted {
    /// The result for a segment outside of the window or after the end, of which some bytes have passed
    /// before.
    fn outside(outside_bytes: u64, retransmitted_bytes: u64) -> Self {
        Self { outside_bytes, retransmitted_bytes, ..Self::of(SEQ_OUT_OF_WINDOW) }
    }

    /// The result for a refused out-of-order segment that begins at `start`.
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
    /// The status of a segment that was added to the waiting ones. `is_over`: a bound is exceeded now.
    /// `is_behind_end`: the segment waits behind a provisional end.
    fn wait(
        &self,
        place: &Place,
        is_over: bool,
        is_behind_end: bool,
        acknowledges: bool,
        counters: &mut SequenceCounters,
    ) -> u64 {
        let (count, status) = match (place.ahead, self.meeting.is_covered) {
            (0, _) if is_behind_end && !acknowledges => (&mut counters.queued, SEQ_QUEUED),
            (0, _) if place.waits && !acknowledges && !self.overlaps_queued => {
                (&mut counters.queued, SEQ_QUEUED)
            }
            (0, _) if acknowledges && !self.overlaps_queued => (&mut counters.ordered, SEQ_FORCED),
            (0, _) => (&mut counters.overlapping, SEQ_FORCED),
            (_, true) => (&mut counters.retransmitted, SEQ_RETRANSMITTED),
            (_, false) => (&mut counters.queued, SEQ_QUEUED),
        };
        *count += 1;
        // This includes a segment that only displaced bytes, because splitting a piece in two may exceed the
        // bound on pieces; and the case that bytes of the other direction are next.
        if is_over || acknowledges && status == SEQ_QUEUED { SEQ_FORCED } else { status }
    }
}

impl State {
    /// The position of `segment` relative to the next number expected. Numbers relative to the first one seen
    /// wrap; numbers that count from 0 do not.
    fn place(&self, next: u64, segment: &Segment<'_>) -> Place {
        let span = segment.span;
        let forward = segment.at.wrapping_sub(next) & self.mask;
        let is_old = if self.from_first { forward > self.mask >> 1 } else { segment.at < next };
        match is_old {
            true => Place { ahead: 0, old: next.wrapping_sub(segment.at) & self.mask, span, waits: false },
            false => Place { ahead: forward, old: 0, span, waits: false },
        }
    }

    /// The rule for overlaps between `segment` and kept pieces.
    fn rule(&self, segment: &Segment<'_>) -> Rule {
        match self.kind {
            Kind::Overwriting => Rule::Always,
            // All bytes belong to the first number, so no part can be cut off.
            _ if segment.span < segment.claimed_bytes => Rule::Never,
            Kind::Fragments if self.distinct => Rule::Never,
            Kind::Fragments => segment.policy.of_fragments(),
            Kind::Segments => segment.policy.of_segments(),
            Kind::Other => Rule::Never,
        }
    }
}

impl Reassembler {
    /// Inserts a segment whose bytes lie in `block` or in an assembled block; other bytes are copied if kept.
    ///
    /// * [`SEQ_FORCED`]: the segment itself does not pass now, but [`next`](Self::next) has bytes: a bound
    ///   was reached, or the segment overlaps earlier bytes, so that only parts of it win.
    /// * [`SEQ_RETRANSMITTED`]: all numbers of the segment have arrived before; its bytes may replace kept
    ///   ones. If they replace retained in-order bytes up to the last one, the status is [`SEQ_ORDERED`],
    ///   because the values at the segment's end are then used as well.
    /// * [`SEQ_QUEUED`]: the segment does not pass now. A segment that [acknowledges](Self::acknowledge)
    ///   missing bytes of the other direction waits until they have passed.
    ///
    /// A segment that uses no numbers is never kept: it is either in order or ignored.
    ///
    /// The FIN of a TCP segment is a [provisional end](super::ends), and no number of the sequence.
    ///
    /// In order with an empty queue: constant time, no allocation, only the flow's record is accessed.
    pub fn insert(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        segment: Segment<'_>,
        block: &Arc<Block>,
    ) -> Inserted {
        self.pure = (segment.span == 0).then(|| (sequence, stream_key(flow.id, side)));
        let FlowRecord { id, data } = flow;
        if segment.span > 0 {
            self.keep_finished(sequence, FlowRecord { id, data: &mut *data }, side);
            self.release_held_before(sequence, FlowRecord { id, data: &mut *data }, side, segment.at);
        }
        let flow = FlowRecord { id, data: &mut *data };
        if self.sequences[sequence.index()].kind != Kind::Segments || !segment.has_fin() {
            return self.insert_bytes(sequence, flow, side, segment, block);
        }
        // Bytes that wait pass without the values of the FIN, which passes after them.
        let bytes = Segment { span: segment.claimed_bytes, metas: &[], ..segment };
        let mut inserted = self.insert_bytes(sequence, flow, side, bytes, block);
        self.insert_fin(sequence, FlowRecord { id, data }, side, &segment, &mut inserted);
        inserted
    }

    /// Inserts a segment without FIN.
    fn insert_bytes(
        &mut self,
        sequence: Sequence,
        mut flow: FlowRecord<'_>,
        side: Direction,
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
            return Inserted::outside(segment.claimed_bytes, 0);
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
            // After its FIN, a side acknowledges with the number behind the FIN.
            let is_next = place.ahead | place.old == 0
                || place.ahead == 1 && hot.flags & FINISHED != 0
                || place.ahead == 1 && hot.flags & QUEUED != 0 && {
                    let kept = state.kept.get(stream_key(flow.id, side));
                    kept.is_some_and(|kept| kept.ends.was_told(kept.next))
                };
            return Inserted::of(if is_next { SEQ_ORDERED } else { waits });
        }
        let passed_bytes = segment.skipped(place.old);
        let early_bytes = self.early_bytes(sequence, stream_key(flow.id, side), &hot, &segment, &place);
        if place.old >= place.span && hot.flags & RETAINED == 0 {
            let inserted = Inserted::outside(early_bytes, passed_bytes - early_bytes);
            if early_bytes == passed_bytes && early_bytes > 0 {
                self.counters.out_of_window += 1;
                return inserted;
            }
            self.counters.retransmitted += 1;
            return Inserted { status: SEQ_RETRANSMITTED, ..inserted };
        }
        if hot.flags & ENDED != 0 {
            self.counters.out_of_window += 1;
            let outside_bytes = segment.claimed_bytes - passed_bytes + early_bytes;
            return Inserted::outside(outside_bytes, passed_bytes - early_bytes);
        }
        let waits = hot.flags & (QUEUED | ACKNOWLEDGES) != 0 || awaits.is_some();
        if place.ahead == 0 && !state.retain && !waits {
            hot.pass(place.span - place.old, state.mask);
            state.vars.write(flow.data, side, hot);
            self.counters.ordered += 1;
            let (skip, outside_bytes) = (passed_bytes, early_bytes);
            let retransmitted_bytes = passed_bytes - early_bytes;
            return Inserted { skip, retransmitted_bytes, outside_bytes, ..Inserted::of(SEQ_ORDERED) };
        }
        let refuses = place.ahead > 0 && !state.retain;
        let is_behind_hole = refuses && self.is_refused(sequence, stream_key(flow.id, side));
        if refuses && (is_behind_hole || !segment.may_wait && !is_short) {
            self.counters.refused_behind_hole += u64::from(is_behind_hole);
            // If nothing is kept, all numbers seen have passed.
            let kept = state.kept.get(stream_key(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
            return Inserted::refused(&segment, kept.map_or(hot.high, |kept| kept.next) + place.ahead);
        }
        let has_moved_on = self.has_moved_on(sequence, stream_key(flow.id, side), &hot, place.ahead);
        let place = Place { waits: awaits.is_some(), ..place };
        let (mut inserted, start) =
            self.keep(sequence, stream_key(flow.id, side), &mut hot, &segment, &place, block);
        if inserted.status == SEQ_ORDERED {
            inserted.skip = passed_bytes;
        }
        inserted.outside_bytes += early_bytes.min(inserted.retransmitted_bytes);
        inserted.retransmitted_bytes -= early_bytes.min(inserted.retransmitted_bytes);
        self.sequences[sequence.index()].vars.write(flow.data, side, hot);
        if let Some((start, number)) = start.zip(awaits) {
            self.await_other(sequence, flow, side, start, number);
        }
        if (goes_on || is_short || has_moved_on) && inserted.status == SEQ_QUEUED {
            inserted.status = SEQ_FORCED;
        }
        inserted
    }

    /// Whether a segment lies behind everything that its receiver acknowledged, while bytes wait behind an
    /// acknowledged hole: the hole will not be filled.
    fn has_moved_on(&self, sequence: Sequence, stream: u64, hot: &Hot, ahead: u64) -> bool {
        let kept = self.sequences[sequence.index()].kept.get(stream).filter(|_| hot.flags & QUEUED != 0);
        kept.is_some_and(|kept| {
            kept.first().is_some_and(|first| first <= kept.acknowledged)
                && kept.next + ahead >= kept.acknowledged
        })
    }

    /// Bytes at a segment's front before the first number of the direction: they never pass.
    fn early_bytes(
        &self,
        sequence: Sequence,
        stream: u64,
        hot: &Hot,
        segment: &Segment<'_>,
        place: &Place,
    ) -> u64 {
        let state = &self.sequences[sequence.index()];
        if place.old == 0 || state.retain {
            return 0;
        }
        let kept = state.kept.get(stream).filter(|_| hot.flags & QUEUED != 0);
        // If nothing is kept, all numbers seen have passed.
        let passed = kept.map_or(hot.high, |kept| kept.next);
        segment.skipped(place.old.saturating_sub(passed))
    }

    /// Passes the `count` numbers before `end`, which were counted elsewhere without their bytes. If other
    /// numbers are missing before them, they wait like a segment.
    pub fn pass_counted(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: Direction,
        end: u64,
        count: u64,
    ) {
        let State { vars, mask, .. } = &self.sequences[sequence.index()];
        let at = end.wrapping_sub(count) & mask;
        let mut hot = vars.read(flow.data, side);
        if hot.flags == STARTED && hot.next == at {
            hot.pass(count, *mask);
            vars.write(flow.data, side, hot);
            return;
        }
        let segment = Segment {
            at,
            bytes: &[],
            claimed_bytes: count,
            span: count,
            metas: &[0],
            policy: Policy::default(),
            may_wait: true,
            frame: None,
        };
        // The next packet, or the end of the flow, passes what waits.
        self.insert(sequence, flow, side, segment, &Arc::new(Block::default()));
    }

    /// The state of a direction before a segment that begins at `at`; counts the segments that the program
    /// passed by itself.
    pub(super) fn begin(
        &mut self,
        sequence: Sequence,
        flow: &mut FlowRecord<'_>,
        side: Direction,
        at: u64,
    ) -> Hot {
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

    /// The slow part of `insert`: something of this direction is kept, or will be. Also returns the start of
    /// a segment that is kept until it is next.
    fn keep(
        &mut self,
        sequence: Sequence,
        stream: u64,
        hot: &mut Hot,
        segment: &Segment<'_>,
        place: &Place,
        block: &Arc<Block>,
    ) -> (Inserted, Option<u64>) {
        let retain = self.sequences[sequence.index()].retain;
        let Some(met) = self.meet(sequence, stream, hot, segment, place) else {
            self.counters.retransmitted += 1;
            let retransmitted_bytes = segment.skipped(place.old);
            return (Inserted { retransmitted_bytes, ..Inserted::of(SEQ_RETRANSMITTED) }, None);
        };
        let mut start = None;
        // The segment is next, but the one before it waits for the other direction.
        let kept = self.sequences[sequence.index()].kept.get(stream);
        let is_behind_awaiting = kept.is_some_and(Kept::is_awaiting);
        let limit = kept.map_or(u64::MAX, |kept| kept.ends.limit());
        let (next, end) = (met.next, met.coming.end());
        self.counters.overlap_bytes += met.meeting.overlap_bytes;
        self.counters.inconsistent_bytes += met.meeting.inconsistent_bytes;
        let acknowledges = hot.flags & ACKNOWLEDGES != 0;
        let is_next =
            place.ahead == 0 && !met.overlaps_queued && !acknowledges && !place.waits && end <= limit;
        let status = if self.gives_up(sequence, stream, &met, hot) {
            SEQ_OUT_OF_WINDOW
        } else if is_next && !retain {
            let state = &mut self.sequences[sequence.index()];
            state.kept.get_mut(stream).expect("something is queued").pass_to(end, hot, state.mask);
            self.counters.ordered += 1;
            SEQ_ORDERED
        } else if met.meeting.is_covered && !met.meeting.displaces {
            self.counters.retransmitted += 1;
            SEQ_RETRANSMITTED
        } else if retain && !self.may_retain(sequence, stream, end) {
            SEQ_OUT_OF_WINDOW
        } else {
            self.add(sequence, stream, segment, &met, block);
            let state = &mut self.sequences[sequence.index()];
            let kept = state.kept.get_mut(stream).expect("it was added");
            hot.high = hot.high.max(end);
            if !is_next {
                hot.flags |= QUEUED;
                start = Some(met.coming.start);
                let is_over = !retain
                    && (kept.awaited.len() > AWAITING_MAX
                        || self.limits.exceeded(kept, &self.budget).is_some());
                let is_behind_end = met.coming.start >= limit;
                met.wait(place, is_over, is_behind_end, acknowledges, &mut self.counters)
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
            outside_bytes: 0,
            refused_end: 0,
        };
        (inserted, start)
    }

    /// Compares a segment with the kept pieces. `None` if all of it has passed and is no longer kept.
    fn meet<'a>(
        &self,
        sequence: Sequence,
        stream: u64,
        hot: &Hot,
        segment: &Segment<'a>,
        place: &Place,
    ) -> Option<Met<'a>> {
        let state = &self.sequences[sequence.index()];
        // If nothing is kept, all numbers seen have passed.
        let nothing = Kept { next: hot.high, ..Kept::default() };
        let kept = if hot.flags & (QUEUED | RETAINED) == 0 {
            &nothing
        } else {
            state.kept.get(stream).expect("something is kept")
        };
        let next = kept.next;
        let oldest = if hot.flags & RETAINED == 0 { next } else { kept.queue.first().unwrap_or(next) };
        let passed = place.old.saturating_sub(next - oldest);
        if passed >= place.span {
            return None;
        }
        let start = next + place.ahead - (place.old - passed);
        // Wraps if the segment begins before the first number seen.
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

    /// Adds the winning parts of a segment to the kept pieces.
    fn add(
        &mut self,
        sequence: Sequence,
        stream: u64,
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
            // A datagram that was reassembled lies elsewhere than the packet that completed it.
            bytes: frame.as_ref().and_then(within).unwrap_or_else(|| refer(bytes)),
            metas: std::array::from_fn(|n| segment.metas.get(n).copied().unwrap_or(0)),
            last: true,
            frame: frame.map(|(_, frame)| Arc::new(frame)),
        };
        let kept = state.kept.entry(stream, met.next, &mut self.budget);
        kept.queue.add(&piece, met.rule, &mut self.budget);
    }

    /// Whether no more segments may wait, because holes are not passed over.
    fn is_refused(&self, sequence: Sequence, stream: u64) -> bool {
        let state = &self.sequences[sequence.index()];
        if !self.limits.strict || state.kind != Kind::Segments {
            return false;
        }
        let nothing = Kept::default();
        self.limits.exceeded(state.kept.get(stream).unwrap_or(&nothing), &self.budget).is_some()
    }

    /// Whether fragments must be discarded because this fragment, or an earlier one, partly overlaps kept
    /// ones where that is not allowed. The kept fragments are released then, no more are accepted until the
    /// instance ends, and nothing is assembled.
    fn gives_up(&mut self, sequence: Sequence, stream: u64, met: &Met<'_>, hot: &mut Hot) -> bool {
        let state = &mut self.sequences[sequence.index()];
        let overlaps = met.meeting.overlap_bytes > 0 && !met.meeting.is_covered;
        if !state.distinct || !overlaps && state.kept.get(stream).is_none_or(|kept| !kept.is_given_up) {
            return false;
        }
        self.counters.refused_by_overlap += 1;
        let kept = state.kept.entry(stream, 0, &mut self.budget);
        kept.is_given_up = true;
        while let Some(piece) = kept.queue.pop() {
            self.budget.release(&piece);
        }
        hot.flags = hot.flags & !QUEUED | RETAINED;
        true
    }

    /// Whether one more fragment, up to number `end`, is within the bounds; counts the fragment if not.
    fn may_retain(&mut self, sequence: Sequence, stream: u64, end: u64) -> bool {
        let kept = self.sequences[sequence.index()].kept.get(stream);
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

/// Keeps bytes: by reference if their block may be held and does not exceed the bound on pinned bytes, else
/// as a copy.
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

//! The first and the last number of a direction, as its layer knows them: the receiver confirms where the
//! bytes begin, and a FIN says where they end. Without these, a sequence begins with the first segment seen,
//! which may be forged, and ends with its flow.

use super::{Kept, Kind, Reassembler, stream_key};
use weir_ir::abi::FlowRecord;
use weir_ir::graph::Sequence;
use weir_ir::sequence::{ENDED, FINISHED, QUEUED, STARTED};
use weir_packet::Direction;

impl Reassembler {
    /// Records that the numbers of a direction begin at `at`. Queued segments keep their numbers; those
    /// before `at` are discarded. No effect once numbers of the direction have passed, or if the sequence
    /// begins at 0.
    ///
    /// Returns the claimed bytes of the discarded segments.
    pub fn confirm(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction, at: u64) -> u64 {
        let FlowRecord { id, data } = flow;
        self.keep_finished(sequence, FlowRecord { id, data: &mut *data }, side);
        let flow = FlowRecord { id, data };
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        let at = at & state.mask;
        if !state.from_first || state.retain || hot.flags & STARTED != 0 && hot.next == at {
            return 0;
        }
        let stream = stream_key(flow.id, side);
        let kept = state.kept.get_mut(stream).filter(|_| hot.flags & QUEUED != 0);
        if kept.as_ref().map_or(hot.high, |kept| kept.next) > 0 {
            return 0;
        }
        let moved = hot.next.wrapping_sub(at) & state.mask;
        (hot.next, hot.high) = (at, 0);
        hot.flags |= STARTED;
        let mut outside_bytes = 0;
        if let Some(kept) = kept {
            let pieces = std::iter::from_fn(|| kept.queue.pop()).collect::<Vec<_>>();
            kept.acknowledged = 0;
            kept.awaited.give_up();
            for mut piece in pieces {
                piece.start = piece.start.wrapping_add(moved) & state.mask;
                if piece.start > self.limits.window_max {
                    outside_bytes += piece.claimed_bytes;
                    self.counters.out_of_window += 1;
                    self.budget.release(&piece);
                } else {
                    hot.high = hot.high.max(piece.end());
                    kept.queue.put_back(piece);
                }
            }
            kept.ends.shift(moved, state.mask, self.limits.window_max, &mut self.budget);
            if kept.queue.len() == 0 && kept.ends.is_empty() {
                hot.flags &= !QUEUED;
                state.kept.remove(stream, &mut self.budget);
            }
        }
        state.vars.write(flow.data, side, hot);
        outside_bytes
    }

    /// At the end of a flow: discards segments that wait although the numbers of their direction have ended,
    /// or may have ended, and no longer counts the number of a FIN as seen.
    ///
    /// Returns the claimed bytes of the discarded segments.
    pub fn finish(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> u64 {
        let FlowRecord { id, data } = flow;
        let state = &self.sequences[sequence.index()];
        let has_ended = state.vars.read(data, side).flags & ENDED != 0;
        if state.retain || state.kind != Kind::Segments {
            return 0;
        }
        let outside_bytes = match has_ended {
            true => self.end(sequence, FlowRecord { id, data: &mut *data }, side),
            false => self.discard_behind_end(sequence, FlowRecord { id, data: &mut *data }, side),
        };
        if has_ended {
            let state = &self.sequences[sequence.index()];
            let mut hot = state.vars.read(data, side);
            hot.high = hot.high.saturating_sub(1);
            state.vars.write(data, side, hot);
        }
        outside_bytes
    }

    /// Discards what waits behind the first provisional end of a direction. Returns its claimed bytes.
    fn discard_behind_end(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> u64 {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        let kept = state.kept.get_mut(stream_key(flow.id, side)).filter(|_| hot.flags & QUEUED != 0);
        let Some(kept) = kept else { return 0 };
        let limit = kept.ends.limit();
        let mut outside_bytes = 0;
        while let Some(piece) = kept.queue.pop_behind(limit, &mut self.budget) {
            outside_bytes += piece.claimed_bytes;
            self.counters.out_of_window += 1;
            self.budget.release(&piece);
        }
        // Not what ends claimed that were given up.
        hot.high = kept.next.max(kept.queue.end()).max(if limit == u64::MAX { 0 } else { limit });
        state.vars.write(flow.data, side, hot);
        outside_bytes
    }

    /// Records that the numbers of a direction end with those that have passed. Queued segments are
    /// discarded; later ones are out of window.
    ///
    /// Returns the claimed bytes of the discarded segments.
    pub fn end(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: Direction) -> u64 {
        let state = &mut self.sequences[sequence.index()];
        let mut hot = state.vars.read(flow.data, side);
        if state.retain {
            return 0;
        }
        let mut outside_bytes = 0;
        if hot.flags & QUEUED != 0 {
            let Kept { mut queue, mut ends, next, .. } =
                state.kept.remove(stream_key(flow.id, side), &mut self.budget).expect("something is queued");
            ends.clear(&mut self.budget);
            for piece in std::iter::from_fn(|| queue.pop()) {
                outside_bytes += piece.claimed_bytes;
                self.counters.out_of_window += 1;
                self.budget.release(&piece);
            }
            hot.high = next;
            hot.flags &= !QUEUED;
        }
        hot.flags = hot.flags & !FINISHED | ENDED;
        state.vars.write(flow.data, side, hot);
        outside_bytes
    }
}

//! The kept pieces of one direction of a flow: in order, without overlaps.
//!
//! Numbers here are relative to the sequence's first one and do not wrap. If a new segment overlaps kept
//! pieces, a [`Rule`] decides for each piece which bytes win; the other bytes are cut off and discarded.

use super::budget::Budget;
use super::piece::{Coming, Piece};
use super::policy::Rule;
use std::collections::VecDeque;

/// How a segment overlaps the kept pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meeting {
    /// Claimed bytes that arrived twice and lose: of the segment, or of kept pieces.
    pub(super) overlap_bytes: u64,
    /// Captured bytes within the overlap that differ.
    pub(super) inconsistent_bytes: u64,
    /// All numbers of the segment are kept already.
    pub(super) is_covered: bool,
    /// Some bytes of the segment replace kept ones.
    pub(super) displaces: bool,
    /// The last number of the segment is kept, as a new number or as a replacement.
    pub(super) ends: bool,
}

/// The kept pieces of one direction.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    held_bytes: usize,
}

impl Queue {
    /// The number of pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The cost of the pieces in bytes, as in the budget.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Captured bytes of all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.bytes.length)).sum()
    }

    /// Bytes of all pieces according to their headers.
    pub(super) fn claimed_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.claimed_bytes).sum()
    }

    /// The number after the last kept one; 0 without pieces.
    pub(super) fn end(&self) -> u64 {
        self.pieces.back().map_or(0, Piece::end)
    }

    /// The first kept number.
    pub(super) fn first(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.start)
    }

    /// The first kept number that is not before `next`.
    pub(super) fn first_from(&self, next: u64) -> Option<u64> {
        self.piece_from(next).map(|piece| piece.start.max(next))
    }

    /// The first piece that ends after `next`.
    pub(super) fn piece_from(&self, next: u64) -> Option<&Piece> {
        self.pieces.get(self.first_behind(next))
    }

    /// The pieces that end at or before `next`, as one slice.
    pub(super) fn before(&mut self, next: u64) -> &[Piece] {
        let count = self.first_behind(next);
        &self.pieces.make_contiguous()[..count]
    }

    /// The index of the first piece that ends after `number`. Constant time if all pieces do, or none.
    fn first_behind(&self, number: u64) -> usize {
        match (self.pieces.front(), self.pieces.back()) {
            (Some(front), _) if front.end() > number => 0,
            (_, Some(back)) if back.end() > number => self.pieces.partition_point(|p| p.end() <= number),
            _ => self.pieces.len(),
        }
    }

    /// Compares a segment with the kept pieces. Takes time linear in the pieces and bytes that it overlaps.
    pub(super) fn meet(&self, segment: &Coming<'_>, rule: Rule) -> Meeting {
        let (mut covered_to, end) = (segment.start, segment.end());
        let mut meeting = Meeting {
            overlap_bytes: 0,
            inconsistent_bytes: 0,
            is_covered: false,
            displaces: false,
            ends: true,
        };
        for piece in self.pieces.range(self.first_behind(segment.start)..) {
            if piece.start >= end {
                break;
            }
            let (from, to) = (segment.start.max(piece.start), end.min(piece.end()));
            if covered_to == from {
                covered_to = to;
            }
            let old = piece.coming();
            let ((new_claimed, new), (old_claimed, old)) = (segment.part(from, to), old.part(from, to));
            meeting.inconsistent_bytes += new.iter().zip(old).filter(|(new, old)| new != old).count() as u64;
            let counts = rule.new_counts(piece.range(), (segment.start, end));
            // The bytes that lose. A FIN uses a number without a byte.
            meeting.overlap_bytes += if counts { old_claimed } else { new_claimed };
            meeting.displaces |= counts;
            meeting.ends = counts || to < end;
        }
        meeting.is_covered = covered_to == end;
        meeting
    }

    /// Adds the parts of a segment that win. Constant time at the end, where segments after a hole arrive;
    /// elsewhere, linear in the number of pieces behind it.
    pub(super) fn add(&mut self, segment: &Piece, rule: Rule, budget: &mut Budget) {
        if self.pieces.capacity() == 0 {
            // Usually a single segment waits for one that is still on its way.
            self.pieces.reserve_exact(1);
        }
        let end = segment.end();
        let first = self.first_behind(segment.start);
        if self.pieces.get(first).is_none_or(|piece| end <= piece.start) {
            self.held_bytes += budget.keep(segment);
            self.pieces.insert(first, segment.clone());
            return;
        }
        let after = self.pieces.partition_point(|piece| piece.start < end);
        let mut behind = self.pieces.split_off(after);
        // The winning parts of the segment up to here are in the queue, except the part that begins at
        // `from`.
        let mut from = segment.start;
        let mut rest = None;
        for old in self.pieces.split_off(first) {
            if !rule.new_counts(old.range(), segment.range()) {
                if from < old.start {
                    self.push(segment.part(from, old.start), budget);
                }
                from = old.end();
                self.pieces.push_back(old);
                continue;
            }
            budget.release(&old);
            self.held_bytes -= Budget::cost(&old);
            if old.start < segment.start {
                self.push(old.part(old.start, segment.start), budget);
            }
            rest = (end < old.end()).then(|| old.part(end, old.end()));
        }
        if from < end {
            self.push(segment.part(from, end), budget);
        }
        if let Some(rest) = rest {
            self.push(rest, budget);
        }
        self.pieces.append(&mut behind);
    }

    fn push(&mut self, piece: Piece, budget: &mut Budget) {
        self.held_bytes += budget.keep(&piece);
        self.pieces.push_back(piece);
    }

    /// Adds a piece that was removed, behind all others. The budget counts the piece already.
    pub(super) fn put_back(&mut self, piece: Piece) {
        self.held_bytes += Budget::cost(&piece);
        self.pieces.push_back(piece);
    }

    /// As [`pop`](Self::pop), if the first piece ends at or before `next`.
    pub(super) fn pop_before(&mut self, next: u64) -> Option<Piece> {
        self.pieces.front().filter(|piece| piece.end() <= next)?;
        self.pop()
    }

    /// Removes the first piece and returns it. Of a piece that goes on behind the number `limit`, only the
    /// part before `limit` is removed. The piece begins before `limit`. The budget still counts the returned
    /// piece.
    pub(super) fn pop_until(&mut self, limit: u64, budget: &mut Budget) -> Option<Piece> {
        let piece = self.pop()?;
        if piece.end() <= limit {
            return Some(piece);
        }
        let (part, rest) = (piece.part(piece.start, limit), piece.part(limit, piece.end()));
        budget.keep(&part);
        budget.keep(&rest);
        budget.release(&piece);
        self.held_bytes += Budget::cost(&rest);
        self.pieces.push_front(rest);
        Some(part)
    }

    /// If the last piece has numbers from `limit` on, removes this part of the piece and returns it. The
    /// budget still counts the returned part.
    pub(super) fn pop_behind(&mut self, limit: u64, budget: &mut Budget) -> Option<Piece> {
        let piece = self.pieces.pop_back_if(|piece| piece.end() > limit)?;
        self.held_bytes -= Budget::cost(&piece);
        if piece.start >= limit {
            return Some(piece);
        }
        let (part, rest) = (piece.part(piece.start, limit), piece.part(limit, piece.end()));
        self.push(part, budget);
        budget.keep(&rest);
        budget.release(&piece);
        Some(rest)
    }

    /// Discards the kept bytes whose numbers are at least `from` and less than `until`. Returns how many
    /// bytes the packets claimed to have there; the capture may have fewer.
    pub(super) fn discard(&mut self, from: u64, until: u64, budget: &mut Budget) -> u64 {
        let mut discarded_bytes = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let (start, end) = (piece.start.max(from), piece.end().min(until));
            if start >= end {
                self.pieces.push_back(piece);
                continue;
            }
            self.held_bytes -= Budget::cost(&piece);
            discarded_bytes += piece.part(start, end).claimed_bytes;
            for (start, end) in [(piece.start, start), (end, piece.end())] {
                if start < end {
                    self.push(piece.part(start, end), budget);
                }
            }
            budget.release(&piece);
        }
        discarded_bytes
    }

    /// Removes and returns the first piece. The budget still counts the piece.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        // Shrinks a queue that was long, so that its capacity matches the cost that is counted.
        if self.pieces.len() < self.pieces.capacity() / 3 {
            self.pieces.shrink_to(self.pieces.len() * 2);
        }
        self.held_bytes -= Budget::cost(&piece);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_ir::abi::Slice;
    use weir_packet::Block;

    /// A segment of `text` at `start`; `fin` adds a number for a FIN.
    fn segment(start: u64, text: &str, fin: bool) -> Piece {
        let length = text.len() as u32;
        Piece {
            start,
            span: u64::from(length) + u64::from(fin),
            claimed_bytes: length.into(),
            bytes: Slice { block: Arc::new(Block::from(Vec::from(text))), offset: 0, length },
            metas: std::array::from_fn(|n| if n == 0 { u64::from(fin) } else { 0 }),
            last: true,
            frame: None,
        }
    }

    fn queue_of(rule: Rule, segments: &[Piece]) -> Vec<(u64, String, u64)> {
        let (mut queue, mut budget) = (Queue::default(), Budget::new(usize::MAX));
        segments.iter().for_each(|s| queue.add(s, rule, &mut budget));
        assert_eq!(queue.held_bytes(), budget.held_bytes());
        let pieces = std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>();
        assert_eq!(queue.held_bytes(), 0);
        let text = |p: &Piece| String::from_utf8(p.bytes.bytes().to_vec()).unwrap();
        pieces.iter().map(|p| (p.start, text(p), p.metas[0])).collect()
    }

    #[test]
    fn pieces_are_in_order_however_they_came() {
        let pieces = queue_of(
            Rule::Never,
            &[segment(9, "ijk", true), segment(1, "ab", false), segment(5, "ef", false)],
        );
        assert_eq!(pieces, [(1, "ab".into(), 0), (5, "ef".into(), 0), (9, "ijk".into(), 1)]);
    }

    #[test]
    fn what_came_first_stays_and_a_long_segment_fills_the_holes() {
        let pieces = queue_of(
            Rule::Never,
            &[segment(2, "CC", false), segment(6, "G", false), segment(0, "abcdefgh", true)],
        );
        let wanted = [(0, "ab", 0), (2, "CC", 0), (4, "ef", 0), (6, "G", 0), (7, "h", 1)];
        assert_eq!(pieces, wanted.map(|(at, text, fin)| (at, text.into(), fin)));
    }

    #[test]
    fn what_comes_last_displaces_what_is_there() {
        let segments = [
            segment(0, "abcdef", true),
            segment(8, "ij", false),
            segment(2, "CD", false),
            segment(5, "FGHI", false),
        ];
        let wanted = [(0, "ab", 0), (2, "CD", 0), (4, "e", 0), (5, "FGHI", 0), (9, "j", 0)];
        assert_eq!(queue_of(Rule::Always, &segments), wanted.map(|(at, text, fin)| (at, text.into(), fin)));
    }

    #[test]
    fn of_one_segment_some_parts_count_and_others_do_not() {
        let segments = [
            segment(0, "aaa", false),
            segment(4, "bb", false),
            segment(7, "ccc", false),
            segment(2, "DDDDDD", false),
        ];
        let wanted = [(0, "aaa", 0), (3, "DDDDD", 0), (8, "cc", 0)];
        assert_eq!(queue_of(Rule::Before, &segments), wanted.map(|(at, text, fin)| (at, text.into(), fin)));
        let wanted = [(0, "aa", 0), (2, "DDDDD", 0), (7, "ccc", 0)];
        assert_eq!(
            queue_of(Rule::CoversOrContinues, &segments),
            wanted.map(|(at, text, fin)| (at, text.into(), fin))
        );
    }

    #[test]
    fn a_fin_goes_with_the_end_alone() {
        let pieces = queue_of(Rule::Never, &[segment(2, "cd", false), segment(0, "abcd", true)]);
        assert_eq!(pieces, [(0, "ab".into(), 0), (2, "cd".into(), 0), (4, String::new(), 1)]);
    }

    #[test]
    fn a_segment_meets_what_is_there() {
        let (mut queue, mut budget) = (Queue::default(), Budget::new(usize::MAX));
        queue.add(&segment(2, "cd", false), Rule::Never, &mut budget);
        queue.add(&segment(4, "ef", true), Rule::Never, &mut budget);
        let meet = |at, text, rule| queue.meet(&segment(at, text, false).coming(), rule);
        let covered = |at, text| meet(at, text, Rule::Never).is_covered;
        assert!(covered(2, "cdef") && covered(3, "de"));
        assert!(!covered(1, "bc") && !covered(6, "gh") && !covered(8, "i"));
        let wanted = Meeting {
            overlap_bytes: 5,
            inconsistent_bytes: 2,
            is_covered: false,
            displaces: false,
            ends: false,
        };
        assert_eq!(meet(1, "bCdeXg", Rule::Never), wanted, "the byte at the number of a FIN loses");
        let wanted = Meeting { overlap_bytes: 4, displaces: true, ends: true, ..wanted };
        assert_eq!(meet(1, "bCdeXg", Rule::Before), wanted);
    }

    #[test]
    fn bytes_that_were_not_captured_keep_their_numbers() {
        let mut cut = segment(0, "ab", false);
        (cut.span, cut.claimed_bytes) = (10, 10);
        let part = cut.part(1, 6);
        assert_eq!((part.bytes.bytes(), part.claimed_bytes, part.span), (&b"b"[..], 5, 5));
        let part = cut.part(6, 10);
        assert_eq!((part.bytes.bytes(), part.claimed_bytes, part.last), (&b""[..], 4, true));
    }
}

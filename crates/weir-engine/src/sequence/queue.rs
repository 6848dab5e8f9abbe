//! What came early, in one direction of one flow: pieces in order, none overlapping another.
//!
//! Numbers here are relative to the sequence's first and don't wrap. Of bytes that come twice the
//! first are kept: a new segment only fills holes, and is cut into as many pieces as it fills. Or it displaces what
//! is there ([`Queue::overwrite`]).

use super::budget::Budget;
use std::collections::VecDeque;
use weir_ir::abi::Slice;

/// A segment, or what was new of it.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Its first number.
    pub(super) start: u64,
    /// Numbers that it uses up; bytes come first, a FIN may follow. Fewer than its bytes where numbers count
    /// something else: then the bytes go with the first number.
    pub(super) span: u64,
    /// Its bytes, as the headers claim them.
    pub(super) claimed_bytes: u64,
    /// As many of its bytes as were captured; at most `claimed_bytes`.
    pub(super) bytes: Slice,
    /// What is remembered with the segment's end.
    pub(super) metas: [u64; 4],
    /// It ends where its segment ended. The others carry no metas: a FIN belongs to the end alone.
    pub(super) last: bool,
}

impl Piece {
    /// The first number after it.
    pub(super) fn end(&self) -> u64 {
        self.start.wrapping_add(self.span)
    }

    /// The part of it from `start` up to `end`, by reference.
    pub(super) fn part(&self, start: u64, end: u64) -> Piece {
        let (mut from, mut to) = (start.wrapping_sub(self.start), end.wrapping_sub(self.start));
        let captured = u64::from(self.bytes.length);
        let last = self.last && end == self.end();
        if self.span < self.claimed_bytes {
            (from, to) =
                if from == 0 { (0, self.claimed_bytes) } else { (self.claimed_bytes, self.claimed_bytes) };
        }
        let (first, after) = (from.min(captured), to.min(captured));
        Piece {
            start,
            span: end - start,
            claimed_bytes: to.min(self.claimed_bytes) - from.min(self.claimed_bytes),
            bytes: Slice {
                block: self.bytes.block.clone(),
                offset: self.bytes.offset + first as u32,
                length: (after - first) as u32,
            },
            metas: if last { self.metas } else { [0; 4] },
            last,
        }
    }
}

/// The pieces.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    held_bytes: usize,
}

impl Queue {
    /// Pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes that they cost, as the budget counts them.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The first number that is there.
    pub(super) fn first(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.start)
    }

    /// Whether all numbers from `start` up to `end` are there.
    pub(super) fn covers(&self, mut start: u64, end: u64) -> bool {
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        for piece in self.pieces.range(first..) {
            if piece.start > start || start >= end {
                break;
            }
            start = piece.end();
        }
        start >= end
    }

    /// Adds what is new of a segment. Constant time at the end, where segments after a hole come;
    /// elsewhere as long as it takes to move the pieces behind it.
    pub(super) fn offer(&mut self, segment: &Piece, budget: &mut Budget) {
        let (mut start, end) = (segment.start, segment.end());
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        if self.pieces.get(first).is_none_or(|piece| end <= piece.start) {
            self.held_bytes += budget.keep(&segment.bytes);
            self.pieces.insert(first, segment.clone());
            return;
        }
        // Fills several holes, perhaps: one pass over all that lies behind.
        for kept in self.pieces.split_off(first) {
            if start < end && start < kept.start {
                let part = segment.part(start, end.min(kept.start));
                self.held_bytes += budget.keep(&part.bytes);
                self.pieces.push_back(part);
            }
            start = start.max(kept.end());
            self.pieces.push_back(kept);
        }
        if start < end {
            let part = segment.part(start, end);
            self.held_bytes += budget.keep(&part.bytes);
            self.pieces.push_back(part);
        }
    }

    /// Adds a segment in place of what is there of its numbers.
    pub(super) fn overwrite(&mut self, segment: &Piece, budget: &mut Budget) {
        let (start, end) = (segment.start, segment.end());
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let (mut left, mut right) = (None, VecDeque::new());
        for kept in self.pieces.split_off(first) {
            if kept.start >= end {
                right.push_back(kept);
                continue;
            }
            budget.release(&kept.bytes);
            self.held_bytes -= Budget::cost(&kept.bytes);
            if kept.start < start {
                left = Some(kept.part(kept.start, start));
            }
            if kept.end() > end {
                right.push_back(kept.part(end, kept.end()));
                let rest = &right[right.len() - 1];
                self.held_bytes += budget.keep(&rest.bytes);
            }
        }
        for piece in left.into_iter().chain([segment.clone()]) {
            self.held_bytes += budget.keep(&piece.bytes);
            self.pieces.push_back(piece);
        }
        self.pieces.append(&mut right);
    }

    /// Takes the first piece out. It stays on the budget's account.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.held_bytes -= Budget::cost(&piece.bytes);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_packet::Block;

    /// A segment of `text` at `start`, with a number for a FIN behind it where `fin`.
    fn segment(start: u64, text: &str, fin: bool) -> Piece {
        let length = text.len() as u32;
        Piece {
            start,
            span: u64::from(length) + u64::from(fin),
            claimed_bytes: length.into(),
            bytes: Slice { block: Arc::new(Block { bytes: text.into() }), offset: 0, length },
            metas: [u64::from(fin), 0, 0, 0],
            last: true,
        }
    }

    fn queue_of(segments: &[Piece]) -> Vec<(u64, String, u64)> {
        let (mut queue, mut budget) = (Queue::default(), Budget::new(usize::MAX));
        segments.iter().for_each(|s| queue.offer(s, &mut budget));
        assert_eq!(queue.held_bytes(), budget.held_bytes());
        let pieces = std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>();
        assert_eq!(queue.held_bytes(), 0);
        let text = |p: &Piece| String::from_utf8(p.bytes.bytes().to_vec()).unwrap();
        pieces.iter().map(|p| (p.start, text(p), p.metas[0])).collect()
    }

    #[test]
    fn pieces_are_in_order_however_they_came() {
        let pieces = queue_of(&[segment(9, "ijk", true), segment(1, "ab", false), segment(5, "ef", false)]);
        assert_eq!(pieces, [(1, "ab".into(), 0), (5, "ef".into(), 0), (9, "ijk".into(), 1)]);
    }

    #[test]
    fn what_came_first_stays_and_a_long_segment_fills_the_holes() {
        let pieces =
            queue_of(&[segment(2, "CC", false), segment(6, "G", false), segment(0, "abcdefgh", true)]);
        let wanted = [(0, "ab", 0), (2, "CC", 0), (4, "ef", 0), (6, "G", 0), (7, "h", 1)];
        assert_eq!(pieces, wanted.map(|(at, text, fin)| (at, text.into(), fin)));
    }

    #[test]
    fn what_comes_last_displaces_what_is_there() {
        let (mut queue, mut budget) = (Queue::default(), Budget::new(usize::MAX));
        for one in [segment(0, "abcdef", true), segment(8, "ij", false), segment(2, "CD", false)] {
            queue.overwrite(&one, &mut budget);
        }
        queue.overwrite(&segment(5, "FGHI", false), &mut budget);
        assert_eq!(queue.held_bytes(), budget.held_bytes());
        let pieces: Vec<Piece> = std::iter::from_fn(|| queue.pop()).collect();
        let text: Vec<String> =
            pieces.iter().map(|p| String::from_utf8(p.bytes.bytes().to_vec()).unwrap()).collect();
        assert_eq!(text, ["ab", "CD", "e", "FGHI", "j"]);
        assert_eq!(queue.held_bytes(), 0);
    }

    #[test]
    fn a_fin_goes_with_the_end_alone() {
        let pieces = queue_of(&[segment(2, "cd", false), segment(0, "abcd", true)]);
        assert_eq!(pieces, [(0, "ab".into(), 0), (2, "cd".into(), 0), (4, String::new(), 1)]);
    }

    #[test]
    fn a_segment_without_anything_new_is_covered() {
        let (mut queue, mut budget) = (Queue::default(), Budget::new(usize::MAX));
        queue.offer(&segment(2, "cd", false), &mut budget);
        queue.offer(&segment(4, "ef", false), &mut budget);
        assert!(queue.covers(2, 6) && queue.covers(3, 5));
        assert!(!queue.covers(1, 3) && !queue.covers(5, 7) && !queue.covers(8, 9));
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

//! A segment before and after it is kept: its sequence numbers, and its bytes.

use super::frame::KeptFrame;
use std::sync::Arc;
use weir_ir::abi::{METAS_MAX, Ordered, Slice};

/// A segment that may be added: its numbers and bytes, which are not kept yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming<'a> {
    /// Its first number.
    pub(super) start: u64,
    /// Numbers that the segment uses; as in [`Piece`].
    pub(super) span: u64,
    /// The number of bytes that the headers claim.
    pub(super) claimed_bytes: u64,
    /// The captured bytes; at most `claimed_bytes`.
    pub(super) bytes: &'a [u8],
}

/// A segment, or the new part of one.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Its first number.
    pub(super) start: u64,
    /// Numbers that the piece uses; bytes come first, a FIN may follow. Fewer than its bytes if the numbers
    /// count something else: all bytes then belong to the first number.
    pub(super) span: u64,
    /// The number of bytes that the headers claim.
    pub(super) claimed_bytes: u64,
    /// The captured bytes; at most `claimed_bytes`.
    pub(super) bytes: Slice,
    /// Values that belong to the segment's end.
    pub(super) metas: [u64; METAS_MAX],
    /// The piece contains its segment's end. Other pieces carry no metas: a FIN belongs only to the end.
    pub(super) last: bool,
    /// The packet that the piece came in, if a question asks for packets.
    pub(super) frame: Option<Arc<KeptFrame>>,
}

impl Piece {
    /// Converts the piece, which is next in order after `gap_bytes` missing bytes.
    pub(super) fn pass(self, gap_bytes: u64) -> Passed {
        let Piece { bytes, claimed_bytes, metas, frame, .. } = self;
        let is_repeated = frame.as_ref().is_some_and(|frame| frame.pass());
        let ordered = Ordered { gap_bytes, bytes, claimed_bytes, of_other: false, metas };
        Passed { ordered, frame, is_repeated }
    }

    /// The first number after it.
    pub(super) fn end(&self) -> u64 {
        self.start.wrapping_add(self.span)
    }

    /// The part of the piece from `start` up to `end`, by reference.
    pub(super) fn part(&self, start: u64, end: u64) -> Piece {
        let (from, to) = self.coming().bytes_at(start, end);
        let captured = u64::from(self.bytes.length);
        let (first, after) = (from.min(captured), to.min(captured));
        let last = self.last && end == self.end();
        Piece {
            start,
            span: end - start,
            claimed_bytes: to - from,
            bytes: Slice {
                block: self.bytes.block.clone(),
                offset: self.bytes.offset + first as u32,
                length: (after - first) as u32,
            },
            metas: if last { self.metas } else { [0; METAS_MAX] },
            last,
            frame: self.frame.clone(),
        }
    }

    pub(super) fn coming(&self) -> Coming<'_> {
        let bytes = self.bytes.bytes();
        Coming { start: self.start, span: self.span, claimed_bytes: self.claimed_bytes, bytes }
    }

    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.end())
    }
}

impl<'a> Coming<'a> {
    /// The first number after it.
    pub(super) fn end(&self) -> u64 {
        self.start.wrapping_add(self.span)
    }

    /// The part of the segment from `start` on, which is not before its first number.
    pub(super) fn behind(self, start: u64) -> Self {
        let (claimed_bytes, bytes) = self.part(start, self.end());
        Coming { start, span: self.end().wrapping_sub(start), claimed_bytes, bytes }
    }

    /// The range of claimed bytes that belongs to the numbers from `start` up to `end`.
    pub(super) fn bytes_at(&self, start: u64, end: u64) -> (u64, u64) {
        let (from, to) = (start.wrapping_sub(self.start), end.wrapping_sub(self.start));
        match self.span < self.claimed_bytes {
            true if from == 0 => (0, self.claimed_bytes),
            true => (self.claimed_bytes, self.claimed_bytes),
            false => (from.min(self.claimed_bytes), to.min(self.claimed_bytes)),
        }
    }

    /// The number of claimed bytes of these numbers, and the captured ones.
    pub(super) fn part(&self, start: u64, end: u64) -> (u64, &'a [u8]) {
        let (from, to) = self.bytes_at(start, end);
        let captured = self.bytes.len() as u64;
        (to - from, &self.bytes[from.min(captured) as usize..to.min(captured) as usize])
    }
}

/// Kept bytes that are next in order.
#[derive(Debug)]
pub struct Passed {
    /// The bytes, and the values stored with them.
    pub ordered: Ordered,
    /// The packet that the bytes came in, if it was [kept](Segment::frame).
    pub frame: Option<Arc<KeptFrame>>,
    /// Whether other bytes of that packet have passed before.
    pub is_repeated: bool,
}

/// Bytes that each piece costs besides its own: its slot, the same again because the queue grows by doubling,
/// and the block of a copied piece.
pub(super) const PIECE_COST: usize = 2 * size_of::<Piece>() + 64;

//! A segment, before and after something of it is kept: where it lies among the numbers of its sequence, and its bytes.

use super::Passed;
use super::frame::KeptFrame;
use std::sync::Arc;
use weir_ir::abi::{METAS_MAX, Ordered, Slice};

/// A segment that may be added: where it lies, and its bytes, of which nothing has been kept yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming<'a> {
    /// Its first number.
    pub(super) start: u64,
    /// Numbers that it uses up; as in [`Piece`].
    pub(super) span: u64,
    /// Its bytes, as the headers claim them.
    pub(super) claimed_bytes: u64,
    /// As many of its bytes as were captured; at most `claimed_bytes`.
    pub(super) bytes: &'a [u8],
}

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
    pub(super) metas: [u64; METAS_MAX],
    /// It ends where its segment ended. The others carry no metas: a FIN belongs to the end alone.
    pub(super) last: bool,
    /// The packet that it came in, where somebody asks for it.
    pub(super) frame: Option<Arc<KeptFrame>>,
}

impl Piece {
    /// Its turn has come, with so much missing before it.
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

    /// The part of it from `start` up to `end`, by reference.
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

    /// The part of it from `start` on, its own first number or a later one.
    pub(super) fn behind(self, start: u64) -> Self {
        let (claimed_bytes, bytes) = self.part(start, self.end());
        Coming { start, span: self.end().wrapping_sub(start), claimed_bytes, bytes }
    }

    /// Which of its claimed bytes go with the numbers from `start` up to `end`: from where up to where.
    pub(super) fn bytes_at(&self, start: u64, end: u64) -> (u64, u64) {
        let (from, to) = (start.wrapping_sub(self.start), end.wrapping_sub(self.start));
        match self.span < self.claimed_bytes {
            true if from == 0 => (0, self.claimed_bytes),
            true => (self.claimed_bytes, self.claimed_bytes),
            false => (from.min(self.claimed_bytes), to.min(self.claimed_bytes)),
        }
    }

    /// How many bytes were claimed of these numbers, and those that were captured.
    pub(super) fn part(&self, start: u64, end: u64) -> (u64, &'a [u8]) {
        let (from, to) = self.bytes_at(start, end);
        let captured = self.bytes.len() as u64;
        (to - from, &self.bytes[from.min(captured) as usize..to.min(captured) as usize])
    }
}

/// Bytes that each piece is taken to cost, besides its own: room for it, as much again since room grows by doubling, and
/// the block of one that was copied.
pub(super) const PIECE_COST: usize = 2 * size_of::<Piece>() + 64;

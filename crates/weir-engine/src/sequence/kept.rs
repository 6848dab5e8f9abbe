//! What is kept of the directions of flows. A direction of which nothing is kept has no entry here.

use super::awaited::Awaited;
use super::budget::Budget;
use super::ends::Ends;
use super::piece::Piece;
use super::queue::Queue;
use super::vars::Hot;
use crate::table::BuildIdHasher;
use std::collections::HashMap;

/// Bytes that an entry costs: its place in a map that may be half empty, and the places that a list of pieces
/// begins with, of which each piece is charged for two.
pub(super) const KEPT_COST: usize = 2 * size_of::<(u64, Kept)>() + 2 * size_of::<Piece>();

/// What is kept of a direction: pieces, ends.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The next number expected, counted from the first one, so that it does not wrap.
    pub(super) next: u64,
    /// The number up to which the receiver has acknowledged, counted in the same way; 0 if the
    /// acknowledgement changed nothing.
    pub(super) acknowledged: u64,
    /// Waiting segments that also wait for the other direction.
    pub(super) awaited: Awaited,
    /// Waiting pieces; in a retaining sequence, preceded by in-order pieces.
    pub(super) queue: Queue,
    /// Ends that the receiver has not confirmed: bytes behind them wait.
    pub(super) ends: Ends,
    /// Fragments overlapped: nothing more is kept, and nothing is assembled.
    pub(super) is_given_up: bool,
}

impl Kept {
    /// Moves the end of the in-order numbers to `end`.
    /// Discards everything. Returns the number of pieces.
    pub(super) fn release(mut self, budget: &mut Budget) -> u64 {
        self.ends.clear(budget);
        std::iter::from_fn(|| self.queue.pop()).map(|piece| budget.release(&piece)).count() as u64
    }

    pub(super) fn pass_to(&mut self, end: u64, hot: &mut Hot, mask: u64) {
        hot.next = hot.next.wrapping_add(end - self.next) & mask;
        hot.high = hot.high.max(end);
        self.next = end;
    }

    /// The first number that waits for earlier ones: of a byte that no end stands before, or of a FIN of
    /// which the program has not been told.
    pub(super) fn first(&self) -> Option<u64> {
        let byte = self.queue.first().filter(|&byte| byte < self.ends.limit());
        byte.or_else(|| self.ends.first().filter(|end| end.is_news()).map(|end| end.at))
    }
}

/// The entries of a sequence's directions, by the key of their stream. The budget is charged for each.
#[derive(Debug, Default)]
pub(super) struct KeptDirections(HashMap<u64, Kept, BuildIdHasher>);

impl KeptDirections {
    pub(super) fn get(&self, stream: u64) -> Option<&Kept> {
        self.0.get(&stream)
    }

    pub(super) fn get_mut(&mut self, stream: u64) -> Option<&mut Kept> {
        self.0.get_mut(&stream)
    }

    /// The entry of a direction, which is new if nothing was kept: `next` is its next number then.
    pub(super) fn entry(&mut self, stream: u64, next: u64, budget: &mut Budget) -> &mut Kept {
        self.0.entry(stream).or_insert_with(|| {
            budget.hold(KEPT_COST);
            Kept { next, ..Kept::default() }
        })
    }

    pub(super) fn remove(&mut self, stream: u64, budget: &mut Budget) -> Option<Kept> {
        let kept = self.0.remove(&stream)?;
        budget.free(KEPT_COST);
        Some(kept)
    }

    /// Discards everything. Returns the number of pieces.
    pub(super) fn release(self, budget: &mut Budget) -> u64 {
        budget.free(self.0.len() * KEPT_COST);
        self.0.into_values().map(|kept| kept.release(budget)).sum()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

//! Segments that wait for the other direction, and what they wait for.

use std::collections::VecDeque;

/// Limit of segments per direction that wait for the other one.
pub(super) const AWAITING_MAX: usize = 256;

/// For each waiting segment of a direction, its number, counted as [`Kept::next`] is, and the other
/// direction's number that has to be next before the segment may pass.
#[derive(Debug, Default)]
pub(super) struct Awaited(VecDeque<(u64, u64)>);

impl Awaited {
    /// The number of waiting segments.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes the segment at `start` wait until `number` is next. A repeated segment keeps its first
    /// condition.
    pub(super) fn add(&mut self, start: u64, number: u64) {
        let place = self.0.partition_point(|&(other, _)| other < start);
        if self.0.get(place).is_none_or(|&(other, _)| other != start) {
            self.0.insert(place, (start, number));
        }
    }

    /// The number that the segment at `start`, the first one kept, waits for.
    pub(super) fn of(&self, start: u64) -> Option<u64> {
        self.0.front().filter(|&&(from, _)| from <= start).map(|&(_, number)| number)
    }

    /// Removes the first condition, which has been met.
    pub(super) fn has_come(&mut self) {
        self.0.pop_front();
    }

    /// Removes conditions up to `number`, because these numbers will not arrive.
    pub(super) fn do_without(&mut self, number: u64, mask: u64) {
        self.0.retain(|&(_, other)| number.wrapping_sub(other) & mask > mask >> 1);
    }

    /// Marks the segments before `end` as acknowledged. Returns whether any of them waited.
    pub(super) fn is_acknowledged(&mut self, end: u64) -> bool {
        let before = self.0.partition_point(|&(start, _)| start < end);
        self.0.drain(..before).count() > 0
    }

    /// Removes all conditions.
    pub(super) fn give_up(&mut self) {
        self.0.clear();
    }
}

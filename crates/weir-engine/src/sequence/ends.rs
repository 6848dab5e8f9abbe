//! Provisional ends: a FIN, or a reset, says that the numbers of its direction end. The segment may be
//! forged, or may never have reached the receiver, so the end counts only when the receiver confirms it:
//!
//! * The receiver acknowledges the number of the FIN, and no byte with that number was captured: the end is
//!   confirmed. Numbers behind it are out of window.
//! * The receiver acknowledges numbers behind the end: it has taken bytes there, which it would not have done
//!   after a FIN or a reset. The end is disproved, and is forgotten.
//! * The flow ends in silence: the end holds.
//!
//! Until then, bytes behind the end wait. If a bound on waiting segments is reached first, the end is given
//! up, because a bound must not hide bytes.
//!
//! The number of a FIN is not a number of bytes, so a FIN never takes the place of a byte: a forged FIN in
//! the middle of bytes that are still to come does not cut a hole into them.
//!
//! Most FINs are confirmed by the next packet of the other side: such a FIN is a bit of the flow's record
//! ([`FINISHED`](weir_ir::sequence::FINISHED)). Other ends, and a FIN behind which bytes wait, stand beside
//! the waiting segments, in [`Kept`](super::kept::Kept).

use super::budget::Budget;
use crate::counters::SequenceCounters;
use weir_ir::abi::METAS_MAX;

/// Maximum number of provisional ends of a direction. Real senders have one; of more, the first ones count.
const ENDS_MAX: usize = 16;

/// Bytes that an end costs: its slot, and the same again because the list grows by doubling.
const END_COST: usize = 2 * size_of::<End>();

/// What an end is made of. The order is that of ends with the same number: a FIN stands first, because an
/// acknowledgement confirms it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndKind {
    Fin,
    /// A reset, which uses no number.
    Reset,
    /// The numbers from the end to this one were in the segment that opened the connection: they count once
    /// some of them are acknowledged. What is behind them may wait for them.
    Held(u64),
}

/// A provisional end.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The number after the last byte, counted as [`Kept::next`] is. A FIN uses this number itself.
    pub(super) at: u64,
    pub(super) kind: EndKind,
    /// The receiver has acknowledged the FIN.
    pub(super) is_confirmed: bool,
    /// All bytes before the FIN have passed, and the program was told of the FIN.
    pub(super) is_told: bool,
    /// Values stored with the segment.
    pub(super) metas: [u64; METAS_MAX],
}

/// The provisional ends of a direction, by number.
#[derive(Debug, Default)]
pub(super) struct Ends(Vec<End>);

impl Ends {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first end. Bytes from its number on wait.
    pub(super) fn first(&self) -> Option<&End> {
        self.0.first()
    }

    /// The number of the first end, or a number that is never reached.
    pub(super) fn limit(&self) -> u64 {
        self.first().map_or(u64::MAX, |end| end.at)
    }

    pub(super) fn contains(&self, is_such: impl Fn(&End) -> bool) -> bool {
        self.0.iter().any(is_such)
    }

    /// Whether there is a FIN at `at`.
    pub(super) fn contains_fin(&self, at: u64) -> bool {
        self.0.iter().any(|end| end.kind == EndKind::Fin && end.at == at)
    }

    /// Whether the program was told of a FIN at `at`.
    pub(super) fn was_told(&self, at: u64) -> bool {
        self.0.iter().any(|end| end.kind == EndKind::Fin && end.is_told && end.at == at)
    }

    /// Adds an end, unless there are too many.
    pub(super) fn add(&mut self, end: End, budget: &mut Budget, counters: &mut SequenceCounters) {
        if self.0.len() == ENDS_MAX {
            counters.ends_refused += 1;
            return;
        }
        counters.ends_provisional += 1;
        let place = self.0.partition_point(|other| (other.at, other.kind) <= (end.at, end.kind));
        if self.0.capacity() == 0 {
            self.0.reserve_exact(1);
        }
        self.0.insert(place, end);
        budget.hold(END_COST);
    }

    /// The receiver has acknowledged all numbers before `number`. `has_byte`: whether a byte with the number
    /// of the end is kept.
    /// Returns whether an end was disproved.
    pub(super) fn acknowledge(
        &mut self,
        number: u64,
        has_byte: impl Fn(u64) -> bool,
        budget: &mut Budget,
    ) -> bool {
        let before = self.0.len();
        // A FIN at `number - 1` may have been acknowledged itself.
        self.retain(|end| number <= end.at + u64::from(end.kind == EndKind::Fin), budget);
        let is_fin = |end: &&mut End| end.kind == EndKind::Fin && number == end.at + 1;
        if let Some(end) = self.0.first_mut().filter(is_fin)
            && !has_byte(end.at)
        {
            end.is_confirmed = true;
        }
        self.0.len() < before
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&End) -> bool, budget: &mut Budget) {
        let before = self.0.len();
        self.0.retain(|end| keeps(end));
        budget.free((before - self.0.len()) * END_COST);
    }

    /// Marks the first end as told.
    pub(super) fn tell(&mut self) {
        if let Some(end) = self.0.first_mut() {
            end.is_told = true;
        }
    }

    /// Forgets the first end.
    pub(super) fn give_up(&mut self, budget: &mut Budget) {
        self.0.remove(0);
        budget.free(END_COST);
    }

    /// If the first end holds the bytes that opened the connection, forgets that, and returns the number
    /// after them.
    pub(super) fn release_held(&mut self, budget: &mut Budget) -> Option<u64> {
        let EndKind::Held(until) = self.first()?.kind else { return None };
        self.give_up(budget);
        Some(until)
    }

    /// Forgets all ends.
    pub(super) fn clear(&mut self, budget: &mut Budget) {
        self.retain(|_| false, budget);
    }

    /// Adds `moved` to the number of each end, modulo `mask + 1`, because the direction begins at another
    /// number. Ends that are too far away then are forgotten. No byte of the direction has passed yet.
    pub(super) fn shift(&mut self, moved: u64, mask: u64, window_max: u64, budget: &mut Budget) {
        for End { at, kind, .. } in &mut self.0 {
            *at = at.wrapping_add(moved) & mask;
            if let EndKind::Held(until) = kind {
                *until = until.wrapping_add(moved) & mask;
            }
        }
        self.retain(|end| end.at <= window_max, budget);
        self.0.sort_by_key(|end| (end.at, end.kind));
    }
}

impl End {
    /// An end of which the program knows.
    pub(super) const fn told(kind: EndKind, at: u64) -> Self {
        Self { at, kind, is_confirmed: false, is_told: true, metas: [0; METAS_MAX] }
    }

    /// Whether the numbers end here, given that the bytes before have passed. `is_silent`: the flow is over,
    /// so nothing else will be known.
    pub(super) fn holds(&self, is_silent: bool) -> bool {
        self.kind == EndKind::Fin && (self.is_confirmed || is_silent)
    }

    /// Whether the end is a FIN of which the program has not been told.
    pub(super) fn is_news(&self) -> bool {
        self.kind == EndKind::Fin && !self.is_told
    }
}

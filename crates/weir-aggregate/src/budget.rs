//! The bound on memory, and the counters of what bounds discard.

/// Bytes that an allocator adds to a block.
pub(crate) const BLOCK_BYTES: u64 = 16;

/// Memory in use, and its bound.
///
/// Memory is given up in three steps. Beyond a half ([`Budget::is_short`]), sets of `distinct` that would
/// become larger than registers become registers. Beyond three quarters, there are no new groups. At the
/// bound, sets, sketches and histograms do not grow, and values are cut.
#[derive(Debug)]
pub(crate) struct Budget {
    used: u64,
    max: u64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Self {
        Self { used: 0, max }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Whether sets should use less memory, if `more` bytes are added.
    pub(crate) fn is_short(&self, more: u64) -> bool {
        self.used.saturating_add(more) > self.max / 2
    }

    /// Whether new groups may use `more` bytes.
    pub(crate) fn has_room_for_groups(&self, more: u64) -> bool {
        self.used.saturating_add(more) <= self.max / 4 * 3
    }

    /// Takes `bytes`, or returns false.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let fits = self.used.saturating_add(bytes) <= self.max;
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// Takes `bytes` in any case: the first rows of a pane, whose number is bounded.
    pub(crate) fn force(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Makes room for another item. While the items are copied, the old and the new block count.
    pub(crate) fn reserve<T>(&mut self, vec: &mut Vec<T>) -> bool {
        if vec.len() < vec.capacity() {
            return true;
        }
        let more = vec.capacity().max(4);
        let old = if vec.capacity() == 0 { 0 } else { block_bytes::<T>(vec.capacity()) };
        if !self.take(block_bytes::<T>(vec.capacity() + more)) {
            return false;
        }
        vec.reserve_exact(more);
        self.give_back(old);
        true
    }
}

/// Bytes of a block of `items`.
pub(crate) fn block_bytes<T>(items: usize) -> u64 {
    (items * size_of::<T>()) as u64 + BLOCK_BYTES
}

/// What bounds discarded, and what was estimated because of them. `records` is the sum of what the groups of
/// all panes have, `late` and `ahead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Records that were given to an aggregator. A merger counts none.
    pub records: u64,
    /// Records of a window that was closed.
    pub late: u64,
    /// Records too far in the future: their pane is beyond the bounds on open panes.
    pub ahead: u64,
    /// Records whose group is `other`, because the bounds on groups or on bytes left no room for their own. A
    /// merger counts records of groups that had room in a pane, and have none in the merged pane or window.
    pub in_other: u64,
    /// Sets of `distinct` that are estimated because memory was short, although they were below the bound on
    /// exact values.
    pub sets_estimated: u64,
    /// Values that `distinct`, `quantile` or `histogram` left out because there was no memory. A merger
    /// counts the sets, sketches and histograms from which it had to leave values out.
    pub values_cut: u64,
}

impl Counters {
    /// Adds the counters of another worker, or of the merger.
    pub fn add(&mut self, other: &Self) {
        let Self { records, late, ahead, in_other, sets_estimated, values_cut } = other;
        self.records += records;
        self.late += late;
        self.ahead += ahead;
        self.in_other += in_other;
        self.sets_estimated += sets_estimated;
        self.values_cut += values_cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_both_blocks_while_items_are_copied() {
        let mut vec: Vec<u64> = vec![];
        let mut budget = Budget::new(48 + 80);
        assert!(budget.reserve(&mut vec));
        assert_eq!(budget.used(), 4 * 8 + 16);
        vec.extend([1, 2, 3, 4]);
        assert!(budget.reserve(&mut vec), "48 + 80 bytes are exactly the bound");
        assert_eq!((budget.used(), vec.capacity()), (8 * 8 + 16, 8));
        vec.extend([5, 6, 7, 8]);
        assert!(!budget.reserve(&mut vec));
        assert_eq!((budget.used(), vec.capacity()), (80, 8));
    }
}

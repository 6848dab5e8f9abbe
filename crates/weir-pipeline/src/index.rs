//! The index of a flat hash table: rows by the hashes of their keys.
//!
//! The index is an array of slots with open addressing. A slot is one word: the number of a row, plus 1, in
//! the lower half, and the upper half of the hash of the row's key in the upper half; 0 is an empty slot.
//! Rows are therefore read only where 32 bits of the hash agree, and the index grows, and closes the gap of a
//! removed row, without reading a row.

/// Slots of a new index. At most half of the slots are used.
const FIRST_SLOTS: usize = 16;

/// Rows by the hashes of their keys. The rows are those of the caller, at most [`RowIndex::ROWS_MAX`].
#[derive(Debug, Clone)]
pub struct RowIndex {
    /// The length is a power of two.
    slots: Vec<u64>,
    used: usize,
}

impl Default for RowIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl RowIndex {
    /// The most rows.
    pub const ROWS_MAX: usize = 1 << 31;

    /// An index without rows.
    pub fn new() -> Self {
        Self { slots: vec![0; FIRST_SLOTS], used: 0 }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether the index has to [grow](Self::grow) before another row.
    pub fn is_full(&self) -> bool {
        self.used * 2 >= self.slots.len()
    }

    /// The row with this hash for which `is_equal` is true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_equal: impl FnMut(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> 32) as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return None;
            }
            if (entry ^ hash) >> 32 == 0 {
                let row = row_of(entry);
                if is_equal(row) {
                    return Some(row);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Adds a row, whose key is not in the index.
    ///
    /// # Panics
    ///
    /// If the index [is full](Self::is_full), or the number of the row is too large.
    pub fn insert(&mut self, hash: u64, row: usize) {
        assert!(!self.is_full() && row < Self::ROWS_MAX, "room in the index");
        self.link(hash & !u64::from(u32::MAX) | (row as u64 + 1));
        self.used += 1;
    }

    /// Doubles the slots.
    pub fn grow(&mut self) {
        let slots = vec![0; self.slots.len() * 2];
        for entry in std::mem::replace(&mut self.slots, slots) {
            if entry != 0 {
                self.link(entry);
            }
        }
    }

    /// Removes a row with this hash. Returns whether there was one.
    pub fn remove(&mut self, hash: u64, row: usize) -> bool {
        let mask = self.slots.len() - 1;
        let entry = hash & !u64::from(u32::MAX) | (row as u64 + 1);
        let mut gap = home(entry) & mask;
        while self.slots[gap] != entry {
            if self.slots[gap] == 0 {
                return false;
            }
            gap = (gap + 1) & mask;
        }
        // An entry after the gap moves into the gap, unless the gap is before the entry's home.
        let mut slot = gap;
        loop {
            slot = (slot + 1) & mask;
            let entry = self.slots[slot];
            if entry == 0 {
                break;
            }
            let from_home = slot.wrapping_sub(home(entry)) & mask;
            let from_gap = slot.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.slots[gap] = entry;
                gap = slot;
            }
        }
        self.slots[gap] = 0;
        self.used -= 1;
        true
    }

    /// Removes all rows; the slots stay.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.used = 0;
    }

    fn link(&mut self, entry: u64) {
        let mask = self.slots.len() - 1;
        let mut slot = home(entry) & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = entry;
    }
}

/// Where the search for an entry begins, before the mask.
fn home(entry: u64) -> usize {
    (entry >> 32) as usize
}

fn row_of(entry: u64) -> usize {
    (entry as u32 - 1) as usize
}

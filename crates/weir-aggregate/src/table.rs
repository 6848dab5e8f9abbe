//! The groups of a pane: a flat hash table with open addressing.
//!
//! A group is a row of words: its key, the bits of the parts of the key that are present, and its state. All
//! rows are in one array, in the order in which groups came, and a [`RowIndex`] finds them. Row 0 is the
//! group `other` for records beyond the bounds; the index does not refer to row 0.

use crate::budget::block_bytes;
use crate::context::Context;
use weir_pipeline::RowIndex;

const FIRST_ROWS: usize = 8;
/// The row of groups beyond the bounds.
pub(crate) const OTHER: usize = 0;

#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<u64>,
    /// Number of rows that fit in `rows`.
    capacity: usize,
    len: usize,
    index: RowIndex,
    key_words: usize,
    row_words: usize,
}

/// Where a group is.
pub(crate) enum Place {
    /// The number of its row.
    Row(usize),
    /// There is no room for a row.
    NoRoom,
}

impl Table {
    /// A table with the group `other`. Its memory is taken even beyond the bound.
    pub(crate) fn new(key_words: usize, empty: &[u64], context: &mut Context) -> Self {
        let row_words = key_words + 1 + empty.len();
        let mut rows = Vec::with_capacity(FIRST_ROWS * row_words);
        rows.resize(key_words + 1, 0);
        rows.extend_from_slice(empty);
        let table = Self { rows, capacity: FIRST_ROWS, len: 1, index: RowIndex::new(), key_words, row_words };
        context.budget.force(table.bytes());
        table
    }

    fn bytes(&self) -> u64 {
        block_bytes::<u64>(self.capacity * self.row_words) + block_bytes::<u64>(self.index.slots())
    }

    /// The number of rows, `other` included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn key(&self, row: usize) -> &[u64] {
        &self.rows[row * self.row_words..][..self.key_words]
    }

    pub(crate) fn key_present(&self, row: usize) -> u64 {
        self.rows[row * self.row_words + self.key_words]
    }

    pub(crate) fn state(&self, row: usize) -> &[u64] {
        &self.rows[row * self.row_words..(row + 1) * self.row_words][self.key_words + 1..]
    }

    pub(crate) fn state_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.rows[row * self.row_words..(row + 1) * self.row_words][self.key_words + 1..]
    }

    /// Finds the row of a key, or adds a row with the state `empty`.
    pub(crate) fn find_or_insert(
        &mut self,
        key: &[u64],
        present: u64,
        empty: &[u64],
        context: &mut Context,
    ) -> Place {
        let hash = context.hash.hash(key, present);
        let is_equal = |row: usize| {
            let words = &self.rows[row * self.row_words..][..=self.key_words];
            words[self.key_words] == present && is_equal(&words[..self.key_words], key)
        };
        match self.index.find(hash, is_equal) {
            Some(row) => Place::Row(row),
            None => self.insert(hash, key, present, empty, context),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert(
        &mut self,
        hash: u64,
        key: &[u64],
        present: u64,
        empty: &[u64],
        context: &mut Context,
    ) -> Place {
        // `other` is no group.
        if self.len > context.limits.groups_max || !self.make_room(context) {
            return Place::NoRoom;
        }
        let row = self.len;
        self.rows.extend_from_slice(key);
        self.rows.push(present);
        self.rows.extend_from_slice(empty);
        self.len += 1;
        self.index.insert(hash, row);
        Place::Row(row)
    }

    /// Makes room for another row. While arrays are copied, the old and the new array count.
    fn make_room(&mut self, context: &mut Context) -> bool {
        let budget = &mut context.budget;
        if self.len >= FIRST_ROWS && !budget.has_room_for_groups(0) {
            return false;
        }
        if self.len == self.capacity {
            let new = block_bytes::<u64>(self.capacity * 2 * self.row_words);
            if !budget.has_room_for_groups(new) || !budget.take(new) {
                return false;
            }
            budget.give_back(block_bytes::<u64>(self.capacity * self.row_words));
            self.rows.reserve_exact(self.capacity * self.row_words);
            self.capacity *= 2;
        }
        if !self.index.is_full() {
            return true;
        }
        let slots = self.index.slots();
        let new = block_bytes::<u64>(slots * 2);
        if !budget.has_room_for_groups(new) || !budget.take(new) {
            return false;
        }
        budget.give_back(block_bytes::<u64>(slots));
        self.index.grow();
        true
    }
}

/// Compares keys word by word: for a few words, faster than a call of `memcmp`.
fn is_equal(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::KeyedHash;

    fn row(table: &mut Table, key: [u64; 2], present: u64, context: &mut Context) -> usize {
        match table.find_or_insert(&key, present, &[0], context) {
            Place::Row(row) => row,
            Place::NoRoom => panic!("no room for {key:?}"),
        }
    }

    /// The keys differ in the second word, which a hash without secrets multiplies by 0, or in the present
    /// parts.
    #[test]
    fn keys_with_the_same_hash_have_their_own_rows() {
        let mut context = Context::with_bytes(1 << 30);
        context.hash = KeyedHash::colliding();
        let mut table = Table::new(2, &[0], &mut context);
        let keys = (0..100).map(|n| ([0, n / 2], n % 2));
        let rows: Vec<_> =
            keys.clone().map(|(key, present)| row(&mut table, key, present, &mut context)).collect();
        assert_eq!(rows, (1..=100).collect::<Vec<_>>());
        let again: Vec<_> = keys.map(|(key, present)| row(&mut table, key, present, &mut context)).collect();
        assert_eq!(again, rows);
    }

    #[test]
    fn growth_loses_no_row_and_counts_its_memory() {
        let mut context = Context::with_bytes(1 << 30);
        let mut table = Table::new(2, &[0], &mut context);
        for number in 0..10_000 {
            assert_eq!(row(&mut table, [number, 0], 0, &mut context), number as usize + 1);
        }
        for number in 0..10_000 {
            assert_eq!(row(&mut table, [number, 0], 0, &mut context), number as usize + 1);
        }
        assert!(table.index.slots() >= table.index.len() * 2, "at most half of the slots are used");
        assert_eq!(context.budget.used(), table.bytes());
        assert_eq!(table.rows.capacity(), table.capacity * table.row_words);
    }
}

//! A flat hash table whose keys and states are bytes, with lengths that are known at run time: tables of
//! scripts.
//!
//! A row is the state, then the key, in words of 8 bytes. Rows are in blocks that never move. Rows are found
//! by the same [`RowIndex`] as those of a [`FlatTable`](crate::FlatTable), whose types are known to the
//! compiler.

use crate::index::RowIndex;
use crate::table::RowNumber;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Rows of a block: a power of two.
const BLOCK_ROWS: usize = 1024;

/// Keys with states, both of fixed numbers of words.
///
/// The number of rows is bounded. The hash has a random key, so that traffic cannot be made to collide.
#[derive(Debug, Clone)]
pub struct ByteTable {
    index: RowIndex,
    blocks: Vec<Box<[u64]>>,
    /// A bit for each row that has a key.
    used: Vec<u64>,
    /// Rows without a key, before `rows`.
    free: Vec<u32>,
    /// Rows that ever had a key.
    rows: usize,
    hash: RandomState,
    key_words: usize,
    state_words: usize,
    rows_max: usize,
}

impl ByteTable {
    /// A table without rows, for at most `rows_max`.
    pub fn new(key_words: usize, state_words: usize, rows_max: usize) -> Self {
        Self {
            index: RowIndex::new(),
            blocks: vec![],
            used: vec![],
            free: vec![],
            rows: 0,
            hash: RandomState::default(),
            key_words,
            state_words,
            rows_max: rows_max.min(RowIndex::ROWS_MAX),
        }
    }

    /// A table without rows that has the same lengths, bound and [hashes](Self::hash).
    pub fn empty_like(&self) -> Self {
        Self { hash: self.hash.clone(), ..Self::new(self.key_words, self.state_words, self.rows_max) }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether there is no room for another row.
    pub fn is_full(&self) -> bool {
        self.len() >= self.rows_max
    }

    /// Words of a key.
    pub fn key_words(&self) -> usize {
        self.key_words
    }

    /// Memory of the rows and of the index, in bytes.
    pub fn bytes(&self) -> usize {
        let words = self.blocks.len() * BLOCK_ROWS * self.row_words() + self.index.slots() + self.used.len();
        words * size_of::<u64>() + self.free.capacity() * size_of::<u32>()
    }

    fn row_words(&self) -> usize {
        self.key_words + self.state_words
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u64]) -> u64 {
        self.hash.hash_one(key)
    }

    /// The row of a key with this hash.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u64]) -> Option<RowNumber> {
        self.index.find(hash, |row| self.key_at(row) == key).map(|row| RowNumber(row as u32))
    }

    /// The row of a key with this hash, which is added with the state `begin` if the key is new: the second
    /// value says so. `None` if the key is new, and the table is full.
    ///
    /// # Panics
    ///
    /// If the key or the state has another length than those of the table.
    #[inline]
    pub fn find_or_insert(&mut self, hash: u64, key: &[u64], begin: &[u64]) -> Option<(RowNumber, bool)> {
        match self.find(hash, key) {
            Some(row) => Some((row, false)),
            None if self.is_full() => None,
            None => Some((self.insert(hash, key, begin), true)),
        }
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, key: &[u64], begin: &[u64]) -> RowNumber {
        if self.index.is_full() {
            self.index.grow();
        }
        let row = match self.free.pop() {
            Some(row) => row as usize,
            None => {
                if self.rows == self.blocks.len() * BLOCK_ROWS {
                    self.blocks.push(vec![0; BLOCK_ROWS * self.row_words()].into_boxed_slice());
                    self.used.resize(self.blocks.len() * BLOCK_ROWS / 64, 0);
                }
                self.rows += 1;
                self.rows - 1
            }
        };
        let state_words = self.state_words;
        let words = self.words_mut(row);
        words[..state_words].copy_from_slice(begin);
        words[state_words..].copy_from_slice(key);
        self.used[row / 64] |= 1 << (row % 64);
        self.index.insert(hash, row);
        RowNumber(row as u32)
    }

    #[inline]
    fn key_at(&self, row: usize) -> &[u64] {
        let first = row % BLOCK_ROWS * self.row_words() + self.state_words;
        &self.blocks[row / BLOCK_ROWS][first..first + self.key_words]
    }

    #[inline]
    fn words_mut(&mut self, row: usize) -> &mut [u64] {
        let words = self.row_words();
        let first = row % BLOCK_ROWS * words;
        &mut self.blocks[row / BLOCK_ROWS][first..first + words]
    }

    /// The words of a row's state, then those of the key. The words stay at their address until the table is
    /// dropped.
    #[inline]
    pub fn row(&mut self, row: RowNumber) -> &mut [u64] {
        self.words_mut(row.0 as usize)
    }

    /// The first row from `from` on that has a key; the rows of a table are visited with 0, and then the
    /// number after each row.
    pub fn next_row(&self, from: u32) -> Option<RowNumber> {
        let mut word = from as usize / 64;
        let mut bits = self.used.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.used.get(word)?;
        }
        Some(RowNumber(word as u32 * 64 + bits.trailing_zeros()))
    }

    /// Removes a row. Returns whether there was one.
    pub fn remove(&mut self, row: RowNumber) -> bool {
        let at = row.0 as usize;
        let Some(used) = self.used.get_mut(at / 64).filter(|used| **used >> (at % 64) & 1 != 0) else {
            return false;
        };
        *used &= !(1 << (at % 64));
        let hash = self.hash.hash_one(self.key_at(at));
        self.index.remove(hash, at);
        self.free.push(row.0);
        true
    }
}

impl RowNumber {
    /// The number after this one, for [`ByteTable::next_row`].
    pub fn after(self) -> u32 {
        self.0.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The table has the keys and states of a map of the standard library, also after rows are removed
        /// and their places used again.
        #[test]
        fn equals_a_map(actions in prop::collection::vec((0_u8..3, 0_u64..60), 0..400)) {
            let mut table = ByteTable::new(2, 1, 40);
            let mut map: BTreeMap<u64, u64> = BTreeMap::new();
            for (action, number) in actions {
                let key = [number, !number];
                let hash = table.hash(&key);
                if action == 0 {
                    let removed = table.find(hash, &key).is_some_and(|row| table.remove(row));
                    prop_assert_eq!(removed, map.remove(&number).is_some());
                    continue;
                }
                let found = table.find_or_insert(hash, &key, &[7]);
                prop_assert_eq!(found.is_none(), !map.contains_key(&number) && map.len() == 40);
                let Some((row, is_new)) = found else { continue };
                prop_assert_eq!(is_new, !map.contains_key(&number));
                table.row(row)[0] += 1;
                *map.entry(number).or_insert(7) += 1;
            }
            let (mut all, mut next) = (BTreeMap::new(), 0);
            while let Some(row) = table.next_row(next) {
                let words = table.row(row).to_vec();
                prop_assert_eq!(words[1], !words[2]);
                prop_assert_eq!(all.insert(words[1], words[0]), None);
                next = row.after();
            }
            prop_assert_eq!(table.len(), map.len());
            prop_assert_eq!(all, map);
        }
    }

    #[test]
    fn rows_stay_at_their_address_while_the_table_grows() {
        let mut table = ByteTable::new(1, 1, 1 << 20);
        let insert = |table: &mut ByteTable, key: u64| {
            let hash = table.hash(&[key]);
            table.find_or_insert(hash, &[key], &[key]).expect("there is room").0
        };
        let first = insert(&mut table, 0);
        let address = table.row(first).as_ptr();
        for key in 1..20_000 {
            insert(&mut table, key);
        }
        assert_eq!((table.row(first).as_ptr(), table.row(first)[0]), (address, 0));
        assert!(table.bytes() / table.len() < 60, "{} bytes a row", table.bytes() / table.len());
    }
}

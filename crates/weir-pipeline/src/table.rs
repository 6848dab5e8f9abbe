//! A flat hash table with typed keys and states.

use crate::index::RowIndex;
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};

/// Keys with states: all in one array, in the order in which keys came, found by a [`RowIndex`]. Removed rows
/// are used again.
///
/// The number of rows is bounded. The hash has a random key, so that traffic cannot be made to collide.
#[derive(Debug, Clone)]
pub struct FlatTable<K, S> {
    index: RowIndex,
    rows: Vec<Row<K, S>>,
    /// Rows without a key.
    free: Vec<u32>,
    hash: RandomState,
    rows_max: usize,
}

#[derive(Debug, Clone)]
struct Row<K, S> {
    hash: u64,
    content: Option<(K, S)>,
}

/// The number of a row: stays the same until the row is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowNumber(pub(crate) u32);

impl<K: Hash + Eq, S> FlatTable<K, S> {
    /// A table without rows, for at most this many.
    pub fn new(rows_max: usize) -> Self {
        Self {
            index: RowIndex::new(),
            rows: vec![],
            free: vec![],
            hash: RandomState::default(),
            rows_max: rows_max.min(RowIndex::ROWS_MAX),
        }
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

    /// The row of a key.
    #[inline]
    pub fn find(&self, key: &K) -> Option<RowNumber> {
        self.find_hashed(self.hash.hash_one(key), key)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, key: &K) -> Option<RowNumber> {
        let is_equal = |row: usize| matches!(&self.rows[row].content, Some((known, _)) if known == key);
        self.index.find(hash, is_equal).map(|row| RowNumber(row as u32))
    }

    /// The row of a key, which is added with the state that `begin` makes if the key is new: the second value
    /// says so. `None` if the key is new, and the table is full.
    #[inline]
    pub fn find_or_insert(&mut self, key: K, begin: impl FnOnce() -> S) -> Option<(RowNumber, bool)> {
        let hash = self.hash.hash_one(&key);
        match self.find_hashed(hash, &key) {
            Some(row) => Some((row, false)),
            None if self.is_full() => None,
            None => Some((self.insert(hash, key, begin()), true)),
        }
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, key: K, state: S) -> RowNumber {
        if self.index.is_full() {
            self.index.grow();
        }
        let content = Row { hash, content: Some((key, state)) };
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = content;
                row
            }
            None => {
                self.rows.push(content);
                self.rows.len() as u32 - 1
            }
        };
        self.index.insert(hash, row as usize);
        RowNumber(row)
    }

    /// The key and the state of a row.
    ///
    /// # Panics
    ///
    /// If the row was removed.
    #[inline]
    pub fn row(&mut self, row: RowNumber) -> (&K, &mut S) {
        let (key, state) = self.rows[row.0 as usize].content.as_mut().expect("a row that was not removed");
        (key, state)
    }

    /// Removes a row. `None` if it was removed before.
    pub fn remove(&mut self, row: RowNumber) -> Option<(K, S)> {
        let removed = self.rows.get_mut(row.0 as usize)?;
        let content = removed.content.take()?;
        self.index.remove(removed.hash, row.0 as usize);
        self.free.push(row.0);
        Some(content)
    }

    /// The keys and states, in the order in which rows were made.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.rows.iter().filter_map(|row| row.content.as_ref().map(|(key, state)| (key, state)))
    }

    /// Removes all rows, and passes them to a function in the order in which rows were made. The memory
    /// stays.
    pub fn drain(&mut self, mut take: impl FnMut(K, S)) {
        self.index.clear();
        self.free.clear();
        self.rows.drain(..).filter_map(|row| row.content).for_each(|(key, state)| take(key, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// The table has the keys and states of a map of the standard library, also after rows are removed
        /// and their places used again.
        #[test]
        fn equals_a_map(actions in prop::collection::vec((0_u8..3, 0_u16..60), 0..400)) {
            let mut table = FlatTable::new(40);
            let mut map: HashMap<u16, u64> = HashMap::new();
            for (action, key) in actions {
                if action == 0 {
                    let removed = table.find(&key).and_then(|row| table.remove(row));
                    prop_assert_eq!(removed.map(|(_, state)| state), map.remove(&key));
                    continue;
                }
                let found = table.find_or_insert(key, || 0);
                prop_assert_eq!(found.is_none(), !map.contains_key(&key) && map.len() == 40);
                let Some((row, is_new)) = found else { continue };
                prop_assert_eq!(is_new, !map.contains_key(&key));
                *table.row(row).1 += 1;
                *map.entry(key).or_default() += 1;
            }
            prop_assert_eq!(table.len(), map.len());
            let all: HashMap<u16, u64> = table.iter().map(|(key, count)| (*key, *count)).collect();
            prop_assert_eq!(&all, &map);
            let mut drained = HashMap::new();
            table.drain(|key, count| assert_eq!(drained.insert(key, count), None));
            prop_assert_eq!(&drained, &map);
            prop_assert!(table.is_empty() && map.keys().all(|key| table.find(key).is_none()));
        }
    }

    #[test]
    fn rows_whose_hashes_agree_in_the_upper_half_are_told_apart() {
        let mut index = RowIndex::new();
        for row in 0..7 {
            index.insert(5 << 32, row);
        }
        assert!(index.remove(5 << 32, 2) && !index.remove(5 << 32, 2));
        let found: Vec<_> = (0..7).filter(|row| index.find(5 << 32, |at| at == *row).is_some()).collect();
        assert_eq!(found, [0, 1, 3, 4, 5, 6]);
    }
}

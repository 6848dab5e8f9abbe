//! Items of a flow, together.

use crate::operator::{Operator, Port};
use crate::signal::Signal;
use crate::table::FlatTable;
use std::hash::Hash;

/// The most items that wait in all groups. If there are more, all groups are passed on.
pub const GROUPED_MAX: usize = 1 << 20;

/// Consecutive items with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped<K, T> {
    /// The key.
    pub key: K,
    /// The items, in order; at least one.
    pub items: Vec<T>,
}

/// Collects items by key, so that what follows looks a key up once for many items.
///
/// A group is passed on when it has `items_max` items; all groups when a window ends, at a flush, and at the
/// end, or if [`GROUPED_MAX`] items wait.
#[derive(Debug, Clone)]
pub struct Group<K, T, G> {
    key: G,
    items_max: usize,
    groups: FlatTable<K, Vec<T>>,
    waiting: usize,
}

impl<K: Hash + Eq, T, G> Group<K, T, G> {
    /// Groups of at most `items_max` items, but at least 1.
    pub fn new(items_max: usize, key: G) -> Self {
        Self { key, items_max: items_max.max(1), groups: FlatTable::new(GROUPED_MAX), waiting: 0 }
    }

    fn pass_on(&mut self, out: &mut impl Port<Grouped<K, T>>) {
        self.waiting = 0;
        self.groups.drain(|key, items| {
            // A group that was passed on before has none.
            if !items.is_empty() {
                out.put(Grouped { key, items });
            }
        });
    }
}

impl<T, K: Hash + Eq + Clone, G: FnMut(&T) -> K> Operator<T> for Group<K, T, G> {
    type Out = Grouped<K, T>;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<Self::Out>) {
        if self.waiting >= GROUPED_MAX || self.groups.is_full() {
            self.pass_on(out);
        }
        let Some((row, _)) = self.groups.find_or_insert((self.key)(&item), || Vec::with_capacity(1)) else {
            return;
        };
        let (key, items) = self.groups.row(row);
        items.push(item);
        self.waiting += 1;
        if items.len() >= self.items_max {
            self.waiting -= items.len();
            let (key, items) = (key.clone(), std::mem::take(items));
            out.put(Grouped { key, items });
        }
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Self::Out>) {
        if signal.is_flush() {
            self.pass_on(out);
        }
        out.signal(signal);
    }
}

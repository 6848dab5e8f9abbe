//! One state for each key.

use crate::operator::{Operator, Port};
use crate::signal::Signal;
use crate::table::FlatTable;
use std::hash::Hash;

/// The usual bound on keys.
pub const KEYS_MAX: usize = 1 << 20;

/// The state of a key, or of all keys beyond the bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced<K, S> {
    /// The key; `None` for items whose keys had no room.
    pub key: Option<K>,
    /// The state.
    pub state: S,
    /// The start and the end of the window, nanoseconds since 1970, if items have windows.
    pub window: Option<(i64, i64)>,
}

/// Adds each item to the state of its key, and passes on the states when a window ends, at a flush, and at
/// the end.
///
/// Keys are at most [`KEYS_MAX`], or as many as [`Self::keys_max`] says. Items of further keys share one
/// state.
#[derive(Debug, Clone)]
pub struct Reduce<K, S, G, B, F> {
    key: G,
    begin: B,
    add: F,
    states: FlatTable<K, S>,
    other: Option<S>,
    in_other: u64,
}

impl<K: Hash + Eq, S, G, B, F> Reduce<K, S, G, B, F> {
    /// The state of a key begins with what `begin` makes, and `add` adds an item to it.
    pub fn new(key: G, begin: B, add: F) -> Self {
        Self { key, begin, add, states: FlatTable::new(KEYS_MAX), other: None, in_other: 0 }
    }

    /// The same with another bound on keys. States so far are dropped.
    #[must_use]
    pub fn keys_max(self, keys_max: usize) -> Self {
        Self { states: FlatTable::new(keys_max), ..self }
    }

    /// Items whose key had no room.
    pub fn in_other(&self) -> u64 {
        self.in_other
    }
}

impl<T, K, S, G, B, F> Operator<T> for Reduce<K, S, G, B, F>
where
    K: Hash + Eq,
    G: FnMut(&T) -> K,
    B: FnMut() -> S,
    F: FnMut(&mut S, T),
{
    type Out = Reduced<K, S>;

    #[inline]
    fn take(&mut self, item: T, _: &mut impl Port<Self::Out>) {
        match self.states.find_or_insert((self.key)(&item), &mut self.begin) {
            Some((row, _)) => (self.add)(self.states.row(row).1, item),
            None => {
                self.in_other += 1;
                (self.add)(self.other.get_or_insert_with(&mut self.begin), item);
            }
        }
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Self::Out>) {
        if signal.is_flush() {
            let window = match signal {
                Signal::Window { start, end } => Some((start, end)),
                _ => None,
            };
            self.states.drain(|key, state| out.put(Reduced { key: Some(key), state, window }));
            if let Some(state) = self.other.take() {
                out.put(Reduced { key: None, state, window });
            }
        }
        out.signal(signal);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        tell("in_other", self.in_other);
    }
}

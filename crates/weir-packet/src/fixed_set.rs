//! [`FixedSet`]: sets of small indices, such as the events of a stack.
//!
//! A set has a type parameter that names the indexed items, so that a set of events cannot be taken for one of
//! layers. Each crate names its sets by aliases (`type EventSet = FixedSet<StackEvent, 4>`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::BitOr;

/// A set of indices of `T`s below `64 * WORDS`. A plain value, for sets whose bound is declared elsewhere.
pub struct FixedSet<T, const WORDS: usize> {
    words: [u64; WORDS],
    of: PhantomData<fn(&T)>,
}

impl<T, const WORDS: usize> FixedSet<T, WORDS> {
    /// No index.
    pub const EMPTY: Self = Self { words: [0; WORDS], of: PhantomData };

    /// Every index that the set can hold.
    pub const FULL: Self = Self { words: [u64::MAX; WORDS], of: PhantomData };

    /// Adds an index.
    ///
    /// # Panics
    /// If the set cannot hold the index.
    pub fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Whether the index is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Whether no index is in the set.
    pub fn is_empty(&self) -> bool {
        self.words == [0; WORDS]
    }
}

impl<T, const WORDS: usize> Clone for FixedSet<T, WORDS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const WORDS: usize> Copy for FixedSet<T, WORDS> {}

impl<T, const WORDS: usize> Default for FixedSet<T, WORDS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T, const WORDS: usize> PartialEq for FixedSet<T, WORDS> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<T, const WORDS: usize> Eq for FixedSet<T, WORDS> {}

impl<T, const WORDS: usize> fmt::Debug for FixedSet<T, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..64 * WORDS).filter(|index| self.contains(*index))).finish()
    }
}

impl<T, const WORDS: usize> BitOr for FixedSet<T, WORDS> {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(own, other)| *own |= other);
        self
    }
}

impl<T, const WORDS: usize> FromIterator<usize> for FixedSet<T, WORDS> {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut set = Self::EMPTY;
        indices.into_iter().for_each(|index| set.insert(index));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_set_holds_what_it_has_room_for() {
        type Fixed = FixedSet<(), 4>;
        let (some, others): (Fixed, Fixed) =
            ([0, 64, 255].into_iter().collect(), [64, 70].into_iter().collect());
        assert_eq!(format!("{:?}", some | others), "{0, 64, 70, 255}");
        assert!(some.contains(255) && !some.contains(256) && !some.is_empty() && Fixed::default().is_empty());
        assert!((0..256).all(|index| Fixed::FULL.contains(index)));
    }
}

//! [`FixedSet`]: sets of small indices, such as the events of a stack or the session protocols of a registry.
//!
//! A set has a type parameter that names the indexed items, so that a set of events cannot be taken for one
//! of layers. Each crate names its sets by aliases (`type EventSet = FixedSet<StackEvent, 4>`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

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

    /// One index.
    ///
    /// # Panics
    /// If the set cannot hold the index.
    pub const fn of(index: usize) -> Self {
        let mut set = Self::EMPTY;
        set.words[index / 64] = 1 << (index % 64);
        set
    }

    /// Adds an index.
    ///
    /// # Panics
    /// If the set cannot hold the index.
    pub fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Whether the index is in the set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Whether no index is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().fold(0, |any, word| any | word) == 0
    }

    /// Number of indices.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether all indices are in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        (*self - *other).is_empty()
    }

    /// The indices, ascending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<T, WORDS> {
        let (mut words, mut at) = (self.words, 0);
        std::iter::from_fn(move || {
            while *words.get(at)? == 0 {
                at += 1;
            }
            let bit = words[at].trailing_zeros() as usize;
            words[at] &= words[at] - 1;
            Some(64 * at + bit)
        })
    }

    /// The set as words, the first one for the indices below 64.
    #[inline]
    pub fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// The set as words, to be changed.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
        &mut self.words
    }

    #[inline]
    fn combine(mut self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(own, other)| *own = combine(*own, other));
        self
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

impl<T, const WORDS: usize> Hash for FixedSet<T, WORDS> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl<T, const WORDS: usize> fmt::Debug for FixedSet<T, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T, const WORDS: usize> BitOr for FixedSet<T, WORDS> {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.combine(other, |own, other| own | other)
    }
}

impl<T, const WORDS: usize> BitOrAssign for FixedSet<T, WORDS> {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl<T, const WORDS: usize> BitAnd for FixedSet<T, WORDS> {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        self.combine(other, |own, other| own & other)
    }
}

/// The indices that are not in the other set.
impl<T, const WORDS: usize> Sub for FixedSet<T, WORDS> {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        self.combine(other, |own, other| own & !other)
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

    type Fixed = FixedSet<(), 4>;

    #[test]
    fn a_fixed_set_holds_what_it_has_room_for() {
        let mut set = Fixed::EMPTY;
        assert!(set.is_empty() && set == Fixed::default() && set.iter().next().is_none());
        for index in (0..256).rev() {
            assert!(!set.contains(index));
            set.insert(index);
            assert!(set.contains(index) && Fixed::of(index).iter().eq([index]));
        }
        assert_eq!((set, set.len()), (Fixed::FULL, 256));
        assert!(set.iter().eq(0..256));
        assert!(!set.contains(256) && !set.contains(usize::MAX), "an index that no set can hold is in none");
    }

    #[test]
    fn sets_are_combined_across_words() {
        let (a, b): (Fixed, Fixed) = ([1, 70, 200].into_iter().collect(), [70, 201].into_iter().collect());
        assert!((a | b).iter().eq([1, 70, 200, 201]));
        assert!((a & b).iter().eq([70]));
        assert!((a - b).iter().eq([1, 200]));
        assert!(Fixed::of(70).is_subset(&a) && !a.is_subset(&b));
        assert_eq!(format!("{b:?}"), "{70, 201}");
    }
}

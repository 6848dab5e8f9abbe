//! [`BitSet`]: a set of small indices, of questions, session protocols, events, layers and the like.
//!
//! The set has a type parameter that names the indexed items, so that a set of questions cannot be taken for
//! one of protocols; each crate names its sets by aliases (`type QuestionSet = BitSet<Question>`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Sub, SubAssign};

/// Words that are stored in the set itself.
const INLINE_WORDS: usize = 2;

/// A set of indices of `T`s.
///
/// Indices below 128 are stored in the set itself. The first larger index moves the set to an allocation;
/// [`clone_from`](Clone::clone_from) keeps the allocation. Sets with the same members are equal.
pub struct BitSet<T> {
    words: Words,
    of: PhantomData<fn(&T)>,
}

enum Words {
    Inline([u64; INLINE_WORDS]),
    Heap(Vec<u64>),
}

impl<T> BitSet<T> {
    /// No index.
    pub const EMPTY: Self = Self { words: Words::Inline([0; INLINE_WORDS]), of: PhantomData };

    /// No index.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// All indices below `count`.
    pub fn all(count: usize) -> Self {
        let mut set = Self::new();
        for word in 0..count / 64 {
            *set.word_mut(word) = u64::MAX;
        }
        if !count.is_multiple_of(64) {
            *set.word_mut(count / 64) = (1 << (count % 64)) - 1;
        }
        set
    }

    /// This index only.
    pub fn one(index: usize) -> Self {
        let mut set = Self::new();
        set.insert(index);
        set
    }

    /// The indices whose bits are set in `words`, the first word having those below 64.
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self::new();
        words.iter().enumerate().for_each(|(at, &word)| set.insert_word(at, word));
        set
    }

    /// The set as words, a bit for each index. Omitted words are 0.
    #[inline]
    pub fn words(&self) -> &[u64] {
        match &self.words {
            Words::Inline(words) => words,
            Words::Heap(words) => words,
        }
    }

    /// The word with the indices from `64 * at` on.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.words().get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        match &mut self.words {
            Words::Inline(words) => words,
            Words::Heap(words) => words,
        }
    }

    #[inline]
    fn word_mut(&mut self, at: usize) -> &mut u64 {
        if at >= self.words().len() {
            self.grow(at + 1);
        }
        &mut self.words_mut()[at]
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        match &mut self.words {
            Words::Inline(inline) => {
                let mut heap = Vec::with_capacity(words.next_power_of_two());
                heap.extend_from_slice(inline);
                heap.resize(words, 0);
                self.words = Words::Heap(heap);
            }
            Words::Heap(heap) => heap.resize(words, 0),
        }
    }

    /// Adds an index. Returns whether it is new.
    #[inline]
    pub fn insert(&mut self, index: usize) -> bool {
        let word = self.word_mut(index / 64);
        let is_new = *word >> (index % 64) & 1 == 0;
        *word |= 1 << (index % 64);
        is_new
    }

    /// Adds the indices from `64 * at` on whose bits are set in `word`.
    #[inline]
    pub fn insert_word(&mut self, at: usize, word: u64) {
        if word != 0 {
            *self.word_mut(at) |= word;
        }
    }

    /// Removes an index. Returns whether it was in the set.
    #[inline]
    pub fn remove(&mut self, index: usize) -> bool {
        let Some(word) = self.words_mut().get_mut(index / 64) else { return false };
        let was_there = *word >> (index % 64) & 1 == 1;
        *word &= !(1 << (index % 64));
        was_there
    }

    /// Whether the index is in the set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.word(index / 64) >> (index % 64) & 1 == 1
    }

    /// Whether no index is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    /// Number of indices.
    #[inline]
    pub fn len(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The smallest index.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The indices in ascending order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        let words = self.words();
        Iter { words, at: 0, left: words[0] }
    }

    /// Whether some index is in both sets.
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).any(|(own, other)| own & other != 0)
    }

    /// Whether all indices of this set are in the other.
    #[inline]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words().iter().enumerate().all(|(at, own)| own & !other.word(at) == 0)
    }
}

impl<T> Clone for BitSet<T> {
    #[inline]
    fn clone(&self) -> Self {
        let words = match &self.words {
            Words::Inline(words) => Words::Inline(*words),
            Words::Heap(words) => Words::Heap(words.clone()),
        };
        Self { words, of: PhantomData }
    }

    #[inline]
    fn clone_from(&mut self, source: &Self) {
        match (&mut self.words, &source.words) {
            (Words::Heap(own), words) => {
                own.clear();
                own.extend_from_slice(match words {
                    Words::Inline(words) => words,
                    Words::Heap(words) => words,
                });
            }
            (Words::Inline(own), Words::Inline(words)) => *own = *words,
            (own, Words::Heap(words)) => *own = Words::Heap(words.clone()),
        }
    }
}

impl<T> Default for BitSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PartialEq for BitSet<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let words = self.words().len().max(other.words().len());
        (0..words).all(|at| self.word(at) == other.word(at))
    }
}

impl<T> Eq for BitSet<T> {}

impl<T> fmt::Debug for BitSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<T> BitOrAssign<&Self> for BitSet<T> {
    #[inline]
    fn bitor_assign(&mut self, other: &Self) {
        let words = other.words();
        if words.len() > self.words().len() {
            self.grow(words.len());
        }
        self.words_mut().iter_mut().zip(words).for_each(|(own, other)| *own |= other);
    }
}

impl<T> BitAndAssign<&Self> for BitSet<T> {
    #[inline]
    fn bitand_assign(&mut self, other: &Self) {
        self.words_mut().iter_mut().enumerate().for_each(|(at, own)| *own &= other.word(at));
    }
}

impl<T> SubAssign<&Self> for BitSet<T> {
    #[inline]
    fn sub_assign(&mut self, other: &Self) {
        self.words_mut().iter_mut().zip(other.words()).for_each(|(own, other)| *own &= !other);
    }
}

impl<T> BitOr<&BitSet<T>> for BitSet<T> {
    type Output = Self;

    #[inline]
    fn bitor(mut self, other: &Self) -> Self {
        self |= other;
        self
    }
}

impl<T> BitAnd<&BitSet<T>> for BitSet<T> {
    type Output = Self;

    #[inline]
    fn bitand(mut self, other: &Self) -> Self {
        self &= other;
        self
    }
}

impl<T> Sub<&BitSet<T>> for BitSet<T> {
    type Output = Self;

    #[inline]
    fn sub(mut self, other: &Self) -> Self {
        self -= other;
        self
    }
}

impl<T> BitOr for &BitSet<T> {
    type Output = BitSet<T>;

    #[inline]
    fn bitor(self, other: Self) -> BitSet<T> {
        self.clone() | other
    }
}

impl<T> BitAnd for &BitSet<T> {
    type Output = BitSet<T>;

    #[inline]
    fn bitand(self, other: Self) -> BitSet<T> {
        self.clone() & other
    }
}

impl<T> Sub for &BitSet<T> {
    type Output = BitSet<T>;

    #[inline]
    fn sub(self, other: Self) -> BitSet<T> {
        self.clone() - other
    }
}

impl<T> Extend<usize> for BitSet<T> {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, indices: I) {
        for index in indices {
            self.insert(index);
        }
    }
}

impl<T> FromIterator<usize> for BitSet<T> {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut set = Self::new();
        set.extend(indices);
        set
    }
}

impl<'a, T> IntoIterator for &'a BitSet<T> {
    type Item = usize;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The indices of a set in ascending order.
#[derive(Clone)]
pub struct Iter<'a> {
    words: &'a [u64],
    at: usize,
    /// Bits of the word at `at` that have not been yielded yet.
    left: u64,
}

impl Iterator for Iter<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.left == 0 {
            self.at += 1;
            self.left = *self.words.get(self.at)?;
        }
        let index = self.at * 64 + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    type Set = BitSet<()>;

    /// Members below 128 are stored in the set itself; both forms act as sorted sets of integers do.
    #[test]
    fn acts_as_a_sorted_set() {
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for round in 0..300 {
            let below = [60, 128, 129, 1_000][round % 4];
            let mut of = || -> BTreeSet<usize> { (0..random(40)).map(|_| random(below)).collect() };
            let (a, b) = (of(), of());
            let (mut x, y) = (a.iter().copied().collect::<Set>(), b.iter().copied().collect::<Set>());
            let same = |set: &Set, with: &BTreeSet<usize>| {
                assert!(set.iter().eq(with.iter().copied()), "{set:?} {with:?}");
                assert_eq!(set.len(), with.len());
                assert_eq!(*set, Set::from_words(set.words()));
            };
            same(&x, &a);
            same(&(&x | &y), &(&a | &b));
            same(&(&x & &y), &(&a & &b));
            same(&(&x - &y), &(&a - &b));
            assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            assert_eq!(x.is_subset(&y), a.is_subset(&b));
            assert!((&x & &y).is_subset(&x));
            assert_eq!(x == y, a == b);
            assert_eq!(x.first(), a.first().copied());
            let mut copy = Set::one(round);
            copy.clone_from(&x);
            assert_eq!(copy, x);
            for index in 0..below {
                assert_eq!(x.contains(index), a.contains(&index));
                assert_eq!(x.remove(index), a.contains(&index));
            }
            assert!(x.is_empty());
        }
    }

    #[test]
    fn equal_sets_are_equal_wherever_they_stand() {
        let mut grown: Set = [3, 500].into_iter().collect();
        assert!(grown.remove(500) && !grown.remove(501));
        assert_eq!(grown, Set::one(3));
        assert!(grown.remove(3));
        assert_eq!(grown, Set::EMPTY);
        for count in [0, 1, 63, 64, 65, 128, 129, 1_000] {
            assert!(Set::all(count).iter().eq(0..count));
        }
    }
}

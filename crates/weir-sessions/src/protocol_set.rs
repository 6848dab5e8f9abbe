//! A set of session protocols, by their numbers in a registry.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// Maximum number of protocols of a set, and therefore of a registry. The flow record stores each recognised protocol
/// in one byte, and one value of that byte means none.
pub const PROTOCOLS_MAX: usize = 255;

/// The number of words of a set.
const WORDS: usize = PROTOCOLS_MAX.div_ceil(64);

/// A set of session protocols, by their numbers in a [`SessionRegistry`](crate::SessionRegistry). A set is copied
/// without an allocation; it has four words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ProtocolSet([u64; WORDS]);

impl ProtocolSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The set of one protocol.
    pub const fn of(protocol: usize) -> Self {
        let mut words = [0; WORDS];
        words[protocol / 64] = 1 << (protocol % 64);
        Self(words)
    }

    /// Adds a protocol.
    pub fn insert(&mut self, protocol: usize) {
        self.0[protocol / 64] |= 1 << (protocol % 64);
    }

    /// Whether the set contains a protocol. No set contains numbers from [`PROTOCOLS_MAX`] on.
    #[inline]
    pub fn contains(&self, protocol: usize) -> bool {
        self.0.get(protocol / 64).is_some_and(|word| word >> (protocol % 64) & 1 == 1)
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |any, word| any | word) == 0
    }

    /// The number of protocols in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether `other` contains all protocols of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        (*self - *other).is_empty()
    }

    /// The numbers in the set, in the order of probing.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.0.into_iter().enumerate().flat_map(|(index, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// The set as words; the first word is for the numbers below 64.
    #[inline]
    pub(crate) fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Adds the numbers `64 * at + i` for each set bit `i`.
    #[inline]
    pub(crate) fn add_word(&mut self, at: usize, bits: u64) {
        self.0[at] |= bits;
    }

    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|index| combine(self.0[index], other.0[index])))
    }
}

impl BitOr for ProtocolSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
}

impl BitOrAssign for ProtocolSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for ProtocolSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
}

impl Sub for ProtocolSet {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }
}

impl FromIterator<usize> for ProtocolSet {
    fn from_iter<I: IntoIterator<Item = usize>>(protocols: I) -> Self {
        let mut set = Self::EMPTY;
        protocols.into_iter().for_each(|protocol| set.insert(protocol));
        set
    }
}

impl fmt::Debug for ProtocolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_every_protocol_that_a_registry_can_hold() {
        let mut set = ProtocolSet::EMPTY;
        assert!(set.is_empty() && !set.contains(0));
        for protocol in (0..PROTOCOLS_MAX).rev() {
            assert!(!set.contains(protocol));
            set.insert(protocol);
            assert!(set.contains(protocol));
        }
        assert_eq!(
            (set.len(), set.iter().collect::<Vec<_>>()),
            (PROTOCOLS_MAX, (0..PROTOCOLS_MAX).collect())
        );
        assert!(!set.contains(1000), "what no set can hold is in none");
    }

    #[test]
    fn sets_are_combined_across_words() {
        let (a, b): (ProtocolSet, ProtocolSet) =
            ([1, 70, 200].into_iter().collect(), [70, 201].into_iter().collect());
        assert_eq!((a | b).iter().collect::<Vec<_>>(), [1, 70, 200, 201]);
        assert_eq!((a & b).iter().collect::<Vec<_>>(), [70]);
        assert_eq!((a - b).iter().collect::<Vec<_>>(), [1, 200]);
        assert!(ProtocolSet::of(70).is_subset(&a) && !a.is_subset(&b));
        assert_eq!(format!("{b:?}"), "{70, 201}");
    }
}

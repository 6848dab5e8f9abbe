//! Sets of remainders, of questions and of classes of packets.

use std::borrow::Cow;
use weir_packet::BitSet;

/// Marks indices into [`Plan::questions`](crate::plan::Plan::questions).
#[derive(Debug)]
pub enum Question {}

/// Marks indices into [`Plan::alternatives`](crate::plan::Plan::alternatives).
#[derive(Debug)]
pub enum Remainder {}

/// Marks indices into [`Plan::classes`](crate::plan::Plan::classes).
#[derive(Debug)]
pub enum Class {}

/// Questions, by index into [`Plan::questions`](crate::plan::Plan::questions).
pub type QuestionSet = BitSet<Question>;

/// Remainders, by index into [`Plan::alternatives`](crate::plan::Plan::alternatives).
pub type RemainderSet = BitSet<Remainder>;

/// Classes of packets, by index into [`Plan::classes`](crate::plan::Plan::classes).
pub type ClassSet = BitSet<Class>;

/// The classes of one packet, a bit each, as the program wrote them. The first word is separate because most
/// programs have only one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    first: u64,
    further: &'a [u64],
}

impl<'a> Terms<'a> {
    /// No class.
    pub const EMPTY: Self = Self { first: 0, further: &[] };

    /// The classes with these bits.
    #[inline]
    pub fn new(first: u64, further: &'a [u64]) -> Self {
        Self { first, further }
    }

    /// A set as terms.
    #[inline]
    pub fn of(classes: &'a ClassSet) -> Self {
        let words = classes.words();
        Self { first: words[0], further: &words[1..] }
    }

    /// The first 64 classes.
    #[inline]
    pub fn first_word(self) -> u64 {
        self.first
    }

    /// Whether one of the classes is in both.
    #[inline]
    pub fn intersects(self, other: Terms<'_>) -> bool {
        self.first & other.first != 0
            || self.further.iter().zip(other.further).any(|(own, other)| own & other != 0)
    }

    /// Calls `each` with every word and its index.
    #[inline]
    pub fn for_each_word(self, mut each: impl FnMut(usize, u64)) {
        each(0, self.first);
        self.further.iter().enumerate().for_each(|(at, &word)| each(at + 1, word));
    }

    /// The classes in ascending order.
    #[inline]
    pub fn iter(self) -> Among<'a> {
        self.among(self)
    }

    /// The classes that are also in `others`.
    #[inline]
    pub fn among(self, others: Terms<'a>) -> Among<'a> {
        let further = self.further.iter().zip(others.further);
        Among { word: self.first & others.first, base: 0, further }
    }
}

/// Classes that are fixed with the plan, as words that are compared with the terms of each packet.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassWords {
    first: u64,
    /// Without trailing words that are 0.
    further: Box<[u64]>,
}

impl ClassWords {
    /// The classes of a set.
    pub fn of(classes: &ClassSet) -> Self {
        let words = classes.words();
        let used = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
        Self { first: words[0], further: words[1..used].into() }
    }

    /// The classes as terms.
    #[inline]
    pub fn terms(&self) -> Terms<'_> {
        Terms { first: self.first, further: &self.further }
    }

    /// The word with the classes from `64 * at` on.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        if at == 0 { self.first } else { self.further.get(at - 1).copied().unwrap_or(0) }
    }
}

/// The classes that are in two terms, in ascending order.
pub(crate) struct Among<'a> {
    /// The classes of the current word that are left.
    word: u64,
    /// The class of the first bit of the word.
    base: usize,
    further: std::iter::Zip<std::slice::Iter<'a, u64>, std::slice::Iter<'a, u64>>,
}

impl Iterator for Among<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            let (own, other) = self.further.next()?;
            (self.word, self.base) = (own & other, self.base + 64);
        }
        let class = self.base + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(class)
    }
}

/// The union of the sets of these classes. Borrowed if there is one class.
#[inline]
pub(crate) fn of_classes<T>(
    of_class: &[BitSet<T>],
    mut classes: impl Iterator<Item = usize>,
) -> Cow<'_, BitSet<T>> {
    let Some(first) = classes.next() else { return Cow::Owned(BitSet::EMPTY) };
    let mut all = Cow::Borrowed(&of_class[first]);
    classes.for_each(|class| *all.to_mut() |= &of_class[class]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_the_classes_of_all_their_words() {
        let (one, other) = (Terms::new(0b101, &[0, 0b10]), Terms::new(0b110, &[1 << 63, 0b11]));
        assert!(one.iter().eq([0, 2, 129]) && other.iter().eq([1, 2, 127, 128, 129]));
        assert!(one.among(other).eq([2, 129]) && one.intersects(other));
        assert!(!one.intersects(Terms::new(0b10, &[u64::MAX])) && !one.intersects(Terms::EMPTY));
        let set: ClassSet = one.iter().collect();
        assert!(Terms::of(&set).iter().eq(one.iter()));
        let mut words = vec![];
        one.for_each_word(|at, word| words.push((at, word)));
        assert_eq!(words, [(0, 0b101), (1, 0), (2, 0b10)]);
    }

    #[test]
    fn one_class_lends_what_it_comes_to() {
        let of_class = [QuestionSet::one(1), QuestionSet::one(300)];
        assert!(matches!(of_classes(&of_class, [1].into_iter()), Cow::Borrowed(set) if *set == of_class[1]));
        assert_eq!(*of_classes(&of_class, 0..2), [1, 300].into_iter().collect());
        assert!(of_classes(&of_class, 0..0).is_empty());
    }
}

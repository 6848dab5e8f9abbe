//! Sets of remainders, and of questions.

use std::borrow::Cow;
use weir_packet::BitSet;

/// Marks indices into [`Plan::questions`](crate::plan::Plan::questions).
#[derive(Debug)]
pub enum Question {}

/// Marks indices into [`Plan::alternatives`](crate::plan::Plan::alternatives).
#[derive(Debug)]
pub enum Remainder {}

/// Questions, by index into [`Plan::questions`](crate::plan::Plan::questions).
pub type QuestionSet = BitSet<Question>;

/// Remainders, by index into [`Plan::alternatives`](crate::plan::Plan::alternatives).
pub type RemainderSet = BitSet<Remainder>;

/// What these terms come to together, where each class comes to what is given. Borrowed where they are one class.
#[inline]
pub(crate) fn of_classes<T>(of_class: &[BitSet<T>], terms: u64) -> Cow<'_, BitSet<T>> {
    if terms.is_power_of_two() {
        return Cow::Borrowed(&of_class[terms.trailing_zeros() as usize]);
    }
    let (mut all, mut left) = (BitSet::EMPTY, terms);
    while left != 0 {
        all |= &of_class[left.trailing_zeros() as usize];
        left &= left - 1;
    }
    Cow::Owned(all)
}

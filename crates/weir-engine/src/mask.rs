//! Sets of remainders, and of questions.

/// Remainders, or questions: a bit each, by index into [`Plan::alternatives`](crate::plan::Plan) or [`Plan::questions`](crate::plan::Plan).
pub type Mask = u128;

/// What these terms come to together, where each class comes to what is given.
#[inline]
pub(crate) fn of_classes(of_class: &[Mask], terms: u64) -> Mask {
    let (mut all, mut left) = (0, terms);
    while left != 0 {
        all |= of_class[left.trailing_zeros() as usize];
        left &= left - 1;
    }
    all
}

/// The places of the bits that are set, from the lowest on.
pub fn places(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        place
    })
}

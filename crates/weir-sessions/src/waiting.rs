//! [`Waiting`]: a bounded queue of half exchanges whose other half is pending.

use std::collections::VecDeque;

/// Pending items, oldest first; at most `MAX`.
#[derive(Debug)]
pub(crate) struct Waiting<T, const MAX: usize>(VecDeque<T>);

impl<T, const MAX: usize> Default for Waiting<T, MAX> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T, const MAX: usize> Waiting<T, MAX> {
    /// Appends an item. Returns the oldest one if the queue was full.
    pub(crate) fn push(&mut self, item: T) -> Option<T> {
        self.0.push_back(item);
        if self.0.len() > MAX { self.0.pop_front() } else { None }
    }

    /// Removes and returns the oldest item that satisfies `is_wanted`.
    pub(crate) fn take(&mut self, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.0.iter().position(is_wanted)?;
        self.0.remove(at)
    }

    /// The oldest item that satisfies `is_wanted`.
    pub(crate) fn find(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.0.iter_mut().find(|item| is_wanted(item))
    }

    /// Finds the oldest item that satisfies `first`, and removes the later ones that do not satisfy
    /// `is_kept`.
    pub(crate) fn retain_behind(
        &mut self,
        first: impl FnMut(&T) -> bool,
        mut is_kept: impl FnMut(&T) -> bool,
    ) {
        let Some(at) = self.0.iter().position(first) else { return };
        let mut place = 0;
        self.0.retain(|item| {
            place += 1;
            place <= at + 1 || is_kept(item)
        });
    }

    /// Removes all items, oldest first.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// All items, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let mut waiting = Waiting::<u8, 2>::default();
        assert_eq!((waiting.push(1), waiting.push(2), waiting.push(3)), (None, None, Some(1)));
        assert_eq!(waiting.take(|item| *item > 1), Some(2));
        assert_eq!(waiting.find(|item| *item == 3), Some(&mut 3));
        assert_eq!(waiting.iter().count(), 1);
        assert_eq!(waiting.take_all().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn what_came_before_is_kept() {
        let mut waiting = Waiting::<u8, 9>::default();
        for item in [2, 1, 7, 1, 2, 2, 3] {
            assert_eq!(waiting.push(item), None);
        }
        waiting.retain_behind(|item| *item == 7, |item| *item != 2);
        assert_eq!(waiting.iter().copied().collect::<Vec<_>>(), [2, 1, 7, 1, 3]);
        waiting.retain_behind(|item| *item == 9, |_| false);
        assert_eq!(waiting.iter().count(), 5);
    }
}

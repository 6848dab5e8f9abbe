//! Csr indexed by number, in one allocation: predecessors by block, users by value and the like.

/// The lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Csr<T> {
    start: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Default> Csr<T> {
    /// Builds `count` lists from the pairs (list, item) that `each` yields. Calls `each` twice. Each list
    /// keeps the order of its items.
    pub(crate) fn of(count: usize, each: impl Fn(&mut dyn FnMut(usize, T))) -> Self {
        let mut start = vec![0u32; count + 1];
        each(&mut |list, _| start[list + 1] += 1);
        let mut total = 0;
        for slot in &mut start {
            total += *slot;
            *slot = total;
        }
        let mut next = start.clone();
        let mut items = vec![T::default(); total as usize];
        each(&mut |list, item| {
            items[next[list] as usize] = item;
            next[list] += 1;
        });
        Self { start, items }
    }

    /// The list with this number.
    pub(crate) fn at(&self, list: usize) -> &[T] {
        &self.items[self.start[list] as usize..self.start[list + 1] as usize]
    }
}

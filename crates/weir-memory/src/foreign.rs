//! Memory of libraries in C.

use crate::count::add;

/// Memory that a library in C holds for its owner, counted as if the owner had allocated it.
#[derive(Debug, Default)]
pub struct Foreign(usize);

impl Foreign {
    /// Memory of this size.
    pub fn new(bytes: usize) -> Self {
        let mut foreign = Self(0);
        foreign.set(bytes);
        foreign
    }

    /// Changes the size.
    pub fn set(&mut self, bytes: usize) {
        add(bytes as isize - self.0 as isize);
        self.0 = bytes;
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.set(0);
    }
}

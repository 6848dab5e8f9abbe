//! The count of a thread.

use std::cell::Cell;
use std::hint::black_box;

thread_local! {
    /// Bytes. The value needs no destructor, so that the allocator may use it at any time of a thread.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The bytes that this thread has allocated and not released, rounded up as allocators do. Negative if it
/// has released more than it has allocated.
#[inline]
pub fn live_bytes() -> isize {
    LIVE.get()
}

/// Whether the program's allocator is [`Counted`].
pub fn is_counting() -> bool {
    let before = live_bytes();
    let probe = black_box(Box::new(0_u64));
    let counts = live_bytes() != before;
    drop(probe);
    counts
}

#[inline]
pub(crate) fn add(bytes: isize) {
    LIVE.set(LIVE.get().wrapping_add(bytes));
}

/// The bytes that a request takes: allocators round up to multiples of 16, and larger requests to one of
/// eight sizes between two powers of two.
#[inline]
pub(crate) fn taken(size_bytes: usize) -> isize {
    let step = 1 << (usize::BITS - (size_bytes | 128).leading_zeros() - 4);
    (size_bytes.wrapping_add(step - 1) & !(step - 1)) as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rounded_up() {
        let cases =
            [(1, 16), (16, 16), (17, 32), (128, 128), (129, 144), (256, 256), (257, 288), (5000, 5120)];
        for (bytes, whole) in cases {
            assert_eq!(taken(bytes), whole, "{bytes}");
        }
        assert_eq!(taken(0), 0);
    }
}

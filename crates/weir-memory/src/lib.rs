//! Counts the bytes that each thread has allocated and not released, so that an account of memory sees what
//! a piece of code really holds: the code allocates through the program's allocator, and cannot pass it by.
//!
//! A program makes the count possible with one line:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);
//!
//! let before = weir_memory::live_bytes();
//! let text = String::from("some bytes");
//! assert!(weir_memory::is_counting() && weir_memory::live_bytes() - before >= text.len() as isize);
//! ```
//!
//! Without the line [`is_counting`] is false, and [`live_bytes`] is always 0.
//!
//! The count belongs to the thread that allocates or releases, not to the memory: if one thread releases what
//! another has allocated, the count of the first falls, and that of the other stays. Differences of the
//! count around a call are therefore exact if the call releases nothing that others have allocated and
//! passes nothing on. Memory of C libraries is not seen; its holders report it with [`Foreign`].

use std::alloc::{GlobalAlloc, Layout};
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
fn add(bytes: isize) {
    LIVE.set(LIVE.get().wrapping_add(bytes));
}

/// The bytes that a request takes: allocators round up to multiples of 16, and larger requests to one of
/// eight sizes between two powers of two.
#[inline]
fn taken(size_bytes: usize) -> isize {
    let step = 1 << (usize::BITS - (size_bytes | 128).leading_zeros() - 4);
    (size_bytes.wrapping_add(step - 1) & !(step - 1)) as isize
}

/// An allocator that counts what passes through it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted<A>(pub A);

// SAFETY: every request is passed to the inner allocator unchanged, and its answer is returned unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        let memory = unsafe { self.0.alloc(layout) };
        if !memory.is_null() {
            add(taken(layout.size()));
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if !memory.is_null() {
            add(taken(layout.size()));
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        add(-taken(layout.size()));
        // SAFETY: the memory is from the inner allocator, with this layout.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the caller keeps the promises about the new size.
        let moved = unsafe { self.0.realloc(memory, layout, new_size) };
        if !moved.is_null() {
            add(taken(new_size) - taken(layout.size()));
        }
        moved
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[global_allocator]
    static ALLOCATOR: Counted<System> = Counted(System);

    #[test]
    fn requests_are_rounded_up() {
        let cases =
            [(1, 16), (16, 16), (17, 32), (128, 128), (129, 144), (256, 256), (257, 288), (5000, 5120)];
        for (bytes, whole) in cases {
            assert_eq!(taken(bytes), whole, "{bytes}");
        }
        assert_eq!(taken(0), 0);
    }

    #[test]
    fn memory_counts_from_its_allocation_to_its_release() {
        assert!(is_counting());
        let before = live_bytes();
        let mut bytes: Vec<u8> = Vec::with_capacity(100);
        assert_eq!(live_bytes() - before, 112);
        bytes.reserve_exact(1000);
        assert_eq!(live_bytes() - before, 1024);
        let zeros = vec![0_u8; 64];
        assert_eq!(live_bytes() - before, 1024 + 64);
        drop((bytes, zeros));
        assert_eq!(live_bytes(), before);
    }

    #[test]
    fn memory_of_other_languages_counts_by_report() {
        let before = live_bytes();
        let mut window = Foreign::new(1000);
        window.set(300);
        assert_eq!(live_bytes() - before, 300);
        drop(window);
        assert_eq!(live_bytes(), before);
    }

    #[test]
    fn each_thread_has_its_own_count() {
        let before = live_bytes();
        let bytes = std::thread::spawn(|| vec![1_u8; 1 << 20]).join().expect("no panic");
        assert!(live_bytes() - before < 1 << 20);
        let held = live_bytes();
        drop(bytes);
        assert_eq!(held - live_bytes(), 1 << 20);
    }
}

//! The allocator that counts.
#![allow(unsafe_code)]

use crate::count::{add, taken};
use crate::reserve::repeat;
use std::alloc::{GlobalAlloc, Layout};

/// An allocator that counts what passes through it, and repeats a refused request once the
/// [reserve](crate::keep_reserve) is released.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted<A>(pub A);

// SAFETY: every request is passed to the inner allocator unchanged, once or after a refusal again, and the
// last answer is returned unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        let request = || unsafe { self.0.alloc(layout) };
        let mut memory = request();
        if memory.is_null() {
            memory = repeat(request);
        }
        if !memory.is_null() {
            add(taken(layout.size()));
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        let request = || unsafe { self.0.alloc_zeroed(layout) };
        let mut memory = request();
        if memory.is_null() {
            memory = repeat(request);
        }
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
        // SAFETY: as for `dealloc`; the caller keeps the promises about the new size. A refused request
        // leaves the memory where it is, so that the request can be repeated.
        let request = || unsafe { self.0.realloc(memory, layout, new_size) };
        let mut moved = request();
        if moved.is_null() {
            moved = repeat(request);
        }
        if !moved.is_null() {
            add(taken(new_size) - taken(layout.size()));
        }
        moved
    }
}

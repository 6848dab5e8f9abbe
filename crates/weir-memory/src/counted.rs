//! The allocator that counts.
#![allow(unsafe_code)]

use crate::count::{add, taken};
use std::alloc::{GlobalAlloc, Layout};

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

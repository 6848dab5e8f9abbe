//! Memory of tables: zeroed arrays on huge pages, and cache prefetching.
//!
//! One of the two files of this crate with `unsafe` blocks (the other is `slab`). On 1 M random flows with
//! entries of 128 bytes, prefetching is faster by a factor of 2.3 and huge pages by 1.15; with 256 bytes, by
//! 1.6 and 1.1 to 1.25 (`examples/table_bench.rs`, 2026-11-21, on a machine with other work).
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a huge page on the supported systems.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A type for which all zero bits are a valid value, without significant padding and without a destructor.
///
/// # Safety
/// Zero bytes must be a valid value, and dropping must do nothing.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: integers are plain.
unsafe impl Plain for u64 {}

/// An array that starts as zeros. The system provides its pages when they are first accessed.
pub(super) struct Zeroed<T: Plain> {
    start: NonNull<T>,
    length: usize,
    mapping: Mapping,
}

/// A mapping that is returned to the system on drop.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl<T: Plain> Zeroed<T> {
    /// `length` zeros; `None` if the system has no memory. With `huge`, huge pages are requested, and the
    /// array starts on one.
    pub(super) fn new(length: usize, huge: bool) -> Option<Self> {
        let wanted = length.checked_mul(size_of::<T>())?.max(1);
        let slack = if huge { HUGE_PAGE_BYTES } else { 0 };
        let mapping = Mapping::zeroed(wanted.checked_add(slack)?)?;
        let skip = if huge { mapping.start.as_ptr().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        assert!(skip <= slack, "the start is aligned within the slack");
        // SAFETY: `skip` is within the mapping, which is `slack` bytes longer than wanted.
        let start = unsafe { mapping.start.add(skip) };
        if huge {
            advise_huge(start, wanted);
        }
        let start = start.cast::<T>();
        assert!(start.is_aligned(), "mappings are aligned to pages");
        Some(Self { start, length, mapping })
    }
}

impl<T: Plain> Zeroed<T> {
    /// A pointer to the first value.
    #[inline]
    pub(super) fn start(&self) -> NonNull<T> {
        self.start
    }
}

impl<T: Plain> Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned, and `length` values from there on lie in the mapping; they are
        // zeros, which `T: Plain` allows, or what was written through `deref_mut`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Plain> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive because the array owns its mapping.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

// SAFETY: the array owns its memory alone, like a `Vec`.
unsafe impl<T: Plain + Send> Send for Zeroed<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Plain + Sync> Sync for Zeroed<T> {}

impl<T: Plain> Drop for Zeroed<T> {
    fn drop(&mut self) {
        self.mapping.release();
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Mapping {
    fn zeroed(bytes: usize) -> Option<Self> {
        // SAFETY: a fresh private mapping, which aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, bytes })
    }

    fn release(&mut self) {
        // SAFETY: the range that `zeroed` mapped; its owner is being dropped, so no reference exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
impl Mapping {
    /// `None`: no address space has that many bytes.
    fn layout(bytes: usize) -> Option<std::alloc::Layout> {
        std::alloc::Layout::from_size_align(bytes, 4096).ok()
    }

    fn zeroed(bytes: usize) -> Option<Self> {
        // SAFETY: the layout has at least one byte.
        let start = unsafe { std::alloc::alloc_zeroed(Self::layout(bytes)?) };
        Some(Self { start: NonNull::new(start)?, bytes })
    }

    fn release(&mut self) {
        let Some(layout) = Self::layout(self.bytes) else { return };
        // SAFETY: the memory that `zeroed` allocated, with the same layout.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
    }
}

/// Requests huge pages. If the system refuses, small pages are used.
#[cfg_attr(any(miri, not(target_os = "linux")), allow(unused_variables))]
fn advise_huge(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the range lies in a mapping of this object; the advice does not change its contents.
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
}

/// Hints that the cache line of `value` will be used soon. Costs one instruction and waits for nothing.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults; SSE is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A bit for each of eight numbers that equals `number`.
#[inline(always)]
pub(super) fn equal(eight: [u16; 8], number: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: an unaligned load reads the eight numbers; SSE2 is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        };
        let same = _mm_cmpeq_epi16(_mm_loadu_si128(eight.as_ptr().cast()), _mm_set1_epi16(number as i16));
        _mm_movemask_epi8(_mm_packs_epi16(same, same)) as u32 & 0xff
    }
    #[cfg(not(target_arch = "x86_64"))]
    eight.iter().enumerate().fold(0, |all, (place, &other)| all | u32::from(other == number) << place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_starts_as_zeros_and_keeps_what_is_written() {
        let words = if cfg!(miri) { 3_000 } else { 300_000 };
        for huge in [false, true] {
            let mut array = Zeroed::<u64>::new(words, huge).expect("there is memory");
            assert!(array.iter().all(|&word| word == 0));
            array[words - 1] = 7;
            array[0] = 5;
            assert_eq!((array[0], array[words - 1], array.len()), (5, 7, words));
        }
    }

    #[test]
    fn each_of_eight_numbers_is_compared() {
        for place in 0..8 {
            let mut eight = [7, 0xffff, 0x8000, 1, 0, 0x7fff, 300, 9];
            eight[place] = 0x1234;
            assert_eq!(equal(eight, 0x1234), 1 << place);
        }
        assert_eq!(equal([0; 8], 0), 0xff);
        assert_eq!(equal([0; 8], 0x8000), 0);
    }

    #[test]
    fn an_empty_array_is_no_trouble() {
        assert!(Zeroed::<u64>::new(0, true).is_some_and(|none| none.is_empty()));
    }

    #[test]
    fn what_no_system_has_is_refused() {
        assert!(Zeroed::<u64>::new(usize::MAX / 16, false).is_none());
        assert!(Zeroed::<u64>::new(usize::MAX, true).is_none());
    }
}

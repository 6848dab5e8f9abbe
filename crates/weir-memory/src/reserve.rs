//! Memory that is kept back for the time when the system refuses more.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of the reserve, and the least that helps. No page of it is written, so that only address space is
/// taken.
const RESERVE_BYTES: usize = 64 << 20;
const RESERVE_BYTES_MIN: usize = 4 << 20;

/// How often a refused request is repeated, and the time between two attempts: other threads release memory
/// as they end.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(1);

/// The reserve; null: there is none.
static RESERVE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Its size in bytes, which does not change.
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Ends the work of the program.
static END: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Keeps address space back: 64 MiB, or less if the system grants less, but not below 4 MiB. Once the system
/// refuses a request to a [`Counted`](crate::Counted) allocator, the reserve is released, `end` is called,
/// and the request is repeated: the program has the reserve to end in order. `end` runs inside of a request
/// and must not allocate. Only the first call has an effect. Returns whether there is a reserve.
pub fn keep_reserve(end: impl Fn() + Send + Sync + 'static) -> bool {
    if END.set(Box::new(end)).is_err() {
        return false;
    }
    let mut bytes = RESERVE_BYTES;
    while bytes >= RESERVE_BYTES_MIN {
        // SAFETY: the layout has a size.
        let reserve = unsafe { System.alloc(layout(bytes)) };
        if !reserve.is_null() {
            SIZE.store(bytes, Ordering::Release);
            RESERVE.store(reserve, Ordering::Release);
            return true;
        }
        bytes /= 2;
    }
    false
}

/// The layout of a reserve of so many bytes, which are too few for an error.
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).unwrap_or(Layout::new::<u128>())
}

/// Gives the reserve back to the system. False if that was done before.
fn release() -> bool {
    let reserve = RESERVE.swap(null_mut(), Ordering::AcqRel);
    if !reserve.is_null() {
        // SAFETY: the reserve comes from `System` with this layout, and no one else has the pointer any more.
        unsafe { System.dealloc(reserve, layout(SIZE.load(Ordering::Acquire))) }
    }
    !reserve.is_null()
}

thread_local! {
    /// The thread is within [`checked`].
    static IS_CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `ask`, whose requests may be refused: a refusal is returned at once, and the reserve stays. For
/// `try_reserve` and the like, where the caller does without the memory.
pub fn checked<T>(ask: impl FnOnce() -> T) -> T {
    let before = IS_CHECKED.replace(true);
    let answer = ask();
    IS_CHECKED.set(before);
    answer
}

/// Repeats a request that the system has refused. Null if it is refused without the reserve, too.
#[cold]
pub(crate) fn repeat(request: impl Fn() -> *mut u8) -> *mut u8 {
    let Some(end) = END.get().filter(|_| !IS_CHECKED.get()) else { return null_mut() };
    if release() {
        end();
    }
    for _ in 0..ATTEMPTS {
        let memory = request();
        if !memory.is_null() {
            return memory;
        }
        thread::sleep(PAUSE);
    }
    null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    thread_local! {
        /// Requests that are refused until the reserve is released.
        static IS_FULL: Cell<bool> = const { Cell::new(false) };
    }

    /// An allocator that can be full.
    struct Limited;

    // SAFETY: the answers are those of `System`, or null, which is a refusal.
    unsafe impl GlobalAlloc for Limited {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if IS_FULL.get() && !RESERVE.load(Ordering::Acquire).is_null() {
                return null_mut();
            }
            // SAFETY: the caller keeps the promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    #[test]
    fn a_refused_request_takes_from_the_reserve_and_tells_once() {
        let told = Arc::new(AtomicUsize::new(0));
        let tells = Arc::clone(&told);
        let end = move || {
            tells.fetch_add(1, Ordering::Relaxed);
        };
        assert!(keep_reserve(end));
        assert!(!keep_reserve(|| ()), "one reserve is enough");
        let layout = Layout::new::<[u64; 100]>();
        IS_FULL.set(true);
        // SAFETY: the layout has a size.
        assert!(checked(|| unsafe { Counted(Limited).alloc(layout) }).is_null());
        assert_eq!(told.load(Ordering::Relaxed), 0, "whoever asks does without");
        for _ in 0..2 {
            // SAFETY: the layout has a size.
            let memory = unsafe { Counted(Limited).alloc(layout) };
            assert!(!memory.is_null());
            // SAFETY: the memory is from this allocator.
            unsafe { Counted(Limited).dealloc(memory, layout) };
        }
        IS_FULL.set(false);
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}

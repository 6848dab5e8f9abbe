//! The allocator of the program. Libraries that load Weir, as Python's, have their own: mimalloc's variables
//! of threads do not fit into them.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: weir_memory::Counted<mimalloc::MiMalloc> = weir_memory::Counted(mimalloc::MiMalloc);

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings do not name: the same in versions 2 and 3.
const PURGE_DELAY: mi_option_t = 15;

/// Milliseconds for which mimalloc keeps released pages; its own choice is 10 and more.
const DELAY_MS: std::ffi::c_long = 1;

/// Lets mimalloc return released pages to the system after a millisecond. Buffers that grow in turns, one of
/// each connection, leave pages behind faster than its own delay returns them: with 2 000 unfinished heads at
/// `--memory 64M` the process had 88 MB instead of 68. To be called at the start of `main`, before there are
/// threads.
pub fn return_soon() {
    // SAFETY: the option exists, and the call only stores a number; no other thread changes options.
    unsafe { mi_option_set(PURGE_DELAY, DELAY_MS) }
}

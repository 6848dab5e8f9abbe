//! Outputs, their threads under many schedules, packed rows, and the shared captures. One program, so that
//! the crate is linked once.

mod outlet;
mod packed;
mod schedules;
mod traces;

/// The types that `outlet.rs` takes from `crate::sync`: those of shuttle (`schedules.rs`).
mod sync {
    pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use shuttle::thread;
    pub use std::sync::{OnceLock, PoisonError};
}

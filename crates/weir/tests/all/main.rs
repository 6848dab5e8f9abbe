//! The library over captures and generated traffic. One program, so that the crate is linked once.

mod conformance;
mod examples;
mod layers;
mod properties;
mod schedules;
mod services_capture;
mod sessions_capture;
mod sessions_page;
mod support;
mod tunnels_capture;

/// What connections cost is measured by `properties::account`, and bounded by other tests.
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);

/// The types that `work_queues.rs` takes from `crate::sync`: those of shuttle (`schedules.rs`).
mod sync {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use std::sync::PoisonError;
}

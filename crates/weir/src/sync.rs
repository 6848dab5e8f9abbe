//! What threads share. `tests/all/schedules.rs` compiles the users of this module with shuttle's types in
//! their place, which try many schedules.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

//! Rows for other machines.
//!
//! - [`Spool`]: a queue of messages on disk, bounded; [`Queue`]: this, or a queue in memory
#![forbid(unsafe_code)]

mod memory;
mod message;
mod queue;
mod spool;

pub use memory::MEMORY_BYTES_MAX;
pub use message::{Message, Refusals};
pub use queue::Queue;
pub use spool::{RECORD_BYTES_MAX, SPOOL_BYTES_MIN, Spool};

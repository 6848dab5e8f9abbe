//! Divides captures among tasks that know nothing of each other, such as those of Spark: rows are the same
//! for any division.
//!
//! 1. [`build_index`] reads a capture once. Its [`Index`] says where reading can begin, which pairs of hosts
//!    have packets in each chunk, and of which pairs the engine has state at each border.
//! 2. [`plan()`] divides the chunks of all captures among [`Task`]s. A pair that is open at a border between
//!    two tasks is followed by the first task and left out by the second, so that no connection is divided
//!    and no state is passed on.
//! 3. [`TaskSource`] has the packets of a task, as a source for any question.
//!
//! Read `plan.rs` first, then `runs.rs` (open pairs), `cuts.rs` (captures that overlap), `build.rs`,
//! `source.rs`. The meaning of a pair is that of [`weir::HostPairs`]. Nothing here knows where captures are
//! stored: [`OpenCapture`] does.
#![forbid(unsafe_code)]

mod build;
mod coding;
mod cuts;
mod frames;
mod index;
mod plan;
mod runs;
mod source;
mod task;
#[cfg(test)]
mod tests;

use weir::{Compiler, HostPairs, Options};

pub use build::{Fault, build_index};
pub use coding::Malformed;
pub use index::{Chunk, Identity, Index, Pair};
pub use plan::{Capture, Division, Window, plan};
pub use source::{Files, OpenCapture, TaskSource};
pub use task::{Part, Select, Step, Task};
pub use weir::longest_timeout;

/// The pairs of packets for the settings of `compiler` and `options`.
///
/// # Errors
/// The options contradict the stack.
pub fn host_pairs(compiler: &Compiler, options: &Options) -> Result<HostPairs, String> {
    HostPairs::new(compiler, options).map_err(|wrong| wrong.render(false))
}

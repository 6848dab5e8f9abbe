//! What a run reads.
//!
//! - `file_names.rs`: the names of inputs; `input.rs`: from options to a compiler and its options
//! - `captures.rs`: the packets; `source_part.rs`: what becomes of them on their way, and a part for each
//!   worker; `ender.rs`: their end before that of the input
//! - `memory.rs`: the memory of a run; `machine_memory.rs`: what there is; `policies.rs`: how receivers
//!   resolve overlaps

pub(crate) mod captures;
pub(crate) mod ender;
pub mod file_names;
pub mod input;
pub(crate) mod machine_memory;
pub(crate) mod memory;
pub(crate) mod policies;
pub(crate) mod source_part;

pub use captures::{Captures, Cut};
pub use ender::Ender;
pub use source_part::{Tap, Taps};

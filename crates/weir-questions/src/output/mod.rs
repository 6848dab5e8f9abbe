//! Where answers go: files, pipes, connections, receivers on other machines.
//!
//! - `place.rs`: names of outputs, and whether they can be written
//! - `answers.rs`: the answers of a question, collected in batches; `outlets.rs`: the threads of outputs
//! - `destination.rs`: writes, on such a thread; `rotation.rs`, `part.rs`: in several files; `leftovers.rs`:
//!   files of a run before
//! - `file_budget.rs`: bounds of the files of a directory
//! - `handover.rs`: clients that stay over a reload; `instances.rs`: packets for instances; `tagged_sink.rs`:
//!   rows of several questions in one output
//! - `export`: rows for other machines

pub(crate) mod answers;
pub(crate) mod destination;
pub(crate) mod export;
pub(crate) mod file_budget;
pub(crate) mod handover;
pub(crate) mod instances;
pub(crate) mod leftovers;
pub(crate) mod outlets;
pub(crate) mod part;
pub mod place;
pub(crate) mod rotation;
pub(crate) mod tagged_sink;

pub use file_budget::{DUMP_FILES_MAX, FileBounds, FileBudget};
pub use outlets::Outlets;

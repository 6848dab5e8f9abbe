//! Pipelines against simple models, and the forms of a pipeline against each other.

mod bounds;
mod flows;
mod graphs;
mod windows;

/// A record: its time in nanoseconds, its key, and a number.
pub type Record = (i64, u8, u64);

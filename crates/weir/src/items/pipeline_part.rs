//! What a worker's part of a pipeline passes on.

use std::any::Any;
use std::sync::Mutex;
use weir_pipeline::Counts;

/// What a worker's part of a pipeline passed on.
#[derive(Debug)]
pub struct PipelinePart {
    /// The worker's number.
    pub(crate) worker: usize,
    /// Number of workers.
    pub(crate) workers: usize,
    /// The capture time that the worker has reached: nanoseconds since 1970, `i64::MIN` before the first
    /// time, `i64::MAX` at its end.
    pub(crate) time: i64,
    /// How often the worker's time was set.
    pub(crate) restarts: u64,
    /// The items, until the receiver has taken them: a `Vec` of what the operators pass on.
    pub(crate) items: Mutex<Box<dyn Any + Send>>,
    /// At the worker's end: what the bounds of its operators cut off.
    pub(crate) counts: Counts,
}

//! The order in which a run hands out items.

use std::time::Duration;

/// The order in which items are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// The order of the capture, the same whatever the number of workers. One thread reads the source.
    Total,
    /// Items of each worker in their order, those of several workers merged by time. Only a source that can be
    /// [split](weir_packet::Source::split) is read so, by each worker a part of its own; any other one comes in total order.
    ByWorker {
        /// How long an item waits at most for items of other workers that may be earlier.
        delay: Duration,
    },
}

impl Default for Ordering {
    /// By worker, within 100 ms.
    fn default() -> Self {
        Self::ByWorker { delay: Duration::from_millis(100) }
    }
}

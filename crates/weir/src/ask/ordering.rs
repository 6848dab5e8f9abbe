//! The order in which a run delivers items.

use std::time::Duration;

/// The order in which items are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// The order of the capture, the same whatever the number of workers. One thread reads the source.
    Total,
    /// The items of each worker in order, those of several workers merged by time. This needs a source that
    /// can be [split](weir_packet::Source::split), so that each worker reads a part; other sources are read
    /// in total order.
    ByWorker {
        /// Limit of the time that an item waits for earlier items of other workers.
        delay: Duration,
    },
}

impl Default for Ordering {
    /// By worker, within 100 ms.
    fn default() -> Self {
        Self::ByWorker { delay: Duration::from_millis(100) }
    }
}

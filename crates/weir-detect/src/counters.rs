//! What the bounds of a run cut off.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of all workers of a run.
#[derive(Debug, Default)]
pub struct Counters {
    /// Inspections that ended at [`STEPS_MAX`](weir_rules::STEPS_MAX), or at the bound of their packet.
    pub bounded: AtomicU64,
    /// Rules that waited for further bytes of a stream, and were given up because too many waited.
    pub waiting_lost: AtomicU64,
    /// Alerts of streams that waited for the protocol, and were given up because too many waited.
    pub undecided_lost: AtomicU64,
    /// Bits, integers and counts that were not kept, because there were too many.
    pub state_refused: AtomicU64,
    /// Sessions that were not inspected, because too many were complete at once.
    pub sessions_refused: AtomicU64,
    /// Parts of streams before a gap that were not inspected, because too many of one direction waited for a
    /// packet.
    pub pieces_lost: AtomicU64,
    /// Connections whose bytes, bits and integers were forgotten, because rules kept more than their memory.
    pub flows_forgotten: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

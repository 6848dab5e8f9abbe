//! The order of what happens in a run.

/// Where in the run something happened: the same whatever the number of workers, so that their
/// rows can be merged into one order. Compares as it came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Order {
    /// Number of the burst, counted over all workers.
    pub burst: u64,
    /// 0: chunks that waited long enough; 1: flows ended before the burst; 2: a packet of it; 3: the end of the run.
    pub phase: u8,
    /// Deadline of the flow, or number of the packet.
    pub at: i64,
    /// Number of the flow's first packet.
    pub flow: u64,
}

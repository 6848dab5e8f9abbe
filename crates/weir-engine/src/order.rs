//! The order of events in a run.

/// The position of an event in the run. The position does not depend on the number of workers, so the rows of all
/// workers can be merged into one order. Positions compare in the order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Order {
    /// Number of the part of a burst, counted over all workers: a part ends where the clock moves to another tick.
    pub burst: u64,
    /// 0: chunks that waited long enough, reports that are due; 1: flows that ended before the burst; 2: a packet of the burst; 3: the end
    /// of the run.
    pub phase: u8,
    /// Deadline of the flow or of its report (nanoseconds since 1970), or number of the packet.
    pub at: i64,
    /// Number of the flow's first packet.
    pub flow: u64,
}

impl Order {
    /// The phase of the packets of a burst: `at` is the number of the packet.
    pub const PACKET: u8 = 2;
}

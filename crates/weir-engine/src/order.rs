//! The order of events in a run.

/// The position of an event in the run. The position does not depend on the number of workers, so the rows of
/// all workers can be merged into one order. Positions compare in the order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Order {
    /// Number of the part of a burst, counted over all workers: a part ends where the clock moves to another
    /// tick.
    pub burst: u64,
    /// [`CHUNK`](Self::CHUNK), [`REPORT`](Self::REPORT), [`ENDED`](Self::ENDED), [`TIME`](Self::TIME),
    /// [`PACKET`](Self::PACKET) or [`END`](Self::END).
    pub phase: u8,
    /// Deadline of the flow (nanoseconds since 1970), or number of the packet; of a report the packet that
    /// asked for it.
    pub at: i64,
    /// Number of the flow's first packet; of a report the question. With [`CHECKED`](Self::CHECKED) for a
    /// flow that is reported at an interval, in the phase of flows that ended.
    pub flow: u64,
}

impl Order {
    /// Added to [`flow`](Self::flow): flows that end at the time of a check come before those that live.
    pub const CHECKED: u64 = 1 << 63;
    /// The phase of chunks that waited long enough.
    pub const CHUNK: u8 = 0;
    /// The phase of reports of connections that are due.
    pub const REPORT: u8 = 1;
    /// The phase of flows that ended before the burst.
    pub const ENDED: u8 = 2;
    /// The phase of what is due at the burst's time, after flows have ended.
    pub const TIME: u8 = 3;
    /// The phase of the packets of a burst: `at` is the number of the packet.
    pub const PACKET: u8 = 4;
    /// The phase of the end of the run.
    pub const END: u8 = 5;
}

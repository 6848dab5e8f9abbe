//! A range of times, and the packets of a segment that has one.

/// The times of packets that are read: from the first to the last, inclusive, nanoseconds since 1970. The
/// default: all times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first time.
    pub first: i64,
    /// The last time.
    pub last: i64,
}

impl Default for TimeRange {
    fn default() -> Self {
        Self::ALL
    }
}

impl TimeRange {
    /// All times.
    pub const ALL: Self = Self { first: i64::MIN, last: i64::MAX };

    pub(crate) fn overlaps(self, first: i64, last: i64) -> bool {
        first <= self.last && last >= self.first
    }
}

/// What is known of a segment without reading its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The ring of the segment, and the segment's serial number in this ring. Memory and disk may both hold
    /// the segment.
    pub segment: (u64, u64),
    /// The times of the first and the last packet.
    pub times: TimeRange,
    /// Packets.
    pub packets: u64,
    /// Bytes of the segment, also those of its index, and of room that no packet uses.
    pub bytes: u64,
}

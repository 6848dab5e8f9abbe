//! What the workers of a question for records share.

use crate::ask::group_key::GroupKey;
use crate::rows::values::Part;
use weir_packet::Column;

/// When a record is complete, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// Maximum number of packets of a record.
    pub packets_max: usize,
    /// Only the first record of a group is made: packets after it are left out, until the group was idle.
    pub first_only: bool,
    /// A record is complete this long after its first packet, in nanoseconds.
    pub age_ns: u64,
    /// A group ends this long after its last packet, in nanoseconds.
    pub idle_ns: u64,
    /// Groups of a worker: if there are more, the one without packets for the longest time ends.
    pub groups_max: usize,
    /// Numbers in all lists of a worker: if there are more, groups end likewise.
    pub numbers_max: usize,
}

/// Bytes of a group beside its lists: twice the key, the lists' own places, and the entries of the group.
const GROUP_BYTES: usize = 512;

impl RecordLimits {
    /// The usual limits, with at most about this many bytes of memory for the groups of a worker: a quarter
    /// for the groups, the rest for numbers.
    pub fn within(memory_max: usize) -> Self {
        let usual = Self::default();
        Self {
            groups_max: usual.groups_max.min(memory_max / 4 / GROUP_BYTES),
            numbers_max: usual.numbers_max.min(memory_max / 4 * 3 / size_of::<u64>()),
            ..usual
        }
    }
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            packets_max: 1_024,
            first_only: false,
            age_ns: 60_000_000_000,
            idle_ns: 15_000_000_000,
            groups_max: 1 << 16,
            numbers_max: 32 << 20,
        }
    }
}

/// A feature of packets.
#[derive(Debug, Clone)]
pub(super) enum Feature {
    /// Capture time: nanoseconds since 1970.
    Time,
    /// Nanoseconds since the packet before in the record.
    Gap,
    /// Whether the packet goes in the other direction than the first one of the record.
    Direction,
    /// A field with this number among the values.
    Field(usize),
}

/// Packet vectors by a key.
#[derive(Debug, Clone)]
pub struct PacketRecords {
    pub(super) key: GroupKey,
    pub(super) inputs: Vec<Part>,
    pub(super) features: Vec<Feature>,
    pub(super) limits: RecordLimits,
    pub(super) columns: Vec<Column>,
    pub(super) layers: Vec<String>,
}

impl PacketRecords {
    /// The columns of its rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

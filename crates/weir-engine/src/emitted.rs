//! Events that the program emitted on the current packet, or that report the end of a flow.

use crate::end_event::{EndEvent, EndValue};
use crate::flow::FlowView;
use crate::subscriber::EventView;
use crate::table::OwnedHeader;
use weir_ir::graph::{Event, Table};
use weir_packet::Timestamp;

/// Events of one packet, in the order in which they were emitted.
#[derive(Default)]
pub(crate) struct Emitted {
    events: Vec<(Event, Table, OwnedHeader, usize)>,
    /// The words of all columns, event by event.
    values: Vec<u64>,
    /// The bytes of columns, and the end of each column in them.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes that exceeded the limit.
    pub cut_bytes: u64,
}

/// Limit of bytes for the columns of all events of one packet. Messages may be as long as 16 MiB, and each
/// item of a repetition may emit an event.
pub const COLUMN_BYTES_MAX: usize = 1 << 20;

impl Emitted {
    pub fn push(&mut self, event: Event, table: Table, header: OwnedHeader, values: &[u64]) {
        self.events.push((event, table, header, self.values.len()));
        self.values.extend_from_slice(values);
    }

    /// Adds an event that reports a flow.
    pub fn push_end(&mut self, end: &EndEvent, flow: &FlowView<'_>) {
        let start = self.values.len();
        let mut known = 0;
        for (at, column) in end.columns.iter().enumerate() {
            let value = column.read(flow);
            known |= u64::from(value != EndValue::Absent).checked_shl(at as u32).unwrap_or(0);
            let word = match value {
                EndValue::Absent => 0,
                EndValue::Number(number) => number,
                EndValue::Name(name) => self.keep(name.as_bytes()),
            };
            self.values.extend([0, word]);
        }
        self.values.push(known);
        self.events.push((end.event, flow.table, OwnedHeader::from(flow.header), start));
    }

    /// Keeps the bytes of a column, up to the limit. Returns the number that the column's word holds.
    pub fn keep(&mut self, bytes: &[u8]) -> u64 {
        let kept = &bytes[..bytes.len().min(COLUMN_BYTES_MAX - self.bytes.len())];
        self.cut_bytes += (bytes.len() - kept.len()) as u64;
        self.bytes.extend_from_slice(kept);
        self.ends.push(self.bytes.len());
        self.ends.len() as u64 - 1
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ends.is_empty()
    }

    pub fn clear(&mut self) {
        self.events.clear();
        self.values.clear();
        self.bytes.clear();
        self.ends.clear();
        self.cut_bytes = 0;
    }

    /// The events. `time` and `packet`: those of the packet, or those of a report and `None`.
    pub fn views(&self, time: Timestamp, packet: Option<u64>) -> impl Iterator<Item = EventView<'_>> {
        self.events.iter().enumerate().map(move |(at, (event, table, header, start))| {
            let end = self.events.get(at + 1).map_or(self.values.len(), |next| next.3);
            let (values, kept) = (&self.values[*start..end], (&self.bytes[..], &self.ends[..]));
            EventView { event: *event, time, packet, flow: (*table, header), values, kept }
        })
    }
}

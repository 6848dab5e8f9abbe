//! Which flows of a table are to end, and in which order: those whose time-out has passed, or all of them.

use crate::flow_ref::FlowRef;
use crate::table::FlowId;
use crate::tables::TableState;
use weir_ir::graph::Table;

/// Longest time-out of the first packets of a flow that is assumed, nanoseconds.
const BESIDE_NS: i64 = 3_600_000_000_000;

/// A flow that is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    /// When its time-out has passed, nanoseconds since 1970; 0 at the end of the capture.
    pub at: i64,
    /// The number of its first packet.
    pub first_packet: u64,
    pub flow: FlowRef,
}

impl TableState {
    /// Adds the flows whose deadline is at or before `now`, in the order of deadlines.
    pub fn expire(&mut self, table: Table, now: i64, list: &mut Vec<(i64, FlowId)>, all: &mut Vec<Ending>) {
        let (flows, timeouts) = (&self.flows, self.layout.timeouts);
        let is_set_back = self.wheel.is_later_than(now);
        let deadline_of = |id: FlowId| {
            if !flows.is_live(id) {
                return None;
            }
            let (header, data) = flows.entry(id);
            let timeout_ns = timeouts.ns(data);
            // After the clock was set back, a flow that lies too far ahead is over, like one that lies
            // behind. Without that, the flow waits for a second packet that confirms its time.
            let is_ahead = is_set_back && header.last_time.saturating_sub(now) > timeout_ns;
            Some(if is_ahead { now } else { header.last_time.saturating_add(timeout_ns) })
        };
        list.clear();
        self.wheel.advance(now, deadline_of, list);
        if list.len() > 1 {
            list.sort_unstable_by(|a, b| {
                let [one, two] = [a, b].map(|(_, id)| flows.entry(*id).0);
                (a.0, one.first_packet, one.key()).cmp(&(b.0, two.first_packet, two.key()))
            });
        }
        all.extend(list.drain(..).map(|(at, id)| self.ending(table, at, id)));
    }

    /// All flows, in the order of their first packets.
    pub fn all(&self, table: Table) -> impl Iterator<Item = Ending> {
        self.flows.in_order().into_iter().map(move |id| self.ending(table, 0, id))
    }

    /// Adds the flows that have begun by this time and whose time-out has not passed. Returns the time at
    /// which the first of the others begins that begin later.
    pub fn living(&self, table: Table, at: i64, all: &mut Vec<Ending>) -> Option<i64> {
        let mut begins: Option<i64> = None;
        for id in self.flows.in_order() {
            let (header, data) = self.flows.entry(id);
            if header.first_time > at {
                begins = Some(begins.map_or(header.first_time, |begins| begins.min(header.first_time)));
            } else if header.last_time.saturating_add(self.layout.timeouts.ns(data)) > at {
                all.push(self.ending(table, at, id));
            }
        }
        begins
    }

    /// The first packet and the deadline of each live flow, in no order, and those of the flows that begin
    /// with the packets beside it.
    pub fn live(&self) -> impl Iterator<Item = (u64, i64)> {
        self.flows.in_order().into_iter().flat_map(move |id| {
            let (header, data) = self.flows.entry(id);
            let deadline = |time: i64| time.saturating_add(self.layout.timeouts.ns(data));
            // The next flow may have another time-out: too late a deadline is none too early.
            let beside = self
                .aside
                .packets(id)
                .map(move |(number, time)| (number, deadline(time.0).max(time.0.saturating_add(BESIDE_NS))));
            std::iter::once((header.first_packet, deadline(header.last_time))).chain(beside)
        })
    }

    fn ending(&self, table: Table, at: i64, id: FlowId) -> Ending {
        let first_packet = self.flows.entry(id).0.first_packet;
        Ending { at, first_packet, flow: FlowRef::new(table, id).in_part(self.part) }
    }
}

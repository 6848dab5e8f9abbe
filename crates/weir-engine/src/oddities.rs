//! What was odd about connections: packets that were not understood, segments that were refused, bounds that
//! were reached. The engine compares its counters before and after each packet, and before the record of a
//! flow that ends. The difference belongs to the packet's connection, or to the flow. So no place that counts
//! has to report as well. Events that the plan names are oddities, too.

use crate::counters::Counters;
use crate::flow_ref::FlowRef;
use std::collections::HashMap;
use weir_packet::{DropReason, Timestamp};

/// An event that is odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OddEvent {
    /// Its index among the events of the stack.
    pub event: usize,
    /// Its number in the list of the plan's author.
    pub number: usize,
    /// The column that says which kind it is.
    pub detail: Option<usize>,
}

/// What was odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddKind {
    /// Processing of a packet stopped.
    Stopped(DropReason),
    /// A counter, by its index in [`ODD_COUNTERS`].
    Counter(usize),
    /// An event, by the number in its [`OddEvent`], and its kind.
    Event(usize, u64),
    /// Rows of sessions were merged or left out.
    RowsLimited,
}

/// An oddity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oddity {
    /// What was odd.
    pub kind: OddKind,
    /// How often.
    pub count: u64,
    /// The first time.
    pub first: Timestamp,
}

/// Connections with oddities that a worker remembers; oddities of others have no connection.
const FLOWS_MAX: usize = 16 * 1024;

/// Kinds of oddities of a connection, or of a worker without a connection. Events have as many kinds as a
/// sender likes.
const KINDS_MAX: usize = 64;

macro_rules! odd_counters {
    ($($group:ident.$name:ident,)*) => {
        /// The counters of oddities. The others count what is usual, or a state.
        pub const ODD_COUNTERS: &[&str] = &[$(stringify!($name),)*];

        fn odd_counters(counters: &Counters) -> [u64; ODD_COUNTERS.len()] {
            [$(counters.$group.$name,)*]
        }
    };
}

odd_counters! {
    sequence.inconsistent_bytes,
    sequence.out_of_window,
    sequence.forced_by_segments,
    sequence.forced_by_bytes,
    sequence.forced_by_total,
    sequence.forced_by_awaiting,
    sequence.refused_by_segments,
    sequence.refused_by_bytes,
    sequence.refused_by_overlap,
    sequence.refused_by_total,
    sequence.refused_behind_hole,
    sequence.ends_disproved,
    sequence.ends_forced,
    sequence.ends_refused,
    session.probes_cut,
    session.parts_cut,
    session.sessions_cut,
    session.inner_streams_cut,
    session.sessions_shed,
    session.sessions_undecided,
    message.messages_lost,
    message.messages_too_long,
    event.column_bytes_cut,
    flow.flows_refused,
    flow.aside_refused,
    flow.growth_refused,
}

/// The oddities of a worker.
pub(crate) struct Oddities {
    events: Vec<OddEvent>,
    of_flows: HashMap<FlowRef, Vec<Oddity>>,
    /// Those without a connection.
    of_none: Vec<Oddity>,
    /// The counters when they were looked at last.
    stopped: [u64; DropReason::ALL.len()],
    counted: [u64; ODD_COUNTERS.len()],
    /// The counters are to be looked at for the first time.
    begins: bool,
}

impl Oddities {
    pub fn new(events: &[OddEvent]) -> Self {
        Self {
            events: events.to_vec(),
            of_flows: HashMap::new(),
            of_none: vec![],
            stopped: [0; DropReason::ALL.len()],
            counted: [0; ODD_COUNTERS.len()],
            begins: false,
        }
    }

    /// For a run that has counted something: that is not looked at.
    pub fn later(events: &[OddEvent]) -> Self {
        Self { begins: true, ..Self::new(events) }
    }

    /// The same, for the events of another program.
    #[must_use]
    pub fn with_events(self, events: &[OddEvent]) -> Self {
        Self { events: events.to_vec(), ..self }
    }

    /// Whatever was counted since the last call is odd about this flow.
    pub fn note(&mut self, flow: Option<FlowRef>, time: Timestamp, counters: &Counters) {
        let (stopped, counted) = (counters.met.counts(), odd_counters(counters));
        if std::mem::take(&mut self.begins) {
            (self.stopped, self.counted) = (stopped, counted);
        }
        if stopped == self.stopped && counted == self.counted {
            return;
        }
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let reasons = DropReason::ALL
            .iter()
            .zip(stopped.iter().zip(self.stopped))
            .map(|(reason, (now, before))| (OddKind::Stopped(*reason), more(*now, before)));
        let counters = counted.iter().zip(self.counted).enumerate();
        let counters = counters.map(|(at, (now, before))| (OddKind::Counter(at), more(*now, before)));
        // A fragment that waits for others is usual.
        let is_odd = |(kind, count): &(OddKind, u64)| {
            *count > 0 && *kind != OddKind::Stopped(DropReason::FragmentWaiting)
        };
        let new: Vec<_> = reasons.chain(counters).filter(is_odd).collect();
        (self.stopped, self.counted) = (stopped, counted);
        new.into_iter().for_each(|(kind, count)| self.add(flow, Oddity { kind, count, first: time }));
    }

    /// Notes an event of a packet of this flow, if the event is odd. `column` reads a column of the event.
    pub fn note_event(
        &mut self,
        (flow, time): (Option<FlowRef>, Timestamp),
        event: usize,
        column: impl Fn(usize) -> Option<u64>,
    ) {
        let Some(odd) = self.events.iter().find(|odd| odd.event == event) else { return };
        let detail = odd.detail.and_then(column).unwrap_or(0);
        self.add(flow, Oddity { kind: OddKind::Event(odd.number, detail), count: 1, first: time });
    }

    /// Removes and returns the oddities of a flow.
    pub fn take(&mut self, flow: FlowRef) -> Vec<Oddity> {
        if self.of_flows.is_empty() { vec![] } else { self.of_flows.remove(&flow).unwrap_or_default() }
    }

    /// Removes and returns the oddities without a connection.
    pub fn take_others(&mut self) -> Vec<Oddity> {
        std::mem::take(&mut self.of_none)
    }

    fn add(&mut self, flow: Option<FlowRef>, odd: Oddity) {
        let has_room = self.of_flows.len() < FLOWS_MAX;
        let list = match flow {
            Some(flow) if has_room => self.of_flows.entry(flow).or_default(),
            Some(flow) => self.of_flows.get_mut(&flow).unwrap_or(&mut self.of_none),
            None => &mut self.of_none,
        };
        // Beyond the bound an oddity is counted under the last kind.
        let known = list.iter().position(|known| known.kind == odd.kind);
        match list.get_mut(known.unwrap_or(KINDS_MAX - 1)) {
            Some(known) => known.count += odd.count,
            None => list.push(odd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FlowId;
    use weir_ir::graph::Table;

    fn flow(id: u32) -> FlowRef {
        FlowRef::new(Table(0), FlowId(id))
    }

    #[test]
    fn every_odd_counter_is_a_counter_with_a_meaning() {
        let counters = Counters::default();
        for name in ODD_COUNTERS {
            assert!(counters.iter().any(|(known, _, _)| known == *name), "{name}");
        }
    }

    #[test]
    fn what_is_counted_belongs_to_the_flow_of_the_moment() {
        let mut odd = Oddities::new(&[]);
        let mut counters = Counters::default();
        odd.note(Some(flow(1)), Timestamp(1), &counters);
        counters.sequence.ends_disproved += 1;
        counters.packet.packets += 1;
        odd.note(Some(flow(1)), Timestamp(2), &counters);
        counters.sequence.ends_disproved += 2;
        counters.met.count(DropReason::FragmentWaiting);
        odd.note(Some(flow(1)), Timestamp(3), &counters);
        counters.met.count(DropReason::Malformed);
        odd.note(None, Timestamp(4), &counters);
        odd.note(Some(flow(2)), Timestamp(5), &counters);
        let at = ODD_COUNTERS.iter().position(|name| *name == "ends_disproved").expect("it is one");
        assert_eq!(odd.take(flow(1)), [Oddity { kind: OddKind::Counter(at), count: 3, first: Timestamp(2) }]);
        assert!(odd.take(flow(1)).is_empty() && odd.take(flow(2)).is_empty());
        let malformed = OddKind::Stopped(DropReason::Malformed);
        assert_eq!(odd.take_others(), [Oddity { kind: malformed, count: 1, first: Timestamp(4) }]);
    }

    #[test]
    fn many_flows_and_kinds_are_bounded_and_nothing_is_uncounted() {
        let mut odd = Oddities::new(&[]);
        let all = FLOWS_MAX as u64 + 100;
        for id in 0..all {
            odd.add(
                Some(flow(id as u32)),
                Oddity { kind: OddKind::Event(0, id), count: 1, first: Timestamp(0) },
            );
        }
        assert_eq!((odd.of_flows.len(), odd.of_none.len()), (FLOWS_MAX, KINDS_MAX));
        let others: u64 = odd.of_none.iter().map(|odd| odd.count).sum();
        assert_eq!(others, 100);
    }
}

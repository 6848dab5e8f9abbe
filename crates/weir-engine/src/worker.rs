//! A worker: its state, and how its flows end. [`run`](crate::run) processes its packets.

use crate::checks::Checks;
use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::effects::Effects;
use crate::ending::Ending;
use crate::flow::EndReason;
use crate::flow_end::end_flow;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::memory::Memory;
use crate::packet_run::Lane;
use crate::plan::Plan;
use crate::ranks::Ranks;
use crate::sets::Terms;
use crate::sharing::{SharedTables, Sharing};
use crate::stage::{Stage, Stages};
use crate::stream::{Due, Moment};
use crate::subscriber::{Order, Report, Subscriber};
use crate::tables::TableState;
use std::sync::Arc;
use weir_ir::abi::Program;
use weir_ir::graph::Table;
use weir_packet::BURST_PACKETS_MAX;

/// The time between two reports of what is odd and has no connection.
const OTHERS_NS: i64 = 60_000_000_000;

/// Flows that end, or are reported, per call of [`Worker::finish`] or [`Worker::pass_time`].
///
/// Each may yield hundreds of sessions, which wait until the caller takes them.
const ENDING_FLOWS: usize = 128;

/// Idle time after which a flow gives up the memory that it holds, if memory is short: 10 s.
const IDLE_NS: i64 = 10_000_000_000;

/// One worker. Workers share the plan, and the tables that the plan declares as scattered.
pub struct Worker<S> {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) flows: Flows,
    pub(crate) delivery: Delivery<S>,
    /// The effects of the current packet.
    pub(crate) effects: Effects,
    pub(crate) lanes: Vec<Lane>,
    is_finished: bool,
    memory_peak: Memory,
    /// Flows that are still to end at the end of the capture; the last one comes next.
    ending: Vec<Ending>,
    /// Flows whose time-out has passed; the last one comes next.
    expiring: Vec<Ending>,
    pub(crate) checks: Checks,
    /// The time of the checks that go on.
    check_at: Option<i64>,
    /// They have flows.
    has_checked: bool,
    /// When oddities without a connection were reported last.
    others_at: i64,
    /// The flows that are still to be reported; the last one comes next. `None`: they are not listed yet.
    checking: Option<Vec<Ending>>,
}

impl<S: Subscriber> Worker<S> {
    /// A worker with empty tables.
    pub fn new(plan: Arc<Plan>, subscriber: S) -> Self {
        Self {
            program: Arc::clone(&plan.program),
            flows: Flows::new(&plan),
            delivery: Delivery::new(Arc::clone(&plan), subscriber),
            effects: Effects::default(),
            lanes: vec![Lane::default(); BURST_PACKETS_MAX],
            is_finished: false,
            memory_peak: Memory::default(),
            ending: vec![],
            expiring: vec![],
            checks: Checks::new(&plan),
            check_at: None,
            has_checked: false,
            others_at: 0,
            checking: None,
            plan,
        }
    }

    /// Shares tables with other workers; `number` is the worker's number among them, from 0.
    #[must_use]
    pub fn with_shared(mut self, tables: Option<&Arc<SharedTables>>, number: usize) -> Self {
        self.flows.sharing = tables.map(|tables| Sharing::new(Arc::clone(tables), number));
        self
    }

    /// The machine's clock was set by this many nanoseconds, forward or back: the idle time of flows does not
    /// change. (Their first packets keep their times, so durations include the step.)
    pub fn step_clock(&mut self, step_ns: i64) {
        self.flows.step_clock(step_ns);
        self.checks.step_clock();
        self.delivery.subscriber.step_clock(step_ns);
    }

    /// Ends flows whose idle time-out has passed at `now` (nanoseconds since 1970). Callers pass the [start
    /// of a tick](crate::clock::Clock::ticked). Each call ends a few flows, so the caller can take their
    /// results in between; returns `true` while there are more, and then the caller calls again before it
    /// passes packets.
    #[must_use]
    pub fn pass_time(&mut self, burst: u64, now: i64) -> bool {
        let began = self.delivery.stages.begin();
        if self.expiring.is_empty() && self.check_at.is_none() {
            while let Some(due) = self.delivery.streams.next_due(now) {
                self.delivery.order =
                    Order { burst, phase: Order::CHUNK, at: due.at, flow: due.first_packet };
                self.flush_chunk(&due);
            }
            if self.report_due(burst, now) {
                return true;
            }
            // Flows that end before a check are not reported by it.
            self.check_at = self.checks.due(burst, now, &mut self.delivery.counters.flow.checks_skipped);
            self.expiring = self.flows.expire(self.check_at.unwrap_or(now));
            self.expiring.reverse();
        }
        let due = self.expiring.split_off(self.expiring.len().saturating_sub(ENDING_FLOWS));
        let ended = due.len();
        for Ending { at, flow, first_packet } in due.into_iter().rev() {
            // The last messages of another flow may have ended this one already.
            if self.flows.take_live(flow, first_packet) && !self.flows.lives_on(flow, now) {
                // Wheels may be late by a tick: the end of a flow comes behind the checks that did not see
                // it.
                let at = at.max(self.checks.reached(burst));
                self.delivery.order = Order { burst, phase: Order::ENDED, at, flow: first_packet };
                self.end_flow(flow, EndReason::Idle);
            }
        }
        self.flows.give_back();
        let more = !self.expiring.is_empty() || self.go_on_checking(burst, now);
        if !more {
            self.shed_idle(burst, now);
            self.delivery.order = Order { burst, phase: Order::TIME, at: 0, flow: 0 };
            self.report_others_at(now);
            self.delivery.subscriber.pass_time(self.delivery.order, now);
        }
        self.delivery.stages.end(Stage::Expire, ended, began);
        more
    }

    /// Reports what is odd and has no connection, once a minute.
    fn report_others_at(&mut self, now: i64) {
        if now.saturating_sub(self.others_at) >= OTHERS_NS {
            self.others_at = now;
            self.delivery.odd_others();
        }
    }

    /// Reports some of the flows of the checks that go on. Returns `false` if there are none.
    fn go_on_checking(&mut self, burst: u64, now: i64) -> bool {
        let Some(at) = self.check_at else { return false };
        let mut flows = self.checking.take().unwrap_or_else(|| self.begin_checks(at, now));
        let part = flows.split_off(flows.len().saturating_sub(ENDING_FLOWS));
        for Ending { flow, first_packet, .. } in part.into_iter().rev() {
            if !self.flows.take_live(flow, first_packet) {
                continue;
            }
            self.flows.refresh(flow);
            let number = first_packet | Order::CHECKED;
            self.delivery.order = Order { burst, phase: Order::ENDED, at, flow: number };
            let terms = self.flows.terms_of(flow);
            if let Some(view) = self.flows.view(flow) {
                let due = self.checks.at(at).filter(|(table, _)| *table == flow.table);
                due.for_each(|(_, interval_ns)| {
                    self.delivery.checks(&view, Terms::of(&terms), interval_ns, at);
                });
            }
        }
        self.flows.give_back();
        match flows.is_empty() {
            true => {
                self.check_at = None;
                self.checks.made(burst, at, self.has_checked);
            }
            false => self.checking = Some(flows),
        }
        true
    }

    /// The flows that live at the time of checks, in the order of their first packets, the last one first.
    fn begin_checks(&mut self, at: i64, now: i64) -> Vec<Ending> {
        let mut tables: Vec<Table> = self.checks.at(at).map(|(table, _)| table).collect();
        tables.dedup();
        let mut all = vec![];
        for table in tables {
            let before = all.len();
            let begins = self.flows.living(table, at, &mut all);
            if all.len() == before {
                self.checks.rest((table, at), begins.map_or(now + 1, |begins| begins.min(now + 1)));
            }
        }
        self.has_checked = !all.is_empty();
        all.sort_by_key(|ending| std::cmp::Reverse((ending.first_packet, ending.flow.table.index())));
        all
    }

    /// Ends all flows after the end of the capture, in the order of their first packets. Each call ends a few
    /// flows, so the caller can take their results in between; returns `true` while there are more.
    #[must_use]
    pub fn finish(&mut self, burst: u64) -> bool {
        if !self.is_finished {
            self.is_finished = true;
            self.ending = self.flows.all();
            self.ending.reverse();
        }
        let began = self.delivery.stages.begin();
        let ending = self.ending.split_off(self.ending.len().saturating_sub(ENDING_FLOWS));
        for &Ending { flow, first_packet, .. } in ending.iter().rev() {
            // The last messages of another flow may have ended this one already.
            if self.flows.take_live(flow, first_packet) {
                self.delivery.order =
                    Order { burst, phase: Order::END, at: first_packet as i64, flow: first_packet };
                self.end_flow(flow, EndReason::EndOfCapture);
            }
        }
        self.flows.give_back();
        self.delivery.stages.end(Stage::Expire, ending.len(), began);
        let more = !self.ending.is_empty();
        if !more {
            let last = Order { burst, phase: Order::END, at: i64::MAX, flow: u64::MAX };
            self.delivery.order = last;
            self.delivery.odd_others();
            self.delivery.subscriber.pass_time(last, i64::MAX);
        }
        more
    }

    /// Ends flows that hold memory until no more is used than allowed: those idle for the longest time first.
    #[inline]
    pub(crate) fn shed_excess(&mut self) {
        while self.delivery.streams.overload.is_exceeded(self.flows.held_bytes()) && self.shed_until(i64::MAX)
        {
        }
    }

    /// If memory is short, ends flows that hold memory and have been idle for [`IDLE_NS`] at `now`.
    fn shed_idle(&mut self, burst: u64, now: i64) {
        self.flows.discard_holders();
        self.delivery.order = Order { burst, phase: Order::ENDED, at: now, flow: 0 };
        while self.delivery.streams.overload.is_short(self.flows.held_bytes())
            && self.shed_until(now.saturating_sub(IDLE_NS))
        {}
    }

    /// Ends the flow that holds memory and has been idle for the longest time, if its last packet is at or
    /// before `until`. Returns whether there was one.
    #[cold]
    fn shed_until(&mut self, until: i64) -> bool {
        let Delivery { held, matcher, streams, .. } = &self.delivery;
        let ranks = Ranks::new(matcher, streams.overload.priorities());
        let holds_streams = |flow| held.contains_key(&flow);
        let Some(flow) = self.flows.longest_idle_holder(until, &ranks, holds_streams) else {
            return false;
        };
        self.delivery.counters.flow.holders_shed += 1;
        self.end_flow(flow, EndReason::Shed);
        true
    }

    pub(crate) fn end_flow(&mut self, flow: FlowRef, reason: EndReason) {
        end_flow(&mut self.flows, &mut self.delivery, &mut self.effects, flow, reason);
    }

    /// Delivers some reports of connections that are due at `now`; returns `true` if there may be more.
    fn report_due(&mut self, burst: u64, now: i64) -> bool {
        for _ in 0..ENDING_FLOWS {
            let Some(due) = self.delivery.subscriber.next_report(now) else { return false };
            let Report { packet, question, flow } = due;
            self.flows.refresh(flow);
            let Some((view, verdict)) = self.flows.live(flow) else { continue };
            let (at, flow_number) = (packet as i64, question as u64);
            self.delivery.order = Order { burst, phase: Order::REPORT, at, flow: flow_number };
            let terms = self.flows.terms_of(flow);
            self.delivery.report(question, Terms::of(&terms), &verdict, &view);
        }
        true
    }

    /// Delivers a chunk that has waited long enough.
    fn flush_chunk(&mut self, due: &Due) {
        if !self.flows.is_live(due.flow) {
            return;
        }
        if let Some((view, streams)) = self.flows.streams_of(due.flow) {
            self.delivery.flush_chunk(Moment::at(due.at), &view, streams, due);
        }
    }

    /// The subscriber.
    pub fn subscriber(&mut self) -> &mut S {
        &mut self.delivery.subscriber
    }

    /// The outcomes of the packets so far, and the counters of the tables.
    pub fn counters(&self) -> Counters {
        let mut counters = self.delivery.counters;
        self.flows.count(&mut counters);
        counters.stream.merge(&self.delivery.streams.overload.counters());
        counters
    }

    /// The number of live flows, and the bytes that the tables occupy.
    pub fn size(&self) -> (u64, u64) {
        let (flows, bytes) = self.flows.size();
        (if self.is_finished { 0 } else { flows }, bytes)
    }

    /// The number of the first packet of each live flow of each table, and the time in nanoseconds since 1970
    /// at which its idle time-out passes if no more packets come. A packet that waits beside a flow counts as
    /// the first packet of one.
    pub fn live_flows(&self) -> impl Iterator<Item = (u64, i64)> {
        self.flows.tables.iter().flat_map(TableState::live)
    }

    /// Bytes held for streams: of their chunks, and bytes that cannot be refused.
    pub fn stream_bytes(&self) -> (usize, usize) {
        self.delivery.streams.overload.held_bytes()
    }

    /// Bytes of memory in use, by owner.
    pub fn memory(&self) -> Memory {
        Memory { tables: self.flows.size().1, ..self.memory_beside_tables() }
    }

    #[inline]
    fn memory_beside_tables(&self) -> Memory {
        let overload = &self.delivery.streams.overload;
        let (chunk_bytes, fixed_bytes) = overload.held_bytes();
        Memory {
            tables: 0,
            reassembly: self.flows.sequences.held_bytes().0 as u64,
            streams: (chunk_bytes + fixed_bytes) as u64,
            sessions: overload.session_bytes() as u64,
            held_sessions: overload.held_session_bytes() as u64,
            messages: self.flows.messages.held_bytes() as u64,
            held_packets: 0,
            joined_rows: 0,
        }
    }

    /// Updates the peaks of memory at the end of a burst.
    #[inline]
    pub(crate) fn record_memory(&mut self) {
        self.delivery.release_sessions();
        let now = self.memory_beside_tables();
        self.memory_peak.raise(&now);
    }

    /// The largest memory of each owner at the end of a burst.
    pub fn memory_peak(&self) -> Memory {
        Memory { tables: self.flows.size().1, ..self.memory_peak }
    }

    /// Items and cycles per stage.
    pub fn stages(&self) -> &Stages {
        &self.delivery.stages
    }

    /// The subscriber, at the end.
    pub fn into_subscriber(self) -> S {
        self.delivery.subscriber
    }
}

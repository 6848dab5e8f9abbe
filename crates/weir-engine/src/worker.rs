//! A worker: what it keeps, and how its flows come to their ends. What it does with packets is in
//! [`run`](crate::run).

use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::flow::EndReason;
use crate::flow_end::end_flow;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::memory::Memory;
use crate::packet_run::Lane;
use crate::plan::Plan;
use crate::stage::{Stage, Stages};
use crate::stream::{Due, Moment};
use crate::subscriber::{Order, Subscriber};
use std::sync::Arc;
use weir_ir::abi::Program;
use weir_packet::BURST_PACKETS_MAX;

/// Flows that end in one call of [`Worker::finish`].
const ENDING_FLOWS: usize = 4096;

/// One worker: shares nothing with others but the plan.
pub struct Worker<S> {
    pub(crate) program: Arc<dyn Program>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) flows: Flows,
    pub(crate) delivery: Delivery<S>,
    pub(crate) lanes: Vec<Lane>,
    is_finished: bool,
    memory_peak: Memory,
    /// Flows that are still to end, the next one last.
    ending: Vec<FlowRef>,
}

impl<S: Subscriber> Worker<S> {
    /// A worker with empty tables.
    pub fn new(plan: Arc<Plan>, subscriber: S) -> Self {
        Self {
            program: Arc::clone(&plan.program),
            flows: Flows::new(&plan),
            delivery: Delivery::new(Arc::clone(&plan), subscriber),
            lanes: vec![Lane::default(); BURST_PACKETS_MAX],
            is_finished: false,
            memory_peak: Memory::default(),
            ending: vec![],
            plan,
        }
    }

    /// Ends flows that have been idle for too long at `now` (nanoseconds since 1970).
    pub fn pass_time(&mut self, burst: u64, now: i64) {
        let began = self.delivery.stages.begin();
        while let Some(due) = self.delivery.streams.next_due(now) {
            self.delivery.order = Order { burst, phase: 0, at: due.at, flow: due.first_packet };
            self.flush_chunk(&due);
        }
        let due = self.flows.expire(now);
        let ended = due.len();
        for (deadline, flow) in due {
            if !self.flows.is_live(flow) {
                // The last messages of a flow before it ended it.
                continue;
            }
            let first_packet = self.flows.first_packet(flow);
            self.delivery.order = Order { burst, phase: 1, at: deadline, flow: first_packet };
            end_flow(&mut self.flows, &mut self.delivery, flow, EndReason::Idle);
        }
        self.delivery.stages.end(Stage::Expire, ended, began);
    }

    /// The capture is over: every flow ends, in the order of their first packets. A few at a time, so that
    /// what they yield can be taken away in between: `true` while there are more.
    #[must_use]
    pub fn finish(&mut self, burst: u64) -> bool {
        if !self.is_finished {
            self.is_finished = true;
            self.ending = self.flows.all();
            self.ending.reverse();
        }
        let began = self.delivery.stages.begin();
        let ending = self.ending.split_off(self.ending.len().saturating_sub(ENDING_FLOWS));
        for &flow in ending.iter().rev() {
            if !self.flows.is_live(flow) {
                // The last messages of a flow before it ended it, or made another one that ended there.
                continue;
            }
            let first_packet = self.flows.first_packet(flow);
            self.delivery.order = Order { burst, phase: 3, at: first_packet as i64, flow: first_packet };
            end_flow(&mut self.flows, &mut self.delivery, flow, EndReason::EndOfCapture);
        }
        self.delivery.stages.end(Stage::Expire, ending.len(), began);
        !self.ending.is_empty()
    }

    /// A chunk that has waited long enough is handed over.
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

    /// What became of the packets so far, and what the tables hold.
    pub fn counters(&self) -> Counters {
        let mut counters = self.delivery.counters;
        self.flows.count(&mut counters);
        counters.stream.merge(&self.delivery.streams.overload.counters());
        counters
    }

    /// Flows that have not ended, and bytes that the tables take.
    pub fn size(&self) -> (u64, u64) {
        let (flows, bytes) = self.flows.size();
        (if self.is_finished { 0 } else { flows }, bytes)
    }

    /// Bytes that are held for streams: of their chunks, and those that come with streams whatever the memory.
    pub fn stream_bytes(&self) -> (usize, usize) {
        self.delivery.streams.overload.held_bytes()
    }

    /// Bytes that are held now, by their owner.
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
            messages: self.flows.messages.held_bytes() as u64,
            held_packets: 0,
        }
    }

    /// A burst is through: what is held may be the most so far.
    #[inline]
    pub(crate) fn record_memory(&mut self) {
        let now = self.memory_beside_tables();
        self.memory_peak.raise(&now);
    }

    /// The most bytes that each owner held at the end of a burst.
    pub fn memory_peak(&self) -> Memory {
        Memory { tables: self.flows.size().1, ..self.memory_peak }
    }

    /// What passed each stage, and how long that took.
    pub fn stages(&self) -> &Stages {
        &self.delivery.stages
    }

    /// The subscriber, at the end.
    pub fn into_subscriber(self) -> S {
        self.delivery.subscriber
    }
}

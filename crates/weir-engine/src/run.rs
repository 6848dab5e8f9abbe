//! The data path, on one screen: a burst comes in, the heads of its packets run, their lookups
//! overlap, their tails run in order, and what was asked for goes to the subscriber. Read this first.
//!
//! ```text
//! burst ─► expire flows ─► head × n ─► prefetch ─► per packet: find flow ─► tail ─► decide ─► subscriber
//!                                                     (table)      (host: sequence, sessions)
//! ```

use crate::counters::{Account, Counters};
use crate::delivery::{Delivery, PacketView};
use crate::flow_hit::FlowHit;
use crate::flows::Flows;
use crate::host::{Origin, PacketCtx, TailHost};
use crate::stage::Stage;
use crate::subscriber::{Order, Subscriber};
use crate::table::FlowId;
use crate::worker::Worker;
use std::sync::Arc;
use weir_ir::abi::{Continuation, FlowRecord, Program, Resume, Step};
use weir_packet::{BURST_PACKETS_MAX, Burst, Direction, DropReason, PacketMeta};

/// Packets whose entries are fetched together, before the tails of as many others: far enough ahead to hide a miss
/// behind the work on those, few enough that the processor can keep all the misses under way at once.
const GROUP_PACKETS: usize = 12;

/// A packet of the burst at hand between its head and its tail.
#[derive(Clone)]
pub(crate) struct Lane {
    k: Continuation,
    step: Step,
    /// The flow that is most likely asked for first.
    likely: Option<FlowId>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { k: Continuation::default(), step: Step::Done(None), likely: None }
    }
}

impl<S: Subscriber> Worker<S> {
    /// Takes a burst; `number` counts bursts over all workers. Time has been passed to it before.
    pub fn take(&mut self, burst: &Burst, number: u64) {
        let mut all = std::mem::take(&mut self.lanes);
        if all.len() < burst.packets.len() {
            // A subscriber panicked in the middle of a burst, and its caller went on.
            all.resize(BURST_PACKETS_MAX.max(burst.packets.len()), Lane::default());
        }
        let lanes = &mut all[..burst.packets.len()];
        let began = self.delivery.stages.begin();
        let program = Arc::clone(&self.program);
        Arc::clone(&program).note_packets(burst.packets.len());
        let program = &*program;
        let lookups = self.heads(program, burst, lanes);
        self.delivery.stages.end(Stage::Head, burst.packets.len(), began);
        let began = self.delivery.stages.begin();
        let mut groups = lanes.chunks_mut(GROUP_PACKETS).zip(burst.packets.chunks(GROUP_PACKETS));
        let mut ahead = groups.next();
        self.prefetch(&mut ahead);
        while let Some((lanes, packets)) = ahead {
            ahead = groups.next();
            self.prefetch(&mut ahead);
            for (lane, packet) in lanes.iter_mut().zip(packets) {
                let frame = burst.block.frame(packet);
                let order = Order { burst: number, phase: 2, at: packet.number as i64, flow: 0 };
                let at = PacketCtx { program, block: &burst.block, packet, frame, order };
                self.finish_packet(&at, lane);
            }
        }
        self.delivery.stages.end(Stage::Tail, lookups, began);
        self.lanes = all;
    }

    /// Runs the heads, and fetches the buckets that they ask for; how many do.
    fn heads(&self, program: &dyn Program, burst: &Burst, lanes: &mut [Lane]) -> usize {
        let mut lookups = 0;
        for (lane, packet) in lanes.iter_mut().zip(&burst.packets) {
            let Lane { k, step, .. } = lane;
            *step = program.head(packet, burst.block.frame(packet), k);
            if *step == Step::Lookup {
                self.flows.hash(k);
                self.flows.prefetch_bucket(k);
                lookups += 1;
            }
        }
        lookups
    }

    #[inline]
    fn prefetch(&self, group: &mut Option<(&mut [Lane], &[PacketMeta])>) {
        let Some((lanes, _)) = group else { return };
        for lane in lanes.iter_mut().filter(|lane| lane.step == Step::Lookup) {
            lane.likely = self.flows.prefetch_entry(&lane.k);
        }
    }

    /// From the head's step to the packet's end: lookups and tails in turn.
    #[inline]
    fn finish_packet(&mut self, at: &PacketCtx<'_>, lane: &mut Lane) {
        let &PacketCtx { packet, .. } = at;
        let Lane { k, step, likely } = lane;
        let mut step = *step;
        let mut found;
        // What the packet belongs to: the innermost flow that somebody sees and that is no part of another one.
        let (mut connection, mut outer) = (None, None);
        // What carries messages, where it holds some: each of them is in that, not in what was found in another one.
        let mut bearer = None;
        let mut lookups = 0;
        let (reason, terms) = loop {
            step = match step {
                Step::Done(reason) => break (reason, k.terms),
                Step::Lookup | Step::Restart if lookups == self.plan.limits.lookups_max => {
                    break (Some(DropReason::NestingLimit), 0);
                }
                Step::Lookup => {
                    if lookups > 0 {
                        if self.flows.messages.take_begun() {
                            bearer = bearer.or(connection);
                            connection = bearer;
                        }
                        self.flows.hash(k);
                        *likely = None;
                    }
                    found = self.flows.find((k, *likely), at, &mut self.delivery, &mut self.counters);
                    lookups += 1;
                    let Some(flow) = found else { break (Some(DropReason::FlowLimit), 0) };
                    if self.flows.is_observed(flow.table())
                        && (connection.is_none() || !self.flows.is_part(flow.table()))
                    {
                        outer = connection.replace(flow);
                        self.note_outer(flow, outer);
                        if let (Some(outer), None) = (outer, bearer) {
                            self.flows.note_outer_terms(outer, k);
                        }
                    }
                    self.flows.run_tail(at, k, flow, &mut self.delivery, &mut self.counters)
                }
                Step::Restart => {
                    found = self.flows.renew(k, packet, at.order, &mut self.delivery, &mut self.counters);
                    lookups += 1;
                    let Some(flow) = found else { break (Some(DropReason::FlowLimit), 0) };
                    // What is a part, or seen by nobody, restarts inside the one that the packet belongs to.
                    if connection.is_some_and(|connection: FlowHit| connection.table() == flow.table()) {
                        connection = Some(flow);
                        self.note_outer(flow, outer);
                    }
                    self.flows.run_tail(at, k, flow, &mut self.delivery, &mut self.counters)
                }
            };
        };
        self.flows.messages.take_begun();
        self.count(packet, reason);
        self.delivery.events(at, terms);
        self.decide(at, k, bearer.or(connection), (reason, terms));
        if !self.delivery.packet_end.is_empty() {
            self.flows.settle_packet_end((at.order, Some(at.packet())), (None, terms), &mut self.delivery);
        }
        self.flows.end_closed(&at.order, &mut self.delivery, &mut self.counters);
        k.release();
    }

    /// A packet is through: who is given it.
    #[inline]
    fn decide(
        &mut self,
        at: &PacketCtx<'_>,
        k: &Continuation,
        connection: Option<FlowHit>,
        (reason, terms): (Option<DropReason>, u64),
    ) {
        let &PacketCtx { block, packet, frame, .. } = at;
        let of_connection = connection.map_or(0, |found| self.flows.note_terms(found.flow(), terms));
        if self.delivery.matcher.is_tracked(of_connection) {
            let tracked = connection.and_then(|found| self.flows.tracked(found, packet, frame));
            tracked.iter().for_each(|packet| self.delivery.tracked_packet(at.order, of_connection, packet));
        }
        let otherwise = match reason {
            _ if of_connection & self.delivery.matcher.other_classes() != 0 => Account::Delivered,
            Some(reason) => Account::Dropped(reason),
            None => Account::Filtered,
        };
        if terms & self.delivery.matcher.packet_classes() == 0 {
            return self.delivery.count(otherwise);
        }
        let flow = connection.and_then(|found| self.flows.verdict(found));
        let view = PacketView { meta: packet, block, terms, outs: &k.outs, otherwise };
        self.delivery.packet(at.order, &view, flow);
    }

    /// A flow was found in a packet of another connection: if it is new, it is known from now on to run in that.
    #[inline]
    fn note_outer(&mut self, flow: FlowHit, outer: Option<FlowHit>) {
        if let Some(outer) = outer.filter(|_| flow.is_new()) {
            self.flows.note_outer(flow, outer);
        }
    }

    fn count(&mut self, packet: &PacketMeta, reason: Option<DropReason>) {
        let count = &mut self.counters.packet;
        count.packets += 1;
        count.bytes += u64::from(packet.captured_bytes);
        count.wire_bytes += u64::from(packet.wire_bytes);
        if let Some(reason) = reason {
            self.counters.met.count(reason);
        }
    }
}

impl Flows {
    /// Runs the tail with the flow that a packet, or a message in it, asked for.
    #[inline]
    pub(crate) fn run_tail<S: Subscriber>(
        &mut self,
        at: &PacketCtx<'_>,
        k: &mut Continuation,
        found: FlowHit,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) -> Step {
        let &PacketCtx { program, packet, frame, order, .. } = at;
        let now = packet.time.0;
        self.messages.enter_flow();
        let (mut tail, data) = self.open(found);
        let mut host = TailHost { at, flow: &mut tail, delivery, origin: Origin::AtHand };
        let record = FlowRecord { id: found.id().0, data: &mut *data };
        let (direction, is_new) = (Direction::responder_if(found.is_responder()), found.is_new());
        let step = program.resume(&mut host, Resume { packet, frame, flow: record, direction, is_new }, k);
        if let Some(millis) = tail.changed_timeout(data, found.is_new()) {
            if !found.is_new() {
                self.flush_chunks(found, now, order, delivery);
            }
            self.set_timeout(found, millis, now, order, delivery, counters);
        }
        step
    }
}

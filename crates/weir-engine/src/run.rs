//! The data path: how a worker processes a burst of packets. Read this first.
//!
//! ```text
//! burst ─► heads ─► prefetch ─► packet by packet:  ┌─► find or make a flow ─► tail ─┐
//!                               (advance)          └────── (needs another) ◄───────┤
//!                                                                                   ▼
//!                               (settle)           events, the packet and open decisions: to the subscriber
//!                                                                                   ▼
//!                               (end_flow)         ended flows
//! ```
//!
//! A compiled program has two parts. The *head* of the program needs no flow: it runs for all packets of the
//! burst first, and determines the key of the flow that each packet needs. The *tail* runs with that flow,
//! packet by packet, and may need further flows (tunnels, datagrams in fragments, connections in messages).
//! Between the two, the entries of the flow tables are prefetched, so that cache misses overlap.
//!
//! Next: `packet_run` (one packet), `host` (functions for tails), `matcher` and `delivery` (which questions
//! receive the packet, and how), `flow_end` (how a flow ends), [`worker`](crate::worker) (state between
//! bursts).

use crate::counters::Account;
use crate::effects::OverFlow;
use crate::flow::EndReason;
use crate::flow_end::end_flow;
use crate::packet_ctx::PacketCtx;
use crate::packet_run::{Advance, Lane, PacketRun, Place};
use crate::plan::Want;
use crate::stage::Stage;
use crate::subscriber::{Order, SeenPacket, Subscriber};
use crate::worker::Worker;
use std::ops::Range;
use std::sync::Arc;
use weir_ir::abi::{Program, Step};
use weir_packet::{BURST_PACKETS_MAX, Burst, DropReason, PacketMeta};

/// The number of packets whose flow entries are prefetched together, while the tails of the previous group
/// run. The group is large enough to hide a cache miss, and small enough for the number of fetches that a
/// processor keeps in flight.
const GROUP_PACKETS: usize = 12;

impl<S: Subscriber> Worker<S> {
    /// Processes these packets of a burst, all of which belong to one [tick](crate::clock::Clock::tick);
    /// `number` counts such parts over all workers. The caller has called `pass_time` for the part before.
    pub fn take(&mut self, burst: &Burst, range: Range<usize>, number: u64) {
        let packets = &burst.packets[range.clone()];
        if self.asks_nothing() {
            return self.pass(packets);
        }
        let mut all = std::mem::take(&mut self.lanes);
        if all.len() < packets.len() {
            // A subscriber panicked in the middle of an earlier burst, and its caller continued.
            all.resize(BURST_PACKETS_MAX.max(packets.len()), Lane::default());
        }
        let lanes = &mut all[..packets.len()];
        let began = self.delivery.stages.begin();
        let program = Arc::clone(&self.program);
        Arc::clone(&program).note_packets(packets.len());
        let program = &*program;
        let lookups = self.heads(program, burst, packets, lanes);
        self.delivery.stages.end(Stage::Head, packets.len(), began);
        let began = self.delivery.stages.begin();
        self.delivery.order = Order { burst: number, phase: Order::PACKET, at: 0, flow: 0 };
        let mut groups = lanes.chunks_mut(GROUP_PACKETS).zip(packets.chunks(GROUP_PACKETS));
        let (mut ahead, mut index) = (groups.next(), range.start);
        self.prefetch(&mut ahead);
        // Other workers may use more memory than before.
        self.shed_excess();
        while let Some((lanes, packets)) = ahead {
            ahead = groups.next();
            self.prefetch(&mut ahead);
            for (lane, packet) in lanes.iter_mut().zip(packets) {
                let (block, frame, extras) = (&burst.block, burst.block.frame(packet), &burst.extras);
                self.delivery.order.at = packet.number as i64;
                let at = PacketCtx { program, block, packet, frame, extras, index };
                match lane.step {
                    Step::Done(reason) => self.finish_packet(&at, lane, reason),
                    _ => self.run_packet(&at, lane),
                }
                index += 1;
            }
        }
        self.delivery.stages.end(Stage::Tail, lookups, began);
        self.lanes = all;
        self.delivery.pass_counts();
        self.delivery.subscriber.pass_bytes(self.delivery.counters.packet.wire_bytes);
        self.record_memory();
    }

    /// Whether the program only counts packets: those of a recorder, for instance.
    fn asks_nothing(&self) -> bool {
        self.plan.questions.iter().all(|asked| asked.want == Want::Nothing) && self.flows.size().0 == 0
    }

    /// Counts packets as filtered, without running the program on the packets: no question needs the results.
    fn pass(&mut self, packets: &[PacketMeta]) {
        for packet in packets {
            self.delivery.counters.packet.add(packet);
            self.delivery.count(Account::Filtered);
        }
        self.delivery.subscriber.pass_bytes(self.delivery.counters.packet.wire_bytes);
        self.record_memory();
    }

    /// Runs the heads, and prefetches the buckets that they need. Returns the number of packets with a
    /// lookup.
    fn heads(
        &self,
        program: &dyn Program,
        burst: &Burst,
        packets: &[PacketMeta],
        lanes: &mut [Lane],
    ) -> usize {
        let mut lookups = 0;
        for (lane, packet) in lanes.iter_mut().zip(packets) {
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

    /// Finishes a packet that needs no flow: its head has been everything. No flow changes, and no event is
    /// emitted.
    #[inline]
    fn finish_packet(&mut self, at: &PacketCtx<'_>, lane: &mut Lane, reason: Option<DropReason>) {
        let &PacketCtx { block, packet, extras, index, .. } = at;
        let delivery = &mut self.delivery;
        delivery.counters.packet.add(packet);
        if let Some(reason) = reason {
            delivery.counters.met.count(reason);
        }
        let otherwise = reason.map_or(Account::Filtered, Account::Dropped);
        let terms = lane.terms(&self.flows);
        if terms.intersects(delivery.matcher.packet_classes()) {
            let outs = &lane.k.outs;
            let seen = || SeenPacket { meta: packet, block, extra: extras.get(index), outs };
            delivery.packet(terms, otherwise, seen, || None);
        } else {
            delivery.count(otherwise);
        }
        delivery.note_odd(None, packet.time, &self.flows);
        lane.k.release();
    }

    /// Processes a packet from the step of its head to its end.
    #[inline]
    fn run_packet(&mut self, at: &PacketCtx<'_>, lane: &mut Lane) {
        let mut run = PacketRun {
            at,
            lane,
            place: Place::default(),
            flows: &mut self.flows,
            delivery: &mut self.delivery,
            effects: &mut self.effects,
            rereading: None,
        };
        loop {
            match run.advance() {
                Advance::Through(reason) => break run.settle(reason),
                Advance::Stopped(reason) => {
                    run.forget_terms();
                    break run.settle(reason);
                }
                Advance::Ends(flow, reason) => end_flow(run.flows, run.delivery, run.effects, flow, reason),
            }
        }
        while let Some(OverFlow { flow, first_packet }) = self.effects.next_over() {
            if self.flows.take_live(flow, first_packet) {
                self.end_flow(flow, EndReason::Closed);
            } else {
                self.effects.forget_over(flow);
            }
        }
        self.flows.give_back();
        self.flows.messages.end_packet();
        lane.k.release();
        self.shed_excess();
    }
}

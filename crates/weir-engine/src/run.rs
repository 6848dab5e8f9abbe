//! The data path, on one screen: a burst comes in, the heads of its packets run, their lookups
//! overlap, their tails run in order, and what was asked for goes to the subscriber. Read this first.
//!
//! ```text
//! burst ─► expire flows ─► head × n ─► prefetch ─► per packet: find flow ─► tail ─► decide ─► subscriber
//!                                                     (table)      (host: sequence, sessions)
//! ```

use crate::counters::Account;
use crate::decide::PacketView;
use crate::flows::Found;
use crate::host::TailHost;
use crate::stage::Stage;
use crate::subscriber::{Order, Subscriber};
use crate::worker::Worker;
use weir_ir::abi::{FlowRecord, Step};
use weir_packet::{Burst, DropReason, PacketMeta};

/// How many packets ahead of the tails entries are fetched: far enough to hide a miss behind the work on
/// others, near enough that the processor can keep all the misses under way at once. Against fetching a
/// whole burst's first the gain was within the noise (some 3 %, 2026-11-21).
const PREFETCH_PACKETS: usize = 12;

impl<S: Subscriber> Worker<S> {
    /// Takes a burst; `number` counts bursts over all workers. Time has been passed to it before.
    pub fn take(&mut self, burst: &Burst, number: u64) {
        let began = self.decider.stages.begin();
        for (index, packet) in burst.packets.iter().enumerate() {
            let k = &mut self.continuations[index];
            let step = self.program.head(packet, burst.data(index), k);
            if step == Step::Lookup {
                self.flows.hash(k);
                self.flows.prefetch_bucket(k);
            }
            self.steps[index] = step;
        }
        self.decider.stages.end(Stage::Head, burst.packets.len(), began);
        let began = self.decider.stages.begin();
        let lookups = self.steps[..burst.packets.len()].iter().filter(|&&s| s == Step::Lookup).count();
        for index in 0..PREFETCH_PACKETS.min(burst.packets.len()) {
            self.prefetch_entry(index);
        }
        for index in 0..burst.packets.len() {
            if index + PREFETCH_PACKETS < burst.packets.len() {
                self.prefetch_entry(index + PREFETCH_PACKETS);
            }
            let order = Order { burst: number, phase: 2, at: burst.packets[index].number as i64, flow: 0 };
            self.finish_packet(burst, index, order);
        }
        self.decider.stages.end(Stage::Tail, lookups, began);
    }

    #[inline]
    fn prefetch_entry(&self, index: usize) {
        if self.steps[index] == Step::Lookup {
            self.flows.prefetch_entry(&self.continuations[index]);
        }
    }

    /// From the head's step to the packet's end: lookups and tails in turn.
    fn finish_packet(&mut self, burst: &Burst, index: usize, order: Order) {
        let (packet, frame) = (&burst.packets[index], burst.data(index));
        let mut step = self.steps[index];
        let mut found;
        // What the packet belongs to: the innermost flow that somebody sees and that is no part of another one.
        let (mut connection, mut outer) = (None, None);
        let mut lookups = 0;
        let (reason, terms) = loop {
            step = match step {
                Step::Done(reason) => break (reason, self.continuations[index].terms),
                Step::Lookup if lookups == self.plan.limits.lookups_max => {
                    break (Some(DropReason::NestingLimit), 0);
                }
                Step::Lookup => {
                    let k = &mut self.continuations[index];
                    if lookups > 0 {
                        self.flows.hash(k);
                    }
                    found = self.flows.find(k, packet, order, &mut self.decider, &mut self.counters);
                    lookups += 1;
                    let Some(flow) = found else { break (Some(DropReason::FlowLimit), 0) };
                    if self.flows.is_observed(flow.table)
                        && (connection.is_none() || !self.flows.is_part(flow.table))
                    {
                        outer = connection.replace(flow);
                        self.note_outer(flow, outer);
                    }
                    self.run_tail(burst, index, order, flow)
                }
                Step::Restart if lookups == self.plan.limits.lookups_max => {
                    break (Some(DropReason::NestingLimit), 0);
                }
                Step::Restart => {
                    let k = &self.continuations[index];
                    found = self.flows.renew(k, packet, order, &mut self.decider, &mut self.counters);
                    lookups += 1;
                    let Some(flow) = found else { break (Some(DropReason::FlowLimit), 0) };
                    // What is a part, or seen by nobody, restarts inside the one that the packet belongs to.
                    if connection.is_some_and(|connection: Found| connection.table == flow.table) {
                        connection = Some(flow);
                        self.note_outer(flow, outer);
                    }
                    self.run_tail(burst, index, order, flow)
                }
            };
        };
        self.count(packet, reason);
        self.decider.events(order, packet, terms);
        let of_connection = connection.map_or(0, |found| self.flows.note_terms(found, terms));
        if self.decider.is_tracked(of_connection) {
            let tracked = connection.and_then(|found| self.flows.tracked(found, packet, frame));
            tracked.iter().for_each(|packet| self.decider.track(order, of_connection, packet));
        }
        let otherwise = match reason {
            _ if of_connection & self.decider.other_classes() != 0 => Account::Delivered,
            Some(reason) => Account::Dropped(reason),
            None => Account::Filtered,
        };
        let flow = match terms & self.decider.packet_classes() {
            0 => None,
            _ => connection.and_then(|f| self.flows.verdict(f)),
        };
        let k = &mut self.continuations[index];
        self.decider.packet(
            order,
            &PacketView { meta: packet, frame, terms, outs: &k.outs, otherwise },
            flow,
        );
        k.release();
    }

    /// A flow was found in a packet of another connection: if it is new, it is known from now on to run in that.
    #[inline]
    fn note_outer(&mut self, flow: Found, outer: Option<Found>) {
        if let Some(outer) = outer.filter(|_| flow.new) {
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

    fn run_tail(&mut self, burst: &Burst, index: usize, order: Order, found: Found) -> Step {
        let (packet, frame) = (&burst.packets[index], burst.data(index));
        let (mut tail, data) = self.flows.open(found);
        let mut host = TailHost {
            flow: &mut tail,
            decider: &mut self.decider,
            block: &burst.block,
            order,
            now: packet.time.0,
            program: &*self.program,
        };
        let record = FlowRecord { id: found.id.0, data: &mut *data };
        let k = &mut self.continuations[index];
        let step = self.program.resume(&mut host, packet, frame, record, found.responder, found.new, k);
        if let Some(millis) = tail.changed_timeout(data, found.new) {
            if !found.new {
                self.flows.flush_chunks(found, packet.time.0, order, &mut self.decider);
            }
            let (now, counters) = (packet.time.0, &mut self.counters);
            self.flows.set_timeout(found, millis, now, order, &mut self.decider, counters);
        }
        step
    }
}

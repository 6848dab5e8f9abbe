//! Ends flows. Bytes that wait in a flow's sequences are delivered, its sessions finish, its unread messages
//! are read, and its streams and its record are delivered.
//!
//! A program reads the messages of a side together with a packet that the side sent, because the packet has
//! the headers of the layers below. While bytes of a side wait for missing bytes, the last packet of that
//! side is kept ([`Messages::keep_packet`]). When the flow ends, the waiting bytes are put in order, and the
//! program reads the kept packet once more ([`Rereading`]). A packet that came in fragments is not kept
//! whole; the messages of its side are not read, and their bytes count as lost.
//!
//! Packets that wait beside a flow are read when it ends ([`aside`](crate::aside)): they begin the flow that
//! follows.
//!
//! A message may hold flows, and these flows end, too. A stack of unfinished work takes the place of
//! recursion: the next flow to end lies above the packet whose messages hold the flow, and that packet lies
//! above the flow that carries the messages. Therefore the flows in a message end before their carrier, and
//! the subscriber receives them in that order.
//!
//! [`Messages::keep_packet`]: crate::messages::Messages

use crate::aside::AsidePacket;
use crate::delivery::Delivery;
use crate::effects::{Effects, OverFlow};
use crate::flow::{EndReason, FlowView};
use crate::flow_ref::FlowRef;
use crate::flow_sessions::FlowSessions;
use crate::flows::Flows;
use crate::host::{deliver_bytes, deliver_to_streams, finish_sessions};
use crate::matcher::FlowVerdict;
use crate::messages::{LastPacket, Segment};
use crate::packet_ctx::PacketCtx;
use crate::packet_run::{Advance, Beside, Lane, PacketRun, Place, Rereading};
use crate::sets::Terms;
use crate::settle::{SettleScope, settle_open};
use crate::stream::{CarrierPacket, InOrder, Moment, StreamEnd};
use crate::subscriber::Subscriber;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_ir::abi::{Ordered, Program};
use weir_packet::{Direction, Extras, Timestamp};

/// A packet that is read again has been delivered already, so nobody asks for its extras.
static NO_EXTRAS: Extras = Extras::new();

/// Ends a flow, and before it the flows that its last messages end. `effects` are those of the packet during
/// which the flow ends.
pub(crate) fn end_flow<S: Subscriber>(
    flows: &mut Flows,
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    flow: FlowRef,
    reason: EndReason,
) {
    delivery.ends_unclosed = reason != EndReason::Closed;
    let mut ends = FlowEnds { flows, delivery, effects, work: vec![] };
    ends.begin(FlowEnd { flow, reason, is_made: false });
    while let Some(work) = ends.work.pop() {
        match work {
            Work::Messages(end, sides) => ends.read_messages(end, sides),
            Work::Packet(packet) => ends.read_packet(packet),
        }
    }
    ends.delivery.ends_unclosed = false;
}

struct FlowEnds<'a, S> {
    flows: &'a mut Flows,
    delivery: &'a mut Delivery<S>,
    /// The effects of the packet during which the first flow ends.
    effects: &'a mut Effects,
    /// Remaining work; the last entry comes next.
    work: Vec<Work>,
}

enum Work {
    /// A flow ends after the messages of these sides have been read.
    Messages(FlowEnd, &'static [Direction]),
    /// A packet is read for its messages.
    Packet(Box<KeptPacket>),
}

/// A flow that ends.
struct FlowEnd {
    flow: FlowRef,
    reason: EndReason,
    /// The flow was created for messages that are read at the end of a capture: no other list contains it.
    is_made: bool,
}

/// A packet that is read again, or that waited beside a flow.
struct KeptPacket {
    last: LastPacket,
    /// The packets that waited beside the same flow, and come after this one.
    next: VecDeque<AsidePacket>,
    program: Arc<dyn Program>,
    lane: Lane,
    place: Place,
    rereading: Rereading,
    /// The effects of the packet.
    effects: Effects,
    /// The program is done with the packet, and its undecided effects are settled.
    is_settled: bool,
    /// The flows that are over with the packet have ended, too.
    is_done: bool,
}

impl<S: Subscriber> FlowEnds<'_, S> {
    fn begin(&mut self, end: FlowEnd) {
        let FlowEnd { flow, reason, .. } = end;
        self.flows.take_back(flow);
        let count = &mut self.delivery.counters.flow;
        *match reason {
            EndReason::Idle => &mut count.flows_expired,
            EndReason::Closed => &mut count.flows_ended,
            EndReason::Shed => &mut count.flows_shed,
            EndReason::Restart => &mut count.flows_restarted,
            EndReason::EndOfCapture => &mut count.flows_flushed,
        } += 1;
        if reason != EndReason::EndOfCapture {
            self.flows.tables[flow.table.index()].wheel.cancel(flow.id);
        }
        self.effects.forget_over(flow);
        for work in &mut self.work {
            if let Work::Packet(packet) = work {
                packet.effects.forget_over(flow);
            }
        }
        let effects = current_effects(&mut self.work, self.effects);
        if effects.is_open() {
            settle_open(self.flows, self.delivery, effects, SettleScope::Flow(flow));
        }
        if self.flows.is_seen(flow.table) {
            self.flush(flow);
        }
        match self.flows.tables[flow.table.index()].layout.messages_at {
            Some(_) => self.work.push(Work::Messages(end, &Direction::BOTH)),
            None => self.finish(&end),
        }
    }

    /// Delivers the bytes that wait in a flow's sequences and finishes its sessions. Bytes of messages are
    /// collected.
    fn flush(&mut self, flow: FlowRef) {
        let effects = current_effects(&mut self.work, self.effects);
        for side in Direction::BOTH {
            // Waiting bytes pass even if nobody wants them: the gaps before them count as missing.
            while let Some(next) = self.flows.flush_sequence(flow, side) {
                if next.ordered.gap_bytes > 0 {
                    self.flows.run_on_gap(flow, side);
                }
                let (mut tail, data) = self.flows.tail(flow);
                if tail.layout.has_messages(data, side) {
                    let &Ordered { gap_bytes, ref bytes, claimed_bytes, ref metas, .. } = &next.ordered;
                    let (block, whole) = (&bytes.block, &metas[..tail.layout.whole_values]);
                    let segment = Segment { gap_bytes, bytes: bytes.bytes(), claimed_bytes, block, whole };
                    tail.shared.messages.collect(flow, side, &segment);
                }
                if tail.sessions.is_none() || !tail.layout.wants_bytes(data, side) {
                    continue;
                }
                let kept = next.frame.as_ref();
                let next = InOrder {
                    now: tail.header.last_time,
                    side,
                    gap_bytes: next.ordered.gap_bytes,
                    bytes: next.ordered.bytes.bytes(),
                    claimed_bytes: next.ordered.claimed_bytes,
                    ends: false,
                    packet: kept
                        .map(|kept| CarrierPacket { frame: kept.frame(), is_repeated: next.is_repeated }),
                };
                deliver_bytes(&mut tail, data, self.delivery, effects, &next);
            }
            // Silence confirms a FIN.
            let verdict = self.flows.sequences.take_verdict(side);
            self.flows.count_outside(flow, side, verdict.outside_bytes);
            if verdict.has_ended {
                let (mut tail, data) = self.flows.tail(flow);
                let end = InOrder::end(tail.header.last_time, side);
                deliver_to_streams(&mut tail, data, self.delivery, effects, &end);
            }
        }
        Direction::BOTH.into_iter().for_each(|side| self.flows.finish_sequence(flow, side));
        if self.flows.tables[flow.table.index()].layout.delivers {
            let (mut tail, data) = self.flows.tail(flow);
            finish_sessions(&mut tail, data, self.delivery, effects);
        }
    }

    /// Reads the unread messages of a flow, side by side; the flow ends when none is left.
    fn read_messages(&mut self, end: FlowEnd, mut sides: &'static [Direction]) {
        while let Some((&side, others)) = sides.split_first() {
            sides = others;
            if let Some(last) = self.flows.messages.take_packet(end.flow, side) {
                let packet = self.reread(&end, last);
                self.work.push(Work::Messages(end, sides));
                return self.work.push(Work::Packet(packet));
            }
        }
        if self.flows.is_live(end.flow) {
            self.flows.lose_unread(end.flow);
            self.finish(&end);
        }
    }

    /// Prepares the last packet of a flow for a second reading.
    fn reread(&mut self, end: &FlowEnd, last: LastPacket) -> Box<KeptPacket> {
        let &FlowEnd { flow, reason, .. } = end;
        let first_packet = self.flows.first_packet(flow);
        let rereading = Rereading { flow, reason, made: vec![], aside: None, first_packet };
        KeptPacket::new(&self.flows.program, last, VecDeque::new(), rereading)
    }

    /// Prepares the packets that wait beside a flow that has ended.
    fn read_aside(&mut self, end: &FlowEnd, first_packet: u64, mut packets: VecDeque<AsidePacket>) {
        let Some(AsidePacket { packet, lookups, name }) = packets.pop_front() else { return };
        let &FlowEnd { flow, reason, .. } = end;
        let rereading =
            Rereading { flow, reason, made: vec![], aside: Some(Beside { lookups, name }), first_packet };
        self.work.push(Work::Packet(KeptPacket::new(&self.flows.program, packet, packets, rereading)));
    }

    /// Reads a kept packet up to the next flow that has to end; afterwards ends the flows that are over with
    /// the packet.
    fn read_packet(&mut self, mut packet: Box<KeptPacket>) {
        if let Some(end) = self.advance(&mut packet) {
            self.work.push(Work::Packet(packet));
            return self.begin(end);
        }
        if let Some(flow) = packet.next_made(self.flows) {
            let reason = packet.rereading.reason;
            self.work.push(Work::Packet(packet));
            self.begin(FlowEnd { flow, reason, is_made: true });
        }
    }

    /// The next flow that has to end before the packet continues; `None` once the packet is done.
    fn advance(&mut self, packet: &mut KeptPacket) -> Option<FlowEnd> {
        while !packet.is_done {
            if let Some(end) = self.advance_one(packet) {
                return Some(end);
            }
            packet.take_next();
        }
        None
    }

    /// The next flow that has to end before the current packet continues; `None` once that packet is done.
    fn advance_one(&mut self, packet: &mut KeptPacket) -> Option<FlowEnd> {
        if !packet.is_settled {
            let (block, meta) = (&packet.last.block, &packet.last.meta);
            let (program, frame) = (&*packet.program, block.frame(meta));
            let at = PacketCtx { program, block, packet: meta, frame, extras: &NO_EXTRAS, index: 0 };
            let aside = packet.rereading.aside;
            let mut run = PacketRun {
                at: &at,
                lane: &mut packet.lane,
                place: packet.place,
                flows: self.flows,
                delivery: self.delivery,
                effects: &mut packet.effects,
                rereading: Some(&mut packet.rereading),
            };
            match run.advance() {
                Advance::Ends(flow, reason) => {
                    packet.place = run.place;
                    return Some(FlowEnd { flow, reason, is_made: false });
                }
                step => {
                    let is_through = matches!(step, Advance::Through(_));
                    match aside {
                        Some(beside) => run.settle_aside(beside.name, is_through),
                        None => run.settle_messages(is_through),
                    }
                }
            }
            packet.lane.k.release();
            if packet.next.is_empty() {
                packet.rereading.made.reverse();
            }
            packet.is_settled = true;
        }
        while let Some(OverFlow { flow, first_packet }) = packet.effects.next_over() {
            if self.flows.take_live(flow, first_packet) {
                return Some(FlowEnd { flow, reason: EndReason::Closed, is_made: false });
            }
            packet.effects.forget_over(flow);
        }
        self.flows.give_back();
        packet.is_done = true;
        None
    }

    /// Ends the streams of a flow whose messages have been read, and delivers the flow's record.
    fn finish(&mut self, end: &FlowEnd) {
        let &FlowEnd { flow, reason, is_made } = end;
        if self.flows.is_observed(flow.table) || self.flows.reports_ends_alone(flow.table) {
            self.hand_over(flow, reason);
        } else {
            self.lose_datagram(flow);
        }
        let (aside, first_packet) = (self.flows.take_aside(flow), self.flows.first_packet(flow));
        // At the end of the capture the tables are released as a whole.
        let removes = reason != EndReason::EndOfCapture || is_made || !aside.is_empty();
        self.flows.release(flow, removes);
        if !aside.is_empty() {
            self.read_aside(end, first_packet, aside);
        }
    }

    /// Decides about the fragments of a datagram that ends incomplete.
    fn lose_datagram(&mut self, flow: FlowRef) {
        let mut is_complete = self.effects.forget_datagram(flow);
        for work in &mut self.work {
            if let Work::Packet(packet) = work {
                is_complete |= packet.effects.forget_datagram(flow);
            }
        }
        if !is_complete {
            self.delivery.lose_datagram(flow);
        }
    }

    fn hand_over(&mut self, flow: FlowRef, reason: EndReason) {
        let FlowRef { table, id, .. } = flow;
        let ended = Timestamp(self.flows.tables[table.index()].flows.entry(id).0.last_time);
        let odd = self.delivery.take_odd(flow, ended, self.flows);
        let streams = self.flows.tables[table.index()].streams.get_mut(id).map(std::mem::take);
        let outcomes = streams.as_ref().and_then(|_| self.flows.outcomes(flow));
        let state = &self.flows.tables[table.index()];
        let (header, data) = state.flows.entry(id);
        let sessions = state.sessions.get(id.0 as usize).filter(|_| state.layout.delivers);
        let view = FlowView {
            recognised: sessions.map(FlowSessions::recognised).unwrap_or_default(),
            outer: self.flows.outer.get(&flow).map_or(&[], Vec::as_slice),
            tunnels: self.flows.tunnels.of(flow),
            odd: &odd,
            rows: sessions.map(FlowSessions::rows),
            ..FlowView::new(&*self.flows.program, flow, header, data)
        };
        let known = FlowVerdict::of(&self.flows.plan, &state.layout, data);
        if let Some(streams) = streams {
            let moment = Moment::at(header.last_time);
            self.delivery.streams_over(moment, &view, streams, known.clone(), StreamEnd { reason, outcomes });
        }
        if state.layout.reports_ends {
            self.delivery.ends(&view, Terms::of(&known.terms));
        }
        if state.layout.observed && !state.layout.part {
            self.delivery.connection(&view, known, reason);
        }
    }
}

/// The effects of the packet that is being processed: of the last packet in `work` that is not done, or else
/// the `outer` ones.
fn current_effects<'a>(work: &'a mut [Work], outer: &'a mut Effects) -> &'a mut Effects {
    let mut packets = work.iter_mut().rev().filter_map(|work| match work {
        Work::Packet(packet) if !packet.is_done => Some(&mut packet.effects),
        _ => None,
    });
    packets.next().unwrap_or(outer)
}

impl KeptPacket {
    fn new(
        program: &Arc<dyn Program>,
        last: LastPacket,
        next: VecDeque<AsidePacket>,
        rereading: Rereading,
    ) -> Box<Self> {
        let mut lane = Lane::default();
        lane.step = program.head(&last.meta, last.block.frame(&last.meta), &mut lane.k);
        Box::new(KeptPacket {
            last,
            next,
            program: Arc::clone(program),
            lane,
            place: Place::default(),
            rereading,
            effects: Effects::default(),
            is_settled: false,
            is_done: false,
        })
    }

    /// Goes on with the packet that waited behind the current one, if there is one.
    fn take_next(&mut self) {
        let Some(AsidePacket { packet, lookups, name }) = self.next.pop_front() else { return };
        let made = std::mem::take(&mut self.rereading.made);
        let rereading = Rereading { made, aside: Some(Beside { lookups, name }), ..self.rereading };
        *self = *Self::new(&self.program, packet, std::mem::take(&mut self.next), rereading);
    }

    /// The next flow that was created for the packet's messages and has to end with the packet. At the end of
    /// a capture no other list contains these flows, even if another flow used the same slot before. The last
    /// flow is taken first: the flow created first is then the last one of the list.
    fn next_made(&mut self, flows: &Flows) -> Option<FlowRef> {
        if self.rereading.reason != EndReason::EndOfCapture {
            return None;
        }
        while let Some(made) = self.rereading.made.pop() {
            if flows.is_live(made.flow()) {
                return Some(made.flow());
            }
        }
        None
    }
}

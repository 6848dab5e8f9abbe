//! The host functions of a program's tail: sequences, messages and sessions of the current flow.

use crate::delivery::Delivery;
use crate::effects::Effects;
use crate::flow::{FlowView, port, receiver};
use crate::flow_sessions::{Piece, Results};
use crate::matcher::FlowVerdict;
use crate::messages::{self, MessageCarrier};
use crate::packet_ctx::PacketCtx;
use crate::recognised::Recognised;
use crate::sequence::{FrameRef, Inserted, KeptFrame, Passed, Segment, waiting_cost};
use crate::sessions::{Carrier, Yielded};
use crate::sets::Terms;
use crate::stage::Stage;
use crate::stream::{CarrierPacket, InOrder, Moment};
use crate::subscriber::{Subscriber, VerdictUpdate};
use crate::tables::{TailFlow, stop_bytes};
use std::sync::Arc;
use weir_ir::abi::{
    FlowRecord, FlowSide, Host, Ordered, OrderedBytes, SEQ_INCONSISTENT, SeqInsert, SeqInserted, SeqSide,
    Slice,
};
use weir_ir::graph::Event;
use weir_packet::{Direction, Timestamp};
use weir_sessions::Data;

/// The host of one packet's tail.
pub(crate) struct TailHost<'a, 'f, S> {
    pub at: &'a PacketCtx<'a>,
    pub flow: &'a mut TailFlow<'f>,
    pub delivery: &'a mut Delivery<S>,
    pub effects: &'a mut Effects,
    /// The packet that the next delivered bytes came in.
    pub origin: Origin,
}

/// The packet that delivered bytes came in.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The current packet.
    Current,
    /// An earlier packet, if it was kept; the flag says whether other bytes of it have been delivered before.
    Kept(Option<Arc<KeptFrame>>, bool),
}

impl Origin {
    fn carrier_packet<'a>(&'a self, current: FrameRef<'a>) -> Option<CarrierPacket<'a>> {
        Some(match self {
            Origin::Current => CarrierPacket { frame: current, is_repeated: false },
            Origin::Kept(frame, is_repeated) => {
                CarrierPacket { frame: frame.as_ref()?.frame(), is_repeated: *is_repeated }
            }
        })
    }
}

impl<S: Subscriber> Host for TailHost<'_, '_, S> {
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted {
        let SeqInsert { sequence, flow, direction, at, bytes, claimed_bytes, span, metas } = offer;
        let policies = &self.flow.plan.policies;
        let own = self.flow.streams.as_ref().and_then(|streams| streams.policy(direction));
        let policy = own
            .or_else(|| policies.uniform())
            .unwrap_or_else(|| policies.of(receiver(&self.flow.layout.ends, self.flow.header, direction)));
        // An unwanted out-of-order segment keeps only its sequence range.
        let is_kept = self.flow.layout.keeps_bytes || self.flow.layout.wants_bytes(flow.data, direction);
        let kept = if is_kept { bytes } else { &[] };
        let mut frame = None;
        let may_wait = self.flow.streams.as_deref().is_none_or(|streams| {
            let terms = self.flow.layout.terms(self.flow.plan, flow.data);
            let terms = Terms::of(&terms);
            frame =
                (is_kept && self.delivery.matcher.asks_for_packets(terms, streams)).then(|| self.at.packet());
            let (priority, offset) = streams.rank(direction, self.delivery.matcher.priority(terms));
            let held = self.flow.held_bytes();
            let end = offset.saturating_add(bytes.len() as u64);
            self.delivery.streams.overload.admits(priority, end, waiting_cost(kept, frame), held)
        });
        let segment = Segment { at, bytes: kept, claimed_bytes, span, metas, policy, may_wait, frame };
        let inserted = {
            let flow = FlowRecord { id: flow.id, data: &mut *flow.data };
            self.flow.shared.sequences.insert(sequence, flow, direction, segment, self.at.block)
        };
        self.flow.note_holder();
        if let Some(streams) = &mut self.flow.streams {
            streams.count(direction, &inserted);
            if inserted.refused_bytes > 0 {
                self.delivery.streams.overload.drop_segment();
                let terms = self.flow.layout.terms(self.flow.plan, flow.data);
                self.delivery.matcher.count_segment(Terms::of(&terms), streams);
            }
        }
        let differs =
            inserted.inconsistent_bytes > 0 && self.at.program.graph().sequences[sequence.index()].tells;
        let status = inserted.status | if differs { SEQ_INCONSISTENT } else { 0 };
        SeqInserted { status, skip_bytes: inserted.skip }
    }

    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        let FlowRecord { id, data } = of.flow;
        let flow = FlowRecord { id, data: &mut *data };
        self.flow.shared.sequences.acknowledge(of.sequence, flow, of.direction, at);
        self.note_ends(data);
    }

    fn seq_begin(&mut self, of: SeqSide<'_>, at: u64) {
        let outside_bytes = self.flow.shared.sequences.confirm(of.sequence, of.flow, of.direction, at);
        self.count_outside(of.direction, outside_bytes);
    }

    fn seq_hold(&mut self, of: SeqSide<'_>, at: u64, span: u64) {
        let sequences = &mut self.flow.shared.sequences;
        match span {
            0 => sequences.reset(of.sequence, of.flow, of.direction),
            _ => sequences.hold(of.sequence, of.flow, of.direction, at, span),
        }
    }

    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        let FlowRecord { id, data } = of.flow;
        let flow = FlowRecord { id, data: &mut *data };
        let passed = self.flow.shared.sequences.next(of.sequence, flow, of.direction);
        self.note_ends(data);
        let Passed { ordered, frame, is_repeated } = passed?;
        self.origin = Origin::Kept(frame, is_repeated);
        Some(ordered)
    }

    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        if self.flow.layout.holds_fragments {
            self.effects.complete_datagram(self.flow.flow_ref());
        }
        self.flow.shared.sequences.assemble(of.sequence, of.flow, of.direction)
    }

    fn collect(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>, whole: &[u64]) {
        let OrderedBytes { gap_bytes, bytes, claimed_bytes } = next;
        let segment = messages::Segment { gap_bytes, bytes, claimed_bytes, block: self.at.block, whole };
        self.flow.shared.messages.collect(self.flow.flow_ref(), of.direction, &segment);
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.flow.shared.messages.whole_value(number)
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        let side = of.direction;
        let carrier = MessageCarrier { table: self.flow.table, header: (&*self.flow.header).into() };
        let sequence = self.flow.layout.sequence;
        let waits = sequence
            .is_some_and(|sequence| self.flow.shared.sequences.is_waiting(sequence, of.flow.data, side));
        let packet = waits.then_some(self.at.packet());
        self.flow.shared.messages.first(self.flow.flow_ref(), of.direction, carrier, packet)
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.flow.shared.messages.next(done, wanted)
    }

    fn deliver(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>) {
        let OrderedBytes { gap_bytes, bytes, claimed_bytes } = next;
        let (now, side) = (self.at.packet.time.0, of.direction);
        let packet = self.origin.carrier_packet(self.at.packet());
        let next = InOrder { now, side, gap_bytes, bytes, claimed_bytes, ends: false, packet };
        deliver_bytes(self.flow, of.flow.data, self.delivery, self.effects, &next);
    }

    fn keep(&mut self, bytes: &[u8]) -> u64 {
        self.effects.emitted.keep(bytes)
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        let own = MessageCarrier { table: self.flow.table, header: (&*self.flow.header).into() };
        let MessageCarrier { table, header } = match flow {
            Some(_) => own,
            None => self.flow.shared.messages.carrier().unwrap_or(own),
        };
        self.effects.emitted.push(event, table, header, values);
    }
}

impl<S: Subscriber> TailHost<'_, '_, S> {
    /// Ends the streams of directions whose numbers have just ended.
    fn note_ends(&mut self, data: &mut [u8]) {
        for side in Direction::BOTH {
            let verdict = self.flow.shared.sequences.take_verdict(side);
            self.count_outside(side, verdict.outside_bytes);
            if verdict.has_ended {
                let end = InOrder::end(self.at.packet.time.0, side);
                deliver_to_streams(self.flow, data, self.delivery, self.effects, &end);
            }
        }
    }

    /// Counts bytes that waited and turned out to be outside of the direction's numbers.
    fn count_outside(&mut self, direction: Direction, outside_bytes: u64) {
        if let Some(streams) = self.flow.streams.as_mut().filter(|_| outside_bytes > 0) {
            streams.count(direction, &Inserted { outside_bytes, ..Inserted::default() });
        }
    }
}

/// Delivers bytes in order to the flow's sessions and to questions about streams.
pub(crate) fn deliver_bytes<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    next: &InOrder<'_>,
) {
    deliver_to_streams(flow, data, delivery, effects, next);
    deliver_to_sessions(flow, data, delivery, effects, next);
}

/// Delivers bytes in order, or the end of a stream, to questions about streams.
pub(crate) fn deliver_to_streams<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    next: &InOrder<'_>,
) {
    if let Some(streams) = flow.streams.take() {
        let known = known_of(flow, data);
        let view = view(flow, data, Recognised::default());
        let queued_bytes = flow.held_bytes();
        let moment = Moment { now: next.now, queued_bytes, packet: None };
        let over = delivery.stream(effects, moment, &view, streams, next, &known);
        let holds_bytes = streams.have_chunks() || !delivery.held.is_empty();
        flow.streams = Some(streams);
        if holds_bytes {
            flow.note_holder();
        }
        if over && flow.sessions.as_ref().is_none_or(|sessions| sessions.is_over()) {
            stop_bytes(data, flow.layout.wants_at, next.side);
        }
    }
}

/// Delivers bytes in order to the flow's sessions.
fn deliver_to_sessions<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    next: &InOrder<'_>,
) {
    let plan = flow.plan;
    let Some(sessions) = flow.sessions.as_mut() else { return };
    if sessions.is_over() {
        return;
    }
    let mut yielded = std::mem::take(&mut delivery.yielded);
    let began = delivery.stages.begin();
    let counters = &mut delivery.counters.session;
    let overload = &mut delivery.streams.overload;
    let from = next.side;
    let ports = Direction::BOTH.map(|side| port(&flow.layout.ends, flow.header, side) as u16);
    let is_datagram = flow.layout.sequence.is_none();
    let forced = if sessions.is_fresh() { plan.forced(flow.table, ports) } else { None };
    let carrier = Carrier { plan, probed: &flow.layout.probed, ports, forced, is_datagram };
    let (before, before_bytes) = (sessions.recognised(), sessions.held_bytes());
    let was_refused = sessions.is_refused();
    let probes_cut = counters.probes_cut;
    // Checked before the next bytes: what was yielded by the last ones is delivered by now.
    let is_shed = before_bytes > overload.sessions_of_one_max();
    let results = Results { out: &mut yielded, counters, overload };
    if is_shed {
        sessions.shed(results);
    } else {
        let data = Data { from, time: Timestamp(next.now), bytes: next.bytes, is_datagram };
        let piece = Piece { data, gap_bytes: next.gap_bytes, cut_bytes: next.cut_bytes() };
        sessions.receive(&carrier, &piece, results);
    }
    let held_bytes = sessions.held_bytes();
    // Bytes that were not looked at say nothing of the protocol.
    let is_probed = delivery.counters.session.probes_cut == probes_cut;
    let is_complete = next.gap_bytes == 0 && !is_shed && is_probed;
    let recognised = sessions.recognised();
    let is_refused = sessions.is_refused() && !was_refused && is_complete;
    if held_bytes > 0 {
        flow.note_holder();
    }
    delivery.stages.end(Stage::Sessions, 1, began);
    after_sessions(flow, data, delivery, effects, yielded);
    if recognised != before || is_refused && recognised.is_empty() {
        let known = known_of(flow, data);
        delivery.recognised(&view(flow, data, recognised), &known, recognised.last());
    }
}

/// Finishes the sessions of a flow that is over.
pub(crate) fn finish_sessions<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
) {
    let mut yielded = std::mem::take(&mut delivery.yielded);
    if let Some(sessions) = flow.sessions.as_mut() {
        let began = delivery.stages.begin();
        let Delivery { streams, counters, .. } = delivery;
        let (counters, overload) = (&mut counters.session, &mut streams.overload);
        sessions.finish(Results { out: &mut yielded, counters, overload });
        delivery.stages.end(Stage::Sessions, 0, began);
    }
    after_sessions(flow, data, delivery, effects, yielded);
    if let Some(sessions) = flow.sessions.as_mut() {
        sessions.release_accounts(&mut delivery.streams.overload);
    }
    if flow.layout.verdict.is_some() {
        let verdict = flow.layout.verdict(flow.plan, data);
        let verdict = delivery.sessions_over(flow.flow_ref(), verdict);
        flow.layout.set_verdict(flow.plan, data, &verdict);
    }
}

fn after_sessions<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    mut yielded: Yielded,
) {
    let recognised = flow.sessions.as_ref().map(|s| s.recognised()).unwrap_or_default();
    let over = flow.sessions.as_ref().is_some_and(|s| s.is_over());
    if yielded.is_empty() && !over {
        delivery.yielded = yielded;
        return;
    }
    let mut known = known_of(flow, data);
    let plan = flow.plan;
    let mut some = false;
    for (protocol, session) in yielded.drain(..) {
        let session = delivery.shared(session);
        if plan.wanted.contains(protocol) {
            let view = view(flow, data, recognised);
            if session.is_early() {
                delivery.early_session(&view, &known, protocol, &session);
            } else {
                some = true;
                known.verdict.met |=
                    &delivery.session(effects, &view, &known, protocol, Arc::clone(&session));
                known.verdict.had_session = true;
            }
        }
        let given_bytes = delivery.take_back(session, protocol);
        if let Some(sessions) = flow.sessions.as_mut() {
            sessions.given(given_bytes);
        }
    }
    delivery.yielded = yielded;
    if let Some(sessions) = flow.sessions.as_mut() {
        sessions.charge_accounts(&mut delivery.streams.overload);
    }
    if some {
        let update = VerdictUpdate { flow: flow.flow_ref(), verdict: known.verdict.clone(), ended: None };
        delivery.settle(update);
    }
    if over {
        known.verdict = delivery.sessions_over(flow.flow_ref(), known.verdict);
    }
    if let Some(streams) = flow.streams.take() {
        let view = view(flow, data, recognised);
        let queued_bytes = flow.held_bytes();
        let moment = Moment { now: flow.header.last_time, queued_bytes, packet: None };
        delivery.settle_streams(moment, &view, streams, &known);
        flow.streams = Some(streams);
    }
    for side in Direction::BOTH {
        let streams = flow.streams.as_deref();
        if over && streams.is_none_or(|streams| delivery.is_over(streams, side, &known)) {
            stop_bytes(data, flow.layout.wants_at, side);
        }
    }
    flow.layout.set_verdict(plan, data, &known.verdict);
}

/// The verdict on a flow that continues.
fn known_of(flow: &TailFlow<'_>, data: &[u8]) -> FlowVerdict {
    let mut known = FlowVerdict::of(flow.plan, flow.layout, data);
    if let Some(words) = flow.open {
        words.add_to(&mut known.open, data);
    }
    if flow.sessions.is_none() {
        known.verdict.is_over = true;
        known.verdict.met |= &flow.plan.absent(&known.verdict);
    }
    known
}

fn view<'a>(flow: &'a TailFlow<'_>, data: &'a [u8], recognised: Recognised) -> FlowView<'a> {
    let view = FlowView::new(&*flow.plan.program, flow.flow_ref(), flow.header, data);
    FlowView { recognised, rows: flow.sessions.as_ref().map(|sessions| sessions.rows()), ..view }
}

//! All flows of a worker: per table of the graph its flow table, timer wheel and sessions; and the
//! beginning and end of a flow.

use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::flow::{EndReason, FlowView, read_number, write_number};
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::host::{InOrder, PacketCtx};
use crate::matcher::FlowVerdict;
use crate::messages::Messages;
use crate::plan::{Mask, Plan};
use crate::sequence::{Reassembler, SequenceLimits};
use crate::sessions::{FlowSessions, Recognised};
use crate::stream::{CarrierPacket, Due, Moment};
use crate::subscriber::{Order, Subscriber, TrackedPacket};
use crate::table::{Birth, FlowId, Header};
use crate::tables::{TableState, TailFlow};
use crate::timeouts::Timeouts;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::{Continuation, FlowRecord, OUTER_TERMS, Ordered, Program, WANTS_BYTES};
use weir_ir::graph::Table;
use weir_packet::PacketMeta;

/// All flows of a worker.
pub(crate) struct Flows {
    pub(crate) tables: Vec<TableState>,
    pub sequences: Reassembler,
    /// What is unfinished of streams' messages.
    pub messages: Messages,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) plan: Arc<Plan>,
    expired: Vec<(i64, FlowId)>,
    /// When the packet before came of the flow that was found last.
    before: i64,
    /// Connections that are over with the packet at hand.
    pub(crate) ending: Vec<FlowRef>,
    /// The connections that a connection runs in, outermost first: of those in tunnels alone.
    pub(crate) outer: HashMap<FlowRef, Vec<(Table, Header)>>,
    /// Where a packet's record has what it comes to before the connection that was found last.
    outer_terms_at: Option<usize>,
}

impl Flows {
    pub fn new(plan: &Arc<Plan>) -> Self {
        let program = Arc::clone(&plan.program);
        let graph = program.graph();
        let tables = (0..graph.tables.len() as u32).map(|table| TableState::of(Table(table), plan)).collect();
        let sequences = Reassembler::new(graph, program.layout(), sequence_limits(plan));
        let (plan, outer, messages) = (Arc::clone(plan), HashMap::new(), Messages::default());
        let outer_terms_at = graph.outs.iter().position(|out| out == OUTER_TERMS);
        let (expired, ending, before) = (vec![], vec![], 0);
        Self { tables, sequences, messages, program, plan, expired, before, ending, outer, outer_terms_at }
    }

    /// Lookups of one packet.
    pub(crate) fn lookups_max(&self) -> u32 {
        self.plan.limits.lookups_max
    }

    /// Whether the flows of a table are parts of connections found before them.
    #[inline]
    pub fn is_part(&self, table: Table) -> bool {
        self.tables[table.index()].facts.part
    }

    /// Whether somebody sees the flows of a table. Others are not what a packet belongs to, be they there or not: the
    /// passes drop those that nothing else needs.
    #[inline]
    pub fn is_observed(&self, table: Table) -> bool {
        self.tables[table.index()].facts.observed
    }

    /// A new connection was found in a packet of another one: it runs in a tunnel.
    pub fn note_outer(&mut self, inner: FlowHit, outer: FlowHit) {
        if !self.tables[inner.table().index()].facts.observed
            || !self.tables[outer.table().index()].facts.observed
        {
            return;
        }
        // One that was over with this packet, and whose key a later layer has, is gone; the new one may have its place.
        if !self.tables[outer.table().index()].flows.is_live(outer.id()) || inner.flow() == outer.flow() {
            return;
        }
        let mut all = self.outer.get(&outer.flow()).cloned().unwrap_or_default();
        all.push((outer.table(), *self.tables[outer.table().index()].flows.entry(outer.id()).0));
        self.outer.insert(inner.flow(), all);
    }

    /// A connection was found in another one: what the packet comes to as far as that one goes is known.
    #[inline]
    pub fn note_outer_terms(&mut self, outer: FlowHit, k: &Continuation) {
        if let Some(at) = self.outer_terms_at {
            self.note_terms(outer.flow(), k.outs[at]);
        }
    }

    /// Hashes the key that a program asked for.
    #[inline]
    pub fn hash(&self, k: &mut Continuation) {
        k.hash = self.tables[k.table as usize].flows.hash(&k.key);
    }

    /// Fetches the bucket that a key lies in; it has been hashed.
    #[inline]
    pub fn prefetch_bucket(&self, k: &Continuation) {
        self.tables[k.table as usize].flows.prefetch_bucket(k.hash);
    }

    /// Fetches the entry that a key most likely has, which it returns; its bucket has been fetched.
    #[inline]
    pub fn prefetch_entry(&self, k: &Continuation) -> Option<FlowId> {
        let state = &self.tables[k.table as usize];
        let likely = state.flows.prefetch_entry(k.hash);
        if let Some(id) = likely {
            state.streams.prefetch(id);
        }
        likely
    }

    /// The flow that a program asked for; made where there is none. `None` where the table is full. `likely` is the one
    /// that it most likely is.
    #[inline]
    pub fn find<S: Subscriber>(
        &mut self,
        (k, likely): (&Continuation, Option<FlowId>),
        at: &PacketCtx<'_>,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        let (packet, table) = (at.packet, Table(k.table));
        let state = &mut self.tables[table.index()];
        let (swap, _) = k.sender();
        if let Some(id) = state.flows.find(&k.key, k.hash, likely) {
            let (header, data) = state.flows.entry_mut(id);
            let timeout_ns = state.facts.timeouts.ns(data);
            let flow = FlowRef::new(table, id);
            let is_over = self.ending.contains(&flow);
            if packet.time.0.saturating_sub(header.last_time).saturating_abs() <= timeout_ns && !is_over {
                self.before = header.last_time;
                header.last_time = header.last_time.max(packet.time.0);
                return Some(FlowHit::new(table, id, swap != header.swap, false));
            }
            let reason = if is_over { EndReason::Closed } else { EndReason::Idle };
            self.end(flow, reason, at.order, delivery, counters);
        }
        self.make(table, k, packet, at.order, delivery, counters)
    }

    /// Ends the flow that was found last and makes a new one. The packet is none of the old one's.
    pub fn renew<S: Subscriber>(
        &mut self,
        k: &Continuation,
        packet: &PacketMeta,
        order: Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        let table = Table(k.table);
        let flows = &mut self.tables[table.index()].flows;
        if let Some(id) = flows.find(&k.key, k.hash, None) {
            flows.entry_mut(id).0.last_time = self.before;
            self.end(FlowRef::new(table, id), EndReason::Restart, order, delivery, counters);
        }
        self.make(table, k, packet, order, delivery, counters)
    }

    fn make<S: Subscriber>(
        &mut self,
        table: Table,
        k: &Continuation,
        packet: &PacketMeta,
        order: Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        self.before = packet.time.0;
        let state = &mut self.tables[table.index()];
        let (swap, responder) = k.sender();
        let birth = Birth { time: packet.time.0, packet: packet.number, swap: swap != responder };
        let Ok(id) = state.flows.insert(&k.key, k.hash, birth) else {
            counters.flow.flows_refused += 1;
            return None;
        };
        counters.flow.flows_created += 1;
        if let Some(at) = state.facts.wants_at {
            state.flows.entry_mut(id).1[at] = state.facts.initial_wants;
        }
        if state.facts.delivers {
            if state.sessions.len() <= id.0 as usize {
                state.sessions.resize_with(id.0 as usize + 1, FlowSessions::default);
            }
            if delivery.matcher.wants_streams() {
                state.streams.reserve(id);
            }
        } else if let Some(at) = state.facts.verdict_at {
            // No bytes, no sessions.
            let verdict = delivery.sessions_over(order, FlowRef::new(table, id), 0);
            write_number(state.flows.entry_mut(id).1, at, 64, self.plan.pack(verdict));
        }
        Some(FlowHit::new(table, id, responder, true))
    }

    /// A packet is decided: the connections that were over with it end.
    #[inline]
    pub fn end_closed<S: Subscriber>(
        &mut self,
        order: &Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) {
        while let Some(&flow) = self.ending.first() {
            self.end(flow, EndReason::Closed, *order, delivery, counters);
        }
    }

    /// A flow's parts, for its packet's tail.
    #[inline]
    pub fn open(&mut self, found: FlowHit) -> (TailFlow<'_>, &mut [u8]) {
        let state = &mut self.tables[found.table().index()];
        let kept = (&mut self.sequences, &mut self.messages);
        let (mut tail, data) = state.tail(found.flow(), kept, self.program.layout(), &self.plan);
        tail.open_at = tail.facts.open_at;
        (tail, data)
    }

    /// The flow has another time-out now, milliseconds; at 0 it is over.
    pub fn set_timeout<S: Subscriber>(
        &mut self,
        found: FlowHit,
        millis: u32,
        now: i64,
        order: Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) {
        if millis == 0 {
            let facts = self.tables[found.table().index()].facts;
            if facts.observed || facts.messages_at.is_some() {
                // Its last packet is still to be decided by it, and the messages that it carries are read.
                self.ending.push(found.flow());
                return;
            }
            return self.end(found.flow(), EndReason::Closed, order, delivery, counters);
        }
        let deadline = now.saturating_add(Timeouts::as_ns(millis));
        self.tables[found.table().index()].wheel.schedule(found.id(), deadline);
    }

    /// A packet of the flow fulfils these terms. The program itself notes what is certain at the flow's
    /// layer, before bytes are delivered; this adds what layers above it told. The terms that its connection
    /// fulfils now; none where the flow is none, but a datagram's fragments.
    #[inline]
    pub fn note_terms(&mut self, flow: FlowRef, terms: u64) -> u64 {
        let state = &mut self.tables[flow.table.index()];
        let mut all = terms | self.plan.unconditional;
        if let Some(at) = state.facts.terms_at.filter(|_| state.flows.is_live(flow.id)) {
            let data = state.flows.entry_mut(flow.id).1;
            all |= read_number(data, at, 64);
            write_number(data, at, 64, all);
        }
        if state.facts.observed { all } else { 0 }
    }

    /// The key and the verdict word of a packet's connection. `None` where the flow found last is none, but a
    /// datagram's fragments.
    pub fn verdict(&self, found: FlowHit) -> Option<(FlowRef, Mask)> {
        let state = &self.tables[found.table().index()];
        if !state.facts.observed || !state.flows.is_live(found.id()) {
            return None;
        }
        let data = state.flows.entry(found.id()).1;
        Some((
            found.flow(),
            state.facts.verdict_at.map_or(0, |at| self.plan.unpack(read_number(data, at, 64))),
        ))
    }

    /// The connection of a packet that a question tracks; `None` where it has just ended.
    pub fn tracked<'a>(
        &'a self,
        found: FlowHit,
        packet: &'a PacketMeta,
        frame: &'a [u8],
    ) -> Option<TrackedPacket<'a>> {
        let state = &self.tables[found.table().index()];
        let is_live = state.facts.observed && state.flows.is_live(found.id());
        is_live.then(|| TrackedPacket {
            flow: view(&*self.program, found.flow(), state.flows.entry(found.id())),
            from_responder: found.is_responder(),
            packet,
            frame,
        })
    }

    /// Number of a flow's first packet.
    pub fn first_packet(&self, flow: FlowRef) -> u64 {
        self.tables[flow.table.index()].flows.entry(flow.id).0.first_packet
    }

    /// Flows by their first packets; those of one packet by their tables and keys, for its order is the run's
    /// whatever other flows there are.
    pub(crate) fn in_order(&self, a: FlowRef, b: FlowRef) -> Ordering {
        let header = |flow: FlowRef| self.tables[flow.table.index()].flows.entry(flow.id).0;
        let (one, two) = (header(a), header(b));
        one.first_packet.cmp(&two.first_packet).then_with(|| (a.table, one.key()).cmp(&(b.table, two.key())))
    }

    /// Flows that are due at `now`, in the order of their deadlines.
    #[inline]
    pub fn expire(&mut self, now: i64) -> Vec<(i64, FlowRef)> {
        let mut due = vec![];
        for (index, state) in self.tables.iter_mut().enumerate() {
            let (flows, timeouts) = (&state.flows, state.facts.timeouts);
            let is_set_back = state.wheel.is_later_than(now);
            let deadline_of = |id: FlowId| {
                if !flows.is_live(id) {
                    return None;
                }
                let (header, data) = flows.entry(id);
                let timeout_ns = timeouts.ns(data);
                // Where the clock was set back, what lies too far ahead is as over as what lies behind. Where it
                // was not, it is what waits for a second packet to agree on its time.
                let is_ahead = is_set_back && header.last_time.saturating_sub(now) > timeout_ns;
                Some(if is_ahead { now } else { header.last_time.saturating_add(timeout_ns) })
            };
            self.expired.clear();
            state.wheel.advance(now, deadline_of, &mut self.expired);
            due.extend(self.expired.drain(..).map(|(at, id)| (at, FlowRef::new(Table(index as u32), id))));
        }
        if due.len() > 1 {
            due.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| self.in_order(a.1, b.1)));
        }
        due
    }

    /// Every flow, in the order of their first packets.
    pub fn all(&self) -> Vec<FlowRef> {
        let mut all = vec![];
        for (index, state) in self.tables.iter().enumerate() {
            all.extend(state.flows.in_order().into_iter().map(|id| FlowRef::new(Table(index as u32), id)));
        }
        all.sort_unstable_by(|&a, &b| self.in_order(a, b));
        all
    }

    /// Ends a flow: what waits in its sequences is delivered, its sessions finish, its record goes out.
    pub fn end<S: Subscriber>(
        &mut self,
        flow: FlowRef,
        reason: EndReason,
        order: Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) {
        let count = &mut counters.flow;
        *match reason {
            EndReason::Idle => &mut count.flows_expired,
            EndReason::Closed => &mut count.flows_ended,
            EndReason::Restart => &mut count.flows_restarted,
            EndReason::EndOfCapture => &mut count.flows_flushed,
        } += 1;
        if reason != EndReason::EndOfCapture {
            self.tables[flow.table.index()].wheel.cancel(flow.id);
        }
        self.ending.retain(|over| *over != flow);
        if !delivery.packet_end.is_empty() {
            self.settle_packet_end((order, None), (Some(flow), 0), delivery);
        }
        let facts = self.tables[flow.table.index()].facts;
        if facts.observed || facts.messages_at.is_some() {
            self.flush(flow, order, delivery);
        }
        if facts.messages_at.is_some() {
            self.read_last((flow, reason), order, delivery, counters);
            self.lose_unread(flow);
        }
        if facts.observed {
            self.tell_end(flow, reason, order, delivery);
        }
        if !self.messages.is_empty() {
            self.messages.release(flow);
        }
        if !self.outer.is_empty() {
            self.outer.remove(&flow);
        }
        let FlowRef { table, id } = flow;
        let state = &mut self.tables[table.index()];
        if let Some(sequence) = state.facts.sequence {
            let data = state.flows.entry_mut(id).1;
            self.sequences.release(sequence, FlowRecord { id: id.0, data });
        }
        if state.facts.delivers {
            state.sessions[id.0 as usize] = FlowSessions::default();
        }
        // At the end of the capture the tables go as a whole.
        if reason != EndReason::EndOfCapture {
            state.flows.remove(id);
        }
    }

    /// A flow's streams are over, and its record goes out.
    fn tell_end<S: Subscriber>(
        &mut self,
        flow: FlowRef,
        reason: EndReason,
        order: Order,
        delivery: &mut Delivery<S>,
    ) {
        let FlowRef { table, id } = flow;
        let streams = self.tables[table.index()].streams.get_mut(id).map(std::mem::take);
        let state = &self.tables[table.index()];
        let (header, data) = state.flows.entry(id);
        let sessions = state.sessions.get(id.0 as usize).filter(|_| state.facts.delivers);
        let view = FlowView {
            recognised: sessions.map(FlowSessions::recognised).unwrap_or_default(),
            outer: self.outer.get(&flow).map_or(&[], Vec::as_slice),
            ..view(&*self.program, flow, (header, data))
        };
        let known = FlowVerdict::of(&self.plan, &state.facts, data);
        if let Some(streams) = streams {
            let moment = Moment { order, now: header.last_time, queued_bytes: 0 };
            delivery.streams_over(moment, &view, streams, known, reason);
        }
        if !state.facts.part {
            delivery.connection(order, &view, known.terms, known.verdict, reason);
        }
    }

    /// Counts what still waits behind a hole where messages are read: in strict mode none is passed over.
    fn lose_unread(&mut self, FlowRef { table, id }: FlowRef) {
        let state = &mut self.tables[table.index()];
        let (facts, Some(sequence)) = (state.facts, state.facts.sequence) else { return };
        let data = state.flows.entry_mut(id).1;
        for side in [false, true] {
            if facts.has_messages(data, side) {
                let record = FlowRecord { id: id.0, data: &mut *data };
                self.messages.counters.message_bytes_lost +=
                    self.sequences.waiting_bytes(sequence, record, side);
            }
        }
    }

    /// Hands what is left in a flow's sequences and sessions to whoever wants it; for messages it is kept.
    fn flush<S: Subscriber>(&mut self, flow: FlowRef, order: Order, delivery: &mut Delivery<S>) {
        let FlowRef { table, id } = flow;
        let state = &mut self.tables[table.index()];
        for side in [false, true] {
            // What waits passes even where nobody wants the bytes: the gaps before it count as missing.
            while let Some(sequence) = state.facts.sequence {
                let record = FlowRecord { id: id.0, data: state.flows.entry_mut(id).1 };
                let Some(next) = self.sequences.flush(sequence, record, side) else { break };
                let kept = (&mut self.sequences, &mut self.messages);
                let (mut tail, data) = state.tail(flow, kept, self.program.layout(), &self.plan);
                if tail.facts.has_messages(data, side) {
                    let Ordered { gap_bytes, bytes, claimed_bytes, metas, .. } = &next.ordered;
                    let (direction, captured) = ((flow, side), (bytes.bytes(), *claimed_bytes));
                    let whole = &metas[..tail.facts.whole_values];
                    tail.messages.collect(direction, *gap_bytes, captured, &bytes.block, whole);
                }
                if tail.sessions.is_none() || !tail.facts.wants_bytes(data, side) {
                    continue;
                }
                let (gap_bytes, claimed_bytes) = (next.ordered.gap_bytes, next.ordered.claimed_bytes);
                let (now, bytes) = (tail.header.last_time, next.ordered.bytes.bytes());
                let is_repeated = next.is_repeated;
                let packet =
                    next.frame.as_ref().map(|kept| CarrierPacket { frame: kept.frame(), is_repeated });
                let next = InOrder { now, side, gap_bytes, bytes, claimed_bytes, packet };
                crate::host::deliver_bytes(&mut tail, data, delivery, &*self.program, order, &next);
            }
        }
        if !state.facts.delivers {
            return;
        }
        let kept = (&mut self.sequences, &mut self.messages);
        let (mut tail, data) = state.tail(flow, kept, self.program.layout(), &self.plan);
        crate::host::finish_sessions(&mut tail, data, delivery, &*self.program, order);
    }

    /// The flow will be over sooner than it would have been: what its chunks hold is handed over, for little more will
    /// come, and many such flows may be there at a time.
    pub fn flush_chunks<S: Subscriber>(
        &mut self,
        found: FlowHit,
        now: i64,
        order: Order,
        delivery: &mut Delivery<S>,
    ) {
        let state = &mut self.tables[found.table().index()];
        if let Some(streams) = state.streams.get_mut(found.id()).filter(|streams| streams.have_chunks()) {
            let view = view(&*self.program, found.flow(), state.flows.entry(found.id()));
            let moment = Moment { order, now, queued_bytes: 0 };
            delivery.flush_chunks(moment, &view, streams);
        }
    }

    /// A chunk that has waited long enough is handed over.
    pub fn flush_chunk<S: Subscriber>(&mut self, due: &Due, order: Order, delivery: &mut Delivery<S>) {
        let FlowRef { table, id } = due.flow;
        let state = &mut self.tables[table.index()];
        if !state.flows.is_live(id) {
            return;
        }
        let view = view(&*self.program, due.flow, state.flows.entry(id));
        if let Some(streams) = state.streams.get_mut(id) {
            let moment = Moment { order, now: due.at, queued_bytes: 0 };
            delivery.flush_chunk(moment, &view, streams, due);
        }
    }

    /// Adds what the tables and sequences counted.
    pub fn count(&self, counters: &mut Counters) {
        for state in &self.tables {
            counters.flow.flows_peak += state.flows.live_peak() as u64;
        }
        counters.sequence.merge(self.sequences.counters());
        counters.message.merge(&self.messages.counters);
    }

    /// Flows that are there, and bytes that the tables take.
    pub fn size(&self) -> (u64, u64) {
        let flows = self.tables.iter().map(|t| t.flows.len() as u64).sum();
        (flows, self.tables.iter().map(|t| t.flows.bytes() as u64).sum())
    }
}

/// A flow as subscribers see it while it lives.
pub(crate) fn view<'a>(
    program: &'a dyn Program,
    FlowRef { table, id }: FlowRef,
    entry: (&'a Header, &'a [u8]),
) -> FlowView<'a> {
    let ((header, data), graph, layout) = (entry, program.graph(), program.layout());
    FlowView { graph, layout, table, id, header, data, recognised: Recognised::default(), outer: &[] }
}

/// Segments that wait are bounded as the memory of streams is.
fn sequence_limits(plan: &Plan) -> SequenceLimits {
    let usual = SequenceLimits::default();
    let memory_max = plan.overload.memory_max;
    SequenceLimits {
        total_bytes_max: usual.total_bytes_max.min(memory_max),
        pinned_bytes_max: usual.pinned_bytes_max.min(memory_max / 4),
        strict: plan.limits.strict,
        ..usual
    }
}

/// Nothing of a side's bytes is wanted any longer.
pub(crate) fn stop_bytes(data: &mut [u8], wants_at: Option<usize>, side: bool) {
    if let Some(at) = wants_at {
        data[at] &= !(WANTS_BYTES[usize::from(side)] as u8);
    }
}

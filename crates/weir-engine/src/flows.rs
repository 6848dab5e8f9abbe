//! All flows of a worker: per table of the graph its flow table, timer wheel and sessions; and the
//! beginning and end of a flow.

use crate::counters::Counters;
use crate::decide::{Decider, FlowKey};
use crate::deferred_streams::FlowVerdict;
use crate::flow::{EndReason, FlowView, read_number, write_number};
use crate::flow_hit::FlowHit;
use crate::host::{InOrder, PacketCtx};
use crate::messages::Messages;
use crate::plan::{Mask, Plan};
use crate::sequence::{Reassembler, SequenceLimits};
use crate::sessions::{FlowSessions, Recognised};
use crate::stream::{CarrierPacket, Due};
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
    pub(crate) ending: Vec<(Table, FlowId)>,
    /// The connections that a connection runs in, outermost first: of those in tunnels alone.
    pub(crate) outer: HashMap<FlowKey, Vec<(Table, Header)>>,
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
        if !self.tables[outer.table().index()].flows.is_live(outer.id()) || inner.key() == outer.key() {
            return;
        }
        let mut all = self.outer.get(&outer.key()).cloned().unwrap_or_default();
        all.push((outer.table(), *self.tables[outer.table().index()].flows.entry(outer.id()).0));
        self.outer.insert(inner.key(), all);
    }

    /// A connection was found in another one: what the packet comes to as far as that one goes is known.
    #[inline]
    pub fn note_outer_terms(&mut self, outer: FlowHit, k: &Continuation) {
        if let Some(at) = self.outer_terms_at {
            self.note_terms((outer.table(), outer.id()), k.outs[at]);
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
        decider: &mut Decider<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        let (packet, table) = (at.packet, Table(k.table));
        let state = &mut self.tables[table.index()];
        let (swap, _) = k.sender();
        if let Some(id) = state.flows.find(&k.key, k.hash, likely) {
            let (header, data) = state.flows.entry_mut(id);
            let timeout_ns = state.facts.timeouts.ns(data);
            let is_over = self.ending.contains(&(table, id));
            if packet.time.0.saturating_sub(header.last_time).saturating_abs() <= timeout_ns && !is_over {
                self.before = header.last_time;
                header.last_time = header.last_time.max(packet.time.0);
                return Some(FlowHit::new(table, id, swap != header.swap, false));
            }
            let reason = if is_over { EndReason::Closed } else { EndReason::Idle };
            self.end(table, id, reason, at.order, decider, counters);
        }
        self.make(table, k, packet, at.order, decider, counters)
    }

    /// Ends the flow that was found last and makes a new one. The packet is none of the old one's.
    pub fn renew<S: Subscriber>(
        &mut self,
        k: &Continuation,
        packet: &PacketMeta,
        order: Order,
        decider: &mut Decider<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        let table = Table(k.table);
        let flows = &mut self.tables[table.index()].flows;
        if let Some(id) = flows.find(&k.key, k.hash, None) {
            flows.entry_mut(id).0.last_time = self.before;
            self.end(table, id, EndReason::Restart, order, decider, counters);
        }
        self.make(table, k, packet, order, decider, counters)
    }

    fn make<S: Subscriber>(
        &mut self,
        table: Table,
        k: &Continuation,
        packet: &PacketMeta,
        order: Order,
        decider: &mut Decider<S>,
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
            if decider.wants_streams() {
                state.streams.reserve(id);
            }
        } else if let Some(at) = state.facts.verdict_at {
            // No bytes, no sessions.
            let mut verdict = 0;
            decider.sessions_over(order, (table.0, id.0), &mut verdict);
            write_number(state.flows.entry_mut(id).1, at, 64, self.plan.pack(verdict));
        }
        Some(FlowHit::new(table, id, responder, true))
    }

    /// A packet is decided: the connections that were over with it end.
    #[inline]
    pub fn end_closed<S: Subscriber>(
        &mut self,
        order: &Order,
        decider: &mut Decider<S>,
        counters: &mut Counters,
    ) {
        while let Some(&(table, id)) = self.ending.first() {
            self.end(table, id, EndReason::Closed, *order, decider, counters);
        }
    }

    /// A flow's parts, for its packet's tail.
    #[inline]
    pub fn open(&mut self, found: FlowHit) -> (TailFlow<'_>, &mut [u8]) {
        let state = &mut self.tables[found.table().index()];
        let kept = (&mut self.sequences, &mut self.messages);
        let (mut tail, data) =
            state.tail((found.table(), found.id()), kept, self.program.layout(), &self.plan);
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
        decider: &mut Decider<S>,
        counters: &mut Counters,
    ) {
        if millis == 0 {
            let facts = self.tables[found.table().index()].facts;
            if facts.observed || facts.messages_at.is_some() {
                // Its last packet is still to be decided by it, and the messages that it carries are read.
                self.ending.push((found.table(), found.id()));
                return;
            }
            return self.end(found.table(), found.id(), EndReason::Closed, order, decider, counters);
        }
        let deadline = now.saturating_add(Timeouts::as_ns(millis));
        self.tables[found.table().index()].wheel.schedule(found.id(), deadline);
    }

    /// A packet of the flow fulfils these terms. The program itself notes what is certain at the flow's
    /// layer, before bytes are delivered; this adds what layers above it told. The terms that its connection
    /// fulfils now; none where the flow is none, but a datagram's fragments.
    #[inline]
    pub fn note_terms(&mut self, (table, id): (Table, FlowId), terms: u64) -> u64 {
        let state = &mut self.tables[table.index()];
        let mut all = terms | self.plan.unconditional;
        if let Some(at) = state.facts.terms_at.filter(|_| state.flows.is_live(id)) {
            let data = state.flows.entry_mut(id).1;
            all |= read_number(data, at, 64);
            write_number(data, at, 64, all);
        }
        if state.facts.observed { all } else { 0 }
    }

    /// The key and the verdict word of a packet's connection. `None` where the flow found last is none, but a
    /// datagram's fragments.
    pub fn verdict(&self, found: FlowHit) -> Option<(FlowKey, Mask)> {
        let state = &self.tables[found.table().index()];
        if !state.facts.observed || !state.flows.is_live(found.id()) {
            return None;
        }
        let data = state.flows.entry(found.id()).1;
        Some((
            found.key(),
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
            flow: view(&*self.program, found.table(), state.flows.entry(found.id())),
            key: found.key(),
            from_responder: found.is_responder(),
            packet,
            frame,
        })
    }

    /// Number of a flow's first packet.
    pub fn first_packet(&self, table: Table, id: FlowId) -> u64 {
        self.tables[table.index()].flows.entry(id).0.first_packet
    }

    /// Flows by their first packets; those of one packet by their tables and keys, for its order is the run's
    /// whatever other flows there are.
    pub(crate) fn in_order(&self, a: (Table, FlowId), b: (Table, FlowId)) -> Ordering {
        let header = |(table, id): (Table, FlowId)| self.tables[table.index()].flows.entry(id).0;
        let (one, two) = (header(a), header(b));
        one.first_packet.cmp(&two.first_packet).then_with(|| (a.0.0, one.key()).cmp(&(b.0.0, two.key())))
    }

    /// Flows that are due at `now`, in the order of their deadlines.
    #[inline]
    pub fn expire(&mut self, now: i64) -> Vec<(i64, Table, FlowId)> {
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
            due.extend(self.expired.drain(..).map(|(at, id)| (at, Table(index as u32), id)));
        }
        if due.len() > 1 {
            due.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| self.in_order((a.1, a.2), (b.1, b.2))));
        }
        due
    }

    /// Every flow, in the order of their first packets.
    pub fn all(&self) -> Vec<(Table, FlowId)> {
        let mut all = vec![];
        for (index, state) in self.tables.iter().enumerate() {
            all.extend(state.flows.in_order().into_iter().map(|id| (Table(index as u32), id)));
        }
        all.sort_unstable_by(|&a, &b| self.in_order(a, b));
        all
    }

    /// Ends a flow: what waits in its sequences is delivered, its sessions finish, its record goes out.
    pub fn end<S: Subscriber>(
        &mut self,
        table: Table,
        id: FlowId,
        reason: EndReason,
        order: Order,
        decider: &mut Decider<S>,
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
            self.tables[table.index()].wheel.cancel(id);
        }
        self.ending.retain(|over| *over != (table, id));
        if !decider.packet_end.is_empty() {
            self.settle_packet_end((order, None), (Some((table.0, id.0)), 0), decider);
        }
        let facts = self.tables[table.index()].facts;
        if facts.observed || facts.messages_at.is_some() {
            self.flush(table, id, order, decider);
        }
        if facts.messages_at.is_some() {
            self.read_last(((table.0, id.0), reason), order, decider, counters);
            self.lose_unread(table, id);
        }
        if facts.observed {
            self.tell_end((table, id), reason, order, decider);
        }
        if !self.messages.is_empty() {
            self.messages.release((table.0, id.0));
        }
        if !self.outer.is_empty() {
            self.outer.remove(&(table.0, id.0));
        }
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
        (table, id): (Table, FlowId),
        reason: EndReason,
        order: Order,
        decider: &mut Decider<S>,
    ) {
        let streams = self.tables[table.index()].streams.get_mut(id).map(std::mem::take);
        let state = &self.tables[table.index()];
        let (header, data) = state.flows.entry(id);
        let sessions = state.sessions.get(id.0 as usize).filter(|_| state.facts.delivers);
        let view = FlowView {
            recognised: sessions.map(FlowSessions::recognised).unwrap_or_default(),
            outer: self.outer.get(&(table.0, id.0)).map_or(&[], Vec::as_slice),
            ..view(&*self.program, table, (header, data))
        };
        let FlowVerdict { terms, verdict, .. } = FlowVerdict::of(&self.plan, &state.facts, data);
        if let Some(streams) = streams {
            let (key, known) = ((table.0, id.0), (terms, verdict));
            decider.streams_over((order, header.last_time), &view, key, streams, known, reason);
        }
        if !state.facts.part {
            decider.connection(order, &view, (table.0, id.0), terms, verdict, reason);
        }
    }

    /// Counts what still waits behind a hole where messages are read: in strict mode none is passed over.
    fn lose_unread(&mut self, table: Table, id: FlowId) {
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
    fn flush<S: Subscriber>(&mut self, table: Table, id: FlowId, order: Order, decider: &mut Decider<S>) {
        let state = &mut self.tables[table.index()];
        for side in [false, true] {
            // What waits passes even where nobody wants the bytes: the gaps before it count as missing.
            while let Some(sequence) = state.facts.sequence {
                let record = FlowRecord { id: id.0, data: state.flows.entry_mut(id).1 };
                let Some(next) = self.sequences.flush(sequence, record, side) else { break };
                let kept = (&mut self.sequences, &mut self.messages);
                let (mut tail, data) = state.tail((table, id), kept, self.program.layout(), &self.plan);
                if tail.facts.has_messages(data, side) {
                    let Ordered { gap_bytes, bytes, claimed_bytes, metas, .. } = &next.ordered;
                    let (direction, captured) = (((table.0, id.0), side), (bytes.bytes(), *claimed_bytes));
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
                crate::host::deliver_bytes(&mut tail, data, decider, &*self.program, order, &next);
            }
        }
        if !state.facts.delivers {
            return;
        }
        let kept = (&mut self.sequences, &mut self.messages);
        let (mut tail, data) = state.tail((table, id), kept, self.program.layout(), &self.plan);
        crate::host::finish_sessions(&mut tail, data, decider, &*self.program, order);
    }

    /// The flow will be over sooner than it would have been: what its chunks hold is handed over, for little more will
    /// come, and many such flows may be there at a time.
    pub fn flush_chunks<S: Subscriber>(
        &mut self,
        found: FlowHit,
        now: i64,
        order: Order,
        decider: &mut Decider<S>,
    ) {
        let state = &mut self.tables[found.table().index()];
        if let Some(streams) = state.streams.get_mut(found.id()).filter(|streams| streams.have_chunks()) {
            let view = view(&*self.program, found.table(), state.flows.entry(found.id()));
            decider.flush_chunks(order, &view, found.key(), streams, now);
        }
    }

    /// A chunk that has waited long enough is handed over.
    pub fn flush_chunk<S: Subscriber>(&mut self, due: &Due, order: Order, decider: &mut Decider<S>) {
        let (table, id) = (Table(due.flow.0), FlowId(due.flow.1));
        let state = &mut self.tables[table.index()];
        if !state.flows.is_live(id) {
            return;
        }
        let view = view(&*self.program, table, state.flows.entry(id));
        if let Some(streams) = state.streams.get_mut(id) {
            decider.flush_chunk(order, &view, streams, due);
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
    table: Table,
    entry: (&'a Header, &'a [u8]),
) -> FlowView<'a> {
    let ((header, data), graph, layout) = (entry, program.graph(), program.layout());
    FlowView { graph, layout, table, header, data, recognised: Recognised::default(), outer: &[] }
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

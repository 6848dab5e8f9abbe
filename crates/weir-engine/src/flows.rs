//! All flows of a worker: per table of the graph its flow table, timer wheel and sessions. Finds, makes and removes
//! flows; what follows from it is decided by others ([`packet_run`](crate::packet_run), [`flow_end`](crate::flow_end)).

use crate::counters::{Counters, FlowCounters};
use crate::effects::Effects;
use crate::flow::{EndReason, FlowView};
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::messages::Messages;
use crate::plan::{ClassSet, Plan, SessionVerdict, Want};
use crate::sequence::{Passed, Reassembler, SequenceLimits};
use crate::sessions::FlowSessions;
use crate::sets::Terms;
use crate::stream::FlowStreams;
use crate::subscriber::TrackedPacket;
use crate::table::{Birth, FlowId, OwnedHeader};
use crate::tables::{TableState, TailFlow};
use crate::timeouts::Timeouts;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use weir_ir::abi::{Continuation, FURTHER_TERMS, FlowRecord, OUTER_TERMS, Program};
use weir_ir::graph::{Graph, Table};
use weir_packet::{Direction, PacketMeta};

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
    /// The connections that a connection runs in, outermost first: of those in tunnels alone.
    pub(crate) outer: HashMap<FlowRef, Vec<(Table, OwnedHeader)>>,
    /// Where a packet's record has what it comes to before the connection that was found last.
    outer_terms: Range<usize>,
    /// Where a packet's record has the words of its terms behind the first one.
    further_terms: Range<usize>,
    /// Some question is about streams.
    wants_streams: bool,
}

/// What is known of a flow that a program asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup {
    Live(FlowHit),
    /// It is there, and is over: it ends, and another one takes its place.
    Over(FlowRef, EndReason),
    Unknown,
}

impl Flows {
    pub fn new(plan: &Arc<Plan>) -> Self {
        let program = Arc::clone(&plan.program);
        let graph = program.graph();
        let tables = (0..graph.tables.len() as u32).map(|table| TableState::of(Table(table), plan)).collect();
        let sequences = Reassembler::new(graph, program.layout(), sequence_limits(plan));
        let wants_streams = !plan.bits_of(|want| matches!(want, Want::Streams(_))).is_empty();
        let (plan, outer, messages) = (Arc::clone(plan), HashMap::new(), Messages::default());
        let (outer_terms, further_terms) = (slots_of(graph, OUTER_TERMS), slots_of(graph, FURTHER_TERMS));
        let (expired, before) = (vec![], 0);
        Self {
            tables,
            sequences,
            messages,
            program,
            plan,
            expired,
            before,
            outer,
            outer_terms,
            further_terms,
            wants_streams,
        }
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

    /// Whether something is handed over, or read, when a flow of the table ends.
    #[inline]
    pub fn is_seen(&self, table: Table) -> bool {
        let facts = &self.tables[table.index()].facts;
        facts.observed || facts.messages_at.is_some()
    }

    /// The flow has not ended.
    pub fn is_live(&self, flow: FlowRef) -> bool {
        self.tables[flow.table.index()].flows.is_live(flow.id)
    }

    /// A new connection was found in a packet of another one: it runs in a tunnel.
    pub fn record_outer(&mut self, inner: FlowHit, outer: FlowHit) {
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
        all.push((outer.table(), self.tables[outer.table().index()].flows.entry(outer.id()).0.into()));
        self.outer.insert(inner.flow(), all);
    }

    /// A connection was found in another one: what the packet comes to as far as that one goes is known.
    #[inline]
    pub fn record_outer_terms(&mut self, outer: FlowHit, k: &Continuation) {
        if let [first, further @ ..] = &k.outs[self.outer_terms.clone()] {
            self.record_terms(outer.flow(), Terms::new(*first, further), |_, _| {});
        }
    }

    /// Where a packet's record has the words of its terms behind the first one.
    #[inline]
    pub fn further_terms(&self) -> Range<usize> {
        self.further_terms.clone()
    }

    /// Hashes the key that a program asked for.
    #[inline]
    pub fn hash(&self, k: &mut Continuation) {
        k.hash = self.tables[k.table as usize].flows.hash(k.key());
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

    /// The flow that a program asked for. `likely` is the one that it most likely is; flows that are over with the packet
    /// are among its `effects`.
    #[inline]
    pub fn find(
        &mut self,
        k: &Continuation,
        likely: Option<FlowId>,
        packet: &PacketMeta,
        effects: &Effects,
    ) -> Lookup {
        let table = Table(k.table);
        let state = &mut self.tables[table.index()];
        let (swap, _) = k.sender();
        let Some(id) = state.flows.find(k.key(), k.hash, likely) else { return Lookup::Unknown };
        let (header, data) = state.flows.entry_mut(id);
        let timeout_ns = state.facts.timeouts.ns(data);
        let is_over = effects.is_over(FlowRef::new(table, id));
        if packet.time.0.saturating_sub(header.last_time).saturating_abs() <= timeout_ns && !is_over {
            self.before = header.last_time;
            header.last_time = header.last_time.max(packet.time.0);
            return Lookup::Live(FlowHit::new(table, id, swap != header.swap, false));
        }
        let reason = if is_over { EndReason::Closed } else { EndReason::Idle };
        Lookup::Over(FlowRef::new(table, id), reason)
    }

    /// The flow that a program asked for, if it is there. The flow stays as it is.
    pub fn known(&self, k: &Continuation) -> Option<FlowHit> {
        let table = Table(k.table);
        let flows = &self.tables[table.index()].flows;
        let id = flows.find(k.key(), k.hash, None)?;
        let responder = k.sender().0 != flows.entry(id).0.swap;
        Some(FlowHit::new(table, id, responder, false))
    }

    /// The flow in whose place a program asked for a new one, if it is there. The packet is none of the old one's.
    pub fn restarted(&mut self, k: &Continuation) -> Option<FlowRef> {
        let table = Table(k.table);
        let flows = &mut self.tables[table.index()].flows;
        let id = flows.find(k.key(), k.hash, None)?;
        flows.entry_mut(id).0.last_time = self.before;
        Some(FlowRef::new(table, id))
    }

    /// Makes the flow that a program asked for. `None`: the table is full.
    pub fn make(
        &mut self,
        k: &Continuation,
        packet: &PacketMeta,
        counters: &mut FlowCounters,
    ) -> Option<FlowHit> {
        self.before = packet.time.0;
        let table = Table(k.table);
        let state = &mut self.tables[table.index()];
        let (swap, responder) = k.sender();
        let birth = Birth { time: packet.time.0, packet: packet.number, swap: swap != responder };
        let Ok(id) = state.flows.insert(k.key(), k.hash, birth) else {
            counters.flows_refused += 1;
            return None;
        };
        counters.flows_created += 1;
        if let Some(at) = state.facts.wants_at {
            state.flows.entry_mut(id).1[at] = state.facts.initial_wants;
        }
        if state.facts.delivers {
            if state.sessions.len() <= id.0 as usize {
                state.sessions.resize_with(id.0 as usize + 1, FlowSessions::default);
            }
            if self.wants_streams {
                state.streams.reserve(id);
            }
        } else if state.facts.verdict.is_some() {
            // No bytes, no sessions.
            let over = SessionVerdict { is_over: true, ..SessionVerdict::default() };
            let verdict = SessionVerdict { met: self.plan.absent(&over), ..over };
            state.facts.set_verdict(&self.plan, state.flows.entry_mut(id).1, &verdict);
        }
        Some(FlowHit::new(table, id, responder, true))
    }

    /// A flow's parts.
    #[inline]
    pub fn tail(&mut self, flow: FlowRef) -> (TailFlow<'_>, &mut [u8]) {
        let state = &mut self.tables[flow.table.index()];
        state.tail(flow, (&mut self.sequences, &mut self.messages), &self.plan)
    }

    /// A flow's parts, for its packet's tail.
    #[inline]
    pub fn open(&mut self, found: FlowHit) -> (TailFlow<'_>, &mut [u8]) {
        let (mut tail, data) = self.tail(found.flow());
        tail.open = tail.facts.open;
        (tail, data)
    }

    /// The streams of a flow, and the flow as subscribers see it.
    pub fn streams_of(&mut self, flow: FlowRef) -> Option<(FlowView<'_>, &mut FlowStreams)> {
        let state = &mut self.tables[flow.table.index()];
        let streams = state.streams.get_mut(flow.id)?;
        let (header, data) = state.flows.entry(flow.id);
        Some((FlowView::new(&*self.program, flow, header, data), streams))
    }

    /// The flow ends so many milliseconds after `now`, unless further packets come.
    pub fn schedule(&mut self, found: FlowHit, now: i64, millis: u32) {
        let deadline = now.saturating_add(Timeouts::as_ns(millis));
        self.tables[found.table().index()].wheel.schedule(found.id(), deadline);
    }

    /// A packet of the flow fulfils these terms. The program itself notes what is certain at the flow's
    /// layer, before bytes are delivered; this adds what layers above it told. `each` is called with every word of the
    /// terms that the connection fulfils now; not where the flow is none, but a datagram's fragments.
    #[inline]
    pub fn record_terms(&mut self, flow: FlowRef, terms: Terms<'_>, mut each: impl FnMut(usize, u64)) {
        let state = &mut self.tables[flow.table.index()];
        let facts = &state.facts;
        let words = facts.terms.filter(|_| state.flows.is_live(flow.id));
        let mut record = words.map(|words| (words, state.flows.entry_mut(flow.id).1));
        terms.for_each_word(|word, value| {
            let mut all = value | self.plan.unconditional.word(word);
            if let Some((words, data)) = &mut record {
                all |= words.read(data, word);
                words.write(data, word, all);
            }
            if facts.observed {
                each(word, all);
            }
        });
    }

    /// The terms that a flow fulfils.
    pub fn terms_of(&self, flow: FlowRef) -> ClassSet {
        let state = &self.tables[flow.table.index()];
        let mut terms = self.plan.unconditional.clone();
        if let Some(words) = state.facts.terms {
            words.add_to(&mut terms, state.flows.entry(flow.id).1);
        }
        terms
    }

    /// A packet's connection and what its sessions fulfil. `None` where the flow found last is none, but a
    /// datagram's fragments.
    pub fn verdict(&self, found: FlowHit) -> Option<(FlowRef, SessionVerdict)> {
        let state = &self.tables[found.table().index()];
        if !state.facts.observed || !state.flows.is_live(found.id()) {
            return None;
        }
        let data = state.flows.entry(found.id()).1;
        Some((found.flow(), state.facts.verdict(&self.plan, data)))
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
        if !is_live {
            return None;
        }
        let (header, data) = state.flows.entry(found.id());
        Some(TrackedPacket {
            flow: FlowView::new(&*self.program, found.flow(), header, data),
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

    /// Parts of connections learn what the packet comes to; the connection itself has.
    pub fn record_terms_of_part(&mut self, flow: FlowRef, terms: Terms<'_>) {
        if self.is_part(flow.table) {
            self.record_terms(flow, terms, |_, _| {});
        }
    }

    /// The next bytes that wait in a flow's sequence, in order, with the gap before them: nothing will fill it.
    pub fn flush_sequence(&mut self, FlowRef { table, id }: FlowRef, side: Direction) -> Option<Passed> {
        let state = &mut self.tables[table.index()];
        let record = FlowRecord { id: id.0, data: state.flows.entry_mut(id).1 };
        self.sequences.flush(state.facts.sequence?, record, side.is_responder())
    }

    /// Counts what still waits behind a hole where messages are read: in strict mode none is passed over.
    pub fn lose_unread(&mut self, FlowRef { table, id }: FlowRef) {
        let state = &mut self.tables[table.index()];
        let (facts, Some(sequence)) = (state.facts, state.facts.sequence) else { return };
        let data = state.flows.entry_mut(id).1;
        for side in Direction::BOTH {
            if facts.has_messages(data, side) {
                let record = FlowRecord { id: id.0, data: &mut *data };
                self.messages.counters.message_bytes_lost +=
                    self.sequences.waiting_bytes(sequence, record, side.is_responder());
            }
        }
    }

    /// A flow that [nobody sees](Self::is_seen) ends.
    pub fn remove_unseen(&mut self, flow: FlowRef, counters: &mut FlowCounters) {
        counters.flows_ended += 1;
        self.tables[flow.table.index()].wheel.cancel(flow.id);
        self.release(flow, true);
    }

    /// A flow has ended: nothing is kept of it. Without `removes` it stays in its table.
    pub fn release(&mut self, flow: FlowRef, removes: bool) {
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
        if removes {
            state.flows.remove(id);
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

    /// Bytes that the sessions of all flows hold.
    pub fn session_bytes(&self) -> usize {
        self.tables.iter().flat_map(|table| &table.sessions).map(FlowSessions::held_bytes).sum()
    }

    /// Flows that are there, and bytes that the tables take.
    pub fn size(&self) -> (u64, u64) {
        let flows = self.tables.iter().map(|t| t.flows.len() as u64).sum();
        (flows, self.tables.iter().map(|t| t.flows.bytes() as u64).sum())
    }
}

/// The slots of a packet's record that have this name, one after the other.
fn slots_of(graph: &Graph, name: &str) -> Range<usize> {
    let is_one = |out: &&String| *out == name;
    let first = graph.outs.iter().position(|out| is_one(&out)).unwrap_or(0);
    first..first + graph.outs.iter().filter(is_one).count()
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

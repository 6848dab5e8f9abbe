//! All flows of a worker: for each table of the graph its flow table, timer wheel and sessions. Finds,
//! creates and removes flows; [`packet_run`](crate::packet_run) and [`flow_end`](crate::flow_end) act on the
//! results.

use crate::aside::AsidePacket;
use crate::counters::{Counters, FlowCounters};
use crate::effects::Effects;
use crate::ending::Ending;
use crate::flow::{EndReason, FlowView};
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flow_sessions::FlowSessions;
use crate::holders::{Holders, Holding};
use crate::kernel_entries::TakenOver;
use crate::matcher::Matcher;
use crate::messages::Messages;
use crate::plan::{ClassSet, Plan, SessionVerdict, Want};
use crate::ranks::Ranks;
use crate::sequence::{FrameRef, Inserted, Outcome, Passed, Reassembler, SequenceLimits};
use crate::sets::{QuestionSet, Terms};
use crate::sharing::Sharing;
use crate::stream::{FlowStreams, Overload};
use crate::subscriber::TrackedPacket;
use crate::table::{Birth, FlowId, OwnedHeader};
use crate::tables::{SharedState, TableState, TailFlow, held_bytes};
use crate::tags::Candidate;
use crate::timeouts::Timeouts;
use crate::tunnels::Tunnels;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use weir_ir::abi::{Continuation, FlowRecord, Program, WANTS_ANSWER};
use weir_ir::engine_var::{ASIDE_MAX, ASIDE_NEW};
use weir_ir::graph::Table;
use weir_ir::slot::EngineSlot;
use weir_packet::{Direction, PacketMeta, Timestamp};

/// All flows of a worker.
pub(crate) struct Flows {
    pub(crate) tables: Vec<TableState>,
    pub sequences: Reassembler,
    /// Unfinished messages of streams.
    pub messages: Messages,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) plan: Arc<Plan>,
    expired: Vec<(i64, FlowId)>,
    /// Tables that other workers have, too.
    pub(crate) sharing: Option<Sharing>,
    /// Time of the previous packet of the flow that was found last.
    before: i64,
    /// The connections around a connection, outermost first; only for connections in tunnels.
    pub(crate) outer: HashMap<FlowRef, Vec<(Table, OwnedHeader)>>,
    /// The connections that carry others.
    pub(crate) tunnels: Tunnels,
    /// The slots of a packet's record that hold the result up to the connection before the one found last.
    outer_terms: Range<usize>,
    /// The slots of a packet's record that hold the further words of its terms.
    further_terms: Range<usize>,
    /// The slots of a fragment's record that hold the terms certain and possible whatever the other fragments
    /// contain.
    fragment_terms: [Range<usize>; 2],
    /// A question is about streams.
    wants_streams: bool,
    /// Flows that may hold memory besides their entry.
    pub(crate) holders: Holders,
    /// Bytes of `outer`, of `tunnels`, of second keys, and of packets that wait beside flows.
    pub(crate) beside_bytes: usize,
    /// The connections that the kernel has.
    pub(crate) taken_over: TakenOver,
}

/// A flow that a packet may join: its program is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    pub flow: FlowHit,
    /// The number of tags tried.
    pub next: usize,
}

/// The result of looking up the flow that a program requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup {
    Live(FlowHit),
    /// The flow exists but is over: it ends, and a new flow takes its place.
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
        let taken_over = TakenOver::of(plan);
        let (plan, outer, messages) = (Arc::clone(plan), HashMap::new(), Messages::default());
        let (outer_terms, further_terms) =
            (graph.slots_of(EngineSlot::OuterTerms), graph.slots_of(EngineSlot::FurtherTerms));
        let fragment_terms =
            [EngineSlot::CertainTerms, EngineSlot::PossibleTerms].map(|slot| graph.slots_of(slot));
        let tunnels = Tunnels::new(graph);
        let (expired, before) = (vec![], 0);
        Self {
            tables,
            sequences,
            messages,
            program,
            plan,
            expired,
            sharing: None,
            before,
            outer,
            tunnels,
            outer_terms,
            further_terms,
            fragment_terms,
            wants_streams,
            holders: Holders::default(),
            beside_bytes: 0,
            taken_over,
        }
    }

    /// Limit of lookups per packet.
    pub(crate) fn lookups_max(&self) -> u32 {
        self.plan.limits.lookups_max
    }

    /// Whether the flows of a table are parts of connections found before them.
    #[inline]
    pub fn is_part(&self, table: Table) -> bool {
        self.tables[table.index()].layout.part
    }

    /// Whether a question observes the flows of a table. A packet does not belong to flows of other tables,
    /// whether they exist or not: optimization passes remove lookups that nothing else needs.
    #[inline]
    pub fn is_observed(&self, table: Table) -> bool {
        self.tables[table.index()].layout.observed
    }

    /// Whether something is delivered, or read, when a flow of the table ends.
    #[inline]
    pub fn is_seen(&self, table: Table) -> bool {
        let layout = &self.tables[table.index()].layout;
        layout.observed || layout.reports_ends || layout.messages_at.is_some()
    }

    /// Whether the flows of a table are no connections, and events report their ends.
    #[inline]
    pub fn reports_ends_alone(&self, table: Table) -> bool {
        let layout = &self.tables[table.index()].layout;
        layout.reports_ends && !layout.observed
    }

    /// The flow has not ended.
    pub fn is_live(&self, flow: FlowRef) -> bool {
        self.tables[flow.table.index()].flows.is_live(flow.id)
    }

    /// Records that a connection was found in a packet of another one, and that at least one of both is new:
    /// the inner connection runs in a tunnel.
    pub fn record_outer(&mut self, inner: FlowHit, outer: FlowHit, k: &Continuation, time: Timestamp) {
        if !self.tables[inner.table().index()].layout.observed
            || !self.tables[outer.table().index()].layout.observed
        {
            return;
        }
        // The outer connection may have ended with this packet when a later layer used its key; the new
        // connection may then occupy its slot.
        if !self.tables[outer.table().index()].flows.is_live(outer.id()) || inner.flow() == outer.flow() {
            return;
        }
        self.beside_bytes += self.tunnels.note(outer.flow(), inner.is_new(), k, time);
        if !inner.is_new() {
            return;
        }
        let before = self.outer.get(&outer.flow()).map_or(&[][..], Vec::as_slice);
        let mut all = Vec::with_capacity(before.len() + 1);
        all.extend_from_slice(before);
        all.push((outer.table(), self.tables[outer.table().index()].flows.entry(outer.id()).0.into()));
        self.beside_bytes += outer_cost(&all);
        if let Some(old) = self.outer.insert(inner.flow(), all) {
            self.beside_bytes -= outer_cost(&old);
        }
    }

    /// Stores the packet's result up to the outer connection, in which another connection was found.
    #[inline]
    pub fn record_outer_terms(&mut self, outer: FlowHit, k: &Continuation) {
        if let [first, further @ ..] = &k.outs[self.outer_terms.clone()] {
            self.record_terms(outer.flow(), Terms::new(*first, further), |_, _| {});
        }
    }

    /// The slots of a packet's record that hold the further words of its terms.
    #[inline]
    pub fn further_terms(&self) -> Range<usize> {
        self.further_terms.clone()
    }

    /// The terms of a fragment whose datagram is incomplete: those that hold whatever the other fragments
    /// contain, and those that may hold.
    pub fn fragment_terms<'a>(&self, k: &'a Continuation) -> [Terms<'a>; 2] {
        self.fragment_terms.clone().map(|slots| match &k.outs[slots] {
            [first, further @ ..] => Terms::new(*first, further),
            [] => Terms::EMPTY,
        })
    }

    /// Whether the flows of a table are datagrams whose fragments a question asks for.
    #[inline]
    pub fn holds_fragments(&self, table: Table) -> bool {
        self.tables[table.index()].layout.holds_fragments
    }

    /// Hashes the key that a program requests.
    #[inline]
    pub fn hash(&self, k: &mut Continuation) {
        k.hash = self.tables[k.table as usize].flows.hash(k.key());
    }

    /// Prefetches the bucket of a hashed key.
    #[inline]
    pub fn prefetch_bucket(&self, k: &Continuation) {
        self.tables[k.table as usize].flows.prefetch_bucket(k.hash);
    }

    /// Prefetches the entry that a key most likely has, and returns its id. The bucket has been prefetched.
    #[inline]
    pub fn prefetch_entry(&self, k: &Continuation) -> Option<FlowId> {
        let state = &self.tables[k.table as usize];
        let likely = state.flows.prefetch_entry(k.hash);
        if let Some(id) = likely {
            state.streams.prefetch(id);
        }
        likely
    }

    /// Finds the flow that a program requests. `likely`: the id that it most likely has. `effects` contains
    /// the flows that are over with the packet.
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
        let Some(id) = state.find(k.key(), k.hash, likely) else { return Lookup::Unknown };
        if self.taken_over.is_possible() {
            self.take_back_for(FlowRef::new(table, id), packet.time.0);
        }
        let state = &mut self.tables[table.index()];
        let (header, data) = state.flows.entry_mut(id);
        let timeout_ns = state.layout.timeouts.ns(data);
        let is_over = effects.is_over(FlowRef::new(table, id).in_part(state.part));
        if packet.time.0.saturating_sub(header.last_time).saturating_abs() <= timeout_ns && !is_over {
            self.before = header.last_time;
            header.last_time = header.last_time.max(packet.time.0);
            return Lookup::Live(FlowHit::new(table, id, swap != header.swap, false).in_part(state.part));
        }
        let reason = if is_over { EndReason::Closed } else { EndReason::Idle };
        Lookup::Over(FlowRef::new(table, id).in_part(state.part), reason)
    }

    /// The flow that a program requests, if it exists. The flow is not changed.
    pub fn known(&self, k: &Continuation) -> Option<FlowHit> {
        let table = Table(k.table);
        let state = &self.tables[table.index()];
        let id = state.find(k.key(), k.hash, None)?;
        let responder = k.sender().0 != state.flows.entry(id).0.swap;
        Some(FlowHit::new(table, id, responder, false).in_part(state.part))
    }

    /// The flow that a program asks to replace, if it exists. The packet does not belong to the old flow.
    pub fn restarted(&mut self, k: &Continuation) -> Option<FlowRef> {
        let table = Table(k.table);
        let state = &mut self.tables[table.index()];
        let id = state.find(k.key(), k.hash, None)?;
        state.flows.entry_mut(id).0.last_time = self.before;
        Some(FlowRef::new(table, id).in_part(state.part))
    }

    /// A flow with other tags that the packet may join, if no flow has the key that its program requests;
    /// the program is then asked. `from`: the number of tags tried before.
    #[inline]
    pub fn joinable(&mut self, k: &Continuation, from: usize, time: i64) -> Option<Joining> {
        let table = Table(k.table);
        let state = &mut self.tables[table.index()];
        let (at, place) = state.layout.joining_at?;
        let mut from = from;
        let Candidate { flow: id, next } = loop {
            let candidate = state.tags.candidate(&state.flows, k.key(), place, from)?;
            let (header, data) = state.flows.entry(candidate.flow);
            if time.saturating_sub(header.last_time).saturating_abs() <= state.layout.timeouts.ns(data) {
                break candidate;
            }
            from = candidate.next;
        };
        self.beside_bytes += state.tags.join(k.key(), id)?;
        let (header, data) = state.flows.entry_mut(id);
        self.before = header.last_time;
        header.last_time = header.last_time.max(time);
        data[at] |= WANTS_ANSWER as u8;
        let responder = k.sender().0 != header.swap;
        let flow = FlowHit::new(table, id, responder, false).in_part(state.part);
        if self.taken_over.is_possible() {
            self.take_back(flow.flow());
        }
        Some(Joining { flow, next })
    }

    /// The program has found that the packet does not join the flow.
    pub fn stays_apart(&mut self, FlowRef { table, id, .. }: FlowRef) {
        let state = &mut self.tables[table.index()];
        let (header, data) = state.flows.entry_mut(id);
        header.last_time = self.before;
        if let Some((at, _)) = state.layout.joining_at {
            data[at] &= !(WANTS_ANSWER as u8);
        }
        self.beside_bytes -= state.tags.forget(id);
    }

    /// Whether the program was asked whether the packet joins the flow, and has not agreed.
    pub fn is_asked_to_join(&self, FlowRef { table, id, .. }: FlowRef) -> bool {
        let state = &self.tables[table.index()];
        state.layout.joining_at.is_some_and(|(at, _)| state.flows.entry(id).1[at] & WANTS_ANSWER as u8 != 0)
    }

    /// Lets a packet wait beside a flow, which stays as it was before the packet. `lookups`: the number of
    /// flows that the packet found before. Returns the name of the packet, and `None` if the packet cannot
    /// wait: further packets do not try then.
    pub fn put_aside(
        &mut self,
        found: FlowHit,
        packet: Option<FrameRef<'_>>,
        lookups: u32,
    ) -> Option<FlowRef> {
        let state = &mut self.tables[found.table().index()];
        let put = packet.and_then(|packet| state.aside.put(found.flow(), packet, lookups));
        self.beside_bytes += put.map_or(0, |(_, bytes)| bytes);
        let (header, data) = state.flows.entry_mut(found.id());
        header.last_time = self.before;
        if let Some(at) = state.layout.aside_at {
            data[at] = if put.is_some() { data[at] & !ASIDE_NEW } else { ASIDE_MAX };
        }
        put.map(|(name, _)| name)
    }

    /// Removes and returns the packets that wait beside a flow.
    #[inline]
    pub fn take_aside(&mut self, flow: FlowRef) -> VecDeque<AsidePacket> {
        let waited = self.tables[flow.table.index()].aside.take(flow.id);
        self.beside_bytes -= waited.iter().map(AsidePacket::cost).sum::<usize>();
        waited
    }

    /// Creates the flow that a program requests. If the table is full, returns the flow that has to end
    /// first: the one nearest to its time-out; `None` if every flow of the table has a packet of the same
    /// time.
    pub fn make(
        &mut self,
        k: &Continuation,
        packet: &PacketMeta,
        counters: &mut FlowCounters,
        overload: &mut Overload,
        matcher: &Matcher,
    ) -> Result<FlowHit, Option<FlowRef>> {
        self.before = packet.time.0;
        let table = Table(k.table);
        if self.tables[table.index()].flows.needs_grant() && !self.grow(table, overload) {
            counters.growth_refused += 1;
        }
        let state = &mut self.tables[table.index()];
        let (swap, responder) = k.sender();
        let birth = Birth { time: packet.time.0, packet: packet.number, swap: swap != responder };
        let Ok(id) = state.flows.insert(k.key(), k.hash, birth) else {
            let victim = self.victim(table, packet.time.0, &Ranks::new(matcher, overload.priorities()));
            counters.flows_refused += u64::from(victim.is_none());
            return Err(victim);
        };
        counters.flows_created += 1;
        if let Some((_, place)) = state.layout.joining_at {
            state.tags.note(place.low(k.key()));
        }
        if let Some(at) = state.layout.wants_at {
            state.flows.entry_mut(id).1[at] = state.layout.initial_wants;
        }
        if state.layout.delivers {
            if state.sessions.len() <= id.0 as usize {
                state.sessions.resize_with(id.0 as usize + 1, FlowSessions::default);
            }
            if self.wants_streams {
                state.streams.reserve(id);
            }
        } else if state.layout.verdict.is_some() {
            // No bytes are delivered, so the flow has no sessions.
            let over = SessionVerdict { is_over: true, ..SessionVerdict::default() };
            let verdict = SessionVerdict { met: self.plan.absent(&over), ..over };
            state.layout.set_verdict(&self.plan, state.flows.entry_mut(id).1, &verdict);
        }
        Ok(FlowHit::new(table, id, responder, true).in_part(state.part))
    }

    /// The flow that ends first if a table is full at `time`. Of flows that the kernel has, the times are
    /// asked for.
    fn victim(&mut self, table: Table, time: i64, ranks: &Ranks<'_>) -> Option<FlowRef> {
        loop {
            let state = &mut self.tables[table.index()];
            let id =
                state.nearest_to_timeout(time, |layout, data, streams| ranks.of(layout, data, streams))?;
            let flow = FlowRef::new(table, id).in_part(state.part);
            if !self.lives_on(flow, time) {
                return Some(flow);
            }
        }
    }

    /// Lets a table grow, if the account admits that and the system has the memory.
    #[cold]
    fn grow(&mut self, table: Table, overload: &mut Overload) -> bool {
        let held_bytes = self.held_bytes();
        let state = &mut self.tables[table.index()];
        let bytes = state.grant_bytes(self.wants_streams);
        let grows = overload.admits_growth(bytes, held_bytes) && state.grant().is_ok();
        if grows {
            overload.charge_tables(bytes);
            if let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.is_shared(table)) {
                sharing.granted_bytes += bytes;
            }
        }
        grows
    }

    /// Bytes that flows hold besides what sessions and streams do: waiting segments, unfinished messages,
    /// outer connections, and the list of these flows.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        held_bytes(&self.sequences, &self.messages, &self.holders, self.beside_bytes)
    }

    /// The flow that holds memory and has been idle for the longest time, if its last packet is at or before
    /// `until`; of several, one of low priority. `holds_streams`: whether a flow holds bytes of streams that
    /// wait for their filter.
    pub fn longest_idle_holder(
        &mut self,
        until: i64,
        ranks: &Ranks<'_>,
        holds_streams: impl Fn(FlowRef) -> bool,
    ) -> Option<FlowRef> {
        let (tables, sequences, messages) = (&mut self.tables, &self.sequences, &self.messages);
        self.holders.longest_idle(until, |flow, first_packet| {
            let state = &mut tables[flow.table.index()];
            if !state.flows.is_live(flow.id) || state.flows.entry(flow.id).0.first_packet != first_packet {
                return Holding::Ended;
            }
            let layout = &state.layout;
            let sessions = state.sessions.get(flow.id.0 as usize).filter(|_| layout.delivers);
            let holds_chunks = state.streams.get_mut(flow.id).is_some_and(|streams| streams.have_chunks());
            let (header, data) = state.flows.entry_mut(flow.id);
            let is_waiting = |side| layout.sequence.is_some_and(|s| sequences.is_waiting(s, data, side));
            let holds = sessions.is_some_and(|sessions| sessions.held_bytes() > 0)
                || holds_chunks
                || Direction::BOTH.into_iter().any(is_waiting)
                || messages.holds(flow)
                || holds_streams(flow);
            if holds {
                let rank = ranks.of(layout, data, state.streams.get(flow.id));
                return Holding::Some { last: header.last_time, rank };
            }
            header.is_holder = false;
            Holding::Nothing
        })
    }

    /// Discards list entries of ended flows, if they are many.
    pub fn discard_holders(&mut self) {
        let live = self.tables.iter().map(|table| table.flows.len()).sum();
        if self.holders.is_stale(live) {
            let tables = &self.tables;
            self.holders.discard(|flow, first_packet| {
                let flows = &tables[flow.table.index()].flows;
                flows.is_live(flow.id) && flows.entry(flow.id).0.first_packet == first_packet
            });
        }
    }

    /// Bytes of all grants to tables.
    pub fn granted_bytes(&self) -> usize {
        let shared = self.sharing.as_ref().map_or(0, |sharing| sharing.granted_bytes);
        self.tables.iter().map(|table| table.granted_bytes(self.wants_streams)).sum::<usize>() + shared
    }

    /// The parts of a flow.
    #[inline]
    pub fn tail(&mut self, flow: FlowRef) -> (TailFlow<'_>, &mut [u8]) {
        let state = &mut self.tables[flow.table.index()];
        let beside_bytes = self.beside_bytes;
        let shared = SharedState {
            sequences: &mut self.sequences,
            messages: &mut self.messages,
            holders: &mut self.holders,
            beside_bytes,
        };
        state.tail(flow, shared, &self.plan)
    }

    /// The parts of a flow, for the tail of its packet.
    #[inline]
    pub fn open(&mut self, found: FlowHit) -> (TailFlow<'_>, &mut [u8]) {
        let (mut tail, data) = self.tail(found.flow());
        tail.open = tail.layout.open;
        (tail, data)
    }

    /// The streams of a flow, and a view of the flow for subscribers.
    pub fn streams_of(&mut self, flow: FlowRef) -> Option<(FlowView<'_>, &mut FlowStreams)> {
        let state = &mut self.tables[flow.table.index()];
        let streams = state.streams.get_mut(flow.id)?;
        let (header, data) = state.flows.entry(flow.id);
        Some((FlowView::new(&*self.program, flow, header, data), streams))
    }

    /// Sets the deadline of a flow `millis` milliseconds after `now`; later packets postpone it.
    pub fn schedule(&mut self, found: FlowHit, now: i64, millis: u32) {
        let deadline = now.saturating_add(Timeouts::as_ns(millis));
        self.tables[found.table().index()].wheel.schedule(found.id(), deadline);
    }

    /// Records that a packet of the flow fulfils these terms. Before bytes are delivered, the program itself
    /// records the terms that are certain at the flow's layer; this call adds the terms of layers above.
    /// `each` is called with every word of the terms that the connection fulfils now, but not for the
    /// fragments of a datagram.
    #[inline]
    pub fn record_terms(&mut self, flow: FlowRef, terms: Terms<'_>, mut each: impl FnMut(usize, u64)) {
        let state = &mut self.tables[flow.table.index()];
        let layout = &state.layout;
        let words = layout.terms.filter(|_| state.flows.is_live(flow.id));
        let mut record = words.map(|words| (words, state.flows.entry_mut(flow.id).1));
        terms.for_each_word(|word, value| {
            let mut all = value | self.plan.unconditional.word(word);
            if let Some((words, data)) = &mut record {
                all |= words.read(data, word);
                words.write(data, word, all);
            }
            if layout.observed {
                each(word, all);
            }
        });
    }

    /// The terms that a flow fulfils.
    pub fn terms_of(&self, flow: FlowRef) -> ClassSet {
        let state = &self.tables[flow.table.index()];
        let mut terms = self.plan.unconditional.clone();
        if let Some(words) = state.layout.terms {
            words.add_to(&mut terms, state.flows.entry(flow.id).1);
        }
        terms
    }

    /// The connection of a packet, and what its sessions fulfil. `None` if the flow found last holds the
    /// fragments of a datagram.
    pub fn verdict(&self, found: FlowHit) -> Option<(FlowRef, SessionVerdict)> {
        let state = &self.tables[found.table().index()];
        if !state.layout.observed || !state.flows.is_live(found.id()) {
            return None;
        }
        let data = state.flows.entry(found.id()).1;
        Some((found.flow(), state.layout.verdict(&self.plan, data)))
    }

    /// The connection of a packet that a question tracks; `None` if the connection has just ended.
    pub fn tracked<'a>(
        &'a self,
        found: FlowHit,
        packet: &'a PacketMeta,
        frame: &'a [u8],
        outs: &'a [u64],
    ) -> Option<TrackedPacket<'a>> {
        let state = &self.tables[found.table().index()];
        let is_live = state.layout.observed && state.flows.is_live(found.id());
        if !is_live {
            return None;
        }
        let (header, data) = state.flows.entry(found.id());
        Some(TrackedPacket {
            flow: FlowView::new(&*self.program, found.flow(), header, data),
            from_responder: found.is_responder(),
            packet,
            frame,
            outs,
            is_outer: false,
            matching: &QuestionSet::EMPTY,
        })
    }

    /// A connection that has not ended, with the protocols recognised so far, and what its sessions fulfil.
    /// `None` also if workers share its table: the worker that asks may not have the part with the
    /// connection.
    pub fn live(&self, flow: FlowRef) -> Option<(FlowView<'_>, SessionVerdict)> {
        let state = &self.tables[flow.table.index()];
        let is_shared = self.sharing.as_ref().is_some_and(|sharing| sharing.is_shared(flow.table));
        if is_shared || !state.layout.observed || !state.flows.is_live(flow.id) {
            return None;
        }
        let (_, data) = state.flows.entry(flow.id);
        Some((self.view(flow)?, state.layout.verdict(&self.plan, data)))
    }

    /// A live flow of a table that is [not shared, or taken](Self::take_live).
    pub fn view(&self, flow: FlowRef) -> Option<FlowView<'_>> {
        let state = &self.tables[flow.table.index()];
        if !state.flows.is_live(flow.id) {
            return None;
        }
        let (header, data) = state.flows.entry(flow.id);
        let sessions = state.sessions.get(flow.id.0 as usize).filter(|_| state.layout.delivers);
        Some(FlowView {
            recognised: sessions.map(FlowSessions::recognised).unwrap_or_default(),
            outer: self.outer.get(&flow).map_or(&[], Vec::as_slice),
            tunnels: self.tunnels.of(flow),
            ..FlowView::new(&*self.program, flow, header, data)
        })
    }

    /// The number of a flow's first packet.
    pub fn first_packet(&self, flow: FlowRef) -> u64 {
        self.tables[flow.table.index()].flows.entry(flow.id).0.first_packet
    }

    /// Compares flows by their first packets; flows of one packet by table and key, so that the order does
    /// not depend on other flows.
    pub(crate) fn in_order(&self, a: FlowRef, b: FlowRef) -> Ordering {
        let header = |flow: FlowRef| self.tables[flow.table.index()].flows.entry(flow.id).0;
        let (one, two) = (header(a), header(b));
        one.first_packet.cmp(&two.first_packet).then_with(|| (a.table, one.key()).cmp(&(b.table, two.key())))
    }

    /// Flows whose deadline is at or before `now`, in the order of deadlines; of shared tables, those at or
    /// before the time that all workers have reached.
    #[inline]
    pub fn expire(&mut self, now: i64) -> Vec<Ending> {
        let mut due = vec![];
        for (index, state) in self.tables.iter_mut().enumerate() {
            state.expire(Table(index as u32), now, &mut self.expired, &mut due);
        }
        if let Some(sharing) = &mut self.sharing {
            let reached = sharing.pass_time(now);
            for (table, part) in sharing.own_parts() {
                sharing.take(&mut self.tables, table, part);
                if sharing.may_expire(reached) {
                    self.tables[table.index()].expire(table, reached, &mut self.expired, &mut due);
                }
            }
            sharing.give_back(&mut self.tables);
        }
        // The flows of each table are in order already.
        due.sort_by_key(|ending| (ending.at, ending.first_packet));
        due
    }

    /// Moves the last packets of all flows by this many nanoseconds. Timer wheels find the new deadlines by
    /// themselves, when they reach the old ones, or when time goes back.
    pub fn step_clock(&mut self, step_ns: i64) {
        self.step_taken_over(step_ns);
        for state in &mut self.tables {
            for id in (0..state.flows.ids()).map(FlowId) {
                if state.flows.is_live(id) {
                    let (header, _) = state.flows.entry_mut(id);
                    header.last_time = header.last_time.saturating_add(step_ns);
                }
            }
        }
    }

    /// All flows, in the order of their first packets, and those of shared tables if this worker is the last
    /// one to end.
    pub fn all(&mut self) -> Vec<Ending> {
        let mut all = vec![];
        for (index, state) in self.tables.iter().enumerate() {
            all.extend(state.all(Table(index as u32)));
        }
        if let Some(sharing) = &mut self.sharing {
            for (table, part) in sharing.last_parts() {
                sharing.take(&mut self.tables, table, part);
                all.extend(self.tables[table.index()].all(table));
            }
            sharing.give_back(&mut self.tables);
        }
        all.sort_by_key(|ending| ending.first_packet);
        all
    }

    /// Adds the flows of a table that live at a time; those of the parts that this worker expires, if workers
    /// share the table. Returns the time at which the first of the other flows begins.
    pub fn living(&mut self, table: Table, at: i64, all: &mut Vec<Ending>) -> Option<i64> {
        match &mut self.sharing {
            Some(sharing) if sharing.is_shared(table) => {
                let mut begins: Option<i64> = None;
                for (own, part) in sharing.own_parts().filter(|(own, _)| *own == table) {
                    sharing.take(&mut self.tables, own, part);
                    if sharing.may_check(at) {
                        let other = self.tables[own.index()].living(own, at, all);
                        begins = [begins, other].into_iter().flatten().min();
                    }
                }
                sharing.give_back(&mut self.tables);
                begins
            }
            _ => self.tables[table.index()].living(table, at, all),
        }
    }

    /// Takes the part that has the flow which a program requests, if workers share the flow's table. The key
    /// is hashed.
    #[inline]
    pub fn take_part(&mut self, k: &Continuation) {
        if let Some(sharing) = &mut self.sharing {
            sharing.take_of(&mut self.tables, Table(k.table), k.hash);
        }
    }

    /// Gives back the part of a shared table that the worker has.
    #[inline]
    pub fn give_back(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.give_back(&mut self.tables);
        }
    }

    /// Takes the part that has a flow, if workers share its table. Returns whether the flow lives, and is
    /// still the one with this first packet.
    pub fn take_live(&mut self, flow: FlowRef, first_packet: u64) -> bool {
        if let Some(sharing) = &mut self.sharing {
            sharing.take(&mut self.tables, flow.table, flow.part);
        }
        self.is_live(flow) && self.first_packet(flow) == first_packet
    }

    /// Records the packet's terms for a flow that is part of a connection. For the connection itself they are
    /// recorded already.
    pub fn record_terms_of_part(&mut self, flow: FlowRef, terms: Terms<'_>) {
        if self.is_part(flow.table) {
            self.record_terms(flow, terms, |_, _| {});
        }
    }

    /// The next bytes that wait in a flow's sequence, in order, with the gap before them, which nothing will
    /// fill.
    pub fn flush_sequence(&mut self, FlowRef { table, id, .. }: FlowRef, side: Direction) -> Option<Passed> {
        let state = &mut self.tables[table.index()];
        let record = FlowRecord { id: id.0, data: state.flows.entry_mut(id).1 };
        self.sequences.flush(state.layout.sequence?, record, side)
    }

    /// Finishes a direction's sequence at the end of its flow: bytes behind its last number are discarded.
    pub fn finish_sequence(&mut self, flow: FlowRef, side: Direction) {
        let FlowRef { table, id, .. } = flow;
        let state = &mut self.tables[table.index()];
        let Some(sequence) = state.layout.sequence else { return };
        let record = FlowRecord { id: id.0, data: state.flows.entry_mut(id).1 };
        let outside_bytes = self.sequences.finish(sequence, record, side);
        self.count_outside(flow, side, outside_bytes);
    }

    /// Counts bytes that waited and turned out to be outside of their direction's numbers.
    pub fn count_outside(&mut self, flow: FlowRef, side: Direction, outside_bytes: u64) {
        if outside_bytes > 0
            && let Some(streams) = self.tables[flow.table.index()].streams.get_mut(flow.id)
        {
            streams.count(side, &Inserted { outside_bytes, ..Inserted::default() });
        }
    }

    /// What became of the numbers of each direction, if the flow has a sequence.
    pub fn outcomes(&mut self, FlowRef { table, id, .. }: FlowRef) -> Option<[Outcome; 2]> {
        let state = &mut self.tables[table.index()];
        let sequence = state.layout.sequence?;
        let data = state.flows.entry_mut(id).1;
        let sequences = &self.sequences;
        Some(
            Direction::BOTH
                .map(|side| sequences.outcome(sequence, FlowRecord { id: id.0, data: &mut *data }, side)),
        )
    }

    /// Counts the bytes that wait behind a hole in a direction whose messages are read: strict mode passes
    /// over no hole.
    pub fn lose_unread(&mut self, FlowRef { table, id, .. }: FlowRef) {
        let state = &mut self.tables[table.index()];
        let (layout, Some(sequence)) = (state.layout, state.layout.sequence) else { return };
        let data = state.flows.entry_mut(id).1;
        for side in Direction::BOTH {
            if layout.has_messages(data, side) {
                let record = FlowRecord { id: id.0, data: &mut *data };
                self.messages.counters.message_bytes_lost +=
                    self.sequences.waiting_bytes(sequence, record, side);
            }
        }
    }

    /// Removes a flow at whose end [nothing is delivered](Self::is_seen).
    pub fn remove_unseen(&mut self, flow: FlowRef, counters: &mut FlowCounters) {
        counters.flows_ended += 1;
        self.tables[flow.table.index()].wheel.cancel(flow.id);
        self.release(flow, true);
    }

    /// Releases all state of a flow that has ended. Without `removes` the flow stays in its table.
    pub fn release(&mut self, flow: FlowRef, removes: bool) {
        if !self.messages.is_empty() {
            self.messages.release(flow);
        }
        if !self.outer.is_empty()
            && let Some(old) = self.outer.remove(&flow)
        {
            self.beside_bytes -= outer_cost(&old);
        }
        self.beside_bytes -= self.tunnels.forget(flow);
        let FlowRef { table, id, .. } = flow;
        let state = &mut self.tables[table.index()];
        self.beside_bytes -= state.aside.take(id).iter().map(AsidePacket::cost).sum::<usize>();
        self.beside_bytes -= state.tags.forget(id);
        if let Some(sequence) = state.layout.sequence {
            let data = state.flows.entry_mut(id).1;
            self.sequences.release(sequence, FlowRecord { id: id.0, data });
        }
        if state.layout.delivers {
            state.sessions[id.0 as usize] = FlowSessions::default();
        }
        if removes {
            state.flows.remove(id);
        }
        self.forget_quiet(table, id);
    }

    /// Adds the counters of tables and sequences.
    pub fn count(&self, counters: &mut Counters) {
        self.for_each_table(|state| counters.flow.flows_peak += state.flows.live_peak() as u64);
        counters.sequence.merge(self.sequences.counters());
        counters.message.merge(&self.messages.counters);
    }

    /// Bytes that the sessions of all flows occupy.
    pub fn session_bytes(&self) -> usize {
        self.tables.iter().flat_map(|table| &table.sessions).map(FlowSessions::charged_bytes).sum()
    }

    /// The number of flows, and the bytes that the tables occupy.
    pub fn size(&self) -> (u64, u64) {
        let (mut flows, mut bytes) = (0, 0);
        self.for_each_table(|state| {
            flows += state.flows.len() as u64;
            bytes += state.flows.bytes() as u64;
        });
        (flows, bytes)
    }

    /// Calls `each` with every table, and with the parts of shared tables if this worker counts them.
    fn for_each_table(&self, mut each: impl FnMut(&TableState)) {
        self.tables.iter().for_each(&mut each);
        if let Some(sharing) = &self.sharing {
            sharing.count(each);
        }
    }
}

/// Bytes of the connections around a connection, with their place in the map, which may be half empty.
fn outer_cost(all: &[(Table, OwnedHeader)]) -> usize {
    let keys: usize = all.iter().map(|(_, header)| header.heap_bytes()).sum();
    2 * size_of::<(FlowRef, Vec<(Table, OwnedHeader)>)>() + size_of_val(all) + keys
}

/// Bounds on waiting segments; the total is the same as for the memory of streams.
fn sequence_limits(plan: &Plan) -> SequenceLimits {
    let usual = SequenceLimits::default();
    let memory_max = plan.overload.memory_max;
    SequenceLimits {
        total_bytes_max: memory_max,
        pinned_bytes_max: usual.pinned_bytes_max.min(memory_max / 8),
        strict: plan.limits.strict,
        ..usual
    }
}

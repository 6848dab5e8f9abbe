//! What came of the packet at hand while layers above its connection were yet to be parsed, which may still decide who is
//! given it: bytes in order and sessions wait for the packet's end.

use crate::decide::{Decider, FlowKey};
use crate::deferred_streams::{Eligibility, FlowVerdict};
use crate::flow::FlowView;
use crate::flows::{Flows, view};
use crate::plan::Mask;
use crate::sequence::FrameRef;
use crate::sessions::FlowSessions;
use crate::stream::{FlowStreams, HeldStreams};
use crate::subscriber::{Order, Subscriber};
use crate::table::FlowId;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use weir_ir::graph::Table;
use weir_sessions::Session;

/// What waits for the packet's end. Mostly nothing does.
#[derive(Default)]
pub(crate) struct PacketEnd {
    streams: Vec<(FlowKey, HeldStreams)>,
    sessions: Vec<Waiting>,
}

/// A session that was told of as far as was known.
pub(crate) struct Waiting {
    pub flow: FlowKey,
    pub protocol: usize,
    pub session: Arc<dyn Session>,
    /// The remainders that the flow came to then, and the questions that were told of it.
    pub remainders: Mask,
    pub told: Mask,
}

impl PacketEnd {
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.sessions.is_empty()
    }

    /// What waits of one flow's streams, behind all that came before. (What came of the flow before others did waits
    /// apart, and is decided first: a packet may have thousands of flows, and none is looked for among those.)
    pub fn streams_of(&mut self, flow: FlowKey) -> &mut HeldStreams {
        if self.streams.last().is_none_or(|(last, _)| *last != flow) {
            self.streams.push((flow, HeldStreams::default()));
        }
        let at = self.streams.len() - 1;
        &mut self.streams[at].1
    }

    pub fn push_session(&mut self, waiting: Waiting) {
        self.sessions.push(waiting);
    }
}

impl<S: Subscriber> Decider<S> {
    /// It is known now what a flow comes to with its packet: what waits of its streams goes to those who are given it, or
    /// waits on for its sessions and its end.
    fn settle_streams_at_packet_end(
        &mut self,
        (order, packet, queued_bytes): (Order, Option<FrameRef<'_>>, usize),
        flow: &FlowView<'_>,
        (key, streams): (FlowKey, &mut FlowStreams),
        mut held: HeldStreams,
        known: FlowVerdict,
    ) {
        let Eligibility { given, pending, .. } = self.eligibility(key, streams, known);
        let (given, pending) = (given & held.pending, pending & held.pending);
        if given != 0 {
            let plan = Arc::clone(&self.plan);
            let questions: Vec<_> = plan.stream_questions(given).collect();
            let (_, mut to) = self.delivery(order, flow, key, flow.header.last_time, queued_bytes);
            held.replay((streams, packet), &mut to, &questions, pending == 0);
        }
        held.pending = pending;
        match self.held.entry(key) {
            _ if pending == 0 => held.release(&mut self.streams.overload),
            Entry::Vacant(none) => drop(none.insert(held)),
            Entry::Occupied(mut some) => some.get_mut().join(held, &mut self.streams.overload),
        }
    }

    /// As [`settle_streams_at_packet_end`](Self::settle_streams_at_packet_end), of a session.
    fn settle_session_at_packet_end(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        terms: u64,
        waiting: Waiting,
    ) {
        let Waiting { flow: key, protocol, session, remainders, told } = waiting;
        let gained = self.plan.remainders_of(terms) & !remainders;
        if gained != 0 {
            self.tell_session(order, flow, key, (gained, told), protocol, &session);
        }
    }
}

impl Flows {
    /// A packet is through, and has the terms `of_packet`; or the flow `only` ends: what waits for that is decided.
    pub fn settle_packet_end<S: Subscriber>(
        &mut self,
        (order, packet): (Order, Option<FrameRef<'_>>),
        (only, of_packet): (Option<FlowKey>, u64),
        decider: &mut Decider<S>,
    ) {
        let is_meant = |flow: FlowKey| only.is_none_or(|only| only == flow);
        let streams: Vec<_> =
            decider.packet_end.streams.extract_if(.., |(flow, _)| is_meant(*flow)).collect();
        for (key, held) in streams {
            let (table, id) = self.note_of_part(key, of_packet);
            let queued_bytes = self.sequences.held_bytes().0;
            let state = &mut self.tables[table.index()];
            let Some(streams) = state.streams.get_mut(id) else {
                held.release(&mut decider.streams.overload);
                continue;
            };
            let (header, data) = state.flows.entry(id);
            let (flow, known) = (
                view(&*self.program, table, (header, data)),
                FlowVerdict::of(&self.plan, &state.facts, data),
            );
            decider.settle_streams_at_packet_end(
                (order, packet, queued_bytes),
                &flow,
                (key, streams),
                held,
                known,
            );
        }
        let sessions: Vec<_> = decider.packet_end.sessions.extract_if(.., |one| is_meant(one.flow)).collect();
        for waiting in sessions {
            let (table, id) = self.note_of_part(waiting.flow, of_packet);
            let state = &self.tables[table.index()];
            let (header, data) = state.flows.entry(id);
            let terms = FlowVerdict::of(&self.plan, &state.facts, data).terms;
            let recognised = state.sessions.get(id.0 as usize).map(FlowSessions::recognised);
            let flow = FlowView {
                recognised: recognised.unwrap_or_default(),
                ..view(&*self.program, table, (header, data))
            };
            decider.settle_session_at_packet_end(order, &flow, terms, waiting);
        }
    }

    /// Parts of connections learn what the packet comes to; the connection itself has.
    fn note_of_part(&mut self, (table, id): FlowKey, terms: u64) -> (Table, FlowId) {
        let (table, id) = (Table(table), FlowId(id));
        if self.is_part(table) {
            self.note_terms((table, id), terms);
        }
        (table, id)
    }
}

//! What came of the packet at hand while layers above its connection were yet to be parsed, which may still decide who is
//! given it: bytes in order and sessions wait for the packet's end.

use crate::delivery::Delivery;
use crate::flow::FlowView;
use crate::flow_ref::FlowRef;
use crate::flows::{Flows, view};
use crate::matcher::FlowVerdict;
use crate::plan::Mask;
use crate::sequence::FrameRef;
use crate::sessions::FlowSessions;
use crate::stream::{HeldStreams, Moment};
use crate::subscriber::{Order, Subscriber};
use std::sync::Arc;
use weir_sessions::Session;

/// What waits for the packet's end. Mostly nothing does.
#[derive(Default)]
pub(crate) struct PacketEnd {
    streams: Vec<(FlowRef, HeldStreams)>,
    sessions: Vec<WaitingSession>,
}

/// A session that was given to the questions that were known to be given it.
pub(crate) struct WaitingSession {
    pub flow: FlowRef,
    pub protocol: usize,
    pub session: Arc<dyn Session>,
    /// The remainders that the flow came to then.
    pub remainders: Mask,
    /// The questions that the session was given to.
    pub given: Mask,
}

impl PacketEnd {
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.sessions.is_empty()
    }

    /// What waits of one flow's streams, behind all that came before. (What came of the flow before others did waits
    /// apart, and is decided first: a packet may have thousands of flows, and none is looked for among those.)
    pub fn streams_of(&mut self, flow: FlowRef) -> &mut HeldStreams {
        if self.streams.last().is_none_or(|(last, _)| *last != flow) {
            self.streams.push((flow, HeldStreams::default()));
        }
        let at = self.streams.len() - 1;
        &mut self.streams[at].1
    }

    pub fn push_session(&mut self, waiting: WaitingSession) {
        self.sessions.push(waiting);
    }
}

impl Flows {
    /// A packet is through, and has the terms `of_packet`; or the flow `only` ends: what waits for that is decided.
    pub fn settle_packet_end<S: Subscriber>(
        &mut self,
        (order, packet): (Order, Option<FrameRef<'_>>),
        (only, of_packet): (Option<FlowRef>, u64),
        delivery: &mut Delivery<S>,
    ) {
        let is_meant = |flow: FlowRef| only.is_none_or(|only| only == flow);
        let streams: Vec<_> =
            delivery.packet_end.streams.extract_if(.., |(flow, _)| is_meant(*flow)).collect();
        for (flow, held) in streams {
            self.note_of_part(flow, of_packet);
            let queued_bytes = self.sequences.held_bytes().0;
            let state = &mut self.tables[flow.table.index()];
            let Some(streams) = state.streams.get_mut(flow.id) else {
                held.release(&mut delivery.streams.overload);
                continue;
            };
            let (header, data) = state.flows.entry(flow.id);
            let view = view(&*self.program, flow, (header, data));
            let known = FlowVerdict::of(&self.plan, &state.facts, data);
            let moment = Moment { order, now: header.last_time, queued_bytes };
            delivery.settle_streams_at_packet_end(moment, &view, (streams, packet), held, known);
        }
        let sessions: Vec<_> =
            delivery.packet_end.sessions.extract_if(.., |one| is_meant(one.flow)).collect();
        for waiting in sessions {
            let flow = waiting.flow;
            self.note_of_part(flow, of_packet);
            let state = &self.tables[flow.table.index()];
            let (header, data) = state.flows.entry(flow.id);
            let terms = FlowVerdict::of(&self.plan, &state.facts, data).terms;
            let recognised = state.sessions.get(flow.id.0 as usize).map(FlowSessions::recognised);
            let view = FlowView {
                recognised: recognised.unwrap_or_default(),
                ..view(&*self.program, flow, (header, data))
            };
            let gained = self.plan.remainders_of(terms) & !waiting.remainders;
            if gained != 0 {
                delivery.session_by(order, &view, gained, &waiting);
            }
        }
    }

    /// Parts of connections learn what the packet comes to; the connection itself has.
    fn note_of_part(&mut self, flow: FlowRef, terms: u64) {
        if self.is_part(flow.table) {
            self.note_terms(flow, terms);
        }
    }
}

//! Settles bytes and sessions that are undecided at the end of a packet.

use crate::delivery::Delivery;
use crate::effects::Effects;
use crate::flow::FlowView;
use crate::flow_ref::FlowRef;
use crate::flow_sessions::FlowSessions;
use crate::flows::Flows;
use crate::matcher::FlowVerdict;
use crate::sequence::FrameRef;
use crate::sets::Terms;
use crate::stream::Moment;
use crate::subscriber::Subscriber;

/// Which undecided bytes and sessions are settled now.
#[derive(Clone, Copy)]
pub(crate) enum SettleScope<'a> {
    /// All of them: the packet is done, and fulfils these terms.
    Packet { packet: FrameRef<'a>, terms: Terms<'a> },
    /// Those of this flow, which ends while the packet is being processed.
    Flow(FlowRef),
}

/// Delivers undecided bytes and sessions to the questions that are now known to receive them, or holds them
/// until the flow's sessions or its end decide.
pub(crate) fn settle_open<S: Subscriber>(
    flows: &mut Flows,
    delivery: &mut Delivery<S>,
    effects: &mut Effects,
    scope: SettleScope<'_>,
) {
    let (only, packet, terms) = match scope {
        SettleScope::Packet { packet, terms } => (None, Some(packet), terms),
        SettleScope::Flow(flow) => (Some(flow), None, Terms::EMPTY),
    };
    for (flow, held) in effects.take_streams(only) {
        flows.record_terms_of_part(flow, terms);
        let queued_bytes = flows.held_bytes();
        let state = &mut flows.tables[flow.table.index()];
        let Some(streams) = state.streams.get_mut(flow.id) else {
            held.release(&mut delivery.streams.overload);
            continue;
        };
        let (header, data) = state.flows.entry(flow.id);
        let view = FlowView::new(&*flows.program, flow, header, data);
        let known = FlowVerdict::of(&flows.plan, &state.layout, data);
        let moment = Moment { now: header.last_time, queued_bytes, packet };
        delivery.settle_streams_at_packet_end(moment, &view, streams, held, &known);
    }
    for session in effects.take_sessions(only) {
        let flow = session.flow;
        flows.record_terms_of_part(flow, terms);
        let state = &flows.tables[flow.table.index()];
        let (header, data) = state.flows.entry(flow.id);
        let terms = flows.terms_of(flow);
        let sessions = state.sessions.get(flow.id.0 as usize);
        let view = FlowView {
            recognised: sessions.map(FlowSessions::recognised).unwrap_or_default(),
            rows: sessions.map(FlowSessions::rows),
            ..FlowView::new(&*flows.program, flow, header, data)
        };
        let gained = flows.plan.remainders_of(Terms::of(&terms)) - &session.remainders;
        if !gained.is_empty() {
            delivery.session_by(&view, &gained, &session);
        }
    }
}

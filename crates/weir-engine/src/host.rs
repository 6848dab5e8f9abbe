//! What a program's tail may ask for: sequences and sessions of the flow at hand.

use crate::decide::Decider;
use crate::flow::{FlowView, read_number, receiver, write_number};
use crate::flows::{TailFlow, stop_bytes};
use crate::sequence::Segment;
use crate::sessions::Yielded;
use crate::stage::Stage;
use crate::subscriber::{Order, Subscriber};
use std::sync::Arc;
use weir_ir::abi::{FlowRecord, Host, Ordered, Program, SEQ_QUEUED, Slice};
use weir_ir::graph::{Event, Sequence, Table};
use weir_packet::Block;
use weir_sessions::Direction;

/// The host of one packet's tail.
pub(crate) struct TailHost<'a, 'f, S> {
    pub flow: &'a mut TailFlow<'f>,
    pub decider: &'a mut Decider<S>,
    pub block: &'a Arc<Block>,
    pub order: Order,
    pub program: &'a dyn Program,
}

impl<S: Subscriber> Host for TailHost<'_, '_, S> {
    fn seq_insert(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        at: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        span: u64,
        metas: &[u64],
    ) -> (u64, u64) {
        let policies = &self.flow.plan.policies;
        let own = self.flow.streams.as_ref().and_then(|streams| streams.policy(side));
        let policy = own.or_else(|| policies.uniform()).unwrap_or_else(|| {
            let two_sided = self.program.graph().tables[self.flow.table.index()].two_sided;
            policies.of(receiver(self.flow.header, two_sided, side))
        });
        // Where memory is short, a segment that has to wait does so without its bytes.
        let is_kept = self.flow.streams.as_mut().is_none_or(|streams| {
            let (priority, offset) = streams.rank(side);
            let held = self.flow.sequences.held_bytes().0;
            self.decider.streams.overload.admits(priority, offset, bytes.len(), held)
        });
        let bytes = if is_kept { bytes } else { &[] };
        let segment = Segment { at, bytes, claimed_bytes, span, metas, policy };
        let inserted = self.flow.sequences.insert(sequence, flow, side, segment, self.block);
        if let Some(streams) = &mut self.flow.streams {
            streams.count(side, &inserted);
            if !is_kept && inserted.status == SEQ_QUEUED {
                self.decider.streams.overload.drop_segment();
            }
        }
        (inserted.status, inserted.skip)
    }

    fn seq_next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Ordered> {
        self.flow.sequences.next(sequence, flow, side)
    }

    fn seq_assemble(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Slice {
        self.flow.sequences.assemble(sequence, flow, side)
    }

    fn deliver(
        &mut self,
        _table: Table,
        flow: FlowRecord<'_>,
        side: bool,
        gap_bytes: u64,
        bytes: &[u8],
        claimed_bytes: u64,
    ) {
        deliver_bytes(
            self.flow,
            flow.data,
            self.decider,
            self.program,
            self.order,
            side,
            gap_bytes,
            bytes,
            claimed_bytes,
        );
    }

    fn emit(&mut self, event: Event, _flow: Option<FlowRecord<'_>>, values: &[u64]) {
        self.decider.emitted.push(event, self.flow.table, *self.flow.header, values);
    }
}

/// Hands bytes in order to the flow's sessions and to questions about streams.
#[allow(clippy::too_many_arguments)]
pub(crate) fn deliver_bytes<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    decider: &mut Decider<S>,
    program: &dyn Program,
    order: Order,
    side: bool,
    gap_bytes: u64,
    bytes: &[u8],
    claimed_bytes: u64,
) {
    let from = if side { Direction::Responder } else { Direction::Originator };
    // What the capture cut off a packet is missing from the stream.
    let cut = claimed_bytes.saturating_sub(bytes.len() as u64);
    if let Some(streams) = flow.streams.take() {
        let terms = terms_of(flow, data, decider);
        let view = view(flow, data, program, None);
        let queued_bytes = flow.sequences.held_bytes().0;
        let given = (gap_bytes, bytes, cut);
        let over = decider.stream((order, queued_bytes), &view, flow.key, streams, side, given, terms);
        flow.streams = Some(streams);
        if over && flow.sessions.as_ref().is_none_or(|sessions| sessions.is_over()) {
            stop_bytes(data, flow.wants_at);
        }
    }
    let plan = flow.plan;
    let Some(sessions) = flow.sessions.as_mut() else { return };
    if sessions.is_over() {
        return;
    }
    let mut yielded: Yielded = vec![];
    let began = decider.stages.begin();
    let counters = &mut decider.counters.session;
    sessions.take(plan, from, gap_bytes, bytes, &mut yielded, counters);
    if cut > 0 && !sessions.is_over() {
        sessions.take(plan, from, cut, &[], &mut yielded, counters);
    }
    decider.stages.end(Stage::Sessions, 1, began);
    after_sessions(flow, data, decider, program, order, yielded);
}

/// The flow is over: its sessions are, too.
pub(crate) fn finish_sessions<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    decider: &mut Decider<S>,
    program: &dyn Program,
    order: Order,
) {
    let mut yielded: Yielded = vec![];
    if let Some(sessions) = flow.sessions.as_mut() {
        let began = decider.stages.begin();
        sessions.finish(&mut yielded, &mut decider.counters.session);
        decider.stages.end(Stage::Sessions, 0, began);
    }
    after_sessions(flow, data, decider, program, order, yielded);
    if let Some(at) = flow.verdict_at {
        let mut verdict = read_number(data, at, 64);
        decider.sessions_over(order, flow.key, &mut verdict);
        write_number(data, at, 64, verdict);
    }
}

fn after_sessions<S: Subscriber>(
    flow: &mut TailFlow<'_>,
    data: &mut [u8],
    decider: &mut Decider<S>,
    program: &dyn Program,
    order: Order,
    yielded: Yielded,
) {
    let protocol = flow.sessions.as_ref().and_then(|s| s.protocol());
    let over = flow.sessions.as_ref().is_some_and(|s| s.is_over());
    let terms = terms_of(flow, data, decider);
    let mut verdict = flow.verdict_at.map_or(0, |at| read_number(data, at, 64));
    let some = !yielded.is_empty();
    for session in yielded {
        let protocol = protocol.unwrap_or(0);
        let view = view(flow, data, program, Some(decider.plan.protocols[protocol].service));
        let met = decider.session(order, &view, flow.key, terms, protocol, session);
        verdict |= met;
        Decider::<S>::note_session(&mut verdict);
    }
    if some {
        decider.settle(order, flow.key, verdict, None);
    }
    if over {
        decider.sessions_over(order, flow.key, &mut verdict);
        if flow.streams.as_mut().is_none_or(|streams| decider.are_over(streams)) {
            stop_bytes(data, flow.wants_at);
        }
    }
    if let Some(at) = flow.verdict_at {
        write_number(data, at, 64, verdict);
    }
}

fn terms_of<S>(flow: &TailFlow<'_>, data: &[u8], decider: &Decider<S>) -> u64 {
    decider.plan.unconditional | flow.terms_at.map_or(0, |at| read_number(data, at, 64))
}

fn view<'a>(
    flow: &'a TailFlow<'_>,
    data: &'a [u8],
    program: &'a dyn Program,
    service: Option<&'static str>,
) -> FlowView<'a> {
    FlowView {
        graph: program.graph(),
        layout: flow.layout,
        table: flow.table,
        header: flow.header,
        data,
        service,
        outer: &[],
    }
}

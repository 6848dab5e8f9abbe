//! The host of a packet that is read again, up to the messages that its flow carries: flows do not change,
//! sequences are not called, and nothing is delivered.

use crate::emitted::Emitted;
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::messages::{MessageCarrier, Messages};
use crate::packet_ctx::PacketCtx;
use crate::table::{Birth, FlowId, OwnedHeader};
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, Resume, SEQ_RETRANSMITTED, SeqInsert, SeqInserted, Slice, Step,
};
use weir_ir::graph::{Event, Table};
use weir_packet::Direction;

/// The host of a packet that is read again, up to the messages that its flow carries.
struct ReplayHost<'a> {
    messages: &'a mut Messages,
    emitted: &'a mut Emitted,
    /// The current flow.
    flow: FlowRef,
    carrier: MessageCarrier,
    /// The messages of this flow are read.
    is_read: bool,
}

impl Host for ReplayHost<'_> {
    fn seq_insert(&mut self, _: SeqInsert<'_>) -> SeqInserted {
        SeqInserted { status: SEQ_RETRANSMITTED, skip_bytes: 0 }
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.messages.whole_value(number)
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        match self.is_read {
            true => self.messages.first(self.flow, of.direction, self.carrier.clone(), None),
            false => Slice::default(),
        }
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.messages.next(done, wanted)
    }

    fn keep(&mut self, bytes: &[u8]) -> u64 {
        self.emitted.keep(bytes)
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        if let Some(MessageCarrier { table, header }) = self.messages.carrier().filter(|_| flow.is_none()) {
            self.emitted.push(event, table, header, values);
        }
    }
}

/// A flow that a packet requests when it is read again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retraced {
    /// The flow whose messages are read.
    Carrier(FlowHit),
    /// Another flow.
    Other(FlowHit),
    /// A flow that no longer exists, such as the flow of an outer tunnel.
    Gone,
}

/// Continues with an unchanged flow. A flow that no longer exists is treated as new, and its state is
/// discarded.
pub(crate) fn retrace(
    flows: &mut Flows,
    at: &PacketCtx<'_>,
    k: &mut Continuation,
    emitted: &mut Emitted,
    retraced: Retraced,
) -> Step {
    let (Retraced::Carrier(found) | Retraced::Other(found)) = retraced else {
        return retrace_gone(flows, at, k, emitted);
    };
    let (header, data) = flows.tables[found.table().index()].flows.entry_mut(found.id());
    let before = data.to_vec();
    let carrier = MessageCarrier { table: found.table(), header: (&*header).into() };
    let is_read = matches!(retraced, Retraced::Carrier(_));
    let mut host =
        ReplayHost { messages: &mut flows.messages, emitted, flow: found.flow(), carrier, is_read };
    let record = FlowRecord { id: found.id().0, data: &mut *data };
    let direction = Direction::responder_if(found.is_responder());
    let resume = Resume { packet: at.packet, frame: at.frame, flow: record, direction, is_new: false };
    let step = at.program.resume(&mut host, resume, k);
    data.copy_from_slice(&before);
    step
}

fn retrace_gone(flows: &mut Flows, at: &PacketCtx<'_>, k: &mut Continuation, emitted: &mut Emitted) -> Step {
    let table = Table(k.table);
    let mut data = vec![0; flows.program.layout().size(table)];
    let carrier = MessageCarrier { table, header: OwnedHeader::born(k.key(), Birth::default()) };
    let flow = FlowRef::new(table, FlowId(0));
    let mut host = ReplayHost { messages: &mut flows.messages, emitted, flow, carrier, is_read: false };
    let record = FlowRecord { id: 0, data: &mut data };
    let direction = Direction::responder_if(k.sender().0);
    let resume = Resume { packet: at.packet, frame: at.frame, flow: record, direction, is_new: true };
    at.program.resume(&mut host, resume, k)
}

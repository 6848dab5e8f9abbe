//! Inspection of connections by their packets: columns that are added to the rows of connections.
//!
//! An inspector receives each packet of a connection on the connection's worker, and writes further cells of
//! the connection's row at its end. Nothing of the packets is copied.

use super::ip_header::ip_packet;
use crate::flow::places::proto_name;
use crate::flow::record::ip_proto;
use std::collections::HashMap;
use weir_engine::FlowRef;
use weir_engine::subscriber::TrackedPacket;
use weir_packet::{PacketMeta, RowWriter};

/// Inspects the connections of a question on one worker. Each worker has its own, which may move to another
/// thread between two calls.
pub trait FlowInspector: Send + 'static {
    /// What the inspector keeps of a connection until its end.
    type State: Send;

    /// The number of columns that the inspector adds to rows.
    const COLUMNS: usize;

    /// A connection begins, with this packet, which [`packet`](Self::packet) receives next. Packets are
    /// inspected from the first one that fulfils the filter's part on packets, or may still fulfil it.
    fn begin(&mut self, packet: &InspectedPacket<'_>) -> Self::State;

    /// Receives a packet of a connection, in capture order.
    fn packet(&mut self, state: &mut Self::State, packet: &InspectedPacket<'_>);

    /// A connection has ended: writes [`COLUMNS`](Self::COLUMNS) cells. `None`: no packet of the connection
    /// was inspected.
    fn end(&mut self, state: Option<Self::State>, row: &mut RowWriter<'_>);

    /// A connection has ended without a row.
    fn forget(&mut self, state: Self::State) {
        drop(state);
    }
}

/// A packet of an inspected connection.
#[derive(Debug, Clone, Copy)]
pub struct InspectedPacket<'a>(&'a TrackedPacket<'a>);

impl<'a> InspectedPacket<'a> {
    /// The metadata of the packet.
    pub fn meta(&self) -> &'a PacketMeta {
        self.0.packet
    }

    /// The captured bytes.
    pub fn frame(&self) -> &'a [u8] {
        self.0.frame
    }

    /// The originator sent it.
    pub fn is_orig(&self) -> bool {
        !self.0.from_responder
    }

    /// The number of the transport protocol in the IP header; `None` for a user-defined protocol.
    pub fn ip_proto(&self) -> Option<u8> {
        let flow = &self.0.flow;
        ip_proto(&proto_name(flow.table_name()), flow.endpoints().0.address)
    }

    /// The packet of the connection's own layer, from its IP header on: in a tunnel, the inner packet. `None`
    /// if the frame does not hold the header, because the packet completes a datagram in fragments, for
    /// example.
    pub fn ip_packet(&self) -> Option<&'a [u8]> {
        let (orig, resp) = self.0.flow.endpoints();
        let (from, to) = if self.is_orig() { (orig, resp) } else { (resp, orig) };
        ip_packet(self.0.frame, from, to, self.ip_proto()?)
    }
}

/// An inspector with the states of its connections, with their type erased.
pub(crate) trait ErasedInspector: Send {
    fn columns(&self) -> usize;
    fn packet(&mut self, packet: &TrackedPacket<'_>);
    fn end(&mut self, flow: FlowRef, row: &mut RowWriter<'_>);
    fn forget(&mut self, flow: FlowRef);
}

/// The states are as many as live connections, whose number the engine bounds.
struct Typed<I: FlowInspector> {
    inspector: I,
    states: HashMap<FlowRef, I::State>,
}

impl<I: FlowInspector> ErasedInspector for Typed<I> {
    fn columns(&self) -> usize {
        I::COLUMNS
    }

    fn packet(&mut self, packet: &TrackedPacket<'_>) {
        let Self { inspector, states } = self;
        let inspected = InspectedPacket(packet);
        let state = states.entry(packet.flow.flow_ref()).or_insert_with(|| inspector.begin(&inspected));
        inspector.packet(state, &inspected);
    }

    fn end(&mut self, flow: FlowRef, row: &mut RowWriter<'_>) {
        let state = self.states.remove(&flow);
        self.inspector.end(state, row);
    }

    fn forget(&mut self, flow: FlowRef) {
        if let Some(state) = self.states.remove(&flow) {
            self.inspector.forget(state);
        }
    }
}

/// A worker's inspector.
pub(crate) fn erased<I: FlowInspector>(inspector: I) -> Box<dyn ErasedInspector> {
    Box::new(Typed { inspector, states: HashMap::new() })
}

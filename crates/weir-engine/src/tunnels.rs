//! Tunnels: which connections carry other connections, and by which layers.

use crate::flow_ref::FlowRef;
use std::collections::HashMap;
use weir_ir::abi::Continuation;
use weir_ir::graph::Graph;
use weir_ir::slot::EngineSlot;
use weir_packet::Timestamp;

/// A layer by which a connection carries others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// The layer: its index in the stack.
    pub layer: usize,
    /// The time of the first packet with a connection inside.
    pub first: Timestamp,
    /// Number of connections that have begun inside.
    pub connections: u64,
}

/// The tunnels among the live connections.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    /// The slot of a packet's record with the layer; none if no question asks.
    slot: Option<usize>,
    of_flows: HashMap<FlowRef, Vec<Tunnel>>,
}

impl Tunnels {
    /// None yet, in packets of this graph's program.
    pub fn new(graph: &Graph) -> Self {
        Self { slot: graph.slots_of(EngineSlot::Tunnel).next(), of_flows: HashMap::new() }
    }

    /// The same tunnels, in packets of another program.
    pub fn take_over(&mut self, before: Self) {
        self.of_flows = before.of_flows;
    }

    /// Records that a packet of a connection has another connection inside, which is new or was in another
    /// connection before. Returns the additional memory in bytes.
    pub fn note(&mut self, outer: FlowRef, is_new: bool, k: &Continuation, time: Timestamp) -> usize {
        let Some(layer) = self.slot.and_then(|slot| k.outs.get(slot)) else { return 0 };
        let (layer, connections) = (*layer as usize, u64::from(is_new));
        let list = self.of_flows.entry(outer).or_default();
        let before = cost(list);
        if let Some(tunnel) = list.iter_mut().find(|tunnel| tunnel.layer == layer) {
            tunnel.connections += connections;
        } else {
            list.push(Tunnel { layer, first: time, connections });
        }
        cost(list) - before
    }

    /// The layers by which a connection carries others.
    pub fn of(&self, flow: FlowRef) -> &[Tunnel] {
        if self.of_flows.is_empty() { &[] } else { self.of_flows.get(&flow).map_or(&[], Vec::as_slice) }
    }

    /// Forgets a connection. Returns the memory released, in bytes.
    pub fn forget(&mut self, flow: FlowRef) -> usize {
        match self.of_flows.is_empty() {
            true => 0,
            false => self.of_flows.remove(&flow).map_or(0, |list| cost(&list)),
        }
    }
}

/// The memory of a connection's entry, in bytes. The stack bounds the number of layers.
fn cost(list: &Vec<Tunnel>) -> usize {
    let entry = 2 * size_of::<(FlowRef, Vec<Tunnel>)>() + list.capacity() * size_of::<Tunnel>();
    if list.is_empty() { 0 } else { entry }
}

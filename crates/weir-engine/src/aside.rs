//! Packets that wait beside a flow: a protocol's transition to `aside` says that they do not belong to the
//! flow with their key, but may belong to the flow that follows. They begin that flow once another packet
//! restarts the old one, or once the old one ends ([`flow_end`](crate::flow_end)).

use crate::flow_ref::FlowRef;
use crate::messages::LastPacket;
use crate::sequence::FrameRef;
use crate::table::{BuildIdHasher, FlowId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_ir::engine_var::ASIDE_MAX;
use weir_packet::{Block, PacketMeta, Timestamp};

/// Limit of captured bytes of a packet that waits: a SYN with every option and a full segment of payload, in
/// several tunnels.
const PACKET_BYTES_MAX: usize = 2048;

/// Limit of bytes that the waiting packets of a table occupy.
const TOTAL_BYTES_MAX: usize = 1 << 20;

/// Bytes that a waiting packet costs besides its frame.
const PACKET_COST: usize = 2 * size_of::<AsidePacket>() + size_of::<Block>() + 64;

/// A packet that waits beside a flow.
#[derive(Debug)]
pub(crate) struct AsidePacket {
    pub packet: LastPacket,
    /// The number of flows that the packet found before that flow: those of the tunnels around the packet.
    pub lookups: u32,
    /// The name under which questions about packets hold the packet. The flow that follows decides about
    /// these questions.
    pub name: FlowRef,
}

impl AsidePacket {
    /// Bytes that it costs.
    pub fn cost(&self) -> usize {
        self.packet.block.size_bytes() + PACKET_COST
    }
}

/// The packets that wait beside the flows of a table.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    waiting: HashMap<FlowId, VecDeque<AsidePacket>, BuildIdHasher>,
    bytes: usize,
}

impl Aside {
    /// Lets a packet wait beside a flow. Returns the name of the packet, and the bytes that it costs; `None`
    /// if there is no place for it.
    pub fn put(&mut self, flow: FlowRef, packet: FrameRef<'_>, lookups: u32) -> Option<(FlowRef, usize)> {
        let bytes = packet.bytes.len() + PACKET_COST;
        let before = self.waiting.get(&flow.id).map_or(0, |packets| packets.len() as u8);
        if before >= ASIDE_MAX
            || packet.bytes.len() > PACKET_BYTES_MAX
            || self.bytes + bytes > TOTAL_BYTES_MAX
        {
            return None;
        }
        self.bytes += bytes;
        let block = Arc::new(Block::from(packet.bytes.to_vec()));
        let packet = LastPacket { meta: PacketMeta { offset: 0, ..*packet.meta }, block };
        let name = FlowRef { beside: before + 1, ..flow };
        self.waiting.entry(flow.id).or_default().push_back(AsidePacket { packet, lookups, name });
        Some((name, bytes))
    }

    /// The number and the time of each packet that waits beside a flow.
    pub fn packets(&self, flow: FlowId) -> impl Iterator<Item = (u64, Timestamp)> {
        let waiting = self.waiting.get(&flow).into_iter().flatten();
        waiting.map(|aside| (aside.packet.meta.number, aside.packet.meta.time))
    }

    /// Removes and returns the packets that wait beside a flow, in their order.
    #[inline]
    pub fn take(&mut self, flow: FlowId) -> VecDeque<AsidePacket> {
        if self.waiting.is_empty() {
            return VecDeque::new();
        }
        let packets = self.waiting.remove(&flow).unwrap_or_default();
        self.bytes -= packets.iter().map(AsidePacket::cost).sum::<usize>();
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_ir::graph::Table;

    #[test]
    fn packets_wait_in_order_and_within_bounds() {
        let (meta, bytes) = (PacketMeta::default(), [7; 60]);
        let mut aside = Aside::default();
        let named = |flow| FlowRef::new(Table(0), FlowId(flow));
        let mut put =
            |flow, bytes: &[u8]| aside.put(named(flow), FrameRef { meta: &meta, bytes }, 0).is_some();
        assert!((0..ASIDE_MAX).all(|_| put(1, &bytes)) && !put(1, &bytes));
        assert!(!put(2, &[0; PACKET_BYTES_MAX + 1]));
        let admitted = (2..100_000).take_while(|&flow| put(flow, &bytes)).count();
        assert!((1_000..10_000).contains(&admitted), "{admitted}");
        assert_eq!(aside.take(FlowId(1)).len(), usize::from(ASIDE_MAX));
        assert!(aside.take(FlowId(1)).is_empty());
        (2..100_000).for_each(|flow| drop(aside.take(FlowId(flow))));
        assert_eq!(aside.bytes, 0);
    }
}

//! A result of a worker, on its way to the caller.

use super::item::Item;
use weir_engine::FlowRef;
use weir_engine::counters::Account;
use weir_engine::subscriber::{PacketVerdict, VerdictUpdate};
use weir_packet::PacketMeta;

/// A result of a worker.
#[derive(Debug)]
pub enum Yielded {
    /// An item for a question.
    Item(usize, Item<'static>),
    /// The next row of a question, of sessions of this protocol.
    Row(usize, usize),
    /// A packet that waits for a verdict.
    Held(Box<HeldPacket>),
    /// A new verdict on a flow with waiting packets.
    VerdictUpdate(VerdictUpdate),
    /// A datagram with waiting fragments is complete, or has ended incomplete (`None`).
    Datagram(FlowRef, Option<Box<PacketVerdict>>),
}

/// A waiting packet.
#[derive(Debug)]
pub struct HeldPacket {
    pub verdict: PacketVerdict,
    pub packet: KeptPacket,
}

/// A copy of a packet: only the parts that its possible questions need.
#[derive(Debug)]
pub struct KeptPacket {
    pub meta: PacketMeta,
    /// How the packet is counted if no question receives it.
    pub otherwise: Account,
    pub frame: Box<[u8]>,
    pub options: Box<[u8]>,
    pub outs: Box<[u64]>,
}

impl KeptPacket {
    /// Bytes that the copy refers to, besides its own size.
    pub fn bytes(&self) -> usize {
        self.frame.len() + self.options.len() + size_of_val(&*self.outs)
    }
}

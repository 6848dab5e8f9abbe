//! The current packet.

use crate::sequence::FrameRef;
use std::sync::Arc;
use weir_ir::abi::Program;
use weir_packet::{Block, Extras, PacketMeta};

/// The current packet, and the program that is run on it.
pub(crate) struct PacketCtx<'a> {
    pub program: &'a dyn Program,
    pub block: &'a Arc<Block>,
    pub packet: &'a PacketMeta,
    pub frame: &'a [u8],
    /// The side table of the packet's burst, and the packet's index in it.
    pub extras: &'a Extras,
    pub index: usize,
}

impl<'a> PacketCtx<'a> {
    pub fn packet(&self) -> FrameRef<'a> {
        FrameRef { meta: self.packet, bytes: self.frame }
    }
}

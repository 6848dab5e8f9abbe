//! Blocks of capture bytes, bursts of packets that lie in them, and the pool that reuses blocks.
//!
//! A source reads large blocks and describes the packets that lie whole inside one. A packet is
//! never copied on its way through the engine; whoever must keep one keeps a reference to its block.

use crate::{LinkType, Timestamp};
use std::sync::Arc;

/// The most packets in a burst. Chosen so that the descriptors of a burst fit the first-level cache.
pub const BURST_PACKETS_MAX: usize = 64;

/// How the records of a block's packets are laid out: what stands around a packet's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Records {
    /// Nothing behind them tells of the packet: records of pcap.
    #[default]
    Bare,
    /// Blocks of pcapng, where options stand behind them.
    Pcapng,
    /// There are none: the block is a copy of something, which nobody is going to use again for something else.
    None,
}

/// Bytes of a capture, written by a source, then shared and never changed until nobody refers to them.
#[derive(Debug, Default)]
pub struct Block {
    /// The bytes. Packets refer to ranges of them.
    pub bytes: Vec<u8>,
    /// What stands around packets there.
    pub records: Records,
}

impl From<Vec<u8>> for Block {
    /// A copy, with no records.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, records: Records::None }
    }
}

impl Block {
    /// The captured bytes of a packet that lies in it.
    ///
    /// # Panics
    /// If it doesn't, which no source produces.
    #[inline]
    pub fn frame(&self, packet: &PacketMeta) -> &[u8] {
        let start = packet.offset as usize;
        &self.bytes[start..start + packet.captured_bytes as usize]
    }
}

/// Where one packet lies in its block, and what the capture says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct PacketMeta {
    /// Time of capture.
    pub time: Timestamp,
    /// Number in the run, from 1, over all files.
    pub number: u64,
    /// Offset of the first byte in the block.
    pub offset: u32,
    /// Bytes captured.
    pub captured_bytes: u32,
    /// Bytes on the wire; never less than `captured_bytes` (readers raise it).
    pub wire_bytes: u32,
    /// Link type of the interface.
    pub link: LinkType,
    /// Interface, numbered from 0 through the run.
    pub interface: u16,
}

/// Up to [`BURST_PACKETS_MAX`] packets of one block, in capture order.
#[derive(Debug, Default, Clone)]
pub struct Burst {
    /// The block that the packets lie in.
    pub block: Arc<Block>,
    /// The packets.
    pub packets: Vec<PacketMeta>,
}

impl Burst {
    /// The captured bytes of packet `index` of this burst.
    ///
    /// # Panics
    /// If `index` or the packet's range is out of bounds, which no source produces.
    pub fn data(&self, index: usize) -> &[u8] {
        self.block.frame(&self.packets[index])
    }
}

/// Reuses blocks once nobody refers to them any longer.
#[derive(Debug, Default)]
pub struct BlockPool {
    lent: Vec<Arc<Block>>,
}

impl BlockPool {
    /// A block that nobody else refers to; its old bytes are still in it (length unchanged).
    ///
    /// Looks through the blocks lent before; their number is the number of blocks that are referred
    /// to at the same time, which the engine bounds.
    pub fn take(&mut self) -> Arc<Block> {
        match self.lent.iter_mut().position(|b| Arc::get_mut(b).is_some()) {
            Some(free) => self.lent.swap_remove(free),
            None => Arc::new(Block::default()),
        }
    }

    /// Remembers a block that was handed out, to be reused when it is free again.
    pub fn lend(&mut self, block: &Arc<Block>) {
        self.lent.push(Arc::clone(block));
    }

    /// Bytes in all blocks that are still referred to by somebody else.
    pub fn referred_bytes(&self) -> usize {
        self.lent.iter().filter(|b| Arc::strong_count(b) > 1).map(|b| b.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_reused_only_when_nobody_refers_to_it() {
        let mut pool = BlockPool::default();
        let first = pool.take();
        let address = Arc::as_ptr(&first);
        pool.lend(&first);
        let other = pool.take();
        assert_ne!(Arc::as_ptr(&other), address, "still referred to");
        drop(first);
        assert_eq!(Arc::as_ptr(&pool.take()), address);
    }
}

//! Blocks of packet memory, bursts of packets in a block, and the pool that reuses blocks.
//!
//! A source describes packets that lie entirely in one block. The engine never copies a packet while it
//! processes it. To keep bytes beyond the burst, check the block's [`Retention`]: it says whether to keep a
//! reference or a copy.

use crate::{Extras, LinkType, Timestamp};
use std::fmt::Debug;
use std::sync::Arc;

/// Limit of packets per burst, chosen so that the descriptors of a burst fit into the first-level cache.
pub const BURST_PACKETS_MAX: usize = 64;

/// How bytes of a block may be kept beyond the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retention {
    /// The block is a copy made for its references. No source waits for its memory.
    Owned,
    /// Memory of which the source has more, such as the heap blocks of a capture file. A reference keeps the
    /// whole block from being reused.
    #[default]
    Hold,
    /// Scarce memory of the source, such as a mapped ring, a UMEM or the buffers of a device. It returns to
    /// the source with the burst: bytes that are kept longer must be copied.
    Copy,
}

/// Packet memory that is not on the heap: a mapped ring, an AF_XDP UMEM, the buffers of a device.
///
/// Dropping the value returns the memory to its owner. The bytes must not change before that.
pub trait PacketMemory: Send + Sync + Debug {
    /// The bytes of a range within one packet. Every access to a frame of the block calls this function, so
    /// it must cost no more than a few loads.
    ///
    /// # Panics
    /// If the range is out of bounds, which no source produces.
    fn range(&self, offset: usize, length: usize) -> &[u8];

    /// The offset at which [`range`](Self::range) yields `bytes`; `None` if they lie elsewhere.
    fn locate(&self, bytes: &[u8]) -> Option<usize>;

    /// Bytes of memory that a reference keeps from being reused.
    fn size_bytes(&self) -> usize;
}

/// The bytes of a block. The capacity of the vector distinguishes the two variants, so access to a frame on
/// the heap costs only one comparison more than an indexed vector.
#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Foreign(Box<dyn PacketMemory>),
}

/// Packet memory, written by a source, then shared and unchanged while references exist.
#[derive(Debug)]
pub struct Block {
    memory: Memory,
    retention: Retention,
}

impl Default for Block {
    /// Empty heap memory of a source. Allocates nothing.
    fn default() -> Self {
        Self::shared(Vec::new())
    }
}

impl From<Vec<u8>> for Block {
    /// A copy: [`Retention::Owned`].
    fn from(bytes: Vec<u8>) -> Self {
        Self { memory: Memory::Heap(bytes), retention: Retention::Owned }
    }
}

impl Block {
    /// Heap memory of a source: [`Retention::Hold`].
    pub fn shared(bytes: Vec<u8>) -> Self {
        Self { memory: Memory::Heap(bytes), retention: Retention::Hold }
    }

    /// Memory that returns to its owner with the last reference to the block.
    pub fn foreign(memory: Box<dyn PacketMemory>, retention: Retention) -> Self {
        Self { memory: Memory::Foreign(memory), retention }
    }

    /// How bytes of the block may be kept.
    pub fn retention(&self) -> Retention {
        self.retention
    }

    /// The captured bytes of a packet in the block.
    ///
    /// # Panics
    /// If the packet lies elsewhere, which no source produces.
    #[inline]
    pub fn frame(&self, packet: &PacketMeta) -> &[u8] {
        self.range(packet.offset as usize, packet.captured_bytes as usize)
    }

    /// The bytes of a range. In foreign memory the range must lie within one packet.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub fn range(&self, offset: usize, length: usize) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => &bytes[offset..offset + length],
            Memory::Foreign(memory) => memory.range(offset, length),
        }
    }

    /// The offset of `bytes` in the block; `None` if they lie elsewhere.
    pub fn locate(&self, bytes: &[u8]) -> Option<usize> {
        match &self.memory {
            Memory::Heap(all) => offset_in(all, bytes),
            Memory::Foreign(memory) => memory.locate(bytes),
        }
    }

    /// Bytes of memory that a reference keeps from being reused.
    pub fn size_bytes(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::Foreign(memory) => memory.size_bytes(),
        }
    }

    /// All bytes of heap memory.
    ///
    /// # Panics
    /// If the memory is foreign, where bytes are only accessible packet by packet.
    #[inline]
    pub fn heap(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Foreign(_) => panic!("foreign memory has no bytes but those of packets"),
        }
    }

    /// The vector of heap memory, for the source that fills it.
    ///
    /// # Panics
    /// If the memory is foreign.
    #[inline]
    pub fn heap_mut(&mut self) -> &mut Vec<u8> {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Foreign(_) => panic!("only its owner writes foreign memory"),
        }
    }
}

/// The offset of `part` in `all`; `None` if it lies elsewhere. Compares addresses.
pub fn offset_in(all: &[u8], part: &[u8]) -> Option<usize> {
    let offset = part.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
    (offset.checked_add(part.len())? <= all.len()).then_some(offset)
}

/// The position of a packet in its block, and the capture's metadata of the packet.
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
    /// Interface, numbered from 0 throughout the run.
    pub interface: u16,
}

/// Up to [`BURST_PACKETS_MAX`] packets of one block, in capture order.
#[derive(Debug, Default, Clone)]
pub struct Burst {
    /// The block that the packets lie in.
    pub block: Arc<Block>,
    /// The packets.
    pub packets: Vec<PacketMeta>,
    /// Additional data about a few of the packets.
    pub extras: Extras,
}

impl Burst {
    /// Removes all packets and their additional data. The block stays.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.extras.clear();
    }

    /// The captured bytes of packet `index` of this burst.
    ///
    /// # Panics
    /// If `index` or the packet's range is out of bounds, which no source produces.
    pub fn data(&self, index: usize) -> &[u8] {
        self.block.frame(&self.packets[index])
    }

    /// The same packets in memory that may be kept: a reference if the block may be held, else a copy of
    /// their frames.
    #[must_use]
    pub fn hold(self) -> Self {
        if self.block.retention() != Retention::Copy {
            return self;
        }
        let Self { block, mut packets, extras } = self;
        let mut bytes = Vec::with_capacity(packets.iter().map(|packet| packet.captured_bytes as usize).sum());
        for packet in &mut packets {
            let frame = block.frame(packet);
            packet.offset = u32::try_from(bytes.len()).expect("a burst is shorter than 4 GiB");
            bytes.extend_from_slice(frame);
        }
        Self { block: Arc::new(Block::shared(bytes)), packets, extras }
    }
}

/// Reuses blocks that are not referenced any more.
#[derive(Debug, Default)]
pub struct BlockPool {
    lent: Vec<Arc<Block>>,
}

impl BlockPool {
    /// A block without other references; it still has its old bytes (and length).
    ///
    /// Searches the lent blocks. Their number is the number of blocks that are referenced at the same time,
    /// which the engine bounds.
    pub fn take(&mut self) -> Arc<Block> {
        match self.lent.iter_mut().position(|b| Arc::get_mut(b).is_some()) {
            Some(free) => self.lent.swap_remove(free),
            None => Arc::new(Block::default()),
        }
    }

    /// Remembers a block that was lent, to reuse it once it is free.
    pub fn lend(&mut self, block: &Arc<Block>) {
        self.lent.push(Arc::clone(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

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

    /// Memory that records its return.
    #[derive(Debug)]
    struct Lent(Vec<u8>, Arc<AtomicBool>);

    impl PacketMemory for Lent {
        fn range(&self, offset: usize, length: usize) -> &[u8] {
            &self.0[offset..offset + length]
        }

        fn locate(&self, bytes: &[u8]) -> Option<usize> {
            offset_in(&self.0, bytes)
        }

        fn size_bytes(&self) -> usize {
            self.0.len()
        }
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    fn burst(retention: Retention) -> (Burst, Arc<AtomicBool>) {
        let is_returned = Arc::new(AtomicBool::new(false));
        let memory = Lent(b"..one..three".to_vec(), Arc::clone(&is_returned));
        let block = Arc::new(Block::foreign(Box::new(memory), retention));
        let packet = |offset, captured_bytes| PacketMeta { offset, captured_bytes, ..PacketMeta::default() };
        (Burst { block, packets: vec![packet(7, 5), packet(2, 3)], ..Burst::default() }, is_returned)
    }

    #[test]
    fn foreign_memory_goes_back_with_the_last_reference() {
        let (burst, is_returned) = burst(Retention::Copy);
        assert_eq!((burst.data(0), burst.data(1)), (&b"three"[..], &b"one"[..]));
        assert_eq!(burst.block.locate(&burst.data(0)[2..]), Some(9));
        assert_eq!(burst.block.locate(b"three"), None, "the same text elsewhere");
        let another = Arc::clone(&burst.block);
        drop(burst);
        assert!(!is_returned.load(Ordering::Relaxed));
        drop(another);
        assert!(is_returned.load(Ordering::Relaxed));
    }

    #[test]
    fn a_burst_is_copied_only_where_its_memory_goes_back() {
        let (lent, is_returned) = burst(Retention::Copy);
        let held = lent.hold();
        assert!(is_returned.load(Ordering::Relaxed));
        assert_eq!((held.data(0), held.data(1)), (&b"three"[..], &b"one"[..]));
        assert_eq!((held.block.retention(), held.block.size_bytes()), (Retention::Hold, 8));
        let (lent, is_returned) = burst(Retention::Hold);
        let held = lent.hold();
        assert!(!is_returned.load(Ordering::Relaxed), "referred to");
        assert_eq!(held.data(1), b"one");
    }
}

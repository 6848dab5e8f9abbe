//! A ring of version TPACKET_V3 (`packet(7)`, Documentation/networking/packet_mmap.rst): blocks of packets in
//! memory that the kernel writes. The kernel passes blocks in order; a block belongs to the process until the
//! process gives it back.
#![allow(unsafe_code)]

use crate::system::Mapping;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use weir_packet::{PacketMemory, VlanTag};

/// Bytes of the two addresses at the start of an Ethernet frame.
const ADDRESSES_BYTES: usize = 12;
/// Bytes of a VLAN tag. The kernel leaves as many bytes free before each frame.
pub(crate) const TAG_BYTES: usize = 4;
/// The place of a block's status.
const STATUS_AT: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
const _: () = assert!(STATUS_AT.is_multiple_of(align_of::<AtomicU32>()));
/// Bytes of a packet's header up to its link-layer address.
const HEADER_BYTES: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// A ring: its memory, and how the memory is divided.
#[derive(Debug)]
pub(crate) struct Ring {
    mapping: Mapping,
    block_bytes: usize,
    /// For each block: the process has it, and has not given it back.
    taken: Box<[AtomicBool]>,
}

impl Ring {
    /// A ring of `blocks` blocks of `block_bytes` bytes each.
    ///
    /// # Panics
    /// If a block is too short for its header, or not a multiple of a page.
    pub fn new(mapping: Mapping, block_bytes: usize, blocks: usize) -> Self {
        assert!(block_bytes.is_multiple_of(4096) && block_bytes > 0, "blocks are pages");
        let taken = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Self { mapping, block_bytes, taken }
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.taken.len()
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        assert!(block < self.blocks(), "the ring has such a block");
        // SAFETY: the status lies in the block, is aligned, and both sides access it atomically.
        unsafe { self.mapping.start().add(block * self.block_bytes + STATUS_AT).cast::<AtomicU32>().as_ref() }
    }

    /// The part of the ring that waits for the process, or that the process has, in percent.
    pub fn fill_percent(&self) -> u32 {
        let has = |block: &usize| self.status(*block).load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0;
        (100 * (0..self.blocks()).filter(has).count() / self.blocks()) as u32
    }

    /// Takes a block, if the kernel has passed it, and if nobody has it yet.
    pub fn take(self: &Arc<Self>, block: usize) -> Option<RingBlock> {
        let is_passed = self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        let is_free = is_passed && !self.taken[block].swap(true, Ordering::Acquire);
        is_free.then(|| RingBlock { ring: Arc::clone(self), block })
    }

    /// Reads a value of a block; `None` if it lies beyond the block's end.
    fn read<T: Copy>(&self, block: usize, offset: usize) -> Option<T> {
        let fits = offset.checked_add(size_of::<T>())? <= self.block_bytes && block < self.blocks();
        // SAFETY: the value lies in the block, and any bytes are a valid value of the kernel's structures
        // that this file reads. The block belongs to the process, so the kernel does not write it.
        fits.then(|| unsafe {
            self.mapping.start().add(block * self.block_bytes + offset).cast::<T>().read_unaligned()
        })
    }
}

/// A block that the kernel has passed to the process. Dropping it gives the block back.
#[derive(Debug)]
pub(crate) struct RingBlock {
    ring: Arc<Ring>,
    block: usize,
}

impl Drop for RingBlock {
    fn drop(&mut self) {
        self.ring.status(self.block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        // Only now may the block be taken again, once the kernel has passed it again.
        self.ring.taken[self.block].store(false, Ordering::Release);
    }
}

impl PacketMemory for RingBlock {
    fn range(&self, offset: usize, length: usize) -> &[u8] {
        let end = offset.checked_add(length).expect("a range of a packet");
        assert!(end <= self.ring.block_bytes, "the range lies in the block");
        // SAFETY: the range lies in the block, which belongs to the process until it is dropped. Nobody
        // writes to a packet after `Walk::next` has returned it.
        unsafe {
            let start = self.ring.mapping.start().add(self.block * self.ring.block_bytes + offset);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    fn locate(&self, bytes: &[u8]) -> Option<usize> {
        let start = self.ring.mapping.start().addr().get() + self.block * self.ring.block_bytes;
        let offset = bytes.as_ptr().addr().checked_sub(start)?;
        (offset.checked_add(bytes.len())? <= self.ring.block_bytes).then_some(offset)
    }

    fn size_bytes(&self) -> usize {
        self.ring.block_bytes
    }
}

/// The packets of a block, one after the other.
#[derive(Debug)]
pub(crate) struct Walk {
    ring: Arc<Ring>,
    block: usize,
    /// The place of the next packet's header.
    offset: usize,
    /// Packets that follow.
    left: u32,
}

/// A packet in a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingPacket {
    /// The place of the frame in the block.
    pub offset: usize,
    /// Bytes in the block.
    pub captured_bytes: u32,
    pub wire_bytes: u32,
    /// Nanoseconds since 1970.
    pub time: i64,
    /// `TP_STATUS_…`.
    pub status: u32,
    /// The tag that is missing in the frame.
    pub vlan: Option<VlanTag>,
    /// The number of the interface.
    pub interface: i32,
    /// `ARPHRD_…`.
    pub hardware: u16,
    /// `PACKET_…`.
    pub kind: u8,
}

impl Walk {
    /// The packets of a block that the process has; `None` if the block's header is invalid.
    pub fn of(block: &RingBlock) -> Option<Self> {
        let ring = Arc::clone(&block.ring);
        let header: libc::tpacket_hdr_v1 =
            ring.read(block.block, offset_of!(libc::tpacket_block_desc, hdr))?;
        let (offset, left) = (header.offset_to_first_pkt as usize, header.num_pkts);
        Some(Self { ring, block: block.block, offset, left })
    }

    /// Packets that follow.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The next packet, with its VLAN tag restored. `None` at the end, or if the header is invalid; then
    /// packets are [left](Self::left).
    pub fn next(&mut self) -> Option<RingPacket> {
        if self.left == 0 {
            return None;
        }
        let header: libc::tpacket3_hdr = self.ring.read(self.block, self.offset)?;
        let sender: libc::sockaddr_ll = self.ring.read(self.block, self.offset + HEADER_BYTES)?;
        let frame = self.offset.checked_add(usize::from(header.tp_mac))?;
        let end = frame.checked_add(header.tp_snaplen as usize)?;
        if end > self.ring.block_bytes || usize::from(header.tp_mac) < HEADER_BYTES {
            return None;
        }
        let has = |flag: u32| header.tp_status & flag != 0;
        let tpid = if has(libc::TP_STATUS_VLAN_TPID_VALID) { header.hv1.tp_vlan_tpid } else { 0x8100 };
        let vlan = VlanTag { tpid, tci: header.hv1.tp_vlan_tci as u16 };
        let mut packet = RingPacket {
            offset: frame,
            captured_bytes: header.tp_snaplen,
            wire_bytes: header.tp_len.max(header.tp_snaplen),
            time: i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
            status: header.tp_status,
            vlan: has(libc::TP_STATUS_VLAN_VALID).then_some(vlan),
            interface: sender.sll_ifindex,
            hardware: sender.sll_hatype,
            kind: sender.sll_pkttype,
        };
        self.restore_tag(&mut packet);
        self.left -= 1;
        self.offset = self.offset.checked_add(header.tp_next_offset as usize)?;
        Some(packet)
    }

    /// Puts the tag that the kernel removed back behind the addresses, which move into the free bytes before
    /// the frame.
    fn restore_tag(&self, packet: &mut RingPacket) {
        let is_ethernet = matches!(packet.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        let has_addresses = packet.captured_bytes as usize >= ADDRESSES_BYTES;
        let Some(VlanTag { tpid, tci }) = packet.vlan.filter(|_| is_ethernet && has_addresses) else {
            return;
        };
        if packet.offset - self.offset < HEADER_BYTES + size_of::<libc::sockaddr_ll>() + TAG_BYTES {
            return;
        }
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        let tag = [a, b, c, d];
        // SAFETY: the bytes lie in the block, which belongs to the process: the header and the address end
        // before them, as checked above, and the frame has at least its addresses. No slice of this packet
        // exists yet.
        unsafe {
            let frame = self.ring.mapping.start().add(self.block * self.ring.block_bytes + packet.offset);
            let start = frame.sub(TAG_BYTES);
            std::ptr::copy(frame.as_ptr(), start.as_ptr(), ADDRESSES_BYTES);
            std::ptr::copy_nonoverlapping(tag.as_ptr(), start.add(ADDRESSES_BYTES).as_ptr(), TAG_BYTES);
        }
        packet.offset -= TAG_BYTES;
        packet.captured_bytes += TAG_BYTES as u32;
        packet.wire_bytes += TAG_BYTES as u32;
        packet.vlan = None;
    }
}

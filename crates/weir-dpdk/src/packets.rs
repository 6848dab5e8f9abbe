//! The packets of a batch, in the buffers of their device.
#![allow(unsafe_code)]

use crate::library::{Functions, RawPacket};
use weir_packet::{BURST_PACKETS_MAX, PacketMemory, offset_in};

/// Bytes of memory that a packet occupies: a buffer of DPDK with its description.
const BUFFER_BYTES: usize = 2_304;
/// The place of a packet in its batch is in the upper bits of an offset, and the place of a byte in the
/// packet in these lower ones: no packet is longer (`WEIR_DPDK_PACKET_BYTES_MAX`).
const BYTE_BITS: u32 = 24;

/// `WEIR_DPDK_HASHED`
const HASHED: u32 = 2;
/// `WEIR_DPDK_CHECKSUM_GOOD`
const CHECKSUM_GOOD: u32 = 4;
/// `WEIR_DPDK_CHECKSUM_BAD`
const CHECKSUM_BAD: u32 = 8;
/// `WEIR_DPDK_TIMED`
const TIMED: u32 = 16;

/// A packet of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The place of its first byte in the memory of the batch.
    pub offset: u32,
    /// Its length, bytes.
    pub length: u32,
    /// The time that the device gave, nanoseconds since 1970.
    pub time_ns: Option<i64>,
    /// The hash by which the device chose the queue.
    pub rss_hash: Option<u32>,
    /// What the device found when it verified the checksums.
    pub is_checksum_good: Option<bool>,
}

/// The memory of a batch. When this value is dropped, the device gets its buffers back.
#[derive(Debug)]
pub struct Packets {
    functions: &'static Functions,
    raw: [RawPacket; BURST_PACKETS_MAX],
    count: usize,
}

// SAFETY: the value owns the buffers alone, and nobody writes to them. Any thread may return buffers
// (`weir_dpdk.h`).
unsafe impl Send for Packets {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Packets {}

impl Packets {
    /// The packets that the plug-in has described in the first `count` entries of `raw`.
    ///
    /// # Safety
    /// The plug-in has passed these packets to the caller, who passes them to nobody else.
    pub(crate) unsafe fn of(
        functions: &'static Functions,
        raw: [RawPacket; BURST_PACKETS_MAX],
        count: usize,
    ) -> Self {
        Self { functions, raw, count: count.min(BURST_PACKETS_MAX) }
    }

    fn raw(&self) -> &[RawPacket] {
        &self.raw[..self.count]
    }

    fn bytes(&self, packet: &RawPacket) -> &[u8] {
        // SAFETY: the plug-in has described this range, which is the packet's until its owner is returned.
        unsafe { std::slice::from_raw_parts(packet.bytes, packet.length as usize) }
    }

    /// The packets, in the order of their reception.
    pub fn iter(&self) -> impl Iterator<Item = Packet> {
        self.raw().iter().enumerate().map(|(index, raw)| Packet {
            offset: (index as u32) << BYTE_BITS,
            length: raw.length,
            time_ns: (raw.flags & TIMED != 0).then(|| i64::try_from(raw.time_ns).unwrap_or(i64::MAX)),
            rss_hash: (raw.flags & HASHED != 0).then_some(raw.rss_hash),
            is_checksum_good: match raw.flags {
                flags if flags & CHECKSUM_BAD != 0 => Some(false),
                flags if flags & CHECKSUM_GOOD != 0 => Some(true),
                _ => None,
            },
        })
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // SAFETY: the packets came from the plug-in, and are returned once.
        unsafe { (self.functions.release_packets)(self.raw.as_ptr(), self.count as u32) };
    }
}

impl PacketMemory for Packets {
    fn range(&self, offset: usize, length: usize) -> &[u8] {
        let (index, start) = (offset >> BYTE_BITS, offset & ((1 << BYTE_BITS) - 1));
        &self.bytes(&self.raw()[index])[start..start + length]
    }

    fn locate(&self, bytes: &[u8]) -> Option<usize> {
        let at = |(index, raw)| Some((index << BYTE_BITS) + offset_in(self.bytes(raw), bytes)?);
        self.raw().iter().enumerate().find_map(at)
    }

    fn size_bytes(&self) -> usize {
        self.count * BUFFER_BYTES
    }
}

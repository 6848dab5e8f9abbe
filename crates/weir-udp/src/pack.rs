//! Packets into datagrams.

use crate::wire::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use crate::{PACKET_BYTES_MAX, Packet};

/// Bytes of a datagram at most: those of a packet of IPv4, without its headers.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Bytes of a datagram at least, whatever the path's MTU.
pub(crate) const DATAGRAM_BYTES_MIN: usize = 512;
/// Complete datagrams that wait to be sent together, at most, and their bytes.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 1 << 19;

/// The length of datagrams for a path that has room for this number of bytes.
pub(crate) fn fitting(bytes: usize) -> usize {
    bytes.clamp(DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX)
}

/// A packet is longer than [`PACKET_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// A complete datagram.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    pub bytes: Vec<u8>,
    /// Packets that begin in it.
    pub packets: u16,
}

/// Makes the datagrams of one instance. Memory is reused.
#[derive(Debug)]
pub(crate) struct Packer {
    stream: u64,
    instance: u32,
    bytes_max: usize,
    sequence: u64,
    packets_before: u64,
    /// Datagrams; the first `complete` ones have their headers, the next one is being filled.
    datagrams: Vec<Datagram>,
    complete: usize,
    complete_bytes: usize,
    /// Bytes at the beginning of the current datagram that continue a packet.
    continued: usize,
}

impl Packer {
    /// The datagrams to an instance of a stream.
    pub fn new(stream: u64, instance: u32) -> Self {
        let datagrams = vec![Datagram::default()];
        let (bytes_max, continued) = (DATAGRAM_BYTES_MIN, 0);
        let mut new = Self {
            stream,
            instance,
            bytes_max,
            sequence: 0,
            packets_before: 0,
            datagrams,
            complete: 0,
            complete_bytes: 0,
            continued,
        };
        new.begin(0);
        new
    }

    /// From the next datagram on, datagrams have at most this number of bytes, header included.
    pub fn limit(&mut self, bytes: usize) {
        self.bytes_max = fitting(bytes);
    }

    /// Adds a packet. Returns whether there are so many complete datagrams that they should be sent.
    ///
    /// # Errors
    /// The packet is too long: nothing was added.
    pub fn push(&mut self, packet: &Packet<'_>) -> Result<bool, TooLong> {
        let mut rest = packet.frame;
        if rest.len() > PACKET_BYTES_MAX {
            return Err(TooLong);
        }
        let record = Record {
            time: packet.time,
            // At most `PACKET_BYTES_MAX`.
            captured_bytes: rest.len() as u32,
            wire_bytes: packet.wire_bytes,
            link: packet.link,
        };
        // A record is never divided.
        if self.room() < RECORD_BYTES || self.current().packets == u16::MAX {
            self.close(false);
        }
        let current = self.current();
        current.bytes.extend(record.emit());
        current.packets += 1;
        loop {
            let (now, later) = rest.split_at(rest.len().min(self.room()));
            self.current().bytes.extend_from_slice(now);
            if later.is_empty() {
                return Ok(self.complete >= WAITING_MAX || self.complete_bytes >= WAITING_BYTES_MAX);
            }
            rest = later;
            self.close(false);
            self.continued = rest.len().min(self.room());
        }
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.complete == 0 && self.datagrams[0].bytes.len() == HEADER_BYTES
    }

    /// Completes the current datagram, if it has anything.
    pub fn flush(&mut self) {
        if self.current().bytes.len() > HEADER_BYTES {
            self.close(false);
        }
    }

    /// Completes the current datagram, and adds one that ends the stream.
    pub fn end(&mut self) {
        self.flush();
        self.close(true);
    }

    /// The complete datagrams, in order. They are forgotten with [`clear`](Self::clear).
    pub fn complete(&self) -> &[Datagram] {
        &self.datagrams[..self.complete]
    }

    /// Forgets the complete datagrams. Their memory is reused.
    pub fn clear(&mut self) {
        self.datagrams.swap(0, self.complete);
        (self.complete, self.complete_bytes) = (0, 0);
    }

    fn current(&mut self) -> &mut Datagram {
        &mut self.datagrams[self.complete]
    }

    fn room(&mut self) -> usize {
        let bytes_max = self.bytes_max;
        bytes_max.saturating_sub(self.current().bytes.len())
    }

    fn close(&mut self, is_end: bool) {
        let (stream, instance, sequence, packets_before) =
            (self.stream, self.instance, self.sequence, self.packets_before);
        // A datagram is shorter than 64 KiB.
        let continued = self.continued as u32;
        let bytes_max = self.bytes_max;
        let current = self.current();
        // Full datagrams have equal lengths, so that the kernel can divide one message into several of them.
        if (1..RECORD_BYTES).contains(&bytes_max.saturating_sub(current.bytes.len())) {
            current.bytes.resize(bytes_max, 0);
        }
        let packets = current.packets;
        let header = Header { is_end, packets, stream, instance, continued, sequence, packets_before };
        current.bytes[..HEADER_BYTES].copy_from_slice(&header.emit());
        self.complete_bytes += current.bytes.len();
        self.complete += 1;
        self.sequence += 1;
        self.packets_before += u64::from(packets);
        self.begin(self.complete);
    }

    fn begin(&mut self, index: usize) {
        if self.datagrams.len() == index {
            self.datagrams.push(Datagram::default());
        }
        let datagram = &mut self.datagrams[index];
        datagram.bytes.clear();
        datagram.bytes.resize(HEADER_BYTES, 0);
        datagram.packets = 0;
        self.continued = 0;
    }
}

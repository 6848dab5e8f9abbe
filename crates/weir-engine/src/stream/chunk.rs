//! Contiguous chunks of a stream, with a size, an overlap, and a time after which they are delivered.

use super::Chunk;
use super::packets::{CarrierPacket, PacketLog};

/// The parameters of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkParams {
    /// Bytes of a chunk, the overlap included. At least 1.
    pub bytes: u32,
    /// Bytes that a chunk repeats of the one before. Less than `bytes`.
    pub overlap: u32,
    /// Nanoseconds after which a chunk is delivered, full or not. 0: only when full, at a gap, or at the end.
    pub flush_ns: i64,
}

impl ChunkParams {
    /// Corrects the parameters: chunks of at least one byte, and an overlap that is smaller.
    pub fn sane(self) -> Self {
        let bytes = self.bytes.max(1);
        Self { bytes, overlap: self.overlap.min(bytes - 1), flush_ns: self.flush_ns.max(0) }
    }
}

/// Limit of bytes of a chunk that its subscriber keeps, to merge it with the next one.
pub(super) const KEPT_BYTES_MAX: usize = 16 << 20;

/// The chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct Chunker {
    bytes: Vec<u8>,
    /// Bytes at the front that were delivered before.
    old: usize,
    /// Offset of the first byte in the stream.
    offset: u64,
    /// Time of the first new byte.
    since: i64,
    /// The size at which the chunk is full: the question's, or more if the subscriber kept the last chunk.
    size: usize,
    /// The packets of the chunk, if the question asks for packets.
    packets: PacketLog,
}

impl Chunker {
    /// New bytes that wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.old
    }

    /// Bytes of memory.
    pub fn cost(&self) -> usize {
        self.bytes.capacity() + self.packets.cost()
    }

    /// Limit of additional memory in bytes for adding `more` bytes, as far as they fit, and the packet that
    /// they came in.
    pub fn growth(&self, params: &ChunkParams, more: usize, packet: Option<&CarrierPacket<'_>>) -> usize {
        let packets = packet.map_or(0, |came| self.packets.growth(came));
        self.capacity_with(params, more).saturating_sub(self.bytes.capacity()) + packets
    }

    /// Most streams are shorter than a chunk, so the buffer grows by doubling as it fills.
    fn capacity_with(&self, params: &ChunkParams, more: usize) -> usize {
        let size = if self.bytes.is_empty() { params.bytes as usize } else { self.size };
        (self.bytes.len() + more).next_power_of_two().min(size)
    }

    /// Time of the first new byte, if there is one.
    pub fn since(&self) -> Option<i64> {
        (self.waiting() > 0).then_some(self.since)
    }

    /// Adds as many of `bytes` as fit into the chunk; they lie at `offset` of the stream and came in
    /// `packet`. Returns the number of bytes added.
    pub fn push(
        &mut self,
        params: &ChunkParams,
        (offset, bytes): (u64, &[u8]),
        packet: Option<&CarrierPacket<'_>>,
        now: i64,
        spare: &mut Spare,
    ) -> usize {
        if self.bytes.is_empty() {
            (self.offset, self.old) = (offset, 0);
            self.size = params.bytes as usize;
        }
        if self.waiting() == 0 {
            self.since = now;
        }
        let count = bytes.len().min(self.size.saturating_sub(self.bytes.len()));
        let capacity = self.capacity_with(params, count);
        if capacity > self.bytes.capacity() {
            let mut larger = spare.take(capacity);
            larger.extend_from_slice(&self.bytes);
            spare.put(std::mem::replace(&mut self.bytes, larger));
        }
        self.bytes.extend_from_slice(&bytes[..count]);
        if let Some(came) = packet.filter(|_| count > 0) {
            self.packets.push(came, offset..offset + count as u64);
        }
        count
    }

    /// Whether the chunk is full.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.size
    }

    /// The chunk, preceded by `gap_bytes` missing bytes.
    pub fn chunk(&self, gap_bytes: u64) -> Chunk<'_> {
        let Self { offset, ref bytes, old, .. } = *self;
        Chunk { offset, bytes, overlap: old, gap_bytes, packets: self.packets.packets() }
    }

    /// Starts the next chunk after a delivery: with the overlap, or with the whole chunk if it is `kept`.
    pub fn next(&mut self, params: &ChunkParams, kept: bool, spare: &mut Spare) {
        let overlap = match kept && self.bytes.len() + params.bytes as usize <= KEPT_BYTES_MAX {
            true => self.bytes.len(),
            false => (params.overlap as usize).min(self.bytes.len()),
        };
        let gone = self.bytes.len() - overlap;
        // A waiting stream holds no more memory than it needs.
        if gone > 0 {
            let rest = self.bytes[gone..].to_vec();
            spare.put(std::mem::replace(&mut self.bytes, rest));
        }
        self.offset += gone as u64;
        self.packets.keep_from(self.offset);
        self.old = overlap;
        let own = if kept { self.bytes.len() } else { 0 };
        self.size = own + params.bytes as usize;
    }

    /// Discards everything: the next bytes are not contiguous.
    pub fn clear(&mut self, spare: &mut Spare) {
        spare.put(std::mem::take(&mut self.bytes));
        self.packets.clear();
        self.old = 0;
    }
}

/// Unused buffers.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// Limits of the number of kept buffers, and of the bytes of each.
    const BUFFERS_MAX: usize = 16;
    const BUFFER_BYTES_MAX: usize = 64 << 10;

    /// An empty buffer with room for `capacity` bytes and little more.
    fn take(&mut self, capacity: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| buffer.capacity() == capacity;
        match self.0.iter().rposition(fits) {
            Some(found) => self.0.swap_remove(found),
            None => Vec::with_capacity(capacity),
        }
    }

    fn put(&mut self, mut buffer: Vec<u8>) {
        if !(1..=Self::BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        if self.0.len() == Self::BUFFERS_MAX {
            self.0.remove(0);
        }
        self.0.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: ChunkParams = ChunkParams { bytes: 4, overlap: 1, flush_ns: 0 };

    /// The chunk's offset, its text, and the bytes delivered before.
    fn told(chunker: &Chunker) -> (u64, &str, usize) {
        let Chunk { offset, bytes, overlap, .. } = chunker.chunk(0);
        (offset, std::str::from_utf8(bytes).unwrap(), overlap)
    }

    #[test]
    fn a_chunk_begins_with_the_end_of_the_one_before() {
        let (mut chunker, mut spare) = (Chunker::default(), Spare::default());
        assert_eq!(chunker.growth(&PARAMS, 3, None), 4);
        assert_eq!(chunker.push(&PARAMS, (10, b"abcdef"), None, 1, &mut spare), 4);
        assert!(chunker.is_full());
        assert_eq!(told(&chunker), (10, "abcd", 0));
        chunker.next(&PARAMS, false, &mut spare);
        assert_eq!((chunker.waiting(), chunker.since(), chunker.cost()), (0, None, 1));
        assert_eq!(chunker.push(&PARAMS, (14, b"ef"), None, 2, &mut spare), 2);
        assert_eq!(told(&chunker), (13, "def", 1));
        assert_eq!((chunker.is_full(), chunker.since()), (false, Some(2)));
    }

    #[test]
    fn a_kept_chunk_is_merged_with_the_next() {
        let (mut chunker, mut spare) = (Chunker::default(), Spare::default());
        chunker.push(&PARAMS, (0, b"abcd"), None, 0, &mut spare);
        chunker.next(&PARAMS, true, &mut spare);
        assert_eq!(chunker.push(&PARAMS, (4, b"efghij"), None, 0, &mut spare), 4);
        assert_eq!(told(&chunker), (0, "abcdefgh", 4));
        chunker.next(&PARAMS, false, &mut spare);
        assert_eq!(chunker.push(&PARAMS, (8, b"ij"), None, 0, &mut spare), 2);
        assert_eq!(told(&chunker), (7, "hij", 1));
    }
}

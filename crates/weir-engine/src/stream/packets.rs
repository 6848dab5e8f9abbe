//! The packets of a chunk, for questions that ask for them ([`StreamParams::packets`](super::StreamParams)).
//!
//! If bytes pass by reference, the packet does, too: the current one, or one that waited with its bytes in
//! the sequence. A chunk that is being filled copies frames, as it copies their payload: `PacketLog`. The
//! copies count in the memory of streams.

use crate::sequence::FrameRef;
use std::ops::Range;
use weir_packet::PacketMeta;

/// A packet whose payload is in a chunk, in full or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPacket<'a> {
    /// The metadata: time, number, lengths. Its `offset` has no meaning here.
    pub meta: PacketMeta,
    /// The captured bytes. For a fragmented datagram, the packet that completed it; inside a tunnel, the
    /// whole outer packet.
    pub frame: &'a [u8],
    /// The range of the chunk's bytes that the packet brought.
    pub bytes: Range<usize>,
    /// Other bytes of the packet passed before: in this chunk, in an earlier one, or they were given up for
    /// lack of memory. A subscriber that wants each packet once skips this one.
    pub is_repeated: bool,
}

/// The packets of a chunk, in the order of their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Packets<'a> {
    entries: &'a [Entry],
    frames: &'a [u8],
}

/// A packet that carries bytes of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CarrierPacket<'a> {
    pub frame: FrameRef<'a>,
    /// Other bytes of the packet have passed before.
    pub is_repeated: bool,
}

/// A packet in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    meta: PacketMeta,
    /// Offset among the frames.
    at: usize,
    /// The range of the stream's bytes that the packet brought.
    start: u64,
    end: u64,
    is_repeated: bool,
}

impl CarrierPacket<'_> {
    /// An entry for this packet, whose frame is at offset `at` and which brought `bytes` of the stream.
    pub(super) fn entry(&self, at: usize, bytes: Range<u64>) -> Entry {
        let &CarrierPacket { frame, is_repeated } = self;
        Entry { meta: *frame.meta, at, start: bytes.start, end: bytes.end, is_repeated }
    }
}

impl<'a> Packets<'a> {
    /// The packets of these entries.
    pub(super) fn new(entries: &'a [Entry], frames: &'a [u8]) -> Self {
        Self { entries, frames }
    }

    /// The packets of a chunk that begins at `offset` of the stream.
    pub(super) fn iter(self, offset: u64) -> impl ExactSizeIterator<Item = StreamPacket<'a>> {
        self.entries.iter().map(move |entry| StreamPacket {
            meta: entry.meta,
            frame: &self.frames[entry.at..][..entry.meta.captured_bytes as usize],
            bytes: (entry.start - offset) as usize..(entry.end - offset) as usize,
            is_repeated: entry.is_repeated,
        })
    }
}

/// Copies of the packets of a chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct PacketLog {
    entries: Vec<Entry>,
    frames: Vec<u8>,
}

impl PacketLog {
    /// Bytes of memory.
    pub fn cost(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.frames.capacity()
    }

    /// Limit of additional memory in bytes for adding this packet.
    pub fn growth(&self, came: &CarrierPacket<'_>) -> usize {
        let entries = grown(self.entries.len() + 1).saturating_sub(self.entries.capacity());
        let frames = grown(self.frames.len() + came.frame.bytes.len()).saturating_sub(self.frames.capacity());
        entries * size_of::<Entry>() + frames
    }

    /// Adds a packet with the range of stream bytes that it brought.
    pub fn push(&mut self, came: &CarrierPacket<'_>, bytes: Range<u64>) {
        // The packet's first bytes were the last of a chunk that the subscriber kept.
        if let Some(last) = self.entries.last_mut()
            && last.meta.number == came.frame.meta.number
            && last.end == bytes.start
        {
            last.end = bytes.end;
            return;
        }
        let at = self.frames.len();
        reserve(&mut self.entries, 1);
        reserve(&mut self.frames, came.frame.bytes.len());
        self.entries.push(came.entry(at, bytes));
        self.frames.extend_from_slice(came.frame.bytes);
    }

    /// Keeps the packets of the next chunk, which begins at `offset` of the stream.
    pub fn keep_from(&mut self, offset: u64) {
        let first = self.entries.partition_point(|entry| entry.end <= offset);
        if first > 0 {
            let gone = self.entries.get(first).map_or(self.frames.len(), |entry| entry.at);
            // A waiting stream holds no more memory than it needs.
            self.entries = self.entries[first..].to_vec();
            self.frames = self.frames[gone..].to_vec();
            self.entries.iter_mut().for_each(|entry| entry.at -= gone);
        }
        for entry in &mut self.entries {
            entry.start = entry.start.max(offset);
            entry.is_repeated = true;
        }
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The packets of the chunk.
    pub fn packets(&self) -> Packets<'_> {
        Packets::new(&self.entries, &self.frames)
    }
}

/// The capacity for `count` items, which grows by doubling.
fn grown(count: usize) -> usize {
    count.next_power_of_two()
}

fn reserve<T>(all: &mut Vec<T>, more: usize) {
    let needed = all.len() + more;
    if needed > all.capacity() {
        all.reserve_exact(grown(needed) - all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a packet whose frame is `h` and its payload.
    fn push(log: &mut PacketLog, number: u64, text: &str, at: u64) {
        let bytes = format!("h{text}").into_bytes();
        let meta = PacketMeta { number, captured_bytes: bytes.len() as u32, ..PacketMeta::default() };
        let came = CarrierPacket { frame: FrameRef { meta: &meta, bytes: &bytes }, is_repeated: false };
        let (before, growth) = (log.cost(), log.growth(&came));
        log.push(&came, at..at + text.len() as u64);
        assert!(log.cost() <= before + growth, "{} bytes are more than {before} and {growth}", log.cost());
    }

    fn told(log: &PacketLog, offset: u64) -> Vec<(u64, &str, Range<usize>, bool)> {
        let frame = |packet: &StreamPacket<'_>| packet.frame.to_vec();
        assert!(log.packets().iter(offset).all(|packet| frame(&packet).starts_with(b"h")));
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        let packets = log.packets().iter(offset);
        packets.map(|one| (one.meta.number, text(one.frame), one.bytes, one.is_repeated)).collect()
    }

    #[test]
    fn the_next_chunk_begins_with_the_packets_of_what_it_repeats() {
        let mut log = PacketLog::default();
        push(&mut log, 1, "ab", 10);
        push(&mut log, 4, "cde", 12);
        push(&mut log, 3, "f", 15);
        assert_eq!(
            told(&log, 10),
            [(1, "hab", 0..2, false), (4, "hcde", 2..5, false), (3, "hf", 5..6, false)]
        );
        log.keep_from(14);
        assert_eq!(told(&log, 14), [(4, "hcde", 0..1, true), (3, "hf", 1..2, true)]);
        push(&mut log, 5, "gh", 16);
        assert_eq!(told(&log, 14)[2], (5, "hgh", 2..4, false));
        log.keep_from(18);
        assert_eq!((told(&log, 18).len(), log.cost()), (0, 0));
    }

    #[test]
    fn a_packet_that_goes_on_in_a_kept_chunk_is_one() {
        let mut log = PacketLog::default();
        push(&mut log, 1, "abcd", 0);
        log.keep_from(0);
        push(&mut log, 1, "ef", 4);
        assert_eq!(told(&log, 0), [(1, "habcd", 0..6, true)]);
    }
}

//! The blocks of a segment (draft-ietf-opsawg-pcapng): a section, interfaces, packets, and the index. All
//! numbers are little-endian, and all blocks have whole words.

use crate::key::{KEY_WORDS, Key};
use crate::layout::WORD;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_packet::LinkType;

pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const PACKET: u32 = 6;
/// The index of a segment: a number for local use, which other readers skip.
pub(crate) const INDEX: u32 = 0xc7e1_4f01;

/// Bytes of a packet block before its data.
pub(crate) const PACKET_HEAD_BYTES: usize = 28;
/// Bytes of a block around its body.
pub(crate) const FRAME_BYTES: usize = 12;
/// The version of the index.
const INDEX_VERSION: u32 = 2;
/// An older version, which knows only packets without tags and tunnels, and has other words in its keys.
const INDEX_VERSION_BEFORE: u32 = 1;
/// Words of the index before its keys, and after its entries.
pub(crate) const INDEX_HEAD_WORDS: usize = 8;
pub(crate) const INDEX_END_WORDS: usize = 1;

/// The block that begins a section.
pub(crate) fn section() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend(u64::MAX.to_le_bytes());
    block(SECTION, body)
}

/// The description of an interface, whose packets have times in nanoseconds. `options`: further options,
/// without their end.
pub(crate) fn interface(link: LinkType, options: &[u8]) -> Vec<u8> {
    let mut body = link.0.to_le_bytes().to_vec();
    body.extend([0; 6]);
    body.extend([9, 0, 1, 0, 9, 0, 0, 0]);
    body.extend(options);
    body.extend([0; 4]);
    block(INTERFACE, body)
}

/// A block with this body. An end of options is repeated so that the block has whole words.
fn block(kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    body.resize((body.len() + FRAME_BYTES).next_multiple_of(WORD) - FRAME_BYTES, 0);
    let total = ((body.len() + FRAME_BYTES) as u32).to_le_bytes();
    [&kind.to_le_bytes(), &total, &body[..], &total].concat()
}

/// Words of the block of a packet.
pub(crate) fn packet_words(captured_bytes: usize) -> usize {
    (PACKET_HEAD_BYTES + captured_bytes.next_multiple_of(4) + 4).div_ceil(WORD)
}

/// Writes the block of a packet into `words`, which are as many as the block [needs](packet_words).
#[inline]
pub(crate) fn packet(interface: u32, time: u64, wire_bytes: u32, data: &[u8], words: &[AtomicU64]) {
    let Some((head, rest)) = words.split_first_chunk::<4>() else { return };
    let total = (words.len() * WORD) as u32;
    let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le();
    let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
    store(&head[0], pair(PACKET, total));
    store(&head[1], pair(interface, (time >> 32) as u32));
    store(&head[2], pair(time as u32, data.len() as u32));
    let (first, data) = data.split_at(data.len().min(4));
    let mut start = [0; 4];
    start[..first.len()].copy_from_slice(first);
    // A packet without bytes ends here.
    let start = if rest.is_empty() { total } else { u32::from_le_bytes(start) };
    store(&head[3], pair(wire_bytes, start));
    let chunks = data.chunks_exact(WORD);
    let (last, whole) = (chunks.remainder(), data.len() / WORD);
    for (word, chunk) in rest.iter().zip(chunks) {
        store(word, u64::from_ne_bytes(chunk.try_into().unwrap_or_default()));
    }
    // Fewer than eight bytes of data, padding or the end of options, and the length.
    let mut end = [0; 2 * WORD];
    end[..last.len()].copy_from_slice(last);
    let rest = rest.get(whole..).unwrap_or_default();
    let bytes = (rest.len() * WORD).min(end.len());
    if bytes > 0 {
        end[bytes - 4..bytes].copy_from_slice(&total.to_le_bytes());
    }
    for (word, chunk) in rest.iter().zip(end.chunks_exact(WORD)) {
        store(word, u64::from_ne_bytes(chunk.try_into().unwrap_or_default()));
    }
}

/// What the index says of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexHead {
    /// The keys are those that terms are compared with; otherwise the segment is read whole.
    pub has_terms: bool,
    /// The ring.
    pub identity: u64,
    pub serial: u64,
    pub writer: u32,
    pub first: i64,
    pub last: i64,
    /// Packets and interfaces.
    pub entries: u32,
    pub keys: u32,
    pub packets: u32,
    /// Bytes of the segment.
    pub segment_bytes: u32,
    /// Packets of the writer in earlier segments.
    pub before: u64,
}

impl IndexHead {
    /// The words before the keys. `words`: of the whole block.
    pub fn words(&self, words: usize) -> [u64; INDEX_HEAD_WORDS + 1] {
        let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le();
        [
            pair(INDEX, (words * WORD) as u32),
            pair(INDEX_VERSION, self.writer),
            self.identity.to_le(),
            self.serial.to_le(),
            (self.first as u64).to_le(),
            (self.last as u64).to_le(),
            pair(self.entries, self.keys),
            pair(self.packets, self.segment_bytes),
            self.before.to_le(),
        ]
    }
}

impl IndexHead {
    /// Bytes of the block that have the head.
    pub const BYTES: usize = (INDEX_HEAD_WORDS + 1) * WORD;

    /// The head in the first bytes of a block of this length. `None` if it is another block, or contradicts
    /// itself.
    pub fn of(block: &[u8], total: usize) -> Option<Self> {
        let word = |word: usize| u64_at(block, word * WORD);
        if !total.is_multiple_of(WORD) || u32_at(block, 0)? != INDEX || u32_at(block, 4)? as usize != total {
            return None;
        }
        let version = u32_at(block, 8)?;
        if version != INDEX_VERSION && version != INDEX_VERSION_BEFORE {
            return None;
        }
        let head = Self {
            has_terms: version == INDEX_VERSION,
            writer: u32_at(block, 12)?,
            identity: word(2)?,
            serial: word(3)?,
            first: word(4)? as i64,
            last: word(5)? as i64,
            entries: word(6)? as u32,
            keys: (word(6)? >> 32) as u32,
            packets: word(7)? as u32,
            segment_bytes: (word(7)? >> 32) as u32,
            before: word(8)?,
        };
        let words =
            INDEX_HEAD_WORDS + 1 + head.keys as usize * KEY_WORDS + head.entries as usize + INDEX_END_WORDS;
        (words <= total / WORD && total <= head.segment_bytes as usize).then_some(head)
    }
}

/// The bytes between the keys and the entries of the index of a complete segment, which are zeros: whole
/// multiples of `align`.
pub(crate) fn hole_of(segment: &[AtomicU64], align: usize) -> std::ops::Range<usize> {
    let word = |at: usize| segment.get(at).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)));
    let bytes = segment.len() * WORD;
    let index = bytes.saturating_sub((word(segment.len() - INDEX_END_WORDS) >> 32) as usize);
    let counts = word(index / WORD + 6);
    let (entries, keys) = (counts as u32 as usize, (counts >> 32) as usize);
    let start = index + (INDEX_HEAD_WORDS + 1 + keys * KEY_WORDS) * WORD;
    let end = bytes.saturating_sub((entries + INDEX_END_WORDS) * WORD);
    start.next_multiple_of(align)..end - end % align
}

/// The index of a complete segment.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    pub head: IndexHead,
    block: &'a [u8],
}

impl<'a> Index<'a> {
    /// The index in this block. `None` if it is another block, or contradicts itself.
    pub fn of(block: &'a [u8]) -> Option<Self> {
        let head = IndexHead::of(block, block.len())?;
        let made = Self { head, block };
        // Blocks follow each other, before the index.
        let end = (head.segment_bytes as usize).checked_sub(block.len())?;
        let mut last = None;
        let is_in_order = made.entries().all(|(_, start)| {
            let is_later = last.is_none_or(|last| start > last) && start < end && start % WORD == 0;
            last = Some(start);
            is_later
        });
        is_in_order.then_some(made)
    }

    /// The keys, in order of their numbers from 1.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let first = (INDEX_HEAD_WORDS + 1) * WORD;
        (0..self.head.keys as usize).map(move |key| {
            let at = first + key * KEY_WORDS * WORD;
            Key(std::array::from_fn(|word| u64_at(self.block, at + word * WORD).unwrap_or(0)))
        })
    }

    /// For each packet, the number of its key (0: none; [`NOT_A_PACKET`]: an interface) and its first byte in
    /// the segment, in order.
    pub fn entries(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let end = self.block.len() - INDEX_END_WORDS * WORD;
        (0..self.head.entries as usize).map(move |entry| {
            let entry = u64_at(self.block, end - (entry + 1) * WORD).unwrap_or(0);
            ((entry >> 32) as u32, entry as u32 as usize)
        })
    }
}

/// In an entry: the block describes an interface.
pub(crate) const NOT_A_PACKET: u32 = u32::MAX;

/// The entry of a block.
pub(crate) fn entry(key: u32, offset: usize) -> u64 {
    (u64::from(key) << 32 | offset as u64).to_le()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_packets_have_whole_words_and_their_bytes() {
        for length in 0..40_usize {
            let data: Vec<u8> = (1..=length as u8).collect();
            let mut bytes = vec![];
            let words: Vec<AtomicU64> = (0..packet_words(length)).map(|_| AtomicU64::new(u64::MAX)).collect();
            packet(7, 0x0123_4567_89ab_cdef, 99, &data, &words);
            words.iter().for_each(|word| bytes.extend(word.load(Ordering::Relaxed).to_ne_bytes()));
            assert_eq!(bytes.len(), packet_words(length) * WORD, "{length}");
            let word = |at| u32_at(&bytes, at).expect("a number");
            let head: Vec<u32> = (0..7).map(|at| word(at * 4)).collect();
            assert_eq!(head, [PACKET, bytes.len() as u32, 7, 0x0123_4567, 0x89ab_cdef, length as u32, 99]);
            assert_eq!(&bytes[28..28 + length], data);
            assert!(bytes[28 + length..bytes.len() - 4].iter().all(|byte| *byte == 0));
            assert_eq!(word(bytes.len() - 4) as usize, bytes.len());
        }
    }
}

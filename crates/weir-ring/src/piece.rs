//! A part of a segment that is read: in the ring, or in a file of the spool.

use crate::block::{INDEX_END_WORDS, Index, IndexHead, NOT_A_PACKET, u32_at};
use crate::key::Key;
use crate::layout::WORD;
use crate::ring::Ring;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use weir_packet::HeaderTerms;

/// Where a segment is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In the ring.
    Ring(Ring),
    /// In a file, from this byte on. The file is opened when it is read: a spool has thousands.
    File(Arc<PathBuf>, u64),
}

/// A part of a segment.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub place: Place,
    /// The ring whose segment it is, and the serial in this ring.
    pub identity: u64,
    pub serial: u64,
    pub writer: u32,
    /// The bytes of the segment.
    pub from: usize,
    pub to: usize,
    /// Packets of the segment up to `to`, and of the writer in earlier segments.
    pub packets: u64,
    pub before: u64,
    pub first: i64,
    pub last: i64,
    /// The segment ends with its index.
    pub has_index: bool,
}

impl Piece {
    /// The whole segment that has this index, at a byte of a file.
    pub fn of_index(head: &IndexHead, file: &Arc<PathBuf>, start: u64) -> Self {
        Self {
            place: Place::File(Arc::clone(file), start),
            identity: head.identity,
            serial: head.serial,
            writer: head.writer,
            from: 0,
            to: head.segment_bytes as usize,
            packets: head.packets.into(),
            before: head.before,
            first: head.first,
            last: head.last,
            has_index: true,
        }
    }

    /// Replaces `blocks` by the blocks of the piece: descriptions of interfaces, and the packets that may
    /// be needed. `false`: they have left their place.
    ///
    /// # Errors
    /// Those of a file.
    pub fn load(&self, terms: Option<&HeaderTerms>, blocks: &mut Vec<u8>) -> io::Result<bool> {
        blocks.clear();
        let loaded = Bytes::open(self).and_then(|bytes| self.load_from(&bytes, terms, blocks));
        match loaded {
            // The spool has removed the file, or a torn segment.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Ok(false),
            loaded => loaded,
        }
    }

    fn load_from(
        &self,
        bytes: &Bytes<'_>,
        terms: Option<&HeaderTerms>,
        blocks: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if !self.has_index {
            return bytes.copy(self.from, self.to, blocks);
        }
        let mut last = vec![];
        if !bytes.copy(self.to - INDEX_END_WORDS * WORD, self.to, &mut last)? {
            return Ok(false);
        }
        let total = last.last_chunk().map_or(0, |total| u32::from_le_bytes(*total)) as usize;
        let (at, mut block) = (self.to.saturating_sub(total) / WORD * WORD, vec![]);
        if !bytes.copy(at, self.to, &mut block)? {
            return Ok(false);
        }
        let index = Index::of(&block);
        let is_own = |head: &IndexHead| (head.identity, head.serial) == (self.identity, self.serial);
        match index {
            // Another segment is in this place of the file.
            Some(index) if !is_own(&index.head) => Ok(false),
            Some(index) if terms.is_some() && self.from == 0 && index.head.has_terms => {
                let runs = terms.map(|terms| runs(&index, terms, at)).unwrap_or_default();
                for (start, end) in runs {
                    if !bytes.copy(start, end, blocks)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // Without an index that can be believed, all packets are read.
            _ => bytes.copy(self.from, self.to, blocks),
        }
    }
}

/// The bytes of interfaces and of packets that may be needed, neighbours together; none if there is no
/// such packet. A block ends where the next one begins, the last one at `end`.
fn runs(index: &Index<'_>, terms: &HeaderTerms, end: usize) -> Vec<(usize, usize)> {
    let keys: Vec<Key> = index.keys().collect();
    let header = |number: usize| keys.get(number.checked_sub(1)?)?.header();
    let is_needed = |key: &Key| match (key.header(), key.inside()) {
        (Some(outer), 0) => terms.hold(&[outer]),
        // What cannot be believed is read.
        (outer, inside) => {
            outer.zip(header(inside as usize)).is_none_or(|(outer, inner)| terms.hold(&[outer, inner]))
        }
    };
    let wanted = (1..).zip(&keys).filter(|(_, key)| is_needed(key)).map(|(number, _)| number);
    let wanted: HashSet<u32> = wanted.chain([0]).collect();
    let (mut runs, mut has_packets): (Vec<(usize, usize)>, bool) = (vec![], false);
    let mut entries = index.entries().peekable();
    while let Some((key, start)) = entries.next() {
        let end = entries.peek().map_or(end, |(_, next)| *next);
        if key != NOT_A_PACKET && !wanted.contains(&key) {
            continue;
        }
        has_packets |= key != NOT_A_PACKET;
        match runs.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => runs.push((start, end)),
        }
    }
    if has_packets { runs } else { vec![] }
}

/// The bytes of a segment.
enum Bytes<'a> {
    Ring(&'a Ring, u64),
    File(File, u64),
}

impl<'a> Bytes<'a> {
    fn open(piece: &'a Piece) -> io::Result<Self> {
        Ok(match &piece.place {
            Place::Ring(ring) => Self::Ring(ring, piece.serial),
            Place::File(path, start) => Self::File(File::open(path.as_path())?, *start),
        })
    }

    /// Copies bytes behind those in `to`. `false`: they have left the ring.
    fn copy(&self, from: usize, end: usize, to: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            Self::Ring(ring, serial) => Ok(ring.copy(*serial, from, end, to)),
            Self::File(file, start) => {
                let before = to.len();
                to.resize(before + end.saturating_sub(from), 0);
                file.read_exact_at(&mut to[before..], start + from as u64)?;
                Ok(true)
            }
        }
    }
}

/// The head of the index of a segment in a file. `None`: the segment has none.
///
/// # Errors
/// Those of the file.
pub(crate) fn head_of(file: &File, start: u64, segment_bytes: usize) -> io::Result<Option<IndexHead>> {
    let end = start + segment_bytes as u64;
    let mut total = [0; 4];
    file.read_exact_at(&mut total, end - 4)?;
    let total = u32::from_le_bytes(total) as usize;
    if total > segment_bytes || total < IndexHead::BYTES {
        return Ok(None);
    }
    let mut head = [0; IndexHead::BYTES];
    file.read_exact_at(&mut head, end - total as u64)?;
    Ok(IndexHead::of(&head, total).filter(|head| head.segment_bytes as usize == segment_bytes))
}

/// A block, and the place behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub kind: u32,
    pub end: usize,
    /// Of a packet.
    pub time: i64,
}

impl Block {
    /// The block at a byte of `blocks`. `None`: it contradicts itself, or there is none.
    pub fn at(blocks: &[u8], at: usize) -> Option<Self> {
        use crate::block::{FRAME_BYTES, PACKET, PACKET_HEAD_BYTES};
        let (kind, total) = (u32_at(blocks, at)?, u32_at(blocks, at + 4)? as usize);
        let end = at.checked_add(total)?;
        if total < FRAME_BYTES
            || !total.is_multiple_of(4)
            || u32_at(blocks, end.checked_sub(4)?)? as usize != total
        {
            return None;
        }
        if kind != PACKET {
            return Some(Self { kind, end, time: i64::MIN });
        }
        let captured = u32_at(blocks, at + 20)? as usize;
        if captured.saturating_add(PACKET_HEAD_BYTES + 4) > total {
            return None;
        }
        let (high, low) = (u32_at(blocks, at + 12)?, u32_at(blocks, at + 16)?);
        let time = (u64::from(high) << 32 | u64::from(low)) as i64;
        Some(Self { kind, end, time })
    }
}

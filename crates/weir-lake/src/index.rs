//! The index of a capture: chunks at which reading can begin, the pairs of hosts in each, and the pairs open
//! behind each.
//!
//! ```text
//! file    magic:8 crc:u32le body                 crc: CRC-32 of body
//! body    identity zstd interfaces packets error heads chunks deadlines joined clock
//! ```
//!
//! An index is as trustworthy as the folder that holds it: the checksum finds damage, and the bounds of each
//! number are checked. An index that somebody changed on purpose can only make rows wrong.

use crate::coding::{Malformed, Reader, Writer};
use weir::ClockState;

/// The first bytes of an index; the last one is the version of its form.
const MAGIC: &[u8; 8] = b"WEIRIDX\x01";

/// Limit of packets, of bytes, and of places in a capture: sums of them over many captures fit 64 bits.
const NUMBER_MAX: u64 = 1 << 44;

/// A pair of hosts, or several: 32 bits of the number of a [`PacketPair`](weir::PacketPair). Pairs with equal
/// bits are read together.
pub type Pair = u32;

/// What an index was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of the capture as it is stored.
    pub size_bytes: u64,
    /// When the capture was changed, or another number that differs when the capture does.
    pub stamp: u64,
    /// A number of the settings that decide about connections (stack, time-outs), and of the engine's
    /// version.
    pub settings: u64,
    /// The size of chunks that was asked for, uncompressed bytes.
    pub chunk_bytes: u64,
}

/// The index of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// What the index was made of.
    pub identity: Identity,
    /// The capture consists of zstd frames, at which reading begins.
    pub is_zstd: bool,
    /// Interfaces that the capture describes.
    pub interfaces: u32,
    /// Packets before the first damage.
    pub packets: u64,
    /// Why the rest of the capture, or all of it, cannot be read.
    pub error: Option<String>,
    /// What readers must know where chunks begin: file headers, sections and interfaces.
    pub heads: Vec<Vec<u8>>,
    /// The chunks, in the order of the file. None if there is no packet.
    pub chunks: Vec<Chunk>,
    /// When the open pairs of the last chunk end at the latest if they have no more packets, nanoseconds
    /// since 1970; in their order.
    pub deadlines: Vec<i64>,
    /// Pairs with tunnels, each with a pair inside: a connection may leave its tunnel, or enter another one.
    pub joined: Vec<(Pair, Pair)>,
    /// The clock behind the last packet.
    pub clock: ClockState,
}

/// A part of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where reading or decompressing begins, bytes of the stored file.
    pub start: u64,
    /// Uncompressed bytes to skip from there.
    pub skip: u64,
    /// Which of the index's heads comes before the bytes.
    pub head: u32,
    /// Offset of the chunk in the uncompressed file.
    pub offset_bytes: u64,
    /// Uncompressed bytes; `None`: all that follow.
    pub length_bytes: Option<u64>,
    /// Stored bytes to read, for the division of work.
    pub stored_bytes: u64,
    /// Packets of the capture before the chunk, and in the chunk.
    pub first_packet: u64,
    /// Packets in the chunk.
    pub packets: u64,
    /// The number in the file of the first interface that the head describes.
    pub first_interface: u16,
    /// The time of the first packet, nanoseconds since 1970.
    pub first_time: i64,
    /// The earliest and the latest time of a packet.
    pub times: (i64, i64),
    /// The clock before the chunk.
    pub clock: ClockState,
    /// The latest time that the clock shows in the chunk.
    pub clock_max: i64,
    /// The pairs with packets in the chunk, sorted.
    pub pairs: Vec<Pair>,
    /// The pairs with state behind the chunk, sorted.
    pub open: Vec<Pair>,
}

impl Index {
    /// The time of the first packet, by which readers order captures.
    pub fn first_time(&self) -> Option<i64> {
        self.chunks.first().map(|chunk| chunk.first_time)
    }

    /// The earliest time of a packet, and the latest one.
    pub fn times(&self) -> Option<(i64, i64)> {
        let first = self.chunks.iter().map(|chunk| chunk.times.0).min()?;
        Some((first, self.chunks.iter().map(|chunk| chunk.times.1).max()?))
    }

    /// The index as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let Identity { size_bytes, stamp, settings, chunk_bytes } = self.identity;
        [size_bytes, stamp, settings, chunk_bytes, self.is_zstd.into(), self.interfaces.into(), self.packets]
            .into_iter()
            .for_each(|number| out.number(number));
        out.list(self.error.as_slice(), |out, error| out.bytes(error.as_bytes()));
        out.list(&self.heads, |out, head| out.bytes(head));
        out.list(&self.chunks, encode_chunk);
        out.list(&self.deadlines, |out, &at| out.signed(at));
        out.list(&self.joined, |out, &(one, other)| {
            out.number(one.into());
            out.number(other.into());
        });
        write_clock(&mut out, &self.clock);
        let mut file = MAGIC.to_vec();
        file.extend_from_slice(&crc32fast::hash(&out.0).to_le_bytes());
        file.extend_from_slice(&out.0);
        file
    }

    /// The index in bytes.
    ///
    /// # Errors
    /// The bytes are damaged, or of another version: the index has to be made again.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let body = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
        let (sum, body) = body.split_first_chunk::<4>().ok_or(Malformed)?;
        if u32::from_le_bytes(*sum) != crc32fast::hash(body) {
            return Err(Malformed);
        }
        let mut from = Reader(body);
        let mut next = || from.number();
        let identity =
            Identity { size_bytes: next()?, stamp: next()?, settings: next()?, chunk_bytes: next()? };
        let index = Self {
            identity,
            is_zstd: from.number()? != 0,
            interfaces: from.narrow()?,
            packets: from.number()?,
            error: from.list(Reader::text)?.pop(),
            heads: from.list(|from| from.bytes().map(<[u8]>::to_vec))?,
            chunks: from.list(decode_chunk)?,
            deadlines: from.list(Reader::signed)?,
            joined: from.list(|from| Ok((from.narrow()?, from.narrow()?)))?,
            clock: read_clock(&mut from)?,
        };
        if from.0.is_empty() && index.is_consistent() { Ok(index) } else { Err(Malformed) }
    }

    /// Whether the parts refer to each other as they must.
    fn is_consistent(&self) -> bool {
        let mut before = 0u64;
        let follows = |chunk: &Chunk| {
            let is_next = chunk.first_packet == before && chunk.packets > 0;
            before = before.saturating_add(chunk.packets);
            let Chunk { start, skip, offset_bytes, length_bytes, stored_bytes, packets, .. } = *chunk;
            let numbers = [start, skip, offset_bytes, length_bytes.unwrap_or(0), stored_bytes, packets];
            let is_sane = numbers.into_iter().all(|number| number <= NUMBER_MAX);
            is_next && is_sane && (chunk.head as usize) < self.heads.len() && chunk.times.0 <= chunk.times.1
        };
        let open = self.chunks.last().map_or(0, |chunk| chunk.open.len());
        self.chunks.iter().all(follows)
            && before == self.packets
            && before <= NUMBER_MAX
            && self.deadlines.len() == open
    }
}

fn encode_chunk(out: &mut Writer, chunk: &Chunk) {
    let Chunk { start, skip, head, offset_bytes, length_bytes, stored_bytes, first_packet, packets, .. } =
        *chunk;
    let length = length_bytes.map_or(0, |bytes| bytes.saturating_add(1));
    let numbers = [start, skip, head.into(), offset_bytes, length, stored_bytes, first_packet, packets];
    numbers.into_iter().for_each(|number| out.number(number));
    out.number(chunk.first_interface.into());
    [chunk.first_time, chunk.times.0, chunk.times.1, chunk.clock_max]
        .into_iter()
        .for_each(|time| out.signed(time));
    write_clock(out, &chunk.clock);
    out.set(&chunk.pairs);
    out.set(&chunk.open);
}

fn decode_chunk(from: &mut Reader<'_>) -> Result<Chunk, Malformed> {
    let (start, skip, head) = (from.number()?, from.number()?, from.narrow()?);
    let (offset_bytes, length) = (from.number()?, from.number()?);
    Ok(Chunk {
        start,
        skip,
        head,
        offset_bytes,
        length_bytes: length.checked_sub(1),
        stored_bytes: from.number()?,
        first_packet: from.number()?,
        packets: from.number()?,
        first_interface: from.narrow()?,
        first_time: from.signed()?,
        times: (from.signed()?, from.signed()?),
        clock_max: from.signed()?,
        clock: read_clock(from)?,
        pairs: from.set()?,
        open: from.set()?,
    })
}

pub(crate) fn write_clock(out: &mut Writer, clock: &ClockState) {
    out.signed(clock.now);
    out.signed(clock.last);
    out.number(clock.behind.into());
}

pub(crate) fn read_clock(from: &mut Reader<'_>) -> Result<ClockState, Malformed> {
    Ok(ClockState { now: from.signed()?, last: from.signed()?, behind: from.narrow()? })
}

//! Reads packets of the past, and those that are written meanwhile, as the bytes of one pcapng file:
//! everything behind is the same as for other captures.

use crate::block::{self, INTERFACE, PACKET, u32_at};
use crate::piece::{Block, Piece, Place};
use crate::recorders::has_ended;
use crate::ring::Ring;
use crate::spool::SpoolFiles;
use crate::time_range::TimeRange;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_packet::HeaderTerms;

/// Bytes that are made at a time.
const OUT_BYTES: usize = 1 << 20;
/// A reader that follows looks for packets in this interval.
const LOOK: Duration = Duration::from_millis(10);

/// What readers are asked for, and what they tell.
#[derive(Debug, Default)]
pub struct Selection {
    times: TimeRange,
    /// Only packets of these terms are needed.
    terms: Mutex<Option<Arc<HeaderTerms>>>,
    /// Packets that left the ring before they were read, and are in no spool.
    lost: AtomicU64,
    /// Segments of which the index has shown that they have no packet of interest.
    skipped: AtomicU64,
    /// Segments that were read.
    read: AtomicU64,
    /// Set when nothing more is wanted.
    ends: Option<Arc<AtomicBool>>,
}

impl Selection {
    /// Packets with these times.
    pub fn of(times: TimeRange) -> Self {
        Self { times, ..Self::default() }
    }

    /// Once this is set, readers end early, and those that follow end with what is there.
    #[must_use]
    pub fn ending_with(self, ends: Arc<AtomicBool>) -> Self {
        Self { ends: Some(ends), ..self }
    }

    fn has_ended(&self) -> bool {
        self.ends.as_ref().is_some_and(|ends| ends.load(Ordering::Acquire))
    }

    /// Only packets of these terms are needed from now on; `None`: all.
    pub fn narrow(&self, terms: Option<HeaderTerms>) {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = terms.map(Arc::new);
    }

    /// Packets that left the ring before they were read.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Segments read, and segments skipped because their index has no packet of interest.
    pub fn segments(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.skipped.load(Ordering::Relaxed))
    }

    fn terms(&self) -> Option<Arc<HeaderTerms>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the packets of a ring and of its spool.
pub struct Reader {
    ring: Option<Ring>,
    spool: Option<SpoolFiles>,
    /// A connection that ends with the recorder.
    recorder: Option<UnixStream>,
    times: TimeRange,
    selection: Arc<Selection>,
    follows: bool,
    /// What was planned of each writer of each ring.
    planned: HashMap<Key, Planned>,
    streams: BTreeMap<Key, Stream>,
    /// The streams that have packets, by a time that is not later than that of their next packet.
    turns: BinaryHeap<Reverse<(i64, Key)>>,
    /// The descriptions of interfaces that were passed on.
    interfaces: Vec<Vec<u8>>,
    out: Vec<u8>,
    out_at: usize,
    /// The spool was listed; later only what is missing is looked for there.
    has_listed: bool,
    /// What is there was planned.
    is_planned: bool,
    /// The recorder, or the wish to follow it, has ended: what was planned then is the last.
    is_last_look: bool,
    has_ended: bool,
    /// The first damage, which is reported at the end.
    damage: Option<String>,
}

/// The identity of a ring, and a writer of it.
type Key = (u64, u32);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("times", &self.times).finish_non_exhaustive()
    }
}

/// How far a writer's packets were planned.
#[derive(Debug, Clone, Copy, Default)]
struct Planned {
    serial: u64,
    /// Bytes of the segment with this serial.
    bytes: usize,
    /// Packets of the writer up to there.
    packets: u64,
}

/// The pieces of a writer.
#[derive(Default)]
struct Stream {
    pieces: VecDeque<Piece>,
    /// The blocks of the current piece, and the first that was not passed on.
    blocks: Vec<u8>,
    at: usize,
    serial: u64,
    /// For each interface of the section, its number among those that were passed on.
    interfaces: Vec<u32>,
    /// It has a place in `turns`.
    has_turn: bool,
}

impl Reader {
    /// Reads what is in the ring and in the spool now. With `follows`, goes on with what is written later,
    /// and does not end.
    pub fn new(
        ring: Option<Ring>,
        spool: Option<SpoolFiles>,
        follows: bool,
        selection: Arc<Selection>,
    ) -> Self {
        Self {
            ring,
            spool,
            recorder: None,
            times: selection.times,
            selection,
            follows,
            planned: HashMap::new(),
            streams: BTreeMap::new(),
            turns: BinaryHeap::new(),
            interfaces: vec![],
            out: block::section(),
            out_at: 0,
            has_listed: false,
            is_planned: false,
            is_last_look: false,
            has_ended: false,
            damage: None,
        }
    }

    /// A reader that follows ends when this connection does.
    #[must_use]
    pub fn with_recorder(mut self, recorder: UnixStream) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// After the end: goes on with what was written since, as the bytes of another pcapng file with the same
    /// interfaces.
    pub fn resume(&mut self) {
        self.out = block::section();
        self.interfaces.iter().for_each(|described| self.out.extend_from_slice(described));
        self.out_at = 0;
        (self.is_planned, self.has_ended) = (false, false);
        // Between two parts, a reader needs no memory for packets.
        self.streams.values_mut().for_each(|stream| (stream.blocks, stream.at) = (vec![], 0));
    }

    /// The pieces of the ring that were not planned.
    fn in_ring(&self) -> Vec<Piece> {
        let Some(ring) = &self.ring else { return vec![] };
        let identity = ring.identity();
        let piece = |used: crate::layout::Use| Piece {
            place: Place::Ring(ring.clone()),
            identity,
            serial: used.serial,
            writer: used.writer,
            from: 0,
            to: used.bytes,
            packets: used.packets,
            before: used.before,
            first: used.first,
            last: used.last,
            has_index: used.is_complete,
        };
        let is_new = |used: &crate::layout::Use| {
            let planned = self.planned.get(&(identity, used.writer)).copied().unwrap_or_default();
            (used.serial, used.bytes) > (planned.serial, planned.bytes)
        };
        ring.uses().into_iter().filter(is_new).map(piece).collect()
    }

    /// Plans to read what is there and was not planned yet. Returns whether there is something.
    fn plan(&mut self) -> io::Result<bool> {
        let is_first = !std::mem::replace(&mut self.has_listed, true);
        // Of the first listing of the ring, those that leave meanwhile are on the disk, or lost, which is
        // found out when they are read.
        let mut pieces: BTreeMap<(Key, u64), Piece> = BTreeMap::new();
        let mut add = |found: Vec<Piece>| {
            pieces.extend(
                found.into_iter().map(|piece| (((piece.identity, piece.writer), piece.serial), piece)),
            );
        };
        if is_first {
            add(self.in_ring());
            if let Some(spool) = &mut self.spool {
                add(spool.pieces(self.times.first)?);
                self.damage = spool.damage();
            }
        }
        // Memory is faster than a disk.
        add(self.in_ring());
        let mut is_any = false;
        for ((key, _), piece) in pieces {
            is_any |= self.plan_piece(key, piece, is_first)?;
        }
        Ok(is_any)
    }

    fn plan_piece(&mut self, key: Key, mut piece: Piece, is_first: bool) -> io::Result<bool> {
        let planned = self.planned.get(&key).copied();
        let Planned { serial, bytes, packets } = planned.unwrap_or_default();
        if piece.serial < serial || piece.serial == serial && piece.to <= bytes {
            return Ok(false);
        }
        let mut is_any = false;
        if piece.serial == serial {
            piece.from = bytes;
        } else if planned.is_some() && piece.before > packets && !is_first {
            // Packets were written and have left the ring since the last look.
            is_any = self.plan_missed(key, (serial, bytes, packets), &piece)?;
        }
        let next = Planned { serial: piece.serial, bytes: piece.to, packets: piece.before + piece.packets };
        self.planned.insert(key, next);
        Ok(self.add(key, piece, packets) || is_any)
    }

    /// Plans the pieces between those that were planned and `next`, from the spool. What is not there is
    /// lost.
    fn plan_missed(
        &mut self,
        key: Key,
        (serial, bytes, packets): (u64, usize, u64),
        next: &Piece,
    ) -> io::Result<bool> {
        let mut found = match &mut self.spool {
            Some(spool) => spool.pieces_between(key, serial..next.serial)?,
            None => vec![],
        };
        found.sort_by_key(|piece| piece.serial);
        let (mut is_any, mut known) = (false, packets);
        for mut piece in found {
            if piece.serial == serial {
                piece.from = bytes;
            }
            let end = piece.before + piece.packets;
            self.selection.lost.fetch_add(piece.before.saturating_sub(known), Ordering::Relaxed);
            let before = known.max(piece.before);
            known = known.max(end);
            is_any |= self.add(key, piece, before);
        }
        self.selection.lost.fetch_add(next.before.saturating_sub(known), Ordering::Relaxed);
        Ok(is_any)
    }

    /// Adds a piece, of which the writer's packets up to `known` were planned before. Returns whether it is
    /// of interest.
    fn add(&mut self, key: Key, mut piece: Piece, known: u64) -> bool {
        if piece.packets == 0 || !self.times.overlaps(piece.first, piece.last) || piece.from >= piece.to {
            return false;
        }
        // From here on, the number of packets that would be lost with the piece.
        piece.packets = (piece.before + piece.packets).saturating_sub(known.max(piece.before));
        let stream = self.streams.entry(key).or_default();
        if !stream.has_turn {
            stream.has_turn = true;
            self.turns.push(Reverse((piece.first, key)));
        }
        stream.pieces.push_back(piece);
        true
    }

    /// Loads the next piece of a stream, if its blocks are used up. Returns the time of the next packet;
    /// `None`: there is none.
    fn next_time(&mut self, key: Key) -> io::Result<Option<i64>> {
        loop {
            let Some(stream) = self.streams.get_mut(&key) else { return Ok(None) };
            if let Some(block) = Block::at(&stream.blocks, stream.at) {
                if block.kind == PACKET && self.times.overlaps(block.time, block.time) {
                    return Ok(Some(block.time));
                }
                if block.kind == INTERFACE {
                    self.add_interface(key, block.end);
                }
                if let Some(stream) = self.streams.get_mut(&key) {
                    stream.at = block.end;
                }
                continue;
            }
            if stream.at < stream.blocks.len() {
                self.damage.get_or_insert_with(|| {
                    format!("segment {} of the recorder is damaged: packets are missing", stream.serial)
                });
            }
            let Some(piece) = stream.pieces.pop_front() else {
                (stream.blocks, stream.at) = (vec![], 0);
                return Ok(None);
            };
            self.load(key, piece)?;
        }
    }

    fn load(&mut self, key: Key, mut piece: Piece) -> io::Result<()> {
        let Some(stream) = self.streams.get_mut(&key) else { return Ok(()) };
        if stream.serial != piece.serial {
            (stream.serial, stream.interfaces) = (piece.serial, vec![]);
            // What comes before has other times; its descriptions of interfaces are needed.
            piece.from = 0;
        }
        let terms = self.selection.terms();
        let mut is_loaded = piece.load(terms.as_deref(), &mut stream.blocks)?;
        if !is_loaded
            && let Some(spool) = &mut self.spool
            && let Some(on_disk) = spool.pieces_between(key, piece.serial..piece.serial + 1)?.pop()
        {
            let on_disk = Piece { from: piece.from, ..on_disk };
            is_loaded = on_disk.load(terms.as_deref(), &mut stream.blocks)?;
        }
        if !is_loaded {
            stream.blocks.clear();
            self.selection.lost.fetch_add(piece.packets, Ordering::Relaxed);
        }
        let counter = if stream.blocks.is_empty() { &self.selection.skipped } else { &self.selection.read };
        counter.fetch_add(1, Ordering::Relaxed);
        stream.at = 0;
        Ok(())
    }

    fn add_interface(&mut self, key: Key, end: usize) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let described = &stream.blocks[stream.at..end];
        let known = self.interfaces.iter().position(|known| known == described);
        let number = known.unwrap_or_else(|| {
            self.interfaces.push(described.to_vec());
            self.out.extend_from_slice(described);
            self.interfaces.len() - 1
        });
        stream.interfaces.push(number as u32);
    }

    /// Makes more bytes. Returns `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.out.clear();
        self.out_at = 0;
        while self.out.is_empty() {
            if !self.follows && self.selection.has_ended() {
                return self.end();
            }
            let Some(Reverse((due, key))) = self.turns.pop() else {
                if !self.wait()? {
                    return self.end();
                }
                continue;
            };
            let Some(time) = self.next_time(key)? else {
                self.forget(key);
                continue;
            };
            if time > due && self.turns.peek().is_some_and(|Reverse(next)| *next < (time, key)) {
                self.turns.push(Reverse((time, key)));
                continue;
            }
            let until = self.turns.peek().map_or(i64::MAX, |Reverse((time, _))| *time);
            self.pass(key, until);
            self.turns.push(Reverse((time, key)));
        }
        Ok(true)
    }

    /// Looks for packets. Returns `false` if none will come.
    fn wait(&mut self) -> io::Result<bool> {
        if !self.is_planned {
            self.is_planned = true;
            self.plan()?;
            return Ok(true);
        }
        if !self.follows {
            return Ok(false);
        }
        if self.is_last_look {
            return Ok(false);
        }
        // First the end, then what was written before.
        let has_ended = self.recorder.as_ref().is_some_and(has_ended) || self.selection.has_ended();
        self.is_last_look = has_ended;
        if self.plan()? {
            return Ok(true);
        }
        if !has_ended {
            std::thread::sleep(LOOK);
        }
        Ok(!has_ended)
    }

    /// The end: says what was damaged, once.
    fn end(&mut self) -> io::Result<bool> {
        self.has_ended = true;
        match self.damage.take() {
            Some(damage) => Err(io::Error::new(ErrorKind::InvalidData, damage)),
            None => Ok(false),
        }
    }

    /// A stream has no packets for now. More of its segment may come, without the descriptions of interfaces;
    /// the streams of other rings have no more.
    fn forget(&mut self, key: Key) {
        if self.ring.as_ref().is_some_and(|ring| ring.identity() == key.0) {
            self.streams.entry(key).and_modify(|stream| stream.has_turn = false);
        } else {
            self.streams.remove(&key);
        }
    }

    /// Passes on packets of a stream, at least one, up to this time.
    fn pass(&mut self, key: Key, until: i64) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let mut is_first = true;
        while let Some(block) = Block::at(&stream.blocks, stream.at) {
            let is_due = block.time <= until || is_first;
            if block.kind != PACKET || !is_due || self.out.len() >= OUT_BYTES {
                return;
            }
            is_first = false;
            let start = self.out.len();
            if self.times.overlaps(block.time, block.time) {
                self.out.extend_from_slice(&stream.blocks[stream.at..block.end]);
                let local = u32_at(&self.out, start + 8).unwrap_or(0) as usize;
                match stream.interfaces.get(local) {
                    Some(number) => self.out[start + 8..start + 12].copy_from_slice(&number.to_le_bytes()),
                    None => {
                        self.out.truncate(start);
                        self.damage.get_or_insert_with(|| {
                            format!(
                                "segment {} of the recorder is damaged: an interface is missing",
                                stream.serial
                            )
                        });
                    }
                }
            }
            stream.at = block.end;
        }
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.out_at == self.out.len() {
            if self.has_ended || !self.fill()? {
                return Ok(0);
            }
        }
        let rest = &self.out[self.out_at..];
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        self.out_at += count;
        Ok(count)
    }
}

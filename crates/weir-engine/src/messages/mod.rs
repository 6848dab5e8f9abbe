//! Messages: what a stream of bytes in order is made of, where a layer's edge says so (`-> messages`).
//!
//! Programs take messages apart; here is kept what they have not had, or not whole. Per direction there are runs of
//! bytes without a gap in them, the oldest first. A program is given a run, says how many bytes its first message took,
//! or how many it wants, and is given what is left of it, or again once they are there. A run that lies in one segment
//! is referred to; what is left of it when the segment is through is copied, and what comes behind it added.
//!
//! A gap ends a run: what its last message lacks is lost, and where the next one begins nobody knows. It is
//! looked for at the start of the next segment, as where a stream is met midway, or where a program finds no message
//! ([`MESSAGES_LOST`]): writers begin messages with segments more often than not.
//!
//! Where what comes is made of wholes (chunks that say which of them begin one, and which end it), each is a run of its
//! own, which is read once it ends. What is no part of a whole that began is none of it.
//!
//! What is there and unread when a flow ends is read then ([`flow_end`](crate::flow_end)).

mod run;

use crate::counters::MessageCounters;
use crate::flow_ref::FlowRef;
use crate::sequence::FrameRef;
use crate::table::{BuildIdHasher, FlowId, OwnedHeader};

use run::{Bytes, Run};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_ir::abi::{MESSAGES_LATER, MESSAGES_LOST, Slice, WHOLE_BEGINS, WHOLE_EDGE, WHOLE_ENDS};
use weir_ir::graph::Table;
use weir_packet::{Block, Direction, PacketMeta, Retention};

/// Bytes of a message at most: what wants more is no message.
pub const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Bytes that a worker keeps of unfinished messages at most.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Bytes that a packet may leave to the next one: each one copies what is left.
const LATER_BYTES_MAX: usize = 1 << 20;

/// Runs of one direction that one packet may bring at most.
const RUNS_MAX: usize = 4_096;

/// Runs of one direction that one packet may leave to the next one.
const LATER_RUNS_MAX: usize = 64;

/// A packet of a direction in which something waits.
#[derive(Debug)]
pub(crate) struct LastPacket {
    pub meta: PacketMeta,
    /// Of its bytes alone.
    pub block: Arc<Block>,
}

/// What is kept of one direction.
#[derive(Debug, Default)]
struct Unfinished {
    /// The last packet, while something waits in the sequence.
    last: Option<LastPacket>,
    runs: VecDeque<Run>,
    /// Bytes of the first run without which there is nothing new to be read.
    wanted: u64,
    /// Nothing follows the last run: bytes are missing, or it is a whole.
    has_gap: bool,
    /// Runs are wholes.
    wholes: bool,
}

impl Unfinished {
    /// Adds a segment to the last run, or as the next one.
    fn add(&mut self, bytes: &[u8], block: &Arc<Block>) {
        match self.runs.back_mut().filter(|_| !self.has_gap) {
            Some(run) => run.extend(bytes),
            None => {
                let bytes = match Slice::within(block, bytes) {
                    Some(slice) => Bytes::Referred(slice),
                    None => Bytes::Kept(bytes.to_vec()),
                };
                self.runs.push_back(Run { bytes, ..Run::default() });
            }
        }
    }

    /// The first run, but for a whole that has not ended.
    fn next_run(&mut self) -> Option<Run> {
        let is_open = self.runs.len() == 1 && self.open_whole().is_some();
        if is_open { None } else { self.runs.pop_front() }
    }

    /// The last run, where it is a whole that has not ended.
    fn open_whole(&mut self) -> Option<&mut Run> {
        self.runs.back_mut().filter(|_| self.wholes && !self.has_gap)
    }
}

/// A segment whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    /// Missing before it.
    pub gap_bytes: u64,
    /// As many of its bytes as were captured. They lie in `block`, or are copied.
    pub bytes: &'a [u8],
    /// As many as the headers claim.
    pub claimed_bytes: u64,
    pub block: &'a Arc<Block>,
    /// What the segment is of a whole, and the values that go with that; nothing where there are no wholes.
    pub whole: &'a [u64],
}

/// A part of a whole.
struct Part<'a> {
    kind: u64,
    values: &'a [u64],
    /// Bytes are missing before it.
    has_gap: bool,
    bytes: &'a [u8],
    block: &'a Arc<Block>,
    /// Some of it was not captured.
    is_cut: bool,
}

/// Whose messages are being read.
#[derive(Debug)]
struct CurrentRun {
    direction: u64,
    /// The run that was given out.
    run: Run,
}

/// The flow that carries messages.
#[derive(Debug, Clone)]
pub(crate) struct MessageCarrier {
    pub table: Table,
    pub header: OwnedHeader,
}

/// What all directions of a worker have unfinished.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    unfinished: HashMap<u64, Unfinished, BuildIdHasher>,
    current: Option<CurrentRun>,
    /// The flow that carries the current messages.
    carrier: Option<MessageCarrier>,
    /// A flow was found since the message was given out.
    is_inside: bool,
    /// Whether one was given out since somebody asked.
    has_begun: bool,
    /// Directions with bytes of the current packet, whose memory goes back to its source with the burst.
    borrowed: Vec<u64>,
    /// Bytes of all runs, and of packets that are kept.
    held_bytes: usize,
    /// These packets.
    kept_packets: usize,
    pub counters: MessageCounters,
}

/// The number of a direction.
fn direction(flow: FlowRef, side: Direction) -> u64 {
    u64::from(flow.table.0) << 33 | u64::from(flow.id.0) << 1 | side.index() as u64
}

/// The flow of a [`direction`].
fn flow_of(direction: u64) -> FlowRef {
    FlowRef::new(Table((direction >> 33) as u32), FlowId((direction >> 1) as u32))
}

impl Messages {
    /// Bytes of unfinished messages, and of packets that are kept for them.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// A segment of a direction comes.
    pub fn collect(&mut self, flow: FlowRef, side: Direction, segment: &Segment<'_>) {
        let &Segment { gap_bytes, bytes, claimed_bytes, block, whole } = segment;
        if block.retention() == Retention::Copy {
            self.borrowed.push(direction(flow, side));
        }
        if let Some(&kind) = whole.first() {
            let is_cut = (bytes.len() as u64) < claimed_bytes;
            let part = Part { kind, values: whole, has_gap: gap_bytes > 0, bytes, block, is_cut };
            return self.collect_part(direction(flow, side), &part);
        }
        let unfinished = self.unfinished.entry(direction(flow, side)).or_default();
        unfinished.has_gap |= gap_bytes > 0;
        if !bytes.is_empty() {
            let is_over = self.held_bytes + bytes.len() > TOTAL_BYTES_MAX;
            if is_over || unfinished.has_gap && unfinished.runs.len() >= RUNS_MAX {
                self.counters.message_bytes_lost += bytes.len() as u64;
                unfinished.has_gap = true;
                return;
            }
            self.held_bytes += bytes.len();
            unfinished.add(bytes, block);
            unfinished.has_gap = false;
        }
        unfinished.has_gap |= (bytes.len() as u64) < claimed_bytes;
    }

    /// As `collect`, of a part of a whole.
    fn collect_part(&mut self, direction: u64, part: &Part<'_>) {
        let unfinished = self.unfinished.entry(direction).or_default();
        unfinished.wholes = true;
        let Part { kind, bytes, .. } = *part;
        if part.has_gap || kind & WHOLE_BEGINS != 0 {
            self.counters.messages_cut += u64::from(self.drop_whole(direction));
        }
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return };
        let is_wanted = kind & WHOLE_EDGE != 0;
        if kind & WHOLE_BEGINS != 0 && is_wanted && unfinished.runs.len() < RUNS_MAX {
            let mut run = Run::default();
            run.values.iter_mut().zip(part.values).for_each(|(value, &given)| *value = given);
            unfinished.runs.push_back(run);
            unfinished.has_gap = false;
        }
        let Some(run) = unfinished.open_whole() else {
            self.counters.message_bytes_lost += if is_wanted { bytes.len() as u64 } else { 0 };
            return;
        };
        let is_too_long = (run.len() + bytes.len()) as u64 > MESSAGE_BYTES_MAX;
        if is_too_long || part.is_cut || self.held_bytes + bytes.len() > TOTAL_BYTES_MAX {
            self.counters.message_bytes_lost += bytes.len() as u64;
            self.drop_whole(direction);
            return match is_too_long {
                true => self.counters.messages_too_long += 1,
                false => self.counters.messages_cut += 1,
            };
        }
        self.held_bytes += bytes.len();
        let is_last = kind & WHOLE_ENDS != 0;
        match Slice::within(part.block, bytes).filter(|_| is_last && run.len() == 0) {
            Some(slice) => run.bytes = Bytes::Referred(slice),
            None => run.append(bytes),
        }
        let is_empty = run.len() == 0;
        if is_last {
            unfinished.has_gap = true;
            // Nothing is no message.
            unfinished.runs.pop_back_if(|_| is_empty);
        }
    }

    /// The whole that has not ended will not be; whether there was one.
    fn drop_whole(&mut self, direction: u64) -> bool {
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return false };
        if unfinished.open_whole().is_none() {
            return false;
        }
        let bytes = unfinished.runs.pop_back().map_or(0, |run| run.len());
        unfinished.has_gap = true;
        self.held_bytes -= bytes;
        self.counters.message_bytes_lost += bytes as u64;
        true
    }

    /// A value that came with the current whole.
    pub fn whole_value(&self, number: usize) -> u64 {
        let current = self.current.as_ref();
        current.and_then(|current| current.run.values.get(number)).copied().unwrap_or(0)
    }

    /// The first run of a direction in which there is something new to read, or no bytes. `packet` is the current one, where
    /// others have to come before all of its bytes can be read.
    pub fn first(
        &mut self,
        flow: FlowRef,
        side: Direction,
        carrier: MessageCarrier,
        packet: Option<FrameRef<'_>>,
    ) -> Slice {
        if packet.is_some() || self.kept_packets > 0 {
            self.take_packet(flow, side);
        }
        if let Some(packet) = packet {
            self.keep_packet(direction(flow, side), packet);
        }
        self.abandon();
        self.carrier = Some(carrier);
        self.give(direction(flow, side))
    }

    /// A packet may have ended in the middle of its messages: where a flow table was full.
    pub fn abandon(&mut self) {
        let Some(CurrentRun { direction, run }) = self.current.take() else { return };
        self.counters.messages_cut += 1;
        self.counters.message_bytes_lost += run.len() as u64;
        if let Some(unfinished) = self.unfinished.get_mut(&direction) {
            unfinished.has_gap |= unfinished.runs.is_empty();
        }
        self.leave(direction);
    }

    /// The current packet reads no more: of what is left only so much waits for the next one.
    fn leave(&mut self, direction: u64) {
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return };
        while unfinished.runs.len() > LATER_RUNS_MAX {
            let bytes = unfinished.runs.pop_back().map_or(0, |run| run.len());
            unfinished.has_gap = true;
            self.held_bytes -= bytes;
            self.counters.messages_cut += 1;
            self.counters.message_bytes_lost += bytes as u64;
        }
    }

    /// The current packet is through: unread bytes of it are copied where its memory goes back to its source.
    #[inline]
    pub fn end_packet(&mut self) {
        if !self.borrowed.is_empty() {
            self.hold_borrowed();
        }
    }

    fn hold_borrowed(&mut self) {
        let mut copied = 0;
        for direction in self.borrowed.drain(..) {
            let unread = self.unfinished.get_mut(&direction);
            copied += unread.into_iter().flat_map(|unread| &mut unread.runs).filter_map(Run::hold).count();
        }
        let current = self.current.as_mut().and_then(|current| current.run.hold());
        self.counters.message_runs_copied += (copied + usize::from(current.is_some())) as u64;
    }

    fn keep_packet(&mut self, direction: u64, packet: FrameRef<'_>) {
        if self.held_bytes + packet.bytes.len() > TOTAL_BYTES_MAX {
            return;
        }
        self.held_bytes += packet.bytes.len();
        self.kept_packets += 1;
        let block = Arc::new(Block::from(packet.bytes.to_vec()));
        let meta = PacketMeta { offset: 0, ..*packet.meta };
        self.unfinished.entry(direction).or_default().last = Some(LastPacket { meta, block });
    }

    /// The last packet of a direction, if something waited then; it is kept no longer.
    pub fn take_packet(&mut self, flow: FlowRef, side: Direction) -> Option<LastPacket> {
        let last = self.unfinished.get_mut(&direction(flow, side))?.last.take()?;
        self.held_bytes -= last.block.size_bytes();
        self.kept_packets -= 1;
        Some(last)
    }

    /// Of the current run the first message took `done` bytes; or it takes `wanted`, or is none ([`MESSAGES_LOST`]), or is
    /// for later ([`MESSAGES_LATER`]). What is left of it to read, or the next run.
    pub fn next(&mut self, done: u64, wanted: u64) -> Slice {
        let Some(CurrentRun { direction, run }) = self.current.take() else { return Slice::default() };
        if wanted == MESSAGES_LATER {
            self.leave(direction);
        }
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return Slice::default() };
        let is_last = unfinished.runs.is_empty() && !unfinished.has_gap;
        let run = run.behind(u32::try_from(done).unwrap_or(u32::MAX));
        if run.len() == 0 {
            return if wanted == MESSAGES_LATER { Slice::default() } else { self.give(direction) };
        }
        if wanted == 0 {
            // Given out again at once, so it need not be copied.
            self.held_bytes += run.len();
            unfinished.runs.push_front(run);
            return self.give(direction);
        }
        let is_later = wanted == MESSAGES_LATER;
        let may_wait =
            if is_later { run.len() <= LATER_BYTES_MAX } else { wanted <= MESSAGE_BYTES_MAX && is_last };
        if may_wait {
            let run = run.copied();
            self.held_bytes += run.len();
            // What wants nothing more than is there would be asked for for ever.
            unfinished.wanted = if is_later { 0 } else { wanted.max(run.len() as u64 + 1) };
            unfinished.runs.push_front(run);
            return Slice::default();
        }
        if is_later || wanted <= MESSAGE_BYTES_MAX {
            self.counters.messages_cut += 1;
            self.counters.message_bytes_lost += run.len() as u64;
            // What comes next begins anew.
            unfinished.has_gap |= unfinished.runs.is_empty();
            return if is_later { Slice::default() } else { self.give(direction) };
        }
        match wanted {
            MESSAGES_LOST => self.counters.messages_lost += 1,
            _ => self.counters.messages_too_long += 1,
        }
        self.look_further(direction, run);
        self.give(direction)
    }

    /// Where no message begins: perhaps where the next segment of the run does.
    fn look_further(&mut self, direction: u64, mut run: Run) {
        let Some(start) = run.starts.pop_front() else {
            self.counters.message_bytes_lost += run.len() as u64;
            return;
        };
        self.counters.message_bytes_lost += u64::from(start);
        let run = run.behind(start);
        self.held_bytes += run.len();
        if let Some(unfinished) = self.unfinished.get_mut(&direction) {
            unfinished.runs.push_front(run);
        }
    }

    /// The flow is over.
    pub fn release(&mut self, flow: FlowRef) {
        for side in Direction::BOTH {
            self.take_packet(flow, side);
            let Some(unfinished) = self.unfinished.remove(&direction(flow, side)) else { continue };
            for run in unfinished.runs {
                self.held_bytes -= run.len();
                self.counters.messages_cut += 1;
                self.counters.message_bytes_lost += run.len() as u64;
            }
        }
    }

    /// Messages of these tables' flows are wanted no longer.
    pub fn release_tables(&mut self, is_wanted: impl Fn(Table) -> bool) {
        let flows: Vec<_> = self.unfinished.keys().map(|direction| flow_of(*direction)).collect();
        flows.into_iter().filter(|flow| !is_wanted(flow.table)).for_each(|flow| self.release(flow));
    }

    /// There is nothing to be released.
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether a message was given out since this was asked last.
    pub fn take_begun(&mut self) -> bool {
        std::mem::take(&mut self.has_begun)
    }

    /// The packet is over: whether a message was given out is asked of the next one.
    pub fn forget_begun(&mut self) {
        self.has_begun = false;
    }

    /// Whether one was given out that is not over.
    pub fn is_reading(&self) -> bool {
        self.current.is_some()
    }

    /// A flow was found: what happens is of it.
    pub fn enter_flow(&mut self) {
        self.is_inside = true;
    }

    /// The flow that what happens is of, where it is not the one found last.
    pub fn carrier(&self) -> Option<MessageCarrier> {
        self.carrier.as_ref().filter(|_| self.current.is_some() && !self.is_inside).cloned()
    }

    fn give(&mut self, direction: u64) -> Slice {
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return Slice::default() };
        while let Some(mut run) = unfinished.next_run() {
            let wanted = std::mem::take(&mut unfinished.wanted);
            if run.len() as u64 >= wanted {
                self.held_bytes -= run.len();
                let slice = run.slice();
                self.current = Some(CurrentRun { direction, run });
                self.has_begun = true;
                self.is_inside = false;
                return slice;
            }
            if unfinished.runs.is_empty() && !unfinished.has_gap {
                unfinished.wanted = wanted;
                unfinished.runs.push_front(run);
                break;
            }
            self.held_bytes -= run.len();
            self.counters.messages_cut += 1;
            self.counters.message_bytes_lost += run.len() as u64;
        }
        Slice::default()
    }
}

#[cfg(test)]
mod tests;

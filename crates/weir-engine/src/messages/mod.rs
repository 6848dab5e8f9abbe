//! Messages that an in-order byte stream consists of, for layers whose edge declares them (`-> messages`).
//!
//! Programs parse messages; this module keeps the bytes that are unread, or whose message is incomplete. Each
//! direction has a list of runs (bytes without a gap), the oldest first. A program receives a run and returns
//! the number of bytes that its first message took, or the number that it needs. It then receives the rest of
//! the run, or the same run again once the needed bytes are there. A run that lies in one segment is a
//! reference; when the segment is done, the rest is copied, and later bytes are appended.
//!
//! A gap ends a run: the incomplete message before the gap is lost, and the start of the next message is
//! unknown. The module assumes a message at the start of the next segment, because writers usually begin
//! messages with segments. It does the same where a stream is captured from the middle, or where a program
//! finds no message ([`MESSAGES_LOST`]).
//!
//! If the stream consists of wholes (chunks that are marked as first or last of a whole), each whole is a run
//! of its own, which is read once it is complete. A chunk that belongs to no whole that began is dropped.
//!
//! Bytes that are unread when a flow ends are read then ([`flow_end`](crate::flow_end)).

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

/// Limit of bytes per message: a program that needs more has found no message.
pub const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Limit of bytes of unfinished messages per worker.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Limit of bytes that a packet may leave to the next one: each packet copies the rest.
const LATER_BYTES_MAX: usize = 1 << 20;

/// Limit of runs of one direction that one packet may add.
const RUNS_MAX: usize = 4_096;

/// Limit of runs of one direction that one packet may leave to the next one.
const LATER_RUNS_MAX: usize = 64;

/// The last packet of a direction in which bytes wait.
#[derive(Debug)]
pub(crate) struct LastPacket {
    pub meta: PacketMeta,
    /// A block that holds only the bytes of the packet.
    pub block: Arc<Block>,
}

/// The state of one direction.
#[derive(Debug, Default)]
struct Unfinished {
    /// The last packet, while bytes wait in the sequence.
    last: Option<LastPacket>,
    runs: VecDeque<Run>,
    /// The length that the first run must reach before it is read again.
    wanted: u64,
    /// Nothing is appended to the last run: bytes are missing after it, or it is a complete whole.
    has_gap: bool,
    /// The runs are wholes.
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

    /// The first run, unless it is an incomplete whole.
    fn next_run(&mut self) -> Option<Run> {
        let is_open = self.runs.len() == 1 && self.open_whole().is_some();
        if is_open { None } else { self.runs.pop_front() }
    }

    /// The last run, if it is an incomplete whole.
    fn open_whole(&mut self) -> Option<&mut Run> {
        self.runs.back_mut().filter(|_| self.wholes && !self.has_gap)
    }
}

/// A segment that is next in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    /// Bytes missing before it.
    pub gap_bytes: u64,
    /// The captured bytes. They lie in `block`, or are copied.
    pub bytes: &'a [u8],
    /// The number of bytes that the headers claim.
    pub claimed_bytes: u64,
    pub block: &'a Arc<Block>,
    /// Which part of a whole the segment is, and the values of that part; empty if the stream has no wholes.
    pub whole: &'a [u64],
}

/// A part of a whole.
struct Part<'a> {
    kind: u64,
    values: &'a [u64],
    /// Bytes are missing before the part.
    has_gap: bool,
    bytes: &'a [u8],
    block: &'a Arc<Block>,
    /// Some bytes of the part were not captured.
    is_cut: bool,
}

/// The run whose messages are being read.
#[derive(Debug)]
struct CurrentRun {
    direction: u64,
    /// The run that the program has received.
    run: Run,
}

/// The flow that carries messages.
#[derive(Debug, Clone)]
pub(crate) struct MessageCarrier {
    pub table: Table,
    pub header: OwnedHeader,
}

/// The unfinished messages of all directions of a worker.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    unfinished: HashMap<u64, Unfinished, BuildIdHasher>,
    current: Option<CurrentRun>,
    /// The flow that carries the current messages.
    carrier: Option<MessageCarrier>,
    /// A flow was found since the program received the message.
    is_inside: bool,
    /// A program has received a message since the last query.
    has_begun: bool,
    /// Directions that refer to bytes of the current packet, whose memory returns to its source with the
    /// burst.
    borrowed: Vec<u64>,
    /// Bytes of all runs and of kept packets.
    held_bytes: usize,
    /// Number of kept packets.
    kept_packets: usize,
    pub counters: MessageCounters,
}

/// Encodes a direction of a flow as a number.
fn direction(flow: FlowRef, side: Direction) -> u64 {
    u64::from(flow.table.0) << 33 | u64::from(flow.id.0) << 1 | side.index() as u64
}

/// The flow of an encoded [`direction`].
fn flow_of(direction: u64) -> FlowRef {
    FlowRef::new(Table((direction >> 33) as u32), FlowId((direction >> 1) as u32))
}

impl Messages {
    /// Bytes of unfinished messages, and of packets kept for them.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether the flow has unfinished messages.
    pub fn holds(&self, flow: FlowRef) -> bool {
        let has = |side| self.unfinished.contains_key(&direction(flow, side));
        !self.unfinished.is_empty() && Direction::BOTH.into_iter().any(has)
    }

    /// Adds a segment of a direction.
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

    /// As `collect`, for a part of a whole.
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
            // An empty run holds no message.
            unfinished.runs.pop_back_if(|_| is_empty);
        }
    }

    /// Drops the incomplete whole of a direction. Returns whether there was one.
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

    /// The first run of a direction that has new bytes to read, or an empty slice. `packet` is the current
    /// packet, if earlier bytes must arrive before all of its bytes can be read.
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

    /// Returns the current run: a packet may stop in the middle of its messages, for example when a flow
    /// table is full.
    pub fn abandon(&mut self) {
        let Some(CurrentRun { direction, run }) = self.current.take() else { return };
        self.counters.messages_cut += 1;
        self.counters.message_bytes_lost += run.len() as u64;
        if let Some(unfinished) = self.unfinished.get_mut(&direction) {
            unfinished.has_gap |= unfinished.runs.is_empty();
        }
        self.leave(direction);
    }

    /// The current packet reads no more: keeps the rest for the next packet, up to the bounds.
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

    /// The current packet is done: copies unread bytes whose memory returns to its source.
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

    /// Removes and returns the kept packet of a direction.
    pub fn take_packet(&mut self, flow: FlowRef, side: Direction) -> Option<LastPacket> {
        let last = self.unfinished.get_mut(&direction(flow, side))?.last.take()?;
        self.held_bytes -= last.block.size_bytes();
        self.kept_packets -= 1;
        Some(last)
    }

    /// Continues after the first message of the current run, which took `done` bytes; or needs `wanted`
    /// bytes, or is no message ([`MESSAGES_LOST`]), or is left for later ([`MESSAGES_LATER`]). Returns the
    /// rest of the run, or the next run.
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
            // The run is returned again at once, so it need not be copied.
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
            // A program that needs no more bytes than are there would receive the same run forever.
            unfinished.wanted = if is_later { 0 } else { wanted.max(run.len() as u64 + 1) };
            unfinished.runs.push_front(run);
            return Slice::default();
        }
        if is_later || wanted <= MESSAGE_BYTES_MAX {
            self.counters.messages_cut += 1;
            self.counters.message_bytes_lost += run.len() as u64;
            // The next bytes start a new message.
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

    /// No message begins here: tries the start of the next segment of the run.
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

    /// Releases the messages of a flow that is over.
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

    /// Releases the messages of flows in tables that are not wanted any longer.
    pub fn release_tables(&mut self, is_wanted: impl Fn(Table) -> bool) {
        let flows: Vec<_> = self.unfinished.keys().map(|direction| flow_of(*direction)).collect();
        flows.into_iter().filter(|flow| !is_wanted(flow.table)).for_each(|flow| self.release(flow));
    }

    /// There is nothing to release.
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether a program has received a message since the last call.
    pub fn take_begun(&mut self) -> bool {
        std::mem::take(&mut self.has_begun)
    }

    /// Clears the flag of [`take_begun`](Self::take_begun) at the end of a packet.
    pub fn forget_begun(&mut self) {
        self.has_begun = false;
    }

    /// Whether a program is reading a message.
    pub fn is_reading(&self) -> bool {
        self.current.is_some()
    }

    /// Records that a flow was found: later events of the message belong to that flow.
    pub fn enter_flow(&mut self) {
        self.is_inside = true;
    }

    /// The carrier of the current message, if no flow was found inside the message.
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

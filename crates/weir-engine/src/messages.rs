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
//! What is there and unread when a flow ends is read by `last`.

use crate::counters::MessageCounters;
use crate::decide::FlowKey;
use crate::sequence::{FrameRef, within};
use crate::table::{BuildIdHasher, Header};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_ir::abi::{MESSAGES_LATER, MESSAGES_LOST, Slice};
use weir_ir::graph::Table;
use weir_packet::{Block, PacketMeta};

/// Bytes of a message at most: what wants more is no message.
pub const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Bytes that a worker keeps of unfinished messages at most.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Bytes that a packet may leave to the next one: each one copies what is left.
const LATER_BYTES_MAX: usize = 1 << 20;

/// Runs that wait in one direction at most.
const RUNS_MAX: usize = 64;

/// Starts of segments that are remembered of a run at most.
const STARTS_MAX: usize = 256;

/// Bytes without a gap.
#[derive(Debug, Default)]
struct Run {
    bytes: Bytes,
    /// Where segments begin in it, but for the first.
    starts: VecDeque<u32>,
}

#[derive(Debug)]
enum Bytes {
    /// Of one segment, which is being taken apart.
    Referred(Slice),
    /// Copied, and may grow.
    Kept(Vec<u8>),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Kept(vec![])
    }
}

impl Run {
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Referred(slice) => slice.bytes(),
            Bytes::Kept(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Another segment, right behind.
    fn extend(&mut self, bytes: &[u8]) {
        if self.starts.len() < STARTS_MAX {
            self.starts.push_back(self.len() as u32);
        }
        match &mut self.bytes {
            Bytes::Kept(before) => before.extend_from_slice(bytes),
            Bytes::Referred(slice) => self.bytes = Bytes::Kept([slice.bytes(), bytes].concat()),
        }
    }

    /// As what lives while a program reads it.
    fn slice(&mut self) -> Slice {
        if let Bytes::Kept(bytes) = &mut self.bytes {
            let (length, bytes) = (bytes.len() as u32, std::mem::take(bytes));
            self.bytes = Bytes::Referred(Slice { block: Arc::new(Block::from(bytes)), offset: 0, length });
        }
        match &self.bytes {
            Bytes::Referred(slice) => slice.clone(),
            Bytes::Kept(_) => unreachable!("it was just made a reference"),
        }
    }

    /// Without its first bytes.
    fn behind(mut self, done: u32) -> Self {
        let Slice { block, offset, length } = self.slice();
        let done = done.min(length);
        self.bytes = Bytes::Referred(Slice { block, offset: offset + done, length: length - done });
        self.starts.iter_mut().for_each(|start| *start = start.saturating_sub(done));
        self.starts.retain(|start| *start > 0);
        self
    }

    /// Held by nobody else: blocks of capture are not kept from being used again.
    fn copied(mut self) -> Self {
        if let Bytes::Referred(slice) = &self.bytes {
            self.bytes = Bytes::Kept(slice.bytes().to_vec());
        }
        self
    }
}

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
    /// Bytes are missing behind the last run.
    has_gap: bool,
}

impl Unfinished {
    /// Adds a segment to the last run, or as the next one.
    fn add(&mut self, bytes: &[u8], block: &Arc<Block>) {
        match self.runs.back_mut().filter(|_| !self.has_gap) {
            Some(run) => run.extend(bytes),
            None => {
                let bytes = match within(block, bytes) {
                    Some(slice) => Bytes::Referred(slice),
                    None => Bytes::Kept(bytes.to_vec()),
                };
                self.runs.push_back(Run { bytes, starts: VecDeque::new() });
            }
        }
    }
}

/// Whose messages are being read.
#[derive(Debug)]
struct AtHand {
    direction: u64,
    /// The run that was given out.
    run: Run,
}

/// The flow that carries messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer {
    pub table: Table,
    pub header: Header,
}

/// What all directions of a worker have unfinished.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    unfinished: HashMap<u64, Unfinished, BuildIdHasher>,
    at_hand: Option<AtHand>,
    /// The flow that carries the messages at hand.
    bearer: Option<Bearer>,
    /// A flow was found since the message was given out.
    is_inside: bool,
    /// Whether one was given out since somebody asked.
    has_begun: bool,
    /// Bytes of all runs, and of packets that are kept.
    held_bytes: usize,
    /// These packets.
    kept_packets: usize,
    pub counters: MessageCounters,
}

/// The number of a direction.
fn direction((table, flow): FlowKey, side: bool) -> u64 {
    u64::from(table) << 33 | u64::from(flow) << 1 | u64::from(side)
}

impl Messages {
    /// A segment comes whose turn it is: `bytes`, captured of `claimed_bytes`, which lie in `block` or are copied.
    pub fn collect(
        &mut self,
        (flow, side): (FlowKey, bool),
        gap_bytes: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        block: &Arc<Block>,
    ) {
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

    /// The first run of a direction in which there is something new to read, or no bytes. `packet` is the one at hand, where
    /// others have to come before all of its bytes can be read.
    pub fn first(
        &mut self,
        flow: FlowKey,
        side: bool,
        bearer: Bearer,
        packet: Option<FrameRef<'_>>,
    ) -> Slice {
        if packet.is_some() || self.kept_packets > 0 {
            self.take_packet(flow, side);
        }
        if let Some(packet) = packet {
            self.keep_packet(direction(flow, side), packet);
        }
        self.abandon();
        self.bearer = Some(bearer);
        self.give(direction(flow, side))
    }

    /// A packet may have ended in the middle of its messages: where a flow table was full.
    pub fn abandon(&mut self) {
        let Some(AtHand { direction, run }) = self.at_hand.take() else { return };
        self.counters.messages_cut += 1;
        self.counters.message_bytes_lost += run.len() as u64;
        if let Some(unfinished) = self.unfinished.get_mut(&direction) {
            unfinished.has_gap = true;
        }
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
    pub fn take_packet(&mut self, flow: FlowKey, side: bool) -> Option<LastPacket> {
        let last = self.unfinished.get_mut(&direction(flow, side))?.last.take()?;
        self.held_bytes -= last.block.bytes.len();
        self.kept_packets -= 1;
        Some(last)
    }

    /// Of the run at hand the first message took `done` bytes; or it takes `wanted`, or is none ([`MESSAGES_LOST`]), or is
    /// for later ([`MESSAGES_LATER`]). What is left of it to read, or the next run.
    pub fn next(&mut self, done: u64, wanted: u64) -> Slice {
        let Some(AtHand { direction, run }) = self.at_hand.take() else { return Slice::default() };
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
    pub fn release(&mut self, flow: FlowKey) {
        for side in [false, true] {
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
        let tables = self.unfinished.keys().map(|direction| direction >> 33);
        let flows = self.unfinished.keys().map(|direction| (direction >> 1) as u32);
        let over: Vec<FlowKey> = tables.map(|table| table as u32).zip(flows).collect();
        over.into_iter().filter(|flow| !is_wanted(Table(flow.0))).for_each(|flow| self.release(flow));
    }

    /// There is nothing to be released.
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether a message was given out since this was asked last.
    pub fn has_begun(&mut self) -> bool {
        std::mem::take(&mut self.has_begun)
    }

    /// Whether one was given out that is not over.
    pub fn is_at_hand(&self) -> bool {
        self.at_hand.is_some()
    }

    /// A flow was found: what happens is of it.
    pub fn enter_flow(&mut self) {
        self.is_inside = true;
    }

    /// The flow that what happens is of, where it is not the one found last.
    pub fn bearer(&self) -> Option<Bearer> {
        self.bearer.filter(|_| self.at_hand.is_some() && !self.is_inside)
    }

    fn give(&mut self, direction: u64) -> Slice {
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return Slice::default() };
        while let Some(mut run) = unfinished.runs.pop_front() {
            let wanted = std::mem::take(&mut unfinished.wanted);
            if run.len() as u64 >= wanted {
                self.held_bytes -= run.len();
                let slice = run.slice();
                self.at_hand = Some(AtHand { direction, run });
                (self.has_begun, self.is_inside) = (true, false);
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
mod tests {
    use super::*;

    const FLOW: FlowKey = (0, 7);

    fn bearer() -> Bearer {
        Bearer { table: Table(0), header: Header::born([0; weir_ir::abi::KEY_WORDS], 0, 0, false) }
    }

    /// Messages of one digit that says how many bytes follow, read as programs read them.
    #[derive(Default)]
    struct Reader {
        messages: Messages,
        read: Vec<String>,
        /// Messages that a packet may have.
        most: Option<usize>,
    }

    impl Reader {
        fn collect(&mut self, gap_bytes: u64, text: &str, claimed_bytes: usize) {
            let block = Arc::new(Block::from(text.as_bytes().to_vec()));
            self.messages.collect((FLOW, false), gap_bytes, &block.bytes, claimed_bytes as u64, &block);
        }

        fn read(&mut self) {
            let mut run = self.messages.first(FLOW, false, bearer(), None);
            let mut fuel = self.most.unwrap_or(usize::MAX);
            while let Some(&first) = run.bytes().first() {
                let bytes = 1 + usize::from(first.wrapping_sub(b'0'));
                let (done, wanted) = match run.bytes().get(..bytes) {
                    _ if !first.is_ascii_digit() => (0, MESSAGES_LOST),
                    None => (0, bytes as u64),
                    Some(message) => {
                        self.read.push(String::from_utf8(message.to_vec()).unwrap());
                        fuel -= 1;
                        (bytes as u64, if fuel == 0 { MESSAGES_LATER } else { 0 })
                    }
                };
                run = self.messages.next(done, wanted);
            }
        }

        /// Segments of a stream, each with the bytes missing before it and cut off it; what is read of them.
        fn hears(mut self, segments: &[(u64, &str, usize)]) -> Vec<String> {
            for &(gap_bytes, text, cut) in segments {
                self.collect(gap_bytes, text, text.len() + cut);
                self.read();
            }
            self.messages.release(FLOW);
            assert_eq!((self.messages.held_bytes, self.messages.is_empty()), (0, true));
            self.read
        }
    }

    #[test]
    fn messages_are_read_however_they_are_cut_into_segments() {
        let stream = "3abc0 2de4fghi1j".replace(' ', "");
        for first in 1..stream.len() {
            for second in first..stream.len() {
                let parts = [&stream[..first], &stream[first..second], &stream[second..]];
                let segments = parts.map(|part| (0, part, 0));
                let read = Reader::default().hears(&segments);
                assert_eq!(read, ["3abc", "0", "2de", "4fghi", "1j"], "{parts:?}");
            }
        }
    }

    #[test]
    fn behind_a_gap_a_message_begins_with_a_segment() {
        let reader = Reader::default;
        assert_eq!(reader().hears(&[(0, "3ab", 0), (1, "2de", 0)]), ["2de"]);
        assert_eq!(
            reader().hears(&[(0, "1a3ab", 1), (0, "2de", 0)]),
            ["1a", "2de"],
            "cut off by the capture"
        );
        assert_eq!(reader().hears(&[(0, "1axyz", 0), (0, "2de", 0)]), ["1a", "2de"], "what is no message");
    }

    #[test]
    fn what_is_too_short_to_be_told_from_a_message_spoils_no_segment_behind_it() {
        let mut reader = Reader::default();
        // It could be the start of one that takes what follows; then it is seen to be none.
        reader.collect(0, "4", 1);
        reader.read();
        reader.collect(0, "2ab", 3);
        reader.collect(0, "1c", 2);
        assert_eq!(reader.messages.first(FLOW, false, bearer(), None).bytes(), b"42ab1c");
        assert_eq!(reader.messages.next(0, MESSAGES_LOST).bytes(), b"2ab1c", "from the next segment on");
        assert_eq!(reader.messages.next(3, 0).bytes(), b"1c");
        assert_eq!(reader.messages.next(0, MESSAGES_LOST).length, 0);
        let counters = reader.messages.counters;
        assert_eq!((counters.messages_lost, counters.message_bytes_lost), (2, 3));
    }

    #[test]
    fn several_runs_are_read_one_after_the_other() {
        let mut reader = Reader::default();
        reader.collect(0, "1a3b", 4);
        reader.collect(2, "0", 1);
        reader.collect(0, "2cd", 3);
        reader.read();
        assert_eq!(reader.read, ["1a", "0", "2cd"]);
        let counters = reader.messages.counters;
        assert_eq!((counters.messages_cut, counters.message_bytes_lost), (1, 2));
    }

    #[test]
    fn what_one_packet_leaves_the_next_one_reads() {
        let mut reader = Reader { most: Some(2), ..Reader::default() };
        reader.collect(0, "01a02bc0", 8);
        reader.collect(1, "1d1e1f", 6);
        for read in [2, 4, 6, 8] {
            reader.read();
            assert_eq!(reader.read.len(), read);
        }
        assert_eq!(reader.read, ["0", "1a", "0", "2bc", "0", "1d", "1e", "1f"]);
        assert_eq!((reader.messages.held_bytes, reader.messages.counters), (0, MessageCounters::default()));
    }

    #[test]
    fn a_packet_that_ended_among_its_messages_loses_them() {
        let mut reader = Reader::default();
        reader.collect(0, "1a1b", 4);
        reader.messages.first(FLOW, false, bearer(), None);
        reader.collect(0, "c0", 2);
        reader.read();
        assert_eq!(reader.read, ["0"; 0], "`c` is none");
        reader.collect(0, "0", 1);
        reader.read();
        assert_eq!((reader.read, reader.messages.counters.message_bytes_lost), (vec!["0".to_string()], 6));
    }

    #[test]
    fn what_would_be_too_long_is_no_message() {
        let mut messages = Messages::default();
        let block = Arc::new(Block::from(vec![7; 10]));
        messages.collect((FLOW, true), 0, &block.bytes, 10, &block);
        assert_eq!(messages.first(FLOW, true, bearer(), None).length, 10);
        assert_eq!(messages.next(4, 0).length, 6);
        assert_eq!(messages.next(0, MESSAGE_BYTES_MAX + 1).length, 0);
        assert_eq!((messages.counters.messages_too_long, messages.counters.message_bytes_lost), (1, 6));
        assert_eq!(messages.held_bytes, 0);
    }

    #[test]
    fn what_is_left_for_later_does_not_pile_up() {
        let mut messages = Messages::default();
        let block = Arc::new(Block::from(vec![7; 1 << 16]));
        for _ in 0..64 {
            messages.collect((FLOW, false), 0, &block.bytes, 1 << 16, &block);
            messages.first(FLOW, false, bearer(), None);
            assert_eq!(messages.next(1, MESSAGES_LATER).length, 0);
            assert!(messages.held_bytes <= LATER_BYTES_MAX);
        }
        let counters = messages.counters;
        let left = 64 * (1 << 16) - 64;
        assert_eq!(counters.message_bytes_lost + messages.held_bytes as u64, left, "nothing goes uncounted");
        assert!(counters.messages_cut > 0);
    }

    #[test]
    fn all_that_waits_is_bounded() {
        let mut messages = Messages::default();
        let block = Arc::new(Block::from(vec![7; 1 << 16]));
        for flow in 0..2_000 {
            messages.collect(((0, flow), false), 0, &block.bytes, 1 << 16, &block);
            messages.first((0, flow), false, bearer(), None);
            messages.next(0, 1 << 17);
        }
        assert!(messages.held_bytes <= TOTAL_BYTES_MAX);
        let refused = 2_000 * (1 << 16) - TOTAL_BYTES_MAX as u64;
        assert_eq!(messages.counters.message_bytes_lost, refused);
        messages.release_tables(|table| table != Table(0));
        assert_eq!((messages.held_bytes, messages.is_empty()), (0, true));
    }

    #[test]
    fn of_a_direction_the_last_packet_is_kept_while_something_waits() {
        let mut messages = Messages::default();
        let (meta, bytes) = (PacketMeta { offset: 9, number: 4, ..PacketMeta::default() }, vec![7; 1 << 16]);
        let packet = Some(FrameRef { meta: &meta, bytes: &bytes });
        for flow in 0..2_000 {
            messages.first((0, flow), true, bearer(), packet);
            messages.first((0, flow), true, bearer(), packet);
        }
        assert!(messages.held_bytes <= TOTAL_BYTES_MAX && messages.held_bytes > TOTAL_BYTES_MAX / 2);
        assert!(messages.take_packet((0, 0), false).is_none(), "it is the other side's");
        let last = messages.take_packet((0, 0), true).expect("it is kept");
        assert_eq!((last.meta.offset, last.meta.number, last.block.bytes.len()), (0, 4, 1 << 16));
        // Nothing waits any more.
        messages.first((0, 1), true, bearer(), None);
        assert!(messages.take_packet((0, 1), true).is_none());
        messages.release_tables(|table| table != Table(0));
        assert_eq!((messages.held_bytes, messages.kept_packets, messages.is_empty()), (0, 0, true));
    }
}

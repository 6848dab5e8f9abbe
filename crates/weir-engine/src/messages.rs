//! Messages: what a stream of bytes in order is made of, where a layer's edge says so (`-> messages`).
//!
//! Programs take messages apart; here is kept what they have not had, or not whole. Per direction there are runs of
//! bytes without a gap in them, the oldest first. A program is given a run, says how much of it was messages
//! and how many bytes the next one wants, and is given the run again once they are there. A run that lies in one segment
//! is referred to; what is left of it when the segment is through is copied, and what comes behind it added.
//!
//! A gap ends a run: what its last message lacks is lost, and where the next one begins nobody knows. It is
//! looked for at the start of the next segment, as where a stream is met midway, or where a program finds no message
//! ([`MESSAGES_LOST`]): writers begin messages with segments more often than not.

use crate::counters::MessageCounters;
use crate::decide::FlowKey;
use crate::sequence::within;
use crate::table::BuildIdHasher;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_ir::abi::{MESSAGES_LOST, Slice};
use weir_packet::Block;

/// Bytes of a message at most: what it wants beyond is no message.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Bytes that a worker keeps of unfinished messages at most.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Runs that wait in one direction at most.
const RUNS_MAX: usize = 64;

/// Bytes without a gap.
#[derive(Debug)]
enum Run {
    /// Of one segment, which is being taken apart.
    Referred(Slice),
    /// Copied, and may grow.
    Kept(Vec<u8>),
}

impl Run {
    fn bytes(&self) -> &[u8] {
        match self {
            Run::Referred(slice) => slice.bytes(),
            Run::Kept(bytes) => bytes,
        }
    }

    /// As what lives while a program reads it.
    fn into_slice(self) -> Slice {
        match self {
            Run::Referred(slice) => slice,
            Run::Kept(bytes) => {
                let length = bytes.len() as u32;
                Slice { block: Arc::new(Block { bytes }), offset: 0, length }
            }
        }
    }
}

/// What is kept of one direction.
#[derive(Debug, Default)]
struct Unfinished {
    runs: VecDeque<Run>,
    /// Bytes of the first run without which there is nothing new to be read.
    wanted: u64,
    /// Bytes that have not come yet of a message that is over.
    skip: u64,
    /// Bytes missing behind the last run.
    gap: u64,
}

impl Unfinished {
    /// What is missing may be what nobody wants. Where it reaches further, the next bytes begin anew.
    fn skip_gap(&mut self) {
        let skipped = self.gap.min(self.skip);
        self.gap -= skipped;
        self.skip = if self.gap > 0 { 0 } else { self.skip - skipped };
    }

    /// Adds bytes to the last run, or as the next one.
    fn add(&mut self, bytes: &[u8], block: &Arc<Block>) {
        match self.runs.back_mut().filter(|_| self.gap == 0) {
            Some(Run::Kept(before)) => before.extend_from_slice(bytes),
            Some(run) => *run = Run::Kept([run.bytes(), bytes].concat()),
            None => self.runs.push_back(match within(block, bytes) {
                Some(slice) => Run::Referred(slice),
                None => Run::Kept(bytes.to_vec()),
            }),
        }
    }
}

/// What all directions of a worker have unfinished.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    unfinished: HashMap<u64, Unfinished, BuildIdHasher>,
    /// Whose messages are being read, and the run that was given out.
    at_hand: (u64, Slice),
    /// Bytes of all runs.
    held_bytes: usize,
    pub counters: MessageCounters,
}

/// The number of a direction.
fn direction((table, flow): FlowKey, side: bool) -> u64 {
    u64::from(table) << 33 | u64::from(flow) << 1 | u64::from(side)
}

impl Messages {
    /// Bytes in order come: `bytes`, captured of `claimed_bytes`, which lie in `block` or are copied.
    pub fn collect(
        &mut self,
        (flow, side): (FlowKey, bool),
        gap_bytes: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        block: &Arc<Block>,
    ) {
        let unfinished = self.unfinished.entry(direction(flow, side)).or_default();
        unfinished.gap += gap_bytes;
        unfinished.skip_gap();
        let over = unfinished.skip.min(claimed_bytes);
        unfinished.skip -= over;
        let bytes = &bytes[bytes.len().min(over as usize)..];
        let cut = claimed_bytes - over - bytes.len() as u64;
        if bytes.is_empty() {
            unfinished.gap += cut;
        } else if self.held_bytes + bytes.len() > TOTAL_BYTES_MAX || unfinished.runs.len() >= RUNS_MAX {
            self.counters.message_bytes_lost += bytes.len() as u64;
            unfinished.gap += bytes.len() as u64 + cut;
        } else {
            self.held_bytes += bytes.len();
            unfinished.add(bytes, block);
            unfinished.gap = cut;
        }
    }

    /// The first run of a direction in which there is something new to read, or no bytes.
    pub fn first(&mut self, flow: FlowKey, side: bool) -> Slice {
        self.give(direction(flow, side))
    }

    /// Of the run at hand `done` bytes are over, and the next message takes `wanted`, or is none. The next run.
    pub fn next(&mut self, done: u64, wanted: u64) -> Slice {
        let (direction, run) = std::mem::take(&mut self.at_hand);
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return Slice::default() };
        let left = &run.bytes()[done.min(u64::from(run.length)) as usize..];
        let is_last = unfinished.runs.is_empty() && unfinished.gap == 0;
        let counters = &mut self.counters;
        if wanted == MESSAGES_LOST {
            counters.messages_lost += 1;
        } else if wanted > MESSAGE_BYTES_MAX {
            counters.messages_too_long += 1;
        } else if left.is_empty() {
            // Missing bytes may be of what nobody wants; those of the next run are not known to be.
            unfinished.skip = if unfinished.runs.is_empty() { done - u64::from(run.length) } else { 0 };
            unfinished.skip_gap();
            return self.give(direction);
        } else if !is_last {
            counters.messages_cut += 1;
        } else if self.held_bytes + left.len() <= TOTAL_BYTES_MAX {
            self.held_bytes += left.len();
            unfinished.wanted = wanted.max(left.len() as u64 + 1);
            unfinished.runs.push_front(Run::Kept(left.to_vec()));
            return Slice::default();
        }
        counters.message_bytes_lost += left.len() as u64;
        self.give(direction)
    }

    /// The flow is over.
    pub fn release(&mut self, flow: FlowKey) {
        for side in [false, true] {
            let Some(unfinished) = self.unfinished.remove(&direction(flow, side)) else { continue };
            for run in unfinished.runs {
                self.held_bytes -= run.bytes().len();
                self.counters.messages_cut += 1;
                self.counters.message_bytes_lost += run.bytes().len() as u64;
            }
        }
    }

    /// There is nothing to be released.
    pub fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    fn give(&mut self, direction: u64) -> Slice {
        self.at_hand = (direction, Slice::default());
        let Some(unfinished) = self.unfinished.get_mut(&direction) else { return Slice::default() };
        while let Some(run) = unfinished.runs.pop_front() {
            let (wanted, length) = (std::mem::take(&mut unfinished.wanted), run.bytes().len());
            if length as u64 >= wanted {
                self.held_bytes -= length;
                self.at_hand.1 = run.into_slice();
                return self.at_hand.1.clone();
            }
            if unfinished.runs.is_empty() && unfinished.gap == 0 {
                unfinished.wanted = wanted;
                unfinished.runs.push_front(run);
                break;
            }
            self.held_bytes -= length;
            self.counters.messages_cut += 1;
            self.counters.message_bytes_lost += length as u64;
        }
        Slice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowKey = (0, 7);

    /// Messages of one byte that says how many follow, read as programs read them.
    #[derive(Default)]
    struct Reader {
        messages: Messages,
        read: Vec<String>,
        /// Whether what follows the first byte is needed.
        needs_all: bool,
    }

    impl Reader {
        fn collect(&mut self, gap_bytes: u64, text: &str, claimed_bytes: usize) {
            let block = Arc::new(Block { bytes: text.as_bytes().to_vec() });
            self.messages.collect((FLOW, false), gap_bytes, &block.bytes, claimed_bytes as u64, &block);
        }

        fn read(&mut self) {
            let mut run = self.messages.first(FLOW, false);
            while run.length > 0 {
                let (mut at, mut wanted) = (0, 0);
                while let Some(&first) = run.bytes().get(at).filter(|_| wanted == 0) {
                    let bytes = 1 + usize::from(first.wrapping_sub(b'0'));
                    match run.bytes().get(at..at + bytes) {
                        _ if !first.is_ascii_digit() => wanted = MESSAGES_LOST,
                        None if self.needs_all => wanted = bytes as u64,
                        _ => {
                            let end = (at + bytes).min(run.bytes().len());
                            self.read.push(String::from_utf8(run.bytes()[at..end].to_vec()).unwrap());
                            at += bytes;
                        }
                    }
                }
                run = self.messages.next(at as u64, wanted);
            }
        }

        /// Segments of a stream, and what is read of them.
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

    fn whole() -> Reader {
        Reader { needs_all: true, ..Reader::default() }
    }

    #[test]
    fn messages_are_read_however_they_are_cut_into_segments() {
        let stream = "3abc0 2de4fghi1j".replace(' ', "");
        for first in 1..stream.len() {
            for second in first..stream.len() {
                let parts = [&stream[..first], &stream[first..second], &stream[second..]];
                let segments = parts.map(|part| (0, part, 0));
                assert_eq!(whole().hears(&segments), ["3abc", "0", "2de", "4fghi", "1j"], "{parts:?}");
            }
        }
    }

    #[test]
    fn behind_a_gap_a_message_begins_with_a_segment() {
        assert_eq!(whole().hears(&[(0, "3ab", 0), (1, "2de", 0)]), ["2de"]);
        assert_eq!(whole().hears(&[(0, "1a3ab", 1), (0, "2de", 0)]), ["1a", "2de"], "cut off by the capture");
        assert_eq!(whole().hears(&[(0, "1axyz", 0), (0, "2de", 0)]), ["1a", "2de"], "what is no message");
    }

    #[test]
    fn what_nobody_wants_of_a_message_may_be_missing() {
        let reader = Reader::default;
        assert_eq!(reader().hears(&[(0, "5ab", 0), (0, "cde1f", 0)]), ["5ab", "1f"]);
        assert_eq!(reader().hears(&[(0, "5ab", 0), (2, "e1f", 0)]), ["5ab", "1f"]);
        assert_eq!(reader().hears(&[(0, "5ab", 2), (0, "e1f", 0)]), ["5ab", "1f"]);
        assert_eq!(reader().hears(&[(0, "5ab", 3), (0, "1f", 0)]), ["5ab", "1f"]);
        assert_eq!(reader().hears(&[(0, "5ab", 2), (2, "2fg", 0)]), ["5ab", "2fg"], "and more");
    }

    #[test]
    fn several_runs_are_read_one_after_the_other() {
        let mut reader = whole();
        reader.collect(0, "1a3b", 4);
        reader.collect(2, "0", 1);
        reader.collect(0, "2cd", 3);
        reader.read();
        assert_eq!(reader.read, ["1a", "0", "2cd"]);
        let counters = reader.messages.counters;
        assert_eq!((counters.messages_cut, counters.message_bytes_lost), (1, 2));
    }

    #[test]
    fn what_would_be_too_long_is_no_message() {
        let mut messages = Messages::default();
        let block = Arc::new(Block { bytes: vec![7; 10] });
        messages.collect((FLOW, true), 0, &block.bytes, 10, &block);
        assert_eq!(messages.first(FLOW, true).length, 10);
        assert_eq!(messages.next(4, MESSAGE_BYTES_MAX + 1).length, 0);
        assert_eq!((messages.counters.messages_too_long, messages.counters.message_bytes_lost), (1, 6));
        assert_eq!(messages.held_bytes, 0);
    }

    #[test]
    fn all_that_waits_is_bounded() {
        let mut messages = Messages::default();
        let block = Arc::new(Block { bytes: vec![7; 1 << 16] });
        for flow in 0..2_000 {
            messages.collect(((0, flow), false), 0, &block.bytes, 1 << 16, &block);
            messages.first((0, flow), false);
            messages.next(0, 1 << 17);
        }
        assert!(messages.held_bytes <= TOTAL_BYTES_MAX);
        let refused = 2_000 * (1 << 16) - TOTAL_BYTES_MAX as u64;
        assert_eq!(messages.counters.message_bytes_lost, refused);
    }
}

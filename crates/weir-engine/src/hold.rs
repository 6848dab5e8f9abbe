//! Packets that wait for their connection's verdict.
//!
//! They wait in one queue per worker, in the order of the capture, so that what is delivered comes out
//! in order: a packet leaves when it and all before it are decided. The queue refers to the packets'
//! blocks, up to a bound; beyond it the oldest is given up and counted.

use std::collections::VecDeque;
use std::sync::Arc;
use weir_ir::abi::OUTS_MAX;
use weir_packet::{Block, PacketMeta};

/// What is known of a held packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its connection is undecided.
    Open,
    /// It goes to these questions (a bit each), perhaps to none.
    Decided(u64),
}

/// A packet that waits.
pub(crate) struct Held {
    pub packet: PacketMeta,
    pub block: Arc<Block>,
    /// Terms that it fulfils by itself.
    pub terms: u64,
    /// Questions that are given it for certain.
    pub questions: u64,
    pub verdict: Verdict,
    pub outs: Option<Box<[u64; OUTS_MAX]>>,
}

/// The queue.
#[derive(Default)]
pub(crate) struct HoldQueue {
    held: VecDeque<Held>,
    /// Number of packets that have left: position of the first one held.
    left: u64,
    open: usize,
}

impl HoldQueue {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Packets in the queue.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Appends a packet; its place, for [`decide`](Self::decide).
    pub fn push(&mut self, held: Held) -> u64 {
        self.open += usize::from(held.verdict == Verdict::Open);
        self.held.push_back(held);
        self.left + self.held.len() as u64 - 1
    }

    /// The packet at a place, unless it has been given up.
    pub fn open_at(&mut self, place: u64) -> Option<&mut Held> {
        let index = usize::try_from(place.checked_sub(self.left)?).ok()?;
        self.held.get_mut(index).filter(|h| h.verdict == Verdict::Open)
    }

    /// Decides the packet at a place.
    pub fn decide(&mut self, place: u64, questions: u64) {
        if let Some(held) = self.open_at(place) {
            held.verdict = Verdict::Decided(questions);
            self.open -= 1;
        }
    }

    /// The next packet that may leave.
    pub fn pop(&mut self) -> Option<(Held, u64)> {
        let Verdict::Decided(questions) = self.held.front()?.verdict else { return None };
        self.left += 1;
        self.held.pop_front().map(|h| (h, questions))
    }

    /// Gives the oldest up: it goes to the questions that are certain.
    pub fn give_up_oldest(&mut self) {
        let place = self.left;
        if let Some(questions) = self.open_at(place).map(|h| h.questions) {
            self.decide(place, questions);
        }
    }
}

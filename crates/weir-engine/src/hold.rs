//! Packets that wait for their connection's verdict.
//!
//! They wait in one queue per worker, in the order of the capture, so that what is delivered comes out
//! in order: a packet leaves when it and all before it are decided. The queue keeps copies of the frames
//! (a reference would pin a whole block for one of them), bounded in number and bytes; beyond a bound the
//! oldest is given up and counted.

use crate::decide::FlowKey;
use std::collections::VecDeque;
use weir_packet::{DropReason, PacketMeta};

/// What becomes of a packet in the accounts: each one is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    Delivered,
    Filtered,
    Dropped(DropReason),
}

/// What is known of a held packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection with this key is undecided.
    Open(FlowKey),
    /// It goes to these questions (a bit each), perhaps to none.
    Decided(u64),
}

/// A packet that waits.
pub(crate) struct Held {
    pub packet: PacketMeta,
    pub frame: Box<[u8]>,
    /// Terms that it fulfils by itself.
    pub terms: u64,
    /// Questions that are given it for certain.
    pub questions: u64,
    pub verdict: Verdict,
    /// What it counts as where no question is given it.
    pub otherwise: Account,
    /// Its record.
    pub outs: Box<[u64]>,
}

impl Held {
    /// Bytes that it costs.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.frame.len() + size_of_val(&*self.outs)
    }
}

/// The queue.
#[derive(Default)]
pub(crate) struct HoldQueue {
    held: VecDeque<Held>,
    /// Number of packets that have left: position of the first one held.
    left: u64,
    bytes: usize,
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

    /// Bytes that they cost.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Position of the oldest packet that is still there.
    pub fn oldest(&self) -> u64 {
        self.left
    }

    /// Appends a packet; its place, for [`decide`](Self::decide).
    pub fn push(&mut self, held: Held) -> u64 {
        self.bytes += held.bytes();
        self.held.push_back(held);
        self.left + self.held.len() as u64 - 1
    }

    /// The packet at a place, unless it has been given up.
    pub fn open_at(&mut self, place: u64) -> Option<&mut Held> {
        let index = usize::try_from(place.checked_sub(self.left)?).ok()?;
        self.held.get_mut(index).filter(|h| matches!(h.verdict, Verdict::Open(_)))
    }

    /// Decides the packet at a place.
    pub fn decide(&mut self, place: u64, questions: u64) {
        if let Some(held) = self.open_at(place) {
            held.verdict = Verdict::Decided(questions);
        }
    }

    /// The next packet that may leave.
    pub fn pop(&mut self) -> Option<(Held, u64)> {
        let Verdict::Decided(questions) = self.held.front()?.verdict else { return None };
        let held = self.held.pop_front()?;
        self.left += 1;
        self.bytes -= held.bytes();
        Some((held, questions))
    }

    /// Gives the oldest up: it goes to the questions that are certain. The flow that it waited for.
    pub fn give_up_oldest(&mut self) -> Option<FlowKey> {
        let oldest = self.held.front_mut()?;
        let Verdict::Open(key) = oldest.verdict else { return None };
        oldest.verdict = Verdict::Decided(oldest.questions);
        Some(key)
    }
}

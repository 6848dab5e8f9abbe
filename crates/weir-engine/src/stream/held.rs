//! Holds bytes until the questions that receive them are known: if a filter depends on sessions, on the
//! connection's record or on layers above the connection's.
//!
//! Each flow has one list of pieces in order, for all questions. The pieces are copies and count in the
//! memory budget of streams; without room, bytes are given up like out-of-order bytes.

use super::deliver::Handover;
use super::flow::FlowStreams;
use super::{CarrierPacket, InOrder, Overload, StreamParams, StreamSubscriber};
use crate::sets::QuestionSet;

use weir_packet::Direction;

/// The held bytes of one flow.
#[derive(Debug, Default)]
pub(crate) struct HeldStreams {
    pieces: Vec<Held>,
    /// Index of the last piece of each direction.
    last: [Option<usize>; 2],
    /// The questions that may receive the bytes.
    pub pending: QuestionSet,
}

/// In-order bytes of a direction.
#[derive(Debug)]
struct Held {
    now: i64,
    side: Direction,
    /// The offset of the stream.
    offset: u64,
    gap_bytes: u64,
    bytes: Vec<u8>,
    claimed_bytes: u64,
    /// The stream ends after the bytes.
    ends: bool,
    /// The number of the packet that the bytes came in, and whether other bytes of it had passed before.
    came: Option<(u64, bool)>,
}

impl Held {
    fn cost(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }

    fn give<S: StreamSubscriber>(
        &self,
        streams: &mut FlowStreams,
        to: &mut Handover<'_, S>,
        questions: &[(usize, &StreamParams)],
    ) {
        let &Self { now, side, offset, gap_bytes, claimed_bytes, ends, came, .. } = self;
        let packet = to.packet.zip(came).filter(|(frame, (number, _))| frame.meta.number == *number);
        let packet = packet.map(|(frame, (_, is_repeated))| CarrierPacket { frame, is_repeated });
        let piece = InOrder { now, side, gap_bytes, bytes: &self.bytes, claimed_bytes, ends, packet };
        to.now = now;
        for &question in questions {
            streams.take_at(offset, to, question, &piece);
        }
    }
}

impl HeldStreams {
    /// Holds bytes that have just arrived. `offset`: the stream's offset before them. Returns the number of
    /// bytes given up for lack of memory.
    pub fn hold(
        &mut self,
        next: &InOrder<'_>,
        (priority, offset): (u8, u64),
        overload: &mut Overload,
        queued_bytes: usize,
    ) -> u64 {
        let end = offset.saturating_add(next.bytes.len() as u64);
        let cost = size_of::<Held>() + next.bytes.len();
        let &InOrder { now, side, gap_bytes, claimed_bytes, ends, packet, .. } = next;
        let came = packet.map(|came| (came.frame.meta.number, came.is_repeated));
        if overload.admits(priority, end, cost, queued_bytes) {
            let bytes = next.bytes.to_vec();
            let held = Held { now, side, offset, gap_bytes, bytes, claimed_bytes, ends, came };
            self.push(held, overload);
            return 0;
        }
        let lost = next.bytes.len() as u64;
        overload.drop_bytes(lost);
        // Lost bytes are added to the last piece if possible, so a flood of pieces without memory allocates
        // none.
        let missing_bytes = gap_bytes + lost + next.cut_bytes();
        let last = self.last[side.index()].map(|at| &mut self.pieces[at]);
        match last.filter(|last| last.bytes.is_empty() && last.claimed_bytes == 0) {
            Some(last) => {
                last.gap_bytes += missing_bytes;
                last.ends |= ends;
            }
            None => {
                let (bytes, claimed_bytes) = (vec![], 0);
                let gap_bytes = missing_bytes;
                let held = Held { now, side, offset, gap_bytes, bytes, claimed_bytes, ends, came };
                self.push(held, overload);
            }
        }
        lost
    }

    fn push(&mut self, held: Held, overload: &mut Overload) {
        overload.hold(held.cost());
        self.last[held.side.index()] = Some(self.pieces.len());
        self.pieces.push(held);
    }

    /// Appends bytes that were held elsewhere, except those that are here already.
    pub fn join(&mut self, other: Self, overload: &mut Overload) {
        self.pending |= &other.pending;
        for held in other.pieces {
            overload.let_go(held.cost());
            let last = self.last[held.side.index()].map(|at| &self.pieces[at]);
            if last.is_none_or(|last| (last.offset, last.ends) < (held.offset, held.ends)) {
                self.push(held, overload);
            }
        }
    }

    /// Delivers all held bytes to these questions. Bytes that no other question waits for are released.
    pub fn replay<S: StreamSubscriber>(
        &mut self,
        streams: &mut FlowStreams,
        to: &mut Handover<'_, S>,
        questions: &[(usize, &StreamParams)],
    ) {
        let now = to.now;
        if self.pending.is_empty() {
            for held in std::mem::take(&mut self.pieces) {
                to.budget.overload.let_go(held.cost());
                held.give(streams, to, questions);
            }
            self.last = [None; 2];
        } else {
            self.pieces.iter().for_each(|held| held.give(streams, to, questions));
        }
        to.now = now;
    }

    /// Releases all bytes.
    pub fn release(self, overload: &mut Overload) {
        self.pieces.iter().for_each(|held| overload.let_go(held.cost()));
    }
}

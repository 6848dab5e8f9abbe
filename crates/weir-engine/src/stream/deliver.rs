//! Delivers bytes to a subscriber: up to the cutoff, by reference or in chunks, within the memory budget.

use super::chunk::Spare;
use super::packets::{CarrierPacket, Packets};
use super::state::{StreamHandle, StreamState};
use super::{Chunk, DirectionCounts, Overload, OverloadParams, StreamSubscriber};
use crate::flow::{EndReason, FlowView};
use crate::flow_ref::FlowRef;
use crate::order::Order;
use crate::question_losses::QuestionLosses;
use crate::sequence::{FrameRef, Outcome, Policy};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_packet::Direction;

/// State that all streams of a worker share.
#[derive(Debug)]
pub(crate) struct StreamBudget {
    pub overload: Overload,
    /// By question: what it has lost.
    losses: Vec<Arc<QuestionLosses>>,
    spare: Spare,
    due: BTreeSet<Due>,
}

/// A chunk that has to be delivered at a certain time. Compares by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    /// The time, nanoseconds since 1970.
    pub at: i64,
    /// Number of the flow's first packet; it makes the order of equal times deterministic.
    pub first_packet: u64,
    pub side: Direction,
    pub question: usize,
    pub flow: FlowRef,
    /// When the chunk began; if this differs from the current chunk, the chunk has been delivered already.
    pub since: i64,
}

/// Estimated bytes per entry: nodes of the tree are at least half full.
const DUE_COST: usize = 2 * size_of::<Due>();

impl StreamBudget {
    /// `losses`: those of each question.
    pub(crate) fn new(params: OverloadParams, losses: Vec<Arc<QuestionLosses>>) -> Self {
        let overload = Overload::new(params);
        Self { overload, losses, spare: Spare::default(), due: BTreeSet::new() }
    }

    /// Changes to other questions with these losses.
    pub(crate) fn set_losses(&mut self, losses: Vec<Arc<QuestionLosses>>) {
        self.losses = losses;
    }

    /// The next chunk that is due at `now`.
    pub(crate) fn next_due(&mut self, now: i64) -> Option<Due> {
        self.due.first().filter(|due| due.at <= now)?;
        self.overload.let_go(DUE_COST);
        self.due.pop_first()
    }
}

/// The circumstances in which bytes are delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// Nanoseconds since 1970.
    pub now: i64,
    /// Bytes that wait in the worker's sequences.
    pub queued_bytes: usize,
    /// The current packet, if held bytes may belong to it.
    pub packet: Option<FrameRef<'a>>,
}

impl Moment<'_> {
    /// A time at which no bytes arrive: memory and packet are not needed.
    pub fn at(now: i64) -> Self {
        Self { now, queued_bytes: 0, packet: None }
    }
}

/// The context of a delivery, besides the stream's state.
pub(crate) struct Handover<'a, S> {
    order: Order,
    flow: &'a FlowView<'a>,
    /// Time of the bytes.
    pub now: i64,
    /// The current packet, if held bytes may belong to it.
    pub packet: Option<FrameRef<'a>>,
    subscriber: &'a mut S,
    pub budget: &'a mut StreamBudget,
    /// Bytes that wait in the worker's sequences.
    queued_bytes: usize,
    /// The current direction, the offset of its next byte, the counters of its sequence, their outcome at its
    /// end, and the policy set for it.
    pub side: Direction,
    pub offset: u64,
    pub sequence: DirectionCounts,
    pub outcome: Option<Outcome>,
    pub policy: Option<Policy>,
}

impl<'a, S: StreamSubscriber> Handover<'a, S> {
    /// A context for the flow's streams and the subscriber.
    pub fn new(
        order: Order,
        moment: Moment<'a>,
        flow: &'a FlowView<'a>,
        subscriber: &'a mut S,
        budget: &'a mut StreamBudget,
    ) -> Self {
        let Moment { now, queued_bytes, packet } = moment;
        let (side, offset) = (Direction::Originator, 0);
        let (sequence, policy) = (DirectionCounts::default(), None);
        let outcome = None;
        Self {
            order,
            flow,
            now,
            packet,
            subscriber,
            budget,
            queued_bytes,
            side,
            offset,
            sequence,
            outcome,
            policy,
        }
    }
}

impl<S: StreamSubscriber> Handover<'_, S> {
    pub(super) fn created(&mut self, state: &mut StreamState) {
        let (order, question) = (self.order, state.question());
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_created(order, question, &mut handle);
    }

    fn data(&mut self, state: &mut StreamState, chunk: &Chunk<'_>) {
        let (order, question) = (self.order, state.question());
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_data(order, question, &mut handle, chunk);
    }

    /// Delivers the bytes that wait in the chunk of a stream that ends, and closes the stream.
    pub(super) fn close(&mut self, state: &mut StreamState) {
        self.flush(state);
        self.forget_chunk(state);
        self.disarm(state);
        let (order, question) = (self.order, state.question());
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_closed(order, question, &mut handle);
    }

    pub(super) fn terminated(&mut self, state: &mut StreamState, reason: EndReason) {
        let (order, question) = (self.order, state.question());
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_terminated(order, question, &mut handle, reason);
    }

    fn handle<'a>(&'a mut self, state: &'a mut StreamState) -> (&'a mut S, StreamHandle<'a>) {
        let Self { flow, now, sequence, outcome, offset, side: from, .. } = *self;
        let policy = &mut self.policy;
        (self.subscriber, StreamHandle { flow, from, now, sequence, outcome, policy, offset, state })
    }

    /// Whether more bytes of the stream are wanted.
    fn is_open(&self, state: &StreamState) -> bool {
        self.offset < state.cutoff
    }

    /// Records missing bytes: the next bytes are not contiguous.
    pub(super) fn missing(&mut self, state: &mut StreamState, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.flush(state);
        self.forget_chunk(state);
        // Bytes beyond the cutoff do not count as missing.
        let missing = bytes.min(state.cutoff.saturating_sub(self.offset));
        state.missing_bytes += missing;
        state.gap_bytes += missing;
        self.offset += bytes;
    }

    /// Delivers bytes and the packet that they came in.
    pub(super) fn bytes(
        &mut self,
        state: &mut StreamState,
        mut bytes: &[u8],
        packet: Option<CarrierPacket<'_>>,
    ) {
        let mut packet = packet.filter(|_| state.asks_for_packets());
        while !bytes.is_empty() && self.is_open(state) {
            let room = usize::try_from(state.cutoff - self.offset).unwrap_or(usize::MAX);
            let open = &bytes[..bytes.len().min(room)];
            let taken = match state.chunks {
                None => self.pass(state, open, packet),
                Some(_) => self.fill(state, open, packet),
            };
            bytes = &bytes[taken..];
            packet.iter_mut().for_each(|came| came.is_repeated |= taken > 0);
        }
        if !self.is_open(state) {
            self.flush(state);
            self.forget_chunk(state);
        }
        self.offset += bytes.len() as u64;
    }

    /// Delivers bytes by reference.
    fn pass(&mut self, state: &mut StreamState, bytes: &[u8], packet: Option<CarrierPacket<'_>>) -> usize {
        let gap_bytes = std::mem::take(&mut state.gap_bytes);
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        let entry = packet.map(|came| came.entry(0, offset..self.offset));
        let frame = packet.map_or(&[][..], |came| came.frame.bytes);
        let packets = Packets::new(entry.as_slice(), frame);
        let chunk = Chunk { offset, bytes, overlap: 0, gap_bytes, packets };
        state.delivered_bytes += bytes.len() as u64;
        self.data(state, &chunk);
        bytes.len()
    }

    /// Adds bytes to the chunk, and delivers it when it is full.
    fn fill(&mut self, state: &mut StreamState, bytes: &[u8], packet: Option<CarrierPacket<'_>>) -> usize {
        let question = state.question();
        let Some(chunks) = &mut state.chunks else { return bytes.len() };
        let offset = self.offset;
        let (overload, spare) = (&mut self.budget.overload, &mut self.budget.spare);
        let (chunker, params) = (&mut chunks.chunker, chunks.params);
        let end = offset.saturating_add(bytes.len() as u64);
        let growth = chunker.growth(&params, bytes.len(), packet.as_ref());
        if growth > 0 && !overload.admits(state.priority, end, growth, self.queued_bytes) {
            // The delivery frees memory; dropping the overlap for the next chunk frees more.
            if chunker.waiting() > 0 {
                self.flush(state);
                return 0;
            }
            if chunker.cost() > 0 {
                self.forget_chunk(state);
                return 0;
            }
            let lost = bytes.len() as u64;
            overload.drop_bytes(lost);
            if let Some(losses) = self.budget.losses.get(question) {
                losses.add_bytes(lost);
            }
            chunks.dropped_bytes += lost;
            state.gap_bytes += lost;
            self.offset += lost;
            return bytes.len();
        }
        let begins = chunker.since().is_none();
        let before = chunker.cost();
        let taken = chunker.push(&params, (offset, bytes), packet.as_ref(), self.now, spare);
        overload.resize(before, chunker.cost());
        let is_full = chunker.is_full();
        self.offset += taken as u64;
        state.delivered_bytes += taken as u64;
        if begins && params.flush_ns > 0 && chunks.due.is_none() {
            let since = self.now;
            self.arm(state, since, params.flush_ns);
        }
        if is_full {
            self.flush(state);
        }
        taken
    }

    /// Schedules the delivery of a chunk that began at `since`.
    fn arm(&mut self, state: &mut StreamState, since: i64, flush_ns: i64) {
        let (at, question) = (since.saturating_add(flush_ns), state.question());
        let Some(chunks) = &mut state.chunks else { return };
        chunks.due = Some((at, since));
        if self.budget.due.insert(self.due_of(question, (at, since))) {
            self.budget.overload.hold(DUE_COST);
        }
    }

    /// Cancels the scheduled delivery of a stream that is over.
    pub(super) fn disarm(&mut self, state: &mut StreamState) {
        let question = state.question();
        let due = state.chunks.as_mut().and_then(|chunks| chunks.due.take());
        if let Some(due) = due
            && self.budget.due.remove(&self.due_of(question, due))
        {
            self.budget.overload.let_go(DUE_COST);
        }
    }

    fn due_of(&self, question: usize, (at, since): (i64, i64)) -> Due {
        let (flow, side, first_packet) = (self.flow.flow_ref(), self.side, self.flow.header.first_packet);
        Due { at, first_packet, side, question, flow, since }
    }

    /// Delivers the chunk that was scheduled, if it is still the current one; else schedules the current
    /// chunk.
    pub(super) fn due(&mut self, state: &mut StreamState, due: &Due) {
        let Some(chunks) = &mut state.chunks else { return };
        chunks.due = None;
        match chunks.chunker.since() {
            Some(since) if since == due.since => self.flush(state),
            Some(since) if chunks.params.flush_ns > 0 => {
                let flush_ns = chunks.params.flush_ns;
                self.arm(state, since, flush_ns);
            }
            _ => {}
        }
    }

    /// Delivers the bytes that wait in the chunk.
    pub(super) fn flush(&mut self, state: &mut StreamState) {
        let Some(chunks) = state.chunks.as_mut().filter(|chunks| chunks.chunker.waiting() > 0) else {
            return;
        };
        // Taken out during the call, because the subscriber may change the chunk parameters.
        let mut chunker = std::mem::take(&mut chunks.chunker);
        let gap_bytes = std::mem::take(&mut state.gap_bytes);
        self.data(state, &chunker.chunk(gap_bytes));
        if let Some(chunks) = &mut state.chunks {
            let before = chunker.cost();
            chunker.next(&chunks.params, std::mem::take(&mut chunks.keeps), &mut self.budget.spare);
            self.budget.overload.resize(before, chunker.cost());
            chunks.chunker = chunker;
        }
    }

    /// Discards the chunk, because the next bytes are not contiguous.
    pub(super) fn forget_chunk(&mut self, state: &mut StreamState) {
        if let Some(chunks) = &mut state.chunks {
            let before = chunks.chunker.cost();
            chunks.chunker.clear(&mut self.budget.spare);
            self.budget.overload.resize(before, chunks.chunker.cost());
        }
    }
}

//! The streams of one flow, and what each question has of them.

use super::chunk::{Chunker, Spare};
use super::{Chunk, DirectionCounts, Overload, OverloadParams, StreamCounts, StreamParams};
use crate::flow::{EndReason, FlowView};
use crate::subscriber::{FlowKey, Order, Subscriber};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_sessions::Direction;

/// One question's state of one stream.
#[derive(Debug)]
pub struct StreamState {
    question: usize,
    params: StreamParams,
    /// Its own, at most the question's.
    cutoff: u64,
    cutoff_max: u64,
    /// Where in the stream the next byte lies.
    offset: u64,
    /// Missing before the next byte that is handed over.
    gap_bytes: u64,
    counts: StreamCounts,
    chunker: Option<Box<Chunker>>,
    keeps: bool,
    /// A word of the subscriber's own: where it keeps what it knows of the stream.
    pub user: u32,
}

/// Both streams of a flow; the originator's first.
#[derive(Debug, Default)]
pub struct FlowStreams {
    /// By direction: what the questions have of it, by question.
    states: [Vec<StreamState>; 2],
    /// What the sequence met.
    pub(crate) counts: [DirectionCounts; 2],
}

/// A stream as its subscriber sees it during a call.
#[derive(Debug)]
pub struct StreamHandle<'a> {
    /// The flow.
    pub flow: &'a FlowView<'a>,
    /// Who sends it.
    pub from: Direction,
    /// Time of the packet at hand, nanoseconds since 1970.
    pub now: i64,
    /// What the sequence met so far.
    pub sequence: &'a DirectionCounts,
    /// What the question has of it.
    pub state: &'a mut StreamState,
}

impl StreamState {
    fn new(question: usize, params: StreamParams, side: usize) -> Self {
        Self {
            question,
            params,
            cutoff: params.cutoff[side],
            cutoff_max: params.cutoff[side],
            offset: 0,
            gap_bytes: 0,
            counts: StreamCounts::default(),
            chunker: params.chunk.map(|_| Box::default()),
            keeps: false,
            user: 0,
        }
    }

    /// What became of its bytes so far.
    pub fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Where in the stream the next byte lies.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Nothing that lies at or beyond this offset is handed over any more. At most the question's own cutoff:
    /// what lies beyond that one the program may leave out without asking.
    pub fn set_cutoff(&mut self, bytes: u64) {
        self.cutoff = bytes.min(self.cutoff_max);
    }

    /// Nothing more of the stream is wanted.
    pub fn discard(&mut self) {
        self.cutoff = 0;
    }

    /// Its priority, from now on.
    pub fn set_priority(&mut self, priority: u8) {
        self.params.priority = priority;
    }

    /// Its chunks' size, overlap and time-out, from the next chunk on. Without effect where bytes come without chunks.
    pub fn set_chunk(&mut self, params: super::ChunkParams) {
        if self.params.chunk.is_some() {
            self.params.chunk = Some(params.sane());
        }
    }

    /// The chunk at hand is kept: the next one begins with all of it (up to 16 MiB).
    pub fn keep_chunk(&mut self) {
        self.keeps = true;
    }

    /// Whether more of it is wanted.
    fn is_open(&self) -> bool {
        self.offset < self.cutoff
    }
}

/// What delivering needs besides the stream's state.
pub(crate) struct Delivery<'a, S> {
    pub order: Order,
    pub flow: &'a FlowView<'a>,
    pub key: FlowKey,
    /// Time of the packet at hand.
    pub now: i64,
    pub subscriber: &'a mut S,
    pub budget: &'a mut StreamBudget,
    /// Bytes that wait in the worker's sequences.
    pub queued_bytes: usize,
    /// The direction at hand, and what its sequence met.
    pub side: usize,
    pub sequence: DirectionCounts,
}

/// What all streams of a worker share.
#[derive(Debug)]
pub(crate) struct StreamBudget {
    pub overload: Overload,
    spare: Spare,
    due: BinaryHeap<Reverse<Due>>,
}

/// A chunk that is to be handed over at a time. Compares by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    /// When.
    pub at: i64,
    pub flow: FlowKey,
    pub question: usize,
    pub side: bool,
    /// When the chunk began: it may have gone since, and be another one.
    pub since: i64,
}

impl StreamBudget {
    pub(crate) fn new(params: OverloadParams) -> Self {
        Self { overload: Overload::new(params), spare: Spare::default(), due: BinaryHeap::new() }
    }

    /// The next chunk that is due at `now`.
    pub(crate) fn next_due(&mut self, now: i64) -> Option<Due> {
        let due = self.due.peek().filter(|due| due.0.at <= now)?.0;
        self.due.pop();
        Some(due)
    }
}

impl FlowStreams {
    /// Bytes in order of one direction, with what is missing before them, for one question. Whether that is no
    /// longer open.
    pub(crate) fn take<S: Subscriber>(
        &mut self,
        to: &mut Delivery<'_, S>,
        (question, params): (usize, &StreamParams),
        side: bool,
        gap_bytes: u64,
        bytes: &[u8],
    ) -> bool {
        let side = usize::from(side);
        (to.side, to.sequence) = (side, self.counts[side]);
        let states = &mut self.states[side];
        let at = match states.iter().position(|state| state.question == question) {
            Some(at) => at,
            None => {
                states.push(StreamState::new(question, *params, side));
                let state = states.last_mut().expect("just pushed");
                to.created(state);
                states.len() - 1
            }
        };
        let state = &mut states[at];
        to.missing(state, gap_bytes);
        to.bytes(state, bytes);
        !state.is_open()
    }

    /// Whether none of these questions wants any more of either stream.
    pub(crate) fn are_over(&self, questions: u64) -> bool {
        let over = |states: &Vec<StreamState>| {
            let closed = states.iter().filter(|state| !state.is_open());
            closed.fold(0u64, |mask, state| mask | 1 << state.question) & questions == questions
        };
        self.states.iter().all(over)
    }

    /// The chunk of one stream that has waited since `since`, if it is still that one.
    pub(crate) fn flush_due<S: Subscriber>(&mut self, to: &mut Delivery<'_, S>, due: &Due) {
        let side = usize::from(due.side);
        (to.side, to.sequence) = (side, self.counts[side]);
        let states = &mut self.states[side];
        let Some(state) = states.iter_mut().find(|state| state.question == due.question) else { return };
        if state.chunker.as_ref().and_then(|chunker| chunker.since()) == Some(due.since) {
            to.flush(state);
        }
    }

    /// The flow is over. `questions`: those about streams that it is given to, with what they ask for; streams
    /// without a byte are told of now.
    pub(crate) fn end<'p, S: Subscriber>(
        mut self,
        to: &mut Delivery<'_, S>,
        questions: impl Iterator<Item = (usize, &'p StreamParams)>,
        reason: EndReason,
    ) {
        for (question, params) in questions {
            for side in [0, 1] {
                if !self.states[side].iter().any(|state| state.question == question) {
                    let mut state = StreamState::new(question, *params, side);
                    (to.side, to.sequence) = (side, self.counts[side]);
                    to.created(&mut state);
                    self.states[side].push(state);
                }
            }
        }
        for (side, states) in self.states.iter_mut().enumerate() {
            for state in states {
                (to.side, to.sequence) = (side, self.counts[side]);
                to.flush(state);
                to.forget_chunk(state);
                to.terminated(state, reason);
            }
        }
    }
}

impl<S: Subscriber> Delivery<'_, S> {
    fn created(&mut self, state: &mut StreamState) {
        let (order, question) = (self.order, state.question);
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_created(order, question, &mut handle);
    }

    fn data(&mut self, state: &mut StreamState, chunk: &Chunk<'_>) {
        let (order, question) = (self.order, state.question);
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_data(order, question, &mut handle, chunk);
    }

    fn terminated(&mut self, state: &mut StreamState, reason: EndReason) {
        let (order, question) = (self.order, state.question);
        let (subscriber, mut handle) = self.handle(state);
        subscriber.stream_terminated(order, question, &mut handle, reason);
    }

    fn handle<'a>(&'a mut self, state: &'a mut StreamState) -> (&'a mut S, StreamHandle<'a>) {
        let from = if self.side == 1 { Direction::Responder } else { Direction::Originator };
        let handle = StreamHandle { flow: self.flow, from, now: self.now, sequence: &self.sequence, state };
        (self.subscriber, handle)
    }

    /// Bytes are missing: what comes next does not join on.
    fn missing(&mut self, state: &mut StreamState, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.flush(state);
        self.forget_chunk(state);
        state.counts.gap_bytes += bytes;
        state.gap_bytes += bytes;
        state.offset += bytes;
    }

    fn bytes(&mut self, state: &mut StreamState, mut bytes: &[u8]) {
        while !bytes.is_empty() && state.is_open() {
            let room = usize::try_from(state.cutoff - state.offset).unwrap_or(usize::MAX);
            let open = &bytes[..bytes.len().min(room)];
            let taken = match state.params.chunk {
                None => self.pass(state, open),
                Some(_) => self.fill(state, open),
            };
            bytes = &bytes[taken..];
        }
        if !state.is_open() {
            self.flush(state);
            self.forget_chunk(state);
        }
        state.counts.cut_bytes += bytes.len() as u64;
        state.offset += bytes.len() as u64;
    }

    /// By reference.
    fn pass(&mut self, state: &mut StreamState, bytes: &[u8]) -> usize {
        let gap_bytes = std::mem::take(&mut state.gap_bytes);
        let chunk = Chunk { offset: state.offset, bytes, overlap: 0, gap_bytes };
        state.offset += bytes.len() as u64;
        state.counts.delivered_bytes += bytes.len() as u64;
        self.data(state, &chunk);
        bytes.len()
    }

    /// Into the chunk, which is handed over where it is full.
    fn fill(&mut self, state: &mut StreamState, bytes: &[u8]) -> usize {
        let Some(params) = state.params.chunk else { return bytes.len() };
        let Some(mut chunker) = state.chunker.take() else { return bytes.len() };
        let was_waiting = chunker.since().is_some();
        let (overload, spare) = (&mut self.budget.overload, &mut self.budget.spare);
        let growth = chunker.growth(&params, bytes.len());
        if growth > 0 && !overload.admits(state.params.priority, state.offset, growth, self.queued_bytes) {
            state.chunker = Some(chunker);
            let lost = bytes.len() as u64;
            self.budget.overload.drop_bytes(lost);
            self.flush(state);
            self.forget_chunk(state);
            state.counts.dropped_bytes += lost;
            state.gap_bytes += lost;
            state.offset += lost;
            return bytes.len();
        }
        let before = chunker.cost();
        let taken = chunker.push(&params, state.offset, bytes, self.now, spare);
        overload.resize(before, chunker.cost());
        state.offset += taken as u64;
        state.counts.delivered_bytes += taken as u64;
        let full = chunker.is_full();
        if !was_waiting && params.flush_ns > 0 {
            let due = Due {
                at: self.now.saturating_add(params.flush_ns),
                since: self.now,
                flow: self.key,
                question: state.question,
                side: self.side == 1,
            };
            self.budget.due.push(Reverse(due));
        }
        state.chunker = Some(chunker);
        if full {
            self.flush(state);
        }
        taken
    }

    /// Hands over what waits in the chunk.
    fn flush(&mut self, state: &mut StreamState) {
        let Some(params) = state.params.chunk else { return };
        let Some(mut chunker) = state.chunker.take() else { return };
        if chunker.waiting() > 0 {
            let (bytes, overlap) = chunker.chunk();
            let gap_bytes = std::mem::take(&mut state.gap_bytes);
            let chunk = Chunk { offset: chunker.offset(), bytes, overlap, gap_bytes };
            self.data(state, &chunk);
            let before = chunker.cost();
            chunker.next(&params, std::mem::take(&mut state.keeps), &mut self.budget.spare);
            self.budget.overload.resize(before, chunker.cost());
        }
        state.chunker = Some(chunker);
    }

    /// What comes next does not join on to what the chunk holds.
    fn forget_chunk(&mut self, state: &mut StreamState) {
        if let Some(chunker) = &mut state.chunker {
            let before = chunker.cost();
            chunker.clear(&mut self.budget.spare);
            self.budget.overload.resize(before, chunker.cost());
        }
    }
}

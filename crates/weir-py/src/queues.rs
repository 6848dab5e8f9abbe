//! Batches between the engine's thread and those who read them, bounded in bytes.

use arrow_array::RecordBatch;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_questions::by_name::{Ended, Ender, Message, Mistake};

/// Messages that wait for a reader at most; earlier ones are lost.
const MESSAGES_MAX: usize = 100;

/// The queues of a run, one for each question.
pub struct Queues {
    state: Mutex<State>,
    changed: Condvar,
    /// Ends the run when nobody reads.
    pub ender: Ender,
}

struct State {
    queues: Vec<Queue>,
    /// The end of the run, once it has ended.
    end: Option<Arc<End>>,
    /// The bytes that were read of the input, and those of the whole input.
    progress: (u64, Option<u64>),
    /// Messages of the run that no reader has taken.
    messages: VecDeque<Message>,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<RecordBatch>,
    bytes: usize,
    /// Bytes at most, unless a single batch has more.
    bytes_max: usize,
    /// The reader does not want more.
    is_closed: bool,
    /// Somebody has read from the queue.
    is_read: bool,
    /// A reader waits for a batch.
    is_waited_for: bool,
}

/// How a run has ended.
pub enum End {
    /// The run came to the end of its input.
    Done(Ended),
    /// The run could not begin.
    Refused(Mistake),
    /// The rows of the question with this number were not read while those of another one were waited for.
    Unread(usize),
    /// The engine's thread has panicked, which is a bug.
    Panicked,
}

/// What a reader receives.
pub enum Received {
    /// The next batch.
    Batch(RecordBatch),
    /// Nothing, within the time.
    Nothing,
    /// All batches were received.
    End(Arc<End>),
    /// The queue was closed by its reader.
    Closed,
}

impl Queues {
    /// Queues of these numbers of bytes.
    pub fn new(bytes_max: impl Iterator<Item = usize>) -> Self {
        let queues = bytes_max.map(|bytes_max| Queue { bytes_max, ..Queue::default() }).collect();
        let state = State { queues, end: None, progress: (0, None), messages: VecDeque::new() };
        Self { state: Mutex::new(state), changed: Condvar::new(), ender: Ender::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch to a queue. Waits while the queue is full. Returns whether more batches are wanted.
    pub fn push(&self, index: usize, batch: RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        let mut state = self.lock();
        loop {
            let queue = &state.queues[index];
            if queue.is_closed || state.end.is_some() {
                return false;
            }
            if queue.batches.is_empty() || queue.bytes + bytes <= queue.bytes_max {
                let queue = &mut state.queues[index];
                queue.bytes += bytes;
                queue.batches.push_back(batch);
                self.changed.notify_all();
                return true;
            }
            let other_waits =
                state.queues.iter().any(|other| other.is_waited_for && other.batches.is_empty());
            if !queue.is_read && other_waits {
                state.end = Some(Arc::new(End::Unread(index)));
                self.changed.notify_all();
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether somebody waits for a batch of this queue.
    pub fn is_waited_for(&self, index: usize) -> bool {
        let queue = &self.lock().queues[index];
        queue.is_waited_for && queue.batches.is_empty()
    }

    /// Whether the reader of the queue wants no more.
    pub fn is_closed(&self, index: usize) -> bool {
        self.lock().queues[index].is_closed
    }

    /// Takes the next batch of a queue; waits for at most `patience`.
    pub fn receive(&self, index: usize, patience: Duration) -> Received {
        let mut state = self.lock();
        state.queues[index].is_read = true;
        if let Some(received) = state.next(index) {
            self.changed.notify_all();
            return received;
        }
        state.queues[index].is_waited_for = true;
        // A queue that is full may be what this reader waits for.
        self.changed.notify_all();
        let is_early = |state: &mut State| state.queues[index].batches.is_empty() && state.end.is_none();
        let waited = self.changed.wait_timeout_while(state, patience, is_early);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.queues[index].is_waited_for = false;
        let received = state.next(index).unwrap_or(Received::Nothing);
        self.changed.notify_all();
        received
    }

    /// The reader of a queue wants no more. The run ends when no reader is left.
    pub fn close(&self, index: usize) {
        let mut state = self.lock();
        let queue = &mut state.queues[index];
        queue.is_closed = true;
        queue.batches.clear();
        queue.bytes = 0;
        if state.queues.iter().all(|queue| queue.is_closed) {
            self.ender.end();
        }
        self.changed.notify_all();
    }

    /// The run has ended. An earlier end stays.
    pub fn end(&self, end: End) {
        self.lock().end.get_or_insert_with(|| Arc::new(end));
        self.changed.notify_all();
    }

    /// Adds a message of the run.
    pub fn add_message(&self, message: Message) {
        let mut state = self.lock();
        if state.messages.len() == MESSAGES_MAX {
            state.messages.pop_front();
        }
        state.messages.push_back(message);
    }

    /// Takes the messages of the run.
    pub fn take_messages(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.lock().messages)
    }

    /// Sets the bytes that were read, and those of the whole input.
    pub fn set_progress(&self, read: u64, whole: Option<u64>) {
        self.lock().progress = (read, whole);
    }

    /// The bytes that were read, and those of the whole input if known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        self.lock().progress
    }
}

impl State {
    /// What a queue has for its reader; `None`: nothing yet.
    fn next(&mut self, index: usize) -> Option<Received> {
        let queue = &mut self.queues[index];
        if queue.is_closed {
            return Some(Received::Closed);
        }
        if let Some(batch) = queue.batches.pop_front() {
            queue.bytes = queue.bytes.saturating_sub(batch.get_array_memory_size());
            return Some(Received::Batch(batch));
        }
        self.end.as_ref().map(|end| Received::End(Arc::clone(end)))
    }
}

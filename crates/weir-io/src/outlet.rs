//! The thread of an output: it executes the jobs that write, so that an output that blocks delays nothing
//! else.
//!
//! Jobs wait in a queue of at most [`QUEUE_BYTES_MAX`] bytes. If the queue is full, the sender waits as long
//! as its [`Patience`] says, and then keeps the job; the caller counts the loss. A *slow* output completes
//! jobs and is waited for. An output that completes none for the time of the patience is *blocked*: nobody
//! waits for it until it completes one.

use crate::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, thread};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use weir_pipeline::bounded::{Bounded, WhenFull};

pub use weir_pipeline::bounded::Refused;

/// Limit of the bytes in the queue of an output. A larger job is accepted by an empty queue.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// How often a waiting sender checks whether its patience is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How much earlier the patience of a part ends.
const PART_LEAD: Duration = Duration::from_millis(150);

/// How long senders wait for an output that completes no job.
#[derive(Debug, Clone, Default)]
pub struct Patience {
    limit: Option<Duration>,
    completion_limit: Option<Duration>,
    /// How much earlier than `end` this patience ends.
    lead: Duration,
    end: Arc<OnceLock<End>>,
}

/// The end of all patience.
#[derive(Debug, Clone, Copy)]
struct End {
    of_senders: Instant,
    of_completion: Instant,
}

impl Patience {
    /// Waits without a limit. From files nothing is lost then.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Waits for this time; 0: not at all, as live traffic needs.
    pub fn of(limit: Duration) -> Self {
        Self { limit: Some(limit), completion_limit: Some(limit), ..Self::default() }
    }

    /// How long to wait for one part of an output, such as one of several clients: at most `limit`, if there
    /// is one. The part stops waiting a moment earlier than the whole output, so that the part's losses can
    /// still be reported.
    #[must_use]
    pub fn of_part(&self, limit: Option<Duration>) -> Self {
        Self { limit, completion_limit: limit, lead: self.lead + PART_LEAD, end: Arc::clone(&self.end) }
    }

    /// Waits at least this time for the [completion](Outlet::wait) of outputs.
    #[must_use]
    pub fn with_completion(self, least: Duration) -> Self {
        Self { completion_limit: self.completion_limit.map(|limit| limit.max(least)), ..self }
    }

    /// Whether a blocked output is not waited for, at some time.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Senders do not wait from `of_senders` on, and nobody waits for the [completion](Outlet::wait) of
    /// outputs from `of_completion` on. Applies to all copies; the first call counts.
    pub fn end_at(&self, of_senders: Instant, of_completion: Instant) {
        // A later end changes nothing.
        let _ = self.end.set(End { of_senders, of_completion });
    }

    /// Whether a sender waits no longer for an output that completed no job since `progress`.
    pub fn is_over(&self, progress: Instant) -> bool {
        is_past(self.limit, progress) || self.end.get().is_some_and(|end| Instant::now() >= end.of_senders)
    }

    /// Whether the completion of such an output is waited for no longer.
    pub fn is_over_for_completion(&self, progress: Instant) -> bool {
        is_past(self.completion_limit.map(|limit| limit.saturating_sub(self.lead)), progress)
            || self.end.get().is_some_and(|end| Instant::now() + self.lead >= end.of_completion)
    }
}

fn is_past(limit: Option<Duration>, progress: Instant) -> bool {
    limit.is_some_and(|limit| progress.elapsed() >= limit)
}

/// The size of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Rows or packets, for reports.
    pub rows: u64,
    /// Memory, in bytes.
    pub bytes: usize,
}

/// A job of an output.
pub type Job = Box<dyn FnOnce() + Send>;

/// The thread of an output, which begins with the first job and ends when the outlet is dropped and its queue
/// is empty. Dropping does not wait; [`wait`](Self::wait) does.
pub struct Outlet {
    shared: Arc<Shared>,
    patience: Patience,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("patience", &self.patience).finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    /// A job has come, or the outlet was dropped.
    arrived: Condvar,
    /// A job is complete.
    completed: Condvar,
}

struct State {
    jobs: VecDeque<(Load, Job)>,
    /// The size of these jobs and of the job that is executed.
    waiting: Load,
    is_busy: bool,
    is_started: bool,
    is_dropped: bool,
    /// A job has panicked.
    has_died: bool,
    /// When the last job was completed, or when the first job came to the empty queue.
    progress: Instant,
}

impl State {
    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && !self.is_busy
    }

    fn has_room(&self, load: Load) -> bool {
        self.is_idle() || self.waiting.bytes + load.bytes <= QUEUE_BYTES_MAX
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock panics, except for the assertion here.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!state.has_died, "the thread of an output has panicked");
        state
    }

    /// Waits until a job is complete, or a moment.
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let (state, _) =
            self.completed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        assert!(!state.has_died, "the thread of an output has panicked");
        state
    }

    /// Executes jobs until the outlet is dropped.
    fn work(&self) {
        let _alarm = Alarm(self);
        let mut state = self.lock();
        loop {
            let Some((load, job)) = state.jobs.pop_front() else {
                if state.is_dropped {
                    return;
                }
                state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_busy = true;
            drop(state);
            job();
            state = self.lock();
            state.is_busy = false;
            state.waiting.rows -= load.rows;
            state.waiting.bytes -= load.bytes;
            state.progress = Instant::now();
            self.completed.notify_all();
        }
    }
}

/// Reports a panic of a job to those who wait for the output.
struct Alarm<'s>(&'s Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).has_died = true;
            self.0.completed.notify_all();
        }
    }
}

impl Bounded for &Outlet {
    type Item = (Load, Job);

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    /// Bytes.
    fn bound(&self) -> u64 {
        QUEUE_BYTES_MAX as u64
    }

    fn waiting(&self) -> u64 {
        Outlet::waiting(self).bytes as u64
    }

    fn offer(&mut self, (load, job): (Load, Job)) -> Result<(), Refused> {
        self.send(load, job)
    }
}

impl Outlet {
    /// An outlet without a thread yet.
    pub fn new(patience: Patience) -> Self {
        let state = State {
            jobs: VecDeque::new(),
            waiting: Load::default(),
            is_busy: false,
            is_started: false,
            is_dropped: false,
            has_died: false,
            progress: Instant::now(),
        };
        let shared = Shared { state: Mutex::new(state), arrived: Condvar::new(), completed: Condvar::new() };
        Self { shared: Arc::new(shared), patience }
    }

    /// Whether [`send`](Self::send) would accept a job of this size at once.
    pub fn has_room(&self, load: Load) -> bool {
        self.shared.lock().has_room(load)
    }

    /// Adds a job; waits for room as long as the patience says.
    ///
    /// # Errors
    /// The job was not accepted and is dropped.
    ///
    /// # Panics
    /// An earlier job has panicked. This applies to the other functions, too.
    pub fn send(&self, load: Load, job: Job) -> Result<(), Refused> {
        let mut state = self.shared.lock();
        while !state.has_room(load) {
            if self.patience.is_over(state.progress) {
                return Err(Refused::Full);
            }
            state = self.shared.wait(state);
        }
        self.push(state, load, job)
    }

    /// Adds a job that needs no room, such as the end of the output. For jobs that are sent a fixed number of
    /// times.
    ///
    /// # Errors
    /// [`Refused::Broken`]: the thread cannot be created.
    pub fn post(&self, job: Job) -> Result<(), Refused> {
        self.push(self.shared.lock(), Load::default(), job)
    }

    fn push(&self, mut state: MutexGuard<'_, State>, load: Load, job: Job) -> Result<(), Refused> {
        if !state.is_started {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("weir-out".into());
            // The new thread waits for the lock.
            thread.spawn(move || shared.work()).map_err(Refused::Broken)?;
            state.is_started = true;
        }
        if state.is_idle() {
            state.progress = Instant::now();
        }
        state.waiting.rows += load.rows;
        state.waiting.bytes += load.bytes;
        state.jobs.push_back((load, job));
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// Waits until all jobs are complete, or `patience` is over.
    ///
    /// # Errors
    /// The size of the jobs that are not complete.
    pub fn wait(&self, patience: &Patience) -> Result<(), Load> {
        let mut state = self.shared.lock();
        while !state.is_idle() {
            if patience.is_over_for_completion(state.progress) {
                return Err(state.waiting);
            }
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// For jobs that write for a long time.
    pub fn pulse(&self) -> Pulse {
        Pulse(Arc::clone(&self.shared))
    }

    /// The size of the jobs that are not complete.
    pub fn waiting(&self) -> Load {
        self.shared.lock().waiting
    }

    /// Whether all jobs are complete.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().is_idle()
    }
}

/// Reports the progress of a job that writes for a long time.
#[derive(Clone)]
pub struct Pulse(Arc<Shared>);

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pulse")
    }
}

impl Pulse {
    /// The job has made progress.
    pub fn beat(&self) {
        self.0.lock().progress = Instant::now();
    }
}

/// Writes to a pipe or device in pieces, each of which is progress. A slow reader is then not taken for a
/// blocked one.
#[derive(Debug)]
pub struct Paced<W> {
    out: W,
    pulse: Pulse,
}

/// Size of a piece, in bytes: a page of a pipe.
const PIECE_BYTES: usize = 4096;

impl<W: Write> Paced<W> {
    /// Writes to `out`.
    pub fn new(out: W, pulse: Pulse) -> Self {
        Self { out, pulse }
    }
}

impl<W: Write> Write for Paced<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(&bytes[..bytes.len().min(PIECE_BYTES)])?;
        self.pulse.beat();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).is_dropped = true;
        self.shared.arrived.notify_one();
    }
}

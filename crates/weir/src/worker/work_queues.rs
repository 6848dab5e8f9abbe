//! The workers of a run, and the batches that wait for them. A worker is not bound to a thread: any thread
//! that has nothing else to do runs a worker that has batches.
//!
//! With `-j N` a run therefore has N threads. The thread that reads and dispatches runs workers, too, while
//! enough batches wait. With a thread for each worker and another one for reading, a core was often idle
//! while two threads shared another core.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;

/// Batches that wait or are not merged, at most: enough to keep all threads busy, and few enough that packets
/// stay in the cache until they are processed. Four times as many packets cost 10 % more processor time
/// (2026-11).
pub(crate) const BATCHES_MAX: usize = 16;
/// Limit of batches that a thread processes before it looks for other work. A worker that moves to another
/// core brings its tables into the cache of that core: with single batches, this cost up to a fifth of the
/// processor time (2026-11). At most half of all batches, so that the other half keeps other threads busy
/// meanwhile.
const BATCHES_AT_ONCE_MAX: usize = BATCHES_MAX / 2;
/// Limit of a worker's results that wait for the merger while the worker is at the end of its work.
const FINAL_RESULTS_MAX: usize = 16;

/// A worker, for the threads that run it.
pub(crate) trait BatchWorker {
    /// Its share of a batch.
    type Batch;
    /// What it yields.
    type Results: Default;

    /// Processes its share of a batch.
    fn process(&mut self, share: Self::Batch) -> Self::Results;

    /// Does a part of the work at the end of the run. Returns `true` with the last part.
    fn end(&mut self) -> (Self::Results, bool);
}

/// The workers of a run, shared by all its threads.
pub(crate) struct WorkQueues<W: BatchWorker> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W: BatchWorker> {
    queues: Vec<Queue<W>>,
    /// No batches follow.
    is_complete: bool,
    /// A thread has ended: all work is done, or the thread panicked. The other threads end, too.
    is_over: bool,
}

/// A worker's queue.
struct Queue<W: BatchWorker> {
    /// The worker, unless a thread runs it.
    worker: Option<Box<W>>,
    waiting: VecDeque<W::Batch>,
    /// The results of each processed batch, in order; then the final results.
    results: VecDeque<W::Results>,
    is_finished: bool,
}

/// A worker, taken from its queue, and what it does next.
struct Job<W: BatchWorker> {
    index: usize,
    worker: Box<W>,
    /// Empty: a part of the work at the end of the run.
    batches: Vec<W::Batch>,
}

/// A worker that goes back to its queue, with its results: of each batch, or a part of the final ones.
struct Done<W: BatchWorker> {
    index: usize,
    worker: Box<W>,
    results: Vec<W::Results>,
    is_finished: bool,
}

/// Ends all threads of a run when it is dropped, also by a panic, so that no thread waits for one that has
/// ended.
pub(crate) struct EndAll<'a, W: BatchWorker>(pub &'a WorkQueues<W>);

impl<W: BatchWorker> Drop for EndAll<'_, W> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl<W: BatchWorker> WorkQueues<W> {
    pub fn new(workers: impl Iterator<Item = W>) -> Self {
        let queues = workers.map(|worker| Queue {
            worker: Some(Box::new(worker)),
            waiting: VecDeque::new(),
            results: VecDeque::new(),
            is_finished: false,
        });
        let state = State { queues: queues.collect(), is_complete: false, is_over: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Appends a batch: each worker gets its share. Returns `false` if a thread has panicked, so the run must
    /// end.
    pub fn push(&self, shares: Vec<W::Batch>) -> bool {
        let mut state = self.lock();
        for (queue, share) in state.queues.iter_mut().zip(shares) {
            queue.waiting.push_back(share);
        }
        self.changed.notify_all();
        !state.is_over
    }

    /// Starts the work at the end of the run, once all batches are processed.
    pub fn complete(&self) {
        self.lock().is_complete = true;
        self.changed.notify_all();
    }

    /// Removes and returns the next results of a worker: of a batch, then final ones. Until the results are
    /// available, this thread runs workers. `None`: no results follow, or a thread has panicked.
    pub fn take(&self, index: usize) -> Option<W::Results> {
        let mut state = self.lock();
        loop {
            if let Some(results) = state.queues[index].results.pop_front() {
                return Some(results);
            }
            if state.queues[index].is_finished || state.is_over {
                return None;
            }
            state = self.work_or_wait(state, index);
        }
    }

    /// Removes and returns the results of the next batch, by worker.
    pub fn take_batch(&self) -> Vec<W::Results> {
        let workers = self.lock().queues.len();
        (0..workers).map(|worker| self.take(worker).unwrap_or_default()).collect()
    }

    /// Runs workers until all work is done. The worker `first` is preferred, so its tables stay in the cache
    /// of the thread's core.
    pub fn work(&self, first: usize) {
        let mut state = self.lock();
        while !state.is_over && !state.queues.iter().all(|queue| queue.is_finished) {
            state = self.work_or_wait(state, first);
        }
    }

    /// Calls `visit` for each worker. No batch may wait or be processed.
    pub fn for_each(&self, visit: impl FnMut(&mut W)) {
        let mut state = self.lock();
        state.queues.iter_mut().filter_map(|queue| queue.worker.as_deref_mut()).for_each(visit);
    }

    /// The workers, at the end of the run.
    pub fn into_workers(self) -> impl Iterator<Item = W> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.queues.into_iter().filter_map(|queue| queue.worker).map(|worker| *worker)
    }

    /// Runs a worker if one has something to do, else waits until the state changes.
    fn work_or_wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<W>>,
        first: usize,
    ) -> MutexGuard<'a, State<W>> {
        let Some(job) = state.take_job(first) else {
            return self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let done = job.run();
        let mut state = self.lock();
        state.put_back(done);
        self.changed.notify_all();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: BatchWorker> State<W> {
    /// Takes a worker that has something to do; the `first` one if possible.
    fn take_job(&mut self, first: usize) -> Option<Job<W>> {
        let count = self.queues.len();
        let mut indices = (first..first + count).map(|index| index % count);
        indices.find_map(|index| self.queues[index].take_job(index, self.is_complete))
    }

    fn put_back(&mut self, Done { index, worker, results, is_finished }: Done<W>) {
        let queue = &mut self.queues[index];
        queue.worker = Some(worker);
        queue.results.extend(results);
        queue.is_finished = is_finished;
    }
}

impl<W: BatchWorker> Queue<W> {
    fn take_job(&mut self, index: usize, is_complete: bool) -> Option<Job<W>> {
        let may_end = is_complete && !self.is_finished && self.results.len() < FINAL_RESULTS_MAX;
        if self.waiting.is_empty() && !may_end {
            return None;
        }
        let worker = self.worker.take()?;
        let count = self.waiting.len().min(BATCHES_AT_ONCE_MAX);
        Some(Job { index, worker, batches: self.waiting.drain(..count).collect() })
    }
}

impl<W: BatchWorker> Job<W> {
    fn run(self) -> Done<W> {
        let Self { index, mut worker, batches } = self;
        if batches.is_empty() {
            let (results, is_finished) = worker.end();
            return Done { index, worker, results: vec![results], is_finished };
        }
        let results = batches.into_iter().map(|batch| worker.process(batch)).collect();
        Done { index, worker, results, is_finished: false }
    }
}

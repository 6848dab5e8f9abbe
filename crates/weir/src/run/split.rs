//! Runs several workers, each of which polls its own source, such as a queue of a network card. No thread
//! stands between a source and its worker. This thread delivers the workers' results, merged by time
//! (`merge/timed.rs`), and changes their programs.

use super::swap::swap_if_changed;
use crate::ask::compile::Compiled;
use crate::items::yields::Yields;
use crate::merge::ordered::Merger;
use crate::merge::timed::TimedMerge;
use crate::outcome::Outcome;
use crate::worker::parts::WorkerParts;
use crate::worker::worker_loop::WorkerLoop;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};
use weir_engine::plan::Plan;
use weir_packet::{KernelFilters, Poll, Source, SourceError};

/// Limit of reports of all workers that wait to be taken.
const REPORTS_MAX: usize = 256;
/// Time between two pauses, at which delivered rows are flushed and questions may change.
const PAUSE: Duration = Duration::from_millis(10);

/// A program that a worker runs from now on.
struct Change {
    plan: Arc<Plan>,
    parts: Arc<WorkerParts>,
    filters: Option<Arc<dyn KernelFilters>>,
}

/// A worker's report.
struct Report {
    worker: usize,
    event: WorkerEvent,
}

enum WorkerEvent {
    /// The worker has reached a time, with these results.
    Reached(i64, Yields),
    /// The worker runs another program from now on.
    Changed,
    /// The worker is done; whether it panicked.
    Over(bool),
}

/// Sends a worker's reports. The last report is also sent if the worker panics, so that nobody waits for it.
struct Reports {
    worker: usize,
    sender: SyncSender<Report>,
}

impl Reports {
    /// Sends a report. Returns whether there is a receiver.
    fn send(&self, event: WorkerEvent) -> bool {
        self.sender.send(Report { worker: self.worker, event }).is_ok()
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.send(WorkerEvent::Over(std::thread::panicking()));
    }
}

/// This thread's state of its workers.
struct Workers {
    reports: Receiver<Report>,
    changes: Vec<Sender<Change>>,
    merge: TimedMerge,
    /// Workers that are not done.
    live: usize,
    /// A worker has panicked: the run ends, because nobody processes its packets.
    has_panicked: bool,
}

impl Workers {
    /// Processes a report.
    fn take(&mut self, Report { worker, event }: Report) {
        match event {
            WorkerEvent::Reached(time, yields) => self.merge.push(worker, time, yields, Instant::now()),
            WorkerEvent::Changed => {}
            WorkerEvent::Over(has_panicked) => {
                self.merge.end(worker);
                self.live -= 1;
                self.has_panicked |= has_panicked;
            }
        }
    }

    /// Waits for a report, until a portion or a pause is due at the latest, and processes all available
    /// reports.
    fn wait(&mut self) {
        let now = Instant::now();
        let until_due = self.merge.next_due().map_or(PAUSE, |due| due.saturating_duration_since(now));
        match self.reports.recv_timeout(until_due.min(PAUSE)) {
            Ok(report) => self.take(report),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        for _ in 0..REPORTS_MAX {
            let Ok(report) = self.reports.try_recv() else { return };
            self.take(report);
        }
    }

    /// Delivers all results that may be delivered now. Returns whether there were any.
    fn hand_out(&mut self, merger: &mut Merger<'_>) -> bool {
        let now = Instant::now();
        let mut has_any = false;
        while let Some((worker, mut yields)) = self.merge.pop(now) {
            has_any = true;
            merger.take_all(worker, &mut yields);
        }
        has_any
    }

    /// Changes all workers to other questions. All results for the previous ones are delivered first.
    fn change(&mut self, compiled: &Compiled, parts: WorkerParts, merger: &mut Merger<'_>) {
        let (plan, parts) = (&compiled.plan, Arc::new(parts));
        for worker in &self.changes {
            // A worker that is done has no further results.
            let filters = compiled.kernel_filters();
            let _ = worker.send(Change { plan: Arc::clone(plan), parts: Arc::clone(&parts), filters });
        }
        let mut has_changed = vec![false; self.changes.len()];
        let mut later = vec![];
        let mut waits = self.live;
        while waits > 0 {
            let Ok(report) = self.reports.recv() else { break };
            match report.event {
                WorkerEvent::Changed => {
                    has_changed[report.worker] = true;
                    waits -= 1;
                }
                WorkerEvent::Over(_) if !has_changed[report.worker] => {
                    waits -= 1;
                    self.take(report);
                }
                // Results for the new questions.
                _ if has_changed[report.worker] => later.push(report),
                _ => self.take(report),
            }
        }
        while let Some((worker, mut yields)) = self.merge.pop_any() {
            merger.take_all(worker, &mut yields);
        }
        merger.change(plan, &parts.presenter);
        later.into_iter().for_each(|report| self.take(report));
    }
}

/// Runs `compiled` over `sources`, with a worker for each; results go to `merger` within `delay`.
pub(crate) fn run_split(
    compiled: &Compiled,
    sources: Vec<Box<dyn Source + Send>>,
    delay: Duration,
    parts: &WorkerParts,
    merger: &mut Merger<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    merger.separate(&compiled.plan, sources.len());
    std::thread::scope(|scope| {
        let count = sources.len();
        let (sender, reports) = sync_channel::<Report>(REPORTS_MAX);
        let (mut changes, mut threads) = (vec![], vec![]);
        for (worker, source) in sources.into_iter().enumerate() {
            let (change, changed) = channel();
            changes.push(change);
            let work = WorkerLoop::new(compiled, parts, worker);
            let reports = Reports { worker, sender: sender.clone() };
            let processors = &compiled.options.processors;
            threads.push(scope.spawn(move || {
                let _bound = processors.bind(worker);
                run_worker(work, source, &changed, &reports)
            }));
        }
        drop(sender);
        let mut workers = Workers {
            reports,
            changes,
            merge: TimedMerge::new(count, delay),
            live: count,
            has_panicked: false,
        };
        let mut paused = Instant::now();
        let mut is_unflushed = false;
        while workers.live > 0 {
            workers.wait();
            is_unflushed |= workers.hand_out(merger);
            if paused.elapsed() < PAUSE {
                continue;
            }
            paused = Instant::now();
            merger.post();
            if std::mem::take(&mut is_unflushed) {
                merger.pause();
            }
            if merger.is_over() || workers.has_panicked {
                break;
            }
            // The previous questions' results were handed out, and packets may not come for a long time.
            is_unflushed |= swap_if_changed(merger, &mut outcome, |compiled, parts, merger| {
                workers.change(compiled, parts, merger);
            });
        }
        workers.hand_out(merger);
        // If the run ended early, workers stop at their next report.
        drop(workers);
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome.errors.extend(ended.errors);
            outcome.source.add(ended.source.stats());
            outcome.shares.push(ended.packets);
            ended.work.gather(&mut outcome);
        }
        outcome
    })
}

/// A worker at its end.
struct Ended {
    work: WorkerLoop,
    source: Box<dyn Source + Send>,
    errors: Vec<SourceError>,
    packets: u64,
}

fn run_worker(
    mut work: WorkerLoop,
    mut source: Box<dyn Source + Send>,
    changes: &Receiver<Change>,
    reports: &Reports,
) -> Ended {
    let (mut errors, mut packets) = (vec![], 0);
    loop {
        let before = work.clock.now();
        let polled = work.step(&mut *source, |yields| {
            reports.send(WorkerEvent::Reached(before, std::mem::take(yields)));
        });
        let mut is_taken = reports.send(WorkerEvent::Reached(work.clock.now(), work.take_yields()));
        match polled {
            Ok(Poll::Packets) => packets += work.burst.packets.len() as u64,
            Ok(Poll::Idle { .. }) => {}
            Ok(Poll::End) => break,
            Err(error) => errors.push(error),
        }
        if let Ok(Change { plan, parts, filters }) = changes.try_recv() {
            source.narrow(filters.as_ref());
            parts.end_pipelines(work.worker.subscriber());
            reports.send(WorkerEvent::Reached(work.clock.now(), work.take_yields()));
            work.change(&plan, &parts);
            is_taken = reports.send(WorkerEvent::Changed);
        }
        if !is_taken {
            break;
        }
    }
    let mut more = true;
    while more {
        more = work.worker.finish(work.number);
        reports.send(WorkerEvent::Reached(work.clock.now(), work.take_yields()));
    }
    Ended { work, source, errors, packets }
}

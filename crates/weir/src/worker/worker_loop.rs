//! A worker that polls a source itself: the only worker of a run, or one of several with their own sources.

use super::output::Collector;
use super::parts::{WorkerParts, gather, read};
use crate::ask::compile::Compiled;
use crate::items::yields::Yields;
use crate::outcome::Outcome;
use crate::watch::{Glance, Poster, Posting};
use std::sync::Arc;
use weir_engine::clock::Clock;
use weir_engine::plan::Plan;
use weir_engine::stage::Stages;
use weir_engine::worker::Worker;
use weir_packet::{Burst, Poll, Source, SourceError, SourceStats};

/// The state of a worker, without its source.
pub(crate) fn glance_of(worker: &Worker<Collector>) -> Glance {
    let source = SourceStats::default();
    Glance { counters: worker.counters(), source, flows: worker.size().0, memory: worker.memory() }
}

/// A worker, with the clock of its source.
pub(crate) struct WorkerLoop {
    pub worker: Worker<Collector>,
    pub clock: Clock,
    /// Number of bursts so far, and of clock ticks.
    pub number: u64,
    /// The last burst; empty unless the last poll returned packets.
    pub burst: Burst,
    /// Counts of the stage of reading; the worker has those of all others.
    stages: Stages,
    posting: Posting,
}

impl WorkerLoop {
    /// The worker of this number.
    pub fn new(compiled: &Compiled, parts: &WorkerParts, number: usize) -> Self {
        Self {
            worker: Worker::new(Arc::clone(&compiled.plan), parts.collector()),
            clock: Clock::default(),
            number: 0,
            burst: Burst::default(),
            stages: Stages::new(compiled.plan.timed),
            posting: Posting::new(compiled.options.watch.as_ref(), Poster::Worker(number)),
        }
    }

    /// Polls the source once, and processes its packets, or the time that it claims. While many flows end at
    /// the same time, `deliver` takes the results so far.
    pub fn step(
        &mut self,
        source: &mut dyn Source,
        mut deliver: impl FnMut(&mut Yields),
    ) -> Result<Poll, SourceError> {
        let polled = read(source, &mut self.burst, &mut self.stages)?;
        let step_ns = source.clock_step();
        if step_ns != 0 {
            self.clock.step(step_ns);
            self.worker.step_clock(step_ns);
        }
        match polled {
            Poll::Packets | Poll::Idle { .. } if let Some(now) = source.clock() => {
                if self.clock.follow(now.0) {
                    self.number += 1;
                    while self.worker.pass_time(self.number, self.clock.ticked()) {
                        deliver(&mut self.worker.subscriber().yielded);
                    }
                }
                self.worker.take(&self.burst, 0..self.burst.packets.len(), self.number);
                self.number += 1;
            }
            Poll::Packets => {
                let mut first = 0;
                for (index, packet) in self.burst.packets.iter().enumerate() {
                    if self.clock.tick(packet.time.0) {
                        self.worker.take(&self.burst, first..index, self.number);
                        first = index;
                        self.number += 1;
                        while self.worker.pass_time(self.number, self.clock.ticked()) {
                            deliver(&mut self.worker.subscriber().yielded);
                        }
                    }
                }
                self.worker.take(&self.burst, first..self.burst.packets.len(), self.number);
                self.number += 1;
            }
            Poll::Idle { now } => {
                if self.clock.idle(now.0) {
                    while self.worker.pass_time(self.number, self.clock.ticked()) {
                        deliver(&mut self.worker.subscriber().yielded);
                    }
                    self.number += 1;
                }
            }
            Poll::End => {}
        }
        let Self { worker, posting, .. } = self;
        posting.post(|| Glance { source: source.stats(), ..glance_of(worker) });
        Ok(polled)
    }

    /// Removes and returns the worker's results.
    pub fn take_yields(&mut self) -> Yields {
        std::mem::take(&mut self.worker.subscriber().yielded)
    }

    /// Changes the program.
    pub fn change(&mut self, plan: &Arc<Plan>, parts: &WorkerParts) {
        parts.change(self.worker.subscriber());
        self.worker.change(Arc::clone(plan));
    }

    /// Adds the worker's counters and handlers to the outcome, at the end of the run.
    pub fn gather(self, outcome: &mut Outcome) {
        gather(outcome, self.worker);
        outcome.stages.merge(&self.stages);
        outcome.counters.clock.merge(self.clock.counters());
    }
}

//! The counters of a run while it goes on. Workers post them a few times a second; anybody may read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_engine::counters::Counters;
use weir_engine::memory::Memory;
use weir_packet::SourceStats;

/// Time between two postings of a worker.
const PERIOD: Duration = Duration::from_millis(100);

/// The state of a run, or of one of its workers, at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Glance {
    /// The outcomes so far.
    pub counters: Counters,
    /// The counters of the source.
    pub source: SourceStats,
    /// Live flows.
    pub flows: u64,
    /// Bytes of memory in use, by owner.
    pub memory: Memory,
}

impl Glance {
    fn add(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.source.add(other.source);
        self.flows += other.flows;
        self.memory.merge(&other.memory);
    }
}

/// Shows the counters of a run while it goes on; clones show the same run. They are at most 100 ms old while packets or
/// idle times come.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Posted>>);

/// What was posted last.
#[derive(Debug, Default)]
struct Posted {
    workers: Vec<Glance>,
    /// Of the thread that reads for all workers, if there is one.
    reader: Glance,
}

impl Watch {
    /// The sum over all workers.
    pub fn glance(&self) -> Glance {
        let posted = self.lock();
        let mut sum = posted.reader;
        posted.workers.iter().for_each(|glance| sum.add(glance));
        sum
    }

    /// Each worker. If one thread reads for all, the counters of the source are not among them.
    pub fn workers(&self) -> Vec<Glance> {
        self.lock().workers.clone()
    }

    fn post(&self, worker: Option<usize>, glance: Glance) {
        let mut posted = self.lock();
        let Some(worker) = worker else {
            posted.reader = glance;
            return;
        };
        if posted.workers.len() <= worker {
            posted.workers.resize(worker + 1, Glance::default());
        }
        posted.workers[worker] = glance;
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Posts the state of one worker, or of the thread that reads for all.
pub(crate) struct Posting {
    watch: Option<Watch>,
    worker: Option<usize>,
    due: Instant,
}

impl Posting {
    /// Posts for the worker of this number; `None`: for the thread that reads.
    pub fn new(watch: Option<&Watch>, worker: Option<usize>) -> Self {
        Self { watch: watch.cloned(), worker, due: Instant::now() }
    }

    /// Posts the state, if somebody watches and the last posting is old.
    #[inline]
    pub fn post(&mut self, glance: impl FnOnce() -> Glance) {
        let Some(watch) = &self.watch else { return };
        let now = Instant::now();
        if now >= self.due {
            self.due = now + PERIOD;
            watch.post(self.worker, glance());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_is_the_sum_of_the_last_postings() {
        let watch = Watch::default();
        let of = |flows| Glance { flows, ..Glance::default() };
        watch.post(Some(2), of(5));
        watch.post(Some(0), of(1));
        watch.post(Some(2), of(7));
        watch.post(None, of(20));
        assert_eq!(watch.glance().flows, 28);
        assert_eq!(watch.workers().iter().map(|worker| worker.flows).collect::<Vec<_>>(), [1, 0, 7]);
        let mut posting = Posting::new(Some(&watch), Some(1));
        posting.post(|| of(100));
        posting.post(|| unreachable!("the last posting is new"));
        assert_eq!(watch.glance().flows, 128);
    }
}

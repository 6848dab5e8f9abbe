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

/// Shows the counters of a run while it goes on; clones show the same run. They are at most 100 ms old while
/// packets or idle times come.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Posted>>);

/// What was posted last.
#[derive(Debug, Default)]
struct Posted {
    workers: Vec<Glance>,
    /// Of the thread that reads for all workers, if there is one.
    reader: Glance,
    /// Of the packets that waited for their connection.
    merger: Glance,
    /// Of the whole run, once it is over.
    whole: Option<Glance>,
}

/// A part of a run that posts its state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Poster {
    /// The worker of this number.
    Worker(usize),
    /// The thread that reads for all workers.
    Reader,
    /// The merger of their results.
    Merger,
}

impl Watch {
    /// The sum over all workers.
    pub fn glance(&self) -> Glance {
        let posted = self.lock();
        posted.whole.unwrap_or_else(|| {
            let mut sum = posted.reader;
            sum.add(&posted.merger);
            posted.workers.iter().for_each(|glance| sum.add(glance));
            sum
        })
    }

    /// Each worker. If one thread reads for all, the counters of the source are not among them.
    pub fn workers(&self) -> Vec<Glance> {
        self.lock().workers.clone()
    }

    /// A run begins: nothing is left of the one before.
    pub(crate) fn begin(&self) {
        *self.lock() = Posted::default();
    }

    /// The run is over, with these counters.
    pub(crate) fn complete(&self, counters: Counters, source: SourceStats) {
        self.lock().whole = Some(Glance { counters, source, ..Glance::default() });
    }

    fn post(&self, poster: Poster, glance: Glance) {
        let posted = &mut *self.lock();
        match poster {
            Poster::Reader => posted.reader = glance,
            Poster::Merger => posted.merger = glance,
            Poster::Worker(number) => {
                if posted.workers.len() <= number {
                    posted.workers.resize(number + 1, Glance::default());
                }
                posted.workers[number] = glance;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Posts the state of a part of a run.
pub(crate) struct Posting {
    watch: Option<Watch>,
    poster: Poster,
    due: Instant,
}

impl Posting {
    pub fn new(watch: Option<&Watch>, poster: Poster) -> Self {
        Self { watch: watch.cloned(), poster, due: Instant::now() }
    }

    /// Posts the state, if somebody watches and the last posting is old.
    #[inline]
    pub fn post(&mut self, glance: impl FnOnce() -> Glance) {
        let Some(watch) = &self.watch else { return };
        let now = Instant::now();
        if now >= self.due {
            self.due = now + PERIOD;
            watch.post(self.poster, glance());
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
        watch.post(Poster::Worker(2), of(5));
        watch.post(Poster::Worker(0), of(1));
        watch.post(Poster::Worker(2), of(7));
        watch.post(Poster::Reader, of(20));
        assert_eq!(watch.glance().flows, 28);
        assert_eq!(watch.workers().iter().map(|worker| worker.flows).collect::<Vec<_>>(), [1, 0, 7]);
        let mut posting = Posting::new(Some(&watch), Poster::Worker(1));
        posting.post(|| of(100));
        posting.post(|| unreachable!("the last posting is new"));
        assert_eq!(watch.glance().flows, 128);
        watch.complete(Counters::default(), SourceStats::default());
        assert_eq!((watch.glance().flows, watch.workers().len()), (0, 3));
        watch.begin();
        assert!(watch.workers().is_empty());
    }
}

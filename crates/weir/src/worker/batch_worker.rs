//! The engine's worker as the queues of `work_queues` run it.

use super::output::Collector;
use super::work_queues::BatchWorker;
use super::worker_loop::glance_of;
use crate::items::yields::Yields;
use crate::watch::Posting;
use std::ops::{Deref, DerefMut};
use weir_engine::worker::Worker;
use weir_packet::Burst;

/// A worker's share of a batch: for each burst its number, the time before it, and the packets.
pub(crate) type Batch = Vec<(u64, i64, Burst)>;

/// A worker, and the number of bursts processed.
pub(crate) struct CountedWorker {
    worker: Worker<Collector>,
    bursts: u64,
    posting: Posting,
}

impl CountedWorker {
    pub fn new(worker: Worker<Collector>, posting: Posting) -> Self {
        Self { worker, bursts: 0, posting }
    }

    pub fn into_inner(self) -> Worker<Collector> {
        self.worker
    }

    fn yielded(&mut self) -> Yields {
        std::mem::take(&mut self.worker.subscriber().yielded)
    }
}

impl Deref for CountedWorker {
    type Target = Worker<Collector>;

    fn deref(&self) -> &Self::Target {
        &self.worker
    }
}

impl DerefMut for CountedWorker {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.worker
    }
}

impl BatchWorker for CountedWorker {
    type Batch = Batch;
    type Results = Yields;

    fn process(&mut self, share: Batch) -> Yields {
        for (number, time, burst) in share {
            while self.worker.pass_time(number, time) {}
            self.worker.take(&burst, 0..burst.packets.len(), number);
            self.bursts = number + 1;
        }
        let Self { worker, posting, .. } = self;
        posting.post(|| glance_of(worker));
        self.yielded()
    }

    fn end(&mut self) -> (Yields, bool) {
        let goes_on = self.worker.finish(self.bursts);
        (self.yielded(), !goes_on)
    }
}

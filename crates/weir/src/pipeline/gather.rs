//! What the workers' parts of a pipeline pass on comes together.

use crate::items::pipeline_part::PipelinePart;
use std::sync::PoisonError;
use weir_pipeline::{Port, Signal};

/// Capture time for which the earliest time of all workers waits for the first report of a worker: 10 s.
const WAIT_NS: i64 = 10_000_000_000;

/// Joins the parts of all workers: items as they come, and the time that all workers have reached.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    workers: Vec<Reached>,
    /// The first time that a worker reported.
    first: Option<i64>,
    /// How often all workers have begun anew.
    restarts: u64,
    has_begun: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    /// The time that the worker has reached, if it has reported one.
    time: Option<i64>,
    /// How often the worker's time was set.
    restarts: u64,
}

impl Gather {
    /// Passes on the items of a part, and the time that all workers have reached.
    pub fn take<T: 'static>(&mut self, part: &PipelinePart, out: &mut impl Port<T>) {
        self.workers.resize_with(part.workers.max(self.workers.len()), Reached::default);
        if !std::mem::replace(&mut self.has_begun, true) {
            // Items have a watermark, which workers have not reported yet.
            out.signal(Signal::Time(i64::MIN));
        }
        let reported = (part.time > i64::MIN).then_some(part.time);
        self.workers[part.worker] = Reached { time: reported, restarts: part.restarts };
        let mut items = part.items.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(items) = items.downcast_mut::<Vec<T>>() {
            items.drain(..).for_each(|item| out.put(item));
        }
        let Some(time) = reported else { return };
        let first = *self.first.get_or_insert(time);
        // A worker that ended before this question began never reports.
        let waits = time.saturating_sub(first) < WAIT_NS;
        let known = || self.workers.iter().filter(|worker| waits || worker.time.is_some());
        let Some(reached) = known().map(|worker| worker.time.unwrap_or(i64::MIN)).min() else { return };
        let restarts = known().map(|worker| worker.restarts).min().unwrap_or(0);
        // The times of workers can be compared once all of them have begun anew.
        if reached == i64::MIN || known().any(|worker| worker.restarts != restarts) {
            return;
        }
        if restarts > self.restarts {
            (self.restarts, self.first) = (restarts, Some(time));
            out.signal(Signal::Restart(reached));
        } else {
            out.signal(Signal::Time(reached));
        }
    }
}

//! Merges the results of workers with their own sources by time, within a bounded delay.
//!
//! No number orders packets of different sources, so there is no total order. The results of one worker keep
//! their order. A portion of results is delivered when every other worker has reached its time, or at the
//! latest `delay` after it arrived: a worker whose source is idle and knows no time, or whose thread is busy,
//! holds up the others no longer than that.
//!
//! The time of packets orders portions; the time of the machine, which callers pass as an argument, bounds
//! the delay.

use crate::items::yields::Yields;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

/// Limit of the results that wait for other workers. Beyond the limit the earliest portion is delivered
/// before its delay is over; nothing is lost.
const RESULTS_MAX: usize = 1 << 18;

/// Yields of one worker, in its order.
struct Portion {
    /// The packet time that the worker had reached.
    time: i64,
    /// Number of the portion, in order of arrival.
    serial: u64,
    worker: usize,
    yields: Yields,
}

impl Portion {
    fn place(&self) -> (i64, u64) {
        (self.time, self.serial)
    }
}

impl PartialEq for Portion {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Portion {}

impl PartialOrd for Portion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Portion {
    /// The earliest portion is the greatest, because the heap returns the greatest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.place().cmp(&self.place())
    }
}

/// Portions that wait for other workers.
pub(crate) struct TimedMerge {
    delay: Duration,
    /// For each worker, the packet time that it has reached; `i64::MAX` for a worker that is done.
    reached: Vec<i64>,
    waiting: BinaryHeap<Portion>,
    /// Number of results in the waiting portions.
    results: usize,
    /// Arrival time of each waiting portion, by its number.
    arrived: BTreeMap<u64, Instant>,
    serial: u64,
}

impl TimedMerge {
    /// A merge of `workers` workers.
    pub fn new(workers: usize, delay: Duration) -> Self {
        Self {
            delay,
            reached: vec![i64::MIN; workers],
            waiting: BinaryHeap::new(),
            results: 0,
            arrived: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Adds the results of a worker that has reached `time`; they may be empty. `now` is the time of the
    /// machine.
    pub fn push(&mut self, worker: usize, time: i64, yields: Yields, now: Instant) {
        let reached = &mut self.reached[worker];
        // A clock that was set back must not change the order of a worker's results.
        *reached = time.max(*reached);
        if !yields.is_empty() {
            self.results += yields.len();
            self.waiting.push(Portion { time: *reached, serial: self.serial, worker, yields });
            self.arrived.insert(self.serial, now);
            self.serial += 1;
        }
    }

    /// Marks a worker as done.
    pub fn end(&mut self, worker: usize) {
        self.reached[worker] = i64::MAX;
    }

    /// The next portion to deliver at `now`, with its worker.
    pub fn pop(&mut self, now: Instant) -> Option<(usize, Yields)> {
        let next = self.waiting.peek()?;
        let is_overdue = || self.next_due().is_some_and(|due| due <= now);
        let is_full = self.results > RESULTS_MAX;
        if is_full || self.reached.iter().all(|&reached| reached >= next.time) || is_overdue() {
            return self.pop_any();
        }
        None
    }

    /// The next portion, even if earlier ones may follow.
    pub fn pop_any(&mut self) -> Option<(usize, Yields)> {
        let next = self.waiting.pop()?;
        self.arrived.remove(&next.serial);
        self.results -= next.yields.len();
        Some((next.worker, next.yields))
    }

    /// The time at which the oldest portion will have waited for the whole delay.
    pub fn next_due(&self) -> Option<Instant> {
        self.arrived.first_key_value().map(|(_, &arrived)| arrived + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::item::Item;
    use crate::items::yielded::Yielded;
    use crate::items::yields::Popped;
    use weir_engine::subscriber::Order;

    const DELAY: Duration = Duration::from_millis(100);

    /// A result that is identified by its number.
    fn yields(number: usize) -> Yields {
        let mut yields = Yields::default();
        yields.push(Order::default(), Yielded::Item(number, Item::Pause));
        yields
    }

    fn pop_all(merge: &mut TimedMerge, now: Instant) -> Vec<usize> {
        let numbers = |(_, mut yields): (usize, Yields)| match yields.pop_if(|_| true) {
            Some(Popped::Other(Yielded::Item(number, _))) => number,
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| merge.pop(now)).map(numbers).collect()
    }

    #[test]
    fn portions_leave_in_the_order_of_time_once_all_workers_have_reached_it() {
        let (mut merge, now) = (TimedMerge::new(2, DELAY), Instant::now());
        merge.push(0, 10, yields(1), now);
        merge.push(0, 20, yields(2), now);
        assert_eq!(pop_all(&mut merge, now), [0; 0], "the other one may be earlier");
        merge.push(1, 15, yields(3), now);
        assert_eq!(pop_all(&mut merge, now), [1, 3]);
        // The worker is idle, and its source knows the time.
        merge.push(1, 25, Yields::default(), now);
        assert_eq!(pop_all(&mut merge, now), [2]);
        merge.push(0, 30, yields(4), now);
        merge.end(1);
        assert_eq!(pop_all(&mut merge, now), [4]);
    }

    #[test]
    fn nothing_waits_for_longer_than_the_delay() {
        let (mut merge, start) = (TimedMerge::new(2, DELAY), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        merge.push(0, 20, yields(1), after(0));
        merge.push(0, 30, yields(2), after(60));
        assert_eq!(merge.next_due(), Some(after(100)));
        assert_eq!(pop_all(&mut merge, after(99)), [0; 0]);
        assert_eq!(pop_all(&mut merge, after(100)), [1]);
        assert_eq!(merge.next_due(), Some(after(160)));
        // Earlier portions that arrived since are delivered first.
        merge.push(1, 25, yields(3), after(150));
        assert_eq!(pop_all(&mut merge, after(150)), [3]);
        assert_eq!(pop_all(&mut merge, after(160)), [2]);
        assert_eq!(merge.next_due(), None);
    }

    #[test]
    fn too_many_results_do_not_wait() {
        let (mut merge, now) = (TimedMerge::new(2, DELAY), Instant::now());
        let mut many = Yields::default();
        (0..RESULTS_MAX).for_each(|_| many.push(Order::default(), Yielded::Item(1, Item::Pause)));
        merge.push(0, 10, many, now);
        assert!(merge.pop(now).is_none());
        merge.push(0, 20, yields(2), now);
        assert_eq!(pop_all(&mut merge, now), [1], "the rest fits, and waits");
    }

    #[test]
    fn yields_of_one_worker_keep_their_order_where_its_clock_goes_back() {
        let (mut merge, now) = (TimedMerge::new(1, DELAY), Instant::now());
        for (time, number) in [(10, 1), (50, 2), (30, 3), (60, 4)] {
            merge.push(0, time, yields(number), now);
        }
        assert_eq!(pop_all(&mut merge, now), [1, 2, 3, 4]);
    }
}

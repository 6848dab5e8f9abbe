//! The queues between the threads of a run (`work_queues.rs`) under many schedules, with shuttle: it takes
//! the place of the system's scheduler and of the types that threads share, and picks the next thread at
//! random, or by priorities that change a few times. A wake-up that is lost is a deadlock, which it reports
//! together with the schedule (`shuttle::replay` repeats it).

#[allow(dead_code)]
#[path = "../../src/worker/work_queues.rs"]
mod work_queues;

use self::work_queues::{BATCHES_MAX, BatchWorker, EndAll, WorkQueues};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Yields each number that it gets, and a few more at the end.
struct Echo {
    /// Parts of the work at the end that are left.
    rest: u64,
    /// It panics at this number.
    fault: Option<u64>,
}

impl BatchWorker for Echo {
    type Batch = u64;
    type Results = Vec<u64>;

    fn process(&mut self, share: u64) -> Vec<u64> {
        assert_ne!(Some(share), self.fault, "a worker's fault");
        vec![share]
    }

    fn end(&mut self) -> (Vec<u64>, bool) {
        self.rest -= 1;
        (vec![1_000 + self.rest], self.rest == 0)
    }
}

/// How the thread that reads ends.
#[derive(Clone, Copy)]
enum Reader {
    /// At the end of its packets, after this number of batches.
    Reads(u64),
    /// After this number of batches, without the end: its consumer wants no more.
    GoesAway(u64),
}

/// Parts of the work at the end: more results than may wait.
const REST: u64 = 20;

/// Runs batches as `run_many` does, with as many threads as workers. Returns the results of each worker.
fn run(workers: usize, reader: Reader, fault: Option<u64>) -> Vec<Vec<u64>> {
    let echo = |index| Echo { rest: REST, fault: fault.filter(|_| index == 0) };
    let queues = WorkQueues::new((0..workers).map(echo));
    let mut merged: Vec<Vec<u64>> = vec![vec![]; workers];
    thread::scope(|scope| {
        let queues = &queues;
        for first in 1..workers {
            scope.spawn(move || {
                // The panic of a worker ends this thread, not the test.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    let _end = EndAll(queues);
                    queues.work(first);
                }));
            });
        }
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _end = EndAll(queues);
            let (Reader::Reads(batches) | Reader::GoesAway(batches)) = reader;
            let mut waiting = 0;
            let mut take = || {
                let results = queues.take_batch();
                merged.iter_mut().zip(results).for_each(|(all, results)| all.extend(results));
            };
            for number in 0..batches {
                if !queues.push(vec![number; workers]) {
                    return;
                }
                waiting += 1;
                while waiting > BATCHES_MAX {
                    take();
                    waiting -= 1;
                }
            }
            if let Reader::GoesAway(_) = reader {
                return;
            }
            queues.complete();
            (0..waiting).for_each(|_| take());
            for (worker, all) in merged.iter_mut().enumerate() {
                while let Some(results) = queues.take(worker) {
                    all.extend(results);
                }
            }
        }));
    });
    assert_eq!(queues.into_workers().count() + usize::from(fault.is_some()), workers, "no worker is lost");
    merged
}

/// Runs a test under random schedules, and under schedules with few changes of priority.
fn under_many_schedules(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, 150);
    shuttle::check_pct(test, 150, 4);
}

#[test]
fn every_batch_is_processed_in_order_to_the_end() {
    under_many_schedules(|| {
        let batches = BATCHES_MAX as u64 + 4;
        let expected: Vec<u64> = (0..batches).chain((0..REST).rev().map(|rest| 1_000 + rest)).collect();
        for workers in [1, 2, 3] {
            assert_eq!(run(workers, Reader::Reads(batches), None), vec![expected.clone(); workers]);
        }
    });
}

#[test]
fn without_packets_the_run_ends() {
    under_many_schedules(|| {
        assert_eq!(run(2, Reader::Reads(0), None).concat().len() as u64, 2 * REST);
    });
}

#[test]
fn the_threads_end_when_the_reader_goes_away() {
    under_many_schedules(|| {
        let merged = run(3, Reader::GoesAway(BATCHES_MAX as u64 + 2), None);
        assert_eq!(merged, vec![vec![0, 1]; 3]);
    });
}

#[test]
fn the_threads_end_when_a_worker_panics() {
    under_many_schedules(|| {
        for merged in run(2, Reader::Reads(BATCHES_MAX as u64 + 4), Some(3)) {
            assert!(merged.iter().copied().eq(0..merged.len() as u64), "{merged:?}");
        }
    });
}

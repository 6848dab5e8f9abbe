//! The thread of an output (`outlet.rs`) under many schedules, with shuttle. No wait times out here, so a
//! wake-up that is lost is a deadlock, which shuttle reports together with the schedule (`shuttle::replay`
//! repeats it).

#[allow(dead_code)]
#[path = "../../src/outlet.rs"]
mod outlet;

use self::outlet::{Load, Outlet, Patience, QUEUE_BYTES_MAX, Refused};
use crate::sync;
use shuttle::sync::mpsc::channel;
use std::time::Duration;

/// Two of these fill the queue.
const HALF: Load = Load { rows: 1, bytes: QUEUE_BYTES_MAX / 2 };

/// Runs a test under random schedules, and under schedules with few changes of priority.
fn under_many_schedules(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, 300);
    shuttle::check_pct(test, 300, 4);
}

#[test]
fn jobs_are_executed_in_order_and_a_full_queue_is_waited_for() {
    under_many_schedules(|| {
        let outlet = Outlet::new(Patience::unlimited());
        let (done, jobs) = channel();
        for number in 0..6 {
            let done = done.clone();
            outlet.send(HALF, Box::new(move || done.send(number).unwrap())).unwrap();
            assert!(outlet.waiting().bytes <= QUEUE_BYTES_MAX);
        }
        assert_eq!(outlet.wait(&Patience::unlimited()), Ok(()));
        assert_eq!(outlet.waiting(), Load::default());
        drop((outlet, done));
        assert_eq!(jobs.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn several_senders_share_an_outlet() {
    under_many_schedules(|| {
        let outlet = sync::Arc::new(Outlet::new(Patience::unlimited()));
        let (done, jobs) = channel();
        for sender in 0..3 {
            let (outlet, done) = (sync::Arc::clone(&outlet), done.clone());
            shuttle::thread::spawn(move || {
                for number in 0..2 {
                    let done = done.clone();
                    outlet.send(HALF, Box::new(move || done.send((sender, number)).unwrap())).unwrap();
                }
            });
        }
        drop((outlet, done));
        let mut order: Vec<_> = jobs.iter().collect();
        for sender in 0..3 {
            let own: Vec<_> = order.iter().filter(|job| job.0 == sender).map(|job| job.1).collect();
            assert_eq!(own, [0, 1]);
        }
        order.sort_unstable();
        assert_eq!(order.len(), 6);
    });
}

#[test]
fn the_jobs_of_a_dropped_outlet_are_executed_and_its_thread_ends() {
    under_many_schedules(|| {
        let outlet = Outlet::new(Patience::unlimited());
        let (done, jobs) = channel();
        let last = done.clone();
        outlet.send(HALF, Box::new(move || done.send(1).unwrap())).unwrap();
        outlet.post(Box::new(move || last.send(2).unwrap())).unwrap();
        // A thread that waited for ever would be a deadlock.
        drop(outlet);
        assert_eq!(jobs.iter().collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn without_patience_a_job_is_accepted_or_refused_and_never_lost() {
    under_many_schedules(|| {
        let outlet = Outlet::new(Patience::of(Duration::ZERO));
        let (done, jobs) = channel();
        let mut accepted = vec![];
        for number in 0..5 {
            let done = done.clone();
            match outlet.send(HALF, Box::new(move || done.send(number).unwrap())) {
                Ok(()) => accepted.push(number),
                Err(refused) => assert!(matches!(refused, Refused::Full)),
            }
        }
        assert!(accepted.len() >= 2, "the queue has room for two");
        drop((outlet, done));
        assert_eq!(jobs.iter().collect::<Vec<_>>(), accepted);
    });
}

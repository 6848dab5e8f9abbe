//! The thread of an output, with real time. `schedules.rs` tests other orders of its steps.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};
use weir_io::outlet::{Job, Load, Outlet, Paced, Patience, QUEUE_BYTES_MAX, Refused};

const LARGE: Load = Load { rows: 2, bytes: QUEUE_BYTES_MAX / 2 };

/// A job that blocks until it is released, and the release.
fn gate() -> (Job, SyncSender<()>) {
    let (release, released): (_, Receiver<()>) = sync_channel(0);
    let wait = move || {
        // A dropped release releases, too.
        let _ = released.recv();
    };
    (Box::new(wait), release)
}

#[test]
fn jobs_are_executed_in_order_on_another_thread() {
    let outlet = Outlet::new(Patience::unlimited());
    let (done, jobs) = channel();
    for number in 0..1000 {
        let done = done.clone();
        let job = Box::new(move || done.send((number, std::thread::current().id())).unwrap());
        outlet.send(Load { rows: 1, bytes: 10_000 }, job).unwrap();
    }
    assert_eq!(outlet.wait(&Patience::unlimited()), Ok(()));
    assert_eq!(outlet.waiting(), Load::default());
    drop((outlet, done));
    let own = std::thread::current().id();
    let order: Vec<_> =
        jobs.iter().inspect(|(_, thread)| assert_ne!(*thread, own)).map(|job| job.0).collect();
    assert_eq!(order, (0..1000).collect::<Vec<_>>());
}

#[test]
fn the_jobs_of_a_dropped_outlet_are_executed() {
    let outlet = Outlet::new(Patience::unlimited());
    let ((job, release), (done, is_done)) = (gate(), channel());
    outlet.send(LARGE, job).unwrap();
    outlet.post(Box::new(move || done.send(()).unwrap())).unwrap();
    drop(outlet);
    drop(release);
    assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok(()));
}

#[test]
fn a_blocked_outlet_accepts_as_much_as_its_queue_holds() {
    let outlet = Outlet::new(Patience::of(Duration::from_millis(200)));
    let (job, release) = gate();
    outlet.send(LARGE, job).unwrap();
    outlet.send(LARGE, Box::new(|| ())).unwrap();
    let (one, began) = (Load { rows: 1, bytes: 1 }, Instant::now());
    assert!(!outlet.has_room(one));
    assert!(matches!(outlet.send(one, Box::new(|| ())), Err(Refused::Full)));
    assert!(began.elapsed() >= Duration::from_millis(150), "the sender waits first");
    let began = Instant::now();
    assert!(matches!(outlet.send(one, Box::new(|| ())), Err(Refused::Full)));
    assert!(began.elapsed() < Duration::from_millis(150), "and does not wait again");
    assert_eq!(outlet.wait(&Patience::of(Duration::ZERO)), Err(Load { rows: 4, bytes: QUEUE_BYTES_MAX }));
    drop(release);
    assert_eq!(outlet.wait(&Patience::unlimited()), Ok(()));
    outlet.send(one, Box::new(|| ())).expect("it accepts jobs again");
}

#[test]
fn a_slow_outlet_loses_nothing() {
    let outlet = Outlet::new(Patience::of(Duration::from_millis(400)));
    // Together the jobs take much longer than the patience.
    for _ in 0..20 {
        outlet
            .send(LARGE, Box::new(|| std::thread::sleep(Duration::from_millis(40))))
            .expect("there is room");
    }
    assert_eq!(outlet.wait(&Patience::of(Duration::from_millis(400))), Ok(()));
}

#[test]
fn a_job_that_writes_slowly_is_not_blocked() {
    struct Slow;
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(bytes.len() <= 4096);
            std::thread::sleep(Duration::from_millis(40));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let outlet = Outlet::new(Patience::of(Duration::from_millis(400)));
    let mut out = Paced::new(Slow, outlet.pulse());
    outlet.send(LARGE, Box::new(move || out.write_all(&[0; 20 * 4096]).unwrap())).unwrap();
    assert_eq!(outlet.wait(&Patience::of(Duration::from_millis(400))), Ok(()));
}

#[test]
fn without_a_limit_the_sender_waits_until_the_end_of_all_patience() {
    let patience = Patience::unlimited();
    let outlet = Outlet::new(patience.clone());
    let (job, release) = gate();
    outlet.send(LARGE, job).unwrap();
    outlet.send(LARGE, Box::new(|| ())).unwrap();
    let began = Instant::now();
    let after = |time| began + Duration::from_millis(time);
    patience.end_at(after(300), after(600));
    assert!(matches!(outlet.send(LARGE, Box::new(|| ())), Err(Refused::Full)));
    assert!(Instant::now() >= after(300));
    assert!(outlet.wait(&patience).is_err());
    assert!(Instant::now() >= after(600));
    drop(release);
}

#[test]
fn the_time_without_jobs_does_not_count() {
    let outlet = Outlet::new(Patience::of(Duration::from_millis(300)));
    outlet.send(LARGE, Box::new(|| ())).unwrap();
    outlet.wait(&Patience::unlimited()).unwrap();
    std::thread::sleep(Duration::from_millis(350));
    let (job, release) = gate();
    outlet.send(LARGE, job).unwrap();
    outlet.send(LARGE, Box::new(|| ())).unwrap();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(release);
    });
    outlet.send(LARGE, Box::new(|| ())).expect("the outlet was blocked for 50 ms only");
    later.join().unwrap();
}

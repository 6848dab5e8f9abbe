//! Other threads add and remove questions during a run.

use super::*;

#[test]
fn a_failure_ends_the_run_for_all_questions() {
    let compiled = compile(&[("", Want::Packets), ("tcp.port == 1", Want::Connections)]);
    for workers in [1, 2] {
        let polls = |fails: bool| {
            let mut polls = 0;
            let mut each = |_: usize, _: Item<'_>| if fails { Err("no more") } else { Ok(()) };
            let mut source = slow(1, || polls += 1);
            let ended = crate::run(
                &Compiler::default(),
                &compiled,
                &mut source,
                &[],
                workers,
                &mut each,
                &mut |_| (),
            );
            assert_eq!(ended.err(), fails.then_some("no more"));
            drop(source);
            polls
        };
        assert!(polls(true) < polls(false), "{workers} workers");
    }
}

/// Counts items.
struct Counting<'a>(&'a mut usize);

impl TakeItems for Counting<'_> {
    fn take(&mut self, _: usize, _: Item<'_>) -> Next {
        *self.0 += 1;
        Next::Go
    }
}

#[test]
fn a_removed_question_receives_what_was_found_before() {
    let (mut items, mut engine) = (0, Engine::new());
    let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Packets };
    let question = Question::new(ask, Shape::default());
    let subscription = engine.subscribe_questions(vec![question], Counting(&mut items)).unwrap();
    assert!(engine.dismiss(subscription));
    Running::of(&mut engine).item(0, Item::Pause);
    drop(engine);
    assert_eq!(items, 1);
}

#[test]
fn other_threads_add_and_take_away_while_it_runs() {
    let mut engine = Engine::new();
    let mut frames = 0;
    engine.subscribe("", |_: &Frame| frames += 1).unwrap();
    let control = engine.control();
    let (names, done) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
    let (told, is_done) = (Arc::clone(&names), Arc::clone(&done));
    let other = std::thread::spawn(move || {
        let push =
            move |hello: &TlsHandshake| told.lock().unwrap().push(hello.server_name().map(String::from));
        let added = control.subscribe("tls", push).expect("the filter is right");
        assert_eq!(control.list().unwrap().len(), 2);
        let wrong = control.subscribe("tls.sni == 5", |_: &Frame| ()).unwrap_err();
        assert!(wrong.contains("W0107"), "{wrong}");
        control.unsubscribe(added).unwrap();
        assert!(control.unsubscribe(added).is_err());
        let second = control.subscribe("tls", |_: &TlsHandshake| ()).unwrap();
        assert_ne!(added, second);
        is_done.store(true, Ordering::SeqCst);
    });
    let mut waited = 0;
    // The source waits until the other thread has done its part, within the first packets.
    let before = || {
        waited += 1;
        if waited > 20 && !done.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let outcome = engine.run(&mut slow(1, before), 1).unwrap();
    drop(engine);
    other.join().unwrap();
    assert!(frames > 1000 && outcome.swaps.0 >= 1, "{:?}", outcome.swaps);
}

#[test]
fn an_addition_too_many_leaves_no_trace() {
    let mut engine = Engine::new();
    let all: Vec<_> = (0..QUESTIONS_MAX).map(|_| engine.subscribe("udp", |_: &Frame| ()).unwrap()).collect();
    let control = engine.control();
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    let other = std::thread::spawn(move || {
        let add = || control.subscribe("tcp", |_: &Frame| ());
        for _ in 0..3 {
            assert!(add().unwrap_err().contains("W0192"));
        }
        assert_eq!(control.list().unwrap().len(), QUESTIONS_MAX);
        control.unsubscribe(all[7]).unwrap();
        add().unwrap();
        assert!(add().unwrap_err().contains("W0192"));
        control.unsubscribe(all[QUESTIONS_MAX - 1]).unwrap();
        assert_eq!(control.list().unwrap().len(), QUESTIONS_MAX - 1);
        is_done.store(true, Ordering::SeqCst);
    });
    let before = || {
        if !done.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    engine.run(&mut slow(1, before), 1).unwrap();
    drop(engine);
    other.join().unwrap();
}

#[test]
fn an_engine_runs_again_and_nobody_asks_one_that_does_not_run() {
    let seen = Arc::new(Mutex::new(0));
    let told = Arc::clone(&seen);
    let mut engine = Engine::new();
    engine.subscribe_on((1, 1 << 16), "udp", move |_: &Frame| *told.lock().unwrap() += 1).unwrap();
    let control = engine.control();
    for run in 1..=2 {
        let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
        assert_eq!((*seen.lock().unwrap(), outcome.lost), (run * outcome.matched[0], 0));
        assert!(control.list().unwrap_err().contains("over"));
    }
    for _ in 0..3 {
        let added = engine.subscribe("udp", |_: &Frame| ()).unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        assert!(engine.unsubscribe(added));
    }
}

//! Panics of callbacks and handlers.

use super::*;

/// Panics on every thread but the one that calls `run`.
struct Broken(std::thread::ThreadId, Arc<AtomicBool>);

impl Handler for Broken {
    fn needs(needs: &mut Needs) {
        needs.packets();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        if std::thread::current().id() != self.0 {
            self.1.store(true, Ordering::SeqCst);
            panic!("a broken handler");
        }
    }
}

#[test]
fn a_panic_of_a_handler_is_counted_and_the_run_continues() {
    for workers in [1, 2, 5] {
        // Handlers of the calling thread do not panic, so with one worker there are no panics.
        let has_panicked = Arc::new(AtomicBool::default());
        let (caller, told) = (std::thread::current().id(), Arc::clone(&has_panicked));
        let mut engine = Engine::new();
        let broken = engine.subscribe_handler("", move || Broken(caller, Arc::clone(&told))).unwrap();
        let other = engine.subscribe_handler("", Count::default).unwrap();
        let mut polls = 0;
        // The first batches are dispatched before the source waits.
        let before = || {
            polls += 1;
            while workers > 1 && polls > 100 && !has_panicked.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        };
        let outcome = engine.run(&mut slow(1, before), workers).unwrap();
        let counted: u64 = outcome.handlers.of::<Count>(other).iter().map(|count| count.0).sum();
        assert_eq!(counted, outcome.matched[0], "the other handler has all packets");
        if workers == 1 {
            assert_eq!(outcome.callback_panics, []);
            continue;
        }
        let [panics] = &outcome.callback_panics[..] else { panic!("{:?}", outcome.callback_panics) };
        assert_eq!((panics.subscription, panics.first.as_str()), (broken, "a broken handler"));
        let threads = workers as u64;
        assert!((1..CALLBACK_PANICS_MAX + threads).contains(&panics.count), "{panics}");
    }
}

/// Panics in all calls for every third stream.
struct BrokenStreams(u64);

impl StreamHandler for BrokenStreams {
    type State = u64;

    fn data(&mut self, state: &mut u64, stream: &mut crate::stream::Stream<'_, '_>, _: &Chunk<'_>) {
        *state += 1;
        assert!(stream.endpoints()[0].1 % 3 != 0, "a broken stream");
    }

    fn terminated(&mut self, state: u64, _: &mut crate::stream::Stream<'_, '_>, _: EndReason) {
        self.0 += state;
    }
}

#[test]
fn a_panic_in_a_callback_loses_this_call_only() {
    let (mut calls, mut sessions) = (0u64, 0);
    let mut engine = Engine::new();
    let broken = engine
        .subscribe("udp", |_: &Frame| {
            calls += 1;
            assert!(calls % 4 != 0, "call {calls}");
        })
        .unwrap();
    engine.subscribe("", |_: &TlsHandshake| sessions += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    let wanted = (outcome.matched[0] / 4).min(CALLBACK_PANICS_MAX);
    let [panics] = &outcome.callback_panics[..] else { panic!("{:?}", outcome.callback_panics) };
    assert_eq!((panics.subscription, panics.count, panics.first.as_str()), (broken, wanted, "call 4"));
    assert_eq!(panics.is_off, wanted == CALLBACK_PANICS_MAX);
    assert_eq!(calls, if panics.is_off { 4 * CALLBACK_PANICS_MAX } else { outcome.matched[0] });
    assert!(sessions > 10);
}

#[test]
fn a_callback_that_panics_too_often_is_not_called_any_more() {
    let calls = Arc::new(Mutex::new(0));
    let told = Arc::clone(&calls);
    let mut seen = 0;
    let mut engine = Engine::new();
    engine.subscribe("", |_: &Frame| -> () { panic!("always") }).unwrap();
    engine
        .subscribe_on((1, 1 << 16), "", move |_: &Frame| -> () {
            *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            panic!("on a thread")
        })
        .unwrap();
    engine.subscribe("", |_: &Frame| seen += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(
        outcome.callback_panics.iter().all(|panics| panics.is_off && panics.count == CALLBACK_PANICS_MAX)
    );
    assert_eq!(outcome.callback_panics.len(), 2);
    assert_eq!(*calls.lock().unwrap(), CALLBACK_PANICS_MAX);
    assert_eq!(outcome.matched[2], seen);
}

#[test]
fn panics_of_stream_handlers_and_tracked_types_are_isolated() {
    #[derive(Debug, Clone, Default)]
    struct BrokenTrack(u64);

    impl Track for BrokenTrack {
        fn packet(&mut self, packet: &TrackPacket<'_>) {
            self.0 += 1;
            assert!(!packet.meta.number.is_multiple_of(50), "a broken type");
        }
    }

    let mut tracked = 0;
    let mut engine = Engine::new();
    let broken = engine.subscribe_streams("tcp", StreamParams::default(), || BrokenStreams(0)).unwrap();
    engine.subscribe("tcp", |state: &Tracked<BrokenTrack>| tracked += state.0).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    let texts: Vec<&str> = outcome.callback_panics.iter().map(|panics| panics.first.as_str()).collect();
    assert_eq!(texts, ["a broken stream", "a broken type"]);
    let handlers = outcome.handlers.of::<BrokenStreams>(broken);
    assert!(handlers[0].0 > 100 && tracked > 1000, "{} {tracked}", handlers[0].0);
}

/// What the library itself does is not isolated: a fault there must be seen.
#[test]
fn a_panic_of_a_question_of_a_program_ends_the_run() {
    struct Nothing;

    impl TakeItems for Nothing {
        fn take(&mut self, _: usize, _: Item<'_>) -> Next {
            Next::Go
        }
    }

    for workers in [1, 3] {
        let mut engine = Engine::new();
        let streams = Question::of_streams("tcp", StreamParams::default(), || BrokenStreams(0));
        engine.subscribe_questions(vec![streams], Nothing).unwrap();
        let run = std::panic::AssertUnwindSafe(|| engine.run(&mut slow(64, || ()), workers));
        let panic = std::panic::catch_unwind(run).expect_err("the handler panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a broken stream"));
    }
}

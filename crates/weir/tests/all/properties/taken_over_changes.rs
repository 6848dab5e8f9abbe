//! Questions are added and removed while the kernel has connections: the rows of a question that stays are
//! those of a run without changes and without the kernel.

use crate::properties::drive::{all_sessions, ask, seeds};
use crate::properties::taken_over::{Fates, Setting, Sieved, assert_same, rows_of, traffic};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weir::{Ask, Compiler, Control, Engine, Item, Next, Options, Question, Shape, TakeItems, Want};
use weir_testing::Random;
use weir_testing::traffic::Network;

/// Rows of a question.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<Vec<String>>>);

impl TakeItems for Rows {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        self.0.lock().expect("no panic").extend(rows_of(item, &Setting::default()));
        Next::Go
    }
}

impl Rows {
    fn sorted(&self) -> Vec<String> {
        let mut rows = std::mem::take(&mut *self.0.lock().expect("no panic"));
        rows.sort_unstable();
        rows
    }
}

fn question(ask: &Ask) -> Question {
    Question::new(ask.clone(), Shape::default())
}

/// The number of changes at which the packet has to be, if it has one of these numbers.
fn due(places: &[usize], at: usize) -> usize {
    places.iter().filter(|place| **place <= at).count()
}

/// Runs a question that stays. At each of the places, packet numbers in order, another question begins or
/// ends: the first one begins at the first place and ends at the second one. Returns the rows of the question
/// that stays, and those of the others.
fn run(
    source: &mut Sieved<'_>,
    narrow: bool,
    stays: &Ask,
    others: &[Ask],
    places: &[usize],
) -> (Vec<String>, Vec<String>) {
    let (rows, of_others) = (Rows::default(), Rows::default());
    let mut engine = Engine::with(Compiler::default(), Options { narrow, ..Setting::default().options });
    engine.subscribe_questions(vec![question(stays)], rows.clone()).expect("the filter is right");
    let (asked, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let changer = change(engine.control(), Arc::clone(&asked), Arc::clone(&done), others, of_others.clone());
    let places = places.to_vec();
    source.waits = Some(Box::new(move |at| {
        asked.fetch_max(due(&places, at), Ordering::SeqCst);
        done.load(Ordering::SeqCst) < due(&places, at)
    }));
    let outcome = engine.run(source, 1).expect("the filters are right");
    assert_eq!(outcome.errors.len(), 0, "{:?}", outcome.errors);
    drop(engine);
    changer.join().expect("questions change");
    (rows.sorted(), of_others.sorted())
}

/// A thread that makes as many changes as are asked for, and says how many are done.
fn change(
    control: Control,
    asked: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
    others: &[Ask],
    rows: Rows,
) -> std::thread::JoinHandle<()> {
    let others = others.to_vec();
    std::thread::spawn(move || {
        let wait = |number: usize| {
            while asked.load(Ordering::SeqCst) < number {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        };
        for (number, other) in others.iter().enumerate() {
            wait(2 * number + 1);
            let added = control.subscribe_questions(vec![question(other)], rows.clone()).expect("it runs");
            done.store(2 * number + 1, Ordering::SeqCst);
            wait(2 * number + 2);
            control.unsubscribe(added).expect("it runs");
            done.store(2 * number + 2, Ordering::SeqCst);
        }
    })
}

/// Questions that come and go: one that is about other connections, one that needs bytes of all connections,
/// one that needs every packet so that the kernel has no connection meanwhile, and the same question.
fn others(stays: &Ask) -> Vec<Ask> {
    vec![ask("udp", Want::Connections), ask("tls", all_sessions()), ask("", Want::Packets), stays.clone()]
}

#[test]
fn rows_of_a_question_that_stays_are_the_same() {
    let (mut fates, mut more) = (Fates::default(), 0);
    for seed in seeds(0..2) {
        let mut random = Random::new(seed);
        let network = Network {
            repeats: false,
            loses: seed % 2 == 1,
            reorders: false,
            fragments: seed % 2 == 0,
            cuts: false,
        };
        let packets = traffic(&mut random, network);
        for stays in
            [ask("", Want::Connections), ask("tcp.port == 443", Want::Connections), ask("", all_sessions())]
        {
            let others = others(&stays);
            // Near together or far apart, after the kernel has got the first connections.
            let places: Vec<usize> = (1..=2 * others.len())
                .map(|number| packets.len() * number / (2 * others.len() + 1) - random.below(8) as usize)
                .collect();
            for on_way in [&[1][..], Setting::default().on_way] {
                let setting = Setting { on_way, ..Setting::default() };
                let (expected, _) = run(&mut Sieved::new(&packets, &setting), false, &stays, &[], &[]);
                let mut sieved = Sieved::new(&packets, &setting);
                let (got, of_others) = run(&mut sieved, true, &stays, &others, &places);
                if !sieved.has_loaded {
                    println!("skipped: programs for the kernel need CAP_BPF and CAP_NET_ADMIN");
                    return;
                }
                fates.add(&sieved.fates());
                more += of_others.len();
                assert_same(&format!("seed {seed}, {stays:?}, changes at {places:?}"), &got, &expected);
            }
        }
    }
    println!("{fates:?}, {more} rows of the others");
    assert!(fates.counted > 1000 && more > 300, "{fates:?}, {more}");
}

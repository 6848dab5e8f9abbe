//! All bounded queues obey one contract (`weir_pipeline::bounded`): a model in a list of numbers knows what
//! must come out.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use weir::io::outlet::Load;
use weir::io::{Outlet, Patience};
use weir_export::{Queue as ExportQueue, Spool};
use weir_pipeline::bounded::{Bounded, Refused, WhenFull};
use weir_pipeline::{Operator, Port, Queue, Signal};

/// A queue whose consumer takes when the test says so.
trait Subject {
    fn when_full(&self) -> WhenFull;
    fn bound(&self) -> u64;
    fn waiting(&self) -> u64;
    fn has_room(&self, size: u64) -> bool;
    /// Offers the item with this number.
    fn offer(&mut self, number: u64, size: u64) -> Result<(), Refused>;
    /// Takes the next item. Called only if there is one.
    fn take(&mut self) -> u64;
    /// The consumer goes away while it has an item, and comes back.
    fn restart(&mut self) {}
}

/// What happens to a queue.
#[derive(Debug, Clone)]
enum Event {
    /// An item is offered, of this part of the bound in thousandths.
    Offer(u64),
    Take,
    Restart,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let size = prop_oneof![4 => 1..300_u64, 1 => 300..1200_u64];
    let event =
        prop_oneof![5 => size.prop_map(Event::Offer), 3 => Just(Event::Take), 1 => Just(Event::Restart)];
    prop::collection::vec(event, 1..60)
}

/// Holds a queue against the model.
fn check(mut queue: impl Subject, events: &[Event]) {
    let (mut model, mut next, mut refused, mut taken) = (VecDeque::new(), 0, 0, 0);
    for event in events {
        match event {
            Event::Offer(part) => {
                let size = (queue.bound() * part / 1000).max(1);
                let has_room = queue.has_room(size);
                // A queue that waits without end is not offered what nobody would make room for.
                if queue.when_full() == WhenFull::Wait && !has_room && queue.bound() < 100 {
                    continue;
                }
                let offered = queue.offer(next, size);
                assert_eq!(offered.is_ok(), has_room, "an item is refused if, and only if, it has no room");
                match offered {
                    Ok(()) => model.push_back(next),
                    Err(Refused::Full) => refused += 1,
                    Err(other) => panic!("the queue is neither closed nor broken: {other:?}"),
                }
                next += 1;
                let is_alone = model.len() <= 1;
                assert!(is_alone || queue.waiting() <= queue.bound(), "{} wait", queue.waiting());
            }
            Event::Take => {
                if let Some(expected) = model.pop_front() {
                    assert_eq!(queue.take(), expected, "items come in order, each once");
                    taken += 1;
                }
            }
            Event::Restart => {
                if !model.is_empty() {
                    queue.restart();
                }
            }
        }
    }
    for expected in model {
        assert_eq!(queue.take(), expected, "nothing that was accepted is lost");
        taken += 1;
    }
    assert_eq!(taken + refused, next, "each item was taken or refused");
}

/// Lets a consumer on another thread take one item at a time.
struct Gate {
    permit: Sender<()>,
    taken: Receiver<u64>,
}

impl Gate {
    fn new() -> (Self, Receiver<()>, Sender<u64>) {
        let ((permit, permits), (take, taken)) = (channel(), channel());
        (Self { permit, taken }, permits, take)
    }

    fn take(&self) -> u64 {
        self.permit.send(()).expect("the consumer waits");
        self.taken.recv_timeout(Duration::from_secs(60)).expect("an item")
    }
}

/// The thread of an output, whose jobs wait for the gate.
struct OfOutlet {
    outlet: Arc<Outlet>,
    gate: Gate,
    permits: Arc<std::sync::Mutex<Receiver<()>>>,
    take: Sender<u64>,
}

impl OfOutlet {
    fn new() -> Self {
        let (gate, permits, take) = Gate::new();
        let outlet = Arc::new(Outlet::new(Patience::of(Duration::ZERO)));
        Self { outlet, gate, permits: Arc::new(permits.into()), take }
    }
}

impl Subject for OfOutlet {
    fn when_full(&self) -> WhenFull {
        (&*self.outlet).when_full()
    }

    fn bound(&self) -> u64 {
        (&*self.outlet).bound()
    }

    fn waiting(&self) -> u64 {
        Bounded::waiting(&&*self.outlet)
    }

    fn has_room(&self, size: u64) -> bool {
        Bounded::has_room(&&*self.outlet, size)
    }

    fn offer(&mut self, number: u64, size: u64) -> Result<(), Refused> {
        let (permits, take) = (Arc::clone(&self.permits), self.take.clone());
        let job = move || {
            let _ = permits.lock().expect("one job at a time").recv();
            let _ = take.send(number);
        };
        (&*self.outlet).offer((Load { rows: 1, bytes: size as usize }, Box::new(job)))
    }

    fn take(&mut self) -> u64 {
        let before = Bounded::waiting(&&*self.outlet);
        let number = self.gate.take();
        // The job has passed its number on, and is about to end.
        while Bounded::waiting(&&*self.outlet) == before {
            std::thread::yield_now();
        }
        number
    }
}

/// The lock-free ring of a pipeline, whose other thread waits for the gate.
struct OfRing {
    /// Before the queue, whose end waits for its thread, which waits for the gate.
    gate: Gate,
    queue: Queue<u64>,
}

struct Gated(Receiver<()>, Sender<u64>);

impl Operator<u64> for Gated {
    type Out = u64;

    fn take(&mut self, item: u64, _: &mut impl Port<u64>) {
        let _ = self.0.recv();
        let _ = self.1.send(item);
    }

    fn signal(&mut self, _: Signal, _: &mut impl Port<u64>) {}
}

impl OfRing {
    fn new() -> Self {
        let (gate, permits, take) = Gate::new();
        Self { queue: Queue::new(10, Gated(permits, take)), gate }
    }
}

impl Subject for OfRing {
    fn when_full(&self) -> WhenFull {
        self.queue.when_full()
    }

    fn bound(&self) -> u64 {
        self.queue.bound()
    }

    fn waiting(&self) -> u64 {
        self.queue.waiting()
    }

    fn has_room(&self, _: u64) -> bool {
        self.queue.waiting() < self.queue.bound()
    }

    fn offer(&mut self, number: u64, _: u64) -> Result<(), Refused> {
        self.queue.offer(number)
    }

    fn take(&mut self) -> u64 {
        self.gate.take()
    }
}

/// The queue of an exporter, in memory or on the disk.
struct OfExporter {
    queue: Option<ExportQueue>,
    /// The directory of the spool, and what removes it.
    place: Option<(PathBuf, tempfile::TempDir)>,
}

const CONTEXT: &[u8] = b"templates";

impl OfExporter {
    fn in_memory() -> Self {
        Self { queue: Some(ExportQueue::in_memory(CONTEXT.into())), place: None }
    }

    fn on_disk() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("spool");
        let mut made = Self { queue: None, place: Some((path, directory)) };
        made.open();
        made
    }

    fn open(&mut self) {
        self.queue = None;
        if let Some((path, _)) = &self.place {
            let spool = Spool::open(path, weir_export::SPOOL_BYTES_MIN, CONTEXT.into()).expect("a spool");
            self.queue = Some(ExportQueue::on_disk(spool));
        }
    }

    fn queue(&self) -> &ExportQueue {
        self.queue.as_ref().expect("it is open")
    }

    fn queue_mut(&mut self) -> &mut ExportQueue {
        self.queue.as_mut().expect("it is open")
    }

    fn read(&mut self) -> u64 {
        let message = self.queue_mut().read_next().expect("it can be read").expect("a message");
        assert_eq!(&*message.context, CONTEXT);
        u64::from_be_bytes(*message.bytes.first_chunk().expect("a number"))
    }
}

impl Subject for OfExporter {
    fn when_full(&self) -> WhenFull {
        self.queue().when_full()
    }

    fn bound(&self) -> u64 {
        self.queue().bound()
    }

    fn waiting(&self) -> u64 {
        self.queue().waiting()
    }

    fn has_room(&self, size: u64) -> bool {
        self.queue().has_room(size.max(8))
    }

    fn offer(&mut self, number: u64, size: u64) -> Result<(), Refused> {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(bytes.len().max(size as usize), 0);
        self.queue_mut().offer((1, bytes))
    }

    fn take(&mut self) -> u64 {
        let number = self.read();
        self.queue_mut().acknowledge().expect("it can be removed");
        number
    }

    fn restart(&mut self) {
        self.read();
        match self.place {
            // Another process sends what this one has not.
            Some(_) => self.open(),
            None => self.queue_mut().rewind(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_threads_of_outputs_keep_the_contract(events in events()) {
        check(OfOutlet::new(), &events);
    }

    #[test]
    fn the_rings_of_pipelines_keep_the_contract(events in events()) {
        check(OfRing::new(), &events);
    }

    #[test]
    fn the_queues_of_exporters_keep_the_contract(events in events()) {
        check(OfExporter::in_memory(), &events);
    }

    #[test]
    fn the_spools_of_exporters_keep_the_contract(events in events()) {
        check(OfExporter::on_disk(), &events);
    }
}

#[test]
fn a_full_ring_makes_its_sender_wait() {
    let OfRing { gate, mut queue } = OfRing::new();
    let bound = queue.bound();
    let (offered, offers) = channel();
    let sender = std::thread::spawn(move || {
        // The consumer has taken one item, which is none of the queue's any more once its chunk is over.
        for number in 0..3 * bound {
            queue.offer(number).expect("somebody takes");
            let _ = offered.send(number);
        }
        queue
    });
    let mut sent = 0;
    while let Ok(number) = offers.recv_timeout(Duration::from_millis(300)) {
        sent = number + 1;
    }
    assert!(sent < 3 * bound, "{sent} items found room for {bound}");
    for number in 0..3 * bound {
        assert_eq!(gate.take(), number);
    }
    let queue = sender.join().expect("no panic");
    // The consumer gives the room of what it has taken back in one piece.
    for _ in 0..1000 {
        if queue.waiting() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} items wait, and all were taken", queue.waiting());
}

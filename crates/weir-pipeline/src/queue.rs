//! Queues between threads: rings for one producer and one consumer, without locks.

use crate::bounded::{Bounded, Refused, WhenFull};
use crate::counts::{Counts, counts_of};
use crate::operator::{Operator, Port};
use crate::signal::Signal;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::convert::Infallible;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// An item or a signal, on its way.
#[derive(Debug, Clone)]
pub(crate) enum Message<T> {
    Item(T),
    Signal(Signal),
}

/// Waits, longer each time: first without giving up the processor, then for 50 µs, and after many waits for
/// up to 6.4 ms, so that an idle thread costs little.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn wait(&mut self) {
        match self.0 {
            0..32 => std::hint::spin_loop(),
            32..64 => thread::yield_now(),
            waits => thread::sleep(Duration::from_micros(50 << (waits / 64).min(7))),
        }
        self.0 = self.0.saturating_add(1);
    }

    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Moves a message into the ring; waits for room. False if nothing receives any more.
pub(crate) fn push<T>(producer: &mut Producer<Message<T>>, message: Message<T>) -> bool {
    let mut message = message;
    let mut backoff = Backoff::default();
    loop {
        match producer.push(message) {
            Ok(()) => return true,
            Err(PushError::Full(_)) if producer.is_abandoned() => return false,
            Err(PushError::Full(back)) => message = back,
        }
        backoff.wait();
    }
}

/// The end of a pipeline that goes on in a thread of its own.
///
/// Items and signals are moved into a ring of a fixed size; a full ring makes the producer wait. The thread
/// ends with [`Signal::End`], and this operator waits for its end. A panic of the thread becomes one of the
/// producer at the end; items until then are dropped.
#[derive(Debug)]
pub struct Queue<T> {
    producer: Option<Producer<Message<T>>>,
    thread: Option<JoinHandle<Counts>>,
    /// Those of the thread, once it has ended.
    counts: Counts,
    capacity: usize,
}

impl<T: Send + 'static> Bounded for Queue<T> {
    type Item = T;

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    /// Items.
    fn bound(&self) -> u64 {
        self.capacity as u64
    }

    fn waiting(&self) -> u64 {
        self.producer.as_ref().map_or(0, |producer| self.capacity.saturating_sub(producer.slots()) as u64)
    }

    fn offer(&mut self, item: T) -> Result<(), Refused> {
        self.push(Message::Item(item));
        if self.producer.is_some() { Ok(()) } else { Err(Refused::Closed) }
    }
}

impl<T: Send + 'static> Queue<T> {
    /// Starts a thread that runs `rest`. The ring has room for `capacity` items, but at least 1.
    pub fn new<R: Operator<T> + Send + 'static>(capacity: usize, rest: R) -> Self {
        let capacity = capacity.max(1);
        let (producer, consumer) = RingBuffer::new(capacity);
        let thread = thread::spawn(move || receive(consumer, rest));
        Self { producer: Some(producer), thread: Some(thread), counts: Counts::new(), capacity }
    }

    fn push(&mut self, message: Message<T>) {
        if let Some(producer) = &mut self.producer
            && !push(producer, message)
        {
            self.producer = None;
        }
    }
}

impl<T> Queue<T> {
    /// Waits for the end of the thread.
    fn join(&mut self) -> thread::Result<()> {
        // A thread that did not receive the end sees that nothing sends any more.
        self.producer = None;
        if let Some(thread) = self.thread.take() {
            self.counts = thread.join()?;
        }
        Ok(())
    }
}

/// Runs the consumer's side until the end. Returns the counters of its operators.
fn receive<T, R: Operator<T>>(mut consumer: Consumer<Message<T>>, mut rest: R) -> Counts {
    let mut out = Nowhere;
    let mut backoff = Backoff::default();
    loop {
        let waiting = consumer.slots();
        if waiting == 0 {
            // Nothing sends any more, and nothing was sent between the two looks.
            if consumer.is_abandoned() && consumer.is_empty() {
                rest.signal(Signal::End, &mut out);
                return counts_of(|tell| rest.counters(tell));
            }
            backoff.wait();
            continue;
        }
        backoff.reset();
        let Ok(chunk) = consumer.read_chunk(waiting) else { continue };
        for message in chunk {
            match message {
                Message::Item(item) => rest.take(item, &mut out),
                Message::Signal(signal) => {
                    rest.signal(signal, &mut out);
                    if signal == Signal::End {
                        return counts_of(|tell| rest.counters(tell));
                    }
                }
            }
        }
    }
}

/// A port that drops items.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl<T> Port<T> for Nowhere {
    fn put(&mut self, _: T) {}

    fn signal(&mut self, _: Signal) {}
}

impl<T: Send + 'static> Operator<T> for Queue<T> {
    type Out = Infallible;

    #[inline]
    fn take(&mut self, item: T, _: &mut impl Port<Infallible>) {
        self.push(Message::Item(item));
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Infallible>) {
        self.push(Message::Signal(signal));
        if signal == Signal::End
            && let Err(panic) = self.join()
        {
            std::panic::resume_unwind(panic);
        }
        out.signal(signal);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.counts.iter().for_each(|(name, count)| tell(name, *count));
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        // A panic of the thread was printed there.
        let _ = self.join();
    }
}

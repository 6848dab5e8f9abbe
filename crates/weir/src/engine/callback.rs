//! Callbacks: functions and closures of up to three parameters, each a type of `datum`.

use crate::handlers::bundle::Bundle;
use crate::handlers::datum::{Datum, Needs};
use crate::handlers::isolation::Isolation;
use crate::items::item::Item;
use crate::outcome::Outcome;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// The answer of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Next {
    /// Continue.
    #[default]
    Go,
    /// End the deliveries for this connection.
    EndFlow,
    /// End all deliveries: the subscription is removed.
    End,
    /// End the run, also for all other subscriptions. What they have not received yet is processed, and
    /// delivered.
    EndRun,
}

/// The return type of a callback: nothing, or a [`Next`].
pub trait Reply {
    /// The answer.
    fn next(self) -> Next;
}

impl Reply for () {
    fn next(self) -> Next {
        Next::Go
    }
}

impl Reply for Next {
    fn next(self) -> Next {
        self
    }
}

/// A function or closure that takes references to up to three [data](Datum), and returns nothing or a
/// [`Next`]. The compiler infers `A` from the parameters.
pub trait Callback<A> {
    /// Adds its needs to those of the program.
    fn needs(needs: &mut Needs);

    /// Calls the callback if all of its parameters are present.
    #[doc(hidden)]
    fn call(&mut self, bundle: &Bundle, isolation: &Isolation) -> Next;
}

impl<F, A, R> Callback<(A,)> for F
where
    F: FnMut(&A) -> R,
    A: Datum,
    R: Reply,
{
    fn needs(needs: &mut Needs) {
        A::needs(needs);
    }

    fn call(&mut self, bundle: &Bundle, isolation: &Isolation) -> Next {
        let mut next = Next::Go;
        A::with(bundle, &mut |a| next = isolated(isolation, || self(a).next()));
        next
    }
}

impl<F, A, B, R> Callback<(A, B)> for F
where
    F: FnMut(&A, &B) -> R,
    A: Datum,
    B: Datum,
    R: Reply,
{
    fn needs(needs: &mut Needs) {
        A::needs(needs);
        B::needs(needs);
    }

    fn call(&mut self, bundle: &Bundle, isolation: &Isolation) -> Next {
        let mut next = Next::Go;
        A::with(bundle, &mut |a| B::with(bundle, &mut |b| next = isolated(isolation, || self(a, b).next())));
        next
    }
}

impl<F, A, B, C, R> Callback<(A, B, C)> for F
where
    F: FnMut(&A, &B, &C) -> R,
    A: Datum,
    B: Datum,
    C: Datum,
    R: Reply,
{
    fn needs(needs: &mut Needs) {
        A::needs(needs);
        B::needs(needs);
        C::needs(needs);
    }

    fn call(&mut self, bundle: &Bundle, isolation: &Isolation) -> Next {
        let mut next = Next::Go;
        A::with(bundle, &mut |a| {
            B::with(bundle, &mut |b| {
                C::with(bundle, &mut |c| next = isolated(isolation, || self(a, b, c).next()))
            });
        });
        next
    }
}

/// Calls a callback. One that has panicked too often ends its subscription.
fn isolated(isolation: &Isolation, call: impl FnOnce() -> Next) -> Next {
    match isolation.call(call) {
        Some(next) => next,
        None if isolation.is_off() => Next::End,
        None => Next::Go,
    }
}

/// Receives the items of a subscription's questions as they arrive. For programs that are built on Weir: its
/// panics end the run, unlike those of callbacks and handlers.
pub trait TakeItems {
    /// Receives the next item; `question` is the question's number within the subscription.
    fn take(&mut self, question: usize, item: Item<'_>) -> Next;

    /// No more items will come. `None`: the subscription was removed before the end of the run.
    fn finish(&mut self, _end: Option<RunEnd<'_>>) {}
}

/// The end of a run, for a subscription.
#[derive(Debug)]
pub struct RunEnd<'a> {
    /// The outcome of the run.
    pub outcome: &'a Outcome,
    /// The number of items of each question in the subscription, including items that were only counted.
    pub matched: &'a [u64],
}

/// A receiver of bundles.
pub(super) trait Deliver {
    fn call(&mut self, bundle: &Bundle) -> Next;

    /// Finishes queued calls at the end of the run or of the subscription. Returns the number of lost
    /// bundles.
    fn finish(&mut self) -> u64 {
        0
    }
}

/// A callback that runs on the calling thread, with its parameter types erased.
struct Here<F, A>(F, Isolation, std::marker::PhantomData<fn(A)>);

impl<A, F: Callback<A>> Deliver for Here<F, A> {
    fn call(&mut self, bundle: &Bundle) -> Next {
        self.0.call(bundle, &self.1)
    }
}

pub(super) fn boxed<'c, A: 'c, F: Callback<A> + 'c>(
    callback: F,
    isolation: Isolation,
) -> Box<dyn Deliver + 'c> {
    Box::new(Here(callback, isolation, std::marker::PhantomData))
}

pub(super) fn boxed_send<A: 'static, F: Callback<A> + Send + 'static>(
    callback: F,
    isolation: Isolation,
) -> Box<dyn Deliver + Send> {
    Box::new(Here(callback, isolation, std::marker::PhantomData))
}

/// Copies a callback for a thread.
type Copy = Box<dyn Fn() -> Box<dyn Deliver + Send>>;

/// Threads that run copies of a callback during a run, each with a queue of its own. Bundles that do not fit
/// into a queue are lost.
pub(super) struct Pool {
    copy: Copy,
    isolation: Isolation,
    threads_max: usize,
    room: usize,
    queues: Vec<SyncSender<Bundle>>,
    threads: Vec<JoinHandle<()>>,
    next: usize,
    lost: u64,
}

impl Pool {
    pub fn new(
        (threads, room): (usize, usize),
        isolation: Isolation,
        copy: impl Fn() -> Box<dyn Deliver + Send> + 'static,
    ) -> Self {
        let (queues, threads_max) = (vec![], threads.max(1));
        Self {
            copy: Box::new(copy),
            isolation,
            threads_max,
            room: room.max(1),
            queues,
            threads: vec![],
            next: 0,
            lost: 0,
        }
    }

    fn start(&mut self) {
        for _ in 0..self.threads_max {
            let (queue, bundles) = sync_channel::<Bundle>(self.room);
            let mut callback = (self.copy)();
            let run = move || {
                bundles.into_iter().for_each(|bundle| {
                    let _ = callback.call(&bundle);
                });
            };
            self.threads.push(std::thread::spawn(run));
            self.queues.push(queue);
        }
    }
}

impl Deliver for Pool {
    fn call(&mut self, bundle: &Bundle) -> Next {
        if self.isolation.is_off() {
            return Next::End;
        }
        if self.queues.is_empty() {
            self.start();
        }
        let mut bundle = bundle.clone();
        for _ in 0..self.queues.len() {
            self.next = (self.next + 1) % self.queues.len();
            match self.queues[self.next].try_send(bundle) {
                Ok(()) => return Next::Go,
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => bundle = back,
            }
        }
        self.lost += 1;
        Next::Go
    }

    fn finish(&mut self) -> u64 {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        std::mem::take(&mut self.lost)
    }
}

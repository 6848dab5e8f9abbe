//! Subscriptions added and taken away by other threads while a run goes on: requests that it carries out between two
//! bursts.

use super::Engine;
use super::callback::{Callback, TakeItems};
use crate::question::Question;
use crate::subscription::Subscription;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// What to do with the engine.
type Apply = Box<dyn FnOnce(&mut Engine<'_>) -> Result<Done, String> + Send>;

/// What to do with the engine, and whom to tell of it.
pub(super) struct Request {
    pub apply: Apply,
    pub reply: Sender<Result<Done, String>>,
}

/// What a request came to.
#[derive(Debug, Clone)]
pub(super) enum Done {
    /// The program has to be made anew: this subscription was added.
    Added(Subscription),
    /// The program has to be made anew: this subscription leaves.
    Removed(Subscription),
    /// Nothing has changed.
    Listed(Vec<Listed>),
}

/// A subscription, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub subscription: Subscription,
    /// Its filter.
    pub filter: String,
}

/// Requests on their way.
pub(super) struct Requests {
    sender: Sender<Request>,
    receiver: Receiver<Request>,
    state: Arc<State>,
}

/// What both sides know.
#[derive(Default)]
struct State {
    /// The last run is over, and no other has begun: nobody answers.
    is_over: AtomicBool,
    /// The thread that runs, and can't wait for itself.
    thread: Mutex<Option<ThreadId>>,
}

impl Default for Requests {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, state: Arc::default() }
    }
}

impl Requests {
    pub fn control(&self) -> Control {
        Control { sender: self.sender.clone(), state: Arc::clone(&self.state) }
    }

    /// A run begins on this thread.
    pub fn begin(&self) {
        self.state.is_over.store(false, Ordering::SeqCst);
        *self.state.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    }

    /// The run is over.
    pub fn end(&self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        *self.state.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
        while self.next().is_some() {}
    }

    /// Whether somebody can still ask for something.
    pub fn has_control(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// The next request, if there is one.
    pub fn next(&self) -> Option<Request> {
        self.receiver.try_recv().ok()
    }
}

/// Adds and takes away subscriptions of an engine that runs on another thread. Each call waits until the new program
/// is ready to take over (milliseconds), before the first run until that begins, and while a source waits for
/// packets without [saying so](weir_io::Attended); after a run it is an error, as it is on the engine's own thread.
#[derive(Clone)]
pub struct Control {
    sender: Sender<Request>,
    state: Arc<State>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the control of an engine")
    }
}

impl Control {
    /// Adds a callback, as [`Engine::subscribe`] does. It is given what happens from now on.
    ///
    /// # Errors
    /// What is wrong with the filter, or that the engine is gone.
    pub fn subscribe<A, F>(&self, filter: &str, callback: F) -> Result<Subscription, String>
    where
        F: Callback<A> + Send + 'static,
        A: 'static,
    {
        let filter = filter.to_string();
        let apply = move |engine: &mut Engine<'_>| {
            let added = engine.subscribe(&filter, callback).map_err(|wrong| wrong.render(false))?;
            Ok(Done::Added(added))
        };
        match self.ask(Box::new(apply))? {
            Done::Added(subscription) => Ok(subscription),
            _ => Err(GONE.into()),
        }
    }

    /// Adds questions as one subscription, as [`Engine::subscribe_questions`] does.
    ///
    /// # Errors
    /// What is wrong with the filters, or that the engine is gone.
    pub fn subscribe_questions(
        &self,
        questions: Vec<Question>,
        take: impl TakeItems + Send + 'static,
    ) -> Result<Subscription, String> {
        let apply = move |engine: &mut Engine<'_>| {
            let added = engine.subscribe_questions(questions, take).map_err(|wrong| wrong.render(false))?;
            Ok(Done::Added(added))
        };
        match self.ask(Box::new(apply))? {
            Done::Added(subscription) => Ok(subscription),
            _ => Err(GONE.into()),
        }
    }

    /// Takes a subscription away.
    ///
    /// # Errors
    /// There is none of this name, or the engine is gone.
    pub fn unsubscribe(&self, subscription: Subscription) -> Result<(), String> {
        let apply = move |engine: &mut Engine<'_>| match engine.dismiss(subscription) {
            true => Ok(Done::Removed(subscription)),
            false => Err(format!("there is no subscription {subscription}")),
        };
        self.ask(Box::new(apply)).map(drop)
    }

    /// The subscriptions.
    ///
    /// # Errors
    /// The engine is gone.
    pub fn list(&self) -> Result<Vec<Listed>, String> {
        let apply = move |engine: &mut Engine<'_>| {
            let all = engine.subscriptions();
            let listed = |(subscription, filter): (_, &str)| Listed { subscription, filter: filter.into() };
            Ok(Done::Listed(all.map(listed).collect()))
        };
        match self.ask(Box::new(apply))? {
            Done::Listed(listed) => Ok(listed),
            _ => Err(GONE.into()),
        }
    }

    fn ask(&self, apply: Apply) -> Result<Done, String> {
        let own = *self.state.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if own == Some(std::thread::current().id()) {
            return Err("this is the thread that the engine runs on: it would wait for itself".into());
        }
        let (reply, answer) = channel();
        let is_over = || self.state.is_over.load(Ordering::SeqCst);
        if is_over() {
            return Err(GONE.into());
        }
        self.sender.send(Request { apply, reply }).map_err(|_| GONE)?;
        loop {
            match answer.recv_timeout(PATIENCE) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if !is_over() => {}
                Err(_) => return Err(GONE.into()),
            }
        }
    }
}

/// How often a caller looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(50);

const GONE: &str = "the run is over";

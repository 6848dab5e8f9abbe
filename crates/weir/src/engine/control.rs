//! Lets other threads add and remove subscriptions during a run: as requests, which the run executes between
//! two bursts.

use super::Engine;
use super::callback::{Callback, TakeItems};
use crate::ask::question::Question;
use crate::handlers::subscription::Subscription;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// The change that a request makes to the engine.
type Apply = Box<dyn FnOnce(&mut Engine<'_>) -> Result<Done, String> + Send>;

/// A change of the engine, and the channel for the answer.
pub(super) struct Request {
    pub apply: Apply,
    pub reply: Sender<Result<Done, String>>,
}

/// The result of a request.
#[derive(Debug, Clone)]
pub(super) enum Done {
    /// This subscription was added: the program must be compiled again.
    Added(Subscription),
    /// This subscription will be removed: the program must be compiled again.
    Removed(Subscription),
    /// The list of subscriptions; nothing has changed.
    Listed(Vec<Listed>),
}

/// A subscription in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The subscription.
    pub subscription: Subscription,
    /// Its filter.
    pub filter: String,
}

/// The queue of requests.
pub(super) struct Requests {
    sender: Sender<Request>,
    receiver: Receiver<Request>,
    state: Arc<State>,
}

/// State that both sides share.
#[derive(Default)]
struct State {
    /// The last run is over, and no other has begun: requests get no answer.
    is_over: AtomicBool,
    /// The thread of the run, which cannot wait for itself.
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

    /// Marks the start of a run on this thread.
    pub fn begin(&self) {
        self.state.is_over.store(false, Ordering::SeqCst);
        *self.state.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    }

    /// Marks the end of the run.
    pub fn end(&self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        *self.state.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
        while self.next().is_some() {}
    }

    /// Whether another thread can still send requests.
    pub fn has_control(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// The next request, if there is one.
    pub fn next(&self) -> Option<Request> {
        self.receiver.try_recv().ok()
    }
}

/// Adds and removes subscriptions of an engine that runs on another thread. Each call waits until the new
/// program is ready to take over (milliseconds). It also waits for the first run to begin, and for a source
/// that blocks without packets and does not [return idle](weir_io::Attended). After a run, and on the
/// engine's own thread, a call is an error.
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
    /// A control that does not keep a run going.
    pub fn downgrade(&self) -> WeakControl {
        WeakControl { sender: self.sender.clone(), state: Arc::downgrade(&self.state) }
    }

    /// Adds a callback, as [`Engine::subscribe`] does, for data from now on.
    ///
    /// # Errors
    /// Errors in the filter, or the engine no longer exists.
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
    /// Errors in the filters, or the engine no longer exists.
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

    /// Removes a subscription.
    ///
    /// # Errors
    /// The subscription does not exist, or the engine no longer exists.
    pub fn unsubscribe(&self, subscription: Subscription) -> Result<(), String> {
        let apply = move |engine: &mut Engine<'_>| match engine.dismiss(subscription) {
            true => Ok(Done::Removed(subscription)),
            false => Err(format!("there is no subscription {subscription}")),
        };
        self.ask(Box::new(apply)).map(drop)
    }

    /// Lists the subscriptions.
    ///
    /// # Errors
    /// The engine no longer exists.
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

/// How often a caller checks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(50);

/// A [`Control`] that does not keep a run going: a run whose subscriptions have all ended goes on as long as
/// others can add some.
#[derive(Clone)]
pub struct WeakControl {
    sender: Sender<Request>,
    state: Weak<State>,
}

impl fmt::Debug for WeakControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the weak control of an engine")
    }
}

impl WeakControl {
    /// The control, unless the engine no longer exists.
    pub fn upgrade(&self) -> Option<Control> {
        Some(Control { sender: self.sender.clone(), state: self.state.upgrade()? })
    }
}

const GONE: &str = "the run is over";

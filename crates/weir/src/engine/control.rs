//! Subscriptions added and taken away by other threads while a run goes on: requests that it carries out between two
//! bursts.

use super::callback::{Callback, TakeItems};
use super::{Engine, Subscription};
use crate::collect::Shape;
use crate::compile::Ask;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};

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
    /// The program has to be made anew.
    Removed,
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
}

impl Default for Requests {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }
}

impl Requests {
    pub fn control(&self) -> Control {
        Control { sender: self.sender.clone() }
    }

    /// The next request, if there is one.
    pub fn next(&self) -> Option<Request> {
        self.receiver.try_recv().ok()
    }
}

/// Adds and takes away subscriptions of an engine that runs on another thread. Each call waits until the new program
/// has taken over (milliseconds), and for ever where no run goes on.
#[derive(Clone)]
pub struct Control {
    sender: Sender<Request>,
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

    /// Adds a question and whoever takes its answers, as [`Engine::subscribe_items`] does.
    ///
    /// # Errors
    /// What is wrong with the filter, or that the engine is gone.
    pub fn subscribe_items(
        &self,
        ask: Ask,
        shape: Shape,
        take: impl TakeItems + Send + 'static,
    ) -> Result<Subscription, String> {
        let apply = move |engine: &mut Engine<'_>| {
            let added = engine.subscribe_items(ask, shape, take).map_err(|wrong| wrong.render(false))?;
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
        let apply = move |engine: &mut Engine<'_>| match engine.unsubscribe(subscription) {
            true => Ok(Done::Removed),
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
        let (reply, answer) = channel();
        self.sender.send(Request { apply, reply }).map_err(|_| GONE)?;
        answer.recv().map_err(|_| GONE)?
    }
}

const GONE: &str = "the engine is gone";

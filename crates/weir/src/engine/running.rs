//! A running engine: delivers answers, and changes the program between two bursts. A program is compiled on a
//! thread of its own, while the previous one continues.

use super::callback::Next;
use super::control::{Done, Request};
use super::{Engine, Owner};
use crate::ask::compile::Compiled;
use crate::handlers::subscription::Subscription;
use crate::items::item::Item;
use crate::merge::changes::Changes;
use crate::rows::shape::Shape;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use weir_lang::diag::Diagnostics;

/// A running engine.
pub(super) struct Running<'e, 'c> {
    engine: &'e mut Engine<'c>,
    /// The owner of each question of the current program.
    owners: Vec<Owner>,
    /// Subscriptions whose callbacks ended them.
    ended: Vec<Subscription>,
    /// At least one subscription ended during the run.
    has_ended: bool,
    /// A subscription ended the run.
    is_stopped: bool,
    /// The program that is being compiled.
    pending: Option<Pending>,
    /// The request that the next program serves, and the channel for the answer.
    taking_over: Option<(Done, Sender<Result<Done, String>>)>,
    /// Losses of removed callbacks' queues.
    lost: u64,
}

/// A program that is being compiled, and the channel for the answer.
struct Pending {
    compiled: Receiver<Result<Compiled, Diagnostics>>,
    asked: Option<(Done, Sender<Result<Done, String>>)>,
}

impl<'e, 'c> Running<'e, 'c> {
    pub fn of(engine: &'e mut Engine<'c>) -> Self {
        let owners = engine.owners();
        Self {
            engine,
            owners,
            ended: vec![],
            has_ended: false,
            is_stopped: false,
            pending: None,
            taking_over: None,
            lost: 0,
        }
    }

    /// The subscription of each question, and the number of lost deliveries.
    pub fn into_parts(self) -> (Vec<Subscription>, u64) {
        (self.owners.iter().map(|owner| owner.subscription).collect(), self.lost)
    }

    fn end(&mut self, subscription: Subscription) {
        let entry = &mut self.engine.entries[subscription.place];
        if entry.serial == subscription.serial && !entry.is_over {
            self.lost += entry.end();
        }
    }

    /// Starts compiling a program for the current subscriptions.
    fn start(&mut self, asked: Option<(Done, Sender<Result<Done, String>>)>) {
        let (sender, compiled) = channel();
        let work = self.engine.work();
        // A place whose questions are in the new program does not become free when that program takes over.
        self.engine.entries.iter_mut().for_each(|entry| entry.is_asked = !entry.is_over);
        std::thread::spawn(move || {
            // The run may have ended, and nobody receives the program then.
            let _ = sender.send(work.compile());
        });
        self.pending = Some(Pending { compiled, asked });
    }

    /// Executes a request, as far as possible at once.
    fn carry_out(&mut self, request: Request) {
        let Request { apply, reply } = request;
        match apply(self.engine) {
            Ok(done @ (Done::Added(_) | Done::Removed(_))) => self.start(Some((done, reply))),
            // The requesting thread may have ended.
            answer => drop(reply.send(answer)),
        }
    }

    /// The compiled program, once it is ready.
    fn finish(&mut self) -> Option<Compiled> {
        let made = match self.pending.as_ref()?.compiled.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => panic!("the thread that compiles has panicked"),
        };
        let asked = self.pending.take()?.asked;
        match (made, asked) {
            (Ok(compiled), asked) => {
                self.taking_over = asked;
                Some(compiled)
            }
            (Err(_), None) => None,
            (Err(wrong), Some((done, reply))) => {
                match done {
                    // The filter itself is correct, but the program of all subscriptions exceeds a limit.
                    Done::Added(added) => {
                        self.end(added);
                        self.engine.forget(added);
                    }
                    Done::Removed(removed) => self.lost += self.engine.entries[removed.place].end(),
                    Done::Listed(_) => {}
                }
                let _ = reply.send(Err(wrong.render(false)));
                None
            }
        }
    }
}

impl Changes for Running<'_, '_> {
    fn item(&mut self, question: usize, item: Item<'_>) {
        let Owner { subscription, question } = self.owners[question];
        let entry = &mut self.engine.entries[subscription.place];
        if entry.serial != subscription.serial {
            return;
        }
        let next = entry.take(question, item);
        self.is_stopped |= next == Next::EndRun;
        if matches!(next, Next::End | Next::EndRun) {
            self.lost += entry.end();
            self.ended.push(subscription);
            self.has_ended = true;
        }
    }

    fn is_over(&self) -> bool {
        let all_ended = || self.engine.entries.iter().all(|entry| entry.is_over);
        self.is_stopped || self.has_ended && all_ended() && !self.engine.requests.has_control()
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        while self.pending.is_none() {
            if !self.ended.is_empty() {
                self.ended.clear();
                self.start(None);
            } else if let Some(request) = self.engine.requests.next() {
                self.carry_out(request);
            } else {
                return None;
            }
        }
        let compiled = self.finish()?;
        Some((compiled, self.engine.shapes()))
    }

    fn taken_over(&mut self) {
        self.owners = self.engine.owners();
        self.engine.entries.iter_mut().for_each(|entry| entry.is_free = !entry.is_asked);
        let Some((done, reply)) = self.taking_over.take() else { return };
        if let Done::Removed(removed) = done {
            self.lost += self.engine.entries[removed.place].end();
        }
        // The requesting thread may have ended.
        let _ = reply.send(Ok(done));
    }
}

//! The nodes of a graph, with their types erased: items pass in batches, and the type of a batch is checked
//! once.

use crate::operator::{Operator, Port};
use crate::queue::{Message, push};
use crate::signal::{Signal, SignalJoin};
use rtrb::{Consumer, Producer};
use std::any::Any;
use std::collections::VecDeque;

/// Items and signals, in order.
pub(super) type Batch<T> = Vec<Message<T>>;

/// What a stage has not taken yet.
type Inbox<T> = VecDeque<Message<T>>;

/// Messages in an outbox from which on a stage waits until they are passed on.
const OUT_MAX: usize = 4_096;

/// Puts an item of the type `T` into the inbox of a stage.
pub(super) type Deliver<T> = fn(&mut dyn Any, T);

/// The most messages that a node takes from a ring at once.
const TAKEN_MAX: usize = 256;

/// A stage with its type erased.
pub(super) trait Node: Send {
    /// The inbox: an [`Inbox`] of what the stage takes; of the source, its [`Batch`].
    fn inbox(&mut self) -> &mut dyn Any;

    /// The outbox: a [`Batch`] of what the stage passes on.
    fn outbox(&mut self) -> &mut dyn Any;

    /// Joins the signals of an input.
    fn join(&mut self) -> &mut SignalJoin;

    /// Takes a signal, after the items in the inbox.
    fn signal(&mut self, signal: Signal);

    /// Works on what is in the inbox, until the outbox is full. Returns whether anything is in the outbox.
    fn work(&mut self) -> bool;

    /// Tells the counters of the operator.
    fn counters(&self, _tell: &mut dyn FnMut(&'static str, u64)) {}

    /// Drops what is left in the outbox.
    fn clear(&mut self);

    /// The node receives from a ring.
    fn is_receiver(&self) -> bool {
        false
    }

    /// The source of the node has ended.
    fn has_ended(&self) -> bool {
        false
    }
}

/// A node for items of the type `T` and an outbox for items of the type `U`.
struct Boxes<T, U> {
    inbox: Inbox<T>,
    outbox: Batch<U>,
    join: SignalJoin,
}

impl<T, U> Default for Boxes<T, U> {
    fn default() -> Self {
        Self { inbox: VecDeque::new(), outbox: vec![], join: SignalJoin::default() }
    }
}

/// What an operator passes on.
struct Outbox<'a, U>(&'a mut Batch<U>);

impl<U> Port<U> for Outbox<'_, U> {
    fn put(&mut self, item: U) {
        self.0.push(Message::Item(item));
    }

    fn signal(&mut self, signal: Signal) {
        self.0.push(Message::Signal(signal));
    }
}

pub(super) fn deliver_whole<T: 'static>(inbox: &mut dyn Any, item: T) {
    inbox_of::<T>(inbox).push_back(Message::Item(item));
}

pub(super) fn deliver_left<L: 'static, R: 'static>(inbox: &mut dyn Any, item: L) {
    inbox_of(inbox).push_back(Message::Item(crate::Either::<L, R>::Left(item)));
}

pub(super) fn deliver_right<L: 'static, R: 'static>(inbox: &mut dyn Any, item: R) {
    inbox_of(inbox).push_back(Message::Item(crate::Either::<L, R>::Right(item)));
}

fn inbox_of<T: 'static>(inbox: &mut dyn Any) -> &mut Inbox<T> {
    inbox.downcast_mut().expect("the type of the input, which `connect` has checked")
}

/// The source of a graph: its inbox is its outbox.
pub(super) struct SourceNode<T> {
    batch: Batch<T>,
    join: SignalJoin,
}

impl<T> Default for SourceNode<T> {
    fn default() -> Self {
        Self { batch: vec![], join: SignalJoin::default() }
    }
}

impl<T: Send + 'static> Node for SourceNode<T> {
    fn inbox(&mut self) -> &mut dyn Any {
        &mut self.batch
    }

    fn outbox(&mut self) -> &mut dyn Any {
        &mut self.batch
    }

    fn join(&mut self) -> &mut SignalJoin {
        &mut self.join
    }

    fn signal(&mut self, signal: Signal) {
        self.batch.push(Message::Signal(signal));
    }

    fn work(&mut self) -> bool {
        !self.batch.is_empty()
    }

    fn clear(&mut self) {
        self.batch.clear();
    }
}

/// What a node does with its inbox.
trait Work<T, U>: Send {
    /// As [`Node::work`].
    fn work(&mut self, boxes: &mut Boxes<T, U>) -> bool;

    /// As [`Node::counters`].
    fn counters(&self, _tell: &mut dyn FnMut(&'static str, u64)) {}

    /// As [`Node::is_receiver`].
    fn is_receiver(&self) -> bool {
        false
    }

    /// As [`Node::has_ended`].
    fn has_ended(&self) -> bool {
        false
    }
}

/// A node with boxes of its own.
struct Worker<T, U, W> {
    work: W,
    boxes: Boxes<T, U>,
}

impl<T, U, W> Node for Worker<T, U, W>
where
    T: Send + 'static,
    U: Send + 'static,
    W: Work<T, U>,
{
    fn inbox(&mut self) -> &mut dyn Any {
        &mut self.boxes.inbox
    }

    fn outbox(&mut self) -> &mut dyn Any {
        &mut self.boxes.outbox
    }

    fn join(&mut self) -> &mut SignalJoin {
        &mut self.boxes.join
    }

    fn signal(&mut self, signal: Signal) {
        self.boxes.inbox.push_back(Message::Signal(signal));
    }

    fn work(&mut self) -> bool {
        self.work.work(&mut self.boxes)
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.work.counters(tell);
    }

    fn clear(&mut self) {
        self.boxes.outbox.clear();
    }

    fn is_receiver(&self) -> bool {
        self.work.is_receiver()
    }

    fn has_ended(&self) -> bool {
        self.work.has_ended()
    }
}

/// The node of an operator.
pub(super) fn stage<T, O>(operator: O) -> Box<dyn Node>
where
    T: Send + 'static,
    O: Operator<T> + Send + 'static,
    O::Out: Send + 'static,
{
    Box::new(Worker { work: Stage(operator), boxes: Boxes::<T, O::Out>::default() })
}

/// The node at the producer's side of a queue.
pub(super) fn sender<T: Send + 'static>(producer: Producer<Message<T>>) -> Box<dyn Node> {
    Box::new(Worker { work: Sender(producer), boxes: Boxes::<T, ()>::default() })
}

/// The node at the consumer's side of a queue.
pub(super) fn receiver<T: Send + 'static>(consumer: Consumer<Message<T>>) -> Box<dyn Node> {
    let work = Receiver { consumer, has_ended: false };
    Box::new(Worker { work, boxes: Boxes::<(), T>::default() })
}

struct Stage<O>(O);

impl<T, O: Operator<T> + Send> Work<T, O::Out> for Stage<O> {
    fn work(&mut self, boxes: &mut Boxes<T, O::Out>) -> bool {
        while boxes.outbox.len() < OUT_MAX
            && let Some(message) = boxes.inbox.pop_front()
        {
            let out = &mut Outbox(&mut boxes.outbox);
            match message {
                Message::Item(item) => self.0.take(item, out),
                Message::Signal(signal) => self.0.signal(signal, out),
            }
        }
        !boxes.outbox.is_empty()
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(tell);
    }
}

struct Sender<T>(Producer<Message<T>>);

impl<T: Send> Work<T, ()> for Sender<T> {
    fn work(&mut self, boxes: &mut Boxes<T, ()>) -> bool {
        for message in boxes.inbox.drain(..) {
            // If the consumer's thread has ended by a panic, the end of the run says so.
            push(&mut self.0, message);
        }
        false
    }
}

struct Receiver<T> {
    consumer: Consumer<Message<T>>,
    has_ended: bool,
}

impl<T: Send> Work<(), T> for Receiver<T> {
    fn work(&mut self, boxes: &mut Boxes<(), T>) -> bool {
        if self.has_ended {
            return false;
        }
        let waiting = self.consumer.slots().min(TAKEN_MAX);
        if waiting == 0 && self.consumer.is_abandoned() && self.consumer.is_empty() {
            // The producer's side was dropped before its end.
            self.has_ended = true;
            boxes.outbox.push(Message::Signal(Signal::End));
            return true;
        }
        if let Ok(chunk) = self.consumer.read_chunk(waiting) {
            boxes.outbox.extend(chunk);
        }
        self.has_ended = matches!(boxes.outbox.last(), Some(Message::Signal(Signal::End)));
        waiting > 0
    }

    fn is_receiver(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }
}

/// A connection.
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: Kind,
    /// The number of the input in the join of the signals of `to`.
    pub(super) input: usize,
    pass: Pass,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Moves items.
    Move,
    /// Copies items.
    Copy,
    /// A ring between two threads.
    Ring,
}

type Pass = Box<dyn Fn(&mut dyn Node, &mut dyn Node, usize) + Send>;

/// Passes a signal of an input to a node.
fn pass_signal(to: &mut dyn Node, input: usize, signal: Signal) {
    let mut joined = vec![];
    to.join().take(input, signal, |signal| joined.push(signal));
    joined.into_iter().for_each(|signal| to.signal(signal));
}

fn outbox_of<T: 'static>(node: &mut dyn Node) -> &mut Batch<T> {
    node.outbox().downcast_mut().expect("the type of the output, which `connect` has checked")
}

impl Edge {
    /// Moves items.
    pub(super) fn moving<T: 'static>(from: usize, to: usize, deliver: Deliver<T>) -> Self {
        let pass = move |from: &mut dyn Node, to: &mut dyn Node, input: usize| {
            for message in outbox_of::<T>(from).drain(..) {
                match message {
                    Message::Item(item) => deliver(to.inbox(), item),
                    Message::Signal(signal) => pass_signal(to, input, signal),
                }
            }
        };
        Self { from, to, kind: Kind::Move, input: 0, pass: Box::new(pass) }
    }

    /// Copies items.
    pub(super) fn copying<T: Clone + 'static>(from: usize, to: usize, deliver: Deliver<T>) -> Self {
        let pass = move |from: &mut dyn Node, to: &mut dyn Node, input: usize| {
            for message in outbox_of::<T>(from).iter() {
                match message {
                    Message::Item(item) => deliver(to.inbox(), item.clone()),
                    Message::Signal(signal) => pass_signal(to, input, *signal),
                }
            }
        };
        Self { from, to, kind: Kind::Copy, input: 0, pass: Box::new(pass) }
    }

    /// Says that `to` receives what `from` sends.
    pub(super) fn ring(from: usize, to: usize) -> Self {
        Self { from, to, kind: Kind::Ring, input: 0, pass: Box::new(|_, _, _| ()) }
    }

    /// The same connection between nodes with other numbers.
    pub(super) fn at(self, from: usize, to: usize) -> Self {
        Self { from, to, ..self }
    }

    /// Passes on what is in the outbox.
    pub(super) fn pass(&self, from: &mut dyn Node, to: &mut dyn Node) {
        (self.pass)(from, to, self.input);
    }
}

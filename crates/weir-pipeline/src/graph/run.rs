//! The run of a graph.

use super::GraphError;
use super::node::{Edge, Kind, Node};
use super::threads::{Part, Parts, Thread};
use crate::counts::Counts;
use crate::operator::Port;
use crate::queue::Message;
use crate::signal::Signal;
use std::marker::PhantomData;

/// Items that wait for each other before the stages see them.
const BATCH_ITEMS: usize = 256;

/// A graph that runs: a port for its source. Items reach the stages in batches, at the latest with the next
/// signal.
pub struct RunningGraph<In> {
    part: Part,
    threads: Vec<Thread>,
    input: PhantomData<fn(In)>,
}

impl<In> std::fmt::Debug for RunningGraph<In> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a running graph of {} threads", self.threads.len() + 1)
    }
}

impl<In: Send + 'static> RunningGraph<In> {
    pub(super) fn start(mut nodes: Vec<Box<dyn Node>>, mut edges: Vec<Edge>) -> Result<Self, GraphError> {
        for edge in edges.iter_mut().filter(|edge| edge.kind != Kind::Ring) {
            edge.input = nodes[edge.to].join().add();
        }
        for (number, node) in nodes.iter_mut().enumerate().skip(1) {
            if node.join().inputs() == 0 && !node.is_receiver() {
                return Err(GraphError::NoInput(number));
            }
            let moving = |edge: &&Edge| edge.from == number && edge.kind == Kind::Move;
            if edges.iter().filter(moving).count() > 1 {
                return Err(GraphError::TwoConsumers(number));
            }
        }
        if edges.iter().filter(|edge| edge.from == 0 && edge.kind == Kind::Move).count() > 1 {
            return Err(GraphError::TwoConsumers(0));
        }
        let Parts { own, others } = Parts::of(nodes, edges)?;
        let threads = others.into_iter().map(Part::spawn).collect();
        Ok(Self { part: own, threads, input: PhantomData })
    }

    /// Ends the graph, and waits for its threads. Returns what the bounds of the operators cut off.
    ///
    /// # Errors
    /// A stage whose thread panicked.
    pub fn finish(mut self) -> Result<Counts, GraphError> {
        self.signal(Signal::End);
        let mut counts = self.part.counts();
        let ends: Vec<_> = self.threads.drain(..).map(Thread::join).collect();
        for of_thread in ends {
            of_thread?.into_iter().for_each(|(name, count)| *counts.entry(name).or_default() += count);
        }
        Ok(counts)
    }
}

impl<In: Send + 'static> Port<In> for RunningGraph<In> {
    fn put(&mut self, item: In) {
        let Some(inbox) = self.part.source().downcast_mut::<Vec<Message<In>>>() else { return };
        inbox.push(Message::Item(item));
        if inbox.len() >= BATCH_ITEMS {
            self.part.work();
        }
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(inbox) = self.part.source().downcast_mut::<Vec<Message<In>>>() {
            inbox.push(Message::Signal(signal));
        }
        self.part.work();
    }
}

//! Pipelines with several inputs and consumers: stages, added and connected one by one.

mod node;
mod run;
mod threads;

use crate::operator::{Either, Operator};
use node::{Edge, Node, SourceNode};
pub use run::RunningGraph;
use std::fmt;
use std::marker::PhantomData;

/// Stages and their connections. `In`: the type of the items of the graph's source.
///
/// ```
/// use weir_pipeline::{Filter, Graph, Join, Port};
///
/// // Questions and answers with the same number.
/// let mut graph = Graph::<(bool, u16, &str)>::new();
/// let questions = graph.add_stage(Filter(|m: &(bool, u16, &str)| !m.0));
/// let answers = graph.add_stage(Filter(|m: &(bool, u16, &str)| m.0));
/// let join = graph.add_stage(Join::new(|q: &(bool, u16, &str)| q.1, |a: &(bool, u16, &str)| a.1));
/// let (question, answer) = join.input.sides();
/// graph.connect_copy(graph.source(), questions.input);
/// graph.connect_copy(graph.source(), answers.input);
/// graph.connect_queued(questions.output, question, 1024);
/// graph.connect_queued(answers.output, answer, 1024);
/// let (sender, found) = std::sync::mpsc::channel();
/// graph.for_each(join.output, move |pair| sender.send(pair).unwrap());
///
/// let mut running = graph.run().unwrap();
/// running.put((false, 7, "weir.example?"));
/// running.put((true, 7, "192.0.2.1"));
/// running.finish().unwrap();
/// assert_eq!(found.try_iter().count(), 1);
/// ```
pub struct Graph<In> {
    nodes: Vec<Box<dyn Node>>,
    edges: Vec<Edge>,
    input: PhantomData<fn(In)>,
}

impl<In> fmt::Debug for Graph<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a graph of {} stages and {} connections", self.nodes.len(), self.edges.len())
    }
}

/// A stage of a graph: its input, and its output.
pub struct Stage<In, Out> {
    /// The input, which can have several connections: items are taken as they come.
    pub input: Input<In>,
    /// The output.
    pub output: Output<Out>,
}

impl<In, Out> fmt::Debug for Stage<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {}", self.output.node)
    }
}

/// An input for items of the type `T`.
pub struct Input<T> {
    node: usize,
    /// Makes of an item of the type `T` one of the type that the stage takes.
    deliver: node::Deliver<T>,
}

impl<T> fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the input of stage {}", self.node)
    }
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<T> {}

impl<L: 'static, R: 'static> Input<Either<L, R>> {
    /// The two inputs of a stage that takes either of two types, such as a [`Join`](crate::Join).
    pub fn sides(self) -> (Input<L>, Input<R>) {
        (
            Input { node: self.node, deliver: node::deliver_left::<L, R> },
            Input { node: self.node, deliver: node::deliver_right::<L, R> },
        )
    }
}

/// An output for items of the type `T`.
pub struct Output<T> {
    node: usize,
    item: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output of stage {}", self.node)
    }
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Output<T> {}

/// Why a graph cannot run. Stages are numbered in the order in which they were added; 0 is the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphError {
    /// Items would come back to this stage.
    Cycle(usize),
    /// Nothing is connected to the input of this stage.
    NoInput(usize),
    /// The items of this stage would be moved to several stages.
    TwoConsumers(usize),
    /// A queue leads to a stage that is also connected directly: both would run this stage, on two threads.
    TwoThreads(usize),
    /// The queue before this stage leads back to a thread that is before the queue, or to that of the source.
    ThreadCycle(usize),
    /// The thread that ran this stage panicked.
    Panicked(usize),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle(stage) => write!(f, "stage {stage}: its items come back to it; remove a connection"),
            Self::NoInput(stage) => write!(f, "stage {stage}: nothing is connected to its input"),
            Self::TwoConsumers(stage) => {
                write!(f, "stage {stage}: its items go to several stages; use connect_copy for all but one")
            }
            Self::TwoThreads(stage) => write!(
                f,
                "stage {stage}: it is behind a queue, and also connected directly to the thread before the queue; use \
                 connect_queued for both"
            ),
            Self::ThreadCycle(stage) => write!(
                f,
                "stage {stage}: the queue before it leads back to a thread that is before the queue; connect all inputs of the stage by \
                 queues"
            ),
            Self::Panicked(stage) => write!(f, "stage {stage}: its thread panicked"),
        }
    }
}

impl std::error::Error for GraphError {}

impl<In: Send + 'static> Default for Graph<In> {
    fn default() -> Self {
        Self::new()
    }
}

impl<In: Send + 'static> Graph<In> {
    /// A graph with nothing but its source.
    pub fn new() -> Self {
        Self { nodes: vec![Box::new(SourceNode::<In>::default())], edges: vec![], input: PhantomData }
    }

    /// The output of the source: the items that the graph is given.
    pub fn source(&self) -> Output<In> {
        Output { node: 0, item: PhantomData }
    }

    /// Adds an operator, or a whole [`Pipeline`](crate::Pipeline), which the compiler makes one function of.
    pub fn add_stage<T, O>(&mut self, operator: O) -> Stage<T, O::Out>
    where
        T: Send + 'static,
        O: Operator<T> + Send + 'static,
        O::Out: Send + 'static,
    {
        let node = self.add(node::stage::<T, O>(operator));
        Stage {
            input: Input { node, deliver: node::deliver_whole::<T> },
            output: Output { node, item: PhantomData },
        }
    }

    fn add(&mut self, node: Box<dyn Node>) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Connects an output to an input: items are moved by direct calls.
    pub fn connect<T: Send + 'static>(&mut self, from: Output<T>, to: Input<T>) {
        self.edges.push(Edge::moving(from.node, to.node, to.deliver));
    }

    /// Connects an output to one more input, which receives copies.
    pub fn connect_copy<T: Clone + Send + 'static>(&mut self, from: Output<T>, to: Input<T>) {
        self.edges.push(Edge::copying(from.node, to.node, to.deliver));
    }

    /// Connects an output to an input by a queue with room for `capacity` items: what follows runs on another
    /// thread. A full queue makes the stage before it wait.
    pub fn connect_queued<T: Send + 'static>(&mut self, from: Output<T>, to: Input<T>, capacity: usize) {
        let (producer, consumer) = rtrb::RingBuffer::new(capacity.max(1));
        let send = self.add(node::sender::<T>(producer));
        let receive = self.add(node::receiver::<T>(consumer));
        self.edges.push(Edge::moving(from.node, send, node::deliver_whole::<T>));
        self.edges.push(Edge::moving(receive, to.node, to.deliver));
        self.edges.push(Edge::ring(send, receive));
    }

    /// Calls a function for the items of an output, on the thread of its stage.
    pub fn for_each<T: Send + 'static>(&mut self, from: Output<T>, each: impl FnMut(T) + Send + 'static) {
        let sink = self.add_stage::<T, _>(crate::each::Map(each));
        self.connect(from, sink.input);
    }

    /// Starts the graph. Stages without queues between them run on the thread that gives the source its
    /// items.
    ///
    /// # Errors
    /// What is wrong with the connections.
    pub fn run(self) -> Result<RunningGraph<In>, GraphError> {
        RunningGraph::start(self.nodes, self.edges)
    }
}

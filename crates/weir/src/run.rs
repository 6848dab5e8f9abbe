//! Runs a compiled program over a source, on one worker or several (`spread`). What workers yield
//! (`collect`) is brought into one order (`merge`), the same whatever their number.

use crate::compile::{Compiled, Compiler};
use crate::connection::Places;
use crate::engine::{MakeSink, Sink};
use crate::events::EventRows;
use crate::ordered_merge::Merger;
use crate::stream::Handlers;
use crate::worker_output::{Collector, Item, Presenter, Shape};
use crate::workers::{Dispatcher, run_many};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_engine::clock::Clock;
use weir_engine::counters::Counters;
use weir_engine::plan::Want;
use weir_engine::stage::{Stage, Stages};
use weir_engine::worker::Worker;
use weir_ir::abi::Program;
use weir_ir::graph::Table;
use weir_packet::{Burst, Poll, Source, SourceError};

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What became of the packets.
    pub counters: Counters,
    /// What passed each stage, summed over threads.
    pub stages: Stages,
    /// Packets given to each question.
    pub matched: Vec<u64>,
    /// Faults of the sources; what could be read was delivered.
    pub errors: Vec<SourceError>,
    /// Bytes of the flow tables at the end.
    pub table_bytes: u64,
    /// Why one worker ran where several were asked for.
    pub one_worker: Option<String>,
    /// The handlers of all workers.
    pub handlers: Handlers,
    /// What did not fit into the queues of callbacks that run on threads of their own.
    pub lost: u64,
    /// How often the program was replaced while it ran, and how long that took at most: from the request to the new
    /// program's first burst, compiling it left out.
    pub swaps: (u64, Duration),
    /// Packets that each worker was given, where there are several.
    pub shares: Vec<u64>,
}

/// Whom a run hands out to, and who may change what is asked while it goes on.
pub(crate) trait Changes<E> {
    /// Something for a question.
    fn item(&mut self, question: usize, item: Item) -> Result<(), E>;

    /// The program that is to run from now on, with the shapes of its questions; `None`: go on. Asked between bursts.
    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)>;

    /// That program takes over now: all that was found for the questions before it was handed out.
    fn taken_over(&mut self) {}
}

/// What is asked stays as it is.
struct Fixed<'a, E>(&'a mut dyn FnMut(usize, Item) -> Result<(), E>);

impl<E> Changes<E> for Fixed<'_, E> {
    fn item(&mut self, question: usize, item: Item) -> Result<(), E> {
        (self.0)(question, item)
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        None
    }
}

impl Outcome {
    /// Adds what somebody gave to each question.
    pub(crate) fn add_matched(&mut self, matched: &[u64]) {
        self.matched.resize(matched.len(), 0);
        self.matched.iter_mut().zip(matched).for_each(|(sum, n)| *sum += n);
    }
}

/// Runs `compiled` over `source` with `workers` workers; every item goes to `each` in order.
///
/// # Errors
/// What `each` answers; the run stops there. Faults of the source are in the outcome.
pub fn run<E>(
    compiler: &Compiler,
    compiled: &Compiled,
    source: &mut dyn Source,
    shapes: &[Shape],
    workers: usize,
    each: &mut dyn FnMut(usize, Item) -> Result<(), E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    run_changing(compiler, compiled.clone(), source, (shapes, workers), &mut Fixed(each), progress)
}

/// As [`run`]; what is asked may change in between.
pub(crate) fn run_changing<E>(
    compiler: &Compiler,
    compiled: Compiled,
    source: &mut dyn Source,
    (shapes, workers): (&[Shape], usize),
    changes: &mut dyn Changes<E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let parts = WorkerParts::of(&compiled, shapes);
    let mut merger = Merger::new(Arc::clone(&compiled.plan), Arc::clone(&parts.presenter), changes);
    let dispatcher = (workers > 1).then(|| Dispatcher::new(compiler, &compiled, workers)).transpose();
    let one_worker = dispatcher.as_ref().err().cloned();
    let mut outcome = match dispatcher {
        Ok(Some(dispatcher)) => {
            run_many(&compiled, source, dispatcher, workers, &parts, &mut merger, progress)?
        }
        _ => run_one(&compiled, source, &parts, &mut merger, progress)?,
    };
    outcome.one_worker = one_worker;
    merger.finish(&mut outcome)?;
    debug_assert_eq!(outcome.counters.adds_up(0), Ok(()));
    Ok(outcome)
}

/// What each worker is made of.
pub(crate) struct WorkerParts {
    pub presenter: Arc<Presenter>,
    places: Arc<Vec<Places>>,
    program: Arc<dyn Program>,
    sinks: Vec<Option<MakeSink>>,
}

impl WorkerParts {
    pub fn of(compiled: &Compiled, shapes: &[Shape]) -> Self {
        let mut shapes = shapes.to_vec();
        shapes.resize(compiled.questions.len(), Shape::default());
        let (graph, layout) = (compiled.graph(), compiled.plan.program.layout());
        let tables = (0..graph.tables.len() as u32).map(Table);
        let stack = &compiled.stack;
        let asked = compiled.plan.questions.iter().zip(&shapes);
        let sessions = asked
            .map(|(question, shape)| match question.want {
                Want::Sessions(protocols) => shape.rows.unwrap_or(protocols),
                _ => 0,
            })
            .collect();
        let presenter = Presenter {
            shapes,
            stack: stack.clone(),
            outs: compiled.outs.clone(),
            events: compiled.events.iter().map(|&mask| EventRows::with_mask(stack, mask)).collect(),
            sessions,
        };
        Self {
            presenter: Arc::new(presenter),
            places: Arc::new(tables.map(|t| Places::of(graph, layout, t)).collect()),
            program: Arc::clone(&compiled.plan.program),
            sinks: compiled.sinks.clone(),
        }
    }

    /// A new worker's subscriber.
    pub fn collector(&self) -> Collector {
        let mut collector = Collector {
            presenter: Arc::clone(&self.presenter),
            places: Arc::clone(&self.places),
            program: Arc::clone(&self.program),
            yielded: VecDeque::new(),
            matched: vec![],
            sinks: vec![],
            row: None,
            emitted: vec![],
        };
        self.change(&mut collector);
        collector
    }

    /// A worker's subscriber goes over to other questions: those that stay keep what they have.
    pub fn change(&self, collector: &mut Collector) {
        collector.presenter = Arc::clone(&self.presenter);
        collector.places = Arc::clone(&self.places);
        collector.program = Arc::clone(&self.program);
        collector.matched.resize(self.presenter.shapes.len(), 0);
        collector.sinks.resize_with(self.sinks.len(), || Sink::None);
        for (sink, make) in collector.sinks.iter_mut().zip(&self.sinks) {
            match (&*sink, make) {
                (Sink::None, Some(make)) => *sink = make(),
                // Nobody reads what a question keeps that was taken away.
                (_, None) => *sink = Sink::None,
                _ => {}
            }
        }
    }
}

fn run_one<E>(
    compiled: &Compiled,
    source: &mut dyn Source,
    parts: &WorkerParts,
    merger: &mut Merger<'_, E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let mut worker = Worker::new(Arc::clone(&compiled.plan), parts.collector());
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    let mut burst = Burst::default();
    let mut clock = Clock::default();
    let mut number = 0;
    loop {
        match read(source, &mut burst, &mut outcome.stages) {
            // Questions may change while no packets come.
            Ok(Poll::Idle { .. }) => merger.pause()?,
            Ok(Poll::Packets) => {
                worker.pass_time(number, clock.now());
                worker.take(&burst, number);
                burst.packets.iter().for_each(|packet| clock.tick(packet.time.0));
                number += 1;
            }
            Ok(Poll::End) => break,
            Err(error) => outcome.errors.push(error),
        }
        merger.take_all(&mut worker.subscriber().yielded)?;
        if let Some((compiled, shapes)) = merger.changed() {
            let began = Instant::now();
            let parts = WorkerParts::of(&compiled, &shapes);
            merger.change(&compiled.plan, &parts.presenter)?;
            parts.change(worker.subscriber());
            worker.change(Arc::clone(&compiled.plan));
            outcome.swaps = (outcome.swaps.0 + 1, outcome.swaps.1.max(began.elapsed()));
        }
        if number % 4096 == 0 {
            progress(source);
        }
    }
    let mut more = true;
    while more {
        more = worker.finish(number);
        merger.take_all(&mut worker.subscriber().yielded)?;
    }
    gather(&mut outcome, worker);
    outcome.counters.clock.merge(clock.counters());
    Ok(outcome)
}

pub(crate) fn read(
    source: &mut dyn Source,
    burst: &mut Burst,
    stages: &mut Stages,
) -> Result<Poll, SourceError> {
    let began = stages.begin();
    let polled = source.poll(burst);
    stages.end(Stage::Read, burst.packets.len(), began);
    polled
}

pub(crate) fn gather(outcome: &mut Outcome, worker: Worker<Collector>) {
    let (_, bytes) = worker.size();
    let counters = worker.counters();
    outcome.counters.merge(&counters);
    outcome.stages.merge(worker.stages());
    outcome.table_bytes += bytes;
    let collector = worker.into_subscriber();
    outcome.add_matched(&collector.matched);
    outcome.handlers.add(collector.sinks);
}

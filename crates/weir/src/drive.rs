//! Runs a compiled program over a source, on one worker or several (`spread`). What workers yield
//! (`collect`) is brought into one order (`merge`), the same whatever their number.

use crate::collect::{Collector, Item, Presenter, Shape};
use crate::compile::{Compiled, Compiler};
use crate::connection::Places;
use crate::events::EventRows;
use crate::merge::Merger;
use crate::spread::{Dispatcher, run_many};
use crate::stream::Handlers;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_engine::clock::Clock;
use weir_engine::counters::Counters;
use weir_engine::stage::{Stage, Stages};
use weir_engine::worker::Worker;
use weir_ir::graph::Table;
use weir_packet::{Burst, Source, SourceError};

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
    /// The handlers of streams, of all workers.
    pub handlers: Handlers,
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
    let mut shapes = shapes.to_vec();
    shapes.resize(compiled.filters.len(), Shape::default());
    let (graph, layout) = (compiled.graph(), compiled.plan.program.layout());
    let tables = (0..graph.tables.len() as u32).map(Table);
    let places = Arc::new(tables.map(|t| Places::of(graph, layout, t)).collect::<Vec<_>>());
    let presenter = Arc::new(Presenter {
        shapes: shapes.clone(),
        stack: compiled.stack.clone(),
        outs: compiled.outs().to_vec(),
        events: compiled.events.iter().map(|&mask| EventRows::with_mask(&compiled.stack, mask)).collect(),
    });
    let collector = || Collector {
        presenter: Arc::clone(&presenter),
        places: Arc::clone(&places),
        program: Arc::clone(&compiled.plan.program),
        yielded: VecDeque::new(),
        matched: vec![0; shapes.len()],
        sinks: compiled.sinks.iter().map(|make| make()).collect(),
        rows: vec![],
    };
    let mut merger = Merger::new(Arc::clone(&compiled.plan), Arc::clone(&presenter), each);
    let dispatcher = (workers > 1).then(|| Dispatcher::new(compiler, compiled)).transpose();
    let one_worker = dispatcher.as_ref().err().cloned();
    let mut outcome = match dispatcher {
        Ok(Some(dispatcher)) => {
            run_many(compiled, source, dispatcher, workers, &collector, &mut merger, progress)?
        }
        _ => run_one(compiled, source, collector(), &mut merger, progress)?,
    };
    outcome.one_worker = one_worker;
    merger.finish(&mut outcome)?;
    debug_assert_eq!(outcome.counters.adds_up(0), Ok(()));
    Ok(outcome)
}

fn run_one<E>(
    compiled: &Compiled,
    source: &mut dyn Source,
    collector: Collector,
    merger: &mut Merger<'_, E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let mut worker = Worker::new(Arc::clone(&compiled.plan), collector);
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    let mut burst = Burst::default();
    let mut clock = Clock::default();
    let mut number = 0;
    loop {
        match read(source, &mut burst, &mut outcome.stages) {
            Ok(true) => {
                worker.pass_time(number, clock.now());
                worker.take(&burst, number);
                burst.packets.iter().for_each(|packet| clock.tick(packet.time.0));
                number += 1;
            }
            Ok(false) => break,
            Err(error) => outcome.errors.push(error),
        }
        merger.take_all(&mut worker.subscriber().yielded)?;
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
) -> Result<bool, SourceError> {
    let began = stages.begin();
    let read = source.next_burst(burst);
    stages.end(Stage::Read, burst.packets.len(), began);
    read
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

//! Runs a compiled program over a source, on one worker or several.
//!
//! With several, the dispatcher (this thread) reads bursts, asks a small program of its own (lowered from
//! the stack's `dispatch` clause) for each packet's key, and hands every worker its packets. What workers
//! yield (`collect`) this thread brings into one order (`merge`), the same whatever their number.

use crate::collect::{Collector, Item, Presenter, Shape};
use crate::compile::{Ask, Compiled, Compiler, Options};
use crate::connection::Places;
use crate::merge::{Merger, Yields};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_compile::Need;
use weir_engine::clock::Clock;
use weir_engine::counters::Counters;
use weir_engine::plan::{Plan, Want};
use weir_engine::run::Worker;
use weir_engine::stage::{Stage, Stages};
use weir_ir::abi::{Continuation, OUTS_MAX};
use weir_ir::graph::Table;
use weir_lang::diag::Diagnostics;
use weir_packet::{Burst, PacketMeta, Source, SourceError};

/// How a run went.
#[derive(Debug, Clone, Default)]
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
    let (graph, layout) = (compiled.graph(), compiled.plan.program.layout());
    let tables = (0..graph.tables.len() as u32).map(Table);
    let places = Arc::new(tables.map(|t| Places::of(graph, layout, t)).collect::<Vec<_>>());
    let presenter = Arc::new(Presenter {
        shapes: shapes.to_vec(),
        stack: compiled.stack.clone(),
        outs: compiled.outs().to_vec(),
    });
    let collector = || Collector {
        presenter: Arc::clone(&presenter),
        places: Arc::clone(&places),
        yielded: VecDeque::new(),
        matched: vec![0; shapes.len()],
    };
    let mut merger = Merger::new(Arc::clone(&compiled.plan), Arc::clone(&presenter), each);
    let dispatcher = if workers > 1 { Dispatcher::new(compiler).ok() } else { None };
    let mut outcome = match dispatcher {
        Some(dispatcher) => {
            run_many(compiled, source, dispatcher, workers, &collector, &mut merger, progress)?
        }
        None => run_one(compiled, source, collector(), &mut merger, progress)?,
    };
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

fn read(source: &mut dyn Source, burst: &mut Burst, stages: &mut Stages) -> Result<bool, SourceError> {
    let began = stages.begin();
    let read = source.next_burst(burst);
    stages.end(Stage::Read, burst.packets.len(), began);
    read
}

fn gather(outcome: &mut Outcome, worker: Worker<Collector>) {
    let (_, bytes) = worker.size();
    let counters = worker.counters();
    outcome.counters.merge(&counters);
    outcome.stages.merge(worker.stages());
    outcome.table_bytes += bytes;
    outcome.add_matched(&worker.into_subscriber().matched);
}

/// Tells which worker a packet belongs to: both directions and all fragments of a datagram to the same.
struct Dispatcher {
    plan: Arc<Plan>,
    k: Continuation,
}

impl Dispatcher {
    fn new(compiler: &Compiler) -> Result<Self, Diagnostics> {
        let need = Need { dispatch: true, ..Need::default() };
        let ask = Ask { filter: String::new(), need, want: Want::Packets };
        let compiled = compiler.compile(&[ask], &Options::default())?;
        Ok(Self { plan: compiled.plan, k: Continuation::default() })
    }

    fn worker_of(&mut self, packet: &PacketMeta, frame: &[u8], workers: usize) -> usize {
        self.k.outs[0] = 0;
        self.plan.program.head(packet, frame, &mut self.k);
        let mixed = (self.k.outs[0] ^ self.k.outs[0] >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((mixed >> 32) * workers as u64) >> 32) as usize
    }
}

/// Bursts handed over at once, so that threads wake each other rarely.
const BATCH_BURSTS: usize = 64;
/// Batches that may wait at a worker.
const BATCHES_MAX: usize = 8;

/// A worker's share of a batch: its packets, and the time at which each burst began.
type Batch = Vec<(u64, i64, Burst)>;

fn run_many<E>(
    compiled: &Compiled,
    source: &mut dyn Source,
    mut dispatcher: Dispatcher,
    workers: usize,
    collector: &dyn Fn() -> Collector,
    merger: &mut Merger<'_, E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    std::thread::scope(|scope| {
        let mut inputs: Vec<SyncSender<Batch>> = vec![];
        let mut outputs: Vec<Receiver<Yields>> = vec![];
        let mut threads = vec![];
        for _ in 0..workers {
            let (to_worker, from_dispatcher) = sync_channel::<Batch>(BATCHES_MAX);
            let (to_merger, from_worker) = sync_channel::<Yields>(BATCHES_MAX * 2);
            let worker = Worker::new(Arc::clone(&compiled.plan), collector());
            threads.push(scope.spawn(move || work(worker, &from_dispatcher, &to_merger)));
            inputs.push(to_worker);
            outputs.push(from_worker);
        }
        let mut clock = Clock::default();
        let mut number = 0;
        let (mut sent, mut merged) = (0, 0);
        let mut more = true;
        while more {
            let mut shares: Vec<Batch> = vec![vec![]; workers];
            for _ in 0..BATCH_BURSTS {
                let mut burst = Burst::default();
                match read(source, &mut burst, &mut outcome.stages) {
                    Ok(true) => {
                        let (began, packets) = (outcome.stages.begin(), burst.packets.len());
                        split(&mut dispatcher, &burst, number, clock.now(), &mut shares);
                        outcome.stages.end(Stage::Dispatch, packets, began);
                        burst.packets.iter().for_each(|packet| clock.tick(packet.time.0));
                        number += 1;
                    }
                    Ok(false) => {
                        more = false;
                        break;
                    }
                    Err(error) => outcome.errors.push(error),
                }
            }
            for (input, share) in inputs.iter().zip(shares) {
                // A worker that is gone has panicked; joining it says so.
                let _ = input.send(share);
            }
            sent += 1;
            if sent - merged > BATCHES_MAX {
                merger.take_batch(&outputs)?;
                merged += 1;
            }
            progress(source);
        }
        drop(inputs);
        for _ in merged..sent {
            merger.take_batch(&outputs)?;
        }
        merger.take_rest(&outputs)?;
        for thread in threads {
            match thread.join() {
                Ok(worker) => gather(&mut outcome, worker),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome.counters.clock.merge(clock.counters());
        Ok(outcome)
    })
}

/// Gives every worker its packets of a burst. All of them learn its time.
fn split(dispatcher: &mut Dispatcher, burst: &Burst, number: u64, time: i64, shares: &mut [Batch]) {
    let mut parts: Vec<Vec<PacketMeta>> = vec![vec![]; shares.len()];
    for (index, packet) in burst.packets.iter().enumerate() {
        parts[dispatcher.worker_of(packet, burst.data(index), shares.len())].push(*packet);
    }
    for (share, packets) in shares.iter_mut().zip(parts) {
        share.push((number, time, Burst { block: Arc::clone(&burst.block), packets }));
    }
}

fn work(
    mut worker: Worker<Collector>,
    batches: &Receiver<Batch>,
    yields: &SyncSender<Yields>,
) -> Worker<Collector> {
    let mut last = 0;
    for batch in batches {
        for (number, time, burst) in batch {
            worker.pass_time(number, time);
            worker.take(&burst, number);
            last = number + 1;
        }
        if yields.send(std::mem::take(&mut worker.subscriber().yielded)).is_err() {
            return worker;
        }
    }
    let mut more = true;
    while more {
        more = worker.finish(last);
        if yields.send(std::mem::take(&mut worker.subscriber().yielded)).is_err() {
            break;
        }
    }
    worker
}

const _: () = assert!(OUTS_MAX >= 1);

//! Runs a compiled program over a source, on one worker or several.
//!
//! With several, the dispatcher (this thread) reads bursts, asks a small program of its own (lowered from
//! the stack's `dispatch` clause) for each packet's key, and hands every worker its packets. Workers mark
//! what they yield with an [`Order`]; this thread merges it, so that it comes out the same whatever their number.

use crate::compile::{Ask, Compiled, Compiler, Options};
use crate::connection::{Connection, Places};
use crate::{line, tls};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_compile::{Need, OutValue};
use weir_engine::counters::Counters;
use weir_engine::flow::{EndReason, FlowView};
use weir_engine::plan::{Plan, Want};
use weir_engine::run::Worker;
use weir_engine::stage::{Stage, Stages};
use weir_engine::subscriber::{Order, Subscriber};
use weir_ir::abi::{Continuation, OUTS_MAX};
use weir_ir::graph::Table;
use weir_lang::diag::Diagnostics;
use weir_lang::model::Stack;
use weir_packet::{Burst, PacketMeta, Source, SourceError, Value};
use weir_sessions::tls::TlsHandshake;
use weir_sessions::{Direction, Session};

/// Something that a question was given.
#[derive(Debug)]
pub enum Item {
    /// A packet, with its path word and what its layers show (empty unless lines are needed).
    Packet {
        /// What the capture says of it.
        meta: PacketMeta,
        /// Its bytes, where the question asks for frames.
        frame: Vec<u8>,
        /// Its layers (see `show`); 0 unless needed.
        path: u128,
        /// What its layers show.
        line: String,
    },
    /// A connection that is over.
    Connection(Box<Connection>),
    /// A row of a session.
    Session(Vec<Value<'static>>),
}

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

/// What rows hold, per question: settled before the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Packets are only counted.
    pub count_only: bool,
    /// Packets come with their bytes.
    pub frames: bool,
    /// Packets come with their line.
    pub lines: bool,
}

struct Collector {
    shapes: Arc<Vec<Shape>>,
    stack: Arc<Stack>,
    outs: Arc<Vec<OutValue>>,
    /// By table.
    places: Arc<Vec<Places>>,
    items: VecDeque<(Order, usize, Item)>,
    matched: Vec<u64>,
}

impl Subscriber for Collector {
    fn packet(&mut self, order: Order, question: usize, packet: &PacketMeta, frame: &[u8], outs: &[u64]) {
        self.matched[question] += 1;
        let shape = self.shapes[question];
        if shape.count_only {
            return;
        }
        let item = Item::Packet {
            meta: *packet,
            frame: if shape.frames { frame.to_vec() } else { vec![] },
            path: line::path(outs),
            line: if shape.lines { line::show(&self.stack, &self.outs, outs) } else { String::new() },
        };
        self.items.push_back((order, question, item));
    }

    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, _reason: EndReason) {
        self.matched[question] += 1;
        if !self.shapes[question].count_only {
            self.items.push_back((
                order,
                question,
                Item::Connection(Box::new(Connection::read(flow, &self.places[flow.table.index()]))),
            ));
        }
    }

    fn session(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        _: usize,
        session: &dyn Session,
    ) {
        self.matched[question] += 1;
        if self.shapes[question].count_only {
            return;
        }
        if let Some(handshake) = session.as_any().downcast_ref::<TlsHandshake>() {
            self.items.push_back((order, question, Item::Session(tls::values(flow, handshake))));
        }
    }

    fn stream(
        &mut self,
        _: Order,
        question: usize,
        _: &FlowView<'_>,
        _: Direction,
        gap_bytes: u64,
        bytes: &[u8],
    ) {
        self.matched[question] += bytes.len() as u64 + gap_bytes;
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
    let collector = || Collector {
        shapes: Arc::new(shapes.to_vec()),
        stack: Arc::new(compiled.stack.clone()),
        outs: Arc::new(compiled.outs().to_vec()),
        places: Arc::clone(&places),
        items: VecDeque::new(),
        matched: vec![0; shapes.len()],
    };
    // Packets that wait for their connection come out in the order of the capture: they wait in one queue.
    let plan = &compiled.plan;
    let waits = plan.packet_bits() & !plan.plain_bits() != 0;
    let dispatcher = if workers > 1 && !waits { Dispatcher::new(compiler).ok() } else { None };
    match dispatcher {
        Some(dispatcher) => run_many(compiled, source, dispatcher, workers, &collector, each, progress),
        None => run_one(compiled, source, collector(), each, progress),
    }
}

fn run_one<E>(
    compiled: &Compiled,
    source: &mut dyn Source,
    collector: Collector,
    each: &mut dyn FnMut(usize, Item) -> Result<(), E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let mut worker = Worker::new(Arc::clone(&compiled.plan), collector);
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    let mut burst = Burst::default();
    let mut number = 0;
    loop {
        match read(source, &mut burst, &mut outcome.stages) {
            Ok(true) => {
                if let Some(first) = burst.packets.first() {
                    worker.pass_time(number, first.time.0);
                }
                worker.take(&burst, number);
                number += 1;
            }
            Ok(false) => break,
            Err(error) => outcome.errors.push(error),
        }
        put_out(&mut worker.subscriber().items, &mut outcome.stages, each)?;
        if number % 4096 == 0 {
            progress(source);
        }
    }
    let mut more = true;
    while more {
        more = worker.finish(number);
        put_out(&mut worker.subscriber().items, &mut outcome.stages, each)?;
    }
    gather(&mut outcome, worker);
    Ok(outcome)
}

fn read(source: &mut dyn Source, burst: &mut Burst, stages: &mut Stages) -> Result<bool, SourceError> {
    let began = stages.begin();
    let read = source.next_burst(burst);
    stages.end(Stage::Read, burst.packets.len(), began);
    read
}

/// Hands out what a worker yielded, which is in order.
fn put_out<E>(
    items: &mut Yield,
    stages: &mut Stages,
    each: &mut dyn FnMut(usize, Item) -> Result<(), E>,
) -> Result<(), E> {
    let (began, count) = (stages.begin(), items.len());
    for (_, question, item) in items.drain(..) {
        each(question, item)?;
    }
    stages.end(Stage::Output, count, began);
    Ok(())
}

fn gather(outcome: &mut Outcome, worker: Worker<Collector>) {
    let (live, bytes) = worker.size();
    let counters = worker.counters();
    debug_assert_eq!(counters.adds_up(live), Ok(()));
    outcome.counters.merge(&counters);
    outcome.stages.merge(worker.stages());
    outcome.table_bytes += bytes;
    let matched = worker.into_subscriber().matched;
    outcome.matched.resize(matched.len(), 0);
    outcome.matched.iter_mut().zip(matched).for_each(|(sum, n)| *sum += n);
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
type Yield = VecDeque<(Order, usize, Item)>;

fn run_many<E>(
    compiled: &Compiled,
    source: &mut dyn Source,
    mut dispatcher: Dispatcher,
    workers: usize,
    collector: &dyn Fn() -> Collector,
    each: &mut dyn FnMut(usize, Item) -> Result<(), E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    std::thread::scope(|scope| {
        let mut inputs: Vec<SyncSender<Batch>> = vec![];
        let mut outputs: Vec<Receiver<Yield>> = vec![];
        let mut threads = vec![];
        for _ in 0..workers {
            let (to_worker, from_dispatcher) = sync_channel::<Batch>(BATCHES_MAX);
            let (to_merger, from_worker) = sync_channel::<Yield>(BATCHES_MAX * 2);
            let worker = Worker::new(Arc::clone(&compiled.plan), collector());
            threads.push(scope.spawn(move || work(worker, &from_dispatcher, &to_merger)));
            inputs.push(to_worker);
            outputs.push(from_worker);
        }
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
                        split(&mut dispatcher, burst, number, &mut shares);
                        outcome.stages.end(Stage::Dispatch, packets, began);
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
                merge(&outputs, &mut outcome.stages, each)?;
                merged += 1;
            }
            progress(source);
        }
        drop(inputs);
        while merged <= sent {
            merge(&outputs, &mut outcome.stages, each)?;
            merged += 1;
        }
        for thread in threads {
            match thread.join() {
                Ok(worker) => gather(&mut outcome, worker),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(outcome)
    })
}

/// Gives every worker its packets of a burst. All of them learn its time.
fn split(dispatcher: &mut Dispatcher, burst: Burst, number: u64, shares: &mut [Batch]) {
    let Some(time) = burst.packets.first().map(|p| p.time.0) else { return };
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
    yields: &SyncSender<Yield>,
) -> Worker<Collector> {
    let mut last = 0;
    for batch in batches {
        for (number, time, burst) in batch {
            worker.pass_time(number, time);
            worker.take(&burst, number);
            last = number + 1;
        }
        if yields.send(std::mem::take(&mut worker.subscriber().items)).is_err() {
            return worker;
        }
    }
    while worker.finish(last) {}
    let _ = yields.send(std::mem::take(&mut worker.subscriber().items));
    worker
}

/// Takes one batch's items of every worker and hands them out in order.
fn merge<E>(
    outputs: &[Receiver<Yield>],
    stages: &mut Stages,
    each: &mut dyn FnMut(usize, Item) -> Result<(), E>,
) -> Result<(), E> {
    let mut queues: Vec<Yield> = outputs.iter().map(|o| o.recv().unwrap_or_default()).collect();
    // Waiting for the slowest worker was no work.
    let (began, count) = (stages.begin(), queues.iter().map(VecDeque::len).sum());
    loop {
        let next = queues.iter().enumerate().filter_map(|(i, q)| q.front().map(|f| (f.0, i))).min();
        let Some((_, index)) = next else { break };
        if let Some((_, question, item)) = queues[index].pop_front() {
            each(question, item)?;
        }
    }
    stages.end(Stage::Output, count, began);
    Ok(())
}

const _: () = assert!(OUTS_MAX >= 1);

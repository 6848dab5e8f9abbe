//! Runs several workers: this thread reads bursts, computes each packet's keys with a small program (lowered
//! from the stack's `dispatch` clause), passes the packets to their workers, and takes the results. While
//! enough packets wait, this thread runs workers, as all other threads do (`WorkQueues`).

use super::balance::Balancer;
use super::skew::Skew;
use super::swap::swap_if_changed;
use super::units::PacketKeys;
use crate::ask::compile::{Ask, Compiled, Compiler, Options};
use crate::merge::ordered::Merger;
use crate::outcome::Outcome;
use crate::watch::{Glance, Poster, Posting};
use crate::worker::batch_worker::{Batch, CountedWorker};
use crate::worker::parts::{WorkerParts, gather, read};
use crate::worker::work_queues::{BATCHES_MAX, EndAll, WorkQueues};
use std::sync::Arc;
use std::time::Duration;
use weir_compile::{DISPATCH_SLOTS, Need};
use weir_engine::clock::Clock;
use weir_engine::plan::{Plan, Want};
use weir_engine::sharing::SharedTables;
use weir_engine::stage::{Stage, Stages};
use weir_engine::worker::Worker;
use weir_ir::abi::{Continuation, TIMEOUT_MS};
use weir_lang::model::Stack;
use weir_packet::{Burst, PacketMeta, Poll, Source, Timestamp};

/// Bursts per batch, so that threads rarely wake each other.
const BATCH_BURSTS: usize = 16;

/// The state of the source after a batch.
#[derive(PartialEq, Eq)]
enum Filled {
    More,
    /// No packet waits after those of the batch.
    Pause,
    /// No packet waits, and the batch is empty.
    Idle,
    /// The next packets wait until no others are in flight.
    Skewed,
    End,
}

/// Selects the worker of each packet: the same for both directions and all fragments of a datagram.
pub(crate) struct Dispatcher {
    plan: Arc<Plan>,
    k: Continuation,
    /// The keys of the packets of the current batch.
    keys: Vec<PacketKeys>,
    clock: Clock,
    /// Parts of bursts so far.
    number: u64,
    /// The time that the workers know.
    time: i64,
    balancer: Balancer,
    /// Of workers that share tables.
    skew: Option<Skew>,
}

impl Dispatcher {
    /// A dispatcher for workers that run `compiled`, which `compiler` compiled; else the reason why only one
    /// worker can run.
    pub(crate) fn new(compiler: &Compiler, compiled: &Compiled, workers: usize) -> Result<Self, String> {
        let plan = compile(compiler, compiled)?.plan;
        let memory_max = compiled.options.overload.memory_max;
        let balancer = Balancer::new(workers, longest_timeout_of(compiled), memory_max);
        Ok(Self {
            plan,
            k: Continuation::default(),
            keys: vec![],
            clock: Clock::default(),
            number: 0,
            time: i64::MIN,
            balancer,
            skew: Skew::of(&compiled.stack),
        })
    }

    /// Fills every worker's share of a batch while packets are available. Returns the state of the source.
    fn fill(&mut self, source: &mut dyn Source, shares: &mut [Batch], outcome: &mut Outcome) -> Filled {
        let mut bursts: Vec<Burst> = Vec::with_capacity(BATCH_BURSTS);
        self.keys.clear();
        self.balancer.begin_batch();
        let mut filled = Filled::More;
        for _ in 0..BATCH_BURSTS {
            let mut burst = Burst::default();
            let polled = match self.skew.as_mut().and_then(Skew::take_rest) {
                Some(rest) => {
                    burst = rest;
                    Ok(Poll::Packets)
                }
                None => read(source, &mut burst, &mut outcome.stages),
            };
            match polled {
                // Packets so far do not wait for later ones.
                Ok(Poll::Idle { now }) => {
                    self.split_all(&bursts, shares, outcome);
                    self.pass_idle_time(now, shares);
                    return if bursts.is_empty() { Filled::Idle } else { Filled::Pause };
                }
                Ok(Poll::Packets) => {
                    let began = outcome.stages.begin();
                    // Batches wait longer than the memory of a burst is valid.
                    let mut burst = burst.hold();
                    let is_skewed = self.skew.as_mut().is_some_and(|skew| skew.cut(&mut burst));
                    self.add_keys(&burst);
                    bursts.push(burst);
                    outcome.stages.end(Stage::Dispatch, 0, began);
                    if is_skewed {
                        filled = Filled::Skewed;
                        break;
                    }
                }
                Ok(Poll::End) => {
                    filled = Filled::End;
                    break;
                }
                Err(error) => outcome.errors.push(error),
            }
        }
        self.split_all(&bursts, shares, outcome);
        filled
    }

    /// Computes the keys of the packets of a burst.
    fn add_keys(&mut self, burst: &Burst) {
        for (index, packet) in burst.packets.iter().enumerate() {
            self.k.outs[..DISPATCH_SLOTS.len()].fill(0);
            self.plan.program.head(packet, burst.data(index), &mut self.k);
            let keys = PacketKeys::of(&self.k.outs);
            self.balancer.expect(&keys);
            self.keys.push(keys);
        }
    }

    /// Distributes the packets of a batch, whose keys are known.
    fn split_all(&mut self, bursts: &[Burst], shares: &mut [Batch], outcome: &mut Outcome) {
        let began = outcome.stages.begin();
        let keys = std::mem::take(&mut self.keys);
        let mut left = &keys[..];
        for burst in bursts {
            let (own, rest) = left.split_at(burst.packets.len());
            self.split(burst, own, shares);
            left = rest;
        }
        self.keys = keys;
        outcome.stages.end(Stage::Dispatch, self.keys.len(), began);
    }

    /// Distributes the packets of a burst: one part for each tick of the clock. All workers get the time of
    /// each part.
    fn split(&mut self, burst: &Burst, keys: &[PacketKeys], shares: &mut [Batch]) {
        let mut parts = empty_parts(burst, shares.len());
        for (index, (packet, &keys)) in burst.packets.iter().zip(keys).enumerate() {
            if self.clock.tick(packet.time.0) {
                self.send(std::mem::replace(&mut parts, empty_parts(burst, shares.len())), shares);
                self.time = self.clock.ticked();
                self.balancer.pass_time(self.time);
            }
            parts[self.worker_of(packet, keys)].extend_from(burst, index..index + 1);
        }
        self.send(parts, shares);
    }

    fn send(&mut self, parts: Vec<Burst>, shares: &mut [Batch]) {
        for (share, part) in shares.iter_mut().zip(parts) {
            share.push((self.number, self.time, part));
        }
        self.number += 1;
    }

    /// The source is idle at `now`: if this is a new time, all workers get it.
    fn pass_idle_time(&mut self, now: Timestamp, shares: &mut [Batch]) {
        if self.clock.idle(now.0) {
            self.time = self.clock.ticked();
            self.send(vec![Burst::default(); shares.len()], shares);
        }
    }

    fn worker_of(&mut self, packet: &PacketMeta, keys: PacketKeys) -> usize {
        let ahead_ns = packet.time.0.saturating_sub(self.clock.now());
        self.balancer.worker_of(keys, packet.wire_bytes, ahead_ns)
    }
}

/// A part without packets for every worker.
fn empty_parts(burst: &Burst, workers: usize) -> Vec<Burst> {
    // An even share, so that the usual part allocates once.
    let expected = burst.packets.len().div_ceil(workers);
    let part = || Burst {
        block: Arc::clone(&burst.block),
        packets: Vec::with_capacity(expected),
        ..Burst::default()
    };
    std::iter::repeat_with(part).take(workers).collect()
}

/// As [`longest_timeout`], of a compiled program.
pub(crate) fn longest_timeout_of(compiled: &Compiled) -> Option<Duration> {
    longest_timeout(&compiled.stack, compiled.options.limits.idle_timeout_ms)
}

/// The longest time-out of any flow; `None` if some flows have none.
pub(crate) fn longest_timeout(stack: &Stack, idle_timeout_ms: Option<u32>) -> Option<Duration> {
    let layers = stack.layers.iter().map(|layer| &layer.protocol);
    let declared = layers.flat_map(|protocol| {
        let own = protocol.transitions.iter().filter_map(|transition| transition.timeout);
        protocol.timeouts.iter().map(|timeout| timeout.after).chain(own)
    });
    let millis = |millis: u32| Duration::from_millis(u64::from(millis));
    let longest = declared.chain([millis(TIMEOUT_MS)]).max();
    match idle_timeout_ms {
        Some(0) => None,
        replaced => longest.max(replaced.map(millis)),
    }
}

/// Why only one worker can run a stack, if so.
pub(crate) fn one_worker(stack: &Stack) -> Option<String> {
    if stack.dispatch.is_empty() {
        let stack = &stack.name;
        return Some(format!("the stack `{stack}` has no `dispatch` clause that keeps connections together"));
    }
    let layer = weir_compile::dispatch::scattered(stack)?;
    let message = "the key of its instances does not contain both fields of the `dispatch` clause";
    Some(format!("packets of one instance of `{layer}` could reach different workers: {message}"))
}

/// The program that computes packets' keys, compiled with the options of the workers' program.
fn compile(compiler: &Compiler, compiled: &Compiled) -> Result<Compiled, String> {
    if let Some(reason) = one_worker(&compiled.stack) {
        return Err(reason);
    }
    let need = Need { dispatch: true, ..Need::default() };
    let ask = Ask { filter: String::new(), need, want: Want::Packets };
    let options = Options { timed: false, bpf: false, ..compiled.options.clone() };
    compiler.compile(&[ask], &options).map_err(|wrong| {
        let messages: Vec<&str> = wrong.list.iter().map(|one| one.message.as_str()).collect();
        format!("there is no program to spread packets: {}", messages.join("; "))
    })
}

/// Runs `compiled` with several workers; their results go to `merger`.
pub(crate) fn run_many(
    compiled: &Compiled,
    source: &mut dyn Source,
    mut dispatcher: Dispatcher,
    workers: usize,
    parts: &WorkerParts,
    merger: &mut Merger<'_>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Outcome {
    let mut outcome = Outcome { stages: Stages::new(compiled.plan.timed), ..Outcome::default() };
    let shared = SharedTables::of(&compiled.plan, workers);
    let new = |number| {
        let worker = Worker::new(Arc::clone(&compiled.plan), parts.collector());
        let posting = Posting::new(compiled.options.watch.as_ref(), Poster::Worker(number));
        CountedWorker::new(worker.with_shared(shared.as_ref(), number), posting)
    };
    let queues = WorkQueues::new((0..workers).map(new));
    std::thread::scope(|scope| {
        let queues = &queues;
        let processors = &compiled.options.processors;
        let work = |first| {
            let _end = EndAll(queues);
            let _bound = processors.bind(first);
            queues.work(first);
        };
        let _bound = processors.bind(0);
        // This thread is one of those that run workers.
        let threads: Vec<_> = (1..workers).map(|first| scope.spawn(move || work(first))).collect();
        let end = EndAll(queues);
        let (mut sent, mut merged) = (0, 0);
        let mut posting = Posting::new(compiled.options.watch.as_ref(), Poster::Reader);
        let mut filled = Filled::More;
        while filled != Filled::End {
            let mut shares: Vec<Batch> = vec![vec![]; workers];
            filled = dispatcher.fill(source, &mut shares, &mut outcome);
            if !queues.push(shares) {
                // Joining the threads reports the panic.
                break;
            }
            sent += 1;
            // Workers may lag behind while packets come. If none come, their rows do not wait for the next
            // batch.
            let is_behind = !matches!(filled, Filled::Idle | Filled::Skewed);
            let behind_max = if is_behind { BATCHES_MAX } else { 0 };
            while sent - merged > behind_max {
                merger.take_batch(queues.take_batch());
                merged += 1;
            }
            if matches!(filled, Filled::Pause | Filled::Idle) {
                merger.pause();
            }
            if merger.is_over() {
                break;
            }
            swap_if_changed(merger, &mut outcome, |compiled, parts, merger| {
                // All batches of the previous program are processed before the program changes.
                while merged < sent {
                    merger.take_batch(queues.take_batch());
                    merged += 1;
                }
                source.narrow(compiled.kernel_filters().as_ref());
                let mut last = vec![];
                queues.for_each(|worker| {
                    parts.end_pipelines(worker.subscriber());
                    last.push(std::mem::take(&mut worker.subscriber().yielded));
                });
                merger.take_batch(last);
                merger.change(&compiled.plan, &parts.presenter);
                queues.for_each(|worker| {
                    parts.change(worker.subscriber());
                    worker.change(Arc::clone(&compiled.plan));
                });
            });
            progress(source);
            posting.post(|| Glance { source: source.stats(), ..Glance::default() });
        }
        queues.complete();
        for _ in merged..sent {
            merger.take_batch(queues.take_batch());
        }
        merger.take_rest(workers, |worker| queues.take(worker));
        drop(end);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    queues.into_workers().for_each(|worker| gather(&mut outcome, worker.into_inner()));
    outcome.counters.clock.merge(dispatcher.clock.counters());
    outcome.counters.dispatch.merge(&dispatcher.balancer.counters);
    outcome.shares = dispatcher.balancer.packets;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::program::Executor;

    #[test]
    fn packets_are_spread_by_the_engine_that_was_asked_for() {
        let compiler = Compiler::default();
        let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Connections };
        for (engine, is_native) in [(Executor::Native, true), (Executor::Interpreter, false)] {
            let options = Options { engine, ..Options::default() };
            let asked = compiler.compile(std::slice::from_ref(&ask), &options).expect("it is right");
            let spreads = compile(&compiler, &asked).expect("the stack has keys");
            assert_eq!(spreads.native.is_some(), is_native, "{engine:?}");
        }
    }

    #[test]
    fn it_is_said_why_one_worker_has_to_do() {
        let mut compiler = Compiler::default();
        compiler.add("bare.weir", "stack bare { start ETHERNET: eth }").expect("it is right");
        let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Packets };
        let asked = compiler.compile(&[ask], &Options::default()).expect("it is right");
        let why = Dispatcher::new(&compiler, &asked, 2).err().expect("no keys");
        assert!(why.contains("`bare`") && why.contains("`dispatch`"), "{why}");
    }
}

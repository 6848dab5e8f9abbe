//! Runs a compiled program over a source, on one worker or several (`spread`). What workers yield
//! (`collect`) is brought into one order (`merge`), the same whatever their number.

use crate::compile::{Compiled, Compiler};
use crate::item::{Item, Shape};
use crate::ordered_merge::Merger;
use crate::outcome::{Changes, Outcome};
use crate::worker_parts::{WorkerParts, gather, read};
use crate::workers::{Dispatcher, run_many};
use std::sync::Arc;
use std::time::Instant;
use weir_engine::clock::Clock;
use weir_engine::stage::Stages;
use weir_engine::worker::Worker;
use weir_packet::{Burst, Poll, Source};

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

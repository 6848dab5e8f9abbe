//! Runs a compiled program over a source, on one worker or several (`workers`; `split_run` where each has a source of its
//! own). What workers yield (`worker_output`) is brought into one order (`ordered_merge`), the same whatever their number;
//! or merged by time (`timed_merge`) where they have sources of their own.

use crate::compile::{Compiled, Compiler};
use crate::item::{Item, Shape};
use crate::ordered_merge::Merger;
use crate::ordering::Ordering;
use crate::outcome::{Changes, Outcome};
use crate::split_run::run_split;
use crate::worker_loop::WorkerLoop;
use crate::worker_parts::WorkerParts;
use crate::workers::{Dispatcher, run_many};
use std::sync::Arc;
use std::time::Instant;
use weir_packet::{Poll, Source};

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
    run_changing(compiler, compiled.clone(), source, shapes, workers, &mut Fixed(each), progress)
}

/// As [`run`]; what is asked may change in between.
pub(crate) fn run_changing<E>(
    compiler: &Compiler,
    compiled: Compiled,
    source: &mut dyn Source,
    shapes: &[Shape],
    workers: usize,
    changes: &mut dyn Changes<E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let parts = WorkerParts::of(&compiled, shapes);
    let mut merger = Merger::new(Arc::clone(&compiled.plan), Arc::clone(&parts.presenter), changes);
    let dispatcher = (workers > 1).then(|| Dispatcher::new(compiler, &compiled, workers)).transpose();
    let one_worker = dispatcher.as_ref().err().cloned();
    let mut outcome = match (dispatcher, compiled.options.ordering) {
        (Ok(Some(dispatcher)), Ordering::ByWorker { delay }) => match source.split(workers) {
            Ok(Some(sources)) => run_split(&compiled, sources, delay, &parts, &mut merger)?,
            Ok(None) => run_many(&compiled, source, dispatcher, workers, &parts, &mut merger, progress)?,
            Err(error) => Outcome { errors: vec![error], ..Outcome::default() },
        },
        (Ok(Some(dispatcher)), Ordering::Total) => {
            run_many(&compiled, source, dispatcher, workers, &parts, &mut merger, progress)?
        }
        _ => run_one(&compiled, source, &parts, &mut merger, progress)?,
    };
    outcome.one_worker = one_worker;
    outcome.source.add(source.stats());
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
    let mut work = WorkerLoop::new(compiled, parts);
    let mut outcome = Outcome::default();
    loop {
        let polled = work.step(source);
        merger.take_all(0, &mut work.worker.subscriber().yielded)?;
        match polled {
            Ok(Poll::Packets) => {}
            // Rows do not wait for packets, and questions may change while none come.
            Ok(Poll::Idle { .. }) => merger.pause()?,
            Ok(Poll::End) => break,
            Err(error) => outcome.errors.push(error),
        }
        if let Some((compiled, shapes)) = merger.changed() {
            let began = Instant::now();
            let parts = WorkerParts::of(&compiled, &shapes);
            merger.change(&compiled.plan, &parts.presenter)?;
            work.change(&compiled.plan, &parts);
            outcome.swaps = (outcome.swaps.0 + 1, outcome.swaps.1.max(began.elapsed()));
        }
        if work.number.is_multiple_of(4096) {
            progress(source);
        }
    }
    let mut more = true;
    while more {
        more = work.worker.finish(work.number);
        merger.take_all(0, &mut work.worker.subscriber().yielded)?;
    }
    work.gather(&mut outcome);
    Ok(outcome)
}

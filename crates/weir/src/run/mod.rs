//! Runs a compiled program over a source, on one worker or several (`workers`; `split` if each worker has its
//! own source). The results of workers (`worker/output.rs`) are brought into one order (`merge/ordered.rs`)
//! that does not depend on their number, or merged by time (`merge/timed.rs`) if workers have their own
//! sources. Packets that belong together go to one worker: `units` says which those are, `balance` to which
//! worker they go.

mod balance;
#[cfg(test)]
mod clock_step_tests;
mod skew;
mod split;
#[cfg(test)]
mod split_tests;
mod swap;
pub(crate) mod units;
pub(crate) mod workers;

use crate::ask::compile::{Compiled, Compiler};
use crate::ask::ordering::Ordering;
use crate::merge::changes::Changes;
use crate::merge::joined_rows::JoinedRows;
use crate::merge::ordered::Merger;
use crate::outcome::Outcome;
use crate::rows::shape::Shape;
use crate::watch::Watch;
use crate::worker::parts::WorkerParts;
use crate::worker::worker_loop::WorkerLoop;
use split::run_split;
use std::sync::Arc;
use swap::swap_if_changed;
use weir_packet::{Poll, Source};
use workers::{Dispatcher, longest_timeout_of, one_worker, run_many};

/// Whether each worker may read a part of the source by itself. Workers that share tables must not be far
/// apart in time, so one thread reads for them.
fn is_separable(compiled: &Compiled) -> bool {
    let tables = &compiled.plan.program.graph().tables;
    one_worker(&compiled.stack).is_none() && !tables.iter().any(|table| table.scattered)
}

/// Runs `compiled` over `source` with `workers` workers; `changes` receives every item in order, and may
/// change the questions during the run. Errors of the source are in the outcome.
pub(crate) fn run_changing(
    compiler: &Compiler,
    compiled: Compiled,
    source: &mut dyn Source,
    shapes: &[Shape],
    workers: usize,
    changes: &mut dyn Changes,
    progress: &mut dyn FnMut(&dyn Source),
) -> Outcome {
    source.narrow(compiled.kernel_filters().as_ref());
    let mut joined = JoinedRows::new(&compiled, shapes, changes);
    let parts = WorkerParts::of(&compiled, &joined.shapes());
    let watch = compiled.options.watch.clone();
    watch.iter().for_each(Watch::begin);
    let presenter = Arc::clone(&parts.presenter);
    let mut merger = Merger::new(Arc::clone(&compiled.plan), presenter, &mut joined, watch.as_ref());
    let split = match compiled.options.ordering {
        Ordering::ByWorker { delay } if workers > 1 && is_separable(&compiled) => source
            .split(workers, longest_timeout_of(&compiled))
            .map(|sources| sources.map(|sources| (sources, delay))),
        Ordering::ByWorker { .. } | Ordering::Total => Ok(None),
    };
    let mut outcome = match split {
        Ok(Some((sources, delay))) => run_split(&compiled, sources, delay, &parts, &mut merger),
        Ok(None) if workers > 1 => match Dispatcher::new(compiler, &compiled, workers) {
            Ok(dispatcher) => run_many(&compiled, source, dispatcher, workers, &parts, &mut merger, progress),
            Err(reason) => Outcome {
                one_worker: Some(reason),
                ..run_one(&compiled, source, &parts, &mut merger, progress)
            },
        },
        Ok(None) => run_one(&compiled, source, &parts, &mut merger, progress),
        Err(error) => Outcome { errors: vec![error], ..Outcome::default() },
    };
    outcome.source.add(source.stats());
    merger.finish(&mut outcome);
    joined.finish(&mut outcome);
    debug_assert_eq!(outcome.counters.adds_up(0), Ok(()));
    watch.iter().for_each(|watch| watch.complete(outcome.counters, outcome.source));
    outcome
}

fn run_one(
    compiled: &Compiled,
    source: &mut dyn Source,
    parts: &WorkerParts,
    merger: &mut Merger<'_>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Outcome {
    let _bound = compiled.options.processors.bind(0);
    let mut work = WorkerLoop::new(compiled, parts, 0);
    let mut outcome = Outcome::default();
    loop {
        let polled = work.step(source, |yields| merger.take_all(0, yields));
        merger.take_all(0, &mut work.worker.subscriber().yielded);
        match polled {
            Ok(Poll::Packets) => {}
            // Rows do not wait for packets, and questions may change while no packets come.
            Ok(Poll::Idle { .. }) => merger.pause(),
            Ok(Poll::End) => break,
            Err(error) => outcome.errors.push(error),
        }
        if merger.is_over() {
            break;
        }
        swap_if_changed(merger, &mut outcome, |compiled, parts, merger| {
            source.narrow(compiled.kernel_filters().as_ref());
            parts.end_pipelines(work.worker.subscriber());
            merger.take_all(0, &mut work.worker.subscriber().yielded);
            merger.change(&compiled.plan, &parts.presenter);
            work.change(&compiled.plan, &parts);
        });
        if work.number.is_multiple_of(4096) {
            progress(source);
        }
    }
    let mut more = true;
    while more {
        more = work.worker.finish(work.number);
        merger.take_all(0, &mut work.worker.subscriber().yielded);
    }
    work.gather(&mut outcome);
    outcome
}

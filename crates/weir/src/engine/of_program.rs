//! Runs a compiled program with an engine that has one subscription for each of its questions.

use super::Engine;
use super::callback::{Next, TakeItems};
use super::entry::Entry;
use crate::ask::compile::{Compiled, Compiler};
use crate::ask::question::Question;
use crate::items::item::Item;
use crate::outcome::Outcome;
use crate::rows::shape::Shape;
use std::cell::RefCell;
use weir_packet::Source;

/// Passes the items of all questions to `each`, until a call fails.
struct Taker<'e, E> {
    each: &'e mut dyn FnMut(usize, Item<'_>) -> Result<(), E>,
    failure: Option<E>,
}

/// The taker for the question with this number.
struct Share<'t, 'e, E> {
    taker: &'t RefCell<Taker<'e, E>>,
    question: usize,
}

impl<E> TakeItems for Share<'_, '_, E> {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let taker = &mut *self.taker.borrow_mut();
        if taker.failure.is_none() {
            taker.failure = (taker.each)(self.question, item).err();
        }
        if taker.failure.is_some() { Next::EndRun } else { Next::Go }
    }
}

/// Runs `compiled` over `source` with `workers` workers: `each` receives every item in order, with the number
/// of its question. `shapes`: one per question; the default shape for missing ones.
///
/// # Errors
/// The error that `each` returns; it is not called afterwards. Errors of the source are in the outcome.
pub fn run<E>(
    compiler: &Compiler,
    compiled: &Compiled,
    source: &mut dyn Source,
    shapes: &[Shape],
    workers: usize,
    each: &mut dyn FnMut(usize, Item<'_>) -> Result<(), E>,
    progress: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, E> {
    let taker = RefCell::new(Taker { each, failure: None });
    let mut engine = Engine::with(compiler.clone(), compiled.options.clone());
    for (number, ask) in compiled.asks.iter().enumerate() {
        let shape = shapes.get(number).copied().unwrap_or_default();
        let question = Question::new(ask.clone(), shape);
        engine.append(Entry::of_items(vec![question], Box::new(Share { taker: &taker, question: number })));
    }
    let outcome = engine.run_compiled(compiled.clone(), source, workers, progress);
    drop(engine);
    taker.into_inner().failure.map_or(Ok(outcome), Err)
}

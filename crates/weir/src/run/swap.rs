//! Puts another program in the place of the one that runs, between two bursts: the questions have changed.

use crate::ask::compile::Compiled;
use crate::merge::ordered::Merger;
use crate::outcome::Outcome;
use crate::worker::parts::WorkerParts;
use std::time::Instant;

/// If the questions have changed: `change` lets the workers hand over what they have for the questions so
/// far, tells the merger, and gives the workers the new program. Counts the change, and its time. Returns
/// whether there was one.
pub(super) fn swap_if_changed<'m>(
    merger: &mut Merger<'m>,
    outcome: &mut Outcome,
    change: impl FnOnce(&Compiled, WorkerParts, &mut Merger<'m>),
) -> bool {
    let Some((compiled, shapes)) = merger.changed() else { return false };
    let began = Instant::now();
    change(&compiled, WorkerParts::of(&compiled, &shapes), merger);
    let (count, longest) = outcome.swaps;
    outcome.swaps = (count + 1, longest.max(began.elapsed()));
    true
}

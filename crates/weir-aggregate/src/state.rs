//! Records change the state of their group, and states of the same group are merged.

use crate::budget::block_bytes;
use crate::cells::{Cell, CellKind};
use crate::context::Context;
use crate::distinct::Distinct;
use crate::fraction_sum;
use crate::quantile::Sketch;
use crate::record::Record;
use crate::scalar::Kind;
use crate::side::{self, Sides};

/// Adds a record to the state of its group. `present` are the inputs that the record has.
#[inline]
pub(crate) fn add(
    cells: &[Cell],
    state: &mut [u64],
    record: &Record<'_>,
    present: u64,
    sides: &mut Sides,
    context: &mut Context,
) {
    for cell in cells {
        let state = &mut state[cell.at..][..cell.words];
        if cell.kind == CellKind::Records {
            state[0] += 1;
            continue;
        }
        if present >> cell.input & 1 == 0 {
            continue;
        }
        let words = &record.inputs[cell.from..cell.to];
        match &cell.kind {
            CellKind::Records => {}
            CellKind::Present => state[0] += 1,
            CellKind::Sum => {
                let is_negative = cell.input_kind == Kind::Time && words[0] >> 63 == 1;
                add_sum(state, u128::from(words[0]) | if is_negative { u128::MAX << 64 } else { 0 });
            }
            CellKind::FractionSum => fraction_sum::add(state, f64::from_bits(words[0])),
            CellKind::Min => state[0] = state[0].min(cell.input_kind.ordered(words[0])),
            CellKind::Max => state[0] = state[0].max(cell.input_kind.ordered(words[0])),
            CellKind::First | CellKind::Last => {
                let time = Kind::Time.ordered(record.time_ns.cast_unsigned());
                let is_known = state[0] == 1;
                let order = (&[time, record.order][..], words).cmp(&(&state[1..3], &state[3..]));
                if !is_known || order.is_lt() == (cell.kind == CellKind::First) {
                    state[..3].copy_from_slice(&[1, time, record.order]);
                    state[3..].copy_from_slice(words);
                }
            }
            _ => add_large(cell, &mut state[0], words, sides, context),
        }
    }
}

fn add_large(cell: &Cell, link: &mut u64, words: &[u64], sides: &mut Sides, context: &mut Context) {
    let is_complete = match &cell.kind {
        CellKind::Sketch => side::state(link, &mut sides.sketches, context, |_| Some(Sketch::default()))
            .is_some_and(|sketch| sketch.insert(cell.input_kind, words[0], &mut context.budget)),
        CellKind::Distinct => side::state(link, &mut sides.sets, context, |_| Some(Distinct::default()))
            .is_some_and(|set| set.insert(words, context)),
        CellKind::Histogram(buckets) => {
            let new = |context: &mut Context| new_counts(buckets.len(), context);
            let counts = side::state(link, &mut sides.histograms, context, new);
            counts.map(|counts| counts[buckets.bucket(cell.input_kind, words[0])] += 1).is_some()
        }
        _ => true,
    };
    if !is_complete {
        side::cut(link, context);
    }
}

fn new_counts(len: usize, context: &mut Context) -> Option<Box<[u64]>> {
    context.budget.take(block_bytes::<u64>(len)).then(|| vec![0; len].into())
}

fn add_sum(state: &mut [u64], value: u128) {
    let sum = sum(state).wrapping_add(value);
    state.copy_from_slice(&[sum as u64, (sum >> 64) as u64]);
}

/// The sum of a [cell](CellKind::Sum).
pub(crate) fn sum(state: &[u64]) -> u128 {
    u128::from(state[0]) | u128::from(state[1]) << 64
}

/// Adds the state `from` of the same group of another pane. The result does not depend on the order of
/// states, unless memory is short.
pub(crate) fn merge(
    cells: &[Cell],
    state: &mut [u64],
    from: &[u64],
    sides: &mut Sides,
    from_sides: &Sides,
    context: &mut Context,
) {
    for cell in cells {
        let state = &mut state[cell.at..][..cell.words];
        let from = &from[cell.at..][..cell.words];
        match &cell.kind {
            CellKind::Records | CellKind::Present => state[0] += from[0],
            CellKind::Sum => add_sum(state, sum(from)),
            CellKind::FractionSum => fraction_sum::merge(state, from),
            CellKind::Min => state[0] = state[0].min(from[0]),
            CellKind::Max => state[0] = state[0].max(from[0]),
            CellKind::First | CellKind::Last => {
                let is_before = from[1..] < state[1..];
                if from[0] == 1 && (state[0] == 0 || is_before == (cell.kind == CellKind::First)) {
                    state.copy_from_slice(from);
                }
            }
            _ => merge_large(cell, &mut state[0], from[0], sides, from_sides, context),
        }
    }
}

fn merge_large(
    cell: &Cell,
    link: &mut u64,
    from: u64,
    sides: &mut Sides,
    from_sides: &Sides,
    context: &mut Context,
) {
    let number = side::number(from);
    let is_complete = number.is_none_or(|number| match &cell.kind {
        CellKind::Sketch => side::state(link, &mut sides.sketches, context, |_| Some(Sketch::default()))
            .is_some_and(|sketch| sketch.merge(&from_sides.sketches[number], &mut context.budget)),
        CellKind::Distinct => {
            let other = &from_sides.sets[number];
            side::state(link, &mut sides.sets, context, |_| Some(Distinct::default()))
                .is_some_and(|set| set.merge(other, cell.to - cell.from, context))
        }
        CellKind::Histogram(buckets) => {
            let new = |context: &mut Context| new_counts(buckets.len(), context);
            let counts = side::state(link, &mut sides.histograms, context, new);
            let other = &from_sides.histograms[number];
            let add = |counts: &mut Box<[u64]>| counts.iter_mut().zip(other).for_each(|(a, b)| *a += b);
            counts.map(add).is_some()
        }
        _ => true,
    });
    if !is_complete || side::is_cut(from) {
        side::cut(link, context);
    }
}

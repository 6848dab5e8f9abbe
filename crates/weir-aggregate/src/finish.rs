//! The results of a window.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cells::CellKind;
use crate::fraction_sum;
use crate::histogram::Bucket;
use crate::measure::Function;
use crate::pane::{Pane, records};
use crate::plan::Plan;
use crate::scalar::{Kind, Scalar};
use crate::side;
use crate::state;
use crate::table::OTHER;
use crate::windows::Windows;

/// A closed window with records.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Its start, in nanoseconds since 1970. Without windows, the time of the earliest record.
    pub start_ns: i64,
    /// Its end, which is no part of it. Without windows, the time of the latest record, which is a part of
    /// it.
    pub end_ns: i64,
    /// Groups: those of the top, the largest result first, or all, sorted by key. The group `other` comes
    /// last; neither `having` nor `top` leaves it out. Windows of the same panes share them.
    pub rows: Arc<[Row]>,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The words of its key; 0 for `other`.
    pub key: Box<[u64]>,
    /// The bits of the present parts of the key.
    pub key_present: u64,
    /// Whether the row stands for all groups that had no room.
    pub is_other: bool,
    /// The result of each measure.
    pub values: Vec<Measured>,
}

/// A result, and how exact it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The result.
    pub value: Value,
    /// How exact it is.
    pub mark: Mark,
}

impl Measured {
    /// Whether the result is exact.
    pub fn is_exact(&self) -> bool {
        self.mark == Mark::Exact
    }
}

/// How exact a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Exact; fractions are rounded to the nearest `f64`, or to one next to it.
    Exact,
    /// An estimate: of `distinct` with a standard deviation of 1.6 %, of `quantile` within
    /// [`QUANTILE_RELATIVE_ERROR`](crate::QUANTILE_RELATIVE_ERROR).
    Estimated,
    /// The sum is larger than the result can show, or an input was.
    Saturated,
    /// Memory was short: values are missing, so `distinct` and the counts of a histogram are lower bounds.
    Cut,
}

/// The result of a measure.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The group has no value.
    Absent,
    /// A number, fraction, time or interval.
    Scalar(Scalar),
    /// The words of an address or text.
    Identity(Box<[u64]>),
    /// The buckets of a histogram.
    Histogram(Vec<Bucket>),
}

impl Value {
    fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(*scalar),
            Self::Absent | Self::Identity(_) | Self::Histogram(_) => None,
        }
    }
}

/// The result of the window with the last pane `last`.
pub(crate) fn window(plan: &Plan, pane: &Pane, last: i64) -> Window {
    let windows = plan.params().windows;
    let (start_ns, end_ns) = if windows == Windows::None { pane.times } else { windows.window(last) };
    // Saturated ends of the largest windows still count with their full length.
    let length_ns = match windows {
        Windows::None => end_ns.abs_diff(start_ns),
        Windows::Tumbling { length_ns } | Windows::Sliding { length_ns, .. } => length_ns,
    };
    let seconds = length_ns as f64 / 1e9;
    let result = |measure, row| measured(plan, pane, measure, row, seconds);

    let is_reported = |row: &usize| {
        let scalar = &mut |measure| result(measure, *row).value.scalar();
        plan.params().having.as_ref().is_none_or(|having| having.holds(scalar))
    };
    let mut reported: Vec<usize> = (1..pane.table.len()).filter(is_reported).collect();
    let key = |row: usize| (pane.table.key(row), pane.table.key_present(row));
    match plan.params().top {
        None => reported.sort_unstable_by(|a, b| key(*a).cmp(&key(*b))),
        Some(top) => {
            let by = |row| (result(top.by, row).value.scalar(), row);
            let mut sorted: Vec<_> = reported.into_iter().map(by).collect();
            let order = |(a, a_row): &(Option<Scalar>, usize), (b, b_row): &(Option<Scalar>, usize)| {
                descending(*a, *b).then_with(|| key(*a_row).cmp(&key(*b_row)))
            };
            if top.rows < sorted.len() {
                sorted.select_nth_unstable_by(top.rows, order);
                sorted.truncate(top.rows);
            }
            sorted.sort_unstable_by(order);
            reported = sorted.into_iter().map(|(_, row)| row).collect();
        }
    }
    if records(pane.table.state(OTHER)) > 0 {
        reported.push(OTHER);
    }
    let row = |row: usize| Row {
        key: pane.table.key(row).into(),
        key_present: pane.table.key_present(row),
        is_other: row == OTHER,
        values: (0..plan.params().measures.len()).map(|measure| result(measure, row)).collect(),
    };
    Window { start_ns, end_ns, rows: reported.into_iter().map(row).collect() }
}

/// Larger values come first, absent ones last.
fn descending(a: Option<Scalar>, b: Option<Scalar>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.order(a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// The result of a measure for a group.
fn measured(plan: &Plan, pane: &Pane, measure: usize, row: usize, seconds: f64) -> Measured {
    let cells = plan.cells();
    let (value, present) = cells.of_measures[measure];
    let (cell, present) = (&cells.cells[value], &cells.cells[present]);
    let group = pane.table.state(row);
    let count = group[present.at];
    let state = &group[cell.at..][..cell.words];
    let kind = cell.input_kind;
    let function = &plan.params().measures[measure].function;
    let exact = |value: Option<Scalar>| Measured {
        value: value.map_or(Value::Absent, Value::Scalar),
        mark: Mark::Exact,
    };
    match &cell.kind {
        CellKind::Records if *function == Function::Rate => exact(per_second(count as f64, seconds)),
        CellKind::Records | CellKind::Present => exact(Some(Scalar::Number(state[0]))),
        CellKind::Sum => match function {
            Function::Mean => exact(mean(state::sum(state), count, kind)),
            Function::Rate => {
                let unit = if kind == Kind::Interval { 1e9 } else { 1.0 };
                exact(per_second(state::sum(state) as f64 / unit, seconds))
            }
            _ => sum(state::sum(state), kind),
        },
        CellKind::FractionSum => {
            let (sum, is_limited) = fraction_sum::value(state);
            let value = match function {
                Function::Mean => (count > 0).then(|| Scalar::Fraction(sum / count as f64)),
                Function::Rate => per_second(sum, seconds),
                _ => Some(Scalar::Fraction(sum)),
            };
            let mark = if is_limited { Mark::Saturated } else { Mark::Exact };
            Measured { mark, ..exact(value) }
        }
        CellKind::Min | CellKind::Max => {
            exact((count > 0).then(|| kind.scalar(kind.restored(state[0]))).flatten())
        }
        CellKind::First | CellKind::Last if state[0] == 0 => exact(None),
        CellKind::First | CellKind::Last => {
            let value =
                kind.scalar(state[3]).map_or_else(|| Value::Identity(state[3..].into()), Value::Scalar);
            Measured { value, mark: Mark::Exact }
        }
        CellKind::Sketch => {
            let sketch = side::number(state[0]).map(|number| &pane.sides.sketches[number]);
            let Function::Quantile(q) = function else { return exact(None) };
            let quantile = sketch.and_then(|sketch| sketch.quantile(kind, *q));
            let is_exact = quantile.is_none_or(|(_, is_exact)| is_exact);
            marked(exact(quantile.map(|(value, _)| value)), is_exact, state[0])
        }
        CellKind::Distinct => {
            let set = side::number(state[0]).map(|number| &pane.sides.sets[number]);
            let (count, is_exact) = set.map_or((0, true), |set| set.count(cell.to - cell.from));
            marked(exact(Some(Scalar::Number(count))), is_exact, state[0])
        }
        CellKind::Histogram(buckets) => {
            let empty = vec![0; buckets.len()];
            let counts = side::number(state[0]).map_or(&empty[..], |n| &pane.sides.histograms[n]);
            let value = Value::Histogram(buckets.result(kind, counts));
            marked(Measured { value, mark: Mark::Exact }, true, state[0])
        }
    }
}

/// The result of a large state.
fn marked(result: Measured, is_exact: bool, link: u64) -> Measured {
    let mark = match (side::is_cut(link), is_exact) {
        (true, _) => Mark::Cut,
        (false, true) => Mark::Exact,
        (false, false) => Mark::Estimated,
    };
    Measured { mark, ..result }
}

fn sum(sum: u128, kind: Kind) -> Measured {
    let (word, mark) = u64::try_from(sum).map_or((u64::MAX, Mark::Saturated), |word| (word, Mark::Exact));
    Measured { value: kind.scalar(word).map_or(Value::Absent, Value::Scalar), mark }
}

/// The mean of `count` values; absent without values.
fn mean(sum: u128, count: u64, kind: Kind) -> Option<Scalar> {
    let number = u128::from(count);
    let scalar = match kind {
        // The mean of 64-bit values fits into 64 bits.
        Kind::Time => Scalar::Time(sum.cast_signed().checked_div_euclid(number.cast_signed())? as i64),
        Kind::Interval => Scalar::Interval(sum.checked_div(number)? as u64),
        _ => Scalar::Fraction((count > 0).then(|| sum as f64 / count as f64)?),
    };
    Some(scalar)
}

fn per_second(count: f64, seconds: f64) -> Option<Scalar> {
    (seconds > 0.0).then(|| Scalar::Fraction(count / seconds))
}

//! The state of a group: cells, each of which follows one property of one input.
//!
//! Measures share cells: `count()`, `rate()`; `sum(x)`, `mean(x)`, `rate(x)`; and all quantiles of an input
//! need one cell each. Small states are words of the group's row. Of large states (sketches, sets,
//! histograms), the row has a [link](crate::side).

use crate::fraction_sum;
use crate::histogram::Buckets;
use crate::measure::{Function, Input, Measure};
use crate::scalar::Kind;

/// What a cell follows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CellKind {
    /// The number of records.
    Records,
    /// The number of records with the input.
    Present,
    /// The sum of numbers, intervals or times, in 128 bits: two words, the lower one first.
    Sum,
    /// The sum of fractions.
    FractionSum,
    /// The smallest value, as a [word with its order](Kind::ordered).
    Min,
    /// The largest value, likewise.
    Max,
    /// 1 if there is a value; time and order of its record; the value.
    First,
    /// The same.
    Last,
    /// A link to a sketch.
    Sketch,
    /// A link to a set.
    Distinct,
    /// A link to the counts of the buckets.
    Histogram(Buckets),
}

/// A part of the state of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub kind: CellKind,
    /// The number of the input, which [`CellKind::Records`] ignores.
    pub input: usize,
    /// The first word of the input, and the word after the last one.
    pub from: usize,
    pub to: usize,
    pub input_kind: Kind,
    /// The first word of the cell in the state of a group.
    pub at: usize,
    /// The number of the cell's words.
    pub words: usize,
}

/// The cells of a plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    /// The first cell is the number of records.
    pub cells: Vec<Cell>,
    /// For each measure, the cell that has its value, and the one that says how many values there were.
    pub of_measures: Vec<(usize, usize)>,
    /// The state of a group without records.
    pub empty: Vec<u64>,
}

impl Cells {
    /// The cells that `measures` need. The measures were checked.
    pub(crate) fn of(inputs: &[Input], measures: &[Measure]) -> Self {
        let mut cells = Self::default();
        let nothing = Input { first_word: 0, words: 0, kind: Kind::Number };
        let records = cells.add(CellKind::Records, 0, nothing);
        for measure in measures {
            let Some((number, input)) = measure.input.and_then(|n| Some((n, *inputs.get(n)?))) else {
                cells.of_measures.push((records, records));
                continue;
            };
            let sum = if input.kind == Kind::Fraction { CellKind::FractionSum } else { CellKind::Sum };
            let kind = match &measure.function {
                Function::Count => CellKind::Present,
                Function::Sum | Function::Rate | Function::Mean => sum,
                Function::Min => CellKind::Min,
                Function::Max => CellKind::Max,
                Function::First => CellKind::First,
                Function::Last => CellKind::Last,
                Function::Quantile(_) => CellKind::Sketch,
                Function::Distinct => CellKind::Distinct,
                Function::Histogram(buckets) => CellKind::Histogram(buckets.clone()),
            };
            let value = cells.add(kind, number, input);
            let needs_number = matches!(measure.function, Function::Mean | Function::Min | Function::Max);
            let present = if needs_number { cells.add(CellKind::Present, number, input) } else { value };
            cells.of_measures.push((value, present));
        }
        cells
    }

    /// The number of the cell, which is added unless another measure needed the same one.
    fn add(&mut self, kind: CellKind, number: usize, input: Input) -> usize {
        if let Some(known) = self.cells.iter().position(|cell| cell.kind == kind && cell.input == number) {
            return known;
        }
        let at = self.empty.len();
        let words = match kind {
            CellKind::Sum => 2,
            CellKind::FractionSum => fraction_sum::WORDS,
            CellKind::First | CellKind::Last => 3 + input.words,
            _ => 1,
        };
        let empty = if kind == CellKind::Min { u64::MAX } else { 0 };
        self.empty.resize(at + words, empty);
        let (from, to) = (input.first_word, input.first_word + input.words);
        self.cells.push(Cell { kind, input: number, from, to, input_kind: input.kind, at, words });
        self.cells.len() - 1
    }
}

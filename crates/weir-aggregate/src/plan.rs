//! What is aggregated, checked once.

use crate::cells::Cells;
use crate::error::PlanError;
use crate::having::{DEPTH_MAX, Having};
use crate::histogram::{Buckets, HISTOGRAM_BOUNDS_MAX};
use crate::measure::{Function, Input, Measure};
use crate::scalar::{Kind, Scalar};
use crate::seed::WORDS_MAX;
use crate::windows::Windows;

/// `top 20`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// Groups that a window reports, at least 1.
    pub rows: usize,
    /// The number of the measure by which groups are sorted, the largest result first.
    pub by: usize,
}

/// The bounds of an aggregator, and of a merger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Groups of a pane or window; further records belong to the group `other`. At most 2²⁸.
    pub groups_max: usize,
    /// Bytes of all states of an aggregator. The first seven groups of each open pane have room in any case.
    pub bytes_max: u64,
    /// Bytes of all states of a merger, which holds all panes of a sliding window. The first pane of each
    /// time has room in any case.
    pub merged_bytes_max: u64,
    /// Open panes. A record more than this many panes ahead of the first open one opens a pane further ahead.
    pub panes_max: usize,
    /// Open panes further ahead: records after a silence, before the capture time follows, and records with
    /// wrong times. A record that finds no room is dropped.
    pub panes_ahead_max: usize,
    /// Values that `distinct` counts exactly, from 1 to 32 768.
    pub distinct_exact_max: usize,
}

impl Limits {
    /// The usual limits, with at most this many bytes of memory: a half for the aggregator of each worker,
    /// the other half for the merger.
    pub fn within(bytes: u64) -> Self {
        let usual = Self::default();
        let half = bytes / 2;
        Self {
            bytes_max: usual.bytes_max.min(half),
            merged_bytes_max: usual.merged_bytes_max.min(half),
            ..usual
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups_max: 65_536,
            bytes_max: 256 << 20,
            merged_bytes_max: 256 << 20,
            panes_max: 64,
            panes_ahead_max: 64,
            distinct_exact_max: 1_024,
        }
    }
}

/// The parameters of a [`Plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlanParams {
    /// Words of a record's key, from 0 (a single group) to 32.
    pub key_words: usize,
    /// Inputs of the measures, at most 64.
    pub inputs: Vec<Input>,
    /// What is computed for each group, from 1 to 64.
    pub measures: Vec<Measure>,
    /// The windows.
    pub windows: Windows,
    /// A window closes this long after its end, by the capture time.
    pub lateness_ns: u64,
    /// Which groups are reported.
    pub having: Option<Having>,
    /// How many groups are reported; without a top, all of them, sorted by key.
    pub top: Option<Top>,
    /// Bounds.
    pub limits: Limits,
}

const NUMBERS_MAX: usize = 64;
const GROUPS_MAX: usize = 1 << 28;
const OPEN_PANES_MAX: usize = 1 << 16;
const EXACT_MAX: usize = 32_768;

/// A checked plan.
#[derive(Debug, Clone)]
pub struct Plan {
    params: PlanParams,
    cells: Cells,
    input_words: usize,
    /// The inputs that may be a NaN: their numbers and words.
    fractions: Vec<(usize, usize)>,
}

impl Plan {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// The first parameter that is wrong.
    pub fn new(params: PlanParams) -> Result<Self, PlanError> {
        if params.key_words > WORDS_MAX {
            return Err(PlanError::KeyWords { words: params.key_words });
        }
        check_inputs(&params.inputs)?;
        params.windows.check()?;
        check_limits(&params.limits)?;
        if params.measures.is_empty() || params.measures.len() > NUMBERS_MAX {
            return Err(PlanError::Measures { number: params.measures.len() });
        }
        for (number, measure) in params.measures.iter().enumerate() {
            check_measure(number, measure, &params.inputs)?;
        }
        if let Some(having) = &params.having {
            check_having(having, &params, 0)?;
        }
        if let Some(top) = params.top {
            if top.rows == 0 {
                return Err(PlanError::EmptyTop);
            }
            if result_kind(&params, top.by)?.is_none() {
                return Err(PlanError::Unordered { measure: top.by });
            }
        }
        let cells = Cells::of(&params.inputs, &params.measures);
        let input_words = params.inputs.iter().map(|input| input.first_word + input.words).max().unwrap_or(0);
        let inputs = params.inputs.iter().enumerate();
        let fractions = inputs
            .filter(|(_, input)| input.kind == Kind::Fraction)
            .map(|(number, input)| (number, input.first_word))
            .collect();
        Ok(Self { params, cells, input_words, fractions })
    }

    /// The parameters.
    pub fn params(&self) -> &PlanParams {
        &self.params
    }

    /// The least number of words of a record's inputs.
    pub fn input_words(&self) -> usize {
        self.input_words
    }

    pub(crate) fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The inputs that are present: a NaN is not.
    pub(crate) fn present(&self, inputs: &[u64], mut present: u64) -> u64 {
        for (number, word) in &self.fractions {
            let is_nan = f64::from_bits(inputs[*word]).is_nan();
            present &= !(u64::from(is_nan) << number);
        }
        present
    }
}

fn check_inputs(inputs: &[Input]) -> Result<(), PlanError> {
    if inputs.len() > NUMBERS_MAX {
        return Err(PlanError::Inputs { number: inputs.len() });
    }
    for (number, input) in inputs.iter().enumerate() {
        let words_max = if input.kind == Kind::Identity { WORDS_MAX } else { 1 };
        // The first word is bounded by the words of all inputs.
        if input.words == 0 || input.words > words_max || input.first_word >= NUMBERS_MAX * WORDS_MAX {
            return Err(PlanError::InputWords { input: number });
        }
    }
    Ok(())
}

fn check_limits(limits: &Limits) -> Result<(), PlanError> {
    let is_in_range = [
        ("groups", limits.groups_max, GROUPS_MAX),
        ("open panes", limits.panes_max, OPEN_PANES_MAX),
        ("exact values", limits.distinct_exact_max, EXACT_MAX),
        ("open panes further ahead", limits.panes_ahead_max.max(1), OPEN_PANES_MAX),
    ];
    match is_in_range.into_iter().find(|(_, value, max)| *value == 0 || value > max) {
        Some((what, _, max)) => Err(PlanError::Limit { what, max }),
        None => Ok(()),
    }
}

fn check_measure(number: usize, measure: &Measure, inputs: &[Input]) -> Result<(), PlanError> {
    let function = &measure.function;
    let Some(input) = measure.input else {
        let may_have_none = matches!(function, Function::Count | Function::Rate);
        let error = PlanError::NoInput { measure: number, function: function.name() };
        return if may_have_none { Ok(()) } else { Err(error) };
    };
    let input = inputs.get(input).ok_or(PlanError::UnknownInput { measure: number, input })?;
    if !function.takes(input.kind) {
        return Err(PlanError::Kind { measure: number, function: function.name(), kind: input.kind });
    }
    match function {
        Function::Quantile(q) if !(0.0..=1.0).contains(q) => {
            Err(PlanError::Quantile { measure: number, q: *q })
        }
        Function::Histogram(Buckets::From(bounds)) => {
            let is_valid = |bound: &Scalar| bound.kind() == input.kind && !is_nan(*bound);
            let ascend = bounds.is_sorted_by(|a, b| a.order(*b).is_lt());
            let fits = !bounds.is_empty() && bounds.len() <= HISTOGRAM_BOUNDS_MAX;
            let is_valid = fits && ascend && bounds.iter().all(is_valid);
            if is_valid { Ok(()) } else { Err(PlanError::Bounds { measure: number }) }
        }
        _ => Ok(()),
    }
}

fn check_having(having: &Having, params: &PlanParams, depth: usize) -> Result<(), PlanError> {
    if depth == DEPTH_MAX {
        return Err(PlanError::Depth);
    }
    match having {
        Having::Compare { measure, constant, .. } => {
            let expected =
                result_kind(params, *measure)?.ok_or(PlanError::Unordered { measure: *measure })?;
            if constant.kind() != expected || is_nan(*constant) {
                return Err(PlanError::Constant { measure: *measure, expected });
            }
            Ok(())
        }
        Having::And(parts) | Having::Or(parts) => {
            parts.iter().try_for_each(|part| check_having(part, params, depth + 1))
        }
        Having::Not(part) => check_having(part, params, depth + 1),
    }
}

/// The kind of a measure's result, if results have an order.
fn result_kind(params: &PlanParams, measure: usize) -> Result<Option<Kind>, PlanError> {
    let found = params.measures.get(measure).ok_or(PlanError::UnknownMeasure { measure })?;
    let input = found.input.and_then(|input| params.inputs.get(input));
    Ok(found.function.result_kind(input.map(|input| input.kind)))
}

fn is_nan(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Fraction(value) if value.is_nan())
}

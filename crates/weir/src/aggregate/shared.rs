//! What workers and receivers of an aggregate share.

use crate::ask::key_ends::KeyEnds;
use crate::flow::record::ColumnMask;
use crate::rows::values::{Part, Source};
use std::sync::Arc;
use weir_aggregate::{Buckets, Function, Plan, Seed};
use weir_lang::aggregate as text;
use weir_packet::{Column, ValueType};

/// An aggregate of packets, or of rows with these columns.
#[derive(Debug, Clone)]
pub struct Aggregation {
    pub(crate) plan: Arc<Plan>,
    pub(crate) seed: Seed,
    /// The parts of the key.
    pub(crate) keys: Vec<Part>,
    /// The ends of a connection in the key, if both directions are one group.
    pub(crate) ends: Option<KeyEnds>,
    /// The inputs of the measures.
    pub(crate) inputs: Vec<Part>,
    /// The measures with columns.
    pub(crate) shown: Vec<ShownMeasure>,
    pub(crate) window: Option<text::Window>,
    /// The columns of rows with their times.
    pub(crate) times: Vec<usize>,
    pub(crate) columns: Vec<Column>,
    /// Bytes of memory for groups, and for texts of rows.
    pub(crate) memory_max: usize,
}

/// A measure with a column.
#[derive(Debug, Clone)]
pub(crate) struct ShownMeasure {
    pub index: usize,
    pub name: String,
    /// The type of its input, of which the result may be a value.
    pub input: Option<ValueType>,
    /// Values are those of buckets.
    pub is_histogram: bool,
}

/// What the results of a measure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureKind {
    /// An amount: the sum of the results of two windows is that of both.
    Amount,
    /// Numbers of values in buckets; the next column says where these begin.
    Buckets {
        /// Values are intervals, in nanoseconds.
        seconds: bool,
        /// The last bucket has no end: bounds are stated. Else it ends before the next power of two.
        is_open: bool,
    },
    /// Anything else.
    Level,
}

impl Aggregation {
    /// The columns of its rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The names of the key's columns.
    pub fn key_names(&self) -> impl Iterator<Item = &str> {
        let first = if self.window.is_some() { 2 } else { 0 };
        self.columns[first..].iter().take(self.keys.len()).map(|column| &*column.name)
    }

    /// The columns of measures, by name.
    pub fn measures(&self) -> impl Iterator<Item = (&str, MeasureKind)> {
        let kind = |shown: &ShownMeasure| match self.plan.params().measures[shown.index].function {
            Function::Count | Function::Sum => MeasureKind::Amount,
            Function::Histogram(ref buckets) => MeasureKind::Buckets {
                seconds: shown.input == Some(ValueType::Interval),
                is_open: matches!(buckets, Buckets::From(_)),
            },
            _ => MeasureKind::Level,
        };
        self.shown.iter().map(move |shown| (shown.name.as_str(), kind(shown)))
    }

    /// Whether rows are those of windows of time.
    pub fn has_windows(&self) -> bool {
        self.window.is_some()
    }

    /// Whether only some groups have rows: those that fulfil a condition, or the first ones.
    pub fn is_selective(&self) -> bool {
        self.plan.params().having.is_some() || self.plan.params().top.is_some()
    }

    /// Whether windows overlap.
    pub fn is_sliding(&self) -> bool {
        self.window.is_some_and(|window| window.length_ns != window.step_ns)
    }

    /// The columns of rows that the aggregate uses, with those of the rows' times.
    pub fn row_columns(&self) -> ColumnMask {
        let of_part = |part: &Part| match part.source {
            Source::Row(column) => Some(column),
            Source::Packet(_) => None,
        };
        let times = self.times.iter().copied();
        self.keys.iter().chain(&self.inputs).filter_map(of_part).chain(times).collect()
    }
}

//! Inputs, functions, and what a function of an input gives.

use crate::histogram::Buckets;
use crate::scalar::Kind;

/// A value of each record, computed by the compiled program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// The first of its words among the words of the record's inputs.
    pub first_word: usize,
    /// The number of its words: 1, or any number from 1 to 32 for an identity.
    pub words: usize,
    /// What the words are.
    pub kind: Kind,
}

/// A function over the records of a group. Without records that have the input, `sum` and `rate` are 0,
/// `count` and `distinct` are 0, all buckets of a histogram are 0, and the other results are absent.
///
/// `B` are the bounds of a histogram: the numbers of its text, or [`Buckets`] of the kind of its input.
#[derive(Debug, Clone, PartialEq)]
pub enum Function<B = Buckets> {
    /// The number of records, or of those with the input.
    Count,
    /// The sum: of numbers and intervals saturated at 2⁶⁴ − 1, exact below; of fractions exact to 2⁻¹²⁸ for
    /// each value, and rounded at the end.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean: a fraction for numbers; rounded down to a nanosecond for times and intervals.
    Mean,
    /// Records, or the sum of the input, per second of the window; of intervals, seconds per second. The
    /// first window and the last window of a run count with their full length. Without windows: per second
    /// from the first to the last record of the run, and absent if these have the same time.
    Rate,
    /// The quantile `q` from 0 to 1, with an error of at most
    /// [`QUANTILE_RELATIVE_ERROR`](crate::QUANTILE_RELATIVE_ERROR).
    Quantile(f64),
    /// The number of different values. Fractions and identities are compared by their bits.
    Distinct,
    /// The value of the earliest record; of records of the same time, the first in the order of arrival.
    First,
    /// The value of the latest record; of records of the same time, the last in the order of arrival.
    Last,
    /// The number of values in each bucket.
    Histogram(B),
}

impl<B> Function<B> {
    /// The same function, with other bounds of a histogram.
    pub fn with_bounds<C>(&self, bounds: impl FnOnce(&B) -> C) -> Function<C> {
        match self {
            Self::Count => Function::Count,
            Self::Sum => Function::Sum,
            Self::Min => Function::Min,
            Self::Max => Function::Max,
            Self::Mean => Function::Mean,
            Self::Rate => Function::Rate,
            Self::Quantile(share) => Function::Quantile(*share),
            Self::Distinct => Function::Distinct,
            Self::First => Function::First,
            Self::Last => Function::Last,
            Self::Histogram(own) => Function::Histogram(bounds(own)),
        }
    }
}

/// A function, and its input.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The function.
    pub function: Function,
    /// The number of its input among the plan's inputs. Only `count` and `rate` have none.
    pub input: Option<usize>,
}

impl Function {
    /// The name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::Rate => "rate",
            Self::Quantile(_) => "quantile",
            Self::Distinct => "distinct",
            Self::First => "first",
            Self::Last => "last",
            Self::Histogram(_) => "histogram",
        }
    }

    /// Whether the function takes inputs of `kind`. Sums, rates and quantiles of times have no meaning: the
    /// difference of two times is an interval.
    pub(crate) fn takes(&self, kind: Kind) -> bool {
        match self {
            Self::Count | Self::Distinct | Self::First | Self::Last => true,
            Self::Min | Self::Max | Self::Mean => kind != Kind::Identity,
            Self::Histogram(Buckets::PowersOfTwo) => matches!(kind, Kind::Number | Kind::Interval),
            Self::Sum | Self::Rate | Self::Quantile(_) | Self::Histogram(_) => {
                matches!(kind, Kind::Number | Kind::Interval | Kind::Fraction)
            }
        }
    }

    /// The kind of the result, if results have an order: those of `first` and `last` of identities, and
    /// histograms, have none.
    pub(crate) fn result_kind(&self, input: Option<Kind>) -> Option<Kind> {
        match (self, input) {
            (Self::Histogram(_), _) => None,
            (Self::Count | Self::Distinct, _) => Some(Kind::Number),
            (Self::Rate, _) | (Self::Mean, Some(Kind::Number)) => Some(Kind::Fraction),
            (_, kind) => kind.filter(|kind| *kind != Kind::Identity),
        }
    }
}

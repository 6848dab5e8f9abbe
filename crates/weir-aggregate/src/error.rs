//! What is wrong with the parameters of a plan.

use std::fmt;

use crate::histogram::HISTOGRAM_BOUNDS_MAX;
use crate::scalar::Kind;

/// What is wrong with the parameters of a [`Plan`](crate::Plan). Measures and inputs are named by their
/// numbers, from 0; the message counts measures and inputs from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The key is too long.
    KeyWords {
        /// Words of the key.
        words: usize,
    },
    /// Too many inputs.
    Inputs {
        /// The number of inputs.
        number: usize,
    },
    /// An input has too many words, or none, or begins too far behind.
    InputWords {
        /// The input.
        input: usize,
    },
    /// No measure, or too many.
    Measures {
        /// The number of measures.
        number: usize,
    },
    /// A function needs an input.
    NoInput {
        /// The measure.
        measure: usize,
        /// The function's name.
        function: &'static str,
    },
    /// A measure names an input that the plan does not have.
    UnknownInput {
        /// The measure.
        measure: usize,
        /// The number that is no input.
        input: usize,
    },
    /// A function does not take inputs of this kind.
    Kind {
        /// The measure.
        measure: usize,
        /// The function's name.
        function: &'static str,
        /// The kind of the input.
        kind: Kind,
    },
    /// A quantile is outside 0 to 1.
    Quantile {
        /// The measure.
        measure: usize,
        /// The quantile.
        q: f64,
    },
    /// The bounds of a histogram do not ascend, or are of another kind than the input, or are too many, or
    /// none.
    Bounds {
        /// The measure.
        measure: usize,
    },
    /// A window or a slide is too short.
    ShortWindow,
    /// A window is longer than 292 years.
    LongWindow,
    /// A slide is longer than the window, or does not divide the window.
    Slide {
        /// Length of the window.
        length_ns: u64,
        /// Slide of the window.
        slide_ns: u64,
    },
    /// A window has too many panes.
    ShortSlide {
        /// Length of the window.
        length_ns: u64,
        /// Slide of the window.
        slide_ns: u64,
        /// The most panes.
        panes_max: u64,
    },
    /// A bound is 0 or too large.
    Limit {
        /// What the bound limits.
        what: &'static str,
        /// The largest bound.
        max: usize,
    },
    /// `having` is nested too deeply.
    Depth,
    /// `having` or `top` names a measure that the plan does not have.
    UnknownMeasure {
        /// The number that is no measure.
        measure: usize,
    },
    /// `having` or `top` names a measure whose results have no order.
    Unordered {
        /// The measure.
        measure: usize,
    },
    /// A constant is of another kind than the results of the measure.
    Constant {
        /// The measure.
        measure: usize,
        /// The kind of the results.
        expected: Kind,
    },
    /// `top 0`.
    EmptyTop,
}

impl std::error::Error for PlanError {}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |ns: u64| std::time::Duration::from_nanos(ns);
        match *self {
            Self::KeyWords { words } => {
                write!(f, "the key has {words} words; at most 32 are possible: group by fewer fields")
            }
            Self::Inputs { number } => {
                write!(f, "{number} inputs; at most 64 are possible: use fewer fields")
            }
            Self::InputWords { input } => {
                write!(
                    f,
                    "input {} has an invalid range of words: one word, or 1 to 32 of an identity",
                    input + 1
                )
            }
            Self::Measures { number: 0 } => f.write_str("no measure: state one, such as count()"),
            Self::Measures { number } => {
                write!(f, "{number} measures; at most 64 are possible: ask two questions")
            }
            Self::NoInput { measure, function } => {
                write!(f, "measure {}: {function} needs a field, such as {function}(frame.len)", measure + 1)
            }
            Self::UnknownInput { measure, input } => {
                write!(f, "measure {} uses input {}, which does not exist", measure + 1, input + 1)
            }
            Self::Kind { measure, function, kind } => {
                write!(f, "measure {}: {function} takes no {}: {}", measure + 1, plural(kind), remedy(kind))
            }
            Self::Quantile { measure, q } => {
                write!(
                    f,
                    "measure {}: the quantile {q} is not in the range 0 to 1: the 95th percentile is 0.95",
                    measure + 1
                )
            }
            Self::Bounds { measure } => write!(
                f,
                "measure {}: bounds of a histogram must ascend and be values like those of the field; 1 to {HISTOGRAM_BOUNDS_MAX} \
                 are possible",
                measure + 1
            ),
            Self::ShortWindow => {
                f.write_str("a window is shorter than a microsecond: state a longer one, such as 10s")
            }
            Self::LongWindow => {
                f.write_str("a window is longer than 292 years: state a shorter one, or none")
            }
            Self::Slide { length_ns, slide_ns } => write!(
                f,
                "a window of {:?} cannot move by {:?}: the length must be a multiple of the slide",
                ns(length_ns),
                ns(slide_ns)
            ),
            Self::ShortSlide { length_ns, slide_ns, panes_max } => write!(
                f,
                "a window of {:?} cannot move by {:?}: the slide must be at least 1/{panes_max} of the length",
                ns(length_ns),
                ns(slide_ns)
            ),
            Self::Limit { what, max } => write!(f, "the bound on {what} must be from 1 to {max}"),
            Self::Depth => {
                f.write_str("the predicate over groups is nested more than 64 deep: simplify the predicate")
            }
            Self::UnknownMeasure { measure } => write!(f, "measure {} does not exist", measure + 1),
            Self::Unordered { measure } => write!(
                f,
                "the results of measure {} have no order: compare and sort by numbers, times, intervals or fractions",
                measure + 1
            ),
            Self::Constant { measure, expected } => {
                write!(
                    f,
                    "measure {} gives {}: compare with a value of this kind",
                    measure + 1,
                    plural(expected)
                )
            }
            Self::EmptyTop => f.write_str("top 0 reports nothing: state at least 1"),
        }
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "numbers",
        Kind::Time => "times",
        Kind::Interval => "intervals",
        Kind::Fraction => "fractions",
        Kind::Identity => "addresses and texts",
    }
}

fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Identity => "count, distinct, first and last do",
        Kind::Time => "count, distinct, first, last, min, max and mean do",
        Kind::Number | Kind::Interval | Kind::Fraction => "state the bounds of the buckets",
    }
}

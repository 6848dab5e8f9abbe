//! Metrics as values: a page (`exposition.rs`) and OTLP (`otlp.rs`) show the same ones.

use std::borrow::Cow;
use std::time::Duration;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows. Names of its samples end in `_total` on the page.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Facts, as labels of a sample whose name ends in `_info`.
    Info,
    /// Numbers of values up to bounds.
    Histogram,
}

/// A label, and its value.
pub type Label = (Cow<'static, str>, String);

/// A sample of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Labels and their values.
    pub labels: Vec<Label>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Of a histogram, by upper bound in ascending order: the values up to it that are in no earlier bucket.
    /// The last bound is infinite.
    Buckets(Vec<(f64, u64)>),
}

impl Sample {
    /// A sample without labels.
    pub fn of(value: f64) -> Self {
        Self { labels: vec![], value: Value::Number(value) }
    }

    /// A sample with one label.
    pub fn with(label: &'static str, of: String, value: f64) -> Self {
        Self { labels: vec![(label.into(), of)], ..Self::of(value) }
    }
}

/// Metrics of one name, which differ in labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name, without the ending that the type requires.
    pub name: Cow<'static, str>,
    /// The type.
    pub kind: Kind,
    /// The meaning.
    pub help: Cow<'static, str>,
    /// Start of the counting, as time since 1970, if it is later than that of the run.
    pub since: Option<Duration>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// Units that names of metrics end with.
const UNITS: &[&str] = &["bytes", "seconds"];

impl Family {
    /// The unit of the values, which is the end of the name.
    pub fn unit(&self) -> Option<&'static str> {
        let ends = |unit: &&str| self.name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        UNITS.iter().copied().find(|unit| ends(unit))
    }
}

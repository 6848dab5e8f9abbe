//! Metrics as a program states them.

use std::time::Duration;

/// Metrics of one name, which differ in attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The name.
    pub name: String,
    /// The meaning.
    pub description: String,
    /// The unit, in the notation of UCUM (`By`, `s`); empty: a number without a unit.
    pub unit: &'static str,
    /// Start of the counting, as time since 1970. Gauges ignore this time.
    pub begun: Duration,
    /// The values.
    pub points: Points,
}

/// The values of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Points {
    /// Numbers that only grow, counted since the start.
    Sums(Vec<Point<f64>>),
    /// Numbers that rise and fall.
    Gauges(Vec<Point<f64>>),
    /// Numbers of values in ranges, counted since the start.
    Histograms(Vec<Point<Buckets>>),
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<V> {
    /// Names of attributes, with their values. Names are unique.
    pub attributes: Vec<(String, String)>,
    /// The value.
    pub value: V,
}

/// Numbers of values in ranges.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    /// The ends of the ranges, which include them, in ascending order. All are finite.
    pub bounds: Vec<f64>,
    /// For each range its number, and at last that of values beyond all bounds.
    pub counts: Vec<u64>,
}

//! The counters of a run, and their form as metrics.
//!
//! - `totals.rs`: counts, losses and faults that all questions share
//! - `family.rs`: metrics as values
//! - `families.rs`: which metrics there are; `series.rs`: those of aggregates
//! - `exposition.rs`: their text for Prometheus, in two formats
//! - `otlp.rs`: the same for a collector of OpenTelemetry

pub(crate) mod exposition;
pub(crate) mod families;
pub(crate) mod family;
pub(crate) mod otlp;
pub(crate) mod series;
pub(crate) mod totals;

pub(crate) use otlp::collector;
pub(crate) use series::Series;
pub use {
    exposition::Exposition, exposition::text, families::Metrics, otlp::Sending, otlp::instance,
    totals::FurtherCounters, totals::RunTotals,
};

//! Metrics for a collector of OpenTelemetry: `Exporter` sends them every few seconds by OTLP 1.x over gRPC
//! (<https://opentelemetry.io/docs/specs/otlp/>), without TLS.
//!
//! - `metric.rs`: metrics as the program states them
//! - `report.rs`: who sends them to whom, and what is said about the sending
//! - `message.rs`: the messages of OTLP with these metrics, of bounded size
//! - `exporter.rs`: the thread that sends them, and its end; `retry.rs`: its waiting times
//!
//! `message.rs`, `exporter.rs` and `retry.rs` need the feature `otlp`, which compiles a client of gRPC with
//! some 35 crates. Values are those since the start of the
//! run, so metrics that were not sent are not kept: the next ones include them.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod message;
mod metric;
mod report;
#[cfg(any(feature = "otlp", test))]
mod retry;

#[cfg(feature = "otlp")]
pub use exporter::Exporter;
#[cfg(feature = "otlp")]
pub use message::requests;
pub use metric::{Buckets, Metric, Point, Points};
pub use report::{Event, Exports, Resource, Settings};

//! Metrics for a collector of OpenTelemetry: `Exporter` sends them every few seconds by OTLP 1.x over gRPC
//! (<https://opentelemetry.io/docs/specs/otlp/>), without TLS.
//!
//! - `metric.rs`: metrics as the program states them
//! - `report.rs`: who sends them to whom, and what is said about the sending
//! - `message.rs`: the messages of OTLP with these metrics, of bounded size
//! - `exporter.rs`: the thread that sends them, and its end; `retry.rs`: its waiting times
//!
//! The last three need the feature `client`, which compiles tonic. Values are those since the start of the
//! run, so metrics that were not sent are not kept: the next ones include them.
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod exporter;
#[cfg(feature = "client")]
mod message;
mod metric;
mod report;
#[cfg(any(feature = "client", test))]
mod retry;

#[cfg(feature = "client")]
pub use exporter::Exporter;
#[cfg(feature = "client")]
pub use message::requests;
pub use metric::{Buckets, Metric, Point, Points};
pub use report::{Event, Exports, Resource, Settings};

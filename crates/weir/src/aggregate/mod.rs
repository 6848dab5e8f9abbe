//! Aggregates: `count(), sum(frame.len) by ip.dst every 10s`.
//!
//! An [`Aggregation`] is made of its text once. Of packets, the compiled program computes the values that the aggregate uses, each
//! worker groups its packets ([`packets`]), and the receiver of the question merges what the workers have ([`AggregateRows`]). Rows
//! of connections, sessions and events are grouped by the receiver ([`rows`]).

mod packets;
mod plan;
mod question;
mod results;
mod rows;
mod shared;

pub(crate) use packets::PacketAggregator;
pub use plan::{CONNECTIONS, RecordSource};
pub use results::AggregateRows;
pub use shared::{Aggregation, MeasureKind};
use std::sync::Mutex;

/// What workers have of an aggregate of packets.
#[derive(Debug)]
pub struct AggregatePart {
    /// The worker's number.
    pub(crate) worker: usize,
    /// Number of workers.
    pub(crate) workers: usize,
    /// The capture time that the worker has reached.
    pub(crate) time: i64,
    /// How often the worker's time was set.
    pub(crate) restarts: u64,
    /// The panes that are closed, until the receiver has taken them.
    pub(crate) partials: Mutex<Vec<weir_aggregate::Partial>>,
    /// What the worker's bounds discarded so far.
    pub(crate) counters: weir_aggregate::Counters,
}

//! Aggregates: `count(), sum(frame.len) by ip.dst every 10s`.
//!
//! An [`Aggregation`] is made of its text once. Of packets, the compiled program computes the values that the
//! aggregate uses, each worker groups its packets ([`packets`]), and the receiver of the question merges what
//! the workers have ([`AggregateRows`]). Rows of connections, sessions and events are grouped by the receiver
//! ([`rows`]).

mod packets;
mod plan;
mod results;
mod rows;
mod shared;

pub use plan::{CONNECTIONS, RecordSource};
pub use results::AggregateRows;
pub use shared::{Aggregation, MeasureKind};

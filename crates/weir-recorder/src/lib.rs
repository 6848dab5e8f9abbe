//! A recorder: the packets of a run stay in memory, and those before on the disk, for questions about the
//! past.
//!
//! [`RecorderOptions`] says what is recorded where. A recorder is a run of `weir-questions` whose packets go
//! to a ring, too ([`RecorderOptions::start`]); other processes read the ring as `ring:NAME`. Triggers,
//! thresholds and rules are questions of the same run ([`RecorderOptions::ask`]): what they find is dumped.
//!
//! - `recording.rs`: the ring, the spool, and their counters
//! - `options.rs`: the options
//! - `causes.rs`: what dumps begin with: `triggers.rs`, `indicators.rs`, `rule_triggers.rs`, `thresholds.rs`
//! - `asking.rs`: how they ask for dumps before there are threads
//! - `dumps.rs`: the threads that write dumps; `dump_queue.rs`: what waits for them; `dump_list.rs`: which
//!   dumps there are; `copy_packets.rs`: copies the packets of a filter
//! - `api` (feature `api`): the API over HTTP, and the page
//!
//! `examples/recorder.rs` is a recorder of its own.

#![forbid(unsafe_code)]

#[macro_use]
extern crate weir_questions;

#[cfg(feature = "api")]
pub mod api;
mod asking;
mod causes;
mod copy_packets;
mod dump_list;
mod dump_queue;
mod dumps;
mod indicators;
mod options;
mod recording;
mod rule_triggers;
mod thresholds;
mod triggers;

pub use asking::PendingAsker;
pub use options::{Around, RecorderOptions};
pub use recording::Recording;

//! The data path: tables, sequences, timers, counters.
//!
//! * [`run`]: the data path on one screen. `flows`, `host` and `decide` are what it calls.
//! * [`plan`]: what a run is to do.  [`subscriber`]: who is given what was asked for.
//! * [`hold`]: packets that wait for their connection's verdict.
//! * [`flow`]: a flow as subscribers see it.
//! * [`table`]: flows by key; entries that never move, buckets of one cache line.
//! * [`clock`]: what time it is.  [`timer`]: when flows end for want of packets.
//! * [`sequence`]: bytes that came out of order, kept until they are next.
//! * [`stream`]: a direction's bytes in order, as subscribers are given them: cutoffs, chunks, overload.
//! * `packet_end`: what layers above a connection may decide waits for the packet's end.  `emitted`: events of a packet.
//! * `deferred_streams`: streams that are whose they are by what their sessions or records say.
//! * `drain_messages`: messages that are unread when their flow ends.
//! * `change`: another program takes over between two bursts.
//! * [`counters`]: what became of every packet; they add up.
//!
//! No input or output, no clock of the machine (time is that of packets, an argument), and no protocol is named here.
#![deny(unsafe_code)]

mod change;
pub mod clock;
pub mod counters;
mod decide;
pub mod deferred_predicate;
mod deferred_streams;
mod drain_messages;
mod emitted;
pub mod flow;
mod flow_hit;
mod flows;
pub mod hold;
mod host;
mod messages;
mod packet_end;
pub mod plan;
pub mod run;
pub mod sequence;
mod sessions;
pub mod stage;
pub mod stream;
pub mod subscriber;
pub mod table;
mod tables;
mod timeouts;
pub mod timer;
pub mod worker;

pub use emitted::COLUMN_BYTES_MAX;
pub use messages::MESSAGE_BYTES_MAX;

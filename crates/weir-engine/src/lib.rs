//! The data path: tables, sequences, timers, counters.
//!
//! * [`run`]: the data path on one screen. `flows`, `host`, `matcher` and `delivery` are what it calls.
//! * [`plan`]: what a run is to do.  [`subscriber`]: who is given what was asked for.
//! * [`hold`]: packets that wait for their connection's verdict.
//! * [`flow`]: a flow as subscribers see it.
//! * [`table`]: flows by key; entries that never move, buckets of one cache line.
//! * [`clock`]: what time it is.  [`timer`]: when flows end for want of packets.
//! * [`sequence`]: bytes that came out of order, kept until they are next.
//! * [`stream`]: a direction's bytes in order, as subscribers are given them: cutoffs, chunks, overload.
//! * `packet_end`: what layers above a connection may decide waits for the packet's end.  `emitted`: events of a packet.
//! * `matcher`: which questions something is for.  `delivery`: hands it to the subscriber; `stream_delivery`: streams.
//! * `drain_messages`: messages that are unread when their flow ends.
//! * `change`: another program takes over between two bursts.
//! * [`counters`]: what became of every packet; they add up.
//!
//! No input or output, no clock of the machine (time is that of packets, an argument), and no protocol is named here.
#![deny(unsafe_code)]

mod change;
pub mod clock;
pub mod counters;
pub mod deferred_predicate;
mod delivery;

mod drain_messages;
mod emitted;
pub mod flow;
mod flow_hit;
mod flow_ref;
mod flows;
pub mod hold;
mod host;
mod matcher;
mod messages;
mod packet_end;
pub mod plan;
pub mod run;
pub mod sequence;
mod sessions;
pub mod stage;
pub mod stream;
mod stream_delivery;
pub mod subscriber;
pub mod table;
mod tables;
mod timeouts;
pub mod timer;
pub mod worker;

pub use emitted::COLUMN_BYTES_MAX;
pub use flow_ref::FlowRef;
pub use messages::MESSAGE_BYTES_MAX;

//! The data path: tables, sequences, timers, counters.
//!
//! * [`run`]: what a worker does with a burst. Read this first.  `packet_run`: one packet.  `nesting`: what it runs in.
//! * `host`: what the tail of a program may ask for.  `flows`: the flows of a worker.  `flow_end`: how a flow ends.
//! * [`plan`]: what a run is to do.  [`subscriber`]: who is given what was asked for.
//! * [`hold`]: packets that wait for their connection's verdict.
//! * [`flow`]: a flow as subscribers see it.
//! * [`table`]: flows by key; entries that never move, buckets of one cache line.
//! * [`clock`]: what time it is.  [`timer`]: when flows end for want of packets.
//! * [`sequence`]: bytes that came out of order, kept until they are next.
//! * [`stream`]: a direction's bytes in order, as subscribers are given them: cutoffs, chunks, overload.
//! * `matcher`: which questions something is for.  `delivery`: hands it to the subscriber; `stream_delivery`: streams.
//! * `effects`: what waits for the end of a packet.  `settle`: decides it.  `emitted`: events of a packet.
//! * `replay_host`: a packet that is read once more, for the messages of a flow that ends.
//! * `change`: another program takes over between two bursts.
//! * [`counters`]: what became of every packet; they add up.  [`memory`]: what is held, by its owner.
//!
//! No input or output, no clock of the machine (time is that of packets, an argument), and no protocol is named here.
#![deny(unsafe_code)]

mod change;
pub mod clock;
pub mod counters;
pub mod deferred_predicate;
mod delivery;
mod effects;
mod emitted;
pub mod flow;
mod flow_end;
mod flow_hit;
mod flow_ref;
mod flows;
pub mod hold;
mod host;
mod matcher;
pub mod memory;
mod messages;
mod nesting;
mod order;
mod packet_ctx;
mod packet_run;
pub mod plan;
mod recognised;
mod replay_host;
pub mod run;
pub mod sequence;
mod sessions;
mod sets;
mod settle;
pub mod stage;
pub mod stream;
mod stream_delivery;
pub mod subscriber;
pub mod table;
mod tables;
mod timeouts;
pub mod timer;
mod words;
pub mod worker;

pub use emitted::COLUMN_BYTES_MAX;
pub use flow_ref::FlowRef;
pub use messages::MESSAGE_BYTES_MAX;

//! The data path: tables, sequences, timers, counters.
//!
//! * [`run`]: how a worker processes a burst. Read this first.  `packet_run`: one packet.  `nesting`: its
//!   connections.
//! * `host`: functions that the tail of a program calls. `flows`: the flows of a worker. `flow_end`: how a
//!   flow ends. `ending`: which flows end.
//! * [`plan`]: the task of a run.  [`subscriber`]: the receiver of the results.
//! * [`hold`]: packets that wait for their connection's verdict. `holders`: flows that hold memory, idle ones
//!   first.
//! * [`flow`]: a flow as subscribers see it.
//! * [`table`]: flows by key; entries that never move, buckets of one cache line.
//! * [`clock`]: the time, from packets.  [`timer`]: when idle flows end.
//! * [`sequence`]: out-of-order bytes, kept until they are next.
//! * [`stream`]: the in-order bytes of a direction for subscribers: cutoffs, chunks, overload.
//! * [`sharing`]: tables that workers share.
//! * `matcher`: which questions an item is for. `delivery`: passes it to the subscriber; `stream_delivery`:
//!   streams.
//! * `effects`: items that wait for the end of a packet. `settle`: decides them. `emitted`: events of a
//!   packet. [`end_event`]: events at the ends of flows.
//! * `taken_over`: connections whose packets the kernel counts. `kernel_entries`: their entries in the
//!   kernel. [`kernel_plan`]: what a plan knows of them.
//! * [`row_account`]: how many bytes of rows the sessions of a connection may have.
//! * [`oddities`]: what was odd about each connection.
//! * `aside`: packets that wait beside a flow for the one that follows.  `tags`: flows whose directions have
//!   different tags.
//! * `replay_host`: a packet that is read again, for the messages of a flow that ends.
//! * `change`: changes the program between two bursts.
//! * [`counters`]: the outcome of every packet; the counters add up.  [`memory`]: memory by its owner.
//!
//! This crate does no input or output, reads no clock of the machine (time comes from packets, as an
//! argument), and names no protocol.
#![deny(unsafe_code)]

mod aside;
mod change;
mod checks;
pub mod clock;
pub mod counters;
pub mod deferred_predicate;
mod delivery;
mod effects;
mod emitted;
pub mod end_event;
mod ending;
pub mod flow;
mod flow_end;
mod flow_hit;
mod flow_ref;
mod flow_sessions;
mod flows;
mod gap;
mod held_sessions;
pub mod hold;
mod holders;
mod host;
mod kernel_entries;
pub mod kernel_plan;
mod matcher;
pub mod memory;
mod messages;
mod nesting;
pub mod oddities;
mod order;
mod packet_ctx;
mod packet_lists;
mod packet_run;
pub mod plan;
mod proxy_header;
pub mod question_losses;
mod ranks;
mod recognised;
mod replay_host;
pub mod row_account;
pub mod run;
pub mod sequence;
mod sessions;
mod sets;
mod settle;
pub mod sharing;
pub mod stage;
pub mod stream;
mod stream_delivery;
pub mod subscriber;
pub mod table;
mod tables;
mod tags;
mod taken_over;
mod timeouts;
pub mod timer;
pub mod tunnels;
mod watching;
mod words;
pub mod worker;

pub use emitted::COLUMN_BYTES_MAX;
pub use flow_ref::FlowRef;
pub use messages::MESSAGE_BYTES_MAX;

/// Tests measure what sessions hold.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);

//! Packet vectors (Jetstream, section 4: "grouped packet vectors"): the features of consecutive packets of a
//! group as lists in one row.
//!
//! The program computes the key and the features of a packet; each worker keeps the lists of its groups, and
//! a row is complete at a number of packets, at an age, when the group was idle for some time, and at the end
//! of the run. Groups with the tuple in their key are whole, whatever the number of workers; other groups
//! have a row for each worker.

mod grouper;
mod plan;
mod shared;

pub use shared::{PacketRecords, RecordLimits};

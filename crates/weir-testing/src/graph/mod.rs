//! For tests, here and in other crates: random valid graphs, frames to run them on, and an engine that
//! writes down what it is asked.
//!
//! Two programs do the same if `drive` gives equal outcomes on the same packets.

mod drive;
mod frames;
mod graphs;
mod host;

pub use drive::{Outcome, PacketOutcome, drive};
pub use frames::{random_frame, random_packets, tcp_frame};
pub use graphs::random_graph;
pub use host::RecordingHost;

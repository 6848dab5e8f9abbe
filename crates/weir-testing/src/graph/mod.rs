//! For tests: random valid graphs, frames to run them on, and an engine that records the program's calls.
//!
//! Two programs are equivalent if `drive` gives equal outcomes for the same packets.

mod drive;
mod frames;
mod graphs;
mod host;

pub use drive::{Outcome, PacketOutcome, drive};
pub use frames::{random_frame, random_packets, tcp_frame};
pub use graphs::random_graph;
pub use host::RecordingHost;

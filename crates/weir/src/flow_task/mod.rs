//! Connections with their packets, bytes and sessions, for code that runs on the workers, keeps state for
//! each connection, and writes rows: rules.
//!
//! A [`FlowTask`] takes everything of the connections of one worker, in the order of the capture: of each
//! packet first the bytes in order that the packet brought, then the sessions that the packet completed, then
//! the packet itself. [`FlowQuestions`] are the questions behind a task: they decide which sessions are
//! parsed, and whether streams are reassembled.
//!
//! * `question`: the questions. The task on a worker is in `handlers/flow_task.rs`.

mod question;

pub use crate::handlers::flow_task::{FlowPacket, FlowTask, LoosePacket, TaskFlow, TaskSession};
pub use question::{CONDITIONS_MAX, EVENTS_MAX, FlowQuestions};
pub use weir_engine::FlowRef;

//! Rows for other machines: flow records in the format IPFIX, and lines as messages of syslog.
//!
//! A sink ([`Ipfix`]) or a writer behind a sink ([`Syslog`]) makes messages, and a [`Carrier`] takes them to the peer: as
//! datagrams ([`Datagrams`]), or over a TCP connection ([`Link`]) from a [`Queue`], which is in memory or on disk ([`Spool`]).
//! What a message needs beyond its bytes is the [`Protocol`] of the stream. Further protocols use the same link and queue.
//!
//! Read `carrier.rs` first, then `link.rs`. This crate knows neither names of hosts nor options: `weir-cli/src/export.rs`.
#![forbid(unsafe_code)]

mod carrier;
pub mod ipfix;
mod link;
mod memory;
mod message;
mod queue;
mod spool;
pub mod syslog;
mod udp;

pub use carrier::{Carrier, Event, Notify, Protocol};
pub use ipfix::Ipfix;
pub use link::{Link, Terms};
pub use memory::MEMORY_BYTES_MAX;
pub use message::{Message, Refusals};
pub use queue::Queue;
pub use spool::{RECORD_BYTES_MAX, SPOOL_BYTES_MIN, Spool};
pub use syslog::Syslog;
pub use udp::Datagrams;

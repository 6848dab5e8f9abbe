//! Rows for other machines: flow records in the format IPFIX, lines as messages of syslog, and batches of
//! columns for ClickHouse and Kafka.
//!
//! A sink ([`Ipfix`]), a writer behind a sink ([`Syslog`]) or a part of a sink ([`Batches`]) makes messages,
//! and a [`Carrier`] takes them to the receiver: as datagrams ([`Datagrams`]), or from a [`Queue`], which is
//! in memory or on disk ([`Spool`]), over the connection of a [`Link`]. The [`Peer`] of a link is a stream
//! over TCP ([`StreamPeer`]), to which a [`Protocol`] adds what messages need beyond their bytes, or a
//! receiver with acknowledgements of its own ([`ClickHouse`], `Kafka`). Further receivers use the same link
//! and queue.
//!
//! [`otlp`] sends metrics of the program, and no rows: it has a thread of its own, and no queue.
//!
//! The feature `kafka` compiles the module `kafka`, and the feature `otlp` the sending part of [`otlp`].
//!
//! Read `carrier.rs` first, then `link.rs`. This crate knows neither options nor the wishes of a person:
//! `weir-questions/src/output/export`.
#![forbid(unsafe_code)]

mod batches;
mod carrier;
pub mod clickhouse;
pub mod ipfix;
#[cfg(feature = "kafka")]
pub mod kafka;
mod link;
mod memory;
mod message;
pub mod otlp;
mod queue;
mod spool;
mod stream;
pub mod syslog;
mod udp;

pub use batches::{Batch, Batches, Labels, Lingering, MESSAGE_BYTES_MAX};
pub use carrier::{Carrier, Connection, Event, Interruption, Notify, Peer, Protocol, Standing};
pub use clickhouse::ClickHouse;
pub use ipfix::Ipfix;
#[cfg(feature = "kafka")]
pub use kafka::Kafka;
pub use link::{Link, Terms};
pub use memory::MEMORY_BYTES_MAX;
pub use message::{Message, Refusals};
pub use queue::Queue;
pub use spool::{RECORD_BYTES_MAX, SPOOL_BYTES_MIN, Spool};
pub use stream::{Connect, StreamPeer};
pub use syslog::Syslog;
pub use udp::Datagrams;

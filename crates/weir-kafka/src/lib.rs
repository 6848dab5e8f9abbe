//! Batches of rows for a topic of Kafka: [`Kafka`], a peer of `weir-export`'s link.
//!
//! The client is librdkafka, compiled with the crate if it has the feature `client`; the crate is empty
//! without it. Read `peer.rs`; the queue, its thread and the numbers of batches are in `weir-export`.
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod context;
#[cfg(feature = "client")]
mod peer;

#[cfg(feature = "client")]
pub use peer::{Kafka, Topic};

//! Batches of rows for a topic of Kafka: [`Kafka`], a peer of a link.
//!
//! The client is librdkafka: 200 000 lines of C, which the feature `kafka` compiles and most builds do not
//! need. The module is absent without the feature. Read `peer.rs` (the producer as a connection), then
//! `context.rs` (reports of librdkafka).

mod context;
mod peer;

pub use peer::{Kafka, Topic};

//! Pipelines over packets: operators that run on each worker, and operators that take what all workers pass
//! on.
//!
//! ```no_run
//! use std::net::IpAddr;
//! use std::time::Duration;
//! use weir::Engine;
//! use weir::pipeline::{Packet, Pipeline, Reduced, Tumbling};
//!
//! // SYNs per second by destination, from 1000 on.
//! let second = Tumbling::every(Duration::from_secs(1)).expect("a length");
//! let counts = move || {
//!     Pipeline::<Packet<(IpAddr,)>, _>::new()
//!         .window(second, |packet| packet.time)
//!         .reduce(|packet| packet.fields.0, || 0_u64, |count, _| *count += 1)
//! };
//! // Workers see different connections to the same host: their counts are added.
//! let all = Pipeline::new()
//!     .window(second, |counted: &Reduced<IpAddr, u64>| counted.window.map_or(0, |(start, _)| start))
//!     .reduce(|counted| counted.key, || 0, |sum, counted| *sum += counted.state)
//!     .filter(|sum| sum.state >= 1000)
//!     .map(|sum| format!("{:?} {}", sum.key, sum.state))
//!     .print();
//! let mut engine = Engine::new();
//! engine.subscribe_pipeline("tcp.flags.syn and not tcp.flags.ack", &["ip.dst"], counts, all).expect("right fields");
//! engine.read(["capture.pcap"]).expect("the filters are right");
//! ```
//!
//! A worker's part takes [`Packet`]s whose fields have the types that the pipeline states: the compiled
//! program loads these fields and nothing else. Each worker has an instance of its own, which shares nothing
//! with others. [Aggregates](crate::aggregate) are such pipelines. [Records](crate::records) have the same
//! place on workers, with a table of their own, because they write rows directly.

mod fields;
mod gather;
mod question;
mod worker;

pub use crate::items::pipeline_part::PipelinePart;
pub use fields::{FieldValue, Packet, PacketFields};
pub use weir_pipeline::*;

pub(crate) use fields::typed_question;
pub(crate) use gather::Gather;
pub(crate) use question::packet_question;
pub(crate) use worker::{Feed, PipelineWorker, Times};

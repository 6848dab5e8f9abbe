//! Streams for programs: a handler is called when a stream begins, with its bytes in order, and when it ends.
//!
//! Several handlers, each with its own filter, cutoff and chunks, share one reassembly. Each worker has its
//! own handlers, and all calls for a stream come from one worker; so handlers share nothing and need no
//! locks.
//!
//! ```no_run
//! use weir::Engine;
//! use weir::stream::{Chunk, Stream, StreamHandler, StreamParams};
//!
//! /// Counts bytes in order.
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl StreamHandler for Count {
//!     type State = ();
//!     fn data(&mut self, _: &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
//!         self.0 += chunk.bytes.len() as u64;
//!     }
//! }
//!
//! let mut engine = Engine::new();
//! let https = engine
//!     .subscribe_streams("tcp.port == 443", StreamParams::default(), Count::default)
//!     .expect("the filter is right");
//! let mut source = weir::io::CaptureReader::open(&["capture.pcap"]);
//! let outcome = engine.run(&mut source, 1).expect("the filters are right");
//! let bytes: u64 = outcome.handlers.of(https).iter().map(|count: &&Count| count.0).sum();
//! ```

pub use crate::handlers::finished::Handlers;
pub use crate::handlers::stream_handler::{Stream, StreamHandler};
pub use weir_engine::flow::EndReason;
pub use weir_engine::sequence::{Policies, Policy};
pub use weir_engine::stream::{
    Chunk, ChunkParams, DirectionCounts, OverloadParams, PRIORITIES_MAX, Priorities, StreamCounts,
    StreamHandle, StreamPacket, StreamParams,
};

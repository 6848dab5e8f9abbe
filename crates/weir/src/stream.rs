//! Streams for programs: a handler is called when a stream begins, with its bytes in order, and when it ends.
//!
//! Several handlers, each with its own filter, cutoff and chunks, share one reassembly. Each worker has its own
//! handlers, and all calls for a stream come from one worker; so handlers share nothing and need no locks.
//!
//! ```no_run
//! use weir::stream::{Chunk, Stream, StreamHandler, StreamParams, Streams};
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
//! let mut streams = Streams::new();
//! let https = streams.subscribe("tcp.port == 443", StreamParams::default(), Count::default);
//! let mut source = weir::io::CaptureReader::open(&["capture.pcap"]);
//! let outcome = streams.run(&mut source, 1).expect("the filter is right");
//! let bytes: u64 = outcome.handlers.of(https).iter().map(|count: &&Count| count.0).sum();
//! ```

use crate::compile::{Ask, Compiled, Compiler, Options};
use crate::outcome::Outcome;
use crate::question::Question;
use crate::worker_sink::MakeWorkerSink;
use std::convert::Infallible;
use weir_engine::plan::Want;
use weir_lang::diag::Diagnostics;
use weir_packet::Source;

pub use crate::handlers::Handlers;
pub use crate::stream_handler::{Stream, StreamHandler};
pub use crate::subscription::Subscription;
pub use weir_engine::flow::EndReason;
pub use weir_engine::sequence::{Policies, Policy};
pub use weir_engine::stream::{
    Chunk, ChunkParams, DirectionCounts, OverloadParams, PRIORITIES_MAX, StreamCounts, StreamHandle,
    StreamPacket, StreamParams,
};

/// Subscriptions to streams.
#[derive(Default)]
pub struct Streams {
    asks: Vec<Ask>,
    make: Vec<Option<MakeWorkerSink>>,
}

impl Streams {
    /// No subscriptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subscription to the streams of flows of which at least one packet matches `filter`. `make` creates a
    /// handler for each worker.
    pub fn subscribe<H: StreamHandler>(
        &mut self,
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Subscription {
        let Question { ask, make, .. } = Question::of_streams(filter, params, make);
        self.asks.push(ask);
        self.make.push(make);
        Subscription::of_question(self.asks.len() - 1)
    }

    /// Compiles the subscriptions to a program, to be [run](crate::run()). Rows that handlers emit come as
    /// [`Item::Stream`](crate::Item), with the number of the subscription.
    ///
    /// # Errors
    /// All errors in the filters, or the reason why no code was generated.
    pub fn compile(&self, compiler: &Compiler, options: &Options) -> Result<Compiled, Diagnostics> {
        let priority = |ask: &Ask| match ask.want {
            Want::Streams(params) => params.priority,
            _ => 0,
        };
        let highest = self.asks.iter().map(priority).max().unwrap_or(0);
        let priorities = options.overload.priorities.max(highest.saturating_add(1));
        let overload = OverloadParams { priorities, ..options.overload };
        let compiled = compiler.compile(&self.asks, &Options { overload, ..options.clone() })?;
        Ok(Compiled { sinks: self.make.clone(), ..compiled })
    }

    /// Compiles the subscriptions and runs them over a source with `workers` workers, over the stack that accepts any
    /// link type. Rows are dropped.
    ///
    /// # Errors
    /// As [`compile`](Self::compile). Errors of the source are in the outcome.
    pub fn run(&self, source: &mut dyn Source, workers: usize) -> Result<Outcome, Diagnostics> {
        let compiler = Compiler::default();
        let compiled = self.compile(&compiler, &Options::default())?;
        let ignore = &mut |_: usize, _| Ok::<(), Infallible>(());
        let Ok(outcome) = crate::run(&compiler, &compiled, source, &[], workers, ignore, &mut |_| ());
        Ok(outcome)
    }
}

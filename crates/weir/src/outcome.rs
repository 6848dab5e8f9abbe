//! The outcome of a run.

use crate::handlers::finished::Handlers;
use crate::handlers::isolation::CallbackPanics;
use std::time::Duration;
use weir_engine::counters::Counters;
use weir_engine::memory::Memory;
use weir_engine::stage::Stages;
use weir_packet::{SourceError, SourceStats};

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The outcomes of the packets.
    pub counters: Counters,
    /// Items and cycles of each stage, summed over threads.
    pub stages: Stages,
    /// Items that each question received.
    pub matched: Vec<u64>,
    /// Errors of the sources; all readable packets were processed.
    pub errors: Vec<SourceError>,
    /// The peak memory of each owner in bytes, summed over workers.
    pub memory: Memory,
    /// Why one worker ran although several were requested.
    pub one_worker: Option<String>,
    /// The handlers of all workers.
    pub handlers: Handlers,
    /// Deliveries that did not fit into the queues of callbacks with their own threads.
    pub lost: u64,
    /// Panics of callbacks and handlers, one entry for each subscription that had any.
    pub callback_panics: Vec<CallbackPanics>,
    /// How often the program was replaced during the run, and the longest time from the request to the new
    /// program's first burst, without its compilation.
    pub swaps: (u64, Duration),
    /// Packets that each worker received, if there are several workers.
    pub shares: Vec<u64>,
    /// The counters of the source, with all its parts.
    pub source: SourceStats,
}

impl Outcome {
    /// Adds the numbers of items delivered to each question.
    pub(crate) fn add_matched(&mut self, matched: &[u64]) {
        self.matched.resize(matched.len(), 0);
        self.matched.iter_mut().zip(matched).for_each(|(sum, n)| *sum += n);
    }
}

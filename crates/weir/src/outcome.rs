//! How a run went, and who is told while it goes on.

use crate::compile::Compiled;
use crate::handlers::Handlers;
use crate::item::{Item, Shape};
use std::time::Duration;
use weir_engine::counters::Counters;
use weir_engine::memory::Memory;
use weir_engine::stage::Stages;
use weir_packet::{SourceError, SourceStats};

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What became of the packets.
    pub counters: Counters,
    /// What passed each stage, summed over threads.
    pub stages: Stages,
    /// Packets given to each question.
    pub matched: Vec<u64>,
    /// Faults of the sources; what could be read was delivered.
    pub errors: Vec<SourceError>,
    /// The most bytes of memory that each owner held, summed over workers.
    pub memory: Memory,
    /// Why one worker ran where several were asked for.
    pub one_worker: Option<String>,
    /// The handlers of all workers.
    pub handlers: Handlers,
    /// What did not fit into the queues of callbacks that run on threads of their own.
    pub lost: u64,
    /// How often the program was replaced while it ran, and how long that took at most: from the request to the new
    /// program's first burst, compiling it left out.
    pub swaps: (u64, Duration),
    /// Packets that each worker was given, where there are several.
    pub shares: Vec<u64>,
    /// What the source counted, all its parts together.
    pub source: SourceStats,
}

/// Whom a run hands out to, and who may change what is asked while it goes on.
pub(crate) trait Changes {
    /// Hands over an item of a question.
    fn item(&mut self, question: usize, item: Item);

    /// Whether nobody asks anything any more: the run ends there. Asked between bursts.
    fn is_over(&self) -> bool {
        false
    }

    /// The program that is to run from now on, with the shapes of its questions; `None`: go on. Asked between bursts.
    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)>;

    /// That program takes over now: all that was found for the questions before it was handed out.
    fn taken_over(&mut self) {}
}

impl Outcome {
    /// Adds what somebody gave to each question.
    pub(crate) fn add_matched(&mut self, matched: &[u64]) {
        self.matched.resize(matched.len(), 0);
        self.matched.iter_mut().zip(matched).for_each(|(sum, n)| *sum += n);
    }
}

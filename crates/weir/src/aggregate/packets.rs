//! Groups the packets of a worker.

use super::shared::Aggregation;
use crate::values::{Part, Place, fill};
use std::sync::Arc;
use weir_aggregate::{Aggregator, Counters, Partial, Record};
use weir_compile::PacketValue;
use weir_packet::PacketMeta;

/// The aggregate of a question, on one worker.
pub(crate) struct PacketAggregator {
    shared: Arc<Aggregation>,
    aggregator: Aggregator,
    keys: Vec<Place>,
    inputs: Vec<Place>,
    key: Vec<u64>,
    input: Vec<u64>,
    /// The step of the windows in which the worker's time was.
    step: Option<i64>,
    /// How often the clock was set.
    restarts: u64,
    /// The clock was set since the worker's time passed.
    is_set: bool,
}

impl PacketAggregator {
    pub fn new(shared: Arc<Aggregation>) -> Self {
        let aggregator = Aggregator::new(Arc::clone(&shared.plan), shared.seed);
        let words = |parts: &[Part]| vec![0; parts.iter().map(|part| part.words).sum()];
        let (key, input) = (words(&shared.keys), words(&shared.inputs));
        Self {
            aggregator,
            keys: vec![],
            inputs: vec![],
            key,
            input,
            step: None,
            restarts: 0,
            is_set: false,
            shared,
        }
    }

    /// Finds the values in the records of a program.
    pub fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        self.keys = self.shared.keys.iter().map(place).collect();
        self.inputs = self.shared.inputs.iter().map(place).collect();
    }

    /// Adds a packet; `outs` is its record.
    #[inline]
    pub fn packet(&mut self, meta: &PacketMeta, outs: &[u64]) {
        let key_present = fill(&self.keys, &mut self.key, outs);
        let inputs_present = fill(&self.inputs, &mut self.input, outs);
        self.aggregator.record(&Record {
            time_ns: meta.time.0,
            order: meta.number,
            key: &self.key,
            key_present,
            inputs: &self.input,
            inputs_present,
        });
    }

    /// The worker's time is `now`, in nanoseconds since 1970: returns the panes that are closed if a step of the windows has passed.
    pub fn pass_time(&mut self, now: i64) -> Option<Vec<Partial>> {
        // Before the first packets are read, the time is not known.
        let step_ns = self.shared.window.filter(|_| now > i64::MIN)?.step_ns;
        let step = now.div_euclid(i64::try_from(step_ns).unwrap_or(i64::MAX));
        if std::mem::take(&mut self.is_set) {
            (self.step, self.restarts) = (Some(step), self.restarts + 1);
            return Some(self.aggregator.restart(now));
        }
        (self.step.replace(step) != Some(step)).then(|| self.aggregator.advance(now))
    }

    /// The machine's clock was set: windows begin anew with the next time.
    pub fn step_clock(&mut self) {
        self.is_set = true;
    }

    /// How often windows began anew.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The panes so far.
    pub fn finish(&mut self) -> Vec<Partial> {
        self.aggregator.finish()
    }

    /// What the bounds discarded so far.
    pub fn counters(&self) -> Counters {
        self.aggregator.counters()
    }
}

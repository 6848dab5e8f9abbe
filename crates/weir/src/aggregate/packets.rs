//! Aggregates of packets as pipelines: the part of a worker.

use super::shared::Aggregation;
use crate::ask::question::Question;
use crate::pipeline::{Feed, PipelineWorker, Times, packet_question};
use crate::rows::values::{Part, Place, fill, words_of};
use std::sync::Arc;
use weir_aggregate::{Aggregator, Counters, Partial, Record};
use weir_compile::PacketValue;
use weir_packet::PacketMeta;
use weir_pipeline::{Each, Operator, Port, Signal};

/// What a worker reports of an aggregate.
pub(super) enum Report {
    /// A closed pane.
    Pane(Partial),
    /// What the worker's bounds discarded so far.
    Counters(Counters),
}

/// Makes the records of packets.
struct Records {
    shared: Arc<Aggregation>,
    keys: Vec<Place>,
    inputs: Vec<Place>,
    key: Vec<u64>,
    input: Vec<u64>,
}

impl Feed for Records {
    type Item<'a> = Record<'a>;

    fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        self.keys = self.shared.keys.iter().map(place).collect();
        self.inputs = self.shared.inputs.iter().map(place).collect();
    }

    #[inline]
    fn item<'a>(&'a mut self, meta: &PacketMeta, outs: &[u64]) -> Option<Record<'a>> {
        let mut key_present = fill(&self.keys, &mut self.key, outs);
        if let Some(ends) = &self.shared.ends {
            ends.order(&mut self.key, &mut key_present);
        }
        let inputs_present = fill(&self.inputs, &mut self.input, outs);
        Some(Record {
            time_ns: meta.time.0,
            order: meta.number,
            key: &self.key,
            key_present,
            inputs: &self.input,
            inputs_present,
        })
    }
}

/// An aggregator that also reports its counters.
struct Counted(Aggregator);

impl Operator<Record<'_>> for Counted {
    type Out = Report;

    #[inline]
    fn take(&mut self, record: Record<'_>, _: &mut impl Port<Report>) {
        self.0.record(&record);
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Report>) {
        self.0.signal(signal, &mut Each(|pane| out.put(Report::Pane(pane))));
        out.put(Report::Counters(self.0.counters()));
        out.signal(signal);
    }
}

impl Aggregation {
    /// The question for an aggregate of the packets that match a filter.
    ///
    /// # Errors
    /// If the aggregate uses more values of packets than a program has room for.
    pub fn question(&self, filter: &str) -> Result<Question, String> {
        let shared = Arc::new(self.clone());
        let times = self.window.map_or(Times::End, |window| Times::Ticks(window.step_ns));
        let make = move || {
            let aggregator = Counted(Aggregator::new(Arc::clone(&shared.plan), shared.seed));
            let (key, input) = (vec![0; words_of(&shared.keys)], vec![0; words_of(&shared.inputs)]);
            let feed = Records { shared: Arc::clone(&shared), keys: vec![], inputs: vec![], key, input };
            Box::new(PipelineWorker::new(feed, aggregator, times, None)) as _
        };
        packet_question(filter, self.keys.iter().chain(&self.inputs), make)
    }
}

//! The question for an aggregate of packets.

use super::packets::PacketAggregator;
use super::shared::Aggregation;
use crate::compile::Ask;
use crate::item::Shape;
use crate::question::Question;
use crate::question_worker::QuestionWorker;
use crate::values::Source;
use std::sync::Arc;
use weir_compile::{Need, ValueList};
use weir_engine::plan::Want;

impl Aggregation {
    /// The question for an aggregate of the packets that match a filter.
    ///
    /// # Errors
    /// If the aggregate uses more values of packets than a program has room for.
    pub fn question(&self, filter: &str) -> Result<Question, String> {
        let mut values = ValueList::default();
        for part in self.keys.iter().chain(&self.inputs) {
            if let Source::Packet(of) = part.source
                && !values.add(of)
            {
                return Err(format!("an aggregate uses at most {} fields of packets", ValueList::MAX));
            }
        }
        let need = Need { packets: true, at_once: true, values, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Packets };
        let shared = Arc::new(self.clone());
        let make = move || QuestionWorker::Aggregate(Box::new(PacketAggregator::new(Arc::clone(&shared))));
        Ok(Question { make: Some(Arc::new(make)), ..Question::new(ask, Shape::default()) })
    }
}

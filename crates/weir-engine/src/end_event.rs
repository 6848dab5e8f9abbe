//! Events that report flows at their ends, or at intervals. No packet causes them and no code is generated
//! for them: their columns are read from the flow's record.

use crate::flow::{FlowView, NumberPlace};
use std::sync::Arc;
use weir_ir::graph::Event;

/// An event that reports every flow of a table.
#[derive(Debug, Clone)]
pub struct EndEvent {
    /// Its number in the graph.
    pub event: Event,
    /// Flows are reported in this interval, nanoseconds; `None`: at their ends.
    pub interval_ns: Option<i64>,
    /// Its columns.
    pub columns: Vec<EndColumn>,
}

/// A column: a number or a state of the flow's record.
#[derive(Debug, Clone)]
pub struct EndColumn {
    /// The place of the number; `None` if nothing sets the variable, whose value is then 0.
    pub place: Option<NumberPlace>,
    /// The number of the responder's side, not of the originator's.
    pub responder: bool,
    /// 0 means that there is no value.
    pub absent_if_zero: bool,
    /// The names that the numbers stand for; empty for numbers.
    pub names: Arc<[String]>,
}

/// The value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndValue<'a> {
    /// There is none.
    Absent,
    /// A number.
    Number(u64),
    /// The name that a number stands for.
    Name(&'a str),
}

impl EndColumn {
    /// The value in a flow's record.
    pub fn read(&self, flow: &FlowView<'_>) -> EndValue<'_> {
        match self.place.map_or(0, |place| flow.number_at(place, self.responder)) {
            0 if self.absent_if_zero => EndValue::Absent,
            number if self.names.is_empty() => EndValue::Number(number),
            number => self.names.get(number as usize).map_or(EndValue::Absent, |name| EndValue::Name(name)),
        }
    }
}

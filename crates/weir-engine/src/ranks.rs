//! The order in which flows of different priorities end if memory is short: flows of low priority first.

use crate::matcher::Matcher;
use crate::sets::Terms;
use crate::stream::{FlowStreams, Priorities};
use crate::tables::TableLayout;
use weir_packet::Direction;

/// The ranks of flows: numbers from 0, in the order of the priorities in use. A flow has the highest priority
/// of the questions about streams that receive it; a flow that no such question receives has the lowest.
pub(crate) struct Ranks<'a> {
    matcher: &'a Matcher,
    priorities: Priorities,
}

impl<'a> Ranks<'a> {
    pub fn new(matcher: &'a Matcher, priorities: Priorities) -> Self {
        Self { matcher, priorities }
    }

    /// The rank of a flow with this record and these streams.
    pub fn of(&self, layout: &TableLayout, data: &[u8], streams: Option<&FlowStreams>) -> usize {
        if self.priorities.count() == 1 {
            return 0;
        }
        let terms = layout.terms(&self.matcher.plan, data);
        let otherwise = self.matcher.priority(Terms::of(&terms));
        let of_side = |side| streams.map_or(otherwise, |streams| streams.rank(side, otherwise).0);
        let priority = Direction::BOTH.into_iter().map(of_side).max().unwrap_or(otherwise);
        self.priorities.rank(priority)
    }
}

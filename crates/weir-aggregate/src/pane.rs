//! The groups of one pane.

use crate::context::Context;
use crate::plan::Plan;
use crate::record::Record;
use crate::side::Sides;
use crate::state;
use crate::table::{OTHER, Place, Table};

/// The groups of one pane, or of a window.
#[derive(Debug)]
pub(crate) struct Pane {
    pub table: Table,
    pub sides: Sides,
    /// Time of the earliest and of the latest record.
    pub times: (i64, i64),
    /// Bytes that the pane has taken from its budget.
    bytes: u64,
}

impl Pane {
    pub(crate) fn new(plan: &Plan, context: &mut Context) -> Self {
        let before = context.budget.used();
        let cells = plan.cells();
        let table = Table::new(plan.params().key_words, &cells.empty, context);
        Self {
            table,
            sides: Sides::default(),
            times: (i64::MAX, i64::MIN),
            bytes: context.budget.used() - before,
        }
    }

    /// Adds a record to its group.
    #[inline]
    pub(crate) fn add(&mut self, plan: &Plan, record: &Record<'_>, context: &mut Context) {
        let before = context.budget.used();
        self.times = (self.times.0.min(record.time_ns), self.times.1.max(record.time_ns));
        let cells = plan.cells();
        let place = self.table.find_or_insert(record.key, record.key_present, &cells.empty, context);
        let row = match place {
            Place::Row(row) => row,
            Place::NoRoom => {
                context.counters.in_other += 1;
                OTHER
            }
        };
        let present = plan.present(record.inputs, record.inputs_present);
        state::add(&cells.cells, self.table.state_mut(row), record, present, &mut self.sides, context);
        self.account(before, context);
    }

    /// Adds the groups of another pane.
    pub(crate) fn merge(&mut self, plan: &Plan, from: &Self, context: &mut Context) {
        let before = context.budget.used();
        self.times = (self.times.0.min(from.times.0), self.times.1.max(from.times.1));
        let cells = plan.cells();
        for row in 0..from.table.len() {
            let theirs = from.table.state(row);
            let (key, present) = (from.table.key(row), from.table.key_present(row));
            let place = match row {
                OTHER => Place::Row(OTHER),
                _ => self.table.find_or_insert(key, present, &cells.empty, context),
            };
            let ours = match place {
                Place::Row(row) => row,
                Place::NoRoom => {
                    context.counters.in_other += records(theirs);
                    OTHER
                }
            };
            let ours = self.table.state_mut(ours);
            state::merge(&cells.cells, ours, theirs, &mut self.sides, &from.sides, context);
        }
        self.account(before, context);
    }

    /// The number of records of all groups.
    pub(crate) fn records(&self) -> u64 {
        (0..self.table.len()).map(|row| records(self.table.state(row))).sum()
    }

    /// Moves the pane's memory out of a budget.
    pub(crate) fn leave(&self, context: &mut Context) {
        context.budget.give_back(self.bytes);
    }

    /// Moves the pane's memory into a budget, even beyond its bound.
    pub(crate) fn enter(&self, context: &mut Context) {
        context.budget.force(self.bytes);
    }

    fn account(&mut self, before: u64, context: &Context) {
        self.bytes = self.bytes.wrapping_add(context.budget.used()).wrapping_sub(before);
    }
}

/// The number of records of a group: the first cell.
pub(crate) fn records(state: &[u64]) -> u64 {
    state[0]
}

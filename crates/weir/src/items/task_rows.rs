//! The rows of a task.

use super::yields::{RowPlace, Yields};
use weir_packet::RowWriter;

/// Takes the rows of a task.
#[derive(Debug)]
pub struct TaskRows<'a> {
    place: RowPlace,
    yields: &'a mut Yields,
    columns: usize,
}

impl<'a> TaskRows<'a> {
    pub(crate) fn of(place: RowPlace, yields: &'a mut Yields, columns: usize) -> Self {
        Self { place, yields, columns }
    }

    /// Begins a row.
    pub fn add(&mut self) -> RowWriter<'_> {
        self.yields.add_row(self.place, self.columns)
    }
}

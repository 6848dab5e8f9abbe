//! The rows of a question, as its view shows them.

use crate::rows::make::Rows;
use crate::rows::view::View;
use std::io;
use std::ops::Range;
use weir::packet::{Batch, Column};
use weir::{Item, RunEnd};

/// Rows that are converted together.
const ROWS_TOGETHER: usize = 64;

/// Makes rows of items, and shows them through a view. The command's outputs and the readers of other
/// programs take their rows here.
pub struct ShownRows {
    pub rows: Box<dyn Rows>,
    pub view: View,
    /// The index of the question whose DNS answers name hosts, and the columns of its rows.
    pub naming: Option<(usize, Vec<Column>)>,
}

impl ShownRows {
    /// Takes an item that only names hosts. Returns whether the item is one.
    pub fn learn(&mut self, question: usize, item: &Item<'_>) -> bool {
        let (Some((naming, columns)), Item::Rows(rows)) = (&self.naming, item) else { return false };
        if *naming != question {
            return false;
        }
        rows.iter().for_each(|row| self.view.learn(columns, row));
        true
    }

    /// Adds what is shown of an item's rows to `to`, and their number to `count`. `now`, of a live run:
    /// nanoseconds since 1970.
    ///
    /// # Errors
    /// As [`Rows::item`].
    pub fn take(
        &mut self,
        item: &Item<'_>,
        now: Option<i64>,
        count: &mut u64,
        to: &mut dyn AddRows,
    ) -> io::Result<()> {
        let view = &mut self.view;
        let mut keep = keep_up_to(view.limit, count, to);
        let mut rows = |batch: &Batch, range: Range<usize>| view.rows(batch, range, &mut keep);
        match item {
            Item::Pause => self.rows.pause(now, &mut rows),
            item => self.rows.item(item, &mut rows),
        }
    }

    /// As [`take`](Self::take), for the last rows; rows that are sorted come after them, from
    /// [`View::take_kept`].
    ///
    /// # Errors
    /// As [`Rows::end`].
    pub fn end(&mut self, end: Option<&RunEnd<'_>>, count: &mut u64, to: &mut dyn AddRows) -> io::Result<()> {
        let view = &mut self.view;
        let mut keep = keep_up_to(view.limit, count, to);
        self.rows.end(end, &mut |batch, rows| view.rows(batch, rows, &mut keep))
    }

    /// Whether no further row will be shown, if `count` rows have been.
    pub fn is_enough(&self, count: u64) -> bool {
        count >= self.view.limit && !self.view.is_sorted() || self.rows.is_enough()
    }
}

/// Passes on an item; many rows in several parts, so that a batch for an output does not become much larger
/// than it should.
pub fn each_part(item: Item<'_>, mut take: impl FnMut(Item<'_>)) {
    let Item::Rows(rows) = item else { return take(item) };
    for first in rows.range.clone().step_by(ROWS_TOGETHER) {
        let range = first..rows.range.end.min(first + ROWS_TOGETHER);
        take(Item::Rows(weir::Rows { range, ..rows }));
    }
}

/// Receives rows on their way to an output. One item may have any number of rows, so whoever implements this
/// passes rows on while they come, and keeps no more than a batch.
pub trait AddRows {
    /// Takes these rows, and of them these columns, or all.
    ///
    /// # Errors
    /// The output has failed.
    fn add(&mut self, batch: &Batch, rows: Range<usize>, columns: Option<&[usize]>) -> io::Result<()>;
}

/// Copies rows to `to`, until there are `limit`; `count` is their number.
fn keep_up_to(
    limit: u64,
    count: &mut u64,
    to: &mut dyn AddRows,
) -> impl FnMut(&Batch, Range<usize>, Option<&[usize]>) -> io::Result<()> {
    move |batch, rows, columns| {
        let room = usize::try_from(limit.saturating_sub(*count)).unwrap_or(usize::MAX);
        let taken = rows.start..rows.end.min(rows.start.saturating_add(room));
        *count += taken.len() as u64;
        taken
            .clone()
            .step_by(ROWS_TOGETHER)
            .try_for_each(|first| to.add(batch, first..taken.end.min(first + ROWS_TOGETHER), columns))
    }
}

//! Turns the items of a question into rows.

use crate::messages::failure::Failure;
use std::io;
use std::ops::Range;
use weir::packet::{Batch, Value};
use weir::{Item, RunEnd};

/// Makes rows of the items of a question.
pub trait Rows: Send {
    /// Passes the rows of an item to `rows`. An error of `rows` ends the question.
    ///
    /// # Errors
    /// The error of `rows`.
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()>;

    /// Passes the rows that wait for further items: no packet waits to be read. `now`, of a live run: all
    /// packets before this time, in nanoseconds since 1970, have been read.
    ///
    /// # Errors
    /// The error of `rows`.
    fn pause(&mut self, _now: Option<i64>, _rows: WriteRows<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Passes the final rows. `None`: the question was removed before the end of the run.
    ///
    /// # Errors
    /// The error of `rows`.
    fn end(&mut self, _end: Option<&RunEnd<'_>>, _rows: WriteRows<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Whether no further row will come: the run may end.
    fn is_enough(&self) -> bool {
        false
    }

    /// The first failure other than an error of `rows`.
    fn fault(&mut self) -> Option<Failure> {
        None
    }
}

/// Writes rows of a batch.
pub type WriteRows<'a> = &'a mut dyn FnMut(&Batch, Range<usize>) -> io::Result<()>;

/// Writes a row of these values.
///
/// # Errors
/// The error of `rows`.
pub fn write_row(rows: WriteRows<'_>, values: &[Value<'_>]) -> io::Result<()> {
    let mut batch = Batch::default();
    batch.push(values);
    rows(&batch, 0..1)
}

/// Passes on the rows that the engine has made.
pub fn made_rows(item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
    match item {
        Item::Rows(made) => rows(made.batch, made.range.clone()),
        _ => Ok(()),
    }
}

impl<F: FnMut(&Item<'_>, WriteRows<'_>) -> io::Result<()> + Send> Rows for F {
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
        self(item, rows)
    }
}

//! Turns the items of a question into rows.

use crate::failure::Failure;
use std::io;
use weir::packet::Value;
use weir::{Item, RunEnd};

/// Makes rows of the items of a question.
pub trait Rows: Send {
    /// Passes the rows of an item to `row`. An error of `row` ends the question.
    ///
    /// # Errors
    /// The error of `row`.
    fn item(&mut self, item: &Item, row: WriteRow<'_>) -> io::Result<()>;

    /// Passes the rows that wait for further items: no packet waits to be read.
    ///
    /// # Errors
    /// The error of `row`.
    fn pause(&mut self, _row: WriteRow<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Passes the final rows. `None`: the question was removed before the end of the run.
    ///
    /// # Errors
    /// The error of `row`.
    fn end(&mut self, _end: Option<&RunEnd<'_>>, _row: WriteRow<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Whether no further row will come: the run may end.
    fn is_enough(&self) -> bool {
        false
    }

    /// The first failure other than an error of `row`.
    fn fault(&mut self) -> Option<Failure> {
        None
    }
}

/// Writes a row.
pub type WriteRow<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> io::Result<()>;

impl<F: FnMut(&Item, WriteRow<'_>) -> io::Result<()> + Send> Rows for F {
    fn item(&mut self, item: &Item, row: WriteRow<'_>) -> io::Result<()> {
        self(item, row)
    }
}

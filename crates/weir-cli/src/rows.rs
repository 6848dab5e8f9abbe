//! How the items of a question become rows.

use crate::failure::Failure;
use std::io;
use weir::packet::Value;
use weir::{Item, RunEnd};

/// Makes rows of the items of a question.
pub trait Rows: Send {
    /// Hands the rows of an item to `row`, whose error ends the question.
    ///
    /// # Errors
    /// What `row` answers.
    fn item(&mut self, item: &Item, row: WriteRow<'_>) -> io::Result<()>;

    /// Hands over the rows that come last. `None`: the question was taken away before the run was over.
    ///
    /// # Errors
    /// What `row` answers.
    fn end(&mut self, _end: Option<&RunEnd<'_>>, _row: WriteRow<'_>) -> io::Result<()> {
        Ok(())
    }

    /// The first thing that went wrong beside the output of rows.
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

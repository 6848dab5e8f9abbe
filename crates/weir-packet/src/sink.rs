//! The trait of sinks of rows.

use crate::{Batch, Column};
use std::io;
use std::ops::Range;

/// A sink of rows: a table on a terminal, JSON lines, CSV …
///
/// A sink receives its columns once, then batches of rows with the same number of cells in the same order,
/// then the end.
pub trait RowSink {
    /// Starts the output with these columns.
    ///
    /// # Errors
    /// Those of the underlying writer, including a broken pipe, which the caller may ignore.
    fn begin(&mut self, columns: &[Column]) -> io::Result<()>;

    /// Writes these rows of a batch, which has as many columns as there are.
    ///
    /// # Errors
    /// As [`begin`](RowSink::begin).
    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()>;

    /// Writes all rows of a batch.
    ///
    /// # Errors
    /// As [`begin`](RowSink::begin).
    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        self.rows(batch, 0..batch.rows())
    }

    /// Writes buffered rows, as far as the format can be read before its end, because a reader may be waiting
    /// for them. Costs at least one system call.
    ///
    /// # Errors
    /// As [`begin`](RowSink::begin).
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the output and flushes it.
    ///
    /// # Errors
    /// As [`begin`](RowSink::begin).
    fn end(&mut self) -> io::Result<()>;
}

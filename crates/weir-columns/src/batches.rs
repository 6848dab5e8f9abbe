//! Batches in memory, for readers in the same process.

use crate::arrow::to_io;
use crate::batch::{Arrays, about};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::fmt;
use std::io;
use std::ops::Range;
use weir_packet::{Batch, Column};

/// Collects rows as batches of Arrow's arrays.
///
/// Text columns are no dictionaries: readers in memory compare and join columns of several batches, whose
/// dictionaries would differ.
pub struct ArrowBatches {
    arrays: Arrays,
}

impl fmt::Debug for ArrowBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowBatches").field("schema", self.arrays.schema()).finish_non_exhaustive()
    }
}

impl ArrowBatches {
    /// Batches with these columns; `log` is the name of the log, or empty. The schema's metadata has the
    /// meaning of each column.
    pub fn new(columns: &[Column], log: &str) -> Self {
        Self { arrays: Arrays::new(columns, about(columns, log).collect(), false) }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.arrays.schema().clone()
    }

    /// Adds rows. Each time that a batch is full, `next` takes the batch and returns whether more are wanted:
    /// if not, the rows that remain are left out, and the result is `false`.
    ///
    /// # Errors
    /// If a value does not fit its column's type, which is a bug in the code that made the row.
    pub fn push(
        &mut self,
        batch: &Batch,
        mut rows: Range<usize>,
        next: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> io::Result<bool> {
        while self.arrays.push(batch, &mut rows)? {
            if let Some(full) = self.take()?
                && !next(full)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes and returns the rows so far, if there are any.
    ///
    /// # Errors
    /// The arrays do not fit together, which is a bug in this crate.
    pub fn take(&mut self) -> io::Result<Option<RecordBatch>> {
        self.arrays.take().map_err(to_io)
    }
}

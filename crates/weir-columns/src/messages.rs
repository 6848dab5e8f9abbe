//! Batches as messages: each is a complete Arrow stream (schema, batch, end), which can be read without the
//! others.

use crate::arrow::to_io;
use crate::batch::{Arrays, about};
use crate::no_columns;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use std::fmt;
use std::io;
use std::iter::{once, repeat_n};
use std::ops::Range;
use std::sync::Arc;
use weir_packet::{Batch, Column, RowSink};

/// Takes a message and the number of its rows.
pub type TakeMessage = Box<dyn FnMut(u32, Vec<u8>) + Send>;

/// Makes messages of rows. A column in front of the others has the same text in all rows.
///
/// Text columns are no dictionaries: each would have all values of its batch, also in messages that have a
/// part of the batch.
pub struct ArrowMessages {
    path: String,
    /// The name and the text of the first column.
    first: (String, String),
    bytes_max: usize,
    /// `None` after the end.
    take: Option<TakeMessage>,
    arrays: Option<Arrays>,
}

impl fmt::Debug for ArrowMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowMessages").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ArrowMessages {
    /// Messages of at most `bytes_max` bytes, unless a single row has more; `path` is the name of the log, or
    /// empty. `first`: the name and the text of the first column.
    pub fn new(path: &str, first: (&str, &str), bytes_max: usize, take: TakeMessage) -> Self {
        let first = (first.0.to_string(), first.1.to_string());
        Self { path: path.to_string(), first, bytes_max, take: Some(take), arrays: None }
    }

    /// Makes messages of the rows so far.
    fn emit(&mut self) -> io::Result<()> {
        let arrays = self.arrays.as_mut().ok_or_else(no_columns)?;
        let Some(batch) = arrays.take().map_err(to_io)? else { return Ok(()) };
        let batch = self.with_first(&batch)?;
        let take = self.take.as_mut().ok_or_else(no_columns)?;
        // Parts that are too large are halved; the first part is on top.
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            let rows = part.num_rows();
            let message = encode(&part)?;
            if message.len() > self.bytes_max && rows > 1 {
                parts.extend([part.slice(rows / 2, rows - rows / 2), part.slice(0, rows / 2)]);
                continue;
            }
            take(u32::try_from(rows).unwrap_or(u32::MAX), message);
        }
        Ok(())
    }

    /// The batch with the first column.
    fn with_first(&self, batch: &RecordBatch) -> io::Result<RecordBatch> {
        let (name, text) = &self.first;
        let first = StringArray::from_iter_values(repeat_n(text, batch.num_rows()));
        let old = batch.schema();
        let fields =
            once(Arc::new(Field::new(name, DataType::Utf8, true))).chain(old.fields().iter().cloned());
        let schema = Schema::new(fields.collect::<Vec<_>>()).with_metadata(old.metadata().clone());
        let columns = once(Arc::new(first) as ArrayRef).chain(batch.columns().iter().cloned());
        RecordBatch::try_new(Arc::new(schema), columns.collect()).map_err(to_io)
    }
}

/// A stream of one batch.
fn encode(batch: &RecordBatch) -> io::Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(vec![], batch.schema_ref()).map_err(to_io)?;
    writer.write(batch).map_err(to_io)?;
    writer.into_inner().map_err(to_io)
}

impl RowSink for ArrowMessages {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        // Descriptions of columns would be in each message.
        let about = about(&[], &self.path).collect();
        self.arrays = Some(Arrays::new(columns, about, false).with_bytes_max(self.bytes_max));
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, mut rows: Range<usize>) -> io::Result<()> {
        while self.arrays.as_mut().ok_or_else(no_columns)?.push(batch, &mut rows)? {
            self.emit()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.emit()
    }

    fn end(&mut self) -> io::Result<()> {
        let emitted = self.emit();
        self.take = None;
        emitted
    }
}

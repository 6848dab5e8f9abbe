//! Arrow's stream format (<https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format>):
//! consecutive batches of columns in their in-memory layout, uncompressed. A reader needs only the pipe.

use crate::batch::{Arrays, about};
use crate::{Out, no_columns};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use std::io::{self, Write};
use std::ops::Range;
use weir_packet::{Column, RowSink};

/// Writes an Arrow stream.
pub struct ArrowSink {
    /// The output, until the columns are known.
    out: Option<Out>,
    path: String,
    state: Option<(Arrays, StreamWriter<Blocks>)>,
}

/// Collects a batch, so that it is written as one block: a file grows by whole batches, although the disk may
/// be full.
struct Blocks {
    out: Out,
    bytes: Vec<u8>,
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.bytes);
        // Also after an error, so that the batch is not written twice.
        self.bytes.clear();
        written?;
        self.out.flush()
    }
}

impl ArrowSink {
    /// Writes to `out`; `path` is the name of the log, or empty.
    pub fn new(out: Out, path: &str) -> Self {
        Self { out: Some(out), path: path.to_string(), state: None }
    }
}

impl RowSink for ArrowSink {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let out = self.out.take().ok_or_else(no_columns)?;
        let batch = Arrays::new(columns, about(columns, &self.path).collect(), true);
        let writer = StreamWriter::try_new(Blocks { out, bytes: vec![] }, batch.schema()).map_err(to_io)?;
        self.state = Some((batch, writer));
        Ok(())
    }

    fn rows(&mut self, batch: &weir_packet::Batch, mut rows: Range<usize>) -> io::Result<()> {
        let (arrays, writer) = self.state.as_mut().ok_or_else(no_columns)?;
        while arrays.push(batch, &mut rows)? {
            write(arrays, writer)?;
            // Whole batches are readable although the process is killed.
            writer.flush().map_err(to_io)?;
        }
        Ok(())
    }

    /// Writes the pending rows as a batch of their own.
    fn flush(&mut self) -> io::Result<()> {
        let (batch, writer) = self.state.as_mut().ok_or_else(no_columns)?;
        write(batch, writer)?;
        writer.flush().map_err(to_io)
    }

    fn end(&mut self) -> io::Result<()> {
        let (mut batch, mut writer) = self.state.take().ok_or_else(no_columns)?;
        write(&mut batch, &mut writer)?;
        // `finish` also flushes `out`.
        writer.finish().map_err(to_io)
    }
}

fn write(batch: &mut Arrays, writer: &mut StreamWriter<Blocks>) -> io::Result<()> {
    match batch.take().map_err(to_io)? {
        Some(batch) => writer.write(&batch).map_err(to_io),
        None => Ok(()),
    }
}

/// The underlying writer's error, if there is one, so that a broken pipe keeps its kind.
pub fn to_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

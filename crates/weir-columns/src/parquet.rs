//! Parquet (<https://parquet.apache.org/docs/file-format/>): row groups of typed columns, with dictionaries, zstd and
//! the least and greatest values of each.
//!
//! It needs no seeking, so that it may go into a pipe; but it is whole with its footer alone, which comes at the end.
//! The footer has some hundred bytes for each column of each row group, which are held until then: they are all that
//! grows with the rows.

use crate::batch::{Batch, about};
use crate::{Out, no_columns};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::collections::HashMap;
use std::io;
use weir_packet::{Column, Sink, Value};

/// Rows of a row group.
pub const GROUP_ROWS_MAX: usize = 1 << 16;

/// Bytes of a row group as it will be written, about; it is held in memory until then. Of partitions several are.
pub const GROUP_BYTES_MAX: usize = 16 << 20;

/// Level 1 of zstd: a dictionary leaves it little to gain.
const ZSTD_LEVEL: i32 = 1;

/// Writes Parquet.
pub struct ParquetSink {
    /// Until the columns are known.
    out: Option<Out>,
    path: String,
    state: Option<(Batch, ArrowWriter<Out>)>,
}

impl ParquetSink {
    /// Writes to `out`; `path` is the name of the log, or empty.
    pub fn new(out: Out, path: &str) -> Self {
        Self { out: Some(out), path: path.to_string(), state: None }
    }

    fn properties(columns: &[Column], path: &str) -> io::Result<WriterProperties> {
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(to_io)?;
        let about = about(columns, path).map(|(key, doc)| KeyValue::new(key, Some(doc)));
        Ok(WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(true)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
            .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
            .set_key_value_metadata(Some(about.collect()))
            .build())
    }
}

impl Sink for ParquetSink {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let out = self.out.take().ok_or_else(no_columns)?;
        // The file's own dictionaries do what Arrow's would, and readers see text.
        let batch = Batch::new(columns, HashMap::new(), false);
        let properties = Self::properties(columns, &self.path)?;
        // Parquet's types say all; Arrow's schema would be some kilobytes more of every file.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer =
            ArrowWriter::try_new_with_options(out, batch.schema().clone(), options).map_err(to_io)?;
        self.state = Some((batch, writer));
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let (batch, writer) = self.state.as_mut().ok_or_else(no_columns)?;
        if batch.push(values)? {
            write(batch, writer)?;
        }
        Ok(())
    }

    /// Nobody reads such a file before its end: nothing is written for that.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let (mut batch, mut writer) = self.state.take().ok_or_else(no_columns)?;
        write(&mut batch, &mut writer)?;
        // It flushes `out`, too. (`into_inner` would make text of an error.)
        writer.finish().map_err(to_io).map(drop)
    }
}

fn write(batch: &mut Batch, writer: &mut ArrowWriter<Out>) -> io::Result<()> {
    match batch.take().map_err(io::Error::other)? {
        Some(batch) => writer.write(&batch).map_err(to_io),
        None => Ok(()),
    }
}

/// The error of the writer beneath, where it is one: a broken pipe stays one.
fn to_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

//! Parquet (<https://parquet.apache.org/docs/file-format/>): row groups of typed columns, with dictionaries,
//! zstd compression, and minimum and maximum of each column.
//!
//! Writing needs no seek, so the output may be a pipe. The file is valid only with its footer, which is
//! written at the end. The footer needs about a hundred bytes per column and row group, kept in memory until
//! then; no other memory grows with the number of rows.

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
use weir_packet::{Column, RowSink, Value};

/// Maximum number of rows of a row group.
pub const GROUP_ROWS_MAX: usize = 1 << 16;

/// Approximate maximum encoded size of a row group in bytes. It is kept in memory until written, once per
/// open partition.
pub const GROUP_BYTES_MAX: usize = 16 << 20;

/// zstd level 1: after dictionary encoding, higher levels gain little.
const ZSTD_LEVEL: i32 = 1;

/// Writes Parquet.
pub struct ParquetSink {
    /// The output, until the columns are known.
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

impl RowSink for ParquetSink {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        let out = self.out.take().ok_or_else(no_columns)?;
        // Parquet has its own dictionaries, and readers then see plain text columns.
        let batch = Batch::new(columns, HashMap::new(), false);
        let properties = Self::properties(columns, &self.path)?;
        // Parquet's types suffice; the Arrow schema would add some kilobytes to every file.
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

    /// A Parquet file is readable only at its end, so a flush writes nothing.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let (mut batch, mut writer) = self.state.take().ok_or_else(no_columns)?;
        write(&mut batch, &mut writer)?;
        // `finish` also flushes `out`. (`into_inner` would convert an error to text.)
        writer.finish().map_err(to_io).map(drop)
    }
}

fn write(batch: &mut Batch, writer: &mut ArrowWriter<Out>) -> io::Result<()> {
    match batch.take().map_err(io::Error::other)? {
        Some(batch) => writer.write(&batch).map_err(to_io),
        None => Ok(()),
    }
}

/// The underlying writer's error, if there is one, so that a broken pipe keeps its kind.
fn to_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

//! Parquet (<https://parquet.apache.org/docs/file-format/>): row groups of typed columns, with dictionaries,
//! zstd compression, and minimum and maximum of each column.
//!
//! A stream needs no seek, so the output may be a pipe. It is valid only with its footer, which is written at
//! the end. A file ends with a footer of the complete row groups at all times (`footed_file.rs`), so that
//! they are readable although the process was killed. The footer needs about a hundred bytes per column and
//! row group, kept in memory; no other memory grows with the number of rows.

use crate::batch::{Arrays, about};
use crate::footed_file::FootedFile;
use crate::{Out, no_columns};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::SchemaDescPtr;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use weir_packet::{Batch, Column, RowSink};

/// Maximum number of rows of a row group.
pub const GROUP_ROWS_MAX: usize = 1 << 16;

/// Approximate maximum encoded size of a row group in bytes. It is kept in memory until written, once per
/// open partition.
pub const GROUP_BYTES_MAX: usize = 16 << 20;

/// Rows that a reader waits for are in a complete row group after this time, although the group is small.
const GROUP_AGE_MAX: Duration = Duration::from_mins(10);

/// The same once a file has [`GROUPS_MANY`] row groups: each makes the footer larger, and the footer is
/// written again with each.
const LATER_GROUP_AGE_MAX: Duration = Duration::from_hours(1);

/// Row groups of a file that grows by time for a day.
const GROUPS_MANY: usize = 144;

/// zstd level 1: after dictionary encoding, higher levels gain little.
const ZSTD_LEVEL: i32 = 1;

/// Writes Parquet.
pub struct ParquetSink {
    /// The output, until the columns are known.
    place: Option<Place>,
    path: String,
    state: Option<State>,
}

/// Where the bytes go.
enum Place {
    Stream(Out),
    File(FootedFile),
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Place::Stream(out) => out.write(bytes),
            Place::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Place::Stream(out) => out.flush(),
            Place::File(file) => file.flush(),
        }
    }
}

/// The state between columns and end.
struct State {
    batch: Arrays,
    writer: ArrowWriter<Place>,
    properties: WriterPropertiesPtr,
    schema: SchemaDescPtr,
    /// Number of row groups that a footer in the file describes.
    described_groups: usize,
    /// When the first row of the incomplete row group came.
    waits_since: Option<Instant>,
}

impl State {
    fn new(place: Place, columns: &[Column], path: &str) -> io::Result<Self> {
        // Parquet has its own dictionaries, and readers then see plain text columns.
        let batch = Arrays::new(columns, HashMap::new(), false);
        let arrow: SchemaRef = batch.schema().clone();
        let properties = ParquetSink::properties(columns, path)?;
        // Parquet's types suffice; the Arrow schema would add some kilobytes to every file.
        let options =
            ArrowWriterOptions::new().with_properties(properties.clone()).with_skip_arrow_metadata(true);
        let schema = Arc::new(ArrowSchemaConverter::new().convert(&arrow).map_err(to_io)?);
        let writer = ArrowWriter::try_new_with_options(place, arrow, options).map_err(to_io)?;
        Ok(Self {
            batch,
            writer,
            properties: Arc::new(properties),
            schema,
            described_groups: 0,
            waits_since: None,
        })
    }

    /// Writes the collected rows.
    fn write(&mut self) -> io::Result<()> {
        match self.batch.take().map_err(io::Error::other)? {
            Some(batch) => self.writer.write(&batch).map_err(to_io),
            None => Ok(()),
        }
    }

    /// Completes a row group whose first row has waited for this time, so that a killed process loses no
    /// more.
    fn complete_older_than(&mut self, age: Duration) -> io::Result<()> {
        let is_old = self.waits_since.is_some_and(|since| since.elapsed() >= age);
        if !is_old || matches!(self.writer.inner(), Place::Stream(_)) {
            return Ok(());
        }
        self.waits_since = None;
        self.write()?;
        self.writer.flush().map_err(to_io)?;
        self.place_footer(true)
    }

    /// Ends the file with a footer of the row groups so far, unless it has one. `is_due`: although the data
    /// is smaller than the footer.
    fn place_footer(&mut self, is_due: bool) -> io::Result<()> {
        let groups = self.writer.flushed_row_groups().len();
        if groups == self.described_groups && !is_due || matches!(self.writer.inner(), Place::Stream(_)) {
            return Ok(());
        }
        self.writer.sync()?;
        let Place::File(file) = self.writer.inner() else { return Ok(()) };
        if is_due || file.wants_footer() {
            let footer = self.footer()?;
            if let Place::File(file) = self.writer.inner_mut() {
                file.place(footer)?;
            }
            self.described_groups = groups;
        }
        Ok(())
    }

    /// The footer of the row groups so far, as the writer would write it at the end.
    fn footer(&self) -> io::Result<Vec<u8>> {
        let groups = self.writer.flushed_row_groups().to_vec();
        let rows = groups.iter().map(|group| group.num_rows()).sum();
        let properties = &self.properties;
        let metadata = FileMetaData::new(
            properties.writer_version().as_num(),
            rows,
            Some(properties.created_by().to_string()),
            properties.key_value_metadata().cloned(),
            Arc::clone(&self.schema),
            None,
        );
        let mut footer = vec![];
        let metadata = ParquetMetaData::new(metadata, groups);
        ParquetMetaDataWriter::new(&mut footer, &metadata).finish().map_err(to_io)?;
        Ok(footer)
    }
}

impl ParquetSink {
    /// Writes to the stream `out`; `path` is the name of the log, or empty.
    pub fn new(out: Out, path: &str) -> Self {
        Self { place: Some(Place::Stream(out)), path: path.to_string(), state: None }
    }

    /// Writes to an empty regular file, which is readable from its columns on; `path` as for
    /// [`new`](Self::new). `written` counts the bytes of data, without footers.
    pub fn in_file(file: File, path: &str, written: Arc<AtomicU64>) -> Self {
        let file = FootedFile::new(file, written);
        Self { place: Some(Place::File(file)), ..Self::new(Box::new(io::sink()), path) }
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
        let place = self.place.take().ok_or_else(no_columns)?;
        let mut state = State::new(place, columns, &self.path)?;
        state.place_footer(true)?;
        self.state = Some(state);
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, mut rows: Range<usize>) -> io::Result<()> {
        let state = self.state.as_mut().ok_or_else(no_columns)?;
        state.waits_since.get_or_insert_with(Instant::now);
        while state.batch.push(batch, &mut rows)? {
            state.write()?;
            state.place_footer(false)?;
        }
        Ok(())
    }

    /// A row group is readable only when it is complete, so a flush writes nothing until the rows are old.
    fn flush(&mut self) -> io::Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let is_many = state.writer.flushed_row_groups().len() >= GROUPS_MANY;
        state.complete_older_than(if is_many { LATER_GROUP_AGE_MAX } else { GROUP_AGE_MAX })
    }

    fn end(&mut self) -> io::Result<()> {
        let mut state = self.state.take().ok_or_else(no_columns)?;
        state.write()?;
        // `finish` also flushes the output. (`into_inner` would convert an error to text.)
        state.writer.finish().map_err(to_io)?;
        match state.writer.inner_mut() {
            Place::Stream(_) => Ok(()),
            Place::File(file) => file.complete(),
        }
    }
}

/// Completes the file of a killed process: removes the hole before its footer. Returns the number of rows. A
/// complete file stays as it is.
///
/// # Errors
/// Those of the file, and [`io::ErrorKind::InvalidData`] if it does not end with a footer that describes it.
pub fn complete_parquet(file: &File) -> io::Result<u64> {
    const TAIL_BYTES: u64 = 8;
    const FOOTER_BYTES_MAX: u64 = 256 << 20;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a file of Parquet");
    let length = file.metadata()?.len();
    let tail_at = length.checked_sub(TAIL_BYTES).ok_or_else(wrong)?;
    let mut tail = [0; TAIL_BYTES as usize];
    file.read_exact_at(&mut tail, tail_at)?;
    let [a, b, c, d, magic @ ..] = tail;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let is_footer = magic == *b"PAR1" && footer_bytes <= FOOTER_BYTES_MAX;
    let footer_at = tail_at.checked_sub(footer_bytes).filter(|_| is_footer).ok_or_else(wrong)?;
    let mut footer = vec![0; (footer_bytes + TAIL_BYTES) as usize];
    file.read_exact_at(&mut footer, footer_at)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&footer[..footer_bytes as usize]).map_err(to_io)?;
    // The file begins with the magic number.
    let mut data_end = 4;
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let start = column.dictionary_page_offset().unwrap_or(i64::MAX).min(column.data_page_offset());
        let end = start.checked_add(column.compressed_size()).filter(|_| start >= 0);
        data_end = end.and_then(|end| u64::try_from(end).ok()).ok_or_else(wrong)?.max(data_end);
    }
    if data_end + footer.len() as u64 > length {
        return Err(wrong());
    }
    if data_end < footer_at {
        // The new footer is written into the hole, so that the file has a footer at all times.
        if data_end + footer.len() as u64 > footer_at {
            return Err(wrong());
        }
        file.write_all_at(&footer, data_end)?;
        file.set_len(data_end + footer.len() as u64)?;
    }
    u64::try_from(metadata.file_metadata().num_rows()).map_err(|_| wrong())
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Value, ValueType};

    #[test]
    fn a_slow_log_has_its_rows_on_disk_before_a_row_group_is_full() {
        let path = std::env::temp_dir().join(format!("weir-slow-{}.parquet", std::process::id()));
        let file = || File::options().read(true).write(true).open(&path).expect("it is there");
        let made = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let mut sink = ParquetSink::in_file(made.expect("a temporary file"), "", Arc::default());
        sink.begin(&[Column::new("n", ValueType::Unsigned, "a number")]).expect("room");
        let mut seen = vec![];
        for number in 0..5 {
            let mut row = Batch::default();
            row.push(&[Value::Unsigned(number)]);
            sink.rows(&row, 0..1).expect("room");
            // Young rows wait for others.
            sink.flush().expect("room");
            let state = sink.state.as_mut().expect("it has begun");
            if number > 1 {
                state.complete_older_than(Duration::ZERO).expect("room");
                state.complete_older_than(Duration::ZERO).expect("nothing is new");
            }
            // The file of a process that is killed now.
            let killed = path.with_extension("killed");
            std::fs::copy(&path, &killed).expect("room");
            let copy = File::options().read(true).write(true).open(&killed).expect("it is there");
            seen.push(complete_parquet(&copy).expect("a footer"));
            std::fs::remove_file(&killed).expect("it is there");
        }
        assert_eq!(seen, [0, 0, 3, 4, 5]);
        sink.end().expect("room");
        assert_eq!(complete_parquet(&file()).expect("a footer"), 5);
        std::fs::remove_file(&path).expect("it is there");
    }
}

//! Rows in a directory with one file per hour: `date=2026-11-22/hour=05/part-0.parquet`. These are Hive's
//! partition names, so pandas, Polars, DuckDB and Spark read the directory as one table and skip hours that a
//! query excludes.
//!
//! * The hour is that of the column `ts`, in UTC. Rows without `ts` go to Hive's name for null.
//! * At most [`OPEN_MAX`] files are open. The least recently written file is closed to make room; a further
//!   row of its hour opens `part-1`. Late rows are never dropped.
//! * Existing files are kept: a run adds files with the next free number.
//! * A file's name ends in `.tmp` until the file is complete, so readers of the directory see only complete
//!   files.
//! * A file is locked while it is written. An incomplete file of Parquet that is not locked is of a process
//!   that was killed: the next run that writes to the same hour completes it, with the rows that it has.

use super::columns::complete_parquet;
use super::text::push_date;
use super::{Format, Options, Written, create_in_file};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use weir_guard::files;
use weir_packet::{Batch, Cell, Column, RowSink, Timestamp, ValueType};

/// Maximum number of open files. Each buffers rows: up to a row group for Parquet.
const OPEN_MAX: usize = 16;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Hive's name for null. (`unknown` would be read as text, and `date` would not be a date.)
const NO_TIME: &str = "__HIVE_DEFAULT_PARTITION__";

/// An hour since 1970-01-01; `None` for rows without a time.
type Hour = Option<i64>;

/// Writes rows to a directory.
pub struct Partitions {
    directory: PathBuf,
    format: Format,
    options: Options,
    columns: Vec<Column>,
    /// The index of the time column.
    time_at: Option<usize>,
    open: Vec<Part>,
    /// The number of each hour's next file.
    next: HashMap<Hour, u32>,
    /// Rows so far.
    rows: u64,
}

/// An open file.
struct Part {
    hour: Hour,
    sink: Box<dyn RowSink + Send>,
    /// Its final name.
    path: PathBuf,
    /// The number of the last written row.
    last_row: u64,
}

impl Partitions {
    /// Files of `format` in `directory`, which is created with the first row.
    ///
    /// # Errors
    /// If the format stores lines, which belong into one file; the message has the remedy.
    pub fn new(directory: &Path, format: Format, options: &Options) -> Result<Self, String> {
        if !format.is_columnar() {
            let formats: Vec<_> = Format::ALL.iter().filter(|f| f.is_columnar()).map(|f| f.label()).collect();
            return Err(format!(
                "{} is a directory, and {format} needs one file: name a file, or use --format {}",
                directory.display(),
                formats.join(" or ")
            ));
        }
        Ok(Self {
            directory: directory.to_owned(),
            format,
            options: *options,
            columns: vec![],
            time_at: None,
            open: vec![],
            next: HashMap::new(),
            rows: 0,
        })
    }

    /// The file of an hour; closes the least recently written file if necessary.
    fn open(&mut self, hour: Hour) -> io::Result<&mut Part> {
        if let Some(at) = self.open.iter().position(|part| part.hour == hour) {
            return Ok(&mut self.open[at]);
        }
        if self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().enumerate().min_by_key(|(_, part)| part.last_row);
            let at = oldest.map_or(0, |(at, _)| at);
            self.open.swap_remove(at).close()?;
        }
        let directory = self.directory.join(name_of(hour));
        files::create_directories(&directory).map_err(|e| naming(&directory, &e))?;
        if self.format == Format::Parquet && !self.next.contains_key(&hour) {
            complete_killed(&directory);
        }
        let number = self.next.entry(hour).or_default();
        let (path, file) = create_next(&directory, self.format, number)?;
        let mut sink = create_in_file(self.format, file, &self.options, Written::default());
        sink.begin(&self.columns)?;
        self.open.push(Part { hour, sink, path, last_row: 0 });
        let last = self.open.len() - 1;
        Ok(&mut self.open[last])
    }
}

impl RowSink for Partitions {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.time_at = columns.iter().position(|c| c.name == "ts" && c.value_type == ValueType::Time);
        self.columns = columns.to_vec();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        let hour_of = |row: usize| match self.time_at.map(|at| batch.cell(row, at)) {
            Some(Cell::Time(time)) => Some(time.0.div_euclid(HOUR_NS)),
            _ => None,
        };
        let hours: Vec<Hour> = rows.clone().map(hour_of).collect();
        let mut first = rows.start;
        // Consecutive rows of an hour are written together.
        for same in hours.chunk_by(|one, other| one == other) {
            let next = first + same.len();
            self.rows += same.len() as u64;
            let row = self.rows;
            let part = self.open(same[0])?;
            part.last_row = row;
            part.sink.rows(batch, first..next).map_err(|e| naming(&part.path, &e))?;
            first = next;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.iter_mut().try_for_each(|part| part.sink.flush().map_err(|e| naming(&part.path, &e)))
    }

    fn end(&mut self) -> io::Result<()> {
        self.open.drain(..).try_for_each(Part::close)
    }
}

impl Part {
    /// Completes the file and renames it.
    fn close(mut self) -> io::Result<()> {
        let renamed = |path: &Path| fs::rename(unfinished(path), path);
        self.sink.end().and_then(|()| renamed(&self.path)).map_err(|e| naming(&self.path, &e))
    }
}

/// Creates the next file with a free number.
fn create_next(directory: &Path, format: Format, number: &mut u32) -> io::Result<(PathBuf, File)> {
    loop {
        let path = directory.join(format!("part-{number}.{format}"));
        *number += 1;
        if path.exists() {
            continue;
        }
        match files::create_new(&unfinished(&path)) {
            Ok(file) => {
                // Without locks, a file of a killed process stays incomplete.
                let _ = file.lock();
                return Ok((path, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(naming(&path, &error)),
        }
    }
}

/// Completes the files of killed processes in a directory. What cannot be completed stays as it is: the rows
/// of this run do not depend on it.
fn complete_killed(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_ours = |name: &str| name.starts_with("part-") && name.ends_with(".parquet.tmp");
        let is_file = entry.file_type().is_ok_and(|about| about.is_file());
        if !is_file || !name.to_str().is_some_and(is_ours) {
            continue;
        }
        let Ok(file) = files::open_own(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let _ = complete_parquet(&file).and_then(|rows| match rows {
            0 => fs::remove_file(&path),
            _ => publish(&path),
        });
    }
}

/// Gives a completed file its final name, which no other file has.
fn publish(unfinished: &Path) -> io::Result<()> {
    let target = unfinished.with_extension("");
    // A link does not replace an existing file.
    fs::hard_link(unfinished, target)?;
    fs::remove_file(unfinished)
}

/// The name of an incomplete file.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// The directory of an hour: `date=2026-11-22/hour=05`.
fn name_of(hour: Hour) -> String {
    let Some(hour) = hour else { return format!("date={NO_TIME}/hour={NO_TIME}") };
    let mut date = vec![];
    push_date(&mut date, Timestamp(hour.saturating_mul(HOUR_NS)));
    let date = String::from_utf8_lossy(&date);
    let (day, time) = date.split_once(' ').unwrap_or((&date, ""));
    format!("date={day}/hour={}", time.get(..2).unwrap_or_default())
}

/// The error with the file's name.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::Value;

    /// A batch of one row.
    fn one(values: &[Value<'_>]) -> Batch {
        let mut batch = Batch::default();
        batch.push(values);
        batch
    }

    const COLUMNS: &[Column] =
        &[Column::new("ts", ValueType::Time, "when"), Column::new("n", ValueType::Unsigned, "how many")];

    /// An empty directory for one test.
    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-partitions-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    /// Writes one row per hour.
    fn write(directory: &Path, hours: impl IntoIterator<Item = Hour>) {
        let mut sink = Partitions::new(directory, Format::Parquet, &Options::default()).unwrap();
        sink.begin(COLUMNS).unwrap();
        for hour in hours {
            let time = hour.map_or(Value::Absent, |hour| Value::Time(Timestamp(hour * HOUR_NS + 1)));
            sink.batch(&one(&[time, Value::Unsigned(1)])).unwrap();
            assert!(sink.open.len() <= OPEN_MAX);
        }
        sink.end().unwrap();
    }

    /// Names of files, including those in subdirectories.
    fn files(directory: &Path) -> Vec<String> {
        let mut found = vec![];
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            match entry.path().is_dir() {
                true => found.extend(files(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}"))),
                false => found.push(name),
            }
        }
        found.sort();
        found
    }

    #[test]
    fn each_hour_has_its_file_and_rows_without_a_time_have_one() {
        let dir = directory("hours");
        write(&dir, [Some(498_674), Some(498_675), None, Some(498_674), Some(-1)]);
        let expected = [
            "date=1969-12-31/hour=23/part-0.parquet",
            "date=2026-11-21/hour=02/part-0.parquet",
            "date=2026-11-21/hour=03/part-0.parquet",
            "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__/part-0.parquet",
        ];
        assert_eq!(files(&dir), expected);
        // Existing files are kept.
        write(&dir, [Some(-1)]);
        assert_eq!(files(&dir)[..2], [expected[0], "date=1969-12-31/hour=23/part-1.parquet"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn few_files_are_open_and_late_rows_are_kept() {
        let dir = directory("late");
        let hours = 0..OPEN_MAX as i64 + 1;
        // The first hour's file was closed for the last hour's; the second hour's was written since.
        write(&dir, hours.clone().map(Some).chain([Some(0), Some(hours.end - 1)]));
        let all = files(&dir);
        assert_eq!(all.len(), OPEN_MAX + 2);
        assert_eq!(
            all[..2],
            ["date=1970-01-01/hour=00/part-0.parquet", "date=1970-01-01/hour=00/part-1.parquet"]
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn files_of_a_killed_process_are_completed_by_the_next_run() {
        let dir = directory("killed");
        let sink = |rows: u64| {
            let mut sink = Partitions::new(&dir, Format::Parquet, &Options::default()).unwrap();
            sink.begin(COLUMNS).unwrap();
            for n in 0..rows {
                sink.batch(&one(&[Value::Time(Timestamp(1)), Value::Unsigned(n)])).unwrap();
            }
            sink
        };
        // Two processes are killed, one after a row group, and one before. A third one is active.
        let (long, short, active) = (sink(70_000), sink(5), sink(70_000));
        drop((long, short));
        let hour = "date=1970-01-01/hour=00/";
        let names =
            |names: &[&str]| names.iter().map(|name| format!("{hour}part-{name}")).collect::<Vec<_>>();
        assert_eq!(files(&dir), names(&["0.parquet.tmp", "1.parquet.tmp", "2.parquet.tmp"]));
        fs::write(dir.join(hour).join("part-9.parquet.tmp"), "not Parquet").unwrap();
        sink(1).end().unwrap();
        assert_eq!(files(&dir), names(&["0.parquet", "1.parquet", "2.parquet.tmp", "9.parquet.tmp"]));
        let size = |name: &str| fs::metadata(dir.join(hour).join(name)).unwrap().len();
        assert!(size("part-0.parquet") > 50_000 && size("part-0.parquet") < 1 << 20, "the hole is removed");
        let file = File::open(dir.join(hour).join("part-0.parquet")).unwrap();
        assert_eq!(complete_parquet(&file).unwrap(), 65_536);
        drop(active);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn lines_go_to_one_file() {
        let refused = Partitions::new(Path::new("lake/"), Format::Csv, &Options::default()).err().unwrap();
        assert!(refused.contains("--format parquet or arrow or packed"), "{refused}");
    }
}

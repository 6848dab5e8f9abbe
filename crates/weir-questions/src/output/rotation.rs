//! `--rotate` and `--keep`: an output becomes a sequence of files, each complete by itself.
//!
//! * A file is written as `flows.json.PID.part`, and gets its name when it is complete:
//!   `flows.2026-11-25-14-00-00.json`. A name never replaces an existing file: further files of the same time
//!   are `…_001`, `…_002`.
//! * Time is that of rows and packets (column `ts`), so the files of a capture are the same on every machine.
//!   A row goes to the current file even if it is earlier: rows of connections come at their ends.
//! * A row that skips a whole period ends the file only if the row before did, too: a single wrong time has
//!   no effect.
//! * Time also goes back, by more than a period and a day, once more rows in sequence say so than rows have
//!   agreed with the present time: a first row with a wrong time, such as one of 2106, does not end the
//!   division of the output.

use crate::form::Form;
use crate::messages::failure::Failure;
use crate::output::part::Part;
use crate::output::place;
use crate::quantity::{bytes, seconds};
use crate::spec::QuestionSpec;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use weir::io::{Compression, Written, file_time};
use weir::packet::{Cell, Column, Row, Timestamp, ValueType};

const SECOND_NS: i64 = 1_000_000_000;

/// Rows of connections may be late by their duration. Earlier rows than this count against the present time.
const LATE_NS: i64 = 86_400 * SECOND_NS;

/// Limit of the number of rows that agree with the present time: after more rows in sequence that lie far
/// before it, time goes back in any case.
const AGREEING_MAX: u32 = 1024;

/// Maximum number of files of one time.
const NUMBERS_MAX: u32 = 1_000_000;

/// When another file begins, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// `u64::MAX`: no limit.
    bytes_max: u64,
    period_ns: Option<i64>,
    /// `None`: all.
    keep: Option<usize>,
    /// The index of the column `ts` in the rows. Packets have their own times.
    time_at: usize,
}

impl Rotation {
    /// The rotation of a question whose answers have this form and these columns; `None` if it states none.
    ///
    /// # Errors
    /// A value is wrong, or the output cannot be divided.
    pub fn of(spec: &QuestionSpec, form: Form, columns: &[Column]) -> Result<Option<Self>, Failure> {
        let Some(stated) = &spec.rotate else {
            return match spec.keep {
                Some(_) => Err(Failure::new("--keep is for --rotate: give both")),
                None => Ok(None),
            };
        };
        let refused = |why: &str| Err(Failure::new(format!("--rotate {stated}: {why}")));
        match &spec.output {
            None => return refused("standard output is no file: give -o FILE"),
            Some(path) if place::is_remote(path) => return refused("a connection is no file"),
            Some(path) if place::is_directory(path) => {
                return refused("a directory already has a file for each hour: name a file");
            }
            Some(path) if place::is_special(path) => return refused("the output is no regular file"),
            Some(_) => {}
        }
        let time_at = match form {
            Form::Capture(_) => Some(0),
            Form::Rows(_) => columns.iter().position(|c| c.name == "ts" && c.value_type == ValueType::Time),
            Form::Lines { .. } => {
                return refused("this text is one file: give a --format of rows, such as json");
            }
            Form::Count => return refused("the output is one number"),
        };
        let Some(time_at) = time_at else {
            return refused("the rows need the column `ts`, whose time names the files");
        };
        let none = Self { bytes_max: u64::MAX, period_ns: None, keep: None, time_at };
        let terms = stated.split(',').try_fold(none, |terms, term| terms.with(stated, term.trim()))?;
        let keep = spec.keep.map(|files| usize::try_from(files).unwrap_or(usize::MAX));
        if keep == Some(0) {
            return Err(Failure::new("--keep 0: give the number of files to keep, at least 1"));
        }
        Ok(Some(Self { keep, ..terms }))
    }

    /// Adds one of the stated terms: a time has a unit of its own, so that `1m` cannot mean both.
    fn with(self, stated: &str, term: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::new(format!(
                "--rotate {stated}: give a size such as 100M, a time such as 10min or 1h, or both: 1G,1h (`m` alone could mean either)"
            ))
        };
        let is_time = term.ends_with("min") || term.ends_with(['s', 'h', 'd']);
        if !is_time {
            let size = bytes("--rotate", term).ok().filter(|_| !term.ends_with('m'));
            let bytes_max = size.filter(|bytes| *bytes > 0 && self.bytes_max == u64::MAX);
            return Ok(Self { bytes_max: bytes_max.ok_or_else(wrong)?, ..self });
        }
        let time = match (term.strip_suffix('d'), term.strip_suffix("min")) {
            (Some(days), _) => seconds(days).map(|days| days * 86_400.0),
            (_, Some(minutes)) => seconds(minutes).map(|minutes| minutes * 60.0),
            _ => seconds(term),
        };
        // The names of files have whole seconds. The largest time is that of a century.
        let whole = time.ok().filter(|time| (1.0..=3.2e9).contains(time) && time.fract() == 0.0);
        let period_ns = whole.filter(|_| self.period_ns.is_none()).map(|time| time as i64 * SECOND_NS);
        Ok(Self { period_ns: Some(period_ns.ok_or_else(wrong)?), ..self })
    }
}

/// When the clock of a live run ends the current file of an output: shared by the clock and the output, so
/// that an idle output does nothing until then.
#[derive(Debug)]
pub struct Turn {
    /// The time that the clock has shown to the idle output, and the end of the current file, in nanoseconds
    /// since 1970.
    clock: AtomicI64,
    end: AtomicI64,
}

impl Default for Turn {
    fn default() -> Self {
        Self { clock: AtomicI64::new(i64::MIN), end: AtomicI64::new(i64::MAX) }
    }
}

impl Turn {
    /// The time is now at least `now`, in nanoseconds since 1970. Returns whether the current file ends.
    pub fn pass(&self, now: i64) -> bool {
        self.clock.store(now, Ordering::Relaxed);
        now >= self.end.load(Ordering::Relaxed)
    }
}

/// The state of an output that is divided into files.
pub struct Rotating {
    terms: Rotation,
    /// The output as stated; the names of its files derive from it.
    output: PathBuf,
    /// The latest time so far.
    now: Option<i64>,
    /// Rows that agree with this time, at most [`AGREEING_MAX`], and the last rows in sequence that lie far
    /// before it.
    agreeing: u32,
    far_before: u32,
    /// The time of the previous row.
    previous: i64,
    /// Size of the current file.
    written: Written,
    turn: Arc<Turn>,
    /// The times of the current file: its name, and when it ends.
    begin: i64,
    end: i64,
}

impl Rotating {
    /// The state before the first file of `output`.
    pub fn new(terms: Rotation, output: PathBuf, turn: Arc<Turn>) -> Self {
        let (written, now) = (Written::default(), None);
        let (agreeing, far_before, previous) = (0, 0, i64::MIN);
        Self { terms, output, now, agreeing, far_before, previous, written, turn, begin: 0, end: i64::MAX }
    }

    /// The time of a row.
    pub fn time_of(&self, row: Row<'_>) -> Option<Timestamp> {
        match row.cell(self.terms.time_at) {
            Cell::Time(time) => Some(time),
            _ => None,
        }
    }

    /// Time passes until the next row. Returns whether the current file ends before that row.
    pub fn pass_until(&mut self, time: Option<Timestamp>) -> bool {
        let goes_back = time.is_some_and(|Timestamp(time)| self.pass(time));
        let is_due = self.now.is_some_and(|now| now >= self.end);
        goes_back || is_due || self.written.bytes() >= self.terms.bytes_max
    }

    /// A row has this time. Returns whether the time goes back, far before the current file.
    fn pass(&mut self, time: i64) -> bool {
        let period = self.terms.period_ns.unwrap_or(0);
        let skips = time >= self.end.saturating_add(period);
        let is_taken = !skips || self.previous >= self.end;
        self.previous = time;
        if !is_taken {
            return false;
        }
        let Some(now) = self.now else {
            (self.now, self.agreeing) = (Some(time), 1);
            return false;
        };
        if period > 0 && time < now.saturating_sub(period.max(LATE_NS)) {
            self.far_before += 1;
            let goes_back = self.far_before > self.agreeing;
            if goes_back {
                (self.now, self.agreeing, self.far_before) = (Some(time), self.far_before, 0);
            }
            return goes_back;
        }
        self.now = Some(now.max(time));
        // Two rows have said that a period was skipped.
        self.agreeing = if skips { 2 } else { (self.agreeing + 1).min(AGREEING_MAX) };
        self.far_before = 0;
        false
    }

    /// Whether the period of the current file is over at this time, as the clock of a live run says. Rows
    /// that come later belong to the next file.
    pub fn pass_to(&mut self, time: i64) -> bool {
        let is_over = time >= self.end;
        if is_over {
            self.now = Some(self.now.map_or(time, |now| now.max(time)));
        }
        is_over
    }

    /// Begins another file; returns the counter of its bytes.
    pub fn begin(&mut self) -> Written {
        // While no file was open, only the clock has passed.
        self.pass_to(self.turn.clock.load(Ordering::Relaxed));
        let now = self.now.unwrap_or(0);
        (self.begin, self.end) = match self.terms.period_ns {
            Some(period) => {
                let begin = now.div_euclid(period) * period;
                (begin, begin.saturating_add(period))
            }
            None => (now, i64::MAX),
        };
        self.turn.end.store(self.end, Ordering::Relaxed);
        self.written = Written::default();
        self.written.clone()
    }

    /// No file is open until the next row.
    pub fn rest(&self) {
        self.turn.end.store(i64::MAX, Ordering::Relaxed);
    }

    /// Gives a complete file its name, and deletes the oldest files if there are too many. Returns the errors
    /// of these.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn publish(&self, part: Part) -> io::Result<Vec<io::Error>> {
        part.publish_as_first_of(names_at(&self.output, Timestamp(self.begin)))?;
        Ok(self.delete_oldest())
    }

    fn delete_oldest(&self) -> Vec<io::Error> {
        let Some(keep) = self.terms.keep else { return vec![] };
        let mut files = files_of(&self.output);
        files.sort();
        let many = files.len().saturating_sub(keep);
        let delete = |(_, path): &((String, u32), PathBuf)| {
            let error =
                fs::remove_file(path).err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
            Some(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        files[..many].iter().filter_map(delete).collect()
    }
}

/// The names that a file of an output may have, which begins at this time. The first free one counts.
pub fn names_at(output: &Path, begin: Timestamp) -> impl Iterator<Item = PathBuf> {
    let time = file_time(begin);
    // Numbers of deleted files are not used again: the newest file has the highest number.
    let files = files_of(output).into_iter();
    let last = files.filter(|((other, _), _)| *other == time).map(|((_, number), _)| number).max();
    let first = last.map_or(0, |last| last + 1);
    (first..first.saturating_add(NUMBERS_MAX)).map(move |number| match number {
        0 => named(output, &time),
        _ => named(output, &format!("{time}_{number:03}")),
    })
}

/// The name of an output's file: the time before the ending.
fn named(output: &Path, time: &str) -> PathBuf {
    let FileName { mut stem, ending } = FileName::of(output);
    stem.push(format!(".{time}"));
    stem.push(ending);
    output.with_file_name(stem)
}

/// The parts of a file's name.
struct FileName {
    /// The name before its ending.
    stem: OsString,
    /// The ending with its dot, and that of a compression: `.json`, `.json.gz`.
    ending: OsString,
}

impl FileName {
    fn of(path: &Path) -> Self {
        let plain = Compression::stripped(path);
        let compression = path.extension().filter(|_| plain != *path);
        let mut ending = OsString::new();
        for part in plain.extension().into_iter().chain(compression) {
            ending.push(".");
            ending.push(part);
        }
        Self { stem: plain.file_stem().unwrap_or_default().to_owned(), ending }
    }
}

/// The files of an output in its directory, each with the time and the number of its name.
fn files_of(output: &Path) -> Vec<((String, u32), PathBuf)> {
    let directory = output.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let FileName { stem, ending } = FileName::of(output);
    let place = |name: &OsString| {
        let name = name.to_str()?.strip_prefix(stem.to_str()?)?.strip_prefix('.')?;
        place_of(name.strip_suffix(ending.to_str()?)?)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|about| about.is_file()));
    files.filter_map(|file| Some((place(&file.file_name())?, file.path()))).collect()
}

/// Time and number in the middle of a name; `None` if the name is of another kind.
fn place_of(middle: &str) -> Option<(String, u32)> {
    let (time, number) = match middle.split_once('_') {
        Some((time, digits)) => {
            (time, digits.parse().ok().filter(|number| format!("{number:03}") == digits)?)
        }
        None => (middle, 0),
    };
    let parts: Vec<&str> = time.split('-').collect();
    let is_part =
        |(part, digits): (&&str, usize)| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
    let is_time = parts.len() == 6 && parts.iter().zip([4, 2, 2, 2, 2, 2]).all(is_part);
    is_time.then(|| (time.to_string(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::io::{CaptureFormat, Format};

    const COLUMNS: &[Column] = &[Column::new("ts", ValueType::Time, "when")];

    fn stated(rotate: &str) -> Result<Option<Rotation>, String> {
        let spec = QuestionSpec {
            rotate: Some(rotate.to_string()),
            output: Some("flows.json".into()),
            ..QuestionSpec::default()
        };
        Rotation::of(&spec, Form::Rows(Format::Json), COLUMNS).map_err(|failure| failure.to_string())
    }

    #[test]
    fn sizes_and_times_are_told_apart_by_their_units() {
        let terms =
            |rotate| stated(rotate).ok().flatten().map(|t| (t.bytes_max, t.period_ns.map(|p| p / SECOND_NS)));
        assert_eq!(terms("100M"), Some((100 << 20, None)));
        assert_eq!(terms("1h"), Some((u64::MAX, Some(3600))));
        assert_eq!(terms("1G, 10min"), Some((1 << 30, Some(600))));
        assert_eq!(terms("1d,500"), Some((500, Some(86_400))));
        for wrong in ["", "0", "0s", "0.5s", "1h,2h", "1M,2M", "1x", "10m", "1h,", "min", "1e300d"] {
            assert!(stated(wrong).is_err_and(|message| message.contains("1G,1h")), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_the_remedy() {
        let refused = |output: Option<&str>, form, columns: &[Column]| {
            let (rotate, output) = (Some("1h".to_string()), output.map(PathBuf::from));
            let spec = QuestionSpec { rotate, output, ..QuestionSpec::default() };
            Rotation::of(&spec, form, columns).err().map_or_else(String::new, |failure| failure.to_string())
        };
        let json = Form::Rows(Format::Json);
        assert!(refused(None, json, COLUMNS).contains("give -o FILE"));
        assert!(refused(Some("lake/"), json, COLUMNS).contains("name a file"));
        assert!(refused(Some("/dev/null"), json, COLUMNS).contains("no regular file"));
        assert!(refused(Some("tcp://h:1"), json, COLUMNS).contains("a connection is no file"));
        assert!(refused(Some("x.json"), json, &[]).contains("column `ts`"));
        assert!(refused(Some("x"), Form::Count, COLUMNS).contains("number"));
        assert_eq!(refused(Some("x.pcap"), Form::Capture(CaptureFormat::Pcap), &[]), "");
        let spec = QuestionSpec { keep: Some(3), ..QuestionSpec::default() };
        assert!(Rotation::of(&spec, json, COLUMNS).is_err());
    }

    #[test]
    fn files_end_with_their_period_and_a_single_wrong_time_has_no_effect() {
        let terms = stated("10s").unwrap_or_default().expect("a rotation");
        let mut rotating = Rotating::new(terms, "flows.json".into(), Arc::default());
        let mut files = vec![];
        let mut row = |seconds: i64| {
            let time = Some(Timestamp(seconds * SECOND_NS));
            if files.is_empty() | rotating.pass_until(time) {
                rotating.begin();
                files.push(rotating.begin / SECOND_NS);
            }
            files.len()
        };
        // A late row stays in the current file. A time that skips a period needs another one.
        assert_eq!([103, 109, 110, 101, 111].map(&mut row), [1, 1, 2, 2, 2]);
        assert_eq!([9_000, 112, 120, 9_000, 9_001, 8_000].map(&mut row), [2, 2, 3, 3, 4, 4]);
        assert_eq!(files, [100, 110, 120, 9_000]);
    }

    #[test]
    fn a_first_row_with_a_wrong_time_does_not_end_the_division() {
        let year = 365 * 86_400;
        for (wrong, files) in
            [(136 * year, [136 * year, 50 * year, 50 * year + 3_600]), (0, [0, 50 * year, 50 * year + 3_600])]
        {
            let terms = stated("1h").unwrap_or_default().expect("a rotation");
            let mut rotating = Rotating::new(terms, "flows.json".into(), Arc::default());
            let mut begun = vec![];
            let right = [50 * year, 50 * year + 1, 50 * year + 2, 50 * year + 3_600, 50 * year + 3_601];
            for seconds in [wrong].into_iter().chain(right) {
                let is_over = rotating.pass_until(Some(Timestamp(seconds * SECOND_NS)));
                if begun.is_empty() | is_over {
                    rotating.begin();
                    begun.push(rotating.begin / SECOND_NS);
                }
            }
            assert_eq!(begun, files, "{wrong}");
        }
    }

    /// Rows of long connections come late, also many of them: the file stays. But no time lasts for ever.
    #[test]
    fn many_late_rows_stay_in_the_current_file_up_to_a_bound() {
        let terms = stated("1h").unwrap_or_default().expect("a rotation");
        let mut rotating = Rotating::new(terms, "flows.json".into(), Arc::default());
        let day = 86_400;
        let mut is_over = |seconds: i64| {
            let is_over = rotating.pass_until(Some(Timestamp(seconds * SECOND_NS)));
            if is_over || rotating.end == i64::MAX {
                rotating.begin();
            }
            is_over
        };
        assert!(!(0..2_000).any(|second| is_over(100 * day + second)));
        assert!(!(0..i64::from(AGREEING_MAX)).any(|second| is_over(90 * day + second)), "late rows");
        assert!(!is_over(100 * day + 2_001));
        let far = (0..10_000).position(|second| is_over(90 * day + second % 1_000));
        assert_eq!(far, Some(AGREEING_MAX as usize));
    }

    #[test]
    fn an_idle_output_sleeps_until_its_file_ends() {
        let terms = stated("10s").unwrap_or_default().expect("a rotation");
        let turn = Arc::<Turn>::default();
        let mut rotating = Rotating::new(terms, "flows.json".into(), Arc::clone(&turn));
        let pass = |second: i64| turn.pass(second * SECOND_NS);
        assert!(!pass(100), "no file is open");
        assert!(!rotating.pass_until(Some(Timestamp(101 * SECOND_NS))));
        rotating.begin();
        assert_eq!([102, 109, 110].map(pass), [false, false, true]);
        assert!(rotating.pass_to(110 * SECOND_NS));
        rotating.rest();
        assert!(!pass(111) && !pass(135), "no file is open");
        // A row that comes late goes to the file of the time at which it comes.
        rotating.pass_until(Some(Timestamp(112 * SECOND_NS)));
        rotating.begin();
        assert_eq!(rotating.begin, 130 * SECOND_NS);
        assert_eq!([139, 140].map(pass), [false, true]);
    }

    #[test]
    fn only_files_of_the_output_are_recognised() {
        assert_eq!(named(Path::new("a/flows.json"), "T"), Path::new("a/flows.T.json"));
        assert_eq!(named(Path::new("flows"), "T"), Path::new("flows.T"));
        let known = |middle| place_of(middle).map(|(_, number)| number);
        assert_eq!(known("2026-11-25-14-00-00"), Some(0));
        assert_eq!(known("2026-11-25-14-00-00_007"), Some(7));
        assert_eq!(known("2026-11-25-14-00-00_1000"), Some(1000));
        for other in
            ["", "old", "2026-11-25", "2026-11-25-14-00-0x", "2026-11-25-14-00-00_7", "2026-11-25-14-00-00_"]
        {
            assert_eq!(known(other), None, "{other}");
        }
    }
}

//! Writes the answers of a question to its output.

use crate::failure::Failure;
use crate::form::Form;
use crate::output;
use crate::rows::Rows;
use crate::spec::{QuestionSpec, Stdout};
use crate::subcommand::{Counted, MakeLines, Resolved};
use crate::tagged_sink::Named;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::{CaptureFormat, CaptureWriter, Findings, Following, Format};
use weir::packet::{Column, RowSink};
use weir::{Item, Next, RunEnd, TakeItems};

/// Faults and counts that all questions of a run share.
#[derive(Default, Clone)]
pub struct RunTotals {
    /// The first failure of each output.
    fault: Arc<Mutex<Option<Failure>>>,
    /// Number of answers to all questions so far.
    answers: Arc<AtomicU64>,
}

impl RunTotals {
    /// Takes the failure; later calls return `None`.
    pub fn take_fault(&self) -> Option<Failure> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Number of answers to all questions.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    fn add_fault(&self, failure: Failure) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        *fault = Some(match fault.take() {
            Some(before) => before.and(failure),
            None => failure,
        });
    }
}

/// A temporary file beside its target. At the end it replaces the target if it is complete and has answers; otherwise
/// the target stays as it is.
pub struct Part {
    /// Path of the temporary file.
    pub path: PathBuf,
    target: PathBuf,
}

impl Part {
    /// The temporary file for `target`.
    pub fn of(target: &Path) -> Self {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        Self { path: name.into(), target: target.to_owned() }
    }
}

/// Everything needed to open an output.
struct Opening {
    form: Form,
    log: &'static str,
    columns: Vec<Column>,
    lines: Option<MakeLines>,
    /// Findings of the reader, which a pcapng file stores beside packets.
    findings: Option<Following>,
    stdout: Stdout,
}

enum Writer {
    Unopened,
    Rows(Box<dyn RowSink + Send>),
    Capture(CaptureWriter),
    /// Answers are only counted; the number is written at the end.
    Count,
    Closed,
}

/// The answers of a question, and their output. The first answer opens the output.
pub struct Answers {
    /// Name of the question, if the run has several.
    name: Option<String>,
    output: Option<PathBuf>,
    opening: Opening,
    write: Writer,
    rows: Box<dyn Rows>,
    counted: Counted,
    /// Number of answers so far.
    count: u64,
    totals: RunTotals,
    part: Option<Part>,
}

impl Answers {
    /// Answers of a resolved question.
    pub fn new(
        spec: &QuestionSpec,
        resolved: Resolved,
        form: Form,
        stdout: Stdout,
        findings: &Findings,
        totals: &RunTotals,
    ) -> Self {
        let Resolved { log, columns, rows, counted, lines, .. } = resolved;
        let findings = (form == Form::Capture(CaptureFormat::Pcapng)).then(|| findings.follow());
        Self {
            name: (stdout == Stdout::Shared).then(|| spec.name.clone()),
            output: spec.output.clone(),
            opening: Opening { form, log, columns, lines, findings, stdout },
            write: if form == Form::Count { Writer::Count } else { Writer::Unopened },
            rows,
            counted,
            count: 0,
            totals: totals.clone(),
            part: spec.output.as_deref().filter(|_| spec.drops_empty).map(Part::of),
        }
    }

    fn is_unopened(&self) -> bool {
        matches!(self.write, Writer::Unopened)
    }

    /// Opens the output unless it is open: creates or truncates the file.
    fn open(&mut self) -> Result<(), Failure> {
        if !self.is_unopened() {
            return Ok(());
        }
        let Opening { form, log, ref columns, lines, ref findings, stdout } = self.opening;
        let target = self.part.as_ref().map(|part| part.path.as_path()).or(self.output.as_deref());
        self.write = match form {
            Form::Capture(_) => {
                let path = target.unwrap_or(Path::new("-"));
                // The error names the file.
                let writer = CaptureWriter::create(path).map_err(Failure::new)?;
                Writer::Capture(match findings {
                    Some(findings) => writer.with_findings(findings.clone()),
                    None => writer,
                })
            }
            Form::Rows(format) => {
                let mut sink = output::create(format, target, &output::options(log, target, stdout))?;
                if let Some(name) = self.name.as_ref().filter(|_| target.is_none() && format == Format::Json)
                {
                    sink = Box::new(Named::new(name, sink));
                }
                sink.begin(columns)?;
                Writer::Rows(sink)
            }
            Form::Lines { color } => {
                let make = lines.ok_or_else(|| Failure::new("the question has no lines of its own"))?;
                let mut sink = make(output::open(target)?, color);
                sink.begin(columns)?;
                Writer::Rows(sink)
            }
            Form::Count => Writer::Count,
        };
        Ok(())
    }

    /// Closes the output after a failure. The incomplete temporary file stays, and does not replace the target.
    fn give_up(&mut self) {
        self.part = None;
        self.write = Writer::Closed;
    }

    /// Keeps the failure; all failures are reported together at the end of the run.
    fn fail(&self, failure: Failure) {
        self.totals.add_fault(match &self.name {
            Some(name) => failure.of_question(name),
            None => failure,
        });
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        match &self.output {
            Some(path) => Failure::writing(path.display(), error),
            None => Failure::from(io::Error::new(error.kind(), error.to_string())),
        }
    }

    fn write(&mut self, item: Item) -> Result<(), Failure> {
        // A pause is no answer, but opens the output: whoever watches the file sees that it has no rows yet.
        if self.part.is_none() || !matches!(item, Item::Pause) {
            self.open()?;
        }
        let written = match (&mut self.write, item) {
            (Writer::Capture(writer), Item::Pause) => writer.flush(),
            (Writer::Capture(writer), Item::Packet { meta, frame, options, .. }) => {
                self.count += 1;
                writer.write_with_options(&meta, &frame, &options)
            }
            (Writer::Rows(sink), Item::Pause) => sink.flush(),
            (Writer::Rows(sink), item) => {
                let count = &mut self.count;
                self.rows.item(&item, &mut |values| {
                    *count += 1;
                    sink.row(values)
                })
            }
            (Writer::Count, item) if self.counted == Counted::Rows => {
                let count = &mut self.count;
                self.rows.item(&item, &mut |_| {
                    *count += 1;
                    Ok(())
                })
            }
            _ => Ok(()),
        };
        written.map_err(|e| self.unwritten(&e))
    }

    /// Completes the output.
    fn complete(&mut self, end: Option<&RunEnd<'_>>) -> Result<(), Failure> {
        // With a temporary file, a question without answers creates no output.
        if self.part.is_none() {
            self.open()?;
        }
        let has_part = !self.is_unopened();
        match std::mem::replace(&mut self.write, Writer::Closed) {
            Writer::Rows(mut sink) => {
                let count = &mut self.count;
                let ended = self.rows.end(end, &mut |values| {
                    *count += 1;
                    sink.row(values)
                });
                ended.and_then(|()| sink.end()).map_err(|e| self.unwritten(&e))?;
            }
            Writer::Capture(writer) => writer.finish().map(drop).map_err(|e| self.unwritten(&e))?,
            Writer::Count => {
                let count = &mut self.count;
                let ended = self.rows.end(end, &mut |_| {
                    *count += u64::from(self.counted == Counted::Rows);
                    Ok(())
                });
                ended.map_err(|e| self.unwritten(&e))?;
                if self.counted == Counted::Matched {
                    self.count = end.and_then(|end| end.matched.first().copied()).unwrap_or(0);
                }
                let written = output::open(self.output.as_deref())
                    .map(|mut out| writeln!(out, "{}", self.count).and_then(|()| out.flush()))?;
                written.map_err(|e| self.unwritten(&e))?;
            }
            Writer::Unopened | Writer::Closed => {}
        }
        // Only a complete file replaces the target.
        if let Some(Part { path, target }) = self.part.take().filter(|_| has_part) {
            std::fs::rename(path, &target).map_err(|e| Failure::writing(target.display(), &e))?;
        }
        Ok(())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // An unfinished run leaves the target unchanged.
        if let Some(part) = self.part.take().filter(|_| !self.is_unopened()) {
            let _ = std::fs::remove_file(part.path);
        }
    }
}

impl TakeItems for Answers {
    fn take(&mut self, _question: usize, item: Item) -> Next {
        match self.write(item) {
            Ok(()) => Next::Go,
            Err(failure) => {
                self.fail(failure);
                self.give_up();
                Next::End
            }
        }
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        // A failed output is already closed.
        if matches!(self.write, Writer::Closed) {
            return;
        }
        let completed = self.complete(end.as_ref());
        self.part = None;
        self.totals.answers.fetch_add(self.count, Ordering::Relaxed);
        for failure in completed.err().into_iter().chain(self.rows.fault()) {
            self.fail(failure);
        }
    }
}

//! The answers of a question on their way to its output.

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

/// What all questions of a run tell whoever runs them.
#[derive(Default, Clone)]
pub struct Told {
    /// What went wrong first at each output.
    fault: Arc<Mutex<Option<Failure>>>,
    /// Answers of all questions so far.
    answers: Arc<AtomicU64>,
}

impl Told {
    /// What went wrong; nothing any more afterwards.
    pub fn take_fault(&self) -> Option<Failure> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Answers of all questions.
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

/// A file that is written beside the one that it is to be, and takes its place at the end if it is whole and has answers:
/// the file that was there before stays otherwise.
pub struct Part {
    /// The file that is written.
    pub path: PathBuf,
    target: PathBuf,
}

impl Part {
    /// The part of the file `target`.
    pub fn of(target: &Path) -> Self {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        Self { path: name.into(), target: target.to_owned() }
    }
}

/// What an output is opened with.
struct Opening {
    form: Form,
    log: &'static str,
    columns: Vec<Column>,
    lines: Option<MakeLines>,
    /// What goes into a pcapng file beside packets.
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

/// The answers of a question, and the output they go to. The output is opened with the first of them.
pub struct Answers {
    /// The name of the question, where it is one of several.
    name: Option<String>,
    output: Option<PathBuf>,
    opening: Opening,
    write: Writer,
    rows: Box<dyn Rows>,
    counted: Counted,
    /// Answers so far.
    count: u64,
    told: Told,
    part: Option<Part>,
}

impl Answers {
    /// The answers of a question that was resolved.
    pub fn new(
        spec: &QuestionSpec,
        resolved: Resolved,
        form: Form,
        stdout: Stdout,
        findings: &Findings,
        told: &Told,
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
            told: told.clone(),
            part: spec.output.as_deref().filter(|_| spec.drops_empty).map(Part::of),
        }
    }

    fn is_unopened(&self) -> bool {
        matches!(self.write, Writer::Unopened)
    }

    /// Opens the output, where nothing was written yet: creates the file, or empties it.
    fn open(&mut self) -> Result<(), Failure> {
        if !self.is_unopened() {
            return Ok(());
        }
        let Opening { form, log, ref columns, lines, ref findings, stdout } = self.opening;
        let target = self.part.as_ref().map(|part| part.path.as_path()).or(self.output.as_deref());
        self.write = match form {
            Form::Capture(_) => {
                let path = target.unwrap_or(Path::new("-"));
                // Its error names the file.
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

    /// What is written is cut: it does not take the place of what was there, and stays beside that.
    fn give_up(&mut self) {
        self.part = None;
        self.write = Writer::Closed;
    }

    /// What went wrong is told at the end, beside what went wrong elsewhere.
    fn fail(&self, failure: Failure) {
        self.told.add_fault(match &self.name {
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
        // A pause is no answer; but who looks on is to see that there is none yet.
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
        // Who keeps no log without answers has none.
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
                if self.counted == Counted::Matched {
                    self.count = end.and_then(|end| end.matched.first().copied()).unwrap_or(0);
                }
                let written = output::open(self.output.as_deref())
                    .map(|mut out| writeln!(out, "{}", self.count).and_then(|()| out.flush()))?;
                written.map_err(|e| self.unwritten(&e))?;
            }
            Writer::Unopened | Writer::Closed => {}
        }
        // What is cut does not take the place of what was there, and stays beside that.
        if let Some(Part { path, target }) = self.part.take().filter(|_| has_part) {
            std::fs::rename(path, &target).map_err(|e| Failure::writing(target.display(), &e))?;
        }
        Ok(())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // A run that did not come to its end leaves what was there before.
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
        // An output that failed has been given up.
        if matches!(self.write, Writer::Closed) {
            return;
        }
        let completed = self.complete(end.as_ref());
        self.part = None;
        self.told.answers.fetch_add(self.count, Ordering::Relaxed);
        for failure in completed.err().into_iter().chain(self.rows.fault()) {
            self.fail(failure);
        }
    }
}

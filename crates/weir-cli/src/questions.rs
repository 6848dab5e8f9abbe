//! Questions of `weir run`: what each asks for, and where its rows go. A file or the control socket states them.

use crate::args::{Input, Matcher};
use crate::command::{match_, packets, streams};
use crate::dedup::Known;
use crate::failure::Failure;
use crate::merged_logs::Union;
use crate::output;
use crate::quantity::bytes;
use crate::tagged_sink::Named;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use weir::io::{CaptureFormat, CaptureWriter, Findings, Following, Format, Options, Partitions};
use weir::packet::{Column, RowSink, Value};
use weir::stream::{StreamParams, StreamQuestion};
use weir::{
    Ask, CONNECTION_COLUMNS, Compiler, EventRows, Item, Log, Need, Next, RowFilter, Shape, Subscription,
    TakeItems, Want,
};

/// A question as a file of questions or the control socket states it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSpec {
    /// The name of the question; unique in a run.
    pub name: String,
    /// The kind of answers: `flows`, `packets`, `streams`, `match`, `events`, `sessions`, the name of a session protocol, `files` or
    /// `x509`.
    pub ask: String,
    /// The filter. Default: all traffic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// The format of rows. Default: json.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The output file. Default: standard output. Packets may go to a capture file (.pcap or .pcapng), columnar rows to a
    /// directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// For `match`: the patterns, one regular expression each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// For `match`: upper and lower case are equal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// For `match`: patterns are literal strings, not regular expressions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_strings: bool,
    /// For `match`: the search engine that skips bytes outside of matches: auto, rust, vectorscan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Matcher>,
    /// For `streams` and `match`: only the first bytes of each stream, such as `10k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<String>,
    /// For `events`: the events wanted, as `layer.event`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// A question without answers creates no file, and leaves an existing file as it is.
    #[serde(skip)]
    pub drops_empty: bool,
}

/// The questions of a run by name, and what they share.
pub struct QuestionSet {
    /// The questions that are asked now.
    pub names: Mutex<HashMap<String, (Subscription, QuestionSpec)>>,
    /// The captures that the run reads.
    pub input: Input,
    /// Everything that the captures hold beside packets.
    pub findings: Findings,
    /// The compiler that checks filters.
    pub compiler: Compiler,
    /// The first failure of an output.
    pub fault: Fault,
}

impl QuestionSet {
    /// No question yet.
    pub fn new(input: Input, compiler: Compiler) -> Self {
        let (findings, fault) = (Findings::default(), Fault::default());
        Self { names: Mutex::default(), input, findings, compiler, fault }
    }

    /// All that is wrong with a question that is to be asked beside `others`: it needs a name and an output of its own.
    /// Nothing is created.
    pub fn check<'a>(
        &self,
        spec: &QuestionSpec,
        others: impl IntoIterator<Item = &'a QuestionSpec>,
    ) -> Vec<Failure> {
        if spec.name.is_empty() || spec.name.contains(char::is_control) {
            return vec![Failure::new("a question needs a name of printable characters")];
        }
        let mut wrong = vec![];
        for other in others {
            if other.name == spec.name {
                wrong.push(Failure::new(format!("two questions are called `{}`", spec.name)));
                continue;
            }
            match (&spec.output, &other.output) {
                (Some(mine), Some(theirs)) if output::is_same_file(mine, theirs) => {
                    let (path, name) = (mine.display(), &other.name);
                    let message = format!("{path} is the output of `{name}`: use another file");
                    wrong.push(Failure::new(message).of_question(&spec.name));
                }
                (None, None) if !(spec.is_json() && other.is_json()) => {
                    let message = format!(
                        "`{}` also writes to standard output: give one of them an `output`",
                        other.name
                    );
                    wrong.push(Failure::new(message).of_question(&spec.name));
                }
                _ => {}
            }
        }
        let output = spec.output.as_ref().map_or(Ok(()), |path| {
            output::refuse_input(path, &self.input)?;
            if spec.drops_empty { output::check(&Part::of(path).path) } else { output::check(path) }
        });
        // What is wrong with a filter is said of it, whatever its question asks for.
        let filter = match Log::of(&spec.ask) {
            Some(_) => Ok(()),
            None => self.compiler.check_filter(&spec.filter, self.input.program.bpf).map_err(Failure::from),
        };
        let rows = spec.resolve(self).and_then(|(_, target)| spec.check_format(&target));
        let own = [output, filter, rows].into_iter().filter_map(Result::err);
        wrong.extend(own.map(|wrong| wrong.of_question(&spec.name)));
        wrong
    }

    /// Makes a question ready that is to be asked beside `names`. Its file is touched once a program answers it: where there
    /// is none, what was there before stays.
    pub fn admit(
        &self,
        spec: &QuestionSpec,
        names: &HashMap<String, (Subscription, QuestionSpec)>,
    ) -> Result<Prepared, Failure> {
        Failure::all(self.check(spec, names.values().map(|(_, spec)| spec)))?;
        spec.prepare(self).map_err(|wrong| wrong.of_question(&spec.name))
    }
}

/// What went wrong first while answers were written.
pub type Fault = Arc<Mutex<Option<Failure>>>;

/// Where the answers of a question go.
pub struct Answers {
    /// The question's name, and the file, where it isn't standard output.
    name: String,
    output: Option<PathBuf>,
    write: Writer,
    /// What rows are made of.
    kind: Kind,
    fault: Fault,
    part: Option<Part>,
}

/// A file that is written beside the one that it is to be, and takes its place at the end if it is whole and has answers:
/// what was there before stays otherwise.
struct Part {
    path: PathBuf,
    target: PathBuf,
}

impl Part {
    fn of(target: &Path) -> Self {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        Self { path: name.into(), target: target.to_owned() }
    }
}

enum Writer {
    /// Nothing was written yet.
    Unopened(Box<Opening>),
    Rows(Box<dyn RowSink + Send>),
    Capture(CaptureWriter, PathBuf),
    /// Given away at the end.
    Closed,
}

/// What an output is opened with.
struct Opening {
    spec: QuestionSpec,
    /// The name of the log.
    path: &'static str,
    columns: Vec<Column>,
    /// Of pcapng alone.
    findings: Option<Following>,
}

impl Opening {
    /// Creates the file, or empties it.
    fn open(&self, part: Option<&Part>) -> Result<Writer, Failure> {
        let spec = &self.spec;
        if spec.is_capture() {
            let path = spec.output.clone().unwrap_or_default();
            let mut writer = CaptureWriter::create(&path).map_err(Failure::new)?;
            if let Some(findings) = &self.findings {
                writer = writer.with_findings(findings.clone());
            }
            return Ok(Writer::Capture(writer, path));
        }
        let target = part.map(|part| part.path.as_path()).or(spec.output.as_deref());
        let options = Options { path: self.path, ..Options::default() };
        let mut sink = output::create(spec.format()?, target, &options)?;
        if target.is_none() && spec.is_json() {
            sink = Box::new(Named::new(&spec.name, sink));
        }
        sink.begin(&self.columns)?;
        Ok(Writer::Rows(sink))
    }
}

enum Kind {
    Flows,
    Packets(Arc<weir::lang::model::Stack>),
    Events,
    /// Rows of a log that were not shown before, and that are asked for.
    Log(Known, Option<Box<RowFilter>>),
    Sessions(&'static Union),
    /// What handlers of streams emit.
    Streams,
}

/// What is asked of the program.
pub enum Question {
    /// What it hands over as it is, and what of it.
    Items(Ask, Shape),
    /// Streams.
    Stream(StreamQuestion),
}

/// A question ready to be subscribed.
pub struct Prepared {
    /// What is asked.
    pub question: Question,
    /// Where they go.
    pub answers: Answers,
}

/// What the answers of a question are written as.
struct Rows {
    kind: Kind,
    /// The name of their log.
    path: &'static str,
    /// None: they are frames.
    columns: Vec<Column>,
}

impl QuestionSpec {
    /// What is asked of the program, and what the answers are written as. Nothing is created.
    fn resolve(&self, board: &QuestionSet) -> Result<(Question, Rows), Failure> {
        let compiler = &board.compiler;
        self.check_options()?;
        if self.is_capture() && (self.ask != "packets" || self.format.is_some()) {
            let message = "a capture file can only hold packets: `ask = \"packets\"`, no `format`";
            return Err(Failure::new(message));
        }
        if self.is_of_streams() {
            return self.resolve_streams();
        }
        let (mut shape, mut need, mut filter) = (Shape::default(), Need::default(), self.filter.clone());
        let stack = || Arc::new(compiler.stack().clone());
        // Events say what carries them.
        let is_eve = self.format.as_deref() == Some("eve");
        let (kind, want, path, columns): (Kind, Want, &'static str, Vec<Column>) = match self.ask.as_str() {
            "flows" => {
                need.service = true;
                (Kind::Flows, Want::Connections, "conn", CONNECTION_COLUMNS.to_vec())
            }
            "packets" if self.is_capture() => {
                shape.frames = true;
                let format = self.output.as_deref().and_then(CaptureFormat::of_path);
                shape.options = format == Some(CaptureFormat::Pcapng);
                (Kind::Packets(stack()), Want::Packets, "", vec![])
            }
            "packets" => {
                shape.lines = true;
                (need.packets, need.lines) = (true, true);
                (Kind::Packets(stack()), Want::Packets, "", packets::COLUMNS.to_vec())
            }
            "events" => {
                let rows = EventRows::of(compiler.stack(), &self.events)
                    .map_err(|name| Failure::new(format!("there is no event `{name}`")))?;
                need.events = rows.asked;
                (Kind::Events, Want::Events, "", rows.columns)
            }
            "sessions" => {
                let union = Union::of_all(self.format.as_deref() == Some("table"));
                let columns = union.columns.clone();
                shape.carrier = is_eve;
                let all = Log::all().iter().fold(0, |mask, log| mask | log.protocols);
                (Kind::Sessions(union), Want::Sessions(all), "", columns)
            }
            name => {
                let log = Log::of(name).ok_or_else(|| Failure::new(unknown(name)))?;
                let log = if is_eve { log.with_carrier() } else { log };
                shape = log.shape();
                let is_bpf = board.input.program.bpf;
                let (of_sessions, of_rows) = log.split_filter(compiler, &self.filter, is_bpf)?;
                filter = of_sessions;
                (
                    Kind::Log(Known::of(&log), of_rows.map(Box::new)),
                    Want::Sessions(log.asked()),
                    log.path,
                    log.columns(),
                )
            }
        };
        let ask = Ask { filter, need, want };
        Ok((Question::Items(ask, shape), Rows { kind, path, columns }))
    }

    fn resolve_streams(&self) -> Result<(Question, Rows), Failure> {
        let cutoff = self.cutoff.as_deref().map_or(Ok(u64::MAX), |text| bytes("cutoff", text))?;
        let params = StreamParams { cutoff: [cutoff; 2], ..StreamParams::default() };
        let (question, columns) = if self.ask == "match" {
            let look = match_::Look {
                ignore_case: self.ignore_case,
                fixed_strings: self.fixed_strings,
                engine: self.matcher.unwrap_or(Matcher::Auto).into(),
                ..match_::Look::default()
            };
            let (_, make) = look.compile(self.patterns.clone())?;
            (StreamQuestion::new(&self.filter, params, make), match_::COLUMNS)
        } else {
            (StreamQuestion::new(&self.filter, params, streams::Rows::default), streams::COLUMNS)
        };
        Ok((Question::Stream(question), Rows { kind: Kind::Streams, path: "", columns: columns.to_vec() }))
    }

    /// Whether it asks for streams, or what is in them.
    pub fn is_of_streams(&self) -> bool {
        matches!(&*self.ask, "streams" | "match")
    }

    /// Options of one kind of question are nothing for another.
    fn check_options(&self) -> Result<(), Failure> {
        let is_match = self.ask == "match";
        let options = [
            ("patterns", !self.patterns.is_empty(), is_match),
            ("ignore_case", self.ignore_case, is_match),
            ("fixed_strings", self.fixed_strings, is_match),
            ("matcher", self.matcher.is_some(), is_match),
            ("cutoff", self.cutoff.is_some(), self.is_of_streams()),
        ];
        match options.iter().find(|(_, is_given, is_its)| *is_given && !is_its) {
            Some((option, ..)) => Err(Failure::new(format!("`{option}` does not apply to `{}`", self.ask))),
            None => Ok(()),
        }
    }

    /// Whether the format has room for such rows, and a place to go to.
    fn check_format(&self, rows: &Rows) -> Result<(), Failure> {
        if self.is_capture() {
            return Ok(());
        }
        let format = self.format()?;
        if let Some(directory) = self.output.as_deref().filter(|path| output::is_directory(path)) {
            Partitions::new(directory, format, &Options::default()).map_err(Failure::new)?;
        }
        let options = Options { path: rows.path, ..Options::default() };
        let mut nowhere = weir::io::sink::create(format, Box::new(io::sink()), &options);
        Ok(nowhere.begin(&rows.columns)?)
    }

    /// Makes it ready. Nothing is created.
    fn prepare(&self, board: &QuestionSet) -> Result<Prepared, Failure> {
        let (question, Rows { kind, path, columns }) = self.resolve(board)?;
        let part = self.output.as_deref().filter(|_| self.drops_empty).map(Part::of);
        let format = self.output.as_deref().filter(|_| self.is_capture()).and_then(CaptureFormat::of_path);
        let findings =
            format.filter(|format| *format == CaptureFormat::Pcapng).map(|_| board.findings.follow());
        let opening = Opening { spec: self.clone(), path, columns, findings };
        let write = Writer::Unopened(Box::new(opening));
        let (name, output) = (self.name.clone(), self.output.clone());
        let answers = Answers { name, output, write, kind, fault: Arc::clone(&board.fault), part };
        Ok(Prepared { question, answers })
    }

    /// Lines that may stand between those of others.
    fn is_json(&self) -> bool {
        self.format.as_deref().is_none_or(|format| format == "json")
    }

    fn is_capture(&self) -> bool {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        matches!(ending, Some("pcap" | "pcapng"))
    }

    fn format(&self) -> Result<Format, Failure> {
        let format: Format = self.format.as_deref().unwrap_or("json").parse().map_err(Failure::new)?;
        // Standard output is that of all questions, whose lines may follow on each other.
        if format.is_columnar() && self.output.is_none() {
            return Err(Failure::new(format!("{format} needs an `output`: a file, or a directory")));
        }
        Ok(format)
    }
}

fn unknown(ask: &str) -> String {
    let protocols = weir::sessions::PROTOCOLS.iter().map(|protocol| protocol.name);
    let logs = protocols.chain(Log::of_parts().map(|log| log.ask));
    let known: Vec<&str> =
        ["flows", "packets", "streams", "match", "events", "sessions"].into_iter().chain(logs).collect();
    format!("`{ask}` is not a type of question; known are: {}", known.join(", "))
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
    fn take(&mut self, item: Item) -> Next {
        match self.write(item) {
            Ok(()) => Next::Go,
            Err(failure) => {
                self.fail(failure);
                self.give_up();
                Next::End
            }
        }
    }

    fn finish(&mut self) {
        if let Kind::Log(known, _) = &self.kind {
            known.report();
        }
        // Who keeps no log without answers has none.
        let opened = if self.part.is_none() { self.open() } else { Ok(()) };
        let has_part = !self.is_unopened();
        let finished = match std::mem::replace(&mut self.write, Writer::Closed) {
            Writer::Rows(mut sink) => sink.end().map_err(|e| self.unwritten(&e)),
            Writer::Capture(writer, path) => {
                writer.finish().map_err(|e| Failure::writing(path.display(), &e)).map(drop)
            }
            Writer::Unopened(_) | Writer::Closed => Ok(()),
        };
        // What is cut does not take the place of what was there, and stays beside that.
        let finished = opened.and(finished).and_then(|()| match self.part.take().filter(|_| has_part) {
            Some(Part { path, target }) => {
                std::fs::rename(path, &target).map_err(|e| Failure::writing(target.display(), &e))
            }
            None => Ok(()),
        });
        self.part = None;
        if let Err(failure) = finished {
            self.fail(failure);
        }
    }
}

impl Answers {
    fn is_unopened(&self) -> bool {
        matches!(self.write, Writer::Unopened(_))
    }

    /// Opens the output, where nothing was written yet.
    fn open(&mut self) -> Result<(), Failure> {
        if let Writer::Unopened(opening) = &self.write {
            self.write = opening.open(self.part.as_ref())?;
        }
        Ok(())
    }

    /// What is written is cut: it does not take the place of what was there, and stays beside that.
    fn give_up(&mut self) {
        self.part = None;
        self.write = Writer::Closed;
    }

    /// What went wrong is said at the end, beside what went wrong elsewhere.
    fn fail(&self, failure: Failure) {
        let mut fault = self.fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let failure = failure.of_question(&self.name);
        *fault = Some(match fault.take() {
            Some(before) => before.and(failure),
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
        match (&mut self.write, item) {
            (Writer::Capture(writer, path), Item::Pause) => {
                writer.flush().map_err(|e| Failure::writing(path.display(), &e))
            }
            (Writer::Capture(writer, path), Item::Packet { meta, frame, options, .. }) => {
                let written = writer.write_with_options(&meta, &frame, &options);
                written.map_err(|e| Failure::writing(path.display(), &e))
            }
            (Writer::Rows(sink), Item::Pause) => sink.flush().map_err(|e| self.unwritten(&e)),
            (Writer::Rows(sink), item) => {
                row(&mut self.kind, &mut **sink, &item).map_err(|e| self.unwritten(&e))
            }
            _ => Ok(()),
        }
    }
}

/// Writes the row of an item.
fn row(kind: &mut Kind, sink: &mut dyn RowSink, item: &Item) -> io::Result<()> {
    match (kind, item) {
        (Kind::Flows, Item::Connection(connection)) => sink.row(&connection.values()),
        (Kind::Packets(stack), Item::Packet { meta, path, line, .. }) => {
            sink.row(&packets::values(stack, meta, *path, line))
        }
        (Kind::Streams, Item::Stream(values)) => sink.row(values),
        (Kind::Events, Item::Event(values)) => sink.row(values),
        (Kind::Log(known, rows), Item::Session(_, values)) => {
            let is_asked = rows.as_mut().is_none_or(|rows| rows.takes(values));
            if is_asked && known.is_new(values) { sink.row(values) } else { Ok(()) }
        }
        (Kind::Sessions(union), Item::Session(protocol, values)) => {
            let row: Vec<Value<'_>> = union.row(*protocol, values);
            sink.row(&row)
        }
        _ => Ok(()),
    }
}

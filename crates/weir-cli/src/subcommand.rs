//! What a subcommand is: its arguments, the function that runs it, and, where it answers a question about
//! traffic, the type of that question. Each file of `command` declares its own; `command/mod.rs` lists them.

use crate::args::formats;
use crate::extraction::Extraction;
use crate::failure::Failure;
use crate::form::Form;
use crate::metrics::Series;
use crate::outlets::Outlets;
use crate::output::FileId;
use crate::rows::Rows;
use crate::spec::{QuestionSpec, Stdout};
use clap::{ArgMatches, Args, FromArgMatches};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use weir::io::{CaptureFormat, Compression, Findings, Format};
use weir::packet::{Column, RowSink};
use weir::{ColumnMask, Compiler, Question};
use weir_detect::FirstBytes;

/// A subcommand.
pub struct Subcommand {
    /// The name, as typed.
    pub name: &'static str,
    /// One line for the list of subcommands.
    pub about: Cow<'static, str>,
    /// The type of its questions; `None`: the subcommand asks no question.
    pub question: Option<QuestionKind>,
    /// The group in the list of commands.
    pub group: Group,
    /// This build lacks the subcommand: it is not in the help, and fails with a message.
    pub is_hidden: bool,
    /// Command lines at the end of the help, each with what it does.
    examples: Vec<(String, String)>,
    /// Text below the options in the help, before the examples.
    after_help: Option<String>,
    arguments: fn(clap::Command) -> clap::Command,
    run: Box<Run>,
}

type Run = dyn Fn(&ArgMatches, &[Subcommand]) -> Result<ExitCode, Failure>;

impl Subcommand {
    /// A subcommand that calls `run` with its arguments and the list of all subcommands.
    pub fn new<A: Args + FromArgMatches>(
        name: &'static str,
        about: impl Into<Cow<'static, str>>,
        run: impl Fn(A, &[Subcommand]) -> Result<ExitCode, Failure> + 'static,
    ) -> Self {
        let run = move |matches: &ArgMatches, all: &[Subcommand]| {
            run(A::from_arg_matches(matches).unwrap_or_else(|wrong| wrong.exit()), all)
        };
        let (about, arguments) = (about.into(), A::augment_args);
        let (group, examples) = (Group::Everyday, vec![]);
        let (is_hidden, after_help, question, run) = (false, None, None, Box::new(run));
        Self { name, about, group, is_hidden, examples, after_help, question, arguments, run }
    }

    /// Sets the type of its questions.
    pub fn with_question(self, kind: QuestionKind) -> Self {
        Self { question: Some(kind), ..self }
    }

    /// Sets the group in the list of commands.
    pub fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Leaves the subcommand out of the help unless this build has it.
    pub fn shown_if(self, is_there: bool) -> Self {
        Self { is_hidden: !is_there, ..self }
    }

    /// Sets the examples at the end of the help: command lines without `weir`, and what they do.
    pub fn with_examples<T: AsRef<str>>(self, examples: &[(T, T)]) -> Self {
        let owned = |(line, what): &(T, T)| (line.as_ref().to_string(), what.as_ref().to_string());
        Self { examples: examples.iter().map(owned).collect(), ..self }
    }

    /// Sets the text below the options in the help.
    pub fn with_after_help(self, text: String) -> Self {
        Self { after_help: Some(text), ..self }
    }

    /// The clap command of the subcommand.
    pub fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name);
        let mut command = (self.arguments)(command).about(self.about.to_string()).hide(self.is_hidden);
        if let Some(own) = self.question.and_then(|kind| kind.own_format) {
            command = command.mut_arg("format", |format| format.value_parser(formats(&[own])));
        }
        if self.question.is_some_and(|kind| kind.is_capturable) {
            command =
                command.mut_arg("format", |format| format.value_parser(formats(&CaptureFormat::LABELS)));
        }
        // As in grep, `-i` of `match` ignores case; the interface then has no letter.
        let takes_letter =
            |arg: &clap::Arg| arg.get_short() == Some('i') && arg.get_id().as_str() != "interface";
        if command.get_arguments().any(takes_letter) {
            command = command.mut_arg("interface", |interface| interface.short(None));
        }
        let mut text = self.after_help.clone().unwrap_or_default();
        if !self.examples.is_empty() {
            let width = self.examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
            text += if text.is_empty() { "Examples:" } else { "\n\nExamples:" };
            for (line, what) in &self.examples {
                let padding = " ".repeat(width - line.chars().count());
                text += &format!("\n  weir {line}{padding}  {what}");
            }
        }
        if text.is_empty() { command } else { command.after_help(text) }
    }

    /// Runs the subcommand; returns its exit status.
    pub fn run(&self, matches: &ArgMatches, all: &[Subcommand]) -> Result<ExitCode, Failure> {
        (self.run)(matches, all)
    }
}

/// A group of commands in the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What people use every day.
    Everyday,
    /// Sessions of one protocol.
    Protocols,
    /// Several questions in one run.
    Runs,
    /// Filters, stacks and texts of protocols.
    Authors,
}

impl Group {
    /// The groups with their titles, in the order of the help.
    pub const ALL: &'static [(Group, &'static str)] = &[
        (Group::Everyday, "Everyday"),
        (Group::Protocols, "Protocols, one row for each session"),
        (Group::Runs, "Several questions at once"),
        (Group::Authors, "Filters, and tools for authors of protocols"),
    ];
}

/// Options that all types of questions have.
const COMMON_OPTIONS: &[&str] = &[
    "name",
    "ask",
    "filter",
    "format",
    "output",
    "rotate",
    "keep",
    "count",
    "csv_safe",
    "columns",
    "limit",
    "sort",
    "names",
    "wide",
    "local",
    "spool",
    "spool_max",
    "observation_domain",
    "sensor",
    "create",
];

/// A type of question, whether it comes from the command line, a file of questions, or the control socket.
#[derive(Clone, Copy)]
pub struct QuestionKind {
    /// Resolves the question. Nothing is created.
    pub resolve: Resolve,
    /// The options of a [`QuestionSpec`] that apply to this type, beside those of all types.
    pub options: &'static [&'static str],
    /// The answers are packets, which a capture file can hold.
    pub is_capturable: bool,
    /// The name of a format that only this type has; [`Resolved::lines`] makes its sink.
    pub own_format: Option<&'static str>,
    /// Whether a question keeps something until later rows, or until the end of the run, beside what its view
    /// keeps.
    pub keeps: fn(&QuestionSpec) -> bool,
    /// Copies of packets are counted for this type.
    pub counts_copies: bool,
}

/// Resolves a question.
pub type Resolve = fn(&QuestionSpec, &Context<'_>) -> Result<Resolved, Failure>;

impl QuestionKind {
    /// A type without options of its own, whose answers are rows.
    pub fn new(resolve: Resolve) -> Self {
        let (is_capturable, counts_copies) = (false, false);
        Self { resolve, options: &[], is_capturable, own_format: None, keeps: |_| false, counts_copies }
    }

    /// Rejects options that do not apply to this type.
    pub fn check_options(&self, spec: &QuestionSpec) -> Result<(), Failure> {
        let applies = |option: &String| [COMMON_OPTIONS, self.options].concat().contains(&option.as_str());
        match spec.given()?.iter().find(|option| !applies(option)) {
            Some(option) => Err(Failure::new(format!("`{option}` does not apply to `{}`", spec.ask))),
            None => Ok(()),
        }
    }

    /// The form of the answers.
    pub fn form(&self, spec: &QuestionSpec, stdout: Stdout) -> Result<Form, Failure> {
        check_ending(spec)?;
        let by_name = spec.output.as_deref().and_then(Format::of_path).map(Format::label);
        let separated = [Format::Csv.label(), Format::Tsv.label()];
        if spec.csv_safe
            && !spec.format.as_deref().or(by_name).is_some_and(|label| separated.contains(&label))
        {
            return Err(Failure::new("--csv-safe needs --format csv or tsv"));
        }
        if spec.is_capture() && spec.count {
            return Err(Failure::new(
                "a capture file holds packets, not their number: give --count without it",
            ));
        }
        if spec.is_capture() && spec.has_packet_texts() {
            return Err(Failure::new(
                "a capture holds packets, not their detail or bytes as text: give no -V and no -x",
            ));
        }
        if spec.is_capture() {
            let given = spec.format.as_deref().map(CaptureFormat::of_label);
            if !self.is_capturable || given == Some(None) {
                let message = "a capture can only hold packets: `ask = \"packets\"` without a `format` of rows, or weir packets -w FILE";
                return Err(Failure::new(message));
            }
            let by_name = || spec.output.as_deref().and_then(CaptureFormat::of_path);
            return Ok(Form::Capture(given.flatten().or_else(by_name).unwrap_or(CaptureFormat::Pcapng)));
        }
        if spec.has_packet_texts() {
            return match spec.format.as_deref() {
                None | Some("json") => Ok(Form::Lines { color: false }),
                Some(other) => Err(Failure::new(format!(
                    "the detail and the bytes of packets are text, or JSON: give no format or `json` instead of `{other}`"
                ))),
            };
        }
        let format: Format = match spec.format.as_deref() {
            Some(name) if Some(name) == self.own_format && !spec.count => {
                return Ok(Form::Lines { color: spec.color });
            }
            // A number has no format.
            Some(name) if Some(name) == self.own_format => Format::Json,
            Some(name) => name.parse().map_err(Failure::new)?,
            None if let Some(format) = spec.output.as_deref().and_then(Format::of_path) => format,
            None if stdout == (Stdout::Own { is_terminal: true }) && spec.output.is_none() => Format::Table,
            None => Format::Json,
        };
        if spec.count && spec.output.is_none() && stdout == Stdout::Shared {
            return Err(Failure::new("`count` needs an `output`, a file for the number"));
        }
        if spec.count {
            return Ok(Form::Count);
        }
        // Several questions interleave their lines, which a columnar format does not allow.
        if format.is_columnar() && spec.output.is_none() && stdout == Stdout::Shared {
            return Err(Failure::new(format!("{format} needs an `output`: a file, or a directory")));
        }
        Ok(Form::Rows(format))
    }
}

/// Endings of compressed files.
const OTHER_COMPRESSIONS: [&str; 4] = ["bz2", "xz", "br", "zip"];

/// Refuses names of files whose ending promises what the file would not hold.
fn check_ending(spec: &QuestionSpec) -> Result<(), Failure> {
    // Pipes, devices and directories hold what their readers expect.
    let is_other = |path: &Path| path.metadata().is_ok_and(|about| !about.is_file());
    let is_of_file = |path: &&Path| {
        let name = path.to_string_lossy();
        !name.contains("://") && !name.ends_with('/') && !is_other(path)
    };
    let Some(path) = spec.output.as_deref().filter(is_of_file) else { return Ok(()) };
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    // What follows a dot may be a part of a name, as in a date.
    let is_ending =
        |ending: &String| ending.len() <= 7 && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    let Some(ending) = ending.filter(is_ending) else { return Ok(()) };
    let path = path.display();
    if OTHER_COMPRESSIONS.contains(&&*ending) {
        return Err(Failure::new(format!(
            "{path}: output is compressed as .gz, .zst or .lz4: for `.{ending}`, pipe `-o -` to a program"
        )));
    }
    let form = spec.output.as_deref().and_then(Format::of_path);
    let label = spec.format.as_deref().or(form.map(Format::label));
    let is_compressed = spec.output.as_deref().and_then(Compression::of_path).is_some();
    if is_compressed && Format::ALL.iter().any(|one| one.is_columnar() && Some(one.label()) == label) {
        return Err(Failure::new(format!(
            "{path}: readers of a columnar format do not expect it to be compressed: leave `.{ending}` out"
        )));
    }
    if is_compressed && spec.count {
        return Err(Failure::new(format!("{path}: a number is not compressed: leave `.{ending}` out")));
    }
    let has_form = spec.is_capture() || spec.count || spec.format.is_some() || spec.has_packet_texts();
    if has_form || form.is_some() {
        return Ok(());
    }
    let known: Vec<String> = Format::ENDINGS.iter().map(|(ending, _)| format!(".{ending}")).collect();
    Err(Failure::new(format!(
        "{path}: no format has the ending `.{ending}`: there are {}; for packets .pcap and .pcapng; or give --format",
        known.join(", ")
    )))
}

/// The types of questions by the names of their subcommands, in the order of the subcommand list.
pub struct QuestionKinds(Vec<(&'static str, QuestionKind)>);

impl QuestionKinds {
    /// The types of questions that these subcommands answer.
    pub fn of(commands: &[Subcommand]) -> Self {
        Self(commands.iter().filter_map(|command| Some((command.name, command.question?))).collect())
    }

    /// The type with this name.
    ///
    /// # Errors
    /// All names, if there is no such type.
    pub fn get(&self, ask: &str) -> Result<QuestionKind, Failure> {
        let kind = self.0.iter().find(|(name, _)| *name == ask);
        kind.map(|(_, kind)| *kind).ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
            Failure::new(format!("`{ask}` is not a type of question; known are: {}", known.join(", ")))
        })
    }
}

/// The context for resolving a question.
pub struct Context<'a> {
    /// The compiler; filters are resolved against its stack.
    pub compiler: &'a Compiler,
    /// Filters use the syntax of pcap-filter(7).
    pub bpf: bool,
    /// Metadata that the reader finds in the captures in addition to packets.
    pub findings: &'a Findings,
    /// The form of the answers.
    pub form: &'a Form,
    /// The files that the run reads.
    pub inputs: Vec<FileId>,
    /// The names of the captures, as typed.
    pub captures: &'a [OsString],
    /// The threads of the outputs.
    pub outlets: &'a Outlets,
    /// Bytes of memory for what the question keeps.
    pub memory_max: usize,
    /// Where rules find the first bytes of files. `None`: the contents go to an extraction.
    pub file_contents: Option<&'a FirstBytes>,
    /// The extraction of the run, and the name of the question that states it.
    pub extraction: Option<(&'a str, &'a Arc<Extraction>)>,
}

/// A resolved question.
pub struct Resolved {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The name of the log of the rows.
    pub log: &'static str,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// The columns that a table shows unless others are requested. Empty: all columns.
    pub brief: Vec<Cow<'static, str>>,
    /// Turns items into rows.
    pub rows: Box<dyn Rows>,
    /// The names of columns that are shown only if they are named.
    pub on_request: &'static [&'static str],
    /// Takes the work for columns that are not shown out of the questions. `None`: all columns are computed.
    pub show_columns: Option<ShowColumns>,
    /// The rows as metrics.
    pub series: Option<Arc<Series>>,
    /// How answers are counted.
    pub counted: Counted,
    /// Makes a sink for the question's own line format.
    pub lines: Option<MakeLines>,
    /// A line for the report of counters.
    pub note: Option<String>,
    /// The run reports the bytes that its streams lack.
    pub lost_bytes: bool,
    /// The rows obey the `limit` of the question themselves, which is no number of rows.
    pub has_own_limit: bool,
}

/// Receives the questions for the engine, and the columns of rows that are needed afterwards.
pub type ShowColumns = Box<dyn FnOnce(&mut [Question], ColumnMask)>;

/// Makes a sink that writes lines, with or without colours.
pub type MakeLines = Box<dyn FnOnce(Box<dyn Write + Send>, bool) -> Box<dyn RowSink + Send> + Send>;

/// How answers are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The engine's number of matches for the first question; no items are delivered.
    Matched,
    /// The number of rows.
    Rows,
}

impl Resolved {
    /// A question whose rows are counted.
    pub fn new(
        questions: Vec<Question>,
        log: &'static str,
        columns: Vec<Column>,
        rows: impl Rows + 'static,
    ) -> Self {
        let rows = Box::new(rows);
        let (counted, brief) = (Counted::Rows, vec![]);
        let (lines, note, series, show_columns) = (None, None, None, None);
        let (lost_bytes, has_own_limit) = (false, false);
        Self {
            questions,
            log,
            columns,
            brief,
            rows,
            on_request: &[],
            show_columns,
            series,
            counted,
            lines,
            note,
            lost_bytes,
            has_own_limit,
        }
    }

    /// Computes only the columns that are shown, and `others`, which rows are made of, too.
    pub fn with_shown_columns(self, others: ColumnMask) -> Self {
        let show = move |questions: &mut [Question], shown: ColumnMask| {
            questions.iter_mut().for_each(|question| question.show_columns(shown.with(others)));
        };
        Self { show_columns: Some(Box::new(show)), ..self }
    }

    /// Sets the columns of a table.
    pub fn with_brief(self, names: &[&'static str]) -> Self {
        Self { brief: names.iter().map(|name| Cow::Borrowed(*name)).collect(), ..self }
    }
}

//! The types of questions: what each is, whether it comes from a command line, a file of questions, the
//! control socket or another program, and what it becomes when it is resolved. Each file of `kinds` declares
//! its own.

pub use crate::rows::resolved::{Counted, MakeLines, Resolved};

use crate::contents::extraction::Extraction;
use crate::form::Form;
use crate::messages::failure::Failure;
use crate::options::Options as _;
use crate::output::outlets::Outlets;
use crate::output::place::FileId;
use crate::spec::{QuestionSpec, Stdout};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use weir::Compiler;
use weir::io::{CaptureFormat, Compression, Findings, Format};
use weir_detect::FirstBytes;

/// Options that all types of questions have.
pub const COMMON_OPTIONS: &[&str] = &[
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

/// A type of question, whether it comes from a command line, a file of questions, the control socket or
/// another program.
#[derive(Clone)]
pub struct QuestionKind {
    /// The name, which is also that of its command.
    pub name: &'static str,
    /// What its answers are, in one line.
    pub about: Cow<'static, str>,
    /// The group of its command.
    pub group: Group,
    /// Command lines without `weir`, each with what it does.
    pub examples: Vec<(String, String)>,
    /// Text below the options in the help.
    pub notes: Option<String>,
    /// Resolves the question. Nothing is created.
    pub resolve: Resolve,
    /// The names of the options that this type has in addition to [`COMMON_OPTIONS`].
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
    /// This build lacks the type: why, and how to get it.
    pub missing: Option<&'static str>,
}

/// Resolves a question.
pub type Resolve = fn(&QuestionSpec, &Context<'_>) -> Result<Resolved, Failure>;

impl QuestionKind {
    /// A type without options of its own, whose answers are rows.
    pub fn new(name: &'static str, about: impl Into<Cow<'static, str>>, resolve: Resolve) -> Self {
        Self {
            name,
            about: about.into(),
            group: Group::Everyday,
            examples: vec![],
            notes: None,
            resolve,
            options: &[],
            is_capturable: false,
            own_format: None,
            keeps: |_| false,
            counts_copies: false,
            missing: None,
        }
    }

    /// Sets the examples: command lines without `weir`, and what they do.
    pub fn with_examples<T: AsRef<str>>(self, examples: &[(T, T)]) -> Self {
        let owned = |(line, what): &(T, T)| (line.as_ref().to_string(), what.as_ref().to_string());
        Self { examples: examples.iter().map(owned).collect(), ..self }
    }

    /// Whether questions of this type have an option.
    pub fn has_option(&self, name: &str) -> bool {
        COMMON_OPTIONS.contains(&name) || self.options.contains(&name)
    }

    /// Rejects options that do not apply to this type.
    pub fn check_options(&self, spec: &QuestionSpec) -> Result<(), Failure> {
        match spec.given().keys().find(|option| !self.has_option(option)) {
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
            None if stdout.screen_of(spec.output.as_deref()).is_some() => Format::Table,
            None => Format::Json,
        };
        if spec.count && spec.output.is_none() && stdout.is_shared {
            return Err(Failure::new("`count` needs an `output`, a file for the number"));
        }
        if spec.count {
            return Ok(Form::Count);
        }
        // Several questions interleave their lines, which a columnar format does not allow.
        if format.is_columnar() && spec.output.is_none() && stdout.is_shared {
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

/// The types of questions that a run knows, in the order of the help.
pub struct QuestionKinds(Vec<QuestionKind>);

impl QuestionKinds {
    /// These types, without those that this build lacks.
    pub fn new(kinds: Vec<QuestionKind>) -> Self {
        Self(kinds.into_iter().filter(|kind| kind.missing.is_none()).collect())
    }

    /// All types.
    pub fn iter(&self) -> impl Iterator<Item = &QuestionKind> {
        self.0.iter()
    }

    /// The type with this name.
    ///
    /// # Errors
    /// All names, if there is no such type.
    pub fn get(&self, ask: &str) -> Result<&QuestionKind, Failure> {
        self.iter().find(|kind| kind.name == ask).ok_or_else(|| {
            let known: Vec<&str> = self.iter().map(|kind| kind.name).collect();
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

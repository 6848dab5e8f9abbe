//! A question as a file of questions, the control socket or a command line states it.

use crate::failure::Failure;
use crate::form::Form;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use weir::io::{CaptureFormat, Format};
use weir::patterns::EngineChoice;

/// A question, stated.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSpec {
    /// The name of the question; unique in a run.
    pub name: String,
    /// The kind of answers, by the name of its command: `flows`, `packets`, `streams`, `match`, `tls` …
    pub ask: String,
    /// The filter. Default: all traffic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// The format of rows. Default: JSON lines; of a question that has standard output for itself, a table on a terminal.
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
    /// For `match`: the prefilter, which skips bytes outside of matches: auto, rust, vectorscan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Matcher>,
    /// For `match`: bytes of context before and after a match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u16>,
    /// For `match`: matches after which a stream is searched no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_count: Option<usize>,
    /// For `match`: the streams with matches (`with`) or without (`without`), instead of the matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsShown>,
    /// For `streams`: the digest of each stream's bytes: sha256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// For `streams`: a directory for files with the bytes of each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<PathBuf>,
    /// For `streams` and `match`: only the first bytes of each stream, such as `10k` or `dns:1k`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    pub cutoff: Vec<String>,
    /// For `streams` and `match`: priorities of streams, such as `dns:9`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    pub priority: Vec<String>,
    /// For `streams` and `match`: the size of chunks, such as `4k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
    /// For `streams` and `match`: bytes of the previous chunk that a chunk repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// For `streams` and `match`: the time after which partial chunks are flushed, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<f64>,
    /// For `events`: the events wanted, as `layer.event`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Only the number of answers is wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// The output is a capture file, whatever its name is.
    #[serde(skip)]
    pub is_written: bool,
    /// Lines of the question's own format are in colours.
    #[serde(skip)]
    pub color: bool,
    /// A question without answers creates no file, and leaves an existing file as it is.
    #[serde(skip)]
    pub drops_empty: bool,
}

/// The prefilter of `match`.
#[derive(ValueEnum, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Matcher {
    Auto,
    Rust,
    Vectorscan,
}

impl From<Matcher> for EngineChoice {
    fn from(matcher: Matcher) -> Self {
        match matcher {
            Matcher::Auto => EngineChoice::Auto,
            Matcher::Rust => EngineChoice::Rust,
            Matcher::Vectorscan => EngineChoice::Vectorscan,
        }
    }
}

/// Which streams `match` shows instead of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamsShown {
    /// Those with a match.
    With,
    /// Those without.
    Without,
}

/// One text, or a list of texts.
fn one_or_several<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }
    Texts::deserialize(value).map(|texts| match texts {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    })
}

/// Who else writes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// Nobody: a terminal is given a table.
    Own { is_terminal: bool },
    /// Other questions: rows are lines, each with the name of its question.
    Shared,
}

impl QuestionSpec {
    /// Refuses options other than these and those that all questions have.
    pub fn check_options(&self, options: &[&str]) -> Result<(), Failure> {
        let given = [
            ("patterns", !self.patterns.is_empty()),
            ("ignore_case", self.ignore_case),
            ("fixed_strings", self.fixed_strings),
            ("matcher", self.matcher.is_some()),
            ("context", self.context.is_some()),
            ("max_count", self.max_count.is_some()),
            ("streams", self.streams.is_some()),
            ("digest", self.digest.is_some()),
            ("files", self.files.is_some()),
            ("cutoff", !self.cutoff.is_empty()),
            ("priority", !self.priority.is_empty()),
            ("chunk", self.chunk.is_some()),
            ("overlap", self.overlap.is_some()),
            ("flush", self.flush.is_some()),
            ("events", !self.events.is_empty()),
        ];
        match given.iter().find(|(option, is_given)| *is_given && !options.contains(option)) {
            Some((option, _)) => Err(Failure::new(format!("`{option}` does not apply to `{}`", self.ask))),
            None => Ok(()),
        }
    }

    /// The form of the answers.
    pub fn form(&self, stdout: Stdout) -> Result<Form, Failure> {
        if self.is_capture() {
            if self.ask != "packets" || self.format.is_some() {
                let message = "a capture file can only hold packets: `ask = \"packets\"`, no `format`";
                return Err(Failure::new(message));
            }
            let path = self.output.as_deref().unwrap_or(Path::new("-"));
            return CaptureFormat::of_path(path).map(Form::Capture).ok_or_else(|| {
                Failure::new(format!("{}: the name must end in .pcapng or .pcap", path.display()))
            });
        }
        if self.count {
            return Ok(Form::Count);
        }
        let format: Format = match self.format.as_deref() {
            Some("grep") if self.ask == "match" => return Ok(Form::Lines { color: self.color }),
            Some(name) => name.parse().map_err(Failure::new)?,
            None if stdout == (Stdout::Own { is_terminal: true }) && self.output.is_none() => Format::Table,
            None => Format::Json,
        };
        // Lines of several questions may follow on each other.
        if format.is_columnar() && self.output.is_none() && stdout == Stdout::Shared {
            return Err(Failure::new(format!("{format} needs an `output`: a file, or a directory")));
        }
        Ok(Form::Rows(format))
    }

    /// Whether rows are lines that may stand between those of other questions.
    pub fn is_json(&self) -> bool {
        self.format.as_deref().is_none_or(|format| format == "json")
    }

    /// Whether the output is a capture file.
    fn is_capture(&self) -> bool {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        self.is_written || matches!(ending, Some("pcap" | "pcapng"))
    }
}

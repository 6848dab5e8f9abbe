//! A question as stated in a file of questions, on the control socket, or on a command line.

use crate::failure::Failure;
use crate::form::Form;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use weir::io::{CaptureFormat, Format};
use weir::patterns::EngineChoice;

/// The statement of a question.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSpec {
    /// Name of the question; unique in a run.
    pub name: String,
    /// Type of answers, by command name: `flows`, `packets`, `streams`, `match`, `tls` …
    pub ask: String,
    /// The filter. Default: all traffic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// Format of rows. Default: JSON lines; a table for a single question on a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The output file. Default: standard output. Packets may go to a capture file (.pcap or .pcapng), rows in a
    /// columnar format to a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// For `match`: the patterns, one regular expression each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// For `match`: ignore case.
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
    /// For `match`: maximum number of matches per stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_count: Option<usize>,
    /// For `match`: show the streams with matches (`with`) or without (`without`) instead of the matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsShown>,
    /// For `streams`: digest of each stream's bytes: sha256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// For `streams`: a directory for files with the bytes of each stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<PathBuf>,
    /// For `streams` and `match`: process only the first bytes of each stream, such as `10k` or `dns:1k`.
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
    /// For `events`: names of events, as `layer.event`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Show only the number of answers.
    #[serde(skip)]
    pub count: bool,
    /// The output is a capture file, whatever its name.
    #[serde(skip)]
    pub is_written: bool,
    /// Use colours in the question's own format.
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
    /// Streams with a match.
    With,
    /// Streams without a match.
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

/// Whether other questions also write to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// No other question does; a terminal gets a table.
    Own { is_terminal: bool },
    /// Other questions do; rows are JSON lines that begin with the name of their question.
    Shared,
}

impl QuestionSpec {
    /// Rejects options other than `options` and those common to all questions.
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
        if self.is_capture() && self.count {
            return Err(Failure::new(
                "a capture file holds packets, not their number: give --count without it",
            ));
        }
        if self.is_capture() {
            if self.ask != "packets" || self.format.is_some() {
                let message = "a capture file can only hold packets: `ask = \"packets\"` without a `format`, or weir packets -w FILE";
                return Err(Failure::new(message));
            }
            let path = self.output.as_deref().unwrap_or(Path::new("-"));
            return CaptureFormat::of_path(path).map(Form::Capture).ok_or_else(|| {
                Failure::new(format!("{}: the name must end in .pcapng or .pcap", path.display()))
            });
        }
        let format: Format = match self.format.as_deref() {
            Some("grep") if self.ask == "match" => return Ok(Form::Lines { color: self.color }),
            Some(name) => name.parse().map_err(Failure::new)?,
            None if stdout == (Stdout::Own { is_terminal: true }) && self.output.is_none() => Format::Table,
            None => Format::Json,
        };
        if self.count {
            return Ok(Form::Count);
        }
        // Several questions interleave their lines, which a columnar format does not allow.
        if format.is_columnar() && self.output.is_none() && stdout == Stdout::Shared {
            return Err(Failure::new(format!("{format} needs an `output`: a file, or a directory")));
        }
        Ok(Form::Rows(format))
    }

    /// Whether rows are JSON lines, which may interleave with those of other questions.
    pub fn is_json(&self) -> bool {
        self.format.as_deref().is_none_or(|format| format == "json")
    }

    /// Whether the output is a capture file.
    fn is_capture(&self) -> bool {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        self.is_written || matches!(ending, Some("pcap" | "pcapng"))
    }
}

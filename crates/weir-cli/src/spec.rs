//! A question as stated in a file of questions, on the control socket, or on a command line.

use crate::conversation_lines::Look;
use crate::failure::Failure;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use weir::io::tcp::Endpoint;
use weir::io::udp::Name;
use weir::io::{CaptureFormat, Compression, Format};
use weir::patterns::EngineChoice;

/// The statement of a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSpec {
    /// Name of the question; unique in a run.
    pub name: String,
    /// Type of answers, by command name: `flows`, `packets`, `streams`, `match`, `tls` …
    pub ask: String,
    /// The filter. Default: all traffic.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter: String,
    /// Format of rows. Default: JSON lines; a table for a single question on a terminal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: Option<String>,
    /// The output file. Default: standard output. Packets may go to a capture file (.pcap or .pcapng), rows
    /// in a columnar format to a directory.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub output: Option<PathBuf>,
    /// The output becomes a sequence of files: a size, a time, or both (`100M`, `1h`, `1G,1h`).
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub rotate: Option<String>,
    /// With `rotate`: the number of files that are kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: Option<u64>,
    /// For a receiver with a connection (`ipfix+tcp://`, `syslog+tcp://`, `kafka://`, `clickhouse://`): a
    /// directory for what the receiver does not have.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub spool: Option<PathBuf>,
    /// With `spool`: maximum number of bytes in the directory, such as `1G`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub spool_max: Option<String>,
    /// For an output `ipfix://`: the number of the observation domain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observation_domain: Option<u32>,
    /// For an output `kafka://` or `clickhouse://`: the name of this machine. Default: the name of the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sensor: Option<String>,
    /// For an output `clickhouse://`: create the table unless it exists.
    #[serde(default, skip_serializing_if = "is_default")]
    pub create: bool,
    /// For `match`: the patterns, one regular expression each.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub patterns: Vec<String>,
    /// For `match`: files with one pattern per line.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_texts")]
    pub pattern_files: Vec<PathBuf>,
    /// For `match`: ignore case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignore_case: bool,
    /// For `match`: patterns are literal strings, not regular expressions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed_strings: bool,
    /// For `match`: the prefilter, which skips bytes outside of matches: auto, rust, vectorscan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matcher: Option<Matcher>,
    /// For `match`: bytes of context before and after a match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context: Option<u16>,
    /// For `match`: maximum number of matches per stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_count: Option<usize>,
    /// For logs that suppress rows which were shown before: show them. For programs that divide captures.
    #[serde(skip)]
    pub repeated: bool,
    /// For `match`: show the streams with matches (`with`) or without (`without`) instead of the matches.
    #[serde(default, skip_serializing_if = "is_default")]
    pub streams: Option<StreamsShown>,
    /// For `streams`: digest of each stream's bytes: sha256.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: Option<String>,
    /// For `streams`: a directory for files with the bytes of each stream.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub files: Option<PathBuf>,
    /// For `streams`: maximum number of bytes of these files, and of the files, such as `1G/5000`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub files_max: Option<String>,
    /// For `files`: a directory for the contents of the files.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub extract: Option<PathBuf>,
    /// For `files`: maximum number of bytes of all extracted contents, and of the contents, such as
    /// `1G/5000`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub extract_max: Option<String>,
    /// For `streams` and `match`: process only the first bytes of each stream, such as `10k` or `dns:1k`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub cutoff: Vec<String>,
    /// For `streams` and `match`: priorities of streams, such as `dns:9`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub priority: Vec<String>,
    /// For `streams` and `match`: the size of chunks, such as `4k`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub chunk: Option<String>,
    /// For `streams` and `match`: bytes of the previous chunk that a chunk repeats.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "quantity")]
    pub overlap: Option<String>,
    /// For `streams` and `match`: the time after which partial chunks are flushed, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush: Option<f64>,
    /// For `packets` with an output `udp://`: the key by which packets are balanced over instances. Default:
    /// flow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub balance: Option<String>,
    /// For `aggregate`: what is computed, as in `count() by ip.src every 10s`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub aggregate: Option<String>,
    /// For `aggregate`: of what: `packets`, `flows`, `events`, an event, or the name of a log of sessions.
    /// Default: packets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of: Option<String>,
    /// For `records`: the key, as fields separated by commas, `flow` or `5tuple`. Default: flow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: Option<String>,
    /// For `records`: features of packets, separated by commas. Default: iat,len, and dir with the key flow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub features: Option<String>,
    /// For `records`: the number of packets at which a record is complete. Default: 1024.
    #[serde(default, skip_serializing_if = "is_default")]
    pub packets: Option<u64>,
    /// For `records`: only this number of packets of each group, instead of `packets`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first: Option<u64>,
    /// For `records`: seconds after its first packet at which a record is complete. Default: 60.
    #[serde(default, skip_serializing_if = "is_default")]
    pub age: Option<f64>,
    /// For `records`: seconds after its last packet at which a group ends. Default: 15.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: Option<f64>,
    /// For `flows`: the columns of nDPI, whose library must be installed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ndpi: bool,
    /// For `script`: the file of the script.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub script: Option<PathBuf>,
    /// For `script`: the arguments of the script.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub arguments: Vec<String>,
    /// For `script`: the script has the rights of the process. Only on the command line.
    #[serde(skip)]
    pub trust: bool,
    /// For `script` and `rules`: connects what runs with its command. Only on the command line.
    #[serde(skip)]
    pub link: Option<RunLink>,
    /// For `rules`: files of rules, and directories with such files.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub rules: Vec<String>,
    /// For `rules`: the variables of rules, a file of TOML or YAML.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub variables: Option<PathBuf>,
    /// For `rules`: the classes of rules, a `classification.config`.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub classes: Option<PathBuf>,
    /// For `rules`: thresholds and suppressions, a `threshold.config`.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "path_text")]
    pub tunings: Option<PathBuf>,
    /// For `rules`: of connections of TCP whose begin is not in the capture, only single packets are
    /// inspected.
    #[serde(default, skip_serializing_if = "is_default")]
    pub complete: bool,
    /// For `events`: names of events, as `layer.event`. Default: all.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub events: Vec<String>,
    /// For `follow`: the identifier of the connection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uid: Option<String>,
    /// For `follow`: the form of the bytes: text, hex, raw.
    #[serde(rename = "as", default, skip_serializing_if = "is_default")]
    pub look: Option<Look>,
    /// For `follow`: decode the bodies of HTTP/1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decode: bool,
    /// For `packets`: the layers and fields of each packet, and the sessions that it completes; as text, or
    /// in the format `json`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: bool,
    /// For `packets`: the bytes of each packet; as text, or in the format `json`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hex: bool,
    /// The columns to show, in this order; `orig` and `resp` are address and port of the ends. Default: all;
    /// in a table those of most use.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub columns: Vec<String>,
    /// Maximum number of answers, which are connections for `follow`: the question ends with the last one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limit: Option<u64>,
    /// The column by which the rows are sorted, descending with `-` before its name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sort: Option<String>,
    /// Where names of hosts come from: files in the form of hosts(5), `hosts`, `dns`.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "one_or_several")]
    pub names: Vec<String>,
    /// In a table: all columns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wide: bool,
    /// In a table: times in the local time zone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local: bool,
    /// Write only the number of answers, to `output`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: bool,
    /// For the format `csv`: texts that a spreadsheet would execute as formulas begin with an apostrophe.
    #[serde(default, skip_serializing_if = "is_default")]
    pub csv_safe: bool,
    /// For sessions: all rows, however many the bytes of a connection cause.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all_rows: bool,
    /// The output is a capture file, whatever its name.
    #[serde(skip)]
    pub is_written: bool,
    /// For `match`: use colours in the format `grep`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub color: bool,
    /// A question without answers creates no file, and leaves an existing file as it is.
    #[serde(skip)]
    pub drops_empty: bool,
}

/// Connects a running script, or running rules, with its command.
#[derive(Clone, Default)]
pub struct RunLink(pub Arc<RunLinked>);

/// What both share.
#[derive(Default)]
pub struct RunLinked {
    /// The flows that the script wants dumped, by the filters of their packets.
    pub dumps: Mutex<Vec<String>>,
    /// Reads the script or the rules again, once they run.
    pub reload: OnceLock<ReloadAgain>,
}

/// Reads a script or rules again; the error says why the previous ones go on.
pub type ReloadAgain = Box<dyn Fn() -> Result<(), Failure> + Send + Sync>;

impl std::fmt::Debug for RunLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunLink")
    }
}

impl PartialEq for RunLink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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

/// Whether an option is not given.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A path as text. Paths that are not UTF-8 are shown with replacement characters.
fn path_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}

/// As [`path_text`], for several.
fn path_texts<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// A text, or a number, which stands for its digits.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a number")]
enum Word {
    Text(String),
    Number(u64),
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        match word {
            Word::Text(text) => text,
            Word::Number(number) => number.to_string(),
        }
    }
}

/// A number of bytes: `4096` or `"4k"`.
fn quantity<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Word::deserialize(value).map(|word| Some(word.into()))
}

/// One text, or a list of texts.
fn one_or_several<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text, or a list of texts")]
    enum Words {
        One(Word),
        Several(Vec<Word>),
    }
    Words::deserialize(value).map(|words| match words {
        Words::One(word) => vec![word.into()],
        Words::Several(words) => words.into_iter().map(String::from).collect(),
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
    /// The names of the options that are given.
    pub fn given(&self) -> Result<Vec<String>, Failure> {
        match serde_json::to_value(self).map_err(Failure::new)? {
            serde_json::Value::Object(options) => Ok(options.into_iter().map(|(name, _)| name).collect()),
            _ => unreachable!("a struct is an object"),
        }
    }

    /// Whether rows are JSON lines, which may interleave with those of other questions.
    pub fn is_json(&self) -> bool {
        !self.has_packet_texts() && self.format.as_deref().is_none_or(|format| format == "json")
    }

    /// Whether the answers are texts of packets.
    pub fn has_packet_texts(&self) -> bool {
        (self.detail || self.hex) && !self.count
    }

    /// The instances to which the packets go over UDP; `None` if the output is something else.
    pub fn instances(&self) -> Option<Name> {
        match Endpoint::of(self.output.as_deref()?)?.ok()? {
            Endpoint::Datagrams(name) => Some(name),
            _ => None,
        }
    }

    /// Whether the question is the other one with other instances.
    pub fn is_rescaled(&self, other: &Self) -> bool {
        let output = self.output.clone();
        let has_instances = self.instances().is_some() && other.instances().is_some();
        has_instances && *self == Self { output, ..other.clone() }
    }

    /// Whether a file that is written beside the output replaces the output.
    pub fn is_replaced(&self) -> bool {
        let by_name = self.output.as_deref().and_then(Format::of_path).map(Format::label);
        self.drops_empty
            || self.rotate.is_some()
            || self.format.as_deref().or(by_name) == Some(Format::Parquet.label())
    }

    /// Whether the output is a capture, in a file or for a connection.
    pub fn is_capture(&self) -> bool {
        let output = self.output.as_deref();
        let plain = output.map(Compression::stripped);
        let ending = plain.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        let has_format = self.format.as_deref().is_some_and(|name| CaptureFormat::of_label(name).is_some());
        self.is_written
            || has_format
            || output.is_some_and(Endpoint::is_named)
            || ending.is_some_and(|ending| CaptureFormat::of_ending(ending).is_some())
    }
}

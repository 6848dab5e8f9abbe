//! Arguments of the stream commands.

use super::{Input, formats};
use crate::quantity::{number, seconds};
use clap::{Args as ClapArgs, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir::patterns::EngineChoice;

/// Arguments of `streams`.
#[derive(ClapArgs, Clone)]
pub struct Streams {
    /// Filter. Default: all traffic
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub bounds: StreamBounds,
    /// Add a digest of each stream's bytes, without missing bytes
    #[arg(long, value_name = "DIGEST", value_parser = ["sha256"])]
    pub digest: Option<String>,
    /// Write each stream's bytes to a file in this directory, with tcpflow's file names; missing bytes are
    /// zeros in the file (digests omit them)
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Format of rows. Default: table on a terminal, JSON lines otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// Print only the number of streams
    #[arg(long)]
    pub count: bool,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

/// Arguments of `match`.
#[derive(ClapArgs, Clone)]
pub struct Match {
    /// Filter. Default: all traffic
    pub filter: Option<String>,
    /// A regular expression over bytes (may be given several times): Perl syntax without look-around and
    /// back-references, ASCII unless (?u); `^` and `$` match at the start and end of the stream, with (?m) at
    /// lines
    #[arg(short = 'e', long = "regexp", value_name = "REGEX")]
    pub expressions: Vec<String>,
    /// File with one pattern per line, `-` for standard input; empty lines are ignored
    #[arg(short = 'f', long = "file", value_name = "PATTERNS")]
    pub files: Vec<PathBuf>,
    /// Ignore case
    #[arg(short = 'i', long)]
    pub ignore_case: bool,
    /// Patterns are strings, not expressions
    #[arg(short = 'F', long)]
    pub fixed_strings: bool,
    /// Bytes of context before and after a match
    #[arg(short = 'C', long, value_name = "BYTES", default_value_t = 24, value_parser = context, allow_hyphen_values = true)]
    pub context: u16,
    /// Stop searching a stream after this number of matches
    #[arg(short = 'm', long, value_name = "N", value_parser = matches, allow_negative_numbers = true)]
    pub max_count: Option<usize>,
    /// Prefilter, which skips bytes outside of matches: auto, rust (Weir's own), vectorscan (the system's
    /// libhs.so.5; an error if it is not installed or fails its self-test). Results are the same
    #[arg(long, value_name = "MATCHER", default_value = "auto")]
    pub matcher: Matcher,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub bounds: StreamBounds,
    /// Write matches to this file. parquet and arrow also accept a directory (existing, or `DIR/`), with one
    /// file per hour
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
    /// Format of matches. Default: grep (endpoints, offset, match; in colours) on a terminal, JSON lines
    /// otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&["grep"]))]
    pub format: Option<String>,
    /// Colours in grep's format; always also selects that format; auto: on a terminal
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto")]
    pub color: Colors,
    /// Print only the streams with matches, each once
    #[arg(short = 'l', long, conflicts_with = "without_match")]
    pub streams_with_matches: bool,
    /// Print only the streams without matches
    #[arg(short = 'L', long)]
    pub without_match: bool,
    /// Print only the number of matches (with -l or -L: of streams)
    #[arg(short = 'c', long)]
    pub count: bool,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

fn context(text: &str) -> Result<u16, String> {
    number(text, 0.., 24)
}

fn matches(text: &str) -> Result<usize, String> {
    number(text, 1.., 10)
}

/// When to use colours.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    Auto,
    Always,
    Never,
}

/// Bounds and priorities of streams.
#[derive(ClapArgs, Clone)]
pub struct StreamBounds {
    /// Process only the first bytes of each stream (10k), or of originators and responders (1k/64k); or of
    /// streams that match a filter ('tcp.port == 443:1k') or use a service's ports ('dns:1k'). May be given
    /// several times; the first match applies
    #[arg(long, value_name = "[FILTER:]BYTES[/BYTES]", allow_hyphen_values = true)]
    pub cutoff: Vec<String>,
    /// Deliver bytes in contiguous chunks of this size
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub chunk: Option<String>,
    /// Bytes of the previous chunk that a chunk repeats
    #[arg(long, value_name = "BYTES", requires = "chunk", allow_hyphen_values = true)]
    pub overlap: Option<String>,
    /// Flush partial chunks after TIME (10, 500ms, 5m)
    #[arg(long, value_name = "TIME", requires = "chunk", value_parser = seconds, allow_hyphen_values = true)]
    pub flush: Option<f64>,
    /// Priority, 0 (lowest) to 15, of streams that match a filter or use a service's ports ('dns:9'). When
    /// memory is short, lower priorities lose bytes first
    #[arg(long, value_name = "FILTER:PRIORITY", allow_negative_numbers = true)]
    pub priority: Vec<String>,
    /// Memory for streams per worker: chunks and out-of-order segments
    #[arg(long, value_name = "BYTES", default_value = "512M", allow_hyphen_values = true)]
    pub memory: String,
    /// When memory is short, the bytes of each stream beyond this number are dropped first
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub overload_cutoff: Option<String>,
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

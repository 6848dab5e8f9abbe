//! What is asked of streams.

use super::{Input, formats};
use crate::quantity::{number, seconds};
use clap::{Args as ClapArgs, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir::patterns::EngineChoice;

/// What `weir streams` is asked.
#[derive(ClapArgs, Clone)]
pub struct Streams {
    /// Which traffic; everything without
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub bounds: StreamBounds,
    /// Add a digest of each stream's bytes, missing ones left out
    #[arg(long, value_name = "DIGEST", value_parser = ["sha256"])]
    pub digest: Option<String>,
    /// Write each stream's bytes to a file in this directory, named as tcpflow names them; what is missing is zeros
    /// there (digests leave it out)
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How rows are written; a table on a terminal, JSON lines otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// Print the number of streams alone
    #[arg(long)]
    pub count: bool,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

/// What `weir match` is asked.
#[derive(ClapArgs, Clone)]
pub struct Match {
    /// Which traffic; everything without
    pub filter: Option<String>,
    /// A regular expression over bytes (may be given several times): as of Perl without look-around and
    /// back-references, ASCII unless (?u); `^` and `$` are the start and end of the stream, with (?m) of lines
    #[arg(short = 'e', long = "regexp", value_name = "REGEX")]
    pub expressions: Vec<String>,
    /// A file with a pattern per line, `-` for standard input; empty lines are passed over
    #[arg(short = 'f', long = "file", value_name = "PATTERNS")]
    pub files: Vec<PathBuf>,
    /// Case does not count
    #[arg(short = 'i', long)]
    pub ignore_case: bool,
    /// Patterns are strings, not expressions
    #[arg(short = 'F', long)]
    pub fixed_strings: bool,
    /// Bytes shown before and after a match
    #[arg(short = 'C', long, value_name = "BYTES", default_value_t = 24, value_parser = context, allow_hyphen_values = true)]
    pub context: u16,
    /// Stop looking in a stream after so many matches
    #[arg(short = 'm', long, value_name = "N", value_parser = matches, allow_negative_numbers = true)]
    pub max_count: Option<usize>,
    /// What passes over bytes that are part of no match: auto, rust (ours), vectorscan (the system's libhs.so.5, an error
    /// where it is not installed or finds too little). What is found is the same
    #[arg(long, value_name = "MATCHER", default_value = "auto")]
    pub matcher: Matcher,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub bounds: StreamBounds,
    /// Write matches to this file; parquet and arrow also to a directory (one that is there, or `DIR/`), a file per hour
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
    /// How matches are written; grep (who, where, what; in colours) on a terminal, JSON lines otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&["grep"]))]
    pub format: Option<String>,
    /// Colours in grep's format: always asks for that format, too; auto on a terminal
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto")]
    pub color: Colors,
    /// Print the streams in which something matches, each once, without what matches
    #[arg(short = 'l', long, conflicts_with = "without_match")]
    pub streams_with_matches: bool,
    /// Print the streams in which nothing matches
    #[arg(short = 'L', long)]
    pub without_match: bool,
    /// Print the number of matches alone (with -l, -L of streams)
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

/// When there are colours.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    Auto,
    Always,
    Never,
}

/// How much of streams is wanted, and how they are put together.
#[derive(ClapArgs, Clone)]
pub struct StreamBounds {
    /// The first bytes of each stream alone (10k), or of what originators and what responders send (1k/64k); or of
    /// those that fulfil a filter ('tcp.port == 443:1k') or have the ports of a service ('dns:1k'), the first that fits;
    /// may be given several times
    #[arg(long, value_name = "[FILTER:]BYTES[/BYTES]", allow_hyphen_values = true)]
    pub cutoff: Vec<String>,
    /// Hand bytes on in contiguous chunks of this size
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub chunk: Option<String>,
    /// Bytes that a chunk repeats of the one before
    #[arg(long, value_name = "BYTES", requires = "chunk", allow_hyphen_values = true)]
    pub overlap: Option<String>,
    /// Hand a chunk on after so long (10, 500ms, 5m), full or not
    #[arg(long, value_name = "TIME", requires = "chunk", value_parser = seconds, allow_hyphen_values = true)]
    pub flush: Option<f64>,
    /// Priority of streams that fulfil a filter, or have the ports of a service ('dns:9'), 0 (lowest) to 15: where memory
    /// is short the lower lose first
    #[arg(long, value_name = "FILTER:PRIORITY", allow_negative_numbers = true)]
    pub priority: Vec<String>,
    /// Memory for streams, of each worker: chunks, and segments that wait for those before them
    #[arg(long, value_name = "BYTES", default_value = "512M", allow_hyphen_values = true)]
    pub memory: String,
    /// Bytes of each stream that are kept the longest where memory is short
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub overload_cutoff: Option<String>,
}

/// What passes over bytes that are part of no match.
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

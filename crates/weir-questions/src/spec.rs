//! A question as stated in a file of questions, on the control socket, or on a command line.

use crate::compiled_in::HAS_KAFKA;
use crate::messages::failure::Failure;
use crate::options;
use crate::options::{Options, choice};
use crate::quantity::{number, seconds};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use weir::RELATIVE_TIME;
use weir::io::tcp::Endpoint;
use weir::io::udp::Name;
use weir::io::{CaptureFormat, Compression, Format};
use weir::lang::filter::names_of;
use weir::patterns::EngineChoice;

options! {
    /// The statement of a question.
    #[derive(Debug, Clone, PartialEq)]
    pub struct QuestionSpec {
        "" {
            /// Name of the question; unique in a run
            name: String, flagless();
            /// Type of answers, by command name: `flows`, `packets`, `streams`, `match`, `tls` …
            ask: String, flagless();
            /// The filter. Default: all traffic
            filter: String, flagless();
            /// Add the columns ndpi_protocol, ndpi_category and ndpi_risk, by the system's nDPI (Debian's
            /// package libndpi4.2). Filters on ndpi.protocol, ndpi.category and ndpi.risk do the same
            ndpi: bool;
            /// With -w udp://: the key that selects the instance of a packet, as for `weir records --key`.
            /// Default: flow
            balance: Option<String>, shown("KEY");
            /// Show the layers and fields of each packet, with their bytes and meanings, and the sessions
            /// that it completes; as text, or with --format json as one object per packet
            detail: bool, short('V');
            /// Show the bytes of each packet: below its line, or below its detail
            hex: bool, short('x');
            /// What is computed, as in `count() by ip.src every 10s`
            aggregate: Option<String>, flagless();
            /// What the aggregate is computed of: packets, flows (connections), events, one event
            /// (tcp.retransmission), or the sessions of a protocol (tls, dns, http …)
            of: String = PACKETS.to_string(), shown("ROWS");
            /// The key: fields, separated by commas (ip.src/24); `flow` or `hosts` for both directions of a
            /// connection or of two hosts, `5tuple` or `pair` for one. Default: flow
            key: Option<String>, shown("FIELDS");
            /// Features of packets: numeric fields, separated by commas; also ts, iat (time since the packet
            /// before, nanoseconds), dir (direction, with --key flow or hosts), len, flags, seq, ack, ttl.
            /// Default: iat, len, dir
            features: Option<String>, shown("FIELDS");
            /// Complete a record at this number of packets. Default: 1024
            packets: Option<u64> => at_least_one, shown("N");
            /// Only the first N packets of each flow, as classifiers need them: lengths, times and
            /// directions, unless other features are named
            first: Option<u64> => at_least_one, shown("N");
            /// Complete a record this many seconds after its first packet. Default: 60
            age: Option<f64> => some_seconds, shown("SECONDS");
            /// A group ends this many seconds after its last packet. Default: 15
            idle: Option<f64> => some_seconds, shown("SECONDS");
            /// Files of rules, and directories whose files end in `.rules`. May be given several times
            rules: Vec<String>, short('S'), shown("PATH"), path();
            /// The groups of addresses and ports that rules name: a file of TOML, or of Suricata's YAML.
            /// Default: the private networks are the home
            variables: Option<PathBuf>, shown("FILE");
            /// The texts and priorities of classes: a `classification.config`. Default: Suricata's
            classes: Option<PathBuf>, shown("FILE");
            /// Thresholds and suppressions: a `threshold.config`
            tunings: Option<PathBuf>, shown("FILE");
            /// Of connections of TCP whose begin is not in the capture, inspect only single packets, as
            /// Suricata does by default
            complete: bool;
            /// The file of the script
            script: Option<PathBuf>, flagless();
            /// The arguments of the script
            arguments: Vec<String>, flagless();
            /// The identifier of the connection
            uid: Option<String>, flagless();
            /// The form of the bytes: text (unprintable ones are dots), hex, or raw
            look as "as": Look = Look::Text, shown("FORM");
            /// Decode the bodies of HTTP/1: join chunks, and decompress gzip, deflate, Brotli and zstd.
            /// Offsets are those of the bytes as sent
            decode: bool;
            /// A regular expression over bytes (may be given several times): Perl syntax without look-around
            /// and back-references, ASCII unless (?u); `^` and `$` match at the start and end of the stream,
            /// with (?m) at lines
            patterns: Vec<String>, long("regexp"), short('e'), shown("REGEX");
            /// File with one pattern per line, `-` for standard input; empty lines are ignored
            pattern_files: Vec<PathBuf>, long("file"), short('f'), shown("PATTERNS");
            /// Ignore case
            ignore_case: bool, short('i');
            /// Patterns are strings, not expressions
            fixed_strings: bool, short('F');
            /// Bytes of context before and after a match
            context: u16 = 24 => context_bytes, short('C'), shown("BYTES"), minus();
            /// Stop searching a stream after this number of matches
            max_count: Option<usize> => matches_of_stream, short('m'), shown("N");
            /// Prefilter, which skips bytes outside of matches: auto, rust (Weir's own), vectorscan (the
            /// system's libhs.so.5; an error if it is not installed or fails its self-test). Results are the
            /// same
            matcher: Matcher = Matcher::Auto, shown("MATCHER");
            /// Show the streams with matches (`with`) or without (`without`) instead of the matches
            streams: Option<StreamsShown>, flagless();
            /// Add a digest of each stream's bytes, without missing bytes
            digest: Option<String>, shown("DIGEST"), one_of(&["sha256"]);
            /// Write each stream's bytes to a file in this directory, with tcpflow's file names; missing
            /// bytes are zeros in the file (digests omit them). `-`: the bytes alone, to standard output, one
            /// connection after the other
            files: Option<PathBuf>, long("output"), short('o'), shown("DIR|-");
            /// With -o DIR: write at most this many bytes and files (1G, 1G/5000). Default: 100 000 files,
            /// and 100G or half of the free space, whichever is less
            files_max: Option<String>, shown("BYTES[/FILES]"), minus();
            /// Only these events, named as in filters: `layer.event`, `event` if the name is unique, or
            /// `layer` for all its events. Default: all events with columns
            events: Vec<String>, long("event"), short('e'), shown("NAME"), separated();
        }
        "Streams" {
            /// Process only the first bytes of each stream (10k), or of originators and responders (1k/64k);
            /// or of streams that match a filter ('tcp.port == 443:1k') or use a service's ports ('dns:1k').
            /// May be given several times; the first match applies
            cutoff: Vec<String>, shown("[FILTER:]BYTES[/BYTES]"), minus();
            /// Deliver bytes in contiguous chunks of this size
            chunk: Option<String>, shown("BYTES"), minus();
            /// Bytes of the previous chunk that a chunk repeats
            overlap: Option<String>, shown("BYTES"), needs("chunk"), minus();
            /// Flush partial chunks after TIME (10, 500ms, 5m) of capture time, late by up to 0.07 s
            flush: Option<f64> => seconds, shown("TIME"), needs("chunk"), minus();
            /// Priority, 0 (lowest) to 15, of streams that match a filter or use a service's ports ('dns:9').
            /// When memory is short, lower priorities lose bytes first
            priority: Vec<String>, shown("FILTER:PRIORITY"), minus();
        }
        "Output" {
            /// Format of rows. Default: by the ending of the output file; without one, table on a terminal,
            /// JSON lines else
            format: Option<String>, shown("FORMAT");
            /// Write rows to this file. With parquet, arrow and packed, this may be a directory (existing, or
            /// `DIR/`), which gets one file per hour: DIR/date=2026-11-22/hour=05/part-0.parquet. Or send
            /// rows: ipfix://HOST:PORT or ipfix+tcp://HOST:PORT (flow records, of weir flows),
            /// syslog://HOST:PORT or syslog+tcp://HOST:PORT (a JSON message for each row)
            output: Option<PathBuf>, short('o'), shown("FILE|DIR/|URL");
            /// Begin another file at this size (100M), after this time of capture (1h), or at both (1G,1h).
            /// FILE.json becomes FILE.2026-11-25-14-00-00.json, named after the beginning of the hour; each
            /// file is complete by itself
            rotate: Option<String>, shown("SIZE|TIME");
            /// With --rotate: keep the newest N files of this output, and delete the others, also those of
            /// earlier runs
            keep: Option<u64> => limit, shown("N"), needs("rotate");
            /// Keep what the receiver does not have in this directory
            spool: Option<PathBuf>, shown("DIR"), text_by(spool_text);
            /// With --spool: at most this many bytes in the directory; further rows are lost and counted.
            /// Default: 1G
            spool_max: Option<String>, shown("BYTES"), needs("spool"), minus();
            /// With -o ipfix://…: the number of the observation domain. Collectors distinguish the exporters
            /// of one host by this number. Default: 0
            observation_domain: Option<u32>, shown("N");
            /// The name of this machine
            sensor: Option<String>, shown("NAME"), text_by(sensor_text);
            /// With -o clickhouse://…: create the table unless it exists
            create: bool;
            /// Show these columns, in this order (alias: --fields). `orig` and `resp` are address and port of
            /// the client and the server. Default: all columns; in a table those of most use
            columns: Vec<String>, alias("fields"), shown("COLUMN"), separated();
            /// Stop after N answers
            limit: Option<u64> => limit, shown("N");
            /// Sort rows by a column; -COLUMN: largest first
            sort: Option<String>, shown("[-]COLUMN"), minus();
            /// Add names of hosts: from a file in the form of hosts(5), from /etc/hosts (`hosts`), or from
            /// the DNS answers in the captures (`dns`). Nothing is looked up on the network. May be given
            /// several times
            names: Vec<String>, shown("FILE|hosts|dns");
            /// Show all columns in a table
            wide: bool;
            /// Show local times with their offset: in tables, JSON, CSV and TSV. Default: UTC; in JSON, CSV
            /// and TSV seconds since 1970
            local: bool;
            /// With --format csv: texts that a spreadsheet would execute as formulas begin with an apostrophe
            csv_safe: bool;
            /// Print only the row count
            count: bool;
            /// Use colours in the question's own format
            color: bool, flagless();
            /// Write the content of each file in the rows to this directory, decoded, and equal contents
            /// once; the rows name its path. Bytes that are missing in the capture are zeros
            extract: Option<PathBuf>, shown("DIR");
            /// With --extract: write at most this many bytes and files (1G, 1G/5000), and cut the contents
            /// beyond. Default: 100 000 files, and 100G or half of the free space, whichever is less
            extract_max: Option<String>, shown("BYTES[/FILES]"), needs("extract"), minus();
            /// Write all rows, also beyond 8 bytes of rows for a byte of a connection's traffic
            all_rows: bool;
        }
    }
    beside {
        /// For logs that suppress rows which were shown before: show them. For programs that divide captures.
        pub repeated: bool;
        /// For `script`: the script has the rights of the process. Only on the command line.
        pub trust: bool;
        /// For `script` and `rules`: connects what runs with its command. Only on the command line.
        pub link: Option<RunLink>;
        /// The output is a capture file, whatever its name.
        pub is_written: bool;
        /// A question without answers creates no file, and leaves an existing file as it is.
        pub drops_empty: bool;
    }
}

/// What an aggregate is computed of unless the question says so.
pub const PACKETS: &str = "packets";

fn at_least_one(text: &str) -> Result<u64, String> {
    number(text, 1.., 1000)
}

fn limit(text: &str) -> Result<u64, String> {
    number(text, 1.., 10)
}

fn context_bytes(text: &str) -> Result<u16, String> {
    number(text, 0.., 24)
}

fn matches_of_stream(text: &str) -> Result<usize, String> {
    number(text, 1.., 10)
}

/// A number of seconds above 0.
fn some_seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no number of seconds above 0");
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0).ok_or_else(wrong)
}

fn spool_text() -> String {
    let receivers = match HAS_KAFKA {
        true => "ipfix+tcp://…, syslog+tcp://…, kafka://… or clickhouse://…",
        false => "ipfix+tcp://…, syslog+tcp://… or clickhouse://…",
    };
    format!(
        "With -o {receivers}: keep what the receiver does not have in this directory, also when the run ends or is killed; the \
         next run with the same directory sends it. Default: in memory, up to 4 MiB"
    )
}

fn sensor_text() -> String {
    let (receivers, key) = match HAS_KAFKA {
        true => ("kafka://… or clickhouse://…", ", and as the key of messages"),
        false => ("clickhouse://…", ""),
    };
    format!(
        "With -o {receivers}: the name of this machine in the column `sensor`{key}. Default: the name of the host"
    )
}

/// A question is an object with its options.
impl Serialize for QuestionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut given = Options::given(self);
        // Messages name the question, also one without a name.
        given.insert("name".to_string(), self.name.clone().into());
        given.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for QuestionSpec {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Self::of(&Map::deserialize(value)?).map_err(D::Error::custom)
    }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matcher {
    Auto,
    Rust,
    Vectorscan,
}

choice!(Matcher { Auto = "auto", Rust = "rust", Vectorscan = "vectorscan" });

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamsShown {
    /// Streams with a match.
    With,
    /// Streams without a match.
    Without,
}

choice!(StreamsShown { With = "with", Without = "without" });

/// The form of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Text; unprintable bytes are dots.
    Text,
    /// Offsets, hexadecimal digits, and text.
    Hex,
    /// The bytes alone.
    Raw,
}

choice!(Look { Text = "text", Hex = "hex", Raw = "raw" });

/// The standard output of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stdout {
    /// Other questions also write there: rows are JSON lines that begin with the name of their question.
    pub is_shared: bool,
    /// The terminal, if it is one: a question that writes there alone shows a table.
    pub screen: Option<Screen>,
}

/// A terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Rows are coloured.
    pub is_colored: bool,
    /// The number of columns, if it is known.
    pub width: Option<usize>,
}

impl Stdout {
    /// The terminal that shows an output, if no other question writes there. `target`: a file.
    pub fn screen_of(self, target: Option<&Path>) -> Option<Screen> {
        self.screen.filter(|_| target.is_none() && !self.is_shared)
    }
}

impl QuestionSpec {
    /// The question that an object of options states.
    ///
    /// # Errors
    /// An option does not exist or has another value; the name or the type is missing.
    pub fn of(given: &Map<String, Value>) -> Result<Self, String> {
        let mut spec = Self::default();
        spec.set_all(given)?;
        match ["name", "ask"].iter().find(|name| given.get(**name).is_none_or(Value::is_null)) {
            Some(missing) => Err(format!("`{missing}` is missing")),
            None => Ok(spec),
        }
    }

    /// Whether the filter depends on the time of the first packet of all captures.
    pub fn uses_relative_time(&self) -> bool {
        names_of(&self.filter).iter().any(|name| name == RELATIVE_TIME)
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

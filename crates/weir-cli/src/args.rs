//! The command line.

mod streams;

pub use streams::{Colors, Match, Matcher, StreamBounds, Streams};

use crate::quantity::{number, seconds};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgMatches, Args as ClapArgs, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use weir::Log;
use weir::io::Format;
use weir::sessions::{PART_LOGS, PROTOCOLS, SessionProtocol};

const EXAMPLES: &str = "\
Examples:
  weir flows -r capture.pcap                           every connection, as in Zeek's conn.log
  weir tls -r capture.pcap 'tls.sni contains \"example\"'
  weir http -r capture.pcap 'http.response.code >= 400'  one command per protocol; weir sessions: all
  weir zeek -r capture.pcap -d logs                    conn.log, ssl.log, http.log, files.log, x509.log …
  weir run questions.toml                              several questions in one pass
  weir packets -r capture.pcap --count 'tcp.port == 443 and ip.addr in 10.0.0.0/8'
  weir packets -r capture.pcap -w out.pcap 'tls.sni == \"www.example.com\"'
  zcat capture.pcap.gz | weir stats -r -
  weir streams -r capture.pcap -o streams/             each direction's bytes in order, one file each
  weir match -r capture.pcap -e 'User-Agent: [^\\r]*'   grep in streams
  weir explain 'tcp.port == 443 and tls'               how a filter is compiled
  weir fields tcp                                      the fields of TCP
  weir stats -r capture.pcap --stack quic              with another protocol stack: see `weir stacks`

A filter is one argument: quote it. `weir fields` lists the field names, `weir explain FILTER` shows how a
filter is evaluated. The default format is a table on a terminal and JSON lines otherwise; see --format.

Exit status: 0 success, even if nothing matches the filter; 1 if `match` finds or --count counts nothing (as
in grep), or if `fmt --check` finds differences; 2 an error, reported on standard error (rows of the readable
input are printed nevertheless). SIGINT, SIGTERM and SIGHUP end a run like the end of its input, with a
message; the exit status is then 0 for a pipe, and 128 plus the signal's number for files. A second signal
ends the run at once.";

/// Answer questions about network traffic, at the speed of the memory bus.
#[derive(Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Parses the command line of this run, and separates the filter from the files before it.
    pub fn read() -> Self {
        let mut args = Self::try_parse().unwrap_or_else(|wrong| refuse(&wrong));
        match &mut args.command {
            Command::Flows(ask) | Command::Stats(ask) | Command::Sessions(ask) => ask.settle(),
            Command::Log(log) => log.ask.settle(),
            Command::Streams(streams) => settle(&mut streams.filter, &mut streams.input),
            Command::Match(find) => settle(&mut find.filter, &mut find.input),
            Command::Packets(packets) => packets.ask.settle(),
            Command::Events(events) => events.ask.settle(),
            Command::Zeek(zeek) => settle(&mut zeek.filter, &mut zeek.input),
            Command::Fields(_)
            | Command::Run(_)
            | Command::Ctl(_)
            | Command::Stacks(_)
            | Command::Explain(_)
            | Command::Docs(_)
            | Command::Check(_)
            | Command::Fmt(_) => {}
        }
        args
    }
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Connections, one row each at their end: Zeek's conn.log
    Flows(Ask),
    /// One command per log of application sessions: TLS handshakes, HTTP exchanges …
    #[command(flatten)]
    Log(LogCommand),
    /// Sessions of all application protocols, each with the name of its log (`_path`)
    Sessions(Ask),
    /// Several questions in one pass, from a file; `weir ctl` adds and removes questions during the run
    Run(Run),
    /// Zeek's logs: conn.log, and one log for each protocol found
    Zeek(Zeek),
    /// Add, list and remove questions of an active `weir run --control SOCKET`
    Ctl(Ctl),
    /// Packets, one line each; or their number; or a capture file with them
    Packets(Packets),
    /// Events that the stack declares (fragments, resets, …), with their columns; the filter applies to each
    /// row
    Events(Events),
    /// Packets and bytes per layer, sizes, top talkers, timing, why packets were not parsed completely, what
    /// the reader skipped
    Stats(Ask),
    /// Streams: each direction's bytes in order, one row each at the end; their digests; files with their
    /// bytes
    Streams(Streams),
    /// Matches of patterns in streams, across the borders of segments: grep for traffic
    Match(Match),
    /// The fields that filters can use, with type and meaning
    Fields(Fields),
    /// The stacks for --stack, with their layers
    Stacks(Stacks),
    /// How a filter is evaluated: trie, split, graph, passes, code; or why a packet matched or not
    Explain(Explain),
    /// The reference page of a protocol, a stack or a log, or of everything in a .weir file
    Docs(Docs),
    /// Check .weir files and report all mistakes
    Check(Check),
    /// Format .weir files in place: sets indentation and spaces; keeps lines, columns and comments
    Fmt(Fmt),
}

/// One command for each session protocol of the registry, and for each log of parts of sessions.
#[derive(Clone)]
pub struct LogCommand {
    /// Name of the protocol or the parts.
    pub name: &'static str,
    /// The question.
    pub ask: Ask,
}

impl FromArgMatches for LogCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let known = |wanted: &str| log_commands().map(|(name, _)| name).find(|name| *name == wanted);
        match matches.subcommand().and_then(|(name, of_command)| Some((known(name)?, of_command))) {
            Some((name, of_command)) => Ok(Self { name, ask: Ask::from_arg_matches(of_command)? }),
            None => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for LogCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        log_commands().fold(command, |command, (name, about)| {
            let own = Ask::augment_args(clap::Command::new(name)).about(about);
            command.subcommand(match rows_of_others(name) {
                Some(tip) => own.after_help(tip),
                None => own,
            })
        })
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        log_commands().any(|(known, _)| known == name)
    }
}

/// Names and descriptions of the logs' commands.
fn log_commands() -> impl Iterator<Item = (&'static str, String)> {
    let of_sessions = PROTOCOLS.iter().map(|p| (p.name, format!("{} ({}.log)", p.doc, p.log)));
    of_sessions.chain(PART_LOGS.iter().map(|log| (log.name, format!("{} ({}.log)", log.doc, log.name))))
}

/// The help on filtering rows of other protocols in this log: DTLS's, and the TLS in QUIC.
fn rows_of_others(name: &str) -> Option<String> {
    let asked = Log::of(name).filter(|_| PROTOCOLS.iter().any(|p| p.name == name))?.asked();
    let is_other = |(index, p): &(usize, &&SessionProtocol)| asked >> index & 1 == 1 && p.name != name;
    let others: Vec<&str> =
        PROTOCOLS.iter().enumerate().filter(is_other).map(|(_, protocol)| protocol.name).collect();
    let fields = |names: &[&str]| names.iter().map(|n| format!("`{n}.…`")).collect::<Vec<_>>().join(" and ");
    (!others.is_empty()).then(|| {
        format!(
            "Rows from {} are selected by their own fields: {} matches none of these rows, {} do \
             (`weir fields {}`).",
            others.join(" and "),
            fields(&[name]),
            fields(&others),
            others[0]
        )
    })
}

/// Arguments that most questions share.
#[derive(ClapArgs, Clone)]
pub struct Ask {
    /// Filter. Default: all traffic
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub output: Output,
}

/// File name extensions of captures: such a word is treated as a file even if the file does not exist.
const CAPTURE_ENDINGS: &[&str] = &["pcap", "pcapng", "cap", "gz", "zst", "lz4"];

impl Ask {
    fn settle(&mut self) {
        settle(&mut self.filter, &mut self.input);
    }
}

/// `-r` takes all following words, so in `-r a.pcap b.pcap 'tcp'` it also takes the filter. If no other
/// filter is given, the last of several words that is not a file name becomes the filter.
fn settle(filter: &mut Option<String>, input: &mut Input) {
    let files = &mut input.read;
    if filter.is_some() || files.len() < 2 {
        return;
    }
    if let Some(place) = files.iter().rposition(|word| !names_file(word)) {
        *filter = Some(files.remove(place).to_string_lossy().into_owned());
    }
}

/// Whether a word is a file name: the file exists, or the word looks like a capture's name.
fn names_file(word: &OsString) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    word == "-" || path.exists() || CAPTURE_ENDINGS.contains(&ending)
}

/// Reports a mistake in the command line, and exits. Files without `-r` are a frequent mistake.
fn refuse(wrong: &clap::Error) -> ! {
    use clap::error::ErrorKind::{MissingRequiredArgument, UnknownArgument};
    let _ = wrong.print();
    let is_capture = |word: &OsString| word != "-" && names_file(word) && !Path::new(word).is_dir();
    let file = std::env::args_os().skip(2).find(is_capture);
    if let (MissingRequiredArgument | UnknownArgument, Some(file)) = (wrong.kind(), file) {
        say!("\n  tip: input files follow -r: -r {}", file.display());
    }
    std::process::exit(wrong.exit_code())
}

/// Arguments of `run`.
#[derive(ClapArgs, Clone)]
#[command(after_help = questions(), mut_arg("read", |arg| arg.required(false)))]
pub struct Run {
    /// File with questions (see below)
    #[arg(value_name = "QUESTIONS.toml")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Listen on this socket for requests of `weir ctl`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

fn questions() -> String {
    format!(
        "\
A file of questions:
  read = [\"capture.pcap\"]                   # or -r
  [[question]]
  name = \"com\"                              # unique
  ask = \"tls\"                               # flows, packets, streams, match, events, sessions, a session protocol, files, x509
  filter = 'tls.sni matches \"[.]com$\"'      # default: all traffic
  format = \"json\"                           # {}
  output = \"com.json\"                       # default: standard output; packets also to .pcap, .pcapng
  patterns = ['(?i)user-agent: curl']       # for match; also ignore_case = true, fixed_strings = true, matcher = \"rust\"
  cutoff = \"10k\"                            # for match and streams: only the first bytes of each stream
  events = [\"tcp.retransmission\"]           # for events: only these",
        Format::labels()
    )
}

/// Arguments of `zeek`.
#[derive(ClapArgs, Clone)]
pub struct Zeek {
    /// Filter. Default: all traffic
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    /// Directory for the logs
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Format of the logs
    #[arg(long, value_name = "FORMAT", default_value = "zeek", value_parser = formats(&[]))]
    pub format: String,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

/// Arguments of `ctl`.
#[derive(ClapArgs, Clone)]
pub struct Ctl {
    /// Socket of `weir run --control`
    pub socket: PathBuf,
    /// The request.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// The requests of `weir ctl`.
#[derive(Subcommand, Clone)]
pub enum CtlCommand {
    /// Add a question
    Add(CtlAdd),
    /// List the questions
    List,
    /// Remove a question and complete its file
    Remove {
        /// Name of the question
        name: String,
    },
}

/// Arguments of `ctl add`.
#[derive(ClapArgs, Clone)]
pub struct CtlAdd {
    /// Name of the question
    pub name: String,
    /// Type of data: flows, packets, streams, match, events, sessions, a session protocol, files, x509
    pub ask: String,
    /// Filter. Default: all traffic
    pub filter: Option<String>,
    /// For match: a pattern (may be given several times)
    #[arg(short = 'e', long = "regexp", value_name = "REGEX")]
    pub patterns: Vec<String>,
    /// Format of rows. Default: json
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// File for the rows (parquet and arrow: or a directory). Default: standard output of the run
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
}

/// Arguments of `docs`.
#[derive(ClapArgs)]
pub struct Docs {
    /// Name of a layer, stack, session protocol or log, or a .weir file
    #[arg(value_name = "NAME|FILE.weir", required = true)]
    pub names: Vec<String>,
}

/// Arguments of `events`.
#[derive(ClapArgs)]
pub struct Events {
    /// Only these events, named as in filters: `layer.event`, `event` if the name is unique, or `layer` for
    /// all its events. Default: all events with columns
    #[arg(short = 'e', long = "event", value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// The input, and how the program is compiled.
#[derive(ClapArgs, Clone)]
pub struct Input {
    /// Capture files (pcap, pcapng; plain, gzip, zstd, lz4), or `-` for standard input. Several files are
    /// merged by time, as mergecap does
    #[arg(short = 'r', long = "read", value_name = "FILE", num_args = 1.., required = true)]
    pub read: Vec<OsString>,
    #[command(flatten)]
    pub program: Program,
    /// Number of workers. The order of rows does not depend on it. With more than one, a connection whose
    /// packets come through tunnels with different ends may become several rows
    #[arg(short = 'j', long = "workers", value_name = "N", default_value_t = 1, value_parser = workers, allow_negative_numbers = true)]
    pub workers: usize,
    /// End connections after this idle time (300, 300s, 5m, 1h), instead of their protocol's time-out.
    /// Unanswered and closed connections expire earlier. 0 disables the time-out
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub idle_timeout: Option<f64>,
    /// How receivers resolve overlapping segments and fragments: first (the default), last, bsd, bsd-right,
    /// linux, old-linux, windows, vista, solaris, hpux, hpux10, irix, macos; or for one network
    /// (10.0.0.0/8:windows). May be given several times; the longest prefix applies
    #[arg(long, value_name = "[NETWORK:]POLICY")]
    pub policy: Vec<String>,
    /// Reassembly mode. strict: as the receiver does, without damaged, stale, out-of-window and
    /// out-of-sequence segments; stops at the first permanent gap. fast: gaps are skipped and counted
    #[arg(long, value_name = "MODE", default_value = "fast", value_parser = ["strict", "fast"])]
    pub mode: String,
    /// Maximum number of flows in each table
    #[arg(long, value_name = "N", default_value_t = 1 << 24, value_parser = flows, allow_negative_numbers = true)]
    pub flows_max: usize,
}

/// The formats of rows, and the additional formats of a command.
fn formats(others: &[&'static str]) -> PossibleValuesParser {
    let others = others.iter().map(|name| PossibleValue::new(*name));
    let formats = Format::ALL.iter().map(|format| PossibleValue::new(format.label()).help(format.doc()));
    others.chain(formats).collect::<Vec<_>>().into()
}

/// The types of data: the names of their commands.
fn wanted() -> PossibleValuesParser {
    let protocols = PROTOCOLS.iter().map(|protocol| protocol.name);
    let logs = protocols.chain(Log::of_parts().map(|log| log.ask));
    ["packets", "flows", "sessions", "streams", "events"].into_iter().chain(logs).collect::<Vec<_>>().into()
}

fn workers(text: &str) -> Result<usize, String> {
    number(text, 1.., 4)
}

fn flows(text: &str) -> Result<usize, String> {
    number(text, 1.., 1_000_000)
}

/// How a question is compiled.
#[derive(ClapArgs, Clone)]
pub struct Program {
    /// The filter uses the syntax of pcap-filter(7)
    #[arg(long)]
    pub bpf: bool,
    /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must include the
    /// others. Default: `internet`, for general traffic; QUIC, the control connections of PPTP, and VXLAN on
    /// its old port have stacks of their own (`weir stacks`)
    #[arg(long, value_name = "NAME|FILE.weir")]
    pub stack: Vec<String>,
    /// Execution engine: auto, native, interpreter
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = ["auto", "native", "interpreter"])]
    pub engine: String,
    /// Disable an optimiser pass (`all`: every pass)
    #[arg(long, value_name = "PASS")]
    pub without: Vec<String>,
}

/// Output of rows.
#[derive(ClapArgs, Clone)]
pub struct Output {
    /// Format of rows. Default: table on a terminal, JSON lines otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// Write rows to this file. parquet and arrow also accept a directory (existing, or `DIR/`), with one
    /// file per hour: DIR/date=2026-11-22/hour=05/part-0.parquet
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
    /// Print only the row count
    #[arg(long)]
    pub count: bool,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

/// Arguments of `packets`.
#[derive(ClapArgs, Clone)]
pub struct Packets {
    #[command(flatten)]
    pub ask: Ask,
    /// Write the matching frames to this capture file (.pcap or .pcapng)
    #[arg(short = 'w', long = "write", value_name = "OUT.pcap|OUT.pcapng", conflicts_with_all = ["count", "format", "output"])]
    pub write: Option<PathBuf>,
}

/// Arguments of `fields`.
#[derive(ClapArgs)]
pub struct Fields {
    /// Only names with this prefix
    pub prefix: Option<String>,
    /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must include the
    /// others
    #[arg(long, value_name = "NAME|FILE.weir")]
    pub stack: Vec<String>,
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
}

/// Arguments of `stacks`.
#[derive(ClapArgs)]
pub struct Stacks {
    /// A .weir file, whose stacks are listed as well
    #[arg(long, value_name = "FILE.weir")]
    pub stack: Vec<String>,
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
}

/// Arguments of `explain`.
#[derive(ClapArgs)]
pub struct Explain {
    /// The filter
    #[arg(default_value = "")]
    pub filter: String,
    /// Type of data, by the name of its command: packets, flows, sessions, streams, events, or a log such as
    /// tls
    #[arg(long, value_name = "WHAT", default_value = "packets", value_parser = wanted(), hide_possible_values = true)]
    pub wants: String,
    /// Show only one stage
    #[arg(long, value_name = "STAGE", value_parser = ["parse", "trie", "ir", "opt", "straight", "code"])]
    pub stage: Option<String>,
    /// Explain why packet N of a capture file (`-`: standard input) matches or not, layer by layer, with the
    /// decisive bytes; with --stage ir or opt: the packet's path through the graph
    #[arg(long, value_name = "FILE:N", allow_hyphen_values = true)]
    pub packet: Option<String>,
    #[command(flatten)]
    pub program: Program,
}

/// Arguments of `check`.
#[derive(ClapArgs)]
pub struct Check {
    /// Files to check
    #[arg(required = true, value_name = "FILE.weir")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `fmt`.
#[derive(ClapArgs)]
pub struct Fmt {
    /// Files to format; without files, and for `-`: standard input to standard output
    #[arg(value_name = "FILE.weir")]
    pub files: Vec<PathBuf>,
    /// Write nothing; print the differences, with exit status 1 if there are any
    #[arg(long)]
    pub check: bool,
}

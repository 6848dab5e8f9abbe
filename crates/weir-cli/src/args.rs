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
  weir flows -r capture.pcap                           every connection, as Zeek's conn.log has it
  weir tls -r capture.pcap 'tls.sni contains \"example\"'
  weir http -r capture.pcap 'http.response.code >= 400'  one command per protocol; weir sessions: all of them
  weir zeek -r capture.pcap -d logs                    conn.log, ssl.log, http.log, files.log, x509.log …
  weir run questions.toml                              several questions over one reading
  weir packets -r capture.pcap --count 'tcp.port == 443 and ip.addr in 10.0.0.0/8'
  weir packets -r capture.pcap -w out.pcap 'tls.sni == \"www.example.com\"'
  zcat capture.pcap.gz | weir stats -r -
  weir streams -r capture.pcap -o streams/             each direction's bytes in order, a file each
  weir match -r capture.pcap -e 'User-Agent: [^\\r]*'   grep for streams
  weir explain 'tcp.port == 443 and tls'               how a filter is compiled
  weir fields tcp                                      which names filters know
  weir stats -r capture.pcap --stack quic              with the layers of another stack: `weir stacks`

A filter is one argument: quote it. `weir fields` lists the names, `weir explain FILTER` shows what
becomes of it. Rows are a table on a terminal and JSON lines in a pipe; --format says otherwise.

Exit status: 0 done, also where nothing fulfils the filter; 1 nothing found by `match` or counted by
--count, as grep says it, or `fmt --check` would change something; 2 an error, told on standard error
(what could be read is answered all the same). SIGINT, SIGTERM and SIGHUP end a run as if its input did,
and say so: 0 for what comes as it happens (a pipe), 128 and the signal's number for files. The second one
ends it at once.";

/// Ask a question of network traffic; get the answer at the speed of the memory bus.
#[derive(Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// What is asked.
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// The arguments of this run of the command, the filter told from the files before it.
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

/// What is asked.
#[derive(Subcommand)]
pub enum Command {
    /// Connections, one row each when they are over: Zeek's conn.log
    Flows(Ask),
    /// A command per log of application sessions: TLS handshakes, HTTP exchanges …
    #[command(flatten)]
    Log(LogCommand),
    /// Sessions of all application protocols, each with the name of its log (`_path`)
    Sessions(Ask),
    /// Several questions at once, from a file; more may come and go while it runs (`weir ctl`)
    Run(Run),
    /// Zeek's logs: conn.log, and one for each protocol that there is something of
    Zeek(Zeek),
    /// Adds, lists and takes away questions of a `weir run --control SOCKET` that goes on
    Ctl(Ctl),
    /// Packets, one line each; or their number; or a capture file of them
    Packets(Packets),
    /// Events that the stack declares (fragments, resets, …), with their columns; each row fulfils the filter by its own
    Events(Events),
    /// Packets and bytes per layer, sizes, top talkers, timing, why packets could not be followed, what the reader skipped
    Stats(Ask),
    /// Streams: each direction's bytes in order, a row each when it is over; their digests; files of them
    Streams(Streams),
    /// Where patterns match in streams, across the borders of segments: grep for traffic
    Match(Match),
    /// The fields that filters can name, with type and meaning
    Fields(Fields),
    /// The stacks that --stack takes, with their layers
    Stacks(Stacks),
    /// What becomes of a filter: trie, split, graph, passes, code; or why a packet matched or not
    Explain(Explain),
    /// The reference page of a protocol, a stack or a log, or of all in a .weir file
    Docs(Docs),
    /// Checks .weir files: everything that is wrong with them at once
    Check(Check),
    /// Lays .weir files out anew, in place: indentation and spaces; lines, columns and comments stay
    Fmt(Fmt),
}

/// A command of its own for each session protocol of the registry, and for each log of parts of sessions.
#[derive(Clone)]
pub struct LogCommand {
    /// Name of the protocol or the parts.
    pub name: &'static str,
    /// What is asked.
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

/// Names of the logs' commands, and what they say of themselves.
fn log_commands() -> impl Iterator<Item = (&'static str, String)> {
    let of_sessions = PROTOCOLS.iter().map(|p| (p.name, format!("{} ({}.log)", p.doc, p.log)));
    of_sessions.chain(PART_LOGS.iter().map(|log| (log.name, format!("{} ({}.log)", log.doc, log.name))))
}

/// How rows of a log are chosen that are of other protocols' sessions: DTLS's, and what stands in QUIC's.
fn rows_of_others(name: &str) -> Option<String> {
    let asked = Log::of(name).filter(|_| PROTOCOLS.iter().any(|p| p.name == name))?.asked();
    let is_other = |(index, p): &(usize, &&SessionProtocol)| asked >> index & 1 == 1 && p.name != name;
    let others: Vec<&str> =
        PROTOCOLS.iter().enumerate().filter(is_other).map(|(_, protocol)| protocol.name).collect();
    let fields = |names: &[&str]| names.iter().map(|n| format!("`{n}.…`")).collect::<Vec<_>>().join(" and ");
    (!others.is_empty()).then(|| {
        format!(
            "Rows that come of {} are chosen by the fields of these: {} chooses none of them, {} do \
             (`weir fields {}`).",
            others.join(" and "),
            fields(&[name]),
            fields(&others),
            others[0]
        )
    })
}

/// What most questions have in common.
#[derive(ClapArgs, Clone)]
pub struct Ask {
    /// Which traffic; everything without
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub output: Output,
}

/// Endings by which a name is taken for a file's even where there is no such file.
const CAPTURE_ENDINGS: &[&str] = &["pcap", "pcapng", "cap", "gz", "zst", "lz4"];

impl Ask {
    fn settle(&mut self) {
        settle(&mut self.filter, &mut self.input);
    }
}

/// `-r` takes as many words as follow, so `-r a.pcap b.pcap 'tcp'` gives it the filter, too: where none stands
/// elsewhere, the last of several words that is no file's name is the filter.
fn settle(filter: &mut Option<String>, input: &mut Input) {
    let files = &mut input.read;
    if filter.is_some() || files.len() < 2 {
        return;
    }
    if let Some(place) = files.iter().rposition(|word| !names_file(word)) {
        *filter = Some(files.remove(place).to_string_lossy().into_owned());
    }
}

/// Whether a word is the name of a file: there is one, or it looks like a capture's.
fn names_file(word: &OsString) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    word == "-" || path.exists() || CAPTURE_ENDINGS.contains(&ending)
}

/// Says what is wrong with the command line, and ends. Files without their option are a slip of many.
fn refuse(wrong: &clap::Error) -> ! {
    use clap::error::ErrorKind::{MissingRequiredArgument, UnknownArgument};
    let _ = wrong.print();
    let is_capture = |word: &OsString| word != "-" && names_file(word) && !Path::new(word).is_dir();
    let file = std::env::args_os().skip(2).find(is_capture);
    if let (MissingRequiredArgument | UnknownArgument, Some(file)) = (wrong.kind(), file) {
        say!("\n  tip: files that are read stand behind -r: -r {}", file.display());
    }
    std::process::exit(wrong.exit_code())
}

/// What `weir run` is asked.
#[derive(ClapArgs, Clone)]
#[command(after_help = questions(), mut_arg("read", |arg| arg.required(false)))]
pub struct Run {
    /// A file of questions (see below)
    #[arg(value_name = "QUESTIONS.toml")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Listen on this socket for questions that come and go: `weir ctl`
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
  filter = 'tls.sni matches \"[.]com$\"'      # everything without
  format = \"json\"                           # {}
  output = \"com.json\"                       # standard output without; packets also to .pcap, .pcapng
  patterns = ['(?i)user-agent: curl']       # of match; also ignore_case = true, fixed_strings = true, matcher = \"rust\"
  cutoff = \"10k\"                            # of match and streams: the first bytes of each stream alone
  events = [\"tcp.retransmission\"]           # of events: only these",
        Format::labels()
    )
}

/// What `weir zeek` is asked.
#[derive(ClapArgs, Clone)]
pub struct Zeek {
    /// Which traffic; everything without
    pub filter: Option<String>,
    #[command(flatten)]
    pub input: Input,
    /// Directory for the logs
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// How the logs are written
    #[arg(long, value_name = "FORMAT", default_value = "zeek", value_parser = formats(&[]))]
    pub format: String,
    /// Print counters, and counts and cycles per stage, to standard error at the end
    #[arg(long)]
    pub stats: bool,
}

/// What `weir ctl` is asked.
#[derive(ClapArgs, Clone)]
pub struct Ctl {
    /// The socket that `weir run --control` listens on
    pub socket: PathBuf,
    /// What is to be done.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// What `weir ctl` does.
#[derive(Subcommand, Clone)]
pub enum CtlCommand {
    /// Add a question
    Add(CtlAdd),
    /// List the questions
    List,
    /// Take a question away: its file is complete then
    Remove {
        /// What it is called
        name: String,
    },
}

/// A question to be added.
#[derive(ClapArgs, Clone)]
pub struct CtlAdd {
    /// What it is called
    pub name: String,
    /// What is wanted: flows, packets, streams, match, events, sessions, a session protocol, files, x509
    pub ask: String,
    /// Which traffic; everything without
    pub filter: Option<String>,
    /// Of match: what is looked for (may be given several times)
    #[arg(short = 'e', long = "regexp", value_name = "REGEX")]
    pub patterns: Vec<String>,
    /// How answers are written; json without
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// A file for the answers (parquet and arrow: or a directory); standard output of the run without
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
}

/// What `weir docs` is asked.
#[derive(ClapArgs)]
pub struct Docs {
    /// A layer, a stack, a session protocol or a log by name, or a .weir file
    #[arg(value_name = "NAME|FILE.weir", required = true)]
    pub names: Vec<String>,
}

/// What `weir events` is asked.
#[derive(ClapArgs)]
pub struct Events {
    /// Only these events, named as in filters: `layer.event`, `event` where one layer alone has it, or `layer` for all of that one; without, all that have columns
    #[arg(short = 'e', long = "event", value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// Where packets come from, and how the program is made.
#[derive(ClapArgs, Clone)]
pub struct Input {
    /// Capture files (pcap, pcapng; plain, gzip, zstd, lz4), `-` for standard input; of several, the earliest packet is read next, as mergecap does
    #[arg(short = 'r', long = "read", value_name = "FILE", num_args = 1.., required = true)]
    pub read: Vec<OsString>,
    #[command(flatten)]
    pub program: Program,
    /// Workers; rows come out in the same order whatever their number. A connection whose packets come through tunnels of different ends may be several rows with more than one
    #[arg(short = 'j', long = "workers", value_name = "N", default_value_t = 1, value_parser = workers, allow_negative_numbers = true)]
    pub workers: usize,
    /// End connections that have been idle for so long (300, 300s, 5m, 1h), in place of their protocol's time-out
    /// (those unanswered or closed go sooner); 0: connections end with the capture only
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub idle_timeout: Option<f64>,
    /// How receivers resolve segments and fragments that overlap: first (the default), last, bsd, bsd-right, linux,
    /// old-linux, windows, vista, solaris, hpux, hpux10, irix, macos; or those of a network (10.0.0.0/8:windows); may be given
    /// several times, the longest prefix counts
    #[arg(long, value_name = "[NETWORK:]POLICY")]
    pub policy: Vec<String>,
    /// How bytes are put in order. strict: as their receiver would take them, without what is damaged, out of its
    /// window, stale or off sequence, and nothing behind a hole that is never filled. fast: holes are passed over, and counted
    #[arg(long, value_name = "MODE", default_value = "fast", value_parser = ["strict", "fast"])]
    pub mode: String,
    /// The most flows that each table holds
    #[arg(long, value_name = "N", default_value_t = 1 << 24, value_parser = flows, allow_negative_numbers = true)]
    pub flows_max: usize,
}

/// The formats of rows, and those that a command has besides.
fn formats(others: &[&'static str]) -> PossibleValuesParser {
    let others = others.iter().map(|name| PossibleValue::new(*name));
    let formats = Format::ALL.iter().map(|format| PossibleValue::new(format.label()).help(format.doc()));
    others.chain(formats).collect::<Vec<_>>().into()
}

/// What can be wanted of traffic: the names of the commands that ask for it.
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

/// How a program is made of a question.
#[derive(ClapArgs, Clone)]
pub struct Program {
    /// The filter is in the syntax of pcap-filter(7)
    #[arg(long)]
    pub bpf: bool,
    /// A stack by name, or a .weir file with one; of several the last stack is run, and must have what the others bring. Without: `internet`, which takes whatever comes; QUIC, the control connections of PPTP and VXLAN on its old port have stacks of their own (`weir stacks`)
    #[arg(long, value_name = "NAME|FILE.weir")]
    pub stack: Vec<String>,
    /// What runs the program: auto, native, interpreter
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = ["auto", "native", "interpreter"])]
    pub engine: String,
    /// Leave out an optimiser pass (`all`: every one)
    #[arg(long, value_name = "PASS")]
    pub without: Vec<String>,
}

/// Where rows go.
#[derive(ClapArgs, Clone)]
pub struct Output {
    /// How rows are written; a table on a terminal, JSON lines otherwise
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
    /// Write rows to this file; parquet and arrow also to a directory (one that is there, or `DIR/`), a file per hour:
    /// DIR/date=2026-11-22/hour=05/part-0.parquet
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    pub output: Option<PathBuf>,
    /// Print the number of answers alone
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
    /// Only names that start so
    pub prefix: Option<String>,
    /// A stack by name, or a .weir file with one; of several the last stack is run, and must have what the others bring
    #[arg(long, value_name = "NAME|FILE.weir")]
    pub stack: Vec<String>,
    /// How rows are written
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
}

/// Arguments of `stacks`.
#[derive(ClapArgs)]
pub struct Stacks {
    /// A .weir file whose stacks are listed, too
    #[arg(long, value_name = "FILE.weir")]
    pub stack: Vec<String>,
    /// How rows are written
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    pub format: Option<String>,
}

/// Arguments of `explain`.
#[derive(ClapArgs)]
pub struct Explain {
    /// The filter
    #[arg(default_value = "")]
    pub filter: String,
    /// What is wanted, by the name of its command: packets, flows, sessions, streams, events, or a log, for instance tls
    #[arg(long, value_name = "WHAT", default_value = "packets", value_parser = wanted(), hide_possible_values = true)]
    pub wants: String,
    /// Show one stage only
    #[arg(long, value_name = "STAGE", value_parser = ["parse", "trie", "ir", "opt", "straight", "code"])]
    pub stage: Option<String>,
    /// Why packet N of a capture file matches or not, layer by layer, with the bytes that decided (`-`: standard input);
    /// with --stage ir or opt, its way through the graph
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
    /// Files to lay out; standard input to standard output without any, and for `-`
    #[arg(value_name = "FILE.weir")]
    pub files: Vec<PathBuf>,
    /// Write nothing; print what would change, with status 1 where something would
    #[arg(long)]
    pub check: bool,
}

//! Arguments that several subcommands share.

use crate::compiled_in::{HAS_KAFKA, HAS_OTLP};
use crate::failure::Failure;
use crate::local_users;
use crate::metrics::{self, Readers};
use crate::quantity::{interval, moment, number, seconds, share};
use crate::recording::RecordingParams;
use crate::spec::QuestionSpec;
use crate::words::Words;
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::ffi::OsString;
use std::path::PathBuf;
use weir::io::Format;
use weir::packet::Timestamp;

/// Arguments that most questions share.
#[derive(ClapArgs, Clone)]
pub struct Ask {
    #[command(flatten)]
    pub words: Words,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub input: Input,
}

impl Input {
    /// To whom the metrics of the run are shown.
    pub fn readers(&self) -> Readers<'_> {
        let collector = self.otlp.as_deref().map(|collector| (collector, self.otlp_interval));
        Readers { page: self.metrics.as_deref(), collector }
    }
}

impl Ask {
    /// The question of type `ask`: the words are files, which become inputs, and a filter.
    ///
    /// # Errors
    /// It is not clear which word is the filter.
    pub fn spec(&mut self, ask: &str) -> Result<QuestionSpec, Failure> {
        let filter = self.words.settle(&mut self.input.read)?;
        let Output { format, output, rotation, export, view, csv_safe, count, .. } = self.output.clone();
        let spec = QuestionSpec { ask: ask.to_string(), filter, count, csv_safe, ..QuestionSpec::default() };
        let spec = QuestionSpec { format, output: file_named(output), ..spec };
        Ok(export.put_into(view.put_into(rotation.put_into(spec))))
    }
}

/// The input, and how the program is compiled.
#[derive(ClapArgs, Clone)]
pub struct Input {
    /// Capture files (pcap, pcapng; plain, gzip, zstd, lz4), or `-` for standard input, `tcp://HOST:PORT` for
    /// a capture from a TCP connection, `tcp-listen:PORT` to wait for a sender on this host
    /// (`tcp-listen:ADDRESS:PORT`: on others, too). Packets over UDP: `udp://:PORT` from senders on this
    /// host, `udp://ADDRESS:PORT` from others, `tzsp://ADDRESS:37008` from routers. Packets of a recorder
    /// (`weir record`): `ring:` or `ring:NAME`. Several are merged by time
    #[arg(short = 'r', long = "read", value_name = "FILE", num_args = 1.., help_heading = "Input")]
    pub read: Vec<OsString>,
    /// Capture on a network interface, or on all (`any`), until a signal. `dpdk:DEVICE[,ARGUMENT=VALUE…]`: on
    /// a device of DPDK. May be given several times. `weir interfaces` lists the interfaces
    #[arg(short = 'i', long = "interface", value_name = "NAME", help_heading = "Input")]
    pub interface: Vec<String>,
    /// Method of capture. af_packet: the kernel shows packets to Weir and to the machine's own programs.
    /// af_xdp: Weir takes all packets of the interface, as is right for a copy of traffic (a mirror port):
    /// the machine's own programs receive none
    #[arg(long, value_name = "METHOD", default_value = "af_packet", value_parser = ["af_packet", "af_xdp"], help_heading = "Capture")]
    pub method: String,
    /// Memory between the kernel and each worker, for each interface (64M)
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, help_heading = "Capture")]
    pub buffer: Option<String>,
    /// Do not make the interface promiscuous: it then receives what is sent to this host, or to all
    #[arg(long, help_heading = "Capture")]
    pub no_promiscuous: bool,
    /// The interface receives copies of traffic (a mirror port): drop packets that no question needs in the
    /// driver, where that costs least. The machine's own programs do not receive them either
    #[arg(long, help_heading = "Capture")]
    pub mirror: bool,
    /// Use the times of the network card's clock. Default: the times at which the kernel received the packets
    #[arg(long, help_heading = "Capture")]
    pub hardware_time: bool,
    /// Further arguments of DPDK (EAL parameters) for -i dpdk:DEVICE, in one word: '-m 1024'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true, help_heading = "Capture")]
    pub dpdk_eal: Option<String>,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Leave out copies of packets: a mirror port shows a packet once for each interface or VLAN that it
    /// passes. A packet is a copy if an equal one came at most 5 ms before, whatever its link header, VLAN
    /// tags and time to live
    #[arg(long, help_heading = "Input")]
    pub dedup: bool,
    /// Copies of packets are counted, also if they are not left out.
    #[arg(skip)]
    pub counts_copies: bool,
    /// Read on as the last file grows, or is replaced by another one (as tail -F), until a signal
    #[arg(long, help_heading = "Input")]
    pub follow: bool,
    /// With -r ring: packets from this time on: 14:02 (today, UTC), '2026-11-26 14:02:03', or -5m, five
    /// minutes ago
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Input")]
    pub from: Option<Timestamp>,
    /// With -r ring: packets up to this time
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Input")]
    pub to: Option<Timestamp>,
    /// The packets of the run are recorded.
    #[arg(skip)]
    pub recording: Option<RecordingParams>,
    #[command(flatten)]
    pub program: Program,
    /// Look only at this share of the traffic (1/8), all connections between the hosts that are selected. On
    /// links the kernel discards the rest
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Input")]
    pub sample: Option<u32>,
    /// Print a line each second to standard error: rates, losses, flows, memory, and what becomes of packets
    #[arg(long, help_heading = "Output")]
    pub monitor: bool,
    /// Serve the counters of the run for Prometheus, at http://ADDR/metrics, while the run goes on: :9464 (or
    /// 127.0.0.1:9464, this host alone), 0.0.0.0:9464 (everybody), :0 (a free port). A message names the
    /// address
    #[arg(long, value_name = "ADDR", help_heading = "Output")]
    pub metrics: Option<String>,
    /// Users of this machine who may read `--metrics` and connect to `-w tcp-listen:…`, besides root and the
    /// one who starts weir: prometheus. May be given several times
    #[arg(long, value_name = "NAME", value_parser = local_users::id_of, help_heading = "Output")]
    pub allow_user: Vec<u32>,
    /// The group of new files and directories may read them, too (0640, 0750). Default: their owner alone
    #[arg(long, help_heading = "Output")]
    pub group_read: bool,
    /// Send the counters of the run to this collector of OpenTelemetry, by OTLP over gRPC without TLS
    #[arg(long, value_name = "HOST[:4317]", value_parser = metrics::collector, hide = !HAS_OTLP, help_heading = "Output")]
    pub otlp: Option<String>,
    /// Time between two messages to the collector of --otlp, from 1 s to 24 h
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = interval, allow_hyphen_values = true, hide = !HAS_OTLP, help_heading = "Output")]
    pub otlp_interval: f64,
    /// Number of workers. The order of rows of files does not depend on it. With more than one, a connection
    /// whose packets come through tunnels with different ends may become several rows
    #[arg(short = 'j', long = "workers", value_name = "N", default_value_t = 1, value_parser = workers, allow_negative_numbers = true, help_heading = "Advanced")]
    pub workers: usize,
    /// Bind the thread of each worker to one of these processors (0,2-3), in this order. Default: the system
    /// selects
    #[arg(long, value_name = "LIST", help_heading = "Advanced")]
    pub cpus: Option<String>,
    /// End connections after this idle time (300, 300s, 5m, 1h), instead of their protocol's time-out.
    /// Unanswered and closed connections expire earlier. 0 disables the time-out
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true, help_heading = "Advanced")]
    pub idle_timeout: Option<f64>,
    /// How receivers resolve overlapping segments and fragments: first (the default), last, bsd, bsd-right,
    /// linux, old-linux, windows, vista, solaris, hpux, hpux10, irix, macos; or for one network
    /// (10.0.0.0/8:windows). May be given several times; the longest prefix applies
    #[arg(long, value_name = "[NETWORK:]POLICY", help_heading = "Advanced")]
    pub policy: Vec<String>,
    /// Reassembly mode. strict: as the receiver does, without damaged, stale, out-of-window and
    /// out-of-sequence segments; stops at the first permanent gap. fast: gaps are skipped and counted
    #[arg(long, value_name = "MODE", default_value = "fast", value_parser = ["strict", "fast"], help_heading = "Advanced")]
    pub mode: String,
    /// Maximum number of flows in each table
    #[arg(long, value_name = "N", default_value_t = 1 << 24, value_parser = flows, allow_negative_numbers = true, help_heading = "Advanced")]
    pub flows_max: usize,
    /// Memory of the run: flows, out-of-order segments, streams, sessions, packets that wait. If it is short,
    /// idle connections end first, then streams lose bytes. Default: half of the machine's memory
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, help_heading = "Advanced")]
    pub memory: Option<String>,
    /// When memory is short, the bytes of each stream beyond this number are dropped first
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, help_heading = "Advanced")]
    pub overload_cutoff: Option<String>,
    /// Wait this long for an output that accepts nothing (5, 500ms, 1m); then its rows are lost and counted,
    /// until it accepts rows again. Default: without limit for a single question, 5 s for several
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true, help_heading = "Advanced")]
    pub output_wait: Option<f64>,
}

/// Options of the rights of a live run.
#[derive(ClapArgs, Clone, Default)]
pub struct SandboxArgs {
    /// Continue as this user (and group), once the sockets are open. Outputs are opened as this user. Default
    /// for root: the user in /etc/weir/user, if the file is there
    #[arg(long, value_name = "NAME[:GROUP]", help_heading = "Capture")]
    pub user: Option<String>,
    /// Permit to write files below this directory, too: for questions that come during the run. May be given
    /// several times. Default: the directories of the outputs
    #[arg(long, value_name = "DIR", help_heading = "Capture")]
    pub write_to: Vec<PathBuf>,
    /// Keep the rights of the start: capabilities, calls of the system, and files
    #[arg(long, help_heading = "Capture")]
    pub no_sandbox: bool,
}

/// How a question is compiled.
#[derive(ClapArgs, Clone)]
pub struct Program {
    /// The filter uses the syntax of pcap-filter(7)
    #[arg(long, help_heading = "Input")]
    pub bpf: bool,
    /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must include the
    /// others. Default: `internet`, for general traffic; QUIC, the control connections of PPTP, and VXLAN on
    /// its old port have stacks of their own (`weir stacks`)
    #[arg(long, value_name = "NAME|FILE.weir", help_heading = "Input")]
    pub stack: Vec<String>,
    /// Connections that differ only in this value are one connection (vlan.id). Default: connections with
    /// equal addresses and ports are different if their VLANs, VXLAN or GENEVE networks, GRE keys, ERSPAN or
    /// PPPoE sessions differ (`weir explain` lists the values)
    #[arg(long, value_name = "FIELD", value_delimiter = ',', help_heading = "Advanced")]
    pub ignore_context: Vec<String>,
    /// Connections that differ in this value are different (gtp.teid, frame.interface_id). If the value
    /// differs between the two directions, also if the value is vlan.id, each direction becomes a connection
    #[arg(long, value_name = "FIELD", value_delimiter = ',', help_heading = "Advanced")]
    pub add_context: Vec<String>,
    /// Take connections with a port for a session protocol, whatever their bytes are: 'tcp.port == 8443:
    /// tls'. May be given several times; the first match applies
    #[arg(long, value_name = "FILTER:PROTOCOL", help_heading = "Input")]
    pub decode_as: Vec<String>,
    /// Execution engine: auto, native, interpreter
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = ["auto", "native", "interpreter"], help_heading = "Advanced")]
    pub engine: String,
    /// Disable an optimiser pass (`all`: every pass)
    #[arg(long, value_name = "PASS", help_heading = "Advanced")]
    pub without: Vec<String>,
}

/// Output of rows.
#[derive(ClapArgs, Clone)]
pub struct Output {
    /// Format of rows. Default: by the ending of the output file; without one, table on a terminal, JSON
    /// lines else
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]), help_heading = "Output")]
    pub format: Option<String>,
    /// Write rows to this file. parquet, arrow and packed also accept a directory (existing, or `DIR/`), with
    /// one file per hour: DIR/date=2026-11-22/hour=05/part-0.parquet. Or send rows: ipfix://HOST:PORT or
    /// ipfix+tcp://HOST:PORT (flow records, of weir flows), syslog://HOST:PORT or syslog+tcp://HOST:PORT (a
    /// JSON message for each row)
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/|URL", help_heading = "Output")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub rotation: RotateArgs,
    #[command(flatten)]
    pub export: ExportArgs,
    #[command(flatten)]
    pub view: View,
    /// With --format csv: texts that a spreadsheet would execute as formulas begin with an apostrophe
    #[arg(long, help_heading = "Output")]
    pub csv_safe: bool,
    /// Print only the row count
    #[arg(long, help_heading = "Output")]
    pub count: bool,
    /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
    #[arg(long, help_heading = "Output")]
    pub stats: bool,
}

/// Options of rows that are sent to other machines.
#[derive(ClapArgs, Clone, Default)]
pub struct ExportArgs {
    // The help names Kafka only in a build that has its client.
    #[arg(long, value_name = "DIR", help = spool_help(), help_heading = "Output")]
    pub spool: Option<PathBuf>,
    /// With --spool: at most this many bytes in the directory; further rows are lost and counted. Default: 1G
    #[arg(
        long,
        value_name = "BYTES",
        requires = "spool",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    pub spool_max: Option<String>,
    /// With -o ipfix://…: the number of the observation domain, by which a collector tells exporters of one
    /// host apart. Default: 0
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub observation_domain: Option<u32>,
    #[arg(long, value_name = "NAME", help = sensor_help(), help_heading = "Output")]
    pub sensor: Option<String>,
    /// With -o clickhouse://…: create the table unless it exists
    #[arg(long, help_heading = "Output")]
    pub create: bool,
}

fn spool_help() -> String {
    let receivers = match HAS_KAFKA {
        true => "ipfix+tcp://…, syslog+tcp://…, kafka://… or clickhouse://…",
        false => "ipfix+tcp://…, syslog+tcp://… or clickhouse://…",
    };
    format!(
        "With -o {receivers}: keep what the receiver does not have in this directory, also when the run ends or is killed; the \
         next run with the same directory sends it. Default: in memory, up to 4 MiB"
    )
}

fn sensor_help() -> String {
    let (receivers, key) = match HAS_KAFKA {
        true => ("kafka://… or clickhouse://…", ", and as the key of messages"),
        false => ("clickhouse://…", ""),
    };
    format!(
        "With -o {receivers}: the name of this machine in the column `sensor`{key}. Default: the name of the host"
    )
}

impl ExportArgs {
    /// Adds these options to the question.
    pub fn put_into(&self, spec: QuestionSpec) -> QuestionSpec {
        let Self { spool, spool_max, observation_domain, sensor, create } = self.clone();
        QuestionSpec { spool, spool_max, observation_domain, sensor, create, ..spec }
    }
}

/// Options of outputs that are divided into files.
#[derive(ClapArgs, Clone, Default)]
pub struct RotateArgs {
    /// Begin another file at this size (100M), after this time of capture (1h), or at both (1G,1h). FILE.json
    /// becomes FILE.2026-11-25-14-00-00.json, named after the beginning of the hour; each file is complete by
    /// itself
    #[arg(long, value_name = "SIZE|TIME", help_heading = "Output")]
    pub rotate: Option<String>,
    /// With --rotate: keep the newest N files of this output, and delete the others, also those of earlier
    /// runs
    #[arg(long, value_name = "N", requires = "rotate", value_parser = limit, allow_negative_numbers = true, help_heading = "Output")]
    pub keep: Option<u64>,
}

impl RotateArgs {
    /// Adds these options to the question.
    pub fn put_into(&self, spec: QuestionSpec) -> QuestionSpec {
        let Self { rotate, keep } = self.clone();
        QuestionSpec { rotate, keep, ..spec }
    }
}

/// What is shown of rows.
#[derive(ClapArgs, Clone)]
pub struct View {
    /// Show these columns, in this order (alias: --fields). `orig` and `resp` are address and port of the
    /// client and the server. Default: all columns; in a table those of most use
    #[arg(long, alias = "fields", value_name = "COLUMN", value_delimiter = ',', help_heading = "Output")]
    pub columns: Vec<String>,
    /// Stop after N answers
    #[arg(long, value_name = "N", value_parser = limit, allow_negative_numbers = true, help_heading = "Output")]
    pub limit: Option<u64>,
    /// Sort rows by a column; -COLUMN: largest first
    #[arg(long, value_name = "[-]COLUMN", allow_hyphen_values = true, help_heading = "Output")]
    pub sort: Option<String>,
    /// Add names of hosts: from a file in the form of hosts(5), from /etc/hosts (`hosts`), or from the DNS
    /// answers in the captures (`dns`). Nothing is looked up on the network. May be given several times
    #[arg(long, value_name = "FILE|hosts|dns", help_heading = "Output")]
    pub names: Vec<String>,
    /// Show all columns in a table
    #[arg(long, help_heading = "Output")]
    pub wide: bool,
    /// Show local times with their offset: in tables, JSON, CSV and TSV. Default: UTC; in JSON, CSV and TSV
    /// seconds since 1970
    #[arg(long, help_heading = "Output")]
    pub local: bool,
}

impl View {
    /// Adds these options to the question.
    pub fn put_into(self, spec: QuestionSpec) -> QuestionSpec {
        let Self { columns, limit, sort, names, wide, local } = self;
        QuestionSpec { columns, limit, sort, names, wide, local, ..spec }
    }
}

/// The contents of files.
#[derive(ClapArgs, Clone)]
pub struct Contents {
    /// Write the content of each file in the rows to this directory, decoded, and equal contents once; the
    /// rows name its path. Bytes that are missing in the capture are zeros
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub extract: Option<PathBuf>,
    /// With --extract: write at most this many bytes and files (1G, 1G/5000), and cut the contents beyond.
    /// Default: 100 000 files, and 100G or half of the free space, whichever is less
    #[arg(
        long,
        value_name = "BYTES[/FILES]",
        requires = "extract",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    pub extract_max: Option<String>,
}

impl Contents {
    /// Adds these options to the question.
    pub fn put_into(&self, spec: QuestionSpec) -> QuestionSpec {
        let Self { extract, extract_max } = self.clone();
        QuestionSpec { extract, extract_max, ..spec }
    }
}

/// The output file; `-` is standard output.
pub fn file_named(output: Option<PathBuf>) -> Option<PathBuf> {
    output.filter(|path| path.as_os_str() != "-")
}

/// The value of `--limit`.
pub fn limit(text: &str) -> Result<u64, String> {
    number(text, 1.., 10)
}

/// Bounds and priorities of streams.
#[derive(ClapArgs, Clone)]
pub struct StreamBounds {
    /// Process only the first bytes of each stream (10k), or of originators and responders (1k/64k); or of
    /// streams that match a filter ('tcp.port == 443:1k') or use a service's ports ('dns:1k'). May be given
    /// several times; the first match applies
    #[arg(long, value_name = "[FILTER:]BYTES[/BYTES]", allow_hyphen_values = true, help_heading = "Streams")]
    pub cutoff: Vec<String>,
    /// Deliver bytes in contiguous chunks of this size
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, help_heading = "Streams")]
    pub chunk: Option<String>,
    /// Bytes of the previous chunk that a chunk repeats
    #[arg(
        long,
        value_name = "BYTES",
        requires = "chunk",
        allow_hyphen_values = true,
        help_heading = "Streams"
    )]
    pub overlap: Option<String>,
    /// Flush partial chunks after TIME (10, 500ms, 5m) of capture time, late by up to 0.07 s
    #[arg(long, value_name = "TIME", requires = "chunk", value_parser = seconds, allow_hyphen_values = true, help_heading = "Streams")]
    pub flush: Option<f64>,
    /// Priority, 0 (lowest) to 15, of streams that match a filter or use a service's ports ('dns:9'). When
    /// memory is short, lower priorities lose bytes first
    #[arg(long, value_name = "FILTER:PRIORITY", allow_negative_numbers = true, help_heading = "Streams")]
    pub priority: Vec<String>,
}

impl StreamBounds {
    /// Adds these bounds to the question.
    pub fn put_into(self, spec: QuestionSpec) -> QuestionSpec {
        let Self { cutoff, chunk, overlap, flush, priority } = self;
        QuestionSpec { cutoff, chunk, overlap, flush, priority, ..spec }
    }
}

/// The formats of rows, and those that only one type of question has.
pub fn formats(own: &[&'static str]) -> PossibleValuesParser {
    let formats = Format::ALL.iter().map(|format| PossibleValue::new(format.label()).help(format.doc()));
    own.iter().map(PossibleValue::new).chain(formats).collect::<Vec<_>>().into()
}

fn workers(text: &str) -> Result<usize, String> {
    number(text, 1.., 4)
}

fn flows(text: &str) -> Result<usize, String> {
    number(text, 1.., 1_000_000)
}

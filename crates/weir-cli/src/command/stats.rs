//! `weir stats`: statistics of a capture.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::form::Form;
use crate::rows::{Rows, WriteRow};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, QuestionKind, Resolved, Subcommand};
use std::io;
use weir::io::Findings;
use weir::lang::model::Stack;
use weir::packet::{Column, Timestamp, Value, ValueType};
use weir::{Item, Question, RunEnd, Shape, Stats, Talk, Volume, stats_asks};

const COLUMNS: &[Column] = &[
    Column::new(
        "section",
        ValueType::Text,
        "subject of the row; `stopped`: packets that were not parsed completely",
    ),
    Column::new("name", ValueType::Text, "name of the counted item"),
    Column::new("packets", ValueType::Unsigned, "packets"),
    Column::new("bytes", ValueType::Unsigned, "bytes on the wire; for a talker: IP bytes"),
    Column::new(
        "share",
        ValueType::Fraction,
        "share of all bytes, 0 to 1; for `stopped`: share of all packets",
    ),
    Column::new("value", ValueType::Fraction, "the value, in the unit that its name ends with"),
    Column::new("ts", ValueType::Time, "time of the occurrence, or of its start"),
    Column::new("sent_bytes", ValueType::Unsigned, "bytes that a talker sent"),
    Column::new("received_bytes", ValueType::Unsigned, "bytes that a talker received"),
];

/// The part of a worker's memory for the table of hosts.
const HOSTS_PART: usize = 8;

/// Maximum number of paths and of hosts listed.
const TOP: usize = 10;

/// A row; missing values are absent.
#[derive(Default)]
struct Row {
    volume: Option<Volume>,
    packets: Option<u64>,
    share: Option<f64>,
    value: Option<f64>,
    time: Option<Timestamp>,
    talk: Option<Talk>,
}

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Packets and bytes per layer, sizes, top talkers, timing, why packets were not parsed completely, what \
                 the reader skipped";
    Subcommand::new("stats", about, |mut args: Ask, all| {
        let spec = args.spec("stats")?;
        ask::answer_one(&args.input, &spec, args.output.stats, all)
    })
    .with_question(QuestionKind::new(resolve))
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let shape = Shape { count_only: *context.form == Form::Count, ..Shape::default() };
    let questions = stats_asks(&spec.filter).map(|ask| Question::new(ask, shape)).to_vec();
    let (stack, findings) = (context.compiler.stack().clone(), context.findings.clone());
    let rows = StatsRows { stats: Stats::new(context.memory_max / HOSTS_PART), stack, findings };
    Ok(Resolved { counted: Counted::Matched, ..Resolved::new(questions, "", COLUMNS.to_vec(), rows) })
}

/// Counts, and turns the counts into rows at the end.
struct StatsRows {
    stats: Stats,
    stack: Stack,
    findings: Findings,
}

impl Rows for StatsRows {
    fn item(&mut self, item: &Item, _: WriteRow<'_>) -> io::Result<()> {
        self.stats.take(item);
        Ok(())
    }

    fn end(&mut self, end: Option<&RunEnd<'_>>, row: WriteRow<'_>) -> io::Result<()> {
        let stats = &self.stats;
        let mut table = Table { row, wire_bytes: stats.all.bytes };
        table.totals(stats)?;
        table.layers(stats, &self.stack)?;
        for (host, talk) in stats.top_talkers(TOP) {
            table.talker(&host.to_string(), talk)?;
        }
        if stats.hosts_beyond != Talk::default() {
            table.talker("(hosts beyond the bound)", stats.hosts_beyond)?;
        }
        // The run continues after this question: the outcome of its packets is known only at the end.
        let Some(RunEnd { outcome, .. }) = end else { return Ok(()) };
        // Incompletely parsed packets are counted here whether they match the filter or not. `--stats` counts as
        // dropped only those that do not match.
        for (reason, packets) in outcome.counters.met.iter() {
            let share = Some(packets as f64 / outcome.counters.packet.packets as f64);
            let row = Row { packets: Some(packets), share, ..Row::default() };
            table.row("stopped", reason.label(), &row)?;
        }
        let found = self.findings.found();
        let reader = [
            ("blocks_skipped", found.blocks_skipped),
            ("interfaces_beyond", found.interfaces_beyond),
            ("files_late", found.files_late),
            ("faults", outcome.errors.len() as u64),
        ];
        for (name, count) in reader {
            table.row("reader", name, &Row { value: Some(count as f64), ..Row::default() })?;
        }
        Ok(())
    }
}

struct Table<'a> {
    row: WriteRow<'a>,
    wire_bytes: u64,
}

impl Table<'_> {
    fn totals(&mut self, stats: &Stats) -> io::Result<()> {
        let Volume { packets, bytes } = stats.all;
        self.volume("all", "wire", stats.all)?;
        self.volume("all", "captured", Volume { packets, bytes: stats.captured_bytes })?;
        self.row("time", "first", &Row { time: stats.first, ..Row::default() })?;
        self.row("time", "last", &Row { time: stats.last, ..Row::default() })?;
        let seconds = stats.duration_s();
        // A capture with a single timestamp has no rates.
        let rate = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let (gap_ns, since) = stats.largest_gap.unzip();
        let values = [
            ("duration_s", Some(seconds), None),
            ("packets_per_s", rate(packets as f64), None),
            ("bits_per_s", rate(bytes as f64 * 8.0), None),
            ("largest_gap_s", gap_ns.map(|ns| ns as f64 / 1e9), since),
        ];
        for (name, value, time) in values {
            self.row("time", name, &Row { value, time, ..Row::default() })?;
        }
        Ok(())
    }

    fn layers(&mut self, stats: &Stats, stack: &Stack) -> io::Result<()> {
        for (name, volume) in stats.by_size() {
            self.volume("size", name, volume)?;
        }
        for (name, volume) in stats.by_layer(stack) {
            self.volume("layer", &name, volume)?;
        }
        for (path, volume) in stats.top_paths(TOP) {
            self.volume("path", &Stats::path_name(stack, path), volume)?;
        }
        Ok(())
    }

    fn talker(&mut self, name: &str, talk: Talk) -> io::Result<()> {
        let volume = talk.both();
        let share = Some(self.share(volume));
        self.row("talker", name, &Row { volume: Some(volume), share, talk: Some(talk), ..Row::default() })
    }

    fn volume(&mut self, section: &str, name: &str, volume: Volume) -> io::Result<()> {
        let share = Some(self.share(volume));
        self.row(section, name, &Row { volume: Some(volume), share, ..Row::default() })
    }

    fn share(&self, volume: Volume) -> f64 {
        volume.bytes as f64 / self.wire_bytes.max(1) as f64
    }

    fn row(&mut self, section: &str, name: &str, row: &Row) -> io::Result<()> {
        let number = |n: Option<u64>| n.map_or(Value::Absent, Value::Unsigned);
        let fraction = |n: Option<f64>| n.map_or(Value::Absent, Value::Fraction);
        (self.row)(&[
            Value::Text(section.into()),
            Value::Text(name.into()),
            number(row.packets.or(row.volume.map(|v| v.packets))),
            number(row.volume.map(|v| v.bytes)),
            fraction(row.share),
            fraction(row.value),
            row.time.map_or(Value::Absent, Value::Time),
            number(row.talk.map(|t| t.sent.bytes)),
            number(row.talk.map(|t| t.received.bytes)),
        ])
    }
}

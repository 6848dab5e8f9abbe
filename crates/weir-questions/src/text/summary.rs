//! The summary of a capture as rows: for `weir stats`, and for the overview of `weir FILE`.

use crate::rows::make::{Rows, WriteRows, write_row};
use std::io;
use std::net::{IpAddr, SocketAddr};
use weir::io::Findings;
use weir::lang::model::Stack;
use weir::packet::{self, Column, Timestamp, Value, ValueType};
use weir::sessions::{ProtocolSet, SessionProtocol, SessionRegistry};
use weir::{Ask, Connections, Item, Log, Need, RunEnd, Stats, Talk, Volume, Want, stats_asks};

/// The columns of the rows.
pub const COLUMNS: &[Column] = &[
    Column::new(
        "section",
        ValueType::Text,
        "subject of the row; `stopped`: packets that were not parsed completely",
    ),
    Column::new("name", ValueType::Text, "name of the counted item"),
    Column::new("packets", ValueType::Unsigned, "packets"),
    Column::new(
        "bytes",
        ValueType::Unsigned,
        "bytes on the wire; of hosts, conversations and services: IP bytes",
    ),
    Column::new(
        "share",
        ValueType::Fraction,
        "share of all bytes, 0 to 1; for `stopped`: share of all packets",
    ),
    Column::new("value", ValueType::Fraction, "the value, in the unit that its name ends with"),
    Column::new("ts", ValueType::Time, "time of the occurrence, or of its start"),
    Column::new("sent_bytes", ValueType::Unsigned, "bytes that a talker sent"),
    Column::new("received_bytes", ValueType::Unsigned, "bytes that a talker received"),
    Column::new("count", ValueType::Unsigned, "connections; of a server's name: sessions; of `weird`: times"),
];

/// Maximum number of rows of a section whose items are many.
const TOP: usize = 10;

/// The columns that hold the name of a session's server, the first of them that a log has.
pub const SERVER_NAMES: &[&str] = &["server_name", "host"];

/// For each protocol, the position of the server's name in rows of its sessions.
pub struct ServerNames(Vec<Option<usize>>);

impl ServerNames {
    /// The names in the sessions of all protocols that have one of these columns; the first column counts.
    pub fn of(registry: &SessionRegistry, columns_of_names: &[&str]) -> Self {
        let place = |protocol: &&SessionProtocol| {
            let columns = Log::of(registry, protocol.name)?.columns();
            columns_of_names.iter().find_map(|name| columns.iter().position(|column| column.name == *name))
        };
        Self(registry.protocols().iter().map(place).collect())
    }

    /// No names.
    pub fn none() -> Self {
        Self(vec![])
    }

    /// The protocols whose sessions have names.
    pub fn protocols(&self) -> ProtocolSet {
        let named = self.0.iter().enumerate().filter(|(_, place)| place.is_some());
        named.fold(ProtocolSet::EMPTY, |all, (protocol, _)| all | ProtocolSet::of(protocol))
    }

    /// The name in a row of a session; an address is none, since hosts are counted anyway.
    pub fn of_row<'a>(&self, protocol: usize, row: packet::Row<'a>) -> Option<&'a str> {
        let place = self.0.get(protocol).copied().flatten()?;
        row.cell(place).text().filter(|name| !is_address(name))
    }
}

/// The questions whose answers the summary adds up. The services of connections are recognised from their
/// bytes.
pub fn asks(filter: &str) -> [Ask; 2] {
    stats_asks(filter).map(|ask| {
        let service = matches!(ask.want, Want::Connections);
        Ask { need: Need { service, ..ask.need }, ..ask }
    })
}

/// Whether a name is an address, perhaps with a port.
fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || name.parse::<SocketAddr>().is_ok()
}

/// Counts, and turns the counts into rows at the end.
pub struct SummaryRows {
    pub stats: Stats,
    pub stack: Stack,
    pub findings: Findings,
    pub names: ServerNames,
}

impl Rows for SummaryRows {
    fn item(&mut self, item: &Item<'_>, _: WriteRows<'_>) -> io::Result<()> {
        match item {
            Item::Rows(rows) => {
                let names = rows.iter().filter_map(|row| self.names.of_row(rows.protocol, row));
                names.for_each(|name| self.stats.name(name));
            }
            item => self.stats.take(item),
        }
        Ok(())
    }

    fn end(&mut self, end: Option<&RunEnd<'_>>, row: WriteRows<'_>) -> io::Result<()> {
        let stats = &self.stats;
        let mut table = Table { row, wire_bytes: stats.all.bytes };
        table.totals(stats)?;
        table.layers(stats, &self.stack)?;
        let of_connections = |connections: &Connections| connections.volume.bytes;
        for (name, connections) in stats.services.top(TOP, of_connections) {
            table.connections("service", &name, connections)?;
        }
        table.beyond("service", stats.services.beyond)?;
        for (host, talk) in stats.top_talkers(TOP) {
            table.talker(&host.to_string(), talk)?;
        }
        if stats.hosts.beyond != Talk::default() {
            table.talker(BEYOND, stats.hosts.beyond)?;
        }
        for ((a, b), connections) in stats.conversations.top(TOP, of_connections) {
            table.connections("conversation", &format!("{a} {b}"), connections)?;
        }
        table.beyond("conversation", stats.conversations.beyond)?;
        for (name, count) in stats.names.top(TOP, |count| *count) {
            table.row("server_name", &name, &Row { count: Some(count), ..Row::default() })?;
        }
        if stats.names.beyond > 0 {
            table.row("server_name", BEYOND, &Row { count: Some(stats.names.beyond), ..Row::default() })?;
        }
        // The run continues after this question: the outcome of its packets is known only at the end.
        let Some(RunEnd { outcome, .. }) = end else { return Ok(()) };
        // Incompletely parsed packets are counted here whether they match the filter or not. `--stats` counts
        // as dropped only those that do not match.
        for (reason, packets) in outcome.counters.met.iter() {
            let share = Some(packets as f64 / outcome.counters.packet.packets as f64);
            let row = Row { packets: Some(packets), share, ..Row::default() };
            table.row("stopped", reason.label(), &row)?;
        }
        for (name, count) in weir::odd_counts(&outcome.counters).into_iter().take(TOP) {
            table.row("weird", name, &Row { count: Some(count), ..Row::default() })?;
        }
        // Of all packets, 1 in 20: a mirror port delivers them several times.
        let copies = outcome.source.copies;
        if copies > outcome.counters.packet.packets / 20 {
            note!(
                "weir: copies of packets, as a mirror port of several interfaces or VLANs makes them: {copies} \
                 (--dedup leaves them out)"
            );
        }
        let found = self.findings.found();
        let reader = [
            ("blocks_skipped", found.blocks_skipped),
            ("interfaces_beyond", found.interfaces_beyond),
            ("files_late", found.files_late),
            ("copies", copies),
            ("captures_joined", found.captures_joined),
            ("times_beyond", found.times_beyond),
            ("faults", outcome.errors.len() as u64),
        ];
        for (name, count) in reader {
            table.row("reader", name, &Row { value: Some(count as f64), ..Row::default() })?;
        }
        Ok(())
    }
}

/// The name of the row with all items beyond the bound of their table.
const BEYOND: &str = "(beyond the bound)";

/// A row without its section and name; missing values are absent.
#[derive(Default)]
pub struct Row {
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
    pub share: Option<f64>,
    pub value: Option<f64>,
    pub time: Option<Timestamp>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub count: Option<u64>,
}

impl Row {
    /// The values of [`COLUMNS`].
    fn values<'a>(&self, section: &'a str, name: &'a str) -> [Value<'a>; 10] {
        let number = |n: Option<u64>| n.map_or(Value::Absent, Value::Unsigned);
        let fraction = |n: Option<f64>| n.map_or(Value::Absent, Value::Fraction);
        [
            Value::Text(section.into()),
            Value::Text(name.into()),
            number(self.packets),
            number(self.bytes),
            fraction(self.share),
            fraction(self.value),
            self.time.map_or(Value::Absent, Value::Time),
            number(self.sent_bytes),
            number(self.received_bytes),
            number(self.count),
        ]
    }

    /// The section, the name and the row of these values of [`COLUMNS`]; `None` if they are none.
    pub fn of_values(values: &[Value<'_>]) -> Option<(String, String, Self)> {
        let number = |value: &Value<'_>| if let Value::Unsigned(n) = value { Some(*n) } else { None };
        let fraction = |value: &Value<'_>| if let Value::Fraction(n) = value { Some(*n) } else { None };
        let [
            Value::Text(section),
            Value::Text(name),
            packets,
            bytes,
            share,
            value,
            time,
            sent,
            received,
            count,
        ] = values
        else {
            return None;
        };
        let row = Self {
            packets: number(packets),
            bytes: number(bytes),
            share: fraction(share),
            value: fraction(value),
            time: if let Value::Time(time) = time { Some(*time) } else { None },
            sent_bytes: number(sent),
            received_bytes: number(received),
            count: number(count),
        };
        Some((section.to_string(), name.to_string(), row))
    }
}

struct Table<'a> {
    row: WriteRows<'a>,
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
        if stats.paths.beyond != Volume::default() {
            self.volume("path", BEYOND, stats.paths.beyond)?;
        }
        Ok(())
    }

    fn talker(&mut self, name: &str, talk: Talk) -> io::Result<()> {
        let (sent_bytes, received_bytes) = (Some(talk.sent.bytes), Some(talk.received.bytes));
        self.row("talker", name, &Row { sent_bytes, received_bytes, ..self.shared(talk.both()) })
    }

    fn connections(&mut self, section: &str, name: &str, of: Connections) -> io::Result<()> {
        self.row(section, name, &Row { count: Some(of.count), ..self.shared(of.volume) })
    }

    /// The row of all items beyond the bound, if there are any.
    fn beyond(&mut self, section: &str, all: Connections) -> io::Result<()> {
        if all == Connections::default() { Ok(()) } else { self.connections(section, BEYOND, all) }
    }

    fn volume(&mut self, section: &str, name: &str, volume: Volume) -> io::Result<()> {
        self.row(section, name, &self.shared(volume))
    }

    /// A volume with its share of all bytes.
    fn shared(&self, Volume { packets, bytes }: Volume) -> Row {
        let share = bytes as f64 / self.wire_bytes.max(1) as f64;
        Row { packets: Some(packets), bytes: Some(bytes), share: Some(share), ..Row::default() }
    }

    fn row(&mut self, section: &str, name: &str, row: &Row) -> io::Result<()> {
        write_row(self.row, &row.values(section, name))
    }
}

//! The answers of `weir packets -V` and `-x`: the tree of each packet, the sessions that it completes, and its bytes.

use crate::hex_lines::push_hex_lines;
use crate::packet_tree;
use crate::rows::{Rows, WriteRows, write_row};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use weir::io::{human, json_text};
use weir::lang::model::Stack;
use weir::packet::{Batch, Column, PacketMeta, Row, RowSink, Value, ValueType, printable};
use weir::sessions::SessionRegistry;
use weir::{Dissector, Item, Log, Path, RunEnd};

/// The only column: the text of a packet.
pub const COLUMNS: &[Column] = &[Column::new("text", ValueType::Text, "what is shown of the packet")];

/// What is shown of each packet.
pub struct Shown {
    /// Its layers, fields and sessions.
    pub detail: Option<Dissector>,
    /// Its bytes.
    pub hex: bool,
    /// As a JSON object.
    pub json: bool,
}

/// Makes the texts of packets.
pub struct PacketDetails {
    shown: Shown,
    stack: Stack,
    registry: Arc<SessionRegistry>,
    logs: Vec<Log>,
    /// The last packet. It waits until all sessions that it completes are known.
    last: Option<PacketText>,
    /// Sessions completed by packets that wait for their connection, by the number of the packet.
    early: BTreeMap<u64, Vec<String>>,
    early_bytes: usize,
    memory_max: usize,
    /// Sessions that were not shown because too many waited.
    lost: u64,
}

/// A packet's text, except its sessions.
struct PacketText {
    number: u64,
    before: String,
    sessions: Vec<String>,
    after: String,
}

impl PacketDetails {
    /// Texts of packets; sessions that wait for their packet take about `memory_max` bytes.
    pub fn new(shown: Shown, stack: Stack, registry: &Arc<SessionRegistry>, memory_max: usize) -> Self {
        let (logs, registry) = (Log::all(registry), Arc::clone(registry));
        let (last, early, early_bytes, lost) = (None, BTreeMap::new(), 0, 0);
        Self { shown, stack, registry, logs, last, early, early_bytes, memory_max, lost }
    }

    fn packet(&mut self, meta: &PacketMeta, frame: &[u8], path: Path, line: &str) -> PacketText {
        let (before, after) = match self.shown.json {
            true => self.json(meta, frame, line),
            false => self.text(meta, frame, path, line),
        };
        // No session of an earlier packet comes any more: packets and sessions are in the order of the capture.
        let later = self.early.split_off(&meta.number);
        let gone = std::mem::replace(&mut self.early, later);
        let sessions = self.early.remove(&meta.number).unwrap_or_default();
        self.early_bytes -= gone.values().chain([&sessions]).flatten().map(|text| cost(text)).sum::<usize>();
        PacketText { number: meta.number, before, sessions, after }
    }

    fn text(&self, meta: &PacketMeta, frame: &[u8], path: Path, line: &str) -> (String, String) {
        let time = human::precise_moment(meta.time);
        let PacketMeta { number, wire_bytes, captured_bytes, .. } = *meta;
        let captured = match captured_bytes < wire_bytes {
            true => format!(", {captured_bytes} of them captured"),
            false => String::new(),
        };
        let head = format!("packet {number}  {time} UTC  {wire_bytes} bytes{captured}");
        let before = match &self.shown.detail {
            Some(dissector) => {
                let tree = packet_tree::text(dissector, &dissector.packet(meta, frame), frame);
                format!("{head}\n{tree}")
            }
            None => {
                let layers = weir::Stats::path_name(&self.stack, path);
                format!("{head}  {layers}  {}\n", printable(line, &[]))
            }
        };
        let mut after = String::new();
        if self.shown.hex {
            push_hex_lines(&mut after, "", (0, 4), frame);
        }
        after.push('\n');
        (before, after)
    }

    fn json(&self, meta: &PacketMeta, frame: &[u8], line: &str) -> (String, String) {
        let time = json_text(&Value::Time(meta.time));
        let PacketMeta { number, wire_bytes, captured_bytes, .. } = *meta;
        let mut before = format!(
            "{{\"number\":{number},\"ts\":{time},\"length\":{wire_bytes},\"captured\":{captured_bytes},"
        );
        match &self.shown.detail {
            Some(dissector) => {
                before += &packet_tree::json(dissector, &dissector.packet(meta, frame), frame);
                before += ",\"sessions\":[";
            }
            None => before += &format!("\"info\":{}", json_text(&Value::Text(line.into()))),
        }
        let mut after = if self.shown.detail.is_some() { "]" } else { "" }.to_string();
        if self.shown.hex {
            after += &format!(",\"bytes\":{}", json_text(&Value::Bytes(frame.into())));
        }
        (before, after + "}\n")
    }

    /// The text of a session.
    fn session(&self, protocol: usize, row: Row<'_>) -> Option<String> {
        let log = self.logs.iter().find(|log| log.protocols.contains(protocol))?;
        let columns = log.columns();
        let values: Vec<_> = row.values();
        let values = columns.iter().zip(&values).filter(|(_, value)| **value != Value::Absent);
        if self.shown.json {
            let path = json_text(&Value::Text(log.path.into()));
            let values = values.map(|(column, value)| {
                format!(",{}:{}", json_text(&Value::Text(column.name.clone())), json_text(value))
            });
            return Some(format!("{{\"_path\":{path}{}}}", values.collect::<String>()));
        }
        let name = self.registry.protocol(protocol).name;
        let width = columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
        let lines = values.map(|(column, value)| {
            format!("    {:width$}  {}\n", column.name, printable(&of_session(value), &[]))
        });
        Some(format!("session  {name}, completed by this packet\n{}", lines.collect::<String>()))
    }

    /// Passes on the last packet.
    fn pass(&mut self, row: WriteRows<'_>) -> io::Result<()> {
        let Some(PacketText { before, sessions, after, .. }) = self.last.take() else { return Ok(()) };
        let sessions = sessions.join(if self.shown.json { "," } else { "" });
        write_row(row, &[Value::Text(format!("{before}{sessions}{after}").into())])
    }

    /// Keeps a session of a packet that has not come yet.
    fn keep(&mut self, number: u64, text: String) {
        let bytes = cost(&text);
        if self.early_bytes + bytes > self.memory_max {
            self.lost += 1;
            return;
        }
        self.early_bytes += bytes;
        self.early.entry(number).or_default().push(text);
    }
}

/// Bytes of memory of a session that waits.
fn cost(text: &str) -> usize {
    size_of::<String>() + text.len()
}

/// A value of a session, for people. Text is not escaped.
fn of_session(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Address(address) => address.to_string(),
        Value::Time(time) => format!("{} UTC", human::precise_moment(*time)),
        Value::Interval(ns) => human::duration(*ns),
        other => json_text(other),
    }
}

impl Rows for PacketDetails {
    fn item(&mut self, item: &Item<'_>, row: WriteRows<'_>) -> io::Result<()> {
        match item {
            Item::Packet { meta, frame, path, line, .. } => {
                self.pass(row)?;
                self.last = Some(self.packet(meta, frame, *path, line));
            }
            Item::Rows(rows) => {
                let numbers = rows.packets.get(rows.range.clone()).unwrap_or_default();
                for (made, number) in rows.iter().zip(numbers) {
                    let Some(number) = *number else { continue };
                    let Some(text) = self.session(rows.protocol, made) else { continue };
                    match &mut self.last {
                        Some(last) if last.number == number => last.sessions.push(text),
                        Some(last) if last.number > number => {}
                        _ => self.keep(number, text),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn pause(&mut self, _: Option<i64>, row: WriteRows<'_>) -> io::Result<()> {
        self.pass(row)
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, row: WriteRows<'_>) -> io::Result<()> {
        if self.lost > 0 {
            note!(
                "weir: memory was short (--memory): {} sessions are not shown with their packets",
                self.lost
            );
        }
        self.pass(row)
    }
}

/// Writes the texts of packets.
pub struct TextLines {
    out: io::BufWriter<Box<dyn Write + Send>>,
}

impl TextLines {
    /// A sink for [`COLUMNS`].
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: io::BufWriter::with_capacity(1 << 16, out) }
    }
}

impl RowSink for TextLines {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            let text = batch.cell(index, 0).text();
            let text = text.ok_or_else(|| io::Error::other("this is no text of a packet"))?;
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

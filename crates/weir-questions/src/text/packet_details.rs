//! The answers of `weir packets -V`: the tree of each packet, the sessions that it completes, and its bytes.

use crate::rows::make::{Rows, WriteRows, write_row};
use crate::text::packet_text::{PacketHead, push_bytes};
use crate::text::packet_tree;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weir::io::{human, json_text};
use weir::packet::{PacketMeta, Row, Value, printable};
use weir::sessions::SessionRegistry;
use weir::{Dissector, Item, Log, RunEnd};

/// What is shown of each packet.
pub struct Shown {
    /// Its layers and fields.
    pub dissector: Dissector,
    /// Its bytes.
    pub hex: bool,
    /// As a JSON object.
    pub json: bool,
}

/// Makes the texts of packets.
pub struct PacketDetails {
    shown: Shown,
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
    pub fn new(shown: Shown, registry: &Arc<SessionRegistry>, memory_max: usize) -> Self {
        let (logs, registry) = (Log::all(registry), Arc::clone(registry));
        let (last, early, early_bytes, lost) = (None, BTreeMap::new(), 0, 0);
        Self { shown, registry, logs, last, early, early_bytes, memory_max, lost }
    }

    fn packet(&mut self, meta: &PacketMeta, frame: &[u8]) -> PacketText {
        let (before, after) = match self.shown.json {
            true => self.json(meta, frame),
            false => self.text(meta, frame),
        };
        // No session of an earlier packet comes any more: packets and sessions are in the order of the
        // capture.
        let later = self.early.split_off(&meta.number);
        let gone = std::mem::replace(&mut self.early, later);
        let sessions = self.early.remove(&meta.number).unwrap_or_default();
        self.early_bytes -= gone.values().chain([&sessions]).flatten().map(|text| cost(text)).sum::<usize>();
        PacketText { number: meta.number, before, sessions, after }
    }

    fn text(&self, meta: &PacketMeta, frame: &[u8]) -> (String, String) {
        let dissector = &self.shown.dissector;
        let (mut before, mut after) = (String::new(), String::new());
        PacketHead::of(meta).push_text(&mut before);
        before.push('\n');
        before += &packet_tree::text(dissector, &dissector.packet(meta, frame), frame);
        if self.shown.hex {
            push_bytes(&mut after, frame);
        }
        after.push('\n');
        (before, after)
    }

    fn json(&self, meta: &PacketMeta, frame: &[u8]) -> (String, String) {
        let dissector = &self.shown.dissector;
        let (mut before, mut after) = (String::new(), "]".to_string());
        PacketHead::of(meta).push_json(&mut before);
        before.push(',');
        before += &packet_tree::json(dissector, &dissector.packet(meta, frame), frame);
        before += ",\"sessions\":[";
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
            Item::Packet { meta, frame, .. } => {
                self.pass(row)?;
                self.last = Some(self.packet(meta, frame));
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

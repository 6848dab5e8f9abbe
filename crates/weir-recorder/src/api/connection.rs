//! One connection: its packets, its bytes in order, its rows of all logs.
//!
//! The identifier of a connection contains the number of its first packet among those that a question reads,
//! so another question about the past may give it another identifier. The API therefore remembers the ends
//! and times of the connections in its answers.

use super::known::KnownConnection;
use super::past::Past;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::sink::Format;
use weir::packet::{Batch, Cell, Column};
use weir_questions::QuestionSpec;
use weir_questions::by_name::TakeRows;
use weir_web::{Client, Refusal, Reply, RowsAsked, Span};

/// Bytes of each direction of a connection that are sent.
pub const STREAM_BYTES_MAX: usize = 256 << 10;
/// Parts of both directions together.
const PARTS_MAX: usize = 4096;
/// Rows of the logs of one connection.
pub const SESSIONS_MAX: usize = 1000;

impl Past {
    /// The connection with this identifier: one of an answer, or one that a question with this filter and
    /// these times finds.
    pub fn connection(
        &self,
        uid: &str,
        filter: &str,
        span: &Span,
        client: &Client,
    ) -> Result<KnownConnection, Refusal> {
        if let Some(known) = self.known.find(uid) {
            return Ok(known);
        }
        let missing = || {
            Refusal::missing(format!("no connection is called `{uid}`")).with_hint(
                "take `uid` of a row of /api/v1/flows: identifiers of connections depend on the question",
            )
        };
        if uid.len() != 18 || !uid.starts_with('C') {
            return Err(missing());
        }
        let (filter, span) = (filter.to_string(), span.clone());
        let flows = RowsAsked { kind: "flows".into(), aggregate: None, filter, span, sort: None, limit: 1 };
        self.rows(flows, client)?;
        self.known.find(uid).ok_or_else(missing)
    }

    /// The packets of a connection.
    pub fn packets_of(
        self: &Arc<Self>,
        connection: &KnownConnection,
        client: &Client,
    ) -> Result<Reply, Refusal> {
        self.packets_between(
            connection.ends.filter(),
            connection.times,
            format!("{}.pcapng", connection.uid),
            client,
        )
    }

    /// The rows of all logs about a connection, as a text of JSON.
    pub fn sessions_of(&self, connection: &KnownConnection, client: &Client) -> Result<String, Refusal> {
        let spec = QuestionSpec {
            ask: "sessions".into(),
            filter: connection.ends.filter(),
            format: Some(Format::Json.label().to_string()),
            limit: Some(SESSIONS_MAX as u64),
            ..QuestionSpec::default()
        };
        let mut found = self.ask_for_lines(spec, connection.times, client)?;
        if found.rows() >= SESSIONS_MAX {
            found.cut("the connection has more sessions");
        }
        Ok(found.whole())
    }

    /// The bytes of a connection, in the order in which they came, as a text of JSON.
    pub fn streams_of(&self, connection: &KnownConnection, client: &Client) -> Result<String, Refusal> {
        let spec = QuestionSpec {
            ask: "follow".into(),
            filter: connection.ends.filter(),
            cutoff: vec![STREAM_BYTES_MAX.to_string()],
            format: Some(Format::Json.label().to_string()),
            ..QuestionSpec::default()
        };
        let parts = Arc::<Mutex<Vec<Value>>>::default();
        let taken = Arc::clone(&parts);
        let over = self.ask(spec, connection.times, client, |columns| {
            let places =
                StreamColumns::of(columns).ok_or_else(|| Refusal::failed("streams have other columns"))?;
            Ok(Box::new(StreamTaker { parts: taken, places }))
        })?;
        let parts = std::mem::take(&mut *parts.lock().unwrap_or_else(PoisonError::into_inner));
        let is_whole = parts.len() < PARTS_MAX && over.lost == 0 && !client.is_late();
        let whole = json!({
            "uid": connection.uid,
            "proto": connection.ends.proto,
            "orig": end_text(connection.ends.orig),
            "resp": end_text(connection.ends.resp),
            "bytes_max": STREAM_BYTES_MAX,
            "complete": is_whole,
            "notes": over.notes,
            "parts": parts,
        });
        Ok(whole.to_string())
    }
}

fn end_text((host, port): (IpAddr, u32)) -> String {
    match host {
        IpAddr::V4(host) => format!("{host}:{port}"),
        IpAddr::V6(host) => format!("[{host}]:{port}"),
    }
}

/// The places of the columns of streams.
struct StreamColumns {
    ts: usize,
    is_orig: usize,
    offset: usize,
    missing: usize,
    data: usize,
}

impl StreamColumns {
    fn of(columns: &[Column]) -> Option<Self> {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        Some(Self {
            ts: at("ts")?,
            is_orig: at("is_orig")?,
            offset: at("offset")?,
            missing: at("missing")?,
            data: at("data")?,
        })
    }
}

struct StreamTaker {
    parts: Arc<Mutex<Vec<Value>>>,
    places: StreamColumns,
}

impl TakeRows for StreamTaker {
    fn rows(&mut self, rows: &Batch) -> io::Result<bool> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.iter() {
            let number = |column| match row.cell(column) {
                Cell::Unsigned(number) => number,
                _ => 0,
            };
            let (Cell::Bytes(bytes), Cell::Time(ts)) = (row.cell(self.places.data), row.cell(self.places.ts))
            else {
                continue;
            };
            let missing = number(self.places.missing);
            if bytes.is_empty() && missing == 0 {
                continue;
            }
            if parts.len() >= PARTS_MAX {
                return Ok(false);
            }
            parts.push(json!({
                "ts": ts.0 as f64 / 1e9,
                "is_orig": row.cell(self.places.is_orig) == Cell::Bool(true),
                "offset": number(self.places.offset),
                "missing": missing,
                "data": STANDARD.encode(bytes),
            }));
        }
        Ok(true)
    }

    fn pause(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

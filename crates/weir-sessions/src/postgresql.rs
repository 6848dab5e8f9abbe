//! PostgreSQL (its frontend/backend protocol 3): one [`PgExchange`] for the startup, and for each query with
//! its answer.
//!
//! A query is one message, or several: Parse names it, Bind gives it values, Execute runs it, any number of
//! times, and Sync ends the batch. Each Execute is an exchange; so is a Parse without an Execute before its
//! Sync. Passwords are skipped. After a loss, answers cannot be matched to requests: pending requests are
//! reported without answers, and matching resumes with the first request sent while the server is ready
//! (ReadyForQuery). If both sides agree on TLS, the parser hands the connection over.

mod message;

use crate::frames::{Frame, Frames, Next};
use crate::line::text as lossy;
use crate::pairing::{Held, Waiting};
use crate::session::session_fields;
use crate::values::{name, text};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Progress, Session, SessionParser, SessionProtocol,
};
use message::{CANCEL, CLIENT_KINDS, GSS, SERVER_KINDS, TLS, measure, probe, read_startup, until_zero};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "postgresql",
    service: "postgresql",
    log: "postgresql",
    transports: &["tcp"],
    ports: &[5432],
    hands_over: &["tls"],
    doc: "PostgreSQL: logins, databases, and queries with their results",
    probe,
    may_begin,
    open: |_| Box::new(PgParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "user", "database", "frontend", "frontend_arg", "success", "rows"],
    fields: FIELDS,
};

/// The first bytes of a length below 64 KiB.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 | 1 => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of bytes kept of a message.
pub const MESSAGE_BYTES_MAX: usize = 2048;

/// Maximum number of queries of a connection that wait for their answers.
pub const WAITING_MAX: usize = 64;

/// Maximum number of named queries, and of portals, kept per connection.
pub const NAMES_MAX: usize = 64;

/// Maximum number of bytes kept of a text.
const TEXT_BYTES_MAX: usize = 1024;

/// Parameters of the startup message: who connected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgStartup {
    /// The user.
    pub user: Option<String>,
    /// The database; defaults to the user's name.
    pub database: Option<String>,
    /// Application name.
    pub application: Option<String>,
}

/// A client's request with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgExchange {
    /// Capture time of its first message.
    pub time: Timestamp,
    /// Parameters of the startup, if it was seen.
    pub startup: Option<Arc<PgStartup>>,
    /// Kind of request: `startup`, `ssl_request`, `gssenc_request`, `cancel_request`, `simple_query`,
    /// `extended_query`, `parse`; `bind`, `describe` or `close` if these failed without an Execute; `None` if
    /// only the answer was seen.
    pub request: Option<&'static str>,
    /// The query text, also if the query was named by an earlier Parse.
    pub query: Option<Arc<str>>,
    /// Authentication method that the server requires: `SASL`.
    pub auth: Option<&'static str>,
    /// Whether the request succeeded.
    pub is_good: Option<bool>,
    /// Tag of the last completed command: `SELECT 5`.
    pub tag: Option<String>,
    /// Number of rows returned or copied.
    pub rows: u64,
    /// Code of the error: `28P01`.
    pub error: Option<String>,
    /// Text of the error.
    pub error_message: Option<String>,
    /// For a Sync: the request to report if its batch fails: bind, describe or close.
    batch: Option<&'static str>,
    /// COPY FROM: the server waits for rows.
    is_copying: bool,
    /// COPY TO: the server sends rows.
    is_copied: bool,
}

impl PgExchange {
    fn new(time: Timestamp, request: Option<&'static str>, startup: Option<&Arc<PgStartup>>) -> Self {
        Self {
            time,
            startup: startup.cloned(),
            request,
            query: None,
            auth: None,
            is_good: None,
            tag: None,
            rows: 0,
            error: None,
            error_message: None,
            batch: None,
            is_copying: false,
            is_copied: false,
        }
    }

    /// Whether ReadyForQuery ends the exchange.
    fn is_ended_by_ready(&self) -> bool {
        self.request != Some("extended_query")
    }

    /// A command completed. This ends an Execute; other requests end with ReadyForQuery.
    fn run(&mut self) -> bool {
        let is_over = self.request == Some("extended_query");
        if is_over {
            self.is_good = Some(true);
        }
        is_over
    }

    /// Handles a message of the server. Returns whether it ends the exchange.
    fn take_answer(&mut self, kind: u8, body: &[u8]) -> bool {
        match kind {
            b'R' => {
                self.auth =
                    self.auth.or(match body.first_chunk::<4>().map(|code| u32::from_be_bytes(*code)) {
                        Some(2) => Some("Kerberos"),
                        Some(3) => Some("password"),
                        Some(5) => Some("MD5"),
                        Some(7) => Some("GSS"),
                        Some(9) => Some("SSPI"),
                        Some(10) => Some("SASL"),
                        _ => None,
                    });
            }
            b'D' => self.rows += 1,
            b'H' => self.is_copied = true,
            b'd' if self.is_copied => self.rows += 1,
            b'C' => {
                let tag = lossy(until_zero(body), 64);
                if std::mem::take(&mut self.is_copied)
                    && let Some(rows) = tag.rsplit(' ').next().and_then(|rows| rows.parse().ok())
                {
                    // In the binary format not every message is a row.
                    self.rows = rows;
                }
                self.tag = Some(tag);
                return self.run();
            }
            b'G' => self.is_copying = true,
            // EmptyQueryResponse; PortalSuspended: the next Execute continues the rows.
            b'I' | b's' => return self.run(),
            b'E' => {
                for field in body.split(|byte| *byte == 0) {
                    match field {
                        [b'C', code @ ..] => self.error = Some(lossy(code, 16)),
                        [b'M', message @ ..] => self.error_message = Some(lossy(message, TEXT_BYTES_MAX)),
                        _ => {}
                    }
                }
                self.is_good = Some(false);
                if self.request == SYNC {
                    self.request = self.batch.or(SYNC);
                }
                // After a failed login the server closes the connection.
                return self.request == Some("startup");
            }
            b'Z' => {
                self.is_good = self.is_good.or(Some(true));
                return true;
            }
            _ => {}
        }
        false
    }
}

impl Held for PgExchange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.tag, &self.error, &self.error_message];
        // Startup and query are shared between exchanges, but counted for each: an upper bound.
        let startup = self.startup.as_ref().map_or(0, |startup| startup.held_bytes());
        let query = self.query.as_ref().map_or(0, |query| query.len());
        size_of::<Self>() + startup + query + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }
}

impl PgStartup {
    /// Parses names and values, each zero-terminated.
    fn parse(body: &[u8]) -> Self {
        let mut startup = Self::default();
        let mut parts = body.split(|byte| *byte == 0);
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let value = || Some(lossy(value, 256));
            match name {
                b"" => break,
                b"user" => startup.user = value(),
                b"database" => startup.database = value(),
                b"application_name" => startup.application = value(),
                _ => {}
            }
        }
        startup
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.user, &self.database, &self.application];
        size_of::<Self>() + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }
}

/// A Sync whose batch needs no exchange of its own.
const SYNC: Option<&str> = Some("sync");

/// Queries by statement or portal name, newest last.
#[derive(Debug, Default)]
struct Names(VecDeque<(Box<[u8]>, Arc<str>)>);

impl Names {
    /// Stores a query. Returns whether another one was evicted.
    fn insert(&mut self, name: &[u8], query: &Arc<str>) -> bool {
        self.remove(name);
        self.0.push_back((name.into(), Arc::clone(query)));
        self.0.len() > NAMES_MAX && self.0.pop_front().is_some()
    }

    fn remove(&mut self, name: &[u8]) {
        self.0.retain(|known| *known.0 != *name);
    }

    fn find(&self, name: &[u8]) -> Option<&Arc<str>> {
        self.0.iter().rev().find(|known| *known.0 == *name).map(|known| &known.1)
    }
}

/// Messages since the last Execute or Sync.
#[derive(Debug, Default)]
struct Batch {
    /// Capture time of the first message.
    time: Option<Timestamp>,
    /// Query of the last Parse.
    parsed: Option<Arc<str>>,
    /// Query of the last Bind.
    bound: Option<Arc<str>>,
    /// The request to report if the batch fails: bind, describe or close.
    last: Option<&'static str>,
}

/// Length of ReadyForQuery, bytes.
const READY_BYTES: usize = 6;

/// The last bytes sent by the server, to recognise ReadyForQuery after a loss, when message boundaries are
/// unknown.
#[derive(Debug, Default)]
struct LastBytes([u8; READY_BYTES]);

impl LastBytes {
    fn take(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(READY_BYTES)..];
        self.0.rotate_left(last.len());
        self.0[READY_BYTES - last.len()..].copy_from_slice(last);
    }

    fn are_ready(&self) -> bool {
        matches!(self.0, [b'Z', 0, 0, 0, 5, b'I' | b'T' | b'E'])
    }
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct PgParser {
    sides: [Frames; 2],
    client: Option<Direction>,
    startup: Option<Arc<PgStartup>>,
    waiting: Waiting<PgExchange, WAITING_MAX>,
    /// The answer to a request that was missed.
    unasked: Option<PgExchange>,
    /// Bytes of the server were lost: its messages are skipped until a request arrives while it is ready.
    is_lost: bool,
    last_bytes: LastBytes,
    /// The client has sent a request before the answer to the last one.
    is_pipelining: bool,
    batch: Batch,
    statements: Names,
    portals: Names,
    cut_off: CutOff,
}

impl SessionParser for PgParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            let Some(first) = rest.first() else { return Progress::Wanted };
            // Only a client's first byte is zero.
            let is_client =
                *self.client.get_or_insert(if *first == 0 { data.from } else { data.from.other() })
                    == data.from;
            if !is_client && rest.len() == data.bytes.len() {
                self.last_bytes.take(rest);
            }
            if !is_client && self.is_lost {
                return Progress::Wanted;
            }
            let frames = &mut self.sides[data.from as usize];
            let asked = self.waiting.oldest_mut();
            let encryption =
                asked.filter(|asked| matches!(asked.request, Some("ssl_request" | "gssenc_request")));
            if !is_client
                && frames.is_between()
                && let Some(asked) = encryption
                && matches!(first, b'S' | b'G' | b'N')
            {
                asked.is_good = Some(*first != b'N');
                rest = &rest[1..];
                sessions.extend(self.waiting.take_oldest().map(|asked| Box::new(asked) as Box<dyn Session>));
                if *first == b'N' {
                    continue;
                }
                self.finish(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
            let kinds = if is_client { CLIENT_KINDS } else { SERVER_KINDS };
            match frames
                .next(&mut rest, data.time, MESSAGE_BYTES_MAX, |bytes| measure(bytes, is_client, kinds))
            {
                Next::Frame(frame) if is_client => self.take_request(&frame, sessions),
                Next::Frame(frame) => self.take_answer(&frame, sessions),
                Next::More => return Progress::Wanted,
                Next::Lost => {
                    self.finish(sessions);
                    return Progress::Done;
                }
            }
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let is_client = self.client == Some(from);
        if !is_client {
            self.last_bytes = LastBytes::default();
        }
        // Bytes that would be skipped anyway may be lost, but after a loss the server's message boundaries
        // are unknown.
        let is_passed_over = is_client || !self.is_lost;
        if length_bytes == 0 || (self.sides[from as usize].lose(length_bytes) && is_passed_over) {
            return Progress::Wanted;
        }
        // A client without pipelining has one query pending; if an answer was lost, also the next one.
        let waiting = self.waiting.iter().filter(|asked| asked.is_ended_by_ready()).count();
        if self.is_pipelining || waiting > if is_client { 1 } else { 2 } {
            // With pipelining, answers cannot be matched to requests after a loss.
            self.finish(sessions);
            self.cut_off.sessions += 1;
            return Progress::Done;
        }
        if is_client {
            // The server's messages are complete. Named queries stay valid until closed, but the unnamed
            // query and portals may have changed.
            self.batch = Batch::default();
            self.statements.remove(b"");
            self.portals = Names::default();
        } else {
            self.finish(sessions);
            self.is_lost = true;
        }
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let unasked = self.unasked.take();
        let all = self.waiting.take_all().chain(unasked).filter(|waiting| waiting.request != SYNC);
        sessions.extend(all.map(|waiting| Box::new(waiting) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.cut_off.sessions + self.waiting.evicted(), ..self.cut_off }
    }
}

impl PgParser {
    fn take_request(&mut self, frame: &Frame<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let [kind, rest @ ..] = &frame.bytes[..] else { return };
        let body = rest.get(4..).unwrap_or_default();
        let mut asked = PgExchange::new(frame.time, None, self.startup.as_ref());
        if self.is_lost && self.last_bytes.are_ready() && !matches!(kind, b'p' | b'd' | b'c' | b'f' | b'X') {
            // The client sent this because the server was ready, so the next message answers it.
            self.is_lost = false;
            self.sides[self.client.map_or(1, |client| client.other() as usize)] = Frames::default();
        }
        match kind {
            0 => {
                asked.request = Some(match read_startup(&frame.bytes) {
                    Some((_, TLS)) => "ssl_request",
                    Some((_, GSS)) => "gssenc_request",
                    Some((_, CANCEL)) => "cancel_request",
                    _ => "startup",
                });
                if asked.request == Some("startup") {
                    let startup = Arc::new(PgStartup::parse(&frame.bytes[8..]));
                    self.startup = Some(Arc::clone(&startup));
                    asked.startup = Some(startup);
                }
            }
            b'Q' | b'F' => {
                asked.request = Some(if *kind == b'Q' { "simple_query" } else { "function_call" });
                asked.query = (*kind == b'Q').then(|| lossy(until_zero(body), TEXT_BYTES_MAX).into());
                self.cut_off.parts += u64::from(frame.length_bytes > TEXT_BYTES_MAX as u64 + 6);
            }
            b'P' | b'B' | b'D' | b'C' => {
                self.batch.time.get_or_insert(frame.time);
                self.batch.last = match kind {
                    b'B' => Some("bind"),
                    b'D' => self.batch.last.or(Some("describe")),
                    b'C' => self.batch.last.or(Some("close")),
                    _ => self.batch.last,
                };
                self.take_names(*kind, body);
                return;
            }
            b'E' => {
                let batch = std::mem::take(&mut self.batch);
                asked.time = batch.time.unwrap_or(frame.time);
                asked.request = Some("extended_query");
                asked.query = self.portals.find(until_zero(body)).cloned();
            }
            b'S' => {
                let batch = std::mem::take(&mut self.batch);
                asked.time = batch.time.unwrap_or(frame.time);
                asked.request = if batch.parsed.is_some() { Some("parse") } else { SYNC };
                asked.batch = batch.last;
                asked.query = batch.parsed.or(batch.bound);
            }
            b'c' | b'f' => {
                // The server ignores a Sync while it waits for rows. Many clients send one with the query
                // that begins the copy, and another after the copy.
                self.waiting.retain_behind(|asked| asked.is_copying, |asked| asked.request != SYNC);
                if let Some(copied) = self.waiting.find(|asked| asked.is_copying) {
                    copied.is_copying = false;
                }
                return;
            }
            // Passwords, rows of copies, termination.
            _ => return,
        }
        let mut report = |exchange: PgExchange| {
            if exchange.request != SYNC {
                sessions.push(Box::new(exchange));
            }
        };
        if self.is_lost { report(asked) } else { self.waiting.push(asked, report) }
    }

    /// Updates the names: Parse names a query, Bind binds a portal to it, Close removes either.
    fn take_names(&mut self, kind: u8, body: &[u8]) {
        let name = until_zero(body);
        let rest = body.get(name.len() + 1..).unwrap_or_default();
        let is_cut = match kind {
            b'P' => {
                let text = until_zero(rest);
                let query: Arc<str> = lossy(text, TEXT_BYTES_MAX).into();
                self.batch.parsed = Some(Arc::clone(&query));
                self.statements.insert(name, &query) || text.len() > TEXT_BYTES_MAX
            }
            b'B' => {
                // The Execute reports this query, so the Parse is not reported separately.
                self.batch.parsed = None;
                let query = self.statements.find(until_zero(rest)).cloned();
                self.batch.bound = query.clone();
                self.portals.remove(name);
                query.is_some_and(|query| self.portals.insert(name, &query))
            }
            b'C' => {
                match body {
                    [b'S', name @ ..] => self.statements.remove(until_zero(name)),
                    [b'P', name @ ..] => self.portals.remove(until_zero(name)),
                    _ => {}
                }
                false
            }
            _ => false,
        };
        self.cut_off.parts += u64::from(is_cut);
    }

    fn take_answer(&mut self, frame: &Frame<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let body = frame.bytes.get(5..).unwrap_or_default();
        // ParameterStatus, notices and notifications arrive at any time.
        if matches!(frame.bytes[0], b'S' | b'N' | b'A') {
            return;
        }
        let is_ready = frame.bytes[0] == b'Z';
        let Some(asked) = self.waiting.oldest_mut() else {
            let unasked =
                self.unasked.get_or_insert_with(|| PgExchange::new(frame.time, None, self.startup.as_ref()));
            if unasked.take_answer(frame.bytes[0], body) {
                sessions.extend(self.unasked.take().map(|over| Box::new(over) as Box<dyn Session>));
            }
            return;
        };
        let is_over = asked.take_answer(frame.bytes[0], body);
        if frame.bytes[0] == b'E' && std::mem::take(&mut asked.is_copying) {
            // The server ignored these Syncs while it waited for rows. After the error, the client may send
            // another.
            self.waiting.retain_behind(|_| true, |asked| asked.request != SYNC);
        }
        if !is_over {
            return;
        }
        // After an error the server skips messages up to the Sync.
        while let Some(mut over) = self.waiting.take_oldest() {
            let is_last = !is_ready || over.request != Some("extended_query");
            over.is_good = if is_last { over.is_good } else { Some(false) };
            if over.request != SYNC {
                sessions.push(Box::new(over));
            }
            if is_last {
                self.is_pipelining |= is_ready && self.waiting.iter().any(PgExchange::is_ended_by_ready);
                return;
            }
        }
    }
}

impl Session for PgExchange {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Kind of the server's answer.
fn answer(exchange: &PgExchange) -> Option<&'static str> {
    match (&exchange.error, exchange.request, exchange.is_good) {
        (Some(_), ..) => Some("error"),
        (_, Some("ssl_request"), Some(_)) => Some("ssl_reply"),
        (_, Some("startup"), Some(true)) => Some("auth_ok"),
        (_, _, Some(true)) => Some("command_complete"),
        _ => None,
    }
}

session_fields! { PgExchange;
    "pgsql.user" ["postgresql.user"] user: Text, "User name" => |p| text(p.startup.as_ref().and_then(|s| s.user.as_deref()));
    "pgsql.database" ["postgresql.database"] database: Text, "Database" => |p| text(p.startup.as_ref().and_then(|s| s.database.as_deref()));
    "pgsql.application_name" ["postgresql.application_name"] application_name: Text, "Name of the client's program" => |p| text(p.startup.as_ref().and_then(|s| s.application.as_deref()));
    "pgsql.request" ["postgresql.frontend"] frontend: Text, "Request: startup, ssl_request, simple_query, extended_query, parse; bind, describe, close if they fail" => |p| text(p.request);
    "pgsql.query" ["postgresql.query"] frontend_arg: Text, "The query" => |p| text(p.query.as_deref());
    "pgsql.success" ["postgresql.success"] success: Bool, "Whether the request succeeded" => |p| p.is_good.map_or(Value::Absent, Value::Bool);
    "pgsql.answer" ["postgresql.backend"] backend: Text, "Type of the answer: error, auth_ok" => |p| text(answer(p));
    "pgsql.text" ["postgresql.backend_arg"] backend_arg: Text, "Text of the answer: the message of an error, else the tag of the command" => |p| text(p.error_message.as_deref().or(p.tag.as_deref()));
    "pgsql.rows" ["postgresql.rows"] rows: Unsigned, "Number of rows returned" => |p| if p.tag.is_some() { Value::Unsigned(p.rows) } else { Value::Absent };
    // Not in the log.
    "pgsql.authtype" ["postgresql.auth"] _: Text, "Authentication method that the server requires: password, MD5, SASL" => |p| name(p.auth.map(Into::into));
    "pgsql.error" ["postgresql.error"] _: Text, "Code of the error: 28P01" => |p| text(p.error.as_deref());
    "pgsql.tag" ["postgresql.tag"] _: Text, "Tag of the last completed command: SELECT 5" => |p| text(p.tag.as_deref());
}

#[cfg(test)]
mod tests;

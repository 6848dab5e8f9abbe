//! PostgreSQL (its frontend/backend protocol 3): one [`PgExchange`] for the startup, and for each query with its answer.
//!
//! A query is a message of its own, or some: Parse names it, Bind gives it values, Execute runs it, as often as one
//! likes, and Sync ends what was sent together. Each Execute is an exchange; so is a Parse that nothing runs before
//! its Sync. Passwords are passed over. Where both sides agree on TLS, that follows and is handed over.

use crate::frames::{Frame, Frames, Head, Next};
use crate::line::text as lossy;
use crate::session::session_fields;
use crate::values::{name, text};
use crate::waiting::Waiting;
use crate::{CutOff, Data, Direction, Opening, Probe, Progress, Session, SessionParser, SessionProtocol};
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
    hands_over: &["tls"],
    doc: "PostgreSQL: who connects to which database, and queries with how they went",
    probe,
    parser: || Box::new(PgParser::default()),
    carrier: None,
    fields: FIELDS,
};

/// Bytes kept of a message.
pub const MESSAGE_BYTES_MAX: usize = 2048;

/// Most queries of a connection that wait for their answers.
pub const WAITING_MAX: usize = 64;

/// Most queries, and most portals, of a connection that are remembered by their names.
pub const NAMES_MAX: usize = 64;

/// Bytes kept of a text.
const TEXT_BYTES_MAX: usize = 1024;

/// Longest startup message, bytes: what servers take.
const STARTUP_BYTES_MAX: u32 = 10_000;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Who connected: what the startup said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgStartup {
    /// The user.
    pub user: Option<String>,
    /// The database; the user's name where none is given.
    pub database: Option<String>,
    /// Name of the program.
    pub application: Option<String>,
}

/// What a client asks for, with the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgExchange {
    /// When the first of its messages came.
    pub time: Timestamp,
    /// Who connected, where that was seen.
    pub startup: Option<Arc<PgStartup>>,
    /// What is asked for: `startup`, `ssl_request`, `gssenc_request`, `cancel_request`, `simple_query`,
    /// `extended_query`, `parse`; `bind`, `describe` and `close` where nothing was run and they failed; none where only
    /// the answer was seen.
    pub request: Option<&'static str>,
    /// The query; of one that was named before, too.
    pub query: Option<Arc<str>>,
    /// How the server wants the user to authenticate: `SASL`.
    pub auth: Option<&'static str>,
    /// Whether it was done.
    pub is_good: Option<bool>,
    /// What the server did last: `SELECT 5`.
    pub tag: Option<String>,
    /// Rows that came.
    pub rows: u64,
    /// Code of the error: `28P01`.
    pub error: Option<String>,
    /// What the server says of it.
    pub error_message: Option<String>,
    /// Of a Sync: what was sent before it, and is told of where that fails.
    batch: Option<&'static str>,
    /// The server waits for the rows of a COPY.
    is_copying: bool,
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
        }
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.tag, &self.error, &self.error_message];
        // Startup and query are shared; they are counted once for each nevertheless.
        let startup = self.startup.as_ref().map_or(0, |startup| startup.held_bytes());
        let query = self.query.as_ref().map_or(0, |query| query.len());
        size_of::<Self>() + startup + query + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }

    /// What was run was done: that is the end of it, but where a Sync or what stands for one is still to come.
    fn run(&mut self) -> bool {
        let is_over = self.request == Some("extended_query");
        if is_over {
            self.is_good = Some(true);
        }
        is_over
    }

    /// Takes a message of the server; whether the exchange is over with it.
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
            b'C' => {
                self.tag = Some(lossy(until_zero(body), 64));
                return self.run();
            }
            b'G' => self.is_copying = true,
            // An empty query; rows that go on with the next Execute.
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
                // Who is not let in gets nothing more.
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

impl PgStartup {
    /// Names and values, each with a zero behind it.
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

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Length and version or code of a client's first message, where it is one.
fn read_startup(bytes: &[u8]) -> Option<(u32, u32)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (length, code) = (u32::from_be_bytes(*length), u32::from_be_bytes(*rest.first_chunk::<4>()?));
    let is_known = match code {
        TLS | GSS => length == 8,
        CANCEL => (16..=268).contains(&length),
        _ => code >> 16 == 3 && (9..=STARTUP_BYTES_MAX).contains(&length),
    };
    is_known.then_some((length, code))
}

/// A message has a type and its own length, the type not counted; a client's first has no type.
fn measure(bytes: &[u8], is_first: bool, kinds: &[u8]) -> Head {
    if is_first && bytes.first().is_none_or(|byte| *byte == 0) {
        return match read_startup(bytes) {
            Some((length, _)) => Head::Bytes(length.into()),
            None if bytes.len() < 8 => Head::Short,
            None => Head::Wrong,
        };
    }
    match bytes {
        [kind, ..] if !kinds.contains(kind) => Head::Wrong,
        [_, a, b, c, d, ..] => match u32::from_be_bytes([*a, *b, *c, *d]) {
            length @ 4..=0x7fff_ffff => Head::Bytes(1 + u64::from(length)),
            _ => Head::Wrong,
        },
        _ => Head::Short,
    }
}

/// A Sync that ends what needs no exchange of its own any more.
const SYNC: Option<&str> = Some("sync");

/// What clients and servers send.
const CLIENT_KINDS: &[u8] = b"BCDEFHPQSXcdfp";
const SERVER_KINDS: &[u8] = b"123ACDEGHIKNRSTVWZcdnstv";

/// Longest name of a client's first parameter, its zero with it, bytes.
const PARAMETER_BYTES_MAX: usize = 32;

/// A client's first message, from either side: its code is known and its length fits.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| match bytes {
        [0, 0, ..] | [0] | [] => match read_startup(bytes) {
            Some((_, TLS | GSS | CANCEL)) => Probe::Certain,
            Some(_) => {
                let name = &bytes[8..];
                let is_name = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
                let name = &name[..name.len().min(PARAMETER_BYTES_MAX)];
                match memchr::memchr(0, name) {
                    Some(end) if end > 3 && name[..end].iter().all(is_name) => Probe::Certain,
                    None if name.len() < PARAMETER_BYTES_MAX && name.iter().all(is_name) => Probe::Unsure,
                    _ => Probe::NotForUs,
                }
            }
            None if bytes.len() < 8 => Probe::Unsure,
            None => Probe::NotForUs,
        },
        _ => Probe::NotForUs,
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// Queries by the names they go by on a connection, the latest last.
#[derive(Debug, Default)]
struct Names(VecDeque<(Box<[u8]>, Arc<str>)>);

impl Names {
    /// Remembers a query; whether another one is forgotten for it.
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

    fn held_bytes(&self) -> usize {
        self.0.iter().map(|(name, query)| size_of::<(Box<[u8]>, Arc<str>)>() + name.len() + query.len()).sum()
    }
}

/// What was sent since the last Execute or Sync.
#[derive(Debug, Default)]
struct Batch {
    /// When the first of it came.
    time: Option<Timestamp>,
    /// The query that was named.
    parsed: Option<Arc<str>>,
    /// The query that a portal was bound to.
    bound: Option<Arc<str>>,
    /// What came last that is neither.
    last: Option<&'static str>,
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct PgParser {
    sides: [Frames; 2],
    client: Option<Direction>,
    startup: Option<Arc<PgStartup>>,
    waiting: Waiting<PgExchange, WAITING_MAX>,
    /// What the server answers to, where that was not seen.
    unasked: Option<PgExchange>,
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
            // Only a client's first byte is a zero.
            let is_client =
                *self.client.get_or_insert(if *first == 0 { data.from } else { data.from.other() })
                    == data.from;
            let frames = &mut self.sides[data.from as usize];
            let asked = self.waiting.find(|_| true);
            let encryption =
                asked.filter(|asked| matches!(asked.request, Some("ssl_request" | "gssenc_request")));
            if !is_client
                && frames.is_between()
                && let Some(asked) = encryption
                && matches!(first, b'S' | b'G' | b'N')
            {
                asked.is_good = Some(*first != b'N');
                rest = &rest[1..];
                sessions.extend(self.waiting.take(|_| true).map(|asked| Box::new(asked) as Box<dyn Session>));
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

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        self.sides[from as usize].lose(length_bytes);
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let unasked = self.unasked.take();
        let all = self.waiting.take_all().chain(unasked).filter(|waiting| waiting.request != SYNC);
        sessions.extend(all.map(|waiting| Box::new(waiting) as Box<dyn Session>));
    }

    fn held_bytes(&self) -> usize {
        self.sides.iter().map(Frames::held_bytes).sum::<usize>()
            + self.waiting.iter().chain(&self.unasked).map(PgExchange::held_bytes).sum::<usize>()
            + [&self.batch.parsed, &self.batch.bound]
                .into_iter()
                .flatten()
                .map(|query| query.len())
                .sum::<usize>()
            + self.statements.held_bytes()
            + self.portals.held_bytes()
            + self.startup.as_ref().map_or(0, |startup| startup.held_bytes())
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl PgParser {
    fn take_request(&mut self, frame: &Frame<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let [kind, rest @ ..] = &frame.bytes[..] else { return };
        let body = rest.get(4..).unwrap_or_default();
        let mut asked = PgExchange::new(frame.time, None, self.startup.as_ref());
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
                // While it waits for rows the server passes over a Sync; many send one with what begins the copy, and
                // another behind its end.
                self.waiting.retain_behind(|asked| asked.is_copying, |asked| asked.request != SYNC);
                if let Some(copied) = self.waiting.find(|asked| asked.is_copying) {
                    copied.is_copying = false;
                }
                return;
            }
            // Passwords, rows of copies, the end.
            _ => return,
        }
        let oldest = self.waiting.push(asked).filter(|oldest| oldest.request != SYNC);
        sessions.extend(oldest.map(|oldest| Box::new(oldest) as Box<dyn Session>));
    }

    /// Parse names a query, Bind a portal to it; Close makes one of these unknown.
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
                // What is run says what was parsed: nobody has to be told twice.
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
        // Messages that come at any time.
        if matches!(frame.bytes[0], b'S' | b'N' | b'A') {
            return;
        }
        let is_ready = frame.bytes[0] == b'Z';
        let Some(asked) = self.waiting.find(|_| true) else {
            let unasked =
                self.unasked.get_or_insert_with(|| PgExchange::new(frame.time, None, self.startup.as_ref()));
            if unasked.take_answer(frame.bytes[0], body) {
                sessions.extend(self.unasked.take().map(|over| Box::new(over) as Box<dyn Session>));
            }
            return;
        };
        let is_over = asked.take_answer(frame.bytes[0], body);
        if frame.bytes[0] == b'E' && std::mem::take(&mut asked.is_copying) {
            // The Syncs so far it passed over while it waited for rows; who sees the error may send another alone.
            self.waiting.retain_behind(|_| true, |asked| asked.request != SYNC);
        }
        if !is_over {
            return;
        }
        // After an error the server passes over what was sent together, up to the Sync.
        while let Some(mut over) = self.waiting.take(|_| true) {
            let is_last = !is_ready || over.request != Some("extended_query");
            over.is_good = if is_last { over.is_good } else { Some(false) };
            if over.request != SYNC {
                sessions.push(Box::new(over));
            }
            if is_last {
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

/// What the server answers: its error, what it did.
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
    "pgsql.user" ["postgresql.user"] user: Text, "Who connects" => |p| text(p.startup.as_ref().and_then(|s| s.user.as_deref()));
    "pgsql.database" ["postgresql.database"] database: Text, "Database" => |p| text(p.startup.as_ref().and_then(|s| s.database.as_deref()));
    "pgsql.application_name" ["postgresql.application_name"] application_name: Text, "Name of the client's program" => |p| text(p.startup.as_ref().and_then(|s| s.application.as_deref()));
    "pgsql.request" ["postgresql.frontend"] frontend: Text, "What is asked for: startup, ssl_request, simple_query, extended_query, parse; bind, describe, close where they fail" => |p| text(p.request);
    "pgsql.query" ["postgresql.query"] frontend_arg: Text, "The query" => |p| text(p.query.as_deref());
    "pgsql.success" ["postgresql.success"] success: Bool, "Whether it was done" => |p| p.is_good.map_or(Value::Absent, Value::Bool);
    "pgsql.answer" ["postgresql.backend"] backend: Text, "What the server answers: error, auth_ok" => |p| text(answer(p));
    "pgsql.text" ["postgresql.backend_arg"] backend_arg: Text, "What it says: the message of an error, else the tag of the command" => |p| text(p.error_message.as_deref().or(p.tag.as_deref()));
    "pgsql.rows" ["postgresql.rows"] rows: Unsigned, "Rows that came" => |p| if p.tag.is_some() { Value::Unsigned(p.rows) } else { Value::Absent };
    // Not in the log.
    "pgsql.authtype" ["postgresql.auth"] _: Text, "How the user is to authenticate: password, MD5, SASL" => |p| name(p.auth.map(Into::into));
    "pgsql.error" ["postgresql.error"] _: Text, "Code of the error: 28P01" => |p| text(p.error.as_deref());
    "pgsql.tag" ["postgresql.tag"] _: Text, "What the server did last: SELECT 5" => |p| text(p.tag.as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::rows;

    const STARTUP: &str = "> 0000001d 00030000 \"user\\x00bob\\x00database\\x00d\\x00\" 00\n";
    const NAMES: &[&str] =
        &["user", "database", "frontend", "frontend_arg", "success", "backend", "backend_arg", "rows"];
    const IN: &str = "< \"R\" 00000008 00000000 \"S\" 00000008 \"a\\x00b\\x00\" \"Z\" 00000005 \"I\"\n";

    #[test]
    fn a_user_logs_in_and_asks() {
        let talk = STARTUP.to_owned()
            + IN
            + "> \"Q\" 0000000d \"select 1\\x00\" \"Q\" 00000006 \"x\\x00\"\n\
             < \"T\" 00000006 0000 \"D\" 00000006 0000 \"C\" 0000000d \"SELECT 1\\x00\" \"Z\" 00000005 \"I\"\n\
             < \"E\" 00000013 \"SERROR\\x00C42601\\x00\\x00\" \"Z\" 00000005 \"I\"\n";
        assert_eq!(
            rows(&PROTOCOL, &talk, NAMES),
            [
                "bob | d | startup | - | true | auth_ok | - | -",
                "bob | d | simple_query | select 1 | true | command_complete | SELECT 1 | 1",
                "bob | d | simple_query | x | false | error | - | -",
            ]
        );
    }

    #[test]
    fn tls_is_handed_over_or_refused() {
        let ssl = "> 00000008 04d2162f\n";
        assert_eq!(
            rows(&PROTOCOL, &format!("{ssl}< \"S\"\n> 160301\n"), &["frontend", "success"]),
            ["ssl_request | true", "over to 1"]
        );
        let talk = format!("{ssl}< \"N\"\n{STARTUP}< \"E\" 0000000d \"C28P01\\x00\\x00\\x00\"\n");
        assert_eq!(
            rows(&PROTOCOL, &talk, &["frontend", "success", "pgsql.error"]),
            ["ssl_request | false | -", "startup | false | 28P01"]
        );
    }

    const PARSE_GET: &str = "\"P\" 0000000c \"a\\x00get\\x00\" 0000";
    const RUN_A: &str = "\"B\" 0000000d \"\\x00a\\x00\" 000000000000 \"E\" 00000009 \"\\x00\" 00000000";
    const SYNC: &str = "\"S\" 00000004";
    const DONE: &str = "\"2\" 00000004 \"C\" 0000000a \"GET 0\\x00\"";
    const READY: &str = "\"Z\" 00000005 \"I\"";
    const EXTENDED: &[&str] = &["frontend", "frontend_arg", "success", "backend_arg"];

    #[test]
    fn a_query_is_named_once_and_run_often() {
        let talk = format!(
            "{STARTUP}{IN}> {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n\
             > {RUN_A} \"H\" 00000004\n< {DONE}\n> {SYNC}\n< {READY}\n"
        );
        assert_eq!(
            rows(&PROTOCOL, &talk, EXTENDED)[1..],
            [
                "parse | get | true | -",
                "extended_query | get | true | GET 0",
                "extended_query | get | true | GET 0"
            ]
        );
    }

    #[test]
    fn of_what_is_sent_together_each_has_its_answer() {
        let talk = format!("{STARTUP}{IN}> {PARSE_GET} {RUN_A} {RUN_A} {RUN_A} {SYNC}\n");
        let answer = format!("< {DONE} \"E\" 0000000d \"C22012\\x00\\x00\\x00\" {READY}\n");
        assert_eq!(
            rows(&PROTOCOL, &(talk + &answer), &["frontend_arg", "success", "backend_arg", "pgsql.error"])
                [1..],
            ["get | true | GET 0 | -", "get | false | - | 22012", "get | false | - | -"]
        );
    }

    #[test]
    fn a_sync_inside_a_copy_has_no_answer() {
        // As libpq does it: a Sync with what begins the copy, which the server passes over, and one behind its end.
        let (copy_in, rows_in) = ("\"G\" 00000007 000000", "\"d\" 00000008 \"1\\t2\\x0a\"");
        let copied = "\"C\" 0000000b \"COPY 1\\x00\"";
        for (end, answer, row) in [
            ("\"c\" 00000004", copied, "extended_query | get | true | COPY 1"),
            (
                "\"f\" 00000006 \"x\\x00\"",
                "\"E\" 0000000d \"C57014\\x00\\x00\\x00\"",
                "extended_query | get | false | -",
            ),
        ] {
            let talk = format!(
                "{STARTUP}{IN}> {PARSE_GET} {RUN_A} {SYNC}\n< \"1\" 00000004 \"2\" 00000004 {copy_in}\n\
                 > {rows_in} {end} {SYNC}\n< {answer} {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n\
                 > {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n"
            );
            let expected = [row, "extended_query | get | true | GET 0", "parse | get | true | -"];
            assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], expected);
        }
    }

    #[test]
    fn who_sees_a_copy_fail_sends_a_sync_alone() {
        let (copy_in, rows_in) = ("\"G\" 00000007 000000", "\"d\" 00000008 \"1\\t2\\x0a\"");
        let failed = "\"E\" 0000000d \"C22P02\\x00\\x00\\x00\"";
        let talk = format!(
            "{STARTUP}{IN}> {PARSE_GET} {RUN_A} {SYNC}\n< \"1\" 00000004 \"2\" 00000004 {copy_in}\n\
             > {rows_in}\n< {failed}\n> {SYNC}\n< {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n"
        );
        let expected = ["extended_query | get | false | -", "extended_query | get | true | GET 0"];
        assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], expected);
    }

    #[test]
    fn what_fails_before_it_is_run_has_a_row() {
        let bind = "\"B\" 0000000d \"\\x00a\\x00\" 000000000000";
        let describe = "\"D\" 00000007 \"Sa\\x00\"";
        let failed = format!("\"E\" 0000000d \"C22P02\\x00\\x00\\x00\" {READY}");
        let named = format!("{STARTUP}{IN}> {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n");
        for (batch, answer, expected) in [
            (bind, &*failed, &["bind | get | false | -"][..]),
            (describe, &failed, &["describe | - | false | -"]),
            (bind, &format!("\"2\" 00000004 {READY}"), &[]),
        ] {
            let talk = format!("{named}> {batch} {SYNC}\n< {answer}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n");
            let last = ["extended_query | get | true | GET 0"];
            assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[2..], [expected, &last].concat(), "{batch}");
        }
    }

    #[test]
    fn a_closed_name_is_nobodys() {
        let close = "\"C\" 00000007 \"Sa\\x00\"";
        let talk = format!("{STARTUP}{IN}> {PARSE_GET} {close} {RUN_A} {SYNC}\n< {DONE} {READY}\n");
        assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], ["extended_query | - | true | GET 0"]);
    }

    #[test]
    fn one_side_alone() {
        assert_eq!(rows(&PROTOCOL, STARTUP, &["user", "success"]), ["bob | -"]);
        assert_eq!(rows(&PROTOCOL, IN, &["user", "success"]), ["- | true"]);
    }

    #[test]
    fn a_startup_makes_it_one() {
        let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
        assert_eq!(probe(b"\0\0\0\x08\x04\xd2\x16\x2f"), Probe::Certain);
        assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0user\0bob\0"), Probe::Certain);
        assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0us"), Probe::Unsure);
        assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0\0\0\0\0\0\0"), Probe::NotForUs);
        assert_eq!(probe(b"\0\0\0\x54\xffSMBr"), Probe::NotForUs);
    }
}

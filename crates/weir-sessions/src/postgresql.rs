//! PostgreSQL (its frontend/backend protocol 3): one [`PgExchange`] for the startup, and for each query with its answer.
//!
//! Passwords are passed over. Where both sides agree on TLS, that follows and is handed over.

use crate::frames::{Frame, Frames, Head, Next};
use crate::line::text as lossy;
use crate::session::session_fields;
use crate::values::{name, text};
use crate::waiting::Waiting;
use crate::{CutOff, Data, Direction, Opening, Probe, Progress, Session, SessionParser, SessionProtocol};
use std::any::Any;
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
    fields: FIELDS,
};

/// Bytes kept of a message.
pub const MESSAGE_BYTES_MAX: usize = 2048;

/// Most queries of a connection that wait for their answers.
pub const WAITING_MAX: usize = 64;

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
    /// `extended_query`; none where only the answer was seen.
    pub request: Option<&'static str>,
    /// The query.
    pub query: Option<String>,
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
        }
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.query, &self.tag, &self.error, &self.error_message];
        // The startup is shared; it is counted once for each nevertheless.
        let startup = self.startup.as_ref().map_or(0, |startup| startup.held_bytes());
        size_of::<Self>() + startup + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
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
            b'C' => self.tag = Some(lossy(until_zero(body), 64)),
            b'E' => {
                for field in body.split(|byte| *byte == 0) {
                    match field {
                        [b'C', code @ ..] => self.error = Some(lossy(code, 16)),
                        [b'M', message @ ..] => self.error_message = Some(lossy(message, TEXT_BYTES_MAX)),
                        _ => {}
                    }
                }
                self.is_good = Some(false);
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

/// What clients and servers send.
const CLIENT_KINDS: &[u8] = b"BCDEFHPQSXcdfp";
const SERVER_KINDS: &[u8] = b"123ACDEGHIKNRSTVWZcdnstv";

/// A client's first message, from either side: its code is known and its length fits.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| match bytes {
        [0, 0, ..] | [0] | [] => match read_startup(bytes) {
            Some((_, TLS | GSS | CANCEL)) => Probe::Certain,
            Some(_) => {
                let name = &bytes[8..];
                let is_name = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
                match memchr::memchr(0, name) {
                    Some(end) if end > 3 && name[..end].iter().all(is_name) => Probe::Certain,
                    None if name.len() < 32 && name.iter().all(is_name) => Probe::Unsure,
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

/// Parses one connection.
#[derive(Debug, Default)]
pub struct PgParser {
    sides: [Frames; 2],
    client: Option<Direction>,
    startup: Option<Arc<PgStartup>>,
    waiting: Waiting<PgExchange, WAITING_MAX>,
    /// A query in several messages that is not at its end.
    open: Option<PgExchange>,
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
        let open = self.open.take();
        sessions
            .extend(self.waiting.take_all().chain(open).map(|waiting| Box::new(waiting) as Box<dyn Session>));
    }

    fn held_bytes(&self) -> usize {
        self.sides.iter().map(Frames::held_bytes).sum::<usize>()
            + self.waiting.iter().chain(&self.open).map(PgExchange::held_bytes).sum::<usize>()
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
                asked.query = (*kind == b'Q').then(|| lossy(until_zero(body), TEXT_BYTES_MAX));
                self.cut_off.parts += u64::from(frame.length_bytes > TEXT_BYTES_MAX as u64 + 6);
            }
            b'P' | b'B' | b'E' | b'D' => {
                let open = self.open.get_or_insert(PgExchange { request: Some("extended_query"), ..asked });
                if *kind == b'P' && open.query.is_none() {
                    let query = body.get(until_zero(body).len() + 1..).unwrap_or_default();
                    open.query = Some(lossy(until_zero(query), TEXT_BYTES_MAX));
                }
                return;
            }
            b'S' => match self.open.take() {
                Some(open) => asked = open,
                None => asked.request = Some("sync"),
            },
            // Passwords, copies, the end.
            _ => return,
        }
        let oldest = self.waiting.push(asked);
        sessions.extend(oldest.map(|oldest| Box::new(oldest) as Box<dyn Session>));
    }

    fn take_answer(&mut self, frame: &Frame<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let body = frame.bytes.get(5..).unwrap_or_default();
        // Messages that come at any time.
        if matches!(frame.bytes[0], b'S' | b'N' | b'A') {
            return;
        }
        // Answers to a query may come before the client has ended it.
        let asked = match self.waiting.find(|_| true) {
            Some(asked) => asked,
            None => self.open.get_or_insert_with(|| PgExchange::new(frame.time, None, self.startup.as_ref())),
        };
        if asked.take_answer(frame.bytes[0], body) {
            let over = self.waiting.take(|_| true).or_else(|| self.open.take());
            sessions.extend(over.map(|over| Box::new(over) as Box<dyn Session>));
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
    "pgsql.request" ["postgresql.frontend"] frontend: Text, "What is asked for: startup, ssl_request, simple_query" => |p| text(p.request);
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

    #[test]
    fn queries_in_parts_end_with_their_sync() {
        let talk = STARTUP.to_owned()
            + IN
            + "> \"P\" 0000000b \"\\x00get\\x00\" 0000 \"E\" 00000009 \"\\x00\" 00000000 \"S\" 00000004\n\
             < \"1\" 00000004 \"C\" 0000000a \"GET 0\\x00\" \"Z\" 00000005 \"I\"\n";
        assert_eq!(
            rows(&PROTOCOL, &talk, &["frontend", "frontend_arg", "backend_arg"])[1..],
            ["extended_query | get | GET 0"]
        );
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

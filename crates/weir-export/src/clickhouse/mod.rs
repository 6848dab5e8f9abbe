//! Batches for a table of ClickHouse, over its HTTP interface: [`ClickHouse`].
//!
//! A batch is one request: `INSERT INTO table (columns) FORMAT ArrowStream`. The answer 200 is the
//! acknowledgement. After anything else the batch is sent again, with the same `insert_deduplication_token`:
//! the table ignores a batch that it has. Nothing but HTTP/1.1 without TLS is spoken.

mod table;

use crate::batches::Batch;
use crate::carrier::{Connection, Interruption, Peer, Standing};
use crate::message::Message;
use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;
use table::quoted;
use ureq::Agent;
use weir_packet::Column;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a request may take.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Characters of a server's message that are reported.
const REASON_CHARS_MAX: usize = 400;

/// Settings of each insertion: the answer comes when the rows are stored, and a repeated batch is recognised.
const SETTINGS: &[(&str, &str)] =
    &[("wait_end_of_query", "1"), ("async_insert", "0"), ("insert_deduplicate", "1")];

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name or address of the server; an IPv6 address without brackets.
    pub host: String,
    /// The port of the HTTP interface.
    pub port: u16,
    /// The database, if it is not that of the user.
    pub database: Option<String>,
    /// The name of the table.
    pub name: String,
}

impl Table {
    fn url(&self) -> String {
        match self.host.contains(':') {
            true => format!("http://[{}]:{}/", self.host, self.port),
            false => format!("http://{}:{}/", self.host, self.port),
        }
    }

    /// The name for a statement.
    fn quoted(&self) -> String {
        let database = self.database.iter().map(|name| quoted(name) + ".");
        database.chain([quoted(&self.name)]).collect()
    }
}

/// A user of the server.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password; may be empty.
    pub password: String,
}

/// A receiver of batches.
pub struct ClickHouse {
    agent: Agent,
    table: Table,
    user: Option<User>,
    /// The statement that creates the table, until the table exists.
    creation: Option<String>,
}

impl fmt::Debug for ClickHouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClickHouse").field("table", &self.table).finish_non_exhaustive()
    }
}

impl ClickHouse {
    /// A table; with `columns`, the table is created for rows with these columns and the sensor, unless it
    /// exists.
    pub fn new(table: Table, user: Option<User>, columns: Option<&[Column]>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("weir")
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(Some(REQUEST_MAX))
            .build()
            .new_agent();
        let creation = columns.map(|columns| table::create_table(&table.quoted(), columns));
        Self { agent, table, user, creation }
    }

    /// Sends a statement, or a statement with its data.
    fn request(&self, settings: &[(&str, &str)], body: &[u8]) -> Result<(), Interruption> {
        let mut request = self.agent.post(self.table.url()).query_pairs(settings.iter().copied());
        if let Some(user) = &self.user {
            request =
                request.header("X-ClickHouse-User", &user.name).header("X-ClickHouse-Key", &user.password);
        }
        let mut response = request.send(body).map_err(|error| Interruption::Connection(to_io(error)))?;
        let header = response.headers().get("X-ClickHouse-Exception-Code");
        let code = header.and_then(|code| code.to_str().ok()).and_then(|code| code.parse().ok());
        let status = response.status();
        // The whole answer is read, so that the connection can be used again.
        let text =
            response.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        if status.as_u16() == 200 && code.is_none() {
            return Ok(());
        }
        let text = text.unwrap_or_default();
        let text = match text.trim() {
            "" => format!("HTTP status {status}"),
            text => text.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect(),
        };
        let code = code.or_else(|| code_of(&text));
        Err(Interruption::Refusal(match code.and_then(|code| self.remedy(code)) {
            Some(remedy) => format!("{text}; {remedy}"),
            None => text,
        }))
    }

    /// What to do about an error of ClickHouse (`src/Common/ErrorCodes.cpp` there).
    fn remedy(&self, code: u32) -> Option<String> {
        let table = self.table.quoted();
        Some(match code {
            60 => format!("create the table {table}, or give --create"),
            81 => {
                "create the database (CREATE DATABASE), or name another one: clickhouse://HOST/DATABASE.TABLE"
                    .into()
            }
            10 | 16 => format!(
                "the table {table} lacks a column of the rows: add the column, or leave it out of --columns"
            ),
            6 | 26 | 27 | 41 | 53 | 70 | 349 | 675 | 676 => {
                format!(
                    "a column of {table} has a type that the values do not fit: --create shows the right types"
                )
            }
            192..=194 | 516 => "set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD".into(),
            497 => format!("GRANT INSERT ON {table}"),
            _ => return None,
        })
    }
}

/// The number of an error in its text: `Code: 60. DB::Exception: …`, as servers before version 22 say it only
/// there.
fn code_of(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn to_io(error: ureq::Error) -> io::Error {
    match error {
        ureq::Error::Io(error) => error,
        ureq::Error::Timeout(_) => io::Error::new(ErrorKind::TimedOut, "no answer in time"),
        ureq::Error::HostNotFound => io::Error::new(ErrorKind::NotFound, "the host has no address"),
        error => io::Error::other(error),
    }
}

impl Peer for ClickHouse {
    fn connect(&mut self) -> Result<Box<dyn Connection + '_>, Interruption> {
        match &self.creation {
            // What matters now is whether a server answers.
            None => self.request(&[("query", "SELECT 1")], &[])?,
            Some(statement) => {
                self.request(&[], statement.as_bytes())?;
                self.creation = None;
            }
        }
        Ok(Box::new(Requests { peer: self, waiting: None, acknowledged: 0, is_accepting: false }))
    }
}

/// Requests, one after the other.
struct Requests<'p> {
    peer: &'p ClickHouse,
    waiting: Option<Message>,
    acknowledged: usize,
    is_accepting: bool,
}

impl Requests<'_> {
    fn insert(&self, message: &Message) -> Result<(), Interruption> {
        let Some(batch) = Batch::of(message) else {
            let why = "the spool has rows for a receiver of another kind: give --spool another directory";
            return Err(Interruption::Refusal(why.to_string()));
        };
        let columns: Vec<_> = batch.labels.columns.iter().map(|name| quoted(name)).collect();
        let table = self.peer.table.quoted();
        let query = format!("INSERT INTO {table} ({}) FORMAT ArrowStream", columns.join(", "));
        let token = format!("{}-{}", batch.labels.run, batch.number);
        let settings = [("query", query.as_str()), ("insert_deduplication_token", token.as_str())];
        self.peer.request(&[&settings[..], SETTINGS].concat(), batch.arrow)
    }
}

impl Connection for Requests<'_> {
    fn has_room(&self) -> bool {
        self.waiting.is_none()
    }

    fn take(&mut self, message: &Message) -> bool {
        self.waiting = Some(message.clone());
        true
    }

    /// Waits for the answer.
    fn work(&mut self, _: u64) -> Result<(), Interruption> {
        let Some(message) = self.waiting.take() else { return Ok(()) };
        self.insert(&message)?;
        self.acknowledged += 1;
        self.is_accepting = true;
        Ok(())
    }

    fn acknowledged(&mut self) -> usize {
        std::mem::take(&mut self.acknowledged)
    }

    /// A server that answers may still refuse the rows.
    fn standing(&mut self) -> Standing {
        if self.is_accepting { Standing::Accepting } else { Standing::Unknown }
    }

    fn end(&mut self, _: u64) {}
}

//! [`Pop3Connection`]: the commands of a connection and their results; and its fields.

use crate::session::session_fields;
use crate::values::{text, texts};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A POP3 connection, up to the switch to TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pop3Connection {
    /// Capture time of the first line.
    pub time: Timestamp,
    /// Direction of the client: the originator of the connection, as a rule.
    pub client: Direction,
    /// The server's greeting, without `+OK`.
    pub greeting: Option<String>,
    /// The user name from USER, APOP or AUTH PLAIN.
    pub user: Option<String>,
    /// Authentication method: `USER`, `APOP`, or the mechanism of AUTH.
    pub auth_mechanism: Option<String>,
    /// Whether the login succeeded.
    pub is_logged_in: Option<bool>,
    /// Verbs of the commands, without repetitions, in order of first use.
    pub commands: Vec<String>,
    /// Commands with their results, `STAT OK`, `PASS ERR`, without repetitions, in order.
    pub results: Vec<String>,
    /// The server's capabilities.
    pub capabilities: Vec<String>,
    /// Number of mails fetched (RETR).
    pub fetched: u64,
    /// Number of mails marked as deleted (DELE).
    pub deleted: u64,
    /// Text of the server's last error.
    pub last_error: Option<String>,
    /// Whether the connection switched to TLS.
    pub is_tls: bool,
}

impl Pop3Connection {
    pub(super) fn new(time: Timestamp, client: Direction) -> Self {
        Self {
            time,
            client,
            greeting: None,
            user: None,
            auth_mechanism: None,
            is_logged_in: None,
            commands: Vec::new(),
            results: Vec::new(),
            capabilities: Vec::new(),
            fetched: 0,
            deleted: 0,
            last_error: None,
            is_tls: false,
        }
    }
}

session_fields! { Pop3Connection;
    "pop3.user" ["pop.user"] user: Text, "User name, from USER, APOP or AUTH" => |p| text(p.user.as_deref());
    "pop3.auth.mechanism" [] auth_mechanism: Text, "Authentication mechanism: USER, APOP, or the mechanism of AUTH" => |p| text(p.auth_mechanism.as_deref());
    "pop3.logged_in" [] logged_in: Bool, "Whether the login succeeded" => |p| p.is_logged_in.map_or(Value::Absent, Value::Bool);
    "pop3.results" [] results: Texts, "Commands with their results, in order, without repetitions: STAT OK, PASS ERR" => |p| texts(&p.results);
    "pop3.fetched" [] fetched: Unsigned, "Number of fetched mails (RETR)" => |p| Value::Unsigned(p.fetched);
    "pop3.deleted" [] deleted: Unsigned, "Number of mails marked as deleted (DELE)" => |p| Value::Unsigned(p.deleted);
    "pop3.capabilities" [] capabilities: Texts, "Capabilities of the server (CAPA)" => |p| texts(&p.capabilities);
    "pop3.greeting" [] greeting: Text, "The server's greeting" => |p| text(p.greeting.as_deref());
    "pop3.last_error" [] last_error: Text, "Text of the server's last error" => |p| text(p.last_error.as_deref());
    "pop3.tls" [] tls: Bool, "Whether the connection switched to TLS (STLS)" => |p| Value::Bool(p.is_tls);
    // Not in the log.
    "pop.request.command" ["pop3.commands"] _: Texts, "Verbs of the commands, in order, without repetitions" => |p| texts(&p.commands);
}

impl Session for Pop3Connection {
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

//! [`MysqlExchange`], and its filter fields.

use super::command;
use super::packet::capability;
use crate::Session;
use crate::pairing::Held;
use crate::session::{Words, session_fields};
use crate::values::{name, text, unsigned};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// Properties of a connection, from greeting and login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MysqlConnection {
    /// Version of the server: `8.0.36`, `11.4.2-MariaDB`.
    pub version: Option<String>,
    /// Thread ID: the server's number of the connection.
    pub thread: Option<u32>,
    /// User name.
    pub user: Option<String>,
    /// Current database.
    pub database: Option<String>,
    /// Authentication plugin: `caching_sha2_password`.
    pub plugin: Option<String>,
    /// Name of the client program: `mysqldump`.
    pub program: Option<String>,
    /// Common capabilities of both sides, as far as known; `None`: the login was not seen.
    pub capabilities: Option<u64>,
}

/// The result of [`MysqlConnection::compression`] for zlib.
pub(super) const ZLIB: &str = "zlib";

impl MysqlConnection {
    /// The negotiated compression after the login: `zlib`; or `zstd`, which is not supported.
    pub fn compression(&self) -> Option<&'static str> {
        let can = |capability| self.capabilities.is_some_and(|capabilities| capabilities & capability != 0);
        if can(capability::COMPRESS) {
            return Some(ZLIB);
        }
        can(capability::ZSTD).then_some("zstd")
    }

    pub(super) fn held_bytes(&self) -> usize {
        let texts = [&self.version, &self.user, &self.database, &self.plugin, &self.program];
        size_of::<Self>() + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }
}

/// A request of the client that is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Login.
    Login,
    /// TLS.
    Tls,
}

/// A command with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MysqlExchange {
    /// Time of the first byte.
    pub time: Timestamp,
    /// Properties of the connection.
    pub connection: Arc<MysqlConnection>,
    /// The request, if it is not a command.
    pub(super) asked: Option<Asked>,
    /// Command number; none for a login, or if only the answer was seen.
    pub command: Option<u8>,
    /// Argument: the query, the query of the executed statement, the database, the user.
    pub argument: Option<Arc<str>>,
    /// Whether the command succeeded.
    pub is_good: Option<bool>,
    /// Number of rows returned or changed.
    pub rows: Option<u64>,
    /// The server's text: the error message, or information about the result.
    pub response: Option<String>,
    /// Error code: 1045.
    pub error: Option<u16>,
    /// SQL state of the error: `28000`.
    pub sql_state: Option<String>,
    /// Number of the prepared statement.
    pub statement: Option<u32>,
    /// Number of the inserted row.
    pub insert: Option<u64>,
}

impl MysqlExchange {
    pub(super) fn new(time: Timestamp, connection: &Arc<MysqlConnection>) -> Self {
        Self {
            time,
            connection: Arc::clone(connection),
            asked: None,
            command: None,
            argument: None,
            is_good: None,
            rows: None,
            response: None,
            error: None,
            sql_state: None,
            statement: None,
            insert: None,
        }
    }

    /// Whether both sides are known to support a capability.
    pub(super) fn can(&self, capability: u64) -> bool {
        self.connection.capabilities.is_some_and(|capabilities| capabilities & capability != 0)
    }

    /// Zeek's name of the request: `login`, `query`.
    pub fn command_name(&self) -> Option<Cow<'static, str>> {
        match self.asked {
            Some(Asked::Login) => Some("login".into()),
            Some(Asked::Tls) => Some("ssl_request".into()),
            None => self.command.map(command::name),
        }
    }
}

impl Held for MysqlExchange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.response, &self.sql_state].into_iter().flatten().map(String::capacity);
        // Shared data is counted once per exchange nevertheless.
        size_of::<Self>()
            + self.connection.held_bytes()
            + self.argument.as_ref().map_or(0, |argument| argument.len())
            + texts.sum::<usize>()
    }
}

impl Session for MysqlExchange {
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

/// All names of compressions.
const COMPRESSIONS: Words = Words { list: || vec![ZLIB, "zstd"], others: &[] };

session_fields! { MysqlExchange;
    "mysql.command" ["mysql.cmd"] cmd: Text in command::WORDS, "Command: login, query, stmt_execute" => |m| name(m.command_name());
    "mysql.query" ["mysql.arg"] arg: Text, "Argument of the command: the query, the database, the user" => |m| text(m.argument.as_deref());
    "mysql.success" [] success: Bool, "Whether the command succeeded" => |m| m.is_good.map_or(Value::Absent, Value::Bool);
    "mysql.affected_rows" ["mysql.rows"] rows: Unsigned, "Number of rows returned or changed" => |m| unsigned(m.rows);
    "mysql.message" ["mysql.response", "mysql.error.message"] response: Text, "Text of the answer: the error, or the effect of the command" => |m| text(m.response.as_deref());
    "mysql.compression" [] compression: Text in COMPRESSIONS, "Compression after the login: zlib; zstd, which is not parsed" => |m| text(m.connection.compression());
    // Fields without a column in the log.
    "mysql.user" [] _: Text, "User name of the login" => |m| text(m.connection.user.as_deref());
    "mysql.schema" ["mysql.database"] _: Text, "Database in use" => |m| text(m.connection.database.as_deref());
    "mysql.version" [] _: Text, "Version of the server: 8.0.36, 11.4.2-MariaDB" => |m| text(m.connection.version.as_deref());
    "mysql.auth_plugin" [] _: Text, "Authentication method: caching_sha2_password" => |m| text(m.connection.plugin.as_deref());
    "mysql.program" ["mysql.program_name"] _: Text, "Name of the client's program" => |m| text(m.connection.program.as_deref());
    "mysql.thread_id" [] _: Unsigned, "The server's number of the connection" => |m| unsigned(m.connection.thread);
    "mysql.error_code" ["mysql.error"] _: Unsigned, "Number of the error: 1045 access denied" => |m| unsigned(m.error);
    "mysql.sqlstate" [] _: Text, "Class of the error: 28000" => |m| text(m.sql_state.as_deref());
    "mysql.stmt_id" [] _: Unsigned, "Number of the prepared statement" => |m| unsigned(m.statement);
    "mysql.insert_id" [] _: Unsigned, "Identifier that was generated for the inserted row" => |m| unsigned(m.insert);
}

//! [`ImapConnection`]: commands and results of a connection, and its filter fields.

use crate::session::session_fields;
use crate::values::{text, texts};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// An IMAP connection, up to the start of TLS or compression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImapConnection {
    /// Time of the first line.
    pub time: Timestamp,
    /// The client's direction: usually the originator of the connection.
    pub client: Direction,
    /// The server's greeting: the text after `* OK`.
    pub greeting: Option<String>,
    /// The user name, from LOGIN or AUTHENTICATE PLAIN.
    pub user: Option<String>,
    /// How the user authenticates: `LOGIN`, or the mechanism of AUTHENTICATE.
    pub auth_mechanism: Option<String>,
    /// Whether the login succeeded.
    pub is_logged_in: Option<bool>,
    /// Verbs of the commands, in order, each once.
    pub commands: Vec<String>,
    /// Commands with their results, `SELECT OK`, `LOGIN NO`, in order, each once.
    pub results: Vec<String>,
    /// The server's last list of capabilities.
    pub capabilities: Vec<String>,
    /// Selected and examined mailboxes, in order, each once.
    pub mailboxes: Vec<String>,
    /// The client's identification (ID, RFC 2971).
    pub client_id: Option<String>,
    /// The server's identification.
    pub server_id: Option<String>,
    /// Text of the server's last NO or BAD.
    pub last_error: Option<String>,
    /// Whether the connection switched to TLS.
    pub is_tls: bool,
}

impl ImapConnection {
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
            mailboxes: Vec::new(),
            client_id: None,
            server_id: None,
            last_error: None,
            is_tls: false,
        }
    }
}

session_fields! { ImapConnection;
    "imap.request.username" ["imap.user"] user: Text, "User name, from LOGIN or AUTHENTICATE" => |i| text(i.user.as_deref());
    "imap.auth.mechanism" [] auth_mechanism: Text, "Authentication mechanism: LOGIN, or the mechanism of AUTHENTICATE" => |i| text(i.auth_mechanism.as_deref());
    "imap.logged_in" [] logged_in: Bool, "Whether the login succeeded" => |i| i.is_logged_in.map_or(Value::Absent, Value::Bool);
    "imap.results" [] results: Texts, "Commands with their results, in order, without repetitions: SELECT OK, LOGIN NO" => |i| texts(&i.results);
    "imap.request.folder" ["imap.mailboxes"] mailboxes: Texts, "Mailboxes that were selected or examined, in order, without repetitions" => |i| texts(&i.mailboxes);
    "imap.capabilities" [] capabilities: Texts, "Capabilities of the server, as last listed" => |i| texts(&i.capabilities);
    "imap.client_id" [] client_id: Text, "Identification of the client (ID)" => |i| text(i.client_id.as_deref());
    "imap.server_id" [] server_id: Text, "Identification of the server (ID)" => |i| text(i.server_id.as_deref());
    "imap.greeting" [] greeting: Text, "The server's greeting" => |i| text(i.greeting.as_deref());
    "imap.last_error" [] last_error: Text, "Text of the server's last NO or BAD" => |i| text(i.last_error.as_deref());
    "imap.tls" [] tls: Bool, "Whether the connection switched to TLS (STARTTLS)" => |i| Value::Bool(i.is_tls);
    // Fields without a column in the log.
    "imap.request.command" ["imap.commands"] _: Texts, "Verbs of the commands, in order, without repetitions" => |i| texts(&i.commands);
}

impl Session for ImapConnection {
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

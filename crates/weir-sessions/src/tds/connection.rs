//! The session of a connection, and its filter fields.

use super::message::{TdsAnswer, TdsLogin, TdsPrelogin, encryption_name, version_name};
use crate::Session;
use crate::session::{Words, named, session_fields};
use crate::values::{collect_numbers, name, owned, text, unsigned};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A connection up to the result of its login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdsConnection {
    /// Capture time of its first message.
    pub time: Timestamp,
    /// The client's options of the negotiation.
    pub client: Option<TdsPrelogin>,
    /// The server's options of the negotiation.
    pub server: Option<TdsPrelogin>,
    /// The login. Absent if it was encrypted.
    pub login: Option<TdsLogin>,
    /// The answer to the login.
    pub answer: TdsAnswer,
}

impl TdsConnection {
    /// The connection in `slot`, which begins at `time` if there is none.
    pub(super) fn of(slot: &mut Option<Box<Self>>, time: Timestamp) -> &mut Self {
        let answer = TdsAnswer::default();
        slot.get_or_insert_with(|| Box::new(Self { time, client: None, server: None, login: None, answer }))
    }

    /// Whether any message was understood.
    pub(super) fn is_known(&self) -> bool {
        let is_negotiated = self.client.is_some() || self.server.is_some();
        is_negotiated || self.login.is_some() || self.answer.is_good().is_some()
    }

    /// The version of the protocol: the server's choice, or else the client's request.
    pub fn version(&self) -> Option<u32> {
        let ack = self.answer.ack.as_ref().map(|ack| ack.version);
        ack.or(self.login.as_ref().map(|login| login.version))
    }

    /// The server's version: from the negotiation, or else from the answer to the login.
    fn server_version(&self) -> Option<String> {
        let negotiated = self.server.as_ref().map(TdsPrelogin::version);
        negotiated.or_else(|| {
            let (major, minor, build) = self.answer.ack.as_ref()?.program_version;
            Some(format!("{major}.{minor}.{build}"))
        })
    }

    /// Options of encryption: the client's, then the server's.
    fn encryption(&self) -> impl DoubleEndedIterator<Item = u8> + '_ {
        [&self.client, &self.server].into_iter().flatten().filter_map(|side| side.encryption)
    }

    /// Whether several requests may be active at a time: the server's choice, or else the client's request.
    fn mars(&self) -> Option<bool> {
        let sides = [&self.server, &self.client];
        sides.into_iter().flatten().find_map(|side| side.mars)
    }

    fn login(&self, read: impl FnOnce(&TdsLogin) -> &Option<String>) -> Value<'_> {
        text(self.login.as_ref().and_then(|login| read(login).as_deref()))
    }
}

impl Session for TdsConnection {
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

const ENCRYPTIONS: Words = Words { list: || named(0..=u8::MAX, encryption_name), others: &["unknown-"] };

session_fields! { TdsConnection;
    "tds.version" [] tds_version: Text, "Version of the protocol: 7.4" => |t| name(t.version().map(version_name));
    "tds.client_version" [] client_version: Text, "Version of the client's library, from the negotiation" => |t| t.client.as_ref().map_or(Value::Absent, |client| owned(client.version()));
    "tds.server_version" [] server_version: Text, "Version of the server: 15.0.2000" => |t| t.server_version().map_or(Value::Absent, owned);
    "tds.encryption" [] encryption: Text in ENCRYPTIONS, "Encryption that the server chose, or else the client: off (of the login only), on, not_supported, required" => |t| name(t.encryption().next_back().map(encryption_name));
    "tds.prelogin.option.instopt" ["tds.instance"] instance: Text, "Instance of the server that the client requests" => |t| text(t.client.as_ref().and_then(|client| client.instance.as_deref()));
    "tds.prelogin.option.mars" ["tds.mars"] mars: Bool, "Whether several requests may be active at a time (MARS)" => |t| t.mars().map_or(Value::Absent, Value::Bool);
    "tds.7login.clientname" ["tds.hostname"] hostname: Text, "Name of the client's host" => |t| t.login(|login| &login.hostname);
    "tds.7login.username" ["tds.user"] user: Text, "User of a login by password" => |t| t.login(|login| &login.user);
    "tds.7login.appname" ["tds.program"] program: Text, "Name of the client's program" => |t| t.login(|login| &login.program);
    "tds.7login.databasename" ["tds.database"] database: Text, "Database that the client requests" => |t| t.login(|login| &login.database);
    "tds.7login.servername" ["tds.server_name"] server_name: Text, "Name of the server, as the client knows it" => |t| t.login(|login| &login.server);
    "tds.7login.libraryname" ["tds.library"] library: Text, "Name of the client's library" => |t| t.login(|login| &login.library);
    "tds.success" [] success: Bool, "Whether the login succeeded" => |t| t.answer.is_good().map_or(Value::Absent, Value::Bool);
    "tds.error.number" ["tds.error_number"] error_number: Unsigned, "Number of the first error: 18456 for a failed login" => |t| unsigned(t.answer.error.as_ref().map(|error| error.number));
    "tds.error.msgtext" ["tds.error"] error: Text, "Text of the first error" => |t| text(t.answer.error.as_ref().map(|error| error.text.as_str()));
    "tds.loginack.progname" ["tds.server_program"] server_program: Text, "Name of the server's program" => |t| text(t.answer.ack.as_ref().map(|ack| ack.program.as_str()));
    // Not in the log.
    "tds.prelogin.option.encryption" [] _: Numbers, "Options of encryption of the client and the server: 0 off, 1 on, 2 not supported, 3 required" => |t| collect_numbers(t.encryption());
    "tds.7login.version" [] _: Unsigned, "Number of the version that the client requests" => |t| unsigned(t.login.as_ref().map(|login| login.version));
    "tds.7login.client_pid" [] _: Unsigned, "Identifier of the client's process" => |t| unsigned(t.login.as_ref().map(|login| login.pid));
    "tds.7login.locale" ["tds.language"] _: Text, "Language that the client requests" => |t| t.login(|login| &login.language);
}

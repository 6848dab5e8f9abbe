//! [`MqttConnection`]: the client of a connection, and what was published; its fields. How MQTT writes
//! numbers and properties.

use crate::line::text as lossy;
use crate::session::session_fields;
use crate::values::{name, text, texts, unsigned};
use crate::wire::Reader;
use crate::{Direction, Session};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// Maximum number of topics per list.
pub const TOPICS_MAX: usize = 64;

/// Maximum bytes kept of a text.
pub(super) const TEXT_BYTES_MAX: usize = 256;

/// What a client says of itself in CONNECT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MqttClient {
    /// Protocol name: `MQTT`; `MQIsdp` in 3.1.
    pub protocol: Option<String>,
    /// Protocol level: 3, 4 (3.1.1), 5.
    pub level: Option<u8>,
    /// Client identifier.
    pub client_id: Option<String>,
    /// User name.
    pub username: Option<String>,
    /// Keep-alive interval, seconds.
    pub keep_alive_secs: Option<u16>,
    /// Topic of the will message, which the server publishes if the client disconnects abnormally.
    pub will_topic: Option<String>,
    /// Payload of the will message.
    pub will_payload: Option<String>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttConnection {
    /// Time of the first packet.
    pub time: Timestamp,
    /// The client's direction.
    pub client: Direction,
    /// The client, as far as CONNECT was seen; shared with the exchanges of the connection.
    pub about: Arc<MqttClient>,
    /// Return or reason code of the server (CONNACK).
    pub reason: Option<u8>,
    /// Number of messages published by the client, and by the server.
    pub published: [u64; 2],
    /// Topics of published messages, each once.
    pub topics: Vec<String>,
    /// Topic filters in the client's subscriptions, each once.
    pub subscriptions: Vec<String>,
}

impl MqttClient {
    /// Takes CONNECT (§3.1), without the password.
    pub(super) fn take_connect(&mut self, body: &[u8]) -> Option<()> {
        let mut reader = Reader::new(body);
        let text = |bytes| Some(lossy(bytes, TEXT_BYTES_MAX));
        self.protocol = text(reader.vector16()?);
        let level = reader.u8()?;
        self.level = Some(level);
        let flags = reader.u8()?;
        self.keep_alive_secs = Some(reader.u16()?);
        skip_properties(&mut reader, level)?;
        self.client_id = text(reader.vector16()?);
        if flags & 4 != 0 {
            skip_properties(&mut reader, level)?;
            self.will_topic = text(reader.vector16()?);
            self.will_payload = text(reader.vector16()?);
        }
        if flags & 0x80 != 0 {
            self.username = text(reader.vector16()?);
        }
        Some(())
    }
}

impl MqttConnection {
    pub(super) fn new(time: Timestamp, client: Direction) -> Self {
        Self {
            time,
            client,
            about: Arc::default(),
            reason: None,
            published: [0; 2],
            topics: Vec::new(),
            subscriptions: Vec::new(),
        }
    }

    pub(super) fn level(&self) -> u8 {
        self.about.level.unwrap_or(4)
    }

    /// Protocol version: `3.1.1`.
    pub fn version(&self) -> Option<Cow<'static, str>> {
        Some(match self.about.level? & 0x7f {
            3 => "3.1".into(),
            4 => "3.1.1".into(),
            5 => "5.0".into(),
            other => format!("unknown-{other}").into(),
        })
    }

    /// Meaning of the server's return or reason code.
    pub fn status(&self) -> Option<Cow<'static, str>> {
        let words = match self.reason? {
            0 => "Connection Accepted",
            1 | 0x84 => "Refused: unacceptable protocol version",
            2 | 0x85 => "Refused: identifier rejected",
            3 | 0x88 => "Refused: server unavailable",
            4 | 0x86 => "Refused: bad user name or password",
            5 | 0x87 => "Refused: not authorized",
            0x89 => "Refused: server busy",
            0x8a => "Refused: banned",
            0x8c => "Refused: bad authentication method",
            0x95 => "Refused: packet too large",
            0x97 => "Refused: quota exceeded",
            0x9c => "Refused: use another server",
            0x9d => "Refused: server moved",
            other => return Some(format!("unknown-{other}").into()),
        };
        Some(words.into())
    }
}

/// Skips the properties of version 5, which have a length prefix.
pub(super) fn skip_properties(reader: &mut Reader<'_>, level: u8) -> Option<()> {
    if level & 0x7f == 5 {
        let (length, digits) = read_length(reader.rest())?;
        reader.take(digits + usize::try_from(length).ok()?)?;
    }
    Some(())
}

/// Reads a variable byte integer of at most four bytes; returns the number and its length (§2.2.3).
pub(super) fn read_length(bytes: &[u8]) -> Option<(u64, usize)> {
    let digits = bytes.iter().take(4).position(|byte| byte & 0x80 == 0)? + 1;
    let number = bytes[..digits].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, digits))
}

impl Session for MqttConnection {
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

session_fields! { MqttConnection;
    "mqtt.protoname" ["mqtt.proto_name"] proto_name: Text, "Name of the protocol: MQTT, MQIsdp" => |m| text(m.about.protocol.as_deref());
    "mqtt.proto_version" ["mqtt.version"] proto_version: Text, "Version of the protocol: 3.1.1" => |m| name(m.version());
    "mqtt.clientid" ["mqtt.client_id"] client_id: Text, "Identifier of the client" => |m| text(m.about.client_id.as_deref());
    "mqtt.connect_status" [] connect_status: Text, "Result of the connection request" => |m| name(m.status());
    "mqtt.willtopic" ["mqtt.will_topic"] will_topic: Text, "Topic of the will: the message that the server publishes if the client disappears" => |m| text(m.about.will_topic.as_deref());
    "mqtt.willmsg" ["mqtt.will_payload"] will_payload: Text, "Message of the will" => |m| text(m.about.will_payload.as_deref());
    // Fields without a column in Zeek's log.
    "mqtt.ver" [] _: Unsigned, "Level of the protocol: 3, 4, 5" => |m| unsigned(m.about.level);
    "mqtt.username" ["mqtt.user"] _: Text, "User name" => |m| text(m.about.username.as_deref());
    "mqtt.kalive" ["mqtt.keep_alive"] _: Unsigned, "Maximum time between messages of the client (keep alive), seconds" => |m| unsigned(m.about.keep_alive_secs);
    "mqtt.conack.val" ["mqtt.reason"] _: Unsigned, "Number of the result of the connection request" => |m| unsigned(m.reason);
    "mqtt.topic" ["mqtt.topics"] _: Texts, "Topics of published messages, without repetitions" => |m| texts(&m.topics);
    "mqtt.subscriptions" [] _: Texts, "Topics that the client subscribed to, without repetitions" => |m| texts(&m.subscriptions);
    "mqtt.client_publishes" [] _: Unsigned, "Number of messages that the client published" => |m| Value::Unsigned(m.published[0]);
    "mqtt.server_publishes" [] _: Unsigned, "Number of messages that the server delivered" => |m| Value::Unsigned(m.published[1]);
}

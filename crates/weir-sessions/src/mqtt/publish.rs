//! Published messages, as in Zeek's `mqtt_publish.log`: one row for each message of either side.

use super::connection::{TEXT_BYTES_MAX, skip_properties};
use super::exchange::{MqttExchange, MqttPart};
use crate::line::text as lossy;
use crate::session::{Words, session_fields};
use crate::values::text;
use crate::wire::Reader;
use crate::{PartLog, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The log, for the registry.
pub(crate) const LOG: PartLog = PartLog {
    name: "mqtt_publish",
    doc: "Messages published over MQTT",
    head: &["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    known_by: "",
    of: &[("mqtt", of_mqtt)],
    brief: &["ts", "orig", "resp", "from_client", "qos", "status", "topic", "payload", "payload_len"],
    fields: FIELDS,
};

/// Maximum bytes kept of a payload; Zeek's default, too.
const PAYLOAD_BYTES_MAX: usize = 100;

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttPublish {
    /// Whether the client published it; otherwise the server delivers it.
    pub is_from_client: bool,
    /// Whether the server keeps the message for later subscribers.
    pub is_retained: bool,
    /// Quality of service: 0 to 2.
    pub qos: u8,
    /// How much of the exchange was seen.
    pub progress: MqttProgress,
    /// Topic. Empty in version 5 if an alias stands for it.
    pub topic: String,
    /// The first bytes of the payload.
    pub payload: String,
    /// Length of the payload, bytes.
    pub payload_bytes: u64,
}

/// How far the exchange of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MqttProgress {
    /// PUBLISH was seen, and an acknowledgement is expected.
    Sent,
    /// PUBREC was seen.
    Received,
    /// PUBREL was seen after PUBREC.
    Released,
    /// The message was acknowledged, or needs no acknowledgement.
    Complete,
}

/// Names of the values of `qos`.
const QOS: [&str; 3] = ["at most once", "at least once", "exactly once"];

const QOS_WORDS: Words = Words { list: || QOS.into(), others: &[] };

const STATUS: Words = Words { list: || vec!["ok", "incomplete_qos"], others: &[] };

impl MqttPublish {
    /// Parses PUBLISH (§3.3), whose bytes may be cut in the payload: `body` follows the fixed header, whose
    /// low bits are `flags`. Returns the packet identifier as well; there is none without acknowledgement.
    pub(super) fn parse(
        flags: u8,
        body: &[u8],
        body_bytes: u64,
        level: u8,
        is_from_client: bool,
    ) -> Option<(Self, Option<u16>)> {
        let mut reader = Reader::new(body);
        let topic = lossy(reader.vector16()?, TEXT_BYTES_MAX);
        let qos = flags >> 1 & 3;
        let number = if qos > 0 { Some(reader.u16()?) } else { None };
        skip_properties(&mut reader, level)?;
        let payload = reader.rest();
        let publish = Self {
            is_from_client,
            is_retained: flags & 1 != 0,
            qos,
            progress: if qos > 0 { MqttProgress::Sent } else { MqttProgress::Complete },
            topic,
            payload: lossy(payload, PAYLOAD_BYTES_MAX),
            payload_bytes: body_bytes.saturating_sub((body.len() - payload.len()) as u64),
        };
        Some((publish, number))
    }

    /// Takes an acknowledgement of this type (PUBACK 4 to PUBCOMP 7, §3.4 to §3.7). Returns whether the
    /// exchange is over; a server of version 5 may refuse the message.
    pub(super) fn take_acknowledgement(&mut self, kind: u8, is_refused: bool) -> bool {
        use MqttProgress::{Complete, Received, Released, Sent};
        self.progress = match (kind, self.qos, self.progress) {
            (4, 1, Sent) if !is_refused => Complete,
            (5, 2, Sent) if !is_refused => Received,
            (6, 2, Received) => Released,
            (7, 2, Released) if !is_refused => Complete,
            (_, _, progress) => progress,
        };
        // The packet identifier is free after these, whatever was not seen before.
        is_refused || matches!(kind, 4 | 7)
    }

    /// Zeek's name of the progress. A refused message is incomplete.
    fn status(&self) -> &'static str {
        if self.progress == MqttProgress::Complete { "ok" } else { "incomplete_qos" }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.topic.capacity() + self.payload.capacity()
    }
}

session_fields! { Published;
    "mqtt_publish.from_client" [] from_client: Bool, "Whether the client published the message; otherwise the server delivers it to the client" => |p| Value::Bool(p.message.is_from_client);
    "mqtt_publish.retain" [] retain: Bool, "Whether the server keeps the message for later subscribers" => |p| Value::Bool(p.message.is_retained);
    "mqtt_publish.qos" [] qos: Text in QOS_WORDS, "Quality of service: at most once, at least once, exactly once" => |p| text(QOS.get(usize::from(p.message.qos)).copied());
    "mqtt_publish.status" [] status: Text in STATUS, "ok if all messages of the quality of service were seen, else incomplete_qos" => |p| text(Some(p.message.status()));
    "mqtt_publish.topic" [] topic: Text, "Topic; empty if version 5 has an alias for it" => |p| text(Some(&p.message.topic));
    "mqtt_publish.payload" [] payload: Text, "The first 100 bytes of the payload" => |p| text(Some(&p.message.payload));
    "mqtt_publish.payload_len" [] payload_len: Unsigned, "Length of the payload, bytes" => |p| Value::Unsigned(p.message.payload_bytes);
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Capture time of PUBLISH.
    pub time: Timestamp,
    /// The message.
    pub message: MqttPublish,
}

impl Session for Published {
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

/// The message of a session; none of the session of a connection.
fn of_mqtt(session: &dyn Session) -> Vec<Box<dyn Session>> {
    match session.as_any().downcast_ref() {
        Some(MqttExchange { connection, part: MqttPart::Publish(message) }) => {
            vec![Box::new(Published { time: connection.time, message: message.clone() })]
        }
        _ => vec![],
    }
}

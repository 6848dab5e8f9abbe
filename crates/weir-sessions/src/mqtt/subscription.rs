//! Changes of subscriptions, as in Zeek's `mqtt_subscribe.log`: one row for each SUBSCRIBE or UNSUBSCRIBE.

use super::connection::{TEXT_BYTES_MAX, TOPICS_MAX, skip_properties};
use super::exchange::{MqttExchange, MqttPart};
use crate::line::text as lossy;
use crate::session::{Words, session_fields};
use crate::values::{numbers, text, texts, unsigned};
use crate::wire::Reader;
use crate::{PartLog, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The log, for the registry.
pub(crate) const LOG: PartLog = PartLog {
    name: "mqtt_subscribe",
    doc: "Subscriptions of MQTT, and their ends",
    head: &["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    known_by: "",
    of: &[("mqtt", of_mqtt)],
    brief: &["ts", "orig", "resp", "action", "topics", "qos_levels", "granted_qos_level", "ack"],
    fields: FIELDS,
};

/// Names of the values of `action`.
const ACTIONS: [&str; 2] = ["MQTT::SUBSCRIBE", "MQTT::UNSUBSCRIBE"];

const ACTION_WORDS: Words = Words { list: || ACTIONS.into(), others: &[] };

/// A change of subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttSubscription {
    /// Whether the client ends subscriptions.
    pub is_end: bool,
    /// Topic filters, at most [`TOPICS_MAX`].
    pub topics: Vec<String>,
    /// The quality of service that is requested for each topic; empty for ends.
    pub qos: Vec<u8>,
    /// The quality of service that the server granted for the first topic; 128 and more: refused.
    pub granted: Option<u8>,
    /// Whether the server acknowledged the change.
    pub is_acknowledged: bool,
}

impl MqttSubscription {
    /// Parses SUBSCRIBE (§3.8) or UNSUBSCRIBE (§3.10). Returns the packet identifier, and the number of
    /// topics that were not kept, as well.
    pub(super) fn parse(is_end: bool, body: &[u8], level: u8) -> Option<(Self, u16, u64)> {
        let mut reader = Reader::new(body);
        let number = reader.u16()?;
        skip_properties(&mut reader, level)?;
        let (mut topics, mut qos, mut cut) = (vec![], vec![], 0);
        while let Some(topic) = reader.vector16() {
            let options = if is_end { None } else { reader.u8() };
            if topics.len() == TOPICS_MAX {
                cut += 1;
                continue;
            }
            topics.push(lossy(topic, TEXT_BYTES_MAX));
            qos.extend(options.map(|options| options & 3));
        }
        Some((Self { is_end, topics, qos, granted: None, is_acknowledged: false }, number, cut))
    }

    /// Takes SUBACK (§3.9) or UNSUBACK (§3.11); `body` follows the packet identifier.
    pub(super) fn take_acknowledgement(&mut self, body: &[u8], level: u8) {
        self.is_acknowledged = true;
        let mut reader = Reader::new(body);
        if !self.is_end && skip_properties(&mut reader, level).is_some() {
            self.granted = reader.u8();
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let texts = self.topics.iter().map(String::capacity).sum::<usize>();
        self.topics.capacity() * size_of::<String>() + texts + self.qos.capacity()
    }
}

session_fields! { Subscribed;
    "mqtt_subscribe.action" [] action: Text in ACTION_WORDS, "The change: MQTT::SUBSCRIBE, MQTT::UNSUBSCRIBE" => |s| text(Some(ACTIONS[usize::from(s.change.is_end)]));
    "mqtt_subscribe.topics" [] topics: Texts, "Topics, or patterns of topics" => |s| texts(&s.change.topics);
    "mqtt_subscribe.qos_levels" [] qos_levels: Numbers, "Quality of service that the client requests for each topic: 0 to 2" => |s| numbers(&s.change.qos);
    "mqtt_subscribe.granted_qos_level" [] granted_qos_level: Unsigned, "Quality of service that the server granted for the first topic; 128 and more: refused" => |s| unsigned(s.change.granted);
    "mqtt_subscribe.ack" [] ack: Bool, "Whether the server acknowledged the change" => |s| Value::Bool(s.change.is_acknowledged);
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    /// Capture time of the request.
    pub time: Timestamp,
    /// The change.
    pub change: MqttSubscription,
}

impl Session for Subscribed {
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

/// The change of subscriptions of a session; none of the session of a connection.
fn of_mqtt(session: &dyn Session) -> Vec<Box<dyn Session>> {
    match session.as_any().downcast_ref() {
        Some(MqttExchange { connection, part: MqttPart::Subscription(change) }) => {
            vec![Box::new(Subscribed { time: connection.time, change: change.clone() })]
        }
        _ => vec![],
    }
}

//! [`MqttExchange`]: a published message, or a change of subscriptions, once it is complete.

use super::connection::{FIELDS, MqttConnection, value};
use super::publish::MqttPublish;
use super::subscription::MqttSubscription;
use crate::Session;
use crate::pairing::Held;
use std::any::Any;
use std::sync::Arc;
use weir_packet::{Direction, Timestamp, Value};

/// A published message, or a change of subscriptions: a session of its own, because connections last long.
/// It has no row in the log of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttExchange {
    /// The connection as far as this exchange shows it: the client, and the topics of this exchange. Fields
    /// of filters read it.
    pub connection: MqttConnection,
    /// The exchange.
    pub part: MqttPart,
}

/// The kind of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MqttPart {
    /// A published message.
    Publish(MqttPublish),
    /// A change of subscriptions.
    Subscription(MqttSubscription),
}

impl MqttExchange {
    /// An exchange of a connection, at `time`.
    pub(super) fn of(connection: &MqttConnection, time: Timestamp, part: MqttPart) -> Box<Self> {
        let MqttConnection { client, about, reason, .. } = connection;
        let new = MqttConnection::new(time, *client);
        let mut connection = MqttConnection { about: Arc::clone(about), reason: *reason, ..new };
        match &part {
            MqttPart::Publish(publish) => {
                connection.topics.extend(Some(&publish.topic).filter(|topic| !topic.is_empty()).cloned());
            }
            MqttPart::Subscription(change) if !change.is_end => {
                connection.subscriptions.clone_from(&change.topics);
            }
            MqttPart::Subscription(_) => {}
        }
        Box::new(Self { connection, part })
    }
}

impl Session for MqttExchange {
    /// Totals are those of the whole connection.
    fn value(&self, index: usize) -> Value<'_> {
        match FIELDS.get(index).map(|field| field.name) {
            Some("mqtt.client_publishes" | "mqtt.server_publishes") => Value::Absent,
            _ => value(&self.connection, index),
        }
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.connection.time)
    }

    fn has_row(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An exchange that waits for its acknowledgement.
#[derive(Debug)]
pub(super) struct Pending {
    /// The sender of the request.
    pub(super) from: Direction,
    /// Packet identifier.
    pub(super) number: u16,
    pub(super) exchange: Box<MqttExchange>,
}

impl Pending {
    /// The message, if a PUBLISH of `from` with this number waits.
    pub(super) fn publish(&mut self, from: Direction, number: u16) -> Option<&mut MqttPublish> {
        let is_it = self.is_publish(from, number);
        match &mut self.exchange.part {
            MqttPart::Publish(publish) if is_it => Some(publish),
            _ => None,
        }
    }

    /// Whether a PUBLISH of `from` with this number waits.
    pub(super) fn is_publish(&self, from: Direction, number: u16) -> bool {
        let is_publish = matches!(self.exchange.part, MqttPart::Publish(_));
        is_publish && (self.from, self.number) == (from, number)
    }

    /// Whether a SUBSCRIBE, or with `is_end` an UNSUBSCRIBE, of `from` with this number waits.
    pub(super) fn is_subscription(&self, from: Direction, number: u16, is_end: bool) -> bool {
        let is_it = (self.from, self.number) == (from, number);
        matches!(&self.exchange.part, MqttPart::Subscription(change) if is_it && change.is_end == is_end)
    }
}

impl Held for Pending {
    /// Without the client, which the connection holds.
    fn held_bytes(&self) -> usize {
        let MqttExchange { connection, part } = &*self.exchange;
        let topics = connection.topics.iter().chain(&connection.subscriptions);
        let part = match part {
            MqttPart::Publish(publish) => publish.held_bytes(),
            MqttPart::Subscription(subscription) => subscription.held_bytes(),
        };
        size_of::<Self>() + size_of::<MqttExchange>() + topics.map(String::capacity).sum::<usize>() + part
    }
}

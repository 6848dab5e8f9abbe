//! MQTT (3.1, 3.1.1, 5): one [`MqttConnection`] per connection, with the client and the topics of published
//! messages; and one [`MqttExchange`] for each message and each change of subscriptions, once it is complete.
//!
//! | file | what it does |
//! |---|---|
//! | `connection` | the connection, its fields, and how numbers are written |
//! | `exchange` | the sessions of messages and subscriptions, and those that wait for acknowledgements |
//! | `publish` | messages, and mqtt_publish.log |
//! | `subscription` | changes of subscriptions, and mqtt_subscribe.log |

mod connection;
mod exchange;
pub(crate) mod publish;
pub(crate) mod subscription;
#[cfg(test)]
mod tests;

pub use connection::{MqttClient, MqttConnection, TOPICS_MAX};
pub use exchange::{MqttExchange, MqttPart};
pub use publish::{MqttProgress, MqttPublish, Published};
pub use subscription::{MqttSubscription, Subscribed};

use crate::frames::{Frame, Frames, Head, Next};
use crate::line::{note, text as lossy};
use crate::pairing::Waiting;
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use connection::{FIELDS, TEXT_BYTES_MAX, read_length};
use exchange::Pending;
use std::sync::Arc;
use weir_packet::Timestamp;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "mqtt",
    service: "mqtt",
    log: "mqtt_connect",
    transports: &["tcp"],
    ports: &[1883],
    hands_over: &[],
    doc: "MQTT connections: client, and published topics (MQTT 3.1.1, 5)",
    probe,
    may_begin,
    open: |_| Box::new(MqttParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "client_id", "connect_status", "proto_version", "will_topic"],
    fields: FIELDS,
};

/// The type of CONNECT.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte == 0x10),
        _ => ByteSet::ALL,
    }
}

/// Maximum bytes kept of a packet.
pub const PACKET_BYTES_MAX: usize = 4096;

/// Maximum number of messages and changes of subscriptions that wait for acknowledgements.
pub const WAITING_MAX: usize = 64;

/// Maximum number of bytes that they hold.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Measures a packet by its type and its length (§2.2).
fn measure(bytes: &[u8]) -> Head {
    let Some((kind, rest)) = bytes.split_first() else { return Head::Short };
    let is_kind = match (kind >> 4, kind & 15) {
        (3, flags) => flags & 6 != 6,
        // In version 3.1 retransmissions of these packets have the DUP flag.
        (6 | 8 | 10, flags) => flags & 0b0111 == 2,
        (kind, flags) => kind != 0 && flags == 0,
    };
    match read_length(rest) {
        _ if !is_kind => Head::Wrong,
        Some((length, digits)) => Head::Bytes(1 + digits as u64 + length),
        None if rest.len() < 4 => Head::Short,
        None => Head::Wrong,
    }
}

/// Detects a CONNECT from either side by the protocol name in it.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| {
        let begins = |rest: &[u8], name: &[u8]| {
            let found = Probe::of_word(rest, name);
            (found != Probe::NotForUs).then_some(found)
        };
        match bytes {
            [] | [0x10] => Probe::Unsure,
            [0x10, rest @ ..] => match read_length(rest) {
                Some((12.., digits)) => {
                    let body = &rest[digits..];
                    begins(body, b"\0\x04MQTT").or(begins(body, b"\0\x06MQIsdp")).unwrap_or(Probe::NotForUs)
                }
                None if rest.len() < 4 => Probe::Unsure,
                _ => Probe::NotForUs,
            },
            _ => Probe::NotForUs,
        }
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct MqttParser {
    sides: [Frames; 2],
    connection: Option<Box<MqttConnection>>,
    waiting: Waiting<Pending, WAITING_MAX, WAITING_BYTES_MAX>,
    cut_off: CutOff,
}

impl SessionParser for MqttParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            match self.sides[data.from as usize].next(&mut rest, data.time, PACKET_BYTES_MAX, measure) {
                Next::Frame(frame) => self.take_packet(data.from, &frame, sessions),
                Next::More => return Progress::Wanted,
                Next::Lost if self.sides.iter().all(Frames::is_lost) => {
                    self.finish(sessions);
                    return Progress::Done;
                }
                Next::Lost => return Progress::Wanted,
            }
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        self.sides[from as usize].lose(length_bytes);
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.waiting.take_all().map(|pending| pending.exchange as Box<dyn Session>));
        sessions.extend(self.connection.take().map(|connection| connection as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { parts: self.cut_off.parts + self.waiting.evicted(), ..self.cut_off }
    }
}

impl MqttParser {
    fn take_packet(&mut self, from: Direction, frame: &Frame<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        let kind = frame.bytes[0] >> 4;
        let Some((body_bytes, digits)) = read_length(&frame.bytes[1..]) else { return };
        let body = &frame.bytes[1 + digits..];
        // These packets tell which side is the client; otherwise the originator counts as the client.
        let client = match kind {
            1 | 8 | 10 | 12 => from,
            2 | 9 | 11 | 13 => from.other(),
            _ => Direction::Originator,
        };
        let connection =
            self.connection.get_or_insert_with(|| Box::new(MqttConnection::new(frame.time, client)));
        // A truncated PUBLISH lacks only payload, of which less is kept; other truncated packets are counted.
        self.cut_off.parts += u64::from(kind != 3 && frame.length_bytes > PACKET_BYTES_MAX as u64);
        match kind {
            1 if connection.about.protocol.is_none() => {
                connection.client = from;
                let _ = Arc::make_mut(&mut connection.about).take_connect(body);
            }
            2 => connection.reason = connection.reason.or(body.get(1).copied()),
            3 => {
                connection.published[usize::from(connection.client != from)] += 1;
                if let Some(topic) = Reader::new(body).vector16().filter(|topic| !topic.is_empty()) {
                    let has_room = connection.topics.len() < TOPICS_MAX;
                    let topic = lossy(topic, TEXT_BYTES_MAX);
                    self.cut_off.parts += u64::from(!has_room && !connection.topics.contains(&topic));
                    note(&mut connection.topics, topic, TOPICS_MAX);
                }
                self.take_publish(from, frame, (body, body_bytes), sessions);
            }
            4..=7 => self.take_acknowledged_publish(from, kind, body, sessions),
            8 | 10 => self.take_subscription(from, kind == 10, frame.time, body, sessions),
            9 | 11 => self.take_acknowledged_subscription(from, kind == 11, body, sessions),
            _ => {}
        }
    }

    /// Takes PUBLISH. Without acknowledgement, the message is complete.
    fn take_publish(
        &mut self,
        from: Direction,
        frame: &Frame<'_>,
        (body, body_bytes): (&[u8], u64),
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        const DUP: u8 = 8;
        let Some(connection) = &self.connection else { return };
        let (flags, is_from_client) = (frame.bytes[0], connection.client == from);
        let parsed = MqttPublish::parse(flags, body, body_bytes, connection.level(), is_from_client);
        let Some((publish, number)) = parsed else { return };
        // A retransmission belongs to the exchange that waits.
        let is_again = number.is_some_and(|number| {
            flags & DUP != 0 && self.waiting.find(|waiting| waiting.is_publish(from, number)).is_some()
        });
        if is_again {
            return;
        }
        let exchange = MqttExchange::of(connection, frame.time, MqttPart::Publish(publish));
        match number {
            Some(number) => self.wait(Pending { from, number, exchange }, sessions),
            None => sessions.push(exchange),
        }
    }

    /// Takes an acknowledgement of a message, or the release of its packet identifier by the sender (PUBREL).
    fn take_acknowledged_publish(
        &mut self,
        from: Direction,
        kind: u8,
        body: &[u8],
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        const RELEASE: u8 = 6;
        let Some(number) = Reader::new(body).u16() else { return };
        // Only version 5 has reason codes; those of errors are 128 and more.
        let is_refused = body.get(2).is_some_and(|reason| *reason >= 0x80);
        let sender = if kind == RELEASE { from } else { from.other() };
        let is_over = |waiting: &mut Pending| {
            waiting
                .publish(sender, number)
                .is_some_and(|publish| publish.take_acknowledgement(kind, is_refused))
        };
        let found = self.waiting.find(|waiting| waiting.is_publish(sender, number));
        if found.is_some_and(is_over) {
            let over = self.waiting.take(|waiting| waiting.is_publish(sender, number));
            sessions.extend(over.map(|over| over.exchange as Box<dyn Session>));
        }
    }

    /// Takes SUBSCRIBE or UNSUBSCRIBE.
    fn take_subscription(
        &mut self,
        from: Direction,
        is_end: bool,
        time: Timestamp,
        body: &[u8],
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        let Some(connection) = &mut self.connection else { return };
        let parsed = MqttSubscription::parse(is_end, body, connection.level());
        let Some((change, number, cut)) = parsed else { return };
        self.cut_off.parts += cut;
        if !is_end {
            change.topics.iter().for_each(|topic| {
                note(&mut connection.subscriptions, topic.clone(), TOPICS_MAX);
            });
        }
        let exchange = MqttExchange::of(connection, time, MqttPart::Subscription(change));
        self.wait(Pending { from, number, exchange }, sessions);
    }

    /// Takes SUBACK or UNSUBACK.
    fn take_acknowledged_subscription(
        &mut self,
        from: Direction,
        is_end: bool,
        body: &[u8],
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        let Some((number, body)) = body.split_first_chunk() else { return };
        let (number, level) = (
            u16::from_be_bytes(*number),
            self.connection.as_ref().map_or(4, |connection| connection.level()),
        );
        let is_it = |waiting: &Pending| waiting.is_subscription(from.other(), number, is_end);
        let Some(mut over) = self.waiting.take(is_it) else { return };
        if let MqttPart::Subscription(change) = &mut over.exchange.part {
            change.take_acknowledgement(body, level);
        }
        sessions.push(over.exchange);
    }

    /// Appends an exchange to those that wait. An earlier one with its packet identifier is given up.
    fn wait(&mut self, pending: Pending, sessions: &mut Vec<Box<dyn Session>>) {
        let (from, number) = (pending.from, pending.number);
        let before = self.waiting.take(|waiting| (waiting.from, waiting.number) == (from, number));
        sessions.extend(before.map(|before| before.exchange as Box<dyn Session>));
        self.waiting.push(pending, |oldest| sessions.push(oldest.exchange));
    }
}

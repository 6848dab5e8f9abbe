//! A topic as a peer: [`Kafka`].
//!
//! The producer of librdkafka is idempotent: it repeats what a broker has not acknowledged, also over new
//! connections and for as long as it takes, and the broker stores each message once. So a connection of the
//! link lasts while brokers go and come; it fails if a message is refused for good. Messages behind a refused
//! one may then be stored already: the next connection does not send those again.
//!
//! A process that is killed with a spool sends the messages again that it did not know to be stored, and
//! another producer's messages are new ones to the broker. Their headers `run` and `sequence` identify them.

use super::context::{Report, Reports};
use crate::batches::Batch;
use crate::carrier::{Connection, Interruption, Peer, Standing};
use crate::message::Message;
use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// Messages and bytes that are taken and not acknowledged, at most.
const IN_FLIGHT_MAX: usize = 64;
/// Likewise, in bytes.
const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;
/// How long librdkafka is asked for reports.
const POLL_WAIT: Duration = Duration::from_millis(1);
/// After a refusal, how long the other messages are waited for.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// How often, and how long, a cluster is asked whether it is back.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_MAX: Duration = Duration::from_millis(500);

/// Settings of the producer. Messages never expire: the queue of the link decides what is lost.
const SETTINGS: &[(&str, &str)] = &[
    ("client.id", "weir"),
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("message.timeout.ms", "0"),
    ("compression.type", "lz4"),
    // Partitions as Java's producers choose them.
    ("partitioner", "murmur2_random"),
    // An unknown topic is an error after this time; a new one may take a while.
    ("topic.metadata.propagation.max.ms", "5000"),
    ("reconnect.backoff.max.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    ("log_level", "0"),
];

/// A topic, and where to find its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Brokers as `HOST:PORT`, separated by commas. The others are found through them.
    pub brokers: String,
    /// The name of the topic.
    pub name: String,
}

/// A receiver of batches.
pub struct Kafka {
    topic: Topic,
    /// Messages that are stored, although earlier ones of the queue are not.
    stored: BTreeSet<Id>,
}

/// The run and the number of a batch.
type Id = (String, u64);

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kafka").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Kafka {
    /// A topic.
    pub fn new(topic: Topic) -> Self {
        Self { topic, stored: BTreeSet::new() }
    }
}

impl Peer for Kafka {
    fn connect(&mut self) -> Result<Box<dyn Connection + '_>, Interruption> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.topic.brokers);
        for (name, value) in SETTINGS {
            config.set(*name, *value);
        }
        let reports = Reports::default();
        let producer = config
            .create_with_context(reports.clone())
            .map_err(|error| Interruption::Refusal(error.to_string()))?;
        Ok(Box::new(Producing {
            topic: &self.topic.name,
            stored: &mut self.stored,
            producer,
            reports,
            messages: VecDeque::new(),
            first: 0,
            bytes: 0,
            failure: None,
            standing: Standing::Unknown,
            is_interrupted: false,
            probed: Instant::now(),
        }))
    }
}

/// A message that was taken.
struct Taken {
    id: Id,
    bytes: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sent,
    Stored,
    Refused,
}

/// The producer, and its messages.
struct Producing<'p> {
    topic: &'p str,
    stored: &'p mut BTreeSet<Id>,
    producer: BaseProducer<Reports>,
    reports: Reports,
    /// The messages that are not acknowledged; `first` is the number of the first one.
    messages: VecDeque<Taken>,
    first: usize,
    /// Bytes of these messages.
    bytes: usize,
    /// Why no further messages are sent, and since when.
    failure: Option<(String, Instant)>,
    standing: Standing,
    is_interrupted: bool,
    probed: Instant,
}

impl Producing<'_> {
    /// Gives a batch to librdkafka, which has room for more than are ever in flight.
    fn send(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        let (number, labels) = (batch.number.to_string(), &batch.labels);
        let values = [
            ("sensor", labels.sensor.as_str()),
            ("log", &labels.log),
            ("run", &labels.run),
            ("sequence", &number),
            ("rows", &batch.rows.to_string()),
            ("content-type", "application/vnd.apache.arrow.stream"),
        ];
        let headers = values.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(*value) })
        });
        let opaque = self.first + self.messages.len();
        let record = BaseRecord::with_opaque_to(self.topic, opaque)
            .key(labels.sensor.as_str())
            .payload(batch.arrow)
            .headers(headers);
        self.producer.send(record).map_err(|(error, _)| match error.rdkafka_error_code() {
            Some(code) => self.explained(code),
            None => error.to_string(),
        })
    }

    /// An error with its remedy.
    fn explained(&self, code: Code) -> String {
        let topic = self.topic;
        match code {
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
                format!("there is no topic `{topic}`: create it (kafka-topics.sh --create --topic {topic})")
            }
            Code::MessageSizeTooLarge => {
                format!(
                    "a message is too long for the topic `{topic}`: raise its max.message.bytes to 1048588"
                )
            }
            Code::TopicAuthorizationFailed => format!("no right to write to the topic `{topic}`: add an ACL"),
            code => code.to_string(),
        }
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert((why, Instant::now()));
    }

    fn settle(&mut self, number: usize, settled: Result<(), Code>) {
        let at = number.checked_sub(self.first);
        let Some(message) = at.and_then(|at| self.messages.get_mut(at)) else { return };
        match settled {
            Ok(()) => {
                message.state = State::Stored;
                self.accept();
            }
            Err(code) => {
                message.state = State::Refused;
                // Messages that librdkafka gives up after a fatal error do not say which one.
                let why = match self.producer.client().fatal_error() {
                    Some((code, why)) => format!("{why} ({code})"),
                    None => self.explained(code),
                };
                self.fail(why);
            }
        }
    }

    /// The topic accepts messages. A producer with a refused message ends, whatever else the topic accepts.
    fn accept(&mut self) {
        if self.failure.is_some() {
            return;
        }
        (self.standing, self.is_interrupted) = (Standing::Accepting, false);
    }

    /// Asks whether the cluster is back.
    fn probe(&mut self) {
        if self.is_interrupted && self.probed.elapsed() >= PROBE_INTERVAL {
            if self.producer.client().fetch_metadata(Some(self.topic), PROBE_MAX).is_ok() {
                self.accept();
            }
            self.probed = Instant::now();
        }
    }
}

impl Connection for Producing<'_> {
    fn has_room(&self) -> bool {
        self.failure.is_none() && self.messages.len() < IN_FLIGHT_MAX && self.bytes < IN_FLIGHT_BYTES_MAX
    }

    fn take(&mut self, message: &Message) -> bool {
        let (id, sent) = match Batch::of(message) {
            Some(batch) => {
                let id = (batch.labels.run.clone(), batch.number);
                let sent = match self.stored.remove(&id) {
                    true => Ok(State::Stored),
                    false => self.send(&batch).map(|()| State::Sent),
                };
                (id, sent)
            }
            None => {
                let why = "the spool has rows for a receiver of another kind: give --spool another directory";
                ((String::new(), 0), Err(why.to_string()))
            }
        };
        let state = sent.unwrap_or_else(|why| {
            self.fail(why);
            State::Refused
        });
        self.bytes += message.bytes.len();
        self.messages.push_back(Taken { id, bytes: message.bytes.len(), state });
        true
    }

    fn work(&mut self, _: u64) -> Result<(), Interruption> {
        self.producer.poll(POLL_WAIT);
        for report in self.reports.take() {
            match report {
                Report::Settled(number, settled) => self.settle(number, settled),
                Report::Interrupted(why) => {
                    self.is_interrupted = true;
                    self.standing = Standing::Interrupted(Interruption::Connection(io::Error::other(why)));
                }
            }
        }
        self.probe();
        let Some((why, since)) = &self.failure else { return Ok(()) };
        let has_sent = self.messages.iter().any(|message| message.state == State::Sent);
        match has_sent && since.elapsed() < SETTLE_MAX {
            true => Ok(()),
            false => Err(Interruption::Refusal(why.clone())),
        }
    }

    fn acknowledged(&mut self) -> usize {
        let count = self.messages.iter().take_while(|message| message.state == State::Stored).count();
        self.messages.drain(..count).for_each(|message| self.bytes -= message.bytes);
        self.first += count;
        count
    }

    fn standing(&mut self) -> Standing {
        std::mem::replace(&mut self.standing, Standing::Unknown)
    }

    fn end(&mut self, _: u64) {}
}

impl Drop for Producing<'_> {
    /// Remembers the messages that are stored although earlier ones are not.
    fn drop(&mut self) {
        let stored = self.messages.drain(..).filter(|message| message.state == State::Stored);
        self.stored.extend(stored.map(|message| message.id));
    }
}

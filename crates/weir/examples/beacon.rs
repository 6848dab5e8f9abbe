//! A session protocol outside of Weir: the check-ins of "beacon", an invented remote control over TCP. The
//! program registers a parser. Filters then know `beacon` and its fields, its sessions have rows and a log,
//! and callbacks receive them as a type.
//!
//! A check-in consists of a request from the controlled machine and the answer of its controller:
//!
//! ```text
//! request:  "BCN1"  length of name: 1 byte   name of the machine   sequence number: 4 bytes, big-endian
//! answer:   "BCN1"  length of command: 1 byte   command
//! ```
//!
//! `cargo run --example beacon -- capture.pcap [FILTER]` prints the log as JSON, then each machine that
//! received a command.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use weir::packet::{RowSink, Timestamp, Value, ValueType};
use weir::sessions::{
    ByteSet, Context, CutOff, Data, Direction, Field, FirstPlace, Opening, Probe, Progress, Session,
    SessionParser, SessionProtocol, SessionType, Setting,
};
use weir::{Ask, Engine, Flow, Item, Log, Need, Next, Question, RunEnd, TakeItems, Want};

const MAGIC: &[u8] = b"BCN1";

/// A check-in.
#[derive(Debug)]
struct CheckIn {
    time: Timestamp,
    machine: String,
    sequence: u32,
    /// The command in the answer; `None` if the connection ended before the answer.
    command: Option<String>,
}

impl Session for CheckIn {
    /// The value of the field at this index of [`FIELDS`](SessionType::FIELDS).
    fn value(&self, index: usize) -> Value<'_> {
        match index {
            0 => Value::Text(Cow::Borrowed(&self.machine)),
            1 => Value::Unsigned(self.sequence.into()),
            2 => self.command.as_deref().map_or(Value::Absent, |command| Value::Text(command.into())),
            _ => Value::Absent,
        }
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl SessionType for CheckIn {
    const FIELDS: &'static [Field] = &[
        field("beacon.machine", "machine", ValueType::Text, "Name of the machine that checks in"),
        field("beacon.sequence", "sequence", ValueType::Unsigned, "Number of the check-in"),
        field("beacon.command", "command", ValueType::Text, "Command of the controller"),
    ];
}

const fn field(name: &'static str, column: &'static str, value_type: ValueType, doc: &'static str) -> Field {
    Field { name, aliases: &[], column, value_type, doc, words: None }
}

static BEACON: SessionProtocol = SessionProtocol {
    name: "beacon",
    service: "beacon",
    log: "beacon",
    doc: "Check-ins of a made-up remote control",
    transports: &["tcp"],
    ports: &[],
    hands_over: &[],
    probe,
    may_begin,
    open: |context| Box::new(BeaconParser::new(context)),
    carrier: None,
    settings: &[WAITING_MAX],
    brief: &[],
    fields: CheckIn::FIELDS,
};

/// Both directions begin with the same word.
fn probe(opening: &Opening<'_>) -> Probe {
    let first = if opening.originator.is_empty() { opening.responder } else { opening.originator };
    Probe::of_word(first, MAGIC)
}

/// The probe is not called for connections with other first bytes.
fn may_begin(place: FirstPlace) -> ByteSet {
    MAGIC.get(place.at).map_or(ByteSet::ALL, |&expected| ByteSet::of(|byte| byte == expected))
}

/// Maximum number of check-ins that wait for their answers: `engine.configure("beacon.waiting_max", 4)`.
const WAITING_MAX: Setting =
    Setting { name: "beacon.waiting_max", default: 16, doc: "Check-ins that may wait for their answers" };

/// Parses one connection.
struct BeaconParser {
    /// The incomplete message of each direction, at most one message after each call.
    bytes: [Vec<u8>; 2],
    /// Requests without an answer so far.
    waiting: VecDeque<CheckIn>,
    waiting_max: u64,
    /// The number of pending answers whose requests no longer wait.
    answers_missed: u64,
    cut_off: CutOff,
}

/// The next message of a direction: its name or command, and the bytes after the message. `None` if more
/// bytes are needed.
type Message<'a> = Result<Option<(&'a [u8], &'a [u8])>, NotBeacon>;

/// The bytes are not of this protocol.
struct NotBeacon;

fn message(bytes: &[u8]) -> Message<'_> {
    let Some((magic, rest)) = bytes.split_at_checked(MAGIC.len()) else { return Ok(None) };
    if magic != MAGIC {
        return Err(NotBeacon);
    }
    let text = rest.split_first().and_then(|(length, rest)| rest.split_at_checked((*length).into()));
    Ok(text)
}

impl BeaconParser {
    fn new(context: &Context<'_>) -> Self {
        let waiting_max = context.number(&WAITING_MAX);
        Self {
            bytes: [vec![], vec![]],
            waiting: VecDeque::new(),
            waiting_max: waiting_max.max(1),
            answers_missed: 0,
            cut_off: CutOff::default(),
        }
    }

    /// Parses the complete messages of one direction.
    fn messages(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Result<(), NotBeacon> {
        let bytes = std::mem::take(&mut self.bytes[data.from as usize]);
        let mut left = bytes.as_slice();
        while let Some((text, rest)) = message(left)? {
            let text = String::from_utf8_lossy(text).into_owned();
            left = match data.from {
                Direction::Originator => {
                    let Some((number, rest)) = rest.split_first_chunk() else { break };
                    let sequence = u32::from_be_bytes(*number);
                    let request = CheckIn { time: data.time, machine: text, sequence, command: None };
                    if self.waiting.len() as u64 >= self.waiting_max {
                        // The oldest check-in is reported without its answer. That answer must not be
                        // assigned to another request.
                        self.cut_off.parts += 1;
                        self.answers_missed += 1;
                        let oldest = self.waiting.pop_front();
                        sessions.extend(oldest.map(|request| Box::new(request) as Box<dyn Session>));
                    }
                    self.waiting.push_back(request);
                    rest
                }
                Direction::Responder => {
                    if self.answers_missed > 0 {
                        self.answers_missed -= 1;
                    } else if let Some(request) = self.waiting.pop_front() {
                        sessions.push(Box::new(CheckIn { command: Some(text), ..request }));
                    }
                    rest
                }
            };
        }
        self.bytes[data.from as usize] = left.to_vec();
        Ok(())
    }
}

impl SessionParser for BeaconParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        self.bytes[data.from as usize].extend_from_slice(data.bytes);
        match self.messages(data, sessions) {
            Ok(()) => Progress::Wanted,
            Err(NotBeacon) => {
                self.finish(sessions);
                Progress::Done
            }
        }
    }

    /// Messages have no marker that would allow to continue after missing bytes, so parsing ends.
    fn gap(&mut self, _: Direction, _: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        self.finish(sessions);
        Progress::Done
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.waiting.drain(..).map(|request| Box::new(request) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

/// Writes the rows of a log.
struct Rows(Box<dyn RowSink>);

impl TakeItems for Rows {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        match item {
            Item::Rows(rows) if self.0.rows(rows.batch, rows.range.clone()).is_err() => Next::End,
            _ => Next::Go,
        }
    }

    fn finish(&mut self, _: Option<RunEnd<'_>>) {
        // A closed pipe is not an error.
        let _ = self.0.end();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let capture = args.next().ok_or("which capture?")?;
    let filter = args.next().unwrap_or_default();
    let mut told = BTreeSet::new();
    let mut engine = Engine::new();
    engine.register(&BEACON)?;

    // The rows of the log.
    let log = Log::of(engine.compiler().sessions(), "beacon").ok_or("it was registered")?;
    let out = Box::new(std::io::stdout());
    let mut sink = weir::io::sink::create(weir::io::Format::Json, out, &weir::io::Options::default());
    sink.begin(&log.columns())?;
    let ask = Ask { filter, need: Need::default(), want: Want::Sessions(log.asked()) };
    engine.subscribe_questions(vec![Question::new(ask, log.shape())], Rows(sink))?;

    // The sessions as values of their type.
    engine.subscribe("beacon.command != \"sleep\"", |flow: &Flow, check_in: &CheckIn| {
        let command = check_in.command.clone().unwrap_or_default();
        told.insert((check_in.machine.clone(), flow.resp.0, command));
    })?;
    engine.read([capture])?;
    drop(engine);
    for (machine, controller, command) in told {
        println!("{machine} was told by {controller}: {command}");
    }
    Ok(())
}

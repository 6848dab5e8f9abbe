//! For fuzzers and tests: a conversation between two endpoints, written as text or as commands of one byte.
//! [`run`] runs any registered session parser on a conversation and asserts the properties that every parser
//! must have.
//!
//! A conversation as text, a seed of `corpus/PROTOCOL/NAME.talk`:
//!
//! ```text
//! # A comment.
//! > "GET / HTTP/1.1\r\n"        sent by the originator: quoted text, with \r \n \t \\ \" \x00 …
//!   "Host: x\r\n\r\n" 0d0a      continued on lines without `>` or `<`; hexadecimal digits are bytes
//! < gap 100                     a hundred bytes of the responder are missing
//! datagrams                     a line of its own: each segment is a datagram
//! ```

use std::fmt;
use weir_packet::{Timestamp, Value, ValueType};
use weir_sessions::{Data, Direction, Field, Opening, PartLog, Progress, Session, SessionProtocol};

/// Maximum number of bytes that a parser and its sessions may hold, in programs whose allocator
/// [counts](weir_memory::is_counting). Far above the needs of any parser.
pub const HELD_BYTES_MAX: isize = 1 << 20;

/// Time between two steps of a conversation.
const STEP_NS: i64 = 1_000_000;

/// Bytes of a segment on one line of the text form.
const LINE_BYTES: usize = 48;

/// Maximum of the six bits of a command.
const CODE_MAX: u8 = 63;

/// Maximum length of a datagram in commands.
const DATAGRAM_BYTES_MAX: usize = (CODE_MAX as usize) << 8 | 0xff;

/// Code of a command up to which it is the number of lost bytes itself.
const LOST_EXACT_MAX: u8 = 32;

/// The number of lost bytes that a command's code means.
fn lost_bytes(code: u8) -> u64 {
    if code <= LOST_EXACT_MAX { u64::from(code) } else { 1 << (code - LOST_EXACT_MAX + 5) }
}

/// The largest code that means at most `bytes` lost bytes.
fn lost_code(bytes: u64) -> u8 {
    (0..=CODE_MAX).rev().find(|code| lost_bytes(*code) <= bytes).unwrap_or_default()
}

/// The kinds of transports that a protocol runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transports {
    Streams,
    Datagrams,
    Both,
}

fn transports(protocol: &SessionProtocol) -> Transports {
    match protocol.transports {
        ["tcp"] => Transports::Streams,
        transports if transports.contains(&"tcp") => Transports::Both,
        _ => Transports::Datagrams,
    }
}

/// The action of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It sends these bytes in one segment or datagram.
    Send(Vec<u8>),
    /// This number of its bytes is missing from the capture.
    Lose(u64),
}

/// One step of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The sender.
    pub from: Direction,
    /// Capture time.
    pub time: Timestamp,
    /// The action.
    pub act: Act,
}

/// The bytes that two endpoints send to each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// Whether each step is a datagram.
    pub is_datagram: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// The output of a parser for a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The values of all fields of each session, and its time.
    pub sessions: Vec<String>,
    /// If the parser handed over to another protocol: the sender of the current bytes, and the number of that
    /// sender's bytes that the parser consumed.
    pub handed_over: Option<(Direction, u64)>,
}

impl Conversation {
    /// Reads the text form. Unknown text is ignored, so every text is valid.
    pub fn parse(text: &str) -> Self {
        let mut conversation = Self::default();
        for line in text.lines().map(str::trim) {
            let from = match line.as_bytes().first() {
                Some(b'#') => continue,
                Some(b'>') => Some(Direction::Originator),
                Some(b'<') => Some(Direction::Responder),
                _ => None,
            };
            if line == "datagrams" {
                conversation.is_datagram = true;
                continue;
            }
            let content = if from.is_some() { line[1..].trim() } else { line };
            if let Some(from) = from {
                let lost = content.strip_prefix("gap ").and_then(|length| length.trim().parse().ok());
                conversation.push(from, lost.map_or(Act::Send(Vec::new()), Act::Lose));
                if lost.is_some() {
                    continue;
                }
            }
            if let Some(Step { act: Act::Send(bytes), .. }) = conversation.steps.last_mut() {
                read_bytes(content, bytes);
            }
        }
        conversation
    }

    /// Reads a fuzzer's input for a protocol. Bytes that begin with `#` are [text](Self::parse). Others are
    /// [commands](Self::from_commands); for a protocol over streams and datagrams, a byte before them is odd
    /// for datagrams.
    pub fn from_input(protocol: &SessionProtocol, bytes: &[u8]) -> Self {
        match (bytes, transports(protocol)) {
            ([b'#', ..], _) => Self::parse(&String::from_utf8_lossy(bytes)),
            (_, Transports::Streams) => Self::from_commands(bytes, false),
            (_, Transports::Datagrams) => Self::from_commands(bytes, true),
            ([], Transports::Both) => Self::default(),
            ([first, commands @ ..], Transports::Both) => Self::from_commands(commands, first & 1 == 1),
        }
    }

    /// The inverse of [`from_input`](Self::from_input), as commands. Segments of streams are cut at 63 bytes,
    /// datagrams end at 16 383 bytes, and numbers of lost bytes are rounded down to a power of two.
    pub fn to_input(&self, protocol: &SessionProtocol) -> Vec<u8> {
        let is_both = transports(protocol) == Transports::Both;
        let mut input = if is_both { vec![u8::from(self.is_datagram)] } else { Vec::new() };
        let is_datagram = Self::from_input(protocol, &input).is_datagram;
        for Step { from, act, .. } in &self.steps {
            let sender = u8::from(*from == Direction::Responder);
            match act {
                Act::Lose(bytes) => input.push(lost_code(*bytes) << 2 | 2 | sender),
                Act::Send(bytes) if is_datagram => {
                    let length = bytes.len().min(DATAGRAM_BYTES_MAX);
                    input.extend([((length >> 8) as u8) << 2 | sender, length as u8]);
                    input.extend(&bytes[..length]);
                }
                Act::Send(bytes) if bytes.is_empty() => input.push(sender),
                Act::Send(bytes) => {
                    for piece in bytes.chunks(usize::from(CODE_MAX)) {
                        input.push((piece.len() as u8) << 2 | sender);
                        input.extend(piece);
                    }
                }
            }
        }
        // `#` begins a text. Losing no bytes has no effect.
        if input.first() == Some(&b'#') {
            input.insert(0, 2);
        }
        input
    }

    /// Reads commands of one byte: bit 0 selects the sender. If bit 1 is set, bytes are missing: the other
    /// six bits are their number, or above 32 the exponent of a power of two. Otherwise the six bits are the
    /// number of following bytes to send; in datagrams they are the upper bits of that number, and the next
    /// byte has the lower ones.
    pub fn from_commands(bytes: &[u8], is_datagram: bool) -> Self {
        let mut conversation = Self { is_datagram, ..Self::default() };
        let mut rest = bytes;
        while let Some((command, tail)) = rest.split_first() {
            let from = if command & 1 == 0 { Direction::Originator } else { Direction::Responder };
            let code = command >> 2;
            rest = tail;
            if command & 2 != 0 {
                conversation.push(from, Act::Lose(lost_bytes(code)));
                continue;
            }
            let mut length = usize::from(code);
            if is_datagram {
                let Some((low, tail)) = rest.split_first() else { break };
                (length, rest) = (length << 8 | usize::from(*low), tail);
            }
            let (piece, tail) = rest.split_at(length.min(rest.len()));
            rest = tail;
            conversation.push(from, Act::Send(piece.to_vec()));
        }
        conversation
    }

    /// Adds a step, one millisecond after the previous one.
    pub fn push(&mut self, from: Direction, act: Act) {
        let time = self.steps.last().map_or(Timestamp(STEP_NS), |last| Timestamp(last.time.0 + STEP_NS));
        self.steps.push(Step { from, time, act });
    }

    /// The same conversation with its segments cut into pieces. The lengths are used in turn, again and
    /// again. Datagrams stay whole.
    #[must_use]
    pub fn cut(&self, lengths: &[usize]) -> Self {
        let mut lengths = lengths.iter().cycle();
        let mut steps = Vec::new();
        for step in &self.steps {
            match &step.act {
                Act::Send(bytes) if !self.is_datagram => {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let length =
                            lengths.next().map_or(rest.len(), |length| (*length).clamp(1, rest.len()));
                        let (piece, tail) = rest.split_at(length);
                        steps.push(Step { act: Act::Send(piece.to_vec()), ..*step });
                        rest = tail;
                    }
                }
                _ => steps.push(step.clone()),
            }
        }
        Self { is_datagram: self.is_datagram, steps }
    }

    /// The same conversation with the endpoints exchanged.
    #[must_use]
    pub fn turned(&self) -> Self {
        let steps = self.steps.iter().map(|step| Step { from: step.from.other(), ..step.clone() });
        Self { is_datagram: self.is_datagram, steps: steps.collect() }
    }

    /// The bytes that one endpoint sends.
    pub fn bytes_of(&self, from: Direction) -> Vec<u8> {
        let sent = self.steps.iter().filter(|step| step.from == from).filter_map(|step| match &step.act {
            Act::Send(bytes) => Some(&bytes[..]),
            Act::Lose(_) => None,
        });
        sent.flatten().copied().collect()
    }

    /// The steps of one endpoint only.
    #[must_use]
    pub fn one_sided(&self, of: Direction) -> Self {
        let steps = self.steps.iter().filter(|step| step.from == of).cloned();
        Self { is_datagram: self.is_datagram, steps: steps.collect() }
    }
}

/// The text form.
impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_datagram {
            writeln!(f, "datagrams")?;
        }
        for Step { from, act, .. } in &self.steps {
            let sender = if *from == Direction::Originator { '>' } else { '<' };
            match act {
                Act::Lose(bytes) => writeln!(f, "{sender} gap {bytes}")?,
                Act::Send(bytes) if bytes.is_empty() => writeln!(f, "{sender}")?,
                Act::Send(bytes) => {
                    for (index, line) in bytes.chunks(LINE_BYTES).enumerate() {
                        let start = if index == 0 { sender } else { ' ' };
                        writeln!(f, "{start} {}", shown(line))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes on a line of the text form: quoted if most of them are text, else hexadecimal.
fn shown(bytes: &[u8]) -> String {
    let is_text = |byte: &&u8| matches!(byte, b' '..=b'~' | b'\r' | b'\n' | b'\t');
    if bytes.iter().filter(is_text).count() * 4 < bytes.len() * 3 {
        return bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    let letter = |byte: &u8| match byte {
        b'\r' => "\\r".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    format!("\"{}\"", bytes.iter().map(letter).collect::<String>())
}

/// Adds the bytes on a line of the text form to `bytes`.
fn read_bytes(content: &str, bytes: &mut Vec<u8>) {
    let mut letters = content.chars();
    let mut high = None;
    while let Some(letter) = letters.next() {
        match (letter, letter.to_digit(16)) {
            ('"', _) => read_quoted(&mut letters, bytes),
            ('#', _) => break,
            (_, Some(digit)) => match high.take() {
                None => high = Some(digit),
                Some(high) => bytes.push((high << 4 | digit) as u8),
            },
            _ => {}
        }
    }
}

fn read_quoted(letters: &mut std::str::Chars<'_>, bytes: &mut Vec<u8>) {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return,
            '\\' => match letters.next() {
                Some('r') => bytes.push(b'\r'),
                Some('n') => bytes.push(b'\n'),
                Some('t') => bytes.push(b'\t'),
                Some('x') => {
                    let mut digit = || letters.next().and_then(|letter| letter.to_digit(16)).unwrap_or(0);
                    bytes.push((digit() << 4 | digit()) as u8);
                }
                Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
                None => return,
            },
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Runs a protocol's parser on a conversation.
///
/// # Panics
/// If the parser violates its contract: it holds more than [`HELD_BYTES_MAX`], hands over more bytes than it
/// received, or yields a value of another type than its field's.
pub fn run(protocol: &SessionProtocol, conversation: &Conversation) -> Outcome {
    let (sessions, handed_over) = drive(protocol, conversation);
    let sessions = sessions.iter().map(|session| describe(protocol, session.as_ref())).collect();
    Outcome { sessions, handed_over }
}

/// Sessions, and the hand-over to another protocol; see [`Outcome::handed_over`].
type Driven = (Vec<Box<dyn Session>>, Option<(Direction, u64)>);

/// Runs a parser on a conversation.
fn drive(protocol: &SessionProtocol, conversation: &Conversation) -> Driven {
    let before = weir_memory::live_bytes();
    let mut parser = (protocol.open)(&weir_sessions::Context::default());
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    let mut handed_over = None;
    let mut sent_bytes = [0_u64; 2];
    for Step { from, time, act } in &conversation.steps {
        let sent = &mut sent_bytes[*from as usize];
        let (progress, length_bytes) = match act {
            Act::Send(bytes) => {
                let data = Data { from: *from, time: *time, bytes, is_datagram: conversation.is_datagram };
                *sent += bytes.len() as u64;
                (parser.parse(&data, &mut sessions), bytes.len())
            }
            Act::Lose(length_bytes) => {
                *sent = sent.saturating_add(*length_bytes);
                (parser.gap(*from, *length_bytes, &mut sessions), 0)
            }
        };
        let held_bytes = weir_memory::live_bytes() - before;
        assert!(held_bytes < HELD_BYTES_MAX, "{}: memory is bounded", protocol.name);
        match progress {
            Progress::Wanted => continue,
            Progress::Inner => {
                parser.take_inner(&mut vec![]);
                continue;
            }
            Progress::NotMine => {
                assert!(conversation.is_datagram, "{}: of a stream all is its own", protocol.name);
                continue;
            }
            Progress::Done => {}
            Progress::HandOver { rest_bytes } => {
                assert!(rest_bytes <= length_bytes, "{}: hands over what is at hand", protocol.name);
                handed_over = Some((*from, *sent - rest_bytes as u64));
            }
        }
        break;
    }
    parser.finish(&mut sessions);
    let _ = parser.cut_off();
    (sessions, handed_over)
}

/// Runs a protocol's parser on a conversation as text, whole and in single bytes. Returns one row for each
/// session that has one, with the values of the named fields (`-` if absent). If the parser handed over to
/// another protocol, the last row is `over to BYTES`, with the number of bytes that it consumed before.
///
/// # Panics
/// As [`run`]; also if single bytes give other sessions, or a field is unknown.
pub fn rows(protocol: &SessionProtocol, talk: &str, names: &[&str]) -> Vec<String> {
    let conversation = Conversation::parse(talk);
    let outcome = run(protocol, &conversation);
    assert_eq!(run(protocol, &conversation.cut(&[1])), outcome, "in single bytes");
    let (mut sessions, _) = drive(protocol, &conversation);
    sessions.retain(|session| session.has_row());
    let mut rows = rows_of(&sessions, protocol.fields, names);
    rows.extend(outcome.handed_over.map(|(_, taken_bytes)| format!("over to {taken_bytes}")));
    rows
}

/// Runs a protocol's parser on a conversation as text, whole and in single bytes. Returns one row for each
/// part of a session that the log has, in the order of the sessions.
///
/// # Panics
/// As [`rows`]; also if the log has no parts of the protocol.
pub fn part_rows(protocol: &SessionProtocol, log: &PartLog, talk: &str, names: &[&str]) -> Vec<String> {
    let conversation = Conversation::parse(talk);
    let (_, parts_of) = log.of.iter().find(|(of, _)| *of == protocol.name).expect("the log has such parts");
    let of = |conversation: &Conversation| {
        let (sessions, _) = drive(protocol, conversation);
        let parts: Vec<_> = sessions.iter().flat_map(|session| parts_of(session.as_ref())).collect();
        rows_of(&parts, log.fields, names)
    };
    let rows = of(&conversation);
    assert_eq!(of(&conversation.cut(&[1])), rows, "in single bytes");
    rows
}

/// The values of the named fields of each session.
fn rows_of(sessions: &[Box<dyn Session>], fields: &[Field], names: &[&str]) -> Vec<String> {
    let index = |name: &&str| {
        let is_it =
            |field: &Field| field.name == *name || field.column == *name || field.aliases.contains(name);
        fields.iter().position(is_it).unwrap_or_else(|| panic!("no field {name}"))
    };
    let indices: Vec<usize> = names.iter().map(index).collect();
    let row = |session: &dyn Session| {
        let values = indices.iter().map(|index| plain(&session.value(*index)));
        values.collect::<Vec<_>>().join(" | ")
    };
    sessions.iter().map(|session| row(session.as_ref())).collect()
}

/// A value as text for tests: lists are separated by commas, numbers and times are not formatted.
fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Absent => "-".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Unsigned(number) | Value::Interval(number) => number.to_string(),
        Value::Fraction(number) => number.to_string(),
        Value::Time(time) => time.0.to_string(),
        Value::Address(address) => address.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Texts(list) => list.join(","),
        Value::Numbers(list) => list.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::Mac(bytes) => bytes.map(|byte| format!("{byte:02x}")).join(":"),
    }
}

/// The time of a session and all its values that are not absent. Asserts that each value has the type that
/// its field declares.
fn describe(protocol: &SessionProtocol, session: &dyn Session) -> String {
    let mut text = format!("{:?}", session.time());
    for (index, field) in protocol.fields.iter().enumerate() {
        let value = session.value(index);
        assert!(fits(&value, field.value_type), "{}: {value:?} is no {:?}", field.name, field.value_type);
        if value != Value::Absent {
            text.push_str(&format!("; {} = {value:?}", field.name));
        }
    }
    assert_eq!(session.value(protocol.fields.len()), Value::Absent, "beyond the last field there is nothing");
    text
}

fn fits(value: &Value<'_>, value_type: ValueType) -> bool {
    use ValueType as Type;
    match value {
        Value::Absent => true,
        Value::Bool(_) => value_type == Type::Bool,
        Value::Unsigned(_) => value_type == Type::Unsigned,
        Value::Fraction(_) => value_type == Type::Fraction,
        Value::Time(_) => value_type == Type::Time,
        Value::Interval(_) => value_type == Type::Interval,
        Value::Address(address) => {
            value_type == Type::Address
                || value_type == if address.is_ipv4() { Type::Ipv4 } else { Type::Ipv6 }
        }
        Value::Mac(_) => value_type == Type::Mac,
        Value::Text(_) => value_type == Type::Text,
        Value::Bytes(_) => value_type == Type::Bytes,
        Value::Texts(_) => value_type == Type::Texts,
        Value::Numbers(_) => value_type == Type::Numbers,
    }
}

/// Reads any bytes as a [conversation](Conversation::from_input), runs the protocol's probe and parser on it,
/// and asserts the properties of [`run`].
///
/// # Panics
/// As [`run`].
pub fn fuzz_session(protocol: &SessionProtocol, bytes: &[u8]) {
    let conversation = Conversation::from_input(protocol, bytes);
    let is_datagram = conversation.is_datagram;
    let [one, other] = [Direction::Originator, Direction::Responder].map(|from| conversation.bytes_of(from));
    for [originator, responder] in [[&one[..], &other], [&other, &one], [&one, &[]], [&[], &other]] {
        let ports = [bytes.len() as u16, 53];
        let earlier = [
            [&originator[originator.len() / 2..], originator],
            [responder, &responder[..responder.len() / 2]],
        ];
        let _ = (protocol.probe)(&Opening { originator, responder, earlier, ports, is_datagram });
    }
    let outcome = run(protocol, &conversation);
    // Single bytes are the hardest case of segmentation.
    if bytes.len() < 4096 {
        assert_eq!(run(protocol, &conversation.cut(&[1])), outcome, "{}: in single bytes", protocol.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_read_from_text() {
        let text = "# c\n> \"a\\r\\n\\x41\\\"\" 0d0a\n  \"b\" # d\n< gap 7\n>\n";
        let steps = Conversation::parse(text).steps;
        let acts: Vec<_> = steps.iter().map(|step| (step.from, step.act.clone())).collect();
        assert_eq!(
            acts,
            [
                (Direction::Originator, Act::Send(b"a\r\nA\"\r\nb".to_vec())),
                (Direction::Responder, Act::Lose(7)),
                (Direction::Originator, Act::Send(vec![])),
            ]
        );
        assert!(Conversation::parse("datagrams\n> 00").is_datagram);
    }

    #[test]
    fn a_conversation_is_read_from_commands() {
        let acts = |bytes: &[u8], is_datagram| -> Vec<_> {
            let steps = Conversation::from_commands(bytes, is_datagram).steps;
            steps.into_iter().map(|step| (step.from, step.act)).collect()
        };
        assert_eq!(
            acts(&[2 << 2, 7, 8, 1 << 2 | 3, 33 << 2 | 2, 0xfd, 1], false),
            [
                (Direction::Originator, Act::Send(vec![7, 8])),
                (Direction::Responder, Act::Lose(1)),
                (Direction::Originator, Act::Lose(64)),
                (Direction::Responder, Act::Send(vec![1])),
            ]
        );
        assert_eq!(
            acts(&[&[0, 2, 7, 8, 1 << 2 | 1, 1], &[9; 300][..]].concat(), true),
            [
                (Direction::Originator, Act::Send(vec![7, 8])),
                (Direction::Responder, Act::Send(vec![9; 257])),
                (Direction::Responder, Act::Send(vec![9; 41])),
            ]
        );
    }

    #[test]
    fn text_and_commands_are_read_again() {
        let text = "> \"GET /\\x01\\\\\\\" \\r\\n\\x00\\xff\"\n< gap 128\n>\n< 00ff80\n> \"#\"\n> gap 3\n";
        for text in [text.to_owned(), format!("datagrams\n{text}")] {
            let talk = Conversation::parse(&text);
            assert_eq!(talk.to_string(), text);
            for protocol in weir_sessions::SessionRegistry::builtin().protocols() {
                if transports(protocol) == Transports::Both
                    || talk.is_datagram == (transports(protocol) == Transports::Datagrams)
                {
                    let input = talk.to_input(protocol);
                    assert_eq!(Conversation::from_input(protocol, &input), talk, "{}", protocol.name);
                }
            }
        }
    }

    #[test]
    fn cutting_keeps_the_bytes_and_their_times() {
        let conversation = Conversation::parse("> 010203\n< gap 2\n> 04");
        let cut = conversation.cut(&[2, 1]);
        assert_eq!(cut.steps.len(), 4);
        assert_eq!(cut.steps[0].time, cut.steps[1].time);
        assert_eq!(cut.steps[1].act, Act::Send(vec![3]));
    }
}

//! Redis (RESP 2 and 3): one [`RedisCommand`] for each command with its reply. Passwords are left out.
//!
//! Commands are arrays of strings, or lines; replies arrive in the order of the commands. Messages pushed to
//! subscribers are skipped. The parser stops after MONITOR and at the start of replication. No replies are
//! expected for commands that disable them (CLIENT REPLY). An array seen first is taken for a command if its
//! first word may be a command name and it does not come from the server's port; otherwise client and server
//! are unknown, and nothing is yielded.

mod words;

use crate::line::{Lines, text as lossy};
use crate::pairing::{Held, Waiting};
use crate::session::session_fields;
use crate::values::{text, unsigned};
use crate::{
    ByteSet, Context, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol, Setting,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};
use words::KeyPlace;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "redis",
    service: "redis",
    log: "redis",
    transports: &["tcp"],
    ports: &[6379],
    hands_over: &[],
    doc: "Redis: commands with their replies (RESP)",
    probe,
    may_begin,
    open: |context| Box::new(RedisParser::new(context)),
    carrier: None,
    settings: &[TEXT_BYTES_MAX],
    brief: &["ts", "orig", "resp", "cmd.name", "cmd.key", "cmd.value", "success", "reply.value"],
    fields: FIELDS,
};

/// The first byte of a command as an array or a line, or of a reply.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte.is_ascii_graphic()),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of commands of a connection that wait for their replies. Beyond, the oldest is reported
/// without a reply.
pub const WAITING_MAX: usize = 256;

/// Maximum number of bytes kept of a name, a key, a value or a reply.
pub const TEXT_BYTES_MAX: Setting = Setting {
    name: "redis.text_bytes_max",
    default: 256,
    doc: "Maximum number of bytes kept of a name, a key, a value or a reply; at least 16",
};

/// Bytes of the longest word that the parser compares with known words, rounded up.
const WORD_BYTES_MAX: usize = 16;

/// Maximum number of elements of an array, as in servers.
const ELEMENTS_MAX: u64 = 1 << 20;

/// Maximum number of words kept of an inline command.
const INLINE_WORDS_MAX: usize = 16;

/// Longest string, bytes, as in servers.
const STRING_BYTES_MAX: u64 = 512 << 20;

/// A command with its reply, or either alone if the other was not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisCommand {
    /// Capture time of its first byte.
    pub time: Timestamp,
    /// Command name: `SET`.
    pub name: Option<String>,
    /// The first key; the first argument of commands without keys.
    pub key: Option<String>,
    /// The argument behind the key; the script, its digest or the function of EVAL, EVALSHA and FCALL.
    pub value: Option<String>,
    /// Number of arguments.
    pub arguments: u64,
    /// Whether the command succeeded.
    pub is_good: Option<bool>,
    /// The reply: a line, a string, a number, or the number of an array's elements.
    pub reply: Option<String>,
    /// Time from command to reply, nanoseconds.
    pub rtt_ns: Option<u64>,
    /// The next argument is the key.
    is_key_next: bool,
}

impl RedisCommand {
    fn new(time: Timestamp) -> Self {
        Self {
            time,
            name: None,
            key: None,
            value: None,
            arguments: 0,
            is_good: None,
            reply: None,
            rtt_ns: None,
            is_key_next: false,
        }
    }

    fn take_word(&mut self, word: String) {
        if self.name.is_none() {
            self.name = Some(word.to_ascii_uppercase());
            return;
        }
        self.arguments += 1;
        let name = self.name.as_deref().unwrap_or_default();
        let slot = match (words::key_place(name), self.arguments) {
            // The second argument of AUTH is a password, the fourth of HELLO may be one (`HELLO 3 AUTH user
            // password`).
            (KeyPlace::Argument(1), 2) if name == "AUTH" => return,
            (KeyPlace::Argument(place), number) if number == place => &mut self.key,
            (KeyPlace::Argument(place), number) if number == place + 1 => &mut self.value,
            (KeyPlace::Argument(_), _) => return,
            (KeyPlace::Counted(place), number) if number == place => {
                self.is_key_next = word.parse::<u64>().is_ok_and(|keys| keys > 0);
                return;
            }
            (KeyPlace::Counted(2), 1) => &mut self.value,
            (KeyPlace::Streams(before), number) if !self.is_key_next => {
                let is_found = self.key.is_none() && number > before && word.eq_ignore_ascii_case("STREAMS");
                self.is_key_next = is_found;
                return;
            }
            _ if self.is_key_next => {
                self.is_key_next = false;
                &mut self.key
            }
            _ => return,
        };
        *slot = Some(word);
    }

    /// Completes the command: a single argument of AUTH is a password, not a user.
    fn close(&mut self) {
        if self.arguments == 1 && self.name.as_deref() == Some("AUTH") {
            self.key = None;
        }
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.name, &self.key, &self.value, &self.reply];
        size_of::<Self>() + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }
}

/// Which commands are answered, as set by CLIENT REPLY.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Replies {
    #[default]
    On,
    /// All but the next one.
    SkipsNext,
    Off,
}

impl Replies {
    /// Whether a command is answered, and the mode after it.
    fn after(self, command: &RedisCommand) -> (bool, Self) {
        let is = |text: &Option<String>, word: &str| {
            text.as_ref().is_some_and(|text| text.eq_ignore_ascii_case(word))
        };
        let is_asked = |mode: &str| {
            let is_reply = is(&command.name, "CLIENT") && is(&command.key, "REPLY");
            is_reply && command.arguments == 2 && is(&command.value, mode)
        };
        match self {
            _ if is_asked("ON") || is(&command.name, "RESET") => (true, Self::On),
            _ if is_asked("OFF") => (false, Self::Off),
            Self::Off => (false, Self::Off),
            _ if is_asked("SKIP") => (false, Self::SkipsNext),
            Self::SkipsNext => (false, Self::On),
            Self::On => (true, Self::On),
        }
    }
}

/// Parser state of one direction.
#[derive(Debug, Default)]
struct Side {
    /// See [`TEXT_BYTES_MAX`].
    text_bytes_max: usize,
    lines: Lines,
    /// The string being read.
    string: Option<OpenString>,
    /// Elements still missing from the current value; 0 between values.
    pending: u64,
    is_lost: bool,
}

/// A string that is being read.
#[derive(Debug)]
struct OpenString {
    /// Bytes missing, line end included.
    missing: u64,
    /// Its first bytes.
    kept: Vec<u8>,
    /// Capture time of the line with its length.
    time: Timestamp,
}

/// A part of a value.
#[derive(Debug)]
enum Part {
    /// Head of an array, a map … and its number of elements.
    Array(u8, u64),
    /// Any other value.
    Scalar(u8, String),
    /// An inline command.
    Inline(Vec<u8>),
}

impl Side {
    /// Takes the next part off the front of `bytes`. `None` if more bytes are needed, or the stream is not
    /// valid RESP.
    fn next(&mut self, bytes: &mut &[u8], time: Timestamp, is_client: bool) -> Option<(Part, Timestamp)> {
        if let Some(OpenString { missing, kept, time }) = &mut self.string {
            let taken = usize::try_from(*missing).unwrap_or(usize::MAX).min(bytes.len());
            // The last two bytes are the line end.
            let wanted = usize::try_from(missing.saturating_sub(2)).unwrap_or(usize::MAX);
            let room = self.text_bytes_max.saturating_sub(kept.len()).min(wanted).min(taken);
            kept.extend_from_slice(&bytes[..room]);
            *missing -= taken as u64;
            *bytes = &bytes[taken..];
            if *missing > 0 {
                return None;
            }
            let part = (Part::Scalar(b'$', lossy(kept, self.text_bytes_max)), *time);
            self.string = None;
            self.pending = self.pending.saturating_sub(1);
            return Some(part);
        }
        let line = self.lines.next(bytes, time, 1024)?;
        let time = line.time;
        let (kind, rest) = line.bytes.split_first().map_or((0, &[][..]), |(kind, rest)| (*kind, rest));
        let number = || std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
        let is_between = self.pending == 0;
        let part = match kind {
            b'$' | b'=' | b'!' => match number() {
                Some(-1) => Part::Scalar(kind, String::new()),
                Some(length) if (0..=STRING_BYTES_MAX as i64).contains(&length) => {
                    self.pending += u64::from(is_between);
                    self.string = Some(OpenString { missing: length as u64 + 2, kept: Vec::new(), time });
                    return self.next(bytes, time, is_client);
                }
                _ => return self.give_up(),
            },
            b'*' | b'%' | b'~' | b'>' | b'|' => match number() {
                Some(length @ -1..) if length as u64 <= ELEMENTS_MAX || length == -1 => {
                    Part::Array(kind, length.max(0) as u64 * if matches!(kind, b'%' | b'|') { 2 } else { 1 })
                }
                _ => return self.give_up(),
            },
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' if !is_client || !is_between => {
                Part::Scalar(kind, lossy(rest, self.text_bytes_max))
            }
            _ if is_client && is_between => return Some((Part::Inline(line.bytes.into_owned()), time)),
            _ => return self.give_up(),
        };
        self.pending = self.pending.saturating_sub(1);
        if let Part::Array(_, length) = part {
            self.pending += length;
        }
        Some((part, time))
    }

    fn give_up<T>(&mut self) -> Option<T> {
        self.is_lost = true;
        self.lines.lose();
        None
    }
}

/// Inline commands of health checks and of users. AUTH and QUIT are absent, as POP3 has them, too. On Redis's
/// own port any word is accepted.
const INLINE: [&str; 12] =
    ["PING", "INFO", "SET", "GET", "DEL", "ECHO", "KEYS", "INCR", "EXISTS", "CONFIG", "SELECT", "COMMAND"];

/// Recognises an inline command with its reply, which has a format unique to Redis.
fn probe_inline(opening: &Opening<'_>) -> Probe {
    let asked = opening.originator;
    let letters = asked.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (word, rest) = asked.split_at(letters);
    let is_word = |known: &str| known.as_bytes().eq_ignore_ascii_case(word);
    let begins =
        |known: &&str| known.len() > letters && known.as_bytes()[..letters].eq_ignore_ascii_case(word);
    let is_command = match rest {
        [] => INLINE.iter().any(|known| is_word(known) || begins(known)),
        // An HTTP request line.
        [b' ', b'/', ..] => false,
        [b' ' | b'\r' | b'\n', ..] => INLINE.iter().any(|known| is_word(known)),
        _ => false,
    };
    let is_command = is_command
        || (PROTOCOL.ports.contains(&opening.ports[1]) && rest.first().is_none_or(u8::is_ascii_whitespace));
    if letters == 0 || !is_command {
        return Probe::NotForUs;
    }
    // Further bytes may make another word of it, or a request line.
    let is_whole = !matches!(rest, [] | [b' ']);
    match reply(opening.responder) {
        Probe::Certain if !is_whole => Probe::Unsure,
        said => said,
    }
}

/// Whether a server's bytes are a reply.
fn reply(bytes: &[u8]) -> Probe {
    match bytes {
        [] | [b'+' | b'-' | b'$' | b':' | b'*'] => Probe::Unsure,
        [b'$' | b':' | b'*', b'0'..=b'9' | b'-', ..] | [b'-', b'A'..=b'Z', ..] => Probe::Certain,
        [b'+', said @ ..] => match (Probe::of_word(said, b"OK\r\n"), Probe::of_word(said, b"PONG\r\n")) {
            (Probe::NotForUs, pong) => pong,
            (ok, _) => ok,
        },
        _ => Probe::NotForUs,
    }
}

/// Whether the server's port speaks first, with an array that could be a command. The parser could not tell
/// client from server then. This happens when the capture starts in mid-connection or the first command is
/// missing.
fn is_servers_array(opening: &Opening<'_>) -> bool {
    let is_it = |side: usize, said: &[u8], other: &[u8]| {
        let [here, there] = [side, 1 - side].map(|side| PROTOCOL.ports.contains(&opening.ports[side]));
        let is_server = here && !there;
        is_server && said.first() == Some(&b'*') && other.is_empty()
    };
    is_it(0, opening.originator, opening.responder) || is_it(1, opening.responder, opening.originator)
}

/// Recognises a client's array, or an inline command with its reply. A server's reply alone is not enough.
fn probe(opening: &Opening<'_>) -> Probe {
    if is_servers_array(opening) {
        return Probe::NotForUs;
    }
    let side = |bytes: &[u8]| {
        let Some((b'*', rest)) = bytes.split_first() else {
            return if bytes.is_empty() { Probe::Unsure } else { Probe::NotForUs };
        };
        let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let count = digits(rest);
        let behind = &rest[count..];
        let shape = b"\r\n$";
        let known = behind.len().min(3);
        if count > 7 || behind[..known] != shape[..known] || (count == 0 && !rest.is_empty()) {
            return Probe::NotForUs;
        }
        let Some(length) = behind.get(3..) else { return Probe::Unsure };
        match &length[digits(length).min(3)..] {
            [b'\r', b'\n', b'A'..=b'Z' | b'a'..=b'z', ..] => Probe::Certain,
            [] | [b'\r'] | [b'\r', b'\n'] => Probe::Unsure,
            _ => Probe::NotForUs,
        }
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        // If a reply is seen first, the client's next command decides.
        (Probe::NotForUs, Probe::Unsure) => match reply(opening.originator) {
            Probe::NotForUs => probe_inline(opening),
            _ => Probe::Unsure,
        },
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => probe_inline(opening),
        _ => Probe::Unsure,
    }
}

/// A command that waits for its reply, or for the replies to earlier commands.
#[derive(Debug)]
struct PendingCommand {
    command: RedisCommand,
    is_replied_to: bool,
}

impl Held for PendingCommand {
    fn held_bytes(&self) -> usize {
        self.command.held_bytes()
    }
}

/// Parses the commands of one connection.
#[derive(Debug, Default)]
pub struct RedisParser {
    sides: [Side; 2],
    client: Option<Direction>,
    /// The command being read.
    command: Option<RedisCommand>,
    /// Pending commands, oldest first.
    waiting: Waiting<PendingCommand, WAITING_MAX>,
    replies: Replies,
    /// Evicted commands whose replies are still expected; that many replies are skipped.
    unanswered: u64,
    /// The first part of the reply being read.
    reply: Option<(u8, String)>,
    /// The first word and the last part of the array or push being read.
    pushed: Option<String>,
    last: Option<String>,
    /// Whether the client is subscribed to channels, and to channels of a shard.
    is_subscribed: [bool; 2],
    /// Name of a command that is confirmed once per channel, and the number of confirmations still expected.
    confirmed: Option<(String, u64)>,
    /// The client has sent a valid command, so client and server are certain.
    is_client_known: bool,
}

impl SessionParser for RedisParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        let Some(first) = rest.first() else { return Progress::Wanted };
        // Only replies begin with these bytes; an array may be a command, too.
        let is_reply = matches!(first, b'+' | b'-' | b':' | b'$' | b'%' | b'_');
        let client = *self.client.get_or_insert(if is_reply { data.from.other() } else { data.from });
        let is_client = client == data.from;
        loop {
            let side = &mut self.sides[data.from as usize];
            if side.is_lost {
                self.finish(sessions);
                return Progress::Done;
            }
            let before = rest.len();
            let Some((part, time)) = side.next(&mut rest, data.time, is_client) else {
                if side.is_lost {
                    continue;
                }
                debug_assert!(rest.is_empty() || rest.len() < before);
                return Progress::Wanted;
            };
            let is_over = side.pending == 0;
            if is_client {
                if !self.take_part(part, time, is_over, sessions) {
                    self.finish(sessions);
                    return Progress::Done;
                }
            } else if self.take_reply(part, time, is_over, sessions) {
                self.finish(sessions);
                return Progress::Done;
            }
        }
    }

    fn gap(&mut self, _: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        // Replies can no longer be matched to commands.
        self.finish(sessions);
        Progress::Done
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.command = None;
        sessions.extend(self.waiting.take_all().map(|waiting| Box::new(waiting.command) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.waiting.evicted(), ..CutOff::default() }
    }
}

impl RedisParser {
    fn new(context: &Context<'_>) -> Self {
        let text_bytes_max = usize::try_from(context.number(&TEXT_BYTES_MAX)).unwrap_or(usize::MAX);
        let text_bytes_max = text_bytes_max.max(WORD_BYTES_MAX);
        let sides = [(); 2].map(|()| Side { text_bytes_max, ..Side::default() });
        Self { sides, ..Self::default() }
    }

    /// Takes a part of a command; whether it is one: an array of strings.
    fn take_part(
        &mut self,
        part: Part,
        time: Timestamp,
        is_over: bool,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> bool {
        match (part, &mut self.command) {
            (Part::Array(b'*', _), None) => self.command = Some(RedisCommand::new(time)),
            (Part::Scalar(b'$', word), Some(command)) => {
                if command.name.is_none() && !self.is_client_known && !words::may_be_command(&word) {
                    return false;
                }
                command.take_word(word);
            }
            (Part::Inline(line), _) => {
                let mut command = RedisCommand::new(time);
                for word in words::split(&line).take(INLINE_WORDS_MAX) {
                    command.take_word(lossy(&word, self.sides[0].text_bytes_max));
                }
                self.command = Some(command);
            }
            // A reply: client and server were confused.
            _ => return false,
        }
        if !is_over {
            return true;
        }
        // An empty array is no command.
        let Some(mut command) = self.command.take().filter(|command| command.name.is_some()) else {
            return true;
        };
        self.is_client_known = true;
        command.close();
        let (is_replied_to, replies) = self.replies.after(&command);
        self.replies = replies;
        self.waiting.push(PendingCommand { command, is_replied_to }, |oldest| {
            self.unanswered += 1;
            sessions.push(Box::new(oldest.command));
        });
        self.yield_silent(sessions);
        true
    }

    /// Yields the oldest commands up to the first that expects a reply.
    fn yield_silent(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        while let Some(silent) = self.waiting.take_oldest_if(|oldest| !oldest.is_replied_to) {
            sessions.push(Box::new(silent.command));
        }
    }

    /// Whether an array with this first word is a RESP 2 push. It is if the client is, or may be, subscribed.
    fn is_push(&self, word: &str) -> bool {
        let asked = self.waiting.oldest().and_then(|asked| asked.command.name.as_deref());
        let is_open = self.is_subscribed.contains(&true)
            || asked.is_none_or(|asked| words::PUSHED.iter().any(|word| word.eq_ignore_ascii_case(asked)));
        is_open && words::PUSHED.contains(&word)
    }

    /// Whether a push answers a pending command. SUBSCRIBE is confirmed once per channel; the first
    /// confirmation is the answer. Commands before the confirmed one have lost their answers and are yielded.
    fn is_confirmation(&mut self, word: &str, sessions: &mut Vec<Box<dyn Session>>) -> bool {
        if let Some((confirmed, left)) = &mut self.confirmed
            && confirmed == word
        {
            *left -= 1;
            if *left == 0 {
                self.confirmed = None;
            }
            return false;
        }
        let is_asked = |asked: &PendingCommand| {
            asked.command.name.as_deref().is_some_and(|asked| asked.eq_ignore_ascii_case(word))
        };
        if !self.waiting.iter().any(is_asked) {
            return false;
        }
        while let Some(stale) = self.waiting.take_oldest_if(|oldest| !is_asked(oldest)) {
            sessions.push(Box::new(stale.command));
        }
        true
    }

    /// Handles a part of a reply. Returns whether no more commands follow (MONITOR, replication).
    fn take_reply(
        &mut self,
        part: Part,
        time: Timestamp,
        is_over: bool,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> bool {
        match &self.reply {
            None => {
                self.reply = Some(match part {
                    Part::Array(kind, length) => (kind, length.to_string()),
                    Part::Scalar(kind, text) => (kind, text),
                    Part::Inline(_) => return false,
                });
            }
            Some((b'>' | b'*', _)) => {
                let word = if let Part::Scalar(_, word) = part { word } else { String::new() };
                *(if self.pushed.is_none() { &mut self.pushed } else { &mut self.last }) = Some(word);
            }
            Some(_) => {}
        }
        if !is_over {
            return false;
        }
        let (pushed, last) = (self.pushed.take().unwrap_or_default(), self.last.take());
        let Some((kind, text)) = self.reply.take() else { return false };
        // Attributes precede a reply, and pushes arrive at any time; but a push may also confirm a
        // subscription.
        let is_reply = match kind {
            b'|' => false,
            b'>' => self.is_confirmation(&pushed, sessions),
            b'*' if self.is_push(&pushed) => {
                let is_of_shard = usize::from(matches!(&*pushed, "smessage" | "ssubscribe" | "sunsubscribe"));
                let is_last = pushed.ends_with("unsubscribe") && last.as_deref() == Some("0");
                self.is_subscribed[is_of_shard] = !is_last;
                self.is_confirmation(&pushed, sessions)
            }
            _ => true,
        };
        if !is_reply {
            return false;
        }
        if self.unanswered > 0 {
            self.unanswered -= 1;
            return false;
        }
        let asked = self.waiting.take_oldest().map(|asked| asked.command);
        let is_asked = asked.is_some();
        let mut command = asked.unwrap_or_else(|| RedisCommand::new(time));
        command.is_good = Some(!matches!(kind, b'-' | b'!'));
        command.rtt_ns = is_asked.then(|| time.since_ns(command.time));
        command.reply = Some(text);
        let speaks = matches!(command.name.as_deref(), Some("MONITOR" | "SYNC" | "PSYNC"));
        if command.name.as_deref() == Some("RESET") {
            self.is_subscribed = [false; 2];
        }
        let is_confirmed = matches!(kind, b'*' | b'>')
            && words::PUSHED.contains(&&*pushed)
            && command.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(&pushed));
        if is_confirmed && command.arguments > 1 {
            self.confirmed = Some((pushed, command.arguments - 1));
        }
        sessions.push(Box::new(command));
        self.yield_silent(sessions);
        speaks
    }
}

impl Session for RedisCommand {
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

session_fields! { RedisCommand;
    "redis.cmd.name" ["redis.command"] "cmd.name": Text, "Command: SET" => |r| text(r.name.as_deref());
    "redis.cmd.key" ["redis.key"] "cmd.key": Text, "First key (EVAL s 1 KEY, XREAD STREAMS KEY 0); the first argument of commands without keys" => |r| text(r.key.as_deref());
    "redis.cmd.value" ["redis.value"] "cmd.value": Text, "Argument behind the key; the script or function of EVAL, EVALSHA and FCALL" => |r| text(r.value.as_deref());
    "redis.success" [] success: Bool, "Whether the command succeeded" => |r| r.is_good.map_or(Value::Absent, Value::Bool);
    "redis.reply.value" ["redis.reply"] "reply.value": Text, "Reply; for an array, the number of its elements" => |r| text(r.reply.as_deref());
    // Not in the log.
    "redis.arguments" [] _: Unsigned, "Number of arguments" => |r| unsigned(r.name.as_ref().map(|_| r.arguments));
    "redis.time" ["redis.rtt"] _: Interval, "Time from command to reply" => |r| r.rtt_ns.map_or(Value::Absent, Value::Interval);
}

#[cfg(test)]
mod tests;

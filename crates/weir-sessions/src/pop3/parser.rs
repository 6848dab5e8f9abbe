//! [`Pop3Parser`]: parses lines of both directions into one [`Pop3Connection`].
//!
//! The side that answers with `+OK` and `-ERR` is the server. Commands wait for their replies in order
//! (pipelining, RFC 2449 §6.6). Of multi-line replies (RFC 1939 §3) only the capabilities are read.

use super::connection::Pop3Connection;
use crate::line::{Lines, UntilDot, note, read_plain_user, split_word, text};
use crate::pairing::{Held, Waiting};
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};

/// Most bytes kept of a line (RFC 2449 §4 allows 512).
pub const LINE_BYTES_MAX: usize = 2048;
/// Maximum number of commands that wait for their replies.
const WAITING_MAX: usize = 256;
/// Maximum number of entries of a list.
const LIST_MAX: usize = 64;

/// Known commands, and when a positive reply has several lines: never, always, or if the command has no
/// argument.
const COMMANDS: &[(&str, Many)] = &[
    ("USER", Many::Never),
    ("PASS", Many::Never),
    ("APOP", Many::Never),
    ("AUTH", Many::Bare),
    ("CAPA", Many::Always),
    ("STLS", Many::Never),
    ("STAT", Many::Never),
    ("LIST", Many::Bare),
    ("UIDL", Many::Bare),
    ("RETR", Many::Always),
    ("TOP", Many::Always),
    ("DELE", Many::Never),
    ("NOOP", Many::Never),
    ("RSET", Many::Never),
    ("LAST", Many::Never),
    ("UTF8", Many::Never),
    ("LANG", Many::Bare),
    ("XTND", Many::Never),
    ("QUIT", Many::Never),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Many {
    Never,
    Always,
    Bare,
}

/// A command that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Command {
    /// Empty if the command is unknown.
    verb: &'static str,
    has_many_lines: bool,
}

impl Held for Command {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// What the server's next lines are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    #[default]
    Replies,
    Capabilities,
    /// Lines of a multi-line reply, which are skipped.
    Lines(UntilDot),
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct Pop3Parser {
    client: Option<Direction>,
    lines: [Lines; 2],
    mode: Mode,
    waiting: Waiting<Command, WAITING_MAX>,
    connection: Option<Box<Pop3Connection>>,
    cut_off: CutOff,
}

impl SessionParser for Pop3Parser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        while !rest.is_empty() {
            if self.begins_tls(data.from, rest) {
                // The reply to STLS was missed.
                self.go_over_to_tls(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
            if self.client == Some(data.from.other())
                && let Mode::Lines(until_dot) = &mut self.mode
            {
                if until_dot.skip(&mut rest) {
                    self.mode = Mode::Replies;
                }
                continue;
            }
            let lines = &mut self.lines[data.from as usize];
            let Some(line) = lines.next(&mut rest, data.time, LINE_BYTES_MAX) else { break };
            self.cut_off.parts += u64::from(line.is_cut);
            let is_reply = read_reply(&line.bytes).is_some();
            let client = *self.client.get_or_insert(if is_reply { data.from.other() } else { data.from });
            self.connection.get_or_insert_with(|| Box::new(Pop3Connection::new(line.time, client)));
            if data.from == client {
                self.take_command(&line.bytes);
            } else if self.take_reply(&line.bytes) {
                self.go_over_to_tls(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
        }
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        self.lines[from as usize].lose();
        if self.client == Some(from.other()) {
            match &mut self.mode {
                Mode::Lines(until_dot) => until_dot.lose(),
                _ => {
                    // Pending commands can no longer be matched to replies.
                    self.mode = Mode::Replies;
                    drop(self.waiting.take_all());
                }
            }
        }
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(connection) = self.connection.take() {
            sessions.push(connection);
        }
        *self = Self { cut_off: self.cut_off(), ..Self::default() };
    }

    fn cut_off(&self) -> CutOff {
        // Of evicted commands, only the result is missing.
        CutOff { parts: self.cut_off.parts + self.waiting.evicted(), ..self.cut_off }
    }
}

impl Pop3Parser {
    /// Whether the client begins TLS instead of sending a command: a handshake record (RFC 8446 §5.1) after
    /// STLS.
    fn begins_tls(&self, from: Direction, rest: &[u8]) -> bool {
        rest[0] == 22
            && self.client == Some(from)
            && self.lines[from as usize].is_between()
            && self.waiting.newest().is_some_and(|last| last.verb == "STLS")
    }

    fn go_over_to_tls(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(connection) = &mut self.connection {
            connection.is_tls = true;
        }
        self.finish(sessions);
    }

    fn take_command(&mut self, line: &[u8]) {
        let Some(connection) = &mut self.connection else { return };
        let (verb, argument) = split_word(line);
        let known = COMMANDS.iter().find(|(name, _)| verb.eq_ignore_ascii_case(name.as_bytes()));
        let Some((command, many)) = known else {
            // A line of the AUTH exchange, or an unknown command.
            let is_auth = self.waiting.newest().is_some_and(|last| last.verb == "AUTH");
            if is_auth && connection.user.is_none() {
                connection.user = read_plain_user(connection.auth_mechanism.as_deref(), line);
            } else if !is_auth {
                self.waiting.push(Command { verb: "", has_many_lines: false }, drop);
            }
            return;
        };
        note(&mut connection.commands, command.to_string(), LIST_MAX);
        match *command {
            "USER" => {
                connection.user = Some(text(argument, 256));
                connection.auth_mechanism = Some("USER".to_owned());
            }
            "APOP" => {
                connection.user = Some(text(split_word(argument).0, 256));
                connection.auth_mechanism = Some("APOP".to_owned());
            }
            "AUTH" if !argument.is_empty() => {
                let (mechanism, initial) = split_word(argument);
                connection.auth_mechanism = Some(text(mechanism, 32).to_ascii_uppercase());
                connection.user = read_plain_user(connection.auth_mechanism.as_deref(), initial);
            }
            _ => {}
        }
        let has_many_lines = match many {
            Many::Never => false,
            Many::Always => true,
            Many::Bare => argument.is_empty(),
        };
        self.waiting.push(Command { verb: command, has_many_lines }, drop);
    }

    /// Handles a line of the server. Returns whether TLS follows.
    fn take_reply(&mut self, line: &[u8]) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        if self.mode == Mode::Capabilities {
            if line == b"." {
                self.mode = Mode::Replies;
            } else {
                note(&mut connection.capabilities, text(line.trim_ascii(), 256), LIST_MAX);
            }
            return false;
        }
        // Other lines are challenges (`+ …`), or belong to a reply whose command was missed.
        let Some((is_good, reply)) = read_reply(line) else { return false };
        let reply = text(reply, LINE_BYTES_MAX);
        if !is_good {
            connection.last_error = Some(reply.clone());
        }
        let Some(command) = self.waiting.take_oldest() else {
            if connection.greeting.is_none() && connection.commands.is_empty() {
                connection.greeting = Some(reply);
            }
            return false;
        };
        if !command.verb.is_empty() {
            let result = format!("{} {}", command.verb, if is_good { "OK" } else { "ERR" });
            note(&mut connection.results, result, LIST_MAX);
        }
        match (command.verb, is_good) {
            ("PASS" | "APOP", _) => connection.is_logged_in = Some(is_good),
            ("AUTH", _) if !command.has_many_lines => connection.is_logged_in = Some(is_good),
            ("RETR", true) => connection.fetched += 1,
            ("DELE", true) => connection.deleted += 1,
            ("STLS", true) => return true,
            _ => {}
        }
        if is_good && command.has_many_lines {
            self.mode =
                if command.verb == "CAPA" { Mode::Capabilities } else { Mode::Lines(UntilDot::default()) };
        }
        false
    }
}

/// Whether a reply is positive, and its text. `None` if the line is no reply.
fn read_reply(line: &[u8]) -> Option<(bool, &[u8])> {
    let (is_good, rest) = match line {
        [b'+', b'O', b'K', rest @ ..] => (true, rest),
        [b'-', b'E', b'R', b'R', rest @ ..] => (false, rest),
        _ => return None,
    };
    matches!(rest, [] | [b' ' | b'\t', ..]).then_some((is_good, rest.trim_ascii()))
}

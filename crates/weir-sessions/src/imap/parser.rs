//! [`ImapParser`]: turns lines of both directions into one [`ImapConnection`].
//!
//! A result belongs to the command with its tag (RFC 9051 §2.2.1).

use super::connection::ImapConnection;
use super::stream::{Piece, Stream, read_literal};
use crate::line::{note, read_plain_user, split_word, text};
use crate::pairing::{Held, Waiting};
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum number of commands without a result.
const WAITING_MAX: usize = 64;
/// Maximum bytes kept of a tag.
const TAG_BYTES_MAX: usize = 64;
/// Maximum number of entries per list.
const LIST_MAX: usize = 64;
/// Maximum bytes kept of a text.
const TEXT_BYTES_MAX: usize = 512;

/// Known verbs; all verbs that begin with X are also accepted.
pub(super) const VERBS: &[&str] = &[
    "CAPABILITY",
    "NOOP",
    "LOGOUT",
    "STARTTLS",
    "AUTHENTICATE",
    "LOGIN",
    "ENABLE",
    "SELECT",
    "EXAMINE",
    "CREATE",
    "DELETE",
    "RENAME",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "LIST",
    "LSUB",
    "NAMESPACE",
    "STATUS",
    "APPEND",
    "IDLE",
    "CLOSE",
    "UNSELECT",
    "EXPUNGE",
    "SEARCH",
    "FETCH",
    "STORE",
    "COPY",
    "MOVE",
    "UID",
    "ID",
    "CHECK",
    "COMPRESS",
    "GETQUOTA",
    "GETQUOTAROOT",
    "GETACL",
    "SETACL",
    "MYRIGHTS",
    "SORT",
    "THREAD",
    "NOTIFY",
    "GETMETADATA",
    "SETMETADATA",
    "UNAUTHENTICATE",
];

/// A command without its result.
#[derive(Debug)]
struct Command {
    tag: Vec<u8>,
    verb: String,
}

impl Held for Command {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.tag.len() + self.verb.len()
    }
}

/// How parsing continues after a line of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Tls,
    /// Compression begins (RFC 4978): the rest cannot be parsed.
    Compressed,
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct ImapParser {
    client: Option<Direction>,
    streams: [Stream; 2],
    waiting: Waiting<Command, WAITING_MAX>,
    /// The client's next literal is the user name.
    is_user_next: bool,
    connection: Option<Box<ImapConnection>>,
    cut_off: CutOff,
}

impl SessionParser for ImapParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        loop {
            if self.begins_tls(data.from, rest) {
                // The reply to STARTTLS was not seen.
                self.go_over_to_tls(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
            let Some(piece) = self.streams[data.from as usize].next(&mut rest, data.time) else { break };
            match self.take(data.from, piece) {
                Next::GoOn => {}
                Next::Tls => {
                    self.go_over_to_tls(sessions);
                    return Progress::HandOver { rest_bytes: rest.len() };
                }
                Next::Compressed => {
                    self.finish(sessions);
                    return Progress::Done;
                }
            }
        }
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        self.streams[from as usize].skip(length_bytes);
        // The gap may have completed a literal.
        self.parse(&Data { from, time: Timestamp(0), bytes: &[], is_datagram: false }, sessions)
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

impl ImapParser {
    /// Whether the client begins TLS instead of a command: a handshake record (RFC 8446 §5.1) after STARTTLS.
    fn begins_tls(&self, from: Direction, rest: &[u8]) -> bool {
        rest.first() == Some(&22)
            && self.client == Some(from)
            && self.streams[from as usize].is_between()
            && self.waiting.newest().is_some_and(|last| last.verb == "STARTTLS")
    }

    fn go_over_to_tls(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(connection) = &mut self.connection {
            connection.is_tls = true;
        }
        self.finish(sessions);
    }

    fn take(&mut self, from: Direction, piece: Piece<'_>) -> Next {
        match piece {
            Piece::Literal(bytes) => {
                if self.client == Some(from)
                    && std::mem::take(&mut self.is_user_next)
                    && let Some(connection) = &mut self.connection
                {
                    connection.user = Some(text(&bytes, TEXT_BYTES_MAX));
                }
                Next::GoOn
            }
            Piece::Line { bytes, time, is_begin, is_cut } => {
                self.cut_off.parts += u64::from(is_cut);
                if !is_begin {
                    return Next::GoOn;
                }
                let client =
                    *self.client.get_or_insert(if is_response(&bytes) { from.other() } else { from });
                self.connection.get_or_insert_with(|| Box::new(ImapConnection::new(time, client)));
                if from == client {
                    self.take_command(&bytes);
                    return Next::GoOn;
                }
                self.take_response(&bytes)
            }
        }
    }

    fn take_command(&mut self, line: &[u8]) {
        let Some(connection) = &mut self.connection else { return };
        let (tag, rest) = split_word(line);
        let (verb, arguments) = split_word(rest);
        if verb.is_empty() {
            // The answer to a challenge, or DONE (RFC 2177).
            let is_answer = self.waiting.newest().is_some_and(|last| last.verb == "AUTHENTICATE");
            if is_answer && connection.user.is_none() {
                connection.user = read_plain_user(connection.auth_mechanism.as_deref(), tag);
            }
            return;
        }
        let verb = text(verb, 32).to_ascii_uppercase();
        if !VERBS.contains(&&*verb) && !verb.starts_with('X') {
            return;
        }
        let verb = match &*verb {
            // UID precedes the command that it modifies (RFC 9051 §6.4.9).
            "UID" => format!("UID {}", text(split_word(arguments).0, 32).to_ascii_uppercase()),
            _ => verb,
        };
        note(&mut connection.commands, verb.clone(), LIST_MAX);
        match &*verb {
            "LOGIN" => {
                connection.auth_mechanism = Some("LOGIN".to_owned());
                self.is_user_next = arguments.starts_with(b"{") && read_literal(arguments).is_some();
                connection.user = (!self.is_user_next).then(|| read_string(arguments));
            }
            "AUTHENTICATE" => {
                let (mechanism, initial) = split_word(arguments);
                connection.auth_mechanism = Some(text(mechanism, 32).to_ascii_uppercase());
                connection.user = read_plain_user(connection.auth_mechanism.as_deref(), initial);
            }
            "SELECT" | "EXAMINE" => note(&mut connection.mailboxes, read_string(arguments), LIST_MAX),
            "ID" => connection.client_id = Some(text(arguments, TEXT_BYTES_MAX)),
            _ => {}
        }
        self.waiting.push(Command { tag: tag[..tag.len().min(TAG_BYTES_MAX)].to_vec(), verb }, drop);
    }

    fn take_response(&mut self, line: &[u8]) -> Next {
        let Some(connection) = &mut self.connection else { return Next::GoOn };
        let (tag, rest) = split_word(line);
        let (word, told) = split_word(rest);
        let word = text(word, 32).to_ascii_uppercase();
        if let Some(list) = told.strip_prefix(b"[CAPABILITY ") {
            let list = list.split(|byte| *byte == b']').next().unwrap_or(list);
            set_capabilities(connection, list);
        }
        match (tag, &*word) {
            (b"*", "OK" | "PREAUTH") if connection.greeting.is_none() && connection.results.is_empty() => {
                connection.greeting = Some(text(told, TEXT_BYTES_MAX));
                if word == "PREAUTH" {
                    connection.is_logged_in = Some(true);
                }
            }
            (b"*", "CAPABILITY") => set_capabilities(connection, told),
            (b"*", "ID") => connection.server_id = Some(text(told, TEXT_BYTES_MAX)),
            (b"*" | b"+", _) => {}
            (_, "OK" | "NO" | "BAD") => return self.take_result(tag, &word, told),
            _ => {}
        }
        Next::GoOn
    }

    fn take_result(&mut self, tag: &[u8], word: &str, told: &[u8]) -> Next {
        let Some(connection) = &mut self.connection else { return Next::GoOn };
        let is_good = word == "OK";
        if !is_good {
            connection.last_error = Some(text(told, TEXT_BYTES_MAX));
            if let Some(client) = self.client {
                self.streams[client as usize].refuse_literal();
            }
        }
        let tag = &tag[..tag.len().min(TAG_BYTES_MAX)];
        let Some(command) = self.waiting.take(|command| command.tag == tag) else { return Next::GoOn };
        note(&mut connection.results, format!("{} {word}", command.verb), LIST_MAX);
        match &*command.verb {
            "LOGIN" | "AUTHENTICATE" => connection.is_logged_in = Some(is_good),
            "STARTTLS" if is_good => return Next::Tls,
            "COMPRESS" if is_good => return Next::Compressed,
            _ => {}
        }
        Next::GoOn
    }
}

fn set_capabilities(connection: &mut ImapConnection, list: &[u8]) {
    connection.capabilities.clear();
    for word in list.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        note(&mut connection.capabilities, text(word, 64), LIST_MAX);
    }
}

/// Whether a line comes from a server: untagged, a continuation, or a result.
fn is_response(line: &[u8]) -> bool {
    let (tag, rest) = split_word(line);
    matches!(tag, b"*" | b"+") || matches!(split_word(rest).0, b"OK" | b"NO" | b"BAD")
}

/// The first string of the arguments: quoted, or up to white space.
fn read_string(arguments: &[u8]) -> String {
    let Some(quoted) = arguments.strip_prefix(b"\"") else {
        return text(split_word(arguments).0, TEXT_BYTES_MAX);
    };
    let mut bytes = Vec::new();
    let mut letters = quoted.iter().take(TEXT_BYTES_MAX);
    while let Some(letter) = letters.next().filter(|letter| **letter != b'"') {
        let letter = if *letter == b'\\' { letters.next() } else { Some(letter) };
        bytes.extend(letter);
    }
    text(&bytes, TEXT_BYTES_MAX)
}

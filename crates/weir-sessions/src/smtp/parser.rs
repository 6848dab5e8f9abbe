//! [`SmtpParser`]: parses commands and replies into [`SmtpTransaction`]s.
//!
//! The side that sends replies, which begin with three digits, is the server. Commands wait for their replies
//! in order (pipelining, RFC 2920). A transaction ends with the reply to its mail, with the MAIL that begins
//! the next one, or with the connection.

use super::mail::{ADDRESSES_MAX, Mail};
use super::transaction::SmtpTransaction;
use crate::line::{Lines, Replies, note, read_code, read_plain_user, split_word, text};
use crate::pairing::{Held, Waiting};
use crate::{Contents, CutOff, Data, Direction, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum number of bytes kept of a command or reply line (RFC 5321 §4.5.3.1 requires 512).
pub const LINE_BYTES_MAX: usize = 2048;
/// Maximum number of commands that wait for their replies.
const WAITING_MAX: usize = 256;
/// Verbs that are reported.
const VERBS: &[&[u8]] = &[
    b"HELO",
    b"EHLO",
    b"LHLO",
    b"MAIL",
    b"RCPT",
    b"DATA",
    b"BDAT",
    b"RSET",
    b"VRFY",
    b"EXPN",
    b"HELP",
    b"NOOP",
    b"QUIT",
    b"AUTH",
    b"STARTTLS",
    b"ETRN",
    b"TURN",
    b"ATRN",
    b"SEND",
    b"SOML",
    b"SAML",
    b"BURL",
    b"XCLIENT",
    b"XFORWARD",
    b"X-ANONYMOUSTLS",
    b"X-EXPS",
    b"XEXCH50",
];

/// A command that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Auth,
    Rcpt,
    Data,
    /// The end of a mail.
    Mail,
    StartTls,
    Other,
}

impl Held for Command {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The meaning of the client's next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Commands,
    /// Responses to challenges of AUTH.
    Auth,
    /// DATA waits for its reply.
    DataAsked,
    Mail,
    /// A chunk of a mail (RFC 3030).
    Chunk {
        left_bytes: u64,
        is_last: bool,
    },
}

/// Parses the mails of one connection.
#[derive(Debug, Default)]
pub struct SmtpParser {
    client: Option<Direction>,
    lines: [Lines; 2],
    replies: Replies,
    mode: Mode,
    waiting: Waiting<Command, WAITING_MAX>,
    mail: Option<Box<Mail>>,
    current: Option<Box<SmtpTransaction>>,
    /// Whether the server has sent a reply.
    has_replies: bool,
    /// The client sent LHLO: a mail has one reply per accepted recipient (RFC 2033 §4.2).
    is_lmtp: bool,
    receivers_taken: usize,
    contents: Contents,
    cut_off: CutOff,
}

/// Action after a line.
enum Next {
    GoOn,
    HandOver,
}

impl SessionParser for SmtpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        while !rest.is_empty() {
            if self.client == Some(data.from) && self.begins_tls(data.from, rest) {
                // The reply to STARTTLS was missed.
                self.go_over_to_tls(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
            if self.client == Some(data.from) && self.take_mail(&mut rest, data.time) {
                continue;
            }
            let lines = &mut self.lines[data.from as usize];
            let Some(line) = lines.next(&mut rest, data.time, LINE_BYTES_MAX) else { break };
            self.cut_off.parts += u64::from(line.is_cut);
            let is_reply = read_code(&line.bytes).is_some();
            let client = *self.client.get_or_insert(if is_reply { data.from.other() } else { data.from });
            let next = if data.from == client {
                self.take_command(&line.bytes, line.time, sessions);
                Next::GoOn
            } else {
                self.take_reply(&line.bytes, sessions)
            };
            if matches!(next, Next::HandOver) {
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
        if let Some(current) = &mut self.current {
            current.has_gap = true;
        }
        if self.client != Some(from) {
            self.replies.lose();
            // Pending commands can no longer be matched to replies.
            drop(self.waiting.take_all());
            return Progress::Wanted;
        }
        let lost_mail = match self.mode {
            Mode::Commands | Mode::Auth => 0,
            Mode::DataAsked | Mode::Mail => {
                self.mode = Mode::Mail;
                length_bytes
            }
            Mode::Chunk { left_bytes, is_last } => {
                let lost = left_bytes.min(length_bytes);
                self.mode = Mode::Chunk { left_bytes: left_bytes - lost, is_last };
                lost
            }
        };
        if lost_mail > 0 {
            self.open_mail().lose(lost_mail);
        }
        self.end_chunk();
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.yield_current(sessions);
        *self = Self { cut_off: self.cut_off(), ..Self::default() };
    }

    fn cut_off(&self) -> CutOff {
        // Of evicted commands, only the result is missing.
        CutOff { parts: self.cut_off.parts + self.waiting.evicted(), ..self.cut_off }
    }
}

impl SmtpParser {
    /// A parser that passes the contents of mails on.
    pub(super) fn new(contents: &Contents) -> Self {
        Self { contents: contents.clone(), ..Self::default() }
    }
}

// Client.
impl SmtpParser {
    /// Whether the client begins TLS instead of sending a command: a handshake record (RFC 8446 §5.1) after
    /// STARTTLS.
    fn begins_tls(&self, from: Direction, rest: &[u8]) -> bool {
        rest[0] == 22
            && self.mode == Mode::Commands
            && self.waiting.newest() == Some(&Command::StartTls)
            && self.lines[from as usize].is_between()
    }

    /// Takes bytes of a mail off the front of `rest`. Returns whether a mail is open.
    fn take_mail(&mut self, rest: &mut &[u8], time: Timestamp) -> bool {
        match &mut self.mode {
            Mode::Commands | Mode::Auth => return false,
            Mode::DataAsked | Mode::Mail => {
                self.mode = Mode::Mail;
                if self.open_mail().take_until_dot(rest, time) {
                    self.end_mail();
                }
            }
            Mode::Chunk { left_bytes, .. } => {
                let take = usize::try_from(*left_bytes).map_or(rest.len(), |left| left.min(rest.len()));
                let (chunk, tail) = rest.split_at(take);
                *rest = tail;
                *left_bytes -= take as u64;
                self.open_mail().take_chunk(chunk, time);
                self.end_chunk();
            }
        }
        true
    }

    fn open_mail(&mut self) -> &mut Mail {
        self.mail.get_or_insert_with(|| Box::new(Mail::new(&self.contents)))
    }

    fn end_chunk(&mut self) {
        if let Mode::Chunk { left_bytes: 0, is_last } = self.mode {
            self.mode = Mode::Commands;
            if is_last {
                self.end_mail();
            }
        }
    }

    /// Ends a mail, which then waits for its reply.
    fn end_mail(&mut self) {
        // For a chunk, BDAT itself waits for the reply.
        if self.mode == Mode::Mail {
            self.wait(Command::Mail);
            let more = if self.is_lmtp { self.receivers_taken.saturating_sub(1) } else { 0 };
            (0..more.min(WAITING_MAX)).for_each(|_| self.wait(Command::Other));
        }
        self.mode = Mode::Commands;
        self.keep_mail(true);
    }

    /// Moves the contents of the mail into its transaction; `is_whole`: its end was seen.
    fn keep_mail(&mut self, is_whole: bool) {
        let Some(mut mail) = self.mail.take() else { return };
        mail.end_field();
        let (files, parts) = mail.parts.finish(is_whole);
        self.cut_off.parts += mail.header.parts_cut + mail.parts.cut;
        let current = self.current();
        current.mail_bytes = mail.length_bytes;
        current.files = files;
        current.parts = parts;
        current.header = std::mem::take(&mut mail.header);
        current.is_active = true;
    }

    fn take_command(&mut self, line: &[u8], time: Timestamp, sessions: &mut Vec<Box<dyn Session>>) {
        if self.mode == Mode::Auth {
            return self.take_auth(line);
        }
        let (verb, argument) = split_word(line);
        let mut upper = [0; 16];
        let Some(upper) = upper.get_mut(..verb.len()).filter(|upper| !upper.is_empty()) else {
            return self.wait(Command::Other);
        };
        upper.copy_from_slice(verb);
        upper.make_ascii_uppercase();
        if upper == b"MAIL" && self.current.as_ref().is_some_and(|current| current.mail_from.is_some()) {
            // The previous transaction was not answered, or was abandoned.
            self.yield_current(sessions);
        }
        let current = self.current();
        if !current.is_active {
            current.time = time;
        }
        current.is_active |= !matches!(&*upper, b"QUIT" | b"RSET" | b"NOOP");
        // Other words may be responses to AUTH challenges, if the server's side was not captured.
        if VERBS.contains(&&*upper) {
            note(&mut current.commands, text(upper, 16), VERBS.len());
        }
        let command = match &*upper {
            b"HELO" | b"EHLO" | b"LHLO" => {
                current.helo = Some(text(argument, LINE_BYTES_MAX));
                self.is_lmtp = upper == b"LHLO";
                Command::Other
            }
            b"MAIL" => {
                current.mail_from = path(argument);
                self.receivers_taken = 0;
                Command::Other
            }
            b"RCPT" => {
                match path(argument) {
                    Some(path) if current.recipients.len() < ADDRESSES_MAX => current.recipients.push(path),
                    _ => self.cut_off.parts += 1,
                }
                Command::Rcpt
            }
            b"AUTH" => {
                let (mechanism, initial) = split_word(argument);
                current.auth_mechanism = Some(text(mechanism, 32));
                current.auth_user = None;
                self.wait(Command::Auth);
                return self.take_auth(initial);
            }
            b"STARTTLS" | b"X-ANONYMOUSTLS" => Command::StartTls,
            b"DATA" => {
                self.mode = Mode::DataAsked;
                Command::Data
            }
            b"BDAT" => return self.begin_chunk(argument),
            _ => Command::Other,
        };
        self.wait(command);
    }

    fn begin_chunk(&mut self, argument: &[u8]) {
        let (length, last) = split_word(argument);
        let length = std::str::from_utf8(length).ok().and_then(|length| length.parse().ok());
        let Some(left_bytes) = length else { return self.wait(Command::Other) };
        let is_last = last.eq_ignore_ascii_case(b"LAST");
        self.wait(if is_last { Command::Mail } else { Command::Other });
        self.mode = Mode::Chunk { left_bytes, is_last };
        self.end_chunk();
    }

    /// Handles a response of AUTH, or AUTH's initial response. Only the user name is read.
    fn take_auth(&mut self, line: &[u8]) {
        let current = self.current();
        if current.auth_user.is_some() || line.is_empty() {
            return;
        }
        current.auth_user = read_plain_user(current.auth_mechanism.as_deref(), line);
    }

    fn wait(&mut self, command: Command) {
        self.waiting.push(command, drop);
    }
}

// Server.
impl SmtpParser {
    fn take_reply(&mut self, line: &[u8], sessions: &mut Vec<Box<dyn Session>>) -> Next {
        let Some(reply) = self.replies.read(line) else { return Next::GoOn };
        if !reply.is_last {
            return Next::GoOn;
        }
        let reply_text = text(reply.text.trim_ascii(), LINE_BYTES_MAX);
        let is_first = !std::mem::replace(&mut self.has_replies, true);
        let is_greeting = is_first
            && reply.code == 220
            && self.waiting.oldest().is_none_or(|first| *first != Command::StartTls);
        let current = self.current();
        if is_greeting {
            current.greeting = Some(reply_text.clone());
        }
        current.last_reply = Some((reply.code, reply_text));
        if is_greeting {
            // The greeting answers no command, but pipelined or reordered commands may already wait.
            return Next::GoOn;
        }
        if reply.code == 334 && self.waiting.oldest() == Some(&Command::Auth) {
            // A challenge; AUTH still waits for its reply.
            self.mode = Mode::Auth;
            return Next::GoOn;
        }
        match (self.waiting.take_oldest(), reply.code) {
            (Some(Command::Auth), _) if self.mode == Mode::Auth => self.mode = Mode::Commands,
            (Some(Command::Rcpt), 200..=299) => self.receivers_taken += 1,
            (Some(Command::Data), 354) => self.mode = Mode::Mail,
            (Some(Command::Data), 400..) if matches!(self.mode, Mode::DataAsked | Mode::Mail) => {
                self.mode = Mode::Commands;
                self.mail = None;
            }
            (Some(Command::StartTls), 220) => {
                self.go_over_to_tls(sessions);
                return Next::HandOver;
            }
            (Some(Command::Mail), 200..) => self.yield_current(sessions),
            // The end of the mail was lost, but the server has received it.
            (None, 200..=353 | 355..) if self.mode == Mode::Mail && self.has_gap() => {
                self.mode = Mode::Commands;
                self.keep_mail(false);
                self.yield_current(sessions);
            }
            _ => {}
        }
        Next::GoOn
    }

    fn has_gap(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.has_gap)
    }

    fn go_over_to_tls(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.current().is_tls = true;
        self.yield_current(sessions);
        *self = Self { cut_off: self.cut_off(), ..Self::default() };
    }

    fn current(&mut self) -> &mut SmtpTransaction {
        let client = self.client.unwrap_or(Direction::Originator);
        self.current.get_or_insert_with(|| Box::new(SmtpTransaction::new(1, client)))
    }

    /// Ends the transaction.
    fn yield_current(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.keep_mail(false);
        let Some(current) = self.current.take() else { return };
        if current.is_active {
            self.current = Some(Box::new(current.next()));
            sessions.push(current);
        } else {
            self.current = Some(current);
        }
    }
}

/// The address in `FROM:<address> …` or `TO:<address> …`; `<>` if it is empty.
fn path(argument: &[u8]) -> Option<String> {
    let colon = memchr::memchr(b':', argument)?;
    let rest = argument[colon + 1..].trim_ascii();
    let address = match rest.strip_prefix(b"<") {
        Some(inner) => inner.split(|byte| *byte == b'>').next().unwrap_or(inner),
        None => split_word(rest).0,
    };
    Some(if address.is_empty() { "<>".to_owned() } else { text(address, 320) })
}

//! TDS (Microsoft SQL Server, MS-TDS, versions 7.0 to 7.4): one [`TdsConnection`] for the negotiation, the
//! login and its result.
//!
//! | file | what it does |
//! |---|---|
//! | `message` | detection; packets, and contents of messages |
//! | `connection` | the session, and its filter fields |
//!
//! A client negotiates (PRELOGIN), and logs in (LOGIN7). If both sides agree on encryption, they use TLS. The
//! records of its handshake lie in packets of type PRELOGIN. Later records follow each other without packets.
//! The parser yields all records as an inner stream.
//!
//! With the encryption "off", only the login is encrypted, and its answer is in clear. So the row has the
//! result, but no user. The session ends with this answer. If everything is encrypted, the session ends when
//! both sides have sent application data over TLS, because the handshake is over then. TDS 8 begins with TLS,
//! and the parser of TLS reads it. Passwords are skipped.

mod connection;
mod message;
#[cfg(test)]
mod tests;

pub use connection::TdsConnection;
pub use message::{TdsAnswer, TdsError, TdsLogin, TdsLoginAck, TdsPrelogin};

use crate::frames::{Frame, Frames, Next};
use crate::{CutOff, Data, Direction, InnerPiece, Progress, Session, SessionParser, SessionProtocol};
use connection::FIELDS;
use message::{
    ANSWER, END_OF_MESSAGE, FEDERATED_TOKEN, HEADER_BYTES, LOGIN7, PACKET_BYTES_MAX, PRELOGIN, SSPI,
    is_data_record, is_record, may_begin, measure, probe,
};
use weir_packet::Timestamp;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "tds",
    service: "tds",
    log: "tds",
    transports: &["tcp"],
    ports: &[1433],
    hands_over: &["tls"],
    doc: "Microsoft SQL Server: logins, databases and encryption (MS-TDS)",
    probe,
    may_begin,
    open: |_| Box::new(TdsParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "user", "database", "program", "encryption", "success", "error"],
    fields: FIELDS,
};

/// Maximum number of bytes kept of a message.
pub const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Messages of both sides after which no result of the login is expected: a login by SSPI has about ten.
const MESSAGES_MAX: u32 = 32;

/// Bytes of TLS after which its handshake is over, even if one side was not captured.
const TLS_BYTES_MAX: u64 = 256 << 10;

/// A message whose packets have not all arrived.
#[derive(Debug)]
struct Message {
    kind: u8,
    /// Time of its first byte.
    time: Timestamp,
    bytes: Vec<u8>,
    is_cut: bool,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    frames: Frames,
    message: Option<Message>,
    /// Packets of type PRELOGIN have records of TLS.
    is_tls: bool,
    /// Data of the application were sent over TLS, behind the handshake.
    has_data: bool,
    /// Bytes of TLS that are missing before the next ones.
    missing_bytes: u64,
}

/// Parses one connection. Holds at most a packet and a message of each side, and the records of a call.
#[derive(Debug, Default)]
pub struct TdsParser {
    sides: [Side; 2],
    connection: Option<Box<TdsConnection>>,
    messages: u32,
    /// The bytes of TLS so far.
    tls_bytes: u64,
    inner: Vec<InnerPiece>,
    /// [`Progress::Inner`] was returned.
    has_inner: bool,
    is_done: bool,
    cut_off: CutOff,
}

impl SessionParser for TdsParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        while !self.is_done {
            let frames = &mut self.sides[data.from as usize].frames;
            match frames.next(&mut rest, data.time, PACKET_BYTES_MAX, measure) {
                Next::Frame(frame) if is_record(&frame.bytes) => self.take_record(data, &frame.bytes),
                Next::Frame(frame) => self.take_packet(data, &frame),
                Next::More => break,
                Next::Lost => {
                    self.is_done = self.sides.iter().all(|side| side.frames.is_lost());
                    break;
                }
            }
        }
        self.progress(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes > 0 {
            // Requests and answers begin with a packet in a segment of its own, as records do.
            let side = &mut self.sides[from as usize];
            side.frames.lose(length_bytes);
            side.message = None;
            if self.has_inner {
                // The number is approximate: it includes lost headers of packets, and lacks the part of a
                // record that was kept. TLS continues with the next record, whatever the number.
                side.missing_bytes = side.missing_bytes.saturating_add(length_bytes);
            }
        }
        self.progress(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let known = self.connection.take().filter(|connection| connection.is_known());
        sessions.extend(known.map(|connection| connection as Box<dyn Session>));
    }

    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        pieces.append(&mut self.inner);
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl TdsParser {
    /// Yields the connection if it is done. The first bytes of TLS need an answer of their own.
    fn progress(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.is_done {
            self.finish(sessions);
        }
        match (self.is_done, self.inner.is_empty()) {
            (true, false) if !self.has_inner => {}
            (true, _) => return Progress::Done,
            (false, true) => return Progress::Wanted,
            (false, false) => {}
        }
        self.has_inner = true;
        Progress::Inner
    }

    /// Appends bytes of TLS to the inner stream.
    fn pass(&mut self, data: &Data<'_>, bytes: &[u8]) {
        let gap_bytes = std::mem::take(&mut self.sides[data.from as usize].missing_bytes);
        let bytes = bytes.to_vec();
        self.tls_bytes += bytes.len() as u64;
        self.is_done |= self.tls_bytes > TLS_BYTES_MAX;
        self.inner.push(InnerPiece { from: data.from, time: data.time, gap_bytes, bytes });
    }

    /// Takes a record of TLS that lies in no packet.
    fn take_record(&mut self, data: &Data<'_>, record: &[u8]) {
        self.sides[data.from as usize].has_data |= is_data_record(record);
        self.pass(data, record);
        self.is_done |= self.sides.iter().all(|side| side.has_data);
    }

    fn take_packet(&mut self, data: &Data<'_>, frame: &Frame<'_>) {
        let (kind, status) = (frame.bytes[0], frame.bytes[1]);
        let content = &frame.bytes[HEADER_BYTES..];
        let side = &mut self.sides[data.from as usize];
        let before = side.message.take();
        self.cut_off.parts += u64::from(before.as_ref().is_some_and(|message| message.kind != kind));
        let begun = before.filter(|message| message.kind == kind);
        side.is_tls |= kind == PRELOGIN && begun.is_none() && is_record(content);
        if kind == PRELOGIN && side.is_tls {
            return self.pass(data, content);
        }
        let mut message =
            begun.unwrap_or(Message { kind, time: frame.time, bytes: Vec::new(), is_cut: false });
        let kept = content.len().min(MESSAGE_BYTES_MAX - message.bytes.len());
        message.bytes.extend_from_slice(&content[..kept]);
        self.cut_off.parts += u64::from(kept < content.len() && !message.is_cut);
        message.is_cut |= kept < content.len();
        if status & END_OF_MESSAGE == 0 {
            side.message = Some(message);
        } else {
            self.take_message(&message);
        }
    }

    fn take_message(&mut self, message: &Message) {
        self.messages += 1;
        let (bytes, cut) = (&message.bytes[..], &mut self.cut_off.parts);
        let connection = TdsConnection::of(&mut self.connection, message.time);
        match message.kind {
            PRELOGIN => {
                if let Some(prelogin) = TdsPrelogin::parse(bytes) {
                    connection.client = Some(prelogin);
                }
            }
            LOGIN7 => {
                if let Some(login) = TdsLogin::parse(bytes, cut) {
                    connection.login = Some(login);
                }
            }
            ANSWER => match TdsPrelogin::parse(bytes) {
                Some(prelogin) => connection.server = Some(prelogin),
                None => {
                    let answer = &mut connection.answer;
                    let _ = answer.take_tokens(bytes, cut);
                    self.is_done = answer.is_over || answer.is_good().is_some();
                }
            },
            SSPI | FEDERATED_TOKEN => {}
            // A request: the login is over.
            _ => self.is_done = true,
        }
        if self.messages >= MESSAGES_MAX && !self.is_done {
            self.cut_off.sessions += 1;
            self.is_done = true;
        }
    }
}

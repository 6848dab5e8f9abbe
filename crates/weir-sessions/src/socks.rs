//! SOCKS 4, 4a and 5 (RFC 1928, RFC 1929, RFC 1961; `SOCKS4.protocol` and `SOCKS4A.protocol` of NEC): one
//! [`SocksConnection`] for each connection to a proxy.
//!
//! Each step of the negotiation is one message of one side ([`Step`]). After the reply to CONNECT, or the
//! second reply to BIND, the stream belongs to another protocol, and the parser hands over. A client may send
//! its first bytes before the reply. The parser keeps these bytes, and cannot hand them over, because
//! [`Progress::HandOver`] returns bytes of the current piece only. In this case the parser stays, and yields
//! all following bytes as an inner stream.
//!
//! The parser does not know the messages of other authentication methods. A connection may also turn out not
//! to be SOCKS. In both cases the parser hands over, so that another protocol is found in the bytes that
//! follow.

use crate::line::text as lossy;
use crate::session::{Words, named, session_fields};
use crate::values::{collect_numbers, name, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, InnerPiece, Opening, Probe, Progress, Session,
    SessionParser, SessionProtocol,
};
use memchr::memchr;
use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "socks",
    service: "socks",
    log: "socks",
    transports: &["tcp"],
    ports: &[1080],
    hands_over: &[
        "tls",
        "http",
        "smtp",
        "ftp",
        "pop3",
        "imap",
        "ssh",
        "dns",
        "kerberos",
        "openvpn",
        "sip",
        "rdp",
        "mqtt",
        "modbus",
        "postgresql",
        "mysql",
        "smb",
        "redis",
        "bittorrent",
        "stun",
        "tds",
        // A proxy behind a proxy.
        "socks",
    ],
    doc: "SOCKS: destinations that clients request from proxies (RFC 1928, RFC 1929)",
    probe,
    may_begin,
    open: |_| Box::new(SocksParser::default()),
    carrier: None,
    settings: &[],
    brief: &[
        "ts",
        "orig",
        "resp",
        "version",
        "user",
        "command",
        "request.host",
        "request.name",
        "request_p",
        "status",
    ],
    fields: FIELDS,
};

/// A version, or the zero that begins a reply of SOCKS 4.
fn may_begin(place: FirstPlace) -> ByteSet {
    match (place.at, place.is_datagram) {
        (0, false) => ByteSet::of(|byte| matches!(byte, 0 | 4 | 5)),
        (_, false) => ByteSet::ALL,
        (_, true) => ByteSet::of(|_| false),
    }
}

/// Maximum number of bytes of a direction that wait for a message of the other side.
pub const WAITING_BYTES_MAX: usize = 16 << 10;

/// Maximum number of bytes of a user's or host's name.
const NAME_BYTES_MAX: usize = 255;

/// Replies that grant a request, of SOCKS 4 and 5.
const GRANTED_4: u8 = 0x5a;
const GRANTED_5: u8 = 0;

/// Replies of SOCKS 4.
const REPLIES_4: std::ops::RangeInclusive<u8> = GRANTED_4..=0x5d;

/// Commands (RFC 1928 §4); the last two are Tor's.
const CONNECT: u8 = 1;
const BIND: u8 = 2;
const UDP_ASSOCIATE: u8 = 3;
const RESOLVE: u8 = 0xf0;
const RESOLVE_PTR: u8 = 0xf1;

/// Authentication methods (RFC 1928 §3).
const NONE: u8 = 0;
const GSSAPI: u8 = 1;
const PASSWORD: u8 = 2;
const NOT_ACCEPTABLE: u8 = 0xff;

/// Whether an authentication method is registered or private. 4 is not assigned.
fn is_method(method: u8) -> bool {
    matches!(method, 0..=3 | 5..=9 | 0x80..=0xfe)
}

/// The beginning of a side, for the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning<'a> {
    /// No byte.
    Empty,
    /// A part of the first message, which is of this version.
    Part(u8),
    /// SOCKS 4: the client's whole request, or the first two bytes of the server's reply.
    Four,
    /// Methods of SOCKS 5: those that a client offers, or the one that a server chose.
    Five(&'a [u8]),
    /// Bytes that SOCKS does not begin with.
    Wrong,
}

/// Recognises both sides together. Two or three bytes of one side are no signature.
fn probe(opening: &Opening<'_>) -> Probe {
    use Beginning::{Empty, Five, Four, Part, Wrong};
    if opening.is_datagram {
        return Probe::NotForUs;
    }
    match (of_client(opening.originator), of_server(opening.responder)) {
        (Wrong, _) | (_, Wrong) => Probe::NotForUs,
        (Four, Four) => Probe::Certain,
        (Five(_), Five([NOT_ACCEPTABLE])) => Probe::Certain,
        (Five(offered), Five(chosen)) if chosen.iter().all(|method| offered.contains(method)) => {
            Probe::Certain
        }
        (Five(_), Five(_)) => Probe::NotForUs,
        (Part(5) | Five(_), Part(4) | Four) | (Part(4) | Four, Part(5) | Five(_)) => Probe::NotForUs,
        (Empty | Part(_) | Four | Five(_), _) => Probe::Unsure,
    }
}

/// The first message of a client. The bytes behind it do not matter, because the client may not wait.
fn of_client(bytes: &[u8]) -> Beginning<'_> {
    match *bytes {
        [] => Beginning::Empty,
        [5] => Beginning::Part(5),
        [5, count, ref rest @ ..] => {
            let methods = &rest[..rest.len().min(count.into())];
            // A repeated method is the mark of another protocol: Modbus has zeros here.
            let is_new = |at: usize| !methods[..at].contains(&methods[at]);
            let is_possible = (0..methods.len()).all(|at| is_method(methods[at]) && is_new(at));
            match is_possible && count > 0 {
                true if methods.len() == usize::from(count) => Beginning::Five(methods),
                true => Beginning::Part(5),
                false => Beginning::Wrong,
            }
        }
        [4] => Beginning::Part(4),
        [4, CONNECT | BIND, ref rest @ ..] => {
            let Some((head, texts)) = rest.split_at_checked(6) else { return Beginning::Part(4) };
            let is_named = matches!(head[2..], [0, 0, 0, 1..=255]);
            let (user, behind) = until_zero(texts);
            let (host, host_end) = behind.map_or((&[][..], None), until_zero);
            let is_user = user.len() <= NAME_BYTES_MAX && user.iter().all(|byte| matches!(byte, b' '..=b'~'));
            let is_host = host.len() <= NAME_BYTES_MAX && host.iter().all(is_of_host);
            match (is_user, is_named, behind, host_end) {
                (false, ..) => Beginning::Wrong,
                (_, false, Some(_), _) => Beginning::Four,
                (_, true, Some(_), _) if !is_host => Beginning::Wrong,
                (_, true, Some(_), Some(_)) if host.is_empty() => Beginning::Wrong,
                (_, true, Some(_), Some(_)) => Beginning::Four,
                _ => Beginning::Part(4),
            }
        }
        _ => Beginning::Wrong,
    }
}

/// The bytes up to a zero, and those behind it. The latter are absent without a zero.
fn until_zero(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(0, bytes) {
        Some(end) => (&bytes[..end], Some(&bytes[end + 1..])),
        None => (bytes, None),
    }
}

/// Whether a host's name may contain a byte; a name may be an address.
fn is_of_host(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | 0x80..)
}

/// The first two bytes of a server: the method of SOCKS 5, or a reply of SOCKS 4.
fn of_server(bytes: &[u8]) -> Beginning<'_> {
    match bytes {
        [] => Beginning::Empty,
        [5] => Beginning::Part(5),
        [5, method, ..] if is_method(*method) || *method == NOT_ACCEPTABLE => Beginning::Five(&bytes[1..2]),
        [0] => Beginning::Part(4),
        [0, reply, ..] if REPLIES_4.contains(reply) => Beginning::Four,
        _ => Beginning::Wrong,
    }
}

/// An address with a port, as the client requests it or the server reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocksEnd {
    /// The address.
    pub host: Option<IpAddr>,
    /// The name of the host, instead of an address.
    pub name: Option<String>,
    /// The port.
    pub port: Option<u16>,
}

/// The negotiation of a connection with its proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksConnection {
    /// Capture time of its first byte.
    pub time: Timestamp,
    /// Version: 4, also of 4a, or 5.
    pub version: u8,
    /// Authentication methods that the client offers.
    pub offered: Vec<u8>,
    /// Authentication method that the server chose; 255 if it accepts none.
    pub method: Option<u8>,
    /// The user.
    pub user: Option<String>,
    /// Whether the client sent a password.
    pub has_password: bool,
    /// Command: 1 CONNECT, 2 BIND, 3 UDP ASSOCIATE.
    pub command: Option<u8>,
    /// The destination of the request.
    pub request: SocksEnd,
    /// The server's end, of its first reply.
    pub bound: SocksEnd,
    /// Code of the server's last reply, or of its answer to the password if it refused that.
    pub reply: Option<u8>,
}

impl SocksConnection {
    fn new(time: Timestamp, version: u8) -> Self {
        Self {
            time,
            version,
            offered: Vec::new(),
            method: None,
            user: None,
            has_password: false,
            command: None,
            request: SocksEnd::default(),
            bound: SocksEnd::default(),
            reply: None,
        }
    }

    /// Whether the negotiation got beyond the choice of no authentication.
    fn is_worth_a_row(&self) -> bool {
        let has_user = self.user.is_some() || self.has_password;
        self.command.is_some() || has_user || !matches!(self.method, None | Some(NONE))
    }

    fn status(&self) -> Option<Cow<'static, str>> {
        self.reply.map(if self.version == 4 { status_name_4 } else { status_name_5 })
    }
}

/// The message that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    /// The client's request of SOCKS 4, or its methods of SOCKS 5.
    #[default]
    Greeting,
    /// The server's choice of a method.
    Method,
    /// A token of the client (RFC 1961), or its request.
    Token,
    /// The server's token.
    TokenReply,
    /// The client's user and password (RFC 1929).
    Password,
    /// The server's answer to these.
    PasswordReply,
    /// The client's request.
    Request,
    /// The server's reply.
    Reply,
    /// The server's second reply to BIND: a peer has connected.
    SecondReply,
    /// None: an inner stream.
    Inner,
    /// None: the parser has ended.
    Over,
}

impl Step {
    /// The sender of the message.
    fn from(self) -> Option<Direction> {
        match self {
            Step::Greeting | Step::Token | Step::Password | Step::Request => Some(Direction::Originator),
            Step::Method | Step::TokenReply | Step::PasswordReply | Step::Reply | Step::SecondReply => {
                Some(Direction::Responder)
            }
            Step::Inner | Step::Over => None,
        }
    }
}

/// What follows a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Go(Step),
    /// Another protocol.
    HandOver,
    /// Nothing.
    End,
}

/// The reason why the next bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Bytes are missing.
    Short,
    /// The byte at this position contradicts the protocol. It is the first one that does, so the position
    /// does not depend on the pieces of the stream.
    Wrong(usize),
    /// The message is longer than [`WAITING_BYTES_MAX`].
    Long,
}

/// A message, and its length.
type Read<T> = Result<(T, usize), Stop>;

/// Parses one connection. Holds at most 16 KiB of each direction.
#[derive(Debug, Default)]
pub struct SocksParser {
    step: Step,
    connection: Option<Box<SocksConnection>>,
    /// The bytes of each direction that no message has consumed.
    unread: [Vec<u8>; 2],
    /// Capture time of the first bytes, and of the last ones.
    times: Option<(Timestamp, Timestamp)>,
    /// The inner stream, until the engine takes it.
    inner: Vec<InnerPiece>,
    cut_off: CutOff,
}

impl SessionParser for SocksParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let Data { from, time, bytes, .. } = *data;
        if bytes.is_empty() {
            return if self.step == Step::Over { Progress::Done } else { Progress::Wanted };
        }
        self.times = Some((self.times.map_or(time, |(first, _)| first), time));
        match self.step {
            Step::Over => return Progress::Done,
            Step::Inner => return self.pass(from, 0, bytes.to_vec()),
            _ => self.unread[from as usize].extend_from_slice(bytes),
        }
        match self.read_all() {
            Then::Go(_) => {}
            Then::End => return self.end(sessions),
            Then::HandOver => return self.hand_over(data, sessions),
        }
        if self.unread.iter().any(|unread| unread.len() > WAITING_BYTES_MAX) {
            self.cut_off.sessions += 1;
            return self.end(sessions);
        }
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        match self.step {
            Step::Over => Progress::Done,
            _ if length_bytes == 0 => Progress::Wanted,
            Step::Inner => self.pass(from, length_bytes, Vec::new()),
            _ => {
                // Another protocol may follow, or have begun already, if the client did not wait.
                let is_reply = matches!(self.step, Step::Reply | Step::SecondReply);
                if is_reply && from == Direction::Responder && !self.unread[0].is_empty() {
                    let begun = std::mem::take(&mut self.unread[0]);
                    self.end(sessions);
                    self.step = Step::Inner;
                    self.pass(Direction::Originator, 0, begun);
                    return self.pass(from, length_bytes, Vec::new());
                }
                let has_unread = self.unread.iter().any(|unread| !unread.is_empty());
                let progress = self.end(sessions);
                if has_unread { progress } else { Progress::HandOver { rest_bytes: 0 } }
            }
        }
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if !matches!(self.step, Step::Inner | Step::Over) {
            self.end(sessions);
        }
    }

    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        pieces.append(&mut self.inner);
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl SocksParser {
    /// Reads the messages that are complete.
    fn read_all(&mut self) -> Then {
        let unread = std::mem::take(&mut self.unread);
        let mut at = [0; 2];
        let mut then = Then::Go(self.step);
        while let Then::Go(step) = then
            && let Some(sender) = step.from()
        {
            self.step = step;
            let at = &mut at[sender as usize];
            match self.read(step, &unread[sender as usize][*at..]) {
                Ok((next, used)) => {
                    *at += used;
                    then = next;
                }
                Err(Stop::Wrong(wrong_at)) => {
                    *at += wrong_at;
                    then = Then::HandOver;
                }
                Err(Stop::Short) => break,
                Err(Stop::Long) => {
                    self.cut_off.sessions += 1;
                    then = Then::End;
                }
            }
        }
        self.unread = unread;
        for (unread, at) in self.unread.iter_mut().zip(at) {
            unread.drain(..at);
        }
        then
    }

    /// Reads the message of a step. Returns what follows, and the length of the message.
    fn read(&mut self, step: Step, bytes: &[u8]) -> Read<Then> {
        let first_time = self.times.map_or(Timestamp(0), |(first, _)| first);
        let Some(connection) = &mut self.connection else {
            let (connection, used) = read_greeting(bytes, first_time)?;
            let next = if connection.version == 4 { Step::Reply } else { Step::Method };
            self.connection = Some(Box::new(connection));
            return Ok((Then::Go(next), used));
        };
        match step {
            Step::Method => {
                let (method, used) = read_pair(bytes, 5..=5)?;
                connection.method = Some(method);
                let then = match method {
                    NONE => Then::Go(Step::Request),
                    GSSAPI => Then::Go(Step::Token),
                    PASSWORD => Then::Go(Step::Password),
                    NOT_ACCEPTABLE => Then::End,
                    _ => Then::HandOver,
                };
                Ok((then, used))
            }
            Step::Token if bytes.first() == Some(&5) => Ok((Then::Go(Step::Request), 0)),
            Step::Token | Step::TokenReply => {
                let (kind, used) = read_token(bytes)?;
                let then = match kind {
                    // A refusal; a request or reply that is encrypted.
                    0xff | 3 => Then::End,
                    _ if step == Step::Token => Then::Go(Step::TokenReply),
                    _ => Then::Go(Step::Token),
                };
                Ok((then, used))
            }
            Step::Password => {
                let ((user, has_password), used) = read_password(bytes)?;
                (connection.user, connection.has_password) = (user, has_password);
                Ok((Then::Go(Step::PasswordReply), used))
            }
            Step::PasswordReply => {
                // Some servers answer with the version of SOCKS.
                let (code, used) = read_pair(bytes, 1..=5)?;
                if code == 0 {
                    return Ok((Then::Go(Step::Request), used));
                }
                connection.reply = Some(code);
                Ok((Then::End, used))
            }
            Step::Request => {
                let ((command, request), used) = read_message_5(bytes)?;
                (connection.command, connection.request) = (Some(command), request);
                Ok((Then::Go(Step::Reply), used))
            }
            Step::Reply | Step::SecondReply => {
                let (is_4, is_first) = (connection.version == 4, step == Step::Reply);
                let read = if is_4 { read_reply_4(bytes) } else { read_message_5(bytes) };
                let ((code, bound), used) = match read {
                    // Some servers have no address in a refusal.
                    Err(Stop::Wrong(3)) if !is_4 && bytes[1] != GRANTED_5 => {
                        ((bytes[1], SocksEnd::default()), 3)
                    }
                    read => read?,
                };
                connection.reply = Some(code);
                if is_first {
                    connection.bound = bound;
                }
                let is_granted = code == if is_4 { GRANTED_4 } else { GRANTED_5 };
                let then = match connection.command {
                    _ if !is_granted => Then::End,
                    Some(BIND) if is_first => Then::Go(Step::SecondReply),
                    // The datagrams are in another flow.
                    Some(UDP_ASSOCIATE | RESOLVE | RESOLVE_PTR) => Then::End,
                    _ => Then::HandOver,
                };
                Ok((then, used))
            }
            Step::Greeting | Step::Inner | Step::Over => Err(Stop::Short),
        }
    }

    /// Ends the negotiation, and yields its row.
    fn end(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        self.read_unanswered();
        self.step = Step::Over;
        self.unread = Default::default();
        let connection = self.connection.take().filter(|connection| connection.is_worth_a_row());
        sessions.extend(connection.map(|connection| connection as Box<dyn Session>));
        Progress::Done
    }

    /// Reads what the client sent without waiting for the server, and the beginning of a refusal.
    fn read_unanswered(&mut self) {
        let [mut client, server] = std::mem::take(&mut self.unread);
        if matches!(self.step, Step::Method | Step::PasswordReply) {
            // A method that was not chosen has no messages, so either step may be missing.
            for step in [Step::Password, Step::Request] {
                if let Ok((_, used)) = self.read(step, &client) {
                    client.drain(..used);
                }
            }
        }
        if let Step::Reply = self.step
            && let Some(connection) = &mut self.connection
            && let (5, [5, code @ 1..=255, ..]) = (connection.version, &server[..])
        {
            connection.reply = Some(*code);
        }
    }

    /// Yields the row, and hands over the bytes that follow.
    fn hand_over(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let [mut own, mut other] = std::mem::take(&mut self.unread);
        if data.from == Direction::Responder {
            std::mem::swap(&mut own, &mut other);
        }
        self.end(sessions);
        if other.is_empty() {
            // The message before these bytes ended in the current piece.
            return Progress::HandOver { rest_bytes: own.len().min(data.bytes.len()) };
        }
        self.step = Step::Inner;
        self.pass(data.from.other(), 0, other);
        self.pass(data.from, 0, own)
    }

    /// Passes bytes to the inner stream, behind a number of missing ones.
    fn pass(&mut self, from: Direction, gap_bytes: u64, bytes: Vec<u8>) -> Progress {
        let time = self.times.map_or(Timestamp(0), |(_, last)| last);
        self.inner.push(InnerPiece { from, time, gap_bytes, bytes });
        Progress::Inner
    }
}

/// Reads a request of SOCKS 4, or the methods of SOCKS 5 (RFC 1928 §3).
fn read_greeting(bytes: &[u8], time: Timestamp) -> Read<SocksConnection> {
    let mut reader = Reader::new(bytes);
    match reader.u8().ok_or(Stop::Short)? {
        4 => read_request_4(bytes, time),
        5 => {
            let count = reader.u8().ok_or(Stop::Short)?;
            if count == 0 {
                return Err(Stop::Wrong(1));
            }
            let offered = reader.take(count.into()).ok_or(Stop::Short)?.to_vec();
            let used = 2 + offered.len();
            Ok((SocksConnection { offered, ..SocksConnection::new(time, 5) }, used))
        }
        _ => Err(Stop::Wrong(0)),
    }
}

/// Reads a request of SOCKS 4: command, port, address, user; and behind an address of 0.0.0.x, which is none,
/// the name of the host.
fn read_request_4(bytes: &[u8], time: Timestamp) -> Read<SocksConnection> {
    let Some(([version, command, high, low, address @ ..], texts)) = bytes.split_first_chunk::<8>() else {
        return Err(Stop::Short);
    };
    let text_at = |at: usize| match until_zero(&texts[at..]) {
        (text, _) if text.len() > NAME_BYTES_MAX => Err(Stop::Wrong(8 + at + NAME_BYTES_MAX)),
        (_, None) => Err(Stop::Short),
        (text, Some(_)) => Ok(text),
    };
    let user = text_at(0)?;
    let mut used = 8 + user.len() + 1;
    let mut connection = SocksConnection::new(time, *version);
    connection.command = Some(*command);
    connection.user = shown(user);
    connection.request.port = Some(u16::from_be_bytes([*high, *low]));
    if let [0, 0, 0, 1..=255] = address {
        let host = text_at(user.len() + 1)?;
        used += host.len() + 1;
        connection.request.name = shown(host);
    } else {
        connection.request.host = Some(Ipv4Addr::from(*address).into());
    }
    Ok((connection, used))
}

/// Reads a reply of SOCKS 4: zero, code, port, address.
fn read_reply_4(bytes: &[u8]) -> Read<(u8, SocksEnd)> {
    match bytes {
        [0, code, ..] if !REPLIES_4.contains(code) => Err(Stop::Wrong(1)),
        [0, code, high, low, a, b, c, d, ..] => {
            let host = Some(Ipv4Addr::new(*a, *b, *c, *d).into());
            let end = SocksEnd { host, name: None, port: Some(u16::from_be_bytes([*high, *low])) };
            Ok(((*code, end), 8))
        }
        [] | [0, ..] => Err(Stop::Short),
        _ => Err(Stop::Wrong(0)),
    }
}

/// Reads a request or a reply of SOCKS 5 (RFC 1928 §4, §6): version, command or code, a reserved byte, type
/// of address, address, port.
fn read_message_5(bytes: &[u8]) -> Read<(u8, SocksEnd)> {
    let mut reader = Reader::new(bytes);
    if reader.u8().ok_or(Stop::Short)? != 5 {
        return Err(Stop::Wrong(0));
    }
    let code = reader.u8().ok_or(Stop::Short)?;
    let mut end = SocksEnd::default();
    match reader.u16().ok_or(Stop::Short)? & 0xff {
        1 => end.host = Some(IpAddr::V4(Ipv4Addr::from(reader.array::<4>().ok_or(Stop::Short)?))),
        3 => end.name = shown(reader.vector8().ok_or(Stop::Short)?),
        4 => end.host = Some(IpAddr::V6(Ipv6Addr::from(reader.array::<16>().ok_or(Stop::Short)?))),
        _ => return Err(Stop::Wrong(3)),
    }
    end.port = Some(reader.u16().ok_or(Stop::Short)?);
    Ok(((code, end), bytes.len() - reader.rest().len()))
}

/// Reads a version and a byte.
fn read_pair(bytes: &[u8], versions: std::ops::RangeInclusive<u8>) -> Read<u8> {
    match bytes {
        [version, ..] if !versions.contains(version) => Err(Stop::Wrong(0)),
        [_, byte, ..] => Ok((*byte, 2)),
        _ => Err(Stop::Short),
    }
}

/// Reads the client's login (RFC 1929 §2): the name of the user, and whether a password was sent.
fn read_password(bytes: &[u8]) -> Read<(Option<String>, bool)> {
    let mut reader = Reader::new(bytes);
    if reader.u8().ok_or(Stop::Short)? != 1 {
        return Err(Stop::Wrong(0));
    }
    let user = reader.vector8().ok_or(Stop::Short)?;
    let password = reader.vector8().ok_or(Stop::Short)?;
    Ok(((shown(user), !password.is_empty()), bytes.len() - reader.rest().len()))
}

/// Reads the kind of a GSSAPI message, whose token does not matter (RFC 1961 §3). A refusal has no token.
fn read_token(bytes: &[u8]) -> Read<u8> {
    let (kind, used) = read_pair(bytes, 1..=1)?;
    if kind == 0xff {
        return Ok((kind, used));
    }
    let length = Reader::new(&bytes[used..]).u16().ok_or(Stop::Short)?;
    let whole = used + 2 + usize::from(length);
    // However the token arrives, it must fit what is kept.
    if whole > WAITING_BYTES_MAX {
        return Err(Stop::Long);
    }
    if bytes.len() < whole { Err(Stop::Short) } else { Ok((kind, whole)) }
}

/// A name as text; absent if it is empty.
fn shown(name: &[u8]) -> Option<String> {
    (!name.is_empty()).then(|| lossy(name, NAME_BYTES_MAX))
}

impl Session for SocksConnection {
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

/// Zeek's name of a reply of SOCKS 4.
fn status_name_4(code: u8) -> Cow<'static, str> {
    match code {
        GRANTED_4 => "succeeded".into(),
        0x5b => "general SOCKS server failure".into(),
        0x5c => "request failed because client is not running identd".into(),
        0x5d => "request failed because client's identd could not confirm the user ID string in the request"
            .into(),
        other => format!("unknown-{other}").into(),
    }
}

/// Zeek's name of a reply of SOCKS 5 (RFC 1928 §6).
fn status_name_5(code: u8) -> Cow<'static, str> {
    match code {
        GRANTED_5 => "succeeded".into(),
        1 => "general SOCKS server failure".into(),
        2 => "connection not allowed by ruleset".into(),
        3 => "Network unreachable".into(),
        4 => "Host unreachable".into(),
        5 => "Connection refused".into(),
        6 => "TTL expired".into(),
        7 => "Command not supported".into(),
        8 => "Address type not supported".into(),
        other => format!("unknown-{other}").into(),
    }
}

const STATUS: Words = Words {
    list: || [named(0..=u8::MAX, status_name_5), named(0x5c..=0x5d, status_name_4)].concat(),
    others: &["unknown-"],
};

fn command_name(command: u8) -> Cow<'static, str> {
    match command {
        CONNECT => "CONNECT".into(),
        BIND => "BIND".into(),
        UDP_ASSOCIATE => "UDP ASSOCIATE".into(),
        RESOLVE => "RESOLVE".into(),
        RESOLVE_PTR => "RESOLVE_PTR".into(),
        other => format!("unknown-{other}").into(),
    }
}

const COMMANDS: Words = Words { list: || named(0..=u8::MAX, command_name), others: &["unknown-"] };

/// Zeek's name of an authentication method; two more are registered with IANA.
fn method_name(method: u8) -> Cow<'static, str> {
    match method {
        NONE => "No Authentication Required".into(),
        GSSAPI => "GSSAPI".into(),
        PASSWORD => "Username/Password".into(),
        3 => "Challenge-Handshake Authentication Protocol".into(),
        5 => "Challenge-Response Authentication Method".into(),
        6 => "Secure Sockets Layer".into(),
        7 => "NDS Authentication".into(),
        8 => "Multi-Authentication Framework".into(),
        9 => "JSON Parameter Block".into(),
        NOT_ACCEPTABLE => "No Acceptable Methods".into(),
        other => format!("unknown-{other}").into(),
    }
}

const METHODS: Words = Words { list: || named(0..=u8::MAX, method_name), others: &["unknown-"] };

fn address(host: Option<IpAddr>) -> Value<'static> {
    host.map_or(Value::Absent, Value::Address)
}

session_fields! { SocksConnection;
    "socks.version" [] version: Unsigned, "Version: 4, also of 4a, or 5" => |s| Value::Unsigned(s.version.into());
    "socks.username" ["socks.user"] user: Text, "User name" => |s| text(s.user.as_deref());
    "socks.password" [] password: Text, "`<hidden>` if a password was sent" => |s| text(s.has_password.then_some("<hidden>"));
    "socks.status" [] status: Text in STATUS, "Result: succeeded, Connection refused" => |s| name(s.status());
    "socks.dst" ["socks.request_host"] "request.host": Address, "Address that the client requests" => |s| address(s.request.host);
    "socks.remote_name" ["socks.request_name"] "request.name": Text, "Name of the host that the client requests" => |s| text(s.request.name.as_deref());
    "socks.dstport" ["socks.request_port"] request_p: Unsigned, "Port that the client requests" => |s| unsigned(s.request.port);
    "socks.bound_host" [] "bound.host": Address, "Address of the server's end, which it connects from or listens at" => |s| address(s.bound.host);
    "socks.bound_name" [] "bound.name": Text, "Name of the server's end" => |s| text(s.bound.name.as_deref());
    "socks.bound_port" [] bound_p: Unsigned, "Port of the server's end" => |s| unsigned(s.bound.port);
    "socks.request" [] command: Text in COMMANDS, "Request: CONNECT, BIND, UDP ASSOCIATE" => |s| name(s.command.map(command_name));
    "socks.auth" [] auth_method: Text in METHODS, "Authentication method that the server chose: Username/Password" => |s| name(s.method.map(method_name));
    // Not in the log.
    "socks.command" [] _: Unsigned, "Number of the request: 1 CONNECT, 2 BIND, 3 UDP ASSOCIATE" => |s| unsigned(s.command);
    "socks.results" [] _: Unsigned, "Code of the result: 0 or 90 is success" => |s| unsigned(s.reply);
    "socks.auth_method" [] _: Numbers, "Authentication methods that the client offers" => |s| collect_numbers(s.offered.iter().copied());
    "socks.auth_accepted_method" [] _: Unsigned, "Number of the authentication method that the server chose" => |s| unsigned(s.method);
}

#[cfg(test)]
mod tests;

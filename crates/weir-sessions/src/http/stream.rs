//! One direction of HTTP/1: bytes → heads, bodies, ends of messages (RFC 9112 §2, §6).
//!
//! A head that lies whole in one piece is read where it lies; otherwise it is kept until it is whole. Bodies are
//! handed on as slices of what came in. Behind a gap that leaves nobody knowing where the next message begins, lines
//! are passed over until one is a start line.

use super::chunked::{Chunk, Chunked, EmptyLine};
use super::head::{HEAD_BYTES_MAX, Head, METHOD_BYTES_MAX, StartLine, end_of_head, is_token};
use memchr::memchr;
use weir_packet::Timestamp;

/// Longest start line that is recognised behind a gap, bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// What comes out of one direction, in order: a head, then what the body is of, then the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A message begins. The reader must be told what body follows ([`Stream::expect`]).
    Head {
        /// Its head.
        head: Head,
        /// When its first byte came.
        time: Timestamp,
        /// It was longer than what is kept, or bytes of it are missing.
        flaw: Option<Flaw>,
    },
    /// Bytes of its content; never empty.
    Body(&'a [u8]),
    /// So many bytes of its content are missing.
    BodyLost(u64),
    /// It is over, as it should.
    End,
    /// Nobody knows where it ends: bytes are missing, or are none of HTTP.
    Lost(Flaw),
}

/// Why a message was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Bytes are missing where they were needed.
    Gap,
    /// A head was longer than what is kept.
    Oversize,
    /// The bytes are not what the protocol allows.
    Malformed,
    /// The exchange had not ended when its connection did, or too many others waited behind it.
    Unfinished,
}

impl Flaw {
    /// The word for it in rows: `gap`, `oversize`, `malformed`, `unfinished`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Oversize => "oversize",
            Self::Malformed => "malformed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// How the end of a body is known (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length, bytes.
    Length(u64),
    /// By its chunks.
    Chunked(Chunked),
    /// By the end of the connection.
    UntilClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a start line; empty lines are passed over (RFC 9112 §2.2).
    Start,
    /// In a head; what came of it is kept.
    Head {
        has_start_line: bool,
    },
    /// A head was handed on; its body is still to be told.
    Untold,
    /// In what is not kept of a head that is too long.
    HeadRest(EmptyLine, Framing),
    Body(Framing),
    /// Looking for a start line; what came of a line that may be one is kept.
    Lost {
        is_line_start: bool,
    },
}

/// Where one direction stands.
#[derive(Debug)]
pub(super) struct Stream {
    state: State,
    kept: Vec<u8>,
    /// When the first byte of what is kept came.
    time: Timestamp,
    is_oversize: bool,
    /// How the rest of an oversize head begins.
    head_rest: EmptyLine,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            state: State::Start,
            kept: Vec::new(),
            time: Timestamp(0),
            is_oversize: false,
            head_rest: EmptyLine::default(),
        }
    }
}

impl Stream {
    /// Takes the next piece off the front of `bytes`, which came at `time`; `None` where more bytes are needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8], time: Timestamp) -> Option<Piece<'a>> {
        loop {
            match &mut self.state {
                State::Start => {
                    let text = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
                    *bytes = &bytes[text.unwrap_or(bytes.len())..];
                    text?;
                    self.begin(time);
                }
                State::Head { has_start_line } => {
                    let has_start_line = *has_start_line;
                    return self.read_head(bytes, has_start_line);
                }
                State::Untold => self.state = State::Start,
                State::HeadRest(empty_line, framing) => {
                    if !empty_line.skip(bytes) {
                        return None;
                    }
                    self.state = State::Body(*framing);
                }
                State::Body(framing) => {
                    let piece = read_body(framing, bytes)?;
                    match piece {
                        Piece::End => self.state = State::Start,
                        Piece::Lost(_) => self.lose(true),
                        _ => {}
                    }
                    return Some(piece);
                }
                State::Lost { is_line_start } => {
                    let mut is_start = *is_line_start;
                    let found = self.look_for_start(bytes, time, &mut is_start);
                    if found {
                        self.state = State::Head { has_start_line: true };
                    } else {
                        self.state = State::Lost { is_line_start: is_start };
                        if bytes.is_empty() {
                            return None;
                        }
                    }
                }
            }
        }
    }

    /// Says what body the head has that was handed on last.
    pub(super) fn expect(&mut self, framing: Framing) {
        self.state =
            if self.is_oversize { State::HeadRest(self.head_rest, framing) } else { State::Body(framing) };
        self.is_oversize = false;
    }

    /// Takes note that `length_bytes` bytes are missing. What comes of that: bytes of a body, a head that is read as
    /// far as it came, or the loss of the message.
    pub(super) fn skip(&mut self, length_bytes: u64) -> Option<Piece<'static>> {
        if let State::Body(framing) = &mut self.state
            && skip_body(framing, length_bytes)
        {
            return Some(Piece::BodyLost(length_bytes));
        }
        let piece = match &self.state {
            State::Head { has_start_line: true } => parse_lines(&self.kept).map(|head| Piece::Head {
                head,
                time: self.time,
                flaw: Some(Flaw::Gap),
            }),
            State::Body(_) | State::HeadRest(..) => Some(Piece::Lost(Flaw::Gap)),
            _ => None,
        };
        // A segment often begins with a message, and what looks like one is looked at closely.
        self.lose(true);
        piece
    }

    /// Whether it does not know where the next message begins.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost { .. })
    }

    /// Whether the body that it is in ends with the connection.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::Body(Framing::UntilClose))
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// What there is of a head at the end of the connection.
    pub(super) fn take_unfinished_head(&mut self) -> Option<(Head, Timestamp)> {
        let has_start_line = self.state == State::Head { has_start_line: true };
        let kept = std::mem::take(&mut self.kept);
        self.state = State::Start;
        let head = has_start_line.then(|| parse_lines(&kept))?;
        head.map(|head| (head, self.time))
    }

    fn begin(&mut self, time: Timestamp) {
        self.state = State::Head { has_start_line: false };
        self.kept.clear();
        self.time = time;
    }

    fn lose(&mut self, is_line_start: bool) {
        self.state = State::Lost { is_line_start };
        self.kept = Vec::new();
    }

    fn read_head<'a>(&mut self, bytes: &mut &'a [u8], has_start_line: bool) -> Option<Piece<'a>> {
        if self.kept.is_empty() {
            let bound = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
            if let Some(newline) = memchr(b'\n', bound)
                && is_start_line(&bound[..newline])
                && let Some(end) = end_of_head(bound, newline)
                && let Some(head) = Head::parse(&bytes[..end])
            {
                *bytes = &bytes[end..];
                return Some(self.hand_on(head, None));
            }
        }
        if !has_start_line {
            match self.keep_start_line(bytes) {
                Ok(true) => self.state = State::Head { has_start_line: true },
                Ok(false) => return None,
                Err(lost) => return Some(lost),
            }
        }
        let is_whole = self.keep_lines(bytes);
        let flaw = match is_whole {
            true => None,
            false if self.kept.len() >= HEAD_BYTES_MAX => Some(Flaw::Oversize),
            false => return None,
        };
        match Head::parse(&self.kept) {
            Some(head) => Some(self.hand_on(head, flaw)),
            // Not to be reached: the start line has been read before.
            None => {
                self.lose(true);
                Some(Piece::Lost(Flaw::Malformed))
            }
        }
    }

    /// Keeps header lines, one after the other, so that nothing is touched that lies behind the head; whether its
    /// empty line came.
    fn keep_lines(&mut self, bytes: &mut &[u8]) -> bool {
        loop {
            let room = HEAD_BYTES_MAX.saturating_sub(self.kept.len());
            let bound = &bytes[..bytes.len().min(room)];
            let newline = memchr(b'\n', bound);
            let line = &bound[..newline.map_or(bound.len(), |newline| newline + 1)];
            self.kept.extend_from_slice(line);
            *bytes = &bytes[line.len()..];
            if newline.is_none() {
                return false;
            }
            if self.kept.ends_with(b"\n\n") || self.kept.ends_with(b"\n\r\n") {
                return true;
            }
        }
    }

    fn hand_on(&mut self, head: Head, flaw: Option<Flaw>) -> Piece<'static> {
        self.is_oversize = flaw.is_some();
        self.head_rest = if matches!(self.kept[..], [.., b'\n'] | [.., b'\n', b'\r']) {
            EmptyLine::at_line_start()
        } else {
            EmptyLine::default()
        };
        self.kept = Vec::new();
        self.state = State::Untold;
        Piece::Head { head, time: self.time, flaw }
    }

    /// Keeps the start line; whether it is whole. What is none is passed over, and is no reason to keep what
    /// follows it.
    fn keep_start_line(&mut self, bytes: &mut &[u8]) -> Result<bool, Piece<'static>> {
        let bound = &bytes[..bytes.len().min(HEAD_BYTES_MAX.saturating_sub(self.kept.len()))];
        let newline = memchr(b'\n', bound);
        let line = &bound[..newline.map_or(bound.len(), |newline| newline + 1)];
        self.kept.extend_from_slice(line);
        let is_possible = match newline {
            Some(_) => is_start_line(&self.kept),
            None => may_begin_start_line(&self.kept) && self.kept.len() < HEAD_BYTES_MAX,
        };
        *bytes = &bytes[line.len()..];
        if is_possible {
            return Ok(newline.is_some());
        }
        self.lose(newline.is_some());
        Err(Piece::Lost(Flaw::Malformed))
    }

    /// Passes over lines until one is a start line; whether it was found, with its line end, in `kept`.
    fn look_for_start(&mut self, bytes: &mut &[u8], time: Timestamp, is_line_start: &mut bool) -> bool {
        while !bytes.is_empty() {
            let (line, whole) = match memchr(b'\n', bytes) {
                Some(newline) => (&bytes[..=newline], true),
                None => (*bytes, false),
            };
            *bytes = &bytes[line.len()..];
            let may_be = *is_line_start || !self.kept.is_empty();
            *is_line_start = whole;
            if !may_be {
                continue;
            }
            if self.kept.is_empty() {
                self.time = time;
            }
            let room = LINE_BYTES_MAX.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&line[..line.len().min(room)]);
            if !may_begin_start_line(&self.kept) || line.len() > room {
                self.kept.clear();
            } else if whole {
                if is_start_line(&self.kept) {
                    return true;
                }
                self.kept.clear();
            }
        }
        false
    }
}

/// Whether a line that begins so may yet be a start line.
fn may_begin_start_line(bytes: &[u8]) -> bool {
    let status = b"HTTP/";
    let known = bytes.len().min(status.len());
    if bytes[..known] == status[..known] {
        return true;
    }
    let method = &bytes[..bytes.len().min(METHOD_BYTES_MAX + 1)];
    match memchr(b' ', method) {
        Some(space) => space > 0 && method[..space].iter().all(|byte| is_token(*byte)),
        None => method.len() <= METHOD_BYTES_MAX && method.iter().all(|byte| is_token(*byte)),
    }
}

/// Whether a line with its end is a start line.
fn is_start_line(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    StartLine::parse(line.strip_suffix(b"\r").unwrap_or(line)).is_some()
}

/// The head as far as its lines are whole.
fn parse_lines(kept: &[u8]) -> Option<Head> {
    let whole = memchr::memrchr(b'\n', kept)?;
    Head::parse(&kept[..=whole])
}

/// Whether so many bytes that are missing are all of the body.
fn skip_body(framing: &mut Framing, length_bytes: u64) -> bool {
    match framing {
        Framing::UntilClose => true,
        Framing::Chunked(chunked) => chunked.skip(length_bytes),
        Framing::Length(left) => {
            let fits = *left >= length_bytes;
            *left = left.saturating_sub(if fits { length_bytes } else { 0 });
            fits
        }
    }
}

fn read_body<'a>(framing: &mut Framing, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
    match framing {
        Framing::Length(0) => Some(Piece::End),
        Framing::Length(left) => {
            let take = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
            if take == 0 {
                return None;
            }
            let (body, tail) = bytes.split_at(take);
            *bytes = tail;
            *left -= take as u64;
            Some(Piece::Body(body))
        }
        Framing::UntilClose => {
            let body = std::mem::take(bytes);
            (!body.is_empty()).then_some(Piece::Body(body))
        }
        Framing::Chunked(chunked) => Some(match chunked.next(bytes)? {
            Chunk::Data(data) => Piece::Body(data),
            Chunk::End => Piece::End,
            Chunk::Broken => Piece::Lost(Flaw::Malformed),
        }),
    }
}

//! One direction of HTTP/1: splits bytes into heads, bodies, and ends of messages (RFC 9112 §2, §6).
//!
//! A head that is complete in one piece is parsed in place; otherwise it is buffered. Bodies are returned as
//! slices of the input. If a gap hides the start of the next message, lines are skipped up to a start line.

use super::chunked::{Chunk, Chunked, EmptyLine, FirstBytes};
use super::head::{HEAD_BYTES_MAX, Head, HeadBuilder};
use super::line_ends::{HeadEnd, end_of_head};
use super::start_line::{METHOD_BYTES_MAX, StartLine, Version, begins_request, is_token};
use memchr::memchr;
use weir_packet::Timestamp;

/// Maximum length of a start line that is recognised after a gap.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// A piece of one direction. Pieces of a message come in order: head, body, end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Starts a message. The caller must then set the framing of its body ([`Stream::expect`]).
    Head {
        /// The head.
        head: Head,
        /// Time of the first byte.
        time: Timestamp,
        /// The head exceeds the bounds, or bytes of it are missing.
        flaw: Option<Flaw>,
    },
    /// Bytes of the content; never empty.
    Body(&'a [u8]),
    /// The first bytes of a content that is not chunked, although its head says so. They may be empty.
    Unchunked(FirstBytes),
    /// Bytes of the content that might have been the next request, and the time of the first; never empty.
    Kept(Vec<u8>, Timestamp),
    /// Number of missing bytes of the content.
    BodyLost(u64),
    /// The regular end of the message.
    End,
    /// The end of a request without the body that it states: the next request begins with these bytes.
    Next(Vec<u8>),
    /// The end of the message is unknown: bytes are missing or invalid.
    Lost(Flaw),
}

/// Why a message is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Required bytes are missing.
    Gap,
    /// The head exceeds the bounds.
    Oversize,
    /// The bytes violate the protocol.
    Malformed,
    /// The exchange was unfinished when the connection ended, or too many exchanges were open.
    Unfinished,
}

impl Flaw {
    /// The name in rows: `gap`, `oversize`, `malformed`, `unfinished`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Oversize => "oversize",
            Self::Malformed => "malformed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By length in bytes.
    Length(u64),
    /// By the chunked coding, and how it is found if the body does not begin with the size of a chunk.
    Chunked(Chunked, Unchunked),
    /// By the end of the connection.
    UntilClose,
}

/// How the end of a body is found that is not chunked, although its head says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unchunked {
    /// It is unknown.
    Broken,
    /// By length in bytes.
    Length(u64),
    /// By the end of the connection.
    UntilClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a start line. Empty lines are skipped (RFC 9112 §2.2), as are other blanks and control bytes,
    /// as by browsers and libhtp.
    Start,
    /// In a head, which is buffered.
    Head {
        has_start_line: bool,
    },
    /// Before a response to a request of HTTP/0.9, which may be a body only.
    Bare,
    /// Before such a body, of which the first bytes are buffered.
    BareBody,
    /// A head was returned, but the framing of its body is not set yet.
    Untold,
    /// In the rest of an oversize head, which is not kept.
    HeadRest(EmptyLine, Framing),
    Body(Framing),
    /// Before a body that a message states but must not have. There is one unless the next message follows.
    Doubt(Framing),
    /// Before the body of a request that was answered without it, or the next request. Bytes that may begin a
    /// request are buffered.
    Unasked(Framing),
    /// Searching for a start line; a line that may be one is buffered.
    Lost {
        is_line_start: bool,
    },
}

/// State of one direction.
#[derive(Debug)]
pub(super) struct Stream {
    state: State,
    kept: Vec<u8>,
    /// Time of the first buffered byte.
    time: Timestamp,
    is_oversize: bool,
    /// State of the rest of an oversize head.
    head_rest: EmptyLine,
    /// Whether the next message may be a body without head.
    is_bare: bool,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            state: State::Start,
            kept: Vec::new(),
            time: Timestamp(0),
            is_oversize: false,
            head_rest: EmptyLine::default(),
            is_bare: false,
        }
    }
}

impl Stream {
    /// Takes the next piece off the front of `bytes`, which arrived at `time`; `None` if more bytes are
    /// needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8], time: Timestamp) -> Option<Piece<'a>> {
        loop {
            match &mut self.state {
                State::Start if self.is_bare && !bytes.is_empty() => self.begin_bare(),
                State::Start => {
                    let text = bytes.iter().position(|byte| *byte > b' ' && *byte != 0x7f);
                    *bytes = &bytes[text.unwrap_or(bytes.len())..];
                    text?;
                    self.begin(time);
                }
                State::Head { has_start_line } => {
                    let has_start_line = *has_start_line;
                    return self.read_head(bytes, has_start_line);
                }
                State::Bare => {
                    if self.keep_status(bytes, time)? {
                        self.state = State::Head { has_start_line: false };
                        continue;
                    }
                    let head = HeadBuilder::default().response(0, Version(0, 9));
                    self.state = State::BareBody;
                    return Some(Piece::Head { head, time: self.time, flaw: None });
                }
                State::BareBody => {
                    self.state = State::Body(Framing::UntilClose);
                    let kept = std::mem::take(&mut self.kept);
                    if !kept.is_empty() {
                        return Some(Piece::Kept(kept, self.time));
                    }
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
                State::Doubt(framing) => {
                    let is_body = !matches!(bytes.first()?, b'H' | b'h' | b'\r' | b'\n');
                    self.state = if is_body { State::Body(*framing) } else { State::Start };
                    if !is_body {
                        return Some(Piece::End);
                    }
                }
                State::Unasked(framing) => {
                    let framing = *framing;
                    let is_request = self.keep_request(bytes, time)?;
                    if let Some(piece) = self.settle(framing, is_request) {
                        return Some(piece);
                    }
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

    /// Notes whether the next message answers a request of HTTP/0.9, and may be a body without head.
    pub(super) fn expect_bare(&mut self, is_bare: bool) {
        self.is_bare = is_bare;
    }

    /// Sets the framing of the body that follows the last head.
    pub(super) fn expect(&mut self, framing: Framing) {
        if self.state == State::BareBody {
            return;
        }
        self.state =
            if self.is_oversize { State::HeadRest(self.head_rest, framing) } else { State::Body(framing) };
        self.is_oversize = false;
    }

    /// As [`Self::expect`], for a message that must not have the body that it states.
    pub(super) fn expect_perhaps(&mut self, framing: Framing) {
        self.expect(framing);
        if self.is_in_body() {
            self.state = State::Doubt(framing);
        }
    }

    /// Notes that the server has answered the last request without its body, which the client then gives up,
    /// or sends all the same (RFC 9110 §10.1.1). Nothing changes if the body has begun.
    pub(super) fn doubt_body(&mut self, whole: Framing) {
        if self.state == State::Body(whole) {
            self.state = State::Unasked(whole);
            self.kept.clear();
        }
    }

    /// Skips missing bytes. Returns bytes of a body as lost, a head with the lines so far, or the loss of the
    /// message.
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
            State::Doubt(_) | State::Unasked(_) => Some(Piece::End),
            _ => None,
        };
        // Assume a line start: segments often begin with a message, and a start line is checked strictly.
        self.lose(true);
        piece
    }

    /// Whether the start of the next message is unknown.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost { .. })
    }

    /// Whether the next bytes are of a body, with its framing, or may be.
    pub(super) fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_) | State::Doubt(_) | State::Unasked(_))
    }

    /// Whether the current body may end with the connection.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::Body(Framing::UntilClose) | State::Doubt(_) | State::Unasked(_))
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Takes the incomplete head at the end of the connection.
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

    fn begin_bare(&mut self) {
        self.state = State::Bare;
        self.is_bare = false;
        self.kept.clear();
    }

    /// Buffers bytes as long as they may begin a status line. Returns whether they do, once that is certain.
    fn keep_status(&mut self, bytes: &mut &[u8], time: Timestamp) -> Option<bool> {
        let status = b"HTTP/";
        while self.kept.len() < status.len() {
            let (byte, rest) = bytes.split_first()?;
            if self.kept.is_empty() {
                self.time = time;
            }
            if !byte.eq_ignore_ascii_case(&status[self.kept.len()]) {
                return Some(false);
            }
            self.kept.push(*byte);
            *bytes = rest;
        }
        Some(true)
    }

    fn lose(&mut self, is_line_start: bool) {
        self.state = State::Lost { is_line_start };
        self.kept = Vec::new();
    }

    fn read_head<'a>(&mut self, bytes: &mut &'a [u8], has_start_line: bool) -> Option<Piece<'a>> {
        if self.kept.is_empty() {
            let bound = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
            if let Some(newline) = memchr(b'\n', bound)
                && is_start_line(&bound[..=newline], false)
                && let Some(end) = match StartLine::is_simple(&bound[..=newline]) {
                    true => Some(newline + 1),
                    false => end_of_head(bound, newline),
                }
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
        let is_whole = self.is_simple() || self.keep_lines(bytes);
        let flaw = match is_whole {
            true => None,
            false if self.kept.len() >= HEAD_BYTES_MAX => Some(Flaw::Oversize),
            false => return None,
        };
        match Head::parse(&self.kept) {
            Some(head) => Some(self.hand_on(head, flaw)),
            // Unreachable: the start line was parsed before.
            None => {
                self.lose(true);
                Some(Piece::Lost(Flaw::Malformed))
            }
        }
    }

    /// Whether the buffer is the request line of HTTP/0.9, which has no header lines.
    fn is_simple(&self) -> bool {
        matches!(memchr(b'\n', &self.kept), Some(newline) if newline + 1 == self.kept.len())
            && StartLine::is_simple(&self.kept)
    }

    /// Buffers header lines one by one, so that no byte after the head is taken. Returns whether the empty
    /// line was found.
    fn keep_lines(&mut self, bytes: &mut &[u8]) -> bool {
        loop {
            match HeadEnd::after(&self.kept).is_end(bytes.first()) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
            let room = HEAD_BYTES_MAX.saturating_sub(self.kept.len());
            let bound = &bytes[..bytes.len().min(room)];
            let newline = memchr(b'\n', bound);
            let line = &bound[..newline.map_or(bound.len(), |newline| newline + 1)];
            self.kept.extend_from_slice(line);
            *bytes = &bytes[line.len()..];
            if newline.is_none() {
                return false;
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

    /// Ends the doubt about a body: the buffered bytes begin the next request, or the body.
    fn settle(&mut self, mut framing: Framing, is_request: bool) -> Option<Piece<'static>> {
        if is_request {
            self.state = State::Head { has_start_line: false };
            return Some(Piece::Next(self.kept.clone()));
        }
        let kept = std::mem::take(&mut self.kept);
        let piece = read_body(&mut framing, &mut &kept[..]);
        self.state = State::Body(framing);
        match piece {
            Some(Piece::Body(bytes)) => Some(Piece::Kept(bytes.to_vec(), self.time)),
            Some(Piece::Lost(flaw)) => {
                self.lose(true);
                Some(Piece::Lost(flaw))
            }
            // Digits of the size of a chunk.
            _ => None,
        }
    }

    /// Buffers bytes as long as they may begin a request. Returns whether they do, once that is certain; the
    /// first byte that belongs to no request is not taken.
    fn keep_request(&mut self, bytes: &mut &[u8], time: Timestamp) -> Option<bool> {
        loop {
            let (byte, rest) = bytes.split_first()?;
            if self.kept.is_empty() {
                self.time = time;
            }
            self.kept.push(*byte);
            match begins_request(&self.kept) {
                Some(false) => {
                    self.kept.pop();
                    return Some(false);
                }
                decided => {
                    *bytes = rest;
                    if decided.is_some() {
                        return decided;
                    }
                }
            }
        }
    }

    /// Buffers the start line; returns whether it is complete. An invalid line is an error: it is skipped,
    /// and nothing after it is buffered.
    fn keep_start_line(&mut self, bytes: &mut &[u8]) -> Result<bool, Piece<'static>> {
        let bound = &bytes[..bytes.len().min(HEAD_BYTES_MAX.saturating_sub(self.kept.len()))];
        let newline = memchr(b'\n', bound);
        let line = &bound[..newline.map_or(bound.len(), |newline| newline + 1)];
        self.kept.extend_from_slice(line);
        let is_possible = match newline {
            Some(_) => is_start_line(&self.kept, false),
            None => may_begin_start_line(&self.kept) && self.kept.len() < HEAD_BYTES_MAX,
        };
        *bytes = &bytes[line.len()..];
        if is_possible {
            return Ok(newline.is_some());
        }
        self.lose(newline.is_some());
        Err(Piece::Lost(Flaw::Malformed))
    }

    /// Skips lines up to a start line; returns whether one was found. It is then in `kept` with its line end.
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
                if is_start_line(&self.kept, true) {
                    return true;
                }
                self.kept.clear();
            }
        }
        false
    }
}

/// Whether a line with these first bytes may become a start line.
fn may_begin_start_line(bytes: &[u8]) -> bool {
    let status = b"HTTP/";
    let known = bytes.len().min(status.len());
    if bytes[..known].eq_ignore_ascii_case(&status[..known]) {
        return true;
    }
    let method = &bytes[..bytes.len().min(METHOD_BYTES_MAX + 1)];
    match method.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        Some(space) => space > 0 && method[..space].iter().all(|byte| is_token(*byte)),
        None => method.len() <= METHOD_BYTES_MAX && method.iter().all(|byte| is_token(*byte)),
    }
}

/// Whether a line, including its line end, is a start line; `is_strict`: one that follows the syntax.
fn is_start_line(line: &[u8], is_strict: bool) -> bool {
    match is_strict {
        true => StartLine::parse(StartLine::split(line).0).is_some(),
        false => StartLine::first(line).is_some(),
    }
}

/// Parses the complete lines of a head.
fn parse_lines(kept: &[u8]) -> Option<Head> {
    let whole = memchr::memrchr(b'\n', kept)?;
    Head::parse(&kept[..=whole])
}

/// Whether all of the missing bytes belong to the body.
fn skip_body(framing: &mut Framing, length_bytes: u64) -> bool {
    match framing {
        Framing::UntilClose => true,
        Framing::Chunked(chunked, _) => chunked.skip(length_bytes),
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
        Framing::Chunked(chunked, unchunked) => Some(match chunked.next(bytes)? {
            Chunk::Data(data) => Piece::Body(data),
            Chunk::End => Piece::End,
            Chunk::Broken => match (chunked.first(), *unchunked) {
                (None, _) | (_, Unchunked::Broken) => Piece::Lost(Flaw::Malformed),
                (Some(first), Unchunked::UntilClose) => {
                    *framing = Framing::UntilClose;
                    Piece::Unchunked(first)
                }
                (Some(mut first), Unchunked::Length(length)) => {
                    first.truncate(length);
                    *framing = Framing::Length(length - first.as_slice().len() as u64);
                    Piece::Unchunked(first)
                }
            },
        }),
    }
}

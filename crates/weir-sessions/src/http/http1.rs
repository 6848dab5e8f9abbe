//! HTTP/1.0 and HTTP/1.1 (RFC 9112): turns bytes of both directions into exchanges.

use super::chunked::Chunked;
use super::exchange::{HttpExchange, HttpMessage, read_content_length};
use super::head::Head;
use super::open_exchanges::OpenExchanges;
use super::stream::{Flaw, Framing, Piece, Stream, Unchunked};
use super::view::View;
use crate::{Contents, CutOff, Data, Direction, Early, Progress, Session};
use weir_packet::Timestamp;

/// Maximum number of bytes skipped in search of a message; then the connection is given up.
pub const LOST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Parses the exchanges of a connection.
#[derive(Debug, Default)]
pub(super) struct Http1 {
    streams: [Stream; 2],
    /// The client's direction, once known.
    client: Option<Direction>,
    exchanges: OpenExchanges,
    /// Whether bytes of the server are missing since its last response. They may contain whole responses.
    is_behind_loss: bool,
    /// Number of bytes skipped since the last message of either side.
    lost_bytes: u64,
    /// An interim response that states a body. If one follows, the response is final after all.
    interim: Option<HttpMessage>,
    contents: Contents,
    early: Early,
    /// The decoded view, if somebody asks for it.
    view: Option<Box<View>>,
    /// HTTP/2 follows: an apparent request was the start of its preface, or the server switches to it.
    pub(super) is_http2: bool,
    /// The exchange whose response follows in HTTP/2, as stream 1.
    pub(super) upgraded: Option<Box<HttpExchange>>,
}

/// Length of the start of the HTTP/2 preface (RFC 9113 §3.4) that an HTTP/1 parser reads as a request.
pub(super) const PREFACE_HEAD_BYTES: usize = 18;

/// The bytes that follow a head.
enum Next {
    Body(Framing),
    /// A body that the message states but must not have, or the next message.
    PerhapsBody(Framing),
    /// Another protocol.
    Tunnel,
    /// The rest of the preface of HTTP/2, or its frames.
    Http2,
}

impl Http1 {
    pub(super) fn new(contents: &Contents, early: Early) -> Self {
        let exchanges = OpenExchanges::new(early.is_wanted());
        Self { contents: contents.clone(), early, exchanges, ..Self::default() }
    }

    /// A parser with a decoded view.
    pub(super) fn with_view() -> Self {
        Self { view: Some(Box::default()), ..Self::default() }
    }

    /// The decoded view.
    pub(super) fn view(&self) -> Option<&View> {
        self.view.as_deref()
    }

    /// Takes the bytes of the view.
    pub(super) fn take_shown(&mut self) -> Vec<u8> {
        self.view.as_mut().map_or(vec![], |view| view.take_shown())
    }

    /// Whether a head was read.
    pub(super) fn has_begun(&self) -> bool {
        self.client.is_some()
    }

    /// The next piece of the data.
    fn next<'a>(&mut self, data: &Data<'_>, rest: &mut &'a [u8]) -> Option<Piece<'a>> {
        let is_answer = self.client == Some(data.from.other());
        let is_bare = is_answer && self.exchanges.awaits_bare();
        let (before, stream) = (*rest, &mut self.streams[data.from as usize]);
        stream.expect_bare(is_bare);
        let is_in_body = stream.is_in_body();
        let piece = stream.next(rest, data.time);
        if let Some(view) = &mut self.view {
            let consumed = &before[..before.len() - rest.len()];
            view.take(data.from, (consumed, is_in_body), piece.as_ref());
        }
        piece
    }

    pub(super) fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        let was_lost = self.streams[data.from as usize].is_lost();
        while let Some(piece) = self.next(data, &mut rest) {
            if self.take((data.from, data.time), piece, sessions) == Progress::Done {
                return self.hand_over(rest.len(), sessions);
            }
        }
        if was_lost && self.streams[data.from as usize].is_lost() {
            self.lost_bytes += data.bytes.len() as u64;
            if self.lost_bytes > LOST_BYTES_MAX {
                self.exchanges.cut_off.sessions += 1;
                self.finish(sessions);
                return Progress::Done;
            }
        }
        Progress::Wanted
    }

    pub(super) fn gap(
        &mut self,
        from: Direction,
        length_bytes: u64,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        if let Some(view) = &mut self.view {
            view.lose(from);
        }
        // The time of the resulting pieces is not used.
        let no_time = Timestamp(0);
        let piece = self.streams[from as usize].skip(length_bytes);
        self.is_behind_loss |= Some(from) != self.client && self.streams[from as usize].is_lost();
        if let Some(piece) = piece
            && self.take((from, no_time), piece, sessions) == Progress::Done
        {
            return self.hand_over(0, sessions);
        }
        // The gap may have completed a body.
        let mut nothing: &[u8] = &[];
        while let Some(piece) = self.streams[from as usize].next(&mut nothing, no_time) {
            self.take((from, no_time), piece, sessions);
        }
        Progress::Wanted
    }

    pub(super) fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.end_interim(false, sessions);
        for from in [Direction::Originator, Direction::Responder] {
            let stream = &mut self.streams[from as usize];
            let flaw = (!stream.ends_with_connection()).then_some(Flaw::Unfinished);
            let head = stream.take_unfinished_head();
            if let Some((head, time)) = head {
                self.take_head(from, HttpMessage::new(head, time, Some(Flaw::Unfinished)), sessions);
            }
            if let Some(client) = self.client {
                self.exchanges.end_message(from == client, flaw, sessions);
            }
        }
        self.exchanges.yield_all(sessions);
    }

    pub(super) fn held_bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, |view| view.held_bytes());
        view + self.exchanges.held_bytes()
            + self.exchanges.content_bytes()
            + self.interim.as_ref().map_or(0, HttpMessage::held_bytes)
            + self.streams.iter().map(Stream::held_bytes).sum::<usize>()
    }

    pub(super) fn cut_off(&self) -> CutOff {
        self.exchanges.cut_off
    }

    fn hand_over(&mut self, rest_bytes: usize, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        self.end_interim(false, sessions);
        self.exchanges.yield_all(sessions);
        self.streams = <[Stream; 2]>::default();
        Progress::HandOver { rest_bytes }
    }

    /// Takes a piece of one direction; `Done` if another protocol follows.
    fn take(
        &mut self,
        (from, time): (Direction, Timestamp),
        piece: Piece<'_>,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> Progress {
        let is_request = Some(from) == self.client;
        if !is_request && self.interim.is_some() {
            let has_body =
                matches!(piece, Piece::Body(_) | Piece::Kept(..) | Piece::Unchunked(_) | Piece::BodyLost(_));
            self.end_interim(has_body, sessions);
        }
        match piece {
            Piece::Head { head, time, flaw } => {
                let next = self.take_head(from, HttpMessage::new(head, time, flaw), sessions);
                match next {
                    _ if flaw == Some(Flaw::Gap) => {
                        let is_request = Some(from) == self.client;
                        self.exchanges.end_message(is_request, flaw, sessions);
                    }
                    Some(Next::Body(framing)) => self.streams[from as usize].expect(framing),
                    Some(Next::PerhapsBody(framing)) => self.streams[from as usize].expect_perhaps(framing),
                    Some(Next::Tunnel) => return Progress::Done,
                    Some(Next::Http2) => {
                        self.is_http2 = true;
                        return Progress::Done;
                    }
                    None => {}
                }
            }
            Piece::Body(_) | Piece::Kept(..) | Piece::Unchunked(_) | Piece::BodyLost(_) => {
                let Some(message) = self.exchanges.open_message(is_request) else { return Progress::Wanted };
                let (contents, early) = (&self.contents, self.early);
                let is_reached = match piece {
                    Piece::Body(bytes) => message.take_body(bytes, time, contents, early),
                    Piece::Kept(bytes, time) => message.take_body(&bytes, time, contents, early),
                    Piece::Unchunked(bytes) => {
                        message.mar(Flaw::Malformed);
                        message.take_body(bytes.as_slice(), time, contents, early)
                    }
                    Piece::BodyLost(length_bytes) => message.lose_body(length_bytes, contents, early),
                    _ => false,
                };
                if is_reached {
                    self.exchanges.yield_early(is_request, sessions);
                }
            }
            Piece::End | Piece::Next(_) => self.exchanges.end_message(is_request, None, sessions),
            Piece::Lost(flaw) => {
                self.is_behind_loss |= !is_request;
                if self.client.is_some() {
                    self.exchanges.end_message(is_request, Some(flaw), sessions);
                }
            }
        }
        Progress::Wanted
    }

    /// Ends the wait for the body of an interim response.
    fn end_interim(&mut self, has_body: bool, sessions: &mut Vec<Box<dyn Session>>) {
        let (Some(message), Some(client)) = (self.interim.take(), self.client) else { return };
        if has_body {
            let is_behind_loss = std::mem::take(&mut self.is_behind_loss);
            self.exchanges.begin_response(client, message, is_behind_loss, sessions);
        } else {
            self.exchanges.inform(message.head.code(), message.head.phrase());
        }
    }

    /// Begins a message; `None` if it comes from the wrong side, and is ignored.
    fn take_head(
        &mut self,
        from: Direction,
        message: HttpMessage,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> Option<Next> {
        let is_request = message.head.is_request();
        if is_request && message.head.is_http2_preface() {
            return Some(Next::Http2);
        }
        let client = *self.client.get_or_insert(if is_request { from } else { from.other() });
        if is_request != (from == client) {
            return None;
        }
        self.lost_bytes = 0;
        if is_request {
            let framing = request_framing(&message.head);
            self.exchanges.begin_request(client, message, sessions);
            return Some(Next::Body(framing));
        }
        let code = message.head.code();
        let request = self.exchanges.awaited_request();
        if message.flaw.is_none() && is_upgraded(&message.head, request) {
            self.upgraded = self.exchanges.take_answered(code, message.head.phrase()).map(Box::new);
            if self.upgraded.is_some() {
                return Some(Next::Http2);
            }
        }
        let request = self.exchanges.awaited_request();
        let next = after_response(&message.head, request);
        if (100..200).contains(&code) && code != 101 {
            match next {
                Next::PerhapsBody(_) => self.interim = Some(message),
                _ => self.exchanges.inform(code, message.head.phrase()),
            }
            return Some(next);
        }
        let is_behind_loss = std::mem::take(&mut self.is_behind_loss);
        self.exchanges.begin_response(client, message, is_behind_loss, sessions);
        if let Some(unasked) = self.exchanges.unasked_request() {
            self.streams[client as usize].doubt_body(request_framing(unasked));
        }
        Some(next)
    }
}

/// How the end of a request's body is found (RFC 9112 §6.3). An invalid request has no body.
fn request_framing(head: &Head) -> Framing {
    match (is_chunked(head), read_content_length(head)) {
        (Some(true), _) => Framing::Chunked(Chunked::default(), Unchunked::Broken),
        (None, Some(Ok(length))) => Framing::Length(length),
        _ => Framing::Length(0),
    }
}

/// Whether the response to this request follows in HTTP/2 (`Upgrade: h2c`, RFC 7540 §3.2). A server that does
/// not name the protocol switches to the one that the client named.
fn is_upgraded(head: &Head, request: Option<&Head>) -> bool {
    let Some(request) = request.filter(|_| head.code() == 101) else { return false };
    let saying = if head.header("upgrade").is_some() { head } else { request };
    saying.has_token("upgrade", "h2c")
}

/// What follows the head of a response to a request. Some servers send bodies that they must
/// not send (RFC 9112 §6.3), and browsers show them; so they are looked for if the head states one.
fn after_response(head: &Head, request: Option<&Head>) -> Next {
    let (code, framing) = (head.code(), response_framing(head));
    let method = request.map(Head::method);
    // A client that asked for another protocol reads its bytes now (RFC 9110 §7.8).
    let is_asked = request.is_some_and(|request| request.header("upgrade").is_some());
    let has_body = match framing {
        Framing::Length(length) => length > 0,
        Framing::Chunked(..) => true,
        Framing::UntilClose => false,
    };
    match code {
        101 if !has_body || is_asked => Next::Tunnel,
        200..300 if method == Some(b"CONNECT") => Next::Tunnel,
        // These state the length of another response's body.
        304 => Next::Body(Framing::Length(0)),
        _ if method == Some(b"HEAD") => Next::Body(Framing::Length(0)),
        100..200 | 204 if has_body => Next::PerhapsBody(framing),
        100..200 | 204 => Next::Body(Framing::Length(0)),
        _ => Next::Body(framing),
    }
}

/// How the end of a response's body is found, if it has one (RFC 9112 §6.3).
fn response_framing(head: &Head) -> Framing {
    match (is_chunked(head), read_content_length(head)) {
        (Some(true), Some(Ok(length))) => Framing::Chunked(Chunked::default(), Unchunked::Length(length)),
        (Some(true), _) => Framing::Chunked(Chunked::default(), Unchunked::UntilClose),
        (None, Some(Ok(length))) => Framing::Length(length),
        _ => Framing::UntilClose,
    }
}

/// Whether a transfer coding may be chunked; `None` without transfer coding. Browsers and libhtp look for the
/// word in any place, and ignore zero bytes.
fn is_chunked(head: &Head) -> Option<bool> {
    let list = head.list("transfer-encoding")?;
    let letters: Vec<u8> = list.iter().filter(|byte| **byte != 0).map(u8::to_ascii_lowercase).collect();
    Some(memchr::memmem::find(&letters, b"chunked").is_some())
}

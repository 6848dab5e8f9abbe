//! HTTP/1.0 and HTTP/1.1 (RFC 9112): turns bytes of both directions into exchanges.

use super::chunked::Chunked;
use super::exchange::{HttpMessage, read_content_length};
use super::head::Head;
use super::open_exchanges::OpenExchanges;
use super::stream::{Flaw, Framing, Piece, Stream};
use super::view::View;
use crate::{Contents, CutOff, Data, Direction, Progress, Session};
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
    contents: Contents,
    /// The decoded view, if somebody asks for it.
    view: Option<Box<View>>,
    /// An apparent request was the start of the HTTP/2 preface.
    pub(super) is_http2: bool,
}

/// Length of the start of the HTTP/2 preface (RFC 9113 §3.4) that an HTTP/1 parser reads as a request.
pub(super) const PREFACE_HEAD_BYTES: usize = 18;

/// The bytes that follow a head.
enum Next {
    Body(Framing),
    /// Another protocol.
    Tunnel,
    /// The rest of the preface of HTTP/2.
    Http2,
}

impl Http1 {
    pub(super) fn new(contents: &Contents) -> Self {
        Self { contents: contents.clone(), ..Self::default() }
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

    /// The next piece of the data.
    fn next<'a>(&mut self, data: &Data<'_>, rest: &mut &'a [u8]) -> Option<Piece<'a>> {
        let (before, stream) = (*rest, &mut self.streams[data.from as usize]);
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
            + self.streams.iter().map(Stream::held_bytes).sum::<usize>()
    }

    pub(super) fn cut_off(&self) -> CutOff {
        self.exchanges.cut_off
    }

    fn hand_over(&mut self, rest_bytes: usize, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
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
        match piece {
            Piece::Head { head, time, flaw } => {
                let next = self.take_head(from, HttpMessage::new(head, time, flaw), sessions);
                match next {
                    _ if flaw == Some(Flaw::Gap) => {
                        let is_request = Some(from) == self.client;
                        self.exchanges.end_message(is_request, flaw, sessions);
                    }
                    Some(Next::Body(framing)) => self.streams[from as usize].expect(framing),
                    Some(Next::Tunnel) => return Progress::Done,
                    Some(Next::Http2) => {
                        self.is_http2 = true;
                        return Progress::Done;
                    }
                    None => {}
                }
            }
            Piece::Body(bytes) => {
                if let Some(message) = self.exchanges.open_message(is_request) {
                    message.take_body(bytes, time, &self.contents);
                }
            }
            Piece::BodyLost(length_bytes) => {
                if let Some(message) = self.exchanges.open_message(is_request) {
                    message.lose_body(length_bytes, &self.contents);
                }
            }
            Piece::End => self.exchanges.end_message(is_request, None, sessions),
            Piece::Lost(flaw) => {
                self.is_behind_loss |= !is_request;
                if self.client.is_some() {
                    self.exchanges.end_message(is_request, Some(flaw), sessions);
                }
            }
        }
        Progress::Wanted
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
        if (100..200).contains(&code) && code != 101 {
            self.exchanges.inform(code, message.head.phrase());
            return Some(Next::Body(Framing::Length(0)));
        }
        let method = self.exchanges.awaited_method();
        let is_tunnel = code == 101 || (method == Some(b"CONNECT") && (200..300).contains(&code));
        let next = if is_tunnel { Next::Tunnel } else { Next::Body(response_framing(&message.head, method)) };
        let is_behind_loss = std::mem::take(&mut self.is_behind_loss);
        self.exchanges.begin_response(client, message, is_behind_loss, sessions);
        Some(next)
    }
}

/// How the end of a request's body is found (RFC 9112 §6.3). An invalid request has no body.
fn request_framing(head: &Head) -> Framing {
    match (is_chunked(head), read_content_length(head)) {
        (Some(true), _) => Framing::Chunked(Chunked::default()),
        (None, Some(Ok(length))) => Framing::Length(length),
        _ => Framing::Length(0),
    }
}

/// How the end of a response's body is found (RFC 9112 §6.3).
fn response_framing(head: &Head, method: Option<&[u8]>) -> Framing {
    if method == Some(b"HEAD") || matches!(head.code(), 100..200 | 204 | 304) {
        return Framing::Length(0);
    }
    match (is_chunked(head), read_content_length(head)) {
        (Some(true), _) => Framing::Chunked(Chunked::default()),
        (None, Some(Ok(length))) => Framing::Length(length),
        _ => Framing::UntilClose,
    }
}

/// Whether the last transfer coding is chunked; `None` without transfer coding.
fn is_chunked(head: &Head) -> Option<bool> {
    let last = head.all("transfer-encoding").last()?;
    let coding = last.rsplit(|byte| *byte == b',').next().unwrap_or(last).trim_ascii();
    Some(coding.eq_ignore_ascii_case(b"chunked"))
}

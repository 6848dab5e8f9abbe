//! [`OpenExchanges`]: matches HTTP/1 requests and responses. A response answers the oldest unanswered request
//! (RFC 9112 §9.3).
//!
//! Exchanges are yielded in order, each once its request and its final response have ended; on demand, at the
//! end of the request, too. At most [`UNANSWERED_MAX`] exchanges are open; beyond that, the oldest is yielded
//! as it is.
//!
//! `crate::pairing` does not fit: it pairs complete messages. Here a response may begin, or even end, before
//! its request has ended, both messages grow while they are open, and an exchange with both messages still
//! waits for earlier ones.

use super::exchange::{HttpExchange, HttpMessage, Reached};
use super::head::Head;
use super::start_line::Version;
use super::stream::Flaw;
use crate::values::readable;
use crate::{CutOff, Direction, Session};
use std::collections::VecDeque;

/// Maximum number of open exchanges.
pub const UNANSWERED_MAX: usize = 64;
/// Maximum size of all open exchanges.
pub const UNANSWERED_BYTES_MAX: usize = 256 * 1024;

/// State of one message of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Awaited,
    Open,
    Over,
}

#[derive(Debug)]
struct OpenExchange {
    exchange: HttpExchange,
    request: Part,
    response: Part,
}

/// The open exchanges of a connection.
#[derive(Debug, Default)]
pub(super) struct OpenExchanges {
    open: VecDeque<OpenExchange>,
    depth: u32,
    has_responses: bool,
    /// An exchange is yielded at the end of its request, too.
    with_early: bool,
    pub(super) cut_off: CutOff,
}

impl OpenExchanges {
    pub(super) fn new(with_early: bool) -> Self {
        Self { with_early, ..Self::default() }
    }

    /// Begins a request sent by `client`.
    pub(super) fn begin_request(
        &mut self,
        client: Direction,
        message: HttpMessage,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        self.note_cut(&message);
        let open = self.add(client, Part::Open, Part::Awaited, sessions);
        open.exchange.request = Some(message);
    }

    /// Begins a final response. After lost bytes of the server it answers the last request, since clients
    /// seldom pipeline.
    pub(super) fn begin_response(
        &mut self,
        client: Direction,
        message: HttpMessage,
        is_behind_loss: bool,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        self.note_cut(&message);
        self.has_responses = true;
        if is_behind_loss {
            while self.open.len() > 1
                && self.open.iter().filter(|open| open.response == Part::Awaited).count() > 1
            {
                self.yield_first(sessions);
            }
        }
        let awaited = self.open.iter().position(|open| open.response == Part::Awaited);
        let open = match awaited {
            Some(index) => &mut self.open[index],
            None => self.add(client, Part::Over, Part::Open, sessions),
        };
        open.exchange.response = Some(message);
        open.response = Part::Open;
    }

    /// Takes an interim response (RFC 9110 §15.2).
    pub(super) fn inform(&mut self, code: u16, phrase: &[u8]) {
        self.has_responses = true;
        if let Some(open) = self.open.iter_mut().find(|open| open.response == Part::Awaited) {
            open.exchange.info = Some((code, readable(phrase).into_owned()));
        }
    }

    /// The head of the request that the next response answers.
    pub(super) fn awaited_request(&self) -> Option<&Head> {
        let awaited = self.open.iter().find(|open| open.response == Part::Awaited)?;
        Some(&awaited.exchange.request.as_ref()?.head)
    }

    /// Whether the next response answers a request of HTTP/0.9.
    pub(super) fn awaits_bare(&self) -> bool {
        self.awaited_request().is_some_and(|head| head.version() == Version(0, 9))
    }

    /// Takes the exchange that the next response answers, if its request has ended, with an interim response.
    pub(super) fn take_answered(&mut self, code: u16, phrase: &[u8]) -> Option<HttpExchange> {
        let at = self.open.iter().position(|open| open.response == Part::Awaited)?;
        if self.open[at].request != Part::Over {
            return None;
        }
        self.inform(code, phrase);
        Some(self.open.remove(at)?.exchange)
    }

    /// The head of a request whose client waits for 100 (Continue) before it sends the body, and which has a
    /// final response instead.
    pub(super) fn unasked_request(&self) -> Option<&Head> {
        let open = self.open.iter().rev().find(|open| open.request == Part::Open)?;
        let is_asked = open.exchange.info.as_ref().is_some_and(|(code, _)| *code == 100);
        let head = &open.exchange.request.as_ref()?.head;
        let is_final = open.response != Part::Awaited && !is_asked;
        (is_final && head.has_token("expect", "100-continue")).then_some(head)
    }

    /// The open message in the direction of the client or server.
    pub(super) fn open_message(&mut self, is_request: bool) -> Option<&mut HttpMessage> {
        let open = self.open_at(is_request)?;
        if is_request { open.exchange.request.as_mut() } else { open.exchange.response.as_mut() }
    }

    /// Ends the open message; with a flaw, it is incomplete.
    pub(super) fn end_message(
        &mut self,
        is_request: bool,
        flaw: Option<Flaw>,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        if let (Some(flaw), Some(message)) = (flaw, self.open_message(is_request)) {
            message.mar(flaw);
        }
        self.cut_off.parts += self.open_message(is_request).map_or(0, |message| message.end_body(true));
        let with_early = self.with_early;
        if let Some(open) = self.open_at(is_request) {
            *(if is_request { &mut open.request } else { &mut open.response }) = Part::Over;
            if with_early && is_request && open.response == Part::Awaited {
                sessions.push(Box::new(open.exchange.so_far(Reached::Request)));
            }
        }
        while self
            .open
            .front()
            .is_some_and(|first| first.response == Part::Over && first.request == Part::Over)
        {
            self.yield_first(sessions);
        }
    }

    /// Yields the exchange whose message in this direction has reached the first bytes of its body that are
    /// inspected.
    pub(super) fn yield_early(&mut self, is_request: bool, sessions: &mut Vec<Box<dyn Session>>) {
        let reached = if is_request { Reached::RequestBody } else { Reached::ResponseBody };
        let exchange = self.open_at(is_request).map(|open| open.exchange.so_far(reached));
        sessions.extend(exchange.map(|exchange| Box::new(exchange) as Box<dyn Session>));
    }

    /// Yields all exchanges as they are.
    pub(super) fn yield_all(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        while !self.open.is_empty() {
            self.yield_first(sessions);
        }
    }

    /// Bytes of memory of the contents.
    pub(super) fn content_bytes(&self) -> usize {
        self.open.iter().map(|open| open.exchange.content_bytes()).sum()
    }

    /// Bytes held, without those of contents.
    pub(super) fn held_bytes(&self) -> usize {
        self.open.iter().map(|open| open.exchange.held_bytes()).sum()
    }

    fn open_at(&mut self, is_request: bool) -> Option<&mut OpenExchange> {
        // Only the last exchanges have open requests, only the first ones open responses.
        if is_request {
            self.open.iter_mut().rev().find(|open| open.request == Part::Open)
        } else {
            self.open.iter_mut().find(|open| open.response == Part::Open)
        }
    }

    fn add(
        &mut self,
        client: Direction,
        request: Part,
        response: Part,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> &mut OpenExchange {
        while self.open.len() >= UNANSWERED_MAX
            || (self.held_bytes() > UNANSWERED_BYTES_MAX && !self.open.is_empty())
        {
            // If no response was ever seen, the server is not captured, and nothing is lost.
            self.cut_off.sessions += u64::from(self.has_responses);
            self.yield_first(sessions);
        }
        self.depth = self.depth.saturating_add(1);
        let exchange = HttpExchange::new(self.depth, client);
        // Most connections have one exchange at a time.
        if self.open.capacity() == 0 {
            self.open.reserve_exact(1);
        }
        self.open.push_back(OpenExchange { exchange, request, response });
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn yield_first(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(mut first) = self.open.pop_front() {
            let (is_request_over, is_response_over) =
                (first.request == Part::Over, first.response == Part::Over);
            self.cut_off.parts += first.exchange.end_bodies(is_request_over, is_response_over);
            sessions.push(Box::new(first.exchange));
        }
    }

    fn note_cut(&mut self, message: &HttpMessage) {
        let is_oversize = message.flaw == Some(Flaw::Oversize);
        self.cut_off.parts += u64::from(message.head.lines_cut()) + u64::from(is_oversize);
    }
}

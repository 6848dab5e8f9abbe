//! Requests and their responses in HTTP/1: a response answers the oldest request that has none (RFC 9112 §9.3).
//!
//! Exchanges are yielded in order, each once its request and its final response are over. At most
//! [`UNANSWERED_MAX`] wait; beyond that the oldest is yielded as it stands.

use super::exchange::{HttpExchange, HttpMessage};
use super::stream::Flaw;
use crate::values::readable;
use crate::{CutOff, Direction, Session};
use std::collections::VecDeque;

/// Most exchanges that wait for their response.
pub const UNANSWERED_MAX: usize = 64;
/// Most bytes of these.
pub const UNANSWERED_BYTES_MAX: usize = 256 * 1024;

/// Where one message of an exchange stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Awaited,
    Open,
    Over,
}

#[derive(Debug)]
struct Pending {
    exchange: HttpExchange,
    request: Part,
    response: Part,
}

/// The exchanges of a connection that are not over.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    pending: VecDeque<Pending>,
    depth: u32,
    has_responses: bool,
    pub(super) cut_off: CutOff,
}

impl Pairing {
    /// A request begins, sent by `client`.
    pub(super) fn begin_request(
        &mut self,
        client: Direction,
        message: HttpMessage,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        self.note_cut(&message);
        let pending = self.add(client, Part::Open, Part::Awaited, sessions);
        pending.exchange.request = Some(message);
    }

    /// A final response begins. After bytes of the server were lost it answers the last request: clients seldom
    /// ask again before they are answered.
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
            while self.pending.len() > 1
                && self.pending.iter().filter(|pending| pending.response == Part::Awaited).count() > 1
            {
                self.yield_first(sessions);
            }
        }
        let awaited = self.pending.iter().position(|pending| pending.response == Part::Awaited);
        let pending = match awaited {
            Some(index) => &mut self.pending[index],
            None => self.add(client, Part::Over, Part::Open, sessions),
        };
        pending.exchange.response = Some(message);
        pending.response = Part::Open;
    }

    /// An interim response came (RFC 9110 §15.2).
    pub(super) fn inform(&mut self, code: u16, phrase: &[u8]) {
        self.has_responses = true;
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.response == Part::Awaited) {
            pending.exchange.info = Some((code, readable(phrase).into_owned()));
        }
    }

    /// The method of the request that the next response answers.
    pub(super) fn awaited_method(&self) -> Option<&[u8]> {
        let awaited = self.pending.iter().find(|pending| pending.response == Part::Awaited)?;
        Some(awaited.exchange.request.as_ref()?.head.method())
    }

    /// The message that is open in the client's or the server's direction.
    pub(super) fn open_message(&mut self, is_request: bool) -> Option<&mut HttpMessage> {
        let pending = self.open(is_request)?;
        if is_request { pending.exchange.request.as_mut() } else { pending.exchange.response.as_mut() }
    }

    /// That message is over; with a flaw it was not read to its end.
    pub(super) fn end_message(
        &mut self,
        is_request: bool,
        flaw: Option<Flaw>,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        if let (Some(flaw), Some(message)) = (flaw, self.open_message(is_request)) {
            message.mar(flaw);
        }
        if let Some(pending) = self.open(is_request) {
            *(if is_request { &mut pending.request } else { &mut pending.response }) = Part::Over;
        }
        while self
            .pending
            .front()
            .is_some_and(|first| first.response == Part::Over && first.request == Part::Over)
        {
            self.yield_first(sessions);
        }
    }

    /// Yields everything as it stands.
    pub(super) fn yield_all(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        while !self.pending.is_empty() {
            self.yield_first(sessions);
        }
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.pending.iter().map(|pending| pending.exchange.held_bytes()).sum()
    }

    fn open(&mut self, is_request: bool) -> Option<&mut Pending> {
        // Requests are open at the end, responses at the beginning of the queue.
        if is_request {
            self.pending.iter_mut().rev().find(|pending| pending.request == Part::Open)
        } else {
            self.pending.iter_mut().find(|pending| pending.response == Part::Open)
        }
    }

    fn add(
        &mut self,
        client: Direction,
        request: Part,
        response: Part,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> &mut Pending {
        while self.pending.len() >= UNANSWERED_MAX
            || (self.held_bytes() > UNANSWERED_BYTES_MAX && !self.pending.is_empty())
        {
            // Where the server is not seen at all, nothing is lost by that.
            self.cut_off.sessions += u64::from(self.has_responses);
            self.yield_first(sessions);
        }
        self.depth = self.depth.saturating_add(1);
        let exchange = HttpExchange::new(self.depth, client);
        self.pending.push_back(Pending { exchange, request, response });
        let last = self.pending.len() - 1;
        &mut self.pending[last]
    }

    fn yield_first(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(first) = self.pending.pop_front() {
            sessions.push(Box::new(first.exchange));
        }
    }

    fn note_cut(&mut self, message: &HttpMessage) {
        let is_oversize = message.flaw == Some(Flaw::Oversize);
        self.cut_off.parts += u64::from(message.head.lines_cut()) + u64::from(is_oversize);
    }
}

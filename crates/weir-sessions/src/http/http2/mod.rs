//! Unencrypted HTTP/2 (RFC 9113): one exchange per stream.
//!
//! | file | what it does |
//! |---|---|
//! | `frame` | bytes → frames |
//! | `hpack`, `huffman` | header blocks → names and values |
//! | `block` | frames of a header block → a head |
//! | here | streams, and their ends |
//!
//! A connection may be seen from the middle, or behind a gap that hid where frames begin. Parsing goes on if
//! a frame begins there. Header compression depends on all earlier blocks, so fields that refer to those are
//! missing then.

mod block;
pub(super) mod frame;
mod hpack;
mod huffman;

use super::LOST_BYTES_MAX;
use super::exchange::{HttpExchange, HttpMessage, Reached};
use super::stream::Flaw;
use crate::{Contents, CutOff, Data, Direction, Early, Progress, Session};
use block::{Block, Kind};
use frame::{CONTINUATION, Content, DATA, Frames, HEADER_BYTES, HEADERS, PUSH_PROMISE, RST_STREAM};
use std::collections::BTreeMap;
use weir_packet::Timestamp;

/// Maximum number of open streams.
pub const STREAMS_MAX: usize = 256;
/// Maximum size of the heads of all open streams.
pub const STREAMS_BYTES_MAX: usize = 256 * 1024;

/// Bytes of names and values that blocks may decode to, for each captured byte of the connection: a reference
/// of one byte may stand for thousands …
const DECODED_PER_BYTE_MAX: u64 = 8;
/// … in addition to this many bytes.
const DECODED_BYTES_FREE: u64 = 64 * 1024;

/// An open stream.
#[derive(Debug)]
struct Open {
    exchange: HttpExchange,
    /// Its share of [`Http2::streams_bytes`].
    held_bytes: usize,
    is_request_over: bool,
    is_response_over: bool,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    frames: Frames,
    block: Block,
    /// The error code of a RST_STREAM, as far as received.
    reset: Vec<u8>,
    /// Bytes captured of the current frame.
    frame_bytes: usize,
    /// Whether a frame was read.
    has_begun: bool,
    /// Whether earlier blocks were not seen.
    is_midway: bool,
}

impl Side {
    /// A direction behind a gap that hid where frames begin.
    fn behind_gap() -> Self {
        let (frames, block) = (Frames::behind_gap(), Block::in_the_middle());
        Self { frames, block, has_begun: true, is_midway: true, ..Self::default() }
    }

    /// Earlier blocks of this direction were not seen.
    fn begin_midway(&mut self) {
        (self.block, self.is_midway) = (Block::in_the_middle(), true);
    }
}

/// Parses the exchanges of a connection.
#[derive(Debug)]
pub(super) struct Http2 {
    sides: [Side; 2],
    /// The side that sent the last bytes.
    last_from: Option<Direction>,
    client: Option<Direction>,
    streams: BTreeMap<u32, Open>,
    /// Bytes that the open streams hold.
    streams_bytes: usize,
    /// Bytes that further blocks may decode to.
    allowance: u64,
    depth: u32,
    /// The highest stream number of a request.
    last_request: u32,
    /// Whether requests may be missing.
    is_request_missing: bool,
    /// Number of bytes skipped since the last header block of either side.
    lost_bytes: u64,
    /// Whether stream 1 has begun. If its first message is a response, its request was sent in HTTP/1
    /// (`Upgrade: h2c`, RFC 7540 §3.2).
    has_first_request: bool,
    is_over: bool,
    contents: Contents,
    early: Early,
    cut_off: CutOff,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            sides: Default::default(),
            last_from: None,
            client: None,
            streams: BTreeMap::new(),
            streams_bytes: 0,
            allowance: DECODED_BYTES_FREE,
            depth: 0,
            last_request: 0,
            is_request_missing: false,
            lost_bytes: 0,
            has_first_request: false,
            is_over: false,
            contents: Contents::default(),
            early: Early::default(),
            cut_off: CutOff::default(),
        }
    }
}

impl Http2 {
    pub(super) fn new(contents: &Contents, early: Early) -> Self {
        Self { contents: contents.clone(), early, ..Self::default() }
    }

    /// Goes on with the counts of an earlier parser of the connection.
    pub(super) fn go_on_after(&mut self, cut_off: CutOff) {
        self.cut_off = cut_off;
    }

    /// Begins with an exchange whose request was sent in HTTP/1: stream 1 has its response (RFC 7540 §3.2).
    pub(super) fn begin_with(&mut self, exchange: HttpExchange) {
        (self.client, self.depth) = (Some(exchange.client), exchange.depth);
        (self.last_request, self.has_first_request) = (1, true);
        let mut open = Open { exchange, held_bytes: 0, is_request_over: true, is_response_over: false };
        open.exchange.stream_id = Some(1);
        self.streams.insert(1, open);
        self.weigh(1);
    }

    pub(super) fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        let was_lost = self.sides[data.from as usize].frames.is_lost();
        // Once the other side has spoken, a frame probably begins.
        let is_new_turn = self.last_from.replace(data.from) != Some(data.from);
        if is_new_turn && self.sides[data.from as usize].frames.is_lost() {
            self.sides[data.from as usize] = Side::behind_gap();
        }
        while !self.is_over
            && let Some(content) = self.sides[data.from as usize].frames.next(&mut rest, data.time)
        {
            match content {
                Ok(content) => self.take((data.from, data.time), &content, sessions),
                Err(flaw) => self.end(flaw, sessions),
            }
        }
        if was_lost && self.sides[data.from as usize].frames.is_lost() {
            self.lost_bytes += data.bytes.len() as u64;
            if self.lost_bytes > LOST_BYTES_MAX {
                self.cut_off.sessions += 1;
                self.end(Flaw::Gap, sessions);
            }
        }
        if self.is_over { Progress::Done } else { Progress::Wanted }
    }

    pub(super) fn gap(
        &mut self,
        from: Direction,
        length_bytes: u64,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> Progress {
        match self.sides[from as usize].frames.skip(length_bytes) {
            None => self.lose(from, sessions),
            Some((frame, content_bytes)) => {
                let (contents, early) = (self.contents.clone(), self.early);
                if frame.kind == DATA
                    && let Some(message) = self.message(frame.stream_id, from)
                    && message.lose_body(content_bytes, &contents, early)
                {
                    self.yield_body(frame.stream_id, from, sessions);
                }
                let nothing = Data { from, time: Timestamp(0), bytes: &[], is_datagram: false };
                return self.parse(&nothing, sessions);
            }
        }
        Progress::Wanted
    }

    /// Goes on behind bytes of a side that are not known. A response that has begun may have ended in them,
    /// and requests may have begun.
    pub(super) fn lose(&mut self, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        if self.is_over {
            return;
        }
        self.sides[from as usize] = Side::behind_gap();
        let is_request = Some(from) == self.client;
        self.is_request_missing |= is_request;
        let has_begun = |open: &Open| match is_request {
            true => !open.is_request_over,
            false => open.exchange.response.is_some() && !open.is_response_over,
        };
        let begun: Vec<u32> =
            self.streams.iter().filter(|(_, open)| has_begun(open)).map(|(id, _)| *id).collect();
        for id in begun {
            let Some(open) = self.streams.get_mut(&id) else { continue };
            let exchange = &mut open.exchange;
            let message = if is_request { &mut exchange.request } else { &mut exchange.response };
            if let Some(message) = message {
                message.mar(Flaw::Gap);
            }
            self.end_side(id, from, sessions);
        }
    }

    pub(super) fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if !self.is_over {
            self.end(Flaw::Unfinished, sessions);
        }
    }

    pub(super) fn cut_off(&self) -> CutOff {
        self.cut_off
    }

    /// Updates the memory of a stream after a change.
    fn weigh(&mut self, id: u32) {
        if let Some(open) = self.streams.get_mut(&id) {
            let before = std::mem::replace(&mut open.held_bytes, open.exchange.held_bytes());
            self.streams_bytes = self.streams_bytes - before + open.held_bytes;
        }
    }

    /// Removes a stream.
    fn remove(&mut self, id: u32) -> Option<Open> {
        let open = self.streams.remove(&id)?;
        self.streams_bytes -= open.held_bytes;
        Some(open)
    }

    fn take(
        &mut self,
        (from, time): (Direction, Timestamp),
        content: &Content<'_>,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        let (frame, bytes) = (content.frame, content.bytes);
        let side = &mut self.sides[from as usize];
        let is_beginning = side.frames.has_preface() || frame.begins_connection();
        if !std::mem::replace(&mut side.has_begun, true) && !is_beginning {
            side.begin_midway();
        }
        if side.block.is_open() && content.is_first && frame.kind != CONTINUATION {
            // No other frame may interrupt a header block (RFC 9113 §6.10).
            return self.end(Flaw::Malformed, sessions);
        }
        side.frame_bytes = bytes.len() + if content.is_first { HEADER_BYTES } else { side.frame_bytes };
        match frame.kind {
            DATA => {
                let (contents, early) = (self.contents.clone(), self.early);
                if let Some(message) = self.message(frame.stream_id, from) {
                    if message.take_body(bytes, time, &contents, early) {
                        self.yield_body(frame.stream_id, from, sessions);
                    }
                    self.weigh(frame.stream_id);
                }
                self.earn(from, content.is_last);
                if content.is_last && frame.ends_stream() {
                    self.end_side(frame.stream_id, from, sessions);
                }
            }
            CONTINUATION if side.is_midway && !side.block.is_open() => {
                // The beginning of this block was not seen. The block may have added entries to the table, so
                // all entries are unknown again.
                side.begin_midway();
                self.earn(from, content.is_last);
            }
            HEADERS | PUSH_PROMISE | CONTINUATION => {
                if content.is_first && !side.block.begin(frame) {
                    return self.end(Flaw::Malformed, sessions);
                }
                if !side.block.push(bytes) {
                    self.cut_off.sessions += 1;
                    return self.end(Flaw::Oversize, sessions);
                }
                self.earn(from, content.is_last);
                if content.is_last && frame.ends_headers() {
                    self.take_block(from, sessions);
                }
            }
            RST_STREAM => {
                if content.is_first {
                    side.reset.clear();
                }
                let room = 4_usize.saturating_sub(side.reset.len());
                side.reset.extend_from_slice(&bytes[..bytes.len().min(room)]);
                let code = side.reset.first_chunk::<4>().map(|code| u32::from_be_bytes(*code));
                self.earn(from, content.is_last);
                if content.is_last {
                    self.reset(frame.stream_id, code, sessions);
                }
            }
            _ => self.earn(from, content.is_last),
        }
    }

    /// Adds a whole frame to the allowance. A part of a frame does not count, nor does a frame that ends the
    /// parsing: the result must not depend on segments.
    fn earn(&mut self, from: Direction, is_whole: bool) {
        let bytes = if is_whole { self.sides[from as usize].frame_bytes as u64 } else { 0 };
        self.allowance = self.allowance.saturating_add(bytes * DECODED_PER_BYTE_MAX);
    }

    /// Takes a complete header block.
    fn take_block(&mut self, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        let block = &mut self.sides[from as usize].block;
        let frame = block.frame();
        let Ok(kind) = block.read(&mut self.allowance, &mut self.cut_off) else {
            return self.end(Flaw::Malformed, sessions);
        };
        let time = frame.time.unwrap_or(Timestamp(0));
        self.lost_bytes = 0;
        match kind {
            Kind::Request(head) => {
                self.cut_off.parts += u64::from(head.lines_cut());
                let is_pushed = frame.kind == PUSH_PROMISE;
                let client = *self.client.get_or_insert(if is_pushed { from.other() } else { from });
                let id = if is_pushed { frame.promised_id } else { frame.stream_id };
                if !self.streams.contains_key(&id) && (is_pushed || from == client) {
                    self.last_request = self.last_request.max(id);
                    self.has_first_request |= id == 1;
                    let open = self.add(id, client, sessions);
                    open.exchange.request = Some(HttpMessage::new(head, time, None));
                    open.is_request_over = is_pushed;
                    self.weigh(id);
                }
            }
            Kind::Response(head) => {
                self.cut_off.parts += u64::from(head.lines_cut());
                let client = *self.client.get_or_insert(from.other());
                self.take_response(frame.stream_id, client, HttpMessage::new(head, time, None), sessions);
                self.weigh(frame.stream_id);
            }
            Kind::Trailers => {}
        }
        if frame.ends_stream() {
            self.end_side(frame.stream_id, from, sessions);
        }
    }

    fn take_response(
        &mut self,
        id: u32,
        client: Direction,
        message: HttpMessage,
        sessions: &mut Vec<Box<dyn Session>>,
    ) {
        // Ignore a response on a stream that was reset: the response may still have been in transit. If
        // requests are missing, the response more likely belongs to one of them.
        let is_new = !self.streams.contains_key(&id);
        let is_upgraded = id == 1 && !self.has_first_request;
        let is_late = is_new && id <= self.last_request && !is_upgraded && !self.is_request_missing;
        let code = message.head.code();
        if is_late || (is_new && (100..200).contains(&code)) {
            return;
        }
        self.has_first_request |= id == 1;
        let open = if is_new {
            self.add(id, client, sessions)
        } else {
            self.streams.entry(id).or_insert_with(|| Open::new(0, client, id))
        };
        open.is_request_over |= is_new;
        if (100..200).contains(&code) {
            open.exchange.info = Some((code, String::new()));
        } else if open.exchange.response.is_none() {
            open.exchange.response = Some(message);
        }
    }

    fn add(&mut self, id: u32, client: Direction, sessions: &mut Vec<Box<dyn Session>>) -> &mut Open {
        while self.streams.len() >= STREAMS_MAX || self.streams_bytes > STREAMS_BYTES_MAX {
            let first = self.streams.first_key_value().map(|(&id, _)| id);
            let Some(mut first) = first.and_then(|id| self.remove(id)) else { break };
            first.mar(Flaw::Unfinished);
            self.cut_off.sessions += 1;
            self.deliver(first, sessions);
        }
        self.depth = self.depth.saturating_add(1);
        let depth = self.depth;
        self.streams.entry(id).or_insert_with(|| Open::new(depth, client, id))
    }

    /// Ends one side of a stream; once both have ended, the exchange is yielded.
    fn end_side(&mut self, id: u32, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        let is_client = Some(from) == self.client;
        let Some(open) = self.streams.get_mut(&id) else { return };
        let was_over = open.is_request_over;
        open.is_request_over |= is_client;
        open.is_response_over |= !is_client;
        if open.is_request_over
            && open.is_response_over
            && let Some(open) = self.remove(id)
        {
            self.deliver(open, sessions);
        } else if is_client && !was_over && self.early.is_wanted() {
            self.yield_early(id, Reached::Request, sessions);
        }
    }

    /// Yields an exchange whose message from this side has as many bytes as early sessions want.
    fn yield_body(&self, id: u32, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        let is_request = Some(from) == self.client;
        let reached = if is_request { Reached::RequestBody } else { Reached::ResponseBody };
        self.yield_early(id, reached, sessions);
    }

    /// Yields an exchange that goes on.
    fn yield_early(&self, id: u32, reached: Reached, sessions: &mut Vec<Box<dyn Session>>) {
        let exchange = self.streams.get(&id).map(|open| open.exchange.so_far(reached));
        sessions.extend(exchange.map(|exchange| Box::new(exchange) as Box<dyn Session>));
    }

    /// Yields an exchange.
    fn deliver(&mut self, mut open: Open, sessions: &mut Vec<Box<dyn Session>>) {
        self.cut_off.parts += open.exchange.end_bodies(open.is_request_over, open.is_response_over);
        sessions.push(Box::new(open.exchange));
    }

    fn reset(&mut self, id: u32, code: Option<u32>, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(mut open) = self.remove(id) {
            open.exchange.reset_code = code;
            self.deliver(open, sessions);
        }
    }

    /// Stops parsing, and yields all streams as they are.
    fn end(&mut self, flaw: Flaw, sessions: &mut Vec<Box<dyn Session>>) {
        self.is_over = true;
        self.end_streams(flaw, sessions);
        self.sides = <[Side; 2]>::default();
    }

    /// Yields all streams as they are.
    fn end_streams(&mut self, flaw: Flaw, sessions: &mut Vec<Box<dyn Session>>) {
        self.streams_bytes = 0;
        for mut open in std::mem::take(&mut self.streams).into_values() {
            open.mar(flaw);
            self.deliver(open, sessions);
        }
    }

    /// The message that a side sends on a stream.
    fn message(&mut self, id: u32, from: Direction) -> Option<&mut HttpMessage> {
        let exchange = &mut self.streams.get_mut(&id)?.exchange;
        if Some(from) == self.client { exchange.request.as_mut() } else { exchange.response.as_mut() }
    }
}

impl Open {
    fn new(depth: u32, client: Direction, id: u32) -> Self {
        let mut exchange = HttpExchange::new(depth, client);
        exchange.stream_id = Some(id);
        Self { exchange, held_bytes: 0, is_request_over: false, is_response_over: false }
    }

    /// Marks the open messages of the stream as incomplete.
    fn mar(&mut self, flaw: Flaw) {
        if !self.is_request_over
            && let Some(request) = &mut self.exchange.request
        {
            request.mar(flaw);
        }
        if !self.is_response_over
            && let Some(response) = &mut self.exchange.response
        {
            response.mar(flaw);
        }
    }
}

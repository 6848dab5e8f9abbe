//! [`HttpExchange`]: a request with its response, yielded by the parsers of HTTP/1 and HTTP/2.

use super::head::Head;
use super::start_line::Version;
use super::stream::Flaw;
use super::{fields, media};
use crate::pe::{HEAD_BYTES_MAX, PeHead, Start};
use crate::values::readable;
use crate::{Content, Contents, Direction, Early, Session};
use base64::Engine;
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// Bytes kept of the start of a body, to detect its media type.
pub const BODY_START_BYTES_MAX: usize = 512;

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// Start line and header lines.
    pub head: Head,
    /// Time of the first byte.
    pub time: Timestamp,
    /// Length of the content without transfer coding, but with content coding (compressed). Includes missing
    /// bytes that certainly belonged to the content.
    pub body_bytes: u64,
    /// Number of bytes of the content missing in the capture.
    pub lost_bytes: u64,
    /// Times of the first and the last byte of the content; none if there was no content.
    pub body_times: Option<(Timestamp, Timestamp)>,
    /// The first bytes of the content, at most [`BODY_START_BYTES_MAX`]; stops at a gap.
    pub body_start: Vec<u8>,
    /// Why the message is incomplete; `None` if it is complete.
    pub flaw: Option<Flaw>,
    /// Whether `body_start` is still being filled.
    is_start_open: bool,
    /// The content, if somebody asks for contents.
    pub(super) content: Option<Content>,
    /// The first bytes of a content without coding that may be an executable of Windows.
    start_of_executable: Start,
}

impl HttpMessage {
    /// A message whose head is complete.
    pub(super) fn new(head: Head, time: Timestamp, flaw: Option<Flaw>) -> Self {
        Self {
            head,
            time,
            body_bytes: 0,
            lost_bytes: 0,
            body_times: None,
            body_start: Vec::new(),
            flaw,
            is_start_open: true,
            content: None,
            start_of_executable: Start::default(),
        }
    }

    /// Counts bytes of the content, keeps the first ones, and passes all on to `contents`. Returns whether
    /// the content is as long as `early` sessions want.
    #[must_use]
    pub(super) fn take_body(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        contents: &Contents,
        early: Early,
    ) -> bool {
        if bytes.is_empty() {
            return false;
        }
        if let Some(content) = self.open_content(contents) {
            content.write(bytes);
        }
        let before = self.body_bytes;
        self.start_of_executable.take(before, bytes);
        self.body_bytes += bytes.len() as u64;
        self.body_times = Some((self.body_times.map_or(time, |(first, _)| first), time));
        if self.is_start_open {
            let room = BODY_START_BYTES_MAX - self.body_start.len();
            self.body_start.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.is_start_open = self.body_start.len() < BODY_START_BYTES_MAX;
        }
        early.is_reached(before, self.body_bytes)
    }

    /// Counts missing bytes of the content. Returns as [`take_body`](Self::take_body) does.
    #[must_use]
    pub(super) fn lose_body(&mut self, length_bytes: u64, contents: &Contents, early: Early) -> bool {
        if let Some(content) = self.open_content(contents) {
            content.lose(length_bytes);
        }
        let before = self.body_bytes;
        self.start_of_executable.lose();
        self.body_bytes = before.saturating_add(length_bytes);
        self.lost_bytes = self.lost_bytes.saturating_add(length_bytes);
        self.is_start_open = false;
        early.is_reached(before, self.body_bytes)
    }

    fn open_content(&mut self, contents: &Contents) -> Option<&Content> {
        // The first byte of the body opens the content.
        if self.body_bytes == 0 && self.content.is_none() {
            self.content = contents.begin(self.head.list("content-encoding").as_deref());
        }
        self.content.as_ref()
    }

    /// Ends the content; `is_over`: the message has ended. Returns how much of it a bound cut: 1 for the
    /// content, 1 for the head of an executable.
    pub(super) fn end_body(&mut self, is_over: bool) -> u64 {
        let is_whole = is_over && self.flaw.is_none() && self.lost_bytes == 0;
        let is_cut = self.content.as_ref().is_some_and(|content| content.end(is_whole));
        u64::from(is_cut) + self.start_of_executable.end()
    }

    /// Marks the message as incomplete. Only the first reason is kept.
    pub(super) fn mar(&mut self, flaw: Flaw) {
        self.flaw.get_or_insert(flaw);
    }

    /// The media type, detected in the first bytes of the content after undoing gzip, deflate or Brotli. Not
    /// cached.
    pub fn media_type(&self) -> Option<&'static str> {
        media::sniff(&self.body_start, self.head.header("content-encoding"))
    }

    /// The head of the content, if it is an executable of Windows. Of a coded content, the head is read from
    /// the kept first bytes, and may be incomplete. Not cached.
    pub(super) fn executable(&self) -> Option<Box<PeHead>> {
        let coding = self.head.header("content-encoding");
        match media::unpack(&self.body_start, coding, HEAD_BYTES_MAX)? {
            Cow::Borrowed(_) => self.start_of_executable.head(),
            Cow::Owned(unpacked) => PeHead::read(&unpacked).map(Box::new),
        }
    }

    /// The value of the Content-Length header (RFC 9110 §8.6), if it is a number.
    pub fn content_length(&self) -> Option<u64> {
        read_content_length(&self.head)?.ok()
    }

    /// Bytes held, without the content's.
    pub(super) fn held_bytes(&self) -> usize {
        self.head.held_bytes() + self.body_start.capacity() + self.start_of_executable.held_bytes()
    }
}

/// The value of Content-Length: `None` without the header, an error if it is no number or has several values
/// (RFC 9112 §6.3).
pub(super) fn read_content_length(head: &Head) -> Option<Result<u64, ()>> {
    let mut values = head.all("content-length").flat_map(|value| value.split(|byte| *byte == b','));
    let read = |value: &[u8]| -> Result<u64, ()> {
        let value = value.trim_ascii();
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(());
        }
        let digit = |sum: Option<u64>, digit: &u8| sum?.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        value.iter().fold(Some(0), digit).ok_or(())
    };
    let first = read(values.next()?);
    let is_same = |value: &[u8]| read(value) == first;
    Some(first.and_then(|length| if values.all(is_same) { Ok(length) } else { Err(()) }))
}

/// The user name in an Authorization header of the Basic scheme.
fn basic_user(value: &[u8]) -> Option<String> {
    let (scheme, credentials) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(credentials.trim_ascii().trim_suffix_padding())
        .ok()?;
    let name = decoded.split(|byte| *byte == b':').next()?;
    Some(readable(name).into_owned())
}

/// A request with its response; at least one of the two is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpExchange {
    /// Number of the exchange in its connection, from 1.
    pub depth: u32,
    /// The client's direction: usually the originator of the connection.
    pub client: Direction,
    /// The request, if it was seen.
    pub request: Option<HttpMessage>,
    /// The final response, if there was one and it was seen.
    pub response: Option<HttpMessage>,
    /// Code and phrase of the last interim response (RFC 9110 §15.2).
    pub info: Option<(u16, String)>,
    /// Stream identifier, in HTTP/2.
    pub stream_id: Option<u32>,
    /// Error code of the RST_STREAM that ended the stream, in HTTP/2 (RFC 9113 §7).
    pub reset_code: Option<u32>,
    /// Why an exchange that goes on is yielded.
    pub early: Option<Reached>,
}

/// How far an exchange is that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The first bytes of the request's body.
    RequestBody,
    /// The end of the request.
    Request,
    /// The first bytes of the response's body.
    ResponseBody,
}

impl HttpExchange {
    /// A new exchange.
    pub(super) fn new(depth: u32, client: Direction) -> Self {
        Self {
            depth,
            client,
            request: None,
            response: None,
            info: None,
            stream_id: None,
            reset_code: None,
            early: None,
        }
    }

    /// The exchange so far.
    pub(super) fn so_far(&self, reached: Reached) -> Self {
        Self { early: Some(reached), ..self.clone() }
    }

    /// Ends the contents of both messages; whether each message has ended. Returns the number of contents
    /// and heads of executables that a bound cut.
    pub(super) fn end_bodies(&mut self, is_request_over: bool, is_response_over: bool) -> u64 {
        let end = |message: &mut Option<HttpMessage>, is_over| {
            message.as_mut().map_or(0, |message| message.end_body(is_over))
        };
        end(&mut self.request, is_request_over) + end(&mut self.response, is_response_over)
    }

    /// Bytes of memory of the contents: decoders, and buffers of their store.
    pub(super) fn content_bytes(&self) -> usize {
        let messages = [&self.request, &self.response].into_iter().flatten();
        messages.filter_map(|message| message.content.as_ref()).map(Content::held_bytes).sum()
    }

    /// The version of the request, or else of the response.
    pub fn version(&self) -> Option<Version> {
        self.request.as_ref().or(self.response.as_ref()).map(|message| message.head.version())
    }

    /// The host of the request: from the Host header or `:authority`, else from an absolute target.
    pub fn host(&self) -> Option<Cow<'_, str>> {
        let head = &self.request.as_ref()?.head;
        let mut said = [":authority", "host"].into_iter().filter_map(|name| head.header(name));
        said.find(|host| !host.is_empty()).or_else(|| authority(head)).map(readable)
    }

    /// The URI of the request with scheme and host, if these are known.
    pub fn full_uri(&self) -> Option<Cow<'_, str>> {
        let head = &self.request.as_ref()?.head;
        let target = Some(readable(head.target())).filter(|target| !target.is_empty())?;
        if target.contains("://") || head.method() == b"CONNECT" {
            return Some(target);
        }
        let host = self.host()?;
        let path = if target == "*" { Cow::Borrowed("") } else { target };
        let scheme = head.header(":scheme").map_or(Cow::Borrowed("http"), readable);
        Some(Cow::Owned(format!("{scheme}://{host}{path}")))
    }

    /// The user name of basic authentication (RFC 7617), without password: to the server, or else to a proxy.
    pub fn user_name(&self) -> Option<String> {
        let head = &self.request.as_ref()?.head;
        let mut values =
            ["authorization", "proxy-authorization"].into_iter().filter_map(|name| head.header(name));
        values.find_map(basic_user)
    }

    /// Time between the first bytes of request and response, nanoseconds.
    pub fn wait_ns(&self) -> Option<u64> {
        let (request, response) = (self.request.as_ref()?, self.response.as_ref()?);
        u64::try_from(response.time.0.saturating_sub(request.time.0)).ok()
    }

    /// Why the exchange is incomplete; `None` if it is complete.
    pub fn flaw(&self) -> Option<Flaw> {
        [&self.request, &self.response].into_iter().flatten().find_map(|message| message.flaw)
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        let messages = [&self.request, &self.response].into_iter().flatten();
        size_of::<Self>() + messages.map(HttpMessage::held_bytes).sum::<usize>()
    }
}

/// The authority of a target in absolute or authority form (RFC 9112 §3.2).
fn authority(head: &Head) -> Option<&[u8]> {
    let target = head.target();
    if head.method() == b"CONNECT" {
        return Some(target);
    }
    let at = memchr::memmem::find(target, b"://")?;
    let rest = &target[at + 3..];
    rest.split(|byte| matches!(byte, b'/' | b'?' | b'#')).next().filter(|authority| !authority.is_empty())
}

trait TrimPadding {
    /// Strips the `=` padding of base64.
    fn trim_suffix_padding(&self) -> &Self;
}

impl TrimPadding for [u8] {
    fn trim_suffix_padding(&self) -> &Self {
        let padding = self.iter().rev().take_while(|byte| **byte == b'=').count();
        &self[..self.len() - padding]
    }
}

impl Session for HttpExchange {
    fn value(&self, index: usize) -> Value<'_> {
        fields::value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        self.request.as_ref().or(self.response.as_ref()).map(|message| message.time)
    }

    fn is_early(&self) -> bool {
        self.early.is_some()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

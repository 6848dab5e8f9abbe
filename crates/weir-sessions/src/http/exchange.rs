//! [`HttpExchange`]: a request with its response, what the parsers of HTTP/1 and HTTP/2 yield.

use super::head::{Head, Version};
use super::stream::Flaw;
use super::{fields, media};
use crate::values::readable;
use crate::{Direction, Session};
use base64::Engine;
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// Bytes of the beginning of a body that are kept, for its media type.
pub const BODY_START_BYTES_MAX: usize = 512;

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// Start line and header lines.
    pub head: Head,
    /// When its first byte came.
    pub time: Timestamp,
    /// Bytes of its content, without chunk sizes and the like, as they were sent: compressed where they were. Bytes
    /// that the capture lacks count where it is certain that they were content.
    pub body_bytes: u64,
    /// Bytes of these that the capture lacks.
    pub lost_bytes: u64,
    /// When the first and the last bytes of its content came; none where none did.
    pub body_times: Option<(Timestamp, Timestamp)>,
    /// The first bytes of the content, at most [`BODY_START_BYTES_MAX`]; none behind a gap.
    pub body_start: Vec<u8>,
    /// Why it was not read to its end, where it was not.
    pub flaw: Option<Flaw>,
    /// Whether `body_start` is still being filled.
    is_start_open: bool,
}

impl HttpMessage {
    /// A message of which the head is known.
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
        }
    }

    /// Counts bytes of the content, and keeps the first.
    pub(super) fn take_body(&mut self, bytes: &[u8], time: Timestamp) {
        if bytes.is_empty() {
            return;
        }
        self.body_bytes += bytes.len() as u64;
        self.body_times = Some((self.body_times.map_or(time, |(first, _)| first), time));
        if self.is_start_open {
            let room = BODY_START_BYTES_MAX - self.body_start.len();
            self.body_start.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.is_start_open = self.body_start.len() < BODY_START_BYTES_MAX;
        }
    }

    /// Counts bytes of the content that are missing.
    pub(super) fn lose_body(&mut self, length_bytes: u64) {
        self.body_bytes = self.body_bytes.saturating_add(length_bytes);
        self.lost_bytes = self.lost_bytes.saturating_add(length_bytes);
        self.is_start_open = false;
    }

    /// Notes why it was not read to its end; the first reason counts.
    pub(super) fn mar(&mut self, flaw: Flaw) {
        self.flaw.get_or_insert(flaw);
    }

    /// The media type of the content, by its first bytes; a gzip, deflate or Brotli coding is undone. Computed anew at each call.
    pub fn media_type(&self) -> Option<&'static str> {
        media::sniff(&self.body_start, self.head.header("content-encoding"))
    }

    /// The value of the Content-Length header (RFC 9110 §8.6), where it is a number.
    pub fn content_length(&self) -> Option<u64> {
        read_content_length(&self.head)?.ok()
    }

    /// Bytes of memory that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.head.held_bytes() + self.body_start.capacity()
    }
}

/// The length that Content-Length says: none where there is no such header, an error where it is no number or several
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

/// The user in the value of a header with basic credentials.
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

/// A request with its response, or as much of them as there was. At least one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpExchange {
    /// Which one it is of its connection, counted from 1.
    pub depth: u32,
    /// Who sent the request: the originator of the connection, as a rule.
    pub client: Direction,
    /// The request; absent where it was not seen.
    pub request: Option<HttpMessage>,
    /// The final response; absent where there was none, or it was not seen.
    pub response: Option<HttpMessage>,
    /// Code and phrase of the last interim response (RFC 9110 §15.2).
    pub info: Option<(u16, String)>,
    /// Number of its stream, in HTTP/2.
    pub stream_id: Option<u32>,
    /// Error code of the RST_STREAM that ended it, in HTTP/2 (RFC 9113 §7).
    pub reset_code: Option<u32>,
}

impl HttpExchange {
    /// An exchange that begins.
    pub(super) fn new(depth: u32, client: Direction) -> Self {
        Self { depth, client, request: None, response: None, info: None, stream_id: None, reset_code: None }
    }

    /// The version of the request, or of the response where there is no request.
    pub fn version(&self) -> Option<Version> {
        self.request.as_ref().or(self.response.as_ref()).map(|message| message.head.version())
    }

    /// The host that the request is for: Host header or `:authority`, else the authority of an absolute target.
    pub fn host(&self) -> Option<Cow<'_, str>> {
        let head = &self.request.as_ref()?.head;
        let mut said = [":authority", "host"].into_iter().filter_map(|name| head.header(name));
        said.find(|host| !host.is_empty()).or_else(|| authority(head)).map(readable)
    }

    /// The URI of the request with scheme and host, as far as they are known.
    pub fn full_uri(&self) -> Option<Cow<'_, str>> {
        let head = &self.request.as_ref()?.head;
        let target = readable(head.target());
        if target.contains("://") || head.method() == b"CONNECT" {
            return Some(target);
        }
        let host = self.host()?;
        let path = if target == "*" { Cow::Borrowed("") } else { target };
        let scheme = head.header(":scheme").map_or(Cow::Borrowed("http"), readable);
        Some(Cow::Owned(format!("{scheme}://{host}{path}")))
    }

    /// The name of basic authentication (RFC 7617), without the password: to the server, else to a proxy.
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

    /// Why it was not read to its end, where it was not.
    pub fn flaw(&self) -> Option<Flaw> {
        [&self.request, &self.response].into_iter().flatten().find_map(|message| message.flaw)
    }

    /// Bytes of memory that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        let messages = [&self.request, &self.response].into_iter().flatten();
        size_of::<Self>() + messages.map(HttpMessage::held_bytes).sum::<usize>()
    }
}

/// The authority of a target in absolute form or authority form (RFC 9112 §3.2).
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
    /// Without the `=` that may end base64.
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

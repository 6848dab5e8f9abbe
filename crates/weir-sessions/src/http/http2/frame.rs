//! HTTP/2 frames (RFC 9113 §4.1): splits one direction's bytes into frames without padding.
//!
//! Only the nine-byte header and the fixed fields before the content are buffered.

use crate::Probe;
use crate::http::stream::Flaw;
use weir_packet::Timestamp;

/// The client's connection preface (RFC 9113 §3.4).
pub(in crate::http) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 §6).
pub(super) const DATA: u8 = 0;
/// HEADERS.
pub(super) const HEADERS: u8 = 1;
/// PRIORITY.
const PRIORITY_FRAME: u8 = 2;
/// RST_STREAM.
pub(super) const RST_STREAM: u8 = 3;
/// SETTINGS.
const SETTINGS: u8 = 4;
/// PUSH_PROMISE.
pub(super) const PUSH_PROMISE: u8 = 5;
/// PING.
const PING: u8 = 6;
/// GOAWAY.
const GOAWAY: u8 = 7;
/// WINDOW_UPDATE.
const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION.
pub(super) const CONTINUATION: u8 = 9;

/// Length of a frame's header.
pub(super) const HEADER_BYTES: usize = 9;

/// Length of a frame unless the receiver allows more (§4.2), which few do. Frames that are recognised without
/// the beginning of their connection are not longer.
const LENGTH_DEFAULT_MAX: u32 = 16_384;

/// Frames in sequence that name a running connection; two suffice if their types differ.
const SEQUENCE: usize = 3;

const END_STREAM: u8 = 0x1;
/// Of SETTINGS and PING.
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Whether the bytes begin with the SETTINGS frame that each side sends first (RFC 9113 §3.4).
pub(in crate::http) fn is_settings(bytes: &[u8]) -> Probe {
    let Some((header, rest)) = bytes.split_first_chunk::<9>() else {
        let shape = [0, 0, bytes.get(2).copied().unwrap_or(0), SETTINGS, 0, 0, 0, 0, 0];
        return if bytes == &shape[..bytes.len()] { Probe::Unsure } else { Probe::NotForUs };
    };
    let [high, middle, length, kind, flags, stream @ ..] = *header;
    let fits =
        [high, middle, flags] == [0; 3] && kind == SETTINGS && stream == [0; 4] && length.is_multiple_of(6);
    match rest {
        _ if !fits => Probe::NotForUs,
        // Setting identifiers are small, except for GREASE (RFC 8701 defines it for TLS; some HTTP/2 clients
        // use it as well).
        [_, identifier, ..] if length > 0 => {
            if *identifier <= 0x10 || identifier & 0xf == 0xa {
                Probe::Certain
            } else {
                Probe::NotForUs
            }
        }
        _ if length == 0 => Probe::Certain,
        _ => Probe::Unsure,
    }
}

/// Recognises a running connection: the bytes begin with headers of frames, each of which stands where the
/// length of the one before says. By chance, a header fits in fewer than 1 of 100 000 places.
pub(in crate::http) fn in_sequence(bytes: &[u8]) -> Probe {
    let (mut rest, mut first) = (bytes, None);
    for _ in 0..SEQUENCE {
        let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            let is_length = rest.first().is_none_or(|byte| *byte == 0);
            let is_type = rest.get(3).is_none_or(|kind| *kind <= CONTINUATION);
            return if is_length && is_type { Probe::Unsure } else { Probe::NotForUs };
        };
        if !is_plausible(header) {
            return Probe::NotForUs;
        }
        let (kind, flags) = (header[3], header[4]);
        // Integers of a binary protocol may look like frames without content and flags. The only such frame
        // that is usual is the first SETTINGS of a connection, and `is_settings` recognises that one.
        if length_of(header) == 0 && flags == 0 {
            return Probe::NotForUs;
        }
        if first.is_some_and(|first| first != kind) {
            return Probe::Certain;
        }
        first = Some(kind);
        rest = behind.get(length_of(header) as usize..).unwrap_or_default();
    }
    Probe::Certain
}

/// The length of the frame's content, with padding.
fn length_of(header: &[u8; HEADER_BYTES]) -> u32 {
    u32::from_be_bytes([0, header[0], header[1], header[2]])
}

/// Whether the bytes may be a frame's header (§6): a known type with its flags, length and kind of stream.
fn is_plausible(header: &[u8; HEADER_BYTES]) -> bool {
    let length = length_of(header);
    let [.., kind, flags, a, b, c, d] = *header;
    let stream_id = u32::from_be_bytes([a, b, c, d]);
    let (flags_allowed, fits) = match kind {
        DATA => (END_STREAM | PADDED, true),
        HEADERS => (END_STREAM | END_HEADERS | PADDED | PRIORITY, length > 0),
        PRIORITY_FRAME => (0, length == 5),
        RST_STREAM => (0, length == 4),
        SETTINGS => (ACK, length.is_multiple_of(6) && (flags == 0 || length == 0)),
        PUSH_PROMISE => (END_HEADERS | PADDED, length > 4),
        PING => (ACK, length == 8),
        GOAWAY => (0, length >= 8),
        WINDOW_UPDATE => (0, length == 4),
        CONTINUATION => (END_HEADERS, true),
        _ => return false,
    };
    let fits_stream = match kind {
        SETTINGS | PING | GOAWAY => stream_id == 0,
        WINDOW_UPDATE => true,
        _ => stream_id != 0,
    };
    let is_reserved = stream_id >> 31 != 0;
    fits && fits_stream && !is_reserved && flags & !flags_allowed == 0 && length <= LENGTH_DEFAULT_MAX
}

/// The header of a frame, and the fixed fields before its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream_id: u32,
    /// The promised stream of a PUSH_PROMISE.
    pub(super) promised_id: u32,
    /// Time of the first byte.
    pub(super) time: Option<Timestamp>,
}

impl Frame {
    pub(super) fn ends_stream(self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// Whether a connection begins with this frame (§3.4).
    pub(super) fn begins_connection(self) -> bool {
        self.kind == SETTINGS && self.flags & ACK == 0
    }

    pub(super) fn ends_headers(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    fn is_padded(self) -> bool {
        matches!(self.kind, DATA | HEADERS | PUSH_PROMISE) && self.flags & PADDED != 0
    }

    /// Length of the fields before the content: padding length, priority (§6.2), promised stream (§6.6).
    fn prefix_bytes(self) -> usize {
        let fixed = match self.kind {
            HEADERS if self.flags & PRIORITY != 0 => 5,
            PUSH_PROMISE => 4,
            _ => 0,
        };
        usize::from(self.is_padded()) + fixed
    }

    /// Whether the content is read, so that no byte of it may be missing.
    fn is_read(self) -> bool {
        matches!(self.kind, HEADERS | RST_STREAM | PUSH_PROMISE | CONTINUATION)
    }
}

/// A part of a frame's content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content<'a> {
    pub(super) frame: Frame,
    pub(super) bytes: &'a [u8],
    /// The content begins with these bytes.
    pub(super) is_first: bool,
    /// The content ends with these bytes.
    pub(super) is_last: bool,
}

/// State of one direction.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Number of preface bytes received, if the direction began with the preface.
    preface_bytes: usize,
    has_begun: bool,
    /// Whether the preface or a header was read, so that the next header stands behind it.
    is_in_step: bool,
    /// No frame began where one had to begin. The bytes are skipped.
    is_lost: bool,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    frame: Frame,
    prefix: [u8; 6],
    prefix_bytes: usize,
    /// Bytes still missing of the content, and of the padding after it.
    content_left: u32,
    padding_left: u32,
    is_first: bool,
    /// The end of the content was not returned yet.
    is_open: bool,
}

impl Frames {
    /// The bytes behind a gap that hid where frames begin. They are skipped unless they begin with a frame.
    pub(super) fn behind_gap() -> Self {
        Self { has_begun: true, ..Self::default() }
    }

    /// Whether the direction began with the preface.
    pub(super) fn has_preface(&self) -> bool {
        self.preface_bytes == PREFACE.len()
    }

    /// Whether the bytes are skipped, because nothing says where a frame begins.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Takes the next part of a frame's content off the front of `bytes`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the preface is invalid, or lengths contradict each other.
    pub(super) fn next<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        time: Timestamp,
    ) -> Option<Result<Content<'a>, Flaw>> {
        if !self.has_begun && !self.pass_preface(bytes)? {
            return Some(Err(Flaw::Malformed));
        }
        loop {
            if self.is_lost {
                return None;
            }
            if self.is_open {
                if self.content_left > 0 && bytes.is_empty() {
                    return None;
                }
                let content = take(bytes, &mut self.content_left);
                self.is_open = self.content_left > 0;
                return Some(Ok(Content {
                    frame: self.frame,
                    bytes: content,
                    is_first: std::mem::take(&mut self.is_first),
                    is_last: !self.is_open,
                }));
            }
            take(bytes, &mut self.padding_left);
            if bytes.is_empty() {
                return None;
            }
            if self.padding_left == 0 {
                match self.read_header(bytes, time)? {
                    Ok(()) => {}
                    Err(flaw) => return Some(Err(flaw)),
                }
            }
        }
    }

    /// Skips missing bytes if they affect only content that is not read, and padding. Returns the frame and
    /// the number of missing content bytes; `None` if the start of the next frame is then unknown.
    pub(super) fn skip(&mut self, length_bytes: u64) -> Option<(Frame, u64)> {
        let length = u32::try_from(length_bytes).ok()?;
        let content = if self.is_open { length.min(self.content_left) } else { 0 };
        if (content > 0 && self.frame.is_read()) || length - content > self.padding_left {
            return None;
        }
        self.content_left -= content;
        self.padding_left -= length - content;
        self.is_first &= content == 0;
        Some((self.frame, content.into()))
    }

    /// Skips the preface; returns whether it is valid, `None` if more bytes are needed.
    fn pass_preface(&mut self, bytes: &mut &[u8]) -> Option<bool> {
        loop {
            let (byte, tail) = bytes.split_first()?;
            if self.preface_bytes == 0 && *byte != PREFACE[0] {
                self.has_begun = true;
                return Some(true);
            }
            if *byte != PREFACE[self.preface_bytes] {
                return Some(false);
            }
            *bytes = tail;
            self.preface_bytes += 1;
            if self.preface_bytes == PREFACE.len() {
                (self.has_begun, self.is_in_step) = (true, true);
                return Some(true);
            }
        }
    }

    /// Reads the header and the fixed fields; `None` if more bytes are needed.
    fn read_header(&mut self, bytes: &mut &[u8], time: Timestamp) -> Option<Result<(), Flaw>> {
        while self.header_bytes < self.header.len() {
            let (byte, tail) = bytes.split_first()?;
            if self.header_bytes == 0 {
                self.frame = Frame { time: Some(time), ..Frame::default() };
                self.prefix_bytes = 0;
            }
            *bytes = tail;
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
        }
        self.is_lost = !self.is_in_step && !is_plausible(&self.header);
        if self.is_lost {
            return None;
        }
        self.is_in_step = true;
        let length = length_of(&self.header);
        let [.., kind, flags, a, b, c, d] = self.header;
        (self.frame.kind, self.frame.flags) = (kind, flags);
        self.frame.stream_id = u32::from_be_bytes([a & 0x7f, b, c, d]);
        let prefix_bytes = self.frame.prefix_bytes();
        if prefix_bytes > length as usize {
            return Some(Err(Flaw::Malformed));
        }
        while self.prefix_bytes < prefix_bytes {
            let (byte, tail) = bytes.split_first()?;
            *bytes = tail;
            self.prefix[self.prefix_bytes] = *byte;
            self.prefix_bytes += 1;
        }
        self.header_bytes = 0;
        let padded = usize::from(self.frame.is_padded());
        let padding = if padded == 1 { u32::from(self.prefix[0]) } else { 0 };
        if let Some([a, b, c, d]) = self.prefix[padded..].first_chunk::<4>() {
            self.frame.promised_id = u32::from_be_bytes([a & 0x7f, *b, *c, *d]);
        }
        let Some(content) = (length - prefix_bytes as u32).checked_sub(padding) else {
            return Some(Err(Flaw::Malformed));
        };
        (self.content_left, self.padding_left) = (content, padding);
        (self.is_open, self.is_first) = (true, true);
        Some(Ok(()))
    }
}

/// Takes up to `left` bytes off the front of `bytes`.
fn take<'a>(bytes: &mut &'a [u8], left: &mut u32) -> &'a [u8] {
    let (head, tail) = bytes.split_at(bytes.len().min(*left as usize));
    *bytes = tail;
    *left -= head.len() as u32;
    head
}

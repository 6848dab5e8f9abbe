//! HTTP: HTTP/1.0 and 1.1 (RFC 9112), and HTTP/2 (RFC 9113) in clear text.
//!
//! One [`HttpExchange`] a request with its response, whichever version, yielded once both are over. Bodies are
//! counted, not kept, but for their first bytes. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | is it HTTP? |
//! | `parser` | which HTTP is it? |
//! | `stream`, `chunked` | HTTP/1: one direction's bytes → heads, bodies, ends of messages |
//! | `http1`, `pairing` | HTTP/1: who is the client, how long bodies are, which response answers which request |
//! | `http2/` | HTTP/2: frames, header compression, streams |
//! | `head` | a message's start line and header lines |
//! | `exchange`, `fields`, `media` | what comes out, its names in filters, its media types |
//! | `files` | bodies as files |
//!
//! After 101 (Upgrade) and a CONNECT that succeeds the bytes are another protocol's; HTTP/2 behind `Upgrade: h2c`
//! comes back here.

mod chunked;
mod exchange;
mod fields;
mod files;
mod head;
mod http1;
mod http2;
mod media;
mod pairing;
mod parser;
mod probe;
mod stream;
mod tunnel;
mod uri;

pub(crate) use files::files;
pub(crate) use media::sniff;

pub use exchange::{BODY_START_BYTES_MAX, HttpExchange, HttpMessage};
pub use head::{HEAD_BYTES_MAX, HEAD_LINES_MAX, Head, Version};
pub use http1::LOST_BYTES_MAX;
pub use http2::{STREAMS_BYTES_MAX, STREAMS_MAX};
pub use pairing::{UNANSWERED_BYTES_MAX, UNANSWERED_MAX};
pub use parser::HttpParser;
pub use stream::Flaw;
pub use tunnel::TunnelWatch;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "http",
    service: "http",
    log: "http",
    transports: &["tcp"],
    hands_over: &["tls", "ssh", "http"],
    doc: "HTTP requests with their responses: HTTP/1.0 and 1.1 (RFC 9112), HTTP/2 in clear text (RFC 9113)",
    probe: probe::probe,
    may_begin,
    parser: || Box::new(HttpParser::default()),
    carrier: Some(|| Box::new(TunnelWatch::default())),
    fields: fields::FIELDS,
};

/// A method, `HTTP/`, line breaks before them, or the settings of HTTP/2.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 0 | b'\r' | b'\n' | b'A'..=b'Z')),
        _ => ByteSet::ALL,
    }
}

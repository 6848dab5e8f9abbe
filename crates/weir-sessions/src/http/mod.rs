//! HTTP: HTTP/1.0 and 1.1 (RFC 9112), and unencrypted HTTP/2 (RFC 9113).
//!
//! One [`HttpExchange`] per request and response, for all versions, yielded once both have ended. Bodies are
//! counted; only their first bytes are kept, and all are passed on if the run asks for contents
//! ([`crate::Contents`]). On demand, exchanges are yielded [early](crate::Session::is_early), too. Bottom up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `parser` | selection of the HTTP version |
//! | `stream`, `chunked` | HTTP/1: bytes of one direction → heads, bodies, ends of messages |
//! | `http1`, `open_exchanges` | HTTP/1: client, length of bodies, matching of responses and requests |
//! | `http2/` | HTTP/2: frames, header compression, streams |
//! | `head`, `start_line`, `line_ends` | start line and header lines of a message |
//! | `exchange`, `fields`, `media` | the session, its filter fields, its media types |
//! | `files` | bodies as files |
//! | `plain`, `view` | HTTP/1 with decoded bodies, for people |
//!
//! After 101 (Upgrade) or a successful CONNECT the connection is handed over to another protocol. After
//! `Upgrade: h2c` this parser goes on with HTTP/2, whose stream 1 answers the request that asked for it.

mod chunked;
mod exchange;
mod fields;
mod files;
mod head;
mod http1;
mod http2;
mod line_ends;
mod media;
mod open_exchanges;
mod parser;
mod plain;
mod probe;
mod start_line;
mod stream;
mod tunnel;
mod uri;
mod view;

pub(crate) use files::files;
pub(crate) use media::sniff;

pub use exchange::{BODY_START_BYTES_MAX, HttpExchange, HttpMessage, Reached};
pub use head::{HEAD_BYTES_MAX, HEAD_LINES_MAX, Head};
pub use http1::LOST_BYTES_MAX;
pub use http2::{STREAMS_BYTES_MAX, STREAMS_MAX};
pub use open_exchanges::{UNANSWERED_BYTES_MAX, UNANSWERED_MAX};
pub use parser::HttpParser;
pub use plain::PlainText;
pub use start_line::Version;
pub use stream::Flaw;
pub use tunnel::TunnelWatch;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "http",
    service: "http",
    log: "http",
    transports: &["tcp"],
    ports: &[80, 8000, 8008, 8080],
    hands_over: &["tls", "ssh", "http"],
    doc: "HTTP requests with their responses: HTTP/1.0 and 1.1 (RFC 9112), HTTP/2 in clear text (RFC 9113)",
    probe: probe::probe,
    may_begin,
    open: |context| Box::new(HttpParser::new(context)),
    carrier: Some(|_| Box::new(TunnelWatch::default())),
    settings: &[],
    brief: &["ts", "orig", "resp", "method", "status_code", "host", "uri", "response_body_len"],
    fields: fields::FIELDS,
};

/// A method, `HTTP/`, preceding line breaks, or a frame of HTTP/2.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 0 | b'\r' | b'\n' | b'A'..=b'Z')),
        _ => ByteSet::ALL,
    }
}

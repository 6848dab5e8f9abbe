//! SIP (RFC 3261) over UDP and TCP: one session per transaction, a request with its final response, all
//! messages in between, and the media that their bodies describe (SDP).
//!
//! | file | what it does |
//! |---|---|
//! | `message` | start lines and headers → one message |
//! | `parser` | bytes → messages → transactions; the probe |
//! | `transaction` | the output and its field names |

mod message;
mod parser;
mod transaction;

pub use message::{MEDIA_MAX, Media, Message, Start};
pub use parser::{LINE_BYTES_MAX, SipParser, WAITING_MAX};
pub use transaction::{MESSAGES_MAX, SipTransaction};

use crate::{Announcement, ByteSet, FirstPlace, SessionProtocol};
use std::net::SocketAddr;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "sip",
    service: "sip",
    log: "sip",
    transports: &["udp", "tcp"],
    ports: &[5060],
    hands_over: &[],
    doc: "SIP transactions: caller, callee and result (RFC 3261)",
    probe: parser::probe,
    may_begin,
    open: |_| Box::new(SipParser::default()),
    carrier: None,
    settings: &[],
    brief: &[
        "ts",
        "orig",
        "resp",
        "method",
        "uri",
        "request_from",
        "request_to",
        "status_code",
        "status_msg",
    ],
    fields: transaction::FIELDS,
};

/// The media that the messages of a call describe are streams of RTP, which name the call.
pub(crate) const ANNOUNCEMENT: Announcement = Announcement {
    by: "sip",
    ends: &["request_media", "response_media"],
    // A stream with port 0 is refused (RFC 3264 section 6).
    end: |media| media.split(' ').nth(1)?.parse().ok().filter(|end: &SocketAddr| end.port() != 0),
    name: "call_id",
    of: "rtp",
    column: "call_id",
};

/// The first byte of a method, of `SIP/` or of a line break.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        // A method or version of at least three letters, perhaps after line ends.
        0..=2 => ByteSet::of(|byte| matches!(byte, b'\r' | b'\n' | b'A'..=b'Z')),
        _ => ByteSet::ALL,
    }
}

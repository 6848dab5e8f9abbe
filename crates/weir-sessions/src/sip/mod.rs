//! SIP (RFC 3261) over UDP and TCP: one session a transaction, a request with its final answer.
//!
//! | file | what it does |
//! |---|---|
//! | `message` | start lines and headers → one message |
//! | `parser` | bytes → messages → transactions; the probe |
//! | `transaction` | what comes out, and its names in filters |

mod message;
mod parser;
mod transaction;

pub use message::{Message, Start};
pub use parser::{LINE_BYTES_MAX, SipParser, WAITING_MAX};
pub use transaction::SipTransaction;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "sip",
    service: "sip",
    log: "sip",
    transports: &["udp", "tcp"],
    hands_over: &[],
    doc: "SIP transactions: who calls whom, and how that went (RFC 3261)",
    probe: parser::probe,
    may_begin,
    parser: || Box::new(SipParser::default()),
    carrier: None,
    fields: transaction::FIELDS,
};

/// A method or `SIP/`, or line breaks.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, b'\r' | b'\n' | b'A'..=b'Z')),
        _ => ByteSet::ALL,
    }
}

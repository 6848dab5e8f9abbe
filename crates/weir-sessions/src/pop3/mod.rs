//! POP3 (RFC 1939), with CAPA (RFC 2449), STLS (RFC 2595) and AUTH (RFC 5034): one session per connection.
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `parser` | commands and replies, multi-line replies, STLS |
//! | `connection` | the output and its field names |

mod connection;
mod parser;
mod probe;

pub use connection::Pop3Connection;
pub use parser::{LINE_BYTES_MAX, Pop3Parser};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "pop3",
    service: "pop3",
    log: "pop3",
    transports: &["tcp"],
    ports: &[110],
    hands_over: &["tls"],
    doc: "POP3 connections: user, commands and their results (RFC 1939)",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(Pop3Parser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "user", "auth_mechanism", "logged_in", "fetched", "deleted"],
    fields: connection::FIELDS,
};

/// The first byte of a reply or of a command.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => {
            ByteSet::of(|byte| matches!(byte, b'+' | b'-') || b"UCSAQNL".contains(&byte.to_ascii_uppercase()))
        }
        _ => ByteSet::ALL,
    }
}

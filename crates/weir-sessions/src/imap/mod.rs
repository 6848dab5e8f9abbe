//! IMAP (RFC 9051, RFC 3501): one session per connection.
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `stream` | lines of one direction, and literals between them |
//! | `parser` | commands and their results, STARTTLS |
//! | `connection` | the session, and its filter fields |

mod connection;
mod parser;
mod probe;
mod stream;

pub use connection::ImapConnection;
pub use parser::ImapParser;
pub use stream::LINE_BYTES_MAX;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "imap",
    service: "imap",
    log: "imap",
    transports: &["tcp"],
    ports: &[143],
    hands_over: &["tls"],
    doc: "IMAP connections: user, commands and their results (RFC 9051)",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(ImapParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "user", "auth_mechanism", "logged_in", "mailboxes"],
    fields: connection::FIELDS,
};

/// The start of a greeting, or of a tag.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte.is_ascii_alphanumeric() || b"*.-_:".contains(&byte)),
        _ => ByteSet::ALL,
    }
}

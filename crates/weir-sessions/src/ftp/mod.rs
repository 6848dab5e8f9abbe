//! FTP (RFC 959), with its extensions for IPv6 (RFC 2428) and TLS (RFC 4217): one session per command and
//! reply.
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `parser` | commands and replies, their matching, AUTH |
//! | `exchange` | the session, and its filter fields |
//! | `address` | addresses of data connections in commands and replies |

mod address;
mod exchange;
mod parser;
mod probe;

pub use address::{DataChannel, Transport};
pub use exchange::{FtpExchange, PRELIMINARY_MAX};
pub use parser::{COMMANDS_MAX, FtpParser, LINE_BYTES_MAX};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "ftp",
    service: "ftp",
    log: "ftp",
    transports: &["tcp"],
    ports: &[21],
    hands_over: &["tls"],
    doc: "FTP commands with their replies (RFC 959)",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(FtpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "user", "command", "arg", "reply_code", "reply_msg"],
    fields: exchange::FIELDS,
};

/// A digit of a greeting's code, or the first letter of a command.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte.is_ascii_alphanumeric()),
        _ => ByteSet::ALL,
    }
}

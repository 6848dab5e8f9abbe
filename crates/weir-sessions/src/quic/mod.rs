//! QUIC handshakes: the Initial packets of versions 1 and 2 (RFC 9000, RFC 9369) and of drafts from 22 on.
//!
//! One [`QuicHandshake`] per flow, yielded once the hellos have been read. The keys of Initials can be
//! derived by any observer (RFC 9001 §5.2); nothing else is decrypted. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `version` | numbers, names, salts |
//! | `header` | a datagram → packets |
//! | `protection` | an Initial → its frames |
//! | `crypto` | frames → handshake messages, which `tls` reads |
//! | `parser` | drives the other files; decides which side is the client and when the handshake is over |
//! | `handshake` | the output and its field names |

mod crypto;
mod handshake;
mod header;
mod parser;
mod probe;
mod protection;
#[cfg(test)]
mod tests;
mod version;

pub use crypto::CRYPTO_BYTES_MAX;
pub(crate) use handshake::tls_handshake;
pub use handshake::{HISTORY_LETTERS_MAX, QuicHandshake};
pub use parser::{DATAGRAMS_MAX, QuicParser};
pub use version::name as version_name;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "quic",
    service: "quic",
    log: "quic",
    transports: &["udp"],
    ports: probe::PORTS,
    hands_over: &[],
    doc: "QUIC handshakes: the hellos in Initial packets (RFC 9000, RFC 9369)",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(QuicParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "server_name", "version", "client_protocol"],
    fields: handshake::FIELDS,
};

fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        // A long header, or a short one.
        0 if place.is_on_port => ByteSet::of(|byte| byte & 0xc0 != 0),
        _ if place.is_on_port => ByteSet::ALL,
        // A long header.
        0 => ByteSet::of(|byte| byte & 0x80 != 0),
        at @ 1..=4 => ByteSet::of(|byte| version::may_have(at - 1, byte)),
        _ => ByteSet::ALL,
    }
}

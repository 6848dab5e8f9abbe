//! Kerberos 5 (RFC 4120), in datagrams and over TCP: one [`KerberosExchange`] for what is asked of a key distribution centre,
//! with its answer.
//!
//! | file | what it does |
//! |---|---|
//! | `message` | what a message says in clear, and whether it is one |
//! | `parser` | which answer is for which request; the probe |
//! | `exchange` | what comes out, and its names in filters |
//! | `names` | ciphers and errors |
//!
//! Zeek leaves out the answer that the user must first prove who it is (KDC_ERR_PREAUTH_REQUIRED); here it is a row as others.

mod exchange;
mod message;
mod names;
mod parser;

pub use exchange::KerberosExchange;
pub use message::{Kind, Message};
pub use names::{cipher_name, error_name};
pub use parser::{KerberosParser, MESSAGE_BYTES_MAX, WAITING_MAX};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "kerberos",
    service: "krb",
    log: "kerberos",
    transports: &["udp", "tcp"],
    hands_over: &[],
    doc: "Kerberos: who asks for tickets to which services, and how that went (RFC 4120)",
    probe: parser::probe,
    may_begin,
    parser: || Box::new(KerberosParser::default()),
    carrier: None,
    fields: exchange::FIELDS,
};

/// The tag of a message, over TCP behind its length.
fn may_begin(place: FirstPlace) -> ByteSet {
    match (place.at, place.is_datagram) {
        (0, true) | (4, false) => ByteSet::of(message::is_tag),
        (0, false) => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

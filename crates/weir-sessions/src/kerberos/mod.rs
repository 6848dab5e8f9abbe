//! Kerberos 5 (RFC 4120) over UDP and TCP: one [`KerberosExchange`] per request to a key distribution centre
//! and its answer.
//!
//! | file | what it does |
//! |---|---|
//! | `message` | the unencrypted part of messages, and their validity |
//! | `parser` | matching of requests and answers; detection |
//! | `exchange` | the session, and its filter fields |
//! | `names` | names of ciphers and errors |
//!
//! Zeek omits exchanges whose answer only requires pre-authentication (KDC_ERR_PREAUTH_REQUIRED); they are
//! rows here.

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
    ports: &[88],
    hands_over: &[],
    doc: "Kerberos: requests for tickets, with their results (RFC 4120)",
    probe: parser::probe,
    may_begin,
    open: |_| Box::new(KerberosParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "request_type", "client", "service", "success", "error_msg"],
    fields: exchange::FIELDS,
};

/// A message tag, over TCP after the length prefix.
fn may_begin(place: FirstPlace) -> ByteSet {
    match (place.at, place.is_datagram) {
        (0, true) | (4, false) => ByteSet::of(message::is_tag),
        (0, false) => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

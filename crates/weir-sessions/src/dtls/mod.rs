//! DTLS: the handshakes of DTLS 1.0 to 1.3 (RFC 4347, RFC 6347, RFC 9147), which are those of TLS in
//! datagrams.
//!
//! One [`DtlsHandshake`] per flow, yielded once all of its unencrypted part has been read. `record` splits
//! datagrams into records, `parser` reassembles messages, which `tls` parses, and `handshake` has the session
//! and its filter fields.

mod handshake;
mod parser;
mod record;
#[cfg(test)]
mod tests;

pub use handshake::DtlsHandshake;
pub use parser::{DATAGRAMS_MAX, DtlsParser};

use crate::tls::message::{CLIENT_HELLO, SERVER_HELLO};
use crate::wire::Reader;
use crate::{ByteSet, FirstPlace, Opening, Probe, SessionProtocol};
use record::{Fragment, HANDSHAKE, Record};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "dtls",
    service: "ssl",
    log: "ssl",
    transports: &["udp"],
    ports: &[],
    hands_over: &["rtp"],
    doc: "DTLS handshakes: 1.0 to 1.3 (RFC 9147), the unencrypted part",
    probe,
    may_begin,
    open: |_| Box::new(DtlsParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "server_name", "version", "cipher", "established"],
    fields: handshake::FIELDS,
};

/// A handshake record of epoch 0 with a known version.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte == 22),
        1 => ByteSet::of(|byte| matches!(byte, 0xfe | 0x01)),
        2 => ByteSet::of(|byte| matches!(byte, 0xff | 0xfd | 0x00)),
        3 | 4 => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

/// Detects an unencrypted hello from either side, including HelloVerifyRequest (3).
fn probe(opening: &Opening<'_>) -> Probe {
    let is_hello = |mut datagram: &[u8]| {
        let record =
            Record::next(&mut datagram).filter(|record| (record.content, record.epoch) == (HANDSHAKE, 0));
        let fragment = record.and_then(|record| Fragment::next(&mut Reader::new(record.body)));
        fragment.is_some_and(|fragment| matches!(fragment.kind, CLIENT_HELLO | SERVER_HELLO | 3))
    };
    if opening.is_datagram && (is_hello(opening.originator) || is_hello(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

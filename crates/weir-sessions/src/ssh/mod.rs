//! SSH: banners and key exchange (RFC 4253), as far as they are unencrypted.
//!
//! One [`SshHandshake`] per connection, with HASSH of both sides and the fingerprint of the server's key.
//! `kex` parses offers, `parser` parses lines and packets, `handshake` has the output and its field names.

mod handshake;
mod kex;
mod parser;
#[cfg(test)]
mod tests;

pub use handshake::{MESSAGES_MAX, SshHandshake};
pub use kex::{KexInit, NAMES_MAX, hassh};
pub use parser::{PACKET_BYTES_MAX, SshParser};

use crate::{ByteSet, FirstPlace, Opening, Probe, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "ssh",
    service: "ssh",
    log: "ssh",
    transports: &["tcp"],
    ports: &[22],
    hands_over: &[],
    doc: "SSH: version banners, offered algorithms and host keys (RFC 4253)",
    probe,
    may_begin,
    open: |_| Box::new(SshParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "client", "server", "auth_success", "host_key_alg"],
    fields: handshake::FIELDS,
};

/// The beginning of a banner.
fn may_begin(place: FirstPlace) -> ByteSet {
    match b"SSH-".get(place.at) {
        Some(&letter) => ByteSet::of(|byte| byte == letter),
        None => ByteSet::ALL,
    }
}

/// Recognises the banner of either side. A server that sends other lines first is recognised by its client.
fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| {
        const BEGINNING: &[u8] = b"SSH-";
        match bytes.get(..BEGINNING.len()) {
            Some(BEGINNING) => match bytes.get(4..6) {
                Some([b'1' | b'2', b'.']) => Probe::Certain,
                Some(_) => Probe::NotForUs,
                None => Probe::Unsure,
            },
            Some(_) => Probe::NotForUs,
            None if BEGINNING.starts_with(bytes) => Probe::Unsure,
            None => Probe::NotForUs,
        }
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

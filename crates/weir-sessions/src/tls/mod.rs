//! TLS: the handshakes of TLS 1.0 to 1.3 (RFC 8446, RFC 5246), SSLv3 (RFC 6101) and SSLv2-style hellos.
//!
//! One [`TlsHandshake`] per connection, yielded once its unencrypted part has been read. Nothing is
//! decrypted, and no certificate is verified. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `record` | bytes → records |
//! | `message` | contents of records → handshake messages |
//! | `hello`, `certificate` | messages → their contents |
//! | `parser` | drives the other files; decides which side is the client and when the handshake is over |
//! | `handshake`, `fields` | the output and its field names |
//! | `fingerprint`, `names` | JA3, JA3S, JA4; Zeek's names of numbers |

mod certificate;
mod ciphers;
mod distinguished_name;
pub(crate) mod fields;
pub mod fingerprint;
mod handshake;
mod hello;
pub(crate) mod message;
pub mod names;
pub(crate) mod parser;
mod probe;
mod record;

pub use certificate::{CHAIN_CERTIFICATES_MAX, Certificate, CertificateChain};
pub use handshake::{HISTORY_LETTERS_MAX, Incomplete, TlsHandshake};
pub use hello::{ClientHello, ServerHello, is_tls13};
pub use parser::{PATIENCE_BYTES, TlsParser};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "tls",
    service: "ssl",
    log: "ssl",
    transports: &["tcp"],
    ports: &[443, 465, 636, 853, 993, 995, 8443],
    hands_over: &[],
    doc: "TLS handshakes: SSLv3 to TLS 1.3 (RFC 8446), the unencrypted part",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(TlsParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "server_name", "version", "cipher", "established"],
    fields: fields::FIELDS,
};

/// The first byte of a record, or of a hello in the format of SSLv2.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 20..=24 | 0x80..)),
        _ => ByteSet::ALL,
    }
}

//! TLS: the handshakes of TLS 1.0 to 1.3 (RFC 8446, RFC 5246), SSLv3 (RFC 6101) and SSLv2-style hellos.
//!
//! One [`TlsHandshake`] a connection, yielded once all that is visible in clear has been read. Nothing is
//! decrypted, no certificate is verified. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | is it TLS? |
//! | `record` | bytes → records |
//! | `message` | contents of records → handshake messages |
//! | `hello`, `certificate` | messages → what they say |
//! | `parser` | the order of it all, who is the client, when it is over |
//! | `handshake`, `fields` | what comes out, and its names in filters |
//! | `fingerprint`, `names` | JA3, JA3S, JA4; Zeek's names of the numbers |

mod certificate;
mod ciphers;
mod distinguished_name;
mod fields;
pub mod fingerprint;
mod handshake;
mod hello;
mod message;
pub mod names;
mod parser;
mod probe;
mod record;
mod wire;

pub use certificate::{CHAIN_CERTIFICATES_MAX, Certificate, CertificateChain};
pub use handshake::{HISTORY_LETTERS_MAX, Incomplete, TlsHandshake};
pub use hello::{ClientHello, ServerHello, is_tls13};
pub use parser::{PATIENCE_BYTES, TlsParser};

use crate::{Data, Direction, Opening, Progress, Session, SessionParser, SessionProtocol};
use weir_packet::Timestamp;

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "tls",
    service: "ssl",
    log: "ssl",
    transports: &["tcp"],
    doc: "TLS handshakes: SSLv3 to TLS 1.3 (RFC 8446), as far as they are in clear",
    probe: probe::probe,
    parser: || Box::new(TlsParser::default()),
    fields: fields::FIELDS,
};

/// For fuzzers: takes `bytes` as commands of one byte (which side, how much, or a gap) with the bytes they
/// send, and reads every field of whatever comes out.
#[doc(hidden)]
pub fn fuzz_tls(bytes: &[u8]) {
    let mut parser = TlsParser::default();
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    let mut rest = bytes;
    while let Some((command, tail)) = rest.split_first() {
        let from = if command & 1 == 0 { Direction::Originator } else { Direction::Responder };
        let length = usize::from(command >> 2).min(tail.len());
        let (piece, tail) = tail.split_at(length);
        rest = tail;
        let progress = if command & 2 == 0 {
            parser.parse(&Data { from, time: Timestamp(0), bytes: piece, is_datagram: false }, &mut sessions)
        } else {
            parser.gap(from, length as u64, &mut sessions)
        };
        assert!(parser.held_bytes() < 1 << 20, "memory is bounded");
        if progress == Progress::Done {
            break;
        }
    }
    let _ = probe::probe(&Opening {
        originator: bytes,
        responder: &bytes[bytes.len() / 2..],
        ..Opening::default()
    });
    parser.finish(&mut sessions);
    assert!(sessions.len() <= 1, "one handshake a connection");
    for session in &sessions {
        for index in 0..PROTOCOL.fields.len() {
            let _ = session.value(index);
        }
    }
}

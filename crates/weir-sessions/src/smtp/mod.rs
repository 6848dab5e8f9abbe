//! SMTP (RFC 5321), and LMTP (RFC 2033): mails with their envelopes.
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `parser` | commands and replies, mail boundaries, STARTTLS |
//! | `mail` | header fields of a mail |
//! | `parts` | the MIME parts of a body, as files |
//! | `transaction` | the output and its field names |

mod mail;
mod parser;
mod parts;
pub(crate) mod probe;
mod transaction;

pub use mail::{ADDRESSES_MAX, FIELD_BYTES_MAX, HEADER_BYTES_MAX, MailHeader};
pub use parser::{LINE_BYTES_MAX, SmtpParser};
pub use parts::{FILES_MAX, MailFile};
pub use transaction::SmtpTransaction;
pub(crate) use transaction::files;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "smtp",
    service: "smtp",
    log: "smtp",
    transports: &["tcp"],
    ports: &[25, 587, 2525],
    hands_over: &["tls"],
    doc: "Mails with their envelopes: SMTP (RFC 5321), LMTP (RFC 2033)",
    probe: probe::probe,
    may_begin,
    open: |context| Box::new(SmtpParser::new(context.contents())),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "mailfrom", "rcptto", "subject", "last_reply"],
    fields: transaction::FIELDS,
};

/// The first byte of a greeting's code or of a command.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| {
            matches!(byte, b'2' | b'4' | b'5') || b"EHLMRSNQ".contains(&byte.to_ascii_uppercase())
        }),
        _ => ByteSet::ALL,
    }
}

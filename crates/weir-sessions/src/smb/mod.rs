//! SMB 2 and 3 (MS-SMB2), directly over TCP or in NetBIOS sessions (RFC 1002 §4.3).
//!
//! One [`SmbAction`] for each action of a client: a dialect negotiated, a user logged in, a share connected,
//! a file kept open, from CREATE to CLOSE, with the operations on it. Its columns combine Zeek's
//! smb_files.log, smb_mapping.log and ntlm.log; reads and writes of a file are summed up, not listed. Zeek's
//! own logs of files and shares are made of the same actions. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `header` | bytes → messages and their headers; finds the next message after a gap |
//! | `body` | bodies of requests and responses |
//! | `ntlm` | names in NTLM logins (MS-NLMP) |
//! | `status` | names of Windows status codes |
//! | `tables` | pending requests; logged-in users, connected shares, open files |
//! | `parser` | drives the other files |
//! | `action` | the output and its field names |
//! | `file_actions` | the output as rows of smb_files.log |
//! | `mapping` | the output as rows of smb_mapping.log |
//!
//! File contents are skipped by their length, unless somebody asks for them ([`crate::Contents`]). Encrypted
//! and compressed messages are counted; a row at the end of the connection reports their number. Of SMB 1
//! only the dialect is read; if it is SMB 2, parsing continues.

mod action;
mod body;
pub(crate) mod file_actions;
mod header;
pub(crate) mod mapping;
mod ntlm;
mod parser;
mod probe;
mod status;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use action::files;
pub use action::{ShareType, SmbAction, SmbCommand, SmbFile, SmbLogin, SmbShare};
pub use file_actions::SmbFileAction;
pub use mapping::SmbMapping;
pub use parser::{MESSAGE_BYTES_MAX, SEEK_BYTES_MAX, SmbParser};
pub use tables::{FILES_MAX, LOGINS_MAX, SHARES_MAX, WAITING_MAX};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "smb",
    service: "smb",
    log: "smb",
    transports: &["tcp"],
    ports: &[445],
    hands_over: &[],
    doc: "SMB 2 and 3: logins, shares, files, and operations on files (MS-SMB2)",
    probe: probe::probe,
    may_begin,
    open: |context| Box::new(SmbParser::new(context.contents())),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "action", "path", "name", "size", "username", "status"],
    fields: action::FIELDS,
};

/// The first byte of a message, or of a NetBIOS session message.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 0 | 0x81..=0x84)),
        _ => ByteSet::ALL,
    }
}

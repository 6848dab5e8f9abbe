//! SMB 2 and 3 (MS-SMB2), over TCP as it is or in NetBIOS sessions (RFC 1002 §4.3).
//!
//! One [`SmbAction`] for what a client has done: a dialect negotiated, a user logged in, a share connected, a file
//! held open, from CREATE to CLOSE, with what was done to it. So its columns are those of Zeek's smb_files.log, smb_mapping.log
//! and ntlm.log together; a file's reads and writes are summed up, not listed. From the bytes up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | is it SMB? |
//! | `header` | bytes → messages, and what their headers say; where the next one begins after a gap |
//! | `body` | what requests and responses say |
//! | `ntlm` | who logs in, by NTLM (MS-NLMP) |
//! | `status` | names of the codes of Windows |
//! | `tables` | what is waiting for an answer; users, shares and files that are open |
//! | `parser` | the order of it all |
//! | `action` | what comes out, and its names in filters |
//!
//! What is read and written is skipped by counting. What is encrypted or compressed is counted, message by message, and a
//! row at the end of the connection says how much it was. Of SMB 1 the dialect is told, and SMB 2 followed where that is it.

mod action;
mod body;
mod header;
mod ntlm;
mod parser;
mod probe;
mod status;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use action::files;
pub use action::{ShareType, SmbAction, SmbCommand, SmbFile, SmbLogin, SmbShare};
pub use parser::{MESSAGE_BYTES_MAX, SEEK_BYTES_MAX, SmbParser};
pub use tables::{FILES_MAX, LOGINS_MAX, SHARES_MAX, WAITING_MAX};

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "smb",
    service: "smb",
    log: "smb",
    transports: &["tcp"],
    hands_over: &[],
    doc: "SMB 2 and 3: who logs in, which shares and files are opened, and what is done to them (MS-SMB2)",
    probe: probe::probe,
    may_begin,
    parser: || Box::new(SmbParser::default()),
    carrier: None,
    fields: action::FIELDS,
};

/// A message, or a message of a NetBIOS session.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 0 | 0x81..=0x84)),
        _ => ByteSet::ALL,
    }
}

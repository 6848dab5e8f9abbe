//! The logs of parts that sessions of several protocols have.

use crate::files::File;
use crate::pe::Executable;
use crate::{PartLog, Session, SessionType, http, pe, smb, smtp};

/// `files`.
pub const FILES: PartLog = PartLog {
    name: "files",
    doc: "Files in sessions: bodies of HTTP, parts of mails, files of SMB",
    head: &["ts", "fuid", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    known_by: "",
    of: &[("http", http::files), ("smtp", smtp::files), ("smb", smb::files)],
    brief: &["ts", "orig", "resp", "source", "mime_type", "filename", "seen_bytes", "sha256"],
    fields: File::FIELDS,
};

/// `pe`.
pub const EXECUTABLES: PartLog = PartLog {
    name: "pe",
    doc: "Executables of Windows (PE) among files in sessions",
    head: &["ts", "id"],
    known_by: "",
    of: &[("http", of_http), ("smtp", of_smtp), ("smb", of_smb)],
    brief: &["ts", "id", "machine", "compile_ts", "subsystem", "is_exe", "is_64bit", "section_names"],
    fields: Executable::FIELDS,
};

fn of_http(session: &dyn Session) -> Vec<Box<dyn Session>> {
    pe::among(&http::files(session))
}

fn of_smtp(session: &dyn Session) -> Vec<Box<dyn Session>> {
    pe::among(&smtp::files(session))
}

fn of_smb(session: &dyn Session) -> Vec<Box<dyn Session>> {
    pe::among(&smb::files(session))
}

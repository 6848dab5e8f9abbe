//! Operations on files, as in Zeek's `smb_files.log`: one row for each kind of operation on a file while it
//! was open. Listing a directory and calling a pipe (IOCTL) are no actions of that log.

use super::action::{SmbAction, SmbFile, file_number};
use super::{ShareType, SmbShare};
use crate::session::{Words, session_fields};
use crate::values::{text, unsigned};
use crate::{PartLog, Session};
use std::any::Any;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// The log, for the registry.
pub(crate) const LOG: PartLog = PartLog {
    name: "smb_files",
    doc: "Operations on files of SMB 2 and 3: opened, read, renamed, deleted",
    head: &["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    known_by: "",
    of: &[("smb", of_smb)],
    brief: &["ts", "orig", "resp", "action", "path", "name", "size", "prev_name"],
    fields: FIELDS,
};

/// Zeek's names of the operations in [`SmbFile::actions`], by type of the share: disk, pipe, printer.
const NAMES: &[(&str, [&str; 3])] = &[
    ("open", ["SMB::FILE_OPEN", "SMB::PIPE_OPEN", "SMB::PRINT_OPEN"]),
    ("create", ["SMB::FILE_OPEN", "SMB::PIPE_OPEN", "SMB::PRINT_OPEN"]),
    ("read", ["SMB::FILE_READ", "SMB::PIPE_READ", "SMB::PRINT_READ"]),
    ("write", ["SMB::FILE_WRITE", "SMB::PIPE_WRITE", "SMB::PRINT_WRITE"]),
    ("set_attribute", ["SMB::FILE_SET_ATTRIBUTE"; 3]),
    ("rename", ["SMB::FILE_RENAME"; 3]),
    ("delete", ["SMB::FILE_DELETE"; 3]),
    ("close", ["SMB::FILE_CLOSE", "SMB::PIPE_CLOSE", "SMB::PRINT_CLOSE"]),
];

/// The possible values of the column `action`.
const ACTIONS: Words = Words {
    list: || {
        let mut names: Vec<&str> = NAMES.iter().flat_map(|(_, names)| *names).collect();
        names.sort_unstable();
        names.dedup();
        names
    },
    others: &[],
};

/// The name of an open share itself, as in Zeek's log.
const SHARE_ROOT: &str = "<share_root>";

/// An operation on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbFileAction {
    /// Capture time of the request that opened the file; Zeek's time, too.
    pub time: Timestamp,
    /// The operation, with Zeek's name: `SMB::FILE_OPEN`.
    pub action: &'static str,
    /// Whether the file already had its last name.
    pub is_renamed: bool,
    /// Number of the transferred data in `files.log`; `None` if no data were transferred.
    pub number: Option<u64>,
    /// The share.
    pub share: Option<Arc<SmbShare>>,
    /// The file, as it was at its end.
    pub file: Arc<SmbFile>,
}

impl SmbFileAction {
    /// The name of the file at the time of the operation.
    fn name(&self) -> Option<&str> {
        let before = self.file.previous_name.as_deref().filter(|_| !self.is_renamed);
        let name = before.or(self.file.name.as_deref())?;
        Some(if name.is_empty() { SHARE_ROOT } else { name })
    }
}

fn time(time: Option<Timestamp>) -> Value<'static> {
    time.map_or(Value::Absent, Value::Time)
}

session_fields! { SmbFileAction;
    "smb_files.fuid" [] fuid: Unsigned, "Number of the transferred data in its connection; in rows the identifier in files.log" => |a| unsigned(a.number);
    "smb_files.action" [] action: Text in ACTIONS, "The operation: SMB::FILE_OPEN, SMB::FILE_READ; PIPE and PRINT for other shares" => |a| text(Some(a.action));
    "smb_files.path" [] path: Text, "Share: \\\\server\\share" => |a| text(a.share.as_ref().and_then(|share| share.path.as_deref()));
    "smb_files.name" [] name: Text, "Name within the share at the time of the operation; <share_root> for the share itself" => |a| text(a.name());
    "smb_files.size" [] size: Unsigned, "Size of the file when it was closed, or as last known, bytes" => |a| unsigned(a.file.size_bytes);
    "smb_files.prev_name" [] prev_name: Text, "Name before the file was renamed" => |a| text(a.file.previous_name.as_deref().filter(|_| a.is_renamed));
    "smb_files.times.modified" [] "times.modified": Time, "Time of the last write, as the server stated it at the opening" => |a| time(a.file.times.modified);
    "smb_files.times.accessed" [] "times.accessed": Time, "Time of the last read, as stated at the opening" => |a| time(a.file.times.accessed);
    "smb_files.times.created" [] "times.created": Time, "Time of creation, as stated at the opening" => |a| time(a.file.times.created);
    "smb_files.times.changed" [] "times.changed": Time, "Time of the last change of data or metadata, as stated at the opening" => |a| time(a.file.times.changed);
}

impl Session for SmbFileAction {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The operations on the file of a session, in the order of [`SmbFile::actions`].
fn of_smb(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let Some(row) = session.as_any().downcast_ref::<SmbAction>() else { return vec![] };
    let Some(file) = &row.file else { return vec![] };
    let shared = Arc::new((**file).clone());
    let place = match row.share.as_ref().and_then(|share| share.share_type) {
        Some(ShareType::Pipe) => 1,
        Some(ShareType::Print) => 2,
        Some(ShareType::Disk) | None => 0,
    };
    let moved = [file.read.1 > 0, file.written.1 > 0];
    let number =
        |is_written: bool| moved[usize::from(is_written)].then(|| file_number(row, file, is_written));
    let of = |action: &str| -> Option<Box<dyn Session>> {
        let (_, names) = NAMES.iter().find(|(name, _)| *name == action)?;
        Some(Box::new(SmbFileAction {
            time: row.time,
            action: names[place],
            is_renamed: file.previous_name.is_some() && matches!(action, "rename" | "delete" | "close"),
            number: match action {
                "read" => number(false),
                "write" => number(true),
                _ => number(false).or_else(|| number(true)),
            },
            share: row.share.clone(),
            file: Arc::clone(&shared),
        }))
    };
    file.actions().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::SmbCommand;
    use super::*;

    /// The columns of each row.
    fn told(row: &SmbAction, columns: &[&str]) -> Vec<String> {
        let tell = |part: &dyn Session| {
            let at = |column: &str| FIELDS.iter().position(|field| field.column == column);
            let values = columns.iter().map(|column| match part.value(at(column).expect("a column")) {
                Value::Text(text) => text.to_string(),
                Value::Unsigned(number) => number.to_string(),
                Value::Time(time) => time.0.to_string(),
                _ => "-".to_string(),
            });
            values.collect::<Vec<_>>().join(" ")
        };
        of_smb(row).iter().map(|part| tell(&**part)).collect()
    }

    fn opened(share_type: ShareType) -> SmbAction {
        let mut row = SmbAction::new(Timestamp(5), SmbCommand::Create);
        let path = Some(r"\\files\docs".to_string());
        row.share = Some(Arc::new(SmbShare { path, share_type: Some(share_type) }));
        let name = Some("a.txt".to_string());
        row.file = Some(Box::new(SmbFile { name, is_open: true, size_bytes: Some(9), ..SmbFile::default() }));
        row
    }

    #[test]
    fn each_operation_on_a_file_has_a_row_with_the_name_of_its_time() {
        let mut row = opened(ShareType::Disk);
        let file = row.file.as_mut().expect("it was put there");
        file.previous_name = file.name.replace("b.txt".to_string());
        (file.read, file.is_set, file.is_listed, file.is_called) = ((1, 9), true, true, true);
        (file.is_deleted, file.is_closed, file.times.modified) = (true, true, Some(Timestamp(3)));
        let columns = ["action", "path", "name", "size", "prev_name", "times.modified", "times.changed"];
        assert_eq!(
            told(&row, &columns),
            [
                r"SMB::FILE_OPEN \\files\docs a.txt 9 - 3 -",
                r"SMB::FILE_READ \\files\docs a.txt 9 - 3 -",
                r"SMB::FILE_SET_ATTRIBUTE \\files\docs a.txt 9 - 3 -",
                r"SMB::FILE_RENAME \\files\docs b.txt 9 a.txt 3 -",
                r"SMB::FILE_DELETE \\files\docs b.txt 9 a.txt 3 -",
                r"SMB::FILE_CLOSE \\files\docs b.txt 9 a.txt 3 -",
            ]
        );
        assert!(of_smb(&row).iter().all(|part| part.time() == Some(Timestamp(5))));
    }

    #[test]
    fn rows_refer_to_the_data_in_the_log_of_files() {
        let mut row = opened(ShareType::Disk);
        let numbers = |row: &SmbAction| told(row, &["fuid"]);
        assert_eq!(numbers(&row), ["-"], "nothing was transferred");
        let file = row.file.as_mut().expect("it was put there");
        file.written = (1, 4);
        let files = super::super::files(&row);
        let number = |at: usize| match files[at].value(crate::part_logs::FILES.fields.len() - 1) {
            Value::Unsigned(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(numbers(&row), [number(0), number(0)]);
        row.file.as_mut().expect("it was put there").read = (1, 9);
        let [read, written] = [false, true]
            .map(|is_written| file_number(&row, row.file.as_ref().expect("a file"), is_written).to_string());
        assert_eq!(numbers(&row), [read.clone(), read, written]);
    }

    #[test]
    fn pipes_and_printers_have_actions_of_their_own() {
        for (share_type, expected) in [
            (ShareType::Pipe, ["SMB::PIPE_OPEN", "SMB::PIPE_WRITE", "SMB::PIPE_CLOSE"]),
            (ShareType::Print, ["SMB::PRINT_OPEN", "SMB::PRINT_WRITE", "SMB::PRINT_CLOSE"]),
        ] {
            let mut row = opened(share_type);
            let file = row.file.as_mut().expect("it was put there");
            (file.written, file.is_closed) = ((1, 4), true);
            assert_eq!(told(&row, &["action"]), expected);
        }
    }

    #[test]
    fn of_what_was_not_opened_there_is_no_row_and_the_root_has_a_name() {
        let mut row = opened(ShareType::Disk);
        row.file.as_mut().expect("it was put there").name = Some(String::new());
        assert_eq!(told(&row, &["name"]), [SHARE_ROOT]);
        row.file.as_mut().expect("it was put there").is_open = false;
        assert_eq!(told(&row, &["name"]), [""; 0]);
        row.file = None;
        assert!(of_smb(&row).is_empty());
    }

    #[test]
    fn every_operation_of_the_log_is_one_of_a_file() {
        let file = SmbFile {
            previous_name: Some(String::new()),
            read: (1, 1),
            written: (1, 1),
            is_set: true,
            is_deleted: true,
            is_closed: true,
            is_open: true,
            ..SmbFile::default()
        };
        let new = SmbFile { is_new: true, ..file.clone() };
        for (name, zeek) in NAMES {
            assert!(file.actions().chain(new.actions()).any(|action| action == *name), "{name}");
            assert!(zeek.iter().all(|zeek| ACTIONS.may_be(zeek)), "{name}");
        }
    }
}

//! [`SmbAction`], and its fields.

use super::status;
use crate::files::{File, SHARED_NUMBER};
use crate::pe::PeHead;
use crate::session::{Words, session_fields};
use crate::values::{name, owned_texts, text, unsigned};
use crate::{Content, Session};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// A login and its user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SmbLogin {
    /// Mechanism: `ntlm`, `kerberos`.
    pub mechanism: Option<&'static str>,
    /// The user name, from NTLM; Kerberos encrypts it.
    pub user: Option<String>,
    /// The user's domain.
    pub domain: Option<String>,
    /// Name of the client's host.
    pub host: Option<String>,
    /// NetBIOS name of the server.
    pub server_netbios_name: Option<String>,
    /// DNS name of the server.
    pub server_dns_name: Option<String>,
    /// DNS forest of the server.
    pub server_tree_name: Option<String>,
    /// Whether the login is a guest or anonymous login.
    pub is_guest: bool,
}

/// A connected share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SmbShare {
    /// `\\server\share`.
    pub path: Option<String>,
    /// Type of the share.
    pub share_type: Option<ShareType>,
}

/// Type of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareType {
    /// Files.
    Disk,
    /// Named pipes.
    Pipe,
    /// A printer.
    Print,
}

impl ShareType {
    /// Zeek's name: `DISK`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "DISK",
            Self::Pipe => "PIPE",
            Self::Print => "PRINT",
        }
    }
}

/// Timestamps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmbTimes {
    /// Creation.
    pub created: Option<Timestamp>,
    /// Last read access.
    pub accessed: Option<Timestamp>,
    /// Last write.
    pub modified: Option<Timestamp>,
    /// Last change of data or metadata.
    pub changed: Option<Timestamp>,
}

/// A file that was opened, and the operations on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SmbFile {
    /// Name within the share; the new name if the file was renamed.
    pub name: Option<String>,
    /// Name before the first rename.
    pub previous_name: Option<String>,
    /// Size, bytes: as reported by CLOSE, otherwise by CREATE, extended by later writes.
    pub size_bytes: Option<u64>,
    /// Timestamps when the file was opened.
    pub times: SmbTimes,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether CREATE succeeded.
    pub is_open: bool,
    /// Whether CREATE created the file.
    pub is_new: bool,
    /// Whether a directory was listed.
    pub is_listed: bool,
    /// Number of successful reads, and bytes read.
    pub read: (u64, u64),
    /// Number of writes, and bytes written.
    pub written: (u64, u64),
    /// Whether an attribute was set: times, size.
    pub is_set: bool,
    /// Whether there were IOCTLs: calls to named pipes, copies within the server.
    pub is_called: bool,
    /// Whether the file was deleted.
    pub is_deleted: bool,
    /// Whether the file was closed.
    pub is_closed: bool,
    /// The bytes that were read, and those that were written, if somebody asks for contents.
    pub contents: [Option<Content>; 2],
    /// The heads of an executable of Windows in the bytes that were read, and in those that were written.
    pub executables: [Option<Box<PeHead>>; 2],
}

impl SmbFile {
    /// The operations on the file: `open`, `read`, `rename`, in a fixed order.
    pub fn actions(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.is_open && !self.is_new, "open"),
            (self.is_new, "create"),
            (self.is_listed, "list"),
            (self.read.0 > 0, "read"),
            (self.written.0 > 0, "write"),
            (self.is_called, "ioctl"),
            (self.is_set, "set_attribute"),
            (self.previous_name.is_some(), "rename"),
            (self.is_deleted, "delete"),
            (self.is_closed, "close"),
        ]
        .into_iter()
        .filter_map(|(is_done, name)| is_done.then_some(name))
    }
}

/// Command that a row reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmbCommand {
    /// Negotiation of a dialect.
    Negotiate,
    /// A login, successful or not.
    SessionSetup,
    /// Connection of a share, successful or not.
    TreeConnect,
    /// Opening of a file, successful or not.
    Create,
    /// Encrypted messages.
    Encrypted,
    /// Compressed messages.
    Compressed,
}

impl SmbCommand {
    /// Zeek's name: `TREE_CONNECT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Negotiate => "NEGOTIATE",
            Self::SessionSetup => "SESSION_SETUP",
            Self::TreeConnect => "TREE_CONNECT",
            Self::Create => "CREATE",
            Self::Encrypted => "ENCRYPTED",
            Self::Compressed => "COMPRESSED",
        }
    }
}

/// An action of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbAction {
    /// Capture time of the request.
    pub time: Timestamp,
    /// Command.
    pub command: SmbCommand,
    /// The dialect, if it was seen: `3.1.1`; for SMB 1 the dialect's own name.
    pub dialect: Option<Arc<str>>,
    /// The login it belongs to.
    pub login: Option<Arc<SmbLogin>>,
    /// The share it concerns.
    pub share: Option<Arc<SmbShare>>,
    /// The file it concerns.
    pub file: Option<Box<SmbFile>>,
    /// Status of the response: 0 is success; `None` if the response was not seen.
    pub status: Option<u32>,
    /// Time from request to response, nanoseconds.
    pub rtt_ns: Option<u64>,
    /// Number of messages, for rows about encrypted or compressed ones.
    pub messages: u64,
}

impl SmbAction {
    pub(super) fn new(time: Timestamp, command: SmbCommand) -> Self {
        Self {
            time,
            command,
            dialect: None,
            login: None,
            share: None,
            file: None,
            status: None,
            rtt_ns: None,
            messages: 0,
        }
    }

    fn login<'a>(&'a self, read: fn(&'a SmbLogin) -> Option<&'a String>) -> Value<'a> {
        text(self.login.as_deref().and_then(read).map(String::as_str))
    }

    fn file<'a>(&'a self, read: fn(&'a SmbFile) -> Value<'a>) -> Value<'a> {
        self.file.as_deref().map_or(Value::Absent, read)
    }

    /// Allocated bytes without login and share, which [`Tables`](super::tables::Tables) counts.
    pub(super) fn held_bytes(&self) -> usize {
        let file = self.file.as_deref().map_or(0, |file| {
            let names = [&file.name, &file.previous_name].into_iter().flatten();
            let contents = file.contents.iter().flatten().map(Content::held_bytes);
            let heads = file.executables.iter().flatten().map(|head| head.held_bytes());
            let named_bytes = size_of::<SmbFile>() + names.map(String::capacity).sum::<usize>();
            named_bytes + contents.sum::<usize>() + heads.sum::<usize>()
        });
        size_of::<Self>() + file
    }
}

impl SmbFile {
    /// Ends the contents. What was read is complete if it is as long as the file.
    pub(super) fn end_contents(&self) {
        for (content, is_written) in self.contents.iter().zip([false, true]) {
            if let Some(content) = content {
                let is_all = is_written || self.size_bytes == Some(content.facts().size_bytes);
                content.end(is_all);
            }
        }
    }
}

impl SmbLogin {
    pub(super) fn held_bytes(&self) -> usize {
        let texts = [
            &self.user,
            &self.domain,
            &self.host,
            &self.server_netbios_name,
            &self.server_dns_name,
            &self.server_tree_name,
        ];
        size_of::<Self>() + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
    }
}

impl SmbShare {
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.path.as_ref().map_or(0, String::capacity)
    }
}

impl Session for SmbAction {
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

fn share_type(action: &SmbAction) -> Option<&'static str> {
    action.share.as_ref()?.share_type.map(ShareType::name)
}

fn actions(file: &SmbFile) -> Value<'static> {
    owned_texts(file.actions().map(str::to_owned).collect())
}

fn time(time: Option<Timestamp>) -> Value<'static> {
    time.map_or(Value::Absent, Value::Time)
}

/// Names of commands.
const COMMANDS: Words = Words {
    list: || {
        use SmbCommand::{Compressed, Create, Encrypted, Negotiate, SessionSetup, TreeConnect};
        let all = [Negotiate, SessionSetup, TreeConnect, Create, Encrypted, Compressed];
        all.map(SmbCommand::name).into()
    },
    others: &[],
};

/// Names of operations on a file.
const ACTIONS: Words = Words {
    list: || {
        let names = "open create list read write ioctl set_attribute rename delete close";
        names.split(' ').collect()
    },
    others: &[],
};

/// Names of share types.
pub(super) const SHARE_TYPES: Words = Words {
    list: || [ShareType::Disk, ShareType::Pipe, ShareType::Print].map(ShareType::name).into(),
    others: &[],
};

session_fields! { SmbAction;
    "smb2.cmd" ["smb.command", "smb.cmd"] command: Text in COMMANDS, "Action of the row: NEGOTIATE, SESSION_SETUP, TREE_CONNECT, CREATE (a file from open to close), ENCRYPTED" => |s| text(Some(s.command.name()));
    "smb.action" ["smb.actions"] action: Texts in ACTIONS, "Operations on a file: open, create, list, read, write, ioctl, set_attribute, rename, delete, close" => |s| s.file(actions);
    "smb2.tree" ["smb.path", "smb.share"] path: Text, "Share: \\\\server\\share" => |s| text(s.share.as_ref().and_then(|share| share.path.as_deref()));
    "smb2.share_type" ["smb.share_type"] share_type: Text in SHARE_TYPES, "Type of the share: DISK, PIPE, PRINT" => |s| text(share_type(s));
    "smb2.filename" ["smb.name", "smb.filename"] name: Text, "Name of a file within its share" => |s| s.file(|file| text(file.name.as_deref()));
    "smb2.end_of_file" ["smb.size"] size: Unsigned, "Size of the file, bytes" => |s| s.file(|file| unsigned(file.size_bytes));
    "smb.prev_name" [] prev_name: Text, "Name of the file before it was renamed" => |s| s.file(|file| text(file.previous_name.as_deref()));
    "smb.read_bytes" ["smb.bytes_read"] bytes_read: Unsigned, "Bytes read from the file" => |s| s.file(|file| Value::Unsigned(file.read.1));
    "smb.written_bytes" ["smb.bytes_written"] bytes_written: Unsigned, "Bytes written to the file" => |s| s.file(|file| Value::Unsigned(file.written.1));
    "smb2.acct" ["smb.username", "ntlmssp.auth.username"] username: Text, "User name of the login, from NTLM" => |s| s.login(|login| login.user.as_ref());
    "smb2.domain" ["smb.domain", "ntlmssp.auth.domain"] domainname: Text, "Domain of the user" => |s| s.login(|login| login.domain.as_ref());
    "smb2.host" ["smb.host", "ntlmssp.auth.hostname"] hostname: Text, "Host name of the client" => |s| s.login(|login| login.host.as_ref());
    "ntlmssp.challenge.target_info.nb_computer_name" ["smb.server_nb_name"] server_nb_computer_name: Text, "NetBIOS name of the server" => |s| s.login(|login| login.server_netbios_name.as_ref());
    "ntlmssp.challenge.target_info.dns_computer_name" ["smb.server_dns_name"] server_dns_computer_name: Text, "DNS name of the server" => |s| s.login(|login| login.server_dns_name.as_ref());
    "ntlmssp.challenge.target_info.dns_tree_name" ["smb.server_tree_name"] server_tree_name: Text, "DNS forest of the server" => |s| s.login(|login| login.server_tree_name.as_ref());
    "smb2.dialect" ["smb.version", "smb.dialect"] version: Text, "Dialect: 2.1, 3.1.1; for SMB 1 its name: NT LM 0.12" => |s| text(s.dialect.as_deref());
    "smb2.nt_status" ["smb.status"] status: Text in status::WORDS, "Status of the response: SUCCESS, ACCESS_DENIED" => |s| name(s.status.map(status::name));
    "smb.success" [] success: Bool, "Whether the action succeeded" => |s| s.succeeded().map_or(Value::Absent, Value::Bool);
    "smb2.time" ["smb.rtt"] rtt: Interval, "Time from the request to its answer" => |s| s.rtt_ns.map_or(Value::Absent, Value::Interval);
    // Not in the log.
    "smb.auth" [] _: Text, "Authentication mechanism: ntlm, kerberos" => |s| text(s.login.as_ref().and_then(|login| login.mechanism));
    "smb.guest" [] _: Bool, "Whether the login is a guest or anonymous login" => |s| s.login.as_ref().map_or(Value::Absent, |login| Value::Bool(login.is_guest));
    "smb.directory" [] _: Bool, "Whether the file is a directory" => |s| s.file(|file| if file.is_open { Value::Bool(file.is_directory) } else { Value::Absent });
    "smb2.create.time" ["smb.times.created"] _: Time, "Time at which the file was created" => |s| s.file(|file| time(file.times.created));
    "smb2.last_access.time" ["smb.times.accessed"] _: Time, "Time of the last read access to the file" => |s| s.file(|file| time(file.times.accessed));
    "smb2.last_write.time" ["smb.times.modified"] _: Time, "Time of the last write to the file" => |s| s.file(|file| time(file.times.modified));
    "smb2.last_change.time" ["smb.times.changed"] _: Time, "Time of the last change of the file's data or metadata" => |s| s.file(|file| time(file.times.changed));
    "smb.reads" [] _: Unsigned, "Number of successful reads" => |s| s.file(|file| Value::Unsigned(file.read.0));
    "smb.writes" [] _: Unsigned, "Number of writes" => |s| s.file(|file| Value::Unsigned(file.written.0));
    "smb.messages" [] messages: Unsigned, "Number of encrypted or compressed messages" => |s| if s.messages > 0 { Value::Unsigned(s.messages) } else { Value::Absent };
}

impl SmbAction {
    /// Whether the action succeeded; a warning counts as success. `None` without a response.
    pub fn succeeded(&self) -> Option<bool> {
        self.status.map(|status| status >> 30 != 3)
    }

    /// Name of the status.
    pub fn status_name(&self) -> Option<Cow<'static, str>> {
        self.status.map(status::name)
    }
}

/// The number of the data read from a file, or written to it, among those of its connection.
pub(super) fn file_number(action: &SmbAction, file: &SmbFile, is_written: bool) -> u64 {
    // One packet may open several files, so the name is part of the number.
    let name = file.name.as_deref().unwrap_or_default();
    let number =
        name.bytes().fold(action.time.0 as u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (number << 1 | u64::from(is_written)) & !SHARED_NUMBER
}

/// The data read from and written to a file, as rows of `files.log`. The contents are counted, and passed on
/// if somebody asks for them. The originator of the connection is assumed to be the client.
pub(crate) fn files(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let Some((action, file)) =
        session.as_any().downcast_ref::<SmbAction>().and_then(|action| Some((action, action.file.as_ref()?)))
    else {
        return vec![];
    };
    let moved = [(file.read.1, false), (file.written.1, true)].into_iter().filter(|(bytes, _)| *bytes > 0);
    let of = |(seen_bytes, is_written): (u64, bool)| File {
        number: file_number(action, file, is_written),
        source: "SMB",
        name: file.name.clone(),
        time: Some(action.time),
        is_from_originator: is_written,
        seen_bytes,
        total_bytes: file.size_bytes.filter(|_| !is_written),
        content: file.contents[usize::from(is_written)].clone(),
        executable: file.executables[usize::from(is_written)].clone(),
        ..File::default()
    };
    moved.map(|one| Box::new(of(one)) as Box<dyn Session>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_written_are_files() {
        let mut action = SmbAction::new(Timestamp(5), SmbCommand::Create);
        assert!(files(&action).is_empty(), "no file");
        let name = Some("a.txt".to_string());
        action.file = Some(Box::new(SmbFile { name, size_bytes: Some(9), ..SmbFile::default() }));
        assert!(files(&action).is_empty(), "nothing was moved");
        let file = action.file.as_mut().expect("it was put there");
        (file.read, file.written) = ((1, 9), (2, 4));
        let files = files(&action);
        let of: Vec<&File> = files.iter().map(|file| file.as_any().downcast_ref().expect("a file")).collect();
        let told = of.iter().map(|file| (file.is_from_originator, file.seen_bytes, file.total_bytes));
        assert_eq!(told.collect::<Vec<_>>(), [(false, 9, Some(9)), (true, 4, None)]);
        assert!(of[0].number != of[1].number && of.iter().all(|file| file.name.as_deref() == Some("a.txt")));
    }
}

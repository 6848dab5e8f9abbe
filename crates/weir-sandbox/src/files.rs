//! Files and connections that a thread may still open, by Landlock
//! (Documentation/userspace-api/landlock.rst).

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// The version of the interface whose rights are handled. Older kernels restrict what they know. The next
/// version (Linux 7.1) restricts connections to sockets in files, for which there is no list here.
const HANDLED: ABI = ABI::V8;

/// Files of the system that every program may read: libraries, names of hosts and users, time zones, and the
/// kernel's description of the machine (`/proc`, with the command lines of other processes). Files with
/// passwords and keys, such as `/etc/shadow`, are not among these.
pub const SYSTEM_FILES: &[&str] = &[
    "/dev/null",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/timezone",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/class/net",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/usr",
];

/// Devices that are written: by anybody, for nothing.
const SINKS: &[&str] = &["/dev/null", "/dev/tty", "/dev/zero"];

/// Files, and directories with all that is in them.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// They can be read; those of [`SYSTEM_FILES`] and those that can be written, too.
    pub read: Vec<PathBuf>,
    /// They can be created and changed.
    pub write: Vec<PathBuf>,
}

/// What the Landlock of an older kernel does not restrict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Nothing: the kernel has no Landlock (Linux 5.13), or does not use it.
    All,
    /// Some accesses: the kernel has an older version of the interface (before Linux 6.15).
    Some,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "this kernel has no Landlock: files are restricted by user and capabilities alone",
            Self::Some => "the Landlock of this kernel is older, and restricts fewer kinds of access",
        })
    }
}

/// Restricts this thread. Abstract sockets of others are closed to it from now on, and other processes get no
/// signals unless `sends_signals`.
pub(crate) fn restrict(
    files: Option<&Files>,
    connects_to: Option<&[u16]>,
    sends_signals: bool,
) -> Result<Option<Missing>, Box<dyn Error>> {
    let mut set = Ruleset::default();
    if files.is_some() {
        set = set.handle_access(AccessFs::from_all(HANDLED))?;
    }
    if connects_to.is_some() {
        set = set.handle_access(AccessNet::ConnectTcp)?;
    }
    let scopes = Scope::from_all(HANDLED);
    let scopes = if sends_signals { scopes & !Scope::Signal } else { scopes };
    let mut set = set.scope(scopes)?.create()?;
    if let Some(files) = files {
        let reads: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        let writes = AccessFs::from_write(HANDLED) | reads;
        set = set
            .add_rules(path_beneath_rules(SYSTEM_FILES, reads))?
            .add_rules(path_beneath_rules(named(&files.read), reads))?
            .add_rules(path_beneath_rules(named(&files.write), writes))?
            .add_rules(path_beneath_rules(SINKS, writes))?;
    }
    let ports = connects_to.unwrap_or_default().iter();
    set = set.add_rules(
        ports.map(|port| Ok::<_, landlock::RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp))),
    )?;
    Ok(match set.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Some(Missing::All),
        RulesetStatus::PartiallyEnforced => Some(Missing::Some),
        RulesetStatus::FullyEnforced => None,
    })
}

/// The paths that have a place in a file system. The kernel takes no rules for others, and always permits
/// them: pipes of a shell (`/dev/fd/63`).
fn named(paths: &[PathBuf]) -> impl Iterator<Item = &Path> {
    paths.iter().map(PathBuf::as_path).filter(|path| path.canonicalize().is_ok())
}

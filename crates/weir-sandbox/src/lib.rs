//! Restricts threads that parse hostile bytes. A mistake in a parser can then do little harm.
//!
//! Rights belong to threads, and a thread has those of the thread that starts it. A process therefore enters
//! before it has other threads, or each of its threads enters by itself.
//!
//! - [`Limits`]: the user that a thread continues as, the capabilities that the thread keeps
//!   (capabilities(7)), and the files and TCP ports that the thread may open (landlock(7))
//! - [`Calls`]: the system calls that a thread, or the whole process, may make (seccomp(2))
//! - [`divide`]: a second process, for what still needs rights; [`KeeperCalls`]: the calls of that process
//! - [`Opener`]: opens files for the other process, beneath folders that were stated at the start
//!
//! ```
//! use weir_sandbox::{Calls, Files, Limits};
//!
//! let worker = std::thread::spawn(|| {
//!     let limits = Limits { files: Some(Files { read: vec!["/usr".into()], write: vec![] }), ..Limits::default() };
//!     let missing = limits.enter().expect("the user does not change");
//!     missing.iter().for_each(|what| println!("{what}"));
//!     Calls::default().restrict_thread().expect("the kernel has seccomp");
//!     std::fs::read("/etc/shadow").is_err() && std::process::Command::new("true").status().is_err()
//! });
//! assert!(worker.join().expect("it ends"));
//! ```
#![deny(unsafe_code)]

mod calls;
mod division;
mod files;
mod grants;
mod opener;
mod rights;
mod stopped;

pub use calls::{Calls, KeeperCalls, Sockets};
pub use division::{Side, accept_signals, close_to_others, divide, watch};
pub use files::{Files, Missing, SYSTEM_FILES};
pub use grants::{Grants, is_by_process};
pub use opener::{OPENER_CAPABILITIES, Opener, ask_opener};
pub use rights::{forbid_new_rights, has_free_maps, has_user, of_newer_kernels};
pub use rustix::process::{Gid, Pid, Uid, WaitStatus, getpid};
pub use rustix::thread::CapabilitySet;

use std::fmt;

/// What a thread may still do.
#[derive(Debug, Clone)]
pub struct Limits {
    /// It goes on as this user, with this group and no other.
    pub user: Option<(Uid, Gid)>,
    /// Capabilities that it keeps, of those that it has.
    pub capabilities: CapabilitySet,
    /// Files that it may still open; `None`: all that its user may.
    pub files: Option<Files>,
    /// Ports of TCP, on any host, to which it may still connect; `None`: all. What listens already goes on.
    pub connects_to: Option<Vec<u16>>,
    /// It may send signals to other processes, as far as its user and its capabilities permit.
    pub sends_signals: bool,
    /// Sockets that it makes are of a network of its own, which has no interface but a loopback that is down.
    /// Only a thread with CAP_SYS_ADMIN gets one. Sockets that it has stay where they are.
    pub leaves_network: bool,
}

impl Default for Limits {
    /// The same user, without capabilities; all files and connections of that user.
    fn default() -> Self {
        Self {
            user: None,
            capabilities: CapabilitySet::empty(),
            files: None,
            connects_to: None,
            sends_signals: false,
            leaves_network: false,
        }
    }
}

/// Why a thread was not restricted.
#[derive(Debug)]
pub enum Error {
    /// The thread may not become the user.
    User(std::io::Error),
    /// The kernel refuses a restriction.
    Restriction {
        /// Its name.
        part: &'static str,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(error) => write!(f, "{error}"),
            Self::Restriction { part, why } => write!(f, "{part}: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl Limits {
    /// Restricts this thread, and those that it starts from now on. Returns what the kernel is too old for.
    ///
    /// # Errors
    /// The thread may not become the user, or the kernel refuses a restriction that it has.
    pub fn enter(&self) -> Result<Option<Missing>, Error> {
        let part =
            |part| move |why: Box<dyn std::error::Error>| Error::Restriction { part, why: why.to_string() };
        if self.leaves_network {
            rights::leave_network().map_err(part("network namespace"))?;
        }
        rights::forget_capabilities().map_err(part("capabilities"))?;
        if let Some(ids) = self.user {
            // Another user would otherwise have none.
            rights::keep_for_another_user().map_err(part("capabilities"))?;
            rights::become_user(ids).map_err(Error::User)?;
        }
        rights::keep_capabilities(self.capabilities).map_err(part("capabilities"))?;
        rights::forbid_new_rights().map_err(|error| part("no_new_privs")(error.into()))?;
        files::restrict(self.files.as_ref(), self.connects_to.as_deref(), self.sends_signals)
            .map_err(part("landlock"))
    }

    /// Becomes the user, and gives up nothing else.
    ///
    /// # Errors
    /// The thread may not become the user.
    pub fn become_user(&self) -> Result<(), std::io::Error> {
        self.user.map_or(Ok(()), rights::become_user)
    }
}

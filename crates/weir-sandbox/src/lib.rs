//! Restricts threads that parse hostile bytes. A mistake in a parser can then do little harm.
//!
//! Rights belong to threads, and a thread has those of the thread that starts it. A process therefore enters
//! before it has other threads, or each of its threads enters by itself.
//!
//! - [`Limits`]: the user that a thread continues as, the capabilities that the thread keeps
//!   (capabilities(7)), and the files and TCP ports that the thread may open (landlock(7))
//! - [`Calls`]: the system calls that a thread, or the whole process, may make (seccomp(2))
//!
//! ```
//! use weir_sandbox::{Calls, Files, Limits};
//!
//! let worker = std::thread::spawn(|| {
//!     let limits = Limits { files: Some(Files { read: vec!["/usr".into()], write: vec![] }), ..Limits::default() };
//!     let missing = limits.enter().expect("the user does not change");
//!     missing.iter().for_each(|part| println!("no {}: {}", part.name, part.why));
//!     Calls::default().restrict_thread().expect("the kernel has seccomp");
//!     std::fs::read("/etc/shadow").is_err() && std::process::Command::new("true").status().is_err()
//! });
//! assert!(worker.join().expect("it ends"));
//! ```
#![forbid(unsafe_code)]

mod calls;
mod files;
mod rights;

pub use calls::{Calls, Sockets};
pub use files::{Files, SYSTEM_FILES};
pub use rights::has_free_maps;
pub use rustix::process::{Gid, Uid};
pub use rustix::thread::CapabilitySet;

/// The [`Missing::name`] of the restriction of files and connections.
pub const LANDLOCK: &str = "landlock";

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
}

impl Default for Limits {
    /// The same user, without capabilities; all files and connections of that user.
    fn default() -> Self {
        Self { user: None, capabilities: CapabilitySet::empty(), files: None, connects_to: None }
    }
}

/// A part of the restriction that this system does not have.
#[derive(Debug, Clone)]
pub struct Missing {
    /// The name of the part, for messages: `capabilities`, `no_new_privs`, or [`LANDLOCK`].
    pub name: &'static str,
    /// The reason, for messages.
    pub why: String,
}

impl Limits {
    /// Restricts this thread, and those that it starts from now on. Returns what this system does not have.
    ///
    /// # Errors
    /// The thread may not become the user.
    pub fn enter(&self) -> Result<Vec<Missing>, std::io::Error> {
        let mut parts = vec![("capabilities", rights::forget_capabilities())];
        if let Some(ids) = self.user {
            // Another user would otherwise have none.
            parts.push(("capabilities", rights::keep_for_another_user()));
            rights::become_user(ids)?;
        }
        parts.push(("capabilities", rights::keep_capabilities(self.capabilities)));
        parts.push(("no_new_privs", rights::forbid_new_rights()));
        let connects_to = self.connects_to.as_deref();
        parts.push((LANDLOCK, files::restrict(self.files.as_ref(), connects_to)));
        let missing = |(name, done): (_, Result<_, Box<dyn std::error::Error>>)| {
            Some(Missing { name, why: done.err()?.to_string() })
        };
        Ok(parts.into_iter().filter_map(missing).collect())
    }

    /// Becomes the user, and gives up nothing else.
    ///
    /// # Errors
    /// The thread may not become the user.
    pub fn become_user(&self) -> Result<(), std::io::Error> {
        self.user.map_or(Ok(()), rights::become_user)
    }
}

//! Which users of this machine may connect to a port that asks for no token: the one who started this
//! process, root, and those whom the command line names.
//!
//! A port of the loopback is open to every user of the machine. PCAP over TCP and Prometheus have no place
//! for a secret, so the kernel is asked whose socket is at the other end. Connections of other machines are
//! for the address that the port has been given.

use crate::diag;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The user who started this process, and root.
static CALLERS: OnceLock<Vec<u32>> = OnceLock::new();
/// Further ones, by `allow`.
static ALLOWED: Mutex<Vec<u32>> = Mutex::new(vec![]);
/// Learns of refusals.
static TOLD: OnceLock<fn(&Refused)> = OnceLock::new();

/// Why a connection is refused.
#[derive(Debug)]
pub enum Refused {
    /// This user is at its other end.
    User(u32),
    /// The kernel does not say who is at its other end, or nobody is any more.
    Unknown(Option<io::Error>),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => {
                write!(f, "user {user} of this machine may not connect: --allow-user admits users")
            }
            Self::Unknown(Some(error)) => {
                write!(f, "the kernel does not say whose connection this is: {error}")
            }
            Self::Unknown(None) => write!(f, "no process has the other end of the connection"),
        }
    }
}

/// The users of the process from its start on. With `sudo`, also the user who called it.
fn callers() -> &'static [u32] {
    CALLERS.get_or_init(|| {
        let own = rustix::process::getuid();
        let mut users = vec![0, own.as_raw()];
        if own.is_root() {
            users.extend(std::env::var("SUDO_UID").ok().and_then(|text| text.parse::<u32>().ok()));
        }
        users
    })
}

/// Keeps who has started this process, and admits further users. To be called before the process becomes
/// another user. `tell` learns of each refusal.
pub fn begin(allowed: &[u32], tell: fn(&Refused)) {
    callers();
    ALLOWED.lock().unwrap_or_else(PoisonError::into_inner).extend(allowed);
    let _ = TOLD.set(tell);
}

/// Whether this user may connect, or owns what this process may trust.
pub fn is_admitted(user: u32) -> bool {
    callers().contains(&user) || ALLOWED.lock().unwrap_or_else(PoisonError::into_inner).contains(&user)
}

/// Admits an accepted connection if its other end is on another machine, or if the user at its other end may
/// connect.
///
/// # Errors
/// Another user of this machine is at its other end.
pub fn admit(stream: &TcpStream) -> Result<(), Refused> {
    match (stream.peer_addr(), stream.local_addr()) {
        (Ok(far), Ok(near)) => admit_ends(far, near),
        (far, near) => told(Err(Refused::Unknown(far.err().or(near.err())))),
    }
}

/// As [`admit`], for the connection between these addresses, of which `near` is that of this process.
///
/// # Errors
/// As [`admit`].
pub fn admit_ends(far: SocketAddr, near: SocketAddr) -> Result<(), Refused> {
    told(judge(far, diag::user_of(far, near)))
}

fn told(checked: Result<(), Refused>) -> Result<(), Refused> {
    if let (Err(refused), Some(tell)) = (&checked, TOLD.get()) {
        tell(refused);
    }
    checked
}

fn judge(far: SocketAddr, user: io::Result<Option<u32>>) -> Result<(), Refused> {
    match user {
        Ok(Some(user)) if is_admitted(user) => Ok(()),
        Ok(Some(user)) => Err(Refused::User(user)),
        // An end that is not on this machine is on another one.
        _ if !far.ip().to_canonical().is_loopback() => Ok(()),
        Ok(None) => Err(Refused::Unknown(None)),
        Err(error) => Err(Refused::Unknown(Some(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_this_machine_are_told_apart_and_other_machines_are_admitted() {
        let (here, there) = ("127.0.0.1:9".parse().unwrap(), "192.0.2.1:9".parse().unwrap());
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:9".parse().unwrap();
        let own = rustix::process::getuid().as_raw();
        for user in [0, own] {
            assert!(judge(here, Ok(Some(user))).is_ok() && judge(there, Ok(Some(user))).is_ok());
        }
        assert!(judge(there, Ok(None)).is_ok(), "another machine");
        assert!(judge(there, Err(io::ErrorKind::Other.into())).is_ok(), "another machine");
        for far in [here, mapped] {
            assert!(judge(far, Ok(None)).is_err() && judge(far, Err(io::ErrorKind::Other.into())).is_err());
        }
        let stranger = 4_000_000_000;
        assert!(judge(here, Ok(Some(stranger))).is_err() && judge(there, Ok(Some(stranger))).is_err());
        begin(&[stranger], |_| {});
        assert!(judge(here, Ok(Some(stranger))).is_ok());
    }
}

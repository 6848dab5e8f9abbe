//! State of a connection: pending requests, logged-in users, connected shares, open files. Each list is
//! bounded and evicts its oldest entry.

use super::action::{SmbAction, SmbLogin, SmbShare};
use super::body::{Change, Handle};
use crate::pairing::{Held, Waiting};
use std::sync::Arc;
use weir_packet::Timestamp;

/// Maximum number of pending requests.
pub const WAITING_MAX: usize = 192;

/// Maximum number of open files.
pub const FILES_MAX: usize = 192;

/// Maximum number of connected shares.
pub const SHARES_MAX: usize = 64;

/// Maximum number of logged-in users.
pub const LOGINS_MAX: usize = 32;

/// Purpose of a request.
#[derive(Debug)]
pub(super) enum Asked {
    /// A request that yields a row of its own.
    Row(Box<SmbAction>),
    /// An operation on a file, and its offset in the file.
    File(Handle, u64),
    /// A change of a file.
    Change(Handle, Box<Change>),
}

/// A request that waits for its response.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) command: u16,
    pub(super) time: Timestamp,
    pub(super) session: u64,
    pub(super) tree: Option<u32>,
    pub(super) asked: Asked,
}

impl Held for Pending {
    fn held_bytes(&self) -> usize {
        let more = match &self.asked {
            Asked::Row(row) => row.held_bytes() + row.login.as_ref().map_or(0, |login| login.held_bytes()),
            Asked::File(..) => 0,
            Asked::Change(_, change) => match change.as_ref() {
                Change::Name(name) => size_of::<Change>() + name.capacity(),
                _ => size_of::<Change>(),
            },
        };
        size_of::<Self>() + more
    }
}

/// All state of a connection.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) waiting: Waiting<Pending, WAITING_MAX>,
    pub(super) logins: Waiting<(u64, Arc<SmbLogin>), LOGINS_MAX>,
    pub(super) shares: Waiting<((u64, u32), Arc<SmbShare>), SHARES_MAX>,
    pub(super) files: Waiting<(Handle, Box<SmbAction>), FILES_MAX>,
    /// Evicted logins and shares.
    evicted: u64,
}

impl Held for (u64, Arc<SmbLogin>) {
    fn held_bytes(&self) -> usize {
        size_of::<u64>() + self.1.held_bytes()
    }
}

impl Held for ((u64, u32), Arc<SmbShare>) {
    fn held_bytes(&self) -> usize {
        2 * size_of::<u64>() + self.1.held_bytes()
    }
}

impl Held for (Handle, Box<SmbAction>) {
    fn held_bytes(&self) -> usize {
        size_of::<Handle>() + self.1.held_bytes()
    }
}

impl Tables {
    /// The login of a session.
    pub(super) fn login(&mut self, session: u64) -> Option<Arc<SmbLogin>> {
        self.logins.find(|(key, _)| *key == session).map(|(_, login)| Arc::clone(login))
    }

    /// Stores the login of a session.
    pub(super) fn set_login(&mut self, session: u64, login: &Arc<SmbLogin>) {
        self.logins.take(|(key, _)| *key == session);
        self.logins.push((session, Arc::clone(login)), |_| self.evicted += 1);
    }

    /// The share with this session and tree id.
    pub(super) fn share(&mut self, session: u64, tree: Option<u32>) -> Option<Arc<SmbShare>> {
        let wanted = (session, tree?);
        self.shares.find(|(key, _)| *key == wanted).map(|(_, share)| Arc::clone(share))
    }

    /// Stores a share.
    pub(super) fn set_share(&mut self, session: u64, tree: u32, share: &Arc<SmbShare>) {
        self.shares.take(|(key, _)| *key == (session, tree));
        self.shares.push(((session, tree), Arc::clone(share)), |_| self.evicted += 1);
    }

    /// The open file with this id.
    pub(super) fn file(&mut self, handle: &Handle) -> Option<&mut SmbAction> {
        self.files.find(|(key, _)| key == handle).map(|(_, action)| &mut **action)
    }

    /// Evicted requests, logins and shares.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted + self.waiting.evicted()
    }
}

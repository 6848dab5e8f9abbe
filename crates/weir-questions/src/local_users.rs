//! Which users of this machine may connect to ports that ask for no token (`--allow-user`), and whether files
//! are for a group (`--group-read`).

use nix::unistd::{Uid, User};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use weir_guard::files;
use weir_guard::peers::{self, Refused};

/// Users whose refusal was reported; further ones are refused silently.
const REPORTED_MAX: usize = 64;

static REPORTED: Mutex<Option<HashSet<u32>>> = Mutex::new(None);

/// Keeps who has started the process, and admits these users, too; `is_for_group`: files are for their group,
/// too. To be called before rights are given up, and before files are made.
pub fn begin(allowed: &[u32], is_for_group: bool) {
    peers::begin(allowed, report);
    if is_for_group {
        files::let_group_read();
    }
}

/// The number of a user, by name or as a number.
///
/// # Errors
/// There is no such user.
pub fn id_of(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let user = User::from_name(text).map_err(|error| error.to_string())?;
    user.map(|user| user.uid.as_raw()).ok_or_else(|| "there is no such user".to_string())
}

/// Says once for each user that a connection was refused.
fn report(refused: &Refused) {
    let Refused::User(user) = refused else { return };
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let reported = reported.get_or_insert_default();
    if reported.len() >= REPORTED_MAX || !reported.insert(*user) {
        return;
    }
    let name = User::from_uid(Uid::from_raw(*user)).ok().flatten().map(|user| user.name);
    let name = name.unwrap_or_else(|| user.to_string());
    note!(
        "weir: a connection of the user {name} of this machine was refused; --allow-user {name} admits them"
    );
}

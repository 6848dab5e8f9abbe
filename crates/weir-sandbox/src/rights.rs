//! The user and the capabilities of a thread.

use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::error::Error;
use std::io;

type Done = Result<(), Box<dyn Error>>;

pub(crate) fn become_user((uid, gid): (Uid, Gid)) -> io::Result<()> {
    thread::set_thread_groups(&[gid])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(thread::set_thread_res_uid(uid, uid, uid)?)
}

pub(crate) fn keep_for_another_user() -> Done {
    Ok(thread::set_keep_capabilities(true)?)
}

/// Whether this process may become the user: in a namespace of users, few users may exist
/// (user_namespaces(7)).
pub fn has_user((uid, gid): (Uid, Gid)) -> bool {
    let file = |name| std::fs::read_to_string(format!("/proc/self/{name}"));
    let is_in = |line: &str, number: u32| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first + count).contains(&number.into()),
            _ => false,
        }
    };
    // A kernel without such namespaces has no map.
    let has = |name, number| file(name).map_or(true, |map| map.lines().any(|line| is_in(line, number)));
    let has_groups = file("setgroups").map_or(true, |may| may.trim() != "deny");
    has("uid_map", uid.as_raw()) && has("gid_map", gid.as_raw()) && has_groups
}

/// Enters a network namespace of its own, if the thread may.
pub(crate) fn leave_network() -> Done {
    if !thread::capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    Ok(crate::division::leave_network()?)
}

/// Removes all capabilities from those that programs of this process could get. Needs CAP_SETPCAP, which only
/// root has.
pub(crate) fn forget_capabilities() -> Done {
    thread::clear_ambient_capability_set()?;
    if !thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // The kernel may not know a newer one.
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
    Ok(())
}

/// Gives up all other capabilities.
pub(crate) fn keep_capabilities(kept: CapabilitySet) -> Done {
    let permitted = thread::capabilities(None)?.permitted & kept;
    let inheritable = CapabilitySet::empty();
    Ok(thread::set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?)
}

/// Programs with more rights are of no use to this thread, and to those that it starts from now on.
///
/// # Errors
/// If the kernel refuses.
pub fn forbid_new_rights() -> io::Result<()> {
    Ok(thread::set_no_new_privs(true)?)
}

/// What versions of the kernel bring for the limits of a process.
const BY_VERSION: [([u32; 2], &str); 4] = [
    ([5, 13], "files are restricted by user and capabilities alone (Landlock)"),
    ([5, 19], "a run of root opens its files as root"),
    ([5, 19], "a capture with filters in the kernel keeps CAP_BPF"),
    ([6, 12], "signals to other processes and abstract sockets are restricted by the user alone"),
];

/// What this kernel is too old for: the version that has a limit, and what happens without the limit.
pub fn of_newer_kernels() -> impl Iterator<Item = (String, &'static str)> {
    let missing = BY_VERSION.iter().filter(|(version, _)| !is_linux(*version));
    missing.map(|([major, minor], what)| (format!("{major}.{minor}"), *what))
}

/// Whether the kernel lets a process read and change maps that it has, without rights (Linux 5.19).
pub fn has_free_maps() -> bool {
    is_linux([5, 19])
}

/// Whether the kernel is this version, or a later one.
pub(crate) fn is_linux(version: [u32; 2]) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => [major, minor] >= version,
        _ => false,
    }
}

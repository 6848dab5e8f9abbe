//! The owner of a run's files. Usually, this is the user of the process. A worker whose files are opened by
//! another process (`weir_sandbox::Opener`) runs as a user without rights: the owner is then the user of the
//! other process.

use std::sync::OnceLock;

static KEPT: OnceLock<u32> = OnceLock::new();

/// The number of the owner.
pub fn number() -> u32 {
    KEPT.get().copied().unwrap_or_else(|| rustix::process::geteuid().as_raw())
}

/// Makes the present user the owner, also if the process becomes another user later.
pub fn keep() {
    KEPT.get_or_init(|| rustix::process::geteuid().as_raw());
}

//! The user whose files a run reads and creates: the user of the process, or the one who started the process,
//! if another process opens files for it (`weir_sandbox::Opener`).

use std::sync::OnceLock;

static KEPT: OnceLock<u32> = OnceLock::new();

/// The number of the owner.
pub fn number() -> u32 {
    KEPT.get().copied().unwrap_or_else(|| rustix::process::geteuid().as_raw())
}

/// Files stay those of the present user, also if the process becomes another one.
pub fn keep() {
    KEPT.get_or_init(|| rustix::process::geteuid().as_raw());
}

//! Capture with DPDK (<https://www.dpdk.org>), which passes packets from network cards to the process without
//! the kernel.
//!
//! Nothing is linked against DPDK. [`library`] is Weir's plug-in, a shared object with the C code of
//! `plugin/`, which is built separately against the DPDK of the machine, and loaded on demand. [`start`]
//! initialises DPDK, once in a process. A [`Device`] is then attached and opened; its [`Queue`]s receive
//! [`Packets`], which stay in the buffers of the device.
//!
//! * `library`: loading, and the plug-in's functions.
//! * `process`: DPDK in this process.  `arguments`: its arguments.
//! * `device`: devices and their queues.  `packets`: the memory of packets.
//! * `rules`: rules that tell a device which packets to discard.
//!
//! The source of packets is in `weir-link`.
#![deny(unsafe_code)]

mod arguments;
mod device;
mod library;
mod packets;
mod process;
mod rules;

pub use arguments::{Needs, free_huge_bytes};
pub use device::{Device, Link, Losses, Queue, Settings};
pub use library::{FILE, VARIABLE, has_granted_rights};
pub use packets::{Packet, Packets};
pub use process::{in_its_thread, start};
pub use rules::RuleId;

use std::fmt;

/// The reason why DPDK, or a device, is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The plug-in is not there, has another version, or lacks DPDK's libraries. The text has a remedy.
    Missing(String),
    /// DPDK, or a driver, refused.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "DPDK can't be used: {why}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// The release of DPDK for which the plug-in was built, as text: `DPDK 22.11.11`.
///
/// # Errors
/// [`Error::Missing`].
pub fn release() -> Result<&'static str, Error> {
    Ok(&library::functions()?.release)
}

//! The interfaces of the machine, and what a process needs to capture on them.

use crate::names::link_of;
use crate::system;
use std::io;
use weir_packet::LinkType;

/// An interface of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The link type of its packets.
    pub link: LinkType,
    /// The longest packet that it sends, bytes.
    pub mtu_bytes: u32,
    /// It is switched on.
    pub is_up: bool,
    /// Its cable, or its peer, is there.
    pub is_running: bool,
    /// The machine's own packets to itself.
    pub is_loopback: bool,
    /// The kernel's driver.
    pub driver: Option<String>,
    /// Receive queues.
    pub queues: Option<u32>,
}

/// The interfaces of the machine, in the order of their numbers.
///
/// # Errors
/// If the kernel does not list them.
pub fn all() -> io::Result<Vec<Interface>> {
    let asks = system::InterfaceQuery::new()?;
    let of = |name: String| {
        let flags = asks.flags(&name).unwrap_or(0);
        let has = |flag: libc::c_int| flags & flag as i16 != 0;
        Interface {
            link: link_of(asks.hardware(&name).unwrap_or(libc::ARPHRD_NONE)),
            mtu_bytes: asks.mtu_bytes(&name).unwrap_or(0),
            is_up: has(libc::IFF_UP),
            is_running: has(libc::IFF_RUNNING),
            is_loopback: has(libc::IFF_LOOPBACK),
            driver: asks.driver(&name),
            queues: asks.queues(&name),
            name,
        }
    };
    Ok(system::interface_names()?.into_iter().map(of).collect())
}

/// Rights of the process that matter for capture (`capabilities(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// CAP_NET_RAW: AF_PACKET.
    pub net_raw: bool,
    /// CAP_NET_ADMIN: promiscuous mode of some drivers, and programs on interfaces.
    pub net_admin: bool,
    /// CAP_BPF: programs in the kernel.
    pub bpf: bool,
    /// CAP_PERFMON: programs with computed addresses, which all filters but the simplest are.
    pub perfmon: bool,
}

impl Rights {
    /// The rights of this process. None are reported if the kernel does not list them.
    pub fn of_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
        let has = |number: u32| bits >> number & 1 == 1;
        Self { net_raw: has(13), net_admin: has(12), bpf: has(39) || has(21), perfmon: has(38) || has(21) }
    }
}

/// How the right to capture is granted to the program.
pub const GRANT: &str =
    "sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock+ep \"$(command -v weir)\"";

/// The text of an error of opening an interface, with a remedy.
pub(crate) fn remedy(name: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            format!(
                "capture needs the capability CAP_NET_RAW, and af_xdp CAP_NET_ADMIN and CAP_BPF, too: run as root, or grant them \
                     once: {GRANT}"
            )
        }
        Some(libc::ENODEV | libc::ENXIO) => {
            let names = system::interface_names().unwrap_or_default().join(", ");
            format!("there is no interface `{name}`; there are: {names}, any")
        }
        Some(libc::ENETDOWN) => format!("the interface is down: sudo ip link set {name} up"),
        Some(libc::EBUSY | libc::EEXIST) => format!(
            "another XDP program, or another socket of AF_XDP, has the interface: end its owner, detach it (sudo ip link set \
             dev {name} xdp off), or use --method af_packet"
        ),
        Some(libc::ENOBUFS) => format!(
            "the process may not lock so much memory: a smaller --buffer, or the capability CAP_IPC_LOCK: {GRANT}"
        ),
        Some(libc::ENOMEM) => format!("no memory for the ring ({error}): use a smaller --buffer"),
        _ => error.to_string(),
    }
}

//! Calls of the system as a bug would make them.

/// A call: its number, and its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Raw(pub i64, pub [i64; 6]);

/// A call with a name.
#[derive(Debug)]
pub struct Attempt {
    pub name: &'static str,
    pub raw: Raw,
}

const fn attempt(name: &'static str, number: i64, arguments: [i64; 6]) -> Attempt {
    Attempt { name, raw: Raw(number, arguments) }
}

/// The bit that marks numbers of x32.
pub const X32: i64 = 0x4000_0000;

/// All are refused before the kernel looks at an argument: each would otherwise fail in another way, and does
/// no harm.
pub const REFUSED: &[Attempt] = &[
    attempt("bpf: load a program", libc::SYS_bpf, [5, 0, 0, 0, 0, 0]),
    attempt("perf_event_open", libc::SYS_perf_event_open, [0; 6]),
    attempt("io_uring_setup", libc::SYS_io_uring_setup, [0; 6]),
    attempt("execve", libc::SYS_execve, [0; 6]),
    attempt("ptrace", libc::SYS_ptrace, [-1, 0, 0, 0, 0, 0]),
    attempt("process_vm_readv", libc::SYS_process_vm_readv, [0; 6]),
    attempt("pidfd_open", libc::SYS_pidfd_open, [0; 6]),
    attempt("kill", libc::SYS_kill, [0, 0, 0, 0, 0, 0]),
    attempt("tgkill: a thread of another process", libc::SYS_tgkill, [1, 1, 0, 0, 0, 0]),
    attempt("prlimit64: of another process", libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]),
    attempt("sched_setaffinity: of another process", libc::SYS_sched_setaffinity, [1, 0, 0, 0, 0, 0]),
    attempt("setpriority: of another process", libc::SYS_setpriority, [0, 1, 0, 0, 0, 0]),
    attempt("setpriority: of a user's processes", libc::SYS_setpriority, [2, 0, 0, 0, 0, 0]),
    attempt("prctl: outlive the keeper", libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as i64, 0, 0, 0, 0, 0]),
    attempt("prctl: show its memory", libc::SYS_prctl, [libc::PR_SET_DUMPABLE as i64, 1, 0, 0, 0, 0]),
    attempt("fcntl: signals for another process", libc::SYS_fcntl, [-1, libc::F_SETOWN as i64, 1, 0, 0, 0]),
    attempt("unshare", libc::SYS_unshare, [0; 6]),
    attempt("setns", libc::SYS_setns, [-1, 0, 0, 0, 0, 0]),
    attempt("mount", libc::SYS_mount, [0; 6]),
    attempt("chroot", libc::SYS_chroot, [0; 6]),
    attempt("mknodat", libc::SYS_mknodat, [-1, 0, 0, 0, 0, 0]),
    attempt("init_module", libc::SYS_init_module, [0; 6]),
    attempt("keyctl", libc::SYS_keyctl, [-1, 0, 0, 0, 0, 0]),
    attempt("userfaultfd", libc::SYS_userfaultfd, [-1, 0, 0, 0, 0, 0]),
    attempt("reboot", libc::SYS_reboot, [0; 6]),
    attempt("settimeofday", libc::SYS_settimeofday, [0; 6]),
    attempt("fork", libc::SYS_clone, [libc::SIGCHLD as i64, 0, 0, 0, 0, 0]),
    attempt("type for another program", libc::SYS_ioctl, [0, libc::TIOCSTI as i64, 0, 0, 0, 0]),
    attempt("change a device", libc::SYS_ioctl, [0, libc::SIOCSIFFLAGS as i64, 0, 0, 0, 0]),
    attempt("see other ports", libc::SYS_setsockopt, [-1, libc::SOL_PACKET as i64, 1, 0, 0, 0]),
    attempt("share a port", libc::SYS_setsockopt, [-1, libc::SOL_SOCKET as i64, 15, 0, 0, 0]),
    attempt("fchmodat: make a file writable by all", libc::SYS_fchmodat, [-1, 0, 0o666, 0, 0, 0]),
    attempt("fchmod: run as the owner", libc::SYS_fchmod, [-1, 0o4755, 0, 0, 0, 0]),
    attempt("fchownat", libc::SYS_fchownat, [-1, 0, 0, 0, 0, 0]),
    attempt("utimensat", libc::SYS_utimensat, [-1, 0, 0, 0, 0, 0]),
    attempt(
        "a key of the kernel",
        libc::SYS_socket,
        [libc::AF_ALG as i64, libc::SOCK_SEQPACKET as i64, 0, 0, 0, 0],
    ),
];

/// Sockets that see packets, or make them.
pub const PACKET_SOCKETS: &[Attempt] = &[
    attempt("AF_PACKET", libc::SYS_socket, [libc::AF_PACKET as i64, libc::SOCK_RAW as i64, 0, 0, 0, 0]),
    attempt("AF_XDP", libc::SYS_socket, [libc::AF_XDP as i64, libc::SOCK_RAW as i64, 0, 0, 0, 0]),
    attempt("raw", libc::SYS_socket, [libc::AF_INET as i64, libc::SOCK_RAW as i64, 1, 0, 0, 0]),
    attempt("AF_VSOCK", libc::SYS_socket, [libc::AF_VSOCK as i64, libc::SOCK_STREAM as i64, 0, 0, 0, 0]),
];

/// Makes a call; its result, or -1.
pub fn result_of(raw: Raw) -> i64 {
    let Raw(number, [a, b, c, d, e, f]) = raw;
    // SAFETY: the calls of these tests are refused, write nowhere, or have no pointers but those of `map`.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// Makes a call; 0, or its error.
pub fn errno_of(raw: Raw) -> i32 {
    let done = result_of(raw);
    if done < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

/// A new page with this access; its address, or the error.
pub fn map(access: i64) -> Result<i64, i32> {
    let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel selects a free range of addresses.
    let page = unsafe { libc::syscall(libc::SYS_mmap, 0, 4096, access, flags, -1, 0) };
    if page < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(-1)) } else { Ok(page) }
}

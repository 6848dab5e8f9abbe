//! The system calls that a thread may make, as a filter of seccomp(2). All other calls fail: with EPERM, or
//! with ENOSYS if they are newer than the list.

use libc as c;
use rustix::process::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::error::Error;

/// Calls that need no condition: memory, threads, time, files by the rights of the thread, sockets that are
/// there.
const PLAIN: &[i64] = &[
    // Memory.
    c::SYS_munmap,
    c::SYS_mremap,
    c::SYS_madvise,
    c::SYS_brk,
    c::SYS_msync,
    c::SYS_mlock,
    c::SYS_mlock2,
    c::SYS_munlock,
    c::SYS_mincore,
    c::SYS_membarrier,
    c::SYS_memfd_create,
    c::SYS_mbind,
    c::SYS_get_mempolicy,
    c::SYS_set_mempolicy,
    // Threads, and signals within the process.
    c::SYS_exit,
    c::SYS_exit_group,
    c::SYS_futex,
    c::SYS_get_robust_list,
    c::SYS_set_robust_list,
    c::SYS_set_tid_address,
    c::SYS_restart_syscall,
    c::SYS_rseq,
    c::SYS_sched_yield,
    c::SYS_sched_getaffinity,
    c::SYS_sched_getparam,
    c::SYS_sched_getscheduler,
    c::SYS_sched_get_priority_max,
    c::SYS_sched_get_priority_min,
    c::SYS_getpriority,
    c::SYS_getcpu,
    c::SYS_rt_sigaction,
    c::SYS_rt_sigpending,
    c::SYS_rt_sigprocmask,
    c::SYS_rt_sigreturn,
    c::SYS_rt_sigsuspend,
    c::SYS_rt_sigtimedwait,
    c::SYS_sigaltstack,
    // What the process is.
    c::SYS_capget,
    c::SYS_capset,
    c::SYS_getegid,
    c::SYS_geteuid,
    c::SYS_getgid,
    c::SYS_getgroups,
    c::SYS_getpid,
    c::SYS_getppid,
    c::SYS_getpgid,
    c::SYS_getresgid,
    c::SYS_getresuid,
    c::SYS_getrusage,
    c::SYS_getsid,
    c::SYS_gettid,
    c::SYS_getuid,
    c::SYS_seccomp,
    c::SYS_sysinfo,
    c::SYS_times,
    c::SYS_umask,
    c::SYS_uname,
    c::SYS_getrandom,
    // Time, and waiting.
    c::SYS_clock_getres,
    c::SYS_clock_gettime,
    c::SYS_clock_nanosleep,
    c::SYS_gettimeofday,
    c::SYS_nanosleep,
    c::SYS_timer_create,
    c::SYS_timer_delete,
    c::SYS_timer_settime,
    c::SYS_timerfd_create,
    c::SYS_timerfd_gettime,
    c::SYS_timerfd_settime,
    c::SYS_epoll_create1,
    c::SYS_epoll_ctl,
    c::SYS_epoll_pwait,
    c::SYS_epoll_pwait2,
    c::SYS_eventfd2,
    c::SYS_ppoll,
    c::SYS_pselect6,
    // Files.
    c::SYS_chdir,
    c::SYS_close,
    c::SYS_close_range,
    c::SYS_copy_file_range,
    c::SYS_dup,
    c::SYS_dup3,
    c::SYS_faccessat,
    c::SYS_faccessat2,
    c::SYS_fadvise64,
    c::SYS_fallocate,
    c::SYS_fchdir,
    c::SYS_fdatasync,
    c::SYS_flock,
    c::SYS_fstat,
    c::SYS_fstatfs,
    c::SYS_fsync,
    c::SYS_ftruncate,
    c::SYS_getcwd,
    c::SYS_getdents64,
    c::SYS_linkat,
    c::SYS_lseek,
    c::SYS_mkdirat,
    c::SYS_newfstatat,
    c::SYS_openat,
    c::SYS_openat2,
    c::SYS_pipe2,
    c::SYS_pread64,
    c::SYS_preadv,
    c::SYS_preadv2,
    c::SYS_pwrite64,
    c::SYS_pwritev,
    c::SYS_pwritev2,
    c::SYS_read,
    c::SYS_readahead,
    c::SYS_readlinkat,
    c::SYS_readv,
    c::SYS_renameat,
    c::SYS_renameat2,
    c::SYS_sendfile,
    c::SYS_splice,
    c::SYS_statfs,
    c::SYS_statx,
    c::SYS_symlinkat,
    c::SYS_sync_file_range,
    c::SYS_syncfs,
    c::SYS_tee,
    c::SYS_unlinkat,
    c::SYS_write,
    c::SYS_writev,
    // Sockets.
    c::SYS_getpeername,
    c::SYS_getsockname,
    c::SYS_getsockopt,
    c::SYS_recvfrom,
    c::SYS_recvmmsg,
    c::SYS_recvmsg,
    c::SYS_sendmmsg,
    c::SYS_sendmsg,
    c::SYS_sendto,
    c::SYS_shutdown,
    c::SYS_socketpair,
];

/// Older forms of the same calls, which only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    c::SYS_access,
    c::SYS_alarm,
    c::SYS_arch_prctl,
    c::SYS_creat,
    c::SYS_dup2,
    c::SYS_epoll_create,
    c::SYS_epoll_wait,
    c::SYS_eventfd,
    c::SYS_getdents,
    c::SYS_getpgrp,
    c::SYS_getrlimit,
    c::SYS_link,
    c::SYS_lstat,
    c::SYS_mkdir,
    c::SYS_open,
    c::SYS_pipe,
    c::SYS_poll,
    c::SYS_readlink,
    c::SYS_rename,
    c::SYS_rmdir,
    c::SYS_select,
    c::SYS_stat,
    c::SYS_symlink,
    c::SYS_time,
    c::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Requests to devices and sockets: of terminals (never `TIOCSTI` and `TIOCLINUX`, which type for another
/// program), of descriptors, and questions about interfaces. Of `SIOCETHTOOL` the kernel lets only a process
/// with CAP_NET_ADMIN change anything.
const REQUESTS: &[u64] = &[
    c::TCGETS,
    c::TCGETS2,
    c::TCSETS,
    c::TCSETS2,
    c::TCSETSF,
    c::TCSETSF2,
    c::TCSETSW,
    c::TCSETSW2,
    c::TCFLSH,
    c::TIOCGWINSZ,
    c::TIOCGPGRP,
    c::TIOCOUTQ,
    c::FIOCLEX,
    c::FIONCLEX,
    c::FIONBIO,
    c::FIONREAD,
    c::SIOCGIFCONF,
    c::SIOCGIFNAME,
    c::SIOCGIFINDEX,
    c::SIOCGIFFLAGS,
    c::SIOCGIFHWADDR,
    c::SIOCGIFMTU,
    SIOCETHTOOL,
];

/// Options of a thread: its name, that it gets no new rights, names of memory. Never that its parent's end is
/// no longer its own (PR_SET_PDEATHSIG), or that others see its memory (PR_SET_DUMPABLE, PR_SET_PTRACER).
const OPTIONS: [c::c_int; 5] =
    [c::PR_GET_NAME, c::PR_SET_NAME, c::PR_GET_NO_NEW_PRIVS, c::PR_SET_NO_NEW_PRIVS, c::PR_SET_VMA];

/// asm-generic/fcntl.h.
const F_SETOWN_EX: c::c_int = 15;

/// linux/sockios.h.
const SIOCETHTOOL: u64 = 0x8946;

/// Commands of `bpf` for maps and attachments that are there: lookup, update, delete, next key, lookup and
/// delete, description, another program for an attachment (linux/bpf.h).
const OF_MAPS: [u64; 7] = [1, 2, 3, 4, 21, 15, 29];

/// The calls of the system that a thread, or a process, may still make.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calls {
    /// Sockets that it can still make. What it has remains.
    pub sockets: Sockets,
    /// It may use maps and programs of the kernel that it has.
    pub uses_maps: bool,
    /// Drivers of devices run in this process: all requests to devices, and other calls that drivers make.
    pub has_drivers: bool,
}

/// Sockets that can be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sockets {
    /// None.
    #[default]
    None,
    /// TCP, UDP, sockets in files, and netlink. Never those that see packets (AF_PACKET, AF_XDP, raw ones).
    Network,
}

/// For each call: it remains if one of the rules holds, or if there is no rule.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

type Made<T> = Result<T, Box<dyn Error>>;

impl Calls {
    /// Restricts this thread, and those that it starts from now on. The thread has given up new rights
    /// ([`Limits::enter`](crate::Limits::enter)), or is root.
    ///
    /// # Errors
    /// The kernel has no seccomp.
    pub fn restrict_thread(&self) -> Made<()> {
        for program in self.programs()? {
            seccompiler::apply_filter(&program)?;
        }
        Ok(())
    }

    /// Restricts all threads of the process.
    ///
    /// # Errors
    /// The kernel has no seccomp; another thread is restricted otherwise.
    pub fn restrict_process(&self) -> Made<()> {
        for program in self.programs()? {
            seccompiler::apply_filter_all_threads(&program)?;
        }
        Ok(())
    }

    fn programs(&self) -> Made<[BpfProgram; 2]> {
        let rules = self.rules()?;
        let unknown = without_newer(&rules)?;
        Ok([program(rules, c::EPERM, true)?, unknown])
    }

    fn rules(&self) -> Made<Rules> {
        let mut rules: Rules = PLAIN.iter().chain(OLDER).map(|&call| (call, vec![])).collect();
        let one = |condition| -> Made<SeccompRule> { Ok(SeccompRule::new(vec![condition])?) };
        let options =
            OPTIONS.iter().map(|option| one(condition(0, Is::Eq, u64::from(option.unsigned_abs()))?));
        rules.insert(c::SYS_prctl, options.collect::<Made<_>>()?);
        // Threads, no processes.
        let thread = u64::from(c::CLONE_THREAD.unsigned_abs());
        rules.insert(c::SYS_clone, vec![one(condition(0, Is::MaskedEq(thread), thread)?)?]);
        rules.extend(of_own_process()?);
        // No mapping is writable and executable at the same time.
        let [write, execute] = [c::PROT_WRITE, c::PROT_EXEC].map(|bit| u64::from(bit.unsigned_abs()));
        for call in [c::SYS_mmap, c::SYS_mprotect] {
            let without = |bit| one(condition(2, Is::MaskedEq(bit), 0)?);
            rules.insert(call, vec![without(write)?, without(execute)?]);
        }
        // Landlock restricts no modes of files. A file that the thread has open gets no bit by which others
        // could write the file or take over the rights of its owner.
        let risky = u64::from(c::S_ISUID | c::S_ISGID | c::S_ISVTX | c::S_IWOTH);
        rules.insert(c::SYS_fchmod, vec![one(condition(1, Is::MaskedEq(risky), 0)?)?]);
        // A socket that sees packets does not let another interface receive all packets of its link, and no
        // socket shares the port of another process of the same user.
        let unlike =
            |argument, number: c::c_int| condition(argument, Is::Ne, u64::from(number.unsigned_abs()));
        let of_packets = [(1, c::SOL_PACKET), (2, c::PACKET_ADD_MEMBERSHIP)];
        let of_sharing = [(1, c::SOL_SOCKET), (2, c::SO_REUSEPORT)];
        let both = of_packets.iter().flat_map(|one| of_sharing.iter().map(move |other| [*one, *other]));
        let both = both.map(|pair| {
            let unlike = pair.map(|(argument, number)| unlike(argument, number));
            Ok(SeccompRule::new(unlike.into_iter().collect::<Made<_>>()?)?)
        });
        rules.insert(c::SYS_setsockopt, both.collect::<Made<_>>()?);
        let requests = REQUESTS.iter().map(|request| one(condition(1, Is::Eq, *request)?));
        rules.insert(c::SYS_ioctl, requests.collect::<Made<_>>()?);
        let mut sockets = vec![];
        if self.sockets == Sockets::Network {
            let calls = [c::SYS_accept, c::SYS_accept4, c::SYS_bind, c::SYS_connect, c::SYS_listen];
            rules.extend(calls.map(|call| (call, vec![])));
            sockets.push(one(family(c::AF_NETLINK)?)?);
            sockets.push(one(family(c::AF_UNIX)?)?);
            sockets.extend(sockets_of_ip()?);
        }
        if !sockets.is_empty() {
            rules.insert(c::SYS_socket, sockets);
        }
        if self.uses_maps {
            let commands = OF_MAPS.iter().map(|command| one(condition(0, Is::Eq, *command)?));
            rules.insert(c::SYS_bpf, commands.collect::<Made<_>>()?);
        }
        if self.has_drivers {
            rules.extend(
                [c::SYS_ioctl, c::SYS_move_pages, c::SYS_sched_setaffinity, c::SYS_sched_setscheduler]
                    .map(|call| (call, vec![])),
            );
            #[cfg(target_arch = "x86_64")]
            rules.extend([c::SYS_ioperm, c::SYS_iopl].map(|call| (call, vec![])));
        }
        Ok(rules)
    }
}

/// Calls of a process that keeps rights for another one: memory, threads, waiting, and messages on sockets
/// that are there.
const OF_KEEPER: &[i64] = &[
    c::SYS_brk,
    c::SYS_clock_gettime,
    c::SYS_clock_nanosleep,
    c::SYS_close,
    c::SYS_exit,
    c::SYS_exit_group,
    c::SYS_futex,
    c::SYS_getpid,
    c::SYS_getrandom,
    c::SYS_gettid,
    c::SYS_madvise,
    c::SYS_mremap,
    c::SYS_munmap,
    c::SYS_ppoll,
    c::SYS_read,
    c::SYS_recvfrom,
    c::SYS_recvmsg,
    c::SYS_restart_syscall,
    c::SYS_rseq,
    c::SYS_rt_sigaction,
    c::SYS_rt_sigprocmask,
    c::SYS_rt_sigreturn,
    c::SYS_rt_sigtimedwait,
    c::SYS_sched_yield,
    c::SYS_sendmsg,
    c::SYS_sendto,
    c::SYS_set_robust_list,
    c::SYS_sigaltstack,
    c::SYS_write,
    c::SYS_writev,
];

/// Further calls of a thread that opens files for another process. The thread changes files only beneath
/// directories that it has open, and reads and writes the memory of the other process.
const OF_OPENER: &[i64] = &[
    c::SYS_fstat,
    c::SYS_fstatfs,
    c::SYS_linkat,
    c::SYS_mkdirat,
    c::SYS_newfstatat,
    c::SYS_openat2,
    c::SYS_pread64,
    c::SYS_pwrite64,
    c::SYS_readlinkat,
    c::SYS_renameat2,
    c::SYS_statx,
    c::SYS_unlinkat,
];

/// Requests of a thread that answers stopped calls.
const ANSWERS: [u64; 3] =
    [c::SECCOMP_IOCTL_NOTIF_RECV, c::SECCOMP_IOCTL_NOTIF_SEND, c::SECCOMP_IOCTL_NOTIF_ADDFD];

/// Commands of `bpf` that load a program and make a map (linux/bpf.h).
const OF_LOADER: [u64; 2] = [5, 0];

/// The calls of a thread of the process that keeps rights for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeeperCalls {
    /// It loads programs and makes maps.
    Loads,
    /// It opens files ([`Opener`](crate::Opener)), and makes sockets of TCP and UDP.
    Opens {
        /// It makes sockets.
        makes_sockets: bool,
    },
    /// It waits for the other process, and sends signals to that process alone.
    Watches(Pid),
}

impl KeeperCalls {
    /// Restricts this thread, and those that it starts from now on.
    ///
    /// # Errors
    /// The kernel has no seccomp.
    pub fn restrict_thread(self) -> Made<()> {
        let mut rules: Rules = OF_KEEPER.iter().map(|&call| (call, vec![])).collect();
        let one = |condition| -> Made<SeccompRule> { Ok(SeccompRule::new(vec![condition])?) };
        let execute = u64::from(c::PROT_EXEC.unsigned_abs());
        for call in [c::SYS_mmap, c::SYS_mprotect] {
            rules.insert(call, vec![one(condition(2, Is::MaskedEq(execute), 0)?)?]);
        }
        rules.extend(of_own_process()?);
        match self {
            Self::Loads => {
                let commands = OF_LOADER.iter().map(|command| one(condition(0, Is::Eq, *command)?));
                rules.insert(c::SYS_bpf, commands.collect::<Made<_>>()?);
            }
            Self::Opens { makes_sockets } => {
                if makes_sockets {
                    rules.insert(c::SYS_socket, sockets_of_ip()?);
                }
                rules.extend(OF_OPENER.iter().map(|&call| (call, vec![])));
                let requests = ANSWERS.iter().map(|request| one(condition(1, Is::Eq, *request)?));
                rules.insert(c::SYS_ioctl, requests.collect::<Made<_>>()?);
            }
            Self::Watches(other) => {
                let other = u64::from(other.as_raw_pid().unsigned_abs());
                rules.insert(c::SYS_kill, vec![one(condition(0, Is::Eq, other)?)?]);
                rules.insert(c::SYS_wait4, vec![]);
            }
        }
        Ok(seccompiler::apply_filter(&program(rules, c::EPERM, true)?)?)
    }
}

/// The condition of `socket` for this family.
fn family(family: c::c_int) -> Made<SeccompCondition> {
    condition(0, Is::Eq, u64::from(family.unsigned_abs()))
}

/// `socket`, for TCP and UDP. Never those that see packets.
fn sockets_of_ip() -> Made<Vec<SeccompRule>> {
    // Without flags: SOCK_NONBLOCK and SOCK_CLOEXEC.
    let kind = |kind: c::c_int| condition(1, Is::MaskedEq(0xff), u64::from(kind.unsigned_abs()));
    let all = [c::AF_INET, c::AF_INET6]
        .into_iter()
        .flat_map(|ip| [c::SOCK_DGRAM, c::SOCK_STREAM].map(|datagrams| (ip, datagrams)));
    all.map(|(ip, sort)| Ok(SeccompRule::new(vec![family(ip)?, kind(sort)?])?)).collect()
}

/// Calls that name a process, or a thread: permitted only for this process.
fn of_own_process() -> Made<Rules> {
    let one = |condition| -> Made<Vec<SeccompRule>> { Ok(vec![SeccompRule::new(vec![condition])?]) };
    let own = u64::from(rustix::process::getpid().as_raw_pid().unsigned_abs());
    let mut rules = Rules::new();
    rules.insert(c::SYS_tgkill, one(condition(0, Is::Eq, own)?)?);
    rules.insert(c::SYS_prlimit64, one(condition(0, Is::Eq, 0)?)?);
    rules.insert(c::SYS_sched_setaffinity, one(condition(0, Is::Eq, 0)?)?);
    let [process, of_process] = [0, 1].map(|argument| condition(argument, Is::Eq, 0));
    rules.insert(c::SYS_setpriority, vec![SeccompRule::new(vec![process?, of_process?])?]);
    // No signals about descriptors.
    let others = [c::F_SETOWN, F_SETOWN_EX].map(|command| u64::from(command.unsigned_abs()));
    let others = others.iter().map(|command| condition(1, Is::Ne, *command)).collect::<Made<_>>()?;
    rules.insert(c::SYS_fcntl, vec![SeccompRule::new(others)?]);
    Ok(rules)
}

/// A condition on the lower 32 bits of an argument: the kernel takes these arguments as numbers of 32 bits.
fn condition(argument: u8, is: Is, value: u64) -> Made<SeccompCondition> {
    Ok(SeccompCondition::new(argument, Length::Dword, is, value)?)
}

/// Answers as if the kernel had no `clone3`, whose flags are in memory, where a filter cannot read them: the
/// C library then makes threads with `clone`. The same for calls that came with later versions of the kernel
/// (numbers from 449 on: Linux 5.16): C libraries try them, and do without them only if they are unknown.
fn without_newer(permitted: &Rules) -> Made<BpfProgram> {
    let newer = (449..512).filter(|call| !permitted.contains_key(call));
    program(newer.chain([c::SYS_clone3]).map(|call| (call, vec![])).collect(), c::ENOSYS, false)
}

/// A program that answers with an error: all calls but these if they are `permitted`, else these. Calls of
/// another calling convention end the process: those of 32 bits. Numbers of x32 are in no list.
fn program(rules: Rules, error: c::c_int, permitted: bool) -> Made<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let [others, these] = match permitted {
        true => [refuse, SeccompAction::Allow],
        false => [SeccompAction::Allow, refuse],
    };
    Ok(SeccompFilter::new(rules, others, these, arch)?.try_into()?)
}

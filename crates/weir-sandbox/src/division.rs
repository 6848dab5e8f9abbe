//! Divides a process in two, and watches over the new one.
#![allow(unsafe_code)]

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};
use std::io;

/// Which of the two processes goes on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process that was there before.
    Parent {
        /// The new process.
        child: Pid,
    },
    /// The new process.
    Child,
}

/// Divides the process: a copy of it goes on from here, too (fork(2)). The process has one thread, so nothing
/// is held by a thread that the copy lacks. Signals are blocked in both: the new process
/// [accepts](accept_signals) them, the other one [watches](watch).
///
/// # Errors
/// If the process has other threads, or the system makes no process.
pub fn divide() -> io::Result<Side> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("the process has {threads} threads and cannot be divided")));
    }
    set_mask(libc::SIG_BLOCK)?;
    // A parent of this process may have left these signals ignored: there would be no end to wait for.
    // SAFETY: the default needs no code of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: the process has one thread: no lock is held by another one, and the copy may call everything.
    match unsafe { libc::fork() } {
        0 => Ok(Side::Child),
        -1 => {
            let error = io::Error::last_os_error();
            set_mask(libc::SIG_UNBLOCK)?;
            Err(error)
        }
        number => {
            let child = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Side::Parent { child })
        }
    }
}

/// In the new process: accepts signals again, and ends with the other process. Called once the process has
/// given up its rights, which would cancel the second.
///
/// # Errors
/// If the other process has ended already.
pub fn accept_signals(other: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(other) {
        return Err(io::Error::other("the process that keeps the rights has ended"));
    }
    set_mask(libc::SIG_UNBLOCK)
}

/// Signals that are passed on to a watched process. A stop (SIGTSTP) and the end of a stop stop and continue
/// this process.
const PASSED_ON: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

fn signals() -> libc::sigset_t {
    // SAFETY: zeros are a valid set, which the calls change.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

fn set_mask(how: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads the set.
    match unsafe { libc::sigprocmask(how, &signals(), std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the end of the new process, and passes signals on to it. Signals of a terminal reach it twice.
///
/// # Errors
/// If there is no such process.
pub fn watch(child: Pid) -> io::Result<WaitStatus> {
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG)? {
            return Ok(status);
        }
        // SAFETY: the kernel reads the set, and writes nothing.
        let signal = unsafe { libc::sigwaitinfo(&signals(), std::ptr::null_mut()) };
        if PASSED_ON.contains(&signal)
            && let Some(signal) = Signal::from_named_raw(signal)
        {
            // It may just have ended.
            let _ = rustix::process::kill_process(child, signal);
        }
    }
}

/// Enters a network namespace of its own, if the kernel has one.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: the call has no pointers, and closes nothing.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The kernel has no namespaces, or no more of them.
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSPC | libc::EUSERS)) => {
                Ok(())
            }
            error => Err(error),
        },
    }
}

/// Closes this process to other processes of its user: its memory, and what it has open (ptrace(2), proc(5)).
///
/// # Errors
/// If the kernel refuses.
pub fn close_to_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

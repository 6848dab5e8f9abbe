//! Stops calls of the system in the kernel, until another process has answered them (seccomp_unotify(2)).
#![allow(unsafe_code)]

use libc as c;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Calls that are stopped are answered here.
#[derive(Debug)]
pub(crate) struct Stopped(OwnedFd);

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    id: u64,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The kernel carries the call out, with the rights of its thread.
    Native,
    /// The call returns this number.
    Number(i64),
    /// The call fails.
    Error(rustix::io::Errno),
    /// The call returns a descriptor for what is open here; `true`: which a new program does not get.
    Descriptor(OwnedFd, bool),
}

/// linux/seccomp.h, `seccomp_data`: where the arguments begin. The lower half of each comes first, on the
/// processors that Weir runs on.
const ARGUMENTS_AT: u32 = 16;
/// linux/seccomp.h: a call that is stopped waits for its answer, whatever signals come (Linux 5.19).
const WAIT_KILLABLE: c::c_ulong = 1 << 5;

/// A call that is stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub call: i64,
    /// The call goes on if this argument has one of these bits.
    pub unless: Option<(u8, u32)>,
}

/// Stops these calls of this thread, and of those that it starts from now on. The thread has given up new
/// rights.
///
/// # Errors
/// If another process answers calls of this one already, or the kernel is older than Linux 5.19.
pub(crate) fn stop(calls: &[Stop]) -> io::Result<Stopped> {
    let instruction = |code: u32, k: u32, [yes, no]: [u8; 2]| c::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: yes,
        jf: no,
        k,
    };
    let load = |at: u32| instruction(c::BPF_LD | c::BPF_W | c::BPF_ABS, at, [0, 0]);
    // The number of the call is the first word (linux/seccomp.h, `seccomp_data`).
    let mut program = vec![load(0)];
    for &Stop { call, unless } in calls {
        let number = u32::try_from(call).unwrap_or(u32::MAX);
        let skipped = if unless.is_some() { 4 } else { 1 };
        program.push(instruction(c::BPF_JMP | c::BPF_JEQ | c::BPF_K, number, [0, skipped]));
        if let Some((argument, bits)) = unless {
            program.push(load(ARGUMENTS_AT + 8 * u32::from(argument)));
            program.push(instruction(c::BPF_JMP | c::BPF_JSET | c::BPF_K, bits, [0, 1]));
            program.push(instruction(c::BPF_RET | c::BPF_K, c::SECCOMP_RET_ALLOW, [0, 0]));
        }
        program.push(instruction(c::BPF_RET | c::BPF_K, c::SECCOMP_RET_USER_NOTIF, [0, 0]));
    }
    program.push(instruction(c::BPF_RET | c::BPF_K, c::SECCOMP_RET_ALLOW, [0, 0]));
    let filter = c::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_mut_ptr(),
    };
    let flags = c::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;
    // SAFETY: the kernel only reads the filter. The filter names `len` instructions, which live until the
    // call returns.
    let made = unsafe { c::syscall(c::SYS_seccomp, c::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    match c::c_int::try_from(made) {
        // SAFETY: the kernel has just made the descriptor.
        Ok(number) if number >= 0 => Ok(Stopped(unsafe { OwnedFd::from_raw_fd(number) })),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Stopped {
    /// What another process has passed on.
    pub fn of(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn request<T>(&self, request: c::Ioctl, with: &mut T) -> io::Result<c::c_int> {
        // SAFETY: each request below has the structure that the kernel reads and writes for it.
        match unsafe { c::ioctl(self.0.as_raw_fd(), request, with) } {
            -1 => Err(io::Error::last_os_error()),
            done => Ok(done),
        }
    }

    /// Waits for the next call.
    ///
    /// # Errors
    /// If no process is left that makes calls.
    pub fn next(&self) -> io::Result<Call> {
        loop {
            // SAFETY: zeros are a valid structure, and the only one that the kernel accepts.
            let mut got: c::seccomp_notif = unsafe { std::mem::zeroed() };
            match self.request(c::SECCOMP_IOCTL_NOTIF_RECV, &mut got) {
                Ok(_) => {
                    let number = got.data.nr.into();
                    return Ok(Call { id: got.id, number, arguments: got.data.args });
                }
                // This thread has a signal, or that one has ended. If all have, the kernel says the same from
                // Linux 6.11 on.
                Err(error) if matches!(error.raw_os_error(), Some(c::ENOENT | c::EINTR)) => {
                    if self.is_over()? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether no process is left that makes calls.
    fn is_over(&self) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        rustix::event::poll(&mut ready, Some(&Timespec::default()))?;
        Ok(ready[0].revents().contains(PollFlags::HUP))
    }

    /// Answers a call. A thread that has ended meanwhile needs no answer.
    pub fn answer(&self, call: Call, answer: Answer) {
        let (mut val, mut error, mut flags) = (0, 0, 0);
        match answer {
            Answer::Native => flags = u32::try_from(c::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or_default(),
            Answer::Number(number) => val = number,
            Answer::Error(errno) => error = -errno.raw_os_error(),
            Answer::Descriptor(descriptor, closes) => match self.give(call, &descriptor, closes) {
                Ok(()) => return,
                Err(failed) => error = -failed.raw_os_error().unwrap_or(c::EIO),
            },
        }
        let mut answer = c::seccomp_notif_resp { id: call.id, val, error, flags };
        let _ = self.request(c::SECCOMP_IOCTL_NOTIF_SEND, &mut answer);
    }

    /// Gives the thread a descriptor, and lets its call return it (Linux 5.14).
    fn give(&self, call: Call, descriptor: &OwnedFd, closes: bool) -> io::Result<()> {
        let mut given = c::seccomp_notif_addfd {
            id: call.id,
            flags: u32::try_from(c::SECCOMP_ADDFD_FLAG_SEND).unwrap_or_default(),
            srcfd: descriptor.as_raw_fd().unsigned_abs(),
            newfd: 0,
            newfd_flags: if closes { c::O_CLOEXEC.unsigned_abs() } else { 0 },
        };
        self.request(c::SECCOMP_IOCTL_NOTIF_ADDFD, &mut given).map(drop)
    }
}

/// What the kernel says about an open file, as one of the calls `newfstatat`, `statx` (with the parts in
/// `mask`) and `statfs` would write it.
///
/// # Errors
/// Those of the call.
pub(crate) fn description(number: i64, of: BorrowedFd<'_>, mask: u64) -> rustix::io::Result<Vec<u8>> {
    let bytes = match number {
        c::SYS_newfstatat => size_of::<c::stat>(),
        c::SYS_statx => size_of::<c::statx>(),
        _ => size_of::<c::statfs>(),
    };
    let mut room = vec![0u8; bytes];
    let (file, to, empty) = (of.as_raw_fd(), room.as_mut_ptr(), c::AT_EMPTY_PATH);
    // SAFETY: the kernel writes the structure of the call, for which there is room.
    let done = unsafe {
        match number {
            c::SYS_newfstatat => c::syscall(number, file, c"".as_ptr(), to, empty),
            c::SYS_statx => c::syscall(number, file, c"".as_ptr(), empty, mask, to),
            _ => c::syscall(c::SYS_fstatfs, file, to),
        }
    };
    match done {
        0 => Ok(room),
        _ => {
            Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
                .unwrap_or(rustix::io::Errno::IO))
        }
    }
}

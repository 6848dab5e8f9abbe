//! Opens files for another process, which has no right to do so itself.
//!
//! The worker's calls with names of files stop in the kernel, and a thread of this side reads the names from
//! the worker's memory. Names beneath the folders that were stated at the start are opened here, with the
//! rights of this side, and the worker gets the descriptor. The kernel holds each name beneath its folder
//! (`RESOLVE_BENEATH`, openat2(2)). All other calls go on with the rights of the worker. The name is read
//! once: a worker that changes its memory meanwhile changes nothing.
//!
//! If the worker needs the network, its sockets are made here, too: their owner, whom the other ends on this
//! machine ask for, is then the user of this side.

use crate::KeeperCalls;
use crate::grants::{Grant, Granted, Grants, Use, Want, is_by_process};
use crate::stopped::{Answer, Call, Stop, Stopped, description, stop};
use libc as c;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::thread::CapabilitySet;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_guard::sockets;

/// Calls that name files and that are stopped, in today's form.
const STOPPED: &[i64] = &[
    c::SYS_faccessat,
    c::SYS_faccessat2,
    c::SYS_linkat,
    c::SYS_mkdirat,
    c::SYS_newfstatat,
    c::SYS_openat,
    c::SYS_readlinkat,
    c::SYS_renameat,
    c::SYS_renameat2,
    c::SYS_socket,
    c::SYS_statfs,
    c::SYS_statx,
    c::SYS_unlinkat,
];

/// A call that is no longer made in this form, and the call that does the same.
struct Older {
    number: i64,
    today: i64,
    /// The arguments of today's call.
    arguments: fn([u64; 6]) -> [u64; 6],
}

const fn older(number: i64, today: i64, arguments: fn([u64; 6]) -> [u64; 6]) -> Older {
    Older { number, today, arguments }
}

/// The older forms, which only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Older] = &[
    older(c::SYS_access, c::SYS_faccessat, |[name, mode, ..]| [HERE, name, mode, 0, 0, 0]),
    older(c::SYS_link, c::SYS_linkat, |[from, to, ..]| [HERE, from, HERE, to, 0, 0]),
    older(c::SYS_lstat, c::SYS_newfstatat, |[name, to, ..]| [HERE, name, to, NO_FOLLOW, 0, 0]),
    older(c::SYS_mkdir, c::SYS_mkdirat, |[name, mode, ..]| [HERE, name, mode, 0, 0, 0]),
    older(c::SYS_open, c::SYS_openat, |[name, flags, mode, ..]| [HERE, name, flags, mode, 0, 0]),
    older(c::SYS_readlink, c::SYS_readlinkat, |[name, to, bytes, ..]| [HERE, name, to, bytes, 0, 0]),
    older(c::SYS_rename, c::SYS_renameat, |[from, to, ..]| [HERE, from, HERE, to, 0, 0]),
    older(c::SYS_rmdir, c::SYS_unlinkat, |[name, ..]| [HERE, name, c::AT_REMOVEDIR as u64, 0, 0, 0]),
    older(c::SYS_stat, c::SYS_newfstatat, |[name, to, ..]| [HERE, name, to, 0, 0, 0]),
    older(c::SYS_unlink, c::SYS_unlinkat, |[name, ..]| [HERE, name, 0, 0, 0, 0]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Older] = &[];

/// The directory of the process, as an argument.
const HERE: u64 = c::AT_FDCWD as u64;
/// A link is not followed, as an argument.
const NO_FOLLOW: u64 = c::AT_SYMLINK_NOFOLLOW as u64;

/// Threads that answer, besides one for each pipe that was named.
const THREADS: usize = 8;
/// Such pipes at most.
const PIPES_MAX: usize = 256;
/// Bytes of a name at most (linux/limits.h).
const NAME_BYTES_MAX: usize = 4096;
/// Names in folders that grow that are remembered.
const MADE_MAX: usize = 1 << 16;
/// Links that are followed to another folder.
const LINKS_MAX: usize = 8;
/// Bits of new folders, and of new files: nobody but the owner and the group gets a right to write, and no
/// output is a program.
const FOLDER_MODE: u64 = 0o775;
const FILE_MODE: u64 = 0o664;
/// Flags that a worker may state.
const FLAGS: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::CREATE)
    .union(OFlags::DIRECT)
    .union(OFlags::DIRECTORY)
    .union(OFlags::DSYNC)
    .union(OFlags::EXCL)
    .union(OFlags::NOATIME)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::SYNC)
    .union(OFlags::TMPFILE)
    .union(OFlags::TRUNC);

/// The side that opens files.
#[derive(Debug)]
pub struct Opener {
    grants: Vec<Grant>,
    /// The worker's sockets of IP are made here.
    makes_sockets: bool,
    /// Descriptors that both sides have from the start, with their numbers.
    inherited: Vec<(String, OwnedFd)>,
    /// Named pipes among the files: a pipe that is opened waits in a thread for its other end.
    pipes: usize,
    /// The directory in which names begin.
    here: PathBuf,
    /// What the worker has made in folders that grow.
    made: Mutex<HashSet<PathBuf>>,
}

/// The directory of a file, and its name there.
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// The absolute name, in a folder that grows.
    growing: Option<PathBuf>,
}

/// What a call asks about a file.
struct Asked {
    /// The number of the call.
    number: i64,
    flags: u64,
    /// The parts that `statx` wants.
    mask: u64,
    /// The address of the answer.
    to: u64,
}

type Done<T> = rustix::io::Result<T>;

/// The capabilities of the side that opens files, for a worker that root has started: all files in its
/// folders can be read, written and removed.
pub const OPENER_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER);

/// Stops the calls of this thread that name files, and of those that it starts from now on, and passes them
/// to an [`Opener`] at the other end of the socket. The thread has given up new rights. The inner result says
/// why no calls are stopped: the kernel is too old or lets no process see the memory of another one, or
/// another process answers calls of this one already. The opener learns of that, too.
///
/// # Errors
/// If the other end is closed.
pub fn ask_opener(socket: &UnixStream) -> io::Result<Result<(), String>> {
    // The opener has the worker's memory open: it could not open it once the worker is another user.
    let mut has_memory = [0];
    let (received, _) = sockets::receive(socket, &mut has_memory)?;
    if received == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process that opens files has ended"));
    }
    if has_memory == [0] {
        return Ok(Err("this system lets no process see the memory of another one (ptrace)".into()));
    }
    let older = OLDER.iter().map(|older| Stop { call: older.number, unless: unserved(older.number) });
    let today = STOPPED.iter().map(|&call| Stop { call, unless: unserved(call) });
    let all: Vec<Stop> = today.chain(older).collect();
    // A signal would carry a call out twice before Linux 5.19.
    let stopped = match crate::rights::is_linux([5, 19]) {
        true => stop(&all).map_err(|error| match error.raw_os_error() {
            Some(c::EBUSY) => "another process answers calls of this one already".to_string(),
            _ => error.to_string(),
        }),
        false => Err("before Linux 5.19, calls are not passed to another process".to_string()),
    };
    sockets::send(socket, &[0], stopped.as_ref().ok().map(Stopped::descriptor))?;
    Ok(stopped.map(drop))
}

/// What marks a call that is not served: an argument, and its bits. A descriptor needs no name, one that only
/// names a file (`O_PATH`) needs no rights, and only sockets of IP have an owner whom others ask for.
fn unserved(call: i64) -> Option<(u8, u32)> {
    let empty = c::AT_EMPTY_PATH.unsigned_abs();
    match call {
        c::SYS_openat => Some((2, c::O_PATH.unsigned_abs())),
        c::SYS_newfstatat => Some((3, empty)),
        c::SYS_statx => Some((2, empty)),
        // Bits of AF_UNIX and AF_NETLINK, which AF_INET and AF_INET6 do not have.
        c::SYS_socket => Some((0, (c::AF_UNIX | c::AF_NETLINK).unsigned_abs())),
        _ => None,
    }
}

impl Opener {
    /// Opens the folders.
    ///
    /// # Errors
    /// If the process has no directory.
    pub fn new(grants: &Grants) -> io::Result<Self> {
        let here = std::env::current_dir()?;
        let (mut all, mut inherited) = (vec![], standard_descriptors()?);
        let mut pipes = 0;
        for (path, allowed, extent) in grants.all() {
            let path = normal(&here.join(path));
            inherited.extend(inherit(&path));
            let is_pipe = path.metadata().is_ok_and(|about| about.file_type().is_fifo());
            pipes += usize::from(is_pipe && number_of(&path).is_none());
            let target = path.canonicalize().ok();
            let names = [Some(&path), target.as_ref().filter(|target| **target != path)];
            all.extend(names.into_iter().flatten().filter_map(|path| Grant::open(path, allowed, extent)));
        }
        Ok(Self {
            grants: all,
            makes_sockets: grants.makes_sockets,
            inherited,
            pipes,
            here,
            made: Mutex::default(),
        })
    }

    /// The calls that the opener makes.
    pub fn calls(&self) -> KeeperCalls {
        KeeperCalls::Opens { makes_sockets: self.makes_sockets }
    }

    /// Answers the worker's calls in threads of its own, and returns once the worker has begun to ask. The
    /// first thread calls `limit`, which gives up all rights of the thread but those to open files, and
    /// starts the others. Then each calls `restrict`, after which a thread starts no other one.
    ///
    /// # Errors
    /// If the worker has ended, or the system makes no thread.
    pub fn serve(
        self,
        worker: Pid,
        socket: &UnixStream,
        limit: impl FnOnce() + Send + 'static,
        restrict: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<()> {
        let memory = format!("/proc/{}/mem", worker.as_raw_pid());
        let Ok(memory) = File::options().read(true).write(true).open(memory) else {
            // By the rules for ptrace(2): Yama, SELinux.
            return sockets::send(socket, &[0], None);
        };
        let memory = Arc::new(memory);
        sockets::send(socket, &[1], None)?;
        let (_, Some(stopped)) = sockets::receive(socket, &mut [0])? else { return Ok(()) };
        let threads = THREADS + self.pipes.min(PIPES_MAX);
        let (stopped, this) = (Arc::new(Stopped::of(stopped)), Arc::new(self));
        let answer = move || {
            restrict();
            while let Ok(call) = stopped.next() {
                let answer = this.answer(call, &memory).unwrap_or_else(Answer::Error);
                stopped.answer(call, answer);
            }
        };
        let thread = || std::thread::Builder::new().name("weir-opener".into());
        let first = move || {
            limit();
            // Where the system makes fewer threads, fewer calls are answered at a time.
            for _ in 1..threads {
                let _ = thread().spawn(answer.clone());
            }
            answer();
        };
        thread().spawn(first).map(drop)
    }

    fn answer(&self, call: Call, memory: &File) -> Done<Answer> {
        let older = OLDER.iter().find(|older| older.number == call.number);
        let number = older.map_or(call.number, |older| older.today);
        let arguments = older.map_or(call.arguments, |older| (older.arguments)(call.arguments));
        let [from, name, third, fourth, ..] = arguments;
        let file = |from: u64, name: u64| self.named(memory, from, name);
        match number {
            c::SYS_statfs => {
                let asked = Asked { number, flags: 0, mask: 0, to: name };
                self.describe(memory, file(HERE, from)?, asked)
            }
            c::SYS_newfstatat => {
                let asked = Asked { number, flags: fourth, mask: 0, to: third };
                self.describe(memory, file(from, name)?, asked)
            }
            c::SYS_statx => {
                let asked = Asked { number, flags: third, mask: fourth, to: arguments[4] };
                self.describe(memory, file(from, name)?, asked)
            }
            c::SYS_openat => match file(from, name)? {
                Some(path) => self.open(&path, third, fourth),
                None => Ok(Answer::Native),
            },
            c::SYS_readlinkat => {
                let Some(path) = file(from, name)? else { return Ok(Answer::Native) };
                let Some(link) = self.look(&path, OFlags::NOFOLLOW)? else { return Ok(Answer::Native) };
                let target = rustix::fs::readlinkat(link, "", vec![]).map_err(|error| match error {
                    // No link: the kernel's answer to a name is another one than that to a descriptor.
                    Errno::NOENT => Errno::INVAL,
                    error => error,
                })?;
                let bytes = target.as_bytes();
                let bytes = &bytes[..bytes.len().min(usize::try_from(fourth).unwrap_or(usize::MAX))];
                memory.write_all_at(bytes, third).map_err(|_| Errno::FAULT)?;
                Ok(Answer::Number(i64::try_from(bytes.len()).unwrap_or_default()))
            }
            c::SYS_faccessat | c::SYS_faccessat2 => {
                let Some(path) = file(from, name)? else { return Ok(Answer::Native) };
                let Some(_there) = self.look(&path, OFlags::empty())? else { return Ok(Answer::Native) };
                let writes = third & c::W_OK as u64 != 0;
                let file = self.granted(&path, Want::Write);
                let may = !writes || file.is_some_and(|file| !file.is_of_maker() || self.is_made(&path));
                if may { Ok(Answer::Number(0)) } else { Err(Errno::ACCESS) }
            }
            c::SYS_mkdirat => {
                let Some(path) = file(from, name)? else { return Ok(Answer::Native) };
                let Some(new) = self.place(&path, Want::MakeFolder)? else { return Ok(Answer::Native) };
                self.check_new(new.growing.as_deref())?;
                let mode = Mode::from_raw_mode((third & FOLDER_MODE) as u32);
                rustix::fs::mkdirat(new.directory, new.name, mode)?;
                self.made().extend(new.growing);
                Ok(Answer::Number(0))
            }
            c::SYS_unlinkat => {
                let Some(path) = file(from, name)? else { return Ok(Answer::Native) };
                let Some(old) = self.place(&path, Want::Remove)? else { return Ok(Answer::Native) };
                self.check_old(old.growing.as_deref())?;
                let of_directory = third & c::AT_REMOVEDIR as u64 != 0;
                let flags = if of_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(old.directory, old.name, flags)?;
                self.made().retain(|path| Some(path) != old.growing.as_ref());
                Ok(Answer::Number(0))
            }
            c::SYS_renameat | c::SYS_renameat2 | c::SYS_linkat => {
                let (Some(old), Some(new)) = (file(from, name)?, file(third, fourth)?) else {
                    return Ok(Answer::Native);
                };
                let flags = if number == c::SYS_renameat { 0 } else { arguments[4] as u32 };
                let place = |path: &Path| self.place(path, Want::Change);
                let (Some(old), Some(new)) = (place(&old)?, place(&new)?) else { return Ok(Answer::Native) };
                self.rename(number == c::SYS_linkat, old, new, flags)?;
                Ok(Answer::Number(0))
            }
            c::SYS_socket if self.makes_sockets => socket(from, name, third),
            _ => Ok(Answer::Native),
        }
    }

    /// The absolute name of a file, from the worker's memory. `None`: the name begins at a descriptor of the
    /// worker, or cannot be read.
    fn named(&self, memory: &File, from: u64, name: u64) -> Done<Option<PathBuf>> {
        let mut bytes = vec![0; NAME_BYTES_MAX];
        let mut length = 0;
        // The memory after the name may belong to nobody.
        while length < bytes.len() && !bytes[..length].contains(&0) {
            let page = NAME_BYTES_MAX - (name as usize).wrapping_add(length) % NAME_BYTES_MAX;
            let end = (length + page).min(bytes.len());
            match memory.read_at(&mut bytes[length..end], name.wrapping_add(length as u64)) {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => length += count,
            }
        }
        let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::NAMETOOLONG)?;
        bytes.truncate(end);
        let path = PathBuf::from(OsString::from_vec(bytes));
        let begins_here = from as u32 == HERE as u32 && !path.as_os_str().is_empty();
        Ok((path.is_absolute() || begins_here).then(|| normal(&self.here.join(path))))
    }

    /// The file, if the worker may do this with it: in the nearest of several folders. A folder that grows
    /// takes nothing away from the others.
    fn granted(&self, path: &Path, want: Want) -> Option<Granted<'_>> {
        if is_by_process(path) {
            return None;
        }
        let all = self.grants.iter().filter_map(|grant| grant.file(path, want));
        all.max_by_key(|file| (file.grant.allowed != Use::Make, file.grant.depth()))
    }

    fn made(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the worker has made this file, or a folder above it.
    fn is_made(&self, path: &Path) -> bool {
        let made = self.made();
        path.ancestors().any(|path| made.contains(path))
    }

    /// Whether a name in a folder that grows may be given to a new file: in the folder itself, or in one that
    /// the worker has made there.
    fn check_new(&self, growing: Option<&Path>) -> Done<()> {
        let Some(path) = growing else { return Ok(()) };
        let above = path.parent().unwrap_or(path);
        let is_direct = self.grants.iter().any(|grant| grant.allowed == Use::Make && grant.is_of(above));
        match is_direct || self.is_made(above) {
            true if self.made().len() < MADE_MAX => Ok(()),
            true => Err(Errno::NOSPC),
            false => Err(Errno::ACCESS),
        }
    }

    /// Whether a name in a folder that grows is that of a file that the worker has made.
    fn check_old(&self, growing: Option<&Path>) -> Done<()> {
        if growing.is_none_or(|path| self.is_made(path)) { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// Renames a file, or gives it a second name.
    fn rename(&self, is_link: bool, old: Place, new: Place, flags: u32) -> Done<()> {
        self.check_old(old.growing.as_deref())?;
        let is_new = new.growing.as_ref().is_some_and(|path| !self.is_made(path));
        if is_new {
            self.check_new(new.growing.as_deref())?;
        }
        match is_link {
            true if flags == 0 => {
                rustix::fs::linkat(old.directory, old.name, new.directory, new.name, AtFlags::empty())?;
            }
            true => return Err(Errno::INVAL),
            false => {
                let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
                let flags = RenameFlags::from_bits(flags).filter(|flags| known.contains(*flags));
                let mut flags = flags.ok_or(Errno::INVAL)?;
                if is_new {
                    // The kernel refuses an exchange with a file that must not be there.
                    flags |= RenameFlags::NOREPLACE;
                }
                rustix::fs::renameat_with(old.directory, old.name, new.directory, new.name, flags)?;
                self.made().retain(|path| Some(path) != old.growing.as_ref());
            }
        }
        self.made().extend(new.growing);
        Ok(())
    }

    /// The file whose name is made, changed, or removed. `None`: no file that the worker may name.
    fn changed(&self, path: &Path, want: Want) -> Done<Option<Granted<'_>>> {
        match self.granted(path, want) {
            None if self.granted(path, Want::Describe).is_some() => Err(Errno::ACCESS),
            file => Ok(file),
        }
    }

    /// What both sides have open by this name.
    fn inherited(&self, path: &Path) -> Option<Done<OwnedFd>> {
        let number = number_of(path)?;
        let (_, own) = self.inherited.iter().find(|(inherited, _)| inherited == number)?;
        Some(own.try_clone().map_err(|_| Errno::MFILE))
    }

    fn open(&self, path: &Path, flags: u64, mode: u64) -> Done<Answer> {
        let stated = OFlags::from_bits_retain(flags as u32);
        let closes = stated.contains(OFlags::CLOEXEC);
        if let Some(own) = self.inherited(path) {
            return Ok(Answer::Descriptor(own?, closes));
        }
        if stated.contains(OFlags::PATH) {
            return Ok(Answer::Native);
        }
        let creates = stated.contains(OFlags::CREATE) || stated.contains(OFlags::TMPFILE);
        let writes = creates || stated.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC);
        let mode = Mode::from_raw_mode(if creates { (mode & FILE_MODE) as u32 } else { 0 });
        let flags = stated & FLAGS | OFlags::CLOEXEC | OFlags::NOCTTY;
        let want = match stated.contains(OFlags::TMPFILE) {
            true => Want::Nameless,
            false if writes => Want::Write,
            false => Want::Read,
        };
        let opened = self.follow(path, want, |file| match want {
            Want::Nameless => open_nameless(file, flags, mode),
            _ if file.is_of_maker() && !self.is_made(&file.path()) => self.open_new(file, flags, mode),
            _ => file.open(flags, mode),
        })?;
        Ok(opened.map_or(Answer::Native, |file| Answer::Descriptor(file, closes)))
    }

    /// Opens a file that the worker has not made yet, in a folder that grows: a new one, or a pipe.
    fn open_new(&self, file: &Granted<'_>, flags: OFlags, mode: Mode) -> Done<OwnedFd> {
        if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            return Err(Errno::ACCESS);
        }
        let path = file.path();
        if flags.contains(OFlags::CREATE) && self.check_new(Some(&path)).is_ok() {
            match file.open(flags | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
                Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
                made => {
                    self.made().extend(made.is_ok().then_some(path));
                    return made;
                }
            }
        }
        file.open_pipe(flags)
    }

    /// Opens a file to describe it, also the directories above the folders. `None`: it is neither.
    fn look(&self, path: &Path, flags: OFlags) -> Done<Option<OwnedFd>> {
        if let Some(own) = self.inherited(path) {
            return own.map(Some);
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
        match self.follow(path, Want::Describe, |file| file.open(flags, Mode::empty()))? {
            None if self.grants.iter().any(|grant| grant.is_beneath(path)) => {
                rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).map(Some)
            }
            found => Ok(found),
        }
    }

    /// Opens a file in its folder, or, if its name has a link that leaves the folder, in the folder to which
    /// the link leads.
    fn follow<T>(&self, path: &Path, want: Want, open: impl Fn(&Granted<'_>) -> Done<T>) -> Done<Option<T>> {
        // A name that is given or taken away is that of a link, not of what the link leads to.
        let is_last_followed = !matches!(want, Want::Change | Want::Remove | Want::MakeFolder);
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let Some(file) = self.changed(&path, want)? else { return Ok(None) };
            match open(&file) {
                Err(Errno::XDEV) => match file.without_link(is_last_followed) {
                    Some(other) => path = normal(&other),
                    // What the kernel shows of itself, by the rights of the worker.
                    None if matches!(want, Want::Read | Want::Describe) => return Ok(None),
                    None => return Err(Errno::XDEV),
                },
                opened => return opened.map(Some),
            }
        }
        Err(Errno::LOOP)
    }

    /// Writes the description of a file to the worker's memory.
    fn describe(&self, memory: &File, path: Option<PathBuf>, asked: Asked) -> Done<Answer> {
        let Some(path) = path else { return Ok(Answer::Native) };
        let flags = if asked.flags & NO_FOLLOW == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
        let Some(file) = self.look(&path, flags)? else { return Ok(Answer::Native) };
        let bytes = description(asked.number, file.as_fd(), asked.mask)?;
        memory.write_all_at(&bytes, asked.to).map_err(|_| Errno::FAULT)?;
        Ok(Answer::Number(0))
    }

    /// The place of a name that is made, changed, or removed. `None`: the worker may not name the file.
    fn place(&self, path: &Path, want: Want) -> Done<Option<Place>> {
        let place = self.follow(path, want, |file| {
            let (directory, name) = file.parent()?;
            Ok(Place { directory, name, growing: file.is_of_maker().then(|| file.path()) })
        });
        place.map_err(|error| match error {
            Errno::BUSY if want == Want::MakeFolder => Errno::EXIST,
            error => error,
        })
    }
}

/// Makes a file without a name in this directory.
fn open_nameless(folder: &Granted<'_>, flags: OFlags, mode: Mode) -> Done<OwnedFd> {
    match folder.open(flags, mode) {
        // NFS, and overlayfs before Linux 6.3: the name is removed at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
        opened => return opened,
    }
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = OsString::from(format!(".weir-{}-{number}", getpid().as_raw_pid()));
    let named = folder.join(&name);
    let flags = (flags - OFlags::TMPFILE) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = named.open(flags, mode)?;
    let (directory, name) = named.parent()?;
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    Ok(file)
}

/// Makes a socket of TCP or UDP.
fn socket(family: u64, kind: u64, protocol: u64) -> Done<Answer> {
    let kind = i32::try_from(kind).map_err(|_| Errno::INVAL)?;
    let is = |asked: u64, one: c::c_int| asked == u64::from(one.unsigned_abs());
    let family = match family {
        _ if is(family, c::AF_INET) => AddressFamily::INET,
        _ if is(family, c::AF_INET6) => AddressFamily::INET6,
        _ => return Err(Errno::ACCESS),
    };
    let (kind, flags) = (kind & 0xff, kind & !0xff);
    let (kind, of_kind) = match kind {
        c::SOCK_STREAM => (SocketType::STREAM, c::IPPROTO_TCP),
        c::SOCK_DGRAM => (SocketType::DGRAM, c::IPPROTO_UDP),
        _ => return Err(Errno::ACCESS),
    };
    if protocol != 0 && !is(protocol, of_kind) {
        return Err(Errno::ACCESS);
    }
    let flags = SocketFlags::from_bits_retain(flags.unsigned_abs());
    let socket = rustix::net::socket_with(family, kind, flags | SocketFlags::CLOEXEC, None)?;
    Ok(Answer::Descriptor(socket, flags.contains(SocketFlags::CLOEXEC)))
}

/// The number of a descriptor, in a name that each process has for its own.
fn number_of(path: &Path) -> Option<&str> {
    match path.to_str()? {
        "/dev/stdin" => Some("0"),
        "/dev/stdout" => Some("1"),
        "/dev/stderr" => Some("2"),
        path => path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/")),
    }
}

fn standard_descriptors() -> io::Result<Vec<(String, OwnedFd)>> {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all = [input.as_fd(), output.as_fd(), errors.as_fd()].into_iter().zip(["0", "1", "2"]);
    // One that was closed at the start is no loss.
    let open = all.filter_map(|(descriptor, number)| Some((number, descriptor.try_clone_to_owned().ok()?)));
    Ok(open.map(|(number, descriptor)| (number.to_string(), descriptor)).collect())
}

/// What a shell has opened for this process (`<(…)`, `3<FILE`), if the name is that of a descriptor.
fn inherit(path: &Path) -> Option<(String, OwnedFd)> {
    let number = number_of(path)?;
    let itself = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let descriptor = pidfd_getfd(itself, number.parse().ok()?, PidfdGetfdFlags::empty()).ok()?;
    Some((number.to_string(), descriptor))
}

/// A name without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(all.pop()),
            part => all.push(part),
        }
    }
    all
}

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

use crate::stopped::{Answer, Call, Stop, Stopped, description, stop};
use crate::{Files, KeeperCalls};
use libc as c;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::thread::CapabilitySet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Threads that answer: a pipe that is opened waits in one of them for its other end.
const THREADS: usize = 8;
/// Bytes of a name at most (linux/limits.h).
const NAME_BYTES_MAX: usize = 4096;
/// Links that are followed to another folder.
const LINKS_MAX: usize = 8;
/// Bits of new files: as those that a worker may give a file that it has open.
const MODE: u64 = 0o775;
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
    folders: Vec<Folder>,
    /// The worker's sockets of IP are made here.
    makes_sockets: bool,
    /// Descriptors that both sides have from the start, with their numbers.
    inherited: Vec<(String, OwnedFd)>,
    /// The directory in which names begin.
    here: PathBuf,
}

/// A directory, or a file in it.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    directory: OwnedFd,
    /// The name of the only file.
    only: Option<OsString>,
    uses: Use,
}

/// What a worker may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Make files without a name, which end with it.
    Temporary,
    Read,
    Write,
}

/// The name of a file, beneath its folder.
struct Place<'a> {
    folder: &'a Folder,
    beneath: PathBuf,
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
/// to an [`Opener`] at the other end of the socket. The thread has given up new rights. `false`: the kernel
/// is too old, or another process answers calls of this one already; the opener learns of that, too.
///
/// # Errors
/// If the other end is closed.
pub fn ask_opener(socket: &UnixStream) -> io::Result<bool> {
    // The opener has the worker's memory open: it could not open it once the worker is another user.
    sockets::receive(socket, &mut [0])?;
    let older = OLDER.iter().map(|older| Stop { call: older.number, unless: unserved(older.number) });
    let today = STOPPED.iter().map(|&call| Stop { call, unless: unserved(call) });
    let all: Vec<Stop> = today.chain(older).collect();
    let stopped = if crate::rights::is_linux([5, 14]) { stop(&all).ok() } else { None };
    sockets::send(socket, &[0], stopped.as_ref().map(Stopped::descriptor))?;
    Ok(stopped.is_some())
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
    /// Opens the folders. In the `temporary` one, a worker can make files that have no name. With
    /// `makes_sockets`, its sockets of TCP and UDP are made here.
    ///
    /// # Errors
    /// If the process has no directory.
    pub fn new(files: &Files, temporary: Option<PathBuf>, makes_sockets: bool) -> io::Result<Self> {
        let here = std::env::current_dir()?;
        let temporary: Vec<_> = temporary.into_iter().collect();
        let (mut folders, mut inherited) = (vec![], standard_descriptors()?);
        for (paths, uses) in
            [(&files.read, Use::Read), (&files.write, Use::Write), (&temporary, Use::Temporary)]
        {
            for path in paths {
                let path = normal(&here.join(path));
                inherited.extend(inherit(&path));
                let target = path.canonicalize().ok();
                let all = [Some(&path), target.as_ref().filter(|target| **target != path)];
                // A folder that cannot be opened is closed to the worker, too.
                folders.extend(all.into_iter().flatten().filter_map(|path| Folder::open(path, uses)));
            }
        }
        Ok(Self { folders, makes_sockets, inherited, here })
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
        let memory = Arc::new(File::options().read(true).write(true).open(memory)?);
        sockets::send(socket, &[0], None)?;
        let (_, Some(stopped)) = sockets::receive(socket, &mut [0])? else { return Ok(()) };
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
            for _ in 1..THREADS {
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
                let may = !writes || self.place(&path).is_some_and(|place| place.folder.uses == Use::Write);
                if may { Ok(Answer::Number(0)) } else { Err(Errno::ACCESS) }
            }
            c::SYS_mkdirat => self.change(file(from, name)?, |directory, name| {
                rustix::fs::mkdirat(directory, name, Mode::from_raw_mode((third & MODE) as u32))
            }),
            c::SYS_unlinkat => self.change(file(from, name)?, |directory, name| {
                let of_directory = third & c::AT_REMOVEDIR as u64 != 0;
                let flags = if of_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(directory, name, flags)
            }),
            c::SYS_renameat | c::SYS_renameat2 | c::SYS_linkat => {
                let (Some(old), Some(new)) = (file(from, name)?, file(third, fourth)?) else {
                    return Ok(Answer::Native);
                };
                let flags = if number == c::SYS_renameat { 0 } else { arguments[4] };
                let (old, new) = (self.changed(&old)?, self.changed(&new)?);
                let (Some(old), Some(new)) = (old, new) else { return Ok(Answer::Native) };
                let ((from, old), (to, new)) = (old.parent()?, new.parent()?);
                match number {
                    c::SYS_linkat if flags == 0 => rustix::fs::linkat(from, old, to, new, AtFlags::empty())?,
                    c::SYS_linkat => return Err(Errno::INVAL),
                    _ => {
                        let flags = RenameFlags::from_bits_retain(flags as u32);
                        rustix::fs::renameat_with(from, old, to, new, flags)?;
                    }
                }
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

    /// The folder of a file. Of several, the innermost that can be written.
    fn place(&self, path: &Path) -> Option<Place<'_>> {
        if is_by_process(path) {
            return None;
        }
        let has = |folder: &&Folder| match folder.only {
            Some(_) => folder.path == path,
            None => path.starts_with(&folder.path),
        };
        let inner = |folder: &&Folder| (folder.uses, folder.path.components().count());
        let folder = self.folders.iter().filter(has).max_by_key(inner)?;
        let beneath = match &folder.only {
            Some(name) => name.into(),
            None => path.strip_prefix(&folder.path).ok()?.to_path_buf(),
        };
        Some(Place { folder, beneath })
    }

    /// The place of a file whose name is made, changed, or removed.
    fn changed(&self, path: &Path) -> Done<Option<Place<'_>>> {
        match self.place(path) {
            Some(place) if place.folder.uses != Use::Write => Err(Errno::ACCESS),
            place => Ok(place),
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
        let mode = Mode::from_raw_mode(if creates { (mode & MODE) as u32 } else { 0 });
        let flags = stated & FLAGS | OFlags::CLOEXEC | OFlags::NOCTTY;
        let is_nameless = stated.contains(OFlags::TMPFILE);
        let opened = self.follow(path, |place| match place.folder.uses {
            Use::Read if writes => Err(Errno::ACCESS),
            Use::Temporary if !is_nameless => Err(Errno::ACCESS),
            _ if is_nameless => place.open_nameless(flags, mode),
            _ => place.open(flags, mode),
        })?;
        Ok(opened.map_or(Answer::Native, |file| Answer::Descriptor(file, closes)))
    }

    /// Opens a file to describe it, also the directories above the folders. `None`: it is neither.
    fn look(&self, path: &Path, flags: OFlags) -> Done<Option<OwnedFd>> {
        if let Some(own) = self.inherited(path) {
            return own.map(Some);
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
        let is_above = |folder: &Folder| folder.path.starts_with(path);
        match self.follow(path, |place| place.open(flags, Mode::empty()))? {
            None if self.folders.iter().any(is_above) => {
                rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).map(Some)
            }
            found => Ok(found),
        }
    }

    /// Opens a file in its folder, or, if its name is a link that leaves the folder, in the folder of the
    /// link's target.
    fn follow(&self, path: &Path, open: impl Fn(&Place<'_>) -> Done<OwnedFd>) -> Done<Option<OwnedFd>> {
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let Some(place) = self.place(&path) else { return Ok(None) };
            match open(&place) {
                Err(Errno::XDEV) => {
                    let (directory, name) = place.parent()?;
                    let target = rustix::fs::readlinkat(directory, name, vec![]).map_err(|_| Errno::XDEV)?;
                    let above = path.parent().unwrap_or(&path);
                    path = normal(&above.join(OsStr::from_bytes(target.as_bytes())));
                }
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

    /// Changes a name in its directory.
    fn change(&self, path: Option<PathBuf>, change: impl Fn(&OwnedFd, &OsStr) -> Done<()>) -> Done<Answer> {
        let Some(path) = path else { return Ok(Answer::Native) };
        let Some(place) = self.changed(&path)? else { return Ok(Answer::Native) };
        let (directory, name) = place.parent()?;
        change(&directory, &name).map(|()| Answer::Number(0))
    }
}

impl Folder {
    fn open(path: &Path, uses: Use) -> Option<Self> {
        let (directory, only) = match path.is_dir() {
            true => (path, None),
            false => (path.parent()?, Some(path.file_name()?.to_os_string())),
        };
        if is_by_process(path) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty()).ok()?;
        Some(Self { path: path.to_path_buf(), directory, only, uses })
    }
}

impl Place<'_> {
    fn open(&self, flags: OFlags, mode: Mode) -> Done<OwnedFd> {
        let beneath = if self.beneath.as_os_str().is_empty() { Path::new(".") } else { &self.beneath };
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if self.folder.path == Path::new("/") {
            // An output in `/` is no reason to open what the kernel shows there: /proc, /sys, /dev.
            resolve |= ResolveFlags::NO_XDEV;
        }
        rustix::fs::openat2(&self.folder.directory, beneath, flags, mode, resolve)
    }

    /// Makes a file without a name in this directory.
    fn open_nameless(&self, flags: OFlags, mode: Mode) -> Done<OwnedFd> {
        match self.open(flags, mode) {
            // NFS, and overlayfs before Linux 6.3: the name is removed at once.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
            opened => return opened,
        }
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".weir-{}-{number}", getpid().as_raw_pid()));
        let named = Place { folder: self.folder, beneath: self.beneath.join(&name) };
        let flags = (flags - OFlags::TMPFILE) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = named.open(flags, mode)?;
        let (directory, name) = named.parent()?;
        rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
        Ok(file)
    }

    /// The directory of the file, and its name there.
    fn parent(&self) -> Done<(OwnedFd, OsString)> {
        // The name of the folder itself is above the folder.
        let name = self.beneath.file_name().ok_or(Errno::EXIST)?.to_os_string();
        let above = self.beneath.parent().unwrap_or(Path::new("")).to_path_buf();
        let above = Place { folder: self.folder, beneath: above };
        let directory = above.open(OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok((directory, name))
    }
}

/// Whether a name is another file for each process: a descriptor, for instance.
pub fn is_by_process(path: &Path) -> bool {
    ["/proc", "/dev/fd"].iter().any(|above| path.starts_with(above))
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

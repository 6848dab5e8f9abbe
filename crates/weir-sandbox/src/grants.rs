//! What a worker may name: files and folders that were stated at the start.
//!
//! A worker whose files are opened by another process gets no more than its run needs: an output is a file,
//! with the names that belong to it, and not the folder that it is in.

use crate::Files;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that a run opens after its start.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// Files that are read, by these names. Another file may take their place.
    pub files: Vec<PathBuf>,
    /// Folders that are read, with all that is in them.
    pub folders: Vec<PathBuf>,
    /// Files that are written. To `x.json.gz` belong all names in its folder that begin with `x.` or `x-`.
    pub outputs: Vec<PathBuf>,
    /// Folders for what is written, with all that is in them. They need not exist.
    pub output_folders: Vec<PathBuf>,
    /// Folders in which new files are made, by names that do not begin with a dot. What was there before the
    /// run is neither read nor changed, but for pipes, which are written to.
    pub growing: Vec<PathBuf>,
    /// What is there and is only written to: pipes, devices, descriptors of a shell.
    pub sinks: Vec<PathBuf>,
    /// Files that are only removed: sockets, at the end.
    pub removed: Vec<PathBuf>,
    /// The folder in which files without a name are made.
    pub temporary: Option<PathBuf>,
    /// Sockets of TCP and UDP are made, of the user who has started the run.
    pub makes_sockets: bool,
}

impl Grants {
    /// The same, by files and folders alone (landlock(7)): the folders of files that others take the place
    /// of, and the nearest folder that exists of those that are made.
    pub fn files(&self) -> Files {
        let folder = |path: PathBuf| path.parent().map(existing);
        // A link is followed to another folder.
        let names = |path: &PathBuf| [Some(path.clone()), path.canonicalize().ok()].into_iter().flatten();
        let read = self.files.iter().flat_map(names).filter_map(folder).chain(self.folders.iter().cloned());
        let made = self.outputs.iter().chain(&self.removed).flat_map(names).filter_map(folder);
        let write = made.chain(self.output_folders.iter().chain(&self.growing).map(|path| existing(path)));
        let write = write.chain(self.sinks.iter().cloned()).chain(self.temporary.clone());
        Files { read: read.collect(), write: write.collect() }
    }

    /// All paths, with what may be done there, and the extent of that by the name of a path.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, Use, ExtentOf)> {
        let one: ExtentOf = |path| Extent::One(path.file_name().unwrap_or_default().to_owned());
        let own: ExtentOf = |path| Extent::Own(path.file_prefix().unwrap_or_default().to_owned());
        let (whole, plain): (ExtentOf, ExtentOf) = (|_| Extent::All, |_| Extent::Plain);
        let all: [(&[PathBuf], Use, ExtentOf); 8] = [
            (&self.files, Use::Read, one),
            (&self.folders, Use::Read, whole),
            (&self.outputs, Use::Write, own),
            (&self.output_folders, Use::Write, whole),
            (&self.growing, Use::Make, plain),
            (&self.sinks, Use::Sink, one),
            (&self.removed, Use::Remove, one),
            (self.temporary.as_slice(), Use::Nameless, whole),
        ];
        all.into_iter().flat_map(|(paths, allowed, extent)| {
            paths.iter().map(move |path| (path.as_path(), allowed, extent))
        })
    }
}

/// The path, or the nearest folder above it that exists.
fn existing(path: &Path) -> PathBuf {
    // `absolute` refuses the folder of a name alone.
    let path = std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_path_buf()
}

/// What a worker may do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Make files without a name, which end with it.
    Nameless,
    Remove,
    Read,
    /// Make new files and folders, and do everything with these.
    Make,
    /// Write to what is there.
    Sink,
    /// Make, change, rename and remove.
    Write,
}

/// The extent of what may be done, by a path.
pub(crate) type ExtentOf = fn(&Path) -> Extent;

/// Which names in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All, also in folders beneath.
    All,
    /// This one.
    One(OsString),
    /// This one, and those that begin with it and a dot or a dash. The folder may be listed.
    Own(OsString),
    /// Those that do not begin with a dot.
    Plain,
}

impl Extent {
    fn has(&self, beneath: &Path) -> bool {
        let is_single = beneath.components().count() == 1;
        let name = beneath.as_os_str().as_bytes();
        match self {
            Self::All => true,
            Self::One(one) => beneath == Path::new(one),
            Self::Plain => !name.is_empty() && name[0] != b'.',
            Self::Own(stem) => {
                let rest = name.strip_prefix(stem.as_bytes());
                is_single && rest.is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'.' | b'-'))
            }
        }
    }
}

/// What a call wants with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Learn of the file.
    Describe,
    Read,
    /// Write to it, and make it.
    Write,
    /// Make the folder.
    MakeFolder,
    /// Give the name to another file, or take it away.
    Change,
    /// Remove the file.
    Remove,
    /// Make a file without a name here.
    Nameless,
}

/// A folder that was stated at the start, and what may be done in it.
#[derive(Debug)]
pub(crate) struct Grant {
    /// The folder that was there at the start, by which names are resolved.
    base: PathBuf,
    directory: OwnedFd,
    /// The folder of the names: `base`, or beneath it and made later.
    folder: PathBuf,
    extent: Extent,
    pub allowed: Use,
}

impl Grant {
    /// `None`: a folder that cannot be opened is closed to the worker, too.
    pub fn open(path: &Path, allowed: Use, extent: ExtentOf) -> Option<Self> {
        if is_by_process(path) {
            return None;
        }
        // A folder that is named as a file is read with all that is in it, and a file that is named as a
        // folder is read alone.
        let (folder, extent) = match extent(path) {
            Extent::All if path.exists() && !path.is_dir() => {
                (path.parent()?, Extent::One(path.file_name()?.to_owned()))
            }
            extent @ (Extent::All | Extent::Plain) => (path, extent),
            _ if path.is_dir() && allowed == Use::Read => (path, Extent::All),
            extent => (path.parent()?, extent),
        };
        let base = match allowed {
            Use::Write => existing(folder),
            _ => folder.to_path_buf(),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&base, flags, Mode::empty()).ok()?;
        Some(Self { base, directory, folder: folder.to_path_buf(), extent, allowed })
    }

    /// The file beneath the folder, if the worker may do this with it.
    pub fn file(&self, path: &Path, want: Want) -> Option<Granted<'_>> {
        let beneath = path.strip_prefix(&self.base).ok()?;
        let is_named = path.strip_prefix(&self.folder).is_ok_and(|name| self.extent.has(name));
        // Folders above one that is made are made, too.
        let is_above = self.folder.starts_with(path) && path != self.base;
        let is_listed = self.folder == path && matches!(self.extent, Extent::Own(_) | Extent::Plain);
        let may = match (want, self.allowed) {
            (Want::Nameless, Use::Nameless) => path == self.folder,
            (_, Use::Nameless) => false,
            (Want::Describe, Use::Make) => is_named || is_listed,
            (Want::Read, Use::Make) => is_named || is_listed,
            (Want::Nameless, Use::Make) => false,
            (_, Use::Make) => is_named,
            (Want::Remove, Use::Write) => is_named || is_above,
            (Want::Remove, Use::Remove) | (Want::Write, Use::Sink) => is_named,
            (Want::Read | Want::Describe, Use::Remove) => is_named,
            (Want::Read | Want::Describe, _) => is_named || is_above || is_listed,
            (Want::MakeFolder, Use::Write) => is_named || is_above,
            (Want::Write | Want::Change, Use::Write) => is_named,
            (Want::Nameless, Use::Write) => is_named && self.extent == Extent::All,
            _ => false,
        };
        may.then(|| Granted { grant: self, beneath: beneath.to_path_buf() })
    }

    /// Whether this is the folder.
    pub fn is_of(&self, folder: &Path) -> bool {
        self.folder == folder
    }

    /// Whether the path is a folder above this one: it can be described.
    pub fn is_beneath(&self, path: &Path) -> bool {
        self.folder.starts_with(path)
    }

    /// The length of the path, by which the nearest folder is found.
    pub fn depth(&self) -> usize {
        self.folder.components().count()
    }
}

/// A file that a worker may use in some way.
pub(crate) struct Granted<'a> {
    pub grant: &'a Grant,
    beneath: PathBuf,
}

impl Granted<'_> {
    /// The absolute name.
    pub fn path(&self) -> PathBuf {
        self.grant.base.join(&self.beneath)
    }

    /// Whether only files that the worker has made are the worker's here. The folder itself can be listed.
    pub fn is_of_maker(&self) -> bool {
        self.grant.allowed == Use::Make && self.path() != self.grant.folder
    }

    /// Opens a pipe that is there, to write to it.
    pub fn open_pipe(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let pipe = self.open(flags - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC, Mode::empty())?;
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&pipe)?.st_mode);
        if kind.is_fifo() { Ok(pipe) } else { Err(Errno::ACCESS) }
    }

    /// Opens the file. A device is refused unless it was named. What the kernel shows of itself is beneath no
    /// folder.
    pub fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let (flags, mode) = match self.grant.allowed {
            Use::Sink => (flags - OFlags::CREATE - OFlags::EXCL, Mode::empty()),
            _ => (flags, mode),
        };
        let Grant { base, directory, folder, .. } = self.grant;
        let later = folder.strip_prefix(base).unwrap_or(Path::new(""));
        let file = match self.beneath.strip_prefix(later) {
            // A link in a folder that was made later does not leave that folder either.
            Ok(name) if later != Path::new("") && name != Path::new("") => {
                let flags_of_folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let made = open_beneath(directory, later, flags_of_folder, Mode::empty())?;
                open_beneath(&made, name, flags, mode)?
            }
            _ => open_beneath(directory, &self.beneath, flags, mode)?,
        };
        if matches!(self.grant.extent, Extent::One(_)) {
            return Ok(file);
        }
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        let is_device = !flags.contains(OFlags::PATH) && (kind.is_block_device() || kind.is_char_device());
        let of_kernel = OF_KERNEL.contains(&(rustix::fs::fstatfs(&file)?.f_type as u32));
        match is_device {
            true => Err(Errno::ACCESS),
            false if of_kernel => Err(Errno::XDEV),
            false => Ok(file),
        }
    }

    /// The name of the same file without its first link. `None`: no part of the name is a link. The last part
    /// is looked at if the link itself is not meant.
    pub fn without_link(&self, is_last_followed: bool) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parts: Vec<_> = self.beneath.components().collect();
        let looked_at = parts.len().saturating_sub(usize::from(!is_last_followed));
        (1..=looked_at).find_map(|end| {
            let part: PathBuf = parts[..end].iter().collect();
            let file = open_beneath(&self.grant.directory, &part, flags, Mode::empty()).ok()?;
            let target = rustix::fs::readlinkat(file, "", vec![]).ok()?;
            let above = self.grant.base.join(part.parent()?);
            let rest: PathBuf = parts[end..].iter().collect();
            Some(above.join(OsStr::from_bytes(target.as_bytes())).join(rest))
        })
    }

    /// The directory of the file, and its name there.
    pub fn parent(&self) -> rustix::io::Result<(OwnedFd, OsString)> {
        // The name of the folder itself is above the folder.
        let name = self.beneath.file_name().ok_or(Errno::BUSY)?.to_os_string();
        let above = self.beneath.parent().unwrap_or(Path::new("")).to_path_buf();
        let above = Granted { grant: self.grant, beneath: above };
        let directory = above.open(OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok((directory, name))
    }

    /// The file of this name, in this folder.
    pub fn join(&self, name: &OsStr) -> Granted<'_> {
        Granted { grant: self.grant, beneath: self.beneath.join(name) }
    }
}

/// Opens a name beneath a folder, whatever links there are.
fn open_beneath(folder: &OwnedFd, name: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(folder, name, flags, mode, resolve) {
            // Another process has renamed a folder meanwhile.
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            opened => return opened,
        }
    }
}

/// How often a name is resolved again.
const TRIES: u32 = 8;

/// File systems in which the kernel shows processes, devices and itself, wherever they are mounted: proc,
/// sysfs, debugfs, tracefs, securityfs, selinuxfs, configfs, bpf, cgroup (1 and 2), efivarfs, binfmt_misc
/// (linux/magic.h).
const OF_KERNEL: [u32; 12] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xf97c_ff8c,
    0x6265_6570,
    0xcafe_4a11,
    0x0027_e0eb,
    0x6367_7270,
    0xde5e_81e4,
    0x4249_4e4d,
];

/// Whether a name is another file for each process: a descriptor, for instance.
pub fn is_by_process(path: &Path) -> bool {
    ["/proc", "/dev/fd"].iter().any(|above| path.starts_with(above))
}

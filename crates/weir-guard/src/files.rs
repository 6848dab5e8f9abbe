//! Files and directories that only their owner reads.
//!
//! The rights are those of the creating call. A mask of the process (`umask`) would be shared with its other
//! threads, and a change after the creation leaves a moment in which others open the file.

use crate::owner;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rights of new files.
const FILE_MODE: u32 = 0o600;
/// Rights of new directories.
const DIRECTORY_MODE: u32 = 0o700;
/// What a group may do with both, if it is let read.
const GROUP_FILE_MODE: u32 = 0o040;
const GROUP_DIRECTORY_MODE: u32 = 0o050;

/// New files and directories are for their group, too.
static IS_FOR_GROUP: AtomicBool = AtomicBool::new(false);

/// From now on, the group of new files and directories may read them. The user of the process asks for that:
/// programs that read logs are often other users.
pub fn let_group_read() {
    IS_FOR_GROUP.store(true, Ordering::Relaxed);
}

/// The rights of a new file or directory.
fn mode(own: u32, of_group: u32) -> u32 {
    if IS_FOR_GROUP.load(Ordering::Relaxed) { own | of_group } else { own }
}

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The file is created, or emptied if it exists.
    Emptied,
    /// The file is created unless it exists; what it has stays.
    Kept,
    /// The file must not exist.
    New,
    /// The file must exist; what it has stays.
    Existing,
}

/// Creates or empties a file.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    open(path, Opening::Emptied, OFlags::empty())
}

/// Creates a file that must not exist.
///
/// # Errors
/// As [`open`].
pub fn create_new(path: &Path) -> io::Result<File> {
    open(path, Opening::New, OFlags::empty())
}

/// Creates a file that must not exist. The file gets these rights, without those that the umask of the
/// process takes away.
///
/// # Errors
/// As [`open`].
pub fn create_new_with(path: &Path, rights: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(rights);
    open_unlinked(path, &mut options, OFlags::empty())
}

/// Opens a file for writing, with further flags. A new file is 0600; an existing one keeps its rights.
///
/// A link in place of the file is not followed: another user may have made the link in a directory that both
/// can write. Names of this process's own descriptors (`/dev/stdout`, `/proc/self/fd/3`) are links in form
/// only, and are opened.
///
/// # Errors
/// Those of the system; the path is a link.
pub fn open(path: &Path, opening: Opening, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode(FILE_MODE, GROUP_FILE_MODE));
    match opening {
        Opening::Emptied => options.create(true).truncate(true),
        Opening::Kept => options.create(true),
        Opening::New => options.create_new(true),
        Opening::Existing => &mut options,
    };
    open_unlinked(path, &mut options, flags)
}

/// Opens a file for reading and writing, which is created unless it exists.
///
/// # Errors
/// As [`open`].
pub fn create_to_read(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(mode(FILE_MODE, GROUP_FILE_MODE));
    open_unlinked(path, &mut options, OFlags::empty())
}

/// Opens a file for writing that must exist.
///
/// # Errors
/// As [`open`].
pub fn open_existing(path: &Path) -> io::Result<File> {
    open(path, Opening::Existing, OFlags::empty())
}

/// Opens a file that an earlier process of this user has written, for reading and writing. In a directory
/// where others can write, a file with the right name may be one of theirs, or a second name of one that is
/// none of its business.
///
/// # Errors
/// Those of the system; the file is no regular one, of another user, or has several names.
pub fn open_own(path: &Path) -> io::Result<File> {
    let file = open_unlinked(path, OpenOptions::new().read(true).write(true), OFlags::NONBLOCK)?;
    let about = file.metadata()?;
    let is_own = about.uid() == owner::number();
    match about.is_file() && is_own && about.nlink() == 1 {
        true => Ok(file),
        false => Err(io::Error::other("a file of another user, or one with several names")),
    }
}

fn open_unlinked(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let nofollow = if is_own_descriptor(path) { OFlags::empty() } else { OFlags::NOFOLLOW };
    // The bits of the system's flags, as its calls take them.
    let opened = options.custom_flags((flags | nofollow).bits().cast_signed()).open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(number) if number == Errno::LOOP.raw_os_error() => linked(),
        _ => error,
    })
}

/// Creates a directory, and those above it, unless it exists. New ones are 0700.
///
/// # Errors
/// Those of the system; the path is a link that another user made.
pub fn create_directories(path: &Path) -> io::Result<()> {
    refuse_foreign_link(path)?;
    DirBuilder::new().recursive(true).mode(mode(DIRECTORY_MODE, GROUP_DIRECTORY_MODE)).create(path)
}

/// Rejects a directory that is a link of another user. Links of this user and of root are as good as the
/// directory itself: a log directory often is one.
///
/// # Errors
/// The path is such a link.
pub fn refuse_foreign_link(path: &Path) -> io::Result<()> {
    // With a separator at the end, the system would follow the link.
    let path: std::path::PathBuf = path.components().collect();
    let is_foreign = |about: &Metadata| about.is_symlink() && ![0, owner::number()].contains(&about.uid());
    match fs::symlink_metadata(&path) {
        Ok(about) if is_foreign(&about) => {
            Err(io::Error::other("a symbolic link of another user, which is not followed"))
        }
        _ => Ok(()),
    }
}

/// Rejects a path that is a link, before anything is written for it.
///
/// # Errors
/// The path is a link.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() && !is_own_descriptor(path) => Err(linked()),
        _ => Ok(()),
    }
}

fn linked() -> io::Error {
    io::Error::other("a symbolic link, which is not followed: name the file that it leads to")
}

/// Whether a path names an open descriptor of this process.
pub fn is_own_descriptor(path: &Path) -> bool {
    let is_number = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let own = std::process::id().to_string();
    let names: Vec<&OsStr> = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => name,
            other => other.as_os_str(),
        })
        .collect();
    let names: Vec<Option<&str>> = names.iter().map(|name| name.to_str()).collect();
    match names[..] {
        [Some("/"), Some("dev"), Some("stdin" | "stdout" | "stderr")] => true,
        [Some("/"), Some("dev"), Some("fd"), Some(number)] => is_number(number.as_ref()),
        [Some("/"), Some("proc"), Some(process), Some("fd"), Some(number)] => {
            (["self", "thread-self"].contains(&process) || process == own) && is_number(number.as_ref())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn new_files_and_directories_are_of_their_owner_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("a/b");
        create_directories(&directory).expect("a directory");
        create_directories(&directory).expect("it is there");
        assert_eq!((mode_of(&directory), mode_of(&place.path().join("a"))), (0o700, 0o700));
        let file = directory.join("f");
        create(&file).expect("a file").write_all(b"x").expect("room");
        create_new(&directory.join("g")).expect("a file");
        assert_eq!((mode_of(&file), mode_of(&directory.join("g"))), (0o600, 0o600));
        // The rights of an existing file are its owner's choice.
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("its owner may");
        create(&file).expect("a file");
        assert_eq!((mode_of(&file), fs::read(&file).expect("text").len()), (0o640, 0));
    }

    #[test]
    fn links_are_not_followed_but_own_descriptors_are_opened() {
        let place = tempfile::tempdir().expect("a directory");
        let (victim, link) = (place.path().join("victim"), place.path().join("link"));
        fs::write(&victim, "kept").expect("a file");
        symlink(&victim, &link).expect("a link");
        for opening in [Opening::Emptied, Opening::Kept, Opening::Existing] {
            let refused = open(&link, opening, OFlags::empty()).expect_err("a link").to_string();
            assert!(refused.contains("symbolic link"), "{refused}");
        }
        assert!(create_new(&link).is_err() && refuse_link(&link).is_err() && refuse_link(&victim).is_ok());
        symlink(place.path().join("missing"), place.path().join("dangling")).expect("a link");
        assert!(create(&place.path().join("dangling")).is_err() && !place.path().join("missing").exists());
        assert_eq!(fs::read(&victim).expect("text"), b"kept");
        let own = File::options().append(true).open(&victim).expect("a file");
        for name in ["/proc/self/fd", "/dev/fd", &format!("/proc/{}/fd", std::process::id())] {
            let path = format!("{name}/{}", own.as_raw_fd());
            open(Path::new(&path), Opening::Existing, OFlags::empty()).expect(&path);
            refuse_link(Path::new(&path)).expect(&path);
        }
        create(Path::new("/dev/null")).expect("it is there").write_all(b"x").expect("it takes all");
        for other in ["/dev/fd/x", "/proc/1/fd/1", "/dev/shm/stdout", "dev/stdout", "/dev/stdout/x"] {
            assert!(!is_own_descriptor(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn only_own_files_with_one_name_are_taken_over() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name);
        create_to_read(&at("own")).expect("a file").write_all(b"x").expect("room");
        assert_eq!((mode_of(&at("own")), open_own(&at("own")).is_ok()), (0o600, true));
        symlink(at("own"), at("link")).expect("a link");
        assert!(open_own(&at("link")).is_err() && create_to_read(&at("link")).is_err());
        assert!(open_own(place.path()).is_err() && open_own(&at("missing")).is_err());
        fs::hard_link(at("own"), at("second")).expect("a name");
        assert!(open_own(&at("own")).is_err());
        if rustix::process::geteuid().is_root() {
            fs::remove_file(at("second")).expect("it is there");
            std::os::unix::fs::chown(at("own"), Some(65534), None).expect("root may");
            assert!(open_own(&at("own")).is_err());
        }
    }

    #[test]
    fn directories_of_links_that_others_made_are_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let (there, link) = (place.path().join("there"), place.path().join("link"));
        fs::create_dir(&there).expect("a directory");
        symlink(&there, &link).expect("a link");
        create_directories(&link).expect("a link of this user");
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root can give a link to another user");
        }
        std::os::unix::fs::lchown(&link, Some(65534), None).expect("root may");
        for path in [link.clone(), link.join("")] {
            let refused = create_directories(&path).expect_err("a link of another user").to_string();
            assert!(refused.contains("of another user"), "{refused}");
        }
    }
}

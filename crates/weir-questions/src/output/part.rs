//! A temporary file beside its target. Its process has a lock on it: one without a lock is what a killed
//! process left (`leftovers.rs`).

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use weir_guard::files;

/// Limit of the names that are tried.
const NAMES_MAX: u32 = 1000;

/// A temporary file, which replaces its target by [`publish`](Self::publish). If it is dropped before, it is
/// removed.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    target: PathBuf,
    /// Holds the lock until the file has its name, also after its writer has closed it.
    locked: File,
    is_kept: bool,
}

impl Part {
    /// Creates a temporary file for `target`, with a name that no other process uses and the permissions of
    /// an existing target. Neither a link to the target nor one instead of the temporary file is followed.
    ///
    /// # Errors
    /// As for [`File::create_new`].
    pub fn create(target: &Path) -> io::Result<(File, Self)> {
        files::refuse_link(target)?;
        let target = target.to_owned();
        let process = std::process::id();
        // Within its limits, a run makes no file writable by all (`weir_sandbox::Calls`).
        let mode = std::fs::metadata(&target).ok().map(|existing| existing.permissions().mode() & 0o775);
        for number in 0..NAMES_MAX {
            let mut name = target.as_os_str().to_owned();
            // A killed process of the same number may have left files.
            name.push(if number == 0 {
                format!(".{process}.part")
            } else {
                format!(".{process}-{number}.part")
            });
            let created = match mode {
                Some(mode) => files::create_new_with(Path::new(&name), mode),
                None => files::create_new(Path::new(&name)),
            };
            match created {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    // Without locks, the file of a killed process keeps its name.
                    let _ = file.lock();
                    if !is_at(&file, Path::new(&name)) {
                        // Before the lock, another process took the empty file for one that was left.
                        continue;
                    }
                    let part = Self { path: name.into(), target, locked: file.try_clone()?, is_kept: false };
                    match mode.map(|mode| file.set_permissions(Permissions::from_mode(mode))) {
                        // The file is another user's, whose process has opened it: the mask of that one
                        // holds.
                        Some(Err(error)) if error.kind() == ErrorKind::PermissionDenied => {}
                        set => set.transpose()?.unwrap_or_default(),
                    }
                    return Ok((file, part));
                }
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// The temporary file that a killed process left for `target`; `None` if a process still writes the file
    /// or has given it its name. It must be opened for reading and writing.
    pub fn left(file: File, path: &Path, target: &Path) -> Option<Self> {
        let is_left = file.try_lock().is_ok() && is_at(&file, path);
        is_left.then(|| Self {
            path: path.to_owned(),
            target: target.to_owned(),
            locked: file,
            is_kept: true,
        })
    }

    /// The file, for one that was left.
    pub const fn file(&mut self) -> &mut File {
        &mut self.locked
    }

    /// Replaces the target.
    ///
    /// # Errors
    /// As for [`std::fs::rename`].
    pub fn publish(mut self) -> io::Result<()> {
        self.is_kept = true;
        std::fs::rename(&self.path, &self.target)
    }

    /// Gives the file the first of these names that no file has, and returns it. Nothing is replaced.
    ///
    /// # Errors
    /// As for [`std::fs::hard_link`] and [`std::fs::rename`].
    pub fn publish_as_first_of(mut self, names: impl IntoIterator<Item = PathBuf>) -> io::Result<PathBuf> {
        self.is_kept = true;
        for name in names {
            match std::fs::hard_link(&self.path, &name) {
                Ok(()) => {
                    std::fs::remove_file(&self.path)?;
                    return Ok(name);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // A file system without hard links.
                Err(_) if name.exists() => {}
                Err(_) => return std::fs::rename(&self.path, &name).map(|()| name),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Leaves the temporary file as it is, and the target too.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether the path still is the name of this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |about: io::Result<std::fs::Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
    let opened = identity(file.metadata());
    opened.is_some() && opened == identity(std::fs::symlink_metadata(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_only_while_nobody_writes_it_and_it_has_no_other_name() {
        let place = tempfile::tempdir().expect("a directory");
        let target = place.path().join("rows");
        let opened = |path: &Path| files::open_own(path).expect("it exists");
        let (written, part) = Part::create(&target).expect("a file");
        let path = part.path.clone();
        let (first, second) = (opened(&path), opened(&path));
        // The writer is done with the file, which does not have its name yet.
        drop(written);
        assert!(Part::left(first, &path, &target).is_none());
        part.publish().expect("room");
        assert!(Part::left(second, &path, &target).is_none());
        // Another file has the name now.
        let third = opened(&target);
        std::fs::write(&path, "rows").expect("room");
        assert!(Part::left(third, &path, &target).is_none());
        assert!(Part::left(opened(&path), &path, &target).is_some());
        assert!(path.exists(), "it stays until it has another name");
    }

    #[test]
    fn a_new_file_that_was_removed_before_its_lock_is_created_again() {
        let place = tempfile::tempdir().expect("a directory");
        let target = place.path().join("rows");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    crate::output::leftovers::complete(
                        &target,
                        crate::form::Form::Rows(weir::io::Format::Json),
                    );
                }
            });
            for _ in 0..2000 {
                Part::create(&target).and_then(|(_, part)| part.publish()).expect("the file stays");
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

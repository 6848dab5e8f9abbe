//! A temporary file beside its target. Its process has a lock on it: one without a lock is what a killed
//! process left (`leftovers.rs`).

use std::fs::File;
use std::io::{self, ErrorKind};
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
        for number in 0..NAMES_MAX {
            let mut name = target.as_os_str().to_owned();
            // A killed process of the same number may have left files.
            name.push(if number == 0 {
                format!(".{process}.part")
            } else {
                format!(".{process}-{number}.part")
            });
            match files::create_new(Path::new(&name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    // Without locks, the file of a killed process keeps its name.
                    let _ = file.lock();
                    let part = Self { path: name.into(), target, is_kept: false };
                    if let Ok(existing) = std::fs::metadata(&part.target) {
                        file.set_permissions(existing.permissions())?;
                    }
                    return Ok((file, part));
                }
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// The temporary file that a killed process left for `target`.
    pub fn left(path: &Path, target: &Path) -> Self {
        Self { path: path.to_owned(), target: target.to_owned(), is_kept: false }
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

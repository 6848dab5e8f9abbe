//! A temporary file beside its target.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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
    /// an existing target. Links to the target are followed; a link instead of the temporary file is not.
    ///
    /// # Errors
    /// As for [`File::create_new`].
    pub fn create(target: &Path) -> io::Result<(File, Self)> {
        let target = match std::fs::canonicalize(target) {
            Err(error) if error.kind() == ErrorKind::NotFound => target.to_owned(),
            found => found?,
        };
        let process = std::process::id();
        for number in 0..NAMES_MAX {
            let mut name = target.as_os_str().to_owned();
            // A killed process of the same number may have left files.
            name.push(if number == 0 {
                format!(".{process}.part")
            } else {
                format!(".{process}-{number}.part")
            });
            match File::create_new(&name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
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

    /// Replaces the target.
    ///
    /// # Errors
    /// As for [`std::fs::rename`].
    pub fn publish(mut self) -> io::Result<()> {
        self.is_kept = true;
        std::fs::rename(&self.path, &self.target)
    }

    /// Gives the file the first of these names that no file has. Nothing is replaced.
    ///
    /// # Errors
    /// As for [`std::fs::hard_link`] and [`std::fs::rename`].
    pub fn publish_as_first_of(mut self, names: impl IntoIterator<Item = PathBuf>) -> io::Result<()> {
        self.is_kept = true;
        for name in names {
            match std::fs::hard_link(&self.path, &name) {
                Ok(()) => return std::fs::remove_file(&self.path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // A file system without hard links.
                Err(_) if name.exists() => {}
                Err(_) => return std::fs::rename(&self.path, &name),
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

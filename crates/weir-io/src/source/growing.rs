//! A file that another process still writes: a read waits at the end for more bytes, as `tail -F` does.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Time between two looks at the end of a file.
const PATIENCE: Duration = Duration::from_millis(100);

/// A growing file. It ends when its name stands for another file, or when it has become shorter: the file was
/// rotated.
pub(crate) struct Growing {
    path: PathBuf,
    file: File,
    id: (u64, u64),
    position: u64,
}

fn id(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

impl Growing {
    /// Opens the file; waits until it exists.
    pub fn open(path: &Path) -> io::Result<Self> {
        loop {
            match File::open(path) {
                Ok(file) => {
                    let id = id(&file.metadata()?);
                    return Ok(Self { path: path.to_owned(), file, id, position: 0 });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => sleep(PATIENCE),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the file was rotated: nothing more is written to it.
    fn is_rotated(&self) -> bool {
        match std::fs::metadata(&self.path) {
            Ok(about) => id(&about) != self.id || about.len() < self.position,
            // The next file has not been created yet.
            Err(_) => false,
        }
    }
}

impl Read for Growing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut is_rotated = false;
        loop {
            let n = self.file.read(out)?;
            self.position += n as u64;
            // Bytes may have been written between the last read and the rotation.
            if n > 0 || out.is_empty() || is_rotated {
                return Ok(n);
            }
            is_rotated = self.is_rotated();
            if !is_rotated {
                sleep(PATIENCE);
            }
        }
    }
}

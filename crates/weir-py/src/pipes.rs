//! Named pipes that threads of Python fill for a run.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// Named pipes of a run. A thread that waits for the reader of its pipe is released when these are dropped.
pub struct Pipes(pub Vec<PathBuf>);

impl Drop for Pipes {
    fn drop(&mut self) {
        for path in &self.0 {
            // A writer that has opened the pipe goes on, and its writes fail, since the reader is gone. One
            // that comes later finds no pipe. A pipe that was read has no name any more.
            let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
            let _ = std::fs::remove_file(path);
            drop(reader);
        }
    }
}

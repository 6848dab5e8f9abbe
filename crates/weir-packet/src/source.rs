//! The trait of whatever packets come from, and the one error type of reading them.

use crate::Burst;
use std::fmt;

/// Where packets come from: a capture file, standard input, an interface.
pub trait Source {
    /// Replaces the packets of `burst` by the next ones, at most
    /// [`BURST_PACKETS_MAX`](crate::BURST_PACKETS_MAX), all in one block; `Ok(false)` at the end. None at all says that none
    /// waits: who runs over the source may do something else, and hand on what it found. A source that rather waits than says so holds up
    /// [`Control`](https://docs.rs/weir) of an engine.
    ///
    /// # Errors
    /// What could be read before the fault has been delivered by earlier calls. After an error the
    /// source goes on with the next file, if it has one; otherwise it answers `Ok(false)`.
    fn next_burst(&mut self, burst: &mut Burst) -> Result<bool, SourceError>;

    /// Bytes read so far and bytes in all, where known, for a progress bar.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}

/// What kind of trouble a source met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// The file can't be opened or read.
    Io,
    /// The file is none that the project reads.
    NotACapture,
    /// The file ends inside a record.
    Truncated,
    /// A record contradicts itself or its file.
    Corrupt,
    /// A kind of file or record that the project doesn't read.
    Unsupported,
}

/// Where and why reading a capture stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The kind of trouble.
    pub kind: SourceErrorKind,
    /// File as the user named it; `-` for standard input.
    pub file: String,
    /// Packets of this file that had been read before.
    pub packets_before: u64,
    /// Offset of the faulty record in the uncompressed file, bytes.
    pub offset_bytes: u64,
    /// What is wrong, and what to do about it where something can be done.
    pub message: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SourceErrorKind::Io | SourceErrorKind::NotACapture if self.packets_before == 0 => {
                write!(f, "{}: {}", self.file, self.message)
            }
            _ => write!(
                f,
                "{}: after packet {}, byte {}: {}",
                self.file, self.packets_before, self.offset_bytes, self.message
            ),
        }
    }
}

impl std::error::Error for SourceError {}

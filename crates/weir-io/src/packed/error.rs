//! Why reading ended.

use super::form::VERSION;
use std::{fmt, io};

/// Why reading ended.
#[derive(Debug)]
pub enum ReadError {
    /// The input has other contents than packed rows.
    NotPacked,
    /// A version that this reader does not know.
    Version(u8),
    /// The input is damaged.
    Damaged {
        /// The first byte of the block, from the beginning of the input.
        at: u64,
        /// What is wrong with the block.
        what: &'static str,
    },
    /// The input ends within a block: the writer was interrupted, or the file was cut.
    Truncated {
        /// The first byte of the block, from the beginning of the input.
        at: u64,
    },
    /// The input cannot be read.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPacked => write!(f, "these are no packed rows: the first bytes are others"),
            Self::Version(version) => {
                write!(f, "packed rows of version {version}: this reader knows version {}", VERSION)
            }
            Self::Damaged { at, what } => write!(f, "byte {at}: the block is damaged: {what}"),
            Self::Truncated { at } => write!(f, "byte {at}: the input ends within this block"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

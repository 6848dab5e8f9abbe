//! Why vectorscan is not used.

use crate::LoadError;
use std::ffi::c_int;
use std::fmt;

/// The remedy if the library is missing: Debian's packages.
pub(super) const INSTALL: &str = "install libhyperscan5, or a libvectorscan5 of 5.4.12 or later";

/// The reason why vectorscan is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The library is not installed, is not version 5, does not run on this processor, or fails the
    /// self-test.
    Missing(String),
    /// The library rejects the literals, or the input exceeds the bounds.
    Refused(String),
    /// The library is out of memory, or failed with an undocumented error code.
    Failed(c_int),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "vectorscan can't be used: {why}"),
            Self::Refused(why) => write!(f, "vectorscan rejects the literals: {why}"),
            Self::Failed(code) => write!(f, "vectorscan failed with {code}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<LoadError> for Error {
    fn from(why: LoadError) -> Self {
        Self::Missing(why.explained(|cause| format!("{cause}; {INSTALL}")))
    }
}

//! The name of a file for the packets of one connection.

use std::path::{Path, PathBuf};

/// Names that are tried for a file.
const NAMES_MAX: u32 = 1000;

/// A file in this folder that does not exist yet, named after the connection.
///
/// # Errors
/// There are many recordings of the connection already.
pub fn file(folder: &Path, uid: &str) -> Result<PathBuf, String> {
    let name = |number: u32| match number {
        1 => folder.join(format!("weir-{uid}.pcapng")),
        number => folder.join(format!("weir-{uid}-{number}.pcapng")),
    };
    let mut names = (1..=NAMES_MAX).map(name);
    names.find(|path| !path.exists()).ok_or_else(|| format!("there are {NAMES_MAX} recordings of {uid}"))
}

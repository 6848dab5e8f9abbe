//! `SHA256SUMS`, for `sha256sum --check`: of all products that are in the folder.

use super::{Options, folder};
use crate::shell::{Result, need, output, said, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the list.
pub fn make(_options: &Options) -> Result<PathBuf> {
    need(&[("sha256sum", "coreutils")])?;
    let folder = folder()?;
    let sums = folder.join("SHA256SUMS");
    let entries = fs::read_dir(&folder).map_err(said(folder.display()))?.flatten();
    let files = entries.filter(|entry| entry.path().is_file() && entry.path() != sums);
    let mut names: Vec<_> = files.map(|entry| entry.file_name()).collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("there is no product in {}", folder.display()));
    }
    write(&sums, output(Command::new("sha256sum").current_dir(&folder).args(&names))?)?;
    Ok(sums)
}

/// Checks the list.
pub fn test(sums: &Path, _options: &Options) -> Result {
    output(Command::new("sha256sum").current_dir(folder()?).args(["--check", "--quiet"]).arg(sums)).map(drop)
}

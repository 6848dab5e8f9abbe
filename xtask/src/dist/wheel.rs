//! The Python package.

use super::{Options, folder, program};
use crate::python;
use crate::shell::{Result, said};
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the wheel.
pub fn make(options: &Options) -> Result<PathBuf> {
    let features = format!("weir-questions/{}", program::FEATURES);
    let wheel = python::build(&options.profile, &[&features])?;
    let copy = folder()?.join(wheel.file_name().ok_or("the wheel has no name")?);
    fs::copy(&wheel, &copy).map_err(said(copy.display()))?;
    Ok(copy)
}

/// Installs the wheel into a virtual environment.
pub fn test(wheel: &Path, _options: &Options) -> Result {
    python::test_wheel(wheel)
}

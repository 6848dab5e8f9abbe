//! `cargo xtask site`: the documentation as a site in `target/site`, by MkDocs. A dead link is an error.

use crate::python::environment;
use crate::shell::{Result, build_weir, output, root};
use std::process::Command;

/// MkDocs and its theme.
const PACKAGES: &[&str] = &["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10"];

/// Builds the site.
pub fn run(_: &[String]) -> Result {
    let (weir, python) = (build_weir(false)?, environment("mkdocs", PACKAGES)?);
    let mut build = Command::new(python);
    build.args(["-m", "mkdocs", "build", "--quiet", "--strict", "-f"]).arg(root().join("site/mkdocs.yml"));
    output(build.env("WEIR", weir).env("DISABLE_MKDOCS_2_WARNING", "true"))?;
    Ok(())
}

/// As [`run`], unless packages cannot be installed.
pub fn run_if_possible(words: &[String]) -> Result {
    match environment("mkdocs", PACKAGES) {
        Ok(_) => run(words),
        Err(why) => {
            crate::skips::note(&format!("the site: {why}"));
            Ok(())
        }
    }
}

//! The root of a container, made without a container engine: the steps of the last stage of `Containerfile`
//! run in a fresh Debian.
//!
//! Of `Containerfile` only what the file uses is understood: `FROM`, `COPY --from`, `RUN`, `ENTRYPOINT`.

use super::system::System;
use super::{Options, copy, deb, folder, pack, tree, version, works};
use crate::shell::{Result, output, read, root, said};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A step of the last stage.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The package goes to this directory.
    Copy(String),
    /// A script of the shell.
    Run(String),
    /// The words before those of the user.
    Entrypoint(Vec<String>),
}

/// The last stage: the release of Debian, and the steps.
fn last_stage(text: &str) -> Result<(String, Vec<Step>)> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut release, mut steps) = (String::new(), vec![]);
    for line in lines {
        let wrong = || format!("Containerfile: this chore does not understand `{line}`");
        let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
        match word {
            "FROM" => {
                let image = rest.split(' ').next().unwrap_or_default();
                let name = image.strip_prefix("debian:").and_then(|name| name.strip_suffix("-slim"));
                (release, steps) = (name.ok_or_else(wrong)?.to_string(), vec![]);
            }
            "COPY" => steps.push(Step::Copy(rest.rsplit(' ').next().unwrap_or_default().to_string())),
            "RUN" => steps.push(Step::Run(rest.to_string())),
            "ENTRYPOINT" => {
                let list = rest.trim_start_matches('[').trim_end_matches(']').split(',');
                let words = list.map(|word| word.trim().trim_matches('"').to_string());
                steps.push(Step::Entrypoint(words.collect()));
            }
            // Of the stage that builds the package.
            "ARG" | "WORKDIR" | "ENV" => {}
            _ => return Err(wrong()),
        }
    }
    Ok((release, steps))
}

/// Makes an archive of the root.
pub fn make(options: &Options) -> Result<PathBuf> {
    let package = deb::file()?;
    if !package.is_file() {
        deb::make(options)?;
    }
    let (release, steps) = last_stage(&read(root().join("Containerfile"))?)?;
    let system = System::fresh(&release, "container")?;
    for step in &steps {
        match step {
            Step::Copy(to) => {
                let name = package.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                copy(&package, &system.root, &format!("{}/{name}", to.trim_matches('/')))?;
            }
            Step::Run(script) => drop(system.sh(script)?),
            Step::Entrypoint(_) => {}
        }
    }
    // An engine has its own devices.
    output(Command::new("sh").arg("-euc").arg("rm -rf \"$1\"/dev/*").arg("sh").arg(&system.root))?;
    let archive = folder()?.join(format!("weir-{}-container-amd64.tar.gz", version()));
    pack(&system.root, ".", &archive)?;
    system.remove()?;
    Ok(archive)
}

/// Runs the entry point of the container in a directory.
pub fn test(archive: &Path, _options: &Options) -> Result {
    let (_, steps) = last_stage(&read(root().join("Containerfile"))?)?;
    let entry = steps.iter().find_map(|step| match step {
        Step::Entrypoint(words) => Some(words),
        _ => None,
    });
    let entry = entry.ok_or("Containerfile has no ENTRYPOINT")?;
    let system = tree("container")?;
    output(Command::new("tar").arg("-C").arg(&system).args(["--numeric-owner", "-xpf"]).arg(archive))?;
    // As a directory that the user mounts.
    copy(&root().join("examples/first-light.pcap"), &system, "data/first-light.pcap")?;
    works(
        &|words| output(Command::new("chroot").arg(&system).args(entry).args(words)),
        "/data/first-light.pcap",
    )?;
    fs::remove_dir_all(&system).map_err(said(system.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_installs_the_package() {
        let file = read(root().join("Containerfile")).expect("Containerfile");
        let (release, steps) = last_stage(&file).expect("steps");
        assert_eq!(release, "trixie");
        assert!(matches!(&steps[..], [Step::Copy(_), Step::Run(_), Step::Entrypoint(_)]), "{steps:?}");
    }
}

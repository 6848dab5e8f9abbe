//! The archive with the static binary, for systems without a package of their own.

use super::program::{self, Machine};
use super::{Options, copy, folder, pack, parts, tree, version, works};
use crate::shell::{Result, need, output, root, said, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the archive: source, name.
const FILES: &[(&str, &str)] = &[
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("dist/weir@.service", "systemd/weir@.service"),
    ("dist/weir-record@.service", "systemd/weir-record@.service"),
    ("dist/weir.sysusers", "systemd/weir.sysusers"),
    ("examples/first-light.pcap", "examples/first-light.pcap"),
];
/// Completions: the shell, name.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "completions/weir.bash"), ("zsh", "completions/_weir"), ("fish", "completions/weir.fish")];

/// Makes the archive.
pub fn make(options: &Options) -> Result<PathBuf> {
    need(&[("tar", "tar"), ("gzip", "gzip")])?;
    let machine = Machine::of(options)?;
    let weir = program::build_static(options, &machine)?;
    let name = format!("weir-{}-{}-linux", version(), machine.name);
    let parent = tree("archive")?;
    let tree = parent.join(&name);
    fs::create_dir_all(&tree).map_err(said(tree.display()))?;
    let emulator = machine.emulator();
    let runs: Vec<&Path> = emulator.as_deref().into_iter().chain([weir.as_path()]).collect();
    program::add(&runs, &tree, ("weir", "man"), COMPLETIONS)?;
    output(Command::new(machine.tool("strip")).arg(tree.join("weir")))?;
    FILES.iter().try_for_each(|(from, to)| copy(&root().join(from), &tree, to))?;
    write(tree.join("third-party.txt"), parts::notices(&parts::all()?, true))?;
    let archive = folder()?.join(format!("{name}.tar.gz"));
    pack(&parent, &name, &archive)?;
    Ok(archive)
}

/// Tests the archive in a directory with nothing else: no C library, no shell.
pub fn test(archive: &Path, options: &Options) -> Result {
    need(&[("chroot", "coreutils")])?;
    let machine = Machine::of(options)?;
    let system = tree("static")?;
    output(Command::new("tar").arg("-C").arg(&system).args(["--strip-components=1", "-xzf"]).arg(archive))?;
    fs::create_dir_all(system.join("tmp")).map_err(said("tmp"))?;
    if let Some(emulator) = machine.emulator() {
        copy(&emulator, &system, emulator.file_name().and_then(|name| name.to_str()).unwrap_or("emulator"))?;
    }
    let command = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(&system).args(machine.runner("")).arg("/weir").args(words);
        command
    };
    works(&|words| output(&mut command(words)), "/examples/first-light.pcap")?;
    // A static program loads no library: the error is the usual one, and no crash.
    for words in [
        &["match", "/examples/first-light.pcap", "-e", "Server", "--matcher", "vectorscan"][..],
        &["flows", "/examples/first-light.pcap", "--ndpi"],
    ] {
        let shown = words.join(" ");
        let ended = command(words).output().map_err(said(&shown))?;
        let message = String::from_utf8_lossy(&ended.stderr);
        if ended.status.code() != Some(2) || !message.contains("can't be used") {
            return Err(format!("weir {shown}: {}\n{message}", ended.status));
        }
    }
    let _ = fs::remove_dir_all(&system);
    Ok(())
}

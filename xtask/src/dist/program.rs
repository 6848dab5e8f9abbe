//! The program `weir` of the packages: with Lua, linked to the C library of this system, or static.

use super::Options;
use crate::shell::{Result, find, need, output, root, said, target, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The features of all products; the command has them by default.
pub const FEATURES: &str = "lua";
/// This machine.
const NATIVE: &str = "x86_64-unknown-linux-gnu";

/// The machine that a static program is for.
#[derive(Clone, Copy)]
pub struct Machine {
    /// The target of Rust.
    pub target: &'static str,
    /// The name in the name of the archive.
    pub name: &'static str,
    /// Before the names of the tools of binutils, and the Debian package of the compiler.
    tools: (&'static str, &'static str),
    /// The emulator and its Debian package, if this machine is another one.
    emulator: Option<(&'static str, &'static str)>,
}

const MACHINES: &[Machine] = &[
    Machine { target: NATIVE, name: "x86_64", tools: ("", "gcc"), emulator: None },
    Machine {
        target: "aarch64-unknown-linux-gnu",
        name: "aarch64",
        tools: ("aarch64-linux-gnu-", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        emulator: Some(("qemu-aarch64-static", "qemu-user-static")),
    },
];

impl Machine {
    /// The machine of the command line; without `--target`, this one.
    pub fn of(options: &Options) -> Result<Self> {
        let target = options.target.as_deref().unwrap_or(NATIVE);
        MACHINES.iter().find(|machine| machine.target == target).copied().ok_or_else(|| {
            let known: Vec<&str> = MACHINES.iter().map(|machine| machine.target).collect();
            format!("there is no archive for `{target}`; there are: {}", known.join(", "))
        })
    }

    /// The emulator that runs programs of this machine, in a folder as the caller sees it.
    pub fn runner(&self, folder: &str) -> Option<String> {
        self.emulator.map(|(emulator, _)| format!("{folder}/{emulator}"))
    }

    /// The file of the emulator.
    pub fn emulator(&self) -> Option<PathBuf> {
        find(self.emulator?.0)
    }

    /// A tool of binutils for this machine.
    pub fn tool(&self, name: &str) -> String {
        format!("{}{name}", self.tools.0)
    }

    /// Fails, and says what to install, unless programs can be compiled for this machine.
    fn check(&self) -> Result {
        if self.target == NATIVE {
            return need(&[("cc", "gcc")]);
        }
        let installed = output(Command::new("rustup").args(["target", "list", "--installed"]))?;
        if !installed.lines().any(|line| line == self.target) {
            return Err(format!(
                "the standard library of Rust for {0} is missing\n  rustup target add {0}\n\
                 Debian's (libstd-rust-dev:arm64) is only for Debian's own rustc",
                self.target
            ));
        }
        let compiler = self.tool("gcc");
        need(&[(&compiler, self.tools.1)])?;
        self.emulator.map_or(Ok(()), |emulator| need(&[emulator]))
    }
}

/// Builds the program for this system.
pub fn build(options: &Options) -> Result<PathBuf> {
    need(&[("cc", "gcc")])?;
    cargo(options, &mut Command::new("cargo"), None)
}

/// Builds the static program. The C library is that of Debian's package `libc6-dev`, which has it as an
/// archive, too: no other C library, and no target beside the usual one, is needed.
pub fn build_static(options: &Options, machine: &Machine) -> Result<PathBuf> {
    machine.check()?;
    let mut command = Command::new("cargo");
    // With --target, these are not the flags of macros and of programs that run during the build.
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    if machine.target != NATIVE {
        let variable = machine.target.to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{variable}_LINKER"), machine.tool("gcc"));
    }
    cargo(options, &mut command, Some(machine.target))
}

fn cargo(options: &Options, command: &mut Command, machine: Option<&str>) -> Result<PathBuf> {
    let target = target()?;
    command.current_dir(root()).args(["build", "--quiet", "--locked", "--package", "weir-cli"]);
    command.args(["--features", FEATURES, "--profile", &options.profile]).arg("--target-dir").arg(&target);
    if let Some(machine) = machine {
        command.args(["--target", machine]);
    }
    let status = command.status().map_err(said("cargo"))?;
    if !status.success() {
        return Err(format!("{command:?}: {status}"));
    }
    let folder = machine.map_or_else(|| target.clone(), |machine| target.join(machine));
    Ok(folder.join(if options.profile == "dev" { "debug" } else { &options.profile }).join("weir"))
}

/// Adds the program without its symbols, its pages and its completions to a tree. `weir` runs the program.
pub fn add(
    weir: &[&Path],
    tree: &Path,
    (program, pages): (&str, &str),
    completions: &[(&str, &str)],
) -> Result {
    let [first, rest @ ..] = weir else { return Err("there is no program".to_string()) };
    let run = || {
        let mut command = Command::new(first);
        command.args(rest);
        command
    };
    super::copy(rest.last().unwrap_or(first), tree, program)?;
    output(run().args(["man", "-d"]).arg(tree.join(pages)))?;
    for (shell, place) in completions {
        let place = tree.join(place);
        fs::create_dir_all(place.parent().unwrap_or(tree)).map_err(said(place.display()))?;
        write(place, output(run().args(["completions", shell]))?)?;
    }
    Ok(())
}

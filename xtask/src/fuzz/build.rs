//! Builds the fuzz targets with coverage counters: the flags of cargo-fuzz that stable compilers accept.

use std::path::PathBuf;
use std::process::Command;

use crate::shell::{Result, output, root};

/// LLVM's coverage pass, and its options: a counter for each edge, its place in the program, and the operands of
/// comparisons. They apply to the host's dependencies, too, but not to build scripts, because a target is given.
const FLAGS: &[&str] = &[
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The folder of everything that fuzzing writes, except finds.
pub fn folder() -> PathBuf {
    root().join("target/fuzz")
}

/// Builds all programs, and returns their folder. `fuzz/Cargo.toml` turns debug assertions and overflow checks on.
pub fn programs() -> Result<PathBuf> {
    let host = host()?;
    let target_dir = folder().join("build");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    cargo.arg("--target-dir").arg(&target_dir).current_dir(root());
    cargo.env("RUSTFLAGS", FLAGS.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    output(&mut cargo)?;
    Ok(target_dir.join(host).join("release"))
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = output(Command::new(rustc).arg("-vV").current_dir(root()))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| format!("rustc -vV names no host:\n{said}"))
}

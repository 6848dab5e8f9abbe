//! Builds the fuzz targets with coverage counters: the flags of cargo-fuzz that stable compilers accept.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::shell::{Result, output, root, said};

/// LLVM's coverage pass, and its options: a counter for each edge, its place in the program, and the operands
/// of comparisons.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Set if cargo calls this program in place of the compiler.
const WRAPS: &str = "WEIR_FUZZ_RUSTC";

/// The folder of everything that fuzzing writes, except finds.
pub fn folder() -> PathBuf {
    root().join("target/fuzz")
}

/// Builds all programs, and returns their folder. `fuzz/Cargo.toml` turns debug assertions and overflow
/// checks on.
pub fn programs() -> Result<PathBuf> {
    let host = host()?;
    let target_dir = folder().join("build");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    cargo.arg("--target-dir").arg(&target_dir).current_dir(root());
    let own = std::env::current_exe().map_err(said("own path"))?;
    cargo.env("RUSTC_WRAPPER", own).env(WRAPS, "1").env("RUSTFLAGS", "--cfg fuzzing");
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
    output(&mut cargo)?;
    Ok(target_dir.join(host).join("release"))
}

/// If cargo calls this program in place of the compiler: compiles, with coverage for the project's own
/// crates. Coverage of all crates would mostly count the paths through Cranelift, which compiles every input
/// of `program` and `text`, and slow it down.
pub fn wrap_compiler(args: &[String]) -> Option<ExitCode> {
    std::env::var_os(WRAPS)?;
    let (rustc, args) = args.split_first()?;
    let mut command = Command::new(rustc);
    command.args(args);
    if is_covered(args) {
        command.args(FLAGS);
    }
    let code = command.status().ok().and_then(|status| status.code());
    Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into())
}

/// Whether these arguments compile a crate of this project for the fuzz targets. Build scripts and macros are
/// compiled without `--target`.
fn is_covered(args: &[String]) -> bool {
    let is_foreign = |arg: &String| arg.ends_with(".rs") && arg.contains("/registry/src/");
    args.iter().any(|arg| arg == "--target") && !args.iter().any(is_foreign)
}

/// The target triple of this machine.
pub fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = output(Command::new(rustc).arg("-vV").current_dir(root()))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| format!("rustc -vV names no host:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_crates_of_the_target_are_covered() {
        let is = |args: &[&str]| is_covered(&args.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(is(&["--crate-name", "weir", "/w/crates/weir/src/lib.rs", "--target", "x"]));
        assert!(is(&["--crate-name", "lang", "fuzz_targets/lang.rs", "--target", "x"]));
        assert!(!is(&["--crate-name", "weir_macros", "/w/crates/weir-macros/src/lib.rs"]));
        assert!(!is(&["/r/registry/src/index/regalloc2/src/lib.rs", "--target", "x"]));
        assert!(!is(&["-vV"]));
    }
}

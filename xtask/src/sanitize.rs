//! `cargo xtask sanitize [miri|address|loom]`: the tests of code with `unsafe`, under Miri and
//! AddressSanitizer; and the protocol of a recorder's ring under all interleavings, by loom.
//!
//! Miri checks the memory of flow tables; it interprets everything, so no generated code, system calls or C
//! libraries. AddressSanitizer checks these, too, but only memory errors and leaks. Compiled functions
//! themselves have no instrumentation: the verifier and the comparison with the interpreter check them.

use std::process::Command;

use crate::shell::{Result, output, root, said};

struct Step {
    name: &'static str,
    run: fn() -> Result,
}

const STEPS: &[Step] = &[
    Step { name: "miri", run: miri },
    Step { name: "address", run: address },
    Step { name: "loom", run: model },
];

/// Crates with `unsafe` code whose tests run with AddressSanitizer.
const UNSAFE_CRATES: &[&str] =
    &["weir-codegen", "weir-engine", "weir-libraries", "weir-link", "weir-memory", "weir-ring"];

/// Runs the named steps, or all; every step even after a failure.
pub fn run(args: &[String]) -> Result {
    if let Some(unknown) = args.iter().find(|arg| STEPS.iter().all(|step| step.name != arg.as_str())) {
        return Err(format!("{unknown}: unknown; use `miri`, `address`, `loom` or nothing for all"));
    }
    let wanted = |step: &&Step| args.is_empty() || args.iter().any(|arg| arg == step.name);
    let failed: Vec<String> = STEPS
        .iter()
        .filter(wanted)
        .filter_map(|step| {
            eprintln!("── {}", step.name);
            (step.run)().err().map(|trouble| format!("{}: {trouble}", step.name))
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Flow tables in Miri, with strict provenance and symbolic alignment; proptest asks for the current folder.
fn miri() -> Result {
    let nightly = || {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "miri"]).current_dir(root());
        // Set by the toolchain that runs this chore.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
        command
    };
    if output(nightly().arg("--version")).is_err() {
        return Err(
            "not installed\n  rustup toolchain install nightly --component miri --component rust-src".into(),
        );
    }
    let mut tests = nightly();
    tests.args([
        "test",
        "--quiet",
        "--target-dir",
        "target/sanitize/miri",
        "-p",
        "weir-engine",
        "--lib",
        "table::",
    ]);
    tests.env(
        "MIRIFLAGS",
        "-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-disable-isolation",
    );
    finish(tests)
}

/// AddressSanitizer with the stable compiler, whose distribution includes the library.
fn address() -> Result {
    let host = crate::fuzz::host()?;
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tests.args([
        "test",
        "--quiet",
        "--no-fail-fast",
        "--lib",
        "--tests",
        "--target-dir",
        "target/sanitize/address",
        "--target",
        &host,
    ]);
    tests.args(UNSAFE_CRATES.iter().flat_map(|name| ["-p", name]));
    // Measures the process's memory, of which the sanitizer keeps what was freed.
    tests.args(["--", "--skip", "a_program_that_is_dropped_gives_its_memory_back"]);
    tests
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", "detect_leaks=1");
    finish(tests)
}

/// The protocol between writers and readers of a ring.
fn model() -> Result {
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tests.args([
        "test",
        "--quiet",
        "--release",
        "--lib",
        "--target-dir",
        "target/sanitize/loom",
        "-p",
        "weir-ring",
    ]);
    tests.env("RUSTFLAGS", "--cfg loom");
    finish(tests)
}

fn finish(mut tests: Command) -> Result {
    let status = tests.current_dir(root()).status().map_err(said("cargo"))?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

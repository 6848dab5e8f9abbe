//! `cargo xtask ci`: the checks of the CI machine, to run before a push.

use std::process::Command;
use std::time::Instant;

use crate::shell::{Result, root, said};

/// A step: a cargo command, or a chore of this program.
enum Step {
    Cargo(&'static [&'static str]),
    Chore(fn(&[String]) -> Result, &'static [&'static str]),
}

const STEPS: &[(&str, Step)] = &[
    ("fmt", Step::Cargo(&["fmt", "--all", "--check"])),
    ("tidy", Step::Chore(crate::tidy::run, &[])),
    ("api", Step::Chore(crate::api::run, &["--check"])),
    (
        "clippy",
        Step::Cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--features",
            crate::features::FEATURES,
            "--",
            "-D",
            "warnings",
        ]),
    ),
    ("build", Step::Cargo(&["build", "--quiet", "--workspace"])),
    ("test", Step::Cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"])),
    // Packages come from PyPI; without them the step says so.
    ("python", Step::Chore(crate::python::tests_if_possible, &[])),
    ("spark", Step::Chore(crate::python::spark_tests_if_possible, &[])),
    ("site", Step::Chore(crate::site::run_if_possible, &[])),
    // The broker of Kafka comes from Maven, the collector of OpenTelemetry from PyPI; the tests skip
    // themselves without them.
    ("features", Step::Chore(crate::features::run, &[])),
    ("gallery", Step::Chore(crate::gallery::run, &["--check"])),
];

/// Runs every step even after a failure, to report all failures together.
pub fn run(_args: &[String]) -> Result {
    let mut summary = String::new();
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        eprintln!("── {name}");
        let begun = Instant::now();
        let outcome = match step {
            Step::Cargo(args) => cargo(args),
            Step::Chore(chore, args) => chore(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>()),
        };
        if let Err(trouble) = &outcome {
            eprintln!("{trouble}");
            failed.push(*name);
        }
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        summary += &format!("  {name:9} {verdict:7} {:6.1} s\n", begun.elapsed().as_secs_f64());
    }
    eprintln!("\n{summary}");
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed", failed.join(", "))) }
}

fn cargo(args: &[&str]) -> Result {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The same cases in each run: a push fails for its own change only. Other cases are tried by each
    // `cargo test`.
    let status = Command::new(program).args(args).env("PROPTEST_RNG_SEED", "1").current_dir(root()).status();
    let status = status.map_err(said("cargo"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}

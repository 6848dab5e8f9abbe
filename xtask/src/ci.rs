//! `cargo xtask ci`: the checks of the CI machine, to run before a push. `cargo xtask soak`: the tests again,
//! with all cases of the properties that take long.
//!
//! All crates are compiled once, by Clippy and with one set of features: `build` makes the programs that
//! `test`, `python`, `site` and `gallery` run. The times of the steps and of the slowest tests are printed,
//! and kept in `ci/figures.txt` in the target folder.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::features::FEATURES;
use crate::shell::{self, Result, said, target, write};
use crate::skips;
use crate::test_run;

/// A step: a cargo command, or a chore of this program.
enum Step {
    Cargo(&'static [&'static str]),
    Chore(fn(&[String]) -> Result, &'static [&'static str]),
}

const STEPS: &[(&str, Step)] = &[
    ("fmt", Step::Cargo(&["fmt", "--all", "--check"])),
    ("tidy", Step::Chore(crate::tidy::run, &[])),
    ("api", Step::Chore(crate::api::run, &["--check"])),
    ("build", Step::Chore(build, &[])),
    ("dependencies", Step::Chore(crate::dependencies::run, &[])),
    // The broker of Kafka comes from Maven, the collector of OpenTelemetry from PyPI.
    ("fetch", Step::Chore(crate::features::fetch, &[])),
    ("test", Step::Chore(test_run::run, &[])),
    ("doctest", Step::Cargo(&["test", "--quiet", "--workspace", "--doc", "--features", FEATURES])),
    // Packages come from PyPI; without them the step says so. Both spend much time on one core.
    ("python", Step::Chore(python_and_spark, &[])),
    ("site", Step::Chore(crate::site::run_if_possible, &[])),
    ("gallery", Step::Chore(crate::gallery::run, &["--check"])),
    // The first build that people make, and what its packets cost.
    ("instructions", Step::Chore(crate::instructions::run_if_possible, &[])),
];

/// Runs every step even after a failure, to report all failures together; or only the steps that are named.
///
/// # Errors
/// Steps have failed; or, on the CI machine, tests were skipped that `xtask/skips.txt` does not list.
pub fn run(names: &[String]) -> Result {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|(step, _)| step != name)) {
        let known: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no step `{unknown}`; there are: {}", known.join(", ")));
    }
    let (mut figures, mut failed) = (String::new(), Vec::new());
    let begun_all = Instant::now();
    for (name, step) in STEPS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name)) {
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
        figures += &line(name, outcome.is_ok(), begun.elapsed());
    }
    if let Err(trouble) = skips::check() {
        eprintln!("{trouble}");
        failed.push("skips");
    }
    figures += &line("all", failed.is_empty(), begun_all.elapsed());
    figures += &test_run::slowest();
    eprintln!("\n{figures}");
    write(target()?.join("ci/figures.txt"), &figures)?;
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed", failed.join(", "))) }
}

/// The tests with all their cases: some 20 minutes more than in CI.
pub fn soak(_: &[String]) -> Result {
    build(&[])?;
    crate::features::fetch(&[])?;
    test_run::with_all_cases()
}

fn line(name: &str, is_ok: bool, time: Duration) -> String {
    let verdict = if is_ok { "ok" } else { "FAILED" };
    format!("  {name:9} {verdict:7} {:6.1} s\n", time.as_secs_f64())
}

/// The tests of the Python package, and beside them those of the data source of Spark.
fn python_and_spark(_: &[String]) -> Result {
    let (python, spark) = std::thread::scope(|scope| {
        let spark = scope.spawn(|| crate::python::spark_tests_if_possible(&[]));
        (crate::python::tests_if_possible(&[]), spark.join())
    });
    python.and(spark.unwrap_or_else(|_| Err("the tests of Spark panicked".into())))
}

/// Compiles all crates with Clippy. Warnings are shown and make the step fail at its end, so that the tests
/// run nevertheless.
fn build(_: &[String]) -> Result {
    if shell::clippy().is_none() {
        return Err("Clippy is not installed\n  rustup component add clippy".into());
    }
    let mut cargo = shell::cargo();
    cargo.args(["build", "--quiet", "--workspace", "--all-targets", "--features", FEATURES]);
    let mut child = cargo.stderr(Stdio::piped()).spawn().map_err(said("cargo"))?;
    let stderr = child.stderr.take().ok_or("cargo has no output")?;
    let mut warnings = 0;
    for line in BufReader::new(stderr).lines() {
        let line = line.map_err(said("cargo"))?;
        warnings += u32::from(line.starts_with("warning"));
        eprintln!("{line}");
    }
    let status = child.wait().map_err(said("cargo"))?;
    match (status.success(), warnings) {
        (true, 0) => Ok(()),
        (true, _) => Err("there are warnings".into()),
        (false, _) => Err(format!("cargo build: {status}")),
    }
}

fn cargo(args: &[&str]) -> Result {
    let status = shell::cargo().args(args).status().map_err(said("cargo"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}

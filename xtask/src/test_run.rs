//! Runs all tests, and notes which are skipped and how long each takes: `ci/tests.txt` in the target folder.
//!
//! The test programs print this if they may use options that are not stable (`--report-time`), for which they
//! look at `RUSTC_BOOTSTRAP`. The variable is set for the test programs alone: the compiler sees it never.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::features::FEATURES;
use crate::shell::{Result, cargo, output, said, target, write};
use crate::skips;

/// The number of slow tests that are listed.
const SLOWEST: usize = 10;

/// Times of tests in seconds, with their names.
static TIMES: Mutex<Vec<(f64, String)>> = Mutex::new(Vec::new());

/// The tests, with the cases of CI.
///
/// # Errors
/// A test failed.
pub fn run(_: &[String]) -> Result {
    // The same cases in each run: a push fails for its own change only. Other cases are tried by each
    // `cargo test`.
    tests(&[("PROPTEST_RNG_SEED", "1"), ("WEIR_CASES", "few")])
}

/// The tests, with all cases.
///
/// # Errors
/// A test failed.
pub fn with_all_cases() -> Result {
    let outcome = tests(&[("WEIR_CASES", "all")]);
    eprint!("{}", slowest());
    outcome
}

/// The slowest tests of the last run, a line each.
pub fn slowest() -> String {
    listed().lines().take(SLOWEST).map(|line| format!("{line}\n")).collect()
}

/// All tests of the last run, a line each, the slowest one first.
fn listed() -> String {
    let mut times = TIMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    times.iter().map(|(seconds, name)| format!("  {seconds:7.1} s  {name}\n")).collect()
}

fn tests(variables: &[(&str, &str)]) -> Result {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let runner = format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_"));
    let mut cargo = cargo();
    cargo.args(["test", "--workspace", "--tests", "--no-fail-fast", "--features", FEATURES, "--"]);
    cargo.args(["-Z", "unstable-options", "--report-time", "--show-output"]);
    cargo.envs(variables.iter().copied()).env(runner, "env RUSTC_BOOTSTRAP=1");
    let mut child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(said("cargo test"))?;
    let stdout = child.stdout.take().ok_or("cargo test has no output")?;
    let mut reader = Reader::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(said("cargo test"))?;
        let line = String::from_utf8_lossy(&line);
        if reader.shows(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(said("cargo test"))?;
    TIMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut reader.times);
    write(target()?.join("ci/tests.txt"), listed())?;
    if status.success() { Ok(()) } else { Err(format!("cargo test: {status}")) }
}

/// Reads what test programs print.
#[derive(Default)]
struct Reader {
    /// Between `successes:` and what follows: output of tests that passed.
    in_successes: bool,
    times: Vec<(f64, String)>,
}

impl Reader {
    /// Takes a line in; whether a reader wants to see it. Tests that pass are quiet.
    fn shows(&mut self, line: &str) -> bool {
        if let Some(skip) = line.strip_prefix("skipped: ") {
            skips::note(skip);
            return false;
        }
        if let Some((name, seconds)) = passed(line) {
            self.times.push((seconds, name.to_string()));
            return false;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ if line.starts_with("test result:") => {
                self.in_successes = false;
                return true;
            }
            _ => {}
        }
        !self.in_successes && !line.is_empty() && !line.starts_with("running ")
    }
}

/// The name and the seconds of `test NAME ... ok <1.234s>`.
fn passed(line: &str) -> Option<(&str, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ok <")?;
    Some((name, rest.strip_suffix("s>")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_successes_are_quiet() {
        let mut reader = Reader::default();
        let lines = [
            "running 2 tests",
            "test a::b ... ok <1.250s>",
            "test c ... FAILED <0.001s>",
            "successes:",
            "---- a::b stdout ----",
            "some output",
            "failures:",
            "---- c stdout ----",
            "why",
            "test result: FAILED. 1 passed; 1 failed",
        ];
        let shown: Vec<&str> = lines.into_iter().filter(|line| reader.shows(line)).collect();
        assert_eq!(reader.times, [(1.25, "a::b".to_string())]);
        assert_eq!(shown, ["test c ... FAILED <0.001s>", "failures:", "---- c stdout ----", "why", lines[9]]);
    }
}

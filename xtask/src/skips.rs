//! Tests that did not run because something was missing. Each test says so on a line that begins with
//! `skipped:`. On the CI machine everything is installed, so a skipped test is a failure there, unless
//! `xtask/skips.txt` says why the test may be skipped.

use std::sync::Mutex;

use crate::shell::{Result, read, root};

/// Words of a line, a tab or several spaces, and the reason.
const LIST: &str = "xtask/skips.txt";

static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes that a test or a step did not run.
pub fn note(line: &str) {
    let mut skipped = SKIPPED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !skipped.iter().any(|known| known == line) {
        skipped.push(line.to_string());
    }
}

/// Prints the tests that were skipped.
///
/// # Errors
/// A test was skipped on the CI machine (`CI` is set), and is not listed.
pub fn check() -> Result {
    let skipped = SKIPPED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let list = read(root().join(LIST))?;
    let unlisted = unlisted(&skipped, &list);
    for line in skipped.iter() {
        eprintln!("skipped: {line}");
    }
    if unlisted.is_empty() || std::env::var_os("CI").is_none() {
        return Ok(());
    }
    Err(format!("these tests were skipped, and {LIST} does not say why:\n  {}", unlisted.join("\n  ")))
}

fn unlisted<'a>(skipped: &'a [String], list: &str) -> Vec<&'a str> {
    let entries = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once("  "));
    let listed: Vec<&str> = entries.map(|(words, _)| words.trim()).collect();
    let is_listed = |line: &&str| listed.iter().any(|words| line.contains(words));
    skipped.iter().map(String::as_str).filter(|line| !is_listed(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_tests_may_be_skipped() {
        let skipped = ["no captures in ../x".to_string(), "tshark is not installed".to_string()];
        let list = "# a comment  with two spaces\nno captures in  the repository ships none of others\n";
        assert_eq!(unlisted(&skipped, list), ["tshark is not installed"]);
    }
}

//! Licences of the crates that the programs contain, and crates that they contain twice. The list
//! `xtask/dependencies.txt` says what is allowed, and why.
//!
//! Known weaknesses (advisories) cannot be looked up without a network: `cargo install cargo-audit`, then
//! `cargo audit`, reads `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::features::FEATURES;
use crate::shell::{Result, output, read, root};

/// A line for each licence, `licence NAME`, and for each crate of several versions, `twice NAME  reason`.
const LIST: &str = "xtask/dependencies.txt";

/// Checks the crates of this machine's target, those of build scripts included, and those of tests not.
///
/// # Errors
/// A crate has no licence that is listed, or has several versions and is not listed; or a line of the list is
/// of no use any more.
pub fn run(_: &[String]) -> Result {
    let tree = ["tree", "--workspace", "--locked", "--features", FEATURES, "--edges", "normal,build"];
    let form = ["--prefix", "none", "--format", "{p}\t{l}"];
    let crates = output(Command::new("cargo").args(tree).args(form).current_dir(root()))?;
    let faults = faults(&crates, &read(root().join(LIST))?);
    if faults.is_empty() { Ok(()) } else { Err(format!("{LIST}:\n  {}", faults.join("\n  "))) }
}

/// What is wrong with these crates, of lines `NAME vVERSION …<tab>LICENCE`.
fn faults(crates: &str, list: &str) -> Vec<String> {
    let listed = |word: &str| -> BTreeSet<String> {
        let lines = list.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        lines.filter_map(|line| line.split("  ").next()).map(|name| name.trim().to_string()).collect()
    };
    let (licences, twice) = (listed("licence"), listed("twice"));
    let (mut used, mut versions) = (BTreeSet::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    let mut faults = BTreeSet::new();
    for line in crates.lines() {
        let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
        let licence = licence.trim_end_matches("(*)").trim();
        let mut words = package.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        versions.entry(name).or_default().insert(version);
        let mut is_allowed = |licence: &str| {
            licences.contains(licence) && {
                used.insert(licence.to_string());
                true
            }
        };
        if !allows(licence, &mut is_allowed) {
            faults.insert(format!("{name} {version}: the licence `{licence}` is not listed"));
        }
    }
    for (name, versions) in versions.iter().filter(|(name, all)| all.len() > 1 && !twice.contains(**name)) {
        let versions: Vec<&str> = versions.iter().copied().collect();
        faults.insert(format!("{name} is there more than once: {}", versions.join(", ")));
    }
    for name in twice.iter().filter(|name| versions.get(name.as_str()).is_none_or(|all| all.len() < 2)) {
        faults.insert(format!("{name} is there once: remove the line"));
    }
    for licence in licences.difference(&used) {
        faults.insert(format!("no crate has the licence {licence}: remove the line"));
    }
    faults.into_iter().collect()
}

/// Whether an expression of SPDX is met. `AND` binds more than `OR`; old crates write `/` for `OR`.
fn allows(expression: &str, is_allowed: &mut dyn FnMut(&str) -> bool) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut depth = 0_i32;
    let mut any = vec![vec![String::new()]];
    for word in expression.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
        depth += i32::from(word == "(") - i32::from(word == ")");
        match word {
            "OR" if depth == 0 => any.push(vec![String::new()]),
            "AND" if depth == 0 => any.last_mut().into_iter().for_each(|all| all.push(String::new())),
            _ => {
                for term in any.last_mut().into_iter().filter_map(|all| all.last_mut()) {
                    *term = format!("{term} {word}").trim().to_string();
                }
            }
        }
    }
    // Without short circuit: each licence that is met is of use.
    let met = |term: &String, is_allowed: &mut dyn FnMut(&str) -> bool| match term
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
    {
        Some(inner) => allows(inner, is_allowed),
        None => is_allowed(term),
    };
    let mut meets = |all: &Vec<String>| {
        let each: Vec<bool> = all.iter().map(|term| met(term, is_allowed)).collect();
        !each.contains(&false)
    };
    let any: Vec<bool> = any.iter().map(&mut meets).collect();
    any.contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met() {
        for (expression, wanted) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("(GPL-3.0 OR GPL-2.0) AND Unicode-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
            assert_eq!(allows(expression, &mut |licence| allowed.contains(&licence)), wanted, "{expression}");
        }
    }

    #[test]
    fn faults_are_named() {
        let crates = "a v1.0.0\tMIT\na v2.0.0 (*)\tMIT\nb v1.0.0\tGPL-3.0\nweir v0.1.0 (/work)\tMIT (*)\n";
        let list = "licence MIT\nlicence ISC\ntwice b  a reason\n";
        assert_eq!(
            faults(crates, list),
            [
                "a is there more than once: v1.0.0, v2.0.0",
                "b is there once: remove the line",
                "b v1.0.0: the licence `GPL-3.0` is not listed",
                "no crate has the licence ISC: remove the line",
            ]
        );
    }
}

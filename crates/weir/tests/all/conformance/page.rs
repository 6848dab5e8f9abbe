//! `docs/conformance.md`: the test generates its tables, so they cannot be out of date.

use super::compare::Tally;
use super::known::Known;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- tables: WEIR_BLESS=1 cargo test -p weir --test all conformance -->\n";
const END: &str = "<!-- end of tables -->\n";

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md"))
}

/// The page on disk, and the expected page.
pub fn pages(tally: &Tally, known: &Known, files: usize) -> (String, String) {
    let page = std::fs::read_to_string(path()).expect("the page is in the project");
    let (before, rest) = page.split_once(BEGIN).expect("the page has tables");
    let (_, after) = rest.split_once(END).expect("the tables end");
    let right = format!("{before}{BEGIN}{}{END}{after}", tables(tally, known, files));
    (page, right)
}

/// Writes the page.
pub fn write(page: &str) {
    std::fs::write(path(), page).expect("the project can be written to");
}

/// Agreement by category, then reasons with their files.
pub fn tables(tally: &Tally, known: &Known, files: usize) -> String {
    let mut text =
        format!("\n{files} captures.\n\n| what | agree | of | reasons, captures each |\n|---|--:|--:|---|\n");
    for (category, (agreed, compared)) in &tally.counts {
        let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
        for difference in tally.differences.iter().filter(|d| d.1 == *category) {
            *classes.entry(known.class(difference)).or_default() += 1;
        }
        let classes: Vec<String> = classes.iter().map(|(class, count)| format!("{class} {count}")).collect();
        let _ = writeln!(text, "| {category} | {agreed} | {compared} | {} |", classes.join(", "));
    }
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for difference in &tally.differences {
        reasons.entry(known.reason(difference)).or_default().insert(&difference.0);
    }
    text.push_str("\n| reason | captures |\n|---|---|\n");
    for (reason, files) in reasons {
        let files: Vec<String> = files.iter().map(|f| format!("`{f}`")).collect();
        let _ = writeln!(text, "| {reason} | {} |", files.join(" "));
    }
    text.push('\n');
    text
}

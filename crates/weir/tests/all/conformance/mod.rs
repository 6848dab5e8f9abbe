//! Conformance: public captures, compared with the output of tshark and Zeek.
//!
//! The captures are not part of the project. `WEIR_TRACES` names their folder; without it, and without one
//! beside the project, the test passes with a message. Each capture has NAME.expect.json (tshark), some have
//! NAME.zeek.json. Differences are listed in `known.tsv` with their reasons; an unlisted difference, or a
//! listed one that no longer exists, fails the test. `WEIR_BLESS=1` rewrites the list and the tables of
//! `docs/conformance.md`; the author then adds reasons for new entries.

mod compare;
mod known;
mod ladders;
mod ours;
mod page;
mod sessions;

use compare::{Tally, array};
use known::Known;
use ours::Questions;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// Stacks that are tested. A capture uses the one named like a layer that tshark finds in it, otherwise the
/// first.
const STACKS: [&str; 3] = ["internet", "pptp", "quic"];

fn traces() -> Option<PathBuf> {
    let given = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    let path = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"));
    if path.join("INDEX.tsv").is_file() {
        return Some(path);
    }
    println!("skipped: no captures at {} (WEIR_TRACES names their folder)", path.display());
    None
}

fn json(path: &str) -> Option<Json> {
    let bytes = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&bytes).expect("JSON"))
}

#[test]
fn tshark_and_zeek_agree_but_for_what_is_explained() {
    let Some(root) = traces() else { return };
    let index = std::fs::read_to_string(root.join("INDEX.tsv")).expect("readable");
    let stacks: Vec<(&str, Questions)> = STACKS.iter().map(|&s| (s, Questions::compile(s))).collect();
    let mut tally = Tally::default();
    let mut files = 0;
    for file in index.lines().skip(1).filter_map(|l| l.split('\t').next()) {
        let path = root.join(file);
        let name = path.to_string_lossy();
        let expect = json(&format!("{name}.expect.json")).expect("every capture has one");
        let has = |layer: &str| expect["protocol_frames"][layer].is_number();
        let questions = stacks.iter().find(|(stack, _)| has(stack));
        let questions = &questions.unwrap_or(&stacks[0]).1;
        let seen = questions.ask(&path);
        compare::tshark(&mut tally, questions, file, &seen, &expect);
        if let Some(zeek) = json(&format!("{name}.zeek.json")) {
            compare::zeek(&mut tally, file, &seen, array(&zeek));
        }
        if let Some(ndpi) = json(&format!("{name}.ndpi.json")) {
            sessions::ndpi(&mut tally, file, &seen, array(&ndpi["flows"]));
        }
        files += 1;
    }
    assert!(files > 0, "the folder is there, and no capture in it");
    judge(&tally, files);
}

fn judge(tally: &Tally, files: usize) {
    let mut known = Known::read();
    println!("{}", page::tables(tally, &known, files));
    if std::env::var_os("WEIR_BLESS").is_some() {
        known.bless(&tally.differences);
        known = Known::read();
        page::write(&page::pages(tally, &known, files).1);
    }
    let new: Vec<_> = tally.differences.iter().filter(|d| !known.explains(d)).collect();
    let stale = known.stale(&tally.differences);
    for (file, category, what) in &new {
        println!("not explained: {file}: {category}: {what}");
    }
    for (file, category, what) in &stale {
        println!("no longer so: {file}: {category}: {what}");
    }
    assert!(new.is_empty() && stale.is_empty(), "{} new, {} no longer so", new.len(), stale.len());
    let (page, right) = page::pages(tally, &known, files);
    assert!(page == right, "docs/conformance.md is stale: WEIR_BLESS=1 writes its tables");
}

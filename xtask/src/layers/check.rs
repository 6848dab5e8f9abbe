//! `cargo xtask layers --check`: compares `protocols/*.expect` with tshark.
//!
//! Filters are the same if fields have Wireshark's names. Filters that tshark does not know, and Weir's ways
//! of naming a missing layer, follow `weir` in the expectation and are skipped here.

use crate::shell::{Result, need, output, read, root};
use std::process::Command;

pub fn run() -> Result {
    need(&[("tshark", "tshark")])?;
    let mut wrong = vec![];
    let folder = root().join("protocols");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for path in entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "expect")) {
        for line in read(&path)?.lines() {
            let Some((count, filter)) = line.strip_prefix("filter ").and_then(|l| l.split_once(' ')) else {
                continue;
            };
            let mut tshark = Command::new("tshark");
            tshark.arg("-r").arg(path.with_extension("pcap")).args(["-Y", filter]);
            let found = output(&mut tshark).map_or_else(|e| e, |text| text.lines().count().to_string());
            if found != count {
                wrong.push(format!("{}: {filter}: {count} expected, tshark: {found}", path.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

//! Tables about captures on links: pairs of virtual Ethernet in a network namespace of the bench's own, as root. They take
//! minutes, and are measured only if they are named: `cargo xtask bench "Rates on links"`.
//!
//! `live_frames.rs` sends, `receivers.rs` has the programs that receive. The tables: `rates.rs`, `narrow.rs`, `downloads.rs`,
//! `soak.rs`.

mod live_frames;
mod pair;
mod rates;
mod receivers;

use std::path::Path;

use super::Options;
use crate::lab;
use crate::shell::Result;

/// What the tables need besides the lab's programs.
const TOOLS: &[(&str, &str)] = &[
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("taskset", "util-linux"),
    ("chrt", "util-linux"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("tcpdump", "tcpdump"),
];

/// Makes a table, by the path of `weir` and a folder for temporary files.
type Maker = fn(&Path, &Path, &Options) -> Result<String>;

const TABLES: [(&str, Maker); 1] = [(rates::TITLE, rates::table)];

/// The tables that are named.
fn wanted(options: &Options) -> impl Iterator<Item = (&'static str, Maker)> {
    let is_named = |title: &&str| options.titles.iter().any(|words| title.contains(words));
    TABLES.into_iter().filter(move |(title, _)| is_named(title))
}

/// Runs the bench again inside namespaces of its own if one of these tables is named. Returns whether the caller does the work.
pub fn enter(options: &Options, args: &[String]) -> Result<bool> {
    match wanted(options).next() {
        Some(_) => lab::enter_with("bench", args, TOOLS, lab::SHARED_PROCESSES),
        None => Ok(true),
    }
}

/// The tables that are named.
pub fn tables(options: &Options, weir: &Path, scratch: &Path, mut add: impl FnMut(String)) -> Result {
    for (_, make) in wanted(options) {
        add(make(weir, scratch, options)?);
    }
    Ok(())
}

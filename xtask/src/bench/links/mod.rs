//! Tables about captures on links: pairs of virtual Ethernet in a network namespace of the bench's own, as
//! root. They take minutes, and are measured only if they are named: `cargo xtask bench "Rates on links"`.
//!
//! [`weir_link::live_frames`] sends, `receivers.rs` has the programs that receive. The tables: `rates.rs`,
//! `narrow.rs`, `downloads.rs`, `soak.rs`.

mod downloads;
mod narrow;
mod pair;
mod rates;
mod receivers;
mod soak;
mod watched;

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

/// A table: its title, what measures it by the path of `weir` and a folder for temporary files, and whether
/// it needs the lab.
struct Table {
    title: &'static str,
    make: fn(&Path, &Path, &Options) -> Result<String>,
    is_in_lab: bool,
}

const TABLES: [Table; 4] = [
    Table { title: rates::TITLE, make: rates::table, is_in_lab: false },
    Table { title: narrow::TITLE, make: narrow::table, is_in_lab: false },
    Table { title: downloads::TITLE, make: downloads::table, is_in_lab: true },
    Table { title: soak::TITLE, make: soak::table, is_in_lab: true },
];

/// The tables that are named.
fn wanted(options: &Options) -> impl Iterator<Item = &'static Table> {
    let is_named = |table: &&Table| options.titles.iter().any(|words| table.title.contains(words.as_str()));
    TABLES.iter().filter(is_named)
}

/// Runs the bench again for each of these tables that is named, inside namespaces of its own. Returns whether
/// the caller has work, too.
pub fn enter(options: &Options, args: &[String]) -> Result<bool> {
    if lab::is_inside() {
        return Ok(true);
    }
    for table in wanted(options) {
        // The table's title instead of all titles.
        let others = args.iter().filter(|arg| !options.titles.contains(arg)).cloned();
        let args: Vec<String> = std::iter::once(table.title.to_string()).chain(others).collect();
        match table.is_in_lab {
            true => lab::enter("bench", &args)?,
            false => lab::enter_with("bench", &args, TOOLS, lab::SHARED_PROCESSES)?,
        };
    }
    let is_of_links = |words: &String| TABLES.iter().any(|table| table.title.contains(words.as_str()));
    Ok(options.titles.is_empty() || !options.titles.iter().all(is_of_links))
}

/// Measures the tables that are named, if this is the run inside their namespaces.
pub fn tables(options: &Options, weir: &Path, scratch: &Path, mut add: impl FnMut(String)) -> Result {
    for table in wanted(options).filter(|_| lab::is_inside()) {
        add((table.make)(weir, scratch, options)?);
    }
    Ok(())
}

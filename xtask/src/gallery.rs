//! `cargo xtask gallery [--check]`: explained filters for code reviews.
//!
//! Every line `NAME FILTER` of `docs/gallery/filters.txt` becomes `docs/gallery/NAME.txt`, the output of
//! `weir explain FILTER`. Changes of the compiler appear there as differences; `--check` fails if the pages
//! differ from the current output.

use std::path::Path;
use std::process::Command;

use crate::shell::{Result, build_weir, output, read, root, write};

/// Units of values that vary between runs or machines; the number before them is omitted.
const UNSTEADY: [&str; 4] = ["ns", "µs", "ms", "bytes"];

pub fn run(args: &[String]) -> Result {
    let is_check = args.iter().any(|arg| arg == "--check");
    let folder = root().join("docs/gallery");
    let weir = build_weir(false)?;
    if output(Command::new(&weir).args(["explain", "--help"])).map_or(true, |help| help.is_empty()) {
        return missing_command(&folder);
    }
    let mut stale = Vec::new();
    for (name, filter) in filters(&read(folder.join("filters.txt"))?)? {
        let shown = output(Command::new(&weir).args(["explain", &filter]).env("NO_COLOR", "1"))?;
        let page = format!("$ weir explain '{filter}'\n\n{}", steady(&shown));
        let file = folder.join(format!("{name}.txt"));
        if read(&file).is_ok_and(|old| old == page) {
            continue;
        }
        if is_check {
            stale.push(name);
        } else {
            write(&file, page)?;
            eprintln!("docs/gallery/{name}.txt");
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("stale: {}\n  run `cargo xtask gallery`, read the difference, commit it", stale.join(", ")))
}

/// A program without `explain` is allowed only while no pages exist.
fn missing_command(folder: &Path) -> Result {
    let pages =
        std::fs::read_dir(folder).into_iter().flatten().flatten().filter(|f| f.file_name() != "filters.txt");
    if pages.count() == 0 {
        eprintln!("gallery: `weir explain` is not there yet; nothing to compare");
        return Ok(());
    }
    Err("`weir explain --help` fails, but docs/gallery has pages made by it".into())
}

/// `NAME FILTER` lines; `#` begins a comment.
fn filters(text: &str) -> Result<Vec<(String, String)>> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, filter) =
                line.split_once(' ').ok_or(format!("filters.txt: {line:?} has no filter"))?;
            Ok((name.to_string(), filter.trim().to_string()))
        })
        .collect()
}

/// The text with every measured number replaced by `…`.
fn steady(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
        for n in 1..words.len() {
            let unit = words[n].trim_end_matches([',', ';', '.', ')']);
            let number = words[n - 1].trim_start_matches('(');
            if UNSTEADY.contains(&unit) && number.parse::<f64>().is_ok() {
                words[n - 1] = words[n - 1].replace(number, "…");
            }
        }
        words.join(" ").trim_end().to_string()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_numbers_are_left_out_and_others_stay() {
        let shown = "14 blocks → 9; 5 loads; 412 bytes, compiled in 0.7 ms (1.5 µs)  \n";
        assert_eq!(steady(shown), "14 blocks → 9; 5 loads; … bytes, compiled in … ms (… µs)\n");
    }
}

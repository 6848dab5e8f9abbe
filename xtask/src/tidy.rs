//! `cargo xtask tidy`: the machine-checkable part of the house style.
//!
//! `xtask/tidy.txt` has the limits and exceptions. The checks rely on rustfmt: a function ends at the first
//! closing brace with its own indentation. Clippy checks the rest (`undocumented_unsafe_blocks`).
//! Faults fail the check. Long files and long functions are warnings: reasons to look, not limits.

use std::process::Command;

use crate::functions::Places;
use crate::imports::Imports;
use crate::shell::{Result, output, read, root, write};

const FILE_LINES_WARN: usize = 600;
const FUNCTION_LINES_WARN: usize = 70;
/// Maximum distance of a SAFETY comment above its `unsafe`, in lines.
const SAFETY_LINES: usize = 8;
/// Columns of a line, as for code (`rustfmt.toml`).
const COLUMNS_MAX: usize = 110;
const UNFINISHED: [&str; 3] = ["todo!", "dbg!", "unimplemented!"];
const SETTINGS: &str = "xtask/tidy.txt";

pub fn run(_args: &[String]) -> Result {
    let settings = Settings::read()?;
    let files =
        output(Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root()))?;
    let mut report = Report::default();
    for name in files.lines().filter(|name| root().join(name).is_file()) {
        let is_text = [".rs", ".weir", ".toml", ".md", ".c"].iter().any(|end| name.ends_with(end));
        if !is_text || name.contains("corpus/") {
            continue;
        }
        let text = read(root().join(name))?;
        check_text(name, &text, &mut report);
        if name.ends_with(".rs") {
            check_rust(name, &text, &settings, &mut report);
        } else if name.ends_with("Cargo.toml") && name != "Cargo.toml" && !name.starts_with("fuzz/") {
            check_crate(name, &text, &settings, &mut report)?;
        }
    }
    for krate in crates(&files) {
        check_ratchets(krate, &settings, &mut report)?;
    }
    report.close()
}

/// The names of the ratchets: `cyclic_files` counts files, `cyclic_rooms` the folders of a crate and the
/// files beside them, the others count places.
const RATCHETS: [&str; 5] =
    ["cyclic_files", "cyclic_rooms", "effectful_queries", "filter_texts", "long_parameter_lists"];

/// The contents of `tidy.txt`.
struct Settings {
    /// A ratchet's name, a crate, and the number that the crate still has.
    ratchets: Vec<(String, String, usize)>,
    may_be_unsafe: Vec<String>,
}

impl Settings {
    fn read() -> Result<Self> {
        let mut settings = Self { ratchets: vec![], may_be_unsafe: vec![] };
        for line in read(root().join(SETTINGS))?.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [name, krate, number] if RATCHETS.contains(&name) => {
                    let number = number.parse().map_err(|_| format!("{SETTINGS}: {line}"))?;
                    settings.ratchets.push((name.into(), krate.into(), number));
                }
                ["unsafe", file, ..] => settings.may_be_unsafe.push(file.into()),
                [] => {}
                [word, ..] if word.starts_with('#') => {}
                _ => return Err(format!("{SETTINGS}: {line:?} is neither a number nor an exception")),
            }
        }
        Ok(settings)
    }
}

/// The folders of the crates, each once.
fn crates(files: &str) -> std::collections::BTreeSet<&str> {
    let is_root = |name: &&str| name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs");
    files.lines().filter(is_root).filter_map(|name| Some(name.rsplit_once("/src/")?.0)).collect()
}

#[derive(Default)]
struct Report {
    faults: Vec<String>,
    /// Lines of the settings with a number that has fallen, and the lines in their place.
    fallen: Vec<(String, String)>,
}

impl Report {
    fn fault(&mut self, file: &str, line: usize, what: &str) {
        self.faults.push(format!("{file}:{}: {what}", line + 1));
    }

    fn close(self) -> Result {
        for (old, new) in &self.fallen {
            write(root().join(SETTINGS), read(root().join(SETTINGS))?.replace(old, new))?;
            eprintln!("tidy: {SETTINGS}: {} is {} now", old.trim_end(), new.trim_end());
        }
        if self.faults.is_empty() { Ok(()) } else { Err(format!("\n  {}", self.faults.join("\n  "))) }
    }
}

/// The crate has no more of each habit than its number allows.
fn check_ratchets(krate: &str, settings: &Settings, report: &mut Report) -> Result {
    let sources = root().join(krate).join("src");
    let (imports, places) = (Imports::of(&sources)?, Places::of(&sources)?);
    let rooms = imports.between_rooms();
    let found = [
        (imports.cyclic(), imports.cycles()),
        (rooms.cyclic(), rooms.cycles()),
        (places.effectful_queries.len(), places.effectful_queries),
        (places.filter_texts.len(), places.filter_texts),
        (places.long_parameter_lists.len(), places.long_parameter_lists),
    ];
    for (name, (number, places)) in RATCHETS.into_iter().zip(found) {
        let known = settings.ratchets.iter().find(|(ratchet, of, _)| ratchet == name && of == krate);
        let allowed = known.map_or(0, |(_, _, number)| *number);
        if number > allowed {
            let places = places.join("\n    ");
            report.faults.push(format!("{krate}: {name} are {number}, {allowed} may be:\n    {places}"));
        }
        if number < allowed {
            let line = |number: usize| format!("{name} {krate} {number}\n");
            report.fallen.push((line(allowed), if number == 0 { String::new() } else { line(number) }));
        }
    }
    Ok(())
}

fn check_text(name: &str, text: &str, report: &mut Report) {
    for (n, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            report.fault(name, n, "trailing white space");
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        report.fault(name, text.lines().count(), "no line end at the end");
    }
}

fn check_rust(name: &str, text: &str, settings: &Settings, report: &mut Report) {
    let lines: Vec<&str> = text.lines().collect();
    let is_test = ["/tests/", "/benches/", "/tests.rs"].iter().any(|part| name.contains(part));
    let tests_at = lines.windows(2).position(|w| w[0] == "#[cfg(test)]" && w[1].starts_with("mod "));
    let body = &lines[..if is_test { 0 } else { tests_at.unwrap_or(lines.len()) }];

    if body.len() > FILE_LINES_WARN {
        eprintln!("tidy: {name} has {} lines; think whether it is one thing", body.len());
    }
    for (n, function) in long_functions(body) {
        eprintln!(
            "tidy: {name}:{}: more than {FUNCTION_LINES_WARN} lines; is it one thought? {function}",
            n + 1
        );
    }
    for n in long_comments(&lines) {
        report.fault(name, n, &format!("a comment of more than {COLUMNS_MAX} columns"));
    }
    for (n, line) in lines.iter().enumerate() {
        let code = code_of(line);
        if let Some(word) = UNFINISHED.iter().find(|word| code.contains(*word)) {
            report.fault(name, n, &format!("{word} is not for keeps"));
        }
        let is_block = code.contains("unsafe {") || code.contains("unsafe impl");
        let above = &lines[n.saturating_sub(SAFETY_LINES)..=n];
        if is_block && !above.iter().any(|l| l.contains("SAFETY:")) {
            report.fault(name, n, "`unsafe` without `// SAFETY:` above it");
        }
    }
    let first_unsafe = lines.iter().position(|line| has_word(&code_of(line), "unsafe"));
    if let Some(n) = first_unsafe.filter(|_| !settings.may_be_unsafe.iter().any(|file| name == file)) {
        report.fault(name, n, &format!("`unsafe`, and the file is not listed in {SETTINGS}"));
    }
}

/// Lines of comments that are too long. Rows of tables and blocks between fences may be.
fn long_comments(lines: &[&str]) -> Vec<usize> {
    let mut in_fence = false;
    let mut long = vec![];
    for (n, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_fence = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        in_fence ^= text.starts_with("```");
        if line.chars().count() > COLUMNS_MAX && !in_fence && !text.starts_with('|') {
            long.push(n);
        }
    }
    long
}

/// Every function that is longer than a screen, with its first line.
fn long_functions<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str)> {
    let mut long = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let head = line.trim_start();
        let is_function = head.split("fn ").next().is_some_and(|before| {
            before.len() < head.len()
                && before.split_whitespace().all(|word| {
                    word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
                })
        });
        if !is_function {
            continue;
        }
        let indentation = &line[..line.len() - head.len()];
        let rest = &lines[n..];
        let is_over = |l: &&str| {
            let own = l.strip_prefix(indentation).unwrap_or("");
            own == "}"
                || own == head && own.ends_with([';', '}'])
                || own.starts_with(')') && own.ends_with(';')
        };
        let span = rest.iter().position(is_over).map_or(0, |last| last + 1);
        if span > FUNCTION_LINES_WARN {
            long.push((n, head));
        }
    }
    long
}

/// A crate inherits the workspace's lints, has a README, and forbids `unsafe` unless one of its files is an
/// exception.
fn check_crate(name: &str, text: &str, settings: &Settings, report: &mut Report) -> Result {
    if !text.contains("[lints]\nworkspace = true") {
        report.fault(name, 0, "no `[lints] workspace = true`");
    }
    let folder = name.trim_end_matches("Cargo.toml");
    if !root().join(folder).join("README.md").is_file() {
        report.fault(
            name,
            0,
            "no README.md beside it: purpose, inputs, outputs, counters, where to start reading",
        );
    }
    if settings.may_be_unsafe.iter().any(|file| file.starts_with(folder)) {
        return Ok(());
    }
    for main in ["src/lib.rs", "src/main.rs"] {
        let file = format!("{folder}{main}");
        if root().join(&file).is_file()
            && !read(root().join(&file))?.lines().any(|line| line == "#![forbid(unsafe_code)]")
        {
            report.fault(&file, 0, "no `#![forbid(unsafe_code)]`");
        }
    }
    Ok(())
}

/// The line without comments and without the contents of quotes.
fn code_of(line: &str) -> String {
    let outside: String = line.replace("\\\"", "").split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    outside.split("//").next().unwrap_or("").to_string()
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_are_not_code() {
        assert!(has_word(&code_of("    unsafe { f() }"), "unsafe"));
        for quiet in ["// unsafe", "let a = \"unsafe\";", "#![forbid(unsafe_code)]"] {
            assert!(!has_word(&code_of(quiet), "unsafe"), "{quiet}");
        }
    }

    #[test]
    fn long_comments_are_found_outside_tables_and_fences() {
        let long = format!("    /// {}", "x".repeat(COLUMNS_MAX));
        let row = format!("    /// | {}", "x".repeat(COLUMNS_MAX));
        assert_eq!(
            long_comments(&["    /// short", &long, &row, "/// ```", &long, "/// ```", &long]),
            [1, 6]
        );
    }

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let body = vec!["        x();"; FUNCTION_LINES_WARN];
        let long = [&["    pub fn long() {"][..], &body, &["    }", "    fn short(&self) {}"]].concat();
        assert_eq!(long_functions(&long), [(0, "pub fn long() {")]);
        assert_eq!(long_functions(&["fn declared();", "    fn two() {", "    }"]), []);
    }
}

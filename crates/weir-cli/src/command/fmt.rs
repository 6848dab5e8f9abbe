//! `weir fmt`: formats `.weir` files, or shows the differences.

use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir::lang;
use weir_questions::Group;
use weir_questions::messages::Failure;
use weir_questions::source::input;

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("fmt mine.weir", "formats a file"),
    ("fmt --check protocols/*.weir", "only says which files differ"),
    ("fmt - < mine.weir", "as a filter"),
];

/// Arguments of `fmt`.
#[derive(ClapArgs)]
struct Args {
    /// Files to format; without files, and for `-`: standard input to standard output
    #[arg(value_name = "FILE.weir")]
    files: Vec<PathBuf>,
    /// Write nothing; print the differences, with exit status 1 if there are any
    #[arg(long)]
    check: bool,
}
/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "fmt",
        "Format .weir files in place: sets indentation and spaces; keeps lines, columns and comments",
        |args: Args, _| run(&args),
    )
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let (mut changes, mut failed) = (false, false);
    for path in files {
        match lay_out(path, args.check) {
            Ok(changed) => changes |= changed,
            // The reader closed the output.
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            // The other files are still formatted.
            Err(failure) => {
                failure.report();
                failed = true;
            }
        }
    }
    Ok(ExitCode::from(match (failed, args.check && changes) {
        (true, _) => 2,
        (false, changes) => u8::from(changes),
    }))
}

/// Formats or compares one file. Returns whether its layout differed.
fn lay_out(path: &Path, only_check: bool) -> Result<bool, Failure> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
    let old = match is_stdin {
        true => {
            std::io::read_to_string(std::io::stdin()).map_err(|e| Failure::new(format!("{name}: {e}")))?
        }
        false => input::read_text(path)?,
    };
    let new = lang::format(&name, &old)?;
    let changed = old != new;
    if only_check {
        write!(std::io::stdout(), "{}", diff(&name, &old, &new))?;
    } else if is_stdin {
        write!(std::io::stdout(), "{new}")?;
    } else if changed {
        // An unchanged file keeps its modification time.
        std::fs::write(path, new).map_err(|e| Failure::writing(&name, &e))?;
    }
    Ok(changed)
}

/// A line of one text or of both, without its line end.
#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// The changes as a unified diff; empty if there are none.
fn diff(name: &str, old: &str, new: &str) -> String {
    let lines = pair(old, new);
    let hunks = hunks(&lines);
    if hunks.is_empty() {
        return String::new();
    }
    let mut text = format!("--- {name}\n+++ {name}, laid out\n");
    let (mut at, mut old_line, mut new_line) = (0, 0, 0);
    for hunk in hunks {
        // Lines between hunks are common to both texts.
        let skipped = hunk.start - at;
        (old_line, new_line) = (old_line + skipped, new_line + skipped);
        let (mut body, mut old_count, mut new_count) = (String::new(), 0, 0);
        for line in &lines[hunk.clone()] {
            let (sign, words) = match line {
                Line::Both(words) => (' ', words),
                Line::Old(words) => ('-', words),
                Line::New(words) => ('+', words),
            };
            old_count += usize::from(sign != '+');
            new_count += usize::from(sign != '-');
            body += &format!("{sign}{words}");
            if !words.ends_with('\n') {
                body += "\n\\ No newline at end of file\n";
            }
        }
        let _ = writeln!(
            text,
            "@@ -{},{old_count} +{},{new_count} @@",
            old_line + usize::from(old_count > 0),
            new_line + usize::from(new_count > 0)
        );
        text += &body;
        (at, old_line, new_line) = (hunk.end, old_line + old_count, new_line + new_count);
    }
    text
}

/// Pairs the lines of both texts. Formatting only changes lines and drops blank ones, so pairs are found
/// without a search.
fn pair<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let mut new = new.split_inclusive('\n').peekable();
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    for line in old.split_inclusive('\n') {
        let is_dropped = line.trim().is_empty() && new.peek().is_none_or(|new| !new.trim().is_empty());
        let became = if is_dropped { None } else { new.next() };
        if became == Some(line) {
            lines.append(&mut added);
            lines.push(Line::Both(line));
        } else {
            lines.push(Line::Old(line));
            added.extend(became.map(Line::New));
        }
    }
    lines.append(&mut added);
    lines.extend(new.map(Line::New));
    lines
}

/// The ranges of changed lines with their context; adjacent ranges are merged.
fn hunks(lines: &[Line<'_>]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if matches!(line, Line::Both(_)) {
            continue;
        }
        let (start, end) = (at.saturating_sub(CONTEXT_LINES), (at + CONTEXT_LINES + 1).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

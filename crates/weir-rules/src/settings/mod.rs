//! What a sensor says about rules, in files of its own: classes, kinds of references, thresholds and
//! suppressions.

mod classes;
mod references;
mod tunings;

pub use classes::{Class, Classes, PRIORITY};
pub use references::References;
pub use tunings::{GlobalThreshold, RateAction, RateFilter, RuleIds, Suppression, Tunings, Victim};

use crate::text::{RuleText, rules_of};
use weir_lang::diag::Diagnostic;

/// A code for lines of such files.
const LINE: &str = "W0209";

/// Reads the lines of a text that are neither empty nor comments, and collects the mistakes.
fn read<'t>(
    text: &'t str,
    source: u16,
    mut take: impl FnMut(&RuleText<'t>) -> Result<(), Diagnostic>,
) -> Vec<Diagnostic> {
    rules_of(text, source).iter().filter_map(|line| take(line).err()).collect()
}

/// A mistake in a part of a line; without a part, in the whole line.
fn wrong(line: &RuleText<'_>, part: &str, why: impl Into<String>, help: &str) -> Diagnostic {
    let start = part.as_ptr().addr().checked_sub(line.text.as_ptr().addr());
    let start = start.filter(|start| start + part.len() <= line.text.len());
    let (start, end) = start.map_or((0, line.text.len()), |start| (start, start + part.len()));
    Diagnostic::error(LINE, why).at(line.span(start, end)).help(help)
}

/// The text behind `config NAME:`.
fn config<'t>(line: &RuleText<'t>, name: &str, form: &str) -> Result<&'t str, Diagnostic> {
    let rest = line.text.strip_prefix("config").map(str::trim_start);
    let rest = rest.and_then(|rest| rest.strip_prefix(name)).map(str::trim_start);
    let rest = rest.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    rest.ok_or_else(|| wrong(line, line.text, format!("the line does not begin with `config {name}:`"), form))
}

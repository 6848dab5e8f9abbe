//! What follows from a mistake that was said, and is none of its own.
//!
//! Where a part of a text could not be read, all that it declares is missing: names that stand in it are unknown, clauses
//! are not there, a header ends within a byte. One mistake is said once; so these are left out, and whoever mends it
//! is told the rest, if there is any.

use super::codes;
use crate::diag::{Diagnostic, Sources, Span};
use crate::syntax::ast::{File, Unread};
use std::collections::HashSet;

/// A name that is missing; it may stand in what could not be read of any text.
const NAMES: &[&str] = &[
    codes::UNKNOWN_NAME,
    codes::UNKNOWN_BELOW,
    codes::UNKNOWN_STATE,
    codes::UNKNOWN_TRIGGER,
    codes::UNKNOWN_LAYER,
    codes::NOT_HERE,
    codes::TOO_EARLY,
];

/// What a part that is missing leaves behind around it.
const AROUND: &[&str] = &[
    codes::MISSING_CLAUSE,
    codes::UNALIGNED,
    codes::ASSEMBLE,
    codes::UNREACHABLE_STATE,
    codes::NO_TIMEOUT,
    codes::UNREACHED_LAYER,
];

/// What is wrong with clauses whatever they belong to: of what extends a protocol that nobody knows.
pub(super) fn drop_unknowable(list: &mut Vec<Diagnostic>) {
    list.retain(|one| one.is_error() && !NAMES.contains(&one.code) && !AROUND.contains(&one.code));
}

/// Leaves out of `list` what follows from the parts of `files` that could not be read.
pub(crate) fn drop_followers(list: &mut Vec<Diagnostic>, files: &[File], sources: &Sources) {
    let unread: Vec<Unread> = files.iter().flat_map(|file| file.unread.iter().copied()).collect();
    if unread.is_empty() {
        return;
    }
    let mut words: HashSet<&str> = HashSet::new();
    unread.iter().for_each(|unread| words.extend(parts_of(sources.slice(unread.part))));
    list.retain(|one| {
        let Some(&(span, _)) = one.spans.first() else { return true };
        if NAMES.contains(&one.code) {
            return !parts_of(sources.slice(span)).any(|part| words.contains(part));
        }
        !AROUND.contains(&one.code) || !unread.iter().any(|unread| is_inside(span, unread.item))
    });
}

fn is_inside(span: Span, item: Span) -> bool {
    span.source == item.source && item.start <= span.start && span.end <= item.end
}

/// The words of a text, dotted names taken apart.
fn parts_of(text: &str) -> impl Iterator<Item = &str> {
    const PREFIXES: [&str; 6] = ["me", "peer", "below", "ordered", "state", "payload"];
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty() && !PREFIXES.contains(word))
}

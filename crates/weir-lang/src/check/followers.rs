//! Suppresses follow-up errors of a reported mistake.
//!
//! All declarations in an unreadable part of a text are missing: names are unknown, clauses are absent, a
//! header ends within a byte. Each mistake is reported once, so these follow-up errors are suppressed. The
//! next run reports those that remain after the correction.

use super::codes;
use crate::diag::{Diagnostic, Sources, Span};
use crate::syntax::ast::{File, Unread};
use rustc_hash::{FxHashMap, FxHashSet};

/// Codes of unknown names. The declaration may be in an unreadable part of any text.
const NAMES: &[&str] = &[
    codes::UNKNOWN_NAME,
    codes::UNKNOWN_BELOW,
    codes::UNKNOWN_STATE,
    codes::UNKNOWN_TRIGGER,
    codes::UNKNOWN_LAYER,
    codes::NOT_HERE,
    codes::TOO_EARLY,
];

/// Codes of errors that an unreadable part may cause in the protocol or stack that contains it.
const AROUND: &[&str] = &[
    codes::MISSING_CLAUSE,
    codes::UNALIGNED,
    codes::ASSEMBLE,
    codes::UNKNOWN_TRIGGER,
    codes::UNREACHABLE_STATE,
    codes::NO_TIMEOUT,
    codes::UNREACHED_LAYER,
    codes::UNBOUNDED,
];

/// Keeps only the errors about an extension of an unknown protocol that do not depend on that protocol.
pub(super) fn drop_unknowable(list: &mut Vec<Diagnostic>) {
    list.retain(|one| one.is_error() && !NAMES.contains(&one.code) && !AROUND.contains(&one.code));
}

/// Joins the errors about one name, suppresses those that a failed import may have caused, and removes from
/// `list` the follow-up errors of the unreadable parts of `files`.
pub(crate) fn drop_followers(list: &mut Vec<Diagnostic>, files: &[File], sources: &Sources) {
    join_places(list);
    if list.iter().any(|one| one.code == codes::IMPORT) {
        list.retain(|one| !is_of_a_text(one));
    }
    let unread: Vec<Unread> = files.iter().flat_map(|file| file.unread.iter().copied()).collect();
    if unread.is_empty() {
        return;
    }
    let mut words: FxHashSet<&str> = FxHashSet::default();
    for unread in &unread {
        let text = sources.slice(unread.part);
        words.extend(text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()));
    }
    list.retain(|one| {
        let Some(&(span, _)) = one.spans.first() else { return true };
        let names_it = || parts_of(sources.slice(span)).any(|part| words.contains(part));
        if NAMES.contains(&one.code) && names_it() {
            return false;
        }
        !AROUND.contains(&one.code) || !unread.iter().any(|unread| is_inside(span, unread.item))
    });
}

/// Whether the missing name is that of a protocol, layer, stack, function or table, which another text may
/// declare.
fn is_of_a_text(one: &Diagnostic) -> bool {
    // Messages about a member of a protocol begin with the protocol's name.
    let is_of_a_protocol = one.message.starts_with('`');
    one.code == codes::UNKNOWN_LAYER || one.code == codes::UNKNOWN_NAME && !is_of_a_protocol
}

fn is_inside(span: Span, item: Span) -> bool {
    span.source == item.source && item.start <= span.start && span.end <= item.end
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The parts of a dotted name, without the prefix that names the owner.
fn parts_of(name: &str) -> impl Iterator<Item = &str> {
    const WHOSE: [&str; 5] = ["me", "peer", "below", "ordered", "state"];
    let name = match name.split_once('.') {
        Some((whose, rest)) if WHOSE.contains(&whose) => rest,
        _ => name,
    };
    name.split(|c: char| !is_part(c)).filter(|part| !part.is_empty())
}

/// Joins all errors about one missing name into one error with several places.
fn join_places(list: &mut Vec<Diagnostic>) {
    const PLACES_MAX: usize = 4;
    let mut first: FxHashMap<(&str, String, u16), usize> = FxHashMap::default();
    let mut joined: Vec<Diagnostic> = Vec::new();
    let mut seen: FxHashSet<(&str, String, Span)> = FxHashSet::default();
    for one in list.drain(..) {
        // An error in a stack is also found in the stacks that extend it.
        let place = one.spans.first().map_or_else(Span::default, |(span, _)| *span);
        if !one.spans.is_empty() && !seen.insert((one.code, one.message.clone(), place)) {
            continue;
        }
        let source = one.spans.first().map_or(0, |(span, _)| span.source);
        let places = if NAMES.contains(&one.code) { one.spans.len() } else { 0 };
        if places != 1 {
            joined.push(one);
            continue;
        }
        match first.get(&(one.code, one.message.clone(), source)) {
            Some(&at) if joined[at].spans.len() < PLACES_MAX => {
                joined[at].spans.push((one.spans[0].0, "here, too".to_string()));
            }
            Some(_) => {}
            None => {
                first.insert((one.code, one.message.clone(), source), joined.len());
                joined.push(one);
            }
        }
    }
    *list = joined;
}

//! What follows from a mistake that was said, and is none of its own.
//!
//! Where a part of a text could not be read, all that it declares is missing: names that stand in it are unknown, clauses
//! are not there, a header ends within a byte. One mistake is said once; so these are left out, and whoever mends it
//! is told the rest, if there is any.

use super::codes;
use crate::diag::{Diagnostic, Sources, Span};
use crate::syntax::ast::{File, Unread};
use rustc_hash::{FxHashMap, FxHashSet};

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
    codes::UNKNOWN_TRIGGER,
    codes::UNREACHABLE_STATE,
    codes::NO_TIMEOUT,
    codes::UNREACHED_LAYER,
    codes::UNBOUNDED,
];

/// What is wrong with clauses whatever they belong to: of what extends a protocol that nobody knows.
pub(super) fn drop_unknowable(list: &mut Vec<Diagnostic>) {
    list.retain(|one| one.is_error() && !NAMES.contains(&one.code) && !AROUND.contains(&one.code));
}

/// Joins what is said of one name, where an import is lost leaves out what it may have brought, and leaves out of `list` what follows from the parts of `files` that could not be read.
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

/// Whether what is missing is a protocol, layer, stack, function or table: another text may have it.
fn is_of_a_text(one: &Diagnostic) -> bool {
    // Of what a protocol lacks its name is said first.
    let is_of_a_protocol = one.message.starts_with('`');
    one.code == codes::UNKNOWN_LAYER || one.code == codes::UNKNOWN_NAME && !is_of_a_protocol
}

fn is_inside(span: Span, item: Span) -> bool {
    span.source == item.source && item.start <= span.start && span.end <= item.end
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What a name is put together from, without the word that says whose it is.
fn parts_of(name: &str) -> impl Iterator<Item = &str> {
    const WHOSE: [&str; 5] = ["me", "peer", "below", "ordered", "state"];
    let name = match name.split_once('.') {
        Some((whose, rest)) if WHOSE.contains(&whose) => rest,
        _ => name,
    };
    name.split(|c: char| !is_part(c)).filter(|part| !part.is_empty())
}

/// A name that is missing is one mistake, in however many places it is used: they are shown together.
fn join_places(list: &mut Vec<Diagnostic>) {
    const PLACES_MAX: usize = 4;
    let mut first: FxHashMap<(&str, String, u16), usize> = FxHashMap::default();
    let mut joined: Vec<Diagnostic> = Vec::new();
    let mut said: FxHashSet<(&str, String, Span)> = FxHashSet::default();
    for one in list.drain(..) {
        // Of a stack it is found in all those that extend it.
        let place = one.spans.first().map_or_else(Span::default, |(span, _)| *span);
        if !one.spans.is_empty() && !said.insert((one.code, one.message.clone(), place)) {
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

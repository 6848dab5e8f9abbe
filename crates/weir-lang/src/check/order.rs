//! Events that happen with others, and events that are reported after others (Rubik, section 4.3: happen-with
//! and happen-before).

use super::codes;
use crate::diag::Diagnostic;
use crate::model::{Protocol, Trigger};
use crate::syntax::ast;

/// Resolves the names after `with` and `after`; `trees` are the events of `protocol`, in the same order.
pub(super) fn check(trees: &[&ast::Event], protocol: &mut Protocol, diagnostics: &mut Vec<Diagnostic>) {
    for (at, tree) in trees.iter().enumerate() {
        let with = tree.with.iter().filter_map(|name| find(name, trees, diagnostics)).collect();
        let after = tree.after.iter().filter_map(|name| find(name, trees, diagnostics)).collect();
        (protocol.events[at].with, protocol.events[at].after) = (with, after);
    }
    for (tree, at) in trees.iter().zip(0..) {
        let waits = protocol.events[at].with.iter().chain(&protocol.events[at].after);
        if let Some(&other) = waits.clone().find(|&&other| protocol.events[other].is_of_instance()) {
            let message = format!("`{}` does not happen on a packet", trees[other].name.text);
            let at = tree.with.iter().chain(&tree.after).find(|name| name.text == trees[other].name.text);
            diagnostics.push(
                Diagnostic::error(codes::BAD_CLAUSE, message)
                    .at(at.unwrap_or(&tree.name).span)
                    .help("name an event that happens on packets"),
            );
        }
    }
    // An event with `with` has the causes of the other event, and assembles nothing itself.
    for (tree, event) in trees.iter().zip(&protocol.events) {
        if event.assemble && !event.with.is_empty() {
            diagnostics.push(
                Diagnostic::error(codes::ASSEMBLE, "an event that happens with another one can't assemble")
                    .at(tree.assemble.unwrap_or(tree.name.span))
                    .help("let the other one assemble, or declare this one with `on`"),
            );
        }
    }
    let with = |at: usize| protocol.events[at].with.as_slice();
    let mut circles = find_circle(trees, with, "happens with itself", diagnostics);
    let after = |at: usize| protocol.events[at].after.as_slice();
    circles |= find_circle(trees, after, "is reported before itself", diagnostics);
    if circles {
        for event in &mut protocol.events {
            (event.with, event.after) = (Vec::new(), Vec::new());
        }
        return;
    }
    find_ambiguous(trees, protocol, diagnostics);
    find_repeated(trees, protocol, diagnostics);
    // An event happens once per path along `with`; the number of paths must not grow exponentially.
    let mut times = vec![0usize; trees.len()];
    for start in 0..trees.len() {
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            times[at] += 1;
            if times[at] > WITH_MAX {
                let message =
                    format!("`{}` happens with others in more than {WITH_MAX} ways", trees[at].name.text);
                diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(trees[at].name.span));
                return;
            }
            let others = protocol.events.iter().enumerate().filter(|(_, other)| other.with.contains(&at));
            open.extend(others.map(|(other, _)| other));
        }
    }
}

/// Maximum number of paths along `with` that lead to one event.
pub(crate) const WITH_MAX: usize = 256;

/// An event `on ordered` or `on gap`, and every event with it, may happen several times on a packet, so it
/// cannot be reported at the packet's end.
fn find_repeated(trees: &[&ast::Event], protocol: &Protocol, diagnostics: &mut Vec<Diagnostic>) {
    for (at, tree) in trees.iter().enumerate() {
        let Some(after) = tree.after.first() else { continue };
        let mut seen = vec![false; trees.len()];
        let mut open = vec![at];
        while let Some(cause) = open.pop() {
            if std::mem::replace(&mut seen[cause], true) {
                continue;
            }
            let triggers = &protocol.events[cause].triggers;
            if triggers.iter().any(|trigger| matches!(trigger, Trigger::Ordered | Trigger::Gap)) {
                let message = format!(
                    "`{}` may happen several times on a packet: it cannot be reported `after` others",
                    tree.name.text
                );
                diagnostics.push(
                    Diagnostic::error(codes::BAD_CLAUSE, message)
                        .at(after.span)
                        .help("let it happen `with` the other one"),
                );
                break;
            }
            open.extend(&protocol.events[cause].with);
        }
    }
}

fn find(name: &ast::Name, trees: &[&ast::Event], diagnostics: &mut Vec<Diagnostic>) -> Option<usize> {
    let found = trees.iter().position(|tree| tree.name.text == name.text);
    if found.is_none() {
        let names = trees.iter().map(|tree| tree.name.text.as_str());
        let message = format!("there is no event `{}`", name.text);
        let diagnostic = Diagnostic::error(codes::UNKNOWN_TRIGGER, message).at(name.span);
        diagnostics.push(diagnostic.did_you_mean(&name.text, names));
    }
    found
}

/// Whether an event reaches itself along `next`; reports the first one.
fn find_circle<'a>(
    trees: &[&ast::Event],
    next: impl Fn(usize) -> &'a [usize],
    what: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> bool {
    for start in 0..trees.len() {
        let mut seen = vec![false; trees.len()];
        let mut open = next(start).to_vec();
        while let Some(at) = open.pop() {
            if at == start {
                let message = format!("`{}` {what}", trees[start].name.text);
                diagnostics.push(Diagnostic::error(codes::CYCLE, message).at(trees[start].name.span));
                return true;
            }
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(next(at));
            }
        }
    }
    false
}

/// Reports two events after the same event without an order between them: the text does not define which
/// comes first.
fn find_ambiguous(trees: &[&ast::Event], protocol: &Protocol, diagnostics: &mut Vec<Diagnostic>) {
    let is_before = |first: usize, second: usize| {
        let mut open = vec![second];
        let mut seen = vec![false; trees.len()];
        while let Some(at) = open.pop() {
            if at == first {
                return true;
            }
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(&protocol.events[at].after);
            }
        }
        false
    };
    let events = &protocol.events;
    let meets = |a: &[Trigger], b: &[Trigger]| a.iter().any(|trigger| b.contains(trigger));
    for first in 0..events.len() {
        for second in first + 1..events.len() {
            let (one, two) = (&events[first], &events[second]);
            let both_wait = !one.after.is_empty() && !two.after.is_empty();
            let meet = meets(&one.triggers, &two.triggers);
            if both_wait && meet && !is_before(first, second) && !is_before(second, first) {
                let (name, other) = (&trees[first].name, &trees[second].name);
                let message = format!("the order of `{}` and `{}` is not defined", name.text, other.text);
                diagnostics.push(
                    Diagnostic::warning(codes::EVENT_ORDER, message)
                        .label(other.span, "currently this one is second")
                        .label(name.span, "")
                        .help(format!("add `after {}` to `{}`", name.text, other.text)),
                );
            }
        }
    }
}

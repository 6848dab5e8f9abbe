//! Unused declarations: derived values that are not filter fields, variables that records do not use,
//! sequences whose order and bytes nothing reads.

use super::codes;
use crate::diag::Diagnostic;
use crate::model::{Held, Protocol, Trigger};
use crate::syntax::ast::{Clause, ClauseKind, Expr, File, HeaderItem, ShowPart, Stmt};
use rustc_hash::FxHashSet;

/// Warns about unused declarations of the protocols of `files`. Uses in other texts (`below.x`) and in
/// conditions of edges count.
pub(super) fn check(files: &[File], protocols: &[&Protocol], diagnostics: &mut Vec<Diagnostic>) {
    let mut elsewhere: FxHashSet<&str> = FxHashSet::default();
    for file in files {
        for edge in file.stacks.iter().flat_map(|stack| &stack.edges) {
            edge.condition.iter().for_each(|condition| condition.names(&mut |name| elsewhere.extend([name])));
        }
        let own = file.protocols.iter().flat_map(|tree| &tree.clauses);
        for clause in own.chain(file.extensions.iter().flat_map(|tree| &tree.clauses)) {
            each_expr(clause, &mut |expr| {
                expr.names(&mut |name| {
                    elsewhere.extend(name.strip_prefix("below."));
                });
            });
        }
    }
    for tree in files.iter().flat_map(|file| &file.protocols) {
        let Some(protocol) = protocols.iter().find(|one| one.span == tree.name.span) else { continue };
        let mut here: FxHashSet<&str> = FxHashSet::default();
        let clauses = || tree.clauses.iter().chain(extensions_of(files, &tree.name.text));
        for clause in clauses() {
            each_expr(clause, &mut |expr| expr.names(&mut |name| here.extend([name])));
        }
        for clause in clauses() {
            match &clause.kind {
                ClauseKind::Let(one) if one.doc.is_empty() => {
                    let name = one.name.text.as_str();
                    if !here.contains(name) && !elsewhere.contains(name) {
                        diagnostics.push(
                            Diagnostic::warning(codes::UNREAD, format!("nothing uses `{name}`"))
                                .at(one.name.span)
                                .help("with a description it becomes a filter field"),
                        );
                    }
                }
                // Records of connections use some of the variables by name.
                ClauseKind::Vars { held, vars, .. } if *held == Held::Packet || is_one_sided(protocol) => {
                    for var in vars.iter().filter(|var| !here.contains(var.name.text.as_str())) {
                        let message = format!("nothing uses `{}`", var.name.text);
                        diagnostics.push(Diagnostic::warning(codes::UNREAD, message).at(var.name.span));
                    }
                }
                ClauseKind::Sequence(_) if !has_use_for_order(protocol) => {
                    diagnostics.push(
                        Diagnostic::warning(codes::UNREAD, "nothing uses this sequence")
                            .at(clause.span)
                            .help(
                                "let an event `assemble` its bytes or happen `on ordered`, or use \
                                 `ordered.` fields in a condition",
                            ),
                    );
                }
                _ => {}
            }
        }
    }
}

/// The clauses of a protocol's extensions.
fn extensions_of<'a>(files: &'a [File], protocol: &'a str) -> impl Iterator<Item = &'a Clause> {
    let extensions = files.iter().flat_map(|file| &file.extensions);
    extensions.filter(move |tree| tree.of.text == protocol).flat_map(|tree| &tree.clauses)
}

fn is_one_sided(protocol: &Protocol) -> bool {
    protocol.instance.as_ref().is_some_and(|instance| instance.destination.is_empty())
}

fn has_use_for_order(protocol: &Protocol) -> bool {
    let is_of_order = |trigger: &Trigger| {
        !matches!(trigger, Trigger::Packet | Trigger::Transition(_) | Trigger::End | Trigger::Check(_))
    };
    protocol.transitions.iter().any(|transition| transition.ordered)
        || !protocol.on.is_empty()
        || protocol.events.iter().any(|event| event.assemble || event.triggers.iter().any(is_of_order))
}

/// Calls `visit` for every expression of a clause.
fn each_expr<'a>(clause: &'a Clause, visit: &mut dyn FnMut(&'a Expr)) {
    match &clause.kind {
        ClauseKind::Header(list) => items(list, visit),
        ClauseKind::Let(one) => visit(&one.value),
        ClauseKind::Payload(length) => length.iter().for_each(visit),
        ClauseKind::Instance { source, destination, condition, reversed } => {
            let keys = source.iter().chain(destination.iter().flatten());
            keys.chain(condition).chain(reversed).for_each(visit);
        }
        ClauseKind::Vars { vars, .. } => vars.iter().filter_map(|var| var.first.as_ref()).for_each(visit),
        ClauseKind::Count(list) | ClauseKind::Prepare(list) | ClauseKind::On(_, list) => stmts(list, visit),
        ClauseKind::Steady(condition, list) => {
            condition.iter().for_each(&mut *visit);
            stmts(list, visit);
        }
        ClauseKind::Sequence(one) => {
            let window = one.window.iter().flat_map(|(low, high)| [low, high]);
            let wholes = one.wholes.iter().flat_map(|(first, last, _)| [first, last]);
            let all = [&one.at].into_iter().chain(&one.span).chain(window).chain(wholes);
            all.chain(&one.condition).for_each(visit);
        }
        ClauseKind::Join(condition)
        | ClauseKind::Admit(condition)
        | ClauseKind::End(condition)
        | ClauseKind::Assembled(_, condition) => visit(condition),
        ClauseKind::Acknowledge(at, condition)
        | ClauseKind::Confirm(at, condition)
        | ClauseKind::Hold(at, condition) => [at].into_iter().chain(condition).for_each(visit),
        ClauseKind::Context(names) | ClauseKind::Tag(names) => names.iter().for_each(visit),
        ClauseKind::Transition(one) => one.condition.iter().for_each(visit),
        ClauseKind::Event(one) => {
            one.columns.iter().map(|(_, value)| value).chain(&one.condition).for_each(visit);
        }
        ClauseKind::Show(parts) => {
            for part in parts {
                if let ShowPart::Value(value) = part {
                    visit(value);
                }
            }
        }
        ClauseKind::Alias { .. } | ClauseKind::States(_) | ClauseKind::Timeout(_) => {}
    }
}

fn items<'a>(list: &'a [HeaderItem], visit: &mut dyn FnMut(&'a Expr)) {
    for item in list {
        match item {
            HeaderItem::Field(field) => field.ty.length.iter().for_each(|length| visit(length)),
            HeaderItem::Skip { ty, .. } => ty.length.iter().for_each(|length| visit(length)),
            HeaderItem::Group { items: inner, .. } => items(inner, visit),
            HeaderItem::If { condition, then, otherwise, .. } => {
                visit(condition);
                items(then, visit);
                items(otherwise, visit);
            }
            HeaderItem::Run { items: tagged, until, .. } => {
                tagged.iter().for_each(|item| items(&item.items, visit));
                visit(until);
            }
        }
    }
}

fn stmts<'a>(list: &'a [Stmt], visit: &mut dyn FnMut(&'a Expr)) {
    for stmt in list {
        match stmt {
            Stmt::Assign { value, .. } => visit(value),
            Stmt::History { condition, .. } => condition.iter().for_each(&mut *visit),
            Stmt::If { condition, then, otherwise } => {
                visit(condition);
                stmts(then, visit);
                stmts(otherwise, visit);
            }
        }
    }
}

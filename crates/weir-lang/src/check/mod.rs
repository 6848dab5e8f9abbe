//! Semantic analysis: resolves names, checks types, and reports all mistakes together.
//!
//! `protocol` checks a protocol's clauses (`layout`: the header; `key`: the instance's key; `lets`: derived
//! values; `machine`: states and events; `order`: the order of events). `expr` resolves expressions in a
//! `scope`; `range` computes their possible values; `constants` substitutes functions and tables. `followers`
//! suppresses follow-up errors of unreadable parts. `extend` joins a protocol with its extensions; `stack`
//! joins protocols; `reach` checks the paths through a stack; `unread` finds unused declarations.

pub mod codes;

mod constants;
mod expr;
mod extend;
mod followers;
mod key;
mod layout;
mod lets;
mod machine;
mod messages;
mod order;
mod protocol;
mod range;
mod reach;
mod scope;
mod stack;
mod types;
mod unread;

pub(crate) use followers::drop_followers;
pub(crate) use scope::BelowUse;

/// The limits of checked texts.
pub(crate) mod limits {
    pub(crate) use super::constants::{FUNCTIONS_MAX, NODES_MAX, ROWS_MAX};
    pub(crate) use super::expr::LOOKUP_NODES_MAX;
    pub(crate) use super::key::KEY_WORDS_MAX;
    pub(crate) use super::layout::FIELDS_MAX;
    pub(crate) use super::lets::LETS_MAX;
    pub(crate) use super::machine::{ORDERED_FIELDS_MAX, STATES_MAX};
    pub(crate) use super::order::WITH_MAX;
    pub(crate) use super::protocol::VARS_MAX;
    pub(crate) use super::stack::{EDGES_MAX, REPEAT_MAX};
}

use crate::diag::{Diagnostic, Span};
use crate::model::{Protocol, Stack};
use crate::syntax::ast;
use constants::Constants;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A protocol, and the names that it requires from the layers below.
#[derive(Debug, Clone)]
pub(crate) struct CheckedProtocol {
    pub(crate) protocol: Arc<Protocol>,
    pub(crate) below: Vec<BelowUse>,
}

/// Adds the protocols and stacks of `files` to the known ones. If `diagnostics` then has an error, the
/// additions are unusable.
pub(crate) fn check(
    files: &[ast::File],
    protocols: &mut Vec<CheckedProtocol>,
    stacks: &mut Vec<Stack>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut additions: Vec<usize> = files.iter().map(|file| file.addition).collect();
    additions.dedup();
    let constants: FxHashMap<usize, Rc<Constants>> = additions
        .into_iter()
        .map(|addition| {
            let together: Vec<&ast::File> = files.iter().filter(|file| file.addition == addition).collect();
            (addition, Rc::new(Constants::of(&together, diagnostics)))
        })
        .collect();
    let of_file = |file: &ast::File| &constants[&file.addition];
    extend::name_known(files, diagnostics);
    extend::check_lost(files, &constants, diagnostics);
    for (file, tree) in files.iter().flat_map(|file| file.protocols.iter().map(move |tree| (file, tree))) {
        let (tree, constants) = extend::whole(tree, file, files, &constants, diagnostics);
        let (protocol, below) = protocol::check(&tree, &constants, diagnostics);
        if let Some(first) = protocols.iter().find(|one| one.protocol.name == protocol.name) {
            let diagnostic = scope::duplicate(&protocol.name, first.protocol.span, protocol.span);
            diagnostics.push(diagnostic.help("give it another name; `as` names it for filters"));
            continue;
        }
        protocols.push(CheckedProtocol { protocol: Arc::new(protocol), below });
    }
    let known: FxHashMap<Span, &Rc<Constants>> =
        files.iter().flat_map(|file| file.stacks.iter().map(move |t| (t.name.span, of_file(file)))).collect();
    let mut trees: Vec<&ast::Stack> = files.iter().flat_map(|file| &file.stacks).collect();
    // A stack is checked after the one that it extends, in any order of the text.
    let mut refused: Vec<String> = Vec::new();
    while !trees.is_empty() {
        let is_ready = |tree: &&ast::Stack| {
            let base = tree.extends.as_ref();
            base.is_none_or(|base| stacks.iter().any(|stack| stack.name == base.text))
        };
        let next = trees.iter().position(is_ready).unwrap_or(0);
        let tree = trees.remove(next);
        match stack::check(tree, protocols, stacks, &refused, &trees, known[&tree.name.span], diagnostics) {
            Some(checked) => stacks.push(checked),
            None => refused.push(tree.name.text.clone()),
        }
    }
    // With errors in a text, its uses are not known.
    if !diagnostics.iter().any(Diagnostic::is_error) {
        let checked: Vec<&Protocol> = protocols.iter().map(|one| &*one.protocol).collect();
        unread::check(files, &checked, diagnostics);
    }
}

//! Joins a protocol and its extensions into one tree.
//!
//! The clauses of `extend NAME with NAME { … }` follow the protocol's own clauses, in the order in which the
//! texts were added, and see all names of the protocol.

use super::constants::Constants;
use super::scope::duplicate;
use super::{codes, followers, protocol};
use crate::diag::{Diagnostic, Span, suggest};
use crate::syntax::ast::{Extension, File, Protocol};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::rc::Rc;

/// The protocol that `tree` extends; if none has that name, the one that was probably meant.
fn extended<'a>(tree: &Extension, files: &'a [File]) -> Option<&'a str> {
    let protocols = || files.iter().flat_map(|file| &file.protocols).map(|tree| tree.name.text.as_str());
    protocols().find(|name| *name == tree.of.text).or_else(|| suggest(&tree.of.text, protocols()))
}

/// Checks extensions of unknown protocols for mistakes that are independent of the protocol.
pub(super) fn check_lost(
    files: &[File],
    constants: &FxHashMap<usize, Rc<Constants>>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (file, tree) in files.iter().flat_map(|file| file.extensions.iter().map(move |tree| (file, tree))) {
        if extended(tree, files).is_some() {
            continue;
        }
        let name = tree.of.clone();
        let alone =
            Protocol { name, filter_names: vec![], doc: String::new(), clauses: tree.clauses.clone() };
        let mut found = Vec::new();
        protocol::check(&alone, &constants[&file.addition], &mut found);
        followers::drop_unknowable(&mut found);
        diagnostics.append(&mut found);
    }
}

/// Reports extensions of unknown protocols, and extensions with duplicate names.
pub(super) fn name_known(files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    let protocols = || files.iter().flat_map(|file| &file.protocols).map(|tree| tree.name.text.as_str());
    let mut seen: FxHashMap<(&str, &str), Span> = FxHashMap::default();
    for tree in files.iter().flat_map(|file| &file.extensions) {
        if let Some(first) = seen.insert((&tree.of.text, &tree.name.text), tree.name.span) {
            diagnostics.push(duplicate(&tree.name.text, first, tree.name.span));
        }
        if protocols().any(|name| name == tree.of.text) {
            continue;
        }
        let message = format!("there is no protocol `{}` to extend", tree.of.text);
        diagnostics.push(
            Diagnostic::error(codes::UNKNOWN_NAME, message)
                .at(tree.of.span)
                .did_you_mean(&tree.of.text, protocols()),
        );
    }
}

/// The protocol `tree` of `file` with all its extensions, and the functions and tables that they see.
pub(super) fn whole<'a>(
    tree: &'a Protocol,
    file: &File,
    files: &[File],
    constants: &FxHashMap<usize, Rc<Constants>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Cow<'a, Protocol>, Rc<Constants>) {
    let name = &tree.name.text;
    let (mut tree, mut known) = (Cow::Borrowed(tree), Rc::clone(&constants[&file.addition]));
    let mut joined = vec![file.addition];
    for other in files {
        for extension in other.extensions.iter().filter(|one| extended(one, files) == Some(name)) {
            if !joined.contains(&other.addition) {
                joined.push(other.addition);
                let both = known.joined(&constants[&other.addition], diagnostics);
                known = Rc::new(both);
            }
            tree.to_mut().clauses.extend(extension.clauses.iter().cloned());
        }
    }
    (tree, known)
}

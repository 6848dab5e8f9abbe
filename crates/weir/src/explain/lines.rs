//! The lines of all explanations, and the predicates that they are about.

use crate::ask::compile::Compiled;
use std::fmt::Write as _;
use weir_lang::filter::Predicate;

/// Appends a line with a label.
pub(super) fn line(text: &mut String, label: &str, rest: &str) {
    let _ = writeln!(text, "{label:<10} {rest}");
}

/// The predicates of all filters, each once.
pub(super) fn predicates(compiled: &Compiled) -> Vec<&Predicate> {
    let mut list = vec![];
    for predicate in compiled.questions.iter().flat_map(|question| &question.filter.predicates) {
        if !list.contains(&predicate) {
            list.push(predicate);
        }
    }
    list
}

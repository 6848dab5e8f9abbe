//! Questions without the predicates that a simpler machine cannot decide: they ask for more packets, never
//! for fewer.
//!
//! The alternatives of a filter hold if all of their predicates hold, negated ones included, so an
//! alternative without one of its predicates holds whenever the whole alternative does.

use crate::catalog::{FieldKey, StackCatalog};
use crate::question::Question;
use weir_ir::graph::Meta;
use weir_lang::filter::{Literal, Op, Predicate};

/// The questions without the predicates on packets that eBPF cannot decide, and whether any were left out.
pub fn weakened(questions: &[Question], catalog: &StackCatalog) -> (Vec<Question>, bool) {
    let mut has_weakened = false;
    let mut all = questions.to_vec();
    for question in &mut all {
        let predicates = &question.filter.predicates;
        let is_in: Vec<bool> = predicates.iter().map(|one| is_expressible(one, catalog)).collect();
        has_weakened |= is_in.contains(&false);
        for term in &mut question.filter.terms {
            term.predicates.retain(|&predicate| is_in[predicate]);
        }
    }
    (all, has_weakened)
}

/// Whether eBPF can decide the predicate, or it is decided later than on packets.
pub fn is_expressible(predicate: &Predicate, catalog: &StackCatalog) -> bool {
    match catalog.key(predicate.field) {
        FieldKey::Connection(_) | FieldKey::Session(_) | FieldKey::SessionField(..) => true,
        FieldKey::Meta(Meta::Time | Meta::Number | Meta::Interface) => false,
        _ => {
            let is_bytes = |literal: &Literal| matches!(literal, Literal::Bytes(_) | Literal::Text(_));
            !matches!(predicate.op, Op::Contains | Op::Matches) && !predicate.literals.iter().any(is_bytes)
        }
    }
}

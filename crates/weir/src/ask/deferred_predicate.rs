//! Builds the deferred predicates on connections, sessions and rows of events for the engine: predicates by
//! field, and code if there are many.

use super::program::{Executor, make_program};
use std::borrow::Cow;
use std::sync::Arc;
use weir_codegen::Effort;
use weir_compile::deferred_predicate::{PREDICATES_MAX, lower_deferred};
use weir_compile::lower::as_key;
use weir_compile::{FieldKey, StackCatalog, TrieAlternative};
use weir_engine::deferred_predicate::{DeferredField, DeferredPredicate, Presence};
use weir_engine::plan::{Alternative, RemainderSet};
use weir_ir::interpret::Interpreter;
use weir_lang::filter::{Catalog, Op, Predicate};
use weir_packet::ValueType;

/// Number of predicates on one field from which native code pays off: generating it takes half a millisecond.
const NATIVE_PREDICATES: usize = 16;

/// The condition of a remainder as text, independent of other questions: positions in filter texts and the
/// order of predicates are left out.
fn name_of(bit: &TrieAlternative) -> String {
    let of = |list: &[Predicate]| {
        let parts = list.iter().map(|p| (p.field, p.slice, p.mask, p.op, &p.literals, p.negated));
        let mut parts: Vec<String> = parts.map(|part| format!("{part:?}")).collect();
        parts.sort_unstable();
        parts.join(" and ")
    };
    format!("{} / {} / {}", of(&bit.row), of(&bit.connection), of(&bit.session))
}

pub(crate) fn alternative_plan(bit: &TrieAlternative) -> Alternative {
    let asks = |list: &[Predicate]| match list {
        [] => Presence::Nothing,
        list if list.iter().all(|p| p.negated) => Presence::Absence,
        _ => Presence::Presence,
    };
    Alternative {
        question: bit.question,
        name: name_of(bit),
        connection: asks(&bit.connection),
        session: asks(&bit.session),
    }
}

/// The predicates of remainders on rows, connections, or sessions (selected by `part`), grouped by field.
pub(crate) fn deferred_predicates<'a>(
    bits: &'a [TrieAlternative],
    part: impl Fn(&'a TrieAlternative) -> &'a [Predicate],
    by: (&StackCatalog, Executor),
) -> Vec<DeferredPredicate> {
    /// A field, and its predicates with the remainders that need each.
    type Asked<'a> = (usize, Vec<(&'a Predicate, RemainderSet)>);
    let same = |a: &Predicate, b: &Predicate| {
        (a.slice, a.mask, a.op, a.negated) == (b.slice, b.mask, b.op, b.negated) && a.literals == b.literals
    };
    let mut fields: Vec<Asked<'a>> = Vec::new();
    for (index, bit) in bits.iter().enumerate() {
        for predicate in part(bit) {
            let known = fields.iter().position(|(field, _)| *field == predicate.field);
            let at = known.unwrap_or_else(|| {
                fields.push((predicate.field, Vec::new()));
                fields.len() - 1
            });
            match fields[at].1.iter_mut().find(|(other, _)| same(other, predicate)) {
                Some((_, remainders)) => drop(remainders.insert(index)),
                None => fields[at].1.push((predicate, RemainderSet::one(index))),
            }
        }
    }
    let of_field = |(field, asked): &Asked<'a>| {
        asked.chunks(PREDICATES_MAX).map(|asked| lower_predicate(*field, asked, by)).collect::<Vec<_>>()
    };
    fields.iter().flat_map(of_field).collect()
}

/// Lowers the predicates on one field; each comes with the remainders that need it.
pub(crate) fn lower_predicate(
    field: usize,
    asked: &[(&Predicate, RemainderSet)],
    (catalog, engine): (&StackCatalog, Executor),
) -> DeferredPredicate {
    let key = match catalog.key(field) {
        FieldKey::Connection(column) => DeferredField::Connection(usize::from(column)),
        FieldKey::Session(p) => DeferredField::Protocol(usize::from(p)),
        FieldKey::SessionField(p, f) => DeferredField::Session(usize::from(p), usize::from(f)),
        FieldKey::EventColumn(layer, event, column) | FieldKey::EndColumn(layer, event, column) => {
            let ty = catalog.fields()[field].value_type;
            DeferredField::Event {
                event: catalog.event_number(layer, event),
                column: usize::from(column),
                is_bytes: matches!(ty, ValueType::Bytes | ValueType::Text),
            }
        }
        _ => unreachable!("predicates on packets are in the program"),
    };
    let is_protocol = matches!(key, DeferredField::Protocol(_));
    let program = (!is_protocol).then(|| {
        let is_key = matches!(key, DeferredField::Event { .. }) && catalog.is_address(field);
        let predicates = asked.iter().map(|(predicate, _)| match is_key {
            true => Cow::Owned(as_key(predicate)),
            false => Cow::Borrowed(*predicate),
        });
        let predicates: Vec<Cow<'_, Predicate>> = predicates.collect();
        let predicates: Vec<&Predicate> = predicates.iter().map(|predicate| &**predicate).collect();
        let graph = lower_deferred(&predicates, catalog.fields()[field].value_type);
        let engine = if asked.len() < NATIVE_PREDICATES { Executor::Interpreter } else { engine };
        match make_program(graph.clone(), None, engine, Effort::Growing) {
            Ok((program, ..)) => program,
            // Without executable memory the interpreter runs the graph; the main program reports that.
            Err(_) => {
                Arc::new(Interpreter::new(graph).expect("the filter's regular expressions were checked"))
            }
        }
    });
    let mut deferred = DeferredPredicate::new(key, program);
    for (predicate, remainders) in asked {
        deferred.add(predicate.op == Op::Ne, predicate.negated, remainders.clone());
    }
    deferred
}

//! Deferred predicates: predicates that only a connection's record or a session can decide. All predicates on
//! one field form a small graph, which is evaluated on one value at a time; a list matches if any element
//! does.

use crate::lower::{compare_part, compare_words};
use weir_ir::build::Builder;
use weir_ir::graph::{BinaryOp, Graph, Op, Value};
use weir_lang::filter::{Op as FilterOp, Predicate};
use weir_packet::ValueType;

/// Maximum number of predicates in one graph: the bits of its terms.
pub const PREDICATES_MAX: usize = 64;

/// Lowers predicates on values of `value_type`, at most [`PREDICATES_MAX`]: numbers are inputs 0 (high word)
/// and 1 (low word), bytes are input 0. Bit `i` of the result says whether predicate `i` holds; `!=` and
/// negation are left to the caller.
pub fn lower_deferred(predicates: &[&Predicate], value_type: ValueType) -> Graph {
    let mut b = Builder::new(Graph { name: "predicate".into(), ..Graph::default() });
    let is_bytes = matches!(value_type, ValueType::Text | ValueType::Texts | ValueType::Bytes);
    let inputs = if is_bytes {
        let buf = b.one(Op::InputBytes(0));
        [buf, b.int(0), b.one(Op::Length(buf))]
    } else {
        let (high, low) = (b.one(Op::Input(0)), b.one(Op::Input(1)));
        [high, low, low]
    };
    let mut terms = b.int(0);
    for (bit, predicate) in predicates.iter().enumerate() {
        let holds = lower_predicate(&mut b, predicate, value_type, inputs);
        let (holds, places) = (b.one(Op::FromBool(holds)), b.int(bit as u64));
        let holds = b.binary(BinaryOp::Shl, holds, places);
        terms = b.binary(BinaryOp::Or, terms, holds);
    }
    b.done(terms, None);
    b.finish()
}

/// `inputs`: buffer, offset and length, or a number's high and low word.
fn lower_predicate(
    b: &mut Builder,
    predicate: &Predicate,
    value_type: ValueType,
    [first, second, length]: [Value; 3],
) -> Value {
    let is_bytes = matches!(value_type, ValueType::Text | ValueType::Texts | ValueType::Bytes);
    // A flag alone tests for true, not for presence; so does a masked number.
    let asks_for_presence = predicate.op == FilterOp::Exists
        && predicate.slice.is_none()
        && predicate.mask.is_none()
        && value_type != ValueType::Bool;
    match (asks_for_presence, is_bytes) {
        (true, _) => b.bool(true),
        (false, true) => compare_part(b, predicate, first, second, length),
        (false, false) => compare_words(b, predicate, first, second),
    }
}

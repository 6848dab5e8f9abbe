//! Evaluates instructions whose operands are partly known.

use crate::graph::BinaryOp::{And, Or};
use crate::graph::{Graph, Op, Type, Value};

/// The number (bools as 0 and 1) that `op` yields, if the `known` operands determine it.
pub(super) fn evaluate(graph: &Graph, op: &Op, known: impl Fn(Value) -> Option<u64>) -> Option<u64> {
    match *op {
        Op::Binary(op, a, b) => match (op, known(a), known(b)) {
            (op, Some(a), Some(b)) => Some(op.apply(a, b)),
            (And, Some(0), _) | (And, _, Some(0)) => Some(0),
            (Or, Some(1), _) | (Or, _, Some(1)) if graph.type_of(a) == Type::Bool => Some(1),
            _ => None,
        },
        Op::Compare(op, a, b) => Some(u64::from(op.apply(known(a)?, known(b)?))),
        Op::Not(a) => known(a).map(|a| a ^ 1),
        Op::FromBool(a) => known(a),
        Op::Select(c, a, b) => known(if known(c)? == 0 { b } else { a }),
        _ => None,
    }
}

//! Residual predicates: what only a connection's record or a session can tell. Each becomes a small
//! graph that is asked one value at a time; on a list, any element may fulfil it.

use crate::lower::{compare_part, compare_words};
use weir_ir::build::Builder;
use weir_ir::graph::{Graph, Op};
use weir_lang::filter::Predicate;
use weir_packet::ValueType;

/// Lowers a predicate on a value of `value_type`: numbers are inputs 0 (high word) and 1 (low word),
/// bytes are input 0. Term bit 0 of the answer says whether it holds; `!=` and negation are left to the caller.
pub fn lower_residual(predicate: &Predicate, value_type: ValueType) -> Graph {
    let mut b = Builder::new(Graph { name: "residual".into(), ..Graph::default() });
    let holds = match value_type {
        ValueType::Text | ValueType::Texts | ValueType::Bytes => {
            let buf = b.one(Op::InputBytes(0));
            let (offset, length) = (b.int(0), b.one(Op::Length(buf)));
            compare_part(&mut b, predicate, buf, offset, length)
        }
        _ => {
            let (high, low) = (b.one(Op::Input(0)), b.one(Op::Input(1)));
            compare_words(&mut b, predicate, high, low)
        }
    };
    let terms = b.one(Op::FromBool(holds));
    b.done(terms, None);
    b.finish()
}

//! How large numbers can be, to leave out the test of a check for overflow.

use crate::plan::Plan;
use weir_ir::graph::{BinaryOp, Graph, Meta, Op, VarKind, Width};

/// By value: the largest number it can be. Parameters of blocks can be anything.
pub(super) fn maxima(graph: &Graph, plan: &Plan) -> Vec<u64> {
    let mut maxima = vec![u64::MAX; graph.values.len()];
    // Constants first: one of another block may come later in the order of the tail.
    for block in [graph.block_ids().collect(), plan.head.clone(), plan.tail.clone()].concat() {
        for inst in &graph.block(block).insts {
            if let [result] = inst.results[..] {
                maxima[result.index()] = maxima[result.index()].min(of(graph, &inst.op, &maxima));
            }
        }
    }
    maxima
}

fn of(graph: &Graph, op: &Op, maxima: &[u64]) -> u64 {
    let max = |value: &weir_ir::graph::Value| maxima[value.index()];
    match op {
        Op::Const(number) => *number,
        Op::FromBool(_) => 1,
        Op::Length(_) => i64::MAX as u64,
        Op::Load { width: Width::W1, .. } => 0xff,
        Op::Load { width: Width::W2, .. } | Op::Meta(Meta::Link | Meta::Interface) => 0xffff,
        Op::Load { width: Width::W4, .. } | Op::Meta(Meta::WireBytes | Meta::CapturedBytes) => 0xffff_ffff,
        Op::Get { var, .. } => match graph.vars[var.index()].kind {
            VarKind::Bits(bits @ ..64) => (1 << bits) - 1,
            _ => u64::MAX,
        },
        Op::Select(_, a, b) => max(a).max(max(b)),
        Op::Binary(op, a, b) => {
            let (a, b) = (max(a), max(b));
            match op {
                BinaryOp::Add => a.saturating_add(b),
                BinaryOp::Mul => a.saturating_mul(b),
                BinaryOp::And | BinaryOp::Min => a.min(b),
                BinaryOp::Max => a.max(b),
                BinaryOp::Or | BinaryOp::Xor => match a.max(b).checked_add(1) {
                    Some(above) => above.checked_next_power_of_two().map_or(u64::MAX, |power| power - 1),
                    None => u64::MAX,
                },
                BinaryOp::SubSat | BinaryOp::Shr => a,
                BinaryOp::Shl if b < u64::from(a.leading_zeros()) => a << b,
                BinaryOp::Sub | BinaryOp::Shl => u64::MAX,
            }
        }
        _ => u64::MAX,
    }
}

//! Upper bounds of values: conservative, and independent of passed checks.

use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, Graph, Meta, Op, Terminator, Type, Value, VarKind};

/// Number of rounds after which a value that still grows is unbounded. Four rounds give the same graphs of
/// all stacks (2026-11-24).
const ROUNDS_MAX: usize = 2;

/// Buffers are shorter than this, so lengths and checked offsets are, too.
pub const BUFFER_BYTES_MAX: u64 = u32::MAX as u64;

/// By value: its upper bound.
#[derive(Debug, Clone)]
pub struct Ranges(Vec<u64>);

impl Ranges {
    /// Computes the bounds: iterates until no value grows that is read before its definition. Values without
    /// a definition count as 0, because nothing reads them.
    pub fn of(graph: &Graph, flow: &ControlFlow) -> Self {
        let mut ranges = Self(vec![0; graph.values.len()]);
        for round in 0.. {
            let mut grown = false;
            for &block in flow.order() {
                let data = graph.block(block);
                for inst in &data.insts {
                    for (at, &result) in inst.results.iter().enumerate() {
                        let max = ranges.of_result(graph, &inst.op, at);
                        let old = &mut ranges.0[result.index()];
                        *old = max.max(*old);
                    }
                }
                data.terminator.for_each_target(|target| {
                    for (param, arg) in graph.block(target.block).params.iter().zip(&target.args) {
                        let new = ranges.0[arg.index()];
                        let old = &mut ranges.0[param.index()];
                        if new > *old {
                            // Only parameters can depend on themselves, so widening them stops all growth.
                            *old = if round >= ROUNDS_MAX { u64::MAX } else { new };
                            grown |= flow.goes_back(block, target.block);
                        }
                    }
                });
                if let Terminator::Lookup { then, .. } = data.terminator {
                    grown |= ranges.set_handed(graph, then) && flow.goes_back(block, then);
                }
            }
            if !grown {
                break;
            }
        }
        ranges
    }

    /// The upper bound of `value`: 1 for bools; `u64::MAX` if nothing is known, or if the value is no number.
    pub fn max(&self, value: Value) -> u64 {
        self.0[value.index()]
    }

    /// Sets the bounds of a lookup's results: a flow, which is no number, and two bools. Returns whether that
    /// changed any.
    fn set_handed(&mut self, graph: &Graph, then: Block) -> bool {
        let mut is_new = false;
        for &param in &graph.block(then).params {
            let max = if graph.type_of(param) == Type::Bool { 1 } else { u64::MAX };
            is_new |= self.0[param.index()] != max;
            self.0[param.index()] = max;
        }
        is_new
    }

    fn of_result(&self, graph: &Graph, op: &Op, at: usize) -> u64 {
        match op {
            Op::Const(n) => *n,
            Op::Bool(b) => u64::from(*b),
            Op::Compare(..) | Op::Not(_) | Op::FromBool(_) | Op::Member { .. } | Op::Search { .. } => 1,
            Op::Binary(op, a, b) => self.of_binary(*op, *a, *b),
            Op::Select(_, a, b) => self.max(*a).max(self.max(*b)),
            Op::Length(_) => BUFFER_BYTES_MAX,
            Op::Sum16 { .. } => u64::from(u16::MAX),
            Op::ItemsFit { .. } => 1,
            Op::Load { format, .. } => ones(format.width.bytes() * 8),
            Op::Meta(Meta::WireBytes | Meta::CapturedBytes) => BUFFER_BYTES_MAX,
            Op::Meta(Meta::Link | Meta::Interface) => u64::from(u16::MAX),
            Op::Get { var, .. } => match graph.vars[var.index()].kind {
                VarKind::Bits(bits) => ones(u32::from(bits)),
                VarKind::Letters(_) => u64::MAX,
            },
            Op::SeqInsert { .. } if at == 0 => crate::abi::SEQ_INCONSISTENT | 7,
            Op::SeqNext { .. } if at == 0 => 1,
            Op::SeqNext { .. } if at == 3 => BUFFER_BYTES_MAX,
            _ => u64::MAX,
        }
    }

    fn of_binary(&self, op: BinaryOp, a: Value, b: Value) -> u64 {
        let (a, b) = (self.max(a), self.max(b));
        match op {
            // A saturated bound means "unknown", so a wrapping sum is covered.
            BinaryOp::Add => a.saturating_add(b),
            BinaryOp::Mul => a.saturating_mul(b),
            // The difference wraps if the second operand is larger, which is impossible if it is 0.
            BinaryOp::Sub if b == 0 => a,
            BinaryOp::Sub => u64::MAX,
            BinaryOp::SubSat | BinaryOp::Shr | BinaryOp::Div => a,
            BinaryOp::Rem => a.min(b.saturating_sub(1)),
            BinaryOp::And | BinaryOp::Min => a.min(b),
            BinaryOp::Or | BinaryOp::Xor => ones(u64::BITS - a.max(b).leading_zeros()),
            BinaryOp::Max => a.max(b),
            BinaryOp::Shl if b < u64::from(a.leading_zeros()) => a << b,
            BinaryOp::Shl => {
                if a == 0 {
                    0
                } else {
                    u64::MAX
                }
            }
        }
    }
}

/// The largest number with this many bits.
fn ones(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Ranges {
        let graph: Graph = text.parse().expect("a graph");
        Ranges::of(&graph, &ControlFlow::of(&graph))
    }

    #[test]
    fn a_header_length_is_at_most_sixty() {
        let ranges = ranges(
            "block0:\n v0 = frame\n v1 = const 14\n v2 = load8 v0 v1 0\n v3 = const 15\n v4 = and v2 v3\n\
             v5 = const 2\n v6 = shl v4 v5\n v7 = add v6 v1\n v8 = sub v7 v1\n v9 = or v6 v1\n done v1\n",
        );
        assert_eq!(ranges.max(Value(2)), 255);
        assert_eq!(ranges.max(Value(6)), 60);
        assert_eq!(ranges.max(Value(7)), 74);
        assert_eq!(ranges.max(Value(8)), u64::MAX, "a difference may wrap");
        assert_eq!(ranges.max(Value(9)), 63);
    }

    #[test]
    fn what_grows_in_a_loop_has_no_bound_and_what_does_not_has() {
        let ranges = ranges(
            "fuels 1\nblock0:\n v0 = const 14\n v1 = const 4\n jump block1(v0, v1)\n\
             block1(v2: int, v3: int):\n v4 = add v2 v1\n again fuel0 9, block1(v4, v3), block2\n\
             block2:\n done v0\n",
        );
        assert_eq!(ranges.max(Value(2)), u64::MAX);
        assert_eq!(ranges.max(Value(3)), 4);
    }
}

//! Possible values of an expression, precise enough to find lengths that may be negative and conditions that
//! always or never hold.

use crate::model::BinaryOp;

/// The least and the greatest value, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Range {
    pub(super) const ANY: Range = Range { low: 0, high: u64::MAX };
    pub(super) const TRUTH: Range = Range { low: 0, high: 1 };

    pub(super) fn one(value: u64) -> Range {
        Range { low: value, high: value }
    }

    /// The values of `bits` bits.
    pub(super) fn of_bits(bits: u32) -> Range {
        Range { low: 0, high: ones(bits) }
    }

    fn truth(always: bool, never: bool) -> Range {
        Range { low: u64::from(always), high: u64::from(!never) }
    }

    /// The value is never 0.
    pub(super) fn is_always(self) -> bool {
        self.low > 0
    }

    /// The value is always 0.
    pub(super) fn is_never(self) -> bool {
        self.high == 0
    }

    pub(super) fn not(self) -> Range {
        Range::truth(self.is_never(), self.is_always())
    }

    /// The union of both ranges.
    pub(super) fn join(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The intersection of both ranges, `None` if it is empty.
    pub(super) fn meet(self, other: Range) -> Option<Range> {
        let range = Range { low: self.low.max(other.low), high: self.high.min(other.high) };
        (range.low <= range.high).then_some(range)
    }

    /// The smallest range with all values that satisfy `value OP number`.
    pub(super) fn fulfilling(self, op: BinaryOp, number: u64) -> Option<Range> {
        let wanted = match op {
            BinaryOp::Eq => Range::one(number),
            BinaryOp::Lt => Range { low: 0, high: number.checked_sub(1)? },
            BinaryOp::Le => Range { low: 0, high: number },
            BinaryOp::Gt => Range { low: number.checked_add(1)?, high: u64::MAX },
            BinaryOp::Ge => Range { low: number, high: u64::MAX },
            BinaryOp::Ne if self == Range::one(number) => return None,
            BinaryOp::Ne if self.low == number => Range { low: number + 1, high: u64::MAX },
            BinaryOp::Ne if self.high == number => Range { low: 0, high: number - 1 },
            _ => Range::ANY,
        };
        self.meet(wanted)
    }

    /// The range of `a OP b`.
    pub(super) fn binary(op: BinaryOp, a: Range, b: Range) -> Range {
        use BinaryOp as Op;
        match op {
            Op::Add => span(a.low.checked_add(b.low), a.high.checked_add(b.high)),
            Op::Sub => Range { low: a.low.saturating_sub(b.high), high: a.high.saturating_sub(b.low) },
            Op::Mul => span(a.low.checked_mul(b.low), a.high.checked_mul(b.high)),
            // A division by 0 gives 0.
            Op::Div if b.low == 0 => Range { low: 0, high: a.high },
            Op::Div => Range { low: a.low / b.high, high: a.high / b.low },
            Op::Rem => Range { low: 0, high: a.high.min(b.high.saturating_sub(1)) },
            Op::And => Range { low: 0, high: a.high.min(b.high) },
            Op::Or => Range { low: a.low.max(b.low), high: filled(a.high | b.high) },
            Op::Xor => Range { low: 0, high: filled(a.high | b.high) },
            Op::Shl if b.high < 64 && a.high.leading_zeros() >= b.high as u32 => {
                Range { low: a.low << b.low, high: a.high << b.high }
            }
            Op::Shl => Range::ANY,
            Op::Shr => Range { low: shift_right(a.low, b.high), high: shift_right(a.high, b.low) },
            Op::Eq => Range::truth(a == b && a.low == a.high, a.meet(b).is_none()),
            Op::Ne => Range::binary(Op::Eq, a, b).not(),
            Op::Lt => Range::truth(a.high < b.low, a.low >= b.high),
            Op::Le => Range::truth(a.high <= b.low, a.low > b.high),
            Op::Gt => Range::binary(Op::Lt, b, a),
            Op::Ge => Range::binary(Op::Le, b, a),
            Op::LogicalAnd => Range::truth(a.is_always() && b.is_always(), a.is_never() || b.is_never()),
            Op::LogicalOr => Range::truth(a.is_always() || b.is_always(), a.is_never() && b.is_never()),
        }
    }
}

/// The full range if an end does not fit into 64 bits: arithmetic wraps there.
fn span(low: Option<u64>, high: Option<u64>) -> Range {
    match (low, high) {
        (Some(low), Some(high)) => Range { low, high },
        _ => Range::ANY,
    }
}

fn shift_right(value: u64, by: u64) -> u64 {
    u32::try_from(by).ok().and_then(|by| value.checked_shr(by)).unwrap_or(0)
}

/// The greatest number of this many bits.
pub(super) fn ones(bits: u32) -> u64 {
    1u64.checked_shl(bits).map_or(u64::MAX, |power| power - 1)
}

/// All bits set up to the highest set bit of `value`.
fn filled(value: u64) -> u64 {
    ones(64 - value.leading_zeros())
}

/// The negated comparison.
pub(super) fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        _ => return None,
    })
}

/// The comparison with swapped operands.
pub(super) fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: [u64; 6] = [0, 1, 2, 3, 5, 9];

    /// The model's arithmetic: wrapping sums and products, differences of at least 0.
    fn compute(op: BinaryOp, a: u64, b: u64) -> u64 {
        use BinaryOp as Op;
        match op {
            Op::Add => a.wrapping_add(b),
            Op::Sub => a.saturating_sub(b),
            Op::Mul => a.wrapping_mul(b),
            Op::Div => a.checked_div(b).unwrap_or(0),
            Op::Rem => a.checked_rem(b).unwrap_or(0),
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::Shl => a.checked_shl(b as u32).unwrap_or(0),
            Op::Shr => a.checked_shr(b as u32).unwrap_or(0),
            Op::Eq => u64::from(a == b),
            Op::Ne => u64::from(a != b),
            Op::Lt => u64::from(a < b),
            Op::Le => u64::from(a <= b),
            Op::Gt => u64::from(a > b),
            Op::Ge => u64::from(a >= b),
            Op::LogicalAnd => u64::from(a != 0 && b != 0),
            Op::LogicalOr => u64::from(a != 0 || b != 0),
        }
    }

    #[test]
    fn every_result_lies_in_its_range() {
        use BinaryOp as Op;
        let ops = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Div,
            Op::Rem,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::Shl,
            Op::Shr,
            Op::Eq,
            Op::Ne,
            Op::Lt,
            Op::Le,
            Op::Gt,
            Op::Ge,
            Op::LogicalAnd,
            Op::LogicalOr,
        ];
        let ranges = SMALL.iter().flat_map(|&low| {
            SMALL.iter().filter(move |&&high| low <= high).map(move |&high| Range { low, high })
        });
        let ranges: Vec<Range> = ranges.chain([Range { low: u64::MAX - 2, high: u64::MAX }]).collect();
        let inside = |range: &Range| range.low..=range.high;
        for op in ops {
            for a in &ranges {
                for b in &ranges {
                    let result = Range::binary(op, *a, *b);
                    for x in inside(a) {
                        for y in inside(b) {
                            let value = compute(op, x, y);
                            let fits = result.low <= value && value <= result.high;
                            assert!(fits, "{op:?} of {x} and {y} is {value}, not in {result:?}");
                            if let Some(kept) = a.fulfilling(op, y).filter(|_| value != 0) {
                                assert!(kept.low <= x && x <= kept.high, "{x} {op:?} {y} lost");
                            }
                        }
                    }
                }
            }
        }
    }
}

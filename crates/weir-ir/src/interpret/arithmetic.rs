//! The semantics of arithmetic, for the interpreter and for constant folding.

use crate::graph::{BinaryOp, CompareOp};

impl BinaryOp {
    /// The result on ints; on bools as 0 and 1.
    pub fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::SubSat => a.saturating_sub(b),
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Div => a.checked_div(b).unwrap_or(0),
            BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Shl => {
                if b < 64 {
                    a << b
                } else {
                    0
                }
            }
            BinaryOp::Shr => {
                if b < 64 {
                    a >> b
                } else {
                    0
                }
            }
            BinaryOp::Min => a.min(b),
            BinaryOp::Max => a.max(b),
        }
    }
}

impl CompareOp {
    /// Whether the comparison holds.
    pub fn apply(self, a: u64, b: u64) -> bool {
        match self {
            CompareOp::Eq => a == b,
            CompareOp::Ne => a != b,
            CompareOp::Lt => a < b,
            CompareOp::Le => a <= b,
        }
    }
}

/// Whether (high, low) is in a set of sorted, disjoint ranges.
pub fn member(set: &[(u128, u128)], high: u64, low: u64) -> bool {
    let number = u128::from(high) << 64 | u128::from(low);
    let after = set.partition_point(|&(first, _)| first <= number);
    after > 0 && number <= set[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows() {
        assert_eq!(BinaryOp::Add.apply(u64::MAX, 2), 1);
        assert_eq!(BinaryOp::Sub.apply(0, 1), u64::MAX);
        assert_eq!(BinaryOp::SubSat.apply(0, 1), 0);
        assert_eq!((BinaryOp::Div.apply(7, 0), BinaryOp::Rem.apply(7, 0)), (0, 0));
        assert_eq!((BinaryOp::Div.apply(7, 2), BinaryOp::Rem.apply(7, 2)), (3, 1));
        assert_eq!(BinaryOp::Shl.apply(1, 64), 0);
        assert_eq!(BinaryOp::Shr.apply(u64::MAX, u64::MAX), 0);
        assert_eq!(BinaryOp::Shl.apply(1, 63), 1 << 63);
    }

    #[test]
    fn ranges_of_a_set_include_both_ends() {
        let set = [(5, 5), (10, 1 << 64), (u128::MAX, u128::MAX)];
        let inside = [(0, 5), (0, 10), (0, u64::MAX), (1, 0), (u64::MAX, u64::MAX)];
        let outside = [(0, 4), (0, 6), (0, 9), (1, 1), (u64::MAX, 0)];
        assert!(inside.iter().all(|&(high, low)| member(&set, high, low)));
        assert!(outside.iter().all(|&(high, low)| !member(&set, high, low)));
        assert!(!member(&[], 0, 0));
    }
}

//! Ranges of numbers: constants of predicates, and tests for them.

use weir_ir::build::Builder;
use weir_ir::graph::{BinaryOp, CompareOp, Op, Set, Value};
use weir_lang::filter::Literal;

/// Whether (high, low) is in an inclusive range of 128-bit numbers.
pub(super) fn within(b: &mut Builder, high: Value, low: Value, from: u128, to: u128) -> Value {
    let word = |b: &mut Builder, value: Value, from: u64, to: u64| {
        if from == 0 && to == u64::MAX {
            return b.bool(true);
        }
        let bottom = b.int(from);
        if from == to {
            return b.compare(CompareOp::Eq, value, bottom);
        }
        let above = b.binary(BinaryOp::Sub, value, bottom);
        let width = b.int(to - from);
        b.compare(CompareOp::Le, above, width)
    };
    let halves = |n: u128| ((n >> 64) as u64, n as u64);
    let ((fh, fl), (th, tl)) = (halves(from), halves(to));
    if fh == th || (fl == 0 && tl == u64::MAX) {
        let (h, l) = (word(b, high, fh, th), word(b, low, fl, tl));
        return b.binary(BinaryOp::And, h, l);
    }
    let set = Set(b.graph.sets.len() as u32);
    b.graph.sets.push(vec![(from, to)]);
    b.one(Op::Member { set, high, low })
}

/// A literal as an inclusive range of numbers.
pub(super) fn literal_range(literal: &Literal) -> Option<(u128, u128)> {
    let prefix = |address: u128, bits: u32, prefix: u8| {
        let host = bits - u32::from(prefix).min(bits);
        let mask = if host >= 128 { u128::MAX } else { (1u128 << host) - 1 };
        (address & !mask, address | mask)
    };
    Some(match literal {
        Literal::Numbers(from, to) => (u128::from(*from), u128::from(*to)),
        Literal::Ipv4(address, bits) => prefix(u128::from(u32::from(*address)), 32, *bits),
        Literal::Ipv4Range(from, to) => (u128::from(u32::from(*from)), u128::from(u32::from(*to))),
        Literal::Ipv6(address, bits) => prefix(u128::from(*address), 128, *bits),
        Literal::Ipv6Range(from, to) => (u128::from(*from), u128::from(*to)),
        Literal::Bytes(bytes) if bytes.len() <= 8 => {
            let number = bytes.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
            (number, number)
        }
        Literal::Bytes(_) | Literal::Text(_) | Literal::Frame(_) => return None,
    })
}

/// Sorts ranges and merges overlapping ones.
pub(super) fn merge_ranges(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = vec![];
    for (from, to) in ranges {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

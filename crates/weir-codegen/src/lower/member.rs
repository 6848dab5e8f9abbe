//! Membership in a set: inline comparisons for few ranges, else a call.

use super::Lowering;
use crate::host;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use weir_ir::graph::{Set, Value};

/// Maximum number of ranges compared inline.
const INLINE_RANGES_MAX: usize = 4;
/// Maximum number of 64-bit ranges compared inline; they take half the instructions.
const INLINE_NARROW_RANGES_MAX: usize = 8;

impl Lowering<'_> {
    pub(super) fn member(&mut self, set: Set, high: Value, low: Value) -> ir::Value {
        let graph = self.graph;
        let ranges = &graph.sets[set.index()];
        if let Some(high) = self.plan.int(high) {
            let narrow: Vec<(u64, u64)> = ranges.iter().filter_map(|&range| within(range, high)).collect();
            if let Some(low) = self.plan.int(low) {
                let is_in = narrow.iter().any(|&(first, last)| first <= low && low <= last);
                return self.b.ins().iconst(types::I8, i64::from(is_in));
            }
            if narrow.len() <= INLINE_NARROW_RANGES_MAX {
                let low = self.one(low);
                return self.any(&narrow, |lowering, &(first, last)| lowering.in_range(low, first, last));
            }
        }
        let (high, low) = (self.one(high), self.one(low));
        if ranges.len() <= INLINE_RANGES_MAX {
            return self
                .any(ranges, |lowering, &(first, last)| lowering.in_wide_range(high, low, first, last));
        }
        let set = self.b.ins().iconst(types::I64, i64::from(set.0));
        let words = [self.arguments.env, set, high, low];
        let is_in = self.call(host::member as *const () as usize, &words, true).expect("a result");
        self.b.ins().ireduce(types::I8, is_in)
    }

    fn any<R>(&mut self, ranges: &[R], mut test: impl FnMut(&mut Self, &R) -> ir::Value) -> ir::Value {
        let mut found = None;
        for range in ranges {
            let is_in = test(self, range);
            found = Some(match found {
                Some(found) => self.b.ins().bor(found, is_in),
                None => is_in,
            });
        }
        found.unwrap_or_else(|| self.b.ins().iconst(types::I8, 0))
    }

    /// `first <= number <= last`.
    fn in_range(&mut self, number: ir::Value, first: u64, last: u64) -> ir::Value {
        if first == last {
            return self.b.ins().icmp_imm_s(IntCC::Equal, number, first as i64);
        }
        let from_first = match first {
            0 => number,
            _ => self.b.ins().iadd_imm_s(number, (first as i64).wrapping_neg()),
        };
        let span = (last - first) as i64;
        self.b.ins().icmp_imm_s(IntCC::UnsignedLessThanOrEqual, from_first, span)
    }

    fn in_wide_range(&mut self, high: ir::Value, low: ir::Value, first: u128, last: u128) -> ir::Value {
        let [(first_high, first_low), (last_high, last_low)] =
            [first, last].map(|number| ((number >> 64) as u64, number as u64));
        if first_high == last_high {
            let is_high = self.in_range(high, first_high, first_high);
            let is_low = self.in_range(low, first_low, last_low);
            return self.b.ins().band(is_high, is_low);
        }
        if first_low == 0 && last_low == u64::MAX {
            return self.in_range(high, first_high, last_high);
        }
        let at_least = self.wide_compare(IntCC::UnsignedGreaterThan, high, low, first_high, first_low);
        let at_most = self.wide_compare(IntCC::UnsignedLessThan, high, low, last_high, last_low);
        self.b.ins().band(at_least, at_most)
    }

    /// The non-strict form of the comparison `strict`, or equality.
    fn wide_compare(
        &mut self,
        strict: IntCC,
        high: ir::Value,
        low: ir::Value,
        bound_high: u64,
        bound_low: u64,
    ) -> ir::Value {
        let beyond = self.b.ins().icmp_imm_s(strict, high, bound_high as i64);
        let at = self.b.ins().icmp_imm_s(IntCC::Equal, high, bound_high as i64);
        let or_equal = match strict {
            IntCC::UnsignedGreaterThan => IntCC::UnsignedGreaterThanOrEqual,
            _ => IntCC::UnsignedLessThanOrEqual,
        };
        let low = self.b.ins().icmp_imm_s(or_equal, low, bound_low as i64);
        let at = self.b.ins().band(at, low);
        self.b.ins().bor(beyond, at)
    }
}

/// The numbers of a range whose upper half is `high`, as a range of lower halves.
fn within((first, last): (u128, u128), high: u64) -> Option<(u64, u64)> {
    let base = u128::from(high) << 64;
    let (first, last) = (first.max(base), last.min(base | u128::from(u64::MAX)));
    (first <= last).then_some((first as u64, last as u64))
}

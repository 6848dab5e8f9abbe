//! The number of different values: exact up to a bound, then an estimate by registers.
//!
//! Whether the result is exact, and the registers themselves, depend only on the set of values: not on their
//! order, nor on how they were distributed over the sets that were merged. Shortage of memory is the
//! exception.

use crate::budget::block_bytes;
use crate::context::Context;
use crate::registers::{REGISTERS, Registers};

/// Up to this many values are searched one by one.
const LINEAR_MAX: usize = 8;
const FIRST_CAPACITY: usize = 4;

/// A set of values of `width` words each.
#[derive(Debug, Clone)]
pub(crate) enum Distinct {
    /// All values.
    Exact(ExactSet),
    /// Registers of an estimate.
    Estimate(Registers),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ExactSet {
    /// The values, one after the other.
    values: Vec<u64>,
    /// Open addressing with linear probing: numbers of values plus one; 0 is free. Empty up to [`LINEAR_MAX`]
    /// values.
    index: Vec<u16>,
    /// Values that fit.
    capacity: usize,
}

/// What became of a value.
enum Inserted {
    Known,
    New,
    /// The set has as many values as it may.
    Full,
    /// Memory is short, and registers are smaller.
    Short,
    NoMemory,
}

impl Default for Distinct {
    fn default() -> Self {
        Self::Exact(ExactSet::default())
    }
}

impl Distinct {
    /// Inserts a value. Returns false if there is no memory for the value.
    pub(crate) fn insert(&mut self, value: &[u64], context: &mut Context) -> bool {
        let hash = context.hash.hash(value, 0);
        loop {
            match self {
                Self::Estimate(registers) => {
                    registers.insert(hash);
                    return true;
                }
                Self::Exact(set) => match set.insert(value, hash, context) {
                    Inserted::Known | Inserted::New => return true,
                    Inserted::NoMemory => return false,
                    full => {
                        if !self.estimate(value.len(), context) {
                            return false;
                        }
                        context.counters.sets_estimated += u64::from(matches!(full, Inserted::Short));
                    }
                },
            }
        }
    }

    /// Adds the values of another set. Returns false if there is no memory for all of them.
    pub(crate) fn merge(&mut self, other: &Self, width: usize, context: &mut Context) -> bool {
        match other {
            Self::Exact(set) => {
                let mut is_complete = true;
                for value in set.values.chunks_exact(width) {
                    is_complete &= self.insert(value, context);
                }
                is_complete
            }
            Self::Estimate(theirs) => {
                if matches!(self, Self::Exact(_)) && !self.estimate(width, context) {
                    return false;
                }
                if let Self::Estimate(registers) = self {
                    registers.merge(theirs);
                }
                true
            }
        }
    }

    /// The number of values, and whether it is exact.
    pub(crate) fn count(&self, width: usize) -> (u64, bool) {
        match self {
            Self::Exact(set) => ((set.values.len() / width) as u64, true),
            Self::Estimate(registers) => (registers.count(), false),
        }
    }

    /// Replaces the exact set by registers. Returns false if there is no memory for them.
    fn estimate(&mut self, width: usize, context: &mut Context) -> bool {
        let Self::Exact(set) = self else { return true };
        let old = exact_bytes(set.capacity, width);
        context.budget.give_back(old);
        if !context.budget.take(block_bytes::<u8>(REGISTERS)) {
            context.budget.force(old);
            return false;
        }
        let mut registers = Registers::new();
        for value in set.values.chunks_exact(width) {
            registers.insert(context.hash.hash(value, 0));
        }
        *self = Self::Estimate(registers);
        true
    }
}

impl ExactSet {
    fn insert(&mut self, value: &[u64], hash: u64, context: &mut Context) -> Inserted {
        let width = value.len();
        let slot = match self.find(value, hash) {
            Ok(()) => return Inserted::Known,
            Err(slot) => slot,
        };
        let len = self.values.len() / width;
        if len >= context.limits.distinct_exact_max {
            return Inserted::Full;
        }
        if len < self.capacity {
            self.values.extend_from_slice(value);
            if let Some(slot) = self.index.get_mut(slot) {
                *slot = len as u16 + 1;
            }
            return Inserted::New;
        }
        match self.grow(width, context) {
            Inserted::New => self.insert(value, hash, context),
            refused => refused,
        }
    }

    /// Whether `value` is in the set; if not, its free slot in the index.
    fn find(&self, value: &[u64], hash: u64) -> Result<(), usize> {
        let width = value.len();
        if self.index.is_empty() {
            let is_known = self.values.chunks_exact(width).any(|known| known == value);
            return if is_known { Ok(()) } else { Err(0) };
        }
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        // At most half of the slots are used.
        while self.index[slot] != 0 {
            let start = (usize::from(self.index[slot]) - 1) * width;
            if self.values[start..start + width] == *value {
                return Ok(());
            }
            slot = (slot + 1) & mask;
        }
        Err(slot)
    }

    /// Doubles the capacity.
    fn grow(&mut self, width: usize, context: &mut Context) -> Inserted {
        let capacity = (self.capacity * 2).max(FIRST_CAPACITY);
        let (old, new) = (exact_bytes(self.capacity, width), exact_bytes(capacity, width));
        if new > block_bytes::<u8>(REGISTERS) && context.budget.is_short(new) {
            return Inserted::Short;
        }
        if !context.budget.take(new) {
            return Inserted::NoMemory;
        }
        self.values.reserve_exact(capacity * width - self.values.len());
        self.capacity = capacity;
        self.index = vec![0; index_slots(capacity)];
        if !self.index.is_empty() {
            let mask = self.index.len() - 1;
            for (number, value) in self.values.chunks_exact(width).enumerate() {
                let mut slot = context.hash.hash(value, 0) as usize & mask;
                while self.index[slot] != 0 {
                    slot = (slot + 1) & mask;
                }
                self.index[slot] = number as u16 + 1;
            }
        }
        context.budget.give_back(old);
        Inserted::New
    }
}

fn index_slots(capacity: usize) -> usize {
    if capacity <= LINEAR_MAX { 0 } else { capacity * 2 }
}

fn exact_bytes(capacity: usize, width: usize) -> u64 {
    match capacity {
        0 => 0,
        _ => block_bytes::<u64>(capacity * width) + block_bytes::<u16>(index_slots(capacity)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_exact_before_and_behind_the_linear_search() {
        let mut context = Context::with_bytes(1 << 20);
        for width in [1, 3] {
            let mut set = Distinct::default();
            for count in 1..=1_024 {
                let value = vec![count; width];
                assert!(set.insert(&value, &mut context) && set.insert(&value, &mut context));
                assert_eq!(set.count(width), (count, true));
            }
            let used = context.budget.used();
            assert!(set.insert(&vec![0; width], &mut context));
            assert!(!set.count(width).1 && context.budget.used() < used, "registers are smaller");
        }
    }

    #[test]
    fn without_memory_for_registers_the_set_stays_and_counts() {
        let mut context = Context::with_bytes(4_000);
        context.limits.distinct_exact_max = 4;
        let mut set = Distinct::default();
        let inserted: Vec<_> = (0..5).map(|value| set.insert(&[value], &mut context)).collect();
        assert_eq!(inserted, [true, true, true, true, false]);
        assert_eq!((set.count(1), context.budget.used()), ((4, true), exact_bytes(4, 1)));
    }
}

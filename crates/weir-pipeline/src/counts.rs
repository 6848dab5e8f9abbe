//! The counters of operators.

use std::collections::BTreeMap;

/// What the bounds of operators cut off, by the name of the counter. Operators with the same counter add up.
pub type Counts = BTreeMap<&'static str, u64>;

/// Adds counters that [`Operator::counters`](crate::Operator::counters) tells.
pub(crate) fn counts_of(tell_all: impl FnOnce(&mut dyn FnMut(&'static str, u64))) -> Counts {
    let mut counts = Counts::new();
    tell_all(&mut |name, count| *counts.entry(name).or_default() += count);
    counts
}

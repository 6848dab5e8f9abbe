//! Large states of groups: sketches, sets and histograms, in arrays beside the rows.
//!
//! The word of the row, a link, is 0 without a large state, otherwise its number plus one. The highest bit
//! says that values were left out because there was no memory.

use crate::context::Context;
use crate::distinct::Distinct;
use crate::quantile::Sketch;

/// The bit of a link that says that values were left out.
const CUT: u64 = 1 << 63;

/// The large states of a pane.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    pub sketches: Vec<Sketch>,
    pub sets: Vec<Distinct>,
    pub histograms: Vec<Box<[u64]>>,
}

/// The number of the large state of a link.
pub(crate) fn number(link: u64) -> Option<usize> {
    (link & !CUT).checked_sub(1).map(|number| number as usize)
}

/// Whether values were left out.
pub(crate) fn is_cut(link: u64) -> bool {
    link & CUT != 0
}

/// Notes that values were left out.
pub(crate) fn cut(link: &mut u64, context: &mut Context) {
    *link |= CUT;
    context.counters.values_cut += 1;
}

/// The large state of a link; made by `new` if there is none yet, and none if there is no memory.
pub(crate) fn state<'a, T>(
    link: &mut u64,
    states: &'a mut Vec<T>,
    context: &mut Context,
    new: impl FnOnce(&mut Context) -> Option<T>,
) -> Option<&'a mut T> {
    if let Some(number) = number(*link) {
        return states.get_mut(number);
    }
    if !context.budget.reserve(states) {
        return None;
    }
    states.push(new(context)?);
    *link = *link & CUT | states.len() as u64;
    states.last_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    /// Memory may become free later: the state is made then, and still lacks the values before.
    #[test]
    fn a_state_that_was_cut_stays_cut() {
        let mut context = Context::with_bytes(0);
        let (mut link, mut states) = (0, vec![]);
        assert!(state(&mut link, &mut states, &mut context, |_| Some(1)).is_none());
        cut(&mut link, &mut context);
        assert_eq!((number(link), is_cut(link)), (None, true));
        context.budget = Budget::new(1_000);
        assert_eq!(state(&mut link, &mut states, &mut context, |_| Some(2)), Some(&mut 2));
        assert_eq!((number(link), is_cut(link)), (Some(0), true));
        assert_eq!(state(&mut link, &mut states, &mut context, |_| Some(3)), Some(&mut 2));
    }
}

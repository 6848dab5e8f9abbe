//! Pairs that are open, while the sequence of all packets passes.

use crate::index::Pair;
use foldhash::{HashMap, HashSet};

/// A pair whose packets belong to one task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The unit of the first packet.
    pub first: usize,
    /// What decides whether the pair is open.
    pub from: From,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// The index of this capture.
    Capture(usize),
    /// The pair is closed after this time.
    Until(i64),
}

/// The pairs that are open.
pub(crate) struct Runs {
    pub all: HashMap<Pair, Run>,
    /// Those of which times decide.
    pub timed: HashSet<Pair>,
    /// Those of which the index of a capture decides.
    pub of_captures: Vec<HashSet<Pair>>,
}

impl Runs {
    pub fn new(captures: usize) -> Self {
        let of_captures = (0..captures).map(|_| HashSet::default()).collect();
        Self { all: HashMap::default(), timed: HashSet::default(), of_captures }
    }

    /// Closes the pairs of which times decide, and which have no flow after this time.
    pub fn close_before(&mut self, time: i64) {
        let all = &mut self.all;
        self.timed.retain(|pair| {
            let is_closed =
                matches!(all.get(pair), Some(Run { from: From::Until(until), .. }) if *until < time);
            if is_closed {
                all.remove(pair);
            }
            !is_closed
        });
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.timed.clear();
        self.of_captures.iter_mut().for_each(HashSet::clear);
    }

    pub fn firsts(&self) -> HashMap<Pair, usize> {
        self.all.iter().map(|(pair, run)| (*pair, run.first)).collect()
    }
}

/// For each pair that is joined with others: the pair that stands for all of them, if it is another one.
pub(crate) fn aliases<'a>(joined: impl Iterator<Item = &'a (Pair, Pair)>) -> HashMap<Pair, Pair> {
    let mut parents: HashMap<Pair, Pair> = HashMap::default();
    fn root(parents: &mut HashMap<Pair, Pair>, mut pair: Pair) -> Pair {
        while let Some(&parent) = parents.get(&pair) {
            if let Some(&above) = parents.get(&parent) {
                parents.insert(pair, above);
            }
            pair = parent;
        }
        pair
    }
    for &(one, other) in joined {
        let (one, other) = (root(&mut parents, one), root(&mut parents, other));
        if one != other {
            parents.insert(one.max(other), one.min(other));
        }
    }
    let pairs: Vec<Pair> = parents.keys().copied().collect();
    pairs.into_iter().map(|pair| (pair, root(&mut parents, pair))).collect()
}

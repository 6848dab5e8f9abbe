//! What all states of an aggregator, or of a merger, share.

use crate::budget::{Budget, Counters};
use crate::plan::{Limits, Plan};
use crate::seed::{KeyedHash, Seed};

#[derive(Debug)]
pub(crate) struct Context {
    pub hash: KeyedHash,
    pub budget: Budget,
    pub counters: Counters,
    pub limits: Limits,
}

impl Context {
    pub(crate) fn new(plan: &Plan, seed: Seed, bytes_max: u64) -> Self {
        Self {
            hash: KeyedHash::new(seed),
            budget: Budget::new(bytes_max),
            counters: Counters::default(),
            limits: plan.params().limits,
        }
    }
}

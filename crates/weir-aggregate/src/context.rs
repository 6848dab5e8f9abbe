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
    /// A context of a plan without keys and inputs.
    #[cfg(test)]
    pub(crate) fn with_bytes(bytes_max: u64) -> Self {
        use crate::measure::{Function, Measure};
        let params = crate::plan::PlanParams {
            key_words: 0,
            inputs: vec![],
            measures: vec![Measure { function: Function::Count, input: None }],
            windows: crate::windows::Windows::None,
            lateness_ns: 0,
            having: None,
            top: None,
            limits: Limits::default(),
        };
        Self::new(&Plan::new(params).expect("a valid plan"), Seed([1, 2]), bytes_max)
    }
}

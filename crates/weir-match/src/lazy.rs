//! A machine's states as they are needed, kept in a cache.
//!
//! A state's number holds until the next [`LazyDfa::step`]; between pieces a stream keeps the [`State`] itself, which
//! is valid whatever became of any cache. So a cache can be emptied at any moment, and a stream may go from one
//! worker to another.

use std::collections::HashMap;

use crate::machine::{Facts, Goal, Machine, State, Work};

const UNKNOWN: u32 = u32::MAX;
/// What a state takes besides its words and its row, about.
const STATE_OVERHEAD_BYTES: usize = 48;

#[derive(Debug)]
pub(crate) struct LazyDfa {
    goal: Goal,
    states: Vec<State>,
    numbers: HashMap<State, u32>,
    facts: Vec<Facts>,
    rows: Vec<u32>,
    bytes: usize,
}

impl LazyDfa {
    pub(crate) fn new(goal: Goal) -> Self {
        Self { goal, states: vec![], numbers: HashMap::new(), facts: vec![], rows: vec![], bytes: 0 }
    }

    /// The number of a state.
    pub(crate) fn number(&mut self, machine: &Machine, work: &mut Work, state: State) -> u32 {
        if let Some(&number) = self.numbers.get(&state) {
            return number;
        }
        let number = self.states.len() as u32;
        let bytes = state.memory_bytes() + STATE_OVERHEAD_BYTES + machine.symbols() * size_of::<u32>();
        self.bytes += bytes;
        work.cached_bytes += bytes;
        self.facts.push(state.facts());
        self.rows.resize(self.rows.len() + machine.symbols(), UNKNOWN);
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        number
    }

    /// The state behind `symbol`. Where all caches together are full, this one is emptied first: all numbers but
    /// the one returned are void.
    pub(crate) fn step(&mut self, machine: &Machine, work: &mut Work, number: u32, symbol: usize) -> u32 {
        let at = number as usize * machine.symbols() + symbol;
        match self.rows[at] {
            UNKNOWN => {}
            next => return next,
        }
        let state = machine.step(self.goal, work, &self.states[number as usize], symbol);
        if work.cached_bytes > work.cached_bytes_max {
            self.clear(work);
            return self.number(machine, work, state);
        }
        let next = self.number(machine, work, state);
        self.rows[at] = next;
        next
    }

    pub(crate) fn facts(&self, number: u32) -> Facts {
        self.facts[number as usize]
    }

    pub(crate) fn state(&self, number: u32) -> &State {
        &self.states[number as usize]
    }

    /// What is known of the states behind each symbol.
    pub(crate) fn row(&self, machine: &Machine, number: u32) -> &[u32] {
        &self.rows[number as usize * machine.symbols()..][..machine.symbols()]
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn clear(&mut self, work: &mut Work) {
        work.cached_bytes -= self.bytes;
        work.clears += 1;
        *self = Self::new(self.goal);
    }
}

//! A machine's states, computed on demand and cached.
//!
//! A state's number is valid until the next [`LazyDfa::step`]. Between pieces a stream keeps the [`State`]
//! itself, which is independent of caches. A cache may therefore be emptied at any time, and a stream may
//! move between workers. A number is the index of the state's row, with the most frequently tested facts in
//! its upper bits.

use std::collections::HashMap;

use crate::machine::{Context, Facts, Goal, Machine, State, Work};
use crate::scan::{Scan, Table};
use crate::skip::Skipper;

const UNKNOWN: u32 = u32::MAX;
/// The position of the facts in a number. Rows within `CACHE_BYTES_MAX` have smaller indices.
const FACTS_SHIFT: u32 = 32 - Facts::BITS;
const INDEX: u32 = (1 << FACTS_SHIFT) - 1;
/// Approximate size of a state in bytes, without its words and its row.
const STATE_OVERHEAD_BYTES: usize = 48;

#[derive(Debug)]
pub(crate) struct LazyDfa {
    goal: Goal,
    symbols: usize,
    states: Vec<State>,
    /// The number of each state.
    numbers: Vec<u32>,
    known: HashMap<State, u32>,
    rows: Vec<u32>,
    bytes: usize,
    /// The idle states, once computed.
    idle: Option<[u32; Context::ALL.len()]>,
}

impl LazyDfa {
    /// An empty cache for a machine with this many symbols.
    pub(crate) fn new(goal: Goal, symbols: usize) -> Self {
        let (states, numbers, rows) = (vec![], vec![], vec![]);
        Self { goal, symbols, states, numbers, known: HashMap::new(), rows, bytes: 0, idle: None }
    }

    /// The number of a state.
    pub(crate) fn number(&mut self, work: &mut Work, state: State) -> u32 {
        if let Some(&number) = self.known.get(&state) {
            return number;
        }
        let number = self.rows.len() as u32 | state.facts().bits() << FACTS_SHIFT;
        let bytes = state.memory_bytes() + STATE_OVERHEAD_BYTES + self.symbols * size_of::<u32>();
        self.bytes += bytes;
        work.cached_bytes += bytes;
        self.rows.resize(self.rows.len() + self.symbols, UNKNOWN);
        self.states.push(state.clone());
        self.numbers.push(number);
        self.known.insert(state, number);
        number
    }

    /// The state after `symbol`. If all caches together are full, this cache is emptied first: then only the
    /// returned number is valid.
    pub(crate) fn step(&mut self, machine: &Machine, work: &mut Work, number: u32, symbol: usize) -> u32 {
        let at = (number & INDEX) as usize + symbol;
        match self.rows[at] {
            UNKNOWN => {}
            next => return next,
        }
        let state = machine.step(self.goal, work, self.state(number), symbol);
        if work.cached_bytes > work.cached_bytes_max {
            self.clear(work);
            return self.number(work, state);
        }
        let next = self.number(work, state);
        self.rows[at] = next;
        next
    }

    /// Scans from `bytes[at..]` to the first byte that reports an end, or to the end of the bytes.
    pub(crate) fn scan(
        &mut self,
        machine: &Machine,
        work: &mut Work,
        skipper: &mut Skipper,
        bytes: &[u8],
        (from, at): (u32, usize),
    ) -> Scan {
        let mut scan = Scan::new(from, at);
        loop {
            let idle = match self.idle {
                Some(idle) => idle,
                None => Context::ALL.map(|context| self.number(work, machine.initial(context))),
            };
            self.idle = Some(idle);
            let rows = &self.rows;
            scan.run(&Rows { rows, machine, idle }, skipper, bytes);
            if scan.state != UNKNOWN {
                return scan;
            }
            scan.state = self.step(machine, work, scan.before, machine.symbol(bytes[scan.at - 1]));
            let facts = Self::facts(scan.state);
            if facts.matched() {
                return scan;
            }
            scan.idle_at = if facts.idle() { Some(scan.at) } else { scan.idle_at };
        }
    }

    pub(crate) fn facts(number: u32) -> Facts {
        Facts::from_bits(number >> FACTS_SHIFT)
    }

    /// The cached states in the order of their creation.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The index of a state in [`Self::numbers`].
    pub(crate) fn index(&self, number: u32) -> usize {
        (number & INDEX) as usize / self.symbols
    }

    pub(crate) fn state(&self, number: u32) -> &State {
        &self.states[self.index(number)]
    }

    /// The known successors of a state, by symbol.
    pub(crate) fn row(&self, number: u32) -> &[u32] {
        &self.rows[(number & INDEX) as usize..][..self.symbols]
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn clear(&mut self, work: &mut Work) {
        work.cached_bytes -= self.bytes;
        work.clears += 1;
        *self = Self::new(self.goal, self.symbols);
    }
}

/// The cache, while no state is added.
struct Rows<'a> {
    rows: &'a [u32],
    machine: &'a Machine,
    idle: [u32; Context::ALL.len()],
}

impl Table for Rows<'_> {
    fn next(&self, state: u32, byte: u8) -> u32 {
        self.rows[(state & INDEX) as usize + self.machine.symbol(byte)]
    }

    fn stops(&self, state: u32) -> bool {
        // The unknown state also stops the scan.
        LazyDfa::facts(state).matched()
    }

    fn is_idle(&self, state: u32) -> bool {
        LazyDfa::facts(state).idle()
    }

    fn idle_after(&self, byte: u8) -> u32 {
        self.idle[self.machine.context_of(byte) as usize]
    }
}

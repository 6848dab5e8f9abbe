//! All states of a machine in one table.
//!
//! States are ordered, so that comparing a state with a bound gives its kind: idle states first, then states
//! with a match in progress, then states in which a match ended. A state is the index of its row.

use crate::lazy::LazyDfa;
use crate::machine::{Context, Goal, Machine, Work};
use crate::scan::Table;

/// Maximum number of states of a table: beyond it, building takes too long.
pub(crate) const STATES_MAX: usize = 16_384;
/// Maximum size in bytes of a table, and of its states during construction.
pub(crate) const TABLE_BYTES_MAX: usize = 64 << 20;
#[derive(Debug)]
pub(crate) struct Dense {
    rows: Vec<u32>,
    stride: u32,
    classes: [u8; 256],
    under_way_from: u32,
    ended_from: u32,
    /// For each state from `ended_from` on: whether it is idle, and the patterns that ended.
    ended: Vec<(bool, Box<[u32]>)>,
    initial: [u32; Context::ALL.len()],
    /// The idle state after each byte.
    idle_after: Box<[u32; 256]>,
}

impl Dense {
    /// The table of a machine; `None` if it would exceed the bounds.
    pub(crate) fn build(machine: &Machine) -> Option<Self> {
        let mut work = Work::new(TABLE_BYTES_MAX);
        let mut states = LazyDfa::new(Goal::Ends, machine.symbols());
        let initial = Context::ALL.map(|c| states.number(&mut work, machine.initial(c)));
        let mut done = 0;
        while done < states.len() {
            let number = states.numbers()[done];
            for symbol in 0..machine.symbols() {
                states.step(machine, &mut work, number, symbol);
                if work.clears > 0 || states.len() > STATES_MAX {
                    return None;
                }
            }
            done += 1;
        }
        let kind = |number: u32| match LazyDfa::facts(number) {
            facts if facts.matched() => 2,
            facts if facts.idle() => 0,
            _ => 1,
        };
        let mut order = states.numbers().to_vec();
        order.sort_by_key(|&number| kind(number));
        let stride = machine.symbols() as u32;
        let mut places = vec![0; order.len()];
        for (n, &number) in order.iter().enumerate() {
            places[states.index(number)] = n as u32 * stride;
        }
        let place = |number: u32| places[states.index(number)];
        let mut rows = Vec::with_capacity(order.len() * stride as usize);
        for &number in &order {
            rows.extend(states.row(number).iter().map(|&next| place(next)));
        }
        let count = |below: u32| order.iter().filter(|&&n| kind(n) < below).count();
        let ended = order[count(2)..]
            .iter()
            .map(|&n| (LazyDfa::facts(n).idle(), states.state(n).patterns().into()))
            .collect();
        let initial = initial.map(place);
        let after = |byte| initial[machine.context_of(byte) as usize];
        Some(Self {
            rows,
            stride,
            classes: *machine.classes(),
            under_way_from: count(1) as u32 * stride,
            ended_from: count(2) as u32 * stride,
            ended,
            initial,
            idle_after: Box::new(std::array::from_fn(|byte| after(byte as u8))),
        })
    }

    pub(crate) fn initial(&self, context: Context) -> u32 {
        self.initial[context as usize]
    }

    pub(crate) fn step(&self, state: u32, symbol: usize) -> u32 {
        self.rows[state as usize + symbol]
    }

    /// The patterns that ended before the last symbol.
    pub(crate) fn ended(&self, state: u32) -> &[u32] {
        match state.checked_sub(self.ended_from) {
            Some(row) => &self.ended[(row / self.stride) as usize].1,
            None => &[],
        }
    }

    /// Whether no match is in progress any more.
    pub(crate) fn is_over(&self, state: u32) -> bool {
        match state.checked_sub(self.ended_from) {
            Some(row) => self.ended[(row / self.stride) as usize].0,
            None => state < self.under_way_from,
        }
    }
}

impl Table for Dense {
    fn next(&self, state: u32, byte: u8) -> u32 {
        self.rows[state as usize + usize::from(self.classes[usize::from(byte)])]
    }

    fn stops(&self, state: u32) -> bool {
        state >= self.ended_from
    }

    fn is_idle(&self, state: u32) -> bool {
        state < self.under_way_from
    }

    fn idle_after(&self, byte: u8) -> u32 {
        self.idle_after[usize::from(byte)]
    }
}

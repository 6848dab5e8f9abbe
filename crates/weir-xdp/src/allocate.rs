//! Gives each register of the code one of the machine, or a place on the stack.
//!
//! Registers that hold needed values at the same time get different locations. The most used registers choose
//! first.

use crate::code::{Code, Goal, Part, Register, Step};

/// Where a register's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a register of the machine.
    Machine(u8),
    /// On the stack, this number of bytes below its top.
    Stack(i16),
}

/// Registers of the machine that may hold values: the rest is for single instructions (0, 1), the frame (6 to
/// 8), and the program around the filter (9).
const MACHINE: [u8; 4] = [2, 3, 4, 5];

/// Bytes of the stack (`MAX_BPF_STACK`).
const STACK_BYTES: i16 = 512;

/// The parts that are reached, each before its successors, except in loops. What follows a part if no test
/// holds is its neighbour where possible.
pub(crate) fn order(parts: &[Part]) -> Vec<usize> {
    let successors = |part: usize| {
        let Part { tests, next, .. } = &parts[part];
        let goals = tests.iter().map(|(_, goal)| *goal).chain([*next]);
        let mut list: Vec<usize> = goals
            .filter_map(|goal| match goal {
                Goal::Part(part) => Some(part),
                Goal::End(_) => None,
            })
            .collect();
        list.reverse();
        list
    };
    let (mut order, mut seen) = (vec![], vec![false; parts.len()]);
    let mut open = vec![(0, successors(0))];
    seen[0] = true;
    while let Some((part, left)) = open.last_mut() {
        match left.pop() {
            Some(next) if !std::mem::replace(&mut seen[next], true) => open.push((next, successors(next))),
            Some(_) => {}
            None => {
                order.push(*part);
                open.pop();
            }
        }
    }
    order.reverse();
    order
}

/// The location of each register. `None` if the stack is too small.
pub(crate) fn allocate(code: &Code, order: &[usize]) -> Option<Vec<Location>> {
    let mut uses = vec![0; code.registers as usize];
    for &part in order {
        let mut count = |register: Register| uses[register.index()] += 1;
        for step in &code.parts[part].steps {
            step.for_each_read(&mut count);
            step.for_each_write(&mut count);
        }
        code.parts[part].tests.iter().for_each(|(test, _)| test.for_each_read(&mut count));
    }
    let conflicts = Conflicts::of(code, order);
    let hints = hints(code, order);
    let mut by_use: Vec<usize> = (0..uses.len()).filter(|&register| uses[register] > 0).collect();
    by_use.sort_by_key(|&register| std::cmp::Reverse(uses[register]));
    let mut locations: Vec<Option<Location>> = vec![None; uses.len()];
    let first = 8 + code.flows.stack_bytes();
    let slots = (first..=STACK_BYTES).step_by(8).map(Location::Stack);
    let all: Vec<Location> = MACHINE.into_iter().map(Location::Machine).chain(slots).collect();
    for register in by_use {
        let taken: Vec<Location> =
            conflicts.of_register(register).filter_map(|other| locations[other]).collect();
        let hinted = hints[register].iter().filter_map(|other| locations[other.index()]);
        let survives = |location: &Location| {
            !conflicts.crosses_calls[register] || matches!(location, Location::Stack(_))
        };
        let all = hinted.chain(all.iter().copied()).filter(survives);
        let free = all.into_iter().find(|location| !taken.contains(location));
        locations[register] = Some(free?);
    }
    Some(locations.into_iter().map(|location| location.unwrap_or(Location::Machine(MACHINE[0]))).collect())
}

/// Which registers hold needed values at the same time: a bit for each pair.
struct Conflicts {
    count: usize,
    bits: Vec<u64>,
    /// By register: its value is needed after a call of the kernel.
    crosses_calls: Vec<bool>,
}

impl Conflicts {
    fn of(code: &Code, order: &[usize]) -> Self {
        let count = code.registers as usize;
        let bits = vec![0; (count * count).div_ceil(64)];
        let mut all = Self { count, bits, crosses_calls: vec![false; count] };
        let live = live_at_starts(code, order);
        for &part in order {
            let mut now = live_after(&code.parts[part], &live);
            for step in code.parts[part].steps.iter().rev() {
                if step.calls() {
                    now.iter().for_each(|register| all.crosses_calls[register.index()] = true);
                }
                // What is written at the same time conflicts, too.
                let mut written = vec![];
                step.for_each_write(|register| written.push(register));
                now.extend(written.iter().copied());
                now.sort_unstable();
                now.dedup();
                for &register in &written {
                    now.iter().for_each(|&other| all.add(register, other));
                }
                now.retain(|register| !written.contains(register));
                step.for_each_read(|register| now.push(register));
            }
        }
        all
    }

    fn add(&mut self, a: Register, b: Register) {
        for (a, b) in [(a.index(), b.index()), (b.index(), a.index())] {
            let bit = a * self.count + b;
            self.bits[bit / 64] |= u64::from(a != b) << (bit % 64);
        }
    }

    fn of_register(&self, register: usize) -> impl Iterator<Item = usize> {
        (0..self.count).filter(move |other| {
            let bit = register * self.count + other;
            self.bits[bit / 64] >> (bit % 64) & 1 == 1
        })
    }
}

/// The registers whose values are needed after the steps of a part.
fn live_after(part: &Part, live: &[Vec<Register>]) -> Vec<Register> {
    let mut now = vec![];
    for goal in part.tests.iter().map(|(_, goal)| *goal).chain([part.next]) {
        if let Goal::Part(next) = goal {
            now.extend_from_slice(&live[next]);
        }
    }
    part.tests.iter().for_each(|(test, _)| test.for_each_read(|register| now.push(register)));
    now
}

/// By register: those whose values the register takes over.
fn hints(code: &Code, order: &[usize]) -> Vec<Vec<Register>> {
    let mut hints = vec![vec![]; code.registers as usize];
    let mut add = |a: Register, b: Option<Register>| {
        if let Some(b) = b {
            hints[a.index()].push(b);
            hints[b.index()].push(a);
        }
    };
    for &part in order {
        for step in &code.parts[part].steps {
            match step {
                Step::Copy(copies) => copies.iter().for_each(|(to, from)| add(*to, from.register())),
                Step::Compute { to, a, .. } => add(*to, a.register()),
                Step::Load { .. } | Step::Point { .. } | Step::Find { .. } | Step::Read { .. } => {}
                Step::Side(_) | Step::Pend { .. } => {}
            }
        }
    }
    hints
}

/// By part: the registers whose values are needed from its start on.
fn live_at_starts(code: &Code, order: &[usize]) -> Vec<Vec<Register>> {
    let mut live: Vec<Vec<Register>> = vec![vec![]; code.parts.len()];
    let mut is_live = vec![false; code.registers as usize];
    loop {
        let mut has_changed = false;
        for &part in order.iter().rev() {
            is_live.fill(false);
            live_after(&code.parts[part], &live).iter().for_each(|register| is_live[register.index()] = true);
            for step in code.parts[part].steps.iter().rev() {
                step.for_each_write(|register| is_live[register.index()] = false);
                step.for_each_read(|register| is_live[register.index()] = true);
            }
            let count = is_live.iter().filter(|&&is| is).count();
            if count != live[part].len() {
                has_changed = true;
                let all = (0..code.registers).map(Register);
                live[part] = all.filter(|register| is_live[register.index()]).collect();
            }
        }
        if !has_changed {
            return live;
        }
    }
}

//! Writes code as instructions of eBPF (RFC 9669).

use crate::allocate::{Location, allocate, order};
use crate::code::{Arithmetic, Base, Code, Condition, Goal, Operand, Part, Register, Step, Test};
use crate::select::Unfit;
use weir_packet::BpfInstruction;
use weir_packet::bpf::code::{
    BY_REGISTER, BYTE, COMPUTE, DOUBLE, HALF, JUMP, LOAD, LOAD_NUMBER, MOVE, STACK, STORE, SWAP, WORD,
};

/// Registers for single instructions.
const SCRATCH: [u8; 2] = [0, 1];
/// The length of the frame.
const LENGTH: u8 = 6;
/// The first byte of the frame, or of its copy.
const FRAME: u8 = 7;
/// Behind the last byte of the frame's first piece.
const FRAME_END: u8 = 8;
/// Instructions of a program at most. The kernel's own limit is the number that its verifier visits.
const INSTRUCTIONS_MAX: usize = 30_000;

/// Writes the code. The end is the instruction after the last one.
pub(crate) fn emit(code: &Code) -> Result<Vec<BpfInstruction>, Unfit> {
    let order = order(&code.parts);
    let locations = allocate(code, &order).ok_or(Unfit("more values than the stack has room for"))?;
    let mut emit = Emit { locations, code, all: vec![], starts: vec![None; code.parts.len()], jumps: vec![] };
    for (at, &part) in order.iter().enumerate() {
        emit.part(part, order.get(at + 1).copied());
    }
    emit.ends();
    if emit.all.len() > INSTRUCTIONS_MAX {
        return Err(Unfit("too many instructions"));
    }
    Ok(emit.all)
}

struct Emit<'a> {
    locations: Vec<Location>,
    code: &'a Code,
    all: Vec<BpfInstruction>,
    /// By part: its first instruction.
    starts: Vec<Option<usize>>,
    /// Jumps whose distance is open, and their goals.
    jumps: Vec<(usize, Goal)>,
}

impl Emit<'_> {
    fn push(&mut self, code: u8, destination: u8, source: u8, offset: i16, number: i32) {
        self.all.push(BpfInstruction::new(code, destination, source, offset, number));
    }

    fn move_register(&mut self, to: u8, from: u8) {
        if to != from {
            self.push(MOVE | BY_REGISTER, to, from, 0, 0);
        }
    }

    fn move_number(&mut self, to: u8, number: u64) {
        match i32::try_from(number as i64) {
            Ok(short) => self.push(MOVE, to, 0, 0, short),
            Err(_) => {
                self.push(LOAD_NUMBER, to, 0, 0, number as u32 as i32);
                self.push(0, 0, 0, 0, (number >> 32) as u32 as i32);
            }
        }
    }

    /// Copies an operand to a register of the machine.
    fn fetch(&mut self, to: u8, from: Operand) {
        match from {
            Operand::Number(number) => self.move_number(to, number),
            Operand::Length => self.move_register(to, LENGTH),
            Operand::Register(register) => match self.locations[register.index()] {
                Location::Machine(from) => self.move_register(to, from),
                Location::Stack(slot) => self.push(LOAD | DOUBLE, to, STACK, -slot, 0),
            },
        }
    }

    /// The register of the machine that holds an operand, which is fetched to `scratch` if none does.
    fn held(&mut self, operand: Operand, scratch: u8) -> u8 {
        match operand {
            Operand::Length => LENGTH,
            Operand::Register(register) => match self.locations[register.index()] {
                Location::Machine(machine) => machine,
                Location::Stack(_) => {
                    self.fetch(scratch, operand);
                    scratch
                }
            },
            Operand::Number(_) => {
                self.fetch(scratch, operand);
                scratch
            }
        }
    }

    /// The register of the machine to compute a value in; [`settle`](Self::settle) brings the value to its place.
    fn target(&self, to: Register) -> u8 {
        match self.locations[to.index()] {
            Location::Machine(machine) => machine,
            Location::Stack(_) => SCRATCH[0],
        }
    }

    fn settle(&mut self, to: Register, from: u8) {
        match self.locations[to.index()] {
            Location::Machine(machine) => self.move_register(machine, from),
            Location::Stack(slot) => self.push(STORE | DOUBLE, STACK, from, -slot, 0),
        }
    }

    fn base(&mut self, base: Base, scratch: u8) -> u8 {
        match base {
            Base::Frame => FRAME,
            Base::Pointer(pointer) => self.held(Operand::Register(pointer), scratch),
        }
    }

    fn part(&mut self, part: usize, neighbour: Option<usize>) {
        self.starts[part] = Some(self.all.len());
        let Part { steps, tests, next } = &self.code.parts[part];
        steps.iter().for_each(|step| self.step(step));
        tests.iter().for_each(|&(test, goal)| self.test(test, goal));
        if neighbour.map(Goal::Part) != Some(*next) {
            self.jumps.push((self.all.len(), *next));
            self.push(JUMP, 0, 0, 0, 0);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Compute { to, op, a, b } => self.compute(*to, *op, *a, *b),
            Step::Load { to, bytes, is_little, base, displacement } => {
                let (from, target) = (self.base(*base, SCRATCH[1]), self.target(*to));
                let size = match bytes {
                    1 => BYTE,
                    2 => HALF,
                    4 => WORD,
                    _ => DOUBLE,
                };
                self.push(LOAD | size, target, from, *displacement, 0);
                if *bytes > 1 && !is_little {
                    self.push(SWAP, target, 0, 0, (bytes * 8) as i32);
                }
                self.settle(*to, target);
            }
            Step::Point { to, offset } => {
                // The pointer is the first operand, as the verifier wants.
                self.move_register(SCRATCH[0], FRAME);
                let offset = self.held(Operand::Register(*offset), SCRATCH[1]);
                self.push(COMPUTE | BY_REGISTER, SCRATCH[0], offset, 0, 0);
                self.settle(*to, SCRATCH[0]);
            }
            Step::Copy(copies) => self.copies(copies),
        }
    }

    fn compute(&mut self, to: Register, op: Arithmetic, a: Operand, b: Operand) {
        let second = match b {
            Operand::Number(number) => i32::try_from(number as i64).map_err(|_| b),
            other => Err(other),
        };
        let second = second.map_err(|operand| self.held(operand, SCRATCH[1]));
        let mut target = self.target(to);
        if second == Err(target) {
            target = SCRATCH[0];
        }
        self.fetch(target, a);
        match second {
            Ok(number) => self.push(COMPUTE | op as u8, target, 0, 0, number),
            Err(register) => self.push(COMPUTE | BY_REGISTER | op as u8, target, register, 0, 0),
        }
        self.settle(to, target);
    }

    /// Copies at the same time: a copy waits until nothing reads its target any more; a circle is opened by a scratch register.
    fn copies(&mut self, copies: &[(Register, Operand)]) {
        let place = |emit: &Self, operand: &Operand| operand.register().map(|r| emit.locations[r.index()]);
        let mut open: Vec<(Register, Operand)> = copies
            .iter()
            .copied()
            .filter(|(to, from)| place(self, from) != Some(self.locations[to.index()]))
            .collect();
        let mut saved: Option<Location> = None;
        while !open.is_empty() {
            let is_read = |emit: &Self, target: Location| {
                open.iter().any(|(_, from)| place(emit, from) == Some(target) && saved != Some(target))
            };
            let ready = open.iter().position(|(to, _)| !is_read(self, self.locations[to.index()]));
            let Some(ready) = ready else {
                // All that remains are circles: the first copy's target is saved, so that it may be overwritten.
                let target = self.locations[open[0].0.index()];
                self.fetch(SCRATCH[0], Operand::Register(open[0].0));
                saved = Some(target);
                continue;
            };
            let (to, from) = open.remove(ready);
            let is_saved = saved.is_some() && place(self, &from) == saved;
            let from = if is_saved { SCRATCH[0] } else { self.held_for(to, from) };
            self.settle(to, from);
            if is_saved {
                saved = None;
            }
        }
    }

    /// As [`held`](Self::held), in the target itself if that is a register of the machine.
    fn held_for(&mut self, to: Register, from: Operand) -> u8 {
        let scratch = match self.locations[to.index()] {
            Location::Machine(machine) => machine,
            Location::Stack(_) => SCRATCH[1],
        };
        self.held(from, scratch)
    }

    fn test(&mut self, test: Test, goal: Goal) {
        match test {
            Test::Compare(condition, a, b) => {
                let a = self.held(a, SCRATCH[0]);
                let short = match b {
                    Operand::Number(number) => i32::try_from(number as i64).ok(),
                    _ => None,
                };
                match short {
                    Some(number) => self.jump(condition, a, None, number, goal),
                    None => {
                        let b = self.held(b, SCRATCH[1]);
                        self.jump(condition, a, Some(b), 0, goal);
                    }
                }
            }
            Test::Beyond(base, bytes) => {
                let from = self.base(base, SCRATCH[0]);
                self.move_register(SCRATCH[0], from);
                self.push(COMPUTE, SCRATCH[0], 0, 0, bytes as i32);
                self.jump(Condition::Greater, SCRATCH[0], Some(FRAME_END), 0, goal);
            }
        }
    }

    fn jump(&mut self, condition: Condition, a: u8, b: Option<u8>, number: i32, goal: Goal) {
        self.jumps.push((self.all.len(), goal));
        let code = JUMP | condition as u8;
        match b {
            Some(b) => self.push(code | BY_REGISTER, a, b, 0, 0),
            None => self.push(code, a, 0, 0, number),
        }
    }

    /// Writes the two verdicts, if anything leads to them.
    fn ends(&mut self) {
        let is_goal = |emit: &Self, verdict| emit.jumps.iter().any(|(_, goal)| *goal == Goal::End(verdict));
        let (needed, not) = (is_goal(self, true), is_goal(self, false));
        let mut places = [None; 2];
        if not {
            places[0] = Some(self.all.len());
            self.push(MOVE, 0, 0, 0, 0);
            if needed {
                self.push(JUMP, 0, 0, 1, 0);
            }
        }
        if needed {
            places[1] = Some(self.all.len());
            self.push(MOVE, 0, 0, 0, 1);
        }
        for (at, goal) in std::mem::take(&mut self.jumps) {
            let to = match goal {
                Goal::Part(part) => self.starts[part],
                Goal::End(verdict) => places[usize::from(verdict)],
            };
            let to = to.expect("what is a goal is written");
            self.all[at].offset = (to as i64 - at as i64 - 1) as i16;
        }
    }
}

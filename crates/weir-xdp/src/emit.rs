//! Writes code as instructions of eBPF (RFC 9669).

use crate::allocate::{Location, allocate, order};
use crate::code::{
    Arithmetic, Base, Code, Condition, FLOW_AT, Goal, Operand, Part, Pending, Register, SIDE_AT, Step,
    TABLE_AT, Test,
};
use crate::select::Unfit;
use weir_ir::kernel_flows::{LAST_TIME, STATE};
use weir_packet::bpf::code::{
    ATOMIC, BY_REGISTER, BYTE, CALL, COMPUTE, DOUBLE, HALF, JUMP, LOAD, LOAD_NUMBER, MOVE, STACK, STORE,
    SWAP, WORD,
};
use weir_packet::{BpfInstruction, KernelFilter};

/// Registers for single instructions.
const SCRATCH: [u8; 2] = [0, 1];
/// The length of the frame.
const LENGTH: u8 = 6;
/// The first byte of the frame, or of its copy.
const FRAME: u8 = 7;
/// Behind the last byte of the frame's first piece.
const FRAME_END: u8 = 8;
/// `bpf_map_lookup_elem`.
const LOOKUP: i32 = 1;
/// `bpf_ktime_get_ns`.
const TIME: i32 = 5;

/// Writes the code. The end is the instruction after the last one.
pub(crate) fn emit(code: &Code) -> Result<Vec<BpfInstruction>, Unfit> {
    let order = order(&code.parts);
    let locations = allocate(code, &order).ok_or(Unfit("more values than the stack has room for"))?;
    let mut emit = Emit { locations, code, all: vec![], starts: vec![None; code.parts.len()], jumps: vec![] };
    if !code.flows.tables.is_empty() {
        // No flow, and a value wherever one is read: what the stack had before is the kernel's.
        emit.push(MOVE, SCRATCH[0], 0, 0, 0);
        for at in (FLOW_AT..code.flows.key_at()).step_by(8) {
            emit.push(STORE | DOUBLE, STACK, SCRATCH[0], -at, 0);
        }
    }
    for (at, &part) in order.iter().enumerate() {
        emit.part(part, order.get(at + 1).copied());
    }
    emit.ends()?;
    if emit.all.len() > KernelFilter::INSTRUCTIONS_MAX {
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

    /// The register of the machine to compute a value in; [`settle`](Self::settle) brings the value to its
    /// place.
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
            Step::Find { table, key } => self.find(*table, key),
            Step::Read { to, word, side } => {
                self.push(LOAD | DOUBLE, SCRATCH[0], STACK, -FLOW_AT, 0);
                if let Some(side) = side {
                    self.fetch(SCRATCH[1], *side);
                    self.side_words(SCRATCH[0], SCRATCH[1]);
                }
                let target = self.target(*to);
                self.push(LOAD | DOUBLE, target, SCRATCH[0], 8 * *word as i16, 0);
                self.settle(*to, target);
            }
            Step::Side(side) => {
                let from = self.held(*side, SCRATCH[0]);
                self.push(STORE | DOUBLE, STACK, from, -SIDE_AT, 0);
            }
            Step::Pend { pending, number } => {
                let (from, at) = (self.held(*number, SCRATCH[0]), self.code.flows.pending_at(*pending));
                self.push(STORE | DOUBLE, STACK, from, -at, 0);
            }
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

    /// Copies at the same time: a copy waits until nothing reads its target any more; a circle is opened by a
    /// scratch register.
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
                // All that remains are circles: the first copy's target is saved, so that it may be
                // overwritten.
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

    /// Adds the distance of a side's words, 0 or 8 bytes, to a pointer.
    fn side_words(&mut self, pointer: u8, side: u8) {
        self.push(COMPUTE | Arithmetic::And as u8, side, 0, 0, 1);
        self.push(COMPUTE | Arithmetic::Shl as u8, side, 0, 0, 3);
        self.push(COMPUTE | BY_REGISTER, pointer, side, 0, 0);
    }

    /// Looks up the entry of a flow. The packet is needed unless there is one that is not open.
    fn find(&mut self, table: usize, key: &[Operand]) {
        let needed = Goal::End(true);
        let flows = &self.code.flows;
        let (layer, key_at, key_words) = (flows.tables[table].0, flows.key_at(), flows.key_words);
        let first = key_at + 8 * (key_words as i16 - 1);
        self.push(LOAD | DOUBLE, SCRATCH[0], STACK, -FLOW_AT, 0);
        self.jump(Condition::Different, SCRATCH[0], None, 0, needed);
        let words = [Operand::Number(layer)].into_iter().chain(key.iter().copied());
        let padding = std::iter::repeat(Operand::Number(0));
        for (at, word) in words.chain(padding).take(key_words).enumerate() {
            let from = self.held(word, SCRATCH[0]);
            self.push(STORE | DOUBLE, STACK, from, -(first - 8 * at as i16), 0);
        }
        self.push(LOAD_NUMBER, 1, KernelFilter::IS_MAP, 0, KernelFilter::FLOWS);
        self.push(0, 0, 0, 0, 0);
        self.push(MOVE | BY_REGISTER, 2, STACK, 0, 0);
        self.push(COMPUTE, 2, 0, 0, -i32::from(first));
        self.push(CALL, 0, 0, 0, LOOKUP);
        self.jump(Condition::Equal, 0, None, 0, needed);
        self.push(LOAD | DOUBLE, SCRATCH[1], 0, 8 * STATE as i16, 0);
        self.jump(Condition::Different, SCRATCH[1], None, 0, needed);
        self.push(STORE | DOUBLE, STACK, 0, -FLOW_AT, 0);
        self.push(MOVE, SCRATCH[1], 0, 0, table as i32);
        self.push(STORE | DOUBLE, STACK, SCRATCH[1], -TABLE_AT, 0);
    }

    /// Writes what the flow's entry gets: the time, and the numbers that wait.
    fn commit(&mut self) {
        self.push(CALL, 0, 0, 0, TIME);
        self.push(LOAD | DOUBLE, 1, STACK, -FLOW_AT, 0);
        self.push(STORE | DOUBLE, 1, 0, 8 * LAST_TIME as i16, 0);
        let tables = self.code.flows.tables.clone();
        if tables.iter().all(|(_, pending)| pending.is_empty()) {
            return;
        }
        self.push(LOAD | DOUBLE, 2, STACK, -SIDE_AT, 0);
        self.push(MOVE | BY_REGISTER, 3, 1, 0, 0);
        self.side_words(3, 2);
        self.push(LOAD | DOUBLE, 2, STACK, -TABLE_AT, 0);
        let mut ends = vec![];
        for (number, (_, pending)) in tables.iter().enumerate() {
            let skip = self.all.len();
            self.push(JUMP | Condition::Different as u8, 2, 0, 0, number as i32);
            for (at, Pending { word, is_sum, each_side }) in pending.iter().enumerate() {
                let (base, place) = (if *each_side { 3 } else { 1 }, 8 * *word as i16);
                self.push(LOAD | DOUBLE, 4, STACK, -self.code.flows.pending_at(at), 0);
                let code = if *is_sum { ATOMIC | DOUBLE } else { STORE | DOUBLE };
                self.push(code, base, 4, place, 0);
            }
            ends.push(self.all.len());
            self.push(JUMP, 0, 0, 0, 0);
            self.all[skip].offset = (self.all.len() - skip - 1) as i16;
        }
        for end in ends {
            self.all[end].offset = (self.all.len() - end - 1) as i16;
        }
    }

    /// Writes the verdicts, if anything leads to them.
    fn ends(&mut self) -> Result<(), Unfit> {
        let has_flows = !self.code.flows.tables.is_empty();
        let is_goal = |emit: &Self, verdict| emit.jumps.iter().any(|(_, goal)| *goal == Goal::End(verdict));
        let (needed, not) = (is_goal(self, true), is_goal(self, false));
        let (mut places, mut exits) = ([None; 2], vec![]);
        let mut verdict = |emit: &mut Self, number| {
            emit.push(MOVE, 0, 0, 0, number);
            exits.push(emit.all.len());
            emit.push(JUMP, 0, 0, 0, 0);
        };
        if not {
            places[0] = Some(self.all.len());
            if has_flows {
                self.push(LOAD | DOUBLE, 0, STACK, -FLOW_AT, 0);
                let no_flow = self.all.len();
                self.push(JUMP | Condition::Equal as u8, 0, 0, 0, 0);
                self.commit();
                verdict(self, KernelFilter::COUNTED);
                self.all[no_flow].offset = (self.all.len() - no_flow - 1) as i16;
            }
            verdict(self, KernelFilter::UNNEEDED);
        }
        if needed {
            places[1] = Some(self.all.len());
            if has_flows {
                // All packets of the connection are for the engine from now on.
                self.push(LOAD | DOUBLE, 1, STACK, -FLOW_AT, 0);
                self.push(JUMP | Condition::Equal as u8, 1, 0, 2, 0);
                self.push(MOVE, 0, 0, 0, 1);
                self.push(STORE | DOUBLE, 1, 0, 8 * STATE as i16, 0);
            }
            verdict(self, KernelFilter::NEEDED);
        }
        // The last verdict needs no jump to the end.
        if exits.pop().is_some() {
            self.all.pop();
        }
        for exit in exits {
            self.all[exit].offset = (self.all.len() - exit - 1) as i16;
        }
        for (at, goal) in std::mem::take(&mut self.jumps) {
            let to = match goal {
                Goal::Part(part) => self.starts[part],
                Goal::End(verdict) => places[usize::from(verdict)],
            };
            let to = to.expect("what is a goal is written");
            self.all[at].offset = (to as i64 - at as i64 - 1) as i16;
        }
        Ok(())
    }
}

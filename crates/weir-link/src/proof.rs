//! Checks the part of a filter that another process has sent, before the kernel gets the part.
//!
//! The kernel's verifier ensures that a program ends and stays within its memory. A program that has
//! CAP_PERFMON may do more than filters need: call other functions of the kernel, and leak the kernel's
//! addresses. So this check accepts only the instructions of `weir-xdp`, and only where each value is of
//! one sort: a number, or a pointer that can be moved and read. Numbers alone reach the map of connections
//! and the verdict.

use crate::assembly::{DIFFERENT, EQUAL, LOOKUP, TIME};
use weir_packet::bpf::code::{
    ATOMIC, BY_REGISTER, CALL, COMPUTE, DOUBLE, JUMP, LOAD, LOAD_NUMBER, MOVE, STACK, STORE, SWAP,
};
use weir_packet::{BpfInstruction, KernelFilter};

/// Passes over a part at most. Each pass but the last weakens what is known of some value.
const PASSES_MAX: usize = 16;
/// Numbers of 64 bits on the stack of a program.
const SLOTS: usize = 64;
/// Registers that a part may write: 0 to 5. The others belong to the program around the part.
const WRITABLE: u8 = 5;
const LENGTH: usize = 6;
const FRAME: usize = 7;
const FRAME_END: usize = 8;
/// Operations of arithmetic, and conditions of jumps (RFC 9669, sections 4.1 and 4.3).
const OPERATIONS: [u8; 10] = [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0];
const CONDITIONS: [u8; 6] = [0x10, 0x20, 0x30, 0x50, 0xa0, 0xb0];
const IF_EQUAL: u8 = JUMP | EQUAL;
const IF_DIFFERENT: u8 = JUMP | DIFFERENT;
/// The bits of an operation or condition in a code.
const KIND: u8 = 0xf0;

/// The sort of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// None that can be read: not written yet, or different on the paths that lead here.
    Unset,
    /// The number 0, or no pointer.
    Zero,
    Number,
    /// A pointer to bytes of the frame.
    Frame,
    FrameEnd,
    /// A pointer to the stack, bytes below its top.
    Stack(i16),
    /// A pointer to the entry of a connection, or none.
    Entry,
    /// The map of connections.
    Map,
}

use Sort::{Entry, Frame, FrameEnd, Map, Number, Stack, Unset, Zero};

impl Sort {
    fn is_number(self) -> bool {
        matches!(self, Zero | Number)
    }

    /// The sort of a value that has one of two sorts.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Zero, Number) | (Number, Zero) => Number,
            (Zero, Entry) | (Entry, Zero) => Entry,
            _ => Unset,
        }
    }
}

/// The sorts of all values before an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    registers: [Sort; 11],
    /// By distance below the top of the stack.
    stack: [Sort; SLOTS],
}

impl Values {
    fn at_start(is_interface: bool) -> Self {
        let mut registers = [Unset; 11];
        registers[LENGTH] = Number;
        registers[FRAME] = Frame;
        registers[usize::from(STACK)] = Stack(0);
        if is_interface {
            registers[FRAME_END] = FrameEnd;
        }
        Self { registers, stack: [Unset; SLOTS] }
    }

    fn join(&mut self, other: &Self) {
        let pairs = self.registers.iter_mut().zip(&other.registers);
        pairs.chain(self.stack.iter_mut().zip(&other.stack)).for_each(|(one, other)| *one = one.or(*other));
    }

    fn register(&self, register: u8) -> Option<Sort> {
        self.registers.get(usize::from(register)).copied()
    }

    fn write(&mut self, register: u8, sort: Sort) -> Option<()> {
        (register <= WRITABLE).then(|| self.registers[usize::from(register)] = sort)
    }

    /// The slot of 8 bytes at an offset from a pointer to the stack.
    fn slot(&mut self, base: i16, offset: i16) -> Option<&mut Sort> {
        let below = base.checked_add(offset)?.checked_neg()?;
        let slot = usize::try_from(below / 8).ok()?.checked_sub(1)?;
        (below % 8 == 0).then(|| self.stack.get_mut(slot))?
    }

    /// The values after an instruction that does not jump.
    fn step(&mut self, one: BpfInstruction, key_words: Option<usize>) -> Option<()> {
        let (to, from) = (one.registers & 15, one.registers >> 4);
        let is_plain = one.offset == 0;
        match one.code {
            MOVE if is_plain && from == 0 => self.write(to, if one.number == 0 { Zero } else { Number }),
            code if code == MOVE | BY_REGISTER && is_plain && one.number == 0 => {
                let sort = self.register(from).filter(|sort| *sort != Unset)?;
                self.write(to, sort)
            }
            SWAP if is_plain && from == 0 && matches!(one.number, 16 | 32 | 64) => {
                self.register(to).filter(|sort| sort.is_number())?;
                self.write(to, Number)
            }
            code if code & 7 == LOAD & 7 && code & 0xe0 == LOAD & 0xe0 => {
                let sort = match self.register(from)? {
                    Frame => Number,
                    // The kernel's verifier refuses what reads through no pointer.
                    Entry | Zero if code == LOAD | DOUBLE => Number,
                    Stack(base) if code == LOAD | DOUBLE => {
                        *self.slot(base, one.offset).filter(|sort| **sort != Unset)?
                    }
                    _ => return None,
                };
                (one.number == 0).then(|| self.write(to, sort))?
            }
            code if code == STORE | DOUBLE && one.number == 0 => {
                let sort = self.register(from).filter(|sort| *sort != Unset)?;
                match self.register(to)? {
                    Entry | Zero => sort.is_number().then_some(()),
                    Stack(base) => self.slot(base, one.offset).map(|slot| *slot = sort),
                    _ => None,
                }
            }
            // An addition.
            code if code == ATOMIC | DOUBLE && one.number == 0 => {
                let is_target = matches!(self.register(to)?, Entry | Zero);
                (is_target && self.register(from)?.is_number()).then_some(())
            }
            CALL if one.registers == 0 && is_plain => {
                let result = match one.number {
                    TIME => Number,
                    LOOKUP => {
                        self.key(key_words?)?;
                        Entry
                    }
                    _ => return None,
                };
                self.registers[..=usize::from(WRITABLE)].fill(Unset);
                self.write(0, result)
            }
            code if is_plain && code & 7 == COMPUTE & 7 && OPERATIONS.contains(&(code & KIND)) => {
                self.compute(one, to, from)
            }
            _ => None,
        }
    }

    fn compute(&mut self, one: BpfInstruction, to: u8, from: u8) -> Option<()> {
        let is_by_register = one.code & BY_REGISTER != 0;
        let second = match is_by_register {
            true if one.number == 0 => self.register(from)?,
            false if from == 0 => Number,
            _ => return None,
        };
        let is_sum = one.code & KIND == 0;
        let sort = match self.register(to)? {
            Zero | Number => Number,
            pointer @ (Frame | Entry) if is_sum => pointer,
            Stack(base) if is_sum && !is_by_register => {
                Stack(base.checked_add(i16::try_from(one.number).ok()?)?)
            }
            _ => return None,
        };
        (second.is_number()).then(|| self.write(to, sort))?
    }

    /// The arguments of a lookup: the map, and a key of numbers.
    fn key(&mut self, words: usize) -> Option<()> {
        let (Map, Stack(base)) = (self.register(1)?, self.register(2)?) else { return None };
        let mut words = (0..words).map(|word| i16::try_from(8 * word).ok());
        let all = words.all(|offset| {
            offset.and_then(|offset| self.slot(base, offset)).is_some_and(|sort| sort.is_number())
        });
        all.then_some(())
    }

    /// Whether a condition holds, if that is known: of no pointer compared with 0.
    fn decides(&self, one: BpfInstruction) -> Option<bool> {
        let is_zero = self.register(one.registers & 15) == Some(Zero);
        match one.code {
            IF_EQUAL if is_zero && one.number == 0 => Some(true),
            IF_DIFFERENT if is_zero && one.number == 0 => Some(false),
            _ => None,
        }
    }

    /// The operands of a jump's condition.
    fn compares(&self, one: BpfInstruction) -> bool {
        let (to, from) = (one.registers & 15, one.registers >> 4);
        let is_by_register = one.code & BY_REGISTER != 0;
        match (self.register(to), is_by_register) {
            (Some(a), true) => {
                let b = self.register(from).unwrap_or(Unset);
                one.number == 0 && (a.is_number() && b.is_number() || (a, b) == (Frame, FrameEnd))
            }
            (Some(a), false) => from == 0 && (a.is_number() || a == Entry && one.number == 0),
            _ => false,
        }
    }
}

/// Checks the part of a filter for an interface's driver, or for a socket. `key_words`: the words of a key of
/// the map of connections, if there is one.
///
/// # Errors
/// The number of the first instruction that filters do not have.
pub(crate) fn check(
    part: &[BpfInstruction],
    is_interface: bool,
    key_words: Option<usize>,
) -> Result<(), String> {
    if part.len() > KernelFilter::INSTRUCTIONS_MAX {
        return Err(format!("{} instructions are too many", part.len()));
    }
    let mut check = Check {
        part,
        key_words,
        jumped: vec![None; part.len() + 1],
        inner: vec![false; part.len()],
        reached: vec![false; part.len()],
    };
    // What is known at the start of a loop depends on its end.
    for _ in 0..PASSES_MAX {
        if !check.pass(Values::at_start(is_interface))? {
            // The kernel may find a way to an instruction that was not checked.
            return match check.reached.iter().position(|is_reached| !is_reached) {
                Some(at) => Err(format!("nothing leads to instruction {at}")),
                None => Ok(()),
            };
        }
    }
    Err("the filter has too many loops".to_string())
}

struct Check<'a> {
    part: &'a [BpfInstruction],
    key_words: Option<usize>,
    /// By instruction, and for the end: what is known from the jumps to it.
    jumped: Vec<Option<Box<Values>>>,
    /// The second halves of numbers: a jump there would find another instruction.
    inner: Vec<bool>,
    /// Instructions to which something leads.
    reached: Vec<bool>,
}

impl Check<'_> {
    /// Goes over all instructions, in order. Returns whether a jump back brought something new.
    fn pass(&mut self, start: Values) -> Result<bool, String> {
        let (mut now, mut at, mut is_new) = (Some(start), 0, false);
        loop {
            match (&mut now, &self.jumped[at]) {
                (Some(values), Some(from_jumps)) => values.join(from_jumps),
                (None, Some(from_jumps)) => now = Some(Values::clone(from_jumps)),
                (_, None) => {}
            }
            let Some(one) = self.part.get(at).copied() else { break };
            let refused = || format!("instruction {at}: filters have no `{one}` there");
            // Nothing leads here.
            let Some(values) = now.as_mut() else {
                at += 1;
                continue;
            };
            let is_condition = one.code & 7 == JUMP & 7 && CONDITIONS.contains(&(one.code & KIND));
            if one.code == LOAD_NUMBER {
                let upper = self.part.get(at + 1).copied();
                load_number(values, one, upper, self.key_words).ok_or_else(refused)?;
                self.reached[at] = true;
                at += 1;
                self.inner[at] = true;
            } else if one.code == JUMP || is_condition {
                let is_right = match is_condition {
                    true => values.compares(one),
                    false => one.registers == 0 && one.number == 0,
                };
                let goal = (at + 1).checked_add_signed(isize::from(one.offset));
                let goal = goal.filter(|goal| is_right && *goal <= self.part.len()).ok_or_else(refused)?;
                let known = if is_condition { values.decides(one) } else { Some(true) };
                if known != Some(false) {
                    let before = (goal <= at).then(|| self.jumped[goal].clone());
                    match &mut self.jumped[goal] {
                        Some(known) => known.join(values),
                        empty => *empty = Some(Box::new(values.clone())),
                    }
                    is_new |= before.is_some_and(|before| before != self.jumped[goal]);
                }
                if known == Some(true) {
                    now = None;
                }
            } else {
                values.step(one, self.key_words).ok_or_else(refused)?;
            }
            self.reached[at] = true;
            at += 1;
        }
        let wrong =
            self.inner.iter().zip(&self.jumped).position(|(is_inner, jumped)| *is_inner && jumped.is_some());
        match (now, wrong) {
            (_, Some(at)) => Err(format!("a jump leads into the number of instruction {at}")),
            (Some(values), None) if values.registers[0].is_number() => Ok(is_new),
            _ => Err("the filter has no verdict".to_string()),
        }
    }
}

/// A number of 64 bits, or the map of connections.
fn load_number(
    values: &mut Values,
    one: BpfInstruction,
    upper: Option<BpfInstruction>,
    key_words: Option<usize>,
) -> Option<()> {
    let upper = upper.filter(|upper| upper.code == 0 && upper.registers == 0 && upper.offset == 0)?;
    let (to, from) = (one.registers & 15, one.registers >> 4);
    let is_flows = one.number == KernelFilter::FLOWS && upper.number == 0 && key_words.is_some();
    match from {
        0 if one.offset == 0 => values.write(to, Number),
        KernelFilter::IS_MAP if one.offset == 0 && is_flows => values.write(to, Map),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::bpf::code::{BYTE, EXIT, WORD};

    fn one(code: u8, to: u8, from: u8, offset: i16, number: i32) -> BpfInstruction {
        BpfInstruction::new(code, to, from, offset, number)
    }

    fn verdict() -> BpfInstruction {
        one(MOVE, 0, 0, 0, KernelFilter::NEEDED)
    }

    const BY: u8 = BY_REGISTER;

    /// A lookup of the number in register 2, which is stored here on the stack.
    fn lookup(at: i16) -> [BpfInstruction; 6] {
        [
            one(STORE | DOUBLE, 10, 2, at, 0),
            one(LOAD_NUMBER, 1, KernelFilter::IS_MAP, 0, KernelFilter::FLOWS),
            one(0, 0, 0, 0, 0),
            one(MOVE | BY, 2, 10, 0, 0),
            one(COMPUTE, 2, 0, 0, at.into()),
            one(CALL, 0, 0, 0, LOOKUP),
        ]
    }

    #[test]
    fn a_part_that_reads_counts_and_looks_up_is_accepted() {
        let part = [
            // The type of Ethernet.
            one(LOAD | BYTE, 2, 7, 12, 0),
            one(JUMP | 0x50, 2, 0, 8, 8),
            one(MOVE | BY, 3, 7, 0, 0),
            one(COMPUTE | BY, 3, 2, 0, 0),
        ];
        let part = [&part[..], &lookup(-16), &[verdict()]].concat();
        for is_interface in [true, false] {
            assert_eq!(check(&part, is_interface, Some(1)), Ok(()));
        }
        // A key of two words has one that nobody has written.
        assert!(check(&part, true, Some(3)).is_err());
        assert!(check(&part, true, None).is_err(), "there is no map");
    }

    #[test]
    fn what_a_filter_never_does_is_refused() {
        let entry = [&[one(MOVE, 2, 0, 0, 7)][..], &lookup(-8)].concat();
        let wrong: [(&str, &[BpfInstruction]); 18] = [
            ("another function of the kernel", &[one(CALL, 0, 0, 0, 6)]),
            ("another map", &[one(LOAD_NUMBER, 1, KernelFilter::IS_MAP, 0, 5), one(0, 0, 0, 0, 0)]),
            ("the address of a map's memory", &[one(LOAD_NUMBER, 1, 2, 0, 5), one(0, 0, 0, 0, 0)]),
            ("half a number", &[one(LOAD_NUMBER, 1, 0, 0, 5)]),
            ("the context", &[one(LOAD | WORD, 0, 9, 0, 0)]),
            ("a register of the program around it", &[one(MOVE, 6, 0, 0, 0)]),
            ("the end of the program", &[one(EXIT, 0, 0, 0, 0)]),
            ("a register without a value", &[one(MOVE | BY, 0, 3, 0, 0)]),
            ("a jump beyond the end", &[one(JUMP, 0, 0, 9, 0)]),
            ("a jump before the start", &[one(JUMP, 0, 0, -2, 0)]),
            ("a write to the frame", &[one(MOVE, 2, 0, 0, 1), one(STORE | DOUBLE, 7, 2, 0, 0)]),
            ("half a slot", &[one(MOVE, 2, 0, 0, 1), one(STORE | DOUBLE, 10, 2, -4, 0)]),
            ("beyond the stack", &[one(MOVE, 2, 0, 0, 1), one(STORE | DOUBLE, 10, 2, -520, 0)]),
            ("a pointer as a number", &[one(MOVE | BY, 2, 7, 0, 0), one(COMPUTE | 0x50, 2, 0, 0, 255)]),
            ("a pointer compared", &[one(JUMP | 0x20, 7, 0, 0, 5)]),
            ("a pointer as an index", &[one(MOVE | BY, 2, 7, 0, 0), one(COMPUTE | BY, 2, 7, 0, 0)]),
            ("a pointer in the map", &[&entry[..], &[one(STORE | DOUBLE, 0, 7, 0, 0)]].concat()),
            ("a pointer added in the map", &[&entry[..], &[one(ATOMIC | DOUBLE, 0, 7, 0, 0)]].concat()),
        ];
        for (what, part) in wrong {
            let part = [part, &[verdict()]].concat();
            assert!(check(&part, true, Some(1)).is_err(), "{what}");
        }
        assert_eq!(check(&[&entry[..], &[verdict()]].concat(), true, Some(1)), Ok(()));
        assert!(check(&entry, true, Some(1)).is_err(), "a pointer as the verdict");
    }

    #[test]
    fn a_value_has_the_sort_that_it_has_on_all_paths() {
        // Register 3 is a number on one path, and a pointer on the other.
        let part = |second| {
            [
                one(MOVE, 3, 0, 0, 5),
                one(JUMP | 0x10, 6, 0, 1, 60),
                second,
                one(MOVE | BY, 0, 3, 0, 0),
                one(COMPUTE | 0x50, 0, 0, 0, 1),
            ]
        };
        assert_eq!(check(&part(one(MOVE, 3, 0, 0, 6)), true, None), Ok(()));
        assert!(check(&part(one(MOVE | BY, 3, 7, 0, 0)), true, None).is_err());
        // In a loop, what comes back counts, too.
        let round =
            |last| [one(MOVE, 3, 0, 0, 5), one(MOVE | BY, 0, 3, 0, 0), last, one(JUMP | 0x10, 6, 0, -3, 60)];
        assert_eq!(check(&round(one(MOVE, 3, 0, 0, 6)), true, None), Ok(()));
        assert!(check(&round(one(MOVE | BY, 3, 7, 0, 0)), true, None).is_err());
        // The second half of a number is no instruction to jump to.
        let number = [one(LOAD_NUMBER, 0, 0, 0, 1), one(0, 0, 0, 0, 0)];
        let into = [&[one(JUMP | 0x10, 6, 0, 1, 60)][..], &number].concat();
        assert!(check(&into, true, None).is_err());
        // Nor is an instruction accepted that only the kernel may find a way to.
        let beside = [one(JUMP, 0, 0, 1, 0), one(CALL, 0, 0, 0, 6), verdict()];
        assert!(check(&beside, true, None).is_err_and(|why| why.contains("leads")));
    }
}

//! Lowers tests of frames: filters in the syntax of pcap-filter(7).
//!
//! A test is evaluated before the first layer, for the link types that the stack has. It becomes branches:
//! every part goes on to the next part that decides. Every load has its own length check; the block for
//! frames that are too short ends the test without a match. Numbers of 32 bits are masked after operations
//! that may exceed them.

use super::Lower;
use weir_ir::build::{Builder, Variable};
use weir_ir::graph::{BinaryOp, Block, CompareOp, Meta, NumberFormat, Op, Set, Type, Value, Width};
use weir_lang::filter::frame_test::{Arithmetic, LOOP_MAX, Number, Order, Register, Test};
use weir_lang::filter::{Literal, Op as FilterOp};
use weir_packet::LinkType;

use super::ranges::{merge_ranges, within};

/// More ranges than this become a set that is searched.
const INLINE_RANGES_MAX: usize = 4;

impl Lower<'_> {
    /// Evaluates the predicates that test whole frames, for packets of this link type.
    pub(super) fn lower_frame_tests(&mut self, link: LinkType) {
        let trie = self.trie;
        for (p, predicate) in trie.predicates.iter().enumerate() {
            let [Literal::Frame(test)] = &predicate.literals[..] else { continue };
            debug_assert_eq!(predicate.op, FilterOp::Satisfies);
            let (yes, holds) = (self.b.bool(true), self.frame_test(test.of(link)));
            self.record(p, yes, holds, holds);
        }
    }

    fn frame_test(&mut self, test: Option<&Test>) -> Value {
        let result = self.b.variable(Type::Bool);
        let [holds, fails, join] = [(); 3].map(|()| self.b.block());
        let mut lowering = Lowering { b: &mut self.b, rejected: fails, registers: vec![] };
        match test {
            Some(test) => lowering.test(test, holds, fails),
            None => lowering.b.jump(fails),
        }
        for (block, value) in [(holds, true), (fails, false)] {
            self.b.seal(block);
            self.b.switch_to(block);
            let value = self.b.bool(value);
            self.b.write(result, value);
            self.b.jump(join);
        }
        self.b.seal(join);
        self.b.switch_to(join);
        self.b.read(result)
    }
}

struct Lowering<'b> {
    b: &'b mut Builder,
    /// The block for frames that are too short.
    rejected: Block,
    /// The variables of the registers, once they are used.
    registers: Vec<Option<Variable>>,
}

impl Lowering<'_> {
    /// Ends the current block: goes on at `holds` or at `fails`.
    fn test(&mut self, test: &Test, holds: Block, fails: Block) {
        match test {
            Test::Not(inner) => self.test(inner, fails, holds),
            Test::All(parts) => self.parts(parts, holds, |part, next| (part, next, fails)),
            Test::Any(parts) => self.parts(parts, fails, |part, next| (part, holds, next)),
            Test::In(number, ranges) => {
                let number = self.number(number);
                let inside = self.is_in(number, ranges);
                self.b.branch(inside, holds, fails);
            }
            Test::Compare(order, a, b) => {
                let (a, b) = (self.number(a), self.number(b));
                let result = match order {
                    Order::Equal => self.b.compare(CompareOp::Eq, a, b),
                    Order::Greater => self.b.compare(CompareOp::Lt, b, a),
                    Order::GreaterOrEqual => self.b.compare(CompareOp::Le, b, a),
                };
                self.b.branch(result, holds, fails);
            }
            Test::Set(register, number) => {
                let value = self.number(number);
                let variable = self.register(*register);
                self.b.write(variable, value);
                self.b.jump(holds);
            }
            Test::While(inner) => {
                let [head, body] = [(); 2].map(|()| self.b.block());
                self.b.jump(head);
                self.b.switch_to(head);
                self.b.again(LOOP_MAX, body, self.rejected);
                self.b.seal(body);
                self.b.switch_to(body);
                self.test(inner, head, holds);
                self.b.seal(head);
            }
        }
    }

    /// Tests in a row. `targets` gives a part and its two targets, one of which is the next part; after the
    /// last part that is `end`.
    fn parts<'t>(
        &mut self,
        parts: &'t [Test],
        end: Block,
        targets: impl Fn(&'t Test, Block) -> (&'t Test, Block, Block),
    ) {
        let Some((last, others)) = parts.split_last() else { return self.b.jump(end) };
        for part in others {
            let next = self.b.block();
            let (part, holds, fails) = targets(part, next);
            self.test(part, holds, fails);
            self.b.seal(next);
            self.b.switch_to(next);
        }
        let (part, holds, fails) = targets(last, end);
        self.test(part, holds, fails);
    }

    fn is_in(&mut self, number: Value, ranges: &[(u32, u32)]) -> Value {
        let ranges: Vec<(u128, u128)> = ranges.iter().map(|&(low, high)| (low.into(), high.into())).collect();
        let zero = self.b.int(0);
        if ranges.len() > INLINE_RANGES_MAX {
            let set = Set(self.b.graph.sets.len() as u32);
            self.b.graph.sets.push(merge_ranges(ranges));
            return self.b.one(Op::Member { set, high: zero, low: number });
        }
        let mut any = self.b.bool(false);
        for (low, high) in ranges {
            let inside = within(self.b, zero, number, low, high);
            any = self.b.binary(BinaryOp::Or, any, inside);
        }
        any
    }

    /// The variable of a register. All variables are 0 at first.
    fn register(&mut self, register: Register) -> Variable {
        let index = usize::from(register.0);
        if self.registers.len() <= index {
            self.registers.resize(index + 1, None);
        }
        match self.registers[index] {
            Some(variable) => variable,
            None => *self.registers[index].insert(self.b.variable(Type::Int)),
        }
    }

    /// A number below 2^32. The current block may have ended: the value is defined in the new current block.
    fn number(&mut self, number: &Number) -> Value {
        match number {
            Number::Constant(constant) => self.b.int(u64::from(*constant)),
            Number::WireBytes => self.b.one(Op::Meta(Meta::WireBytes)),
            Number::Register(register) => {
                let variable = self.register(*register);
                self.b.read(variable)
            }
            Number::Load { at, plus, bytes } => self.load(at.as_deref(), *plus, *bytes),
            Number::Binary(op, a, b) => {
                let (a, b) = (self.number(a), self.number(b));
                self.arithmetic(*op, a, b)
            }
        }
    }

    fn load(&mut self, at: Option<&Number>, plus: u32, bytes: u8) -> Value {
        let plus = u64::from(plus);
        let offset = match at.map(|at| self.number(at)) {
            Some(at) => {
                let plus = self.b.int(plus);
                self.b.binary(BinaryOp::Add, at, plus)
            }
            None => self.b.int(plus),
        };
        let buf = self.b.one(Op::Frame);
        let there = self.b.block();
        self.b.check(buf, offset, bytes.into(), there, self.rejected);
        self.b.seal(there);
        self.b.switch_to(there);
        let width = match bytes {
            1 => Width::W1,
            2 => Width::W2,
            _ => Width::W4,
        };
        let format = NumberFormat { width, little: false };
        self.b.one(Op::Load { format, buf, offset, displacement: 0 })
    }

    fn arithmetic(&mut self, op: Arithmetic, a: Value, b: Value) -> Value {
        let (op, may_exceed) = match op {
            Arithmetic::Add => (BinaryOp::Add, true),
            Arithmetic::Sub => (BinaryOp::Sub, true),
            Arithmetic::Mul => (BinaryOp::Mul, true),
            Arithmetic::Shl => (BinaryOp::Shl, true),
            Arithmetic::Shr => (BinaryOp::Shr, false),
            Arithmetic::And => (BinaryOp::And, false),
            Arithmetic::Or => (BinaryOp::Or, false),
            Arithmetic::Xor => (BinaryOp::Xor, false),
            Arithmetic::Div => (BinaryOp::Div, false),
            Arithmetic::Rem => (BinaryOp::Rem, false),
        };
        if matches!(op, BinaryOp::Div | BinaryOp::Rem) {
            let (divides, next) = (self.b.truth(b), self.b.block());
            self.b.branch(divides, next, self.rejected);
            self.b.seal(next);
            self.b.switch_to(next);
        }
        let result = self.b.binary(op, a, b);
        if !may_exceed {
            return result;
        }
        let mask = self.b.int(u64::from(u32::MAX));
        self.b.binary(BinaryOp::And, result, mask)
    }
}

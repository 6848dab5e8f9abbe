//! Translates a graph without flows and effects into code for eBPF.
//!
//! The kernel's verifier follows every path and must see that each load is inside the frame. An offset that
//! depends on the packet becomes a pointer once its bytes are checked for the first time; all later checks
//! and loads at that offset use the same pointer, because what the verifier learns about a pointer holds for
//! the pointer and its copies only. An offset so large that the verifier would not follow is beyond all bytes
//! that the program sees: the packet is passed if the frame is long enough, else the check fails as it does
//! in the graph.
//!
//! One counter counts the iterations of all loops: with a counter for each loop, the paths that the verifier
//! tells apart would be too many. A packet is passed once the counter may exceed the bound of a loop, or of
//! the program.
//!
//! A flow that the kernel has taken over is found at most once for each packet. Numbers that its entry gets
//! wait until the verdict is known.
//!
//! All buffers begin with the frame, and a buffer is its length.

use crate::code::{
    Arithmetic, Base, Code, Condition, FlowCode, Goal, Operand, Part, Pending, Register, Step, Test,
};
use std::collections::HashMap;
use weir_ir::dominators::ControlFlow;
use weir_ir::graph::{BinaryOp, Block, CompareOp, Graph, Meta, Op, Target, Terminator, Value, Var};
use weir_ir::kernel_flows::{KernelLayout, KernelTable, Role, SWAP, addend};
use weir_ir::range::Ranges;
use weir_packet::KernelFilter;

/// Offsets that depend on the packet are smaller than this; the verifier follows 16 bits (`MAX_PACKET_OFF`).
const OFFSET_MAX: u64 = 0x7fff;
/// As [`OFFSET_MAX`], for copies of the frame's beginning.
const COPY_OFFSET_MAX: u64 = 192;
/// Bytes after such an offset that a copy still has.
const COPY_REACH: u64 = KernelFilter::COPY_BYTES as u64 - COPY_OFFSET_MAX;
/// Sums of numbers below this cannot wrap.
const EXACT: u64 = 1 << 48;
/// Sets of more ranges are not searched in the kernel.
const RANGES_MAX: usize = 1024;

/// Where the program finds the frame's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the frame.
    Frame,
    /// In a copy of its beginning.
    Copy,
}

/// A fact about the kind of graph that cannot be translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfit(pub &'static str);

/// Translates a graph. Packets that need more than `turns` iterations of loops are passed.
pub(crate) fn select(graph: &Graph, place: Place, turns: u32, layout: &KernelLayout) -> Result<Code, Unfit> {
    let flow = ControlFlow::of(graph);
    let ranges = Ranges::of(graph, &flow);
    let mut select = Select::new(graph, &flow, &ranges, place, turns, layout);
    select.run()?;
    let flows = if select.finds { flow_code(layout) } else { FlowCode::default() };
    Ok(Code { parts: select.parts, registers: select.registers, flows })
}

/// What entries of flows get.
fn flow_code(layout: &KernelLayout) -> FlowCode {
    let pending = |table: &KernelTable| {
        let vars = table.vars.iter().filter(|var| var.role != Role::Read);
        vars.map(|var| Pending { word: var.word, is_sum: var.role == Role::Sum, each_side: var.each_side })
            .collect()
    };
    let tables = layout.tables.iter().map(|table| (table.layer, pending(table))).collect();
    FlowCode { tables, key_words: layout.key_words }
}

struct Select<'a> {
    graph: &'a Graph,
    flow: &'a ControlFlow,
    ranges: &'a Ranges,
    place: Place,
    turns: u32,
    definitions: Vec<Option<&'a Op>>,
    uses: Vec<u32>,
    parts: Vec<Part>,
    registers: u32,
    by_value: HashMap<Value, Register>,
    /// The iterations of all loops so far.
    counter: Register,
    /// By block: its first part.
    starts: Vec<usize>,
    /// Pointers to the bytes at an offset, with the blocks from which on they are set.
    pointers: HashMap<Value, Vec<(Block, Register)>>,
    /// The pointer that the last check made, and the offset.
    made: Option<(Value, Register)>,
    /// The part that is being filled.
    at: usize,
    block: Block,
    layout: &'a KernelLayout,
    /// The program looks up flows.
    finds: bool,
    /// By flow: the number of its table in the layout, and whether the packet is the responder's.
    flows: HashMap<Value, (usize, Value)>,
}

impl<'a> Select<'a> {
    fn new(
        graph: &'a Graph,
        flow: &'a ControlFlow,
        ranges: &'a Ranges,
        place: Place,
        turns: u32,
        layout: &'a KernelLayout,
    ) -> Self {
        let mut definitions = vec![None; graph.values.len()];
        let mut uses = vec![0; graph.values.len()];
        for &block in flow.order() {
            let data = graph.block(block);
            for inst in &data.insts {
                inst.results.iter().for_each(|result| definitions[result.index()] = Some(&inst.op));
                inst.op.for_each_operand(|value| uses[value.index()] += 1);
            }
            data.terminator.for_each_operand(|value| uses[value.index()] += 1);
        }
        Self {
            graph,
            flow,
            ranges,
            place,
            turns,
            definitions,
            uses,
            parts: vec![],
            registers: 1,
            by_value: HashMap::new(),
            counter: Register(0),
            starts: vec![usize::MAX; graph.blocks.len()],
            pointers: HashMap::new(),
            made: None,
            at: 0,
            block: graph.entry,
            layout,
            finds: false,
            flows: HashMap::new(),
        }
    }

    fn run(&mut self) -> Result<(), Unfit> {
        let first = self.part();
        for &block in self.flow.order() {
            self.starts[block.index()] = self.part();
        }
        self.parts[first].steps.push(Step::Copy(vec![(self.counter, Operand::Number(0))]));
        self.parts[first].next = Goal::Part(self.starts[self.graph.entry.index()]);
        for &block in self.flow.order() {
            self.at = self.starts[block.index()];
            self.block = block;
            self.block()?;
        }
        Ok(())
    }

    fn register(&mut self) -> Register {
        self.registers += 1;
        Register(self.registers - 1)
    }

    fn part(&mut self) -> usize {
        self.parts.push(Part { steps: vec![], tests: vec![], next: Goal::End(true) });
        self.parts.len() - 1
    }

    fn step(&mut self, step: Step) {
        self.parts[self.at].steps.push(step);
    }

    fn test(&mut self, test: Test, goal: Goal) {
        self.parts[self.at].tests.push((test, goal));
    }

    /// Ends the part; the next one is filled from now on.
    fn next_part(&mut self) {
        let next = self.part();
        self.parts[self.at].next = Goal::Part(next);
        self.at = next;
    }

    fn block(&mut self) -> Result<(), Unfit> {
        let data = self.graph.block(self.block);
        for inst in &data.insts {
            if let Op::Set { flow, var, side, value } = &inst.op {
                self.pend(*flow, *var, *side, *value)?;
                continue;
            }
            let result = inst.results[0];
            if self.uses[result.index()] == 0 || self.is_fused(result) {
                continue;
            }
            if !self.instruction(result, &inst.op)? {
                // What the machine cannot do may be true.
                self.parts[self.at].next = Goal::End(true);
                return Ok(());
            }
        }
        self.terminator(&data.terminator)
    }

    /// Whether a comparison is made by the branch that ends its block.
    fn is_fused(&self, value: Value) -> bool {
        let data = self.graph.block(self.block);
        let is_last = matches!(data.terminator, Terminator::Branch { condition, .. } if condition == value);
        is_last
            && self.uses[value.index()] == 1
            && matches!(self.definitions[value.index()], Some(Op::Compare(..)))
            && data.insts.iter().any(|inst| inst.results[0] == value)
    }

    /// The value as an operand.
    fn operand(&mut self, value: Value) -> Operand {
        match self.definitions[value.index()] {
            Some(Op::Const(number)) => Operand::Number(*number),
            Some(Op::Bool(is)) => Operand::Number(u64::from(*is)),
            Some(Op::Meta(Meta::WireBytes | Meta::CapturedBytes) | Op::Frame) => Operand::Length,
            Some(Op::Length(buf)) => self.operand(*buf),
            Some(Op::FromBool(of)) => self.operand(*of),
            _ => Operand::Register(self.register_of(value)),
        }
    }

    fn register_of(&mut self, value: Value) -> Register {
        if let Some(&known) = self.by_value.get(&value) {
            return known;
        }
        let new = self.register();
        self.by_value.insert(value, new);
        new
    }

    /// Translates an instruction; `false` if the machine has nothing that does the same.
    fn instruction(&mut self, result: Value, op: &Op) -> Result<bool, Unfit> {
        match op {
            Op::Const(_) | Op::Bool(_) | Op::Frame | Op::FromBool(_) => {}
            Op::Meta(Meta::WireBytes | Meta::CapturedBytes) => {}
            Op::Length(_) => {}
            Op::Narrow(buf, end) => return Ok(self.binary(result, BinaryOp::Min, *buf, *end)),
            Op::Binary(op, a, b) => return Ok(self.binary(result, *op, *a, *b)),
            Op::Compare(op, a, b) => {
                let (test, is) = self.comparison(*op, *a, *b);
                self.decide(result, test, is);
            }
            Op::Not(a) => {
                let (to, a) = (self.register_of(result), self.operand(*a));
                self.step(Step::Compute { to, op: Arithmetic::Xor, a, b: Operand::Number(1) });
            }
            Op::Select(condition, a, b) => {
                let (to, condition) = (self.register_of(result), self.operand(*condition));
                let (a, b) = (self.operand(*a), self.operand(*b));
                self.choose(to, Test::Compare(Condition::Different, condition, Operand::Number(0)), a, b);
            }
            Op::Load { format, buf, offset, displacement } => {
                self.load(result, *buf, format.width.bytes(), format.little, (*offset, *displacement));
            }
            Op::Get { flow, var, side } => {
                let (table, _) = *self.flows.get(flow).ok_or(Unfit("a flow that may be another one"))?;
                let name = &self.graph.vars[var.index()].name;
                let var = self.layout.tables[table].var(name).ok_or(Unfit("a variable of no entry"))?;
                let (word, to) = (var.word, self.register_of(result));
                let side = side.map(|side| self.operand(side));
                self.step(Step::Read { to, word, side });
            }
            Op::Member { set, high, low } => {
                let ranges = self.graph.sets[set.index()].clone();
                if ranges.len() > RANGES_MAX {
                    return Ok(false);
                }
                self.member(result, &ranges, *high, *low);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn comparison(&mut self, op: CompareOp, a: Value, b: Value) -> (Test, bool) {
        let condition = match op {
            CompareOp::Eq => Condition::Equal,
            CompareOp::Ne => Condition::Different,
            CompareOp::Lt => Condition::Less,
            CompareOp::Le => Condition::LessOrEqual,
        };
        (compare(condition, self.operand(a), self.operand(b)), true)
    }

    /// Sets a bool to `is` if the test holds, else to the opposite.
    fn decide(&mut self, result: Value, test: Test, is: bool) {
        let to = self.register_of(result);
        let [yes, no] = [is, !is].map(|is| Operand::Number(u64::from(is)));
        self.choose(to, test, yes, no);
    }

    /// Sets a register to one of two operands.
    fn choose(&mut self, to: Register, test: Test, yes: Operand, no: Operand) {
        let (taken, join) = (self.part(), self.part());
        self.test(test, Goal::Part(taken));
        let otherwise = self.part();
        self.parts[self.at].next = Goal::Part(otherwise);
        for (part, from) in [(taken, yes), (otherwise, no)] {
            self.parts[part].steps.push(Step::Copy(vec![(to, from)]));
            self.parts[part].next = Goal::Part(join);
        }
        self.at = join;
    }

    fn binary(&mut self, result: Value, op: BinaryOp, a: Value, b: Value) -> bool {
        let (to, divisor) = (self.register_of(result), self.definitions[b.index()]);
        let (a, b) = (self.operand(a), self.operand(b));
        let simple = match op {
            BinaryOp::Add => Arithmetic::Add,
            BinaryOp::Sub => Arithmetic::Sub,
            BinaryOp::Mul => Arithmetic::Mul,
            // Division by zero gives zero.
            BinaryOp::Div => Arithmetic::Div,
            BinaryOp::And => Arithmetic::And,
            BinaryOp::Or => Arithmetic::Or,
            BinaryOp::Xor => Arithmetic::Xor,
            BinaryOp::Rem if matches!(divisor, Some(Op::Const(1..))) => Arithmetic::Rem,
            BinaryOp::Rem => return false,
            BinaryOp::Shl | BinaryOp::Shr => {
                let shift = if op == BinaryOp::Shl { Arithmetic::Shl } else { Arithmetic::Shr };
                match b {
                    Operand::Number(64..) => self.step(Step::Copy(vec![(to, Operand::Number(0))])),
                    Operand::Number(_) => self.step(Step::Compute { to, op: shift, a, b }),
                    _ => {
                        // The machine takes the amount modulo 64.
                        let shifted = self.register();
                        self.step(Step::Compute { to: shifted, op: shift, a, b });
                        let far = compare(Condition::Greater, b, Operand::Number(63));
                        self.choose(to, far, Operand::Number(0), Operand::Register(shifted));
                    }
                }
                return true;
            }
            BinaryOp::SubSat => {
                let difference = self.register();
                self.step(Step::Compute { to: difference, op: Arithmetic::Sub, a, b });
                self.choose(
                    to,
                    compare(Condition::Less, a, b),
                    Operand::Number(0),
                    Operand::Register(difference),
                );
                return true;
            }
            BinaryOp::Min | BinaryOp::Max => {
                let condition = if op == BinaryOp::Min { Condition::Less } else { Condition::Greater };
                self.choose(to, compare(condition, a, b), a, b);
                return true;
            }
        };
        self.step(Step::Compute { to, op: simple, a, b });
        true
    }

    /// A search in sorted ranges.
    fn member(&mut self, result: Value, ranges: &[(u128, u128)], high: Value, low: Value) {
        let (to, high, low) = (self.register_of(result), self.operand(high), self.operand(low));
        let [yes, no, join] = [(); 3].map(|()| self.part());
        for (part, is) in [(yes, 1), (no, 0)] {
            self.parts[part].steps.push(Step::Copy(vec![(to, Operand::Number(is))]));
            self.parts[part].next = Goal::Part(join);
        }
        let first = self.search(ranges, (high, low), (yes, no));
        self.parts[self.at].next = Goal::Part(first);
        self.at = join;
    }

    fn search(
        &mut self,
        ranges: &[(u128, u128)],
        number: (Operand, Operand),
        (yes, no): (usize, usize),
    ) -> usize {
        if ranges.is_empty() {
            return no;
        }
        let middle = ranges.len() / 2;
        let (from, to) = ranges[middle];
        let before = self.search(&ranges[..middle], number, (yes, no));
        let after = self.search(&ranges[middle + 1..], number, (yes, no));
        let above = self.ordered(number, to, Condition::Greater, after, yes);
        self.ordered(number, from, Condition::Less, before, above)
    }

    /// A part that goes to `then` if the number of 128 bits is less, or greater, than a constant; else to
    /// `otherwise`.
    fn ordered(
        &mut self,
        (high, low): (Operand, Operand),
        than: u128,
        condition: Condition,
        then: usize,
        otherwise: usize,
    ) -> usize {
        let part = self.part();
        let [bound_high, bound_low] = [(than >> 64) as u64, than as u64];
        let mut tests = vec![];
        match high {
            Operand::Number(high) if high == bound_high => {}
            _ => {
                tests.push((compare(condition, high, Operand::Number(bound_high)), Goal::Part(then)));
                let different = compare(Condition::Different, high, Operand::Number(bound_high));
                tests.push((different, Goal::Part(otherwise)));
            }
        }
        tests.push((compare(condition, low, Operand::Number(bound_low)), Goal::Part(then)));
        self.parts[part].tests = tests;
        self.parts[part].next = Goal::Part(otherwise);
        part
    }

    /// An offset as a value, or the start of the frame, plus a constant.
    fn root(&self, offset: Value) -> (Option<Value>, u64) {
        let (mut root, mut plus) = (offset, 0u64);
        loop {
            match self.definitions[root.index()] {
                Some(Op::Const(number)) if *number < EXACT => return (None, plus + number),
                Some(Op::Binary(BinaryOp::Add, a, b)) => {
                    let constant = |value: &Value| match self.definitions[value.index()] {
                        Some(Op::Const(number)) if *number < EXACT => Some(*number),
                        _ => None,
                    };
                    let (rest, more) = match (constant(a), constant(b)) {
                        (_, Some(more)) => (*a, more),
                        (Some(more), _) => (*b, more),
                        _ => return (Some(root), plus),
                    };
                    if self.ranges.max(rest) >= EXACT || plus + more >= EXACT {
                        return (Some(root), plus);
                    }
                    (root, plus) = (rest, plus + more);
                }
                _ => return (Some(root), plus),
            }
        }
    }

    /// The pointer to an offset that a block before this one has made.
    fn known_pointer(&self, root: Value) -> Option<Register> {
        let made = self.pointers.get(&root)?;
        made.iter().find(|(block, _)| self.flow.dominates(*block, self.block)).map(|&(_, pointer)| pointer)
    }

    /// Goes on only if a buffer has this number of bytes behind an offset; else at `missing`, or at the end
    /// if the buffer has the bytes, but the program does not see them.
    fn check(&mut self, length: Operand, root: Option<Value>, bytes: u64, missing: Goal) {
        let reach = match self.place {
            Place::Frame => OFFSET_MAX,
            Place::Copy if root.is_none() => KernelFilter::COPY_BYTES as u64,
            Place::Copy => COPY_REACH,
        };
        let offset = root.map(|root| match self.operand(root) {
            Operand::Register(known) => known,
            other => {
                let held = self.register();
                self.step(Step::Copy(vec![(held, other)]));
                held
            }
        });
        let unseen = self.unseen(length, offset, bytes, missing);
        if bytes > reach {
            self.parts[self.at].next = Goal::Part(unseen);
            // Nothing comes here.
            self.at = self.part();
            return;
        }
        let base = match root.zip(offset) {
            Some((root, offset)) => Base::Pointer(self.pointer(root, offset, unseen)),
            None => Base::Frame,
        };
        // What the program sees of a frame in one piece is all of it.
        if self.place == Place::Copy || length != Operand::Length {
            self.test_length(length, offset, bytes, missing);
        }
        if self.place == Place::Frame {
            self.test(Test::Beyond(base, bytes as u32), Goal::Part(unseen));
        }
        self.next_part();
    }

    /// Goes to `missing` unless a buffer of this length has so many bytes behind an offset that is no larger
    /// than any buffer.
    fn test_length(&mut self, length: Operand, offset: Option<Register>, bytes: u64, missing: Goal) {
        let Some(offset) = offset else {
            self.test(compare(Condition::Less, length, Operand::Number(bytes)), missing);
            return;
        };
        let end = self.register();
        let (a, b) = (Operand::Register(offset), Operand::Number(bytes));
        self.step(Step::Compute { to: end, op: Arithmetic::Add, a, b });
        self.test(compare(Condition::Greater, Operand::Register(end), length), missing);
    }

    /// The pointer to an offset; made here if no block before has made it.
    fn pointer(&mut self, root: Value, offset: Register, unseen: usize) -> Register {
        if let Some(known) = self.known_pointer(root) {
            return known;
        }
        let max = if self.place == Place::Frame { OFFSET_MAX } else { COPY_OFFSET_MAX };
        let far = compare(Condition::Greater, Operand::Register(offset), Operand::Number(max));
        self.test(far, Goal::Part(unseen));
        self.next_part();
        let to = self.register();
        self.step(Step::Point { to, offset });
        self.made = Some((root, to));
        to
    }

    /// Lets the blocks that `block` dominates use the pointer that the last check made, if it made one.
    fn keep_pointer(&mut self, block: Option<Block>) {
        if let (Some((root, pointer)), Some(block)) = (self.made.take(), block) {
            self.pointers.entry(root).or_default().push((block, pointer));
        }
    }

    /// A part for bytes that the program does not see: the packet is passed if the buffer has them.
    fn unseen(&mut self, length: Operand, offset: Option<Register>, bytes: u64, missing: Goal) -> usize {
        let (part, here) = (self.part(), self.at);
        self.at = part;
        if let Some(offset) = offset {
            // An offset beyond the buffer may be so large that the sum would wrap.
            self.test(compare(Condition::Greater, Operand::Register(offset), length), missing);
            self.next_part();
        }
        self.test_length(length, offset, bytes, missing);
        self.at = here;
        part
    }

    fn load(
        &mut self,
        result: Value,
        buf: Value,
        bytes: u32,
        is_little: bool,
        (offset, displacement): (Value, u32),
    ) {
        let (root, plus) = self.root(offset);
        let at = plus + u64::from(displacement);
        let base = match root {
            None => Base::Frame,
            Some(root) => match self.known_pointer(root) {
                Some(pointer) => Base::Pointer(pointer),
                None => {
                    // Several checks, one on each path, have seen the bytes.
                    let length = self.operand(buf);
                    self.check(length, Some(root), at + u64::from(bytes), Goal::End(true));
                    self.keep_pointer(Some(self.block));
                    self.known_pointer(root).map_or(Base::Frame, Base::Pointer)
                }
            },
        };
        let to = self.register_of(result);
        self.step(Step::Load { to, bytes, is_little, base, displacement: at as i16 });
    }

    fn terminator(&mut self, terminator: &Terminator) -> Result<(), Unfit> {
        match terminator {
            Terminator::Jump(target) => {
                let goal = self.edge(target);
                self.parts[self.at].next = goal;
            }
            Terminator::Branch { condition, then, otherwise } => {
                let (then, otherwise) = (self.edge(then), self.edge(otherwise));
                let test = match self.definitions[condition.index()] {
                    Some(Op::Compare(op, a, b)) if self.is_fused(*condition) => {
                        self.comparison(*op, *a, *b).0
                    }
                    _ => compare(Condition::Different, self.operand(*condition), Operand::Number(0)),
                };
                self.test(test, then);
                self.parts[self.at].next = otherwise;
            }
            Terminator::Switch { value, cases, otherwise } => {
                let value = self.operand(*value);
                for (number, target) in cases {
                    let goal = self.edge(target);
                    self.test(compare(Condition::Equal, value, Operand::Number(*number)), goal);
                }
                let goal = self.edge(otherwise);
                self.parts[self.at].next = goal;
            }
            Terminator::Check { buf, offset, bytes, then, otherwise } => {
                let length = self.operand(*buf);
                // The pointer is set only where the check passes.
                let passing = (self.flow.predecessors(then.block).len() == 1).then_some(then.block);
                let (then, otherwise) = (self.edge(then), self.edge(otherwise));
                let (root, plus) = self.root(*offset);
                self.check(length, root, plus + u64::from(*bytes), otherwise);
                self.parts[self.at].next = then;
                self.keep_pointer(passing);
            }
            Terminator::Again { max, then, .. } => {
                let (counter, turns) = (self.counter, u64::from((*max).min(self.turns)));
                let then = self.edge(then);
                let count = Operand::Register(counter);
                self.test(compare(Condition::GreaterOrEqual, count, Operand::Number(turns)), Goal::End(true));
                self.next_part();
                let (a, b) = (count, Operand::Number(1));
                self.step(Step::Compute { to: counter, op: Arithmetic::Add, a, b });
                self.parts[self.at].next = then;
            }
            Terminator::Done { terms, .. } => match self.operand(*terms) {
                Operand::Number(terms) => self.parts[self.at].next = Goal::End(terms != 0),
                terms => {
                    self.test(compare(Condition::Different, terms, Operand::Number(0)), Goal::End(true));
                    self.parts[self.at].next = Goal::End(false);
                }
            },
            Terminator::Lookup { table, key, swap, then, .. } => {
                let number = self.layout.tables.iter().position(|known| known.table == *table);
                let number = number.ok_or(Unfit("a flow of an unknown table"))?;
                self.find(number, key, *swap, *then);
            }
            Terminator::Restart | Terminator::Rejoin { .. } => return Err(Unfit("a flow")),
        }
        Ok(())
    }

    /// Finds a flow, and goes on in a block with the flow's parameters.
    fn find(&mut self, table: usize, key: &[Value], swap: Value, then: Block) {
        self.finds = true;
        let key = key.iter().map(|&word| self.operand(word)).collect();
        self.step(Step::Find { table, key });
        let &[flow, responder, is_new] = &self.graph.block(then).params[..] else { return };
        self.flows.insert(flow, (table, responder));
        let (of_originator, to) = (self.register(), self.register_of(responder));
        self.step(Step::Read { to: of_originator, word: SWAP, side: None });
        let (a, b) = (self.operand(swap), Operand::Register(of_originator));
        self.step(Step::Compute { to, op: Arithmetic::Xor, a, b });
        self.step(Step::Side(Operand::Register(to)));
        if self.uses[is_new.index()] > 0 {
            let to = self.register_of(is_new);
            self.step(Step::Copy(vec![(to, Operand::Number(0))]));
        }
        self.parts[self.at].next = Goal::Part(self.starts[then.index()]);
    }

    /// Lets a number wait for the verdict.
    fn pend(&mut self, flow: Value, var: Var, side: Option<Value>, value: Value) -> Result<(), Unfit> {
        let (table, responder) = *self.flows.get(&flow).ok_or(Unfit("a flow that may be another one"))?;
        if side.is_some_and(|side| side != responder) {
            return Err(Unfit("a variable of the other side"));
        }
        let mut written = self.layout.tables[table].vars.iter().filter(|known| known.role != Role::Read);
        let name = &self.graph.vars[var.index()].name;
        let pending = written.position(|known| known.name == *name).ok_or(Unfit("a variable of no entry"))?;
        let known = self.layout.tables[table].var(name).ok_or(Unfit("a variable of no entry"))?;
        let value = match known.role {
            Role::Sum => addend(self.graph, flow, var, side, value).ok_or(Unfit("a sum that is no sum"))?,
            _ => value,
        };
        let mut number = self.operand(value);
        if known.role == Role::Value && known.bits < 64 {
            let to = self.register();
            let b = Operand::Number((1 << known.bits) - 1);
            self.step(Step::Compute { to, op: Arithmetic::And, a: number, b });
            number = Operand::Register(to);
        }
        self.step(Step::Pend { pending, number });
        Ok(())
    }

    /// Where an edge leads: to its block, or to copies for the block's parameters.
    fn edge(&mut self, target: &Target) -> Goal {
        let params = &self.graph.block(target.block).params;
        let start = Goal::Part(self.starts[target.block.index()]);
        let mut copies = vec![];
        for (&param, &argument) in params.iter().zip(&target.args) {
            if self.uses[param.index()] == 0 {
                continue;
            }
            let (to, from) = (self.register_of(param), self.operand(argument));
            if from != Operand::Register(to) {
                copies.push((to, from));
            }
        }
        if copies.is_empty() {
            return start;
        }
        let part = self.part();
        self.parts[part].steps.push(Step::Copy(copies));
        self.parts[part].next = start;
        Goal::Part(part)
    }
}

/// A comparison whose number, if only one operand is a number, is second.
fn compare(condition: Condition, a: Operand, b: Operand) -> Test {
    if !matches!(a, Operand::Number(_)) {
        return Test::Compare(condition, a, b);
    }
    let swapped = match condition {
        Condition::Equal | Condition::Different => condition,
        Condition::Greater => Condition::Less,
        Condition::GreaterOrEqual => Condition::LessOrEqual,
        Condition::Less => Condition::Greater,
        Condition::LessOrEqual => Condition::GreaterOrEqual,
    };
    Test::Compare(swapped, b, a)
}

//! Grows random graphs that keep the invariants: whatever can stand in a graph stands in some of them.

use weir_ir::build::{Builder, Variable, to};
use weir_ir::graph::*;
use weir_packet::DropReason;

/// Numbers that look random (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Small, or near a power of two, or anything.
    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.next(),
            1 => (1u64 << self.below(64)).wrapping_add(self.below(5)).wrapping_sub(2),
            _ => self.below(40),
        }
    }
}

pub struct Grower<'r> {
    b: Builder,
    random: &'r mut Random,
    ints: Vec<Variable>,
    bools: Vec<Variable>,
    bufs: Vec<Variable>,
    /// The flow of the last lookup, where every way here has come from it.
    flow: Option<(Table, Value)>,
    in_loop: bool,
    lookups: u32,
}

const OUTS: u32 = 6;
const TABLES: u32 = 2;

/// A random graph.
pub fn graph(random: &mut Random) -> Graph {
    let mut b = Builder::new(declarations());
    let ints: Vec<Variable> = (0..5).map(|_| b.variable(Type::Int)).collect();
    let bools: Vec<Variable> = (0..2).map(|_| b.variable(Type::Bool)).collect();
    let bufs: Vec<Variable> = (0..2).map(|_| b.variable(Type::Buf)).collect();
    for &variable in &ints {
        let number = b.int(random.number());
        b.write(variable, number);
    }
    let mut grower = Grower { b, random, ints, bools, bufs, flow: None, in_loop: false, lookups: 0 };
    let statements = 4 + grower.random.below(12);
    grower.statements(statements, 3);
    grower.done();
    grower.b.finish()
}

fn declarations() -> Graph {
    let mut graph = Graph { outs: (0..OUTS).map(|n| format!("out{n}")).collect(), ..Graph::default() };
    for table in 0..TABLES {
        let name = format!("layer{table}");
        graph.tables.push(TableDecl { name, two_sided: true, observed: true, delivers: true });
        let kinds = [8, 16, 32, 64].map(VarKind::Bits);
        for (number, kind) in kinds.into_iter().chain([VarKind::Letters(3)]).enumerate() {
            for each_side in [false, true] {
                if each_side && matches!(kind, VarKind::Letters(_)) {
                    continue;
                }
                let name = format!("var{number}_{each_side}");
                graph.vars.push(VarDecl { table: Table(table), name, kind, each_side, observed: true });
            }
        }
        graph.sequences.push(SequenceDecl {
            table: Table(table),
            name: format!("layer{table}"),
            bits: 32,
            from_first: true,
            retain: true,
            headers_only: false,
            metas: 2 * table as u8,
        });
    }
    graph.events.push(EventDecl { name: "layer0.event".to_owned(), wanted: true });
    let wide = |high: u128, low: u128| high << 64 | low;
    graph.sets = vec![
        vec![(1, 3), (7, 7), (20, 1 << 40)],
        vec![(5, wide(1, 3)), (wide(2, 0), wide(4, u128::from(u64::MAX)))],
        (0..12).map(|n| (wide(n / 4, n * 9), wide(n / 4, n * 9 + 2))).collect(),
    ];
    graph.patterns = vec![
        PatternDecl::Contains(vec![1, 2]),
        PatternDecl::Equals(vec![0]),
        PatternDecl::Less(vec![9]),
        PatternDecl::Matches("[\\x01-\\x03]{2}".to_owned()),
    ];
    graph
}

impl Grower<'_> {
    fn int(&mut self) -> Value {
        if self.random.below(5) == 0 {
            let number = self.random.number();
            return self.b.int(number);
        }
        let variable = self.random.pick(&self.ints);
        self.b.read(variable)
    }

    fn bool(&mut self) -> Value {
        if self.random.below(8) == 0 {
            let truth = self.random.below(2) == 0;
            return self.b.bool(truth);
        }
        let variable = self.random.pick(&self.bools);
        self.b.read(variable)
    }

    fn buf(&mut self) -> Value {
        let variable = self.random.pick(&self.bufs);
        self.b.read(variable)
    }

    fn write_int(&mut self, value: Value) {
        let variable = self.random.pick(&self.ints);
        self.b.write(variable, value);
    }

    fn write_bool(&mut self, value: Value) {
        let variable = self.random.pick(&self.bools);
        self.b.write(variable, value);
    }

    fn write_buf(&mut self, value: Value) {
        let variable = self.random.pick(&self.bufs);
        self.b.write(variable, value);
    }

    fn statements(&mut self, count: u64, depth: u32) {
        for _ in 0..count {
            match self.random.below(if depth == 0 { 14 } else { 20 }) {
                0..6 => self.pure(),
                6..8 => self.load(),
                8 => {
                    let (out, value) = (Out(self.random.below(u64::from(OUTS)) as u32), self.int());
                    self.b.push(Op::Store { out, value });
                }
                9..13 => self.flow_instruction(),
                13 if !self.in_loop && self.lookups < 4 => self.lookup(),
                13 => self.pure(),
                14..17 => self.fork(depth - 1),
                17 => self.repeat(depth - 1),
                _ => self.switch(depth - 1),
            }
        }
    }

    fn pure(&mut self) {
        use BinaryOp::*;
        match self.random.below(13) {
            0..5 => {
                let op = self.random.pick(&[Add, Sub, SubSat, Mul, And, Or, Xor, Shl, Shr, Min, Max]);
                let (a, b) = (self.int(), self.int());
                let value = self.b.binary(op, a, b);
                self.write_int(value);
            }
            5 => {
                let op = self.random.pick(&[And, Or, Xor]);
                let (a, b) = (self.bool(), self.bool());
                let value = self.b.binary(op, a, b);
                let value = if self.random.below(2) == 0 { self.b.one(Op::Not(value)) } else { value };
                self.write_bool(value);
            }
            6 => {
                let op = self.random.pick(&[CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le]);
                let (a, b) = (self.int(), self.int());
                let value = self.b.compare(op, a, b);
                self.write_bool(value);
            }
            7 => {
                let (condition, a, b) = (self.bool(), self.buf(), self.buf());
                let buf = self.b.one(Op::Select(condition, a, b));
                let (condition, a, b) = (self.bool(), self.int(), self.int());
                let int = self.b.one(Op::Select(condition, a, b));
                self.write_buf(buf);
                self.write_int(int);
            }
            8 => {
                let (buf, end) = (self.buf(), self.int());
                let narrow = self.b.one(Op::Narrow(buf, end));
                let length = self.b.one(Op::Length(narrow));
                self.write_buf(narrow);
                self.write_int(length);
            }
            9 => {
                let metas = [Meta::Time, Meta::WireBytes, Meta::CapturedBytes, Meta::Link, Meta::Interface];
                let meta = self.random.pick(&metas);
                let value = self.b.one(Op::Meta(meta));
                self.write_int(value);
            }
            10 => {
                let set = Set(self.random.below(3) as u32);
                let (high, low) = (self.int(), self.int());
                let value = self.b.one(Op::Member { set, high, low });
                self.write_bool(value);
            }
            11 => {
                let pattern = Pattern(self.random.below(4) as u32);
                let (buf, offset, length) = (self.buf(), self.int(), self.int());
                let value = self.b.one(Op::Search { pattern, buf, offset, length });
                self.write_bool(value);
            }
            _ => {
                let value = self.bool();
                let value = self.b.one(Op::FromBool(value));
                self.write_int(value);
                let frame = self.b.one(Op::Frame);
                self.write_buf(frame);
            }
        }
    }

    /// A load behind its check; nothing where the bytes are not there.
    fn load(&mut self) {
        let (buf, mut offset) = (self.buf(), self.int());
        if self.random.below(2) == 0 {
            let mask = self.b.int(15);
            offset = self.b.binary(BinaryOp::And, offset, mask);
        }
        let width = self.random.pick(&[Width::W1, Width::W2, Width::W4, Width::W8]);
        let displacement = self.random.below(4) as u32;
        let (there, join) = (self.b.block(), self.b.block());
        self.b.check(buf, offset, displacement + width.bytes(), there, join);
        self.b.seal(there);
        self.b.switch_to(there);
        let little = self.random.below(2) == 0;
        let value = self.b.one(Op::Load { buf, offset, displacement, width, little });
        self.write_int(value);
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn flow_instruction(&mut self) {
        let Some((table, flow)) = self.flow else { return self.pure() };
        let sequence = Sequence(table.0);
        let side = self.bool();
        let var = self.random.below(self.b.graph.vars.len() as u64) as usize;
        let decl = self.b.graph.vars[var].clone();
        let side_of_var = decl.each_side.then_some(side);
        let var = Var(var as u32);
        match self.random.below(9) {
            0..2 if decl.table == table && decl.kind != VarKind::Letters(3) => {
                let value = self.b.one(Op::Get { flow, var, side: side_of_var });
                self.write_int(value);
            }
            2..4 if decl.table == table && decl.kind != VarKind::Letters(3) => {
                let value = self.int();
                self.b.push(Op::Set { flow, var, side: side_of_var, value });
            }
            0..5 if decl.table == table && decl.kind == VarKind::Letters(3) => {
                let letter = self.int();
                self.b.push(Op::Append { flow, var, letter });
            }
            5 => {
                let metas = (0..self.b.graph.sequences[sequence.index()].metas).map(|_| self.int()).collect();
                let (at, buf, offset) = (self.int(), self.buf(), self.int());
                let (length, span) = (self.int(), self.int());
                let op = Op::SeqInsert { sequence, flow, side, at, buf, offset, length, span, metas };
                for value in self.b.push(op) {
                    self.write_int(value);
                }
            }
            6 => {
                let values = self.b.push(Op::SeqNext { sequence, flow, side });
                self.write_bool(values[0]);
                self.write_int(values[1]);
                self.write_buf(values[2]);
                values[3..].iter().for_each(|&value| self.write_int(value));
            }
            7 => {
                let buf = self.b.one(Op::SeqAssemble { sequence, flow, side });
                self.write_buf(buf);
            }
            8 => {
                let (gap, buf, offset, length) = (self.int(), self.buf(), self.int(), self.int());
                self.b.push(Op::Deliver { flow, side, gap, buf, offset, length });
            }
            _ => {
                let values = (0..self.random.below(14)).map(|_| self.int()).collect();
                let flow = (self.random.below(2) == 0).then_some(flow);
                self.b.push(Op::Emit { event: Event(0), flow, values });
            }
        }
    }

    fn lookup(&mut self) {
        self.lookups += 1;
        let table = Table(self.random.below(u64::from(TABLES)) as u32);
        let key = (0..self.random.below(6)).map(|_| self.int()).collect();
        let (swap, then) = (self.bool(), self.b.block());
        self.b.end(Terminator::Lookup { table, key, swap, then });
        self.b.seal(then);
        self.b.switch_to(then);
        let flow = self.b.param(then, Type::Flow(table));
        let (responder, new) = (self.b.param(then, Type::Bool), self.b.param(then, Type::Bool));
        self.write_bool(responder);
        self.write_bool(new);
        self.flow = Some((table, flow));
        if self.random.below(4) == 0 {
            let (go_on, restart) = (self.b.block(), self.b.block());
            self.b.branch(new, go_on, restart);
            self.b.seal(go_on);
            self.b.seal(restart);
            self.b.switch_to(restart);
            self.b.end(Terminator::Restart);
            self.b.switch_to(go_on);
        }
    }

    /// Grows each of `blocks`, which are sealed; goes on after them.
    fn arms(&mut self, blocks: &[Block], depth: u32) {
        let join = self.b.block();
        let (flow, lookups) = (self.flow, self.lookups);
        for &block in blocks {
            self.b.switch_to(block);
            self.flow = flow;
            let count = self.random.below(4);
            self.statements(count, depth);
            if block != blocks[0] && self.random.below(6) == 0 {
                self.done();
            } else {
                self.b.jump(join);
            }
        }
        self.flow = if self.lookups == lookups { flow } else { None };
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn fork(&mut self, depth: u32) {
        let condition = self.bool();
        let (then, otherwise) = (self.b.block(), self.b.block());
        self.b.branch(condition, then, otherwise);
        self.b.seal(then);
        self.b.seal(otherwise);
        self.arms(&[then, otherwise], depth);
    }

    fn switch(&mut self, depth: u32) {
        let (value, mask) = (self.int(), self.b.int(7));
        let value = self.b.binary(BinaryOp::And, value, mask);
        let (mut arms, mut cases) = (vec![self.b.block()], vec![]);
        for _ in 0..self.random.below(9) {
            // A new arm is led to at once: blocks that nothing leads to have no end.
            let arm = if self.random.below(3) == 0 { self.b.block() } else { self.random.pick(&arms) };
            if !arms.contains(&arm) {
                arms.push(arm);
            }
            cases.push((self.random.below(9), to(arm)));
        }
        self.b.end(Terminator::Switch { value, cases, otherwise: to(arms[0]) });
        arms.iter().for_each(|&arm| self.b.seal(arm));
        self.arms(&arms, depth);
    }

    fn repeat(&mut self, depth: u32) {
        let fuel = Fuel(self.b.graph.fuels);
        self.b.graph.fuels += 1;
        let (header, body, out) = (self.b.block(), self.b.block(), self.b.block());
        self.b.jump(header);
        self.b.switch_to(header);
        let max = self.random.below(4) as u32;
        self.b.end(Terminator::Again { fuel, max, then: to(body), otherwise: to(out) });
        self.b.seal(body);
        self.b.switch_to(body);
        let outer = std::mem::replace(&mut self.in_loop, true);
        let count = 1 + self.random.below(4);
        self.statements(count, depth);
        self.in_loop = outer;
        let again = self.bool();
        self.b.branch(again, header, out);
        self.b.seal(header);
        self.b.seal(out);
        self.b.switch_to(out);
    }

    fn done(&mut self) {
        let terms = self.int();
        let reason =
            self.random.pick(&[None, None, Some(DropReason::Malformed), Some(DropReason::Truncated)]);
        self.b.done(terms, reason);
    }
}

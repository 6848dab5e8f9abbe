//! Generates random graphs that are valid by construction. They consist of nested statements, built as
//! lowering builds them, so variables that are written on some of several paths become block parameters.

use crate::Random;
use weir_ir::build::{Builder, Variable, to};
use weir_ir::engine_var::VarName;
use weir_ir::graph::{
    BinaryOp, CompareOp, Event, EventDecl, Fuel, Graph, Meta, NumberFormat, Op, Out, Pattern, PatternDecl,
    Sequence, SequenceDecl, Set, Table, TableDecl, Terminator, Type, Value, Var, VarDecl, VarKind, Width,
};
use weir_packet::DropReason;

/// Maximum nesting of statements.
const DEPTH_MAX: u32 = 3;
/// The number of most recent values of each type that statements use, so that few enough values are live
/// across a lookup.
const WINDOW: usize = 10;

/// A random graph. The same seed gives the same graph as long as this module does not change.
pub fn random_graph(random: &mut Random) -> Graph {
    let mut builder = Builder::new(declarations(random));
    let variables = [Type::Int, Type::Int, Type::Int, Type::Bool, Type::Buf].map(|ty| builder.variable(ty));
    let frame = builder.one(Op::Frame);
    let zero = builder.int(0);
    let no = builder.bool(false);
    let scope = Scope { ints: vec![zero], bools: vec![no], bufs: vec![frame], proven: vec![] };
    let mut maker = Maker { random, builder, variables, scope, flow: None, lookups: 0 };
    let count = 4 + maker.random.below(20);
    maker.statements(count, 0);
    maker.end();
    maker.builder.finish()
}

/// The values that a statement may use.
#[derive(Clone)]
struct Scope {
    ints: Vec<Value>,
    bools: Vec<Value>,
    bufs: Vec<Value>,
    /// A buffer, an offset, and the number of bytes there that a check covers.
    proven: Vec<(Value, Value, u32)>,
}

struct Maker<'a> {
    random: &'a mut Random,
    builder: Builder,
    /// Three integers, a Boolean, a buffer.
    variables: [Variable; 5],
    scope: Scope,
    /// The flow of the last lookup, its table, and the direction of the packet.
    flow: Option<(Value, Table, Value)>,
    lookups: u32,
}

impl Maker<'_> {
    fn statements(&mut self, count: u64, depth: u32) {
        for _ in 0..count {
            match self.random.below(16) {
                0..=4 => self.compute(),
                5..=7 => self.check(depth),
                8 | 9 => self.load(),
                10 => self.variable(),
                11 if depth < DEPTH_MAX => self.branch(depth),
                12 if depth < DEPTH_MAX => self.switch(depth),
                13 if depth < DEPTH_MAX => self.repeat(depth),
                14 if depth < 2 && self.lookups < 3 => self.lookup(),
                _ => self.touch(),
            }
        }
    }

    fn int(&mut self) -> Value {
        if self.random.once_in(4) {
            let number = self.random.number();
            return self.builder.int(number);
        }
        let from = self.scope.ints.len().saturating_sub(WINDOW);
        self.random.pick(&self.scope.ints[from..])
    }

    fn bool(&mut self) -> Value {
        let from = self.scope.bools.len().saturating_sub(WINDOW);
        self.random.pick(&self.scope.bools[from..])
    }

    fn buf(&mut self) -> Value {
        let from = self.scope.bufs.len().saturating_sub(WINDOW / 2);
        self.random.pick(&self.scope.bufs[from..])
    }

    /// An offset that often lies within the buffer.
    fn offset(&mut self) -> Value {
        match self.random.below(4) {
            0 => {
                let number = self.random.below(60);
                self.builder.int(number)
            }
            1 => {
                let (value, mask) = (self.int(), self.builder.int(63));
                self.builder.binary(BinaryOp::And, value, mask)
            }
            2 => {
                let (value, number) = (self.int(), self.random.below(20));
                let constant = self.builder.int(number);
                self.builder.binary(BinaryOp::Add, value, constant)
            }
            _ => self.int(),
        }
    }

    /// Adds an instruction without effect.
    fn compute(&mut self) {
        match self.random.below(12) {
            0..=4 => {
                let op = self.random.pick(&BINARY);
                let (a, b) = (self.int(), self.int());
                self.one(Op::Binary(op, a, b));
            }
            5 => {
                let op = self.random.pick(&[CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le]);
                let (a, b) = (self.int(), self.int());
                self.one(Op::Compare(op, a, b));
            }
            6 => {
                let op = self.random.pick(&[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor]);
                let (a, b) = (self.bool(), self.bool());
                self.one(Op::Binary(op, a, b));
                self.one(Op::Not(a));
                self.one(Op::FromBool(b));
            }
            7 => {
                let condition = self.bool();
                let (a, b) = (self.int(), self.int());
                self.one(Op::Select(condition, a, b));
                let (a, b) = (self.buf(), self.buf());
                self.one(Op::Select(condition, a, b));
            }
            8 => {
                let (buf, end) = (self.buf(), self.offset());
                self.one(Op::Narrow(buf, end));
                self.one(Op::Length(buf));
            }
            9 => {
                let (high, low) = (self.builder.int(0), self.int());
                let set = Set(self.random.below(2) as u32);
                self.one(Op::Member { set, high, low });
            }
            10 => {
                let pattern = Pattern(self.random.below(4) as u32);
                let (buf, offset, length) = (self.buf(), self.offset(), self.int());
                self.one(Op::Search { pattern, buf, offset, length });
                let (length, first) = (self.offset(), self.int());
                self.one(Op::Sum16 { buf, offset, length, first });
                self.one(Op::ItemsFit { buf, offset, length: first });
                self.one(Op::Excerpt { buf, offset: length, length: first });
            }
            _ => {
                let all = [Meta::Time, Meta::WireBytes, Meta::CapturedBytes, Meta::Link];
                let more = [Meta::Interface, Meta::Number];
                let meta = self.random.pick(&[&all[..], &more].concat());
                self.one(Op::Meta(meta));
            }
        }
    }

    /// Adds a length check. If it fails, the packet ends, or the loads that depend on the check are skipped.
    fn check(&mut self, depth: u32) {
        let (buf, offset) = (self.buf(), self.offset());
        let bytes = 1 + self.random.below(24) as u32;
        let (there, missing) = (self.builder.block(), self.builder.block());
        self.builder.check(buf, offset, bytes, there, missing);
        self.builder.seal(there);
        self.builder.seal(missing);
        if depth == 0 && self.random.once_in(4) {
            self.builder.switch_to(missing);
            let terms = self.builder.int(0);
            self.builder.done(terms, Some(DropReason::Truncated));
            self.builder.switch_to(there);
            self.scope.proven.push((buf, offset, bytes));
            return;
        }
        let join = self.builder.block();
        let outside = self.scope.clone();
        self.builder.switch_to(there);
        self.scope.proven.push((buf, offset, bytes));
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            self.load();
        }
        self.variable();
        self.scope = outside;
        self.builder.jump(join);
        self.builder.switch_to(missing);
        self.builder.jump(join);
        self.builder.seal(join);
        self.builder.switch_to(join);
    }

    /// Loads bytes that a check covers.
    fn load(&mut self) {
        if self.scope.proven.is_empty() {
            return;
        }
        let (buf, mut offset, mut bytes) = self.random.pick(&self.scope.proven);
        if self.random.once_in(3) {
            let step = self.random.below(u64::from(bytes));
            let constant = self.builder.int(step);
            offset = self.builder.binary(BinaryOp::Add, offset, constant);
            bytes -= step as u32;
        }
        let widths = [Width::W1, Width::W2, Width::W4, Width::W8];
        let fitting: Vec<Width> = widths.into_iter().filter(|width| width.bytes() <= bytes).collect();
        let width = self.random.pick(&fitting);
        let displacement = self.random.below(u64::from(bytes - width.bytes()) + 1) as u32;
        let little = self.random.once_in(3);
        self.one(Op::Load { format: NumberFormat { width, little }, buf, offset, displacement });
    }

    /// Reads or writes variables.
    fn variable(&mut self) {
        let variable = self.variables[self.random.below(3) as usize];
        let value = self.int();
        self.builder.write(variable, value);
        match self.random.below(4) {
            0 => {
                let value = self.bool();
                self.builder.write(self.variables[3], value);
            }
            1 => {
                let value = self.buf();
                self.builder.write(self.variables[4], value);
            }
            _ => {}
        }
        self.read();
    }

    fn read(&mut self) {
        let variable = self.variables[self.random.below(5) as usize];
        let value = self.builder.read(variable);
        self.push(value);
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.bool();
        let (then, otherwise) = (self.builder.block(), self.builder.block());
        self.builder.branch(condition, then, otherwise);
        self.arms(&[then, otherwise], depth);
    }

    fn switch(&mut self, depth: u32) {
        let value = self.int();
        let arms: Vec<_> = (0..2 + self.random.below(3)).map(|_| self.builder.block()).collect();
        let mut cases = vec![];
        for &arm in &arms[1..] {
            cases.push((self.random.below(8), to(arm)));
        }
        self.builder.end(Terminator::Switch { value, cases, otherwise: to(arms[0]) });
        self.arms(&arms, depth);
    }

    /// Fills the blocks of a branch and joins them. Blocks after the first may end the packet instead.
    fn arms(&mut self, arms: &[weir_ir::graph::Block], depth: u32) {
        let join = self.builder.block();
        let (outside, flow, lookups) = (self.scope.clone(), self.flow, self.lookups);
        for (at, &arm) in arms.iter().enumerate() {
            self.builder.seal(arm);
            self.builder.switch_to(arm);
            self.flow = flow;
            let count = self.random.below(5);
            self.statements(count, depth + 1);
            self.variable();
            if at > 0 && self.random.once_in(5) {
                self.end();
            } else {
                self.builder.jump(join);
            }
            self.scope = outside.clone();
        }
        self.builder.seal(join);
        self.builder.switch_to(join);
        // A lookup in one arm makes the earlier flow unusable after the join.
        self.flow = if self.lookups == lookups { flow } else { None };
        self.read();
    }

    fn repeat(&mut self, depth: u32) {
        let (header, latch, exit) = (self.builder.block(), self.builder.block(), self.builder.block());
        self.builder.jump(header);
        self.builder.switch_to(header);
        let (outside, lookups) = (self.scope.clone(), self.lookups);
        // A loop contains no lookups, because a lookup would restart the loop's fuel. It may use a flow from
        // outside.
        self.lookups = u32::MAX;
        self.read();
        let count = 1 + self.random.below(4);
        self.statements(count, depth + 1);
        self.variable();
        let condition = self.bool();
        self.builder.branch(condition, latch, exit);
        self.builder.seal(latch);
        self.builder.switch_to(latch);
        let fuel = Fuel(self.builder.graph.fuels);
        self.builder.graph.fuels += 1;
        let max = self.random.below(6) as u32;
        self.builder.end(Terminator::Again { fuel, max, then: to(header), otherwise: to(exit) });
        self.builder.seal(header);
        self.builder.seal(exit);
        self.builder.switch_to(exit);
        self.lookups = lookups;
        self.scope = outside;
        self.read();
    }

    fn lookup(&mut self) {
        let table = Table(self.random.below(2) as u32);
        let mask = self.builder.int(3);
        let mut key = vec![];
        for _ in 0..KEY_WORDS[table.index()] {
            let value = self.int();
            key.push(self.builder.binary(BinaryOp::And, value, mask));
        }
        let swap = self.bool();
        let reversed = self.random.once_in(2).then(|| self.bool());
        let then = self.builder.block();
        self.builder.end(Terminator::Lookup { table, key, swap, reversed, then });
        self.builder.seal(then);
        self.builder.switch_to(then);
        let flow = self.builder.param(then, Type::Flow(table));
        let responder = self.builder.param(then, Type::Bool);
        let new = self.builder.param(then, Type::Bool);
        self.scope.bools.extend([responder, new]);
        self.flow = Some((flow, table, responder));
        self.lookups += 1;
        if self.random.once_in(3) {
            self.restart(new);
        }
    }

    /// Restarts the flow, unless it is new; a packet therefore restarts a flow once.
    fn restart(&mut self, new: Value) {
        let condition = self.bool();
        let keep = self.builder.binary(BinaryOp::Or, new, condition);
        let (on, restart) = (self.builder.block(), self.builder.block());
        self.builder.branch(keep, on, restart);
        self.builder.seal(on);
        self.builder.seal(restart);
        self.builder.switch_to(restart);
        self.builder.end(Terminator::Restart);
        self.builder.switch_to(on);
    }

    /// Adds an instruction with an effect.
    fn touch(&mut self) {
        let Some((flow, table, side)) = self.flow.filter(|_| !self.random.once_in(5)) else {
            let (out, value) = (Out(self.random.below(4) as u32), self.int());
            self.builder.push(Op::Store { out, value });
            if self.random.once_in(3) {
                let (what, values) = (self.random.below(4) as u32, vec![value, self.int()]);
                self.builder.push(Op::Note { what, values });
            }
            return;
        };
        match self.random.below(8) {
            0..=4 => self.touch_vars(flow, table, side),
            5 => self.emit(flow),
            6 => {
                let (gap, buf, offset, length) = (self.int(), self.buf(), self.offset(), self.int());
                self.builder.push(Op::Deliver { flow, side, gap, buf, offset, length });
            }
            _ if table == Table(1) => self.touch_sequence(flow, side),
            _ => self.emit(flow),
        }
    }

    fn emit(&mut self, flow: Value) {
        let (buf, offset, length) = (self.buf(), self.offset(), self.int());
        let kept = self.builder.one(Op::Keep { buf, offset, length });
        let values = vec![self.int(), self.bool(), kept];
        let flow = (!self.random.once_in(3)).then_some(flow);
        self.builder.push(Op::Emit { event: Event(self.random.below(2) as u32), flow, values });
    }

    fn touch_vars(&mut self, flow: Value, table: Table, responder: Value) {
        let vars = self.builder.graph.vars.clone();
        let of_table: Vec<u32> =
            (0..vars.len() as u32).filter(|&var| vars[var as usize].table == table).collect();
        let var = Var(self.random.pick(&of_table));
        let decl = &vars[var.index()];
        let side = if self.random.once_in(3) { self.bool() } else { responder };
        let side = decl.each_side.then_some(side);
        if let VarKind::Letters(_) = decl.kind {
            let letter = self.int();
            self.builder.push(match self.random.once_in(3) {
                true => Op::AppendAgain { flow, var, letter },
                false => Op::Append { flow, var, letter },
            });
            return;
        }
        if self.random.once_in(2) {
            let value = self.int();
            self.builder.push(Op::Set { flow, var, side, value });
        }
        self.one(Op::Get { flow, var, side });
    }

    fn touch_sequence(&mut self, flow: Value, side: Value) {
        let sequence = Sequence(self.random.below(2) as u32);
        let metas = self.builder.graph.sequences[sequence.index()].metas;
        let (at, buf, offset) = (self.int(), self.buf(), self.offset());
        let (length, span) = (self.int(), self.int());
        let metas = (0..metas).map(|_| self.int()).collect();
        self.all(Op::SeqInsert { sequence, flow, side, at, buf, offset, length, span, metas });
        if self.random.once_in(2) {
            let whole = if self.random.once_in(2) { vec![at, length] } else { vec![] };
            self.all(Op::Collect { flow, side, gap: length, buf, offset, length: span, whole });
            self.all(Op::Messages { flow, side });
            let number = self.random.below(3) as u32;
            self.all(Op::WholeValue { number });
            self.all(Op::NextMessages { done: span, wanted: length });
        }
        if self.random.once_in(2) {
            self.all(Op::SeqAcknowledge { sequence, flow, side, at });
            self.all(Op::SeqBegin { sequence, flow, side, at });
            self.all(Op::SeqHold { sequence, flow, side, at, span });
            self.all(Op::SeqNext { sequence, flow, side });
        } else {
            self.all(Op::SeqAssemble { sequence, flow, side });
        }
    }

    fn end(&mut self) {
        let (out, value) = (Out(self.random.below(4) as u32), self.int());
        self.builder.push(Op::Store { out, value });
        let terms = self.int();
        let reason = self.random.once_in(4).then_some(DropReason::Malformed);
        self.builder.done(terms, reason);
    }

    fn one(&mut self, op: Op) {
        let value = self.builder.one(op);
        self.push(value);
    }

    fn all(&mut self, op: Op) {
        self.builder.push(op).into_iter().for_each(|value| self.push(value));
    }

    fn push(&mut self, value: Value) {
        match self.builder.graph.type_of(value) {
            Type::Int => self.scope.ints.push(value),
            Type::Bool => self.scope.bools.push(value),
            Type::Buf => self.scope.bufs.push(value),
            Type::Flow(_) => {}
        }
    }
}

const BINARY: [BinaryOp; 13] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::SubSat,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Mul,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Min,
    BinaryOp::Max,
];

/// The number of key words of each table.
const KEY_WORDS: [usize; 2] = [2, 6];

fn declarations(random: &mut Random) -> Graph {
    let table = |name: &str, two_sided| TableDecl {
        name: name.to_owned(),
        two_sided,
        observed: true,
        ends: false,
        delivers: two_sided,
        asked: false,
        scattered: false,
        part: None,
        carries: None,
        key: Default::default(),
        timeout_ms: (!two_sided).then_some(60_000),
    };
    let var = |table, name: &str, kind, each_side| VarDecl {
        table: Table(table),
        name: VarName::Layer(name.to_owned()),
        kind,
        each_side,
        observed: false,
    };
    let sequence = |name: &str, retain: bool, metas| SequenceDecl {
        table: Table(1),
        name: name.to_owned(),
        bits: 32,
        from_first: !retain,
        retain,
        headers_only: false,
        overwrite: false,
        distinct: false,
        tells: retain,
        metas,
        wholes: 0,
    };
    let start = u128::from(random.below(100));
    Graph {
        name: "random".to_owned(),
        tables: vec![table("ip", false), table("tcp", true)],
        vars: vec![
            var(0, "state", VarKind::Bits(8), false),
            var(0, "letters", VarKind::Letters(3), false),
            var(1, "history", VarKind::Letters(5), false),
            var(1, "packets", VarKind::Bits(64), true),
            var(1, "window", VarKind::Bits(16), true),
            var(1, "state", VarKind::Bits(32), false),
            var(1, "scale", VarKind::Bits(8), true),
        ],
        sequences: vec![sequence("tcp", false, 2), sequence("whole", true, 0)],
        events: ["tcp.a", "tcp.b"].map(|name| EventDecl { name: name.to_owned(), wanted: true }).into(),
        sets: vec![vec![(0, 3), (start + 9, start + 90), (443, 443)], vec![(80, 80), (1 << 63, u128::MAX)]],
        patterns: vec![
            PatternDecl::Contains(b"exa".to_vec()),
            PatternDecl::Equals(vec![]),
            PatternDecl::Less(vec![0x45, 1]),
            PatternDecl::Matches("host: [a-z.]+".to_owned()),
        ],
        outs: ["a", "b", "c", "d"].map(|name| name.to_owned().into()).into(),
        ..Graph::default()
    }
}

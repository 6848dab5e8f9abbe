//! Handles segments that are next in order without calling the engine: the sequence's state tells whether a
//! segment is next, and whether anything is queued.
//!
//! Rubik's "direct fast forward" and "fast forward" (Rubik, appendix D): most segments arrive in order, and
//! nothing needs to be stored for them. The pass tests, before a `seq_insert` of a sequence that does not
//! retain, whether the segment starts at the next number, has no FIN, and nothing is queued. If so, it
//! advances the flow's variables ([`crate::sequence`] defines them) and continues in a copy of the following
//! code, in which the status is `SEQ_ORDERED` and `seq_next` returns nothing. Other passes then reduce the
//! copy to the work that most segments need.

use super::region::{copy, dominated, size, split};
use crate::abi::SEQ_ORDERED;
use crate::dominators::ControlFlow;
use crate::engine_var::EngineVar;
use crate::graph::{
    BinaryOp, Block, CompareOp, Graph, Inst, Op, Sequence, Target, Terminator, Type, Value, Var,
};
use crate::sequence::{PASSED_MANY, PASSED_SHIFT, STARTED};
use smallvec::smallvec;

/// Maximum number of copied instructions.
const COPIED_MAX: usize = 256;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    if graph.sequences.iter().all(|sequence| sequence.retain) {
        return false;
    }
    let flow = ControlFlow::of(graph);
    let mut changed = false;
    for &block in flow.order() {
        // A region that contains another insertion is left unchanged, so changed regions do not overlap.
        let insert = graph.block(block).insts.iter().rposition(|i| matches!(i.op, Op::SeqInsert { .. }));
        changed |= insert.is_some_and(|at| expand(graph, &flow, block, at));
    }
    changed
}

/// The variables of a sequence that programs advance.
#[derive(Debug, Clone, Copy)]
struct Vars {
    next: Var,
    high: Var,
    flags: Var,
}

impl Vars {
    fn of(graph: &Graph, sequence: Sequence) -> Option<Self> {
        let table = graph.sequences[sequence.index()].table;
        let var = |name: EngineVar| graph.find_var(table, &name);
        Some(Self {
            next: var(EngineVar::SeqNext)?,
            high: var(EngineVar::SeqHigh)?,
            flags: var(EngineVar::SeqFlags)?,
        })
    }
}

/// The operands of an insertion.
#[derive(Debug, Clone, Copy)]
struct Offer {
    sequence: Sequence,
    flow: Value,
    side: Value,
    at: Value,
    buf: Value,
    length: Value,
    span: Value,
}

/// Adds the test before the insertion that is instruction `at` of `block`.
fn expand(graph: &mut Graph, flow: &ControlFlow, block: Block, at: usize) -> bool {
    let &Op::SeqInsert { sequence, flow: record, side, at: number, buf, length, span, .. } =
        &graph.block(block).insts[at].op
    else {
        return false;
    };
    let offer = Offer { sequence, flow: record, side, at: number, buf, length, span };
    if graph.sequences[sequence.index()].retain {
        return false;
    }
    let (Some(vars), Some(mut region)) = (Vars::of(graph, sequence), dominated(graph, flow, block)) else {
        return false;
    };
    let disturbs = |inst: &Inst| match inst.op {
        Op::SeqInsert { .. } => true,
        Op::Set { var, .. } => [vars.next, vars.high, vars.flags].contains(&var),
        _ => false,
    };
    let is_disturbed = region.iter().any(|&b| graph.block(b).insts.iter().any(disturbs))
        || graph.block(block).insts[at + 1..].iter().any(disturbs);
    if is_disturbed || size(graph, &region) + graph.block(block).insts.len() - at > COPIED_MAX {
        return false;
    }
    let rest = split(graph, block, at);
    region.insert(0, rest);
    let fast = copy(graph, &region);
    let mut question = Lines { graph, insts: vec![] };
    let (is_next, state) = question.is_next(&offer, vars);
    let question = question.insts;
    let data = &mut graph.blocks[block.index()];
    data.insts.extend(question);
    let target = |block| Target { block, args: vec![] };
    data.terminator = Terminator::Branch { condition: is_next, then: target(fast), otherwise: target(rest) };
    for at in 0..region.len() {
        let copy = Block(fast.0 + at as u32);
        let old = std::mem::take(&mut graph.blocks[copy.index()].insts);
        let mut lines = Lines { graph, insts: Vec::with_capacity(old.len()) };
        for inst in old {
            match inst.op {
                Op::SeqInsert { .. } => lines.pass(&offer, vars, state, &inst.results),
                Op::SeqNext { sequence, flow, side }
                    if (sequence, flow, side) == (offer.sequence, offer.flow, offer.side) =>
                {
                    lines.nothing(offer.buf, &inst.results);
                }
                _ => lines.insts.push(inst),
            }
        }
        graph.blocks[copy.index()].insts = lines.insts;
    }
    true
}

/// The sequence's state before the segment.
#[derive(Debug, Clone, Copy)]
struct State {
    next: Value,
    flags: Value,
}

/// A list of instructions under construction.
struct Lines<'g> {
    graph: &'g mut Graph,
    insts: Vec<Inst>,
}

impl Lines<'_> {
    fn push(&mut self, ty: Type, op: Op) -> Value {
        let result = self.graph.value(ty);
        self.insts.push(Inst { results: smallvec![result], op });
        result
    }

    fn int(&mut self, n: u64) -> Value {
        self.push(Type::Int, Op::Const(n))
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.push(Type::Int, Op::Binary(op, a, b))
    }

    fn get(&mut self, offer: &Offer, var: Var) -> Value {
        self.push(Type::Int, Op::Get { flow: offer.flow, var, side: Some(offer.side) })
    }

    fn set(&mut self, offer: &Offer, var: Var, value: Value) {
        let op = Op::Set { flow: offer.flow, var, side: Some(offer.side), value };
        self.insts.push(Inst { results: smallvec![], op });
    }

    /// The number modulo the sequence's bits. Only sequences that start at the first number seen wrap.
    fn wrap(&mut self, offer: &Offer, number: Value) -> Value {
        let decl = &self.graph.sequences[offer.sequence.index()];
        if !decl.from_first || decl.bits >= 64 {
            return number;
        }
        let mask = self.int((1 << decl.bits) - 1);
        self.binary(BinaryOp::And, number, mask)
    }

    /// Whether the segment is next in order, nothing is queued, the count has room, and there is no FIN. The
    /// first segment of a direction is next, whatever its number, if the sequence starts at the first number
    /// seen; else only with number 0.
    fn is_next(&mut self, offer: &Offer, vars: Vars) -> (Value, State) {
        let from_first = self.graph.sequences[offer.sequence.index()].from_first;
        let flags = self.get(offer, vars.flags);
        let started = u64::from(STARTED);
        let idle = u64::from(PASSED_MANY | ((1 << PASSED_SHIFT) - 1));
        let mask = self.int(if from_first { idle } else { idle & !started });
        let state = self.binary(BinaryOp::And, flags, mask);
        let next = self.get(offer, vars.next);
        let number = self.wrap(offer, offer.at);
        let fits = self.push(Type::Bool, Op::Compare(CompareOp::Eq, number, next));
        let wanted = self.int(if from_first { started } else { 0 });
        let is_idle = self.push(Type::Bool, Op::Compare(CompareOp::Eq, state, wanted));
        let mut is_next = self.push(Type::Bool, Op::Binary(BinaryOp::And, is_idle, fits));
        if from_first {
            let zero = self.int(0);
            let is_first = self.push(Type::Bool, Op::Compare(CompareOp::Eq, state, zero));
            is_next = self.push(Type::Bool, Op::Binary(BinaryOp::Or, is_next, is_first));
        }
        // The engine keeps a FIN, which uses a number more than there are bytes, until it is confirmed.
        let has_fin = self.push(Type::Bool, Op::Compare(CompareOp::Lt, offer.length, offer.span));
        let has_none = self.push(Type::Bool, Op::Not(has_fin));
        let is_next = self.push(Type::Bool, Op::Binary(BinaryOp::And, is_next, has_none));
        (is_next, State { next: number, flags })
    }

    /// Replaces the insertion: advances the state, as `Reassembler::insert` of `weir-engine` does.
    fn pass(&mut self, offer: &Offer, vars: Vars, state: State, results: &[Value]) {
        let span = offer.span;
        let next = self.binary(BinaryOp::Add, state.next, span);
        let next = self.wrap(offer, next);
        self.set(offer, vars.next, next);
        let high = self.get(offer, vars.high);
        let high = self.binary(BinaryOp::Add, high, span);
        self.set(offer, vars.high, high);
        // A segment without payload is not counted.
        let one = self.int(1);
        let count = self.binary(BinaryOp::Min, span, one);
        let shift = self.int(u64::from(PASSED_SHIFT));
        let count = self.binary(BinaryOp::Shl, count, shift);
        let started = self.int(u64::from(STARTED));
        let flags = self.binary(BinaryOp::Or, state.flags, started);
        let flags = self.binary(BinaryOp::Add, flags, count);
        self.set(offer, vars.flags, flags);
        self.insts.push(Inst { results: smallvec![results[0]], op: Op::Const(SEQ_ORDERED) });
        self.insts.push(Inst { results: smallvec![results[1]], op: Op::Const(0) });
    }

    /// Replaces a `seq_next` that returns nothing.
    fn nothing(&mut self, buf: Value, results: &[Value]) {
        let zero = self.int(0);
        for &result in results {
            let op = match self.graph.type_of(result) {
                Type::Bool => Op::Bool(false),
                Type::Buf => Op::Narrow(buf, zero),
                _ => Op::Const(0),
            };
            self.insts.push(Inst { results: smallvec![result], op });
        }
    }
}

//! Tries a condition: assumes it true or false, and propagates what follows.

use super::super::edit::Place;
use super::super::evaluate::evaluate;
use super::{Condition, asked};
use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, Graph, Op, Target, Terminator, Value};
use crate::range::Ranges;

/// Sums of numbers below this cannot wrap.
const EXACT: u64 = 1 << 48;
/// Depth to which the definition of a value from above is evaluated.
const DEPTH_MAX: u32 = 4;

/// The consequences of assuming a condition true, or false.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Values that become known.
    pub known: Vec<(Value, u64)>,
    /// Blocks in which a value becomes known, and the first such instruction.
    pub touched: Vec<(Block, usize)>,
    /// Number of reached blocks whose branch becomes unconditional.
    pub decided: usize,
    /// Number of instructions in these blocks whose results become known.
    pub known_insts: usize,
}

impl Outcome {
    /// Upper bound of the instructions that a packet saves: it takes only one path.
    pub fn gain(&self) -> usize {
        self.known_insts + self.decided
    }
}

/// The state of trials on one graph.
pub(super) struct Trial<'a> {
    graph: &'a Graph,
    flow: &'a ControlFlow,
    places: &'a [Place],
    constants: &'a [Option<u64>],
    ranges: &'a Ranges,
    /// By block: its position in the order.
    position: Vec<u32>,
    /// By value: the run that found its number, and the number. A run is one condition, assumed true or
    /// false.
    found: Vec<(u32, Option<u64>)>,
    /// By block: the last run that reached it.
    reached: Vec<u32>,
    run: u32,
    condition: Condition,
    truth: bool,
    known: Vec<Value>,
}

impl<'a> Trial<'a> {
    pub fn new(
        graph: &'a Graph,
        flow: &'a ControlFlow,
        places: &'a [Place],
        constants: &'a [Option<u64>],
        ranges: &'a Ranges,
    ) -> Self {
        let mut position = vec![0; graph.blocks.len()];
        flow.order().iter().enumerate().for_each(|(at, block)| position[block.index()] = at as u32);
        Self {
            graph,
            flow,
            places,
            constants,
            ranges,
            position,
            found: vec![(0, None); graph.values.len()],
            reached: vec![0; graph.blocks.len()],
            run: 0,
            condition: Condition::Holds(Value(0)),
            truth: false,
            known: vec![],
        }
    }

    /// The consequences of the condition, true and false, in a part of the graph.
    pub fn both(&mut self, condition: Condition, part: &[Block]) -> [Outcome; 2] {
        [true, false].map(|truth| self.one(condition, truth, part))
    }

    fn one(&mut self, condition: Condition, truth: bool, part: &[Block]) -> Outcome {
        self.run += 1;
        (self.condition, self.truth) = (condition, truth);
        match (condition, truth) {
            (Condition::Holds(value), truth) => self.learn(value, u64::from(truth)),
            (Condition::Is(value, n), true) => self.learn(value, n),
            (Condition::Is(value, n), false) => self.differs(value, n),
        }
        self.reached[part[0].index()] = self.run;
        let mut outcome = Outcome::default();
        for &block in part {
            let data = self.graph.block(block);
            if self.reached[block.index()] != self.run {
                continue;
            }
            let mut touched = None;
            for (at, inst) in data.insts.iter().enumerate() {
                let [result] = inst.results[..] else { continue };
                if self.constants[result.index()].is_none() && self.number(result).is_some() {
                    touched = touched.or(Some(at));
                    outcome.known_insts += 1;
                }
            }
            if self.leave(&data.terminator) {
                touched = touched.or(Some(data.insts.len()));
                outcome.decided += 1;
            }
            outcome.touched.extend(touched.map(|at| (block, at)));
        }
        let known = std::mem::take(&mut self.known);
        let number = |&v: &Value| Some((v, self.found[v.index()].1?));
        outcome.known = known.iter().filter_map(number).collect();
        outcome
    }

    /// Marks the successors that a terminator may take. Returns whether only one remains of several.
    fn leave(&mut self, terminator: &Terminator) -> bool {
        match terminator {
            Terminator::Branch { condition, then, otherwise } => {
                if let Some(n) = self.number(*condition) {
                    self.arrive(if n == 0 { otherwise } else { then });
                    return true;
                }
            }
            Terminator::Switch { value, cases, otherwise } => {
                if let Some(n) = self.number(*value) {
                    self.arrive(cases.iter().find(|(case, _)| *case == n).map_or(otherwise, |(_, t)| t));
                    return true;
                }
            }
            _ => {}
        }
        terminator.for_each_target(|target| self.arrive(target));
        false
    }

    /// A parameter is known if all arguments agree; arguments of back edges are not known yet.
    fn arrive(&mut self, target: &Target) {
        let (graph, to) = (self.graph, target.block);
        let is_first = std::mem::replace(&mut self.reached[to.index()], self.run) != self.run;
        let here = self.position[to.index()];
        let is_loop = self.flow.predecessors(to).iter().any(|p| self.position[p.index()] >= here);
        for (&param, &arg) in graph.block(to).params.iter().zip(&target.args) {
            let n = if is_loop { None } else { self.number(arg) };
            if is_first {
                self.note(param, n);
            } else if self.found[param.index()].1 != n {
                self.found[param.index()].1 = None;
            }
        }
    }

    fn note(&mut self, value: Value, n: Option<u64>) {
        self.found[value.index()] = (self.run, n);
        if n.is_some() && self.constants[value.index()].is_none() {
            self.known.push(value);
        }
    }

    /// The number of a value, if known. Values from above are evaluated on demand.
    fn number(&mut self, value: Value) -> Option<u64> {
        self.number_within(value, DEPTH_MAX)
    }

    fn number_within(&mut self, value: Value, depth: u32) -> Option<u64> {
        if let Some(n) = self.constants[value.index()] {
            return Some(n);
        }
        let (run, n) = self.found[value.index()];
        if run == self.run {
            return n;
        }
        let Place::Inst(block, at) = self.places[value.index()] else { return None };
        let op = &self.graph.block(block).insts[at as usize].op;
        if depth == 0 || !op.is_pure() {
            return None;
        }
        let n = match asked(self.constants, op) {
            Some((condition, result)) if condition == self.condition => Some(u64::from(result == self.truth)),
            _ => {
                op.for_each_operand(|v| {
                    self.number_within(v, depth - 1);
                });
                let known = |v: Value| {
                    let (run, n) = self.found[v.index()];
                    self.constants[v.index()].or(if run == self.run { n } else { None })
                };
                evaluate(self.graph, op, known)
            }
        };
        self.note(value, n);
        n
    }

    /// Records that a value is this number, and derives the values from which it was computed.
    fn learn(&mut self, value: Value, n: u64) {
        if self.constants[value.index()].is_some() || self.found[value.index()].0 == self.run {
            return;
        }
        self.note(value, Some(n));
        let Place::Inst(block, at) = self.places[value.index()] else { return };
        let op = &self.graph.block(block).insts[at as usize].op;
        let is_bool = self.graph.result_is_bool(op);
        match *op {
            Op::Not(a) => self.learn(a, n ^ 1),
            Op::FromBool(a) => self.learn(a, n),
            Op::Binary(BinaryOp::And, a, b) if is_bool && n == 1 => {
                [a, b].iter().for_each(|&v| self.learn(v, 1))
            }
            Op::Binary(BinaryOp::Or | BinaryOp::Max, a, b) if n == 0 => {
                [a, b].iter().for_each(|&v| self.learn(v, 0));
            }
            // Only if the sum cannot wrap.
            Op::Binary(BinaryOp::Add, a, b)
                if n == 0 && [a, b].iter().all(|&v| self.ranges.max(v) < EXACT) =>
            {
                [a, b].iter().for_each(|&v| self.learn(v, 0));
            }
            _ => match asked(self.constants, op) {
                Some((Condition::Is(v, m), result)) if u64::from(result) == n => self.learn(v, m),
                Some((Condition::Is(v, m), _)) => self.differs(v, m),
                _ => {}
            },
        }
    }

    /// Records that a value differs from `n`: a value with two possible numbers is the other one.
    fn differs(&mut self, value: Value, n: u64) {
        if self.ranges.max(value) == 1 && n <= 1 {
            self.learn(value, 1 - n);
        }
    }
}

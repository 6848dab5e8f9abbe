//! Lifts branches: a condition that decides much of the following code is tested first, and the following
//! code is duplicated, once for each result.
//!
//! Rubik's branch lifting (Rubik §5.2). Protocols are written as a list of rules with separate conditions,
//! many of which test the same few bits: a segment without SYN, FIN and RST fails most of TCP's rules. If "is
//! none of them set?" is tested once at the front, the other conditions become constants, and impossible
//! cases are not tested.
//!
//! The pass works on every part of the graph without lookups (usually a tail; a part with a lookup cannot be
//! copied). [`trial`] tests each condition that can be evaluated at the front: it assumes the condition true,
//! then false, and counts what becomes known. The condition that saves most work per packet is lifted if the
//! saving pays for the copy, to the last point before everything that it decides. The pass writes the known
//! values into each copy; other passes do the rest.

mod trial;

use super::edit::{Order, Place, constants, places};
use super::region::{copy, dominated, offsets, replace, size, split};
use crate::build::to;
use crate::dominators::ControlFlow;
use crate::graph::{Block, BlockData, CompareOp, Graph, Inst, Op, Terminator, Type, Value};
use crate::range::Ranges;
use smallvec::smallvec;
use trial::{Outcome, Trial};

/// Maximum number of instructions copied for one condition.
const COPIED_MAX: usize = 512;
/// Maximum number of instructions copied in total: this many, or half of the graph.
const COPIED_MIN: usize = 128;
/// Minimum and maximum number of instructions of the parts that are tried; trials take time.
const PART_MIN: usize = 24;
const PART_MAX: usize = 1024;
/// Parts with fewer branches are not worth a trial.
const BRANCHES_MIN: usize = 6;
/// Maximum number of conditions tried per part.
const TRIALS_MAX: usize = 24;
/// Minimum gain of a condition per packet, in instructions.
const GAIN_MIN: usize = 16;
/// Maximum number of copied instructions per instruction gained.
const COPIED_PER_GAIN: usize = 7;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let flow = ControlFlow::of(graph);
    let lifts = choose(graph, &flow);
    if lifts.is_empty() {
        return false;
    }
    let order = Order::of(graph);
    let (is_offset, places) = (offsets(graph, &order), places(graph, &order));
    for lift in &lifts {
        lift.apply(graph, &is_offset, &places);
    }
    true
}

/// A condition to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// Is the int this number?
    Is(Value, u64),
    /// Is the bool true?
    Holds(Value),
}

impl Condition {
    fn value(self) -> Value {
        match self {
            Condition::Is(value, _) | Condition::Holds(value) => value,
        }
    }
}

/// A condition worth lifting.
#[derive(Debug)]
struct Lift {
    condition: Condition,
    /// The block in which the condition is tested, after this many instructions.
    head: Block,
    at: usize,
    /// The blocks that the head dominates.
    below: Vec<Block>,
    /// Number of copied instructions.
    copied: usize,
    /// The known values if the condition is true, and if it is false.
    outcomes: [Outcome; 2],
}

/// The lifts worth their copies, in parts of the graph that do not overlap.
fn choose(graph: &Graph, flow: &ControlFlow) -> Vec<Lift> {
    let parts = Parts::of(graph, flow);
    let order = Order::of(graph);
    let (places, constants) = (places(graph, &order), constants(graph, &order));
    let conditions: Vec<Vec<Condition>> =
        (0..parts.blocks.len()).map(|part| parts.conditions(graph, &places, &constants, part)).collect();
    if conditions.iter().all(Vec::is_empty) {
        return vec![];
    }
    let ranges = Ranges::of(graph, flow);
    // For a flag, testing for 1 is redundant with testing for 0.
    let is_tried = |condition: &&Condition, all: &[Condition]| match **condition {
        Condition::Is(value, 1) if ranges.max(value) == 1 => !all.contains(&Condition::Is(value, 0)),
        _ => true,
    };
    let mut trial = Trial::new(graph, flow, &places, &constants, &ranges);
    let total: usize = graph.blocks.iter().map(|block| block.insts.len() + 1).sum();
    let mut budget = COPIED_MIN.max(total / 2);
    let mut lifts = vec![];
    for (part, conditions) in parts.blocks.iter().zip(conditions) {
        let mut best = None;
        let mut most = GAIN_MIN - 1;
        for &condition in conditions.iter().filter(|condition| is_tried(condition, &conditions)) {
            let outcomes = trial.both(condition, part);
            let gain = outcomes.iter().map(Outcome::gain).max().unwrap_or(0);
            if gain > most {
                best = Some((condition, outcomes));
                most = gain;
            }
        }
        let lift = best.and_then(|(condition, outcomes)| place(graph, flow, condition, outcomes));
        if let Some(lift) = lift
            && lift.copied <= COPIED_MAX.min(budget)
            && lift.copied <= most * COPIED_PER_GAIN
        {
            budget -= lift.copied;
            lifts.push(lift);
        }
    }
    lifts
}

/// The largest parts of the graph that one block dominates and that contain no lookup.
struct Parts {
    /// The blocks of each part, each block before its successors, except for back edges.
    blocks: Vec<Vec<Block>>,
    /// By block: the number of its part; if it has none, a number that no part has.
    of_block: Vec<usize>,
}

impl Parts {
    fn of(graph: &Graph, flow: &ControlFlow) -> Self {
        let mut holds_lookup = vec![false; graph.blocks.len()];
        for &block in flow.order().iter().rev() {
            holds_lookup[block.index()] |= matches!(graph.block(block).terminator, Terminator::Lookup { .. });
            if holds_lookup[block.index()]
                && let Some(above) = flow.immediate_dominator(block)
            {
                holds_lookup[above.index()] = true;
            }
        }
        let mut parts = Self { blocks: vec![], of_block: vec![usize::MAX; graph.blocks.len()] };
        for &block in flow.order().iter().filter(|block| !holds_lookup[block.index()]) {
            let above = flow.immediate_dominator(block).filter(|above| !holds_lookup[above.index()]);
            let part = above.map_or(parts.blocks.len(), |above| parts.of_block[above.index()]);
            if part == parts.blocks.len() {
                parts.blocks.push(vec![]);
            }
            parts.of_block[block.index()] = part;
            parts.blocks[part].push(block);
        }
        parts
    }

    /// The conditions of a part that can be evaluated at its front.
    fn conditions(
        &self,
        graph: &Graph,
        places: &[Place],
        constants: &[Option<u64>],
        part: usize,
    ) -> Vec<Condition> {
        let blocks = &self.blocks[part];
        let is_branch = |block: &&Block| matches!(graph.block(**block).terminator, Terminator::Branch { .. });
        let branches = blocks.iter().filter(is_branch).count();
        if !(PART_MIN..=PART_MAX).contains(&size(graph, blocks)) || branches < BRANCHES_MIN {
            return vec![];
        }
        let is_above = |v: Value| match places[v.index()] {
            Place::Nowhere => false,
            Place::Inst(block, _) => self.of_block[block.index()] != part,
            Place::Param(block, _) => block == blocks[0] || self.of_block[block.index()] != part,
        };
        let mut found = vec![];
        let mut add = |condition: Condition| {
            if found.len() < TRIALS_MAX && is_above(condition.value()) && !found.contains(&condition) {
                found.push(condition);
            }
        };
        for &block in blocks {
            let data = graph.block(block);
            for inst in &data.insts {
                match inst.op {
                    Op::Compare(..) => asked(constants, &inst.op).into_iter().for_each(|(c, _)| add(c)),
                    Op::Not(a) => add(Condition::Holds(a)),
                    Op::Binary(_, a, b) if graph.type_of(a) == Type::Bool => {
                        [a, b].into_iter().for_each(|v| add(Condition::Holds(v)));
                    }
                    _ => {}
                }
            }
            if let Terminator::Branch { condition, .. } = data.terminator {
                add(Condition::Holds(condition));
            }
        }
        found
    }
}

/// The condition that a comparison tests, and the comparison's result if the condition is true.
fn asked(constants: &[Option<u64>], op: &Op) -> Option<(Condition, bool)> {
    let constant = |v: Value| constants.get(v.index()).copied().flatten();
    match *op {
        Op::Compare(CompareOp::Eq, a, b) => Some((Condition::Is(a, constant(b)?), true)),
        Op::Compare(CompareOp::Ne, a, b) => Some((Condition::Is(a, constant(b)?), false)),
        // 0 is less than every number except 0.
        Op::Compare(CompareOp::Lt, a, b) if constant(a) == Some(0) => Some((Condition::Is(b, 0), false)),
        _ => None,
    }
}

/// The place for a condition's test: the last block, and the last position in it, before everything that the
/// condition decides.
fn place(graph: &Graph, flow: &ControlFlow, condition: Condition, outcomes: [Outcome; 2]) -> Option<Lift> {
    let touched = || outcomes.iter().flat_map(|outcome| &outcome.touched);
    let mut head = touched().next()?.0;
    for &(block, _) in touched() {
        while !flow.dominates(head, block) {
            head = flow.immediate_dominator(head)?;
        }
    }
    let first = touched().filter(|(block, _)| *block == head).map(|(_, at)| *at).min();
    let at = first.unwrap_or(graph.block(head).insts.len());
    let below = dominated(graph, flow, head)?;
    let copied = size(graph, &below) + size(graph, &[head]) - at;
    Some(Lift { condition, head, at, below, copied, outcomes })
}

impl Lift {
    fn apply(&self, graph: &mut Graph, is_offset: &[bool], places: &[Place]) {
        let rest = split(graph, self.head, self.at);
        let mut blocks = vec![rest];
        blocks.extend(&self.below);
        let first = copy(graph, &blocks);
        let copies: Vec<Block> = (0..blocks.len() as u32).map(|at| Block(first.0 + at)).collect();
        for (to, outcome) in [&copies, &blocks].into_iter().zip(&self.outcomes) {
            self.write_down(graph, to, outcome, is_offset, places);
        }
        let condition = match self.condition {
            Condition::Holds(value) => value,
            Condition::Is(value, n) => {
                let (number, condition) = (graph.value(Type::Int), graph.value(Type::Bool));
                let insts = &mut graph.blocks[self.head.index()].insts;
                insts.push(Inst { results: smallvec![number], op: Op::Const(n) });
                let op = Op::Compare(CompareOp::Eq, value, number);
                insts.push(Inst { results: smallvec![condition], op });
                condition
            }
        };
        graph.blocks[self.head.index()].terminator =
            Terminator::Branch { condition, then: to(first), otherwise: to(rest) };
    }

    /// Replaces known values by constants: values defined in the blocks, and values from above that the
    /// blocks read.
    fn write_down(
        &self,
        graph: &mut Graph,
        to: &[Block],
        outcome: &Outcome,
        is_offset: &[bool],
        places: &[Place],
    ) {
        let Graph { blocks, values, .. } = graph;
        let mut instead = vec![];
        let mut constants = vec![];
        for &(value, n) in outcome.known.iter().filter(|(value, _)| !is_offset[value.index()]) {
            let op = if values[value.index()] == Type::Bool { Op::Bool(n != 0) } else { Op::Const(n) };
            let home = match places[value.index()] {
                Place::Inst(block, at) if block == self.head && at as usize >= self.at => {
                    Some((0, at as usize - self.at))
                }
                Place::Inst(block, at) => {
                    self.below.iter().position(|&b| b == block).map(|b| (b + 1, at as usize))
                }
                // A parameter's value follows from its arguments: `fold` finds it.
                Place::Param(block, _) if self.below.contains(&block) => continue,
                _ => None,
            };
            match home {
                Some((block, at)) => blocks[to[block].index()].insts[at].op = op,
                None => {
                    let constant = Value(values.len() as u32);
                    values.push(values[value.index()]);
                    constants.push(Inst { results: smallvec![constant], op });
                    instead.push((value, constant));
                }
            }
        }
        replace(graph, to.iter().copied(), &instead);
        let data: &mut BlockData = &mut graph.blocks[to[0].index()];
        data.insts.splice(0..0, constants);
    }
}

//! Turns a chain of comparisons into one switch: blocks that compare the same number with constants, one
//! after the other. A switch with one case becomes a branch.
//!
//! Without this pass a packet tests every layer that could follow one by one; with it, once.

use super::edit::{Order, Place, constants, places, use_counts};
use crate::graph::{BinaryOp, Block, CompareOp, Graph, Inst, Op, Target, Terminator, Type, Value};
use smallvec::smallvec;

/// Minimum number of cases for a switch.
const CASES_MIN: usize = 3;
/// Maximum number of cases of a switch.
const CASES_MAX: usize = 64;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let facts = Facts {
        places: places(graph, &order),
        constants: constants(graph, &order),
        uses: use_counts(graph, &order),
    };
    let mut changed = false;
    for &block in &order.blocks {
        changed |= gather(graph, &facts, block) || unfold(graph, block);
    }
    changed
}

struct Facts {
    places: Vec<Place>,
    constants: Vec<Option<u64>>,
    uses: Vec<u32>,
}

impl Facts {
    fn op<'g>(&self, graph: &'g Graph, value: Value) -> Option<&'g Op> {
        match self.places.get(value.index())? {
            Place::Inst(block, at) => graph.block(*block).insts.get(*at as usize).map(|inst| &inst.op),
            _ => None,
        }
    }

    /// The number that a bool tests, and the constants for which it is true.
    fn equalities(&self, graph: &Graph, condition: Value, numbers: &mut Vec<u64>) -> Option<Value> {
        match *self.op(graph, condition)? {
            Op::Compare(CompareOp::Eq, value, with) => {
                numbers.push(self.constants.get(with.index()).copied().flatten()?);
                Some(value)
            }
            Op::Binary(BinaryOp::Or, a, b) => {
                let (one, other) = (self.equalities(graph, a, numbers)?, self.equalities(graph, b, numbers)?);
                (one == other).then_some(one)
            }
            _ => None,
        }
    }

    /// The test at a block's end: the number, the constants, the target if the number is one of them, and the
    /// target if not.
    fn question<'g>(&self, graph: &'g Graph, block: Block) -> Option<Question<'g>> {
        match &graph.block(block).terminator {
            Terminator::Branch { condition, then, otherwise } => {
                let mut numbers = vec![];
                if let Some(value) = self.equalities(graph, *condition, &mut numbers) {
                    let cases = numbers.into_iter().map(|n| (n, then)).collect();
                    return Some(Question { value, cases, otherwise });
                }
                match *self.op(graph, *condition)? {
                    Op::Compare(CompareOp::Ne, value, with) => {
                        let n = self.constants.get(with.index()).copied().flatten()?;
                        Some(Question { value, cases: vec![(n, otherwise)], otherwise: then })
                    }
                    _ => None,
                }
            }
            Terminator::Switch { value, cases, otherwise } => {
                let cases = cases.iter().map(|(n, target)| (*n, target)).collect();
                Some(Question { value: *value, cases, otherwise })
            }
            _ => None,
        }
    }

    /// Whether the values that a block computes are only used by its own terminator; such a block may be
    /// skipped.
    fn only_asks(&self, graph: &Graph, block: Block) -> bool {
        let data = graph.block(block);
        let mut own = 0;
        let defines = |v: Value| matches!(self.places.get(v.index()), Some(Place::Inst(b, _)) if *b == block);
        data.insts.iter().for_each(|inst| inst.op.for_each_operand(|v| own += u32::from(defines(v))));
        data.terminator.for_each_own_operand(|v| own += u32::from(defines(v)));
        let all: u32 = data
            .insts
            .iter()
            .flat_map(|i| &i.results)
            .map(|v| self.uses.get(v.index()).copied().unwrap_or(0))
            .sum();
        data.params.is_empty() && own == all && data.insts.iter().all(|i| i.op.is_pure())
    }
}

#[derive(Debug)]
struct Question<'g> {
    value: Value,
    cases: Vec<(u64, &'g Target)>,
    otherwise: &'g Target,
}

/// Collects a chain of tests of the same number.
fn gather(graph: &mut Graph, facts: &Facts, block: Block) -> bool {
    let Some(mut chain) = facts.question(graph, block) else { return false };
    let mut links = 1;
    while chain.cases.len() < CASES_MAX {
        let next = chain.otherwise.block;
        if next == block || !facts.only_asks(graph, next) {
            break;
        }
        let Some(question) = facts.question(graph, next) else { break };
        if question.value != chain.value {
            break;
        }
        // The first matching case applies, so repeated constants are dropped.
        for (n, target) in question.cases {
            if !chain.cases.iter().any(|(m, _)| *m == n) {
                chain.cases.push((n, target));
            }
        }
        chain.otherwise = question.otherwise;
        links += 1;
    }
    let is_switch = matches!(graph.block(block).terminator, Terminator::Switch { .. });
    if links == 1 && is_switch || chain.cases.len() < CASES_MIN {
        return false;
    }
    chain.cases.sort_by_key(|(n, _)| *n);
    chain.cases.dedup_by_key(|(n, _)| *n);
    let cases = chain.cases.iter().map(|(n, target)| (*n, (*target).clone())).collect();
    let terminator = Terminator::Switch { value: chain.value, cases, otherwise: chain.otherwise.clone() };
    graph.blocks[block.index()].terminator = terminator;
    true
}

/// Turns a switch with one case into a branch.
fn unfold(graph: &mut Graph, block: Block) -> bool {
    let Terminator::Switch { value, cases, otherwise } = &mut graph.blocks[block.index()].terminator else {
        return false;
    };
    if cases.len() != 1 {
        return false;
    }
    let value = *value;
    let (n, then) = cases.pop().expect("there is one");
    let otherwise = otherwise.clone();
    let (number, condition) = (graph.value(Type::Int), graph.value(Type::Bool));
    let data = &mut graph.blocks[block.index()];
    data.insts.push(Inst { results: smallvec![number], op: Op::Const(n) });
    data.insts.push(Inst { results: smallvec![condition], op: Op::Compare(CompareOp::Eq, value, number) });
    data.terminator = Terminator::Branch { condition, then, otherwise };
    true
}

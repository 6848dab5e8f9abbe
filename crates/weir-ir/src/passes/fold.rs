//! Folds constants: values, branches on constants, unreachable blocks.
//!
//! Sparse conditional constant propagation (Wegman, Zadeck 1991): all values are assumed constant and all
//! blocks unreachable until proven otherwise, so values that are constant only because a branch is never
//! taken are found, too. After propagation, one walk rewrites the graph, and [`simplify`] simplifies the
//! remaining instructions.

mod simplify;

use super::edit::{Order, Replacements, remove_params};
use crate::build::to;
use crate::graph::{BinaryOp, Block, Graph, Inst, Op, Target, Terminator, Type, Value};
use crate::interpret::member;
use simplify::{Facts, Step};
use smallvec::smallvec;

/// The constant propagation state of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// No path to the definition was found so far.
    Nothing,
    /// Always this number; bools as 0 and 1.
    Always(u64),
    /// Varies between packets.
    Varies,
}

impl Known {
    fn meet(self, other: Known) -> Known {
        match (self, other) {
            (Known::Nothing, known) | (known, Known::Nothing) => known,
            (Known::Always(a), Known::Always(b)) if a == b => self,
            _ => Known::Varies,
        }
    }
}

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let solution = Solution::of(graph, &order);
    let mut rewrite = Rewrite {
        facts: Facts::of(graph),
        replacements: Replacements::none(graph),
        scratch: vec![],
        changed: false,
        is_dropped: vec![],
    };
    for &block in &order.blocks {
        if solution.is_executed[block.index()] {
            rewrite.block(graph, &solution, block);
        }
    }
    rewrite.replacements.apply(graph);
    rewrite.is_dropped.resize(graph.values.len(), false);
    if rewrite.is_dropped.contains(&true) {
        remove_params(graph, &rewrite.is_dropped);
    }
    rewrite.changed
}

/// The result of propagation.
struct Solution {
    known: Vec<Known>,
    is_executed: Vec<bool>,
}

impl Solution {
    fn of(graph: &Graph, order: &Order) -> Self {
        let mut solution = Self {
            known: vec![Known::Nothing; graph.values.len()],
            is_executed: vec![false; graph.blocks.len()],
        };
        solution.is_executed[graph.entry.index()] = true;
        // The state of a value changes at most twice; walks in order need two or three rounds.
        loop {
            let mut changed = false;
            for &block in &order.blocks {
                if solution.is_executed[block.index()] {
                    changed |= solution.visit(graph, block);
                }
            }
            if !changed {
                return solution;
            }
        }
    }

    fn visit(&mut self, graph: &Graph, block: Block) -> bool {
        let data = graph.block(block);
        for inst in &data.insts {
            for &result in &inst.results {
                self.known[result.index()] = self.of_op(graph, &inst.op);
            }
        }
        let mut changed = false;
        match &data.terminator {
            Terminator::Branch { condition, then, otherwise } => match self.known[condition.index()] {
                Known::Nothing => {}
                Known::Always(0) => changed |= self.take(graph, otherwise),
                Known::Always(_) => changed |= self.take(graph, then),
                Known::Varies => changed |= self.take(graph, then) | self.take(graph, otherwise),
            },
            Terminator::Switch { value, cases, otherwise } => match self.known[value.index()] {
                Known::Nothing => {}
                Known::Always(n) => {
                    let case = cases.iter().find(|(number, _)| *number == n);
                    changed |= self.take(graph, case.map_or(otherwise, |(_, target)| target));
                }
                Known::Varies => data.terminator.for_each_target(|t| changed |= self.take(graph, t)),
            },
            Terminator::Lookup { then, .. } => {
                for param in &graph.block(*then).params {
                    self.known[param.index()] = Known::Varies;
                }
                changed |= !std::mem::replace(&mut self.is_executed[then.index()], true);
            }
            other => other.for_each_target(|t| changed |= self.take(graph, t)),
        }
        changed
    }

    fn take(&mut self, graph: &Graph, target: &Target) -> bool {
        let mut changed = !std::mem::replace(&mut self.is_executed[target.block.index()], true);
        for (param, arg) in graph.block(target.block).params.iter().zip(&target.args) {
            let met = self.known[param.index()].meet(self.known[arg.index()]);
            changed |= self.known[param.index()] != met;
            self.known[param.index()] = met;
        }
        changed
    }

    fn of_op(&self, graph: &Graph, op: &Op) -> Known {
        use Known::{Always, Nothing, Varies};
        let known = |v: &Value| self.known[v.index()];
        match op {
            Op::Const(n) => Always(*n),
            Op::Bool(b) => Always(u64::from(*b)),
            Op::Binary(op, a, b) => match (op, known(a), known(b)) {
                (_, Always(a), Always(b)) => Always(op.apply(a, b)),
                (BinaryOp::And | BinaryOp::Mul | BinaryOp::Min, Always(0), _)
                | (BinaryOp::And | BinaryOp::Mul | BinaryOp::Min, _, Always(0)) => Always(0),
                (BinaryOp::Or, Always(1), _) | (BinaryOp::Or, _, Always(1))
                    if graph.type_of(*a) == Type::Bool =>
                {
                    Always(1)
                }
                (_, Nothing, _) | (_, _, Nothing) => Nothing,
                _ => Varies,
            },
            Op::Compare(op, a, b) => match (known(a), known(b)) {
                (Always(a), Always(b)) => Always(u64::from(op.apply(a, b))),
                (Nothing, _) | (_, Nothing) => Nothing,
                _ => Varies,
            },
            Op::Not(a) => match known(a) {
                Always(a) => Always(a ^ 1),
                other => other,
            },
            Op::FromBool(a) => known(a),
            Op::Select(condition, a, b) => match known(condition) {
                Nothing => Nothing,
                Always(0) => known(b),
                Always(_) => known(a),
                Varies => known(a).meet(known(b)),
            },
            Op::Member { set, high, low } => match (known(high), known(low)) {
                (Always(h), Always(l)) => Always(u64::from(member(&graph.sets[set.index()], h, l))),
                (Nothing, _) | (_, Nothing) => Nothing,
                _ => Varies,
            },
            _ => Varies,
        }
    }
}

/// Rewrites the graph by the result.
struct Rewrite {
    facts: Facts,
    replacements: Replacements,
    scratch: Vec<Inst>,
    changed: bool,
    is_dropped: Vec<bool>,
}

impl Rewrite {
    fn block(&mut self, graph: &mut Graph, solution: &Solution, block: Block) {
        let mut old = std::mem::take(&mut graph.blocks[block.index()].insts);
        let mut new = std::mem::take(&mut self.scratch);
        for at in 0..graph.block(block).params.len() {
            let param = graph.block(block).params[at];
            if let Known::Always(n) = solution.known[param.index()] {
                let inst = Inst { results: smallvec![param], op: constant(graph.type_of(param), n) };
                self.facts.learn(graph, &inst);
                new.push(inst);
                self.drop_param(param);
            }
        }
        for mut inst in old.drain(..) {
            inst.op.map_operands(|v| self.replacements.of(v));
            if inst.op.is_pure() && !self.inst(graph, solution, &mut inst, &mut new) {
                continue;
            }
            self.facts.learn(graph, &inst);
            new.push(inst);
        }
        let mut terminator =
            std::mem::replace(&mut graph.blocks[block.index()].terminator, Terminator::Restart);
        terminator.map_operands(|v| self.replacements.of(v));
        self.terminator(solution, &mut terminator);
        let data = &mut graph.blocks[block.index()];
        data.insts = new;
        data.terminator = terminator;
        self.scratch = old;
    }

    /// Simplifies a pure instruction. Returns whether the instruction is still needed.
    fn inst(&mut self, graph: &mut Graph, solution: &Solution, inst: &mut Inst, new: &mut Vec<Inst>) -> bool {
        let result = inst.results[0];
        if matches!(inst.op, Op::Const(_) | Op::Bool(_)) {
            return true;
        }
        // Values created by this pass are not in the solution.
        if let Some(Known::Always(n)) = solution.known.get(result.index()) {
            inst.op = constant(graph.type_of(result), *n);
            self.changed = true;
            return true;
        }
        // Every step makes the instruction smaller, so a few steps suffice.
        for _ in 0..8 {
            match simplify::simplify(graph, &self.facts, &inst.op) {
                Step::Keep => return true,
                Step::Same(value) => {
                    self.replacements.replace(result, value);
                    self.changed = true;
                    return false;
                }
                Step::Constant(n) => {
                    inst.op = constant(graph.type_of(result), n);
                    self.changed = true;
                    return true;
                }
                Step::Instead(op) => inst.op = op,
                Step::With(op, a, n) => {
                    let value = graph.value(Type::Int);
                    let made = Inst { results: smallvec![value], op: Op::Const(n) };
                    self.facts.learn(graph, &made);
                    new.push(made);
                    inst.op = Op::Binary(op, a, value);
                }
            }
            self.changed = true;
        }
        true
    }

    fn terminator(&mut self, solution: &Solution, terminator: &mut Terminator) {
        let known = |v: Value, facts: &Facts| match solution.known.get(v.index()) {
            Some(Known::Always(n)) => Some(*n),
            _ => facts.constant(v),
        };
        let only = match terminator {
            Terminator::Branch { condition, then, otherwise } => match known(*condition, &self.facts) {
                Some(n) => Some(std::mem::replace(if n == 0 { otherwise } else { then }, nowhere())),
                None if then == otherwise => Some(std::mem::replace(then, nowhere())),
                None => {
                    if let Some(inner) = self.facts.negated(*condition) {
                        *condition = inner;
                        std::mem::swap(then, otherwise);
                        self.changed = true;
                    }
                    None
                }
            },
            Terminator::Switch { value, cases, otherwise } => match known(*value, &self.facts) {
                Some(n) => {
                    let case = cases.iter_mut().find(|(number, _)| *number == n).map(|(_, target)| target);
                    Some(std::mem::replace(case.unwrap_or(otherwise), nowhere()))
                }
                None => {
                    let (before, max) = (cases.len(), self.facts.max(*value));
                    cases.retain(|(number, _)| *number <= max);
                    // A repeated case is never taken; a case with the target of `otherwise` is redundant.
                    for at in (0..cases.len()).rev() {
                        let is_shadowed = cases[..at].iter().any(|(number, _)| *number == cases[at].0);
                        if is_shadowed {
                            cases.remove(at);
                        }
                    }
                    cases.retain(|(_, target)| target != otherwise);
                    self.changed |= before != cases.len();
                    cases.is_empty().then(|| std::mem::replace(otherwise, nowhere()))
                }
            },
            Terminator::Check { then, otherwise, .. } if then == otherwise => {
                Some(std::mem::replace(then, nowhere()))
            }
            _ => None,
        };
        if let Some(only) = only {
            *terminator = Terminator::Jump(only);
            self.changed = true;
        }
    }

    fn drop_param(&mut self, param: Value) {
        if self.is_dropped.len() <= param.index() {
            self.is_dropped.resize(param.index() + 1, false);
        }
        self.is_dropped[param.index()] = true;
        self.changed = true;
    }
}

/// A placeholder for a target that will be dropped.
fn nowhere() -> Target {
    to(Block(0))
}

fn constant(ty: Type, n: u64) -> Op {
    if ty == Type::Bool { Op::Bool(n != 0) } else { Op::Const(n) }
}

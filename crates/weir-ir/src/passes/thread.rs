//! Threads jumps: an edge that hands a block constants by which it decides goes where it will decide to.
//!
//! A block whose branch depends on its parameters is copied for each edge on which the branch then only
//! has one way; the last blocks, where predicates become terms, are copied for edges that say what the
//! predicates are. So "is it ARP? then no predicate holds, then no term" becomes `done 0`, and all
//! that was done only for the predicates is dead.
//!
//! Only small blocks are copied, only if nobody reads what they define but themselves, and only as long as
//! the graph does not grow beyond a bound.

use super::edit::{Order, constants, use_counts};
use super::evaluate::evaluate;
use crate::graph::{Block, BlockData, Graph, Inst, Op, Target, Terminator, Value, Values};

/// Instructions of a block that is copied, at most.
const INSTS_MAX: usize = 48;
/// Instructions added in one run, at most: so many, or a quarter of the graph.
const GROWTH_MIN: usize = 256;

/// Runs the pass; whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let uses = use_counts(graph, &order);
    let constants = constants(graph, &order);
    let total: usize = graph.blocks.iter().map(|b| b.insts.len()).sum();
    let mut thread = Thread { budget: GROWTH_MIN.max(total / 4), known: constants, trail: vec![] };
    let candidates: Vec<bool> = graph.block_ids().map(|b| is_copyable(graph, &uses, b)).collect();
    let mut changed = false;
    for &block in &order.blocks {
        // The terminator is taken out while its targets change: copies are appended to the graph.
        let mut terminator =
            std::mem::replace(&mut graph.blocks[block.index()].terminator, Terminator::Restart);
        terminator.for_each_target_mut(|target| {
            let is_new = target.block.index() >= candidates.len();
            if !is_new
                && target.block != block
                && candidates[target.block.index()]
                && order.edges_in[target.block.index()] > 1
            {
                changed |= thread.edge(graph, target);
            }
        });
        graph.blocks[block.index()].terminator = terminator;
    }
    changed
}

/// Whether a copy of a block is cheap, and nobody but the block reads what it defines.
fn is_copyable(graph: &Graph, uses: &[u32], block: Block) -> bool {
    let data = graph.block(block);
    let ends_well = matches!(
        data.terminator,
        Terminator::Done { .. } | Terminator::Branch { .. } | Terminator::Switch { .. }
    );
    if data.params.is_empty() || data.insts.len() > INSTS_MAX || !ends_well {
        return false;
    }
    // Copies of a load stand behind the same check: it dominates all edges to the block.
    if data.insts.iter().any(|inst| !inst.op.is_pure() && !matches!(inst.op, Op::Store { .. })) {
        return false;
    }
    if matches!(data.terminator, Terminator::Done { .. }) {
        return true;
    }
    let mut own = 0;
    let defined = |v: Value| data.params.contains(&v) || data.insts.iter().any(|i| i.results.contains(&v));
    let mut count = |v: Value| own += u32::from(defined(v));
    data.insts.iter().for_each(|inst| inst.op.for_each_operand(&mut count));
    data.terminator.for_each_operand(&mut count);
    let all: u32 = data
        .params
        .iter()
        .chain(data.insts.iter().flat_map(|inst| &inst.results))
        .map(|v| uses[v.index()])
        .sum();
    own == all
}

struct Thread {
    budget: usize,
    /// The constants that values are; while an edge is followed, of the block's own values, too.
    known: Vec<Option<u64>>,
    /// Values whose entry is to be cleared after the edge.
    trail: Vec<Value>,
}

impl Thread {
    /// Copies the block for this edge if that decides something.
    fn edge(&mut self, graph: &mut Graph, target: &mut Target) -> bool {
        let data = graph.block(target.block);
        if data.insts.len() > self.budget {
            return false;
        }
        let mut any = false;
        for (&param, &arg) in data.params.iter().zip(&target.args) {
            if let Some(n) = self.known.get(arg.index()).copied().flatten() {
                self.learn(param, n);
                any = true;
            }
        }
        let decides = any && self.decides(graph, data);
        for value in self.trail.drain(..) {
            self.known[value.index()] = None;
        }
        if decides {
            self.budget -= data.insts.len();
            copy_for(graph, target);
        }
        decides
    }

    fn learn(&mut self, value: Value, n: u64) {
        if self.known[value.index()].is_none() {
            self.known[value.index()] = Some(n);
            self.trail.push(value);
        }
    }

    /// Whether the block's end is decided by what is known of its parameters.
    fn decides(&mut self, graph: &Graph, data: &BlockData) -> bool {
        let mut computed = 0;
        for inst in &data.insts {
            if inst.results.len() == 1
                && self.known[inst.results[0].index()].is_none()
                && let Some(n) = evaluate(graph, &inst.op, |v| self.known[v.index()])
            {
                self.learn(inst.results[0], n);
                computed += 1;
            }
        }
        match &data.terminator {
            Terminator::Branch { condition: v, .. } | Terminator::Switch { value: v, .. } => {
                self.known[v.index()].is_some()
            }
            // Terms that are known, or nearly: most of what computes them goes away.
            Terminator::Done { terms, .. } => {
                self.known[terms.index()].is_some() && computed > 0 || computed * 2 > data.insts.len()
            }
            _ => false,
        }
    }
}

/// Appends a copy of the block with the arguments in place of its parameters and goes there.
fn copy_for(graph: &mut Graph, target: &mut Target) {
    let BlockData { params, insts, terminator } = graph.block(target.block).clone();
    let mut renamed: Vec<(Value, Value)> = params.into_iter().zip(target.args.drain(..)).collect();
    let rename = |renamed: &[(Value, Value)], v: Value| {
        renamed.iter().find(|(from, _)| *from == v).map_or(v, |(_, to)| *to)
    };
    let mut copies = Vec::with_capacity(insts.len());
    for Inst { results, mut op } in insts {
        op.map_operands(|v| rename(&renamed, v));
        let mut copy = Values::new();
        for result in results {
            let value = graph.value(graph.type_of(result));
            renamed.push((result, value));
            copy.push(value);
        }
        copies.push(Inst { results: copy, op });
    }
    let mut terminator = terminator;
    terminator.map_operands(|v| rename(&renamed, v));
    graph.blocks.push(BlockData { params: vec![], insts: copies, terminator });
    target.block = Block(graph.blocks.len() as u32 - 1);
}

//! Jump threading: an edge that passes constants which decide the target's branch goes directly to the
//! branch's target.
//!
//! A block whose branch depends on its parameters is copied for each edge that decides the branch. The last
//! blocks, in which predicates become terms, are copied for edges that pass known predicates. So "ARP,
//! therefore no predicate holds, therefore no term" becomes `done 0`, and all code that only computed the
//! predicates is dead.
//!
//! Only small blocks are copied, only if their definitions are not used elsewhere, and only while the graph
//! stays below a size limit.

use super::edit::{Order, constants, use_counts};
use super::evaluate::evaluate;
use crate::graph::{Block, BlockData, Graph, Inst, Op, Target, Terminator, Value, Values};

/// Maximum number of instructions of a copied block.
const INSTS_MAX: usize = 48;
/// Maximum number of instructions added in one run: this many, or a quarter of the graph.
const GROWTH_MIN: usize = 256;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let uses = use_counts(graph, &order);
    let constants = constants(graph, &order);
    let total: usize = graph.blocks.iter().map(|b| b.insts.len()).sum();
    let mut thread = Thread { budget: GROWTH_MIN.max(total / 4), known: constants, trail: vec![] };
    let candidates: Vec<bool> = graph.block_ids().map(|b| is_copyable(graph, &uses, b)).collect();
    let mut changed = false;
    for &block in &order.blocks {
        // The terminator is moved out while its targets change, because copies are appended to the graph.
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

/// Whether a block is cheap to copy, and its definitions are not used elsewhere.
fn is_copyable(graph: &Graph, uses: &[u32], block: Block) -> bool {
    let data = graph.block(block);
    let ends_well = matches!(
        data.terminator,
        Terminator::Done { .. } | Terminator::Branch { .. } | Terminator::Switch { .. }
    );
    if data.params.is_empty() || data.insts.len() > INSTS_MAX || !ends_well {
        return false;
    }
    // Copied loads keep their check, which dominates all edges to the block.
    if data
        .insts
        .iter()
        .any(|inst| !inst.op.is_pure() && !matches!(inst.op, Op::Store { .. } | Op::Note { .. }))
    {
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
    /// By value: its constant; while an edge is followed, also for the block's own values.
    known: Vec<Option<u64>>,
    /// Values whose entry must be cleared after the edge.
    trail: Vec<Value>,
}

impl Thread {
    /// Copies the block for this edge if the edge decides its terminator.
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

    /// Whether the known parameters decide the block's terminator.
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
            // Terms that are known, or nearly: most of their computation disappears.
            Terminator::Done { terms, .. } => {
                self.known[terms.index()].is_some() && computed > 0 || computed * 2 > data.insts.len()
            }
            _ => false,
        }
    }
}

/// Appends a copy of the block in which the arguments replace the parameters, and redirects the edge to it.
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

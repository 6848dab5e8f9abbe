//! Shared by passes: definitions of values, edges between blocks, and replacement of values.
//!
//! Everything is indexed by number and recomputed by each pass: a graph of thousands of instructions is
//! walked in microseconds, and nothing can become stale.

use crate::graph::{Block, Graph, Op, Value};

/// No block, no position.
pub(super) const NONE: u32 = u32::MAX;

/// The reachable blocks in reverse postorder, and the number of edges to each block.
#[derive(Debug)]
pub(super) struct Order {
    /// Each block before its successors, except for back edges.
    pub blocks: Vec<Block>,
    /// By block: number of edges from reachable blocks; the entry has one more.
    pub edges_in: Vec<u32>,
}

impl Order {
    /// Walks the graph.
    pub fn of(graph: &Graph) -> Self {
        let mut edges_in = vec![0; graph.blocks.len()];
        let mut blocks = Vec::with_capacity(graph.blocks.len());
        // A block is on the stack once to be entered, and once more (marked) to be left.
        let mut stack = vec![(graph.entry, false)];
        let mut entered = vec![false; graph.blocks.len()];
        edges_in[graph.entry.index()] = 1;
        while let Some((block, left)) = stack.pop() {
            if left {
                blocks.push(block);
                continue;
            }
            if std::mem::replace(&mut entered[block.index()], true) {
                continue;
            }
            stack.push((block, true));
            graph.block(block).terminator.for_each_successor(|next| {
                edges_in[next.index()] += 1;
                if !entered[next.index()] {
                    stack.push((next, false));
                }
            });
        }
        blocks.reverse();
        Self { blocks, edges_in }
    }

    /// Whether the block is reachable from the entry.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.edges_in[block.index()] > 0
    }
}

/// The definition of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Not defined in a reachable block.
    Nowhere,
    /// A parameter.
    Param(Block, u32),
    /// A result of an instruction.
    Inst(Block, u32),
}

/// The definitions of all values of reachable blocks.
pub(super) fn places(graph: &Graph, order: &Order) -> Vec<Place> {
    let mut places = vec![Place::Nowhere; graph.values.len()];
    for &block in &order.blocks {
        let data = graph.block(block);
        for (at, param) in data.params.iter().enumerate() {
            places[param.index()] = Place::Param(block, at as u32);
        }
        for (at, inst) in data.insts.iter().enumerate() {
            for result in &inst.results {
                places[result.index()] = Place::Inst(block, at as u32);
            }
        }
    }
    places
}

/// The number that an instruction always yields; bools as 0 and 1.
pub(super) fn constant_of(op: &Op) -> Option<u64> {
    match op {
        Op::Const(n) => Some(*n),
        Op::Bool(b) => Some(u64::from(*b)),
        _ => None,
    }
}

/// By value: the constant, if a constant defines the value.
pub(super) fn constants(graph: &Graph, order: &Order) -> Vec<Option<u64>> {
    let mut constants = vec![None; graph.values.len()];
    for &block in &order.blocks {
        for inst in &graph.block(block).insts {
            if let Some(n) = constant_of(&inst.op) {
                constants[inst.results[0].index()] = Some(n);
            }
        }
    }
    constants
}

/// By value: number of reads in reachable blocks.
pub(super) fn use_counts(graph: &Graph, order: &Order) -> Vec<u32> {
    let mut counts = vec![0; graph.values.len()];
    for &block in &order.blocks {
        let data = graph.block(block);
        data.insts.iter().for_each(|inst| inst.op.for_each_operand(|v| counts[v.index()] += 1));
        data.terminator.for_each_operand(|v| counts[v.index()] += 1);
    }
    counts
}

/// A mapping from values to their replacements.
#[derive(Debug)]
pub(super) struct Replacements {
    with: Vec<Value>,
    any: bool,
}

impl Replacements {
    /// An empty mapping.
    pub fn none(graph: &Graph) -> Self {
        Self { with: (0..graph.values.len() as u32).map(Value).collect(), any: false }
    }

    /// Replaces `value` by `with` from now on.
    pub fn replace(&mut self, value: Value, with: Value) {
        let with = self.of(with);
        debug_assert_ne!(value, with, "a value cannot stand for itself");
        self.with[value.index()] = with;
        self.any = true;
    }

    /// The replacement of `value`, or `value` itself.
    pub fn of(&self, mut value: Value) -> Value {
        if !self.any {
            return value;
        }
        while let Some(&with) = self.with.get(value.index())
            && with != value
        {
            value = with;
        }
        value
    }

    /// Replaces the operands of all blocks.
    pub fn apply(&self, graph: &mut Graph) {
        if !self.any {
            return;
        }
        for block in &mut graph.blocks {
            block.insts.iter_mut().for_each(|inst| inst.op.map_operands(|v| self.of(v)));
            block.terminator.map_operands(|v| self.of(v));
        }
    }
}

/// Removes the parameters marked in `is_dropped` and their arguments.
pub(super) fn remove_params(graph: &mut Graph, is_dropped: &[bool]) {
    let Graph { blocks, .. } = graph;
    // Arguments first: they are matched with the old parameters.
    for at in 0..blocks.len() {
        let mut terminator = std::mem::replace(&mut blocks[at].terminator, crate::graph::Terminator::Restart);
        terminator.for_each_target_mut(|target| {
            let params = &blocks[target.block.index()].params;
            if params.iter().any(|p| is_dropped[p.index()]) {
                let mut place = 0;
                target.args.retain(|_| {
                    place += 1;
                    !is_dropped[params[place - 1].index()]
                });
            }
        });
        blocks[at].terminator = terminator;
    }
    blocks.iter_mut().for_each(|block| block.params.retain(|p| !is_dropped[p.index()]));
}

/// Removes unreachable blocks and renumbers the others. Returns whether there were any.
pub(super) fn remove_unreachable(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    if order.blocks.len() == graph.blocks.len() {
        return false;
    }
    let mut number = vec![NONE; graph.blocks.len()];
    let reachable = graph.block_ids().filter(|&block| order.is_reachable(block));
    reachable.enumerate().for_each(|(new, block)| number[block.index()] = new as u32);
    let mut at = 0;
    graph.blocks.retain(|_| {
        at += 1;
        number[at - 1] != NONE
    });
    renumber_blocks(graph, &number);
    true
}

/// Replaces all references to blocks by their new numbers.
pub(super) fn renumber_blocks(graph: &mut Graph, number: &[u32]) {
    graph.entry = Block(number[graph.entry.index()]);
    for block in &mut graph.blocks {
        if let crate::graph::Terminator::Lookup { then, .. } = &mut block.terminator {
            *then = Block(number[then.index()]);
        }
        block.terminator.for_each_target_mut(|t| t.block = Block(number[t.block.index()]));
    }
}

//! Orders and renumbers the graph for readers and for code layout: blocks in the order of execution, blocks
//! that only lead to a drop reason last; blocks and values numbered without gaps.

use super::edit::{NONE, Order, renumber_blocks};
use crate::graph::{Block, Graph, Inst, Terminator, Type, Value};

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let is_cold = cold(graph, &order);
    let mut blocks: Vec<Block> = order.blocks.iter().copied().filter(|b| !is_cold[b.index()]).collect();
    blocks.extend(order.blocks.iter().filter(|b| is_cold[b.index()]));
    let changed = order_blocks(graph, &blocks);
    changed | number_values(graph)
}

/// The blocks from which every path leads to an end with a reason.
fn cold(graph: &Graph, order: &Order) -> Vec<bool> {
    let mut is_cold = vec![false; graph.blocks.len()];
    for &block in order.blocks.iter().rev().filter(|&&block| block != graph.entry) {
        let terminator = &graph.block(block).terminator;
        is_cold[block.index()] = match terminator {
            Terminator::Done { reason, .. } => reason.is_some(),
            Terminator::Rejoin { lookup: None, .. } => true,
            Terminator::Restart | Terminator::Lookup { .. } | Terminator::Rejoin { .. } => false,
            other => {
                let mut all = true;
                other.for_each_successor(|next| all &= is_cold[next.index()]);
                all
            }
        };
    }
    is_cold
}

fn order_blocks(graph: &mut Graph, blocks: &[Block]) -> bool {
    let is_ordered = blocks.iter().enumerate().all(|(at, block)| block.index() == at);
    if is_ordered && blocks.len() == graph.blocks.len() {
        return false;
    }
    let mut number = vec![NONE; graph.blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        number[block.index()] = at as u32;
    }
    let mut old: Vec<_> = std::mem::take(&mut graph.blocks).into_iter().map(Some).collect();
    graph.blocks = blocks.iter().map(|b| old[b.index()].take().expect("every block once")).collect();
    renumber_blocks(graph, &number);
    true
}

fn number_values(graph: &mut Graph) -> bool {
    let mut number = vec![NONE; graph.values.len()];
    let mut types: Vec<Type> = Vec::with_capacity(graph.values.len());
    for block in &graph.blocks {
        let results = block.insts.iter().flat_map(|inst: &Inst| &inst.results);
        for value in block.params.iter().chain(results) {
            number[value.index()] = types.len() as u32;
            types.push(graph.values[value.index()]);
        }
    }
    let is_numbered = number.iter().enumerate().all(|(at, &n)| n == at as u32);
    if is_numbered {
        return false;
    }
    graph.values = types;
    let new = |v: Value| Value(number[v.index()]);
    for block in &mut graph.blocks {
        block.params.iter_mut().for_each(|v| *v = new(*v));
        for inst in &mut block.insts {
            inst.results.iter_mut().for_each(|v| *v = new(*v));
            inst.op.map_operands(new);
        }
        block.terminator.map_operands(new);
    }
    true
}

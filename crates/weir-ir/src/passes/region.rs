//! Shared by passes that copy part of a graph: splits a block, and copies all blocks that a block dominates.
//!
//! Values leave a dominated region only as arguments: a value defined in the region is not read outside. So a
//! copy with values of its own can be added beside the region, and the rest of the graph stays unchanged.

use super::edit::Order;
use crate::build::to;
use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, BlockData, Graph, Op, Terminator, Value};

/// The blocks that `head` dominates, without `head`, each before its successors, except for back edges.
/// `None` if one of them or `head` ends in a lookup, because the block after a lookup belongs to one lookup
/// only.
pub(super) fn dominated(graph: &Graph, flow: &ControlFlow, head: Block) -> Option<Vec<Block>> {
    let is_lookup = |block: Block| matches!(graph.block(block).terminator, Terminator::Lookup { .. });
    let below = flow.order().iter().copied().filter(|&block| block != head && flow.dominates(head, block));
    let blocks: Vec<Block> = below.collect();
    (!is_lookup(head) && !blocks.iter().any(|&block| is_lookup(block))).then_some(blocks)
}

/// Number of instructions and terminators of blocks.
pub(super) fn size(graph: &Graph, blocks: &[Block]) -> usize {
    blocks.iter().map(|&block| graph.block(block).insts.len() + 1).sum()
}

/// Moves everything after the first `at` instructions of a block to a new block, to which the old one jumps.
pub(super) fn split(graph: &mut Graph, block: Block, at: usize) -> Block {
    let rest = Block(graph.blocks.len() as u32);
    let data = &mut graph.blocks[block.index()];
    let insts = data.insts.split_off(at);
    let jump = Terminator::Jump(to(rest));
    let terminator = std::mem::replace(&mut data.terminator, jump);
    graph.blocks.push(BlockData { params: vec![], insts, terminator });
    rest
}

/// Appends a copy of `blocks`, which define all values that they read except those of blocks that dominate
/// them all. Returns the first copied block; the others follow in the same order.
pub(super) fn copy(graph: &mut Graph, blocks: &[Block]) -> Block {
    let first = graph.blocks.len() as u32;
    let mut number: Vec<u32> = (0..first).collect();
    let mut values: Vec<Value> = (0..graph.values.len() as u32).map(Value).collect();
    for (at, &block) in blocks.iter().enumerate() {
        number[block.index()] = first + at as u32;
        let Graph { blocks, values: types, .. } = graph;
        let data = &blocks[block.index()];
        for &value in data.params.iter().chain(data.insts.iter().flat_map(|inst| &inst.results)) {
            values[value.index()] = Value(types.len() as u32);
            types.push(types[value.index()]);
        }
    }
    let read = |v: Value| values[v.index()];
    for &block in blocks {
        let mut copy = graph.block(block).clone();
        copy.params.iter_mut().for_each(|v| *v = read(*v));
        for inst in &mut copy.insts {
            inst.results.iter_mut().for_each(|v| *v = read(*v));
            inst.op.map_operands(read);
        }
        copy.terminator.map_operands(read);
        copy.terminator.for_each_target_mut(|t| t.block = Block(number[t.block.index()]));
        graph.blocks.push(copy);
    }
    Block(first)
}

/// Replaces operands of blocks: `with` instead of `value`, for each pair (value, with).
pub(super) fn replace(graph: &mut Graph, blocks: impl Iterator<Item = Block>, pairs: &[(Value, Value)]) {
    let read = |v: Value| pairs.iter().find(|(value, _)| *value == v).map_or(v, |(_, with)| *with);
    for block in blocks {
        let data = &mut graph.blocks[block.index()];
        data.insts.iter_mut().for_each(|inst| inst.op.map_operands(read));
        data.terminator.map_operands(read);
    }
}

/// By value: whether the proof of a load may use it as a root. Instructions that read such a value must keep
/// reading it, even if its number is known.
pub(super) fn offsets(graph: &Graph, order: &Order) -> Vec<bool> {
    let mut is_offset = vec![false; graph.values.len()];
    loop {
        let mut changed = false;
        let mut mark = |v: Value, is_offset: &mut Vec<bool>| {
            changed |= !std::mem::replace(&mut is_offset[v.index()], true);
        };
        // Backward, so that most are found in one walk.
        for &block in order.blocks.iter().rev() {
            let data = graph.block(block);
            if let Terminator::Check { offset, .. } = data.terminator {
                mark(offset, &mut is_offset);
            }
            data.terminator.for_each_target(|target| {
                for (param, &arg) in graph.block(target.block).params.iter().zip(&target.args) {
                    if is_offset[param.index()] {
                        mark(arg, &mut is_offset);
                    }
                }
            });
            for inst in data.insts.iter().rev() {
                match inst.op {
                    Op::Load { offset, .. } => mark(offset, &mut is_offset),
                    Op::Binary(BinaryOp::Add, a, b) if is_offset[inst.results[0].index()] => {
                        mark(a, &mut is_offset);
                        mark(b, &mut is_offset);
                    }
                    _ => {}
                }
            }
        }
        if !changed {
            return is_offset;
        }
    }
}

//! What passes share that copy part of a graph: splitting a block, and copying all that it dominates.
//!
//! What a block dominates is left only with arguments: a value that is defined in it is read in it. So a copy
//! with values of its own fits in beside it, and nothing outside has to be told.

use super::edit::Order;
use crate::build::to;
use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, BlockData, Graph, Op, Terminator, Value};

/// The blocks that `head` dominates, itself left out, each before what it leads to, as far as loops permit.
/// `None` where a lookup is among them, or ends `head`: the block after a lookup belongs to one lookup alone.
pub(super) fn dominated(graph: &Graph, flow: &ControlFlow, head: Block) -> Option<Vec<Block>> {
    let is_lookup = |block: Block| matches!(graph.block(block).terminator, Terminator::Lookup { .. });
    let below = flow.order().iter().copied().filter(|&block| block != head && flow.dominates(head, block));
    let blocks: Vec<Block> = below.collect();
    (!is_lookup(head) && !blocks.iter().any(|&block| is_lookup(block))).then_some(blocks)
}

/// Instructions of blocks, and their ends.
pub(super) fn size(graph: &Graph, blocks: &[Block]) -> usize {
    blocks.iter().map(|&block| graph.block(block).insts.len() + 1).sum()
}

/// What follows the first `at` instructions of a block becomes a block of its own, to which it jumps.
pub(super) fn split(graph: &mut Graph, block: Block, at: usize) -> Block {
    let rest = Block(graph.blocks.len() as u32);
    let data = &mut graph.blocks[block.index()];
    let insts = data.insts.split_off(at);
    let jump = Terminator::Jump(to(rest));
    let terminator = std::mem::replace(&mut data.terminator, jump);
    graph.blocks.push(BlockData { params: vec![], insts, terminator });
    rest
}

/// Appends a copy of `blocks`, which define all that they read but for what dominates them all. Its first
/// block; the others follow in the same order.
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

/// From now on blocks read `with` instead of `value`, for each pair (value, with).
pub(super) fn replace(graph: &mut Graph, blocks: impl Iterator<Item = Block>, pairs: &[(Value, Value)]) {
    let read = |v: Value| pairs.iter().find(|(value, _)| *value == v).map_or(v, |(_, with)| *with);
    for block in blocks {
        let data = &mut graph.blocks[block.index()];
        data.insts.iter_mut().for_each(|inst| inst.op.map_operands(read));
        data.terminator.map_operands(read);
    }
}

/// By value: whether a proof that bytes are there may count from it, so that what reads it must go on
/// reading it, even where its number is known.
pub(super) fn offsets(graph: &Graph, order: &Order) -> Vec<bool> {
    let mut is_offset = vec![false; graph.values.len()];
    loop {
        let mut changed = false;
        let mut mark = |v: Value, is_offset: &mut Vec<bool>| {
            changed |= !std::mem::replace(&mut is_offset[v.index()], true);
        };
        // Backwards, so that most are found in one walk.
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

//! Live values by block, and the values that must be kept across a lookup.

use crate::graph::{Block, Fuel, Graph, Op, Table, Terminator, Type, Value};

/// The blocks that end in a lookup, by number. The index of a lookup in this list is its resume point
/// ([`crate::abi::Continuation::resume`]), in the interpreter and in native code.
pub fn lookups(graph: &Graph) -> Vec<Block> {
    graph
        .block_ids()
        .filter(|&block| matches!(graph.block(block).terminator, Terminator::Lookup { .. }))
        .collect()
}

/// No lookup, or different ones.
pub(crate) const NO_LOOKUP: u32 = u32::MAX;

/// By block: the block of the lookup whose flow is current there; [`NO_LOOKUP`] before any lookup, or if
/// several are possible. `order` has the reachable blocks, each before its successors, except for back edges.
pub(crate) fn last_lookups(graph: &Graph, order: &[Block]) -> Vec<u32> {
    const UNSEEN: u32 = NO_LOOKUP - 1;
    let mut last = vec![UNSEEN; graph.blocks.len()];
    last[graph.entry.index()] = NO_LOOKUP;
    loop {
        let mut changed = false;
        for &block in order {
            let data = graph.block(block);
            let is_lookup = matches!(data.terminator, Terminator::Lookup { .. });
            let out = if is_lookup { block.0 } else { last[block.index()] };
            data.terminator.for_each_successor(|next| {
                let slot = &mut last[next.index()];
                let new = if *slot == UNSEEN || *slot == out { out } else { NO_LOOKUP };
                changed |= *slot != new;
                *slot = new;
            });
        }
        if !changed {
            return last;
        }
    }
}

/// The values that are live across the lookup that ends `block`, by number: the values that later blocks
/// need, except the parameters of the next block. Computes the liveness of the whole graph; see
/// [`Liveness::across`] for many lookups.
///
/// # Panics
/// If `block` does not end in a lookup.
pub fn live_across(graph: &Graph, block: Block) -> Vec<Value> {
    Liveness::of(graph).across(graph, block)
}

/// A lookup, and the values that must be kept across it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The block that ends in the lookup.
    pub from: Block,
    /// The table of the lookup.
    pub table: Table,
    /// The block after it.
    pub then: Block,
    /// The live values, in the order of [`crate::abi::Continuation::live`], except constants and the frame,
    /// which are rematerialized.
    pub values: Vec<Value>,
    /// Loops that may be reached after the lookup.
    pub fuels: Vec<Fuel>,
}

/// The values across every lookup, in the order of [`lookups`].
pub fn crossings(graph: &Graph) -> Vec<Crossing> {
    Kept::of(graph).map(|kept| kept.crossings(graph)).unwrap_or_default()
}

/// The values that must be kept where control leaves a part of a graph.
#[derive(Debug)]
pub struct Kept {
    /// Live values, including constants and the frame.
    pub liveness: Liveness,
    is_made_anew: Vec<bool>,
}

impl Kept {
    /// The kept values of a graph; `None` if the graph has no lookups; stateless questions, which have the
    /// largest graphs, have none.
    pub fn of(graph: &Graph) -> Option<Self> {
        let is_lookup = |block| matches!(graph.block(block).terminator, Terminator::Lookup { .. });
        graph.block_ids().any(is_lookup).then(|| {
            let mut is_made_anew = vec![false; graph.values.len()];
            for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
                if let Op::Const(_) | Op::Bool(_) | Op::Frame = inst.op {
                    is_made_anew[inst.results[0].index()] = true;
                }
            }
            Self { liveness: Liveness::of(graph), is_made_anew }
        })
    }

    /// The live values at the start of `block`, by number, except its parameters, constants and the frame,
    /// which are rematerialized.
    pub fn at(&self, block: Block) -> Vec<Value> {
        let mut values = self.liveness.live_in(block);
        values.retain(|v| !self.is_made_anew[v.index()]);
        values
    }

    /// As [`crossings`].
    pub fn crossings(&self, graph: &Graph) -> Vec<Crossing> {
        let crossing = |from: Block| match graph.block(from).terminator {
            Terminator::Lookup { table, then, .. } => {
                Some(Crossing { from, table, then, values: self.at(then), fuels: fuels_after(graph, then) })
            }
            _ => None,
        };
        lookups(graph).into_iter().filter_map(crossing).collect()
    }
}

fn fuels_after(graph: &Graph, then: Block) -> Vec<Fuel> {
    let mut seen = vec![false; graph.blocks.len()];
    let (mut pending, mut fuels) = (vec![then], vec![]);
    while let Some(block) = pending.pop() {
        if std::mem::replace(&mut seen[block.index()], true) {
            continue;
        }
        let terminator = &graph.block(block).terminator;
        if let Terminator::Again { fuel, .. } = terminator
            && !fuels.contains(fuel)
        {
            fuels.push(*fuel);
        }
        terminator.for_each_successor(|next| pending.push(next));
    }
    fuels
}

/// Number of words of [`crate::abi::Continuation::live`] that values take: two per buffer, one per number.
/// Bools take one byte each, before the other values.
pub fn live_words(graph: &Graph, values: &[Value]) -> usize {
    let words = |&value: &Value| match graph.type_of(value) {
        Type::Buf => 2,
        Type::Int => 1,
        Type::Bool | Type::Flow(_) => 0,
    };
    words_of_bools(graph, values) + values.iter().map(words).sum::<usize>()
}

/// The part of these words that bools take.
pub fn words_of_bools(graph: &Graph, values: &[Value]) -> usize {
    values.iter().filter(|&&value| graph.type_of(value) == Type::Bool).count().div_ceil(8)
}

/// The live values at the start of every block.
#[derive(Debug, Clone)]
pub struct Liveness {
    words_per_block: usize,
    live_in: Vec<u64>,
}

impl Liveness {
    /// Computes the live values of all blocks, also unreachable ones.
    pub fn of(graph: &Graph) -> Self {
        let words_per_block = graph.values.len().div_ceil(64);
        let mut liveness = Self { words_per_block, live_in: vec![0; words_per_block * graph.blocks.len()] };
        let mut live = vec![0; words_per_block];
        // Backward order is nearly the direction of the data flow; loops take another round if a block's
        // result changes after it was read.
        let mut read = vec![false; graph.blocks.len()];
        loop {
            let mut changed = false;
            for block in graph.block_ids().rev() {
                liveness.live_into(graph, block, &mut live);
                graph.block(block).terminator.for_each_successor(|next| read[next.index()] |= next <= block);
                let row = liveness.row_mut(block);
                if row != live {
                    row.copy_from_slice(&live);
                    changed |= read[block.index()];
                }
            }
            if !changed {
                return liveness;
            }
        }
    }

    /// The live values at the start of `block`, except its parameters, by number.
    pub fn live_in(&self, block: Block) -> Vec<Value> {
        let words = self.row(block).iter().enumerate();
        words
            .flat_map(|(at, &word)| {
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| Value(at as u32 * 64 + bit))
            })
            .collect()
    }

    /// As [`live_across`].
    ///
    /// # Panics
    /// If `block` does not end in a lookup.
    pub fn across(&self, graph: &Graph, block: Block) -> Vec<Value> {
        match graph.block(block).terminator {
            Terminator::Lookup { then, .. } => self.live_in(then),
            _ => panic!("{block} does not end in a lookup"),
        }
    }

    fn live_into(&self, graph: &Graph, block: Block, live: &mut [u64]) {
        let data = graph.block(block);
        live.fill(0);
        data.terminator.for_each_successor(|successor| {
            live.iter_mut().zip(self.row(successor)).for_each(|(mine, theirs)| *mine |= theirs);
        });
        data.terminator.for_each_operand(|v| insert(live, v));
        for inst in data.insts.iter().rev() {
            inst.results.iter().for_each(|&v| remove(live, v));
            inst.op.for_each_operand(|v| insert(live, v));
        }
        data.params.iter().for_each(|&v| remove(live, v));
    }

    fn row(&self, block: Block) -> &[u64] {
        &self.live_in[block.index() * self.words_per_block..][..self.words_per_block]
    }

    fn row_mut(&mut self, block: Block) -> &mut [u64] {
        &mut self.live_in[block.index() * self.words_per_block..][..self.words_per_block]
    }
}

fn insert(live: &mut [u64], value: Value) {
    live[value.index() / 64] |= 1 << (value.index() % 64);
}

fn remove(live: &mut [u64], value: Value) {
    live[value.index() / 64] &= !(1 << (value.index() % 64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tail_reads_lives_across_the_lookup_and_nothing_else() {
        let graph: Graph = "table0 tcp two_sided observed\nout0 a\n\
             block0:\n v0 = frame\n v1 = const 7\n v2 = const 8\n v3 = bool false\n\
             lookup table0 (v1) swap v3, block1\n\
             block1(v4: flow table0, v5: bool, v6: bool):\n v7 = length v0\n store out0 v2\n done v7\n"
            .parse()
            .expect("a graph");
        assert_eq!(lookups(&graph), [Block(0)]);
        let live = live_across(&graph, Block(0));
        assert_eq!(live, [Value(0), Value(2)], "v1 is only part of the key; v4 to v6 are handed over");
        assert_eq!(live_words(&graph, &live), 3, "a buffer takes two");
    }
}

//! Which values are still needed where; above all, what must be kept across a lookup.

use weir_ir::graph::{Block, Graph, Terminator, Type, Value};

/// The blocks that end in a lookup, by number. A lookup's place in this list is the number under which
/// the program is resumed ([`weir_ir::abi::Continuation::resume`]), in the interpreter and in native code.
pub fn lookups(graph: &Graph) -> Vec<Block> {
    graph
        .block_ids()
        .filter(|&block| matches!(graph.block(block).terminator, Terminator::Lookup { .. }))
        .collect()
}

/// The values that live across the lookup that ends `block`, by number: what the blocks after it need
/// that its own parameters are not. Computes all liveness; see [`Liveness::across`] for many lookups.
///
/// # Panics
/// If `block` does not end in a lookup.
pub fn live_across(graph: &Graph, block: Block) -> Vec<Value> {
    Liveness::of(graph).across(graph, block)
}

/// The words of [`weir_ir::abi::Continuation::live`] that values take: a buffer two, others one.
pub fn live_words(graph: &Graph, values: &[Value]) -> usize {
    values.iter().map(|&v| if graph.type_of(v) == Type::Buf { 2 } else { 1 }).sum()
}

/// The values needed at the start of every block.
#[derive(Debug, Clone)]
pub struct Liveness {
    words_per_block: usize,
    live_in: Vec<u64>,
}

impl Liveness {
    /// Computes it, for unreachable blocks too.
    pub fn of(graph: &Graph) -> Self {
        let words_per_block = graph.values.len().div_ceil(64);
        let mut liveness = Self { words_per_block, live_in: vec![0; words_per_block * graph.blocks.len()] };
        let mut live = vec![0; words_per_block];
        // Backwards is nearly the order in which information flows; loops take another round.
        loop {
            let mut changed = false;
            for block in graph.block_ids().rev() {
                liveness.live_into(graph, block, &mut live);
                let row = liveness.row_mut(block);
                if row != live {
                    row.copy_from_slice(&live);
                    changed = true;
                }
            }
            if !changed {
                return liveness;
            }
        }
    }

    /// Whether `value` is needed at the start of `block` (and is not one of its parameters).
    pub fn is_live_into(&self, value: Value, block: Block) -> bool {
        self.row(block)[value.index() / 64] >> (value.index() % 64) & 1 == 1
    }

    /// The values needed at the start of `block`, its parameters excepted, by number.
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
        for successor in data.terminator.successors() {
            live.iter_mut().zip(self.row(successor)).for_each(|(mine, theirs)| *mine |= theirs);
        }
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

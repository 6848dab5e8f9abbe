//! Merges blocks: chains become one block, empty blocks are skipped, and equal blocks (mostly the many ends
//! of packets) become one.
//!
//! Merging saves no computation by itself. But a branch whose targets become one block decides nothing, so
//! `drop_dead` and `fold` find more.

use super::edit::{NONE, Order, Replacements, remove_unreachable, use_counts};
use crate::graph::{Block, Graph, Op, Target, Terminator, Value};

/// Blocks with more instructions are not compared.
const INSTS_MAX: usize = 8;
/// Maximum number of empty blocks skipped at once.
const HOPS_MAX: usize = 8;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let mut changed = remove_unreachable(graph);
    changed |= unite_same(graph);
    changed |= forward_empty(graph);
    changed |= join_chains(graph);
    changed | remove_unreachable(graph)
}

/// Merges a block into its only predecessor if that ends in a jump.
fn join_chains(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let mut replacements = Replacements::none(graph);
    let mut is_taken = vec![false; graph.blocks.len()];
    let mut changed = false;
    for &block in &order.blocks {
        if is_taken[block.index()] {
            continue;
        }
        while let Terminator::Jump(Target { block: next, args }) = &mut graph.blocks[block.index()].terminator
            && order.edges_in[next.index()] == 1
            && *next != block
        {
            let (next, args) = (*next, std::mem::take(args));
            let taken = &mut graph.blocks[next.index()];
            let params = std::mem::take(&mut taken.params);
            let mut insts = std::mem::take(&mut taken.insts);
            let terminator = std::mem::replace(&mut taken.terminator, Terminator::Restart);
            params.into_iter().zip(args).for_each(|(param, arg)| replacements.replace(param, arg));
            let data = &mut graph.blocks[block.index()];
            if data.insts.is_empty() {
                data.insts = insts;
            } else {
                data.insts.append(&mut insts);
            }
            data.terminator = terminator;
            is_taken[next.index()] = true;
            changed = true;
        }
    }
    replacements.apply(graph);
    changed
}

/// Redirects the edges to an empty block, which only jumps, to the target of its jump.
fn forward_empty(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let uses = use_counts(graph, &order);
    let mut ways: Vec<Option<(Vec<Value>, Target)>> = vec![None; graph.blocks.len()];
    for &block in &order.blocks {
        let data = graph.block(block);
        if let Terminator::Jump(target) = &data.terminator
            && data.insts.is_empty()
            && target.block != block
            && block != graph.entry
        {
            let own = |p: &Value| target.args.iter().filter(|&arg| arg == p).count() as u32;
            // Values used further on must still be defined on the new path.
            if data.params.iter().all(|p| uses[p.index()] == own(p)) {
                ways[block.index()] = Some((data.params.clone(), target.clone()));
            }
        }
    }
    let mut changed = false;
    for &block in &order.blocks {
        graph.blocks[block.index()].terminator.for_each_target_mut(|target| {
            for _ in 0..HOPS_MAX {
                let Some((params, next)) = &ways[target.block.index()] else { break };
                let arg = |v: &Value| params.iter().position(|p| p == v).map_or(*v, |at| target.args[at]);
                let args = next.args.iter().map(arg).collect();
                *target = Target { block: next.block, args };
                changed = true;
            }
        });
    }
    changed
}

/// Keeps only the first of equal blocks.
fn unite_same(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let uses = use_counts(graph, &order);
    let mut is_handed = vec![false; graph.blocks.len()];
    for &block in &order.blocks {
        if let Terminator::Lookup { then, .. } = graph.block(block).terminator {
            is_handed[then.index()] = true;
        }
    }
    let mut names = Names { local: vec![(NONE, 0); graph.values.len()] };
    let mut candidates = vec![];
    for &block in &order.blocks {
        if block != graph.entry && !is_handed[block.index()] && is_comparable(graph, &uses, block) {
            candidates.push((names.hash(graph, block), block));
        }
    }
    candidates.sort_unstable();
    let mut instead: Vec<u32> = (0..graph.blocks.len() as u32).collect();
    let mut changed = false;
    for same_hash in candidates.chunk_by(|a, b| a.0 == b.0) {
        for at in 1..same_hash.len() {
            let block = same_hash[at].1;
            let twin = same_hash[..at]
                .iter()
                .map(|&(_, b)| b)
                .find(|&b| instead[b.index()] == b.0 && names.are_same(graph, b, block));
            if let Some(twin) = twin {
                instead[block.index()] = twin.0;
                changed = true;
            }
        }
    }
    if changed {
        for &block in &order.blocks {
            let terminator = &mut graph.blocks[block.index()].terminator;
            terminator.for_each_target_mut(|t| t.block = Block(instead[t.block.index()]));
        }
    }
    changed
}

/// Whether a block may be united with others. Blocks with loads may not: each load has a check of its own.
fn is_comparable(graph: &Graph, uses: &[u32], block: Block) -> bool {
    let data = graph.block(block);
    if data.insts.len() > INSTS_MAX || data.insts.iter().any(|i| matches!(i.op, Op::Load { .. })) {
        return false;
    }
    match &data.terminator {
        // A restart belongs to one lookup, so it is not comparable.
        Terminator::Done { .. } => true,
        Terminator::Jump(_) => {
            // The block's definitions must not be used elsewhere.
            let defined = data.params.iter().chain(data.insts.iter().flat_map(|i| &i.results));
            defined.copied().all(|value| {
                let mut own = 0;
                data.insts.iter().for_each(|i| i.op.for_each_operand(|v| own += u32::from(v == value)));
                data.terminator.for_each_operand(|v| own += u32::from(v == value));
                own == uses[value.index()]
            })
        }
        _ => false,
    }
}

/// Names of values that do not depend on their numbers: the definitions of a block are numbered from 0.
struct Names {
    /// By value: the block in which it was last numbered, and its number there.
    local: Vec<(u32, u32)>,
}

impl Names {
    fn count(&mut self, graph: &Graph, block: Block) {
        let data = graph.block(block);
        let defined = data.params.iter().chain(data.insts.iter().flat_map(|i| &i.results));
        for (number, value) in defined.enumerate() {
            self.local[value.index()] = (block.0, number as u32);
        }
    }

    fn name(&self, block: Block, value: Value) -> u64 {
        match self.local[value.index()] {
            (of, number) if of == block.0 => u64::from(number),
            _ => u64::from(value.0) | 1 << 32,
        }
    }

    fn hash(&mut self, graph: &Graph, block: Block) -> u64 {
        self.count(graph, block);
        let data = graph.block(block);
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        mix(data.params.len() as u64);
        for inst in &data.insts {
            mix(super::edit::constant_of(&inst.op).unwrap_or(1 << 40));
            inst.op.for_each_operand(|v| mix(self.name(block, v)));
        }
        match &data.terminator {
            Terminator::Done { reason, .. } => mix(reason.map_or(0, |r| r as u64 + 1)),
            Terminator::Jump(target) => mix(u64::from(target.block.0) | 1 << 41),
            _ => mix(1 << 42),
        }
        data.terminator.for_each_operand(|v| mix(self.name(block, v)));
        hash
    }

    fn are_same(&mut self, graph: &Graph, a: Block, b: Block) -> bool {
        self.count(graph, a);
        self.count(graph, b);
        let (x, y) = (graph.block(a), graph.block(b));
        let types = |params: &[Value]| params.iter().map(|&p| graph.type_of(p)).collect::<Vec<_>>();
        // A name outside the range of values; only equality matters.
        let named = |block: Block, op: &Op| {
            let mut op = op.clone();
            op.map_operands(|v| Value(self.short(block, v)));
            op
        };
        let ended = |block: Block, terminator: &Terminator| {
            let mut terminator = terminator.clone();
            terminator.map_operands(|v| Value(self.short(block, v)));
            terminator
        };
        x.insts.len() == y.insts.len()
            && types(&x.params) == types(&y.params)
            && x.insts.iter().zip(&y.insts).all(|(i, j)| named(a, &i.op) == named(b, &j.op))
            && ended(a, &x.terminator) == ended(b, &y.terminator)
    }

    /// As [`name`](Self::name), in 32 bits: local numbers count down from the maximum, above the numbers of
    /// all values.
    fn short(&self, block: Block, value: Value) -> u32 {
        match self.local[value.index()] {
            (of, number) if of == block.0 => NONE - number,
            _ => value.0,
        }
    }
}

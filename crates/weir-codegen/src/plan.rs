//! What is settled before a line of code is emitted: which blocks belong to which part, which values
//! cross a lookup and in which slots, and what is known of numbers.
//!
//! The head holds the blocks reachable from the entry without crossing a lookup; every lookup has a tail
//! with those reachable from where it goes on. Where a tail goes on to bytes behind which another lookup is reachable, as
//! the head does elsewhere (there is a packet in the packet, say), it leaves, and the head is entered there: else every
//! tail would hold most of the head. What else they share is in each of them.

use crate::CompileError;
use weir_ir::abi::{FUELS_MAX, LIVE_VALUES_MAX, OUTS_MAX};
use weir_ir::graph::{Block, Graph, Op, Target, Terminator, Type, Value};
use weir_ir::key::KEY_WORDS_MAX;
use weir_ir::liveness::{Crossing, Kept, live_words};
use weir_ir::range::Ranges;
use weir_ir::verify::Verified;

/// A value that needs no place of its own: it is made anew wherever it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// An int.
    Int(u64),
    /// A bool.
    Bool(bool),
    /// The packet's bytes.
    Frame,
}

/// The plan of a graph.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The head's blocks, every one after those that dominate it.
    pub head: Vec<Block>,
    /// Where tails go on in the head.
    pub entries: Entries,
    /// The lookups; a continuation's `resume` is an index into them.
    pub crossings: Vec<Crossing>,
    /// Loop counters up to this one are used.
    pub fuels: usize,
    /// By value: what it always is.
    pub known: Vec<Option<Known>>,
    /// How large values get.
    pub ranges: Ranges,
    /// How many numbers and byte strings a residual filter reads.
    pub inputs: (usize, usize),
}

impl Plan {
    /// Plans a graph, with what its proof found.
    ///
    /// # Errors
    /// Where the graph exceeds a bound of the contract.
    pub(crate) fn of(graph: &Graph, Verified { ranges, kept }: Verified) -> Result<Self, CompileError> {
        let crossings = kept.as_ref().map(|kept| kept.crossings(graph)).unwrap_or_default();
        let head = order(graph, graph.entry, &|_| false);
        let plan = Self {
            entries: kept.map(|kept| Entries::of(graph, &head, &crossings, &kept)).unwrap_or_default(),
            head,
            crossings,
            fuels: fuels_of(graph),
            known: known_values(graph),
            ranges,
            inputs: inputs_of(graph),
        };
        plan.hold_bounds(graph)?;
        Ok(plan)
    }

    /// The blocks of the tail after crossing `number`, every one after those that dominate it in the tail.
    pub(crate) fn tail(&self, graph: &Graph, number: usize) -> Vec<Block> {
        order(graph, self.crossings[number].then, &|block| self.entries.number(block).is_some())
    }

    /// What `value` always is, if it is a number.
    pub(crate) fn int(&self, value: Value) -> Option<u64> {
        match self.known[value.index()] {
            Some(Known::Int(number)) => Some(number),
            _ => None,
        }
    }

    fn hold_bounds(&self, graph: &Graph) -> Result<(), CompileError> {
        for crossing in &self.crossings {
            if let Some(&value) = crossing.values.iter().find(|&&v| matches!(graph.type_of(v), Type::Flow(_)))
            {
                return Err(CompileError::FlowAcrossLookup(value));
            }
            let words = live_words(graph, &crossing.values);
            if words > LIVE_VALUES_MAX {
                return Err(CompileError::TooManyLive { words, block: crossing.from });
            }
        }
        if self.fuels > FUELS_MAX {
            return Err(CompileError::TooManyLoops(self.fuels));
        }
        for block in graph.block_ids() {
            let data = graph.block(block);
            if matches!(&data.terminator, Terminator::Lookup { key, .. } if key.len() > KEY_WORDS_MAX) {
                return Err(CompileError::KeyTooLong(block));
            }
            let beyond = |op: &Op| matches!(op, Op::Store { out, .. } if out.index() >= OUTS_MAX);
            if data.insts.iter().any(|inst| beyond(&inst.op)) {
                return Err(CompileError::TooManyOuts(block));
            }
        }
        Ok(())
    }
}

fn known_values(graph: &Graph) -> Vec<Option<Known>> {
    let mut known = vec![None; graph.values.len()];
    for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
        let what = match inst.op {
            Op::Const(number) => Known::Int(number),
            Op::Bool(truth) => Known::Bool(truth),
            Op::Frame => Known::Frame,
            _ => continue,
        };
        known[inst.results[0].index()] = Some(what);
    }
    known
}

/// Where tails enter the head.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// By number.
    pub list: Vec<Entry>,
    /// By block.
    numbers: Vec<Option<usize>>,
    /// What is needed at one or another: these values live in the continuation's [`live`](LIVE_VALUES_MAX), in this order,
    /// wherever the head makes and reads them. The parameters of the block that is entered stand behind them.
    pub values: Vec<Value>,
}

/// A block of the head.
#[derive(Debug)]
pub(crate) struct Entry {
    pub block: Block,
    /// What it needs, its parameters excepted.
    pub values: Vec<Value>,
}

impl Entries {
    /// The entry at a block.
    pub(crate) fn number(&self, block: Block) -> Option<usize> {
        *self.numbers.get(block.index())?
    }

    fn of(graph: &Graph, head: &[Block], crossings: &[Crossing], kept: &Kept) -> Self {
        let leads_on = leads_on(graph, head);
        // What only chooses by numbers that are there is short; mostly it chooses that nothing follows.
        let leaves = |block: Block| leads_on[block.index()] && reads_on(graph, block);
        let mut entries = Self { numbers: vec![None; graph.blocks.len()], ..Self::default() };
        for crossing in crossings {
            for block in order(graph, crossing.then, &leaves) {
                graph.block(block).terminator.for_each_target(|Target { block, .. }| {
                    let number = &mut entries.numbers[block.index()];
                    if leaves(*block) && number.is_none() {
                        *number = Some(entries.list.len());
                        entries.list.push(Entry { block: *block, values: kept.at(*block) });
                    }
                });
            }
        }
        entries.values = entries.list.iter().flat_map(|entry| entry.values.iter().copied()).collect();
        entries.values.sort_unstable();
        entries.values.dedup();
        let params = |entry: &Entry| live_words(graph, &graph.block(entry.block).params);
        let words = live_words(graph, &entries.values) + entries.list.iter().map(params).max().unwrap_or(0);
        // What does not fit is in each tail, as what leads no further.
        if words > LIVE_VALUES_MAX { Self::default() } else { entries }
    }
}

/// Whether a block is about bytes that were not yet looked at.
fn reads_on(graph: &Graph, block: Block) -> bool {
    let data = graph.block(block);
    match data.terminator {
        Terminator::Check { .. } | Terminator::Again { .. } | Terminator::Lookup { .. } => true,
        _ => data.insts.iter().any(|inst| matches!(inst.op, Op::Load { .. })),
    }
}

/// By block: whether it is one of the head's from which a lookup is reachable.
fn leads_on(graph: &Graph, head: &[Block]) -> Vec<bool> {
    let mut leads_on = vec![false; graph.blocks.len()];
    loop {
        let mut changed = false;
        for &block in head.iter().rev().filter(|block| !leads_on[block.index()]).collect::<Vec<_>>() {
            let terminator = &graph.block(block).terminator;
            let mut leads = matches!(terminator, Terminator::Lookup { .. });
            terminator.for_each_target(|target| leads |= leads_on[target.block.index()]);
            leads_on[block.index()] = leads;
            changed |= leads;
        }
        if !changed {
            return leads_on;
        }
    }
}

/// The blocks reachable from `root` without crossing a lookup, in reverse postorder; what lies behind those that are left
/// out is not.
fn order(graph: &Graph, root: Block, is_left_out: &dyn Fn(Block) -> bool) -> Vec<Block> {
    let mut seen = vec![false; graph.blocks.len()];
    let mut order = Vec::new();
    // A block is on the stack once to be entered, and once more (marked) to be left.
    let mut stack = vec![(root, false)];
    while let Some((block, left)) = stack.pop() {
        if left {
            order.push(block);
        } else if !std::mem::replace(&mut seen[block.index()], true) {
            stack.push((block, true));
            graph.block(block).terminator.for_each_target(|target| {
                if !seen[target.block.index()] && !is_left_out(target.block) {
                    stack.push((target.block, false));
                }
            });
        }
    }
    order.reverse();
    order
}

fn fuels_of(graph: &Graph) -> usize {
    let fuel = |block| match graph.block(block).terminator {
        Terminator::Again { fuel, .. } => fuel.index() + 1,
        _ => 0,
    };
    graph.block_ids().map(fuel).max().unwrap_or(0)
}

fn inputs_of(graph: &Graph) -> (usize, usize) {
    let mut inputs = (0, 0);
    for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
        match inst.op {
            Op::Input(n) => inputs.0 = inputs.0.max(n as usize + 1),
            Op::InputBytes(n) => inputs.1 = inputs.1.max(n as usize + 1),
            _ => {}
        }
    }
    inputs
}

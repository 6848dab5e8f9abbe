//! The decisions before code generation: the blocks of each part, the values that cross a lookup and their
//! slots, and constants and upper bounds.
//!
//! The head contains the blocks reachable from the entry without crossing a lookup. Every lookup has a tail
//! with the blocks reachable from the block after it. If a tail continues parsing at a block of the head from
//! which another lookup is reachable (at an encapsulated packet, say), the tail ends there and enters the
//! head; otherwise every tail would contain most of the head. Other common blocks are duplicated in each
//! part.

use crate::CompileError;
use weir_ir::abi::{FUELS_MAX, LIVE_VALUES_MAX, OUTS_MAX};
use weir_ir::graph::{Block, Graph, Op, Target, Terminator, Type, Value};
use weir_ir::key::KEY_WORDS_MAX;
use weir_ir::liveness::{Crossing, Kept, live_words};
use weir_ir::range::Ranges;
use weir_ir::verify::Verified;

/// A value that is rematerialized at each use instead of being stored.
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
    /// The head's blocks, each after its dominators.
    pub head: Vec<Block>,
    /// The blocks at which tails enter the head.
    pub entries: Entries,
    /// The lookups; a continuation's `resume` is an index into this list.
    pub crossings: Vec<Crossing>,
    /// Number of loop counters in use.
    pub fuels: usize,
    /// By value: its constant.
    pub known: Vec<Option<Known>>,
    /// Upper bounds of values.
    pub ranges: Ranges,
    /// Number of numbers and of byte strings that a deferred predicate reads.
    pub inputs: (usize, usize),
}

impl Plan {
    /// Plans a graph, using the results of its verification.
    ///
    /// # Errors
    /// If the graph exceeds a limit of the contract.
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

    /// The blocks of the tail after crossing `number`, each after its dominators in the tail.
    pub(crate) fn tail(&self, graph: &Graph, number: usize) -> Vec<Block> {
        order(graph, self.crossings[number].then, &|block| self.entries.number(block).is_some())
    }

    /// The constant of `value`, if it is a number.
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

/// The entries from tails into the head.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// By number.
    pub list: Vec<Entry>,
    /// By block.
    numbers: Vec<Option<usize>>,
    /// The values that are live at any entry. They stay in the continuation's [`live`](LIVE_VALUES_MAX), in
    /// this order, wherever the head defines and uses them. The parameters of the entered block follow them.
    pub values: Vec<Value>,
}

/// A block of the head that tails enter.
#[derive(Debug)]
pub(crate) struct Entry {
    pub block: Block,
    /// Its live values, except its parameters.
    pub values: Vec<Value>,
}

impl Entries {
    /// The number of the entry at a block.
    pub(crate) fn number(&self, block: Block) -> Option<usize> {
        *self.numbers.get(block.index())?
    }

    fn of(graph: &Graph, head: &[Block], crossings: &[Crossing], kept: &Kept) -> Self {
        let leads_on = leads_on(graph, head);
        // A block that only branches on available numbers is short, and usually leads to the end, so it is
        // duplicated.
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
        // If the values do not fit, each tail contains the blocks itself.
        if words > LIVE_VALUES_MAX { Self::default() } else { entries }
    }
}

/// Whether a block accesses bytes that were not parsed before.
fn reads_on(graph: &Graph, block: Block) -> bool {
    let data = graph.block(block);
    match data.terminator {
        Terminator::Check { .. } | Terminator::Again { .. } | Terminator::Lookup { .. } => true,
        _ => data.insts.iter().any(|inst| matches!(inst.op, Op::Load { .. })),
    }
}

/// By block: whether it belongs to the head and a lookup is reachable from it.
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

/// The blocks reachable from `root` without crossing a lookup or a left-out block, in reverse postorder.
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

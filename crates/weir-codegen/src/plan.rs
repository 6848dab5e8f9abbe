//! What is settled before a line of code is emitted: which blocks belong to the head and which to
//! the tail, which values cross a lookup and in which slots, and what is known of numbers.
//!
//! The head holds the blocks reachable from the entry without crossing a lookup, the tail those
//! reachable from where lookups go on. A block may be in both.

use crate::CompileError;
use weir_ir::abi::{FUELS_MAX, KEY_WORDS, LIVE_VALUES_MAX, OUTS_MAX};
use weir_ir::graph::{Block, Graph, Op, Terminator, Type, Value};
use weir_ir::liveness::{Liveness, lookups};

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

/// A lookup and what is saved across it.
#[derive(Debug)]
pub(crate) struct Crossing {
    /// Where the program goes on.
    pub then: Block,
    /// The values in the order of their slots; buffers take two.
    pub values: Vec<Value>,
    /// The block that ends in the lookup.
    pub from: Block,
}

/// The plan of a program.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The head's blocks, every one after those that dominate it.
    pub head: Vec<Block>,
    /// The tail's.
    pub tail: Vec<Block>,
    /// The lookups; a continuation's `resume` is an index into them.
    pub crossings: Vec<Crossing>,
    /// Loop counters up to this one are used.
    pub fuels: usize,
    /// By value: what it always is.
    pub known: Vec<Option<Known>>,
    /// By value: it crosses some lookup.
    pub crosses: Vec<bool>,
    /// How many numbers and byte strings a residual filter reads.
    pub inputs: (usize, usize),
}

impl Plan {
    /// Plans a program.
    ///
    /// # Errors
    /// Where the graph exceeds a bound of the contract.
    pub(crate) fn of(graph: &Graph) -> Result<Self, CompileError> {
        let known = known_values(graph);
        let head = order(graph, &[graph.entry]);
        let tail = order(graph, &resumed_at(graph, &head));
        let lookups = lookups(graph);
        // Stateless questions, of which there are the largest, need none.
        let liveness = if lookups.is_empty() { None } else { Some(Liveness::of(graph)) };
        let mut crosses = vec![false; graph.values.len()];
        let mut crossings = Vec::new();
        for from in lookups {
            let Terminator::Lookup { then, .. } = graph.block(from).terminator else { continue };
            let mut values = liveness.as_ref().map_or(vec![], |liveness| liveness.across(graph, from));
            values.retain(|v| known[v.index()].is_none());
            for &value in &values {
                if let Type::Flow(_) = graph.type_of(value) {
                    return Err(CompileError::FlowAcrossLookup(value));
                }
                crosses[value.index()] = true;
            }
            crossings.push(Crossing { then, values, from });
        }
        let plan = Self {
            fuels: fuels_of(graph, head.iter().chain(&tail)),
            inputs: inputs_of(graph),
            head,
            tail,
            crossings,
            known,
            crosses,
        };
        plan.hold_bounds(graph)?;
        Ok(plan)
    }

    /// Slots that are taken by values of type `ty`.
    pub(crate) fn words(ty: Type) -> usize {
        match ty {
            Type::Bool | Type::Int => 1,
            Type::Buf => 2,
            Type::Flow(_) => 0,
        }
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
            let words: usize = crossing.values.iter().map(|&v| Self::words(graph.type_of(v))).sum();
            if words > LIVE_VALUES_MAX {
                return Err(CompileError::TooManyLive { words, block: crossing.from });
            }
        }
        for &block in self.head.iter().chain(&self.tail) {
            let data = graph.block(block);
            if matches!(&data.terminator, Terminator::Lookup { key, .. } if key.len() > KEY_WORDS) {
                return Err(CompileError::KeyTooLong(block));
            }
            if self.fuels > FUELS_MAX {
                return Err(CompileError::TooManyLoops(self.fuels));
            }
            let beyond = |op: &Op| matches!(op, Op::Store { out, .. } if out.index() >= OUTS_MAX);
            if data.insts.iter().any(|inst| beyond(&inst.op)) {
                return Err(CompileError::TooManyOuts(block));
            }
        }
        Ok(())
    }
}

/// Where the lookups go on that can be reached from `head`, directly or after another lookup.
fn resumed_at(graph: &Graph, head: &[Block]) -> Vec<Block> {
    let mut thens: Vec<Block> = Vec::new();
    let mut blocks = head.to_vec();
    loop {
        let found = blocks.iter().filter_map(|&block| match graph.block(block).terminator {
            Terminator::Lookup { then, .. } => Some(then),
            _ => None,
        });
        let before = thens.len();
        thens.extend(found);
        thens.sort_unstable();
        thens.dedup();
        if thens.len() == before {
            return thens;
        }
        blocks.extend(order(graph, &thens));
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

/// The blocks reachable from `roots` without crossing a lookup, in reverse postorder.
fn order(graph: &Graph, roots: &[Block]) -> Vec<Block> {
    let mut seen = vec![false; graph.blocks.len()];
    let mut order = Vec::new();
    for &root in roots {
        if std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        let mut stack = vec![(root, targets(graph, root), 0)];
        while let Some((block, next, at)) = stack.last_mut() {
            match next.get(*at) {
                Some(&to) => {
                    *at += 1;
                    if !std::mem::replace(&mut seen[to.index()], true) {
                        stack.push((to, targets(graph, to), 0));
                    }
                }
                None => {
                    order.push(*block);
                    stack.pop();
                }
            }
        }
    }
    order.reverse();
    order
}

fn targets(graph: &Graph, block: Block) -> Vec<Block> {
    graph.block(block).terminator.targets().iter().map(|target| target.block).collect()
}

fn fuels_of<'a>(graph: &Graph, blocks: impl Iterator<Item = &'a Block>) -> usize {
    let fuel = |&block: &Block| match graph.block(block).terminator {
        Terminator::Again { fuel, .. } => fuel.index() + 1,
        _ => 0,
    };
    blocks.map(fuel).max().unwrap_or(0)
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

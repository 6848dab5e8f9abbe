//! Forwards flow variables: a value that was read or written on all paths is not read again, and a variable
//! is not overwritten with the value that it has.
//!
//! [`Op::touches`] lists the reads and writes of each instruction (the read and write sets of Rubik's IR,
//! section 5.2). A call of the engine invalidates the variables that the engine may change; a write
//! invalidates all variables that may be the same variable of the same direction. Nothing is forwarded across
//! lookups, because values that are live across them cost memory.

use super::edit::{Order, Replacements};
use crate::graph::{Block, Graph, Op, Terminator, Touch, Value, Var, VarKind};

/// Maximum number of known variables at one point.
const KNOWN_MAX: usize = 64;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let reads = |block: &crate::graph::BlockData| block.insts.iter().any(|i| matches!(i.op, Op::Get { .. }));
    if !graph.blocks.iter().any(reads) {
        return false;
    }
    let order = Order::of(graph);
    let mut forward = Forward {
        opposite: opposites(graph),
        defines: defines(graph),
        leaving: vec![None; graph.blocks.len()],
        replacements: Replacements::none(graph),
        changed: false,
    };
    let before = predecessors(graph, &order);
    for &block in &order.blocks {
        let known = forward.arriving(graph, block, &before[block.index()]);
        let known = forward.block(graph, block, known);
        forward.leaving[block.index()] = Some(known);
    }
    forward.replacements.apply(graph);
    forward.changed
}

/// A variable of a flow, of one direction or shared, and its current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    flow: Value,
    var: Var,
    side: Option<Value>,
    value: Value,
}

struct Forward {
    /// By value: the operand, if the value is a `not`.
    opposite: Vec<Option<Value>>,
    /// By value: a constant, or the variable from which it was read.
    defines: Vec<Fits>,
    /// By block: the variables known at its end; `None` if not yet computed.
    leaving: Vec<Option<Vec<Known>>>,
    replacements: Replacements,
    changed: bool,
}

/// The variables into which a value fits without truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fits {
    Unknown,
    Const(u64),
    Read(Var),
}

impl Forward {
    /// The intersection over all edges to a block. Nothing is known if one edge is not yet computed, as at a
    /// loop header.
    fn arriving(&self, graph: &Graph, block: Block, before: &[Block]) -> Vec<Known> {
        let mut all: Option<Vec<Known>> = None;
        for &from in before {
            if matches!(graph.block(from).terminator, Terminator::Lookup { .. }) {
                return vec![];
            }
            let Some(known) = &self.leaving[from.index()] else { return vec![] };
            match &mut all {
                None => all = Some(known.clone()),
                Some(all) => all.retain(|one| known.contains(one)),
            }
        }
        if block == graph.entry { vec![] } else { all.unwrap_or_default() }
    }

    fn block(&mut self, graph: &mut Graph, block: Block, mut known: Vec<Known>) -> Vec<Known> {
        let mut insts = std::mem::take(&mut graph.blocks[block.index()].insts);
        let count = insts.len();
        insts.retain(|inst| match inst.op {
            Op::Get { flow, var, side } => {
                let (flow, side) = (self.replacements.of(flow), side.map(|side| self.replacements.of(side)));
                let found = known.iter().find(|k| (k.flow, k.var, k.side) == (flow, var, side));
                if let Some(found) = found {
                    self.replacements.replace(inst.results[0], found.value);
                    return false;
                }
                learn(&mut known, Known { flow, var, side, value: inst.results[0] });
                true
            }
            Op::Set { flow, var, side, value } => {
                let (flow, side) = (self.replacements.of(flow), side.map(|side| self.replacements.of(side)));
                let value = self.replacements.of(value);
                let now = Known { flow, var, side, value };
                if known.contains(&now) {
                    return false;
                }
                known.retain(|k| k.var != var || self.are_opposite(k.side, side));
                if self.fits(graph, value, var) {
                    learn(&mut known, now);
                }
                true
            }
            ref op => {
                match op.touches().writes {
                    Touch::Nothing => {}
                    Touch::Var(var) => known.retain(|k| k.var != var),
                    Touch::Sequence => {
                        known.retain(|k| !graph.vars[k.var.index()].is_of_sequence());
                    }
                    Touch::Engine => known.retain(|k| graph.vars[k.var.index()].name.engine().is_none()),
                }
                true
            }
        });
        self.changed |= insts.len() != count;
        graph.blocks[block.index()].insts = insts;
        known
    }

    fn are_opposite(&self, a: Option<Value>, b: Option<Value>) -> bool {
        let (Some(a), Some(b)) = (a, b) else { return false };
        self.opposite[a.index()] == Some(b) || self.opposite[b.index()] == Some(a)
    }

    /// Whether reading the variable after this write would yield exactly this value.
    fn fits(&self, graph: &Graph, value: Value, var: Var) -> bool {
        let VarKind::Bits(bits) = graph.vars[var.index()].kind else { return false };
        match self.defines[value.index()] {
            _ if bits == 64 => true,
            Fits::Const(number) => number >> bits == 0,
            Fits::Read(other) => graph.vars[other.index()].kind == VarKind::Bits(bits),
            Fits::Unknown => false,
        }
    }
}

fn learn(known: &mut Vec<Known>, one: Known) {
    if known.len() < KNOWN_MAX {
        known.push(one);
    }
}

fn predecessors(graph: &Graph, order: &Order) -> Vec<Vec<Block>> {
    let mut before = vec![vec![]; graph.blocks.len()];
    for &block in &order.blocks {
        graph.block(block).terminator.for_each_successor(|next| before[next.index()].push(block));
    }
    before
}

fn opposites(graph: &Graph) -> Vec<Option<Value>> {
    let mut opposite = vec![None; graph.values.len()];
    for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
        if let Op::Not(value) = inst.op {
            opposite[inst.results[0].index()] = Some(value);
        }
    }
    opposite
}

fn defines(graph: &Graph) -> Vec<Fits> {
    let mut defines = vec![Fits::Unknown; graph.values.len()];
    for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
        match inst.op {
            Op::Const(number) => defines[inst.results[0].index()] = Fits::Const(number),
            Op::Get { var, .. } => defines[inst.results[0].index()] = Fits::Read(var),
            _ => {}
        }
    }
    defines
}

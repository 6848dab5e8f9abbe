//! Shares repeated computations: value numbering along the dominator tree.
//!
//! * A pure instruction (or load) that was computed before on every path is replaced by the earlier one.
//! * A branch on a condition that was decided before becomes a jump.
//! * A check that earlier checks prove is removed.
//!
//! Constants are not shared across lookups, and shared ones are rematerialized: that is cheaper than storing
//! them while other packets' lookups are in progress.

use super::edit::{NONE, Order, Place, Replacements, constant_of, places};
use crate::csr::Csr;
use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, CompareOp, Graph, Inst, Op, Terminator, Value};
use crate::range::Ranges;
use rustc_hash::FxHasher;
use smallvec::smallvec;
use std::hash::{Hash, Hasher};

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let flow = ControlFlow::of(graph);
    let regions = regions(graph, &order);
    let mut share = Share::of(graph, &order, &flow, regions);
    let children = Csr::of(graph.blocks.len(), |add| {
        for &block in &order.blocks {
            if let Some(above) = flow.immediate_dominator(block) {
                add(above.index(), block.0);
            }
        }
    });
    let mut stack = vec![Visit::Enter(graph.entry)];
    while let Some(visit) = stack.pop() {
        match visit {
            Visit::Enter(block) => {
                stack.push(Visit::Leave(share.mark()));
                share.arrive(graph, &flow, block);
                share.block(graph, block);
                stack.extend(children.at(block.index()).iter().map(|&b| Visit::Enter(Block(b))));
            }
            Visit::Leave(mark) => share.leave(mark),
        }
    }
    share.replacements.apply(graph);
    share.changed | make_anew(graph, &order, &share.regions)
}

/// Sums of numbers below this cannot wrap.
const EXACT: u64 = 1 << 48;

#[derive(Debug)]
enum Visit {
    Enter(Block),
    /// Restores the state at the entry of the block.
    Leave([usize; 3]),
}

/// Divides the graph into regions. All paths to the blocks of a region have the same last lookup (or none).
/// By block: the first block of its region, which dominates the region.
fn regions(graph: &Graph, order: &Order) -> Vec<u32> {
    let mut regions = vec![NONE; graph.blocks.len()];
    regions[graph.entry.index()] = graph.entry.0;
    loop {
        let mut changed = false;
        for &block in &order.blocks {
            let own = regions[block.index()];
            let terminator = &graph.block(block).terminator;
            let is_lookup = matches!(terminator, Terminator::Lookup { .. });
            terminator.for_each_successor(|next| {
                let slot = &mut regions[next.index()];
                let new = if is_lookup || *slot != NONE && *slot != own { next.0 } else { own };
                changed |= *slot != new;
                *slot = new;
            });
        }
        if !changed {
            return regions;
        }
    }
}

/// An instruction available for sharing.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    block: Block,
    inst: u32,
    next: u32,
}

/// Bytes that are present, because a check passed on every path.
#[derive(Debug, Clone, Copy)]
struct Length {
    buf: Value,
    /// The root: a value, or the buffer's start if `None`.
    root: Option<Value>,
    bytes: u64,
}

struct Share {
    ranges: Ranges,
    lengths: Vec<Length>,
    replacements: Replacements,
    regions: Vec<u32>,
    places: Vec<Place>,
    edges_in: Vec<u32>,
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    /// By value: known bools.
    truths: Vec<Option<bool>>,
    decided: Vec<Value>,
    changed: bool,
}

impl Share {
    fn of(graph: &Graph, order: &Order, flow: &ControlFlow, regions: Vec<u32>) -> Self {
        let insts: usize = graph.blocks.iter().map(|b| b.insts.len()).sum();
        Self {
            ranges: Ranges::of(graph, flow),
            lengths: vec![],
            replacements: Replacements::none(graph),
            regions,
            places: places(graph, order),
            edges_in: order.edges_in.clone(),
            buckets: vec![NONE; (insts * 2).next_power_of_two()],
            entries: Vec::with_capacity(insts),
            truths: vec![None; graph.values.len()],
            decided: vec![],
            changed: false,
        }
    }

    /// If only one edge leads to the block, records the condition under which that edge is taken.
    fn arrive(&mut self, graph: &Graph, flow: &ControlFlow, block: Block) {
        if self.edges_in[block.index()] != 1 || block == graph.entry {
            return;
        }
        let before = flow.predecessors(block)[0];
        match &graph.block(before).terminator {
            Terminator::Branch { condition, then, .. } => {
                self.learn(graph, self.replacements.of(*condition), then.block == block);
            }
            Terminator::Check { buf, offset, bytes, then, .. } if then.block == block => {
                self.learn_length(graph, *buf, *offset, *bytes);
            }
            _ => {}
        }
    }

    /// Records a passing check, for the buffer and for all buffers from which it was narrowed.
    fn learn_length(&mut self, graph: &Graph, mut buf: Value, offset: Value, bytes: u32) {
        let roots = self.roots(graph, offset);
        loop {
            for (root, plus) in roots.into_iter().flatten() {
                self.lengths.push(Length { buf, root, bytes: plus.saturating_add(u64::from(bytes)) });
            }
            match self.op(graph, buf) {
                Some(Op::Narrow(wider, _)) => buf = self.replacements.of(*wider),
                _ => return,
            }
        }
    }

    /// The roots of an offset, each with the distance from the root to the offset. A small constant has the
    /// buffer's start as its root. Another offset is its own root; if it is the sum of a value and a
    /// constant, and the sum cannot wrap, that value is a second root. Whatever this pass proves,
    /// [`crate::lengths`] must be able to prove as well.
    fn roots(&self, graph: &Graph, offset: Value) -> [Option<(Option<Value>, u64)>; 2] {
        let constant = |v: Value| self.op(graph, v).and_then(constant_of);
        if let Some(n) = constant(offset).filter(|&n| n < EXACT) {
            return [Some((None, n)), None];
        }
        let itself = Some((Some(offset), 0));
        match self.op(graph, offset) {
            Some(&Op::Binary(BinaryOp::Add, a, b)) => {
                let (a, b) = (self.replacements.of(a), self.replacements.of(b));
                match constant(b) {
                    Some(n) if n < EXACT && self.ranges.max(a) < EXACT => [itself, Some((Some(a), n))],
                    _ => [itself, None],
                }
            }
            _ => [itself, None],
        }
    }

    fn is_proven(&self, graph: &Graph, buf: Value, offset: Value, bytes: u32) -> bool {
        self.roots(graph, offset).into_iter().flatten().any(|(root, plus)| {
            let needed = plus.saturating_add(u64::from(bytes));
            self.lengths.iter().any(|l| l.buf == buf && l.root == root && needed <= l.bytes)
        })
    }

    fn op<'g>(&self, graph: &'g Graph, value: Value) -> Option<&'g Op> {
        match self.places.get(value.index())? {
            Place::Inst(block, at) => graph.block(*block).insts.get(*at as usize).map(|inst| &inst.op),
            _ => None,
        }
    }

    fn learn(&mut self, graph: &Graph, value: Value, truth: bool) {
        if self.truths[value.index()].is_some() {
            return;
        }
        self.truths[value.index()] = Some(truth);
        self.decided.push(value);
        let Place::Inst(block, at) = self.places[value.index()] else { return };
        let Some(inst) = graph.block(block).insts.get(at as usize) else { return };
        match inst.op {
            Op::Not(a) => self.learn(graph, self.replacements.of(a), !truth),
            Op::Binary(BinaryOp::And, a, b) if truth => {
                self.learn(graph, self.replacements.of(a), true);
                self.learn(graph, self.replacements.of(b), true);
            }
            Op::Binary(BinaryOp::Or, a, b) if !truth => {
                self.learn(graph, self.replacements.of(a), false);
                self.learn(graph, self.replacements.of(b), false);
            }
            _ => {}
        }
    }

    fn mark(&self) -> [usize; 3] {
        [self.entries.len(), self.decided.len(), self.lengths.len()]
    }

    fn leave(&mut self, [entries, decided, lengths]: [usize; 3]) {
        self.lengths.truncate(lengths);
        while self.entries.len() > entries {
            let entry = self.entries.pop().expect("there are more");
            let bucket = entry.hash as usize & (self.buckets.len() - 1);
            self.buckets[bucket] = entry.next;
        }
        for value in self.decided.drain(decided..) {
            self.truths[value.index()] = None;
        }
    }

    fn block(&mut self, graph: &mut Graph, block: Block) {
        for at in 0..graph.block(block).insts.len() {
            let inst = &mut graph.blocks[block.index()].insts[at];
            inst.op.map_operands(|v| self.replacements.of(v));
            if !inst.op.is_pure() {
                continue;
            }
            let result = inst.results[0];
            match self.find(graph, block, at) {
                Some(same) if same != result => {
                    self.replacements.replace(result, same);
                    self.changed = true;
                }
                _ => {}
            }
        }
        graph.blocks[block.index()].terminator.map_operands(|v| self.replacements.of(v));
        let only = match &graph.block(block).terminator {
            Terminator::Branch { condition, then, otherwise } => {
                self.truths[condition.index()].map(|truth| if truth { then } else { otherwise })
            }
            Terminator::Check { buf, offset, bytes, then, .. } => {
                self.is_proven(graph, *buf, *offset, *bytes).then_some(then)
            }
            _ => None,
        };
        if let Some(only) = only {
            graph.blocks[block.index()].terminator = Terminator::Jump(only.clone());
            self.changed = true;
        }
    }

    /// The result of an equal instruction that dominates this one; if there is none, records this one.
    fn find(&mut self, graph: &Graph, block: Block, at: usize) -> Option<Value> {
        let op = &graph.block(block).insts[at].op;
        let is_constant = constant_of(op).is_some();
        let mut hasher = FxHasher::default();
        std::mem::discriminant(op).hash(&mut hasher);
        match op {
            Op::Binary(kind, a, b) if commutes(*kind) => (kind, a.min(b), a.max(b)).hash(&mut hasher),
            Op::Compare(kind @ (CompareOp::Eq | CompareOp::Ne), a, b) => {
                (kind, a.min(b), a.max(b)).hash(&mut hasher);
            }
            other => other.hash(&mut hasher),
        }
        if is_constant {
            self.regions[block.index()].hash(&mut hasher);
        }
        let hash = hasher.finish();
        let bucket = hash as usize & (self.buckets.len() - 1);
        let mut next = self.buckets[bucket];
        while next != NONE {
            let entry = self.entries[next as usize];
            let other = &graph.block(entry.block).insts[entry.inst as usize];
            let is_near = !is_constant || self.regions[entry.block.index()] == self.regions[block.index()];
            if entry.hash == hash && is_near && are_equal(op, &other.op) {
                return Some(other.results[0]);
            }
            next = entry.next;
        }
        self.entries.push(Entry { hash, block, inst: at as u32, next: self.buckets[bucket] });
        self.buckets[bucket] = self.entries.len() as u32 - 1;
        None
    }
}

fn commutes(op: BinaryOp) -> bool {
    use BinaryOp::{Div, Rem, Shl, Shr, Sub, SubSat};
    !matches!(op, Sub | SubSat | Div | Rem | Shl | Shr)
}

fn are_equal(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Binary(k, a, b), Op::Binary(l, c, d)) if k == l && commutes(*k) => {
            (a, b) == (c, d) || (a, b) == (d, c)
        }
        (Op::Compare(k @ (CompareOp::Eq | CompareOp::Ne), a, b), Op::Compare(l, c, d)) if k == l => {
            (a, b) == (c, d) || (a, b) == (d, c)
        }
        _ => a == b,
    }
}

/// Rematerializes constants in regions that read those of other regions.
fn make_anew(graph: &mut Graph, order: &Order, regions: &[u32]) -> bool {
    let places = places(graph, order);
    // By value: the last region in which it was rematerialized, and the new value.
    let mut copies = vec![(NONE, Value(0)); graph.values.len()];
    let mut made: Vec<(u32, Inst)> = vec![];
    for &block in &order.blocks {
        let region = regions[block.index()];
        let mut data = std::mem::replace(
            &mut graph.blocks[block.index()],
            crate::graph::BlockData { params: vec![], insts: vec![], terminator: Terminator::Restart },
        );
        let mut near = |graph: &mut Graph, value: Value| {
            let Some(&Place::Inst(from, at)) = places.get(value.index()) else { return value };
            if regions[from.index()] == region {
                return value;
            }
            if copies[value.index()].0 == region {
                return copies[value.index()].1;
            }
            let op = match graph.block(from).insts.get(at as usize) {
                // Large constants are not copied: `roots` does not recognize a large offset as a constant, so
                // the check of a load applies only to the original value.
                Some(inst) if constant_of(&inst.op).is_some_and(|n| n < EXACT) => inst.op.clone(),
                _ => return value,
            };
            let copy = made.iter().find(|(r, inst)| *r == region && inst.op == op).map(|(_, i)| i.results[0]);
            let copy = copy.unwrap_or_else(|| {
                let copy = graph.value(graph.type_of(value));
                made.push((region, Inst { results: smallvec![copy], op }));
                copy
            });
            copies[value.index()] = (region, copy);
            copy
        };
        data.insts.iter_mut().for_each(|inst| inst.op.map_operands(|v| near(graph, v)));
        data.terminator.map_operands(|v| near(graph, v));
        graph.blocks[block.index()] = data;
    }
    let changed = !made.is_empty();
    for (region, inst) in made {
        graph.blocks[region as usize].insts.insert(0, inst);
    }
    changed
}

//! Lower bounds of buffer lengths: the proof that loads stay inside their buffers.
//!
//! A *fact* says that a buffer contains at least a number of bytes from a root on: from a value, or from the
//! start. The passing edge of a [`Terminator::Check`] creates facts; they propagate along all edges, and
//! where edges meet, the facts common to all edges remain. An offset has several roots: all values from which
//! it differs by a constant. But `u + c` has the root `u` only if the sum cannot wrap: because the range of
//! `u` is small, or because a check on `u` passed (buffers are shorter than 4 GiB).
//!
//! A buffer is no longer than the one from which it was narrowed, so its facts hold for that one, too.

use crate::dominators::ControlFlow;
use crate::graph::{BinaryOp, Block, Graph, Op, Target, Terminator, Value};
use crate::range::{BUFFER_BYTES_MAX, Ranges};

/// Sums of numbers below this cannot wrap.
const EXACT: u64 = 1 << 48;

/// Number of visits to a block with several predecessors after which facts that still shrink are dropped.
/// Every loop contains such a block. Facts from a check that directly precedes a block stay, however often it
/// is visited.
const VISITS_MAX: u32 = 8;

/// The identity of a buffer, independent of the value that denotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Frame,
    Input(u32),
    Value(Value),
}

/// The origin of an offset: the start of the buffer, or a value.
type Root = Option<Value>;

/// Number of bytes by buffer and root, sorted. The list is short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts(Vec<((Source, Root), u64)>);

impl Facts {
    fn place(&self, key: (Source, Root)) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |&(key, _)| key)
    }

    fn known(&self, key: (Source, Root)) -> Option<u64> {
        self.place(key).ok().map(|at| self.0[at].1)
    }

    /// Adds a fact, unless a stronger one exists.
    fn add(&mut self, key: (Source, Root), bytes: u64) {
        match self.place(key) {
            Ok(at) => self.0[at].1 = bytes.max(self.0[at].1),
            Err(at) => self.0.insert(at, (key, bytes)),
        }
    }
}

/// The facts at the start of every block. They hold to its end, because checks are terminators.
#[derive(Debug)]
pub struct Lengths<'a> {
    graph: &'a Graph,
    ranges: &'a Ranges,
    definitions: Vec<Option<&'a Op>>,
    homes: Vec<Option<Block>>,
    facts: Vec<Option<Facts>>,
}

impl<'a> Lengths<'a> {
    /// Computes the facts of reachable blocks. The graph must be otherwise well formed.
    pub fn of(graph: &'a Graph, flow: &ControlFlow, ranges: &'a Ranges) -> Self {
        let mut definitions = vec![None; graph.values.len()];
        let mut homes = vec![None; graph.values.len()];
        for block in graph.block_ids() {
            let data = graph.block(block);
            for inst in &data.insts {
                for result in &inst.results {
                    definitions[result.index()] = Some(&inst.op);
                    homes[result.index()] = Some(block);
                }
            }
            data.params.iter().for_each(|param| homes[param.index()] = Some(block));
        }
        let facts = vec![None; graph.blocks.len()];
        let mut lengths = Self { graph, ranges, definitions, homes, facts };
        lengths.solve(flow);
        lengths
    }

    /// Whether `buf` provably contains `bytes` bytes from `offset` on, in `block`.
    pub fn prove(&self, block: Block, buf: Value, offset: Value, bytes: u64) -> bool {
        let Some(facts) = &self.facts[block.index()] else { return false };
        let source = self.source(buf);
        self.roots(offset, facts).into_iter().any(|(root, plus)| {
            let known = facts.known((source, root));
            known.is_some_and(|known| plus.checked_add(bytes).is_some_and(|needed| needed <= known))
        })
    }

    fn solve(&mut self, flow: &ControlFlow) {
        let mut visits = vec![0; self.graph.blocks.len()];
        let mut stale = vec![true; self.graph.blocks.len()];
        self.facts[self.graph.entry.index()] = Some(Facts::default());
        let mut goes_round = true;
        while std::mem::take(&mut goes_round) {
            for &block in flow.order() {
                if !std::mem::take(&mut stale[block.index()]) {
                    continue;
                }
                // In this order, at least one predecessor of a block comes before it.
                let Some(facts) = &self.facts[block.index()] else { continue };
                visits[block.index()] += 1;
                for (successor, arriving) in self.leaving(block, facts) {
                    let meets = flow.predecessors(successor).len() > 1;
                    let give_up = meets && visits[successor.index()] > VISITS_MAX;
                    if meet(&mut self.facts[successor.index()], arriving, give_up) {
                        stale[successor.index()] = true;
                        goes_round |= flow.goes_back(block, successor);
                    }
                }
            }
        }
        debug_assert!(flow.order().iter().all(|block| !stale[block.index()]), "a fact may still shrink");
    }

    /// The facts on each edge out of `block`.
    fn leaving(&self, block: Block, facts: &Facts) -> Vec<(Block, Facts)> {
        match &self.graph.block(block).terminator {
            Terminator::Check { buf, offset, bytes, then, otherwise } => {
                let mut passed = facts.clone();
                self.learn(&mut passed, *buf, *offset, u64::from(*bytes));
                vec![
                    (then.block, self.across(&passed, then)),
                    (otherwise.block, self.across(facts, otherwise)),
                ]
            }
            Terminator::Lookup { then, .. } => {
                vec![(*then, self.across(facts, &Target { block: *then, args: vec![] }))]
            }
            other => other.targets().into_iter().map(|t| (t.block, self.across(facts, t))).collect(),
        }
    }

    /// Adds the facts of a passing check, for the buffer and for all buffers from which it was narrowed.
    fn learn(&self, facts: &mut Facts, buf: Value, offset: Value, bytes: u64) {
        let roots = self.roots(offset, facts);
        let mut at = buf;
        loop {
            let source = self.source(at);
            for &(root, plus) in &roots {
                facts.add((source, root), plus.saturating_add(bytes));
            }
            match self.definitions[at.index()] {
                Some(Op::Narrow(wider, _)) => at = *wider,
                _ => return,
            }
        }
    }

    /// The facts translated to the target: its parameters replace the arguments, and facts about values that
    /// it defines itself are dropped, because those belong to an earlier iteration.
    fn across(&self, facts: &Facts, target: &Target) -> Facts {
        let stays = |value: Value| self.homes[value.index()] != Some(target.block);
        let is_of_it = |&((source, root), _): &((Source, Root), u64)| {
            matches!(source, Source::Value(value) if !stays(value)) || root.is_some_and(|root| !stays(root))
        };
        if target.args.is_empty() && !facts.0.iter().any(is_of_it) {
            return facts.clone();
        }
        let params = &self.graph.block(target.block).params;
        let handed: Vec<_> = params.iter().zip(&target.args).map(|(&p, &arg)| (p, arg)).collect();
        let roots: Vec<_> = handed.iter().map(|&(p, arg)| (p, self.roots(arg, facts))).collect();
        let mut arriving = Facts::default();
        for &((source, root), known) in &facts.0 {
            let mut sources: Vec<Source> =
                handed.iter().filter(|h| self.source(h.1) == source).map(|h| Source::Value(h.0)).collect();
            if !matches!(source, Source::Value(value) if !stays(value)) {
                sources.push(source);
            }
            let mut offsets: Vec<(Root, u64)> = vec![];
            for (param, roots) in &roots {
                let plus = roots.iter().find(|(r, _)| *r == root).map(|(_, plus)| *plus);
                offsets.extend(plus.and_then(|plus| known.checked_sub(plus)).map(|n| (Some(*param), n)));
            }
            if root.is_none_or(stays) {
                offsets.push((root, known));
            }
            for &source in &sources {
                for &(root, known) in &offsets {
                    arriving.add((source, root), known);
                }
            }
        }
        arriving
    }

    /// Every root from which `offset` differs by a constant, without wrapping.
    fn roots(&self, offset: Value, facts: &Facts) -> Vec<(Root, u64)> {
        let (mut at, mut plus) = (offset, 0_u64);
        let mut roots = vec![];
        loop {
            roots.push((Some(at), plus));
            if let Some(total) = self.constant(at).and_then(|n| n.checked_add(plus)) {
                roots.push((None, total));
            }
            let Some((inner, more)) = self.sum(at) else { return roots };
            let (true, Some(total)) = (self.bound(inner, facts) < EXACT, plus.checked_add(more)) else {
                return roots;
            };
            (at, plus) = (inner, total);
        }
    }

    /// An upper bound of `value` from facts and ranges.
    fn bound(&self, value: Value, facts: &Facts) -> u64 {
        let (mut at, mut plus) = (value, 0_u64);
        let mut bound = u64::MAX;
        loop {
            let checked = facts.0.iter().any(|((_, root), _)| *root == Some(at));
            let here = if checked { BUFFER_BYTES_MAX } else { self.ranges.max(at) };
            bound = bound.min(here.saturating_add(plus));
            let Some((inner, more)) = self.sum(at) else { return bound };
            (at, plus) = (inner, plus.saturating_add(more));
        }
    }

    /// The value and the small constant of which `value` is the sum.
    fn sum(&self, value: Value) -> Option<(Value, u64)> {
        let Some(&Op::Binary(BinaryOp::Add, a, b)) = self.definitions[value.index()] else { return None };
        let constant = self.constant(b).map(|c| (a, c)).or(self.constant(a).map(|c| (b, c)));
        constant.filter(|&(_, c)| c < EXACT)
    }

    fn constant(&self, value: Value) -> Option<u64> {
        match self.definitions[value.index()] {
            Some(Op::Const(n)) => Some(*n),
            _ => None,
        }
    }

    fn source(&self, buf: Value) -> Source {
        match self.definitions[buf.index()] {
            Some(Op::Frame) => Source::Frame,
            Some(Op::InputBytes(n)) => Source::Input(*n),
            _ => Source::Value(buf),
        }
    }
}

/// Intersects `facts` with `arriving`. True if anything changed.
fn meet(facts: &mut Option<Facts>, arriving: Facts, give_up: bool) -> bool {
    let Some(facts) = facts else {
        *facts = Some(arriving);
        return true;
    };
    let mut changed = false;
    facts.0.retain_mut(|(key, known)| match arriving.known(*key) {
        Some(other) if other >= *known => true,
        Some(other) if !give_up => {
            *known = other;
            changed = true;
            true
        }
        _ => {
            changed = true;
            false
        }
    });
    changed
}

//! Post-dominators: the blocks in which the paths from a block meet again. Control dependence: the branches
//! that decide whether a block is reached.
//!
//! These are dominators of the reversed graph, whose entry is a node after all ends. A restart leads back to
//! the block after its lookup, because the engine resumes there.

use crate::csr::Csr;
use crate::graph::{Block, Graph, Terminator};
use crate::passes::edit::{NONE, Order};

/// The post-dominator tree and control dependence.
#[derive(Debug)]
pub(super) struct PostDominators {
    /// The closest block that every path from a block to the end passes; the number of blocks denotes the
    /// end.
    above: Vec<u32>,
    deciders: Csr<u32>,
}

impl PostDominators {
    /// Computes the tree and the control dependence. `None` if some block has no path to an end.
    pub fn of(graph: &Graph, order: &Order, last_lookup: &[u32]) -> Option<Self> {
        let end = graph.blocks.len();
        let successors = Csr::of(end + 1, |add| {
            for &block in &order.blocks {
                let terminator = &graph.block(block).terminator;
                match terminator {
                    Terminator::Done { .. } | Terminator::Rejoin { .. } => add(block.index(), end as u32),
                    Terminator::Restart => add(block.index(), after_restart(graph, block, last_lookup, end)),
                    other => other.for_each_successor(|next| add(block.index(), next.0)),
                }
            }
        });
        let predecessors = Csr::of(end + 1, |add| {
            for &block in &order.blocks {
                successors.at(block.index()).iter().for_each(|&next| add(next as usize, block.0));
            }
        });
        let (postorder, position) = walk_back(&predecessors, end);
        if postorder.len() != order.blocks.len() + 1 {
            return None;
        }
        let above = dominators(&successors, &postorder, &position, end);
        let deciders = Csr::of(end + 1, |add| {
            for &block in &order.blocks {
                let next = successors.at(block.index());
                if next.len() < 2 {
                    continue;
                }
                for &start in next {
                    let mut at = start;
                    while at != above[block.index()] {
                        add(at as usize, block.0);
                        at = above[at as usize];
                    }
                }
            }
        });
        Some(Self { above, deciders })
    }

    /// The blocks whose terminators decide whether `block` is reached.
    pub fn deciders(&self, block: Block) -> &[u32] {
        self.deciders.at(block.index())
    }

    /// The block to which `block` may jump directly if its terminator decides nothing that is needed.
    pub fn way_past(
        &self,
        graph: &Graph,
        block: Block,
        terminators: &[bool],
        blocks: &[bool],
    ) -> Option<Block> {
        if terminators[block.index()] {
            return None;
        }
        match &graph.block(block).terminator {
            Terminator::Jump(_)
            | Terminator::Done { .. }
            | Terminator::Rejoin { .. }
            | Terminator::Restart => None,
            Terminator::Lookup { then, .. } => Some(*then),
            _ => {
                let mut at = self.above[block.index()];
                while blocks.get(at as usize) == Some(&false) {
                    at = self.above[at as usize];
                }
                // Without a needed block before the end, the branch would distinguish ends after all.
                debug_assert!((at as usize) < blocks.len(), "{block} decides which end is reached");
                Some(Block(at))
            }
        }
    }
}

fn after_restart(graph: &Graph, block: Block, last_lookup: &[u32], end: usize) -> u32 {
    match last_lookup[block.index()] {
        NONE => end as u32,
        lookup => match graph.block(Block(lookup)).terminator {
            Terminator::Lookup { then, .. } => then.0,
            _ => end as u32,
        },
    }
}

/// Walks back from the end: nodes in postorder, and the position of each node.
fn walk_back(predecessors: &Csr<u32>, end: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut postorder, mut position) = (vec![], vec![NONE; end + 1]);
    let mut entered = vec![false; end + 1];
    let mut stack = vec![(end as u32, false)];
    while let Some((node, left)) = stack.pop() {
        if left {
            position[node as usize] = postorder.len() as u32;
            postorder.push(node);
        } else if !std::mem::replace(&mut entered[node as usize], true) {
            stack.push((node, true));
            let before = predecessors.at(node as usize).iter();
            stack.extend(before.filter(|&&b| !entered[b as usize]).map(|&b| (b, false)));
        }
    }
    (postorder, position)
}

/// Cooper, Harvey, Kennedy 2001, as in [`crate::dominators`].
fn dominators(successors: &Csr<u32>, postorder: &[u32], position: &[u32], end: usize) -> Vec<u32> {
    let mut above = vec![NONE; end + 1];
    above[end] = end as u32;
    loop {
        let mut changed = false;
        for &node in postorder.iter().rev().skip(1) {
            let mut new = NONE;
            for &next in successors.at(node as usize) {
                if above[next as usize] == NONE {
                    continue;
                }
                new = if new == NONE { next } else { meet(&above, position, new, next) };
            }
            changed |= above[node as usize] != new;
            above[node as usize] = new;
        }
        if !changed {
            return above;
        }
    }
}

fn meet(above: &[u32], position: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while position[a as usize] < position[b as usize] {
            a = above[a as usize];
        }
        while position[b as usize] < position[a as usize] {
            b = above[b as usize];
        }
    }
    a
}

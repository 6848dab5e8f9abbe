//! The control-flow graph of a graph: block order, predecessors, dominators, loops.
//!
//! Everything here concerns blocks that are reachable from the entry. Unreachable blocks have no order and no
//! dominator, and are not listed as predecessors. The dominator tree is computed as in Cooper, Harvey,
//! Kennedy, "A Simple, Fast Dominance Algorithm" (2001): graphs here are small and almost reducible, so two
//! rounds suffice.

use crate::csr::Csr;
use crate::graph::{Block, Graph};

const NONE: u32 = u32::MAX;

/// The control flow of a graph when it was computed; changing the graph's blocks makes it stale.
#[derive(Debug, Clone)]
pub struct ControlFlow {
    order: Vec<Block>,
    position: Vec<u32>,
    predecessors: Csr<Block>,
    dominator: Vec<u32>,
    /// Entry and exit times of a walk over the dominator tree: a block dominates another if and only if its
    /// interval encloses the other's.
    interval: Vec<(u32, u32)>,
}

/// A natural loop: the header dominates all of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The block at which the loop is entered.
    pub header: Block,
    /// Blocks of the loop, including the header, by number.
    pub blocks: Vec<Block>,
}

impl ControlFlow {
    /// Computes the control flow. Every block that a terminator names must exist.
    pub fn of(graph: &Graph) -> Self {
        let order = reverse_postorder(graph);
        let mut position = vec![NONE; graph.blocks.len()];
        for (at, block) in order.iter().enumerate() {
            position[block.index()] = at as u32;
        }
        let predecessors = Csr::of(graph.blocks.len(), |add| {
            for &block in &order {
                graph.block(block).terminator.for_each_successor(|successor| add(successor.index(), block));
            }
        });
        let dominator = dominator_positions(&order, &position, &predecessors);
        let interval = intervals(&dominator);
        Self { order, position, predecessors, dominator, interval }
    }

    /// Reachable blocks in reverse postorder: each before its successors, except for back edges.
    pub fn order(&self) -> &[Block] {
        &self.order
    }

    /// Whether the block is reachable from the entry.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.position[block.index()] != NONE
    }

    /// Whether an edge leads to a block that is not later in the order. Both blocks must be reachable. Every
    /// loop contains such an edge.
    pub fn goes_back(&self, from: Block, to: Block) -> bool {
        self.position[to.index()] <= self.position[from.index()]
    }

    /// The reachable predecessors of a block: one entry per edge, so a branch with two equal targets counts
    /// twice.
    pub fn predecessors(&self, block: Block) -> &[Block] {
        self.predecessors.at(block.index())
    }

    /// The closest block that every path to `block` passes; none for the entry and unreachable blocks.
    pub fn immediate_dominator(&self, block: Block) -> Option<Block> {
        let at = self.position[block.index()];
        (at != NONE && at != 0).then(|| self.order[self.dominator[at as usize] as usize])
    }

    /// Whether every path to `below` passes `above`; a block dominates itself. False for unreachable blocks.
    pub fn dominates(&self, above: Block, below: Block) -> bool {
        let (a, b) = (self.position[above.index()], self.position[below.index()]);
        if a == NONE || b == NONE {
            return false;
        }
        let (a, b) = (self.interval[a as usize], self.interval[b as usize]);
        a.0 <= b.0 && b.1 <= a.1
    }

    /// The natural loops, by header; back edges to the same header form one loop.
    pub fn loops(&self) -> Vec<Loop> {
        let mut loops = vec![];
        for &header in &self.order {
            let mut pending: Vec<Block> =
                self.predecessors(header).iter().copied().filter(|&p| self.dominates(header, p)).collect();
            if pending.is_empty() {
                continue;
            }
            let mut blocks = vec![header];
            while let Some(block) = pending.pop() {
                if !blocks.contains(&block) {
                    blocks.push(block);
                    pending.extend(self.predecessors(block));
                }
            }
            blocks.sort_unstable();
            loops.push(Loop { header, blocks });
        }
        loops
    }
}

fn reverse_postorder(graph: &Graph) -> Vec<Block> {
    if graph.blocks.is_empty() {
        return vec![];
    }
    let mut seen = vec![false; graph.blocks.len()];
    let mut order = vec![];
    // No recursion: the depth is the length of the longest path, and a parsed graph may have any length.
    let mut stack = vec![(graph.entry, graph.block(graph.entry).terminator.successors())];
    seen[graph.entry.index()] = true;
    while let Some((block, successors)) = stack.last_mut() {
        match successors.pop() {
            Some(next) if !seen[next.index()] => {
                seen[next.index()] = true;
                stack.push((next, graph.block(next).terminator.successors()));
            }
            Some(_) => {}
            None => {
                order.push(*block);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}

/// Immediate dominators; blocks are given by their position in the order.
fn dominator_positions(order: &[Block], position: &[u32], predecessors: &Csr<Block>) -> Vec<u32> {
    let mut dominator = vec![NONE; order.len()];
    if order.is_empty() {
        return dominator;
    }
    dominator[0] = 0;
    let meet = |dominator: &[u32], mut a: u32, mut b: u32| {
        while a != b {
            while a > b {
                a = dominator[a as usize];
            }
            while b > a {
                b = dominator[b as usize];
            }
        }
        a
    };
    loop {
        let mut changed = false;
        for (at, block) in order.iter().enumerate().skip(1) {
            let mut new = NONE;
            for predecessor in predecessors.at(block.index()) {
                let p = position[predecessor.index()];
                if dominator[p as usize] != NONE {
                    new = if new == NONE { p } else { meet(&dominator, new, p) };
                }
            }
            changed |= dominator[at] != new;
            dominator[at] = new;
        }
        if !changed {
            return dominator;
        }
    }
}

fn intervals(dominator: &[u32]) -> Vec<(u32, u32)> {
    let children = Csr::of(dominator.len(), |add| {
        dominator.iter().enumerate().skip(1).for_each(|(at, &above)| add(above as usize, at as u32));
    });
    let mut interval = vec![(0, 0); dominator.len()];
    let mut time = 0;
    let mut stack = if dominator.is_empty() { vec![] } else { vec![(0, 0)] };
    while let Some((at, next)) = stack.last_mut() {
        if *next == 0 {
            interval[*at].0 = time;
            time += 1;
        }
        match children.at(*at).get(*next) {
            Some(&child) => {
                *next += 1;
                stack.push((child as usize, 0));
            }
            None => {
                interval[*at].1 = time;
                time += 1;
                stack.pop();
            }
        }
    }
    interval
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> ControlFlow {
        ControlFlow::of(&text.parse().expect("a graph"))
    }

    #[test]
    fn neither_arm_of_a_branch_dominates_the_join() {
        let flow = shape(
            "block0:\n v0 = bool true\n branch v0, block1, block2\nblock1:\n jump block3\n\
             block2:\n jump block3\nblock3:\n v1 = const 0\n done v1\nblock4:\n jump block3\n",
        );
        assert_eq!(flow.immediate_dominator(Block(3)), Some(Block(0)));
        assert!(flow.dominates(Block(0), Block(3)) && flow.dominates(Block(3), Block(3)));
        assert!(!flow.dominates(Block(1), Block(3)) && !flow.dominates(Block(2), Block(3)));
        assert!(!flow.is_reachable(Block(4)));
        assert_eq!(flow.predecessors(Block(3)).len(), 2, "the unreachable one does not count");
    }

    #[test]
    fn a_loop_is_its_header_and_what_leads_back_to_it() {
        let flow = shape(
            "fuels 1\nblock0:\n jump block1\nblock1:\n v0 = bool true\n branch v0, block2, block3\n\
             block2:\n again fuel0 4, block1, block3\nblock3:\n v1 = const 0\n done v1\n",
        );
        let expected = Loop { header: Block(1), blocks: vec![Block(1), Block(2)] };
        assert_eq!(flow.loops(), vec![expected]);
    }
}

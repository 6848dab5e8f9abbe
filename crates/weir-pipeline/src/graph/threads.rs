//! The parts of a graph between queues: each runs on one thread.

use super::GraphError;
use super::node::{Edge, Kind, Node};
use crate::counts::{Counts, counts_of};
use crate::queue::Backoff;
use std::any::Any;
use std::thread::JoinHandle;

/// The nodes of a thread, each after those that it receives items from.
pub(super) struct Part {
    nodes: Vec<Box<dyn Node>>,
    /// By place in `nodes`: the connections from there. Copies come first.
    edges: Vec<Vec<Edge>>,
    /// The number of the first node in the graph.
    first: usize,
}

/// All parts of a graph.
pub(super) struct Parts {
    /// That of the source.
    pub(super) own: Part,
    pub(super) others: Vec<Part>,
}

/// A thread that runs a part.
pub(super) struct Thread {
    handle: JoinHandle<Counts>,
    first: usize,
}

impl Thread {
    /// The counters of its operators.
    pub(super) fn join(self) -> Result<Counts, GraphError> {
        self.handle.join().map_err(|_| GraphError::Panicked(self.first))
    }
}

impl Parts {
    pub(super) fn of(nodes: Vec<Box<dyn Node>>, edges: Vec<Edge>) -> Result<Self, GraphError> {
        let order = order_of(nodes.len(), &edges)?;
        let part_of = parts_of(nodes.len(), &edges);
        for edge in edges.iter().filter(|edge| edge.kind == Kind::Ring) {
            if part_of[edge.from] == part_of[edge.to] {
                let behind =
                    edges.iter().find(|behind| behind.from == edge.to).map_or(edge.to, |behind| behind.to);
                return Err(GraphError::TwoThreads(behind));
            }
        }
        check_threads(&part_of, &edges)?;
        let mut place = vec![0; nodes.len()];
        let mut lists: Vec<Vec<usize>> = vec![vec![]; nodes.len()];
        for &node in &order {
            place[node] = lists[part_of[node]].len();
            lists[part_of[node]].push(node);
        }
        let mut nodes: Vec<Option<Box<dyn Node>>> = nodes.into_iter().map(Some).collect();
        let mut parts: Vec<Part> = vec![];
        let mut part_at = vec![usize::MAX; lists.len()];
        for (number, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            part_at[number] = parts.len();
            let own = list.iter().filter_map(|node| nodes[*node].take()).collect();
            let edges = list.iter().map(|_| vec![]).collect();
            parts.push(Part { nodes: own, edges, first: list.iter().copied().min().unwrap_or(0) });
        }
        for edge in edges.into_iter().filter(|edge| edge.kind != Kind::Ring) {
            let part = &mut parts[part_at[part_of[edge.from]]];
            let (from, to) = (place[edge.from], place[edge.to]);
            part.edges[from].push(edge.at(from, to));
        }
        for edges in parts.iter_mut().flat_map(|part| &mut part.edges) {
            edges.sort_by_key(|edge| edge.kind != Kind::Copy);
        }
        let own = parts.remove(part_at[part_of[0]]);
        Ok(Self { own, others: parts })
    }
}

/// The nodes in an order in which each comes after those that it receives items from.
fn order_of(nodes: usize, edges: &[Edge]) -> Result<Vec<usize>, GraphError> {
    let mut before = vec![0; nodes];
    edges.iter().for_each(|edge| before[edge.to] += 1);
    let mut ready: Vec<usize> = (0..nodes).filter(|node| before[*node] == 0).collect();
    let mut order = vec![];
    while let Some(node) = ready.pop() {
        order.push(node);
        for edge in edges.iter().filter(|edge| edge.from == node) {
            before[edge.to] -= 1;
            if before[edge.to] == 0 {
                ready.push(edge.to);
            }
        }
    }
    match (0..nodes).find(|node| !order.contains(node)) {
        Some(node) => Err(GraphError::Cycle(node)),
        None => Ok(order),
    }
}

/// For each node: the number of its part, which is that of one of its nodes.
fn parts_of(nodes: usize, edges: &[Edge]) -> Vec<usize> {
    let mut part_of: Vec<usize> = (0..nodes).collect();
    for edge in edges.iter().filter(|edge| edge.kind != Kind::Ring) {
        let (kept, joined) = (part_of[edge.from], part_of[edge.to]);
        part_of.iter_mut().filter(|part| **part == joined).for_each(|part| *part = kept);
    }
    part_of
}

/// Checks that no queue leads back to a thread before it: both threads would wait for each other. The thread
/// of the source runs only when the source gets an item, so that no queue may lead there.
fn check_threads(part_of: &[usize], edges: &[Edge]) -> Result<(), GraphError> {
    let rings: Vec<_> = edges.iter().filter(|edge| edge.kind == Kind::Ring).collect();
    let behind = |edge: &Edge| edges.iter().find(|next| next.from == edge.to).map_or(edge.to, |next| next.to);
    if let Some(back) = rings.iter().find(|ring| part_of[ring.to] == part_of[0]) {
        return Err(GraphError::ThreadCycle(behind(back)));
    }
    // Each step leads to another part, so that a path without a cycle is not longer than the rings.
    for start in &rings {
        let mut reached = vec![part_of[start.to]];
        for _ in 0..rings.len() {
            let next = rings.iter().filter(|ring| reached.contains(&part_of[ring.from]));
            let next: Vec<usize> =
                next.map(|ring| part_of[ring.to]).filter(|part| !reached.contains(part)).collect();
            reached.extend(next);
        }
        if reached.contains(&part_of[start.from]) {
            return Err(GraphError::ThreadCycle(behind(start)));
        }
    }
    Ok(())
}

impl Part {
    /// The inbox of the source, the first node.
    pub(super) fn source(&mut self) -> &mut dyn Any {
        self.nodes[0].inbox()
    }

    /// Works on all that waits. Returns whether anything did.
    pub(super) fn work(&mut self) -> bool {
        self.work_from(0)
    }

    /// The same of the nodes from this place on. A node whose outbox is full goes on once those behind it
    /// have taken it.
    fn work_from(&mut self, first: usize) -> bool {
        let mut has_worked = false;
        for at in first..self.nodes.len() {
            while self.nodes[at].work() {
                has_worked = true;
                let (before, after) = self.nodes.split_at_mut(at + 1);
                let node = &mut before[at];
                for edge in &self.edges[at] {
                    edge.pass(&mut **node, &mut *after[edge.to - at - 1]);
                }
                node.clear();
                self.work_from(at + 1);
            }
        }
        has_worked
    }

    /// The counters of its operators.
    pub(super) fn counts(&self) -> Counts {
        counts_of(|tell| self.nodes.iter().for_each(|node| node.counters(tell)))
    }

    pub(super) fn spawn(mut self) -> Thread {
        let first = self.first;
        let run = move || {
            let mut backoff = Backoff::default();
            loop {
                let has_worked = self.work();
                let mut receivers = self.nodes.iter().filter(|node| node.is_receiver());
                if receivers.all(|node| node.has_ended()) {
                    return self.counts();
                }
                if has_worked { backoff.reset() } else { backoff.wait() }
            }
        };
        Thread { handle: std::thread::spawn(run), first }
    }
}

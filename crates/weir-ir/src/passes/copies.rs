//! Replaces parameters that always hold the same value by that value, also around loops.
//!
//! Optimistic: every parameter is assumed to be a copy of the first value passed to it, until an edge passes
//! another. This finds groups of parameters that pass one value to each other around a loop, which an
//! analysis of single parameters cannot find (the redundant strongly connected sets of Braun et al., CC 2013,
//! section 3.2). The value dominates every edge that passes it, and so the parameter's block.

use super::edit::{Order, Replacements, remove_params};
use crate::graph::{Graph, Value};

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let origin = origins(graph, &order);
    let mut replacements = Replacements::none(graph);
    let mut is_dropped = vec![false; graph.values.len()];
    let mut changed = false;
    for &block in &order.blocks {
        for &param in &graph.block(block).params {
            let Some(value) = origin[param.index()].filter(|&v| v != param) else { continue };
            replacements.replace(param, value);
            is_dropped[param.index()] = true;
            changed = true;
        }
    }
    if changed {
        remove_params(graph, &is_dropped);
        replacements.apply(graph);
    }
    changed
}

/// The value that each value copies: itself, unless it is a parameter to which only one value is passed. The
/// engine passes the parameters of the entry and of blocks after a lookup.
fn origins(graph: &Graph, order: &Order) -> Vec<Option<Value>> {
    let mut origin: Vec<Option<Value>> = (0..graph.values.len() as u32).map(|v| Some(Value(v))).collect();
    let mut is_handed = vec![false; graph.blocks.len()];
    let mut edges: Vec<(Value, Value)> = vec![];
    for &block in &order.blocks {
        graph.block(block).terminator.for_each_target(|target| {
            is_handed[target.block.index()] = true;
            let params = &graph.block(target.block).params;
            edges.extend(params.iter().copied().zip(target.args.iter().copied()));
        });
    }
    for &block in order.blocks.iter().filter(|b| is_handed[b.index()]) {
        for &param in &graph.block(block).params {
            origin[param.index()] = None;
        }
    }
    // Each parameter changes from unknown to one value to itself, so the number of rounds is at most twice
    // the number of parameters.
    let mut again = true;
    while again {
        again = false;
        for &(param, arg) in &edges {
            let Some(handed) = origin[arg.index()] else { continue };
            let now = match origin[param.index()] {
                None => handed,
                Some(known) if known == handed || known == param => known,
                Some(_) => param,
            };
            if origin[param.index()] != Some(now) {
                origin[param.index()] = Some(now);
                again = true;
            }
        }
    }
    origin
}

//! Parameters that always hold the same value give way to it, also round loops.
//!
//! Optimistic: every parameter is taken to be a copy of the first value it is seen to be handed, until
//! an edge hands it another. So parameters that hand each other one value round a loop are found
//! together, where looking at one at a time finds none (the redundant strongly connected sets of Braun et
//! al., CC 2013, section 3.2). The value dominates every edge that hands it on, and so the parameter's block.

use super::edit::{Order, Replacements, remove_params};
use crate::graph::{Graph, Value};

/// Runs the pass; whether it changed anything.
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

/// The value that each value is a copy of: itself, unless it is a parameter that is only ever handed one.
/// Entry parameters and those after a lookup are handed theirs by the engine.
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
    // Each parameter goes from nothing to one value to itself: the rounds are bounded by twice their number.
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

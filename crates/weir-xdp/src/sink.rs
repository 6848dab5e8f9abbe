//! The part of a graph that needs nothing but the packet: whether some question may need the packet.
//!
//! That part ends where the graph emits an event, looks up a flow of which every packet is needed, or does
//! anything else that has an effect: the packet is needed there. Every packet that ends before any effect,
//! without a term that holds, is not needed. What the graph does with connections that the kernel has taken
//! over ([`kernel_flows`](weir_ir::kernel_flows)) stays: they are the only flows of the kernel.

use weir_ir::graph::{Block, BlockData, Graph, Inst, Meta, Op, Target, Terminator, Type, Value};
use weir_ir::kernel_flows::is_needed_anyway;
use weir_ir::passes;
use weir_ir::slot::{EngineSlot, SlotName};
use weir_packet::LinkType;

/// The graph of the verdict for frames of a link type, of a graph for the kernel: its terms are 0 if no
/// question needs the packet.
pub fn sink(graph: &Graph, link: LinkType) -> Graph {
    let mut sunk = Graph {
        name: graph.name.clone(),
        sets: graph.sets.clone(),
        patterns: graph.patterns.clone(),
        fuels: graph.fuels,
        values: graph.values.clone(),
        blocks: graph.blocks.clone(),
        entry: graph.entry,
        tables: graph.tables.clone(),
        vars: graph.vars.clone(),
        ..Graph::default()
    };
    let needed = needed(&mut sunk);
    for block in 0..graph.blocks.len() {
        let data = &mut sunk.blocks[block];
        let effect = data.insts.iter().position(|inst| has_effect(graph, &inst.op));
        if let Some(effect) = effect {
            data.insts.truncate(effect);
        }
        if effect.is_some() || leaves(graph, &data.terminator) {
            data.terminator = Terminator::Jump(Target { block: needed, args: vec![] });
        }
        data.insts.retain(|inst| inst.op.is_pure() || is_of_flow(&inst.op));
        for inst in &mut data.insts {
            if inst.op == Op::Meta(Meta::Link) {
                inst.op = Op::Const(u64::from(link.0));
            }
        }
        if let Terminator::Done { terms, .. } = data.terminator {
            data.terminator = Terminator::Done { terms, reason: None };
        }
    }
    cut_off(&mut sunk);
    passes::optimize(&mut sunk, &passes::Options::default());
    sunk
}

/// Adds the block at which the packet is needed.
fn needed(graph: &mut Graph) -> Block {
    let one: Value = graph.value(Type::Int);
    let inst = Inst { results: [one].into_iter().collect(), op: Op::Const(1) };
    graph.blocks.push(BlockData {
        params: vec![],
        insts: vec![inst],
        terminator: Terminator::Done { terms: one, reason: None },
    });
    Block(graph.blocks.len() as u32 - 1)
}

/// Whether the packet is needed because of an instruction. The record of a packet is no effect, unless
/// further terms are in it.
fn has_effect(graph: &Graph, op: &Op) -> bool {
    match op {
        Op::Store { out, .. } => graph.outs[out.index()] == SlotName::Engine(EngineSlot::FurtherTerms),
        Op::Note { .. } => false,
        other => !other.is_pure() && !is_of_flow(other),
    }
}

/// Whether an instruction accesses a variable of a flow.
fn is_of_flow(op: &Op) -> bool {
    matches!(op, Op::Get { .. } | Op::Set { .. })
}

/// Whether the engine goes on with the packet.
fn leaves(graph: &Graph, terminator: &Terminator) -> bool {
    match terminator {
        Terminator::Lookup { then, .. } => is_needed_anyway(graph, *then),
        other => matches!(other, Terminator::Restart | Terminator::Rejoin { .. }),
    }
}

/// Empties the blocks that no packet reaches any longer: they may name flows, which are gone.
fn cut_off(graph: &mut Graph) {
    let mut is_reached = vec![false; graph.blocks.len()];
    let mut open = vec![graph.entry];
    while let Some(block) = open.pop() {
        if !std::mem::replace(&mut is_reached[block.index()], true) {
            graph.block(block).terminator.for_each_successor(|next| open.push(next));
        }
    }
    let needed = Target { block: Block(graph.blocks.len() as u32 - 1), args: vec![] };
    for (block, _) in graph.blocks.iter_mut().zip(is_reached).filter(|(_, is_reached)| !is_reached) {
        *block = BlockData { params: vec![], insts: vec![], terminator: Terminator::Jump(needed.clone()) };
    }
}

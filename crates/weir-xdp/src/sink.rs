//! The part of a graph that needs nothing but the packet: whether some question may need the packet.
//!
//! That part ends where the graph looks up a flow, emits an event, or does anything else that has an effect: the packet is
//! needed there. Every packet that ends before any effect, without a term that holds, is not needed.

use weir_ir::graph::{BinaryOp, Block, BlockData, Graph, Inst, Meta, Op, Target, Terminator, Type, Value};
use weir_ir::passes;
use weir_ir::slot::{EngineSlot, SlotName};
use weir_packet::LinkType;

/// The graph of the verdict for frames of a link type: its terms are 0 if no question needs the packet. It has neither flows nor
/// effects. Of packets without a flow, the terms in `of_packets` count.
pub fn sink(graph: &Graph, link: LinkType, of_packets: u64) -> Graph {
    let mut sunk = Graph {
        name: graph.name.clone(),
        sets: graph.sets.clone(),
        patterns: graph.patterns.clone(),
        fuels: graph.fuels,
        values: graph.values.clone(),
        blocks: graph.blocks.clone(),
        entry: graph.entry,
        ..Graph::default()
    };
    let needed = needed(&mut sunk);
    for block in 0..graph.blocks.len() {
        let data = &mut sunk.blocks[block];
        let effect = data.insts.iter().position(|inst| has_effect(graph, &inst.op));
        if let Some(effect) = effect {
            data.insts.truncate(effect);
        }
        if effect.is_some() || leaves(&data.terminator) {
            data.terminator = Terminator::Jump(Target { block: needed, args: vec![] });
        }
        data.insts.retain(|inst| inst.op.is_pure());
        for inst in &mut data.insts {
            if inst.op == Op::Meta(Meta::Link) {
                inst.op = Op::Const(u64::from(link.0));
            }
        }
        if let Terminator::Done { terms, .. } = data.terminator {
            let [mask, counted] = [(); 2].map(|()| sunk.value(Type::Int));
            let data = &mut sunk.blocks[block];
            for (result, op) in
                [(mask, Op::Const(of_packets)), (counted, Op::Binary(BinaryOp::And, terms, mask))]
            {
                data.insts.push(Inst { results: [result].into_iter().collect(), op });
            }
            data.terminator = Terminator::Done { terms: counted, reason: None };
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

/// Whether the packet is needed because of an instruction. The record of a packet is no effect, unless further terms are in it.
fn has_effect(graph: &Graph, op: &Op) -> bool {
    match op {
        Op::Store { out, .. } => graph.outs[out.index()] == SlotName::Engine(EngineSlot::FurtherTerms),
        Op::Note { .. } => false,
        other => !other.is_pure(),
    }
}

/// Whether the program goes on elsewhere: after a lookup, or in another graph.
fn leaves(terminator: &Terminator) -> bool {
    matches!(terminator, Terminator::Lookup { .. } | Terminator::Restart | Terminator::Rejoin { .. })
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

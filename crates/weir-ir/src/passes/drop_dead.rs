//! Removes unneeded code: aggressive dead-code elimination with control dependence.
//!
//! All code is assumed dead until needed code needs it (Cytron et al. 1991, section 7.1). Needed from the
//! start is code whose effects are seen outside of the graph:
//!
//! * [`Terminator::Done`]: the drop reasons are counted;
//! * stores in the packet's record, and notes for traces ([`Op::Note`]);
//! * events that a question subscribes to;
//! * deliveries of bytes in tables that deliver, and lookups in observed tables.
//!
//! From there:
//!
//! * an instruction needs its operands, and the branches that decide whether its block is reached;
//! * a parameter needs its arguments, and the branches that decide which edge is taken;
//! * a `get` needs all writes of its variable;
//! * a lookup needs the writes of its table's observed variables, and its restarts;
//! * the instructions of a sequence need each other and all other writes of its `$seq.` variables: inserted
//!   bytes must be taken out, or no later bytes would ever be in order.
//!
//! Code that is not needed is removed. A branch that decides nothing jumps to the point where its paths meet
//! again, even across a loop: loops are bounded, so the loop would have ended. Then unused declarations are
//! removed: variables that are neither accessed nor observed, sequences, sets and patterns. Tables, events
//! and outs keep their numbers.

mod declarations;
mod postdominators;

use super::edit::{NONE, Order, Place, places, remove_params, remove_unreachable};
use crate::build::to;
use crate::csr::Csr;
use crate::graph::{Block, Graph, Op, Sequence, Table, Terminator, Value, Var};
use crate::liveness::{NO_LOOKUP, last_lookups};
use postdominators::PostDominators;

/// Runs the pass. Returns whether it changed anything.
pub fn run(graph: &mut Graph) -> bool {
    let order = Order::of(graph);
    let last_lookup = last_lookups(graph, &order.blocks);
    let Some(shape) = PostDominators::of(graph, &order, &last_lookup) else { return false };
    let mut needs = Needs::of(graph, &order, &shape, &last_lookup);
    needs.add_roots();
    needs.close();
    let Needs { values, insts, first_inst, terminators, blocks, .. } = needs;
    let mut changed = false;
    let mut is_dropped = vec![false; graph.values.len()];
    for &block in &order.blocks {
        let at = block.index();
        let mut number = first_inst[at] as usize;
        let before = graph.blocks[at].insts.len();
        graph.blocks[at].insts.retain(|_| {
            number += 1;
            insts[number - 1]
        });
        changed |= graph.blocks[at].insts.len() != before;
        if let Some(next) = shape.way_past(graph, block, &terminators, &blocks) {
            graph.blocks[at].terminator = Terminator::Jump(to(next));
            changed = true;
        }
    }
    for &block in &order.blocks {
        graph.block(block).params.iter().for_each(|p| is_dropped[p.index()] = !values[p.index()]);
    }
    for &block in &order.blocks {
        if let Terminator::Lookup { then, .. } = graph.block(block).terminator {
            // The engine always passes these parameters.
            graph.block(then).params.iter().for_each(|p| is_dropped[p.index()] = false);
        }
    }
    if is_dropped.contains(&true) {
        remove_params(graph, &is_dropped);
        changed = true;
    }
    changed |= remove_unreachable(graph);
    changed | declarations::drop_unused(graph)
}

/// An entry of the work list.
#[derive(Debug, Clone, Copy)]
enum Work {
    Value(Value),
    Inst(Block, u32),
    Terminator(Block),
    Block(Block),
}

/// The needed code found so far.
struct Needs<'a> {
    graph: &'a Graph,
    order: &'a Order,
    shape: &'a PostDominators,
    last_lookup: &'a [u32],
    places: Vec<Place>,
    predecessors: Csr<u32>,
    values: Vec<bool>,
    /// By number: instructions are numbered through, block by block.
    insts: Vec<bool>,
    first_inst: Vec<u32>,
    terminators: Vec<bool>,
    blocks: Vec<bool>,
    tables: Vec<bool>,
    vars: Vec<bool>,
    sequences: Vec<bool>,
    /// All writes of variables, and all instructions of sequences.
    writes: Vec<(Var, Block, u32)>,
    steps: Vec<(Sequence, Block, u32)>,
    /// All instructions of messages. They are needed together: if one is, all are.
    messages: Vec<(Block, u32)>,
    restarts: Vec<Block>,
    work: Vec<Work>,
}

impl<'a> Needs<'a> {
    fn of(graph: &'a Graph, order: &'a Order, shape: &'a PostDominators, last_lookup: &'a [u32]) -> Self {
        let mut first_inst = vec![0; graph.blocks.len()];
        let (mut writes, mut steps, mut messages) = (vec![], vec![], vec![]);
        let (mut restarts, mut count) = (vec![], 0);
        for &block in &order.blocks {
            let data = graph.block(block);
            first_inst[block.index()] = count;
            count += data.insts.len() as u32;
            for (at, inst) in data.insts.iter().enumerate() {
                match inst.op {
                    Op::Set { var, .. } | Op::Append { var, .. } | Op::AppendAgain { var, .. } => {
                        writes.push((var, block, at as u32))
                    }
                    Op::SeqInsert { sequence, .. }
                    | Op::SeqAcknowledge { sequence, .. }
                    | Op::SeqBegin { sequence, .. }
                    | Op::SeqHold { sequence, .. }
                    | Op::SeqNext { sequence, .. }
                    | Op::SeqAssemble { sequence, .. } => steps.push((sequence, block, at as u32)),
                    Op::Collect { .. }
                    | Op::Messages { .. }
                    | Op::NextMessages { .. }
                    | Op::WholeValue { .. }
                    | Op::Refuel { .. } => {
                        messages.push((block, at as u32));
                    }
                    _ => {}
                }
            }
            if matches!(data.terminator, Terminator::Restart) {
                restarts.push(block);
            }
        }
        let predecessors = Csr::of(graph.blocks.len(), |add| {
            for &block in &order.blocks {
                graph.block(block).terminator.for_each_successor(|next| add(next.index(), block.0));
            }
        });
        Self {
            graph,
            order,
            shape,
            last_lookup,
            places: places(graph, order),
            predecessors,
            values: vec![false; graph.values.len()],
            insts: vec![false; count as usize],
            first_inst,
            terminators: vec![false; graph.blocks.len()],
            blocks: vec![false; graph.blocks.len()],
            tables: vec![false; graph.tables.len()],
            vars: vec![false; graph.vars.len()],
            sequences: vec![false; graph.sequences.len()],
            writes,
            steps,
            messages,
            restarts,
            work: vec![],
        }
    }

    /// Adds the observable effects.
    fn add_roots(&mut self) {
        let graph = self.graph;
        for &block in &self.order.blocks {
            let data = graph.block(block);
            for (at, inst) in data.insts.iter().enumerate() {
                let is_seen = match inst.op {
                    Op::Store { .. } | Op::Note { .. } => true,
                    Op::Emit { event, .. } => graph.events[event.index()].wanted,
                    Op::Deliver { flow, .. } => match graph.type_of(flow) {
                        crate::graph::Type::Flow(table) => graph.tables[table.index()].delivers,
                        _ => true,
                    },
                    _ => false,
                };
                if is_seen {
                    self.need_inst(block, at as u32);
                }
            }
            let is_seen = match data.terminator {
                Terminator::Done { .. } | Terminator::Rejoin { .. } => true,
                Terminator::Lookup { table, .. } => {
                    let table = &graph.tables[table.index()];
                    table.observed || table.ends
                }
                // The flow that this restart ends is not unique, so the restart stays.
                Terminator::Restart => self.last_lookup[block.index()] == NO_LOOKUP,
                _ => false,
            };
            if is_seen {
                self.need_terminator(block);
            }
        }
    }

    /// Adds everything that needed code needs, until nothing is added.
    fn close(&mut self) {
        let graph = self.graph;
        while let Some(work) = self.work.pop() {
            match work {
                Work::Value(value) => match self.places[value.index()] {
                    Place::Nowhere => {}
                    Place::Inst(block, at) => self.need_inst(block, at),
                    Place::Param(block, at) => self.add_edges(block, at as usize),
                },
                Work::Inst(block, at) => {
                    let op = &graph.block(block).insts[at as usize].op;
                    op.for_each_operand(|v| self.need_value(v));
                    self.need_block(block);
                    match *op {
                        Op::Get { var, .. } => self.need_var(var),
                        // The event belongs to the flow of the last lookup, whichever that is.
                        Op::Emit { flow: None, .. } => self.need_lookups(),
                        Op::SeqInsert { sequence, .. }
                        | Op::SeqAcknowledge { sequence, .. }
                        | Op::SeqBegin { sequence, .. }
                        | Op::SeqHold { sequence, .. }
                        | Op::SeqNext { sequence, .. }
                        | Op::SeqAssemble { sequence, .. } => self.need_sequence(sequence),
                        Op::Collect { .. }
                        | Op::Messages { .. }
                        | Op::NextMessages { .. }
                        | Op::WholeValue { .. }
                        | Op::Refuel { .. } => {
                            let all = std::mem::take(&mut self.messages);
                            all.into_iter().for_each(|(block, at)| self.need_inst(block, at));
                        }
                        _ => {}
                    }
                }
                Work::Terminator(block) => {
                    self.need_block(block);
                    let terminator = &graph.block(block).terminator;
                    terminator.for_each_own_operand(|v| self.need_value(v));
                    match terminator {
                        Terminator::Lookup { table, .. } => self.need_table(*table),
                        Terminator::Restart | Terminator::Rejoin { lookup: Some(_), .. }
                            if self.last_lookup[block.index()] != NO_LOOKUP =>
                        {
                            self.need_terminator(Block(self.last_lookup[block.index()]));
                        }
                        _ => {}
                    }
                }
                Work::Block(block) => {
                    let shape = self.shape;
                    for &branch in shape.deciders(block) {
                        self.need_terminator(Block(branch));
                    }
                    // A restart has no successor to jump to instead.
                    if matches!(graph.block(block).terminator, Terminator::Restart) {
                        self.need_terminator(block);
                    }
                }
            }
        }
    }

    /// Marks the arguments of a needed parameter, and the branches that decide between them.
    fn add_edges(&mut self, block: Block, place: usize) {
        let graph = self.graph;
        for at in 0..self.predecessors.at(block.index()).len() {
            let before = Block(self.predecessors.at(block.index())[at]);
            match &graph.block(before).terminator {
                Terminator::Jump(target) => {
                    self.need_block(before);
                    self.need_value(target.args[place]);
                }
                Terminator::Lookup { .. } => self.need_terminator(before),
                other => {
                    self.need_terminator(before);
                    other.for_each_target(|target| {
                        if target.block == block {
                            self.need_value(target.args[place]);
                        }
                    });
                }
            }
        }
    }

    fn need_lookups(&mut self) {
        for at in 0..self.order.blocks.len() {
            let block = self.order.blocks[at];
            if matches!(self.graph.block(block).terminator, Terminator::Lookup { .. }) {
                self.need_terminator(block);
            }
        }
    }

    fn need_value(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.work.push(Work::Value(value));
        }
    }

    fn need_inst(&mut self, block: Block, at: u32) {
        let number = self.first_inst[block.index()] + at;
        if !std::mem::replace(&mut self.insts[number as usize], true) {
            self.work.push(Work::Inst(block, at));
        }
    }

    fn need_terminator(&mut self, block: Block) {
        if !std::mem::replace(&mut self.terminators[block.index()], true) {
            self.work.push(Work::Terminator(block));
        }
    }

    fn need_block(&mut self, block: Block) {
        if !std::mem::replace(&mut self.blocks[block.index()], true) {
            self.work.push(Work::Block(block));
        }
    }

    fn need_table(&mut self, table: Table) {
        if std::mem::replace(&mut self.tables[table.index()], true) {
            return;
        }
        for (at, var) in self.graph.vars.iter().enumerate() {
            if var.table == table && var.observed {
                self.need_var(Var(at as u32));
            }
        }
        for at in 0..self.restarts.len() {
            let block = self.restarts[at];
            let lookup = self.last_lookup[block.index()];
            if lookup != NONE
                && matches!(self.graph.block(Block(lookup)).terminator, Terminator::Lookup { table: t, .. } if t == table)
            {
                self.need_terminator(block);
            }
        }
    }

    /// Marks all writes of a variable.
    fn need_var(&mut self, var: Var) {
        if std::mem::replace(&mut self.vars[var.index()], true) {
            return;
        }
        for at in 0..self.writes.len() {
            let (written, block, inst) = self.writes[at];
            if written == var {
                self.need_inst(block, inst);
            }
        }
        let decl = &self.graph.vars[var.index()];
        if decl.is_of_sequence() {
            for (at, sequence) in self.graph.sequences.iter().enumerate() {
                if sequence.table == decl.table {
                    self.need_sequence(Sequence(at as u32));
                }
            }
        }
    }

    fn need_sequence(&mut self, sequence: Sequence) {
        if std::mem::replace(&mut self.sequences[sequence.index()], true) {
            return;
        }
        for at in 0..self.steps.len() {
            let (of, block, inst) = self.steps[at];
            if of == sequence {
                self.need_inst(block, inst);
            }
        }
        let table = self.graph.sequences[sequence.index()].table;
        for (at, var) in self.graph.vars.iter().enumerate() {
            if var.table == table && var.is_of_sequence() {
                self.need_var(Var(at as u32));
            }
        }
    }
}

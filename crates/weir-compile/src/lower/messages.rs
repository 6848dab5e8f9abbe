//! Messages: what a direction's bytes in order are made of (`-> messages`), one after the other.
//!
//! The sequence of the layer below collects bytes whose turn it is (`collect`). When its work on the packet is done, the
//! program is given runs of them without a gap (`messages`, `next_messages`), and takes message after message of each apart:
//!
//! ```text
//! layer below ─► open ─► head ─► step ─► the message's layer ─► its edges ─► … ─► finish ─► over ─┐
//!                         ▲        └─► gather ◄── short, lost ◄──┘                                 │
//!                         └──────────────┴─────────────────────────────────────────────────────────┘
//! ```
//!
//! Where a packet's way would end (`finish`) the next message begins, until no run has a whole one. A message of whose header
//! bytes are missing waits for them; so does one of whose payload some are, where somebody reads that. What a packet's messages
//! fulfil the packet fulfils, as of layers that occur several times.

use super::Lower;
use super::instance::FlowContext;
use crate::catalog::FieldKey;
use std::collections::HashSet;
use weir_ir::abi::MESSAGES_LOST;
use weir_ir::build::Variable;
use weir_ir::graph::{
    BinaryOp, Block, CompareOp, Fuel, Op, Table, Target, Terminator, Type, Value, VarDecl, VarKind,
};
use weir_lang::filter::Op as FilterOp;
use weir_lang::model::{EdgeKind, LayerId};
use weir_packet::DropReason;

/// Messages of one packet at most; others come with the next packet.
pub const MESSAGES_MAX: u32 = 1024;

/// Where what encloses a message ends: nobody knows before it is there.
const NO_END: u64 = 1 << 40;

/// Name of the variable of a side that says which edge its messages follow: its number and one, 0 for none.
const CHOSEN: &str = "$messages";

/// What is known of the messages at hand.
#[derive(Debug, Clone)]
pub(super) struct MessageVars {
    /// The edge that they follow and one; 0 where the packet has none.
    edge: Variable,
    /// A message is being taken apart.
    pub active: Variable,
    /// The run, where the message begins in it, and where the next one does.
    run: Variable,
    at: Variable,
    next: Variable,
    /// Bytes that the message at `at` takes at least, from there on.
    wanted: Variable,
    /// Why one could not be followed to its end: a place in the list of reasons and one.
    pub reason: Variable,
    /// What the layers below left: the path, and what `below.` means.
    path: [Variable; 2],
    below: Vec<(String, (Variable, Variable))>,
    head: Block,
    gather: Block,
    pub over: Block,
    pub lost: Block,
}

impl Lower<'_> {
    /// Which layers' states are asked for by a filter or wanted: what happens to them, or the messages that they hold.
    pub(super) fn find_asked(&self) -> Vec<bool> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        layers.map(|id| self.is_asked_for_events(id) || self.are_messages_wanted(id)).collect()
    }

    /// Whether the work on layers from here on needs packets that no term can hold of: what they do to an instance counts.
    pub(super) fn is_asked_above(&self, id: LayerId) -> bool {
        let mut asked = self.asked.iter().enumerate().filter(|(_, asked)| **asked);
        asked.any(|(index, _)| {
            index == usize::from(id.0) || self.reachable[usize::from(id.0)].contains(&LayerId(index as u16))
        })
    }

    /// Whether somebody wants to know of messages that this layer's streams hold, or of what is in them.
    pub(super) fn are_messages_wanted(&self, id: LayerId) -> bool {
        let mut above = HashSet::new();
        for (_, to) in self.message_edges(id) {
            above.insert(to);
            above.extend(&self.reachable[usize::from(to.0)]);
        }
        if above.is_empty() {
            return false;
        }
        let need = &self.need;
        let mut keys = self.trie.predicates.iter().map(|predicate| self.catalog.key(predicate.field));
        let is_connection = |id: &LayerId| {
            let instance = self.layer(*id).protocol.instance.as_ref();
            instance.is_some_and(|instance| !instance.destination.is_empty())
        };
        need.events != 0
            || need.lines
            || need.places
            || need.path
            || keys.any(|key| key.layer().is_some_and(|layer| above.contains(&layer)))
            || need.flows() && above.iter().any(is_connection)
    }

    fn message_edges(&self, id: LayerId) -> Vec<(usize, LayerId)> {
        let edges = self.stack.edges.iter().enumerate();
        edges.filter(|(_, e)| e.from == id && e.kind == EdgeKind::Messages).map(|(n, e)| (n, e.to)).collect()
    }

    /// Whether a layer is what messages are.
    pub(super) fn is_message(&self, id: LayerId) -> bool {
        self.stack.edges.iter().any(|edge| edge.to == id && edge.kind == EdgeKind::Messages)
    }

    pub(super) fn declare_messages(&mut self) {
        if self.stack.edges.iter().all(|edge| edge.kind != EdgeKind::Messages) {
            return;
        }
        let [edge, at, next, wanted, reason] = [(); 5].map(|()| self.b.variable(Type::Int));
        let (active, run) = (self.b.variable(Type::Bool), self.b.variable(Type::Buf));
        let path = [(); 2].map(|()| self.b.variable(Type::Int));
        let names: Vec<String> = self.below.keys().cloned().collect();
        let mut words = || (self.b.variable(Type::Int), self.b.variable(Type::Int));
        let below = names.into_iter().map(|name| (name, words())).collect();
        let [head, gather, over, lost, through] = [(); 5].map(|()| self.b.block());
        self.finish.set_through(through);
        let vars = MessageVars {
            edge,
            active,
            run,
            at,
            next,
            wanted,
            reason,
            path,
            below,
            head,
            gather,
            over,
            lost,
        };
        self.messages = Some(vars);
    }

    pub(super) fn declare_chosen(&mut self, id: LayerId, table: Table) {
        if self.are_messages_wanted(id) {
            let (name, kind) = (CHOSEN.to_string(), VarKind::Bits(16));
            let decl = VarDecl { table, name, kind, each_side: true, observed: false };
            self.b.graph.vars.push(decl);
        }
    }

    /// The first packet of a side that an edge's condition holds of decides what its messages are.
    pub(super) fn lower_chosen(&mut self, id: LayerId, context: &FlowContext) {
        if !self.are_messages_wanted(id) {
            return;
        }
        let (flow, var, side) = (context.flow, self.var(context.table, CHOSEN), Some(context.responder));
        let mut chosen = self.b.one(Op::Get { flow, var, side });
        for (number, _) in self.message_edges(id) {
            let condition = &self.stack.edges[number].condition;
            let holds = self.truth(id, condition);
            let number = self.b.int(number as u64 + 1);
            let taken = self.b.truth(chosen);
            let other = self.b.one(Op::Select(holds, number, chosen));
            chosen = self.b.one(Op::Select(taken, chosen, other));
        }
        self.b.push(Op::Set { flow, var, side, value: chosen });
    }

    /// Bytes whose turn it is are kept for the messages of their side.
    pub(super) fn lower_collect(
        &mut self,
        id: LayerId,
        context: &FlowContext,
        [gap, buf, offset, length]: [Value; 4],
    ) {
        if !self.are_messages_wanted(id) {
            return;
        }
        let (flow, var, side) = (context.flow, self.var(context.table, CHOSEN), context.responder);
        let chosen = self.b.one(Op::Get { flow, var, side: Some(side) });
        let chosen = self.b.truth(chosen);
        let something = self.b.binary(BinaryOp::Or, gap, length);
        let something = self.b.truth(something);
        let wanted = self.b.binary(BinaryOp::And, chosen, something);
        self.lower_either(
            wanted,
            |l| drop(l.b.push(Op::Collect { flow, side, gap, buf, offset, length })),
            |_| {},
        );
    }

    /// A layer's work on the packet is done. From it to its messages, where the packet's side has any; else what follows
    /// in its payload does.
    pub(super) fn lower_messages(&mut self, id: LayerId, context: &FlowContext) {
        let Some(vars) = self.messages.clone().filter(|_| self.are_messages_wanted(id)) else { return };
        let (flow, var, side) = (context.flow, self.var(context.table, CHOSEN), context.responder);
        let (open, others) = (self.b.block(), self.b.block());
        let edge = self.b.one(Op::Get { flow, var, side: Some(side) });
        let any = self.b.truth(edge);
        self.b.branch(any, open, others);
        self.b.seal(open);
        self.b.seal(others);
        self.b.switch_to(open);
        let run = self.b.one(Op::Messages { flow, side });
        self.b.write(vars.edge, edge);
        self.b.write(vars.run, run);
        self.export_below(id);
        let (zero, yes) = (self.b.int(0), self.b.bool(true));
        for variable in [vars.at, vars.wanted, vars.reason] {
            self.b.write(variable, zero);
        }
        self.b.write(vars.active, yes);
        let words = self.path.into_iter().zip(vars.path);
        let below = vars.below.iter().flat_map(|(name, saved)| {
            let now = self.below[name];
            [(now.0, saved.0), (now.1, saved.1)]
        });
        for (now, saved) in words.chain(below).collect::<Vec<_>>() {
            let value = self.b.read(now);
            self.b.write(saved, value);
        }
        // A segment that brings nothing has no message.
        let length = self.b.one(Op::Length(run));
        let some = self.b.truth(length);
        self.b.branch(some, vars.head, self.finish.through());
        self.b.switch_to(others);
    }

    /// The blocks between messages; all that lead to them are known.
    pub(super) fn lower_between_messages(&mut self) {
        let Some(vars) = self.messages.clone() else { return };
        self.lower_ends(&vars);
        let [step, enter, exhausted, more] = [(); 4].map(|()| self.b.block());
        let through = self.finish.through();
        // The message at hand is over. What does not go forward is none.
        self.b.seal(vars.over);
        self.b.switch_to(vars.over);
        let (at, next) = (self.b.read(vars.at), self.b.read(vars.next));
        let goes_on = self.b.compare(CompareOp::Lt, at, next);
        let forward = self.b.block();
        self.b.branch(goes_on, forward, vars.lost);
        self.b.seal(forward);
        self.b.switch_to(forward);
        let zero = self.b.int(0);
        self.b.write(vars.at, next);
        self.b.write(vars.wanted, zero);
        self.b.jump(vars.head);
        self.b.switch_to(vars.lost);
        let (lost, malformed) = (self.b.int(MESSAGES_LOST), self.finish.number_of(DropReason::Malformed));
        let malformed = self.b.int(malformed);
        self.b.write(vars.wanted, lost);
        self.b.write(vars.reason, malformed);
        self.b.jump(vars.gather);
        self.b.switch_to(vars.gather);
        let (done, wanted) = (self.b.read(vars.at), self.b.read(vars.wanted));
        let run = self.b.one(Op::NextMessages { done, wanted });
        let zero = self.b.int(0);
        self.b.write(vars.run, run);
        self.b.write(vars.at, zero);
        self.b.write(vars.wanted, zero);
        let length = self.b.one(Op::Length(run));
        let some = self.b.truth(length);
        self.b.branch(some, vars.head, through);
        self.b.seal(vars.head);
        self.b.switch_to(vars.head);
        let fuel = Fuel(self.b.graph.fuels);
        self.b.graph.fuels += 1;
        let (then, otherwise) =
            (Target { block: step, args: vec![] }, Target { block: exhausted, args: vec![] });
        self.b.end(Terminator::Again { fuel, max: MESSAGES_MAX, then, otherwise });
        self.b.seal(step);
        self.b.seal(exhausted);
        self.b.switch_to(exhausted);
        // What is left is kept for the next packet.
        let (done, zero) = (self.b.read(vars.at), self.b.int(0));
        self.b.one(Op::NextMessages { done, wanted: zero });
        self.b.jump(through);
        self.b.switch_to(step);
        let (at, run) = (self.b.read(vars.at), self.b.read(vars.run));
        let length = self.b.one(Op::Length(run));
        let left = self.b.compare(CompareOp::Lt, at, length);
        self.b.branch(left, enter, more);
        self.b.seal(enter);
        self.b.seal(more);
        self.b.switch_to(more);
        self.b.jump(vars.gather);
        self.b.switch_to(enter);
        self.lower_enter_message(&vars);
        self.b.seal(vars.lost);
        self.b.seal(vars.gather);
        self.lower_through(vars.reason);
    }

    /// To the layer of the message at hand, as if it followed the layer below for the first time.
    fn lower_enter_message(&mut self, vars: &MessageVars) {
        let (run, at, no) = (self.b.read(vars.run), self.b.read(vars.at), self.b.bool(false));
        let end = self.b.int(NO_END);
        self.b.write(self.buf, run);
        self.b.write(self.offset, at);
        self.b.write(self.end, end);
        self.b.write(self.quoted, no);
        self.b.write(vars.next, at);
        let words = self.path.into_iter().zip(vars.path);
        let below = vars.below.iter().flat_map(|(name, saved)| {
            let now = self.below[name];
            [(now.0, saved.0), (now.1, saved.1)]
        });
        for (now, saved) in words.chain(below).collect::<Vec<_>>() {
            let value = self.b.read(saved);
            self.b.write(now, value);
        }
        let edge = self.b.read(vars.edge);
        let edges = self.stack.edges.iter().enumerate().filter(|(_, edge)| edge.kind == EdgeKind::Messages);
        // Nothing is asked before: where a message ends must be known, whoever wants it.
        let target = |to: LayerId| Target { block: self.entries[usize::from(to.0)], args: vec![] };
        let cases = edges.map(|(number, edge)| (number as u64 + 1, target(edge.to))).collect();
        let otherwise = Target { block: vars.lost, args: vec![] };
        self.b.end(Terminator::Switch { value: edge, cases, otherwise });
    }

    /// The message's bytes up to `end` have to be there.
    pub(super) fn lower_there(&mut self, end: Value) {
        let vars = self.messages.clone().expect("the layer is a message");
        let run = self.b.read(vars.run);
        let length = self.b.one(Op::Length(run));
        let there = self.b.compare(CompareOp::Le, end, length);
        let (next, short) = (self.b.block(), self.b.block());
        self.b.branch(there, next, short);
        self.b.seal(next);
        self.b.seal(short);
        self.b.switch_to(short);
        self.lower_short(end);
        self.b.switch_to(next);
    }

    /// The message waits until its bytes up to `end` are there.
    pub(super) fn lower_short(&mut self, end: Value) {
        let vars = self.messages.clone().expect("the layer is a message");
        let at = self.b.read(vars.at);
        let wanted = self.b.binary(BinaryOp::Sub, end, at);
        self.b.write(vars.wanted, wanted);
        self.b.jump(vars.gather);
    }

    /// The header of a message was read, and how long its payload is: where the next one begins is known.
    pub(super) fn lower_message_end(&mut self, id: LayerId) {
        let layer_vars = self.vars(id);
        let payload_at = self.b.read(layer_vars.payload_at.expect("declared"));
        let bytes = match self.layer(id).protocol.payload {
            Some(_) => self.b.read(layer_vars.payload_bytes.expect("declared")),
            None => self.b.int(0),
        };
        let end = self.b.binary(BinaryOp::Add, payload_at, bytes);
        if self.reads_payload(id) {
            self.lower_there(end);
        }
        let vars = self.messages.clone().expect("the layer is a message");
        self.b.write(vars.next, end);
    }

    /// Whether somebody reads what follows the header of a message.
    fn reads_payload(&self, id: LayerId) -> bool {
        let asks_for_bytes =
            self.trie.predicates.iter().any(|predicate| match self.catalog.key(predicate.field) {
                FieldKey::Payload(layer) => layer == id,
                FieldKey::Layer(layer) => {
                    layer == id && (predicate.slice.is_some() || predicate.op != FilterOp::Exists)
                }
                _ => false,
            });
        asks_for_bytes
            || self.layer(id).protocol.instance.is_some()
            || self.stack.edges.iter().any(|edge| edge.from == id)
    }
}

//! Messages: the units into which a direction's in-order bytes are divided (`-> messages`).
//!
//! The sequence of the layer below collects in-order bytes (`collect`). After its work on the packet, the
//! program receives a contiguous run of them (`messages`), and after each message the rest of the run
//! (`next_messages`):
//!
//! ```text
//! layer below ─► open ─► enter ─► the message's layer ─► its edges ─► … ─► finish ─► over
//!                          ▲               │ bytes are missing, or it is none                │
//!                          └─── gather ◄───┴─────────────────────────────────────────────────┘
//! ```
//!
//! At the end of a packet's path (`finish`) the next message begins, until no run contains a complete one. A
//! packet satisfies the predicates that any of its messages satisfies, as for layers that occur several
//! times.

use super::instance::FlowContext;
use super::wholes::CarrierVars;
use super::{Lower, below_names};
use rustc_hash::FxHashSet;
use weir_ir::abi::{MESSAGES_LATER, MESSAGES_LOST};
use weir_ir::build::{Variable, to};
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{BinaryOp, Block, CompareOp, Fuel, Op, Table, Terminator, Type, Value};
use weir_lang::model::{EdgeKind, LayerId, Stack};
use weir_lang::reach::Reach;
use weir_packet::DropReason;

/// Maximum number of messages per packet; further ones are parsed with the next packet.
pub const MESSAGES_MAX: u32 = 16_384;

/// End of the bytes that enclose a message, while unknown: beyond every message.
const NO_END: u64 = 1 << 40;

/// The state of the packet's messages.
#[derive(Debug, Clone)]
pub(super) struct MessageVars {
    /// The number of the edge to the messages plus one; 0 if the packet has none.
    edge: Variable,
    /// Whether a message is being parsed.
    pub active: Variable,
    /// The run, which starts with the current message.
    pub run: Variable,
    /// The layer that carries the messages.
    pub carrier: CarrierVars,
    /// Size of the message in bytes; 0 while unknown.
    done: Variable,
    /// Minimum number of bytes that the message needs if some are missing, or the code for an invalid
    /// message.
    wanted: Variable,
    /// Why a message could not be parsed to its end: an index into the list of reasons, the first of which is
    /// none.
    pub reason: Variable,
    /// The state that the layers below left: the path, and the values of `below.`.
    saved: Vec<(Variable, Variable)>,
    /// The path to the last complete message.
    path: [Variable; 2],
    /// The variables of predicates: in this message, in the layers below, and in any message.
    pub asked: Vec<[Variable; 3]>,
    enter: Block,
    gather: Block,
    pub over: Block,
    pub lost: Block,
}

impl MessageVars {
    /// Pairs of variables: the current value of a `below.` name, and its value for the layer that carries the
    /// messages.
    pub fn below(&self) -> impl Iterator<Item = (Variable, Variable)> {
        self.saved.iter().skip(self.path.len()).copied()
    }
}

/// The layers that are messages, or inside messages.
pub fn in_messages(stack: &Stack) -> FxHashSet<LayerId> {
    let messages = stack.edges.iter().filter(|edge| edge.kind == EdgeKind::Messages).map(|edge| edge.to);
    let reach = Reach::of(stack);
    messages.flat_map(|to| reach.above(to).chain([to])).collect()
}

impl Lower<'_> {
    /// By layer: whether a filter tests its events, or the messages in it are wanted.
    pub(super) fn find_asked(&self) -> Vec<bool> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        layers.map(|id| self.is_asked_for_events(id) || self.are_messages_wanted(id)).collect()
    }

    /// Whether this layer or a layer above changes the state of instances that questions need even for
    /// packets that satisfy no term.
    pub(super) fn is_asked_above(&self, id: LayerId) -> bool {
        let mut asked = self.asked.iter().enumerate().filter(|(_, asked)| **asked);
        asked.any(|(index, _)| index == usize::from(id.0) || self.reach.contains(id, LayerId(index as u16)))
    }

    /// Whether messages in this layer's streams, or their contents, are wanted.
    pub(super) fn are_messages_wanted(&self, id: LayerId) -> bool {
        let mut above = FxHashSet::default();
        for (_, to) in self.message_edges(id) {
            above.insert(to);
            above.extend(self.reach.above(to));
        }
        if above.is_empty() {
            return false;
        }
        let need = &self.need;
        let mut keys = self.trie.predicates.iter().map(|predicate| self.catalog.key(predicate.field));
        let is_connection = |id: &LayerId| self.is_two_sided(*id);
        !need.events.is_empty()
            || need.lines
            || need.path
            || keys.any(|key| key.layer().is_some_and(|layer| above.contains(&layer)))
            || above.iter().any(|&layer| self.wants_values_of(layer))
            || need.flows() && above.iter().any(is_connection)
    }

    pub(super) fn message_edges(&self, id: LayerId) -> Vec<(usize, LayerId)> {
        let edges = self.stack.edges.iter().enumerate();
        edges.filter(|(_, e)| e.from == id && e.kind == EdgeKind::Messages).map(|(n, e)| (n, e.to)).collect()
    }

    /// Whether a layer is a type of message.
    pub(super) fn is_message(&self, id: LayerId) -> bool {
        self.stack.edges.iter().any(|edge| edge.to == id && edge.kind == EdgeKind::Messages)
    }

    pub(super) fn declare_messages(&mut self) {
        self.in_messages = in_messages(self.stack);
        if self.in_messages.is_empty() {
            return;
        }
        let [edge, done, wanted, reason] = [(); 4].map(|()| self.b.variable(Type::Int));
        let (active, run) = (self.b.variable(Type::Bool), self.b.variable(Type::Buf));
        let path = [(); 2].map(|()| self.b.variable(Type::Int));
        let carrier = self.declare_carrier();
        let layers = self.in_messages.iter().map(|&layer| self.layer(layer));
        let below = below_names(self.stack, layers).into_iter().map(|name| self.below[&name]);
        let below = below.flat_map(|(low, high)| [low, high]);
        let words: Vec<Variable> = self.path.into_iter().chain(below).collect();
        let saved = words.into_iter().map(|now| (now, self.b.variable(Type::Int))).collect();
        let asked = self.predicate_variables().into_iter();
        let asked = asked.map(|(now, ty)| [now, self.b.variable(ty), self.b.variable(ty)]).collect();
        let [enter, gather, over, lost, through] = [(); 5].map(|()| self.b.block());
        self.finish.set_through(through);
        self.declare_finish_in_messages();
        let vars = MessageVars {
            edge,
            active,
            run,
            carrier,
            done,
            wanted,
            reason,
            saved,
            path,
            asked,
            enter,
            gather,
            over,
            lost,
        };
        self.messages = Some(vars);
        if self.is_any_beside() {
            let pending = self.b.block();
            self.finish.set_pending(pending);
        }
    }

    pub(super) fn declare_chosen(&mut self, id: LayerId, table: Table) {
        if self.are_messages_wanted(id) {
            self.b.graph.vars.push(EngineVar::Messages.declare(table, false));
        }
    }

    /// Sets the type of a side's messages by the first packet for which an edge's condition holds.
    pub(super) fn lower_chosen(&mut self, id: LayerId, context: &FlowContext) {
        if !self.are_messages_wanted(id) {
            return;
        }
        let (flow, var, side) =
            (context.flow, self.engine_var(context.table, EngineVar::Messages), Some(context.responder));
        let chosen = self.b.one(Op::Get { flow, var, side });
        let chosen = self.lower_choice(id, chosen);
        self.b.push(Op::Set { flow, var, side, value: chosen });
    }

    /// The number plus one of the message edge that the current packet chooses; `chosen` if that is set or no
    /// edge matches.
    pub(super) fn lower_choice(&mut self, id: LayerId, mut chosen: Value) -> Value {
        for (number, _) in self.message_edges(id) {
            let condition = &self.stack.edges[number].condition;
            let holds = self.truth(id, condition);
            let number = self.b.int(number as u64 + 1);
            let taken = self.b.truth(chosen);
            let other = self.b.one(Op::Select(holds, number, chosen));
            chosen = self.b.one(Op::Select(taken, chosen, other));
        }
        chosen
    }

    /// Collects in-order bytes for the messages of their side.
    pub(super) fn lower_collect(
        &mut self,
        id: LayerId,
        context: &FlowContext,
        [gap, buf, offset, length]: [Value; 4],
    ) {
        if !self.are_messages_wanted(id) {
            return;
        }
        let (flow, var, side) =
            (context.flow, self.engine_var(context.table, EngineVar::Messages), context.responder);
        let chosen = self.b.one(Op::Get { flow, var, side: Some(side) });
        let chosen = self.b.truth(chosen);
        let something = self.b.binary(BinaryOp::Or, gap, length);
        let something = self.b.truth(something);
        let wanted = self.b.binary(BinaryOp::And, chosen, something);
        let whole = context.whole.iter().map(|&variable| self.b.read(variable)).collect();
        self.lower_either(
            wanted,
            |l| drop(l.b.push(Op::Collect { flow, side, gap, buf, offset, length, whole })),
            |_| {},
        );
    }

    /// After a layer's work on the packet: continues with its messages if the packet's side has any; else
    /// with the layers in its payload.
    pub(super) fn lower_messages(&mut self, id: LayerId, context: &FlowContext) {
        let Some(vars) = self.messages.clone().filter(|_| self.are_messages_wanted(id)) else { return };
        let (flow, var, side) =
            (context.flow, self.engine_var(context.table, EngineVar::Messages), context.responder);
        let (open, others) = (self.b.block(), self.b.block());
        let edge = self.b.one(Op::Get { flow, var, side: Some(side) });
        let any = self.b.truth(edge);
        self.b.branch(any, open, others);
        self.b.seal(open);
        self.b.switch_to(open);
        let run = self.b.one(Op::Messages { flow, side });
        self.b.write(vars.edge, edge);
        self.b.write(vars.run, run);
        self.lower_carrier(id, &vars.carrier);
        self.export_below(id);
        let (zero, yes) = (self.b.int(0), self.b.bool(true));
        self.b.write(vars.active, yes);
        self.copy(vars.saved.iter().copied());
        self.copy(self.path.into_iter().zip(vars.path));
        self.copy(vars.asked.iter().map(|&[now, below, _]| (now, below)));
        if self.is_any_beside() {
            // The packet may have had other messages before.
            vars.asked.iter().for_each(|&[now, _, any]| self.note_any(now, any));
        } else {
            self.b.write(vars.reason, zero);
            self.copy(vars.asked.iter().map(|&[now, _, any]| (now, any)));
        }
        // An empty run contains no message.
        let length = self.b.one(Op::Length(run));
        let some = self.b.truth(length);
        self.b.branch(some, vars.enter, self.finish.through());
        self.lower_behind(id, others);
        self.b.switch_to(others);
    }

    /// Sets `any` if `now` holds; otherwise `any` keeps its value.
    pub(super) fn note_any(&mut self, now: Variable, any: Variable) {
        let [before, here] = [any, now].map(|variable| self.b.read(variable));
        let either = self.b.binary(BinaryOp::Or, before, here);
        self.b.write(any, either);
    }

    /// Copies the first variable of each pair to the second.
    pub(super) fn copy(&mut self, pairs: impl IntoIterator<Item = (Variable, Variable)>) {
        for (from, to) in pairs {
            let value = self.b.read(from);
            self.b.write(to, value);
        }
    }

    /// Lowers the blocks between messages, after all layers are lowered.
    pub(super) fn lower_between_messages(&mut self) {
        let Some(vars) = self.messages.clone() else { return };
        self.lower_ends(&vars);
        self.lower_over(&vars);
        self.lower_gather(&vars);
        self.lower_enter(&vars);
        for block in [vars.lost, vars.gather, vars.enter] {
            self.b.seal(block);
        }
        let through = self.finish.through();
        self.b.seal(through);
        self.b.switch_to(through);
        self.copy(vars.path.into_iter().zip(self.path));
        self.lower_back(&vars);
        self.copy(vars.asked.iter().map(|&[now, _, any]| (any, now)));
        self.lower_through(vars.reason);
    }

    /// Ends a message; an empty one is invalid.
    fn lower_over(&mut self, vars: &MessageVars) {
        self.b.seal(vars.over);
        self.b.switch_to(vars.over);
        let done = self.b.read(vars.done);
        let some = self.b.truth(done);
        let next = self.b.block();
        self.b.branch(some, next, vars.lost);
        self.b.seal(next);
        self.b.switch_to(next);
        self.copy(self.path.into_iter().zip(vars.path));
        vars.asked.iter().for_each(|&[now, _, any]| self.note_any(now, any));
        let zero = self.b.int(0);
        self.b.write(vars.wanted, zero);
        self.b.jump(vars.gather);
        self.b.switch_to(vars.lost);
        let (zero, lost) = (self.b.int(0), self.b.int(MESSAGES_LOST));
        let malformed = self.finish.number_of(DropReason::Malformed);
        let malformed = self.b.int(malformed);
        self.b.write(vars.done, zero);
        self.b.write(vars.wanted, lost);
        self.b.write(vars.reason, malformed);
        self.b.jump(vars.gather);
    }

    /// Fetches the rest of the run.
    fn lower_gather(&mut self, vars: &MessageVars) {
        let (more, exhausted, through) = (self.b.block(), self.b.block(), self.finish.through());
        self.b.switch_to(vars.gather);
        let (done, wanted) = (self.b.read(vars.done), self.b.read(vars.wanted));
        self.b.again(MESSAGES_MAX, more, exhausted);
        self.b.seal(more);
        self.b.seal(exhausted);
        self.b.switch_to(exhausted);
        let later = self.b.int(MESSAGES_LATER);
        self.b.one(Op::NextMessages { done, wanted: later });
        self.b.jump(through);
        self.b.switch_to(more);
        let run = self.b.one(Op::NextMessages { done, wanted });
        self.b.write(vars.run, run);
        let length = self.b.one(Op::Length(run));
        let some = self.b.truth(length);
        self.b.branch(some, vars.enter, through);
    }

    /// Enters the layer of the current message, as if it followed the layer below for the first time.
    fn lower_enter(&mut self, vars: &MessageVars) {
        self.b.switch_to(vars.enter);
        let (zero, no) = (self.b.int(0), self.b.bool(false));
        self.copy([(vars.run, self.buf)]);
        self.b.write(self.offset, zero);
        self.b.write(self.quoted, no);
        self.b.write(vars.done, zero);
        self.copy(vars.saved.iter().map(|&(now, saved)| (saved, now)));
        self.copy(vars.asked.iter().map(|&[now, below, _]| (below, now)));
        let known = [self.b.int(NO_END), self.b.read(vars.edge)];
        let [end, edge] = self.lower_whole_at_hand(vars, known);
        self.b.write(self.end, end);
        let mut layers: Vec<LayerId> = self.in_messages.iter().copied().collect();
        layers.sort();
        for fuel in layers.into_iter().flat_map(|layer| self.fuels[usize::from(layer.0)].clone()) {
            self.b.push(Op::Refuel { fuel: Fuel(fuel) });
        }
        let edges = self.stack.edges.iter().enumerate().filter(|(_, edge)| edge.kind == EdgeKind::Messages);
        // Predicates are not tested before: the end of a message must be known even if the message is
        // unwanted.
        let target = |layer: LayerId| to(self.entries[usize::from(layer.0)]);
        let cases = edges.map(|(number, edge)| (number as u64 + 1, target(edge.to))).collect();
        let otherwise = to(vars.lost);
        self.b.end(Terminator::Switch { value: edge, cases, otherwise });
    }

    /// Requires the message's bytes up to `end`.
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

    /// Suspends the message until its bytes up to `end` are present.
    pub(super) fn lower_short(&mut self, end: Value) {
        let vars = self.messages.clone().expect("the layer is a message");
        self.b.write(vars.wanted, end);
        self.b.jump(vars.gather);
    }

    /// After header and payload: requires all bytes of the message, and sets where the next one begins.
    pub(super) fn lower_message_end(&mut self, id: LayerId) {
        let vars = self.vars(id);
        let payload_at = self.b.read(vars.payload_at.expect("declared"));
        let bytes = self.b.read(vars.payload_bytes.expect("declared"));
        let end = self.b.binary(BinaryOp::Add, payload_at, bytes);
        self.lower_there(end);
        let vars = self.messages.clone().expect("the layer is a message");
        self.b.write(vars.done, end);
    }
}

//! Lowers a layer's instance: lookup, preparation, states, events, timeouts. `sequence` lowers its sequence.

use super::Lower;
use super::event::Telling;
use super::sequence::delivered_on;
use crate::question::{RecordVar, TrieAlternative};
use crate::whole::whole_of;
use std::time::Duration;
use weir_ir::abi::{TIMEOUT_MS, VERDICT_FLAGS, WANTS_ANSWER};
use weir_ir::build::Variable;
use weir_ir::engine_var::{ASIDE_MAX, ASIDE_NEW, EngineVar, HISTORY_LETTERS_MAX, VarName};
use weir_ir::graph::{
    BinaryOp, Block, CompareOp, Op, Table, TableDecl, Terminator, Type, Value, Var, VarDecl, VarKind,
};
use weir_lang::model::{self, Held, LayerId, Side, Stmt, Target, Trigger, VarId};
use weir_packet::DropReason;

/// The current flow during lowering.
#[derive(Clone)]
pub(super) struct FlowContext {
    pub table: Table,
    pub flow: Value,
    pub responder: Value,
    /// Whether the instance was created for this packet.
    pub new: Value,
    pub two_sided: bool,
    /// The current state of the state machine.
    pub state: Variable,
    /// The state of the packet's events.
    pub telling: Telling,
    /// The fields read with `ordered.` of the packet that became in order, and their variables.
    pub ordered: Vec<(model::FieldId, Variable)>,
    /// The variables for the chunk of that packet: its flags, and the values of its chunked message.
    pub whole: Vec<Variable>,
    /// Per-packet variables, by [`VarId`]; `None` for variables of flows.
    packet_vars: Vec<Option<Variable>>,
    /// Whether a transition was taken; its own timeout in milliseconds plus one, 0 if it has none.
    taken: Variable,
    own_timeout: Variable,
}

impl FlowContext {
    /// The same context, for bytes of this side.
    pub(super) fn of_side(&self, responder: Value) -> Self {
        Self { responder, ..self.clone() }
    }
}

impl Lower<'_> {
    /// Lowers the instance of layer `id`. Returns whether the layer's edges follow.
    pub(super) fn lower_instance(&mut self, id: LayerId) -> bool {
        let protocol = &self.layer(id).protocol;
        let Some(instance) = &protocol.instance else {
            self.lower_events_alone(id);
            return true;
        };
        if !self.is_for_kernel(id) {
            return true;
        }
        let table = self.declare_table(id);
        let (with, after) = (self.b.block(), self.b.block());
        let quoted = self.b.read(self.quoted);
        let mut condition = self.b.one(Op::Not(quoted));
        if let Some(when) = &instance.condition {
            let when = self.truth(id, when);
            condition = self.b.binary(BinaryOp::And, condition, when);
        }
        self.b.branch(condition, with, after);
        self.b.seal(with);
        self.b.switch_to(with);
        self.lower_need_of_lookup(id, table, instance);
        let (key, swap) = self.lower_key(id, instance);
        let found = self.b.block();
        let flow = self.b.param(found, Type::Flow(table));
        let responder = self.b.param(found, Type::Bool);
        let new = self.b.param(found, Type::Bool);
        let reversed = instance.reversed.as_ref().map(|reversed| self.truth(id, reversed));
        self.b.end(Terminator::Lookup { table, key, swap, reversed, then: found });
        self.b.seal(found);
        self.b.switch_to(found);
        let context = self.flow_context(id, table, [flow, responder, new]);
        self.flow = Some(context.clone());
        if self.for_kernel.is_some() {
            if !protocol.states.is_empty() {
                self.lower_state(&context);
            }
            let continues = self.lower_steady(id, &context);
            self.flow = None;
            if continues {
                self.b.jump(after);
            }
            self.b.seal(after);
            self.b.switch_to(after);
            return true;
        }
        let work_done = self.b.block();
        self.lower_first_values(id, &context);
        self.lower_join(id, &context);
        // These packets come first, even if the old flow is no longer wanted: another flow may begin here.
        if !protocol.states.is_empty() {
            self.lower_state(&context);
            self.lower_elsewhere(id, &context, work_done);
        }
        let has_terms = context.two_sided || self.reports_ends(id);
        if has_terms {
            self.lower_terms(id, &context, false);
        }
        // If filters test events, or messages are wanted, the work is done even for flows of which nothing is
        // wanted.
        let is_asked = self.asked[usize::from(id.0)];
        if context.two_sided && !is_asked {
            self.lower_wants(&context, work_done);
        }
        self.lower_work(id, &context);
        if has_terms && is_asked {
            self.lower_terms(id, &context, true);
        }
        self.b.jump(work_done);
        self.b.seal(work_done);
        self.b.switch_to(work_done);
        self.lower_messages(id, &context);
        let hands_up = self.hands_up(id);
        if hands_up {
            self.lower_hand_up(id, &context);
        }
        self.flow = None;
        self.b.jump(after);
        self.b.seal(after);
        self.b.switch_to(after);
        true
    }

    /// Reads the state of the instance.
    fn lower_state(&mut self, context: &FlowContext) {
        let var = self.engine_var(context.table, EngineVar::State);
        let state = self.b.one(Op::Get { flow: context.flow, var, side: None });
        self.b.write(context.state, state);
    }

    /// The context of a flow that was just looked up, before any work.
    fn flow_context(&mut self, id: LayerId, table: Table, [flow, responder, new]: [Value; 3]) -> FlowContext {
        let context = FlowContext {
            table,
            flow,
            responder,
            new,
            two_sided: self.is_two_sided(id),
            state: self.b.variable(Type::Int),
            telling: self.telling(id, Some(flow)),
            ordered: self.ordered_fields(id),
            whole: self.whole_variables(id),
            packet_vars: self.packet_vars(id),
            taken: self.b.variable(Type::Bool),
            own_timeout: self.b.variable(Type::Int),
        };
        let (no, zero) = (self.b.bool(false), self.b.int(0));
        self.b.write(context.taken, no);
        self.b.write(context.own_timeout, zero);
        context
    }

    /// The context of a flow without a packet: only what the flow holds is known.
    pub(super) fn packetless_context(
        &mut self,
        id: LayerId,
        table: Table,
        [flow, responder, new]: [Value; 3],
    ) -> FlowContext {
        let [state, own_timeout] = [(); 2].map(|()| self.b.variable(Type::Int));
        if !self.layer(id).protocol.states.is_empty() {
            let var = self.engine_var(table, EngineVar::State);
            let value = self.b.one(Op::Get { flow, var, side: None });
            self.b.write(state, value);
        }
        FlowContext {
            table,
            flow,
            responder,
            new,
            two_sided: self.is_two_sided(id),
            state,
            telling: self.telling(id, Some(flow)),
            ordered: vec![],
            whole: vec![],
            packet_vars: vec![None; self.layer(id).protocol.vars.len()],
            taken: self.b.variable(Type::Bool),
            own_timeout,
        }
    }

    /// Whether the layer's instances have two directions: they are connections, or parts of connections.
    pub(super) fn is_two_sided(&self, id: LayerId) -> bool {
        self.layer(id).protocol.instance.as_ref().is_some_and(|instance| !instance.destination.is_empty())
    }

    /// Whether the layer's reassembled bytes are the payload of the layers above: true for one-sided
    /// instances with a sequence, such as fragments. The layers above a two-sided instance are parsed packet
    /// by packet; its in-order bytes go to sessions.
    pub(super) fn hands_up(&self, id: LayerId) -> bool {
        let protocol = &self.layer(id).protocol;
        let one_sided = protocol.instance.as_ref().is_some_and(|i| i.destination.is_empty());
        let assembles = protocol.sequence.is_some() && protocol.events.iter().any(|e| e.assemble);
        one_sided && assembles && self.stack.edges.iter().any(|e| e.from == id)
    }

    /// Whether the in-order bytes of a layer are wanted that carries the sessions of this transport.
    fn bytes_wanted(&self, transport: &str) -> bool {
        self.need.streams || !(self.need.sessions & self.catalog.sessions_over(transport)).is_empty()
    }

    fn declare_table(&mut self, id: LayerId) -> Table {
        let protocol = &self.layer(id).protocol;
        let instance = protocol.instance.as_ref().expect("the caller looked");
        let two_sided = !instance.destination.is_empty();
        let table = Table(self.b.graph.tables.len() as u32);
        let hands_up = self.hands_up(id);
        let delivers =
            two_sided && !hands_up && self.bytes_wanted(self.layer(id).transport()) && delivered_on(protocol);
        let (ends, end_values) = (self.reports_ends(id), self.end_values(id));
        self.b.graph.tables.push(TableDecl {
            name: protocol.declared.clone(),
            two_sided,
            part: whole_of(self.stack, id).filter(|_| two_sided),
            carries: self.layer(id).carries.clone(),
            key: self.key_layout(id, instance),
            scattered: crate::dispatch::is_shared(self.stack, id),
            asked: two_sided && self.asked[usize::from(id.0)],
            observed: two_sided && (self.need.connections || delivers || ends),
            ends,
            delivers,
            timeout_ms: self.same_timeout(id),
        });
        self.tables.push(id);
        let connections = self.need.connections && two_sided;
        let conditional = !self.trie.is_unconditional();
        let is_open = !self.open[usize::from(id.0)].classes.is_empty();
        let (words, verdict_words) = (self.trie.words() as u16, self.verdict_words());
        let remainder = self.trie.has_remainder();
        let has_timeouts = self.same_timeout(id).is_none();
        for (at, var) in protocol.vars.iter().enumerate().filter(|(_, var)| var.held != Held::Packet) {
            let is_set = || {
                let id = VarId(at as u16);
                var.first.is_some() || statements(protocol).any(|list| self.sets(list, id))
            };
            let is_read = |value: &model::EndValue| matches!(value, model::EndValue::Var(read, _) if *read == VarId(at as u16));
            let in_row = connections && RecordVar::has(&var.name) || end_values.iter().any(is_read);
            let observed = self.need.variables || in_row && is_set();
            self.b.graph.vars.push(VarDecl {
                table,
                name: VarName::Layer(var.name.clone()),
                kind: VarKind::Bits(var.bits as u8),
                each_side: var.held == Held::Side,
                observed,
            });
        }
        let vars = &mut self.b.graph.vars;
        let mut declare = |var: EngineVar, word, observed| vars.push(var.declare_word(word, table, observed));
        if has_timeouts {
            declare(EngineVar::TimeoutMs, 0, true);
        }
        declare(EngineVar::Wants, 0, two_sided);
        if self.for_kernel.is_some() {
            declare(EngineVar::Letters, 0, false);
        }
        (0..words).for_each(|word| declare(EngineVar::Terms, word, (two_sided || ends) && conditional));
        if is_open {
            (0..words).for_each(|word| declare(EngineVar::OpenTerms, word, delivers));
        }
        if remainder {
            (0..verdict_words).for_each(|word| declare(EngineVar::Verdict, word, two_sided));
        }
        if !protocol.states.is_empty() {
            declare(EngineVar::State, 0, connections || end_values.contains(&model::EndValue::State));
        }
        if puts_aside(protocol) {
            declare(EngineVar::Aside, 0, true);
        }
        let letters = history_letters(protocol) * 2;
        if letters > 0 {
            let kind = VarKind::Letters(letters.min(HISTORY_LETTERS_MAX));
            vars.push(VarDecl { kind, ..EngineVar::History.declare(table, connections) });
        }
        if protocol.sequence.is_some() {
            for var in [EngineVar::SeqNext, EngineVar::SeqHigh, EngineVar::SeqMissing] {
                vars.push(var.declare(table, connections));
            }
            // Only programs and the engine read the flags; no row contains them.
            vars.push(EngineVar::SeqFlags.declare(table, false));
        }
        self.declare_chosen(id, table);
        if protocol.sequence.is_some() {
            let has_bytes = delivers || self.are_messages_wanted(id);
            self.declare_sequence(id, table, hands_up, has_bytes);
        }
        self.declare_events(id);
        table
    }

    /// Whether statements may set a variable, as far as the question tells.
    fn sets(&self, statements: &[Stmt], var: VarId) -> bool {
        statements.iter().any(|statement| match statement {
            Stmt::Assign { var: assigned, .. } => *assigned == var,
            Stmt::If { condition, then, otherwise } => {
                let known = self.known(condition);
                known != Some(false) && self.sets(then, var)
                    || known != Some(true) && self.sets(otherwise, var)
            }
            Stmt::History { .. } => false,
        })
    }

    /// Number of words of a flow's verdict: one bit for each remainder that sessions may satisfy, and two
    /// flags for all sessions together.
    fn verdict_words(&self) -> u16 {
        let is_remembered =
            |bit: &&TrieAlternative| !bit.session.is_empty() && self.questions[bit.question].need.verdicts;
        let bits = self.trie.alternatives.iter().filter(is_remembered).count() + VERDICT_FLAGS;
        bits.div_ceil(64) as u16
    }

    /// The variable `name` of a table's layer.
    pub(super) fn layer_var(&self, table: Table, name: &str) -> Var {
        self.b.graph.find_var(table, name).expect("declared with its table")
    }

    /// An engine variable of a table.
    pub(super) fn engine_var(&self, table: Table, var: EngineVar) -> Var {
        self.engine_word(table, var, 0)
    }

    /// One word of an engine variable of a table.
    pub(super) fn engine_word(&self, table: Table, var: EngineVar, word: usize) -> Var {
        self.b.graph.find_var(table, &var.word(word as u16)).expect("declared with its table")
    }

    /// Skips the work on a flow of which nothing is wanted.
    fn lower_wants(&mut self, context: &FlowContext, done: Block) {
        let var = self.engine_var(context.table, EngineVar::Wants);
        let wants = self.b.one(Op::Get { flow: context.flow, var, side: None });
        let zero = self.b.int(0);
        let work = self.b.block();
        let idle = self.b.compare(CompareOp::Eq, wants, zero);
        self.b.branch(idle, done, work);
        self.b.seal(work);
        self.b.switch_to(work);
    }

    /// Lowers counting, preparation, transitions, events, sequence, timeout, in this order. A packet that is
    /// not admitted is still counted, its events still occur, and it keeps its instance alive.
    fn lower_work(&mut self, id: LayerId, context: &FlowContext) {
        let protocol = &self.layer(id).protocol;
        self.lower_statements(id, &protocol.count);
        match protocol.admit.as_ref().map(|admit| self.truth(id, admit)) {
            Some(admitted) => self.lower_either(
                admitted,
                |l| l.lower_admitted(id, context),
                |l| {
                    l.lower_events(id, &context.telling, Trigger::Packet);
                    l.lower_chosen(id, context);
                },
            ),
            None => self.lower_admitted(id, context),
        }
        self.lower_late_events(id, &context.telling);
        self.lower_timeout(id, context);
    }

    /// Lowers preparation, transitions, events and sequence of a packet that is admitted.
    fn lower_admitted(&mut self, id: LayerId, context: &FlowContext) {
        let protocol = &self.layer(id).protocol;
        self.lower_statements(id, &protocol.prepare);
        if !protocol.states.is_empty() {
            self.lower_transitions(id, context, false);
        }
        self.lower_events(id, &context.telling, Trigger::Packet);
        self.lower_chosen(id, context);
        if protocol.sequence.is_some() {
            self.lower_sequence(id, context);
        } else {
            self.lower_datagram(id, context);
        }
        if !protocol.states.is_empty() {
            let var = self.engine_var(context.table, EngineVar::State);
            let value = self.b.read(context.state);
            self.b.push(Op::Set { flow: context.flow, var, side: None, value });
        }
    }

    /// Lowers `work` under a condition; unconditionally if there is none.
    pub(super) fn lower_where(&mut self, condition: Option<Value>, work: impl FnOnce(&mut Self)) {
        match condition {
            Some(condition) => self.lower_either(condition, work, |_| {}),
            None => work(self),
        }
    }

    /// Creates the per-packet variables, with their initial values.
    fn packet_vars(&mut self, id: LayerId) -> Vec<Option<Variable>> {
        let vars = &self.layer(id).protocol.vars;
        vars.iter()
            .map(|declared| {
                if declared.held != Held::Packet {
                    return None;
                }
                let first = match &declared.first {
                    Some(first) => self.int(id, first),
                    None => self.b.int(0),
                };
                let variable = self.b.variable(Type::Int);
                self.write_packet_var(variable, declared.bits, first);
                Some(variable)
            })
            .collect()
    }

    /// Truncates to the variable's bits, like variables of flows.
    fn write_packet_var(&mut self, variable: Variable, bits: u32, value: Value) {
        let mask = self.b.int(u64::MAX >> (64 - bits));
        let value = self.b.binary(BinaryOp::And, value, mask);
        self.b.write(variable, value);
    }

    /// Sets the initial values of a new instance's variables, on both sides for variables with sides.
    fn lower_first_values(&mut self, id: LayerId, context: &FlowContext) {
        let vars = &self.layer(id).protocol.vars;
        if vars.iter().all(|v| v.first.is_none() || v.held == Held::Packet) {
            return;
        }
        self.lower_either(
            context.new,
            |l| {
                for declared in vars.iter().filter(|var| var.held != Held::Packet) {
                    let Some(first) = &declared.first else { continue };
                    let value = l.int(id, first);
                    let (flow, var) = (context.flow, l.layer_var(context.table, &declared.name));
                    let sides: &[Side] =
                        if declared.held == Held::Side { &[Side::Me, Side::Peer] } else { &[Side::Both] };
                    for &side in sides {
                        let side = l.side(context, side);
                        l.b.push(Op::Set { flow, var, side, value });
                    }
                }
            },
            |_| {},
        );
    }

    /// Lowers the statements for one occasion.
    fn lower_reaction(&mut self, id: LayerId, trigger: Trigger) {
        let on = &self.layer(id).protocol.on;
        let lists = on.iter().filter(|(on, _)| *on == trigger);
        lists.for_each(|(_, list)| self.lower_statements(id, list));
    }

    /// Answers whether a packet with other tags belongs to the instance, if the engine asks.
    fn lower_join(&mut self, id: LayerId, context: &FlowContext) {
        let Some(join) = self.layer(id).protocol.join.as_ref().filter(|_| self.has_tags(id)) else { return };
        let (flow, var) = (context.flow, self.engine_var(context.table, EngineVar::Wants));
        let (asked, joins, stays, on) = (self.b.block(), self.b.block(), self.b.block(), self.b.block());
        let wants = self.b.one(Op::Get { flow, var, side: None });
        let asks = self.b.int(WANTS_ANSWER);
        let is_asked = self.b.binary(BinaryOp::And, wants, asks);
        let is_asked = self.b.truth(is_asked);
        self.b.branch(is_asked, asked, on);
        self.b.seal(asked);
        self.b.switch_to(asked);
        let holds = self.truth(id, join);
        self.b.branch(holds, joins, stays);
        self.b.seal(joins);
        self.b.seal(stays);
        self.b.switch_to(stays);
        self.b.end(Terminator::Restart);
        self.b.switch_to(joins);
        let value = self.b.binary(BinaryOp::Xor, wants, asks);
        self.b.push(Op::Set { flow, var, side: None, value });
        self.lower_reaction(id, Trigger::Join);
        self.b.jump(on);
        self.b.seal(on);
        self.b.switch_to(on);
    }

    /// Lowers transitions to `restart` and `aside` first: preparation must not modify the instance that ends,
    /// and a packet put aside does not belong to its instance.
    fn lower_elsewhere(&mut self, id: LayerId, context: &FlowContext, done: Block) {
        let protocol = &self.layer(id).protocol;
        for transition in &protocol.transitions {
            if !transition.to.is_elsewhere() || self.known(&transition.condition) == Some(false) {
                continue;
            }
            let (take, next, holds) = (self.b.block(), self.b.block(), self.b.block());
            self.lower_condition(id, &transition.condition, holds, next);
            self.b.seal(holds);
            self.b.switch_to(holds);
            // A packet does not end an instance that it created, or it would restart endlessly.
            let mut fires = self.b.one(Op::Not(context.new));
            if let Some(is_from) = self.is_from(context, transition) {
                fires = self.b.binary(BinaryOp::And, fires, is_from);
            }
            if transition.to == Target::Aside {
                let waiting = self.waiting_aside(context);
                let max = self.b.int(u64::from(ASIDE_MAX));
                let has_place = self.b.compare(CompareOp::Lt, waiting, max);
                fires = self.b.binary(BinaryOp::And, fires, has_place);
            }
            self.b.branch(fires, take, next);
            self.b.seal(take);
            self.b.seal(next);
            self.b.switch_to(take);
            if transition.to == Target::Restart {
                self.b.end(Terminator::Restart);
            } else {
                self.lower_aside(id, context);
                self.b.jump(done);
            }
            self.b.switch_to(next);
        }
    }

    /// Asks the engine to let the packet wait beside its instance.
    fn lower_aside(&mut self, id: LayerId, context: &FlowContext) {
        self.lower_reaction(id, Trigger::Aside);
        self.lower_events(id, &context.telling, Trigger::Aside);
        let waiting = self.waiting_aside(context);
        let one = self.b.int(u64::from(ASIDE_NEW) + 1);
        let value = self.b.binary(BinaryOp::Add, waiting, one);
        let var = self.engine_var(context.table, EngineVar::Aside);
        self.b.push(Op::Set { flow: context.flow, var, side: None, value });
    }

    /// The number of packets that wait beside the instance.
    fn waiting_aside(&mut self, context: &FlowContext) -> Value {
        let var = self.engine_var(context.table, EngineVar::Aside);
        self.b.one(Op::Get { flow: context.flow, var, side: None })
    }

    fn fires(&mut self, id: LayerId, context: &FlowContext, transition: &model::Transition) -> Value {
        let holds = self.truth(id, &transition.condition);
        match self.is_from(context, transition) {
            Some(is_from) => self.b.binary(BinaryOp::And, is_from, holds),
            None => holds,
        }
    }

    /// Whether the instance is in one of the states that the transition begins in; `None` if that is any.
    fn is_from(&mut self, context: &FlowContext, transition: &model::Transition) -> Option<Value> {
        let state = self.b.read(context.state);
        let here = transition.from.iter().map(|&from| {
            let number = self.b.int(from as u64);
            self.b.compare(CompareOp::Eq, state, number)
        });
        let here: Vec<Value> = here.collect();
        here.into_iter().reduce(|one, other| self.b.binary(BinaryOp::Or, one, other))
    }

    /// Lowers the transitions: the first that fires is taken.
    pub(super) fn lower_transitions(&mut self, id: LayerId, context: &FlowContext, ordered: bool) {
        let join = self.b.block();
        for (index, transition) in self.layer(id).protocol.transitions.iter().enumerate() {
            let Target::State(to) = transition.to else { continue };
            if transition.ordered != ordered || self.known(&transition.condition) == Some(false) {
                continue;
            }
            let (take, next) = (self.b.block(), self.b.block());
            let fires = self.fires(id, context, transition);
            self.b.branch(fires, take, next);
            self.b.seal(take);
            self.b.seal(next);
            self.b.switch_to(take);
            let to = self.b.int(to as u64);
            self.b.write(context.state, to);
            if self.transitions_have_timeouts(id) {
                let (yes, own) = (
                    self.b.bool(true),
                    transition.timeout.map_or(0, |after| u64::from(duration_ms(after)) + 1),
                );
                let own = self.b.int(own);
                self.b.write(context.taken, yes);
                self.b.write(context.own_timeout, own);
            }
            self.lower_events(id, &context.telling, Trigger::Transition(index));
            self.b.jump(join);
            self.b.switch_to(next);
        }
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    pub(super) fn lower_statements(&mut self, id: LayerId, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Assign { var, side, value } => {
                    let value = self.int(id, value);
                    let context = self.context();
                    if let Some(variable) = context.packet_vars[usize::from(var.0)] {
                        let bits = self.layer(id).protocol.vars[usize::from(var.0)].bits;
                        self.write_packet_var(variable, bits, value);
                        continue;
                    }
                    let (var, side) = (self.declared_var(id, *var), self.side(&context, *side));
                    self.b.push(Op::Set { flow: context.flow, var, side, value });
                }
                Stmt::If { condition, then, otherwise } => {
                    if let Some(known) = self.known(condition) {
                        self.lower_statements(id, if known { then } else { otherwise });
                        continue;
                    }
                    let condition = self.truth(id, condition);
                    self.lower_either(
                        condition,
                        |l| l.lower_statements(id, then),
                        |l| {
                            l.lower_statements(id, otherwise);
                        },
                    );
                }
                Stmt::History { letter, again, condition } => {
                    let condition = self.truth(id, condition);
                    let context = self.context();
                    let var = self.engine_var(context.table, EngineVar::History);
                    let upper = self.b.int(u64::from(*letter as u32));
                    let lower = self.b.int(u64::from(letter.to_ascii_lowercase() as u32));
                    let letter = self.b.one(Op::Select(context.responder, lower, upper));
                    let flow = context.flow;
                    let append = match again {
                        true => Op::AppendAgain { flow, var, letter },
                        false => Op::Append { flow, var, letter },
                    };
                    self.lower_either(condition, move |l| drop(l.b.push(append)), |_| {});
                }
            }
        }
    }

    /// Lowers both branches of a condition, and joins them.
    pub(super) fn lower_either(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(condition, yes, no);
        self.b.seal(yes);
        self.b.seal(no);
        self.b.switch_to(yes);
        then(self);
        self.b.jump(join);
        self.b.switch_to(no);
        otherwise(self);
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    /// The timeout, if it is the same in every state.
    fn same_timeout(&self, id: LayerId) -> Option<u32> {
        let timeouts = &self.layer(id).protocol.timeouts;
        let same = timeouts.iter().all(|t| t.states.is_empty()) && !self.transitions_have_timeouts(id);
        same.then(|| otherwise_ms(timeouts))
    }

    fn transitions_have_timeouts(&self, id: LayerId) -> bool {
        self.layer(id).protocol.transitions.iter().any(|transition| transition.timeout.is_some())
    }

    fn lower_timeout(&mut self, id: LayerId, context: &FlowContext) {
        if self.same_timeout(id).is_some() {
            return;
        }
        let timeouts = &self.layer(id).protocol.timeouts;
        let mut value = self.b.int(u64::from(otherwise_ms(timeouts)));
        for timeout in timeouts {
            for &state in &timeout.states {
                let now = self.b.read(context.state);
                let number = self.b.int(state as u64);
                let here = self.b.compare(CompareOp::Eq, now, number);
                let after = self.b.int(u64::from(millis(timeout)));
                value = self.b.one(Op::Select(here, after, value));
            }
        }
        let (flow, var) = (context.flow, self.engine_var(context.table, EngineVar::TimeoutMs));
        if !self.transitions_have_timeouts(id) {
            self.b.push(Op::Set { flow, var, side: None, value });
            return;
        }
        // The timeout of a transition is valid until another one is taken.
        let own = self.b.read(context.own_timeout);
        let has_own = self.b.truth(own);
        let one = self.b.int(1);
        let own = self.b.binary(BinaryOp::SubSat, own, one);
        let value = self.b.one(Op::Select(has_own, own, value));
        let taken = self.b.read(context.taken);
        let anew = self.b.binary(BinaryOp::Or, taken, context.new);
        self.lower_either(anew, |l| drop(l.b.push(Op::Set { flow, var, side: None, value })), |_| {});
    }

    /// If the bytes are complete, the layers above parse the reassembled bytes; otherwise the packet ends
    /// here.
    fn lower_hand_up(&mut self, id: LayerId, context: &FlowContext) {
        let (whole, waiting) = (self.b.block(), self.finish.of(Some(DropReason::FragmentWaiting)));
        let assembled = self.b.read(context.telling.assembled);
        self.b.branch(assembled, whole, waiting);
        self.b.seal(whole);
        self.b.switch_to(whole);
        let sequence = self.sequence_of(context.table);
        let (flow, side) = (context.flow, context.responder);
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        for (target, value) in &declared.assembled {
            // A value that nobody uses has no variable.
            if let Some(variable) = self.vars(id).lets[usize::from(target.0)] {
                let value = self.int(id, value);
                self.b.write(variable, value);
            }
        }
        let buf = self.b.one(Op::SeqAssemble { sequence, flow, side });
        let length = self.b.one(Op::Length(buf));
        let zero = self.b.int(0);
        self.b.write(self.buf, buf);
        self.b.write(self.end, length);
        let vars = self.vars(id);
        self.b.write(vars.payload_at.expect("declared"), zero);
        self.b.write(vars.payload_bytes.expect("declared"), length);
    }

    pub(super) fn context(&self) -> FlowContext {
        self.flow.clone().expect("statements and variables only occur within an instance")
    }

    pub(super) fn responder(&mut self) -> Value {
        match &self.flow {
            Some(context) => context.responder,
            None => self.b.bool(false),
        }
    }

    fn declared_var(&self, id: LayerId, var: VarId) -> Var {
        self.layer_var(self.context().table, &self.layer(id).protocol.vars[var.0 as usize].name)
    }

    fn side(&mut self, context: &FlowContext, side: Side) -> Option<Value> {
        match side {
            Side::Me => Some(context.responder),
            Side::Peer => Some(self.b.one(Op::Not(context.responder))),
            Side::Both => None,
        }
    }

    pub(super) fn var_value(&mut self, id: LayerId, var: VarId, side: Side) -> Value {
        let context = self.context();
        if let Some(variable) = context.packet_vars[usize::from(var.0)] {
            return self.b.read(variable);
        }
        let (var, side) = (self.declared_var(id, var), self.side(&context, side));
        self.b.one(Op::Get { flow: context.flow, var, side })
    }

    /// Whether nothing more is wanted of the instance.
    pub(super) fn is_unwanted(&mut self) -> Value {
        let context = self.context();
        let var = self.engine_var(context.table, EngineVar::Wants);
        let wants = self.b.one(Op::Get { flow: context.flow, var, side: None });
        let zero = self.b.int(0);
        self.b.compare(CompareOp::Eq, wants, zero)
    }

    /// Whether the instance is in this state.
    pub(super) fn is_in_state(&mut self, state: usize) -> Value {
        let now = self.b.read(self.context().state);
        let state = self.b.int(state as u64);
        self.b.compare(CompareOp::Eq, now, state)
    }
}

/// The timeout of states that are not named.
fn otherwise_ms(timeouts: &[model::Timeout]) -> u32 {
    timeouts.iter().find(|t| t.states.is_empty()).map_or(TIMEOUT_MS, millis)
}

fn millis(timeout: &model::Timeout) -> u32 {
    duration_ms(timeout.after)
}

fn duration_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn puts_aside(protocol: &model::Protocol) -> bool {
    protocol.transitions.iter().any(|one| one.to == Target::Aside)
}

/// The blocks of statements of a protocol.
fn statements(protocol: &model::Protocol) -> impl Iterator<Item = &[Stmt]> {
    let on = protocol.on.iter().map(|(_, list)| list.as_slice());
    [protocol.count.as_slice(), &protocol.prepare].into_iter().chain(on)
}

/// Number of letters that one direction may add to a history: of a letter that is appended again and again,
/// as many as a connection can be expected to have.
fn history_letters(protocol: &model::Protocol) -> u8 {
    const AGAIN: usize = 4;
    fn collect(statements: &[Stmt], letters: &mut Vec<(char, bool)>) {
        for statement in statements {
            match statement {
                Stmt::History { letter, again, .. } if !letters.contains(&(*letter, *again)) => {
                    letters.push((*letter, *again));
                }
                Stmt::If { then, otherwise, .. } => {
                    collect(then, letters);
                    collect(otherwise, letters);
                }
                Stmt::History { .. } | Stmt::Assign { .. } => {}
            }
        }
    }
    let mut letters = vec![];
    statements(protocol).for_each(|list| collect(list, &mut letters));
    let count: usize = letters.iter().map(|(_, again)| if *again { AGAIN } else { 1 }).sum();
    count.min(usize::from(HISTORY_LETTERS_MAX)) as u8
}

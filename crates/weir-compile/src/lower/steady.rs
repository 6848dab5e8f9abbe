//! Lowers the part of a layer's instance that the kernel does for connections that it has taken over: it
//! counts the packets that are `steady`. All other packets of these connections are for the engine.
//!
//! The graph for the kernel has this part instead of an instance's work. Its terms are those that make the
//! packet needed: without a connection the terms of questions about packets, with one the terms that the
//! connection does not have yet.
//!
//! If no question needs records of connections, the engine keeps no variables of connections of which nothing
//! more is wanted, and nothing is counted. All packets are then steady that do not begin another connection:
//! those that match no condition of a transition to `restart` or `aside`, where what the condition says about
//! the instance counts as true.

use super::Lower;
use super::instance::FlowContext;
use crate::walk::walk_through_lets;
use weir_ir::build::Variable;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{BinaryOp, CompareOp, Op, Terminator, Type, Value};
use weir_ir::sequence::{PASSED_SHIFT, STARTED};
use weir_lang::model::{self, COUNTED, Expr, Held, LayerId, Side, Stmt};

/// The flags of a sequence that are no count.
const SEQUENCE_FLAGS: u64 = (1 << PASSED_SHIFT) - 1;
/// Letters of a side of a history.
const LETTERS: u64 = 26;

/// What lowering for the kernel knows.
#[derive(Debug, Clone)]
pub(super) struct ForKernel {
    /// The layers whose instances the program looks up.
    pub looked_up: Vec<LayerId>,
    /// Whether the packet has a connection that the kernel has taken over.
    has_flow: Option<Variable>,
    /// The terms of the connection.
    flow_terms: Vec<Variable>,
}

impl ForKernel {
    pub fn new(looked_up: Vec<LayerId>) -> Self {
        Self { looked_up, has_flow: None, flow_terms: vec![] }
    }
}

impl Lower<'_> {
    /// Before the first layer: there is no connection.
    pub(super) fn lower_first_steady(&mut self) {
        if self.for_kernel.is_none() {
            return;
        }
        let (no, none) = (self.b.bool(false), self.b.int(0));
        let has_flow = self.b.variable(Type::Bool);
        self.b.write(has_flow, no);
        let flow_terms: Vec<Variable> = (0..self.trie.words()).map(|_| self.b.variable(Type::Int)).collect();
        flow_terms.iter().for_each(|&word| self.b.write(word, none));
        if let Some(kernel) = &mut self.for_kernel {
            (kernel.has_flow, kernel.flow_terms) = (Some(has_flow), flow_terms);
        }
    }

    /// For the kernel: the terms because of which the packet is needed.
    pub(super) fn needed_terms(&mut self, terms: Vec<Value>) -> Vec<Value> {
        let Some(ForKernel { has_flow: Some(has_flow), flow_terms, .. }) = self.for_kernel.clone() else {
            return terms;
        };
        let has_flow = self.b.read(has_flow);
        let of_packets = self.trie.classes_of_packets();
        let all = self.b.int(u64::MAX);
        let words = terms.into_iter().zip(flow_terms).enumerate();
        words
            .map(|(word, (terms, flow_terms))| {
                let known = self.b.read(flow_terms);
                let unknown = self.b.binary(BinaryOp::Xor, known, all);
                let new = self.b.binary(BinaryOp::And, terms, unknown);
                let of_packets = self.b.int(of_packets.word(word));
                let counting = self.b.one(Op::Select(has_flow, all, of_packets));
                self.b.binary(BinaryOp::And, new, counting)
            })
            .collect()
    }

    /// Whether the instances of a layer exist for the kernel.
    pub(super) fn is_for_kernel(&self, id: LayerId) -> bool {
        self.for_kernel.as_ref().is_none_or(|kernel| kernel.looked_up.contains(&id))
    }

    /// Lowers a packet of an instance that the kernel has taken over. Returns whether the packet continues;
    /// else the engine needs it.
    pub(super) fn lower_steady(&mut self, id: LayerId, context: &FlowContext) -> bool {
        let protocol = &self.layer(id).protocol;
        let table = &self.b.graph.tables[context.table.index()];
        let is_whole = table.observed && table.part.is_none() && !self.in_messages.contains(&id);
        let counts = self.need.connections || self.need.streams;
        let is_possible = is_whole && !self.need.strict && (!counts || protocol.steady.is_some());
        if !is_possible {
            self.b.end(Terminator::Restart);
            return false;
        }
        let steady = protocol.steady.as_ref().filter(|_| counts);
        let is_steady = match steady {
            Some(steady) => self.is_steady(id, steady, context),
            None => {
                let begins = self.may_begin_anew(id);
                self.b.one(Op::Not(begins))
            }
        };
        let (steadily, engine) = (self.b.block(), self.b.block());
        self.b.branch(is_steady, steadily, engine);
        self.b.seal(steadily);
        self.b.seal(engine);
        self.b.switch_to(engine);
        self.b.end(Terminator::Restart);
        self.b.switch_to(steadily);
        if let Some(steady) = steady {
            self.lower_steady_counts(id, steady, context);
        }
        self.lower_flow_terms(context);
        true
    }

    /// Whether the packet changes nothing but what the kernel counts.
    fn is_steady(&mut self, id: LayerId, steady: &model::Steady, context: &FlowContext) -> Value {
        let mut is_steady = self.b.bool(true);
        for condition in &steady.conditions {
            let holds = self.truth(id, condition);
            is_steady = self.b.binary(BinaryOp::And, is_steady, holds);
        }
        for statement in &steady.statements {
            if let Stmt::History { letter, condition, .. } = statement {
                let has = self.has_letter(id, context, *letter, condition);
                is_steady = self.b.binary(BinaryOp::And, is_steady, has);
            }
        }
        if self.layer(id).protocol.sequence.is_some() {
            let ready = self.is_sequence_ready(context);
            is_steady = self.b.binary(BinaryOp::And, is_steady, ready);
        }
        is_steady
    }

    /// Whether the packet may begin another connection with the same key, whatever the instance is like.
    fn may_begin_anew(&mut self, id: LayerId) -> Value {
        let protocol = &self.layer(id).protocol;
        let mut may = self.b.bool(false);
        for transition in protocol.transitions.iter().filter(|one| one.to.is_elsewhere()) {
            let conditions: Vec<Expr> = transition.condition.clone().conjuncts();
            // Only such instances are asked for here.
            if conditions.iter().any(|one| matches!(one, Expr::Not(of) if matches!(**of, Expr::Unwanted))) {
                continue;
            }
            let mut fires = self.b.bool(true);
            for condition in conditions {
                if !asks_instance(protocol, &condition) {
                    let holds = self.truth(id, &condition);
                    fires = self.b.binary(BinaryOp::And, fires, holds);
                }
            }
            may = self.b.binary(BinaryOp::Or, may, fires);
        }
        may
    }

    /// Unless `condition` is false: whether the history has the letter of the packet's side.
    fn has_letter(&mut self, id: LayerId, context: &FlowContext, letter: char, condition: &Expr) -> Value {
        let var = self.engine_var(context.table, EngineVar::Letters);
        let letters = self.b.one(Op::Get { flow: context.flow, var, side: None });
        let first = u64::from(letter as u32 - u32::from(b'A'));
        let [upper, lower] = [first, first + LETTERS].map(|bit| self.b.int(1 << bit));
        let bit = self.b.one(Op::Select(context.responder, lower, upper));
        let has = self.b.binary(BinaryOp::And, letters, bit);
        let has = self.b.truth(has);
        let applies = self.truth(id, condition);
        let spared = self.b.one(Op::Not(applies));
        self.b.binary(BinaryOp::Or, spared, has)
    }

    /// Whether the side's sequence has begun, and nothing waits in it.
    fn is_sequence_ready(&mut self, context: &FlowContext) -> Value {
        let (flow, var) = (context.flow, self.engine_var(context.table, EngineVar::SeqFlags));
        let flags = self.b.one(Op::Get { flow, var, side: Some(context.responder) });
        let (mask, started) = (self.b.int(SEQUENCE_FLAGS), self.b.int(u64::from(STARTED)));
        let flags = self.b.binary(BinaryOp::And, flags, mask);
        self.b.compare(CompareOp::Eq, flags, started)
    }

    /// Counts the packet: the sums of `count`, the place in the sequence, and the assignments of `steady`.
    fn lower_steady_counts(&mut self, id: LayerId, steady: &model::Steady, context: &FlowContext) {
        let protocol = &self.layer(id).protocol;
        let sums: Vec<Stmt> = protocol.count.iter().filter(|one| is_sum(protocol, one)).cloned().collect();
        self.lower_statements(id, &sums);
        let assigns = steady.statements.iter().filter(|one| matches!(one, Stmt::Assign { .. }));
        let assigns: Vec<Stmt> = assigns.cloned().collect();
        self.lower_statements(id, &assigns);
        let (flow, side) = (context.flow, Some(context.responder));
        let add = |lower: &mut Self, var, amount| {
            let sum = lower.b.one(Op::Get { flow, var, side });
            let value = lower.b.binary(BinaryOp::Add, sum, amount);
            lower.b.push(Op::Set { flow, var, side, value });
        };
        let (counted, one) = (self.layer_var(context.table, COUNTED), self.b.int(1));
        add(self, counted, one);
        if let Some(sequence) = &protocol.sequence {
            let at = self.int(id, &sequence.at);
            let span = match &sequence.span {
                Some(span) => self.int(id, span),
                None => self.int(id, &Expr::PayloadLength),
            };
            let high = self.engine_var(context.table, EngineVar::SeqHigh);
            add(self, high, span);
            let next = self.engine_var(context.table, EngineVar::SeqNext);
            let mask = self.b.int(u64::MAX >> (64 - u64::from(sequence.bits)));
            let end = self.b.binary(BinaryOp::Add, at, span);
            let value = self.b.binary(BinaryOp::And, end, mask);
            self.b.push(Op::Set { flow, var: next, side, value });
        }
    }

    /// The connection has these terms already.
    fn lower_flow_terms(&mut self, context: &FlowContext) {
        let Some(ForKernel { has_flow: Some(has_flow), flow_terms, .. }) = self.for_kernel.clone() else {
            return;
        };
        let yes = self.b.bool(true);
        self.b.write(has_flow, yes);
        let always = self.trie.nodes[crate::trie::Trie::ROOT].class;
        for (word, variable) in flow_terms.into_iter().enumerate() {
            let of_word = always.filter(|class| class / 64 == word).map_or(0, |class| 1 << (class % 64));
            let mut terms = self.b.int(of_word);
            if !self.trie.is_unconditional() {
                let var = self.engine_word(context.table, EngineVar::Terms, word);
                let known = self.b.one(Op::Get { flow: context.flow, var, side: None });
                terms = self.b.binary(BinaryOp::Or, terms, known);
            }
            self.b.write(variable, terms);
        }
    }
}

/// Whether a statement adds to a variable of the instance that keeps sums.
fn is_sum(protocol: &model::Protocol, statement: &Stmt) -> bool {
    match statement {
        Stmt::Assign { var, side: Side::Me, value: Expr::Binary(model::BinaryOp::Add, first, _) } => {
            matches!(**first, Expr::Var(added, Side::Me) if added == *var)
                && protocol.vars[usize::from(var.0)].held == Held::Side
        }
        _ => false,
    }
}

/// Whether a condition asks about anything but the packet.
fn asks_instance(protocol: &model::Protocol, condition: &Expr) -> bool {
    let mut asks = false;
    walk_through_lets(protocol, condition, &mut |expr| {
        asks |= matches!(
            expr,
            Expr::Var(..) | Expr::InState(_) | Expr::Unwanted | Expr::Ordered(_) | Expr::Originator
        );
    });
    asks
}

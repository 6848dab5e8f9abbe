//! The terms of a connection that the layers above the connection decide. A packet counts for each of the
//! connections in which it runs: all of it for the innermost one, for others up to the next connection
//! inside.
//!
//! When a connection is looked up, the layers above are not yet parsed: terms that may still become true, or
//! become false (`not vxlan`), are open. The engine records them when they are decided: at the packet's end,
//! or at the next connection, whose layer stores the terms that hold before it.

use super::Lower;
use super::instance::FlowContext;
use crate::catalog::FieldKey;
use crate::trie::ClassSet;
use crate::tunnels::has_connections;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{BinaryOp, Op, Out};
use weir_ir::slot::EngineSlot;
use weir_lang::model::{EdgeKind, LayerId};

/// The open decisions at the lookup of a layer's connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Open {
    /// Predicates on layers above, up to the next connection.
    pub predicates: BTreeSet<usize>,
    /// Predicates on events of the layer itself, which occur later.
    pub of_events: BTreeSet<usize>,
    /// Classes that depend on any of these predicates.
    pub classes: ClassSet,
}

impl Lower<'_> {
    /// By layer: the open decisions at the lookup of its connections.
    pub(super) fn find_open(&self) -> Vec<Open> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        let has_terms = |id| self.is_two_sided(id) || self.reports_ends(id);
        layers.map(|id| if has_terms(id) { self.open_at(id) } else { Open::default() }).collect()
    }

    /// Whether its instances are connections, and not parts of connections below.
    pub(super) fn has_connections(&self, id: LayerId) -> bool {
        has_connections(self.stack, id)
    }

    fn open_at(&self, id: LayerId) -> Open {
        let above = self.up_to_next_connection(id);
        let mut open = Open::default();
        for (p, predicate) in self.trie.predicates.iter().enumerate() {
            let key = self.catalog.key(predicate.field);
            if key.layer().is_some_and(|layer| above.contains(&layer)) {
                open.predicates.insert(p);
            }
            if key.layer() == Some(id) && matches!(key, FieldKey::Event(..) | FieldKey::EventColumn(..)) {
                open.of_events.insert(p);
            }
        }
        let hangs = |p| open.predicates.contains(&p) || open.of_events.contains(&p);
        open.classes = self.trie.classes_with(&hangs);
        open
    }

    /// The layers that may follow a connection's layer before the next connection. A quoted packet has no
    /// lookups, and a conditional instance may have none, so the search continues through both.
    fn up_to_next_connection(&self, from: LayerId) -> FxHashSet<LayerId> {
        let (mut seen, mut work) = (FxHashSet::default(), vec![(from, false)]);
        while let Some((at, quoted)) = work.pop() {
            for edge in self.stack.edges.iter().filter(|edge| edge.from == at) {
                let quoted = quoted || edge.kind == EdgeKind::Quoted;
                let instance = self.layer(edge.to).protocol.instance.as_ref();
                let may_be_none = instance.is_some_and(|instance| instance.condition.is_some());
                if (quoted || may_be_none || !self.has_connections(edge.to)) && seen.insert((edge.to, quoted))
                {
                    work.push((edge.to, quoted));
                }
            }
        }
        seen.into_iter().map(|(layer, _)| layer).collect()
    }

    /// Classes that are open for an outer connection that may contain one of this layer; quoted packets do
    /// not count.
    fn open_below(&self, id: LayerId) -> ClassSet {
        let mut classes = ClassSet::EMPTY;
        if !self.has_connections(id) {
            return classes;
        }
        let (mut seen, mut work) = (FxHashSet::default(), vec![id]);
        while let Some(at) = work.pop() {
            let edges = self.stack.edges.iter().filter(|edge| edge.to == at && edge.kind != EdgeKind::Quoted);
            for below in edges.map(|edge| edge.from).filter(|below| seen.insert(*below)) {
                classes |= &self.open[usize::from(below.0)].classes;
                work.push(below);
            }
        }
        classes
    }

    /// Adds the packet's terms to the flow, word by word: those that the rest of the packet cannot make
    /// false. Separately, for the time of this packet, stores those that the rest may still decide.
    pub(super) fn lower_terms(&mut self, id: LayerId, context: &FlowContext, work_is_done: bool) {
        let open = self.open[usize::from(id.0)].clone();
        let is_open = |p| open.predicates.contains(&p) || !work_is_done && open.of_events.contains(&p);
        let trie = self.trie;
        let [no, yes] = [false, true].map(|value| self.b.bool(value));
        let terms = self.terms_where(&|p| (is_open(p) && trie.may_be_undone(p)).then_some(no));
        if !open.classes.is_empty() {
            let possible = self.terms_where(&|p| (is_open(p) && trie.may_come_to_hold(p)).then_some(yes));
            for (word, possible) in possible.into_iter().enumerate() {
                let var = self.engine_word(context.table, EngineVar::OpenTerms, word);
                let mask = self.b.int(open.classes.word(word));
                let possible = self.b.binary(BinaryOp::And, possible, mask);
                self.b.push(Op::Set { flow: context.flow, var, side: None, value: possible });
            }
        }
        for (word, terms) in terms.into_iter().enumerate() {
            let var = self.engine_word(context.table, EngineVar::Terms, word);
            let old = self.b.one(Op::Get { flow: context.flow, var, side: None });
            let all = self.b.binary(BinaryOp::Or, old, terms);
            self.b.push(Op::Set { flow: context.flow, var, side: None, value: all });
        }
    }

    /// Declares the slots of the second and further words of terms.
    pub(super) fn declare_further_terms(&mut self) {
        let first = self.b.graph.outs.len() as u32;
        self.further_terms = first..first + self.trie.words() as u32 - 1;
        self.b.graph.outs.extend(self.further_terms.clone().map(|_| EngineSlot::FurtherTerms.into()));
    }

    pub(super) fn declare_outer_terms(&mut self) {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        if layers.into_iter().any(|id| !self.open_below(id).is_empty()) {
            self.outer = Some(Out(self.b.graph.outs.len() as u32));
            self.b.graph.outs.extend((0..self.trie.words()).map(|_| EngineSlot::OuterTerms.into()));
        }
    }

    /// Stores which of the open terms hold before a layer whose connections may be inside another one.
    pub(super) fn lower_outer_terms(&mut self, id: LayerId) {
        let Some(Out(first)) = self.outer else { return };
        let classes = self.open_below(id);
        if classes.is_empty() {
            return;
        }
        for (word, terms) in self.terms_value().into_iter().enumerate() {
            let mask = self.b.int(classes.word(word));
            let value = self.b.binary(BinaryOp::And, terms, mask);
            self.b.push(Op::Store { out: Out(first + word as u32), value });
        }
    }
}

//! What the layers above a connection's decide of it. A packet counts for each of the connections that it runs in: for the
//! innermost one as a whole, for another one as far as the next one within.
//!
//! Where a connection is found, what lies above is yet to be parsed: terms that may still come to hold, or be undone
//! (`not vxlan`), are left open. The engine notes them where they are decided: at the packet's end, or where the next
//! connection begins, whose layer stores what holds before it.

use super::Lower;
use super::instance::FlowContext;
use crate::catalog::FieldKey;
use crate::trie::ClassSet;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use weir_ir::abi::{FURTHER_TERMS, OUTER_TERMS};
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{BinaryOp, Op, Out};
use weir_lang::model::{EdgeKind, LayerId};

/// What is open where a layer's connection is found.
#[derive(Debug, Clone, Default)]
pub(super) struct Open {
    /// Predicates on layers above, up to the next connection.
    pub predicates: BTreeSet<usize>,
    /// Those on events of the layer itself, which happen later.
    pub of_events: BTreeSet<usize>,
    /// Classes that hang on any of them.
    pub classes: ClassSet,
}

impl Lower<'_> {
    /// By layer: what is open where its connections are found.
    pub(super) fn find_open(&self) -> Vec<Open> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        layers.map(|id| if self.is_two_sided(id) { self.open_at(id) } else { Open::default() }).collect()
    }

    /// Its instances are connections, and no parts of those below.
    fn has_connections(&self, id: LayerId) -> bool {
        self.is_two_sided(id) && self.whole_of(id).is_none()
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

    /// The layers that may follow a connection's before the next connection does. In what a packet quotes no connections
    /// are looked for, and where one is under a condition there may be none.
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

    /// Classes that are open of a connection in which one of this layer may lie: not in what it quotes.
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

    /// The terms that the packet fulfils are remembered, word by word: those that what is yet to be parsed can't undo, and
    /// apart from them, for the time of this packet, those that it may still decide.
    pub(super) fn lower_terms(&mut self, id: LayerId, context: &FlowContext, work_is_done: bool) {
        let open = self.open[usize::from(id.0)].clone();
        let is_open = |p| open.predicates.contains(&p) || !work_is_done && open.of_events.contains(&p);
        let trie = self.trie;
        let terms = self.terms_where(&|p| (is_open(p) && trie.may_be_undone(p)).then_some(false));
        if !open.classes.is_empty() {
            let possible = self.terms_where(&|p| (is_open(p) && trie.may_come_to_hold(p)).then_some(true));
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

    /// Slots for the words of terms behind the first one.
    pub(super) fn declare_further_terms(&mut self) {
        let first = self.b.graph.outs.len() as u32;
        self.further_terms = first..first + self.trie.words() as u32 - 1;
        self.b.graph.outs.extend(self.further_terms.clone().map(|_| FURTHER_TERMS.to_string()));
    }

    pub(super) fn declare_outer_terms(&mut self) {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        if layers.into_iter().any(|id| !self.open_below(id).is_empty()) {
            self.outer = Some(Out(self.b.graph.outs.len() as u32));
            self.b.graph.outs.extend((0..self.trie.words()).map(|_| OUTER_TERMS.to_string()));
        }
    }

    /// What of the terms that were left open holds before a layer whose connections may lie in another one.
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

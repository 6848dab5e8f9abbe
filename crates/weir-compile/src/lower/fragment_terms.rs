//! The terms of a fragment whose datagram is incomplete, for questions about packets: a fragment matches if
//! its datagram does.
//!
//! The other fragments decide about predicates on layers above the datagram, as long as no header of such a
//! layer was parsed. A layer with connections may occur again inside a tunnel, so predicates on these layers
//! are open even if one was parsed. For the open predicates, the program stores which terms hold in any case,
//! and which terms may hold; the packet that completes the datagram decides between the two.

use super::Lower;
use crate::question::TrieAlternative;
use rustc_hash::FxHashSet;
use weir_ir::graph::{BinaryOp, Op, Out, Value};
use weir_ir::slot::EngineSlot;
use weir_lang::filter::{Op as FilterOp, Predicate};
use weir_lang::model::LayerId;

/// The places of the terms of fragments, and what they depend on.
#[derive(Debug, Clone)]
pub(super) struct FragmentTerms {
    /// Predicates on layers above datagrams, with their layer.
    predicates: Vec<(usize, LayerId)>,
    /// The first slot of the certain terms; the possible terms follow.
    first: u32,
}

impl Lower<'_> {
    /// Declares the slots of the terms, if a question about packets depends on the contents of datagrams.
    pub(super) fn declare_fragment_terms(&mut self) {
        let above = self.above_datagrams();
        if !self.need.packets || self.need.dispatch || above.is_empty() {
            return;
        }
        let predicates: Vec<(usize, LayerId)> = (0..self.trie.predicates.len())
            .filter_map(|p| {
                let layer = self.catalog.key(self.trie.predicates[p].field).layer()?;
                above.contains(&layer).then_some((p, layer))
            })
            .collect();
        let of_packets = |bit: &TrieAlternative| self.questions[bit.question].need.packets;
        let needs_flow = self.trie.alternatives.iter().any(|bit| of_packets(bit) && bit.has_remainder());
        if predicates.is_empty() && !needs_flow {
            return;
        }
        let first = self.b.graph.outs.len() as u32;
        for slot in [EngineSlot::CertainTerms, EngineSlot::PossibleTerms] {
            self.b.graph.outs.extend((0..self.trie.words()).map(|_| slot.into()));
        }
        self.fragment_terms = Some(FragmentTerms { predicates, first });
    }

    /// The layers that reassembled bytes may contain.
    fn above_datagrams(&self) -> FxHashSet<LayerId> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        let datagrams = layers.filter(|&id| self.hands_up(id));
        datagrams.flat_map(|id| self.reach.above(id)).collect()
    }

    /// Stores the certain and the possible terms of a fragment.
    pub(super) fn lower_fragment_terms(&mut self) {
        let Some(FragmentTerms { predicates, first }) = self.fragment_terms.clone() else { return };
        let none = vec![None; self.trie.predicates.len()];
        let (mut certain, mut possible) = (none.clone(), none);
        for (p, layer) in predicates {
            let [at_least, at_most] = self.bounds_of(p, layer);
            (certain[p], possible[p]) = (Some(at_least), Some(at_most));
        }
        let certain = self.terms_where(&|p| certain[p]);
        let possible = self.terms_where(&|p| possible[p]);
        for (slot, value) in (first..).zip(certain.into_iter().chain(possible)) {
            self.b.push(Op::Store { out: Out(slot), value });
        }
    }

    /// The lower and the upper bound of a predicate's value, whatever follows the fragment.
    fn bounds_of(&mut self, p: usize, layer: LayerId) -> [Value; 2] {
        let value = self.predicate_value(p);
        if !self.is_two_sided(layer) {
            let is_closed = self.b.read(self.seen[usize::from(layer.0)]);
            let is_open = self.b.one(Op::Not(is_closed));
            return [(BinaryOp::And, is_closed), (BinaryOp::Or, is_open)]
                .map(|(op, condition)| self.b.binary(op, condition, value));
        }
        // A predicate that held for one header holds for the packet.
        let any = self.any(p);
        let Predicate { op, negated, .. } = self.trie.predicates[p];
        if negated == (op == FilterOp::Ne) {
            [any, self.b.bool(true)]
        } else {
            [self.b.bool(false), self.b.one(Op::Not(any))]
        }
    }
}

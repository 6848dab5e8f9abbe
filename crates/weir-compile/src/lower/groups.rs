//! Groups of predicates that compare one field with constants.
//!
//! Many questions often compare the same field, such as a port or an address, each with another constant. A
//! packet matches few of them. The program therefore tests once whether the field has any of the constants,
//! and compares them one by one only then. The predicates of a group are bits of one number, so that tests of
//! terms skip the whole group if the number is 0.

use super::ranges::{literal_range, merge_ranges, within};
use super::{LayerVars, Lower};
use crate::catalog::FieldKey;
use crate::trie::NodeId;
use std::rc::Rc;
use weir_ir::build::Variable;
use weir_ir::graph::{BinaryOp, Op, Set, Type, Value};
use weir_lang::filter::Op as FilterOp;
use weir_lang::model::{FieldId, FieldType, LayerId};

/// Minimum number of predicates of a group: below, comparing is as cheap as searching.
const PREDICATES_MIN: usize = 8;
/// Maximum number of predicates of a group: the bits of a number.
const PREDICATES_MAX: usize = 64;

/// The place of a predicate's values.
#[derive(Debug, Clone, Copy)]
pub(super) enum PredicateVars {
    /// Variables of its own.
    Own {
        /// Whether the comparison held for any value (for `!=`: the comparison for equality).
        any: Variable,
        /// Whether there was a value.
        exists: Variable,
        /// Whether it held, or would for a packet of the opposite direction.
        either_way: Variable,
    },
    /// A bit of the variables of a group.
    Grouped {
        /// The group.
        group: usize,
        /// The bit.
        bit: u32,
    },
}

/// A group.
#[derive(Debug, Clone)]
pub(super) struct PredicateGroup {
    key: FieldKey,
    predicates: Vec<usize>,
    /// Whether the field had a value.
    pub exists: Variable,
    /// For each predicate a bit: whether the comparison held for any value.
    pub any: Variable,
    /// For each predicate a bit: whether it held, or would for a packet of the opposite direction.
    pub either_way: Variable,
}

/// Nodes of the trie that are tested together, and the others.
pub(super) struct Guarded {
    /// A group, and nodes that can hold only if a predicate of the group does.
    pub groups: Vec<(usize, Vec<NodeId>)>,
    /// The other nodes.
    pub others: Vec<NodeId>,
}

impl Lower<'_> {
    /// Finds the groups, and declares their variables.
    pub(super) fn declare_groups(&mut self) {
        let mut fields: Vec<(FieldKey, Vec<usize>)> = vec![];
        for p in 0..self.trie.predicates.len() {
            let Some(key) = self.group_key(p) else { continue };
            match fields.iter_mut().find(|(known, _)| *known == key) {
                Some((_, predicates)) => predicates.push(p),
                None => fields.push((key, vec![p])),
            }
        }
        for (key, predicates) in fields {
            for predicates in predicates.chunks(PREDICATES_MAX).filter(|p| p.len() >= PREDICATES_MIN) {
                for (bit, &p) in predicates.iter().enumerate() {
                    self.predicates[p] = PredicateVars::Grouped { group: self.groups.len(), bit: bit as u32 };
                }
                let [any, either_way] = [(); 2].map(|()| self.b.variable(Type::Int));
                let (exists, predicates) = (self.b.variable(Type::Bool), predicates.to_vec());
                self.groups.push(PredicateGroup { key, predicates, exists, any, either_way });
            }
        }
    }

    /// The field of a predicate that may be in a group: one that compares a number with constants.
    fn group_key(&self, p: usize) -> Option<FieldKey> {
        let predicate = &self.trie.predicates[p];
        let key = self.catalog.key(predicate.field);
        let is_number = |&field: &FieldId| {
            let layer = key.layer().map(|layer| &self.layer(layer).protocol);
            let ty = layer.map(|protocol| &protocol.fields[field.0 as usize].ty);
            ty.is_some_and(|ty| !matches!(ty, FieldType::Bytes(_) | FieldType::Text(_)))
        };
        let compares = matches!(predicate.op, FilterOp::Eq | FilterOp::Ne | FilterOp::In)
            && predicate.mask.is_none()
            && predicate.slice.is_none()
            && predicate.literals.iter().all(|literal| literal_range(literal).is_some());
        let fields = self.fields_of(key);
        (compares && !fields.is_empty() && fields.iter().all(is_number)).then_some(key)
    }

    /// The fields that a key stands for; none if it stands for something else.
    fn fields_of(&self, key: FieldKey) -> Vec<FieldId> {
        match key {
            FieldKey::Field(_, field) => vec![field],
            FieldKey::Alias(layer, alias) => {
                self.layer(layer).protocol.aliases[usize::from(alias)].fields.clone()
            }
            _ => vec![],
        }
    }

    /// Evaluates the groups on layer `id`, after it is parsed.
    pub(super) fn lower_groups(&mut self, id: LayerId, vars: &Rc<LayerVars>) {
        for index in 0..self.groups.len() {
            if self.groups[index].key.layer() == Some(id) {
                self.lower_group(id, vars, index);
            }
        }
    }

    fn lower_group(&mut self, id: LayerId, vars: &Rc<LayerVars>, index: usize) {
        let PredicateGroup { key, predicates, exists, any, either_way } = self.groups[index].clone();
        let own = self.fields_of(key);
        let mut there = self.b.bool(false);
        for field in &own {
            let present = match vars.field_present[field.0 as usize] {
                Some(present) => self.b.read(present),
                None => self.b.bool(true),
            };
            there = self.b.binary(BinaryOp::Or, there, present);
        }
        self.accumulate(exists, there);
        let both_ways = match (key, self.alias_of(key)) {
            (FieldKey::Field(layer, _), Some(alias)) => self.fields_of(FieldKey::Alias(layer, alias)),
            _ => own,
        };
        let ranges = self.constants_of(&predicates);
        let (Some(&(first, _)), Some(&(_, last))) = (ranges.first(), ranges.last()) else { return };
        let [test, inside, after] = [(); 3].map(|()| self.b.block());
        // Most values lie outside of all constants, which takes no search.
        let may_hit =
            self.any_field(vars, &both_ways, |lower, high, low| within(&mut lower.b, high, low, first, last));
        self.b.branch(may_hit, test, after);
        self.b.seal(test);
        self.b.switch_to(test);
        let set = Set(self.b.graph.sets.len() as u32);
        self.b.graph.sets.push(ranges);
        let hit =
            self.any_field(vars, &both_ways, |lower, high, low| lower.b.one(Op::Member { set, high, low }));
        self.b.branch(hit, inside, after);
        self.b.seal(inside);
        self.b.switch_to(inside);
        let zero = self.b.int(0);
        let (mut held, mut held_either_way) = (zero, zero);
        for (bit, p) in predicates.into_iter().enumerate() {
            let [_, holds, either] = self.predicate_on(id, vars, key, &self.trie.predicates[p]);
            for (bits, holds) in [(&mut held, holds), (&mut held_either_way, either)] {
                let one = self.b.int(1 << bit);
                let set = self.b.one(Op::Select(holds, one, zero));
                *bits = self.b.binary(BinaryOp::Or, *bits, set);
            }
        }
        self.accumulate(any, held);
        self.accumulate(either_way, held_either_way);
        self.b.jump(after);
        self.b.seal(after);
        self.b.switch_to(after);
    }

    /// The constants of predicates, as sorted and disjoint ranges.
    fn constants_of(&self, predicates: &[usize]) -> Vec<(u128, u128)> {
        let literals = predicates.iter().flat_map(|&p| &self.trie.predicates[p].literals);
        merge_ranges(literals.filter_map(literal_range).collect())
    }

    /// Whether a test of the high and the low word of a field holds for any of the fields.
    fn any_field(
        &mut self,
        vars: &LayerVars,
        fields: &[FieldId],
        mut test: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Value {
        let mut any = self.b.bool(false);
        for field in fields {
            let (low, high) = vars.fields[field.0 as usize];
            let low = self.b.read(low);
            let high = match high {
                Some(high) => self.b.read(high),
                None => self.b.int(0),
            };
            let holds = test(self, high, low);
            any = self.b.binary(BinaryOp::Or, any, holds);
        }
        any
    }

    /// Adds bits, or a condition, to those of a variable.
    fn accumulate(&mut self, variable: Variable, value: Value) {
        let before = self.b.read(variable);
        let value = self.b.binary(BinaryOp::Or, before, value);
        self.b.write(variable, value);
    }

    /// Divides nodes of the trie: those that can hold only if a predicate of their group does, and
    /// `can_guard` accepts, are tested together with others of the group.
    pub(super) fn guarded(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        can_guard: impl Fn(NodeId) -> bool,
    ) -> Guarded {
        let (mut groups, mut others) = (vec![], vec![]);
        for node in nodes {
            match self.group_of(node).filter(|_| can_guard(node)) {
                Some(group) => match groups.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, nodes)) => nodes,
                    None => {
                        groups.push((group, vec![]));
                        &mut groups.last_mut().expect("just added").1
                    }
                }
                .push(node),
                None => others.push(node),
            }
        }
        let (groups, few): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(_, nodes): &(usize, Vec<NodeId>)| nodes.len() >= PREDICATES_MIN);
        others.extend(few.into_iter().flat_map(|(_, nodes)| nodes));
        Guarded { groups, others }
    }

    /// The group of a node's predicate, if the node cannot hold without a bit of the group.
    fn group_of(&self, node: NodeId) -> Option<usize> {
        let p = self.trie.nodes[node].predicate?;
        let predicate = &self.trie.predicates[p];
        match self.predicates[p] {
            PredicateVars::Grouped { group, .. } if !predicate.negated && predicate.op != FilterOp::Ne => {
                Some(group)
            }
            _ => None,
        }
    }
}

//! Lowers the predicates of filters, and the tests whether any term can still hold.
//!
//! A predicate is evaluated after its layer is parsed; since a layer can occur several times, it holds if it
//! held at any occurrence. On the edge to a layer, the program tests whether any term can still hold there;
//! if none can, the packet ends. For questions about connections, only predicates on the connection's key
//! (addresses, ports) exclude packets; predicates that may differ between packets do not, because one
//! matching packet is enough.

use super::expr::is_truth;
use super::groups::{Guarded, PredicateVars};
use super::ranges::{literal_range, merge_ranges, within};
use super::{LayerVars, Lower};
use crate::catalog::FieldKey;
use crate::question::Decides;
use crate::trie::{Node, NodeId, Trie};
use weir_ir::build::{Builder, Variable};
use weir_ir::graph::{BinaryOp, CompareOp, NumberFormat, Op, Pattern, PatternDecl, Set, Type, Value, Width};
use weir_lang::filter::{Literal, Op as FilterOp, Predicate, Stage};
use weir_lang::model::{FieldId, FieldType, LayerId};

/// More literals than this become a set that is searched.
const INLINE_LITERALS_MAX: usize = 4;

/// The part of a packet that is yet to be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Above {
    /// The current layer, and all layers that may follow it in the stack.
    All,
    /// Nothing: the current layer is parsed and is the last.
    Nothing,
}

/// What must hold of a predicate before a layer is parsed, so that the predicate can still hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Constraint {
    /// Nothing.
    None,
    /// It cannot hold.
    False,
    /// It held so far.
    Any,
    /// It did not hold so far.
    NotAny,
    /// Its value, which is final.
    Final,
    /// It held so far, or would for a packet of the opposite direction.
    EitherWay,
    /// The layer occurred.
    Seen(LayerId),
}

impl Lower<'_> {
    pub(super) fn declare_predicates(&mut self) {
        for _ in 0..self.trie.predicates.len() {
            let [any, exists, either_way] = [(); 3].map(|()| self.b.variable(Type::Bool));
            self.predicates.push(PredicateVars::Own { any, exists, either_way });
        }
        self.declare_groups();
        self.seen = self.stack.layers.iter().map(|_| self.b.variable(Type::Bool)).collect();
    }

    /// The variables of all predicates, with their types.
    pub(super) fn predicate_variables(&self) -> Vec<(Variable, Type)> {
        let own = self.predicates.iter().flat_map(|vars| match *vars {
            PredicateVars::Own { any, exists, either_way } => vec![any, exists, either_way],
            PredicateVars::Grouped { .. } => vec![],
        });
        let own = own.map(|variable| (variable, Type::Bool));
        let grouped = self.groups.iter().flat_map(|group| {
            [(group.any, Type::Int), (group.exists, Type::Bool), (group.either_way, Type::Int)]
        });
        own.chain(grouped).collect()
    }

    /// Whether the predicate held for a header that has been parsed; for `!=`, whether a value was equal.
    pub(super) fn any(&mut self, p: usize) -> Value {
        match self.predicates[p] {
            PredicateVars::Own { any, .. } => self.b.read(any),
            PredicateVars::Grouped { group, bit } => self.bit(self.groups[group].any, bit),
        }
    }

    fn exists(&mut self, p: usize) -> Value {
        match self.predicates[p] {
            PredicateVars::Own { exists, .. } => self.b.read(exists),
            PredicateVars::Grouped { group, .. } => self.b.read(self.groups[group].exists),
        }
    }

    fn either_way(&mut self, p: usize) -> Value {
        match self.predicates[p] {
            PredicateVars::Own { either_way, .. } => self.b.read(either_way),
            PredicateVars::Grouped { group, bit } => self.bit(self.groups[group].either_way, bit),
        }
    }

    fn bit(&mut self, bits: Variable, bit: u32) -> Value {
        let (bits, mask) = (self.b.read(bits), self.b.int(1 << bit));
        let bit = self.b.binary(BinaryOp::And, bits, mask);
        self.b.truth(bit)
    }

    /// The predicate's value for the part of the packet that has been parsed.
    pub(super) fn predicate_value(&mut self, index: usize) -> Value {
        let (op, negated) = (self.trie.predicates[index].op, self.trie.predicates[index].negated);
        let mut value = self.any(index);
        if op == FilterOp::Ne {
            let differs = self.b.one(Op::Not(value));
            let exists = self.exists(index);
            value = self.b.binary(BinaryOp::And, exists, differs);
        }
        if negated { self.b.one(Op::Not(value)) } else { value }
    }

    /// Whether any term can still hold at `layer`; `None` if that needs no test.
    pub(super) fn alive_at(&mut self, layer: LayerId, above: Above) -> Option<Value> {
        self.alive_below(Trie::ROOT, layer, above)
    }

    /// As [`alive_at`](Self::alive_at), for the terms that pass `node`.
    fn alive_below(&mut self, node: NodeId, layer: LayerId, above: Above) -> Option<Value> {
        let Node { predicate, mode, children, bits, .. } = &self.trie.nodes[node];
        let mut any = Some(self.b.bool(false));
        for &bit in bits {
            let alive = self.flow_constraint(bit, layer, above);
            any = self.either(any, alive);
        }
        let trie = self.trie;
        let children =
            children.iter().copied().filter(|&child| trie.nodes[child].stage == Some(Stage::Packet));
        let Guarded { groups, others } = self.guarded(children, |child| {
            let p = trie.nodes[child].predicate.expect("it is in a group");
            let constraint = self.constraint_of(p, trie.nodes[child].mode, layer, above);
            matches!(constraint, Constraint::Any | Constraint::EitherWay)
        });
        for child in others {
            if any.is_none() {
                break;
            }
            let alive = self.alive_below(child, layer, above);
            any = self.either(any, alive);
        }
        for (group, nodes) in groups {
            if any.is_some() {
                let alive = self.alive_in_group(group, nodes, layer, above);
                any = self.either(any, Some(alive));
            }
        }
        let own = predicate.and_then(|p| self.constraint(p, *mode, layer, above));
        match (own, any) {
            (Some(own), Some(any)) => Some(self.b.binary(BinaryOp::And, own, any)),
            (own, any) => own.or(any),
        }
    }

    /// Whether a term can still hold that passes one of these nodes, which need a predicate of the group.
    fn alive_in_group(&mut self, group: usize, nodes: Vec<NodeId>, layer: LayerId, above: Above) -> Value {
        let bits = self.b.read(self.groups[group].either_way);
        let (some, alive) = (self.b.truth(bits), self.b.variable(Type::Bool));
        let none = self.b.bool(false);
        self.b.write(alive, none);
        let [inside, after] = [(); 2].map(|()| self.b.block());
        self.b.branch(some, inside, after);
        self.b.seal(inside);
        self.b.switch_to(inside);
        let mut any = Some(none);
        for node in nodes {
            let one = self.alive_below(node, layer, above);
            any = self.either(any, one);
        }
        let any = any.unwrap_or_else(|| self.b.bool(true));
        self.b.write(alive, any);
        self.b.jump(after);
        self.b.seal(after);
        self.b.switch_to(after);
        self.b.read(alive)
    }

    /// The disjunction of two conditions; `None` is true.
    fn either(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        Some(self.b.binary(BinaryOp::Or, a?, b?))
    }

    /// The constraint of predicate `p` before `layer` is parsed, as a value; `None` is true.
    fn constraint(&mut self, p: usize, mode: Decides, layer: LayerId, above: Above) -> Option<Value> {
        Some(match self.constraint_of(p, mode, layer, above) {
            Constraint::None => return None,
            Constraint::False => self.b.bool(false),
            Constraint::Any => self.any(p),
            Constraint::NotAny => {
                let any = self.any(p);
                self.b.one(Op::Not(any))
            }
            Constraint::Final => self.predicate_value(p),
            Constraint::EitherWay => self.either_way(p),
            Constraint::Seen(layer) => self.b.read(self.seen[usize::from(layer.0)]),
        })
    }

    fn constraint_of(&self, p: usize, mode: Decides, layer: LayerId, above: Above) -> Constraint {
        let predicate = &self.trie.predicates[p];
        let key = self.catalog.key(predicate.field);
        let (op, negated) = (predicate.op, predicate.negated);
        if key == FieldKey::Sample {
            // The number is 0 until it is known, and 0 is less than all other numbers: a comparison for less
            // that holds may stop holding, and no other comparison is final before.
            let is_less = matches!(op, FilterOp::Lt | FilterOp::Le) && !negated;
            return if is_less { Constraint::Any } else { Constraint::None };
        }
        let may_come = key.layer().is_some_and(|l| self.may_come(layer, l, above));
        if mode == Decides::Packets {
            if op == FilterOp::Ne {
                return if may_come { Constraint::None } else { Constraint::Final };
            }
            // A predicate that held once stays true, so a negated one can exclude the packet at once.
            return match (negated, may_come) {
                (false, true) => Constraint::None,
                (false, false) => Constraint::Any,
                (true, _) => Constraint::NotAny,
            };
        }
        let Some(target) = key.layer().filter(|_| !negated && !may_come) else { return Constraint::None };
        if target != layer && !self.may_follow(target, layer) {
            return Constraint::False;
        }
        // Fields of the layer's key are the same in all packets of a connection; all others may differ.
        let fields: Vec<FieldId> = self.key_fields[usize::from(layer.0)]
            .iter()
            .filter(|(l, _)| *l == target)
            .map(|(_, f)| *f)
            .collect();
        if fields.is_empty() {
            return Constraint::None;
        }
        let is_key = |alias: u16| {
            self.layer(target).protocol.aliases[usize::from(alias)].fields.iter().all(|f| fields.contains(f))
        };
        let either_way = match key {
            FieldKey::Layer(_) => predicate.slice.is_none(),
            FieldKey::Alias(_, alias) => is_key(alias),
            _ => false,
        };
        if either_way && op != FilterOp::Ne {
            Constraint::Any
        } else if self.alias_of(key).is_some_and(is_key) && op != FilterOp::Ne {
            Constraint::EitherWay
        } else {
            Constraint::Seen(target)
        }
    }

    /// Whether `other` is the current layer, which is yet to be parsed, or may follow it.
    fn may_come(&self, layer: LayerId, other: LayerId, above: Above) -> bool {
        above == Above::All && (other == layer || self.may_follow(layer, other))
    }

    /// Whether a layer may follow another one, including in a later message.
    pub(super) fn may_follow(&self, layer: LayerId, other: LayerId) -> bool {
        self.reach.contains(layer, other)
            || self.in_messages.contains(&layer) && self.in_messages.contains(&other)
    }

    /// The alias that combines the two directions of this field.
    pub(super) fn alias_of(&self, key: FieldKey) -> Option<u16> {
        let FieldKey::Field(layer, field) = key else { return None };
        let aliases = &self.layer(layer).protocol.aliases;
        aliases.iter().position(|a| a.fields.contains(&field)).map(|a| a as u16)
    }

    pub(super) fn lower_frame_predicates(&mut self) {
        for p in 0..self.trie.predicates.len() {
            let predicate = &self.trie.predicates[p];
            match self.catalog.key(predicate.field) {
                FieldKey::Meta(meta) => {
                    let value = self.b.one(Op::Meta(meta));
                    let zero = self.b.int(0);
                    let holds = self.compare_words(predicate, zero, value);
                    let yes = self.b.bool(true);
                    self.record(p, yes, holds, holds);
                }
                // Depends on the link type: `lower_frame_tests`.
                FieldKey::Frame if predicate.op == FilterOp::Satisfies => {}
                FieldKey::Sample => self.lower_first_sample(p),
                FieldKey::Frame => {
                    let (buf, offset) = (self.b.read(self.buf), self.b.int(0));
                    let length = self.b.one(Op::Length(buf));
                    let holds = self.compare_bytes(predicate, buf, offset, length);
                    let yes = self.b.bool(true);
                    self.record(p, yes, holds, holds);
                }
                _ => {}
            }
        }
    }

    /// Evaluates the predicates on layer `id`, after it is parsed.
    pub(super) fn lower_predicates(&mut self, id: LayerId) {
        let yes = self.b.bool(true);
        self.b.write(self.seen[id.0 as usize], yes);
        let vars = self.vars(id);
        for p in 0..self.trie.predicates.len() {
            let predicate = &self.trie.predicates[p];
            let key = self.catalog.key(predicate.field);
            let is_event = matches!(key, FieldKey::Event(..) | FieldKey::EventColumn(..));
            let is_own = matches!(self.predicates[p], PredicateVars::Own { .. });
            if key.layer() == Some(id) && !is_event && is_own {
                let [exists, holds, either_way] = self.predicate_on(id, &vars, key, predicate);
                self.record(p, exists, holds, either_way);
            }
        }
        self.lower_sample(id);
        self.lower_groups(id, &vars);
    }

    /// Whether there is a value, whether the predicate holds, and whether it holds in either direction.
    pub(super) fn predicate_on(
        &mut self,
        id: LayerId,
        vars: &LayerVars,
        key: FieldKey,
        predicate: &Predicate,
    ) -> [Value; 3] {
        let yes = self.b.bool(true);
        match key {
            FieldKey::Layer(_) if predicate.slice.is_none() => [yes; 3],
            FieldKey::Layer(_) => {
                let start = self.b.read(vars.start.expect("declared"));
                let end = self.b.read(self.end);
                let length = self.b.binary(BinaryOp::SubSat, end, start);
                let buf = self.b.read(self.buf);
                let holds = self.compare_bytes(predicate, buf, start, length);
                [yes, holds, holds]
            }
            FieldKey::Payload(_) => {
                let start = self.b.read(vars.payload_at.expect("declared"));
                let length = self.b.read(vars.payload_bytes.expect("declared"));
                let buf = self.b.read(self.buf);
                let holds = self.compare_bytes(predicate, buf, start, length);
                let exists = self.b.truth(length);
                let holds = self.b.binary(BinaryOp::And, exists, holds);
                [exists, holds, holds]
            }
            FieldKey::Field(_, field) => {
                let (exists, holds) = self.field_predicate(id, vars, field, predicate);
                let either_way = match self.alias_of(key) {
                    Some(alias) => self.alias_predicate(id, vars, alias, predicate).1,
                    None => holds,
                };
                [exists, holds, either_way]
            }
            FieldKey::Alias(_, alias) => {
                let (exists, holds) = self.alias_predicate(id, vars, alias, predicate);
                [exists, holds, holds]
            }
            FieldKey::Presence(_, presence) if predicate.op == FilterOp::Exists => {
                let there = self.b.read(vars.presences[presence.0 as usize]);
                [yes, there, there]
            }
            FieldKey::Presence(_, presence) => {
                let there = self.b.read(vars.presences[presence.0 as usize]);
                let (zero, value) = (self.b.int(0), self.b.one(Op::FromBool(there)));
                let holds = self.compare_words(predicate, zero, value);
                [yes, holds, holds]
            }
            FieldKey::Let(_, value) => {
                let (exists, holds) = self.let_predicate(id, usize::from(value.0), predicate);
                [exists, holds, holds]
            }
            FieldKey::Frame
            | FieldKey::Sample
            | FieldKey::Meta(_)
            | FieldKey::Connection(_)
            | FieldKey::Session(_)
            | FieldKey::Event(..)
            | FieldKey::EventColumn(..)
            | FieldKey::End(..)
            | FieldKey::EndColumn(..)
            | FieldKey::SessionField(..) => unreachable!("no field of a layer's header"),
        }
    }

    /// Whether a derived value is present, and whether the predicate holds for it. A bool alone tests for
    /// true.
    fn let_predicate(&mut self, id: LayerId, index: usize, predicate: &Predicate) -> (Value, Value) {
        let protocol = &self.layer(id).protocol;
        let expr = &protocol.lets[index].value;
        let exists = self.b.read(self.vars(id).lets_known[index]);
        let asks_for_presence = predicate.op == FilterOp::Exists && predicate.mask.is_none();
        if asks_for_presence && !is_truth(protocol, expr) {
            return (exists, exists);
        }
        let (zero, value) = (self.b.int(0), self.let_value(id, index));
        let holds = self.compare_words(predicate, zero, value);
        (exists, self.b.binary(BinaryOp::And, exists, holds))
    }

    /// Whether any of an alias's fields is present, and whether the predicate holds for any.
    fn alias_predicate(
        &mut self,
        id: LayerId,
        vars: &LayerVars,
        alias: u16,
        predicate: &Predicate,
    ) -> (Value, Value) {
        let (mut exists, mut holds) = (self.b.bool(false), self.b.bool(false));
        for field in self.layer(id).protocol.aliases[alias as usize].fields.clone() {
            let (e, h) = self.field_predicate(id, vars, field, predicate);
            exists = self.b.binary(BinaryOp::Or, exists, e);
            holds = self.b.binary(BinaryOp::Or, holds, h);
        }
        (exists, holds)
    }

    pub(super) fn record(&mut self, p: usize, exists: Value, holds: Value, either_way: Value) {
        let PredicateVars::Own { exists: has_value, any, either_way: both } = self.predicates[p] else {
            unreachable!("groups record their predicates themselves")
        };
        for (variable, value) in [(has_value, exists), (any, holds), (both, either_way)] {
            let before = self.b.read(variable);
            let value = self.b.binary(BinaryOp::Or, before, value);
            self.b.write(variable, value);
        }
    }

    pub(super) fn field_predicate(
        &mut self,
        id: LayerId,
        vars: &LayerVars,
        field: FieldId,
        predicate: &Predicate,
    ) -> (Value, Value) {
        let index = field.0 as usize;
        let exists = match vars.field_present[index] {
            Some(present) => self.b.read(present),
            None => self.b.bool(true),
        };
        let ty = &self.layer(id).protocol.fields[index].ty;
        let is_bytes = matches!(ty, FieldType::Bytes(_) | FieldType::Text(_));
        let is_bit = matches!(ty, FieldType::Unsigned { bits: 1, .. });
        // Searches use the bytes in the packet, whatever the type of the field.
        let is_searched = matches!(predicate.op, FilterOp::Contains | FilterOp::Matches);
        let holds = if predicate.op == FilterOp::Exists && predicate.slice.is_none() {
            if is_bit {
                let value = self.b.read(vars.fields[index].0);
                self.b.truth(value)
            } else {
                self.b.bool(true)
            }
        } else if is_bytes || is_searched || predicate.slice.is_some() {
            let (at, length) = vars.field_at[index];
            let (at, length, buf) = (self.b.read(at), self.b.read(length), self.b.read(self.buf));
            self.compare_bytes(predicate, buf, at, length)
        } else {
            let low = self.b.read(vars.fields[index].0);
            let high = match vars.fields[index].1 {
                Some(high) => self.b.read(high),
                None => self.b.int(0),
            };
            self.compare_words(predicate, high, low)
        };
        (exists, self.b.binary(BinaryOp::And, exists, holds))
    }

    /// Compares a number of up to 128 bits with a predicate's literals. For `!=` the result is equality; the
    /// caller negates.
    pub(crate) fn compare_words(&mut self, predicate: &Predicate, high: Value, low: Value) -> Value {
        compare_words(&mut self.b, predicate, high, low)
    }

    fn compare_bytes(&mut self, predicate: &Predicate, buf: Value, at: Value, length: Value) -> Value {
        compare_part(&mut self.b, predicate, buf, at, length)
    }
}

/// Compares bytes, or the slice of them that the predicate names.
pub(crate) fn compare_part(
    b: &mut Builder,
    predicate: &Predicate,
    buf: Value,
    at: Value,
    length: Value,
) -> Value {
    let Some((offset, count)) = predicate.slice else {
        return compare_bytes(b, predicate, buf, at, length);
    };
    let (offset_v, count_v) = (b.int(u64::from(offset)), b.int(u64::from(count)));
    let at = b.binary(BinaryOp::Add, at, offset_v);
    let rest = b.binary(BinaryOp::SubSat, length, offset_v);
    let length = b.binary(BinaryOp::Min, rest, count_v);
    let numbers = predicate.literals.iter().any(|l| matches!(l, Literal::Numbers(..)));
    if numbers || predicate.op == FilterOp::Exists {
        return compare_slice(b, predicate, buf, at, length, count);
    }
    compare_bytes(b, predicate, buf, at, length)
}

/// A slice of one to eight bytes as a number: `tcp[13] & 2 != 0`.
fn compare_slice(
    b: &mut Builder,
    predicate: &Predicate,
    buf: Value,
    at: Value,
    length: Value,
    count: u32,
) -> Value {
    let result = b.variable(Type::Bool);
    let count_v = b.int(u64::from(count));
    let whole = b.compare(CompareOp::Eq, length, count_v);
    let [inside, there, missing, join] = [(); 4].map(|()| b.block());
    b.branch(whole, inside, missing);
    b.seal(inside);
    b.switch_to(inside);
    b.check(buf, at, count, there, missing);
    b.seal(there);
    b.seal(missing);
    b.switch_to(missing);
    let no = b.bool(false);
    b.write(result, no);
    b.jump(join);
    b.switch_to(there);
    let mut word = b.int(0);
    for byte in 0..count.min(8) {
        let format = NumberFormat { width: Width::W1, little: false };
        let load = Op::Load { format, buf, offset: at, displacement: byte };
        let load = b.one(load);
        let eight = b.int(8);
        let shifted = b.binary(BinaryOp::Shl, word, eight);
        word = b.binary(BinaryOp::Or, shifted, load);
    }
    let holds = if predicate.op == FilterOp::Exists {
        b.bool(true)
    } else {
        let zero = b.int(0);
        compare_words(b, predicate, zero, word)
    };
    b.write(result, holds);
    b.jump(join);
    b.seal(join);
    b.switch_to(join);
    b.read(result)
}

/// As [`Lower::compare_words`], for any builder.
pub(crate) fn compare_words(b: &mut Builder, predicate: &Predicate, high: Value, low: Value) -> Value {
    let mut low = low;
    if let Some(mask) = predicate.mask {
        let mask = b.int(mask);
        low = b.binary(BinaryOp::And, low, mask);
    }
    let ranges: Vec<(u128, u128)> = predicate.literals.iter().filter_map(literal_range).collect();
    let first = ranges.first().copied().unwrap_or((0, 0));
    let bound = |b: &mut Builder, value: u128| b.int(value as u64);
    match predicate.op {
        FilterOp::Exists => b.truth(low),
        FilterOp::Lt => {
            let limit = bound(b, first.0);
            b.compare(CompareOp::Lt, low, limit)
        }
        FilterOp::Le => {
            let limit = bound(b, first.0);
            b.compare(CompareOp::Le, low, limit)
        }
        FilterOp::Gt => {
            let limit = bound(b, first.0);
            b.compare(CompareOp::Lt, limit, low)
        }
        FilterOp::Ge => {
            let limit = bound(b, first.0);
            b.compare(CompareOp::Le, limit, low)
        }
        FilterOp::BitsAny => {
            let mask = bound(b, first.0);
            let bits = b.binary(BinaryOp::And, low, mask);
            b.truth(bits)
        }
        _ if ranges.len() > INLINE_LITERALS_MAX => {
            let set = Set(b.graph.sets.len() as u32);
            b.graph.sets.push(merge_ranges(ranges));
            b.one(Op::Member { set, high, low })
        }
        _ => {
            let mut any = b.bool(false);
            for (from, to) in ranges {
                let inside = within(b, high, low, from, to);
                any = b.binary(BinaryOp::Or, any, inside);
            }
            any
        }
    }
}

/// As [`Lower::compare_bytes`] without slices, for any builder.
pub(crate) fn compare_bytes(
    b: &mut Builder,
    predicate: &Predicate,
    buf: Value,
    offset: Value,
    length: Value,
) -> Value {
    if predicate.op == FilterOp::Exists {
        return b.bool(true);
    }
    let mut any = b.bool(false);
    for literal in &predicate.literals {
        let bytes = match literal {
            Literal::Bytes(bytes) => bytes.clone(),
            Literal::Text(text) => text.clone().into_bytes(),
            _ => continue,
        };
        let search = |b: &mut Builder, declared: PatternDecl| {
            let known = b.graph.patterns.iter().position(|p| *p == declared);
            let pattern = Pattern(known.unwrap_or_else(|| {
                b.graph.patterns.push(declared);
                b.graph.patterns.len() - 1
            }) as u32);
            b.one(Op::Search { pattern, buf, offset, length })
        };
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        let holds = match predicate.op {
            FilterOp::Contains => search(b, PatternDecl::Contains(bytes)),
            FilterOp::Matches => search(b, PatternDecl::Matches(text())),
            FilterOp::Lt => search(b, PatternDecl::Less(bytes)),
            FilterOp::Ge => {
                let less = search(b, PatternDecl::Less(bytes));
                b.one(Op::Not(less))
            }
            FilterOp::Le | FilterOp::Gt => {
                let less = search(b, PatternDecl::Less(bytes.clone()));
                let equal = search(b, PatternDecl::Equals(bytes));
                let at_most = b.binary(BinaryOp::Or, less, equal);
                if predicate.op == FilterOp::Le { at_most } else { b.one(Op::Not(at_most)) }
            }
            _ => search(b, PatternDecl::Equals(bytes)),
        };
        any = b.binary(BinaryOp::Or, any, holds);
    }
    any
}

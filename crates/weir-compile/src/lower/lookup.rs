//! Decides for which packets the connection is looked up. A connection that answers no question is skipped,
//! unless another one may run inside it (a question about TCP looks up only those UDP connections that may be
//! tunnels).
//!
//! The decision is the same for all packets of a connection, in both directions: a connection that is looked
//! up is looked up from its first packet on, and is the same as if all connections were.

use super::Lower;
use super::predicate::Above;
use crate::catalog::FieldKey;
use weir_ir::graph::{BinaryOp, Table, Value};
use weir_lang::filter::Predicate;
use weir_lang::model::{self, EdgeKind, Expr, FieldId, Instance, LayerId};

impl Lower<'_> {
    /// Ends the packet if its instance is not needed, because then no later layer is needed, either.
    pub(super) fn lower_need_of_lookup(&mut self, id: LayerId, table: Table, instance: &Instance) {
        if let Some(needed) = self.is_lookup_needed(id, table, instance) {
            let (lookup, done) = (self.b.block(), self.finish.of(None));
            self.b.branch(needed, lookup, done);
            self.b.seal(lookup);
            self.b.switch_to(lookup);
        }
    }

    /// Whether the packet's instance is needed. `None` if it may be needed for every packet, or if no
    /// question uses the table, because the passes remove such lookups.
    fn is_lookup_needed(&mut self, id: LayerId, table: Table, instance: &Instance) -> Option<Value> {
        let is_observed = self.b.graph.tables[table.index()].observed;
        if !is_observed || self.in_messages.contains(&id) || self.is_asked_above(id) {
            return None;
        }
        let wanted = self.alive_at(id, Above::Nothing)?;
        let carries = self.may_carry(id, instance)?;
        Some(self.b.binary(BinaryOp::Or, wanted, carries))
    }

    /// A question about flows only concerns packets that have a flow.
    pub(super) fn flow_constraint(&mut self, bit: usize, layer: LayerId, above: Above) -> Option<Value> {
        let bit = &self.trie.alternatives[bit];
        let need = self.questions[bit.question].need;
        // Events at the ends of instances concern packets of instances, the question's other events all
        // packets.
        if self.asks_for_ends(&need) {
            return None;
        }
        if above == Above::Nothing && !bit.has_remainder() && !need.flows() {
            return Some(self.b.bool(false));
        }
        // A predicate on the absence of a session also holds for packets without a flow.
        let absence = bit.session.iter().chain(&bit.connection).all(|p| p.negated);
        if need.packets && absence || !bit.has_remainder() && (need.packets || !need.flows()) {
            return None;
        }
        let carrier = self.layer(layer).transport();
        let mut transports = bit.session.iter().filter(|p| !p.negated).filter_map(|p| self.transports_of(p));
        if above == Above::Nothing && transports.any(|names| !names.contains(&carrier)) {
            return Some(self.b.bool(false));
        }
        let with_flows: Vec<LayerId> =
            (0..self.stack.layers.len() as u16).map(LayerId).filter(|&l| self.is_two_sided(l)).collect();
        let mut may_come = with_flows.iter().filter(|&&l| above == Above::All && self.may_follow(layer, l));
        if with_flows.contains(&layer) || may_come.next().is_some() {
            return None;
        }
        let mut any = self.b.bool(false);
        for l in with_flows {
            let seen = self.b.read(self.seen[l.0 as usize]);
            any = self.b.binary(BinaryOp::Or, any, seen);
        }
        Some(any)
    }

    /// The transport protocols of the session that a predicate tests.
    fn transports_of(&self, predicate: &Predicate) -> Option<&'static [&'static str]> {
        match self.catalog.key(predicate.field) {
            FieldKey::Session(p) | FieldKey::SessionField(p, _) => Some(self.catalog.transports_of(p)),
            _ => None,
        }
    }

    /// Whether another layer may follow in some packet of the instance, according to its key; `None` if the
    /// key does not decide.
    fn may_carry(&mut self, id: LayerId, instance: &Instance) -> Option<Value> {
        let stack = self.stack;
        let mut any = self.b.bool(false);
        for edge in stack.edges.iter().filter(|edge| edge.from == id && edge.kind != EdgeKind::Messages) {
            let may = self.may_hold(id, instance, &edge.condition)?;
            any = self.b.binary(BinaryOp::Or, any, may);
        }
        Some(any)
    }

    /// Whether a condition may hold for a packet with this key, in either direction; `None` if the key does
    /// not decide.
    fn may_hold(&mut self, id: LayerId, instance: &Instance, condition: &Expr) -> Option<Value> {
        let logic = match condition {
            Expr::Binary(model::BinaryOp::LogicalAnd, a, b) => Some((BinaryOp::And, a, b)),
            Expr::Binary(model::BinaryOp::LogicalOr, a, b) => Some((BinaryOp::Or, a, b)),
            _ => None,
        };
        if let Some((op, a, b)) = logic {
            let both = (self.may_hold(id, instance, a), self.may_hold(id, instance, b));
            return match (op, both) {
                (_, (Some(a), Some(b))) => Some(self.b.binary(op, a, b)),
                (BinaryOp::And, (a, b)) => a.or(b),
                _ => None,
            };
        }
        let other_way = other_way(condition, instance)?;
        let [this, other] = [condition, &other_way].map(|condition| self.truth(id, condition));
        Some(self.b.binary(BinaryOp::Or, this, other))
    }
}

/// The condition for a packet of the opposite direction; `None` if it does not depend on fields of the key
/// only.
fn other_way(condition: &Expr, instance: &Instance) -> Option<Expr> {
    let both =
        |a: &Expr, b: &Expr| Some((Box::new(other_way(a, instance)?), Box::new(other_way(b, instance)?)));
    Some(match condition {
        Expr::Number(number) => Expr::Number(*number),
        Expr::Field(field) => Expr::Field(opposite(*field, instance)?),
        Expr::Not(a) => Expr::Not(Box::new(other_way(a, instance)?)),
        Expr::In(a, ranges) => Expr::In(Box::new(other_way(a, instance)?), ranges.clone()),
        Expr::Binary(op, a, b) => {
            let (a, b) = both(a, b)?;
            Expr::Binary(*op, a, b)
        }
        _ => return None,
    })
}

/// The field at the same position of the key's other side.
fn opposite(field: FieldId, instance: &Instance) -> Option<FieldId> {
    let ends = instance.source.iter().zip(&instance.destination);
    let mut pairs = ends.filter_map(|ends| match ends {
        (Expr::Field(source), Expr::Field(destination)) => Some((*source, *destination)),
        _ => None,
    });
    pairs.find_map(|(source, destination)| match field {
        _ if field == source => Some(destination),
        _ if field == destination => Some(source),
        _ => None,
    })
}

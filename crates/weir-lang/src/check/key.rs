//! The key of an instance: the types of its parts and its maximum size.

use super::codes;
use super::expr::{Place, Value};
use super::protocol::{Checker, InstanceTree};
use super::scope::Kind;
use crate::diag::Diagnostic;
use crate::model::{Expr, FieldType, Instance};
use crate::syntax::ast;

/// Maximum size of a key, in 64-bit words.
pub(crate) const KEY_WORDS_MAX: usize = 5;

impl Checker<'_> {
    /// The key of an instance.
    pub(super) fn instance(&mut self, instance: Option<InstanceTree<'_>>) {
        let Some((span, source, destination, conditions)) = instance else { return };
        let source_kinds: Vec<Value> = source.iter().map(|part| self.key(part)).collect();
        let others: Vec<Value> = destination.unwrap_or_default().iter().map(|part| self.key(part)).collect();
        if destination.is_some() && source_kinds.len() != others.len() {
            let (one, two) = (source_kinds.len(), others.len());
            let message = format!("the sender's key has {one} parts, the receiver's {two}");
            self.error(
                codes::BAD_CLAUSE,
                message,
                span,
                "both keys need the same parts, each of its own side",
            );
        }
        let pairs = source_kinds.iter().zip(&others);
        let known = |kind| kind != Kind::Unknown;
        for ((one, two), part) in pairs.zip(destination.unwrap_or_default()) {
            if known(one.kind) && known(two.kind) && one.kind != two.kind {
                let message =
                    format!("{} on one side, {} on the other", one.kind.describe(), two.kind.describe());
                self.diagnostics.push(Diagnostic::error(codes::BAD_CLAUSE, message).at(part.span));
            }
        }
        let bits = |parts: &[Value]| parts.iter().map(|part| self.key_bits(&part.expr)).collect::<Vec<u32>>();
        let wide = |bits: &[u32], limit: u32| bits.iter().filter(|&&bits| bits > limit).count();
        let is_side = |parts: &[Value]| {
            // Bytes were rejected before. A single IPv4 address is the address if the side has no other one.
            let is_wide = |part: &&Value| part.kind != Kind::Bytes && self.key_bits(&part.expr) > 32;
            let has_ipv4 = parts.iter().any(|part| part.kind == Kind::Ipv4);
            let wide = parts.iter().filter(is_wide).count().max(usize::from(has_ipv4));
            wide <= 1 && parts.len() - wide <= 1
        };
        let bits = bits(&source_kinds);
        let (too_long, help) = match destination {
            Some(_) => (
                !is_side(&source_kinds) || !is_side(&others),
                "a side's key is one address or number of up to 128 bits, and one number of up to 32; a \
                 `below` value counts 128 bits: `let port = below.src_port` makes it a number",
            ),
            None => (
                2 * wide(&bits, 64) + (bits.len() - wide(&bits, 64)) > KEY_WORDS_MAX,
                "a key has at most 320 bits; an IPv6 address and a `below` value take 128, a number at most 64",
            ),
        };
        if too_long {
            self.error(codes::TOO_MUCH, "the key is too large", span, help);
        }
        if let ([_, Some(reversed)], None) = (conditions, destination) {
            let help = "give it `instance (…) <-> (…)`";
            self.error(codes::BAD_CLAUSE, "an instance without sides has no responder", reversed.span, help);
        }
        let [condition, reversed] = conditions
            .map(|condition| condition.map(|tree| self.resolver(Place::Packet).condition(tree).expr));
        let exprs = |values: Vec<Value>| values.into_iter().map(|value| value.expr).collect();
        self.protocol.instance =
            Some(Instance { source: exprs(source_kinds), destination: exprs(others), condition, reversed });
    }

    /// The bits of a part of a key, as lowering computes them: computed values are truncated to 32.
    fn key_bits(&self, part: &Expr) -> u32 {
        match part {
            Expr::Below(_) => 128,
            Expr::Field(field) => match self.protocol.fields[usize::from(field.0)].ty {
                FieldType::Ipv6 => 128,
                FieldType::Unsigned { bits, .. } => bits,
                FieldType::Mac => 48,
                FieldType::Ipv4 => 32,
                FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => 64,
            },
            _ => 32,
        }
    }

    fn key(&mut self, part: &ast::Expr) -> Value {
        let value = self.resolver(Place::Packet).value(part);
        if value.kind == Kind::Bytes {
            let help = "keys consist of numbers and addresses; compute a number from it";
            self.error(codes::TYPE, "bytes can't be part of a key", part.span, help);
        }
        value
    }
}

//! The key of an instance: the types of its parts and its maximum size; and the context that a protocol adds
//! to keys.

use super::codes;
use super::expr::{Place, Value};
use super::protocol::{Checker, InstanceTree};
use super::scope::Kind;
use crate::diag::Diagnostic;
use crate::model::{Expr, FieldType, Instance, ValueId};
use crate::syntax::ast;

/// Maximum size of the declared parts of a key, in 64-bit words. One more word may hold the context.
pub(crate) const KEY_WORDS_MAX: u32 = 15;

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
        let words = match destination {
            Some(_) => self.two_sided_words(&source_kinds, &others),
            None => self.one_sided_words(&source_kinds),
        };
        if words > u64::from(KEY_WORDS_MAX) {
            let help = format!(
                "a key has at most {} bits for both sides together; a `below` value takes 128",
                KEY_WORDS_MAX * 64
            );
            self.error(codes::TOO_MUCH, "the key is too large", span, &help);
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

    /// The values that a protocol adds to the context of instances, and to their tags.
    pub(super) fn context(&mut self, contexts: &[&ast::Expr], tags: &[&ast::Expr]) {
        let all = contexts.iter().map(|tree| (tree, false)).chain(tags.iter().map(|tree| (tree, true)));
        for (tree, is_tag) in all {
            let value = self.resolver(Place::Packet).value(tree);
            let part = match &value.expr {
                Expr::Field(field) if self.protocol.is_number(ValueId::Field(*field)) => {
                    ValueId::Field(*field)
                }
                Expr::Let(value) => ValueId::Let(*value),
                _ if value.kind == Kind::Unknown => continue,
                _ => {
                    let help =
                        "name a field or a `let` that is a number: options refer to the value by its name";
                    self.error(codes::BAD_CLAUSE, "not the name of a number", tree.span, help);
                    continue;
                }
            };
            if self.protocol.context.contains(&part) || self.protocol.tags.contains(&part) {
                let help = "name each value once";
                self.error(codes::BAD_CLAUSE, "the value is already part of the context", tree.span, help);
            } else if is_tag {
                self.protocol.tags.push(part);
            } else {
                self.protocol.context.push(part);
            }
        }
    }

    /// Words of a two-sided key. Numbers of up to 32 bits of both sides share one word.
    fn two_sided_words(&self, source: &[Value], destination: &[Value]) -> u64 {
        let of = |(one, two): (&Value, &Value)| match self.key_bits(&one.expr).max(self.key_bits(&two.expr)) {
            // IPv4 addresses are mapped into IPv6.
            _ if one.kind == Kind::Ipv4 => 4,
            0..=32 => 1,
            bits => 2 * bits.div_ceil(64),
        };
        source.iter().zip(destination).map(of).fold(0, u64::saturating_add)
    }

    /// Words of a one-sided key, as lowering packs them: parts of more than 64 bits have their own words,
    /// smaller ones share words.
    fn one_sided_words(&self, parts: &[Value]) -> u64 {
        let (mut words, mut used) = (0_u64, 64);
        for bits in parts.iter().map(|part| self.key_bits(&part.expr)) {
            if bits > 64 {
                words = words.saturating_add(bits.div_ceil(64));
            } else if used + bits <= 64 {
                used += bits;
            } else {
                words = words.saturating_add(1);
                used = bits;
            }
        }
        words
    }

    /// Bits of a part of a key, as lowering computes them: computed values are truncated to 32.
    fn key_bits(&self, part: &Expr) -> u64 {
        match part {
            Expr::Below(_) => 128,
            Expr::Field(field) => match self.protocol.fields[usize::from(field.0)].ty {
                FieldType::Ipv6 => 128,
                FieldType::Unsigned { bits, .. } => u64::from(bits),
                FieldType::Mac => 48,
                FieldType::Ipv4 => 32,
                FieldType::Bytes(Expr::Number(bytes)) | FieldType::Text(Expr::Number(bytes)) => {
                    bytes.saturating_mul(8)
                }
                FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => 64,
            },
            _ => 32,
        }
    }

    /// Whether the part is a field of bytes whose length is the same in every packet.
    fn is_fixed_bytes(&self, part: &Expr) -> bool {
        let Expr::Field(field) = part else { return false };
        let ty = &self.protocol.fields[usize::from(field.0)].ty;
        matches!(ty, FieldType::Bytes(Expr::Number(1..)) | FieldType::Text(Expr::Number(1..)))
    }

    fn key(&mut self, part: &ast::Expr) -> Value {
        let value = self.resolver(Place::Packet).value(part);
        if value.kind == Kind::Bytes && !self.is_fixed_bytes(&value.expr) {
            let help = "give the field a fixed number of bytes, `bytes[20]`, or compute a number from it";
            self.error(codes::TYPE, "bytes of a varying number can't be part of a key", part.span, help);
        }
        value
    }
}

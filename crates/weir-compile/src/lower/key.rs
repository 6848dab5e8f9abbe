//! Keys of instances: their words, and whose part an instance is by its key.

use super::Lower;
use crate::types::value_type;
use weir_ir::graph::{BinaryOp, CompareOp, Hosts, Op, Value};
use weir_lang::model::{self, Expr, FieldId, FieldType, LayerId};
use weir_packet::ValueType;

impl Lower<'_> {
    /// The protocol whose connections the instances are part of: those are kept for the same ends, which are those
    /// of a layer below both. So chunks of an association are no connections beside it.
    pub(super) fn whole_of(&self, id: LayerId) -> Option<String> {
        let instance = self.layer(id).protocol.instance.as_ref()?;
        let mut names = vec![];
        for part in instance.source.iter().chain(&instance.destination) {
            super::expr::walk_through_lets(&self.layer(id).protocol, part, &mut |e| {
                if let Expr::Below(name) = e {
                    names.push(name.clone());
                }
            });
        }
        names.iter().find_map(|name| self.instance_before(id, name, instance.source.len()))
    }

    /// The fields that the key of a layer's connections consists of, and whose they are: its own, and those of the nearest
    /// layer below.
    pub(super) fn find_key_fields(&self, id: LayerId) -> Vec<(LayerId, FieldId)> {
        let protocol = &self.layer(id).protocol;
        let Some(instance) = protocol.instance.as_ref().filter(|i| !i.destination.is_empty()) else {
            return vec![];
        };
        let (mut found, mut names) = (vec![], vec![]);
        for part in instance.source.iter().chain(&instance.destination) {
            super::expr::walk_through_lets(protocol, part, &mut |e| match e {
                Expr::Field(field) => found.push((id, *field)),
                Expr::Below(name) => names.push(name.clone()),
                _ => {}
            });
        }
        for name in names {
            let (mut open, mut seen) = (vec![id], vec![]);
            while let Some(at) = open.pop() {
                for below in self.stack.edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from) {
                    let fields = &self.layer(below).protocol.fields;
                    let named = |f: &model::Field| f.is_called(&name);
                    if seen.contains(&below) {
                        continue;
                    }
                    seen.push(below);
                    match fields.iter().position(named) {
                        Some(field) => found.push((below, FieldId(field as u16))),
                        None => open.push(below),
                    }
                }
            }
        }
        found
    }

    /// The layer with a two-sided instance, with as many parts in its key, that comes on every way down from a layer
    /// before what has `name`: the first found.
    fn instance_before(&self, id: LayerId, name: &str, parts: usize) -> Option<String> {
        let (mut open, mut seen, mut found) = (vec![id], vec![id], None);
        while let Some(at) = open.pop() {
            for below in self.stack.edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from) {
                let protocol = &self.layer(below).protocol;
                let has_name = protocol.fields.iter().any(|f| f.is_called(name))
                    || protocol.lets.iter().any(|value| value.name == name);
                let is_kept = protocol
                    .instance
                    .as_ref()
                    .is_some_and(|i| i.destination.len() == parts && i.condition.is_none());
                match (has_name, is_kept) {
                    (true, _) => return None,
                    (false, true) if below != id => {
                        found.get_or_insert_with(|| protocol.declared.clone());
                    }
                    _ if !seen.contains(&below) => {
                        seen.push(below);
                        open.push(below);
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// What the wide part of a side's key is: an address where it may be one on some way down.
    pub(super) fn hosts_of(&self, id: LayerId, instance: &model::Instance) -> Hosts {
        let Some(place) = self.address_of(id, &instance.source) else { return Hosts::Nothing };
        match value_type(self.stack, id, &instance.source[place]) {
            ValueType::Mac => Hosts::Macs,
            ValueType::Unsigned => Hosts::Numbers,
            _ => Hosts::Addresses,
        }
    }

    /// The part of a side's key that stands where addresses do: the one that is wide, or else the first address of IPv4.
    fn address_of(&self, id: LayerId, parts: &[Expr]) -> Option<usize> {
        let is_ipv4 = |part: &Expr| {
            let Expr::Field(field) = part else { return false };
            matches!(self.layer(id).protocol.fields[usize::from(field.0)].ty, FieldType::Ipv4)
        };
        let wide = parts.iter().position(|part| self.key_bits(id, part) > 32);
        wide.or_else(|| parts.iter().position(is_ipv4))
    }

    /// Key words, and whether the sender stands second.
    ///
    /// Two-sided: the lesser (address, small part) first; words 0 and 1 its address, 2 and 3 the other's,
    /// 4 the small parts (32 bits each). One-sided: addresses take two words each, small parts are packed.
    pub(super) fn lower_key(&mut self, id: LayerId, instance: &model::Instance) -> (Vec<Value>, Value) {
        if instance.destination.is_empty() {
            let mut words = vec![];
            let mut packed: Option<(Value, u32)> = None;
            for part in &instance.source {
                let bits = self.key_bits(id, part);
                let (high, low) = self.key_part(id, part);
                if bits > 64 {
                    words.extend([high, low]);
                    continue;
                }
                packed = Some(match packed {
                    Some((word, used)) if used + bits <= 64 => {
                        let shift = self.b.int(u64::from(bits));
                        let word = self.b.binary(BinaryOp::Shl, word, shift);
                        (self.b.binary(BinaryOp::Or, word, low), used + bits)
                    }
                    Some((word, _)) => {
                        words.push(word);
                        (low, bits)
                    }
                    None => (low, bits),
                });
            }
            words.extend(packed.map(|(word, _)| word));
            return (words, self.b.bool(false));
        }
        let ends = [&instance.source, &instance.destination].map(|parts| {
            let mut end = (self.b.int(0), self.b.int(0), self.b.int(0));
            let address = self.address_of(id, parts);
            for (place, part) in parts.iter().enumerate() {
                // One wide part and one of 32 bits: the checker has seen to it.
                match address == Some(place) {
                    false => end.2 = self.key_part(id, part).1,
                    true => (end.0, end.1) = self.key_pair(id, part),
                }
            }
            end
        });
        let [a, b] = ends;
        // Greater, from the least significant word up.
        let mut swap = self.b.compare(CompareOp::Lt, b.2, a.2);
        for (x, y) in [(a.1, b.1), (a.0, b.0)] {
            let equal = self.b.compare(CompareOp::Eq, x, y);
            let greater = self.b.compare(CompareOp::Lt, y, x);
            let tie = self.b.binary(BinaryOp::And, equal, swap);
            swap = self.b.binary(BinaryOp::Or, greater, tie);
        }
        let mut pick = |x, y| self.b.one(Op::Select(swap, x, y));
        let mut words = vec![pick(b.0, a.0), pick(b.1, a.1), pick(a.0, b.0), pick(a.1, b.1)];
        let (first, second) = (pick(b.2, a.2), pick(a.2, b.2));
        let shift = self.b.int(32);
        let upper = self.b.binary(BinaryOp::Shl, first, shift);
        words.push(self.b.binary(BinaryOp::Or, upper, second));
        (words, swap)
    }

    /// A part of a key. What is calculated is cut to the bits that it takes there, or it would reach into others.
    fn key_part(&mut self, id: LayerId, part: &Expr) -> super::Pair {
        let (high, low) = self.pair(id, part);
        match part {
            Expr::Below(_) | Expr::Field(_) => (high, low),
            _ => {
                let mask = self.b.int(u64::from(u32::MAX));
                (high, self.b.binary(BinaryOp::And, low, mask))
            }
        }
    }

    /// A wide part of a two-sided key: addresses of IPv4 are mapped into IPv6, as rows read them.
    fn key_pair(&mut self, id: LayerId, part: &Expr) -> super::Pair {
        match part {
            Expr::Field(field) => self.field_pair(id, *field),
            _ => self.key_part(id, part),
        }
    }

    fn key_bits(&self, id: LayerId, part: &Expr) -> u32 {
        match part {
            Expr::Below(_) => 128,
            Expr::Field(f) => match &self.layer(id).protocol.fields[f.0 as usize].ty {
                FieldType::Ipv6 => 128,
                FieldType::Bytes(_) | FieldType::Text(_) => 64,
                other => super::header::static_field_bits(other).unwrap_or(64),
            },
            _ => 32,
        }
    }

    /// A value of up to 128 bits.
    pub(super) fn pair(&mut self, id: LayerId, expr: &Expr) -> super::Pair {
        match expr {
            Expr::Below(name) => {
                let (low, high) = self.below[name];
                (self.b.read(high), self.b.read(low))
            }
            Expr::Field(f) if self.vars(id).fields[f.0 as usize].1.is_some() => self.field_pair(id, *f),
            other => (self.b.int(0), self.int(id, other)),
        }
    }
}

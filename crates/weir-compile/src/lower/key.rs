//! Keys of instances: their layout, their words and their context.

use super::Lower;
use crate::types::value_type;
use crate::walk::walk_through_lets;
use weir_ir::graph::{BinaryOp, CompareOp, Meta, Op, Value};
use weir_ir::key::{KeyLayout, KeyPart, KeyRole, KeySide};
use weir_lang::model::{self, Expr, FieldId, FieldType, LayerId};
use weir_packet::ValueType;

/// Maximum size of a number that shares one word of a two-sided key with the other side's number.
const SMALL_BITS: u16 = 32;

/// The name of the context in the layouts of keys.
const CONTEXT: &str = "context";

/// The name of the tags, likewise.
const TAGS: &str = "tags";

/// The entry of the context among the values that layers hand up. Names of `below.` have no such character.
pub(super) const BELOW_CONTEXT: &str = "*context";

/// The name in `below` of the tags, likewise.
pub(super) const BELOW_TAGS: &str = "*tags";

/// Bits of context and tags.
const CONTEXT_BITS: u16 = 64;
const TAGS_BITS: u16 = 32;

/// An odd number: the context of several values depends on their order. Contexts of one value are different
/// if the values are; those of several values are hashes.
const CONTEXT_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that distinguishes equal values of different protocols (FNV-1a). The number depends on the name
/// alone, so that a flow has the same key in every stack.
fn number_of(protocol: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    protocol.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A part of an instance's key.
struct PlannedPart {
    /// Index among the parts in the instance's declaration.
    at: usize,
    /// Name in the layer; for two-sided keys, the name on the sender's side.
    name: String,
    bits: u16,
    role: KeyRole,
    /// Only used for one-sided keys.
    side: KeySide,
    /// Whether the part is the address of a side of a two-sided key. IPv4 addresses are mapped into IPv6
    /// there.
    is_end_of_two: bool,
}

impl Lower<'_> {
    /// The fields of the key of a layer's connections, with their layers: its own, and those of the nearest
    /// layer below.
    pub(super) fn find_key_fields(&self, id: LayerId) -> Vec<(LayerId, FieldId)> {
        let protocol = &self.layer(id).protocol;
        let Some(instance) = protocol.instance.as_ref().filter(|i| !i.destination.is_empty()) else {
            return vec![];
        };
        let (mut found, mut names) = (vec![], vec![]);
        for part in instance.source.iter().chain(&instance.destination) {
            walk_through_lets(protocol, part, &mut |e| match e {
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

    /// Index of the part that is the side's address: the first IP address, or else the first MAC address, or
    /// else the first number of more than 32 bits.
    fn address_of(&self, id: LayerId, parts: &[Expr]) -> Option<usize> {
        let find = |is_it: &dyn Fn(&Expr, ValueType) -> bool| {
            parts.iter().position(|part| is_it(part, value_type(self.stack, id, part)))
        };
        find(&|_, ty| matches!(ty, ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address))
            .or_else(|| find(&|_, ty| ty == ValueType::Mac))
            .or_else(|| find(&|part, ty| ty == ValueType::Unsigned && self.key_bits(id, part) > 32))
    }

    /// The parts of an instance's keys, in the order of their words: parts too large to share a word come
    /// first.
    fn plan_key(&self, id: LayerId, instance: &model::Instance) -> Vec<PlannedPart> {
        let two_sided = !instance.destination.is_empty();
        let parts: Vec<PlannedPart> = match two_sided {
            true => self.plan_side(id, instance),
            false => self.plan_one_sided(id, &instance.source),
        };
        let most = if two_sided { SMALL_BITS } else { 64 };
        let (mut wide, small): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.bits > most);
        wide.sort_by_key(|part| !part.is_end_of_two);
        wide.into_iter().chain(small).collect()
    }

    /// The parts of both sides of a two-sided key.
    fn plan_side(&self, id: LayerId, instance: &model::Instance) -> Vec<PlannedPart> {
        let address = self.address_of(id, &instance.source);
        let mut has_port = false;
        let both = instance.source.iter().zip(&instance.destination).enumerate();
        both.map(|(at, (part, other))| {
            let bits = self.key_bits(id, part).max(self.key_bits(id, other)) as u16;
            let is_end_of_two = address == Some(at);
            let (bits, role) = match value_type(self.stack, id, part) {
                ValueType::Mac if is_end_of_two => (48, KeyRole::Mac),
                ValueType::Unsigned if is_end_of_two => (bits, KeyRole::Number),
                _ if is_end_of_two => (128, KeyRole::Address),
                ValueType::Bytes | ValueType::Text => (bits.max(SMALL_BITS), KeyRole::Other),
                _ if bits > SMALL_BITS => (bits, KeyRole::Other),
                _ if std::mem::replace(&mut has_port, true) => (SMALL_BITS, KeyRole::Other),
                _ => (SMALL_BITS, KeyRole::Port),
            };
            PlannedPart {
                at,
                name: self.part_name(id, part),
                bits,
                role,
                side: KeySide::First,
                is_end_of_two,
            }
        })
        .collect()
    }

    /// The parts of a one-sided key. The first address is the sender's, the second one the receiver's.
    fn plan_one_sided(&self, id: LayerId, parts: &[Expr]) -> Vec<PlannedPart> {
        let mut sides = KeySide::BOTH.into_iter();
        let plan = |(at, part): (usize, &Expr)| {
            let role = match value_type(self.stack, id, part) {
                ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address => KeyRole::Address,
                ValueType::Mac => KeyRole::Mac,
                _ => KeyRole::Other,
            };
            let side = match role {
                KeyRole::Other => KeySide::Neither,
                _ => sides.next().unwrap_or(KeySide::Neither),
            };
            let (name, bits) = (self.part_name(id, part), self.key_bits(id, part) as u16);
            PlannedPart { at, name, bits, role, side, is_end_of_two: false }
        };
        parts.iter().enumerate().map(plan).collect()
    }

    /// The name of a part in its layer.
    fn part_name(&self, id: LayerId, part: &Expr) -> String {
        let protocol = &self.layer(id).protocol;
        match part {
            Expr::Field(field) => protocol.fields[usize::from(field.0)].path.clone(),
            Expr::Let(value) => protocol.lets[usize::from(value.0)].name.clone(),
            Expr::Below(name) => name.clone(),
            _ => "value".to_owned(),
        }
    }

    /// The layout of an instance's keys.
    pub(super) fn key_layout(&self, id: LayerId, instance: &model::Instance) -> KeyLayout {
        let two_sided = !instance.destination.is_empty();
        let sides: &[KeySide] = if two_sided { &KeySide::BOTH } else { &[KeySide::Neither] };
        let of_side = |part: &PlannedPart, side: KeySide| KeyPart {
            name: part.name.clone(),
            bits: part.bits,
            role: part.role,
            side: if two_sided { side } else { part.side },
        };
        let plan = self.plan_key(id, instance);
        let mut parts: Vec<KeyPart> =
            plan.iter().flat_map(|part| sides.iter().map(move |&side| of_side(part, side))).collect();
        if self.has_tags(id) {
            parts.push(KeyPart {
                name: TAGS.to_owned(),
                bits: TAGS_BITS,
                role: KeyRole::Tags,
                side: KeySide::Neither,
            });
        }
        if self.has_context(id) {
            parts.push(KeyPart {
                name: CONTEXT.to_owned(),
                bits: CONTEXT_BITS,
                role: KeyRole::Context,
                side: KeySide::Neither,
            });
        }
        KeyLayout::of(parts)
    }

    /// Whether a layer, or a layer that occurs below it, adds values to the context of its instances, or tags
    /// that distinguish them as well, because no packet with other tags joins them.
    fn has_context(&self, id: LayerId) -> bool {
        self.stack.by_interface
            || self.has_below(id, |protocol| !protocol.context.is_empty())
            || self.is_tagged(id) && !self.joins(id)
    }

    /// Whether the instances of a layer have tags, and packets with other tags may join them.
    pub(super) fn has_tags(&self, id: LayerId) -> bool {
        self.is_tagged(id) && self.joins(id)
    }

    fn is_tagged(&self, id: LayerId) -> bool {
        self.has_below(id, |protocol| !protocol.tags.is_empty())
    }

    fn joins(&self, id: LayerId) -> bool {
        self.layer(id).protocol.join.is_some()
    }

    fn has_below(&self, id: LayerId, adds: impl Fn(&model::Protocol) -> bool) -> bool {
        let mut layers = (0..self.stack.layers.len() as u16).map(LayerId);
        layers.any(|at| adds(&self.layer(at).protocol) && (at == id || self.reach.contains(at, id)))
    }

    /// Starts the context of a packet.
    pub(super) fn lower_first_context(&mut self) {
        if let (true, Some(&(context, _))) = (self.stack.by_interface, self.below.get(BELOW_CONTEXT)) {
            let interface = self.b.one(Op::Meta(Meta::Interface));
            let one = self.b.int(1);
            let first = self.b.binary(BinaryOp::Add, interface, one);
            self.b.write(context, first);
        }
    }

    /// Adds the values of a layer to the context and the tags of its instances and of those above it. A value
    /// of 0 changes nothing: a VLAN tag without a VLAN only has a priority.
    pub(super) fn lower_context(&mut self, id: LayerId) {
        let protocol = &self.layer(id).protocol;
        let of_context = protocol.context.iter().map(|&part| (part, BELOW_CONTEXT, u64::MAX));
        let of_tags = protocol.tags.iter().map(|&part| (part, BELOW_TAGS, u64::MAX >> TAGS_BITS));
        for (part, name, mask) in of_context.chain(of_tags) {
            let Some(&(context, _)) = self.below.get(name) else { continue };
            let (before, value) = (self.b.read(context), self.int(id, &part.expr()));
            let numbers = [CONTEXT_FACTOR, number_of(&protocol.declared), 0, mask];
            let [factor, own, zero, mask] = numbers.map(|number| self.b.int(number));
            let product = self.b.binary(BinaryOp::Mul, before, factor);
            let named = self.b.binary(BinaryOp::Add, value, own);
            let sum = self.b.binary(BinaryOp::Add, product, named);
            let sum = self.b.binary(BinaryOp::And, sum, mask);
            let is_none = self.b.compare(CompareOp::Eq, value, zero);
            let after = self.b.one(Op::Select(is_none, before, sum));
            self.b.write(context, after);
        }
    }

    /// Key words in the order of [`key_layout`](Self::key_layout), and whether the sender is the second side.
    pub(super) fn lower_key(&mut self, id: LayerId, instance: &model::Instance) -> (Vec<Value>, Value) {
        let (mut parts, swap) = self.lower_parts(id, instance);
        if self.has_tags(id) {
            let tags = self.b.read(self.below[BELOW_TAGS].0);
            parts.push((TAGS_BITS, vec![tags]));
        }
        if self.has_context(id) {
            let context = self.lower_whole_context(id);
            parts.push((CONTEXT_BITS, vec![context]));
        }
        (self.pack_words(parts), swap)
    }

    /// The context of a layer's instances, with the tags if nothing joins them. The context alone is 0 if no
    /// layer below adds to it; likewise the tags.
    fn lower_whole_context(&mut self, id: LayerId) -> Value {
        let read =
            |l: &mut Self, name| l.below.get(name).map(|&(variable, _)| variable).map(|one| l.b.read(one));
        let context = read(self, BELOW_CONTEXT);
        let tags = if self.is_tagged(id) && !self.joins(id) { read(self, BELOW_TAGS) } else { None };
        match (context, tags) {
            (Some(context), Some(tags)) => {
                let factor = self.b.int(CONTEXT_FACTOR);
                let product = self.b.binary(BinaryOp::Mul, context, factor);
                self.b.binary(BinaryOp::Add, product, tags)
            }
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.b.int(0),
        }
    }

    /// As [`lower_key`](Self::lower_key), but without context and tags.
    pub(super) fn lower_key_of_ends(
        &mut self,
        id: LayerId,
        instance: &model::Instance,
    ) -> (Vec<Value>, Value) {
        let (parts, swap) = self.lower_parts(id, instance);
        (self.pack_words(parts), swap)
    }

    /// The declared parts of a key, with their sizes in bits, and whether the sender is the second side.
    fn lower_parts(&mut self, id: LayerId, instance: &model::Instance) -> (Vec<(u16, Vec<Value>)>, Value) {
        let plan = self.plan_key(id, instance);
        if instance.destination.is_empty() {
            let parts: Vec<(u16, Vec<Value>)> = plan
                .iter()
                .map(|part| (part.bits, self.part_words(id, &instance.source[part.at], part)))
                .collect();
            return (parts, self.b.bool(false));
        }
        let [sender, receiver] = [&instance.source, &instance.destination].map(|parts| {
            let words = plan.iter().map(|part| self.part_words(id, &parts[part.at], part));
            words.collect::<Vec<Vec<Value>>>()
        });
        let swap = self.lower_swap(&sender.concat(), &receiver.concat());
        let mut parts = vec![];
        for (part, (of_sender, of_receiver)) in plan.iter().zip(sender.iter().zip(&receiver)) {
            for (stays, comes) in [(of_sender, of_receiver), (of_receiver, of_sender)] {
                let words = stays.iter().zip(comes);
                let words = words.map(|(&stays, &comes)| self.b.one(Op::Select(swap, comes, stays)));
                parts.push((part.bits, words.collect()));
            }
        }
        (parts, swap)
    }

    /// Whether the sender's words are greater than the receiver's. Both begin with the most significant word.
    fn lower_swap(&mut self, sender: &[Value], receiver: &[Value]) -> Value {
        let mut swap = None;
        for (&a, &b) in sender.iter().zip(receiver).rev() {
            let greater = self.b.compare(CompareOp::Lt, b, a);
            swap = Some(match swap {
                None => greater,
                Some(swap) => {
                    let equal = self.b.compare(CompareOp::Eq, a, b);
                    let tie = self.b.binary(BinaryOp::And, equal, swap);
                    self.b.binary(BinaryOp::Or, greater, tie)
                }
            });
        }
        swap.unwrap_or_else(|| self.b.bool(false))
    }

    /// Packs parts (size in bits, and words) into the words of a key, as defined by [`weir_ir::key`].
    fn pack_words(&mut self, parts: Vec<(u16, Vec<Value>)>) -> Vec<Value> {
        let (mut words, mut used) = (vec![], 64);
        for (bits, part) in parts {
            match (words.last_mut(), &part[..]) {
                (Some(word), &[low]) if used + bits <= 64 => {
                    let shift = self.b.int(u64::from(bits));
                    let shifted = self.b.binary(BinaryOp::Shl, *word, shift);
                    *word = self.b.binary(BinaryOp::Or, shifted, low);
                    used += bits;
                }
                _ => {
                    used = if part.len() > 1 { 64 } else { bits };
                    words.extend(part);
                }
            }
        }
        words
    }

    /// The words of a part, the most significant first.
    fn part_words(&mut self, id: LayerId, part: &Expr, planned: &PlannedPart) -> Vec<Value> {
        if let Expr::Field(field) = part
            && let FieldType::Bytes(_) | FieldType::Text(_) =
                self.layer(id).protocol.fields[usize::from(field.0)].ty
        {
            return self.byte_words(id, *field, u64::from(planned.bits) / 8);
        }
        let (high, low) = match planned.is_end_of_two {
            true => self.key_pair(id, part),
            false => self.key_part(id, part),
        };
        if planned.bits > 64 { vec![high, low] } else { vec![low] }
    }

    /// The first `bytes` bytes of a field as a big-endian number. Bytes missing in the packet count as 0.
    fn byte_words(&mut self, id: LayerId, field: FieldId, bytes: u64) -> Vec<Value> {
        let (at, length) = self.vars(id).field_at[usize::from(field.0)];
        let [buf, at, length] = [self.buf, at, length].map(|variable| self.b.read(variable));
        let mut words = vec![];
        let mut done = 0;
        while done < bytes {
            // The first word takes the remainder that does not fill a whole word.
            let count = match bytes % 8 {
                rest @ 1.. if done == 0 => rest,
                _ => 8,
            };
            let [before, count_value] = [done, count].map(|number| self.b.int(number));
            let offset = self.b.binary(BinaryOp::Add, at, before);
            let left = self.b.binary(BinaryOp::SubSat, length, before);
            let length = self.b.binary(BinaryOp::Min, left, count_value);
            let word = self.b.one(Op::Excerpt { buf, offset, length });
            let shift = self.b.int(64 - 8 * count);
            words.push(self.b.binary(BinaryOp::Shr, word, shift));
            done += count;
        }
        words
    }

    /// A part of a key. A computed number is truncated to its bits in the key, so that it cannot overlap
    /// other parts.
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

    /// A wide part of a two-sided key: IPv4 addresses are mapped into IPv6, as rows expect.
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
                FieldType::Bytes(Expr::Number(bytes)) | FieldType::Text(Expr::Number(bytes)) => {
                    8 * *bytes as u32
                }
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

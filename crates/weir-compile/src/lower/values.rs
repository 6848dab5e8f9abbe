//! The values of packets that aggregates use: fields, and the parts of the packet's tuple, in the packet's
//! record.
//!
//! If a packet has several headers of a layer, the values are those of the innermost one; headers that an
//! error message quotes do not count. The tuple is the key of the innermost layer with connections; parts of
//! a connection, such as the data of SCTP, have the tuple of the connection.

use super::Lower;
use crate::catalog::FieldKey;
use crate::question::{TuplePart, ValueOf};
use weir_ir::build::Variable;
use weir_ir::graph::{BinaryOp, Op, Out, Type};
use weir_lang::model::{Expr, LayerId};

/// A value in the packet's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketValue {
    /// What the value is of.
    pub of: ValueOf,
    /// The slot of the low word; that of the high word follows. Addresses of IPv4 are mapped into IPv6 (RFC
    /// 4291, 2.5.5.2).
    pub slot: u16,
    /// The slot whose bit `bit` says whether the packet has the value.
    pub known: u16,
    /// See `known`.
    pub bit: u8,
}

/// Maximum number of values of a program.
pub const VALUES_MAX: usize = 48;

/// A value, and the variables that hold it while the packet is parsed.
#[derive(Debug, Clone)]
pub(super) struct Held {
    value: PacketValue,
    words: [Variable; 2],
}

/// Where a layer has a value.
enum InLayer {
    Expr(Expr),
    /// The number of the layer.
    Number,
    /// The offsets of header and payload.
    HeaderAt,
    PayloadAt,
}

/// The values of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    held: Vec<Held>,
    known: Option<Variable>,
}

impl Lower<'_> {
    /// Whether a question uses a value of this layer.
    pub(super) fn wants_values_of(&self, id: LayerId) -> bool {
        self.wanted_values().any(|of| match of {
            ValueOf::Field(field) => self.catalog.key(usize::from(field)).layer() == Some(id),
            ValueOf::Tuple(_) => self.has_connections(id),
        })
    }

    fn wanted_values(&self) -> impl Iterator<Item = ValueOf> {
        self.questions.iter().flat_map(|question| question.need.values.iter())
    }

    /// Declares the slots.
    pub(super) fn declare_values(&mut self) {
        let mut wanted: Vec<ValueOf> = vec![];
        for of in self.wanted_values() {
            if !wanted.contains(&of) && wanted.len() < VALUES_MAX {
                wanted.push(of);
            }
        }
        if wanted.is_empty() {
            return;
        }
        let known = self.b.graph.outs.len() as u16;
        self.b.graph.outs.push("values.known".to_string().into());
        for (bit, of) in wanted.into_iter().enumerate() {
            let slot = self.b.graph.outs.len() as u16;
            let name = of.name(self.catalog);
            self.b.graph.outs.extend(["low", "high"].map(|word| format!("values.{name}.{word}").into()));
            let value = PacketValue { of, slot, known, bit: bit as u8 };
            let words = [(); 2].map(|()| self.b.variable(Type::Int));
            self.values.held.push(Held { value, words });
        }
        self.values.known = Some(self.b.variable(Type::Int));
    }

    /// Before the first layer: only the values of the packet's metadata are known.
    pub(super) fn lower_no_values(&mut self) {
        let Values { held, known: Some(known) } = self.values.clone() else { return };
        let zero = self.b.int(0);
        let mut bits = 0;
        for Held { value, words: [low, high] } in held {
            let meta = match value.of {
                ValueOf::Field(field) => match self.catalog.key(usize::from(field)) {
                    FieldKey::Meta(meta) => Some(self.b.one(Op::Meta(meta))),
                    _ => None,
                },
                ValueOf::Tuple(_) => None,
            };
            bits |= u64::from(meta.is_some()) << value.bit;
            self.b.write(low, meta.unwrap_or(zero));
            self.b.write(high, zero);
        }
        let bits = self.b.int(bits);
        self.b.write(known, bits);
    }

    /// After a layer is parsed.
    pub(super) fn lower_values(&mut self, id: LayerId) {
        let Values { held, known: Some(known) } = self.values.clone() else { return };
        let of_layer = |held: &Held| Some((self.value_in(id, held.value.of)?, held.clone()));
        let own: Vec<(InLayer, Held)> = held.iter().filter_map(of_layer).collect();
        if own.is_empty() {
            return;
        }
        let quoted = self.b.read(self.quoted);
        self.lower_either(
            quoted,
            |_| {},
            |lower| {
                for (of, Held { value, words: [low, high] }) in own {
                    let (words, here) = match &of {
                        InLayer::Expr(expr) => (lower.pair(id, expr), lower.is_known(id, expr)),
                        InLayer::Number | InLayer::HeaderAt | InLayer::PayloadAt => {
                            let vars = lower.vars(id);
                            let number = match of {
                                InLayer::HeaderAt => lower.b.read(vars.start.expect("declared")),
                                InLayer::PayloadAt => lower.b.read(vars.payload_at.expect("declared")),
                                _ => lower.b.int(u64::from(id.0)),
                            };
                            ((lower.b.int(0), number), lower.b.bool(true))
                        }
                    };
                    lower.b.write(high, words.0);
                    lower.b.write(low, words.1);
                    let (before, bit) = (lower.b.read(known), lower.b.int(1 << value.bit));
                    let with = lower.b.binary(BinaryOp::Or, before, bit);
                    let others = lower.b.int(!(1 << value.bit));
                    let without = lower.b.binary(BinaryOp::And, before, others);
                    let now = lower.b.one(Op::Select(here, with, without));
                    lower.b.write(known, now);
                }
            },
        );
    }

    /// Where a layer has a value. `None`: the layer has no such value.
    fn value_in(&self, id: LayerId, of: ValueOf) -> Option<InLayer> {
        let instance = self.layer(id).protocol.instance.as_ref().filter(|_| self.has_connections(id));
        match of {
            ValueOf::Field(field) => match self.catalog.key(usize::from(field)) {
                FieldKey::Field(layer, field) if layer == id => Some(InLayer::Expr(Expr::Field(field))),
                FieldKey::Let(layer, value) if layer == id => Some(InLayer::Expr(Expr::Let(value))),
                _ => None,
            },
            ValueOf::Tuple(part) => {
                let instance = instance?;
                let (parts, at) = match part {
                    TuplePart::Source => (&instance.source, 0),
                    TuplePart::Destination => (&instance.destination, 0),
                    TuplePart::SourcePort => (&instance.source, 1),
                    TuplePart::DestinationPort => (&instance.destination, 1),
                    TuplePart::Layer => return Some(InLayer::Number),
                    TuplePart::HeaderAt => return Some(InLayer::HeaderAt),
                    TuplePart::PayloadAt => return Some(InLayer::PayloadAt),
                    TuplePart::PayloadLength => return Some(InLayer::Expr(Expr::PayloadLength)),
                };
                parts.get(at).cloned().map(InLayer::Expr)
            }
        }
    }

    /// At the packet's end: stores the values.
    pub(super) fn store_values(&mut self) {
        let Values { held, known: Some(known) } = self.values.clone() else { return };
        for Held { value, words } in held {
            for (slot, word) in (u32::from(value.slot)..).zip(words) {
                let word = self.b.read(word);
                self.b.push(Op::Store { out: Out(slot), value: word });
            }
        }
        let known_now = self.b.read(known);
        if let Some(first) = self.values.held.first() {
            self.b.push(Op::Store { out: Out(u32::from(first.value.known)), value: known_now });
        }
    }

    /// The places of the values, for the lowered program.
    pub(super) fn packet_values(&self) -> Vec<PacketValue> {
        self.values.held.iter().map(|held| held.value).collect()
    }
}

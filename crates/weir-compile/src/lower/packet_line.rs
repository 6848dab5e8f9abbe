//! The packet's record: the order of its layers, and the values that `show` prints of each.

use super::Lower;
use super::dispatch::{DISPATCH_SLOTS, HEADER_SLOTS};
use super::expr::has_unit;
use super::header::conditional_fields;
use crate::types::value_type;
use crate::walk::walk_through_lets;
use weir_ir::graph::{BinaryOp, Op, Out, Value};
use weir_lang::model::{Expr, FieldId, LayerId, Protocol, ShowPart};
use weir_packet::ValueType;

/// Bits per layer number (from 1) in the path of a packet's layers; the last layer is in the lowest bits, 0
/// ends the path. Paths of more than [`PATH_LAYERS_MAX`] layers keep the innermost ones.
pub const PATH_BITS: u64 = 8;

/// Number of words of the path: the first slots of the packet's record, the lowest word first.
pub const PATH_WORDS: usize = 4;

/// Maximum number of layers in a path.
pub const PATH_LAYERS_MAX: usize = 64 / PATH_BITS as usize * PATH_WORDS;

/// Slots for bytes and text: one for the number of bytes, the others for the first bytes, eight per slot.
pub const EXCERPT_SLOTS: u16 = 5;

/// Maximum number of slots of a packet's record for its path and the `show` values of its layers.
pub const SHOW_SLOTS_MAX: usize = 256;

/// The contents of a slot of the packet's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutValue {
    /// The layer.
    pub layer: LayerId,
    /// Index of the part in the protocol's `show`.
    pub part: u16,
    /// The first slot.
    pub slot: u16,
    /// Number of slots: 1 for the low word; 2 if the high word follows; for bytes and text [`EXCERPT_SLOTS`]:
    /// the number of bytes, and as many bytes as fit.
    pub slots: u16,
    /// The slot in which bit `part` says that the value is present; `None` if it always is.
    pub known: Option<u16>,
}

impl Lower<'_> {
    pub(super) fn declare_outs(&mut self) {
        match self.need.dispatch {
            true => {
                self.b.graph.outs.extend(DISPATCH_SLOTS.map(|name| format!("dispatch.{name}").into()));
                let headers = HEADER_SLOTS.iter().filter(|_| self.need.headers);
                self.b.graph.outs.extend(headers.map(|name| format!("headers.{name}").into()));
            }
            false => self.b.graph.outs.extend((0..PATH_WORDS).map(|word| format!("path.{word}").into())),
        }
        let first_words = self.b.graph.outs.len() + 1;
        self.declare_outer_terms();
        self.declare_tunnel();
        self.declare_further_terms();
        let room = SHOW_SLOTS_MAX + self.b.graph.outs.len().saturating_sub(first_words);
        self.declare_fragment_terms();
        self.declare_values();
        if !self.need.lines {
            return;
        }
        for (index, layer) in self.stack.layers.iter().enumerate() {
            let lacking = self.lacking_parts(&layer.protocol);
            let known = lacking.first().map(|_| {
                self.b.graph.outs.push(format!("{}.known", layer.protocol.name).into());
                (self.b.graph.outs.len() - 1) as u16
            });
            for (part, shown) in layer.protocol.show.iter().enumerate() {
                let slots = match shown {
                    ShowPart::Text(_) => continue,
                    ShowPart::Flags(_) => 1,
                    ShowPart::Value(e) => self.slots_of(LayerId(index as u16), e),
                };
                let slot = self.b.graph.outs.len();
                if slot + usize::from(slots) > room {
                    self.parts_left_out += 1;
                    continue;
                }
                self.b.graph.outs.push(format!("{}.{part}", layer.protocol.name).into());
                let more = if slots == 2 {
                    vec!["high".into()]
                } else {
                    (1..slots).map(|n| n.to_string()).collect()
                };
                self.b
                    .graph
                    .outs
                    .extend(more.iter().map(|more| format!("{}.{part}.{more}", layer.protocol.name).into()));
                let (layer, part) = (LayerId(index as u16), part as u16);
                let known = known.filter(|_| lacking.contains(&part));
                self.outs.push(OutValue { layer, part, slot: slot as u16, slots, known });
            }
        }
    }

    fn slots_of(&self, layer: LayerId, shown: &Expr) -> u16 {
        match value_type(self.stack, layer, shown) {
            ValueType::Ipv6 | ValueType::Address => 2,
            ValueType::Bytes | ValueType::Text => EXCERPT_SLOTS,
            _ => 1,
        }
    }

    /// The parts of a protocol's `show` whose value packets may lack.
    fn lacking_parts(&self, protocol: &Protocol) -> Vec<u16> {
        let lacks = |shown: &ShowPart| matches!(shown, ShowPart::Value(value) if may_lack(protocol, value));
        // One word has 64 bits: the presence of later parts is not recorded, and missing ones are shown as 0.
        let parts = protocol.show.iter().take(64).enumerate().filter(|(_, shown)| lacks(shown));
        parts.map(|(part, _)| part as u16).collect()
    }

    pub(super) fn lower_show(&mut self, id: LayerId) {
        let mut known: Option<(u16, Value)> = None;
        for out in self.outs.clone().into_iter().filter(|o| o.layer == id) {
            if let (Some(slot), ShowPart::Value(e)) =
                (out.known, &self.layer(id).protocol.show[out.part as usize])
            {
                let (here, part) = (self.is_known(id, e), self.b.int(u64::from(out.part)));
                let here = self.b.one(Op::FromBool(here));
                let here = self.b.binary(BinaryOp::Shl, here, part);
                let all = match known {
                    Some((_, others)) => self.b.binary(BinaryOp::Or, others, here),
                    None => here,
                };
                known = Some((slot, all));
            }
            let value = match &self.layer(id).protocol.show[out.part as usize] {
                ShowPart::Text(_) => continue,
                ShowPart::Value(Expr::Field(field)) if out.slots == EXCERPT_SLOTS => {
                    self.lower_excerpt(id, *field, out.slot)
                }
                ShowPart::Value(e) => {
                    let (high, low) = self.pair(id, e);
                    if out.slots == 2 {
                        self.b.push(Op::Store { out: Out(u32::from(out.slot) + 1), value: high });
                    }
                    low
                }
                ShowPart::Flags(fields) => {
                    let mut word = self.b.int(0);
                    for (bit, field) in fields.iter().enumerate() {
                        let value = self.int(id, &Expr::Field(*field));
                        let shift = self.b.int(bit as u64);
                        let value = self.b.binary(BinaryOp::Shl, value, shift);
                        word = self.b.binary(BinaryOp::Or, word, value);
                    }
                    word
                }
            };
            self.b.push(Op::Store { out: Out(u32::from(out.slot)), value });
        }
        if let Some((slot, value)) = known {
            self.b.push(Op::Store { out: Out(u32::from(slot)), value });
        }
    }

    /// Stores the first bytes of a field after slot `slot`. Returns the number of bytes of the field.
    fn lower_excerpt(&mut self, id: LayerId, field: FieldId, slot: u16) -> Value {
        let (at, length) = self.vars(id).field_at[usize::from(field.0)];
        let (buf, at, length) = (self.b.read(self.buf), self.b.read(at), self.b.read(length));
        for n in 1..EXCERPT_SLOTS {
            let before = self.b.int(8 * u64::from(n - 1));
            let offset = self.b.binary(BinaryOp::Add, at, before);
            let left = self.b.binary(BinaryOp::SubSat, length, before);
            let value = self.b.one(Op::Excerpt { buf, offset, length: left });
            self.b.push(Op::Store { out: Out(u32::from(slot + n)), value });
        }
        length
    }
}

/// Whether packets may lack header fields that `expr` reads.
pub(super) fn may_lack(protocol: &Protocol, expr: &Expr) -> bool {
    let conditional = conditional_fields(&protocol.header);
    let (mut lacks, mut is_later) = (false, false);
    walk_through_lets(protocol, expr, &mut |e| match e {
        Expr::Field(field) => lacks |= conditional.contains(field),
        Expr::Var(var, _) => lacks |= has_unit(protocol, *var),
        Expr::Ordered(_) => is_later = true,
        _ => {}
    });
    lacks && !is_later
}

//! Chunked messages: messages carried by chunks, each with a part of one message or all of it, next to other
//! layers in the same packet (`sequence … of data … wholes first .. last`).
//!
//! The flags of a chunk, and the values that messages read of it (`below.`), are stored with its bytes until
//! they are in order, and then with the message that the chunk begins. After the messages that a chunk
//! completes, parsing of the packet continues after the chunk:
//!
//! ```text
//! chunk ─► its messages ─► through ─► what follows in the packet ─► chunk ─► its messages ─► …
//! ```

use super::messages::{MESSAGES_MAX, MessageVars};
use super::{Lower, below_names};
use weir_ir::abi::{WHOLE_BEGINS, WHOLE_EDGE, WHOLE_ENDS};
use weir_ir::build::{Variable, to};
use weir_ir::graph::{BinaryOp, Block, CompareOp, Op, Terminator, Type, Value};
use weir_lang::model::{FieldId, LayerId};

/// The state of the layer that carries the current messages.
#[derive(Debug, Clone)]
pub(super) struct CarrierVars {
    /// Number of the layer plus one.
    layer: Variable,
    /// The state for continuing after the layer: each variable, and its saved value.
    kept: Vec<(Variable, Variable)>,
    /// The block to continue at, by layer.
    behind: Vec<(LayerId, Block)>,
}

impl Lower<'_> {
    /// The layers whose messages are wanted.
    fn carriers(&self) -> impl Iterator<Item = LayerId> {
        let layers = (0..self.stack.layers.len() as u16).map(LayerId);
        layers.filter(|&id| self.are_messages_wanted(id))
    }

    /// Whether its messages are not its payload, so that the payload is parsed as well.
    fn is_beside(&self, id: LayerId) -> bool {
        self.layer(id).protocol.sequence.as_ref().is_some_and(|sequence| sequence.of.is_some())
    }

    /// Whether, for some messages, parsing of the packet continues after them.
    pub(super) fn is_any_beside(&self) -> bool {
        self.carriers().any(|id| self.is_beside(id))
    }

    /// The values that messages of a layer read of their chunks; `None` if they are not chunked messages.
    pub(super) fn whole_values(&self, id: LayerId) -> Option<Vec<String>> {
        let protocol = &self.layer(id).protocol;
        let is_whole = protocol.sequence.as_ref().is_some_and(|sequence| sequence.wholes.is_some());
        if !is_whole || !self.are_messages_wanted(id) {
            return None;
        }
        let messages = self.message_edges(id).into_iter().map(|(_, to)| to);
        let layers = messages.flat_map(|to| self.reach.above(to).chain([to]));
        let mut names = below_names(self.stack, layers.map(|layer| self.layer(layer)));
        names.retain(|name| {
            protocol.fields.iter().any(|field| field.is_called(name))
                || protocol.lets.iter().any(|value| value.name == *name)
        });
        Some(names)
    }

    pub(super) fn whole_variables(&mut self, id: LayerId) -> Vec<Variable> {
        let count = self.whole_values(id).map_or(0, |values| values.len() + 1);
        (0..count).map(|_| self.b.variable(Type::Int)).collect()
    }

    /// The flags of the current chunk, and the values of its chunked message.
    pub(super) fn lower_whole(&mut self, id: LayerId) -> Vec<Value> {
        let Some(names) = self.whole_values(id) else { return vec![] };
        let protocol = &self.layer(id).protocol;
        let wholes = protocol.sequence.as_ref().and_then(|sequence| sequence.wholes.as_ref());
        let (first, last) = wholes.expect("it has values");
        let none = self.b.int(0);
        let mut kind = self.lower_choice(id, none);
        for (condition, bit) in [(first, WHOLE_BEGINS), (last, WHOLE_ENDS)] {
            let holds = self.truth(id, condition);
            let bit = self.b.int(bit);
            let bit = self.b.one(Op::Select(holds, bit, none));
            kind = self.b.binary(BinaryOp::Or, kind, bit);
        }
        let mut values = vec![kind];
        for name in names {
            let field = protocol.fields.iter().position(|field| field.is_called(&name));
            values.push(match field {
                Some(field) => self.field_pair(id, FieldId(field as u16)).1,
                None => {
                    let value = protocol.lets.iter().position(|value| value.name == name);
                    self.let_value(id, value.expect("one of both is called so"))
                }
            });
        }
        values
    }

    pub(super) fn declare_carrier(&mut self) -> CarrierVars {
        let layer = self.b.variable(Type::Int);
        let now = [(self.buf, Type::Buf), (self.end, Type::Int), (self.quoted, Type::Bool)];
        let kept = now.map(|(now, ty)| (now, self.b.variable(ty)));
        CarrierVars { layer, kept: kept.into(), behind: vec![] }
    }

    /// Sets this layer as the carrier of the current messages.
    pub(super) fn lower_carrier(&mut self, id: LayerId, carrier: &CarrierVars) {
        let layer = self.b.int(u64::from(id.0) + 1);
        self.b.write(carrier.layer, layer);
        if self.is_beside(id) {
            self.copy(carrier.kept.iter().copied());
        }
    }

    /// Declares that parsing continues at `others`: if the layer's messages are not its payload, also after
    /// the messages.
    pub(super) fn lower_behind(&mut self, id: LayerId, others: Block) {
        match self.is_beside(id) {
            true => self.messages.iter_mut().for_each(|vars| vars.carrier.behind.push((id, others))),
            false => self.b.seal(others),
        }
    }

    /// After the messages: if they are not the carrier's payload, continues with its payload, as if there had
    /// been none.
    pub(super) fn lower_back(&mut self, vars: &MessageVars) {
        let carrier = &vars.carrier;
        if carrier.behind.is_empty() {
            return;
        }
        let blocks: Vec<Block> = carrier.behind.iter().map(|_| self.b.block()).collect();
        let (back, rest) = (self.b.block(), self.b.block());
        // Each layer continues after its own messages, but all pass through this block, so the graph has a
        // cycle and needs a bound. No packet reaches it: each of 62 layers occurs at most 64 times.
        self.b.again(MESSAGES_MAX, back, rest);
        self.b.seal(back);
        self.b.switch_to(back);
        let layer = self.b.read(carrier.layer);
        let layers = carrier.behind.iter().map(|(id, _)| u64::from(id.0) + 1);
        let cases = layers.zip(&blocks).map(|(layer, &block)| (layer, to(block))).collect();
        self.b.end(Terminator::Switch { value: layer, cases, otherwise: to(rest) });
        for (&(_, behind), block) in carrier.behind.iter().zip(blocks) {
            self.b.seal(block);
            self.b.switch_to(block);
            let no = self.b.bool(false);
            self.b.write(vars.active, no);
            self.copy(carrier.kept.iter().map(|&(now, kept)| (kept, now)));
            self.copy(vars.below().map(|(now, saved)| (saved, now)));
            self.copy(vars.asked.iter().map(|&[now, below, _]| (below, now)));
            self.b.jump(behind);
            self.b.seal(behind);
        }
        self.b.seal(rest);
        self.b.switch_to(rest);
    }

    /// Whether the current run is a chunked message; `None` if no layer has any.
    fn is_whole(&mut self, carrier: &CarrierVars) -> Option<Value> {
        let wholes: Vec<LayerId> = self.carriers().filter(|&id| self.whole_values(id).is_some()).collect();
        wholes.into_iter().fold(None, |others, id| {
            let here = self.is_carrier(carrier, id);
            Some(others.map_or(here, |others| self.b.binary(BinaryOp::Or, others, here)))
        })
    }

    fn is_carrier(&mut self, carrier: &CarrierVars, id: LayerId) -> Value {
        let (layer, number) = (self.b.read(carrier.layer), self.b.int(u64::from(id.0) + 1));
        self.b.compare(CompareOp::Eq, layer, number)
    }

    /// The enclosing end and the edge of the current message if it is a chunked message, and the values that
    /// its first chunk carried.
    pub(super) fn lower_whole_at_hand(&mut self, vars: &MessageVars, [end, edge]: [Value; 2]) -> [Value; 2] {
        let Some(is_whole) = self.is_whole(&vars.carrier) else { return [end, edge] };
        let run = self.b.read(vars.run);
        let length = self.b.one(Op::Length(run));
        let (kind, edges) = (self.b.one(Op::WholeValue { number: 0 }), self.b.int(WHOLE_EDGE));
        let own = self.b.binary(BinaryOp::And, kind, edges);
        let known = [(length, end), (own, edge)];
        let known = known.map(|(whole, other)| self.b.one(Op::Select(is_whole, whole, other)));
        let carriers: Vec<LayerId> = self.carriers().collect();
        for id in carriers {
            for (number, name) in (1..).zip(self.whole_values(id).unwrap_or_default()) {
                let here = self.is_carrier(&vars.carrier, id);
                let (low, high) = self.below[&name];
                let (value, zero) = (self.b.one(Op::WholeValue { number }), self.b.int(0));
                for (variable, own) in [(low, value), (high, zero)] {
                    let other = self.b.read(variable);
                    let value = self.b.one(Op::Select(here, own, other));
                    self.b.write(variable, value);
                }
            }
        }
        known
    }

    /// Resets the state at the start of a packet: no message has been parsed.
    pub(super) fn lower_none_beside(&mut self) {
        let Some(vars) = self.messages.clone().filter(|_| self.is_any_beside()) else { return };
        let (zero, no) = (self.b.int(0), self.b.bool(false));
        self.b.write(vars.reason, zero);
        vars.asked.iter().for_each(|&[_, _, any]| self.b.write(any, no));
    }
}

//! Lowers a layer's header: one check per stretch of bytes of constant size, loads, constraints, conditional
//! parts, runs; then payload and derived values.

use super::detail::NoteOf;
use super::{LayerVars, Lower, Pair};
use crate::catalog::FieldKey;
use weir_ir::build::{Variable, to};
use weir_ir::graph::{BinaryOp, Block, CompareOp, NumberFormat, Op, Terminator, Type, Value, Width};
use weir_ir::range::BUFFER_BYTES_MAX;
use weir_lang::model::{self, FieldId, FieldType, HeaderItem, Layer, LayerId, Run};
use weir_packet::DropReason;

/// Maximum number of parsed items of a run.
pub const RUN_ITEMS_MAX: u32 = 64;

/// The read position (a base value, bytes after it, bits after those), and the checked size.
#[derive(Clone, Copy)]
struct Cursor {
    base: Value,
    bits: u32,
    /// Number of bytes from the base that are proven present.
    checked: u32,
    /// Where to continue if bytes are missing or a constraint fails.
    fail: Fail,
    /// Number of items of runs around the position.
    depth: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Fail {
    /// The packet ends: truncated or malformed.
    Packet,
    /// The message waits for more bytes, or is invalid.
    Message,
    /// The run ends.
    Run(Block),
}

impl Lower<'_> {
    pub(super) fn declare_layer(&mut self, layer: &Layer) -> LayerVars {
        let mut vars = LayerVars::default();
        let protocol = &layer.protocol;
        for field in &protocol.fields {
            let low = self.b.variable(Type::Int);
            let high = matches!(field.ty, FieldType::Ipv6).then(|| self.b.variable(Type::Int));
            vars.fields.push((low, high));
            vars.field_at.push((self.b.variable(Type::Int), self.b.variable(Type::Int)));
        }
        vars.field_present = vec![None; protocol.fields.len()];
        for id in conditional_fields(&protocol.header) {
            vars.field_present[id.0 as usize] = Some(self.b.variable(Type::Bool));
        }
        vars.lets = protocol.lets.iter().map(|_| Some(self.b.variable(Type::Int))).collect();
        vars.lets_known = protocol.lets.iter().map(|_| self.b.variable(Type::Bool)).collect();
        vars.presences = protocol.presences.iter().map(|_| self.b.variable(Type::Bool)).collect();
        for slot in [
            &mut vars.start,
            &mut vars.header_bytes,
            &mut vars.payload_at,
            &mut vars.payload_bytes,
            &mut vars.rest_bytes,
            &mut vars.layer_bytes,
        ] {
            *slot = Some(self.b.variable(Type::Int));
        }
        vars
    }

    /// Lowers the header of layer `id` at `offset`.
    pub(super) fn lower_header(&mut self, id: LayerId) {
        let layer = self.layer(id);
        let vars = self.vars(id);
        let start = self.b.read(self.offset);
        self.b.write(vars.start.expect("declared"), start);
        self.reset(&vars);
        let end = self.b.read(self.end);
        let all = self.b.binary(BinaryOp::SubSat, end, start);
        self.b.write(vars.layer_bytes.expect("declared"), all);
        let fail = if self.is_message(id) { Fail::Message } else { Fail::Packet };
        let mut cursor = Cursor { base: start, bits: 0, checked: 0, fail, depth: 0 };
        self.note(NoteOf::Layer(id), [start]);
        self.lower_items(id, &layer.protocol.header, &mut cursor);
        let end = self.cursor_value(&cursor);
        if fail == Fail::Message {
            self.lower_there(end);
        }
        let bytes = self.b.binary(BinaryOp::SubSat, end, start);
        self.b.write(vars.header_bytes.expect("declared"), bytes);
        self.b.write(vars.payload_at.expect("declared"), end);
    }

    /// Clears the fields, because the layer may have occurred earlier in the packet.
    fn reset(&mut self, vars: &LayerVars) {
        let (zero, no) = (self.b.int(0), self.b.bool(false));
        for (index, present) in vars.field_present.iter().enumerate() {
            let Some(present) = present else { continue };
            self.b.write(*present, no);
            let (low, high) = vars.fields[index];
            self.b.write(low, zero);
            if let Some(high) = high {
                self.b.write(high, zero);
            }
            self.b.write(vars.field_at[index].0, zero);
            self.b.write(vars.field_at[index].1, zero);
        }
        for &presence in &vars.presences {
            self.b.write(presence, no);
        }
    }

    fn cursor_value(&mut self, cursor: &Cursor) -> Value {
        self.add(cursor.base, cursor.bits / 8)
    }

    /// Adds a length from the packet to an offset. A length so large that the sum would wrap, and lead back
    /// into the layers below, is limited to an offset beyond every buffer.
    fn beyond(&mut self, at: Value, bytes: Value) -> Value {
        let most = self.b.int(BUFFER_BYTES_MAX + 1);
        let bytes = self.b.binary(BinaryOp::Min, bytes, most);
        self.b.binary(BinaryOp::Add, at, bytes)
    }

    fn add(&mut self, value: Value, bytes: u32) -> Value {
        if bytes == 0 {
            return value;
        }
        let bytes = self.b.int(u64::from(bytes));
        self.b.binary(BinaryOp::Add, value, bytes)
    }

    fn lower_items(&mut self, id: LayerId, items: &[HeaderItem], cursor: &mut Cursor) {
        for (index, item) in items.iter().enumerate() {
            match item {
                HeaderItem::Field(field) | HeaderItem::Whole(field) => {
                    if cursor.bits >= cursor.checked * 8 {
                        let bits = self.static_bits(id, &items[index..]);
                        self.check_bits(cursor, bits);
                    }
                    let advance = matches!(item, HeaderItem::Field(_));
                    self.lower_field(id, *field, cursor, advance);
                }
                HeaderItem::Skip { bits } => {
                    if cursor.bits >= cursor.checked * 8 {
                        let bits = self.static_bits(id, &items[index..]);
                        self.check_bits(cursor, bits);
                    }
                    cursor.bits += bits;
                }
                HeaderItem::Peek(field) => self.lower_peek(id, *field, cursor),
                HeaderItem::If { condition, then, otherwise } => {
                    self.lower_if(id, condition, then, otherwise, cursor);
                }
                HeaderItem::Run(run) => self.lower_run(id, run, cursor),
            }
        }
    }

    /// Number of bits up to the next item whose position or presence is not constant.
    fn static_bits(&self, id: LayerId, items: &[HeaderItem]) -> u32 {
        let mut bits = 0;
        for item in items {
            match item {
                HeaderItem::Skip { bits: b } => bits += b,
                HeaderItem::Field(f) => match static_field_bits(&self.field(id, *f).ty) {
                    Some(b) => bits += b,
                    None => break,
                },
                HeaderItem::Peek(_) | HeaderItem::Whole(_) => {}
                HeaderItem::If { .. } | HeaderItem::Run(_) => break,
            }
        }
        bits
    }

    fn field(&self, id: LayerId, field: FieldId) -> &model::Field {
        &self.stack.layers[id.0 as usize].protocol.fields[field.0 as usize]
    }

    /// Ensures that `bits` more bits are present.
    fn check_bits(&mut self, cursor: &mut Cursor, bits: u32) {
        let bytes = (cursor.bits + bits).div_ceil(8);
        if bytes <= cursor.checked {
            return;
        }
        let buf = self.b.read(self.buf);
        let (next, short) = (self.b.block(), self.b.block());
        self.b.check(buf, cursor.base, bytes, next, short);
        self.b.seal(next);
        self.b.seal(short);
        self.b.switch_to(short);
        match cursor.fail {
            Fail::Run(exit) => self.b.jump(exit),
            Fail::Message => {
                let end = self.add(cursor.base, bytes);
                self.lower_short(end);
            }
            Fail::Packet => {
                // Missing bytes inside the enclosing layer's length were truncated by the capture; bytes
                // beyond it never existed.
                let wanted = self.add(cursor.base, bytes);
                let end = self.b.read(self.end);
                let claimed = self.b.compare(CompareOp::Le, wanted, end);
                let truncated = self.finish.of(Some(DropReason::Truncated));
                let malformed = self.finish.of(Some(DropReason::Malformed));
                self.b.branch(claimed, truncated, malformed);
            }
        }
        self.b.switch_to(next);
        cursor.checked = bytes;
    }

    fn lower_field(&mut self, id: LayerId, field: FieldId, cursor: &mut Cursor, advance: bool) {
        let vars = self.vars(id);
        let (low, high) = vars.fields[field.0 as usize];
        let (at, length) = vars.field_at[field.0 as usize];
        let present = vars.field_present[field.0 as usize];
        let model::Field { ty, constraint, .. } = self.field(id, field).clone();
        let here = self.cursor_value(cursor);
        self.b.write(at, here);
        if let Some(present) = present {
            let yes = self.b.bool(true);
            self.b.write(present, yes);
        }
        let (h, l) = match &ty {
            FieldType::Counted(bytes) => {
                self.note_cursor(id, here);
                let bytes = self.int(id, bytes);
                self.b.write(length, bytes);
                let value = self.load_counted(here, bytes, cursor.fail);
                self.b.write(low, value);
                self.note(NoteOf::Field { layer: id, field, bit: 0 }, [here, bytes, value]);
                let base = self.b.binary(BinaryOp::Add, here, bytes);
                *cursor = Cursor { base, bits: 0, checked: 0, ..*cursor };
                return;
            }
            FieldType::Bytes(bytes) | FieldType::Text(bytes) => {
                self.note_cursor(id, here);
                let bytes = self.int(id, bytes);
                // Bytes beyond the enclosing layer's length do not exist; bytes inside it that the capture
                // lacks still count.
                let end = self.b.read(self.end);
                let there = self.b.binary(BinaryOp::SubSat, end, here);
                let held = self.b.binary(BinaryOp::Min, bytes, there);
                self.b.write(length, held);
                self.note(NoteOf::Field { layer: id, field, bit: 0 }, [here, held]);
                let base = self.beyond(here, bytes);
                *cursor = Cursor { base, bits: 0, checked: 0, ..*cursor };
                return;
            }
            FieldType::Unsigned { bits, little } => (None, self.load_bits(cursor, *bits, *little)),
            FieldType::Mac => (None, self.load_bits(cursor, 48, false)),
            FieldType::Ipv4 => (None, self.load_bits(cursor, 32, false)),
            FieldType::Ipv6 => {
                let h = self.load_bits(cursor, 64, false);
                let mut lower = Cursor { bits: cursor.bits + 64, ..*cursor };
                (Some(h), self.load_bits(&mut lower, 64, false))
            }
        };
        self.b.write(low, l);
        if let (Some(variable), Some(value)) = (high, h) {
            self.b.write(variable, value);
        }
        let bits = static_field_bits(&ty).expect("bytes were handled above");
        let bytes = self.b.int(u64::from(bits.div_ceil(8)));
        self.b.write(length, bytes);
        let bit = cursor.bits % 8;
        if advance {
            cursor.bits += bits;
        }
        self.note(NoteOf::Field { layer: id, field, bit }, [here, bytes, l].into_iter().chain(h));
        if let Some(constraint) = constraint {
            let limit = self.b.int(constraint.value);
            let holds = self.apply(constraint.op, l, limit);
            let holds = self.b.truth(holds);
            let next = self.b.block();
            let fail = self.broken(cursor.fail);
            self.b.branch(holds, next, fail);
            self.b.seal(next);
            self.b.switch_to(next);
        }
    }

    /// The block to continue at if a constraint fails.
    fn broken(&self, fail: Fail) -> Block {
        match (fail, &self.messages) {
            (Fail::Run(exit), _) => exit,
            (Fail::Message, Some(messages)) => messages.lost,
            _ => self.finish.of(Some(DropReason::Malformed)),
        }
    }

    /// Records how far the header is read, for the expressions that follow in the header.
    fn note_cursor(&mut self, id: LayerId, here: Value) {
        let start = self.vars(id).start.expect("declared");
        let start = self.b.read(start);
        self.cursor = Some(self.b.binary(BinaryOp::SubSat, here, start));
    }

    /// Loads a number of `bytes` bytes, each of which is checked; more than eight bytes are invalid.
    fn load_counted(&mut self, at: Value, bytes: Value, fail: Fail) -> Value {
        let result = self.b.variable(Type::Int);
        let zero = self.b.int(0);
        self.b.write(result, zero);
        let join = self.b.block();
        let gates: Vec<Block> = (1..=8).map(|_| self.b.block()).collect();
        let none = self.b.block();
        let cases = [(0, to(none))].into_iter();
        let cases = cases.chain((1..).zip(gates.iter().map(|&gate| to(gate)))).collect();
        let wrong = self.broken(fail);
        self.b.end(Terminator::Switch { value: bytes, cases, otherwise: to(wrong) });
        self.b.seal(none);
        self.b.switch_to(none);
        self.b.jump(join);
        for (bytes, gate) in (1..).zip(gates) {
            self.b.seal(gate);
            self.b.switch_to(gate);
            let mut cursor = Cursor { base: at, bits: 0, checked: 0, fail, depth: 0 };
            self.check_bits(&mut cursor, bytes * 8);
            let value = self.load_bits(&mut cursor, bytes * 8, false);
            self.b.write(result, value);
            self.b.jump(join);
        }
        self.b.seal(join);
        self.b.switch_to(join);
        self.b.read(result)
    }

    /// Loads a number of `bits` bits at the cursor, most significant bit first. The bytes were checked.
    fn load_bits(&mut self, cursor: &mut Cursor, bits: u32, little: bool) -> Value {
        let buf = self.b.read(self.buf);
        let (first, last) = (cursor.bits / 8, (cursor.bits + bits).div_ceil(8));
        // The narrowest load that covers the field and stays inside the checked bytes.
        for width in [Width::W1, Width::W2, Width::W4, Width::W8] {
            let bytes = width.bytes();
            if last - first > bytes || bytes > cursor.checked {
                continue;
            }
            let at = first.min(cursor.checked - bytes);
            let op = Op::Load {
                format: NumberFormat { width, little },
                buf,
                offset: cursor.base,
                displacement: at,
            };
            let word = self.b.one(op);
            let right = (at + bytes) * 8 - (cursor.bits + bits);
            let shifted = if right == 0 {
                word
            } else {
                let right = self.b.int(u64::from(right));
                self.b.binary(BinaryOp::Shr, word, right)
            };
            if bits == bytes * 8 {
                return shifted;
            }
            let mask = self.b.int(if bits >= 64 { u64::MAX } else { (1 << bits) - 1 });
            return self.b.binary(BinaryOp::And, shifted, mask);
        }
        // Too wide for one load inside the checked bytes: split in two halves at a byte boundary.
        let upper = (bits / 2).next_multiple_of(8).min(bits - 1);
        let (high_bits, low_bits) = (upper, bits - upper);
        let high = self.load_bits(cursor, high_bits, little);
        let mut rest = Cursor { bits: cursor.bits + high_bits, ..*cursor };
        let low = self.load_bits(&mut rest, low_bits, little);
        let shift = self.b.int(u64::from(low_bits));
        let high = self.b.binary(BinaryOp::Shl, high, shift);
        self.b.binary(BinaryOp::Or, high, low)
    }

    /// Lowers a field that may be beyond the packet's end; it is 0 then.
    fn lower_peek(&mut self, id: LayerId, field: FieldId, cursor: &mut Cursor) {
        let vars = self.vars(id);
        let (low, high) = vars.fields[field.0 as usize];
        let bits = static_field_bits(&self.field(id, field).ty).unwrap_or(0);
        let bytes = (cursor.bits + bits).div_ceil(8);
        if bytes <= cursor.checked {
            self.lower_field(id, field, cursor, false);
            return;
        }
        let buf = self.b.read(self.buf);
        let (there, missing, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.check(buf, cursor.base, bytes, there, missing);
        self.b.seal(there);
        self.b.seal(missing);
        self.b.switch_to(missing);
        let (zero, no) = (self.b.int(0), self.b.bool(false));
        [Some(low), high].into_iter().flatten().for_each(|word| self.b.write(word, zero));
        vars.field_present[usize::from(field.0)].iter().for_each(|present| self.b.write(*present, no));
        self.b.jump(join);
        self.b.switch_to(there);
        let mut peeked = Cursor { checked: bytes, ..*cursor };
        self.lower_field(id, field, &mut peeked, false);
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn lower_if(
        &mut self,
        id: LayerId,
        condition: &model::Expr,
        then: &[HeaderItem],
        otherwise: &[HeaderItem],
        cursor: &mut Cursor,
    ) {
        let here = self.cursor_value(cursor);
        self.note_cursor(id, here);
        let holds = self.truth(id, condition);
        let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(holds, yes, no);
        self.b.seal(yes);
        self.b.seal(no);
        let base = self.b.variable(Type::Int);
        for (block, items) in [(yes, then), (no, otherwise)] {
            self.b.switch_to(block);
            let mut inner = *cursor;
            self.lower_items(id, items, &mut inner);
            let at = self.cursor_value(&inner);
            self.b.write(base, at);
            self.b.jump(join);
        }
        self.b.seal(join);
        self.b.switch_to(join);
        *cursor = Cursor { base: self.b.read(base), bits: 0, checked: 0, ..*cursor };
    }

    /// `while cursor < until`: tag, then the item's layout. A malformed item ends the run, not the packet.
    fn lower_run(&mut self, id: LayerId, run: &Run, cursor: &mut Cursor) {
        let here = self.cursor_value(cursor);
        self.note_cursor(id, here);
        let until = self.int(id, &run.until);
        let start = self.vars(id).start.expect("declared");
        let start = self.b.read(start);
        let run_end = self.beyond(start, until);
        if cursor.fail == Fail::Message {
            self.lower_there(run_end);
        }
        let at = self.b.variable(Type::Int);
        let first = self.cursor_value(cursor);
        self.b.write(at, first);
        let [head, more, step, tagged, exit] = [(); 5].map(|()| self.b.block());
        self.b.jump(head);
        self.b.switch_to(head);
        let here = self.b.read(at);
        let left = self.b.compare(CompareOp::Lt, here, run_end);
        self.b.branch(left, more, exit);
        self.b.seal(more);
        self.b.switch_to(more);
        self.b.again(RUN_ITEMS_MAX, step, exit);
        self.b.seal(step);
        self.b.switch_to(step);
        let buf = self.b.read(self.buf);
        let tag_bytes = run.tag_bits.div_ceil(8);
        self.b.check(buf, here, tag_bytes, tagged, exit);
        self.b.seal(tagged);
        self.b.switch_to(tagged);
        let mut inner =
            Cursor { base: here, bits: 0, checked: tag_bytes, fail: Fail::Run(exit), depth: cursor.depth };
        let tag = self.load_bits(&mut inner, run.tag_bits, false);
        inner.bits = run.tag_bits;
        let blocks: Vec<Block> = run.items.iter().map(|_| self.b.block()).collect();
        let tags = run.items.iter().zip(&blocks);
        let cases = tags.clone().filter_map(|(i, &b)| i.tag.map(|t| (t, to(b)))).collect();
        let other = tags.clone().find(|(i, _)| i.tag.is_none()).map_or(exit, |(_, &b)| b);
        self.b.end(Terminator::Switch { value: tag, cases, otherwise: to(other) });
        for (item, block) in run.items.iter().zip(blocks) {
            self.b.seal(block);
            self.b.switch_to(block);
            let next = self.lower_run_item(id, (item, tag), inner, run_end, exit);
            self.b.write(at, next);
            self.b.jump(if item.stop { exit } else { head });
        }
        self.b.seal(head);
        self.b.seal(exit);
        self.b.switch_to(exit);
        *cursor = Cursor { base: run_end, bits: 0, checked: 0, ..*cursor };
    }

    /// Lowers an item of a run, after its tag. Returns its end. An item that is invalid, or exceeds the run,
    /// counts as absent: its fields keep their earlier values, and the run ends.
    fn lower_run_item(
        &mut self,
        id: LayerId,
        (item, tag): (&model::RunItem, Value),
        inner: Cursor,
        run_end: Value,
        exit: Block,
    ) -> Value {
        let vars = self.vars(id);
        let of_field = |field: FieldId| {
            let index = usize::from(field.0);
            let ((low, high), (at, length)) = (vars.fields[index], vars.field_at[index]);
            [Some(low), high, Some(at), Some(length), vars.field_present[index]].into_iter().flatten()
        };
        let written: Vec<Variable> = fields_of(&item.items).into_iter().flat_map(of_field).collect();
        let presence = vars.presences[item.presence.0 as usize];
        let before: Vec<Value> = written.iter().map(|&variable| self.b.read(variable)).collect();
        let (broken, whole) = (self.b.block(), self.b.block());
        let mut cursor = Cursor { fail: Fail::Run(broken), depth: inner.depth + 1, ..inner };
        let depth = inner.depth;
        self.note(NoteOf::Item { layer: id, item: item.presence, depth }, [inner.base, tag]);
        if !cursor.bits.is_multiple_of(8) {
            // The first fields share a byte with the tag.
            let bits = self.static_bits(id, &item.items);
            self.check_bits(&mut cursor, bits);
        }
        self.lower_items(id, &item.items, &mut cursor);
        let next = self.cursor_value(&cursor);
        let fits = self.b.compare(CompareOp::Le, next, run_end);
        self.b.branch(fits, whole, broken);
        self.b.seal(broken);
        self.b.seal(whole);
        self.b.switch_to(broken);
        for (variable, value) in written.into_iter().zip(before) {
            self.b.write(variable, value);
        }
        self.b.jump(exit);
        self.b.switch_to(whole);
        let yes = self.b.bool(true);
        self.b.write(presence, yes);
        self.note(NoteOf::ItemEnd { depth }, [next]);
        next
    }

    /// Computes the end of the payload, and narrows the buffer to it.
    pub(super) fn lower_payload(&mut self, id: LayerId) {
        let vars = self.vars(id);
        let at = self.b.read(vars.payload_at.expect("declared"));
        let end = self.b.read(self.end);
        let rest = self.b.binary(BinaryOp::SubSat, end, at);
        self.b.write(vars.rest_bytes.expect("declared"), rest);
        let length = match &self.layer(id).protocol.payload {
            payload if self.is_message(id) || payload.as_ref().is_some_and(|p| p.length.is_some()) => {
                // A message without a payload ends with its header; a payload without a length takes the rest
                // of a chunked message.
                let length = match payload.as_ref().map(|payload| &payload.length) {
                    Some(Some(length)) => self.int(id, length),
                    payload => payload.map_or_else(|| self.b.int(0), |_| rest),
                };
                let length = self.b.binary(BinaryOp::Min, length, rest);
                let end = self.b.binary(BinaryOp::Add, at, length);
                let buf = self.b.read(self.buf);
                let narrow = self.b.one(Op::Narrow(buf, end));
                self.b.write(self.end, end);
                self.b.write(self.buf, narrow);
                length
            }
            _ => rest,
        };
        self.b.write(vars.payload_bytes.expect("declared"), length);
    }

    pub(super) fn lower_lets(&mut self, id: LayerId) {
        for (index, value) in self.layer(id).protocol.lets.iter().enumerate() {
            let value = self.int(id, &value.value);
            let variable = self.vars(id).lets[index].expect("declared");
            self.b.write(variable, value);
        }
        if self.asks_for_lets(id) {
            for (index, value) in self.layer(id).protocol.lets.iter().enumerate() {
                let known = self.is_known(id, &value.value);
                let variable = self.vars(id).lets_known[index];
                self.b.write(variable, known);
            }
        }
    }

    /// Whether a filter, the packet's line, its events or its detail may use a derived value of the layer.
    fn asks_for_lets(&self, id: LayerId) -> bool {
        let mut keys = self.trie.predicates.iter().map(|predicate| self.catalog.key(predicate.field));
        let shows = self.outs.iter().any(|out| out.layer == id && out.known.is_some());
        let told = !self.need.events.is_empty() || self.is_asked_for_events(id);
        shows
            || told
            || self.need.detail
            || self.wants_values_of(id)
            || keys.any(|key| matches!(key, FieldKey::Let(layer, _) if layer == id))
    }

    /// A field as high and low word, in the form of keys: IPv4 addresses are mapped into IPv6 (RFC 4291,
    /// 2.5.5.2).
    pub(super) fn field_pair(&mut self, id: LayerId, field: FieldId) -> Pair {
        let (low, high) = self.vars(id).fields[field.0 as usize];
        let mapped = matches!(self.field(id, field).ty, FieldType::Ipv4);
        let low = self.b.read(low);
        match high {
            Some(high) => (self.b.read(high), low),
            None if mapped => {
                let prefix = self.b.int(0xffff_0000_0000);
                let zero = self.b.int(0);
                (zero, self.b.binary(BinaryOp::Or, low, prefix))
            }
            None => (self.b.int(0), low),
        }
    }
}

/// Size in bits of a field of constant size.
pub(super) fn static_field_bits(ty: &FieldType) -> Option<u32> {
    match ty {
        FieldType::Unsigned { bits, .. } => Some(*bits),
        FieldType::Mac => Some(48),
        FieldType::Ipv4 => Some(32),
        FieldType::Ipv6 => Some(128),
        FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => None,
    }
}

/// Fields that a packet of the protocol may lack: those of conditional parts and runs, and peeked ones.
pub(super) fn conditional_fields(items: &[HeaderItem]) -> Vec<FieldId> {
    let may_lack =
        |item: &&HeaderItem| matches!(item, HeaderItem::If { .. } | HeaderItem::Run(_) | HeaderItem::Peek(_));
    items.iter().filter(may_lack).flat_map(|item| fields_of(std::slice::from_ref(item))).collect()
}

/// All fields of these items, including nested ones.
fn fields_of(items: &[HeaderItem]) -> Vec<FieldId> {
    let of_item = |item: &HeaderItem| match item {
        HeaderItem::Field(f) | HeaderItem::Peek(f) | HeaderItem::Whole(f) => vec![*f],
        HeaderItem::Skip { .. } => vec![],
        HeaderItem::If { then, otherwise, .. } => [fields_of(then), fields_of(otherwise)].concat(),
        HeaderItem::Run(run) => run.items.iter().flat_map(|item| fields_of(&item.items)).collect(),
    };
    items.iter().flat_map(of_item).collect()
}

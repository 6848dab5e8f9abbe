//! Lowers instructions.

use super::{Lowering, Parts, env_offsets, of_flow, of_packet, of_run};
use crate::host::{self, Bytes, WORDS_MIN};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, StackSlotData, StackSlotKind, types};
use std::mem::offset_of;
use weir_ir::abi::Continuation;
use weir_ir::graph::{BinaryOp, CompareOp, Inst, Meta, NumberFormat, Op, Type, Value, Var, VarKind, Width};
use weir_packet::PacketMeta;

/// A host function that receives its arguments in an array of words.
type HostFunction = unsafe extern "C" fn(*mut host::Env<'_>, *mut u64, u64, u64);

impl Lowering<'_> {
    pub(super) fn inst(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Const(_) | Op::Bool(_) | Op::Frame | Op::Note { .. } => {}
            Op::Set { flow, var, side, value } => {
                let value = self.one(*value);
                let (address, offset) = self.variable(*flow, *var, *side);
                let ty = self.type_of_variable(*var);
                let value = if ty == types::I64 { value } else { self.b.ins().ireduce(ty, value) };
                self.b.ins().store(of_flow(), value, address, offset);
            }
            Op::Append { flow, var, letter } => {
                let letter = self.one(*letter);
                self.append(*flow, *var, letter, false);
            }
            Op::AppendAgain { flow, var, letter } => {
                let letter = self.one(*letter);
                self.append(*flow, *var, letter, true);
            }
            Op::Store { out, value } => {
                let value = self.word(*value);
                let offset = offset_of!(Continuation, outs) + 8 * out.index();
                self.b.ins().store(of_run(), value, self.arguments.k, offset as i32);
            }
            Op::Refuel { fuel } => {
                let at = offset_of!(Continuation, fuels) + 4 * fuel.index();
                self.store_number(0, at);
            }
            Op::SeqInsert { .. }
            | Op::SeqAcknowledge { .. }
            | Op::SeqBegin { .. }
            | Op::SeqHold { .. }
            | Op::SeqNext { .. }
            | Op::SeqAssemble { .. }
            | Op::Collect { .. }
            | Op::Messages { .. }
            | Op::NextMessages { .. }
            | Op::WholeValue { .. }
            | Op::Deliver { .. }
            | Op::Keep { .. }
            | Op::Emit { .. } => self.asks_host(inst),
            pure => {
                let parts = self.pure(pure);
                self.define(inst.results[0], parts);
            }
        }
    }

    /// Lowers instructions that the engine executes.
    fn asks_host(&mut self, inst: &Inst) {
        match &inst.op {
            Op::SeqInsert { sequence, side, at, buf, offset, length, span, metas, .. } => {
                let mut words = vec![self.word(*side), self.one(*at)];
                let (address, bytes) = self.buf(*buf);
                words.extend([address, bytes]);
                words.extend([offset, length, span].map(|&v| self.one(v)));
                words.extend(metas.iter().map(|&v| self.word(v)));
                self.host(host::seq_insert, sequence.0, &words);
                self.results(&inst.results);
            }
            Op::SeqAcknowledge { sequence, side, at, .. } => {
                let words = [self.word(*side), self.one(*at)];
                self.host(host::seq_acknowledge, sequence.0, &words);
            }
            Op::SeqBegin { sequence, side, at, .. } => {
                let words = [self.word(*side), self.one(*at)];
                self.host(host::seq_begin, sequence.0, &words);
            }
            Op::SeqHold { sequence, side, at, span, .. } => {
                let words = [self.word(*side), self.one(*at), self.one(*span)];
                self.host(host::seq_hold, sequence.0, &words);
            }
            Op::SeqNext { sequence, side, .. } => {
                let side = self.word(*side);
                self.host(host::seq_next, sequence.0, &[side]);
                self.results(&inst.results);
            }
            Op::SeqAssemble { sequence, side, .. } => {
                let side = self.word(*side);
                self.host(host::seq_assemble, sequence.0, &[side]);
                self.results(&inst.results);
            }
            Op::Collect { flow, side, gap, buf, offset, length, whole } => {
                let mut words = self.bytes_in_order(*side, *gap, *buf, [*offset, *length]);
                words.extend(whole.iter().map(|&value| self.one(value)));
                self.host(host::collect, self.table_of(*flow), &words);
            }
            Op::Deliver { flow, side, gap, buf, offset, length } => {
                let words = self.bytes_in_order(*side, *gap, *buf, [*offset, *length]);
                self.host(host::deliver, self.table_of(*flow), &words);
            }
            Op::WholeValue { number } => {
                self.host(host::whole_value, *number, &[]);
                self.results(&inst.results);
            }
            Op::Messages { flow, side } => {
                let side = self.word(*side);
                self.host(host::messages, self.table_of(*flow), &[side]);
                self.results(&inst.results);
            }
            Op::NextMessages { done, wanted } => {
                let words = [done, wanted].map(|&word| self.one(word));
                self.host(host::next_messages, 0, &words);
                self.results(&inst.results);
            }
            Op::Keep { buf, offset, length } => {
                let (address, bytes) = self.buf(*buf);
                let words = [address, bytes, self.one(*offset), self.one(*length)];
                self.host(host::keep, 0, &words);
                self.results(&inst.results);
            }
            Op::Emit { event, flow, values } => {
                let words: Vec<ir::Value> = values.iter().map(|&v| self.word(v)).collect();
                let function: HostFunction = if flow.is_some() { host::emit_of_flow } else { host::emit };
                self.host(function, event.0, &words);
            }
            other => unreachable!("{other} asks nobody"),
        }
    }

    /// The words that describe in-order bytes to the engine.
    fn bytes_in_order(&mut self, side: Value, gap: Value, buf: Value, place: [Value; 2]) -> Vec<ir::Value> {
        let (address, bytes) = self.buf(buf);
        let [offset, length] = place.map(|value| self.one(value));
        vec![self.word(side), self.one(gap), address, bytes, offset, length]
    }

    /// Number of a flow's table.
    fn table_of(&self, flow: Value) -> u32 {
        let Type::Flow(table) = self.graph.type_of(flow) else { unreachable!("{flow} is a flow") };
        table.0
    }

    fn pure(&mut self, op: &Op) -> Parts {
        Parts::One(match op {
            Op::Binary(op, a, b) => self.binary(*op, *a, *b),
            Op::Compare(op, a, b) => {
                let (a, b) = (self.one(*a), self.one(*b));
                let condition = match op {
                    CompareOp::Eq => IntCC::Equal,
                    CompareOp::Ne => IntCC::NotEqual,
                    CompareOp::Lt => IntCC::UnsignedLessThan,
                    CompareOp::Le => IntCC::UnsignedLessThanOrEqual,
                };
                self.b.ins().icmp(condition, a, b)
            }
            Op::Not(a) => {
                let a = self.one(*a);
                self.b.ins().bxor_imm_u(a, 1)
            }
            Op::FromBool(a) => self.word(*a),
            Op::Select(condition, a, b) => {
                let condition = self.one(*condition);
                match (self.read(*a), self.read(*b)) {
                    (Parts::One(a), Parts::One(b)) => self.b.ins().select(condition, a, b),
                    (Parts::Two(a, a_bytes), Parts::Two(b, b_bytes)) => {
                        let address = self.b.ins().select(condition, a, b);
                        return Parts::Two(address, self.b.ins().select(condition, a_bytes, b_bytes));
                    }
                    _ => return Parts::None,
                }
            }
            Op::Narrow(buf, end) => {
                let (address, bytes) = self.buf(*buf);
                let end = self.one(*end);
                return Parts::Two(address, self.b.ins().umin(bytes, end));
            }
            Op::Length(buf) => self.buf(*buf).1,
            Op::Load { format, buf, offset, displacement } => {
                let (address, displacement) = self.address(*buf, *offset, *displacement);
                self.load(address, displacement, *format)
            }
            Op::Meta(meta) => self.meta(*meta),
            Op::Input(n) => {
                let numbers = self.b.ins().load(types::I64, of_run(), self.arguments.env, env_offsets().0);
                self.b.ins().load(types::I64, of_packet(), numbers, 8 * *n as i32)
            }
            Op::InputBytes(n) => {
                let all = self.b.ins().load(types::I64, of_run(), self.arguments.env, env_offsets().1);
                let at = (size_of::<Bytes>() * *n as usize) as i32;
                let mut field =
                    |offset: usize| self.b.ins().load(types::I64, of_packet(), all, at + offset as i32);
                return Parts::Two(field(offset_of!(Bytes, address)), field(offset_of!(Bytes, length)));
            }
            Op::Member { set, high, low } => self.member(*set, *high, *low),
            Op::Search { .. } | Op::Sum16 { .. } | Op::ItemsFit { .. } | Op::Excerpt { .. } => {
                self.over_bytes(op)
            }
            Op::Get { flow, var, side } => {
                let (address, offset) = self.variable(*flow, *var, *side);
                let ty = self.type_of_variable(*var);
                let value = self.b.ins().load(ty, of_flow(), address, offset);
                self.widen(value)
            }
            other => unreachable!("{other:?} is lowered elsewhere"),
        })
    }

    /// Lowers instructions over byte ranges to calls.
    fn over_bytes(&mut self, op: &Op) -> ir::Value {
        match op {
            Op::Search { pattern, buf, offset, length } => {
                let (address, bytes) = self.buf(*buf);
                let pattern = self.b.ins().iconst(types::I64, i64::from(pattern.0));
                let (offset, length) = (self.one(*offset), self.one(*length));
                let words = [self.arguments.env, pattern, address, bytes, offset, length];
                let found = self.call(host::search as *const () as usize, &words, true);
                self.b.ins().ireduce(types::I8, found.expect("a result"))
            }
            Op::Excerpt { buf, offset, length } => {
                let (address, bytes) = self.buf(*buf);
                let words = [address, bytes, self.one(*offset), self.one(*length)];
                self.call(host::excerpt as *const () as usize, &words, true).expect("a result")
            }
            Op::ItemsFit { buf, offset, length } => {
                let (address, bytes) = self.buf(*buf);
                let words = [address, bytes, self.one(*offset), self.one(*length)];
                self.call(host::items_fit as *const () as usize, &words, true).expect("a result")
            }
            Op::Sum16 { buf, offset, length, first } => {
                let (address, bytes) = self.buf(*buf);
                let words = [address, bytes, self.one(*offset), self.one(*length), self.one(*first)];
                self.call(host::sum16 as *const () as usize, &words, true).expect("a result")
            }
            other => unreachable!("{other:?} is lowered elsewhere"),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> ir::Value {
        let by = self.plan.int(b);
        let (a, b) = (self.one(a), self.one(b));
        match op {
            BinaryOp::Add => self.b.ins().iadd(a, b),
            BinaryOp::Sub => self.b.ins().isub(a, b),
            BinaryOp::SubSat => {
                let larger = self.b.ins().umax(a, b);
                self.b.ins().isub(larger, b)
            }
            BinaryOp::Mul => self.b.ins().imul(a, b),
            // The processor's division traps on 0.
            BinaryOp::Div | BinaryOp::Rem => {
                let zero = self.b.ins().iconst(types::I64, 0);
                let one = self.b.ins().iconst(types::I64, 1);
                let divides = self.b.ins().icmp_imm_u(IntCC::NotEqual, b, 0);
                let divisor = self.b.ins().select(divides, b, one);
                let result = match op {
                    BinaryOp::Div => self.b.ins().udiv(a, divisor),
                    _ => self.b.ins().urem(a, divisor),
                };
                self.b.ins().select(divides, result, zero)
            }
            BinaryOp::And => self.b.ins().band(a, b),
            BinaryOp::Or => self.b.ins().bor(a, b),
            BinaryOp::Xor => self.b.ins().bxor(a, b),
            BinaryOp::Min => self.b.ins().umin(a, b),
            BinaryOp::Max => self.b.ins().umax(a, b),
            // Cranelift shifts by the amount modulo 64.
            BinaryOp::Shl | BinaryOp::Shr => {
                let shifted = match op {
                    BinaryOp::Shl => self.b.ins().ishl(a, b),
                    _ => self.b.ins().ushr(a, b),
                };
                match by {
                    Some(0..64) => shifted,
                    Some(_) => self.b.ins().iconst(types::I64, 0),
                    None => {
                        let fits = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, b, 64);
                        let zero = self.b.ins().iconst(types::I64, 0);
                        self.b.ins().select(fits, shifted, zero)
                    }
                }
            }
        }
    }

    /// Address and displacement of a load.
    fn address(&mut self, buf: Value, offset: Value, displacement: u32) -> (ir::Value, i32) {
        let (address, _) = self.buf(buf);
        if let Some(offset) = self.plan.int(offset) {
            let sum = offset.checked_add(u64::from(displacement)).and_then(|sum| i32::try_from(sum).ok());
            if let Some(displacement) = sum {
                return (address, displacement);
            }
        }
        let offset = self.one(offset);
        let address = self.b.ins().iadd(address, offset);
        match i32::try_from(displacement) {
            Ok(displacement) => (address, displacement),
            Err(_) => (self.b.ins().iadd_imm_u(address, i64::from(displacement)), 0),
        }
    }

    fn load(&mut self, address: ir::Value, displacement: i32, format: NumberFormat) -> ir::Value {
        let NumberFormat { width, little } = format;
        let ty = match width {
            Width::W1 => types::I8,
            Width::W2 => types::I16,
            Width::W4 => types::I32,
            Width::W8 => types::I64,
        };
        let mut value = self.b.ins().load(ty, of_packet(), address, displacement);
        if width != Width::W1 && little != cfg!(target_endian = "little") {
            value = self.b.ins().bswap(value);
        }
        self.widen(value)
    }

    fn widen(&mut self, value: ir::Value) -> ir::Value {
        match self.b.func.dfg.value_type(value) {
            types::I64 => value,
            _ => self.b.ins().uextend(types::I64, value),
        }
    }

    fn meta(&mut self, meta: Meta) -> ir::Value {
        let (ty, offset) = match meta {
            Meta::Time => (types::I64, offset_of!(PacketMeta, time)),
            Meta::WireBytes => (types::I32, offset_of!(PacketMeta, wire_bytes)),
            Meta::CapturedBytes => (types::I32, offset_of!(PacketMeta, captured_bytes)),
            Meta::Link => (types::I16, offset_of!(PacketMeta, link)),
            Meta::Interface => (types::I16, offset_of!(PacketMeta, interface)),
            Meta::Number => (types::I64, offset_of!(PacketMeta, number)),
        };
        let value = self.b.ins().load(ty, of_packet(), self.arguments.packet, offset as i32);
        self.widen(value)
    }

    fn type_of_variable(&self, var: Var) -> ir::Type {
        match self.graph.vars[var.index()].kind {
            VarKind::Bits(8) | VarKind::Letters(_) => types::I8,
            VarKind::Bits(16) => types::I16,
            VarKind::Bits(32) => types::I32,
            VarKind::Bits(_) => types::I64,
        }
    }

    /// Address and displacement of a flow's variable.
    fn variable(&mut self, flow: Value, var: Var, side: Option<Value>) -> (ir::Value, i32) {
        let Type::Flow(table) = self.graph.type_of(flow) else { unreachable!("{flow} is a flow") };
        let data = self.arguments.flow_data.expect("flows are there in the tail only");
        let offset = self.layout.offset(var) as i32;
        let Some(side) = side else { return (data, offset) };
        let side = self.word(side);
        let distance = self.b.ins().imul_imm_u(side, self.layout.stride(table) as i64);
        (self.b.ins().iadd(data, distance), offset)
    }

    /// Compares the letter with each letter present, in a loop; there are few.
    fn append(&mut self, flow: Value, var: Var, letter: ir::Value, again: bool) {
        let VarKind::Letters(max) = self.graph.vars[var.index()].kind else {
            unreachable!("{var} has letters")
        };
        let (data, offset) = self.variable(flow, var, None);
        let start = self.b.ins().iadd_imm_u(data, i64::from(offset));
        let letter = self.b.ins().ireduce(types::I8, letter);
        let count = self.b.ins().load(types::I8, of_flow(), start, 0);
        let count = self.b.ins().uextend(types::I64, count);
        // Bounds the count, so that a corrupted record cannot cause an access outside it.
        let max = self.b.ins().iconst(types::I64, i64::from(max));
        let count = self.b.ins().umin(count, max);

        let [next, look, end, write, out] = [(); 5].map(|()| self.b.create_block());
        let at = self.b.append_block_param(next, types::I64);
        let zero = self.b.ins().iconst(types::I64, 0);
        match again {
            true => self.b.ins().jump(end, &[]),
            false => self.b.ins().jump(next, &[zero.into()]),
        };

        self.b.switch_to_block(next);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.b.ins().brif(more, look, &[], end, &[]);

        self.b.switch_to_block(look);
        let place = self.b.ins().iadd(start, at);
        let there = self.b.ins().load(types::I8, of_flow(), place, 1);
        let same = self.b.ins().icmp(IntCC::Equal, there, letter);
        let following = self.b.ins().iadd_imm_u(at, 1);
        self.b.ins().brif(same, out, &[], next, &[following.into()]);

        self.b.switch_to_block(end);
        let room = self.b.ins().icmp(IntCC::UnsignedLessThan, count, max);
        self.b.ins().brif(room, write, &[], out, &[]);

        self.b.switch_to_block(write);
        let place = self.b.ins().iadd(start, count);
        self.b.ins().store(of_flow(), letter, place, 1);
        let longer = self.b.ins().iadd_imm_u(count, 1);
        let longer = self.b.ins().ireduce(types::I8, longer);
        self.b.ins().store(of_flow(), longer, start, 0);
        self.b.ins().jump(out, &[]);
        self.b.switch_to_block(out);
    }

    /// Calls a host function with `words`; `results` reads the returned words.
    fn host(&mut self, function: HostFunction, id: u32, words: &[ir::Value]) {
        let count = words.len().max(WORDS_MIN);
        let slot = match self.words {
            Some((slot, size)) if size >= count => slot,
            _ => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * count as u32, 3);
                let slot = self.b.create_sized_stack_slot(data);
                self.words = Some((slot, count));
                slot
            }
        };
        let address = self.b.ins().stack_addr(types::I64, slot, 0);
        for (at, &word) in words.iter().enumerate() {
            self.b.ins().store(of_run(), word, address, 8 * at as i32);
        }
        let id = self.b.ins().iconst(types::I64, i64::from(id));
        let count = self.b.ins().iconst(types::I64, words.len() as i64);
        self.call(function as *const () as usize, &[self.arguments.env, address, id, count], false);
    }

    /// Defines `results` as the words that the last host function returned.
    fn results(&mut self, results: &[Value]) {
        let (slot, _) = self.words.expect("a host function was called");
        let address = self.b.ins().stack_addr(types::I64, slot, 0);
        let mut at = 0;
        let mut word = |lowering: &mut Self| {
            at += 8;
            lowering.b.ins().load(types::I64, of_run(), address, at - 8)
        };
        for &result in results {
            let parts = match self.graph.type_of(result) {
                Type::Bool => {
                    let word = word(self);
                    Parts::One(self.b.ins().ireduce(types::I8, word))
                }
                Type::Buf => Parts::Two(word(self), word(self)),
                _ => Parts::One(word(self)),
            };
            self.define(result, parts);
        }
    }

    /// Calls the function at `address`; all parameters and the result are words.
    pub(super) fn call(&mut self, address: usize, words: &[ir::Value], returns: bool) -> Option<ir::Value> {
        let mut signature = ir::Signature::new(self.b.func.signature.call_conv);
        signature.params = vec![AbiParam::new(types::I64); words.len()];
        if returns {
            signature.returns = vec![AbiParam::new(types::I64)];
        }
        let signature = self.b.import_signature(signature);
        let callee = self.b.ins().iconst(types::I64, address as i64);
        let call = self.b.ins().call_indirect(signature, callee, words);
        self.b.inst_results(call).first().copied()
    }
}

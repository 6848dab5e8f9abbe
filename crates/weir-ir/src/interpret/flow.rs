//! Instructions that access the flow or call the engine.

use super::run::{Run, Tail, cut};
use crate::abi::{
    FlowRecord, FlowSide, Host, METAS_MAX, Ordered, OrderedBytes, SeqInsert, SeqInserted, SeqSide,
};
use crate::graph::{Inst, Op, Table, Type, Value, Var, VarKind};
use weir_packet::Direction;

impl Tail<'_> {
    /// Reborrows the host and the flow.
    fn parts(&mut self) -> (&mut dyn Host, FlowRecord<'_>) {
        (self.host, self.flow.reborrow())
    }
}

impl<'t> Run<'_, 't> {
    pub(super) fn flow_inst(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Get { var, side, .. } => {
                let word = self.get_var(*var, *side);
                self.set(inst.results[0], word);
            }
            Op::Set { var, side, value, .. } => self.set_var(*var, *side, self.int(*value)),
            Op::Append { var, letter, .. } => self.append(*var, self.int(*letter) as u8, false),
            Op::AppendAgain { var, letter, .. } => self.append(*var, self.int(*letter) as u8, true),
            Op::SeqInsert { .. } => self.seq_insert(inst),
            Op::SeqAcknowledge { sequence, side, at, .. } => {
                let (direction, at) = (self.direction(*side), self.int(*at));
                let (host, flow) = self.tail().parts();
                host.seq_acknowledge(SeqSide { sequence: *sequence, flow, direction }, at);
            }
            Op::SeqBegin { sequence, side, at, .. } => {
                let (direction, at) = (self.direction(*side), self.int(*at));
                let (host, flow) = self.tail().parts();
                host.seq_begin(SeqSide { sequence: *sequence, flow, direction }, at);
            }
            Op::SeqHold { sequence, side, at, span, .. } => {
                let (direction, [at, span]) =
                    (self.direction(*side), [*at, *span].map(|value| self.int(value)));
                let (host, flow) = self.tail().parts();
                host.seq_hold(SeqSide { sequence: *sequence, flow, direction }, at, span);
            }
            Op::SeqNext { .. } => self.seq_next(inst),
            Op::SeqAssemble { sequence, side, .. } => {
                let direction = self.direction(*side);
                let (host, flow) = self.tail().parts();
                let slice = host.seq_assemble(SeqSide { sequence: *sequence, flow, direction });
                self.keep(inst.results[0], slice);
            }
            Op::Collect { .. } | Op::Deliver { .. } => self.bytes_in_order(&inst.op),
            Op::Refuel { fuel } => self.k.fuels[fuel.index()] = 0,
            Op::Messages { flow, side } => {
                let (table, direction) = (self.table_of(*flow), self.direction(*side));
                let (host, flow) = self.tail().parts();
                let slice = host.messages(FlowSide { table, flow, direction });
                self.keep(inst.results[0], slice);
            }
            Op::NextMessages { done, wanted } => {
                let (done, wanted) = (self.int(*done), self.int(*wanted));
                let host = self.tail.as_mut().map(|tail| tail.parts().0);
                let slice = host.map(|host| host.next_messages(done, wanted)).unwrap_or_default();
                self.keep(inst.results[0], slice);
            }
            Op::WholeValue { number } => {
                let host = self.tail.as_mut().map(|tail| tail.parts().0);
                let value = host.map_or(0, |host| host.whole_value(*number as usize));
                self.set(inst.results[0], value);
            }
            Op::Keep { buf, offset, length } => {
                let (offset, length) = (self.int(*offset), self.int(*length));
                let kept = if self.tail.is_some() {
                    let (tail, bytes) = self.tail_and_bytes(*buf);
                    let bytes = cut(bytes, offset, length);
                    tail.parts().0.keep(bytes)
                } else {
                    0
                };
                self.set(inst.results[0], kept);
            }
            Op::Emit { event, flow, values } => {
                let values: Vec<u64> = values.iter().map(|&v| self.int(v)).collect();
                if let Some(tail) = &mut self.tail {
                    let (host, record) = tail.parts();
                    host.emit(*event, flow.map(|_| record), &values);
                }
            }
            op => unreachable!("`{op}` needs no flow"),
        }
    }

    fn tail(&mut self) -> &mut Tail<'t> {
        self.tail.as_mut().expect("the verifier: this comes after a lookup")
    }

    /// The offset of a variable in the flow's data, and its kind.
    fn place(&self, var: Var, side: Option<Value>) -> (usize, VarKind) {
        let layout = &self.program.layout;
        let decl = &self.program.graph.vars[var.index()];
        let responder = side.is_some_and(|side| self.bool(side));
        let stride = if responder { layout.stride(decl.table) } else { 0 };
        (layout.offset(var) + stride, decl.kind)
    }

    fn get_var(&mut self, var: Var, side: Option<Value>) -> u64 {
        let (at, kind) = self.place(var, side);
        let bytes = &self.tail().flow.data[at..];
        match kind {
            VarKind::Bits(8) | VarKind::Letters(_) => u64::from(bytes[0]),
            VarKind::Bits(16) => u64::from(u16::from_ne_bytes([bytes[0], bytes[1]])),
            VarKind::Bits(32) => u64::from(u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"))),
            VarKind::Bits(_) => u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes")),
        }
    }

    fn set_var(&mut self, var: Var, side: Option<Value>, value: u64) {
        let (at, kind) = self.place(var, side);
        let bytes = &mut self.tail().flow.data[at..];
        match kind {
            VarKind::Bits(8) | VarKind::Letters(_) => bytes[0] = value as u8,
            VarKind::Bits(16) => bytes[..2].copy_from_slice(&(value as u16).to_ne_bytes()),
            VarKind::Bits(32) => bytes[..4].copy_from_slice(&(value as u32).to_ne_bytes()),
            VarKind::Bits(_) => bytes[..8].copy_from_slice(&value.to_ne_bytes()),
        }
    }

    fn append(&mut self, var: Var, letter: u8, again: bool) {
        let (at, kind) = self.place(var, None);
        let VarKind::Letters(max) = kind else { unreachable!("the verifier: {var} holds letters") };
        let (count, letters) = self.tail().flow.data[at..][..usize::from(max) + 1]
            .split_first_mut()
            .expect("a count stands before the letters");
        let used = usize::from(*count);
        if used < letters.len() && (again || !letters[..used].contains(&letter)) {
            letters[used] = letter;
            *count += 1;
        }
    }

    fn seq_insert(&mut self, inst: &Inst) {
        let Op::SeqInsert { sequence, side, at, buf, offset, length, span, metas, .. } = &inst.op else {
            unreachable!("a seq_insert")
        };
        let direction = self.direction(*side);
        let (at, span) = (self.int(*at), self.int(*span));
        let (offset, claimed) = (self.int(*offset), self.int(*length));
        let mut words = [0; METAS_MAX];
        words.iter_mut().zip(metas).for_each(|(word, &meta)| *word = self.int(meta));
        let (tail, bytes) = self.tail_and_bytes(*buf);
        let bytes = cut(bytes, offset, claimed);
        let (host, flow) = tail.parts();
        let metas = &words[..metas.len().min(METAS_MAX)];
        let SeqInserted { status, skip_bytes } = host.seq_insert(SeqInsert {
            sequence: *sequence,
            flow,
            direction,
            at,
            bytes,
            claimed_bytes: claimed,
            span,
            metas,
        });
        self.set(inst.results[0], status);
        self.set(inst.results[1], skip_bytes);
    }

    fn seq_next(&mut self, inst: &Inst) {
        let Op::SeqNext { sequence, side, .. } = inst.op else { unreachable!("a seq_next") };
        let direction = self.direction(side);
        let (host, flow) = self.tail().parts();
        let next = host.seq_next(SeqSide { sequence, flow, direction });
        let found = next.is_some();
        let Ordered { gap_bytes, bytes, claimed_bytes, of_other, metas } = next.unwrap_or_default();
        let words = [u64::from(found), gap_bytes, 0, 0, claimed_bytes, u64::from(of_other)];
        let words = words.into_iter().chain(metas);
        for (&result, word) in inst.results.iter().zip(words) {
            self.set(result, word);
        }
        // The slice becomes a buffer of its own, so its bytes start at offset 0.
        self.keep(inst.results[2], bytes);
    }

    fn bytes_in_order(&mut self, op: &Op) {
        let (Op::Collect { flow, side, gap, buf, offset, length, .. }
        | Op::Deliver { flow, side, gap, buf, offset, length }) = op
        else {
            unreachable!("a collect or deliver")
        };
        let table = self.table_of(*flow);
        let (direction, gap_bytes) = (self.direction(*side), self.int(*gap));
        let (offset, claimed) = (self.int(*offset), self.int(*length));
        let whole: Vec<u64> = match op {
            Op::Collect { whole, .. } => whole.iter().map(|&value| self.int(value)).collect(),
            _ => vec![],
        };
        let (tail, bytes) = self.tail_and_bytes(*buf);
        let bytes = cut(bytes, offset, claimed);
        let (host, flow) = tail.parts();
        let of = FlowSide { table, flow, direction };
        let bytes = OrderedBytes { gap_bytes, bytes, claimed_bytes: claimed };
        match op {
            Op::Collect { .. } => host.collect(of, bytes, &whole),
            _ => host.deliver(of, bytes),
        }
    }

    fn direction(&self, side: Value) -> Direction {
        Direction::responder_if(self.bool(side))
    }

    fn table_of(&self, flow: Value) -> Table {
        let Type::Flow(table) = self.program.graph.type_of(flow) else {
            unreachable!("the verifier: {flow} is a flow")
        };
        table
    }
}

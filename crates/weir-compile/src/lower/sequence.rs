//! Lowers a layer's sequence: bytes inside the window are inserted, and in-order bytes are processed packet
//! by packet, the current packet first (with its own values), then queued packets (with their stored values).

use super::Lower;
use super::header::static_field_bits;
use super::instance::FlowContext;
use weir_ir::abi::{
    SEQ_FORCED, SEQ_INCONSISTENT, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_RETRANSMITTED, WANTS_BYTES,
};
use weir_ir::build::Variable;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{BinaryOp, CompareOp, Op, Sequence, SequenceDecl, Table, Type, Value};
use weir_ir::sequence::{ACKNOWLEDGES, EXPECTED, QUEUED, STARTED, UNAWAITED};
use weir_lang::model::{self, Expr, FieldId, Layer, LayerId, Trigger};

/// Maximum number of packets that one packet may put in order.
pub const ORDERED_MAX: u32 = 4096;

/// Maximum number of sequence numbers that one packet may consume: far more than bytes in a packet, and so
/// few that counters never overflow.
const SPAN_MAX: u64 = 1 << 34;

/// The payload that a packet offers to a sequence.
struct Offer {
    at: Value,
    span: Value,
    buf: Value,
    offset: Value,
    length: Value,
    metas: Vec<Value>,
}

/// The result of an insertion, and the inserted payload.
struct Inserted {
    status: Value,
    skip: Value,
    buf: Value,
    offset: Value,
    length: Value,
    metas: Vec<Value>,
}

/// The variables of the packet that is processed in order.
pub(super) struct Piece {
    /// The direction of its bytes.
    pub side: Variable,
    pub gap: Variable,
    buf: Variable,
    offset: Variable,
    length: Variable,
}

impl Lower<'_> {
    pub(super) fn declare_sequence(&mut self, id: LayerId, table: Table, retain: bool, delivers: bool) {
        let protocol = &self.layer(id).protocol;
        let sequence = protocol.sequence.as_ref().expect("the caller looked");
        let wholes = self.whole_values(id).map_or(0, |values| values.len() as u8 + 1);
        let metas = wholes + self.ordered_ids(id).len() as u8;
        let tells = self.tells_inconsistent(id);
        self.b.graph.sequences.push(SequenceDecl {
            table,
            name: protocol.name.clone(),
            bits: sequence.bits as u8,
            from_first: sequence.from_first,
            retain,
            headers_only: sequence.headers_only || !retain && !delivers && !tells,
            overwrite: sequence.overwrite,
            distinct: sequence.distinct && self.need.strict,
            tells,
            metas,
            wholes,
        });
    }

    pub(super) fn sequence_of(&self, table: Table) -> Sequence {
        let index = self.b.graph.sequences.iter().position(|s| s.table == table);
        Sequence(index.expect("declared with its table") as u32)
    }

    /// The fields that conditions read with `ordered.`.
    fn ordered_ids(&self, id: LayerId) -> Vec<FieldId> {
        let mut fields = vec![];
        crate::walk::for_each_expr(&self.layer(id).protocol, &mut |e| {
            if let Expr::Ordered(f) = e
                && !fields.contains(f)
            {
                fields.push(*f);
            }
        });
        fields
    }

    pub(super) fn ordered_fields(&mut self, id: LayerId) -> Vec<(FieldId, Variable)> {
        self.ordered_ids(id).into_iter().map(|f| (f, self.b.variable(Type::Int))).collect()
    }

    pub(super) fn ordered_value(&mut self, field: FieldId) -> Value {
        let context = self.context();
        let found = context.ordered.iter().find(|(f, _)| *f == field);
        let variable = found.expect("collected from the same expressions").1;
        self.b.read(variable)
    }

    /// Lowers a layer without sequence: each packet's payload is delivered when the event that delivers
    /// occurs.
    pub(super) fn lower_datagram(&mut self, id: LayerId, context: &FlowContext) {
        let protocol = &self.layer(id).protocol;
        if !delivered_on(protocol) {
            return;
        }
        let mut conditions = protocol.events.iter().filter(|event| is_delivering(protocol, event));
        match conditions.try_fold(vec![], |mut all, event| {
            all.push(event.condition.as_ref()?);
            Some(all)
        }) {
            Some(conditions) => {
                let mut any = self.b.bool(false);
                for condition in conditions {
                    let holds = self.truth(id, condition);
                    any = self.b.binary(BinaryOp::Or, any, holds);
                }
                self.lower_either(any, |l| l.deliver_payload(id, context), |_| {});
            }
            // An event without a condition always occurs.
            None => self.deliver_payload(id, context),
        }
    }

    fn deliver_payload(&mut self, id: LayerId, context: &FlowContext) {
        let vars = self.vars(id);
        let buf = self.b.read(self.buf);
        let offset = self.b.read(vars.payload_at.expect("declared"));
        let length = self.b.read(vars.payload_bytes.expect("declared"));
        let gap = self.b.int(0);
        let always = self.b.bool(true);
        self.lower_deliver(context, always, [gap, buf, offset, length]);
    }

    /// Delivers in-order bytes, if the flow's bytes are wanted and the bytes are before the cutoff.
    fn lower_deliver(
        &mut self,
        context: &FlowContext,
        is_before_cutoff: Value,
        [gap, buf, offset, length]: [Value; 4],
    ) {
        let var = self.engine_var(context.table, EngineVar::Wants);
        let wants = self.b.one(Op::Get { flow: context.flow, var, side: None });
        let [originator, responder] = WANTS_BYTES.map(|bit| self.b.int(bit));
        let bit = self.b.one(Op::Select(context.responder, responder, originator));
        let wanted = self.b.binary(BinaryOp::And, wants, bit);
        let wanted = self.b.truth(wanted);
        let wanted = self.b.binary(BinaryOp::And, wanted, is_before_cutoff);
        // A pure acknowledgement has no bytes.
        let something = self.b.binary(BinaryOp::Or, gap, length);
        let something = self.b.truth(something);
        let wanted = self.b.binary(BinaryOp::And, wanted, something);
        let (flow, side) = (context.flow, context.responder);
        self.lower_either(
            wanted,
            |l| drop(l.b.push(Op::Deliver { flow, side, gap, buf, offset, length })),
            |_| {},
        );
    }

    pub(super) fn lower_sequence(&mut self, id: LayerId, context: &FlowContext) {
        self.lower_confirm(id, context);
        self.lower_acknowledge(id, context);
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let condition = declared.condition.as_ref().filter(|condition| self.known(condition) != Some(true));
        let taken = condition.map(|condition| self.truth(id, condition));
        // The work on inserted packets stands inside the conditions, so that passes can copy it as a whole.
        self.lower_where(taken, |l| {
            let offer = l.lower_offer(id, context);
            l.lower_hold(id, context, offer.at);
            match &declared.window {
                Some((low, size)) => {
                    let bits = if declared.from_first { declared.bits } else { 64 };
                    let (low, size) = (l.int(id, low), l.int(id, size));
                    let inside = l.meets_window(offer.at, offer.span, low, size, bits);
                    l.lower_either(
                        inside,
                        |l| l.lower_offered(id, context, offer),
                        |l| l.lower_events(id, &context.telling, Trigger::OutOfWindow),
                    );
                }
                None => l.lower_offered(id, context, offer),
            }
        });
        self.lower_end(id, context);
    }

    /// Inserts a packet's payload, and processes the packets that are in order now.
    fn lower_offered(&mut self, id: LayerId, context: &FlowContext, offer: Offer) {
        let (sequence, flow, side) = (self.sequence_of(context.table), context.flow, context.responder);
        let inserted = self.lower_insert(context, offer);
        let piece = Piece {
            side: self.b.variable(Type::Bool),
            gap: self.b.variable(Type::Int),
            buf: self.b.variable(Type::Buf),
            offset: self.b.variable(Type::Int),
            length: self.b.variable(Type::Int),
        };
        let inserted = self.lower_inconsistent(id, context, inserted);
        let [now, later, ordered, next, pull, queued, after] = [(); 7].map(|()| self.b.block());
        let code = self.b.int(SEQ_ORDERED);
        let in_order = self.b.compare(CompareOp::Eq, inserted.status, code);
        self.b.branch(in_order, now, later);
        self.b.seal(now);
        self.b.seal(later);

        self.b.switch_to(now);
        let zero = self.b.int(0);
        let start = self.b.binary(BinaryOp::Add, inserted.offset, inserted.skip);
        let rest = self.b.binary(BinaryOp::SubSat, inserted.length, inserted.skip);
        self.b.write(piece.side, side);
        self.write_piece(context, &piece, &[zero, inserted.buf, start, rest], &inserted.metas);
        self.b.jump(ordered);

        self.b.switch_to(later);
        self.lower_status(id, context, inserted.status, SEQ_RETRANSMITTED, Trigger::Retransmission);
        self.lower_status(id, context, inserted.status, SEQ_OUT_OF_WINDOW, Trigger::OutOfWindow);
        let code = self.b.int(SEQ_FORCED);
        let forced = self.b.compare(CompareOp::Eq, inserted.status, code);
        self.b.branch(forced, next, after);

        self.b.switch_to(ordered);
        self.lower_ordered(id, context, &piece);
        // Bytes are rarely queued.
        let var = self.engine_var(context.table, EngineVar::SeqFlags);
        let flags = self.b.one(Op::Get { flow, var, side: Some(side) });
        let waiting = self.b.int(u64::from(QUEUED | ACKNOWLEDGES | EXPECTED));
        let waits = self.b.binary(BinaryOp::And, flags, waiting);
        let waits = self.b.truth(waits);
        self.b.branch(waits, next, after);
        self.b.seal(next);

        self.b.switch_to(next);
        self.b.again(ORDERED_MAX, pull, after);
        self.b.seal(pull);
        self.b.switch_to(pull);
        let pulled = self.b.push(Op::SeqNext { sequence, flow, side });
        self.b.branch(pulled[0], queued, after);
        self.b.seal(queued);
        self.b.switch_to(queued);
        let whose = match self.layer(id).protocol.sequence.as_ref().is_some_and(|s| s.acknowledge.is_some()) {
            true => self.b.binary(BinaryOp::Xor, side, pulled[5]),
            false => side,
        };
        self.b.write(piece.side, whose);
        self.write_piece(context, &piece, &pulled[1..5], &pulled[6..]);
        self.lower_gap(id, context, &piece);
        self.b.jump(ordered);
        self.b.seal(ordered);
        self.b.seal(after);
        self.b.switch_to(after);
    }

    /// If the packet says at which number the opposite direction begins, the sequence begins there.
    fn lower_confirm(&mut self, id: LayerId, context: &FlowContext) {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let Some((at, condition)) = &declared.confirm else { return };
        let (sequence, flow) = (self.sequence_of(context.table), context.flow);
        let condition = condition.as_ref().map(|condition| self.truth(id, condition));
        self.lower_where(condition, |l| {
            let (at, side) = (l.int(id, at), l.b.one(Op::Not(context.responder)));
            l.b.push(Op::SeqBegin { sequence, flow, side, at });
        });
    }

    /// If the packet's numbers count only once they are acknowledged, says so before they are inserted.
    fn lower_hold(&mut self, id: LayerId, context: &FlowContext, at: Value) {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let Some((count, condition)) = &declared.hold else { return };
        if condition.as_ref().is_some_and(|condition| self.known(condition) == Some(false)) {
            return;
        }
        let (sequence, flow, side) = (self.sequence_of(context.table), context.flow, context.responder);
        let condition = condition.as_ref().map(|condition| self.truth(id, condition));
        self.lower_where(condition, |l| {
            let span = l.int(id, count);
            l.b.push(Op::SeqHold { sequence, flow, side, at, span });
        });
    }

    /// If the packet ends both directions without a number of its own (a reset), their sequences may end with
    /// what has passed.
    fn lower_end(&mut self, id: LayerId, context: &FlowContext) {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let Some(end) = declared.end.as_ref().filter(|end| self.known(end) != Some(false)) else { return };
        let (sequence, flow, side) = (self.sequence_of(context.table), context.flow, context.responder);
        let ends = self.truth(id, end);
        self.lower_either(
            ends,
            |l| {
                let other = l.b.one(Op::Not(side));
                let nothing = l.b.int(0);
                for side in [side, other] {
                    l.b.push(Op::SeqHold { sequence, flow, side, at: nothing, span: nothing });
                }
            },
            |_| {},
        );
    }

    /// If the packet acknowledges a gap of the opposite direction behind which bytes are queued, those bytes
    /// are processed before the packet's own. If the packet has payload and acknowledges bytes that have not
    /// arrived, its payload waits for them.
    fn lower_acknowledge(&mut self, id: LayerId, context: &FlowContext) {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let Some((at, condition)) = &declared.acknowledge else { return };
        let sequence = self.sequence_of(context.table);
        let (flow, var) = (context.flow, self.engine_var(context.table, EngineVar::SeqFlags));
        let side = self.b.one(Op::Not(context.responder));
        let flags = self.b.one(Op::Get { flow, var, side: Some(side) });
        let queued = self.b.int(u64::from(QUEUED));
        let waits = self.b.binary(BinaryOp::And, flags, queued);
        let waits = self.b.truth(waits);
        let at = self.int(id, at);
        let concerns = match self.b.graph.sequences[sequence.index()].headers_only {
            true => waits,
            false => {
                let is_ahead = self.is_ahead(id, context, at, flags);
                self.b.binary(BinaryOp::Or, waits, is_ahead)
            }
        };
        self.lower_either(
            concerns,
            |l| {
                let condition = condition.as_ref().map(|condition| l.truth(id, condition));
                l.lower_where(condition, |l| {
                    l.b.push(Op::SeqAcknowledge { sequence, flow, side, at });
                });
            },
            |_| {},
        );
    }

    /// Whether the packet has payload and acknowledges numbers of the opposite direction, before `at`, that
    /// have not arrived.
    fn is_ahead(&mut self, id: LayerId, context: &FlowContext, at: Value, flags: Value) -> Value {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let (from_first, bits) = (declared.from_first, declared.bits);
        let length = self.vars(id).payload_bytes.expect("declared");
        let length = self.b.read(length);
        let brings = self.b.truth(length);
        let [bits_of_it, started] = [STARTED | UNAWAITED, STARTED].map(|bits| self.b.int(u64::from(bits)));
        let it = self.b.binary(BinaryOp::And, flags, bits_of_it);
        let has_started = self.b.compare(CompareOp::Eq, it, started);
        let (flow, var) = (context.flow, self.engine_var(context.table, EngineVar::SeqNext));
        let side = self.b.one(Op::Not(context.responder));
        let next = self.b.one(Op::Get { flow, var, side: Some(side) });
        // `at` is ahead if it is after the next number by at most half of the number space; otherwise it is
        // behind.
        let mask = u64::MAX >> (64 - if from_first { bits } else { 64 });
        let [mask, half, one] = [mask, mask >> 1, 1].map(|number| self.b.int(number));
        let ahead = self.b.binary(BinaryOp::Sub, at, next);
        let ahead = self.b.binary(BinaryOp::And, ahead, mask);
        let ahead = self.b.binary(BinaryOp::Sub, ahead, one);
        let is_ahead = self.b.compare(CompareOp::Lt, ahead, half);
        let is_ahead = self.b.binary(BinaryOp::And, is_ahead, has_started);
        self.b.binary(BinaryOp::And, is_ahead, brings)
    }

    /// The payload that the packet offers to the sequence.
    fn lower_offer(&mut self, id: LayerId, context: &FlowContext) -> Offer {
        let declared = self.layer(id).protocol.sequence.as_ref().expect("the caller looked");
        let vars = self.vars(id);
        let buf = self.b.read(self.buf);
        let (offset, length) = match declared.of {
            Some(field) => vars.field_at[usize::from(field.0)],
            None => (vars.payload_at.expect("declared"), vars.payload_bytes.expect("declared")),
        };
        let (offset, length) = (self.b.read(offset), self.b.read(length));
        let at = self.int(id, &declared.at);
        let span = match &declared.span {
            Some(span) => {
                let value = self.int(id, span);
                if bound(self.layer(id), span) > SPAN_MAX {
                    let most = self.b.int(SPAN_MAX);
                    self.b.binary(BinaryOp::Min, value, most)
                } else {
                    value
                }
            }
            None => length,
        };
        let mut metas = self.lower_whole(id);
        metas.extend(context.ordered.iter().map(|&(f, _)| self.int(id, &Expr::Field(f))));
        Offer { at, span, buf, offset, length, metas }
    }

    fn lower_insert(&mut self, context: &FlowContext, offer: Offer) -> Inserted {
        let (sequence, flow, side) = (self.sequence_of(context.table), context.flow, context.responder);
        let Offer { at, span, buf, offset, length, metas } = offer;
        let op = Op::SeqInsert { sequence, flow, side, at, buf, offset, length, span, metas: metas.clone() };
        let results = self.b.push(op);
        Inserted { status: results[0], skip: results[1], buf, offset, length, metas }
    }

    /// Whether a number of `at .. at + span` is in `low .. low + size`, modulo 2 to the power of `bits`. If
    /// `span` is 0, `at` itself counts, and may equal the window's end.
    fn meets_window(&mut self, at: Value, span: Value, low: Value, size: Value, bits: u32) -> Value {
        let mask = self.b.int(u64::MAX >> (64 - bits));
        let zero = self.b.int(0);
        let [behind, ahead] = [(at, low), (low, at)].map(|(a, b)| {
            let distance = self.b.binary(BinaryOp::Sub, a, b);
            self.b.binary(BinaryOp::And, distance, mask)
        });
        let starts_inside = self.b.compare(CompareOp::Lt, behind, size);
        let holds_its_start = self.b.compare(CompareOp::Lt, ahead, span);
        let has_size = self.b.compare(CompareOp::Lt, zero, size);
        let holds_its_start = self.b.binary(BinaryOp::And, holds_its_start, has_size);
        let meets = self.b.binary(BinaryOp::Or, starts_inside, holds_its_start);
        let is_empty = self.b.compare(CompareOp::Eq, span, zero);
        let at_its_end = self.b.compare(CompareOp::Eq, behind, size);
        let at_its_end = self.b.binary(BinaryOp::And, is_empty, at_its_end);
        self.b.binary(BinaryOp::Or, meets, at_its_end)
    }

    /// Sets the packet to process: gap, buffer, offset and length of its bytes, and its stored values.
    fn write_piece(&mut self, context: &FlowContext, piece: &Piece, values: &[Value], metas: &[Value]) {
        for (variable, &value) in [piece.gap, piece.buf, piece.offset, piece.length].into_iter().zip(values) {
            self.b.write(variable, value);
        }
        let ordered = context.ordered.iter().map(|&(_, variable)| variable);
        for (variable, &value) in context.whole.iter().copied().chain(ordered).zip(metas) {
            self.b.write(variable, value);
        }
    }

    /// Lowers the processing of a packet whose bytes are in order.
    fn lower_ordered(&mut self, id: LayerId, context: &FlowContext, piece: &Piece) {
        // All effects apply to the direction of the bytes.
        let context = &context.of_side(self.b.read(piece.side));
        let packet = self.flow.replace(context.clone());
        let protocol = &self.layer(id).protocol;
        if !protocol.states.is_empty() {
            self.lower_transitions(id, context, true);
        }
        self.lower_events(id, &context.telling, Trigger::Ordered);
        if delivered_on(protocol) {
            let [gap, offset, length] = [piece.gap, piece.offset, piece.length].map(|v| self.b.read(v));
            let buf = self.b.read(piece.buf);
            let before = self.lower_cutoff(context, length);
            self.lower_deliver(context, before, [gap, buf, offset, length]);
            self.lower_collect(id, context, [gap, buf, offset, length]);
        }
        self.flow = packet;
    }

    /// Whether some of the `length` in-order bytes may be before the cutoff of their stream. Inexact: while
    /// bytes are queued, the end of the current bytes is not known here. The receiver of the bytes applies
    /// the exact cutoff.
    fn lower_cutoff(&mut self, context: &FlowContext, length: Value) -> Value {
        let Some([originator, responder]) = self.need.cutoff else { return self.b.bool(true) };
        let (flow, side) = (context.flow, Some(context.responder));
        let get = |l: &mut Self, name| {
            let var = l.engine_var(context.table, name);
            l.b.one(Op::Get { flow, var, side })
        };
        let (high, flags) = (get(self, EngineVar::SeqHigh), get(self, EngineVar::SeqFlags));
        let [originator, responder] = [originator, responder].map(|bytes| self.b.int(bytes));
        let cutoff = self.b.one(Op::Select(context.responder, responder, originator));
        // The latest end of the bytes. Written as a difference, because adding to an unlimited cutoff would
        // wrap.
        let start = self.b.binary(BinaryOp::SubSat, high, length);
        let is_beyond = self.b.compare(CompareOp::Lt, cutoff, start);
        let queued = self.b.int(u64::from(QUEUED));
        let waits = self.b.binary(BinaryOp::And, flags, queued);
        let zero = self.b.int(0);
        let nothing_waits = self.b.compare(CompareOp::Eq, waits, zero);
        let skip = self.b.binary(BinaryOp::And, is_beyond, nothing_waits);
        self.b.one(Op::Not(skip))
    }

    /// Whether contradicting retransmissions are reported.
    fn tells_inconsistent(&self, id: LayerId) -> bool {
        let is_heeded = !self.need.events.is_empty() || self.is_asked_for_events(id);
        let mut events = self.layer(id).protocol.events.iter();
        is_heeded && events.any(|event| event.triggers.contains(&Trigger::Inconsistent))
    }

    /// Lowers the event for contradicting bytes, and clears its bit in the status.
    fn lower_inconsistent(&mut self, id: LayerId, context: &FlowContext, inserted: Inserted) -> Inserted {
        if !self.tells_inconsistent(id) {
            return inserted;
        }
        let [bit, others] = [SEQ_INCONSISTENT, SEQ_INCONSISTENT - 1].map(|bits| self.b.int(bits));
        let differs = self.b.binary(BinaryOp::And, inserted.status, bit);
        let differs = self.b.truth(differs);
        self.lower_either(differs, |l| l.lower_events(id, &context.telling, Trigger::Inconsistent), |_| {});
        Inserted { status: self.b.binary(BinaryOp::And, inserted.status, others), ..inserted }
    }

    fn lower_status(
        &mut self,
        id: LayerId,
        context: &FlowContext,
        status: Value,
        code: u64,
        trigger: Trigger,
    ) {
        let protocol = &self.layer(id).protocol;
        let mut statements =
            protocol.on.iter().filter(|(on, _)| *on == trigger).map(|(_, list)| list).peekable();
        let has_event = protocol.events.iter().any(|e| e.triggers.contains(&trigger));
        if !has_event && statements.peek().is_none() {
            return;
        }
        let code = self.b.int(code);
        let is = self.b.compare(CompareOp::Eq, status, code);
        self.lower_either(
            is,
            |l| {
                statements.for_each(|list| l.lower_statements(id, list));
                l.lower_events(id, &context.telling, trigger);
            },
            |_| {},
        );
    }
}

/// A simple upper bound of `expr`.
fn bound(layer: &Layer, expr: &Expr) -> u64 {
    match expr {
        Expr::Number(number) => *number,
        Expr::Field(field) | Expr::Ordered(field) => {
            match static_field_bits(&layer.protocol.fields[usize::from(field.0)].ty) {
                Some(bits @ 1..64) => (1 << bits) - 1,
                _ => u64::MAX,
            }
        }
        Expr::Let(value) => bound(layer, &layer.protocol.lets[usize::from(value.0)].value),
        Expr::Var(var, _) => u64::MAX >> (64 - layer.protocol.vars[usize::from(var.0)].bits),
        Expr::PayloadLength | Expr::RestLength | Expr::HeaderLength | Expr::LayerLength => {
            u64::from(u32::MAX)
        }
        Expr::Binary(model::BinaryOp::Add, a, b) => bound(layer, a).saturating_add(bound(layer, b)),
        Expr::Binary(model::BinaryOp::And, a, b) => bound(layer, a).min(bound(layer, b)),
        Expr::Choose(_, a, b) => bound(layer, a).max(bound(layer, b)),
        Expr::Present(_)
        | Expr::InState(_)
        | Expr::Originator
        | Expr::Not(_)
        | Expr::In(..)
        | Expr::ItemsFit(_)
        | Expr::Strict
        | Expr::Unwanted => 1,
        Expr::Sum16(..) => u64::from(u16::MAX),
        Expr::Binary(..) | Expr::Below(_) | Expr::Cursor | Expr::Time => u64::MAX,
    }
}

/// Whether an event delivers bytes: in-order bytes if there is a sequence, else those of each packet.
pub(super) fn delivered_on(protocol: &model::Protocol) -> bool {
    protocol.events.iter().any(|event| is_delivering(protocol, event))
}

/// Whether bytes are delivered when this event occurs.
fn is_delivering(protocol: &model::Protocol, event: &model::Event) -> bool {
    let trigger = if protocol.sequence.is_some() { Trigger::Ordered } else { Trigger::Packet };
    event.assemble && event.triggers.contains(&trigger)
}

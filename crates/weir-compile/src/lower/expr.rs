//! Lowers expressions of the protocol language to values.

use super::Lower;
use weir_ir::graph::{BinaryOp, Block, CompareOp, Meta, Op, Value};
use weir_lang::model::{self, Expr, LayerId, Protocol};

impl Lower<'_> {
    /// The value of an expression as an int.
    pub(super) fn int(&mut self, id: LayerId, expr: &Expr) -> Value {
        match expr {
            Expr::Number(n) => self.b.int(*n),
            Expr::Field(field) => {
                let variable = self.vars(id).fields[field.0 as usize].0;
                self.b.read(variable)
            }
            Expr::Ordered(field) => self.ordered_value(*field),
            Expr::Let(value) => self.let_value(id, value.0 as usize),
            Expr::Below(name) => {
                let low = self.below[name].0;
                self.b.read(low)
            }
            Expr::Var(var, side) => self.var_value(id, *var, *side),
            Expr::PayloadLength => {
                let variable = self.vars(id).payload_bytes.expect("declared");
                self.b.read(variable)
            }
            Expr::RestLength => {
                let variable = self.vars(id).rest_bytes.expect("declared");
                self.b.read(variable)
            }
            Expr::HeaderLength => {
                let variable = self.vars(id).header_bytes.expect("declared");
                self.b.read(variable)
            }
            Expr::LayerLength => {
                let variable = self.vars(id).layer_bytes.expect("declared");
                self.b.read(variable)
            }
            Expr::Binary(op, a, b) if !is_logic(*op) => {
                let (a, b) = (self.int(id, a), self.int(id, b));
                self.apply(*op, a, b)
            }
            Expr::Choose(condition, a, b) => {
                if let Some(known) = self.known(condition) {
                    return self.int(id, if known { a } else { b });
                }
                let condition = self.truth(id, condition);
                let (a, b) = (self.int(id, a), self.int(id, b));
                self.b.one(Op::Select(condition, a, b))
            }
            Expr::Sum16(args) => {
                let start = self.vars(id).start.expect("declared");
                let (buf, start) = (self.b.read(self.buf), self.b.read(start));
                let [offset, length, first] = [0, 1, 2].map(|place| self.int(id, &args[place]));
                let offset = self.b.binary(BinaryOp::Add, start, offset);
                self.b.one(Op::Sum16 { buf, offset, length, first })
            }
            Expr::ItemsFit(args) => {
                let start = self.vars(id).start.expect("declared");
                let (buf, start) = (self.b.read(self.buf), self.b.read(start));
                let [offset, length] = [0, 1].map(|place| self.int(id, &args[place]));
                let offset = self.b.binary(BinaryOp::Add, start, offset);
                self.b.one(Op::ItemsFit { buf, offset, length })
            }
            Expr::Strict => self.b.int(u64::from(self.need.strict)),
            Expr::Unwanted => {
                let unwanted = self.is_unwanted();
                self.b.one(Op::FromBool(unwanted))
            }
            Expr::Time => self.b.one(Op::Meta(Meta::Time)),
            Expr::Cursor => self.cursor.expect("the checker lets it stand in headers alone"),
            Expr::Present(_)
            | Expr::Originator
            | Expr::InState(_)
            | Expr::Not(_)
            | Expr::In(..)
            | Expr::Binary(..) => {
                let truth = self.truth(id, expr);
                self.b.one(Op::FromBool(truth))
            }
        }
    }

    /// Whether an expression is not 0; `None` if that depends on the packet. Programs without strict
    /// reassembly therefore contain no code for it.
    pub(super) fn known(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Number(n) => Some(*n != 0),
            Expr::Strict => Some(self.need.strict),
            Expr::Not(inner) => self.known(inner).map(|known| !known),
            Expr::Binary(model::BinaryOp::LogicalAnd, a, b) => match (self.known(a), self.known(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (a, b) => a.zip(b).map(|_| true),
            },
            Expr::Binary(model::BinaryOp::LogicalOr, a, b) => match (self.known(a), self.known(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (a, b) => a.zip(b).map(|_| false),
            },
            _ => None,
        }
    }

    /// Whether an expression is not 0.
    pub(super) fn truth(&mut self, id: LayerId, expr: &Expr) -> Value {
        if let Some(known) = self.known(expr) {
            return self.b.bool(known);
        }
        match expr {
            Expr::Present(presence) => {
                let variable = self.vars(id).presences[presence.0 as usize];
                self.b.read(variable)
            }
            Expr::Originator => {
                let responder = self.responder();
                self.b.one(Op::Not(responder))
            }
            Expr::InState(state) => self.is_in_state(*state),
            Expr::Unwanted => self.is_unwanted(),
            Expr::Not(inner) => {
                let inner = self.truth(id, inner);
                self.b.one(Op::Not(inner))
            }
            Expr::Binary(model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr, known, other)
            | Expr::Binary(model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr, other, known)
                if self.known(known).is_some() =>
            {
                self.truth(id, other)
            }
            Expr::Binary(op @ (model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr), a, b) => {
                let (a, b) = (self.truth(id, a), self.truth(id, b));
                let op = match op {
                    model::BinaryOp::LogicalAnd => BinaryOp::And,
                    _ => BinaryOp::Or,
                };
                self.b.binary(op, a, b)
            }
            Expr::Binary(op, a, b) if is_logic(*op) => {
                let (a, b) = (self.int(id, a), self.int(id, b));
                self.compare(*op, a, b)
            }
            Expr::In(value, ranges) => {
                let value = self.int(id, value);
                let mut any = self.b.bool(false);
                for &(low, high) in ranges {
                    let inside = self.between(value, low, high);
                    any = self.b.binary(BinaryOp::Or, any, inside);
                }
                any
            }
            other => {
                let value = self.int(id, other);
                self.b.truth(value)
            }
        }
    }

    /// Continues in one of two blocks, as a condition says. The second operand of `and` and `or` is computed
    /// only where the first one does not decide: for conditions that hold for few packets.
    pub(super) fn lower_condition(&mut self, id: LayerId, expr: &Expr, yes: Block, no: Block) {
        match expr {
            Expr::Not(inner) => self.lower_condition(id, inner, no, yes),
            Expr::Binary(model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr, known, other)
            | Expr::Binary(model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr, other, known)
                if self.known(known).is_some() && self.known(expr).is_none() =>
            {
                self.lower_condition(id, other, yes, no);
            }
            Expr::Binary(op @ (model::BinaryOp::LogicalAnd | model::BinaryOp::LogicalOr), first, second)
                if self.known(expr).is_none() =>
            {
                let undecided = self.b.block();
                match op {
                    model::BinaryOp::LogicalAnd => self.lower_condition(id, first, undecided, no),
                    _ => self.lower_condition(id, first, yes, undecided),
                }
                self.b.seal(undecided);
                self.b.switch_to(undecided);
                self.lower_condition(id, second, yes, no);
            }
            other => {
                let holds = self.truth(id, other);
                self.b.branch(holds, yes, no);
            }
        }
    }

    /// Whether `low <= value <= high`.
    pub(super) fn between(&mut self, value: Value, low: u64, high: u64) -> Value {
        let bottom = self.b.int(low);
        if low == high {
            return self.b.compare(CompareOp::Eq, value, bottom);
        }
        let above = self.b.binary(BinaryOp::Sub, value, bottom);
        let width = self.b.int(high.wrapping_sub(low));
        self.b.compare(CompareOp::Le, above, width)
    }

    /// Applies an operator to two ints; the result is an int.
    pub(super) fn apply(&mut self, op: model::BinaryOp, a: Value, b: Value) -> Value {
        let arithmetic = match op {
            model::BinaryOp::Add => BinaryOp::Add,
            model::BinaryOp::Sub => BinaryOp::SubSat,
            model::BinaryOp::Mul => BinaryOp::Mul,
            model::BinaryOp::Div => BinaryOp::Div,
            model::BinaryOp::Rem => BinaryOp::Rem,
            model::BinaryOp::And => BinaryOp::And,
            model::BinaryOp::Or => BinaryOp::Or,
            model::BinaryOp::Xor => BinaryOp::Xor,
            model::BinaryOp::Shl => BinaryOp::Shl,
            model::BinaryOp::Shr => BinaryOp::Shr,
            comparison => {
                let truth = self.compare(comparison, a, b);
                return self.b.one(Op::FromBool(truth));
            }
        };
        self.b.binary(arithmetic, a, b)
    }

    fn compare(&mut self, op: model::BinaryOp, a: Value, b: Value) -> Value {
        match op {
            model::BinaryOp::Eq => self.b.compare(CompareOp::Eq, a, b),
            model::BinaryOp::Ne => self.b.compare(CompareOp::Ne, a, b),
            model::BinaryOp::Lt => self.b.compare(CompareOp::Lt, a, b),
            model::BinaryOp::Le => self.b.compare(CompareOp::Le, a, b),
            model::BinaryOp::Gt => self.b.compare(CompareOp::Lt, b, a),
            model::BinaryOp::Ge => self.b.compare(CompareOp::Le, b, a),
            other => unreachable!("{other:?} is no comparison"),
        }
    }

    pub(super) fn let_value(&mut self, id: LayerId, index: usize) -> Value {
        let variable = self.vars(id).lets[index].expect("declared");
        self.b.read(variable)
    }

    fn are_known(&mut self, id: LayerId, parts: &[Expr]) -> Value {
        let mut all = self.b.bool(true);
        for part in parts {
            let known = self.is_known(id, part);
            all = self.b.binary(BinaryOp::And, all, known);
        }
        all
    }

    /// Whether all header fields that `expr` reads are present: a missing field counts as 0, and a result
    /// computed from it is invalid. For a derived value, this was computed with the value.
    pub(super) fn is_known(&mut self, id: LayerId, expr: &Expr) -> Value {
        match expr {
            Expr::Field(field) | Expr::Ordered(field) => {
                match self.vars(id).field_present[usize::from(field.0)] {
                    Some(present) => self.b.read(present),
                    None => self.b.bool(true),
                }
            }
            Expr::Let(value) => {
                let known = self.vars(id).lets_known[usize::from(value.0)];
                self.b.read(known)
            }
            Expr::Not(inner) | Expr::In(inner, _) => self.is_known(id, inner),
            Expr::Sum16(parts) => self.are_known(id, &parts[..]),
            Expr::ItemsFit(parts) => self.are_known(id, &parts[..]),
            // The second operand is not evaluated if the first one decides.
            Expr::Binary(model::BinaryOp::LogicalAnd, a, b) => self.is_known_of(id, a, b, &Expr::Number(0)),
            Expr::Binary(model::BinaryOp::LogicalOr, a, b) => self.is_known_of(id, a, &Expr::Number(1), b),
            Expr::Choose(condition, then, otherwise) => self.is_known_of(id, condition, then, otherwise),
            Expr::Binary(_, a, b) => {
                let (a, b) = (self.is_known(id, a), self.is_known(id, b));
                self.b.binary(BinaryOp::And, a, b)
            }
            // A time or an interval that was not set yet.
            Expr::Var(var, side) if has_unit(&self.layer(id).protocol, *var) => {
                let value = self.var_value(id, *var, *side);
                self.b.truth(value)
            }
            Expr::Number(_)
            | Expr::Present(_)
            | Expr::Below(_)
            | Expr::Var(..)
            | Expr::PayloadLength
            | Expr::RestLength
            | Expr::HeaderLength
            | Expr::LayerLength
            | Expr::Cursor
            | Expr::Strict
            | Expr::Unwanted
            | Expr::Time
            | Expr::InState(_)
            | Expr::Originator => self.b.bool(true),
        }
    }

    fn is_known_of(&mut self, id: LayerId, condition: &Expr, then: &Expr, otherwise: &Expr) -> Value {
        let known = self.is_known(id, condition);
        let (then, otherwise) = (self.is_known(id, then), self.is_known(id, otherwise));
        let holds = self.truth(id, condition);
        let fails = self.b.one(Op::Not(holds));
        let then = self.b.binary(BinaryOp::And, holds, then);
        let otherwise = self.b.binary(BinaryOp::And, fails, otherwise);
        let either = self.b.binary(BinaryOp::Or, then, otherwise);
        self.b.binary(BinaryOp::And, known, either)
    }
}

/// Whether a variable is a time or an interval, which are absent while 0.
pub(super) fn has_unit(protocol: &Protocol, var: model::VarId) -> bool {
    protocol.vars[usize::from(var.0)].unit != model::Unit::None
}

/// Whether the value of `expr` is always 0 or 1.
pub(super) fn is_truth(protocol: &Protocol, expr: &Expr) -> bool {
    match expr {
        Expr::Not(_)
        | Expr::In(..)
        | Expr::Present(_)
        | Expr::ItemsFit(_)
        | Expr::Strict
        | Expr::Unwanted
        | Expr::InState(_)
        | Expr::Originator => true,
        Expr::Binary(op, ..) => is_logic(*op),
        Expr::Field(field) => {
            matches!(protocol.fields[usize::from(field.0)].ty, model::FieldType::Unsigned { bits: 1, .. })
        }
        Expr::Let(value) => is_truth(protocol, &protocol.lets[usize::from(value.0)].value),
        Expr::Choose(_, then, otherwise) => is_truth(protocol, then) && is_truth(protocol, otherwise),
        _ => false,
    }
}

fn is_logic(op: model::BinaryOp) -> bool {
    use model::BinaryOp::{Eq, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt, Ne};
    matches!(op, Eq | Ne | Lt | Le | Gt | Ge | LogicalAnd | LogicalOr)
}

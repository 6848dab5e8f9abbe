//! The rules that replace one instruction by a simpler one.
//!
//! A rule matches the instruction, the definitions of its operands, and their upper bounds.

use crate::graph::{BinaryOp, CompareOp, Graph, Inst, Meta, Op, Type, Value, VarKind};

/// Sums of numbers below this cannot wrap.
const EXACT: u64 = 1 << 46;

/// The definition of a value, as far as rules match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Other,
    Constant(u64),
    Binary(BinaryOp, Value, Value),
    Compare(CompareOp, Value, Value),
    Not(Value),
    FromBool(Value),
    Select(Value, Value, Value),
}

/// The definitions and bounds of the values seen so far.
#[derive(Debug)]
pub(super) struct Facts {
    definitions: Vec<Definition>,
    /// By value: its upper bound.
    max: Vec<u64>,
}

/// The result of matching the rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No rule matches.
    Keep,
    /// The instruction equals another value.
    Same(Value),
    /// The instruction equals this number (or bool).
    Constant(u64),
    /// An equivalent instruction.
    Instead(Op),
    /// Equivalent arithmetic on this value and this number.
    With(BinaryOp, Value, u64),
}

impl Facts {
    /// Knows only the types.
    pub fn of(graph: &Graph) -> Self {
        let max = |ty: &Type| if *ty == Type::Bool { 1 } else { u64::MAX };
        Self {
            definitions: vec![Definition::Other; graph.values.len()],
            max: graph.values.iter().map(max).collect(),
        }
    }

    /// Records the definition of an instruction's result.
    pub fn learn(&mut self, graph: &Graph, inst: &Inst) {
        let [result] = inst.results[..] else { return };
        let definition = match inst.op {
            Op::Const(n) => Definition::Constant(n),
            Op::Bool(b) => Definition::Constant(u64::from(b)),
            Op::Binary(op, a, b) => Definition::Binary(op, a, b),
            Op::Compare(op, a, b) => Definition::Compare(op, a, b),
            Op::Not(a) => Definition::Not(a),
            Op::FromBool(a) => Definition::FromBool(a),
            Op::Select(a, b, c) => Definition::Select(a, b, c),
            _ => Definition::Other,
        };
        if self.definitions.len() < graph.values.len() {
            self.definitions.resize(graph.values.len(), Definition::Other);
            self.max.resize(graph.values.len(), u64::MAX);
        }
        self.definitions[result.index()] = definition;
        self.max[result.index()] = self.max_of(graph, &inst.op);
    }

    /// The number of a constant value.
    pub fn constant(&self, value: Value) -> Option<u64> {
        match self.definition(value) {
            Definition::Constant(n) => Some(n),
            _ => None,
        }
    }

    /// The operand of a `not`.
    pub fn negated(&self, value: Value) -> Option<Value> {
        match self.definition(value) {
            Definition::Not(inner) => Some(inner),
            _ => None,
        }
    }

    /// The upper bound of a value.
    pub fn max(&self, value: Value) -> u64 {
        self.max.get(value.index()).copied().unwrap_or(u64::MAX)
    }

    /// A lower bound of a value: of a constant, or of a sum that cannot wrap.
    fn least(&self, value: Value) -> u64 {
        match self.definition(value) {
            Definition::Constant(n) => n,
            Definition::Binary(BinaryOp::Add, x, y) if self.max(x) < EXACT && self.max(y) < EXACT => {
                self.constant(x).unwrap_or(0) + self.constant(y).unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn definition(&self, value: Value) -> Definition {
        self.definitions.get(value.index()).copied().unwrap_or(Definition::Other)
    }

    fn max_of(&self, graph: &Graph, op: &Op) -> u64 {
        match op {
            Op::Const(n) => *n,
            Op::Binary(op, a, b) => {
                let (a, b) = (self.max(*a), self.max(*b));
                match op {
                    BinaryOp::Add => a.saturating_add(b),
                    BinaryOp::Mul => a.saturating_mul(b),
                    BinaryOp::And | BinaryOp::Min => a.min(b),
                    BinaryOp::Or | BinaryOp::Xor => ones(a | b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::SubSat | BinaryOp::Div | BinaryOp::Shr => a,
                    BinaryOp::Rem => a.min(b.saturating_sub(1)),
                    BinaryOp::Shl if b < u64::from(a.leading_zeros()) => a << b,
                    BinaryOp::Sub | BinaryOp::Shl => u64::MAX,
                }
            }
            Op::Select(_, a, b) => self.max(*a).max(self.max(*b)),
            Op::Load { format, .. } => u64::MAX >> (64 - format.width.bytes() * 8),
            Op::Length(_) | Op::Meta(Meta::WireBytes | Meta::CapturedBytes) => u64::from(u32::MAX),
            Op::Meta(Meta::Link | Meta::Interface) => u64::from(u16::MAX),
            Op::Get { var, .. } => match graph.vars[var.index()].kind {
                VarKind::Bits(bits) => u64::MAX >> (64 - u32::from(bits)),
                VarKind::Letters(_) => u64::MAX,
            },
            Op::FromBool(_) => 1,
            op if graph.result_is_bool(op) => 1,
            _ => u64::MAX,
        }
    }
}

/// The least number of the form 2^n - 1 that is not less than `n`.
fn ones(n: u64) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> n.leading_zeros() }
}

/// Applies one rule.
pub(super) fn simplify(graph: &Graph, facts: &Facts, op: &Op) -> Step {
    match *op {
        Op::Binary(op, a, b) if graph.type_of(a) == Type::Bool => logic(facts, op, a, b),
        Op::Binary(op, a, b) => arithmetic(facts, op, a, b),
        Op::Compare(op, a, b) => compare(graph, facts, op, a, b),
        Op::Not(a) => match facts.definition(a) {
            Definition::Not(inner) => Step::Same(inner),
            Definition::Compare(op, x, y) => Step::Instead(contrary(op, x, y)),
            _ => Step::Keep,
        },
        Op::FromBool(_) => Step::Keep,
        Op::Select(condition, a, b) => select(graph, facts, condition, a, b),
        _ => Step::Keep,
    }
}

/// Simplifies arithmetic on bools.
fn logic(facts: &Facts, op: BinaryOp, a: Value, b: Value) -> Step {
    if let Some(n) = facts.constant(a) {
        return match (op, n) {
            (BinaryOp::And, 0) => Step::Constant(0),
            (BinaryOp::Or, 1) => Step::Constant(1),
            (BinaryOp::Xor, 1) => Step::Instead(Op::Not(b)),
            _ => Step::Same(b),
        };
    }
    if facts.constant(b).is_some() {
        return logic(facts, op, b, a);
    }
    let opposite = facts.negated(a) == Some(b) || facts.negated(b) == Some(a);
    match op {
        BinaryOp::And | BinaryOp::Or if a == b => Step::Same(a),
        BinaryOp::Xor if a == b => Step::Constant(0),
        BinaryOp::And if opposite => Step::Constant(0),
        BinaryOp::Or | BinaryOp::Xor if opposite => Step::Constant(1),
        // x or (x and y), x and (x or y)
        BinaryOp::And => absorb(facts, BinaryOp::Or, a, b),
        BinaryOp::Or => absorb(facts, BinaryOp::And, a, b),
        _ => Step::Keep,
    }
}

fn absorb(facts: &Facts, inner: BinaryOp, a: Value, b: Value) -> Step {
    let holds = |whole: Value, part: Value| matches!(facts.definition(whole), Definition::Binary(op, x, y) if op == inner && (x == part || y == part));
    match (holds(b, a), holds(a, b)) {
        (true, _) => Step::Same(a),
        (_, true) => Step::Same(b),
        _ => Step::Keep,
    }
}

fn arithmetic(facts: &Facts, op: BinaryOp, a: Value, b: Value) -> Step {
    use BinaryOp::{Add, And, Div, Max, Min, Mul, Or, Rem, Shl, Shr, Sub, SubSat, Xor};
    let commutes = matches!(op, Add | Mul | And | Or | Xor | Min | Max);
    if commutes && facts.constant(a).is_some() && facts.constant(b).is_none() {
        return arithmetic(facts, op, b, a).or(Step::Instead(Op::Binary(op, b, a)));
    }
    if a == b {
        match op {
            And | Or | Min | Max => return Step::Same(a),
            Sub | SubSat | Xor => return Step::Constant(0),
            _ => {}
        }
    }
    if facts.constant(a) == Some(0) && matches!(op, SubSat | Div | Rem | Shl | Shr) {
        return Step::Constant(0);
    }
    // The comparison of numbers that wrap, (a + 2^32 - b) & 0xffff_ffff, needs no check for a negative
    // difference.
    if op == SubSat && facts.constant(a).is_none() && facts.least(a) >= facts.max(b) {
        return Step::Instead(Op::Binary(Sub, a, b));
    }
    let Some(n) = facts.constant(b) else { return Step::Keep };
    let max = facts.max(a);
    match op {
        Add | Sub | SubSat | Or | Xor | Shl | Shr | Max if n == 0 => Step::Same(a),
        And | Mul | Div | Rem | Min if n == 0 => Step::Constant(0),
        Mul | Div if n == 1 => Step::Same(a),
        Rem if n == 1 => Step::Constant(0),
        Rem if max < n => Step::Same(a),
        Div if max < n => Step::Constant(0),
        // A mask that clears no bit.
        And if ones(max) & n == ones(max) => Step::Same(a),
        Min if max <= n => Step::Same(a),
        Max if max <= n => Step::Constant(n),
        SubSat if max <= n => Step::Constant(0),
        Shr if n >= 64 || max >> n == 0 => Step::Constant(0),
        Shl if n >= 64 => Step::Constant(0),
        _ => chain(facts, op, a, n),
    }
}

/// Combines two constants in nested arithmetic into one.
fn chain(facts: &Facts, op: BinaryOp, a: Value, n: u64) -> Step {
    let Definition::Binary(inner, x, y) = facts.definition(a) else { return Step::Keep };
    let Some(m) = facts.constant(y) else { return Step::Keep };
    match (inner, op) {
        // If the inner sum may wrap, a check on it proves something that a check on `x` does not.
        (BinaryOp::Add, BinaryOp::Add) if facts.max(x) < EXACT && m < EXACT && n < EXACT => {
            Step::With(BinaryOp::Add, x, m + n)
        }
        (BinaryOp::And, BinaryOp::And) => Step::With(BinaryOp::And, x, m & n),
        (BinaryOp::Or, BinaryOp::Or) => Step::With(BinaryOp::Or, x, m | n),
        (BinaryOp::Shl, BinaryOp::Shl) => Step::With(BinaryOp::Shl, x, m.saturating_add(n)),
        (BinaryOp::Shr, BinaryOp::Shr) => Step::With(BinaryOp::Shr, x, m.saturating_add(n)),
        _ => Step::Keep,
    }
}

fn compare(graph: &Graph, facts: &Facts, op: CompareOp, a: Value, b: Value) -> Step {
    use CompareOp::{Eq, Le, Lt, Ne};
    if a == b {
        return Step::Constant(u64::from(matches!(op, Eq | Le)));
    }
    if let Some(n) = facts.constant(a) {
        return match op {
            Eq | Ne if facts.constant(b).is_none() => Step::Instead(Op::Compare(op, b, a)),
            Lt if facts.max(b) <= n => Step::Constant(0),
            Le if n == 0 => Step::Constant(1),
            Le if facts.max(b) < n => Step::Constant(0),
            _ => Step::Keep,
        };
    }
    let Some(n) = facts.constant(b) else { return Step::Keep };
    let max = facts.max(a);
    match op {
        Eq if n > max => Step::Constant(0),
        Ne if n > max => Step::Constant(1),
        Lt if n == 0 => Step::Constant(0),
        Lt if max < n => Step::Constant(1),
        Le if max <= n => Step::Constant(1),
        Eq | Ne => match facts.definition(a) {
            // Here `n` is 0 or 1: larger numbers were handled above.
            Definition::FromBool(x) if (op == Eq) == (n == 1) => Step::Same(x),
            Definition::FromBool(x) => Step::Instead(Op::Not(x)),
            Definition::Select(c, x, y) => select_is(graph, facts, op == Eq, (c, x, y), n),
            _ => Step::Keep,
        },
        _ => Step::Keep,
    }
}

/// Whether a select of two numbers equals `n`, or differs from it.
fn select_is(graph: &Graph, facts: &Facts, is: bool, (c, x, y): (Value, Value, Value), n: u64) -> Step {
    debug_assert_eq!(graph.type_of(c), Type::Bool);
    let (Some(x), Some(y)) = (facts.constant(x), facts.constant(y)) else { return Step::Keep };
    match ((x == n) == is, (y == n) == is) {
        (true, true) => Step::Constant(1),
        (false, false) => Step::Constant(0),
        (true, false) => Step::Same(c),
        (false, true) => Step::Instead(Op::Not(c)),
    }
}

fn contrary(op: CompareOp, a: Value, b: Value) -> Op {
    match op {
        CompareOp::Eq => Op::Compare(CompareOp::Ne, a, b),
        CompareOp::Ne => Op::Compare(CompareOp::Eq, a, b),
        CompareOp::Lt => Op::Compare(CompareOp::Le, b, a),
        CompareOp::Le => Op::Compare(CompareOp::Lt, b, a),
    }
}

fn select(graph: &Graph, facts: &Facts, condition: Value, a: Value, b: Value) -> Step {
    if a == b {
        return Step::Same(a);
    }
    if let Some(n) = facts.constant(condition) {
        return Step::Same(if n == 0 { b } else { a });
    }
    if let Some(inner) = facts.negated(condition) {
        return Step::Instead(Op::Select(inner, b, a));
    }
    if graph.type_of(a) != Type::Bool {
        return match (facts.constant(a), facts.constant(b)) {
            (Some(1), Some(0)) if graph.type_of(a) == Type::Int => Step::Instead(Op::FromBool(condition)),
            (Some(a_is), Some(b_is)) if a_is == b_is => Step::Same(a),
            _ => Step::Keep,
        };
    }
    match (facts.constant(a), facts.constant(b)) {
        (Some(1), Some(0)) => Step::Same(condition),
        (Some(0), Some(1)) => Step::Instead(Op::Not(condition)),
        (Some(1), _) => Step::Instead(Op::Binary(BinaryOp::Or, condition, b)),
        (_, Some(0)) => Step::Instead(Op::Binary(BinaryOp::And, condition, a)),
        _ => Step::Keep,
    }
}

impl Step {
    fn or(self, other: Step) -> Step {
        if self == Step::Keep { other } else { self }
    }
}

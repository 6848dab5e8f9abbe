//! Operands of instructions and terminators, and successors of terminators.

use super::{Block, Op, Target, Terminator, Value, Var};
use smallvec::{SmallVec, smallvec};

/// Calls `$each` on a reference to every value that `$op` reads; the reference is shared or mutable like `$op`.
macro_rules! each_operand {
    ($op:expr, $each:expr) => {{
        let each = $each;
        match $op {
            Op::Const(_)
            | Op::Bool(_)
            | Op::Frame
            | Op::Meta(_)
            | Op::Input(_)
            | Op::InputBytes(_)
            | Op::WholeValue { .. }
            | Op::Refuel { .. } => {}
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::Narrow(a, b) => {
                [a, b].into_iter().for_each(each)
            }
            Op::Not(a) | Op::FromBool(a) | Op::Length(a) => [a].into_iter().for_each(each),
            Op::Select(a, b, c) => [a, b, c].into_iter().for_each(each),
            Op::Load { buf, offset, .. } => [buf, offset].into_iter().for_each(each),
            Op::Member { high, low, .. } => [high, low].into_iter().for_each(each),
            Op::Sum16 { buf, offset, length, first } => {
                [buf, offset, length, first].into_iter().for_each(each);
            }
            Op::Search { buf, offset, length, .. }
            | Op::Excerpt { buf, offset, length }
            | Op::Keep { buf, offset, length } => {
                [buf, offset, length].into_iter().for_each(each);
            }
            Op::Get { flow, side, .. } => [flow].into_iter().chain(side).for_each(each),
            Op::Set { flow, side, value, .. } => [flow, value].into_iter().chain(side).for_each(each),
            Op::Append { flow, letter, .. } => [flow, letter].into_iter().for_each(each),
            Op::SeqInsert { flow, side, at, buf, offset, length, span, metas, .. } => {
                [flow, side, at, buf, offset, length, span].into_iter().chain(metas).for_each(each);
            }
            Op::SeqNext { flow, side, .. } | Op::SeqAssemble { flow, side, .. } => {
                [flow, side].into_iter().for_each(each);
            }
            Op::SeqAcknowledge { flow, side, at, .. } => [flow, side, at].into_iter().for_each(each),
            Op::Messages { flow, side } => [flow, side].into_iter().for_each(each),
            Op::NextMessages { done, wanted } => [done, wanted].into_iter().for_each(each),
            Op::Collect { flow, side, gap, buf, offset, length, whole } => {
                [flow, side, gap, buf, offset, length].into_iter().chain(whole).for_each(each);
            }
            Op::Deliver { flow, side, gap, buf, offset, length } => {
                [flow, side, gap, buf, offset, length].into_iter().for_each(each);
            }
            Op::Emit { flow, values, .. } => flow.into_iter().chain(values).for_each(each),
            Op::Store { value, .. } => [value].into_iter().for_each(each),
        }
    }};
}

impl Op {
    /// Calls `f` on every value that the instruction reads. Allocates nothing.
    pub fn for_each_operand(&self, mut f: impl FnMut(Value)) {
        each_operand!(self, |v: &Value| f(*v));
    }

    /// Replaces every value that the instruction reads.
    pub fn map_operands(&mut self, mut f: impl FnMut(Value) -> Value) {
        each_operand!(self, |v: &mut Value| *v = f(*v));
    }

    /// Whether the instruction has no effect but its results, and equal operands give equal results everywhere. Such an
    /// instruction may be shared, dropped, or moved up to its operands (a load: to its check).
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Op::Get { .. }
                | Op::Set { .. }
                | Op::Append { .. }
                | Op::SeqInsert { .. }
                | Op::SeqAcknowledge { .. }
                | Op::SeqNext { .. }
                | Op::SeqAssemble { .. }
                | Op::Refuel { .. }
                | Op::Collect { .. }
                | Op::Messages { .. }
                | Op::NextMessages { .. }
                | Op::WholeValue { .. }
                | Op::Deliver { .. }
                | Op::Keep { .. }
                | Op::Emit { .. }
                | Op::Store { .. }
        )
    }
}

/// The part of a flow's record that an instruction reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing.
    Nothing,
    /// One variable.
    Var(Var),
    /// The state of sequences ([`crate::sequence`]).
    Sequence,
    /// The engine's variables of a flow: its [`EngineVar`](crate::engine_var::EngineVar)s.
    Engine,
}

/// The read and the write set of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// Read.
    pub reads: Touch,
    /// Written.
    pub writes: Touch,
}

impl Op {
    /// The parts of the flow's record that the instruction reads and writes.
    pub fn touches(&self) -> Touches {
        let (reads, writes) = match self {
            Op::Get { var, .. } => (Touch::Var(*var), Touch::Nothing),
            Op::Set { var, .. } => (Touch::Nothing, Touch::Var(*var)),
            Op::Append { var, .. } => (Touch::Var(*var), Touch::Var(*var)),
            Op::SeqInsert { .. }
            | Op::SeqAcknowledge { .. }
            | Op::SeqNext { .. }
            | Op::SeqAssemble { .. } => (Touch::Sequence, Touch::Sequence),
            // Sessions and subscribers receive the bytes, and may stop wanting more.
            Op::Deliver { .. } => (Touch::Engine, Touch::Engine),
            _ => (Touch::Nothing, Touch::Nothing),
        };
        Touches { reads, writes }
    }
}

impl Terminator {
    /// The successors and their arguments, except the block after a lookup.
    pub fn targets(&self) -> SmallVec<[&Target; 2]> {
        match self {
            Terminator::Jump(t) => smallvec![t],
            Terminator::Branch { then, otherwise, .. }
            | Terminator::Check { then, otherwise, .. }
            | Terminator::Again { then, otherwise, .. } => smallvec![then, otherwise],
            Terminator::Switch { cases, otherwise, .. } => {
                cases.iter().map(|(_, t)| t).chain([otherwise]).collect()
            }
            Terminator::Lookup { .. }
            | Terminator::Restart
            | Terminator::Rejoin { .. }
            | Terminator::Done { .. } => smallvec![],
        }
    }

    /// As [`targets`](Self::targets), mutable.
    pub fn targets_mut(&mut self) -> SmallVec<[&mut Target; 2]> {
        match self {
            Terminator::Jump(t) => smallvec![t],
            Terminator::Branch { then, otherwise, .. }
            | Terminator::Check { then, otherwise, .. }
            | Terminator::Again { then, otherwise, .. } => smallvec![then, otherwise],
            Terminator::Switch { cases, otherwise, .. } => {
                cases.iter_mut().map(|(_, t)| t).chain([otherwise]).collect()
            }
            Terminator::Lookup { .. }
            | Terminator::Restart
            | Terminator::Rejoin { .. }
            | Terminator::Done { .. } => smallvec![],
        }
    }

    /// All successors, including the block after a lookup.
    pub fn successors(&self) -> SmallVec<[Block; 2]> {
        match self {
            Terminator::Lookup { then, .. } => smallvec![*then],
            other => other.targets().into_iter().map(|t| t.block).collect(),
        }
    }

    /// Replaces every value that the terminator reads, including arguments.
    pub fn map_operands(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Terminator::Branch { condition, .. } => *condition = f(*condition),
            Terminator::Switch { value, .. } => *value = f(*value),
            Terminator::Check { buf, offset, .. } => {
                *buf = f(*buf);
                *offset = f(*offset);
            }
            Terminator::Lookup { key, swap, reversed, .. } => {
                key.iter_mut().chain([swap]).chain(reversed).for_each(|v| *v = f(*v));
            }
            Terminator::Rejoin { values, .. } => values.iter_mut().for_each(|v| *v = f(*v)),
            Terminator::Done { terms, .. } => *terms = f(*terms),
            Terminator::Jump(_) | Terminator::Again { .. } | Terminator::Restart => {}
        }
        self.for_each_target_mut(|target| target.args.iter_mut().for_each(|v| *v = f(*v)));
    }

    /// Calls `f` on every value that the terminator reads, including arguments. Allocates nothing.
    pub fn for_each_operand(&self, mut f: impl FnMut(Value)) {
        self.for_each_own_operand(&mut f);
        self.for_each_target(|t| t.args.iter().for_each(|&v| f(v)));
    }

    /// Calls `f` on every value that the terminator reads itself (condition, offset, key and the like), excluding
    /// arguments.
    pub fn for_each_own_operand(&self, mut f: impl FnMut(Value)) {
        match self {
            Terminator::Branch { condition, .. } => f(*condition),
            Terminator::Switch { value, .. } => f(*value),
            Terminator::Check { buf, offset, .. } => {
                f(*buf);
                f(*offset);
            }
            Terminator::Lookup { key, swap, reversed, .. } => {
                key.iter().chain([swap]).chain(reversed).for_each(|&v| f(v));
            }
            Terminator::Rejoin { values, .. } => values.iter().for_each(|&v| f(v)),
            Terminator::Done { terms, .. } => f(*terms),
            Terminator::Jump(_) | Terminator::Again { .. } | Terminator::Restart => {}
        }
    }

    /// Calls `f` on every target, in the order of [`targets`](Self::targets). Allocates nothing.
    pub fn for_each_target<'a>(&'a self, mut f: impl FnMut(&'a Target)) {
        match self {
            Terminator::Jump(t) => f(t),
            Terminator::Branch { then, otherwise, .. }
            | Terminator::Check { then, otherwise, .. }
            | Terminator::Again { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Switch { cases, otherwise, .. } => {
                cases.iter().for_each(|(_, t)| f(t));
                f(otherwise);
            }
            Terminator::Lookup { .. }
            | Terminator::Restart
            | Terminator::Rejoin { .. }
            | Terminator::Done { .. } => {}
        }
    }

    /// Calls `f` on every target, mutable. Allocates nothing.
    pub fn for_each_target_mut(&mut self, mut f: impl FnMut(&mut Target)) {
        match self {
            Terminator::Jump(t) => f(t),
            Terminator::Branch { then, otherwise, .. }
            | Terminator::Check { then, otherwise, .. }
            | Terminator::Again { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Switch { cases, otherwise, .. } => {
                cases.iter_mut().for_each(|(_, t)| f(t));
                f(otherwise);
            }
            Terminator::Lookup { .. }
            | Terminator::Restart
            | Terminator::Rejoin { .. }
            | Terminator::Done { .. } => {}
        }
    }

    /// Calls `f` on every block of [`successors`](Self::successors). Allocates nothing.
    pub fn for_each_successor(&self, mut f: impl FnMut(Block)) {
        match self {
            Terminator::Lookup { then, .. } => f(*then),
            other => other.for_each_target(|t| f(t.block)),
        }
    }
}

//! Operands and successors of terminators.

use super::{Block, Target, Terminator, Value};
use smallvec::{SmallVec, smallvec};

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

    /// Calls `f` on every value that the terminator reads itself (condition, offset, key and the like),
    /// excluding arguments.
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
